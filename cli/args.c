#include "cli/args.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <stdio.h>

void arg_list_add(struct arg_list *list, const char *item)
{
    need_room(&list->item, &list->capacity, list->count + 1, sizeof *list->item);
    list->item[list->count++] = item;
}

void arg_list_deinit(struct arg_list *list)
{
    mem_free(list->item);
    *list = (struct arg_list){0};
}

struct text *split_commas(const char *s, size_t *count_out)
{
    size_t count = 1;
    for (const char *p = s; *p != '\0'; p++)
        count += *p == ',';
    struct text *pieces = need_zalloc(count * sizeof *pieces);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = strcspn(s, ",");
        pieces[i] = (struct text){s, bytes};
        s += bytes + 1;
    }
    *count_out = count;
    return pieces;
}

static const struct arg *find(const struct arg *args, size_t count, struct text name)
{
    for (size_t i = 0; i < count; i++)
        if (text_is(name, args[i].name)) return &args[i];
    return NULL;
}

static bool unknown(const char *command, struct text name, const struct arg *args, size_t count)
{
    char typed[80];
    const char *words[64];
    snprintf(typed, sizeof typed, "%.*s", (int)name.bytes, name.at);
    for (size_t i = 0; i < count && i < 64; i++)
        words[i] = args[i].name;
    const char *nearest = text_nearest(typed, words, count < 64 ? count : 64);
    fprintf(stderr, "ringfence %s: there is no option %s", command, typed);
    if (nearest != NULL)
        fprintf(stderr, "; did you mean %s?\n", nearest);
    else
        fprintf(stderr, "; see `ringfence %s --help`\n", command);
    return false;
}

static bool parse_bytes(struct text t, uint64_t *out)
{
    unsigned shift = 0;
    static const char suffixes[] = "kmgt";
    if (t.bytes > 0) {
        char last = t.at[t.bytes - 1];
        const char *s = memchr(suffixes, last | 0x20, 4);
        if (s != NULL) {
            shift = (unsigned)(s - suffixes + 1) * 10;
            t.bytes--;
        }
    }
    int64_t value;
    if (!text_to_i64(t, &value) || value < 0) return false;
    if (shift > 0 && value >> (63 - shift) != 0) return false;
    *out = (uint64_t)value << shift;
    return true;
}

static bool parse_number(const struct arg *arg, struct text t)
{
    uint64_t value;
    int64_t i64;
    double seconds;
    switch (arg->kind) {
    case ARG_COUNT:
        if (!text_to_i64(t, &i64) || i64 < 0) return false;
        value = (uint64_t)i64;
        break;
    case ARG_BYTES:
        if (!parse_bytes(t, &value)) return false;
        break;
    case ARG_SHARE:
        if (text_to_double(t, &seconds) != NUMBER_OK || seconds < 0 || seconds > 1) return false;
        *(double *)arg->to = seconds;
        return true;
    default:
        if (text_to_double(t, &seconds) != NUMBER_OK || seconds < 0 || seconds > 1e9) return false;
        *(int64_t *)arg->to = (int64_t)(seconds * 1000);
        return true;
    }
    if (value < arg->min || value > arg->max) return false;
    *(uint64_t *)arg->to = value;
    return true;
}

static bool bad_value(const char *command, const struct arg *arg, const char *value)
{
    fprintf(stderr, "ringfence %s: %s %s: ", command, arg->name, value);
    switch (arg->kind) {
    case ARG_CHOICE:
        for (int i = 0; arg->choices[i] != NULL; i++)
            fprintf(stderr, "%s%s", i == 0 ? "one of " : ", ", arg->choices[i]);
        fprintf(stderr, " is expected\n");
        break;
    case ARG_SHARE: fprintf(stderr, "a share between 0 and 1 is expected\n"); break;
    case ARG_SECONDS: fprintf(stderr, "seconds are expected, like 1.5\n"); break;
    default:
        fprintf(stderr, "%s between %llu and %llu is expected\n",
                arg->kind == ARG_BYTES ? "a size like 64M" : "a number",
                (unsigned long long)arg->min, (unsigned long long)arg->max);
    }
    return false;
}

static bool set_value(const char *command, const struct arg *arg, const char *value)
{
    switch (arg->kind) {
    case ARG_FLAG: *(bool *)arg->to = true; return true;
    case ARG_TEXT: *(const char **)arg->to = value; return true;
    case ARG_LIST: arg_list_add(arg->to, value); return true;
    case ARG_CHOICE:
        for (int i = 0; arg->choices[i] != NULL; i++) {
            if (strcmp(arg->choices[i], value) != 0) continue;
            *(int *)arg->to = i;
            return true;
        }
        return bad_value(command, arg, value);
    case ARG_COUNT:
    case ARG_BYTES:
    case ARG_SHARE:
    case ARG_SECONDS: break;
    }
    return parse_number(arg, text_of(value)) || bad_value(command, arg, value);
}

/* One option at argv[*i]; *i stays at the last word that it used. */
static bool parse_option(const char *command, int argc, char **argv, int *i, const struct arg *args,
                         size_t count)
{
    const char *word = argv[*i];
    const char *equals = strchr(word, '=');
    struct text name = {word, equals != NULL ? (size_t)(equals - word) : strlen(word)};
    const struct arg *arg = find(args, count, name);
    if (arg == NULL) return unknown(command, name, args, count);
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (arg->kind == ARG_FLAG) {
        if (value == NULL) return set_value(command, arg, NULL);
        fprintf(stderr, "ringfence %s: %s takes no value\n", command, arg->name);
        return false;
    }
    if (value == NULL && *i + 1 == argc) {
        fprintf(stderr, "ringfence %s: %s needs a value\n", command, arg->name);
        return false;
    }
    if (value == NULL) value = argv[++*i];
    return set_value(command, arg, value);
}

bool args_parse(const char *command, int argc, char **argv, const struct arg *args, size_t count,
                struct arg_list *rest, bool *help_out)
{
    bool options_ended = false;
    *help_out = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        bool is_option = !options_ended && word[0] == '-' && word[1] != '\0';
        if (is_option && strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (is_option && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            *help_out = true;
            return true;
        } else if (is_option) {
            if (!parse_option(command, argc, argv, &i, args, count)) return false;
        } else if (rest != NULL) {
            arg_list_add(rest, word);
        } else {
            fprintf(stderr, "ringfence %s: \"%s\" is one word too many\n", command, word);
            return false;
        }
    }
    return true;
}
