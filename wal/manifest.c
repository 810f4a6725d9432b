/* The manifest's bytes; wal/manifest.h has the table. */
#include "wal/manifest.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum {
    OFF_MAGIC = 0,
    OFF_VERSION = 8,
    OFF_RESERVED = 12,
    OFF_FILE_BYTES = 16,
    OFF_UUID = 24,
    OFF_SEGMENT_BYTES = 40,
    OFF_BLOCK_BYTES = 48,
    OFF_LANES = 52,
    OFF_TIME_UNIT = 54,
    OFF_PARTITION_INTERVAL = 56,
    OFF_SEQUENCE = 64,
    OFF_CATALOG_GENERATION = 72,
    OFF_VERSION_OBEYED = 80,
    OFF_REGIONS = 88,
    OFF_SEALED = 92,
    OFF_DELETES = 96,
    OFF_RESERVED_2 = 100,
    FIXED_BYTES = 104,
    CHECKSUM_BYTES = 8,
    SEALED_BYTES = 24, /* a sealed entry without its files */
    FILE_BYTES = 18,   /* a file without its name */
    DELETE_BYTES = 16, /* a kept delete without its payload */
};
_Static_assert(OFF_UUID + WAL_UUID_BYTES == OFF_SEGMENT_BYTES, "no gap");

static const uint8_t magic[8] = {'R', 'F', 'M', 'A', 'N', 'I', 'F', '1'};

void wal_manifest_deinit(struct wal_manifest *m)
{
    for (uint32_t i = 0; i < m->sealed_count; i++) {
        for (uint32_t f = 0; f < m->sealed[i].file_count; f++)
            mem_free(m->sealed[i].files[f].name);
        mem_free(m->sealed[i].files);
    }
    for (uint32_t i = 0; i < m->delete_count; i++)
        mem_free(m->deletes[i].payload);
    mem_free(m->sealed);
    mem_free(m->deletes);
    mem_free(m->region_lane);
    memset(m, 0, sizeof *m);
}

static bool power_of_two_in(uint64_t v, uint64_t min, uint64_t max)
{
    return v >= min && v <= max && (v & (v - 1)) == 0;
}

static const char *broken_fixed(const struct wal_manifest *m)
{
    if (!power_of_two_in(m->segment_bytes, WAL_SEGMENT_BYTES_MIN, WAL_SEGMENT_BYTES_MAX))
        return "segment_bytes";
    if (!power_of_two_in(m->block_bytes, WAL_BLOCK_BYTES_MIN, WAL_BLOCK_BYTES_MAX))
        return "block_bytes";
    if (m->lanes < 1 || m->lanes > WAL_LANES_MAX) return "lanes";
    if ((unsigned)m->time_unit > WAL_TIME_MS) return "time_unit";
    if (m->partition_interval <= 0) return "partition_interval";
    if (m->sequence == 0) return "sequence";
    for (uint32_t i = 0; i < m->lanes; i++)
        if (m->head[i] < 1 || m->head[i] > WAL_SEGMENT_NUMBER_MAX) return "head";
    if (m->regions < 1 || m->regions > WAL_REGIONS_MAX) return "regions";
    for (uint32_t i = 0; i < m->regions; i++)
        if (m->region_lane[i] >= m->lanes) return "region's lane";
    return NULL;
}

static const char *broken_sealed(const struct wal_manifest *m)
{
    for (uint32_t i = 0; i < m->sealed_count; i++) {
        const struct wal_sealed *s = &m->sealed[i];
        if (s->region >= m->regions) return "sealed region";
        if (i > 0) {
            const struct wal_sealed *before = s - 1;
            if (before->region > s->region ||
                (before->region == s->region && before->partition >= s->partition))
                return "order of sealed entries";
        }
        for (uint32_t f = 0; f < s->file_count; f++) {
            size_t name_bytes = strlen(s->files[f].name);
            if (name_bytes < 1 || name_bytes > WAL_FILE_NAME_MAX) return "file name";
        }
    }
    return NULL;
}

static const char *broken_deletes(const struct wal_manifest *m)
{
    for (uint32_t i = 0; i < m->delete_count; i++) {
        const struct wal_kept_delete *d = &m->deletes[i];
        if (d->region >= m->regions) return "delete's region";
        if (i > 0 &&
            (d[-1].region > d->region || (d[-1].region == d->region && d[-1].lsn >= d->lsn)))
            return "order of deletes";
    }
    return NULL;
}

