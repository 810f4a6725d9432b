/* Little-endian loads and stores at any alignment. The bytes of every format go through these,
 * never through a cast of a struct. */
#ifndef RF_BASE_BYTES_H
#define RF_BASE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return le16toh(v);
}
static inline uint32_t load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}
static inline uint64_t load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}
static inline int64_t load_i64(const void *p)
{
    return (int64_t)load_u64(p);
}
static inline void store_u16(void *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof v);
}
static inline void store_u32(void *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}
static inline void store_u64(void *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}
static inline void store_i64(void *p, int64_t v)
{
    store_u64(p, (uint64_t)v);
}

/* align: a power of two. */
static inline uint64_t align_up(uint64_t v, uint64_t align)
{
    return (v + align - 1) & ~(align - 1);
}
static inline uint64_t align_down(uint64_t v, uint64_t align)
{
    return v & ~(align - 1);
}

#endif
