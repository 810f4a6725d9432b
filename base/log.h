/* The event log: named events with keys and units, to stderr or to an embedder's callback.
 *
 * Hot paths keep counters and do not log. A function returns an error or logs it, not both.
 * Thread: any; the callback may come from any of our threads and must not call back into the
 * handle. */
#ifndef RF_BASE_LOG_H
#define RF_BASE_LOG_H

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_OFF };

struct log {
    enum log_level level; /* lowest that is passed on */
    void (*callback)(void *ctx, int level, const char *event,
                     const char *fields); /* NULL: stderr */
    void *ctx;
};

/* event: "module.what_happened"; fmt: "key=%value key_us=%value". l may be NULL (nothing). Fields
 * past 1,023 bytes are cut and end in "...". Both strings are the callback's for the call only. On
 * stderr an event is one line: time (UTC), level, event, fields. */
__attribute__((format(printf, 4, 5))) void log_event(const struct log *l, enum log_level level,
                                                     const char *event, const char *fmt, ...);
#define log_debug(l, event, ...) log_event(l, LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(l, event, ...)  log_event(l, LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(l, event, ...)  log_event(l, LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(l, event, ...) log_event(l, LOG_LEVEL_ERROR, event, __VA_ARGS__)

#endif
