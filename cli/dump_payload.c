#include "cli/dump_payload.h"

#include "cli/json.h"
#include "cli/row.h"

#include "base/bytes.h"

#include <inttypes.h>

enum {
    HEAD_BYTES = 32,
    GROUP_BYTES = 32,
    DEVICE_BYTES = 16,
    FRAGMENT_BYTES = 40,
    COLUMN_BYTES = 16,
    DELETE_HEAD_BYTES = 48,
    FLAG_NULLS = 1,
    FLAG_ALL_NULL = 2,
    FLAG_ALL_DEVICES = 1,
};

struct payload {
    const uint8_t *at;
    size_t bytes;
};

/* count items of `size` bytes at off lie inside. */
static bool fits(const struct payload *p, uint64_t off, uint64_t count, uint64_t size)
{
    return off <= p->bytes && count <= (p->bytes - off) / size;
}

static const uint8_t *group_at(const struct payload *p, uint32_t i)
{
    return p->at + HEAD_BYTES + (size_t)i * GROUP_BYTES;
}
static const uint8_t *device_at(const struct payload *p, uint32_t i)
{
    return p->at + load_u32(p->at + 16) + (size_t)i * DEVICE_BYTES;
}
static const uint8_t *fragment_at(const struct payload *p, uint32_t i)
{
    return p->at + load_u32(p->at + 20) + (size_t)i * FRAGMENT_BYTES;
}
static const uint8_t *column_at(const struct payload *p, const uint8_t *group, uint32_t i)
{
    return p->at + load_u32(group + 16) + (size_t)i * COLUMN_BYTES;
}

static size_t width_of(uint8_t type)
{
    switch (type) {
    case RF_BOOLEAN: return 1;
    case RF_INT32:
    case RF_FLOAT:
    case RF_DATE: return 4;
    case RF_INT64:
    case RF_DOUBLE:
    case RF_TIMESTAMP: return 8;
    default: return 0;
    }
}

/* ---- checking ---- */

static bool texts_fit(const struct payload *p, uint32_t values_off, uint32_t rows, struct bad *why)
{
    if (!fits(p, values_off, rows + (uint64_t)1, 4))
        return bad_set(why, values_off, "positions of %" PRIu32 " rows do not fit", rows);
    const uint8_t *positions = p->at + values_off;
    uint64_t bytes_off = align_up((uint64_t)values_off + 4 * (rows + (uint64_t)1), 8);
    for (uint32_t r = 0; r < rows; r++)
        if (load_u32(positions + 4 * (size_t)r) > load_u32(positions + 4 * (size_t)r + 4))
            return bad_set(why, values_off + 4 * (size_t)r, "the positions fall");
    return fits(p, bytes_off, load_u32(positions + 4 * (size_t)rows), 1) ||
           bad_set(why, bytes_off, "the text does not fit");
}

static bool column_fits(const struct payload *p, const uint8_t *c, uint32_t rows, struct bad *why)
{
    size_t off = (size_t)(c - p->at);
    uint8_t type = c[4], flags = c[5];
    if (type_name((enum rf_type)type) == NULL) return bad_set(why, off + 4, "type %u", type);
    if (flags > FLAG_ALL_NULL) return bad_set(why, off + 5, "flags %u", flags);
    if (flags == FLAG_ALL_NULL) return true;
    if (flags == FLAG_NULLS && !fits(p, load_u32(c + 12), (rows + (uint64_t)7) / 8, 1))
        return bad_set(why, off + 12, "the null bitmap does not fit");
    size_t width = width_of(type);
    if (width == 0) return texts_fit(p, load_u32(c + 8), rows, why);
    return fits(p, load_u32(c + 8), rows, width) || bad_set(why, off + 8, "the values do not fit");
}

