/* Inside the directory's opening: what a listing found, and the two jobs that use it. */
#ifndef RF_WAL_DIR_IMPL_H
#define RF_WAL_DIR_IMPL_H

#include "wal/dir.h"

struct wal_listed_file {
    uint32_t lane;
    bool spare;
    uint64_t number;
    struct io_file *file; /* NULL until opened */
};

/* Everything in a directory, by name. */
struct wal_listing {
    bool manifest;
    bool other;                    /* a name that is not ours */
    char other_name[256];          /* the first of them */
    uint32_t lanes;                /* bits of lane folders */
    struct wal_listed_file *files; /* owned; files are closed by wal_listing_deinit */
    uint32_t file_count, file_room;
};
RF_NODISCARD int wal_listing_read(struct io_env *env, struct wal_listing *found);
void wal_listing_deinit(struct wal_listing *found);

/* True in *holds_out when a numbered file of found holds a record under its own header's salt. The
 * files need not be whole; msg names the place. */
RF_NODISCARD int wal_listing_holds_record(struct io_env *env, const struct wal_listing *found,
                                          struct err_msg *msg, bool *holds_out);

/* Removes what an unfinished creation left, then makes everything, the manifest last. Fills
 * manifest, lane, geometry and created. */
RF_NODISCARD int wal_dir_create(const struct wal_dir_options *o, struct wal_listing *found,
                                struct err_msg *msg, struct wal_dir *dir);

#endif
