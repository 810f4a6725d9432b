#include "cli/store.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- errors ---- */

enum exit_code exit_of(int code)
{
    switch (-code) {
    case 0: return EXIT_OK;
    case EINVAL: return EXIT_USAGE;
    case RF_CODE_WAL_ERROR:
    case RF_CODE_UNKNOWN: return EXIT_UNKNOWN;
    case RF_CODE_LEASE_FENCED:
    case RF_CODE_LEASE_FENCED_RETRY:
    case RF_CODE_READ_ONLY:
    case RF_CODE_WRITE_REJECT:
    case RF_CODE_DISK_FULL:
    case RF_CODE_SCHEMA_CHANGED:
    case RF_CODE_NOT_OURS:
    case RF_CODE_IN_USE:
    case RF_CODE_NEWER_VERSION:
    case RF_CODE_LATCHED:
    case RF_CODE_CLOSING:
    case RF_CODE_FORKED: return EXIT_ENVIRONMENT;
    default: return code > -RF_CODE_EXECUTE_ERROR ? EXIT_ENVIRONMENT : EXIT_REFUSED;
    }
}

const char *advice_for(int code)
{
    switch (-code) {
    case ENOENT: return "`ringfence load` makes a directory; every other command wants one";
    case RF_CODE_CORRUPT:
    case RF_CODE_WRONG_CATALOG:
        return "see `ringfence verify`; `ringfence salvage` copies what is whole to a new "
               "directory";
    case RF_CODE_IN_USE: return "--wait S waits that many seconds for it";
    case RF_CODE_WRITE_REJECT:
        return "the log is full: `ringfence trim --before TIME` frees it, --memory gives it more";
    case ENOSPC:
    case RF_CODE_DISK_FULL: return "free space on the disk, then run the same command again";
    case RF_CODE_ENTRY_TOO_LARGE: return "a smaller --batch-rows makes smaller batches";
    case RF_CODE_WAL_ERROR:
    case RF_CODE_UNKNOWN: return "loading the same lines again is safe";
    default: return NULL;
    }
}

enum exit_code report(const char *command, int code, const struct rf_error *error)
{
    bool has_text = error != NULL && error->text[0] != '\0';
    fprintf(stderr, "ringfence %s: %s (%s)\n", command, has_text ? error->text : rf_strerror(code),
            rf_code_name(code));
    const char *advice = advice_for(code);
    if (advice != NULL) fprintf(stderr, "ringfence %s: %s\n", command, advice);
    return exit_of(code);
}

enum exit_code usage(const char *command, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "ringfence %s: ", command);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "; see `ringfence %s --help`\n", command);
    return EXIT_USAGE;
}

enum exit_code finish_stdout(const char *command, enum exit_code so_far)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return so_far;
    fprintf(stderr, "ringfence %s: standard output: %s\n", command, rf_strerror(-errno));
    return so_far != EXIT_OK ? so_far : EXIT_ENVIRONMENT;
}

/* ---- opening ---- */

void store_options_init(struct store_options *o, uint32_t flags)
{
    *o = (struct store_options){
        .flags = flags,
        .lock_wait_ms = -1,
        .write_wait_ms = -1,
        .sync = RF_SYNC_ALWAYS,
    };
}

static void to_engine_options(const struct store_options *o, struct rf_options *options)
{
    rf_options_init(options);
    options->flags = o->flags;
    options->sync = o->sync;
    options->time_unit = o->unit;
    options->backend = (enum rf_backend)o->backend;
    options->wait_prepared = o->wait_prepared;
    if ((o->flags & RF_READ_ONLY) != 0) options->lock_wait_ms = 1000;
    if (o->lock_wait_ms >= 0) options->lock_wait_ms = o->lock_wait_ms;
    if (o->write_wait_ms >= 0) options->write_wait_ms = o->write_wait_ms;
    if (o->memory_bytes != 0) options->memory_bytes = o->memory_bytes;
    if (o->log_bytes_max != 0) options->log_bytes_max = o->log_bytes_max;
    if (o->segment_bytes != 0) options->segment_bytes = o->segment_bytes;
}

enum exit_code store_open(const char *command, const struct store_options *o,
                          struct store *store_out)
{
    struct rf_options options;
    struct rf_error error = {0};
    struct store store = {0};
    if (o->dir == NULL) return usage(command, "--dir DIR is needed");
    to_engine_options(o, &options);
    int rc = rf_open(o->dir, &options, &store.engine, &error);
    if (rc == -RF_CODE_UNFINISHED) {
        fprintf(stderr, "ringfence %s: %s is empty: its creation did not finish\n", command,
                o->dir);
        *store_out = (struct store){0};
        return EXIT_OK;
    }
    if (rc != 0) return report(command, rc, &error);
    struct rf_stats stats = {.size = sizeof stats};
    rc = rf_stats(store.engine, &stats);
    if (rc != 0) {
        (void)rf_close(store.engine); /* rc names the cause */
        return report(command, rc, NULL);
    }
    store.unit = (enum time_unit)stats.time_unit;
    *store_out = store;
    return EXIT_OK;
}
_Static_assert((int)RF_TIME_NS == (int)UNIT_NS && (int)RF_TIME_US == (int)UNIT_US &&
                   (int)RF_TIME_MS == (int)UNIT_MS,
               "one numbering of units");

enum exit_code store_close(const char *command, struct store *store, enum exit_code so_far)
{
    if (store->engine == NULL) return so_far;
    int rc = rf_close(store->engine);
    store->engine = NULL;
    if (rc == 0 || so_far != EXIT_OK) return so_far;
    return report(command, rc, NULL);
}

/* ---- what query and delete share ---- */

bool parse_where(const char *command, const struct arg_list *where, struct rf_tag_filter **tags_out,
                 char **memory_out)
{
    size_t bytes = 1;
    for (size_t i = 0; i < where->count; i++) {
        const char *equals = strchr(where->item[i], '=');
        if (equals == NULL || equals == where->item[i]) {
            (void)usage(command, "--where %s: tag=value is expected", where->item[i]);
            return false;
        }
        bytes += strlen(where->item[i]) + 1;
    }
    struct rf_tag_filter *tags = need_zalloc((where->count + 1) * sizeof *tags);
    char *memory = need_zalloc(bytes), *at = memory;
    for (size_t i = 0; i < where->count; i++) {
        size_t length = strlen(where->item[i]);
        memcpy(at, where->item[i], length + 1);
        char *equals = strchr(at, '=');
        *equals = '\0';
        tags[i] = (struct rf_tag_filter){at, equals[1] != '\0' ? equals + 1 : NULL};
        at += length + 1;
    }
    *tags_out = tags;
    *memory_out = memory;
    return true;
}

static bool parse_bound(const char *command, const char *option, const char *text,
                        enum time_unit unit, int64_t *time_out)
{
    struct timefmt f = {unit, unit, TIME_CEIL, NULL};
    struct bad bad = {0};
    if (timefmt_parse(&f, text_of(text), 0, time_out, &bad)) return true;
    (void)usage(command, "%s: %s", option, bad.why);
    return false;
}

bool parse_range(const char *command, const char *from, const char *to, enum time_unit unit,
                 int64_t *from_out, int64_t *to_out, bool *empty_out)
{
    int64_t first = INT64_MIN, end = INT64_MAX;
    if (from != NULL && !parse_bound(command, "--from", from, unit, &first)) return false;
    if (to != NULL && !parse_bound(command, "--to", to, unit, &end)) return false;
    *empty_out = to != NULL && end <= first;
    *from_out = first;
    *to_out = to != NULL && end != INT64_MIN ? end - 1 : end;
    return true;
}