static const char *broken(const struct wal_manifest *m)
{
    const char *what = broken_fixed(m);
    if (what == NULL) what = broken_sealed(m);
    if (what == NULL) what = broken_deletes(m);
    return what;
}

int wal_manifest_check(const struct wal_manifest *m, struct err_msg *msg)
{
    const char *what = broken(m);
    if (what != NULL) return err_set(msg, -RFE_LIMIT, "manifest: %s is out of its range", what);
    return 0;
}

static uint64_t encoded_bytes(const struct wal_manifest *m)
{
    uint64_t n = FIXED_BYTES + 8 * (uint64_t)m->lanes + 4 * (uint64_t)m->regions + CHECKSUM_BYTES;
    for (uint32_t i = 0; i < m->sealed_count; i++) {
        n += SEALED_BYTES;
        for (uint32_t f = 0; f < m->sealed[i].file_count; f++)
            n += FILE_BYTES + strlen(m->sealed[i].files[f].name);
    }
    for (uint32_t i = 0; i < m->delete_count; i++)
        n += DELETE_BYTES + m->deletes[i].payload_bytes;
    return n;
}

static void encode_fixed(uint8_t *b, const struct wal_manifest *m, uint64_t n)
{
    memset(b, 0, FIXED_BYTES);
    memcpy(b + OFF_MAGIC, magic, sizeof magic);
    store_u32(b + OFF_VERSION, WAL_MANIFEST_VERSION);
    store_u64(b + OFF_FILE_BYTES, n);
    memcpy(b + OFF_UUID, m->uuid, WAL_UUID_BYTES);
    store_u64(b + OFF_SEGMENT_BYTES, m->segment_bytes);
    store_u32(b + OFF_BLOCK_BYTES, m->block_bytes);
    store_u16(b + OFF_LANES, (uint16_t)m->lanes);
    store_u16(b + OFF_TIME_UNIT, (uint16_t)m->time_unit);
    store_i64(b + OFF_PARTITION_INTERVAL, m->partition_interval);
    store_u64(b + OFF_SEQUENCE, m->sequence);
    store_u64(b + OFF_CATALOG_GENERATION, m->catalog_generation);
    store_u64(b + OFF_VERSION_OBEYED, m->version_obeyed);
    store_u32(b + OFF_REGIONS, m->regions);
    store_u32(b + OFF_SEALED, m->sealed_count);
    store_u32(b + OFF_DELETES, m->delete_count);
}

static uint8_t *encode_sealed(uint8_t *p, const struct wal_sealed *s)
{
    store_u32(p, s->region);
    store_u32(p + 4, s->file_count);
    store_i64(p + 8, s->partition);
    store_u64(p + 16, s->through_lsn);
    p += SEALED_BYTES;
    for (uint32_t f = 0; f < s->file_count; f++) {
        size_t name_bytes = strlen(s->files[f].name);
        store_u16(p, (uint16_t)name_bytes);
        memcpy(p + 2, s->files[f].name, name_bytes);
        store_u64(p + 2 + name_bytes, s->files[f].bytes);
        store_u64(p + 10 + name_bytes, s->files[f].checksum);
        p += FILE_BYTES + name_bytes;
    }
    return p;
}

int wal_manifest_encode(const struct wal_manifest *m, struct err_msg *msg, uint8_t **bytes_out,
                        size_t *n_out)
{
    int rc = wal_manifest_check(m, msg);
    if (rc != 0) return rc;
    uint64_t n = encoded_bytes(m);
    if (n > WAL_MANIFEST_BYTES_MAX)
        return err_set(msg, -RFE_LIMIT, "manifest: %" PRIu64 " bytes are too many", n);
    uint8_t *b = mem_alloc(n);
    if (b == NULL) return -ENOMEM;

    encode_fixed(b, m, n);
    uint8_t *p = b + FIXED_BYTES;
    for (uint32_t i = 0; i < m->lanes; i++, p += 8)
        store_u64(p, m->head[i]);
    for (uint32_t i = 0; i < m->regions; i++, p += 4)
        store_u32(p, m->region_lane[i]);
    for (uint32_t i = 0; i < m->sealed_count; i++)
        p = encode_sealed(p, &m->sealed[i]);
    for (uint32_t i = 0; i < m->delete_count; i++) {
        const struct wal_kept_delete *d = &m->deletes[i];
        store_u32(p, d->region);
        store_u32(p + 4, d->payload_bytes);
        store_u64(p + 8, d->lsn);
        if (d->payload_bytes != 0) memcpy(p + DELETE_BYTES, d->payload, d->payload_bytes);
        p += DELETE_BYTES + d->payload_bytes;
    }
    CHECK(p == b + n - CHECKSUM_BYTES);
    store_u64(p, hash64(b, n - CHECKSUM_BYTES, 0));
    *bytes_out = b;
    *n_out = n;
    return 0;
}

