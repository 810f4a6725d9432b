#include "cli/bad_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MESSAGES_MAX = 20 };

int bad_lines_init(struct bad_lines *b, const char *file)
{
    *b = (struct bad_lines){.fd = -1};
    if (file == NULL) return 0;
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    struct stat st;
    if (fd < 0) return -errno;
    if (fstat(fd, &st) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    b->fd = fd;
    b->has_header = st.st_size > 0;
    return 0;
}

void bad_lines_deinit(struct bad_lines *b)
{
    if (b->fd >= 0) close(b->fd);
    b->fd = -1;
}

/* Line and LF in one write, so that a kill leaves no half line; the rest of a short one follows. */
static int write_line(int fd, struct text line)
{
    char lf = '\n';
    struct iovec part[2] = {{.iov_base = (void *)(uintptr_t)line.at, .iov_len = line.bytes},
                            {.iov_base = &lf, .iov_len = 1}};
    size_t left = line.bytes + 1;
    while (left > 0) {
        ssize_t n = writev(fd, part, 2);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -errno;
        left -= (size_t)n;
        for (int i = 0; i < 2; i++) {
            size_t done = (size_t)n < part[i].iov_len ? (size_t)n : part[i].iov_len;
            part[i].iov_base = (char *)part[i].iov_base + done;
            part[i].iov_len -= done;
            n -= (ssize_t)done;
        }
    }
    return 0;
}

int bad_lines_add(struct bad_lines *b, const struct text *header, struct text line,
                  const char *message)
{
    if (b->count < MESSAGES_MAX) fprintf(stderr, "ringfence load: skipped: %s\n", message);
    if (b->count == MESSAGES_MAX)
        fprintf(stderr, "ringfence load: skipped: more lines; their reasons are not printed\n");
    if (header != NULL && !b->has_header) {
        int rc = write_line(b->fd, *header);
        if (rc != 0) return rc;
    }
    b->has_header = true;
    b->is_dirty = true;
    b->count++;
    return write_line(b->fd, line);
}

int bad_lines_sync(struct bad_lines *b)
{
    if (!b->is_dirty) return 0;
    /* Pipes and devices have nothing to sync. */
    if (fdatasync(b->fd) != 0 && errno != EINVAL && errno != EROFS) return -errno;
    b->is_dirty = false;
    return 0;
}