static bool group_fits(const struct payload *p, uint32_t i, uint32_t fragments, struct bad *why)
{
    const uint8_t *g = group_at(p, i);
    size_t off = (size_t)(g - p->at);
    uint32_t rows = load_u32(g + 8), columns = load_u32(g + 12), first = load_u32(g + 24);
    if (rows == 0 || !fits(p, load_u32(g + 20), rows, 8))
        return bad_set(why, off + 8, "%" PRIu32 " rows do not fit", rows);
    if (!fits(p, load_u32(g + 16), columns, COLUMN_BYTES))
        return bad_set(why, off + 12, "%" PRIu32 " columns do not fit", columns);
    if (first > fragments || load_u32(g + 28) > fragments - first)
        return bad_set(why, off + 24, "the fragments do not fit");
    for (uint32_t c = 0; c < columns; c++)
        if (!column_fits(p, column_at(p, g, c), rows, why)) return false;
    return true;
}

static bool fragment_fits(const struct payload *p, uint32_t i, uint32_t groups, uint32_t devices,
                          struct bad *why)
{
    const uint8_t *f = fragment_at(p, i);
    size_t off = (size_t)(f - p->at);
    if (load_u32(f) >= groups || load_u32(f + 4) >= devices)
        return bad_set(why, off, "group %" PRIu32 ", device %" PRIu32, load_u32(f),
                       load_u32(f + 4));
    uint32_t rows = load_u32(group_at(p, load_u32(f)) + 8), first = load_u32(f + 8);
    if (first > rows || load_u32(f + 12) > rows - first)
        return bad_set(why, off + 8, "rows %" PRIu32 " + %" PRIu32 " of %" PRIu32, first,
                       load_u32(f + 12), rows);
    return true;
}

bool dump_data_check(const uint8_t *payload, size_t n, struct dump_counts *counts_out,
                     struct bad *why)
{
    struct payload p = {payload, n};
    if (n < HEAD_BYTES) return bad_set(why, 0, "%zu bytes, too few", n);
    if (load_u16(payload) != 1) return bad_set(why, 0, "version %u", load_u16(payload));
    uint32_t groups = load_u16(payload + 2), devices = load_u32(payload + 8);
    uint32_t fragments = load_u32(payload + 12);
    if (!fits(&p, HEAD_BYTES, groups, GROUP_BYTES) ||
        !fits(&p, load_u32(payload + 16), devices, DEVICE_BYTES) ||
        !fits(&p, load_u32(payload + 20), fragments, FRAGMENT_BYTES))
        return bad_set(why, 2,
                       "%" PRIu32 " groups, %" PRIu32 " devices, %" PRIu32 " fragments do not fit",
                       groups, devices, fragments);
    struct dump_counts counts = {groups, devices, fragments, 0};
    for (uint32_t i = 0; i < groups; i++) {
        if (!group_fits(&p, i, fragments, why)) return false;
        counts.rows += load_u32(group_at(&p, i) + 8);
    }
    for (uint32_t i = 0; i < devices; i++) {
        const uint8_t *d = device_at(&p, i);
        if (!fits(&p, load_u32(d), load_u32(d + 4), 1))
            return bad_set(why, (size_t)(d - payload), "the device's key does not fit");
    }
    for (uint32_t i = 0; i < fragments; i++)
        if (!fragment_fits(&p, i, groups, devices, why)) return false;
    *counts_out = counts;
    return true;
}

/* ---- printing ---- */

static void put_text(FILE *f, struct text t)
{
    struct json j = {f, false};
    json_text(&j, NULL, t);
}

/* A key of the table model is lengths and values. That of the tree model is a path, which can't be
 * told from it for sure: where the lengths do not come out even, it is one. */