/* A reader that never runs past the end: take() answers NULL there and stays broken. */
struct reader {
    const uint8_t *at, *end;
    bool broken;
};

static const uint8_t *take(struct reader *r, uint64_t bytes)
{
    if (r->broken || (uint64_t)(r->end - r->at) < bytes) {
        r->broken = true;
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += bytes;
    return p;
}

/* True when `count` items of at least `bytes` each can still follow: no count can make us allocate
 * more than the file's own size explains. */
static bool room_for(const struct reader *r, uint64_t count, uint64_t bytes)
{
    return !r->broken && count <= (uint64_t)(r->end - r->at) / bytes;
}

static int decode_file(struct reader *r, struct wal_sealed_file *f)
{
    const uint8_t *p = take(r, 2);
    if (p == NULL) return -RFE_CORRUPT;
    uint32_t name_bytes = load_u16(p);
    const uint8_t *name = take(r, name_bytes);
    const uint8_t *rest = take(r, 16);
    if (rest == NULL || memchr(name, 0, name_bytes) != NULL) return -RFE_CORRUPT;
    f->name = mem_strndup((const char *)name, name_bytes);
    if (f->name == NULL) return -ENOMEM;
    f->bytes = load_u64(rest);
    f->checksum = load_u64(rest + 8);
    return 0;
}

static int decode_sealed(struct reader *r, struct wal_manifest *m, uint32_t count)
{
    if (count == 0) return 0;
    if (!room_for(r, count, SEALED_BYTES)) return -RFE_CORRUPT;
    m->sealed = mem_zalloc_array(count, sizeof *m->sealed);
    if (m->sealed == NULL) return -ENOMEM;
    for (; m->sealed_count < count;) {
        const uint8_t *p = take(r, SEALED_BYTES);
        if (p == NULL) return -RFE_CORRUPT;
        struct wal_sealed *s = &m->sealed[m->sealed_count++];
        s->region = load_u32(p);
        s->partition = load_i64(p + 8);
        s->through_lsn = load_u64(p + 16);
        uint32_t files = load_u32(p + 4);
        if (files == 0) continue;
        if (!room_for(r, files, FILE_BYTES)) return -RFE_CORRUPT;
        s->files = mem_zalloc_array(files, sizeof *s->files);
        if (s->files == NULL) return -ENOMEM;
        for (; s->file_count < files; s->file_count++) {
            int rc = decode_file(r, &s->files[s->file_count]);
            if (rc != 0) return rc;
        }
    }
    return 0;
}

static int decode_deletes(struct reader *r, struct wal_manifest *m, uint32_t count)
{
    if (count == 0) return 0;
    if (!room_for(r, count, DELETE_BYTES)) return -RFE_CORRUPT;
    m->deletes = mem_zalloc_array(count, sizeof *m->deletes);
    if (m->deletes == NULL) return -ENOMEM;
    for (; m->delete_count < count; m->delete_count++) {
        const uint8_t *p = take(r, DELETE_BYTES);
        const uint8_t *payload = p != NULL ? take(r, load_u32(p + 4)) : NULL;
        if (payload == NULL) return -RFE_CORRUPT;
        struct wal_kept_delete *d = &m->deletes[m->delete_count];
        d->region = load_u32(p);
        d->payload_bytes = load_u32(p + 4);
        d->lsn = load_u64(p + 8);
        d->payload = mem_alloc(d->payload_bytes != 0 ? d->payload_bytes : 1);
        if (d->payload == NULL) return -ENOMEM;
        memcpy(d->payload, payload, d->payload_bytes);
    }
    return 0;
}

static int decode_lists(struct reader *r, struct wal_manifest *m)
{
    const uint8_t *fixed = take(r, FIXED_BYTES);
    memcpy(m->uuid, fixed + OFF_UUID, WAL_UUID_BYTES);
    m->segment_bytes = load_u64(fixed + OFF_SEGMENT_BYTES);
    m->block_bytes = load_u32(fixed + OFF_BLOCK_BYTES);
    m->lanes = load_u16(fixed + OFF_LANES);
    m->time_unit = (enum wal_time_unit)load_u16(fixed + OFF_TIME_UNIT);
    m->partition_interval = load_i64(fixed + OFF_PARTITION_INTERVAL);
    m->sequence = load_u64(fixed + OFF_SEQUENCE);
    m->catalog_generation = load_u64(fixed + OFF_CATALOG_GENERATION);
    m->version_obeyed = load_u64(fixed + OFF_VERSION_OBEYED);
    if (m->lanes < 1 || m->lanes > WAL_LANES_MAX) return -RFE_CORRUPT;
    uint32_t regions = load_u32(fixed + OFF_REGIONS);
    if (regions < 1 || regions > WAL_REGIONS_MAX) return -RFE_CORRUPT;

    const uint8_t *heads = take(r, 8 * (uint64_t)m->lanes);
    const uint8_t *lanes = take(r, 4 * (uint64_t)regions);
    if (heads == NULL || lanes == NULL) return -RFE_CORRUPT;
    for (uint32_t i = 0; i < m->lanes; i++)
        m->head[i] = load_u64(heads + 8 * (size_t)i);
    m->region_lane = mem_zalloc_array(regions, sizeof *m->region_lane);
    if (m->region_lane == NULL) return -ENOMEM;
    m->regions = regions;
    for (uint32_t i = 0; i < regions; i++)
        m->region_lane[i] = load_u32(lanes + 4 * (size_t)i);
    int rc = decode_sealed(r, m, load_u32(fixed + OFF_SEALED));
    if (rc == 0) rc = decode_deletes(r, m, load_u32(fixed + OFF_DELETES));
    return rc;
}

/* What can be said before any field is trusted. */
static int decode_frame(const uint8_t *b, size_t n, const char *name, struct err_msg *msg)
{
    if (n < sizeof magic || memcmp(b, magic, sizeof magic) != 0)
        return err_set(msg, -RFE_NOT_OURS,
                       "%s: offset 0: expected the magic RFMANIF1, found something else", name);
    if (n < FIXED_BYTES + CHECKSUM_BYTES)
        return err_set(msg, -RFE_CORRUPT, "%s: offset %zu: expected at least %d bytes, found %zu",
                       name, n, FIXED_BYTES + CHECKSUM_BYTES, n);
    uint64_t expected = hash64(b, n - CHECKSUM_BYTES, 0);
    uint64_t found = load_u64(b + n - CHECKSUM_BYTES);
    if (expected != found)
        return err_set(msg, -RFE_CORRUPT,
                       "%s: offset %zu: expected checksum %016" PRIx64 ", found %016" PRIx64, name,
                       n - CHECKSUM_BYTES, expected, found);
    uint32_t version = load_u32(b + OFF_VERSION);
    if (version > WAL_MANIFEST_VERSION)
        return err_set(msg, -RFE_NEWER_VERSION,
                       "%s: offset %d: version %" PRIu32 ", known up to %u", name, OFF_VERSION,
                       version, WAL_MANIFEST_VERSION);
    if (version != WAL_MANIFEST_VERSION || load_u64(b + OFF_FILE_BYTES) != n ||
        load_u32(b + OFF_RESERVED) != 0 || load_u32(b + OFF_RESERVED_2) != 0)
        return err_set(msg, -RFE_CORRUPT,
                       "%s: offset %d: expected version 1, %zu bytes and zero reserved fields, "
                       "found others",
                       name, OFF_VERSION, n);
    return 0;
}

int wal_manifest_decode(const uint8_t *bytes, size_t n, const char *name, struct err_msg *msg,
                        struct wal_manifest *m_out)
{
    int rc = decode_frame(bytes, n, name, msg);
    if (rc != 0) return rc;
    struct wal_manifest m = {0};
    struct reader r = {.at = bytes, .end = bytes + n - CHECKSUM_BYTES};
    rc = decode_lists(&r, &m);
    const char *what = "list length";
    if (rc == 0 && (r.broken || r.at != r.end)) rc = -RFE_CORRUPT;
    if (rc == 0 && (what = broken(&m)) != NULL) rc = -RFE_CORRUPT;
    if (rc == 0) {
        *m_out = m;
        return 0;
    }
    if (rc == -RFE_CORRUPT)
        err_set(msg, rc, "%s: offset %td: expected fields in their ranges, found a wrong %s", name,
                r.at - bytes, what);
    wal_manifest_deinit(&m);
    return rc;
}
