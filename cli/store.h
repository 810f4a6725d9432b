/* A directory, opened for a command, and what its errors mean to a shell. */
#ifndef RF_CLI_STORE_H
#define RF_CLI_STORE_H

#include "cli/args.h"
#include "cli/timefmt.h"

#include "ringfence/ringfence.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_REFUSED = 1,     /* data or a request refused, or damage found */
    EXIT_USAGE = 2,       /* an option that is wrong */
    EXIT_ENVIRONMENT = 3, /* missing, in use, no space, no permission: the same may work later */
    EXIT_UNKNOWN = 4,     /* it is not known whether the last batch is stored */
    EXIT_STOPPED = 130    /* a signal asked for it, and all was left in order */
};
enum exit_code exit_of(int code);

/* Options of every command that opens a directory. */
struct store_options {
    const char *dir;
    uint32_t flags;        /* enum rf_open_flags */
    int64_t lock_wait_ms;  /* --wait; < 0: the engine's default */
    uint64_t memory_bytes; /* --memory; 0: the engine's default */
    uint64_t log_bytes_max;
    uint64_t segment_bytes; /* of a new directory */
    enum rf_time_unit unit; /* of a new directory */
    enum rf_sync sync;
    int backend;           /* enum rf_backend */
    int64_t write_wait_ms; /* < 0: the engine's default */
    bool wait_prepared;
};
void store_options_init(struct store_options *o, uint32_t flags);

struct store {
    struct rf_engine *engine;
    enum time_unit unit;
};

/* Opens it. EXIT_OK and *store_out, or a message was printed that names `command`. A directory
 * whose creation did not finish is empty: EXIT_OK with store_out->engine NULL, and a message. */
RF_NODISCARD enum exit_code store_open(const char *command, const struct store_options *o,
                                       struct store *store_out);
/* Closes it; so_far: what the command has come to, kept unless it is EXIT_OK. */
RF_NODISCARD enum exit_code store_close(const char *command, struct store *store,
                                        enum exit_code so_far);

/* Prints "ringfence COMMAND: text (NAME)", and what can be done about it where there is something;
 * returns the exit code. error may be NULL. */
enum exit_code report(const char *command, int code, const struct rf_error *error);
/* What to do about an error, or NULL. */
const char *advice_for(int code);

/* "ringfence COMMAND: ..." and EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) enum exit_code usage(const char *command, const char *fmt,
                                                           ...);

/* Flushes stdout: EXIT_OK, or EXIT_ENVIRONMENT and a message when something was not written. */
RF_NODISCARD enum exit_code finish_stdout(const char *command, enum exit_code so_far);

/* --where k=v ... as filters, which borrow names and values from `memory_out`. A k= without a value
 * asks for rows without that tag. */
RF_NODISCARD bool parse_where(const char *command, const struct arg_list *where,
                              struct rf_tag_filter **tags_out, char **memory_out);

/* --from (inclusive) and --to (exclusive), either may be NULL, as the engine has them: both
 * inclusive. *empty_out: no time lies between them. */
RF_NODISCARD bool parse_range(const char *command, const char *from, const char *to,
                              enum time_unit unit, int64_t *from_out, int64_t *to_out,
                              bool *empty_out);

#endif
