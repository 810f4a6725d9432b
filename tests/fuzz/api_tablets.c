/* Tablets, definitions and filters out of the script's bytes. */
#include "tests/fuzz/api_script.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory of one run ---- */

#define ARENA_BYTES ((size_t)6 << 20)
#define ARENA_LOW   ((size_t)2 << 20) /* the largest step takes less */

static _Alignas(16) uint8_t arena[ARENA_BYTES];
static size_t arena_used;

void arena_reset(void)
{
    arena_used = 0;
}

void *arena_take(size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (arena_used + bytes > ARENA_BYTES) abort();
    void *p = arena + arena_used;
    arena_used += bytes;
    return p;
}

bool arena_is_low(void)
{
    return ARENA_BYTES - arena_used < ARENA_LOW;
}

/* ---- names ---- */

const char *const script_fields[4] = {"f0", "f1", "f2", "f3"};
const char *const script_tags[2] = {"host", "rack"};

static const enum rf_type types[] = {RF_BOOLEAN, RF_INT32, RF_INT64,     RF_FLOAT, RF_DOUBLE,
                                     RF_TEXT,    RF_BLOB,  RF_TIMESTAMP, RF_DATE,  RF_STRING};
#define TYPES (sizeof types / sizeof types[0])

const char *script_relation(unsigned pick, bool *tree)
{
    static const char *const names[] = {"cpu", "mem", "root.ln.d0", "root.ln.d1", "root.sg.d0"};
    pick %= 5;
    *tree = pick >= 2;
    return names[pick];
}

/* ---- tablets ---- */

/* What one step's tablets have in common: two that make the same column agree on its type. */
struct taste {
    unsigned type_shift;
    unsigned shape; /* bits below */
    uint32_t longest;
};
enum {
    SHAPE_NULLS = 1,      /* some rows */
    SHAPE_ALL_NULL = 2,   /* by an array of ones */
    SHAPE_NO_ARRAY = 4,   /* the first field has no values */
    SHAPE_BACKWARDS = 8,  /* times fall */
    SHAPE_EQUAL = 16,     /* times come twice */
    SHAPE_WRONG_TYPE = 32 /* of one known column */
};

static int64_t base_time(unsigned byte)
{
    switch (byte % 8) {
    case 0: return INT64_MIN;
    case 1: return INT64_MAX - 2000;
    case 2: return -1004; /* about a partition's edge */
    case 3: return 996;
    case 4: return -5;
    default: return (int64_t)(byte / 8) * 7;
    }
}

static const int64_t *make_times(struct script *s, uint32_t rows, unsigned shape)
{
    static const int64_t strides[] = {0, 1, 3, 9};
    int64_t *t = arena_take(rows * sizeof *t);
    unsigned byte = take(s);
    int64_t base = base_time(byte), stride = strides[take(s) % 4];
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t k = (shape & SHAPE_BACKWARDS) != 0 ? rows - 1 - i : i;
        if ((shape & SHAPE_EQUAL) != 0) k /= 2;
        t[i] = base + k * stride;
    }
    return t;
}

/* Bits behind the last row are set: they mean nothing. */
static const uint8_t *make_nulls(uint32_t rows, unsigned shape, unsigned turn)
{
    if ((shape & (SHAPE_NULLS | SHAPE_ALL_NULL)) == 0) return NULL;
    uint8_t *nulls = arena_take(rows / 8 + 1);
    memset(nulls, 0xff, rows / 8 + 1);
    for (uint32_t i = 0; i < rows && (shape & SHAPE_ALL_NULL) == 0; i++)
        if ((i + turn) % 3 != 0) nulls[i / 8] = (uint8_t)(nulls[i / 8] & ~(1u << i % 8));
    return nulls;
}

static void fixed_values(struct script *s, struct rf_column *c, uint32_t rows)
{
    uint32_t width = model_type_bytes(c->type);
    uint8_t *values = arena_take((size_t)rows * width);
    for (size_t i = 0; i < (size_t)rows * width; i++)
        values[i] = (uint8_t)(s->fill = (uint8_t)(s->fill * 5 + 1));
    for (uint32_t i = 0; i < rows && c->type == RF_BOOLEAN; i++)
        values[i] &= 1;
    c->values = values;
}

static void variable_values(struct script *s, struct rf_column *c, uint32_t rows, uint32_t longest)
{
    uint32_t *offsets = arena_take((rows + 1) * sizeof *offsets);
    uint8_t *values = arena_take((size_t)rows * longest + 1);
    uint32_t at = 0;
    offsets[0] = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t n =
            longest > 64 ? longest : (s->fill = (uint8_t)(s->fill * 5 + 1)) % (longest + 1);
        memset(values + at, c->type == RF_BLOB ? s->fill : 'a' + s->fill % 26, n);
        offsets[i + 1] = at += n;
    }
    c->values = values;
    c->offsets = offsets;
}

static void tag_values(struct script *s, struct rf_column *c, uint32_t rows)
{
    static const char *const some[] = {"a", "", "bb", NULL};
    uint32_t *offsets = arena_take((rows + 1) * sizeof *offsets);
    char *values = arena_take((size_t)rows * 2 + 1);
    uint8_t *nulls = arena_take(rows / 8 + 1);
    unsigned byte = take(s);
    uint32_t at = 0;
    memset(nulls, 0, rows / 8 + 1);
    offsets[0] = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const char *v = some[(byte + (byte >> 4) * i) % 4];
        size_t n = v == NULL ? 0 : strlen(v);
        if (n > 0) memcpy(values + at, v, n);
        if (v == NULL) nulls[i / 8] = (uint8_t)(nulls[i / 8] | 1u << i % 8);
        offsets[i + 1] = at += (uint32_t)n;
    }
    c->values = values;
    c->offsets = offsets;
    c->nulls = nulls;
}

