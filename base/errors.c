#include "base/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct err_row rows[] = {
#define RF_E(name, number, cls, retry, text) \
    {(number), #name, text, ERR_CLASS_##cls, ERR_RETRY_##retry},
#include "base/errors.def"
#undef RF_E
};

/* -INT_MIN does not exist; no code is near it. */
static unsigned number_of(int code)
{
    return code < 0 ? 0u - (unsigned)code : (unsigned)code;
}

const struct err_row *err_find(int code)
{
    unsigned number = number_of(code);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if ((unsigned)rows[i].number == number) return &rows[i];
    return NULL;
}

const char *err_text(int code)
{
    const struct err_row *row = err_find(code);
    if (row != NULL) return row->text;
    if (code == 0) return "ok";
    unsigned number = number_of(code);
    const char *text = number < ERR_NUMBER_MIN ? strerrordesc_np((int)number) : NULL;
    return text != NULL ? text : "unknown error";
}

const char *err_name(int code)
{
    const struct err_row *row = err_find(code);
    if (row != NULL) return row->name;
    if (code == 0) return "OK";
    unsigned number = number_of(code);
    const char *name = number < ERR_NUMBER_MIN ? strerrorname_np((int)number) : NULL;
    return name != NULL ? name : "UNKNOWN_CODE";
}

int err_set(struct err_msg *msg, int code, const char *fmt, ...)
{
    if (msg == NULL || msg->code != 0) return code;
    va_list args;
    va_start(args, fmt);
    if (vsnprintf(msg->text, sizeof msg->text, fmt, args) < 0) msg->text[0] = '\0';
    va_end(args);
    msg->code = code;
    return code;
}
