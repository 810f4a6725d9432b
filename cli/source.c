/* The only file that knows zlib. */
#include "cli/source.h"

#include "cli/memory.h"
#include "cli/stop.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { TAKE_BYTES = 128 << 10, GZIP_WINDOW_BITS = 15 + 16 };

enum packing { NOT_YET_KNOWN, PLAIN, GZIP };

struct source {
    int fd;
    enum packing packing;
    bool is_regular;
    bool fd_ended;
    bool between_members; /* a gzip member ended; another one may follow */
    uint64_t taken;
    z_stream z; /* its next_in, avail_in are what of `in` is not used yet, plain or packed */
    uint8_t in[TAKE_BYTES];
};

int source_open(const char *file, struct source **source_out)
{
    int fd = strcmp(file, "-") == 0 ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
    struct source *s = need_zalloc(sizeof *s);
    struct stat st;
    s->fd = fd;
    s->is_regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    s->z.next_in = s->in;
    *source_out = s;
    return 0;
}

void source_close(struct source *source)
{
    if (source == NULL) return;
    if (source->packing == GZIP) (void)inflateEnd(&source->z); /* frees whatever state it is in */
    close(source->fd);
    mem_free(source);
}

uint64_t source_bytes_taken(const struct source *source)
{
    return source->taken;
}

/* A pipe can keep us waiting: then a request to stop ends the wait. */
static int wait_for_bytes(const struct source *s)
{
    struct pollfd polled[2] = {{.fd = s->fd, .events = POLLIN},
                               {.fd = stop_fd(), .events = POLLIN}};
    if (s->is_regular) return 0;
    if (poll(polled, 2, -1) < 0) return -errno;
    return polled[1].revents != 0 ? -EINTR : 0;
}

/* Adds to what is in `in`; 0 also at the file's end. */
static int take(struct source *s)
{
    if (s->z.avail_in > 0) memmove(s->in, s->z.next_in, s->z.avail_in);
    s->z.next_in = s->in;
    int rc = wait_for_bytes(s);
    if (rc != 0) return rc;
    ssize_t n = read(s->fd, s->in + s->z.avail_in, sizeof s->in - s->z.avail_in);
    if (n < 0) return -errno;
    s->fd_ended = n == 0;
    s->taken += (uint64_t)n;
    s->z.avail_in += (uInt)n;
    return 0;
}

/* Two bytes tell gzip from text. */
static int find_packing(struct source *s)
{
    while (s->z.avail_in < 2 && !s->fd_ended) {
        int rc = take(s);
        if (rc != 0) return rc;
    }
    s->packing = PLAIN;
    if (s->z.avail_in < 2 || s->z.next_in[0] != 0x1f || s->z.next_in[1] != 0x8b) return 0;
    if (inflateInit2(&s->z, GZIP_WINDOW_BITS) != Z_OK) return -ENOMEM;
    s->packing = GZIP;
    return 0;
}

static ssize_t read_plain(struct source *s, void *to, size_t bytes)
{
    if (s->z.avail_in == 0 && !s->fd_ended) {
        int rc = take(s);
        if (rc != 0) return rc;
    }
    if (bytes > s->z.avail_in) bytes = s->z.avail_in;
    memcpy(to, s->z.next_in, bytes);
    s->z.next_in += bytes;
    s->z.avail_in -= (uInt)bytes;
    return (ssize_t)bytes;
}

/* One step; 0 bytes can mean that more input is needed. */
static ssize_t unpack(struct source *s, void *to, size_t bytes, const char **why_out)
{
    if (s->between_members) {
        if (inflateReset(&s->z) != Z_OK) return -EBADMSG;
        s->between_members = false;
    }
    s->z.next_out = to;
    s->z.avail_out = bytes > TAKE_BYTES ? TAKE_BYTES : (uInt)bytes;
    uInt asked = s->z.avail_out;
    int rc = inflate(&s->z, Z_NO_FLUSH);
    if (rc == Z_MEM_ERROR) return -ENOMEM;
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR) {
        *why_out = s->z.msg != NULL ? s->z.msg : "the compressed file is damaged";
        return -EBADMSG;
    }
    s->between_members = rc == Z_STREAM_END;
    return (ssize_t)(asked - s->z.avail_out);
}

static ssize_t read_gzip(struct source *s, void *to, size_t bytes, const char **why_out)
{
    for (;;) {
        if (s->z.avail_in == 0 && !s->fd_ended) {
            int rc = take(s);
            if (rc != 0) return rc;
        }
        if (s->z.avail_in == 0 && s->fd_ended && s->between_members) return 0;
        ssize_t n = unpack(s, to, bytes, why_out);
        if (n != 0) return n;
        if (s->z.avail_in == 0 && s->fd_ended && !s->between_members) {
            *why_out = "the compressed file ends too early";
            return -EBADMSG;
        }
    }
}

ssize_t source_read(struct source *source, void *to, size_t bytes, const char **why_out)
{
    if (source->packing == NOT_YET_KNOWN) {
        int rc = find_packing(source);
        if (rc != 0) return rc;
    }
    if (source->packing == PLAIN) return read_plain(source, to, bytes);
    return read_gzip(source, to, bytes, why_out);
}