static void put_key(FILE *f, const uint8_t *key, size_t bytes)
{
    size_t at = 0;
    while (at + 2 <= bytes) {
        uint16_t length = load_u16(key + at);
        if (length > 0 && at + 2 + length - 1 > bytes) break;
        at += 2 + (length > 0 ? length - 1u : 0u);
    }
    if (at != bytes) {
        put_text(f, (struct text){(const char *)key, bytes});
        return;
    }
    putc('(', f);
    for (at = 0; at < bytes;) {
        uint16_t length = load_u16(key + at);
        if (at > 0) fputs(", ", f);
        if (length == 0)
            fputs("null", f);
        else
            put_text(f, (struct text){(const char *)key + at + 2, length - 1u});
        at += 2 + (length > 0 ? length - 1u : 0u);
    }
    putc(')', f);
}

static void put_time(FILE *f, int64_t time, enum time_unit unit)
{
    char text[TIME_TEXT_BYTES];
    timefmt_iso(text, time, unit);
    fputs(text, f);
}

static void put_text_value(FILE *f, const struct payload *p, const uint8_t *c, uint32_t rows,
                           uint32_t row)
{
    uint32_t off = load_u32(c + 8);
    const uint8_t *position = p->at + off + 4 * (size_t)row;
    const uint8_t *bytes = p->at + align_up(off + 4 * (rows + (uint64_t)1), 8);
    struct text t = {(const char *)bytes + load_u32(position),
                     load_u32(position + 4) - load_u32(position)};
    if (c[4] == RF_BLOB)
        put_hex(f, t);
    else
        put_text(f, t);
}

static void put_value(FILE *f, const struct payload *p, const uint8_t *c, uint32_t rows,
                      uint32_t row, enum time_unit unit)
{
    char text[TIME_TEXT_BYTES];
    double f64;
    float f32;
    if (c[5] == FLAG_ALL_NULL ||
        (c[5] == FLAG_NULLS && (p->at[load_u32(c + 12) + row / 8] >> row % 8 & 1) != 0)) {
        fputs("null", f);
        return;
    }
    const uint8_t *v = p->at + load_u32(c + 8) + width_of(c[4]) * (size_t)row;
    uint64_t bits;
    uint32_t bits32;
    switch (c[4]) {
    case RF_BOOLEAN: fputs(*v != 0 ? "true" : "false", f); break;
    case RF_INT32: fprintf(f, "%" PRId32, (int32_t)load_u32(v)); break;
    case RF_INT64: fprintf(f, "%" PRId64, load_i64(v)); break;
    case RF_FLOAT:
        bits32 = load_u32(v);
        memcpy(&f32, &bits32, sizeof f32);
        text_from_float(text, f32);
        fputs(text, f);
        break;
    case RF_DOUBLE:
        bits = load_u64(v);
        memcpy(&f64, &bits, sizeof f64);
        text_from_double(text, f64);
        fputs(text, f);
        break;
    case RF_TIMESTAMP: put_time(f, load_i64(v), unit); break;
    case RF_DATE:
        timefmt_date(text, (int32_t)load_u32(v));
        fputs(text, f);
        break;
    default: put_text_value(f, p, c, rows, row); break;
    }
}

static void print_columns(FILE *f, const struct payload *p, const uint8_t *g)
{
    for (uint32_t i = 0; i < load_u32(g + 12); i++) {
        const uint8_t *c = column_at(p, g, i);
        fprintf(f, "    column %" PRIu32 " %s%s\n", load_u32(c), type_name((enum rf_type)c[4]),
                c[5] == FLAG_ALL_NULL ? ", null in every row"
                : c[5] == FLAG_NULLS  ? ", with nulls"
                                      : "");
    }
}

static void print_rows(FILE *f, const struct payload *p, const uint8_t *g, const uint8_t *fragment,
                       enum time_unit unit)
{
    uint32_t rows = load_u32(g + 8), first = load_u32(fragment + 8);
    for (uint32_t row = first; row < first + load_u32(fragment + 12); row++) {
        fputs("      ", f);
        put_time(f, load_i64(p->at + load_u32(g + 20) + 8 * (size_t)row), unit);
        for (uint32_t i = 0; i < load_u32(g + 12); i++) {
            const uint8_t *c = column_at(p, g, i);
            fprintf(f, " %" PRIu32 "=", load_u32(c));
            put_value(f, p, c, rows, row, unit);
        }
        putc('\n', f);
    }
}

