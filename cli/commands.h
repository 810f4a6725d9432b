/* The commands. Each gets its own words, without "ringfence" and its name. */
#ifndef RF_CLI_COMMANDS_H
#define RF_CLI_COMMANDS_H

#include "cli/store.h"

enum exit_code command_load(int argc, char **argv);
enum exit_code command_query(int argc, char **argv);
enum exit_code command_delete(int argc, char **argv);
enum exit_code command_trim(int argc, char **argv);
enum exit_code command_tables(int argc, char **argv);
enum exit_code command_stat(int argc, char **argv);
enum exit_code command_verify(int argc, char **argv);
enum exit_code command_salvage(int argc, char **argv);
enum exit_code command_dump(int argc, char **argv);
enum exit_code command_bench(int argc, char **argv);
enum exit_code command_profile(int argc, char **argv);

#endif
