/* ringfence: the command. Finds the one that is meant, and says what there is. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    enum exit_code (*run)(int argc, char **argv);
    const char *what;
} commands[] = {
    {"load", command_load, "read line protocol or CSV into a directory, batch by batch"},
    {"query", command_query, "print rows of a table or device as CSV or JSON, or count them"},
    {"delete", command_delete, "delete rows of a table or device"},
    {"trim", command_trim, "free the log's oldest segments, whose rows are all older"},
    {"tables", command_tables, "list tables and their columns"},
    {"stat", command_stat, "say how a directory is: log, memory, what opening found"},
    {"verify", command_verify, "read everything, and name each fault"},
    {"salvage", command_salvage, "copy what is whole out of a damaged directory into a new one"},
    {"dump", command_dump, "print the log record by record, as it lies in the files"},
    {"bench", command_bench, "measure how fast it writes here: rates, latency, stalls"},
    {"profile", command_profile, "the same, and what stage of a write the time goes to"},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *f)
{
    fputs("ringfence: a write engine for time series\n"
          "\n"
          "usage: ringfence COMMAND --dir DIR [OPTION]...\n"
          "\n",
          f);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].what);
    fputs("  version  print the version\n"
          "\n"
          "  ringfence COMMAND --help says more, with examples.\n"
          "\n"
          "examples\n"
          "  ringfence load --dir data metrics.lp        load a file; makes the directory\n"
          "  ringfence tables --dir data                 what is in it?\n"
          "  ringfence query --dir data --table cpu --where host=h1 --limit 5\n"
          "  ringfence query --dir data --table cpu --count\n"
          "\n"
          "exit codes\n"
          "  0    done\n"
          "  1    data or the request refused, or damage found\n"
          "  2    wrong usage\n"
          "  3    the environment: missing, in use, no space, no permission, log full\n"
          "  4    it is not known whether the last batch is stored; loading it again is safe\n"
          "  130  stopped by a signal, in order\n",
          f);
}

static enum exit_code unknown_command(const char *name)
{
    const char *names[COMMANDS + 1] = {"version"};
    for (size_t i = 0; i < COMMANDS; i++)
        names[i + 1] = commands[i].name;
    const char *nearest = text_nearest(name, names, COMMANDS + 1);
    fprintf(stderr, "ringfence: there is no command \"%s\"", name);
    if (nearest != NULL)
        fprintf(stderr, "; did you mean %s?\n", nearest);
    else
        fprintf(stderr, "; see `ringfence --help`\n");
    return EXIT_USAGE;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
    /* strptime's %s goes through the local zone; times here have none but what they say. */
    setenv("TZ", "UTC0", 1);
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (is_one_of(argv[1], "help", "--help", "-h")) {
        print_help(stdout);
        return finish_stdout("help", EXIT_OK);
    }
    if (is_one_of(argv[1], "version", "--version", "-V")) {
        printf("ringfence %s\n", rf_version());
        return finish_stdout("version", EXIT_OK);
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
    return unknown_command(argv[1]);
}
