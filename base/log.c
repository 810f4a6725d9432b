#include "base/log.h"

#include "base/thread.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FIELDS_BYTES 1024

static const char *level_name(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_DEBUG: return "debug";
    case LOG_LEVEL_INFO: return "info";
    case LOG_LEVEL_WARN: return "warn";
    case LOG_LEVEL_ERROR: return "error";
    case LOG_LEVEL_OFF: break;
    }
    return "?";
}

/* One write a line, so that lines of several threads do not mix. */
static void to_stderr(enum log_level level, const char *event, const char *fields)
{
    struct timespec now;
    struct tm utc;
    char when[32] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc) != NULL) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    char line[FIELDS_BYTES + 256];
    int n = snprintf(line, sizeof line, "%s.%06ldZ %s %s%s%s\n", when, now.tv_nsec / 1000,
                     level_name(level), event, fields[0] != '\0' ? " " : "", fields);
    if (n < 0) return;
    if (n >= (int)sizeof line) {
        n = (int)sizeof line - 1;
        line[n - 1] = '\n';
    }
    if (write(STDERR_FILENO, line, (size_t)n) < 0) {
        /* There is nobody left to tell. */
    }
}

void log_event(const struct log *l, enum log_level level, const char *event, const char *fmt, ...)
{
    if (l == NULL || level < l->level) return;
    THREAD_NOT_CANCELLED(); /* who logs may hold something; the host's callback may write */
    char fields[FIELDS_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(fields, sizeof fields, fmt, args);
    va_end(args);
    if (n < 0) fields[0] = '\0';
    if (n >= (int)sizeof fields) memcpy(fields + sizeof fields - 4, "...", 4);
    if (l->callback != NULL)
        l->callback(l->ctx, (int)level, event, fields);
    else
        to_stderr(level, event, fields);
}
