/* The files of a directory, locked and mapped to be read. See docs/format/wal.md, "Directory".
 * Thread   one at a time */
#ifndef RF_CLI_DUMP_FILES_H
#define RF_CLI_DUMP_FILES_H

#include "cli/dump_format.h"

#include "base/errors.h"

struct dump_file {
    int fd;
    uint64_t number;
    size_t bytes;
    const uint8_t *at; /* NULL when bytes is 0 */
};
struct dump_files {
    int dir_fd;
    int64_t wait_ms; /* for locks */
};

/* Opens the directory and takes the shared lock on it. 0, or a negative code with a message. */
RF_NODISCARD int dump_files_open(const char *dir, int64_t wait_ms, struct dump_files *files_out,
                                 struct err_msg *msg);
void dump_files_close(struct dump_files *files);

/* The manifest. -ENOENT: there is none. */
RF_NODISCARD int dump_files_map(struct dump_files *files, const char *name,
                                struct dump_file *file_out, struct err_msg *msg);
void dump_file_unmap(struct dump_file *file);

/* The numbered files of a lane, locked shared and mapped, rising by number; numbers below head are
 * left out. *list_out: dump_lane_free. */
RF_NODISCARD int dump_files_lane(struct dump_files *files, uint32_t lane, uint64_t head,
                                 struct dump_file **list_out, size_t *count_out,
                                 struct err_msg *msg);
void dump_lane_free(struct dump_file *list, size_t count);

#endif
