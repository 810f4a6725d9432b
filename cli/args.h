/* Options of a command: `--name value`, `--name=value`, flags, and what is left over.
 *
 * An option that does not exist is refused with the nearest one that does; so is a value that does
 * not fit its kind. Texts in the results borrow from argv. */
#ifndef RF_CLI_ARGS_H
#define RF_CLI_ARGS_H

#include "cli/text.h"

enum arg_kind {
    ARG_FLAG,    /* to: bool */
    ARG_TEXT,    /* to: const char * */
    ARG_LIST,    /* to: struct arg_list; may be repeated */
    ARG_COUNT,   /* to: uint64_t, min..max */
    ARG_BYTES,   /* to: uint64_t; 64M, 1G, 4096; min..max */
    ARG_SECONDS, /* to: int64_t, in ms; 1.5 */
    ARG_SHARE,   /* to: double, 0..1 */
    ARG_CHOICE,  /* to: int, the index in choices */
};

struct arg_list {
    const char **item;
    size_t count, capacity;
};

struct arg {
    const char *name; /* with its dashes */
    enum arg_kind kind;
    void *to;
    uint64_t min, max;
    const char *const *choices; /* NULL-terminated */
};

/* Reads argv[0..argc - 1] (without the command's own name). What is no option goes to *rest, NULL:
 * nothing may be left over. "--help" and "-h" set *help_out and end the reading. False: a message
 * was printed to stderr that names `command`. */
RF_NODISCARD bool args_parse(const char *command, int argc, char **argv, const struct arg *args,
                             size_t count, struct arg_list *rest, bool *help_out);

void arg_list_add(struct arg_list *list, const char *item);
void arg_list_deinit(struct arg_list *list);

/* Cuts "a,b,c" at its commas; empty pieces are kept. Each piece borrows from s. */
struct text *split_commas(const char *s, size_t *count_out);

#endif