static enum rf_type field_type(const struct model_relation *r, const struct taste *taste,
                               uint32_t field)
{
    const struct model_column *known = model_column(r, script_fields[field]);
    enum rf_type type = types[(field + taste->type_shift) % TYPES];
    if (known == NULL) return type;
    if ((taste->shape & SHAPE_WRONG_TYPE) == 0) return known->type;
    return known->type == RF_INT32 ? RF_DOUBLE : RF_INT32;
}

static void make_columns(struct script *s, struct rf_tablet *t, const struct model_relation *r,
                         const struct taste *taste)
{
    struct rf_column *c = arena_take(6 * sizeof *c);
    unsigned which = take(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2 && !r->tree; i++)
        if ((which >> i & 1) != 0)
            c[n++] = (struct rf_column){.name = script_tags[i], .type = RF_STRING};
    for (uint32_t i = 0; i < 4; i++) {
        bool last_chance = r->tree && i == 3 && n == 0; /* the tree model needs a field */
        if ((which >> (2 + i) & 1) == 0 && !last_chance) continue;
        const struct model_column *known = model_column(r, script_fields[i]);
        if (known != NULL && known->category == RF_TAG) continue; /* renamed to it */
        c[n++] = (struct rf_column){
            .name = script_fields[i], .type = field_type(r, taste, i), .category = RF_FIELD};
    }
    if ((which & 0x80) != 0 && n > 1) { /* in another order */
        struct rf_column swap = c[0];
        c[0] = c[n - 1];
        c[n - 1] = swap;
    }
    t->columns = n;
    t->column = c;
    bool first_field = true;
    for (uint32_t i = 0; i < n; i++) {
        if (c[i].category == RF_TAG) {
            tag_values(s, &c[i], t->rows);
            continue;
        }
        bool no_array = first_field && (taste->shape & SHAPE_NO_ARRAY) != 0;
        first_field = false;
        if (no_array) continue;
        c[i].nulls = make_nulls(t->rows, taste->shape, i);
        if (model_type_bytes(c[i].type) == 0)
            variable_values(s, &c[i], t->rows, taste->longest);
        else
            fixed_values(s, &c[i], t->rows);
    }
}

const struct rf_tablet *script_tablets(struct script *s, uint32_t *count_out)
{
    static const uint32_t rows[] = {1, 1, 2, 3, 8, 9, 40, 129};
    struct taste taste = {.type_shift = take(s)};
    taste.shape = take(s);
    unsigned first = take(s);
    uint32_t n = first >= 0xe0 ? 2 + (first & 1) : 1;
    bool big = (taste.shape & 0xc0) == 0xc0;
    taste.longest = big ? 200000 : 9;
    struct rf_tablet *t = arena_take(n * sizeof *t);
    for (uint32_t i = 0; i < n; i++) {
        bool tree;
        const char *name = script_relation(i == 0 ? first : take(s), &tree);
        const struct model_relation *r = model_relation(script_model(s), name, tree);
        uint32_t row_count = rows[take(s) % 8];
        if (big && row_count > 2) row_count = 2;
        t[i] = (struct rf_tablet){.size = sizeof *t,
                                  .table = tree ? NULL : name,
                                  .device = tree ? name : NULL,
                                  .rows = row_count};
        t[i].times = make_times(s, row_count, taste.shape);
        make_columns(s, &t[i], r, &taste);
        taste.longest = 9; /* one large tablet a step */
    }
    *count_out = n;
    return t;
}

/* ---- definitions ---- */

uint32_t script_defs(struct script *s, const struct rf_column_def **defs_out)
{
    struct rf_column_def *d = arena_take(6 * sizeof *d);
    unsigned which = take(s), shift = take(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2; i++)
        if ((which >> i & 1) != 0)
            d[n++] = (struct rf_column_def){script_tags[i], RF_STRING, RF_TAG};
    for (uint32_t i = 0; i < 4; i++)
        if ((which >> (2 + i) & 1) != 0)
            d[n++] = (struct rf_column_def){script_fields[i], types[(i + shift) % TYPES], RF_FIELD};
    *defs_out = d;
    return n;
}

/* ---- aims ---- */

void script_aim(struct script *s, struct script_aim *a)
{
    static const char *const values[] = {"a", "", "bb", NULL};
    unsigned first = take(s), which = take(s), shape = take(s);
    *a = (struct script_aim){.from = INT64_MIN, .to = INT64_MAX};
    a->name = script_relation(first, &a->tree);
    const struct model_relation *r = model_relation(script_model(s), a->name, a->tree);
    for (uint32_t i = 0; i < 2; i++)
        if ((which >> i & 1) != 0 && model_column(r, script_tags[i]) != NULL &&
            model_column(r, script_tags[i])->category == RF_TAG)
            a->tags[a->tag_count++] = (struct rf_tag_filter){.name = script_tags[i],
                                                             .value = values[(first / 5 + i) % 4]};
    for (uint32_t i = 0; i < 4; i++) {
        const struct model_column *c = model_column(r, script_fields[3 - i]);
        if ((which >> (2 + i) & 1) != 0 && c != NULL && c->category == RF_FIELD)
            a->columns[a->column_count++] = script_fields[3 - i];
    }
    if ((which & 0xc0) == 0xc0) {
        a->columns[a->column_count++] = BOGUS;
        a->bogus = true;
    }
    if ((shape & 1) != 0) a->from = base_time(shape >> 2);
    if ((shape & 2) != 0) a->to = base_time(shape >> 3) + 4;
}
