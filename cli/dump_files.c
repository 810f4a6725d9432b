#include "cli/dump_files.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_MS = 20 };

/* Tries again until the wait is over; what is left of it stays for the next lock. */
static int take_lock(struct dump_files *files, int fd, bool whole_dir)
{
    for (;;) {
        struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
        int rc = whole_dir ? flock(fd, LOCK_SH | LOCK_NB) : fcntl(fd, F_OFD_SETLK, &range);
        if (rc == 0) return 0;
        if (errno != EWOULDBLOCK && errno != EAGAIN && errno != EACCES) return -errno;
        if (files->wait_ms <= 0) return -RFE_IN_USE;
        struct timespec pause = {0, RETRY_MS * 1000000L};
        nanosleep(&pause, NULL);
        files->wait_ms -= RETRY_MS;
    }
}

int dump_files_open(const char *dir, int64_t wait_ms, struct dump_files *files_out,
                    struct err_msg *msg)
{
    struct dump_files files = {.wait_ms = wait_ms};
    files.dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files.dir_fd < 0) {
        int code = -errno;
        return err_set(msg, code, "%s: %s", dir, err_text(code));
    }
    int rc = take_lock(&files, files.dir_fd, true);
    if (rc != 0) {
        close(files.dir_fd);
        return err_set(msg, rc, "%s: %s", dir, err_text(rc));
    }
    *files_out = files;
    return 0;
}

void dump_files_close(struct dump_files *files)
{
    close(files->dir_fd);
}

int dump_files_map(struct dump_files *files, const char *name, struct dump_file *file_out,
                   struct err_msg *msg)
{
    struct dump_file file = {.fd = openat(files->dir_fd, name, O_RDONLY | O_CLOEXEC)};
    struct stat st;
    int rc = file.fd < 0 || fstat(file.fd, &st) != 0 ? -errno : 0;
    if (rc == 0 && st.st_size > 0) {
        void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, file.fd, 0);
        if (at == MAP_FAILED)
            rc = -errno;
        else
            file.at = at;
        file.bytes = (size_t)st.st_size;
    }
    if (rc == 0) {
        *file_out = file;
        return 0;
    }
    if (file.fd >= 0) close(file.fd);
    return err_set(msg, rc, "%s: %s", name, err_text(rc));
}

void dump_file_unmap(struct dump_file *file)
{
    if (file->at != NULL) munmap((void *)(uintptr_t)file->at, file->bytes);
    close(file->fd);
}

/* Ten decimal digits and nothing else. */
static bool parse_number(const char *name, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < 10; i++) {
        if (name[i] < '0' || name[i] > '9') return false;
        *number = *number * 10 + (uint64_t)(name[i] - '0');
    }
    return name[10] == '\0';
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = ((const struct dump_file *)a)->number;
    uint64_t right = ((const struct dump_file *)b)->number;
    return left < right ? -1 : left > right;
}

static int add_segment(struct dump_files *files, const char *folder, const char *name,
                       struct dump_file *file_out, struct err_msg *msg)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%.10s", folder, name);
    int rc = dump_files_map(files, path, file_out, msg);
    if (rc != 0) return rc;
    rc = take_lock(files, file_out->fd, false);
    if (rc == 0) return 0;
    dump_file_unmap(file_out);
    return err_set(msg, rc, "%s: %s", path, err_text(rc));
}

int dump_files_lane(struct dump_files *files, uint32_t lane, uint64_t head,
                    struct dump_file **list_out, size_t *count_out, struct err_msg *msg)
{
    struct dump_file *list = NULL;
    size_t count = 0, capacity = 0;
    char folder[16];
    int rc = 0;
    snprintf(folder, sizeof folder, "lane-%02" PRIu32, lane);
    int fd = openat(files->dir_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        rc = -errno;
        if (fd >= 0) close(fd);
        return err_set(msg, rc, "%s: %s", folder, err_text(rc));
    }
    for (struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL;) {
        uint64_t number;
        if (!parse_number(entry->d_name, &number) || number < head) continue;
        need_room(&list, &capacity, count + 1, sizeof *list);
        rc = add_segment(files, folder, entry->d_name, &list[count], msg);
        if (rc == 0) list[count++].number = number;
    }
    closedir(dir);
    if (rc != 0) {
        dump_lane_free(list, count);
        return rc;
    }
    if (count > 0) qsort(list, count, sizeof *list, by_number);
    *list_out = list;
    *count_out = count;
    return 0;
}

void dump_lane_free(struct dump_file *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dump_file_unmap(&list[i]);
    mem_free(list);
}