static void print_fragment(FILE *f, const struct payload *p, const uint8_t *fragment,
                           enum time_unit unit)
{
    const uint8_t *d = device_at(p, load_u32(fragment + 4));
    fputs("    device ", f);
    put_key(f, p->at + load_u32(d), load_u32(d + 4));
    fprintf(f, ", partition %" PRId64 ", %" PRIu32 " rows, ", load_i64(fragment + 16),
            load_u32(fragment + 12));
    put_time(f, load_i64(fragment + 24), unit);
    fputs(" to ", f);
    put_time(f, load_i64(fragment + 32), unit);
    putc('\n', f);
}

void dump_data_print(FILE *f, const uint8_t *payload, size_t n, enum time_unit unit, bool with_rows)
{
    struct payload p = {payload, n};
    for (uint32_t i = 0; i < load_u16(payload + 2); i++) {
        const uint8_t *g = group_at(&p, i);
        fprintf(f, "  table %" PRIu64 ": %" PRIu32 " rows, %" PRIu32 " columns\n", load_u64(g),
                load_u32(g + 8), load_u32(g + 12));
        print_columns(f, &p, g);
        uint32_t first = load_u32(g + 24);
        for (uint32_t k = first; k < first + load_u32(g + 28); k++) {
            const uint8_t *fragment = fragment_at(&p, k);
            print_fragment(f, &p, fragment, unit);
            /* Rows were checked against the fragment's own group. */
            if (with_rows) print_rows(f, &p, group_at(&p, load_u32(fragment)), fragment, unit);
        }
    }
}

bool dump_delete_print(FILE *f, const uint8_t *payload, size_t n, enum time_unit unit,
                       bool with_devices, struct bad *why)
{
    struct payload p = {payload, n};
    if (n < DELETE_HEAD_BYTES) return bad_set(why, 0, "%zu bytes, too few", n);
    if (load_u16(payload) != 1) return bad_set(why, 0, "version %u", load_u16(payload));
    uint32_t columns = load_u32(payload + 16), devices = load_u32(payload + 20);
    uint32_t columns_off = load_u32(payload + 24), devices_off = load_u32(payload + 28);
    if (!fits(&p, columns_off, columns, 4) || !fits(&p, devices_off, devices, 16))
        return bad_set(why, 16, "%" PRIu32 " columns, %" PRIu32 " devices do not fit", columns,
                       devices);
    fprintf(f, "  table %" PRIu64 ": ", load_u64(payload + 8));
    put_time(f, load_i64(payload + 32), unit);
    fputs(" to ", f);
    put_time(f, load_i64(payload + 40), unit);
    if ((load_u16(payload + 2) & FLAG_ALL_DEVICES) != 0)
        fputs(", all devices", f);
    else
        fprintf(f, ", %" PRIu32 " devices", devices);
    if (columns == 0) fputs(", whole rows", f);
    for (uint32_t i = 0; i < columns; i++)
        fprintf(f, "%s%" PRIu32, i == 0 ? ", columns " : " ",
                load_u32(payload + columns_off + 4 * (size_t)i));
    putc('\n', f);
    for (uint32_t i = 0; i < devices; i++) {
        const uint8_t *d = payload + devices_off + 16 * (size_t)i;
        if (!fits(&p, load_u32(d), load_u32(d + 4), 1))
            return bad_set(why, devices_off + 16 * (size_t)i, "the device's key does not fit");
        if (!with_devices) continue;
        fputs("    device ", f);
        put_key(f, payload + load_u32(d), load_u32(d + 4));
        putc('\n', f);
    }
    return true;
}
