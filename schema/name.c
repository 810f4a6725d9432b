#include "base/errors.h"
#include "schema/schema.h"

/* The bytes of the character at p, of at most n bytes, or 0 when it is no well-formed UTF-8: a
 * wrong or missing continuation, a longer form than needed, a surrogate, above U+10FFFF. Writes
 * the character. */
static size_t decode(const unsigned char *p, size_t n, uint32_t *character_out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = p[0] < 0x80             ? 1
                   : (p[0] & 0xe0) == 0xc0 ? 2
                   : (p[0] & 0xf0) == 0xe0 ? 3
                   : (p[0] & 0xf8) == 0xf0 ? 4
                                           : 0;
    if (bytes == 0 || bytes > n) return 0;
    uint32_t c = bytes == 1 ? p[0] : p[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[bytes] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *character_out = c;
    return bytes;
}

int schema_check_name(const char *name, size_t name_bytes)
{
    if (name == NULL || name_bytes < 1 || name_bytes > SCHEMA_NAME_BYTES_MAX) return -RFE_BAD_NAME;
    const unsigned char *p = (const unsigned char *)name;
    for (size_t at = 0; at < name_bytes;) {
        if (p[at] >= 0x20 && p[at] < 0x7f) { /* nearly every one */
            at++;
            continue;
        }
        uint32_t c = 0;
        size_t bytes = decode(p + at, name_bytes - at, &c);
        /* Control characters: C0, DEL, C1. */
        if (bytes == 0 || c < 0x20 || (c >= 0x7f && c <= 0x9f)) return -RFE_BAD_NAME;
        at += bytes;
    }
    return 0;
}
