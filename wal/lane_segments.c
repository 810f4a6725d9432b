/* Segments and images made ready behind the writers, so that none of them waits for a file.
 *
 *   free file (zeros, or an older life) + free image -> header with a new salt, synced -> renamed to
 *   its number, folder synced -> ready_number
 *   trimmed: manifest with the new head, durable -> head_number -> renamed to free-* -> free file;
 *   its image is free again when no scan holds it
 *   given back: a ready one -> renamed to free-*, folder synced -> free file, free image
 *
 * A segment may take its first record only when its successor is there, so two are kept ready behind
 * the current one. That is enough while segments are made faster than they are filled. Not waiting
 * for the device, a writer fills one in milliseconds, and what makes the next one, a sync of its
 * header and one of the folder, waits behind all that was written before. Once a writer has come to
 * a segment that was not ready, though the ring had room for it, twice as many are kept ready as
 * before, up to all that the ring has free: then a burst that fits the ring finds them there.
 *
 * Not so from the start, since every numbered segment is read whole at the next open: whatever is
 * ready may hold a record that is not durable yet. For the same reason a lane that closes gives back
 * what is ready beyond two, and so does one that opens behind a crash.
 *
 * Each segment has a sync of the folder of its own, in both directions: a crash may keep any of the
 * names that were not synced, and a gap in the numbers is damage.
 *
 * The very first segment is handed out with its first 4 MiB of zeros, the rest follows behind;
 * writers stop at filled_end. */
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FILL_CHUNK_BYTES (1u << 20)
#define TOUCH_BYTES      (8u << 20)
/* Names of free files that we make begin here, above every number that a segment retires with. */
#define FREE_NUMBER_FIRST UINT64_C(4000000000)
/* A log that fills its ring still goes on when it is opened: the segment that it ends in takes this
 * many behind it. */
#define RING_BEYOND_LOG 3u
/* Small segments are read faster than they are given back one by one: what takes longer stays. */
#define GIVE_BACK_NS INT64_C(200000000)

/* ---- images ---- */

static int image_new(struct wal_lane *lane, struct wal_image **image_out)
{
    uint64_t segment_bytes = lane->o.segment_bytes;
    if (lane->images_count == LANE_SEGMENTS_MAX) return -ENOMEM;
    struct wal_image *image = mem_zalloc(sizeof *image);
    if (image == NULL) return -ENOMEM;
    image->base = mem_map(wal_image_bytes(segment_bytes));
    if (image->base == NULL) {
        mem_free(image);
        return -ENOMEM;
    }
    image->arena = image->base + segment_bytes;
    image->arena_bytes = (uint32_t)(segment_bytes / 4);
    image->lane = lane->o.lane;
    image->index = lane->images_count;
    lane->images[lane->images_count++] = image;
    *image_out = image;
    return 0;
}

/* prep_lock held, or nobody else there yet. */
int lane_image_take(struct wal_lane *lane, struct wal_image **image_out)
{
    if (lane->images_free_count > 0) {
        *image_out = lane->images_free[--lane->images_free_count];
        return 0;
    }
    return image_new(lane, image_out);
}

static void image_attach(struct wal_lane *lane, struct wal_seg *seg)
{
    struct wal_image *image = seg->image;
    image->number = seg->number;
    seg->arena_next =
        lane->o.hooks.attached(lane->o.hooks.ctx, image, seg->number * lane->o.segment_bytes);
    if (lane->arena_room == 0) lane->arena_room = image->arena_bytes - seg->arena_next;
}

/* ---- files ---- */

static int fill_zeros(struct wal_lane *lane, struct io_file *file, uint64_t from, uint64_t to)
{
    uint8_t *zeros = mem_alloc_aligned(4096, FILL_CHUNK_BYTES);
    if (zeros == NULL) return -ENOMEM;
    memset(zeros, 0, FILL_CHUNK_BYTES);
    int rc = 0;
    while (rc == 0 && from < to && !atomic_load(&lane->prep_stop)) {
        uint64_t n = to - from < FILL_CHUNK_BYTES ? to - from : FILL_CHUNK_BYTES;
        rc = io_pwrite(file, zeros, n, from, 0, NULL);
        from += n;
    }
    mem_free(zeros);
    if (rc == 0 && from < to) return -ECANCELED;
    return rc;
}

static unsigned open_flags(const struct wal_lane *lane)
{
    return IO_READ | IO_WRITE | (lane->o.buffered ? 0u : IO_DIRECT);
}

/* A new file of a segment's size; its first fill_bytes are zeros on the disk when it returns. */
static int file_new(struct wal_lane *lane, uint64_t fill_bytes, struct free_file *out)
{
    char path[WAL_PATH_BYTES];
    uint64_t number = lane->free_number++;
    wal_free_path(path, lane->o.lane, number);
    struct io_file *file;
    int rc = io_open(lane->o.env, path, open_flags(lane) | IO_CREATE | IO_EXCL, &file);
    if (rc != 0) return rc;
    rc = io_lock(file, true);
    if (rc != 0) goto remove;
    rc = fill_zeros(lane, file, 0, fill_bytes);
    if (rc != 0) goto remove;
    /* The size comes after the zeros: a file shorter than a segment is one that is unfinished. */
    rc = io_truncate(file, lane->o.segment_bytes);
    if (rc != 0) goto remove;
    rc = io_sync(file);
    if (rc != 0) goto remove;
    *out = (struct free_file){.file = file, .number = number};
    return 0;
remove:
    io_close(file);
    int left = io_unlink(lane->o.env, path);
    (void)left; /* a leftover is shorter than a segment: the next open removes it */
    return rc;
}

static int file_take(struct wal_lane *lane, uint64_t fill_bytes, struct free_file *out)
{
    lock_acquire(&lane->prep_lock);
    bool have = lane->free_count > 0;
    if (have) *out = lane->free_files[--lane->free_count];
    lock_release(&lane->prep_lock);
    return have ? 0 : file_new(lane, fill_bytes, out);
}

static void file_give(struct wal_lane *lane, struct free_file f)
{
    lock_acquire(&lane->prep_lock);
    CHECK(lane->free_count < LANE_SEGMENTS_MAX);
    lane->free_files[lane->free_count++] = f;
    lock_release(&lane->prep_lock);
}

/* ---- one segment ---- */

static int seg_head_new(struct wal_lane *lane, struct wal_seg *seg)
{
    struct wal_segment_head *h = &seg->head;
    memset(h, 0, sizeof *h);
    memcpy(h->uuid, lane->o.uuid, WAL_UUID_BYTES);
    h->segment_bytes = lane->o.segment_bytes;
    h->block_bytes = lane->o.block_bytes;
    h->lane = lane->o.lane;
    h->number = seg->number;
    h->generation = 1;
    h->mark = lane_mark(lane);
    int rc = wal_salt_new(&h->salt);
    seg->salt = h->salt;
    return rc;
}

/* The file did not become a segment, or perhaps did: its name is not known. It is not used again;
 * under the free name it is removed, and under the segment's number the next one takes its place. */
static void file_drop(struct wal_lane *lane, const struct free_file *f)
{
    char path[WAL_PATH_BYTES];
    wal_free_path(path, lane->o.lane, f->number);
    io_close(f->file);
    int rc = io_unlink(lane->o.env, path);
    (void)rc; /* one that stays is taken up by the next open */
}

/* A free file with a header and a number. */
static int file_enlist(struct wal_lane *lane, struct wal_seg *seg, uint64_t fill_bytes)
{
    struct free_file f;
    uint64_t made_before = lane->free_number;
    int rc = file_take(lane, fill_bytes, &f);
    if (rc != 0) return rc;
    atomic_init(&seg->filled_end,
                lane->free_number == made_before ? lane->o.segment_bytes : fill_bytes);
    rc = seg_head_new(lane, seg);
    if (rc == 0) rc = wal_segment_head_write_new(f.file, &seg->head);
    if (rc != 0) {
        file_give(lane, f);
        return rc;
    }
    rc = wal_segment_publish(lane->o.env, lane->o.lane, f.number, seg->number);
    if (rc == 0)
        seg->file = f.file;
    else
        file_drop(lane, &f);
    return rc;
}

static void image_give(struct wal_lane *lane, struct wal_image *image)
{
    lock_acquire(&lane->prep_lock);
    lane->images_free[lane->images_free_count++] = image;
    lock_release(&lane->prep_lock);
}

/* Makes segment `number` out of a free file and image, up to its name. fill_bytes: zeros on the
 * disk before it is handed out, when its file has to be made. */
static int seg_make(struct wal_lane *lane, uint64_t number, uint64_t fill_bytes)
{
    struct wal_seg *seg = mem_zalloc(sizeof *seg);
    if (seg == NULL) return -ENOMEM;
    seg->number = number;
    lock_acquire(&lane->prep_lock);
    int rc = lane_image_take(lane, &seg->image);
    lock_release(&lane->prep_lock);
    if (rc != 0) goto free_seg;
    image_attach(lane, seg);
    rc = file_enlist(lane, seg, fill_bytes);
    if (rc != 0) goto put_image;
    lane->segs[number % LANE_SEGMENTS_MAX] = seg;
    /* R1: the segment above before the number that says it is there. */
    atomic_store_explicit(&lane->ready_number, number, memory_order_release);
    return 0;
put_image:
    image_give(lane, seg->image);
free_seg:
    mem_free(seg);
    return rc;
}

/* Some zeros more behind filled_end of a segment that was handed out early. */
static int seg_fill_some(struct wal_lane *lane, struct wal_seg *seg)
{
    uint64_t end = lane->o.segment_bytes - lane->o.block_bytes; /* not over the header's copy */
    uint64_t at = atomic_load_explicit(&seg->filled_end, memory_order_relaxed); /* ours */
    uint64_t to = end - at < LANE_FIRST_FILL_BYTES ? end : at + LANE_FIRST_FILL_BYTES;
    int rc = fill_zeros(lane, seg->file, at, to);
    if (rc == 0) rc = io_sync(seg->file);
    if (rc != 0) return rc;
    /* Release: a writer that sees it may write there; our zeros have landed. */
    atomic_store_explicit(&seg->filled_end, to == end ? lane->o.segment_bytes : to,
                          memory_order_release);
    lane_signal_room(lane);
    lane_wake(lane);
    return 0;
}

int lane_prepare_first(struct wal_lane *lane, struct err_msg *msg)
{
    lane->free_number =
        lane->free_number < FREE_NUMBER_FIRST ? FREE_NUMBER_FIRST : lane->free_number;
    /* The current segment and its successor. */
    uint64_t want = atomic_load(&lane->cur_number) + 1;
    while (atomic_load(&lane->ready_number) < want) {
        uint64_t number = atomic_load(&lane->ready_number) + 1;
        bool current = number == atomic_load(&lane->cur_number);
        uint64_t fill = current ? LANE_FIRST_FILL_BYTES : lane->o.block_bytes;
        if (fill > lane->o.segment_bytes) fill = lane->o.segment_bytes;
        int rc = seg_make(lane, number, fill);
        if (rc != 0)
            return err_set(msg, rc == -ENOSPC ? -RFE_DISK_FULL : rc,
                           "lane %" PRIu32 ": segment %" PRIu64 " could not be made: %s",
                           lane->o.lane, number, err_text(rc));
    }
    return 0;
}

/* ---- the preparing thread ---- */

static uint64_t live_count(struct wal_lane *lane)
{
    return atomic_load(&lane->ready_number) - atomic_load(&lane->head_number) + 1;
}

/* Takes a segment's number away. The manifest's head is past it already, so a crash at any point
 * has it freed again by the next open; what failed half way goes on where it stopped. */
static int retire_file(struct wal_lane *lane, struct wal_seg *seg)
{
    char from[WAL_PATH_BYTES], to[WAL_PATH_BYTES], folder[WAL_PATH_BYTES];
    wal_segment_path(from, lane->o.lane, seg->number);
    wal_free_path(to, lane->o.lane, seg->number);
    wal_lane_path(folder, lane->o.lane);
    int rc = seg->renamed ? 0 : io_rename(lane->o.env, from, to);
    if (rc != 0) return rc;
    seg->renamed = true;
    rc = io_sync_dir(lane->o.env, folder);
    if (rc != 0) return rc;
    file_give(lane, (struct free_file){.file = seg->file, .number = seg->number});
    seg->file = NULL;
    return 0;
}

/* Trimmed segments: file to the free ones, image too when nobody reads it any more. */
static int retire_step(struct wal_lane *lane)
{
    for (uint32_t i = 0; i < lane->retired_count;) {
        lock_acquire(&lane->prep_lock);
        struct wal_seg *seg = lane->retired[i];
        lock_release(&lane->prep_lock);
        int rc = seg->file != NULL ? retire_file(lane, seg) : 0;
        if (rc != 0) return rc;
        if (lane->o.hooks.pinned(lane->o.hooks.ctx, seg->image)) {
            i++;
            continue;
        }
        lock_acquire(&lane->prep_lock);
        lane->images_free[lane->images_free_count++] = seg->image;
        lane->retired[i] = lane->retired[--lane->retired_count];
        lock_release(&lane->prep_lock);
        mem_free(seg);
    }
    return 0;
}

/* Room for one more image beside those that are live, ready or still pinned? */
static bool may_make(struct wal_lane *lane)
{
    if (live_count(lane) >= lane->o.segments_max) return false;
    lock_acquire(&lane->prep_lock);
    bool room = lane->images_free_count > 0 || lane->images_count < lane->o.segments_max;
    lock_release(&lane->prep_lock);
    return room;
}

bool lane_successor_comes(struct wal_lane *lane)
{
    return atomic_load(&lane->ready_number) == atomic_load(&lane->cur_number) && may_make(lane) &&
           atomic_load(&lane->space_error) == 0;
}

/* Fewer than `kept` are ready behind the current one. */
static bool is_short(struct wal_lane *lane, uint32_t kept)
{
    return atomic_load(&lane->ready_number) < atomic_load(&lane->cur_number) + kept &&
           may_make(lane);
}

/* How many are kept ready from now on. */
static uint32_t ready_kept(struct wal_lane *lane)
{
    uint64_t late = atomic_load_explicit(&lane->segments_late, memory_order_relaxed);
    if (late != lane->late_seen && lane->ready_kept < lane->o.segments_max) lane->ready_kept *= 2;
    lane->late_seen = late;
    return lane->ready_kept;
}

/* A file and an image lie there, so that making a segment of them takes no zeros. */
static bool has_spare(struct wal_lane *lane)
{
    lock_acquire(&lane->prep_lock);
    bool has = lane->free_count > 0 && lane->images_free_count > 0;
    lock_release(&lane->prep_lock);
    return has;
}

static int make_next(struct wal_lane *lane)
{
    int rc = seg_make(lane, atomic_load(&lane->ready_number) + 1, lane->o.segment_bytes);
    if (rc != 0) return rc;
    lane_signal_room(lane);
    lane_wake(lane); /* a fence record may wait for room */
    return 0;
}

/* Memory for some more of the first image that has not all of its own. Those in use are among them:
 * at open the writers may be there before it. In pieces, since fresh memory can come slowly, and
 * somebody may wait for a segment meanwhile. */
static bool touch_some(struct wal_lane *lane)
{
    uint64_t bytes = wal_image_bytes(lane->o.segment_bytes);
    for (uint32_t i = 0; i < lane->images_count; i++) { /* they come and go on this thread alone */
        struct wal_image *image = lane->images[i];
        if (image->touched_bytes == bytes) continue;
        uint64_t n = bytes - image->touched_bytes;
        if (n > TOUCH_BYTES) n = TOUCH_BYTES;
        mem_touch(image->base + image->touched_bytes, n);
        image->touched_bytes += n;
        return true;
    }
    return false;
}

/* Images and files beyond those in use. */
static int spare_step(struct wal_lane *lane, bool *did_out)
{
    *did_out = false;
    lock_acquire(&lane->prep_lock);
    bool image = lane->images_count < lane->o.segments_max;
    uint64_t files = live_count(lane) + lane->free_count;
    lock_release(&lane->prep_lock);
    if (image) {
        struct wal_image *made;
        lock_acquire(&lane->prep_lock);
        int rc = image_new(lane, &made);
        if (rc == 0) lane->images_free[lane->images_free_count++] = made;
        lock_release(&lane->prep_lock);
        if (rc != 0) return rc;
        *did_out = true;
    } else if (files < lane->o.segments_max) {
        struct free_file f;
        int rc = file_new(lane, lane->o.segment_bytes, &f);
        if (rc != 0) return rc;
        file_give(lane, f);
        *did_out = true;
    }
    return 0;
}

/* The first segment, the present one on, that is not filled with zeros yet; NULL: none. */
static struct wal_seg *first_unfilled(struct wal_lane *lane)
{
    uint64_t ready = atomic_load(&lane->ready_number);
    for (uint64_t n = atomic_load(&lane->cur_number); n <= ready; n++) {
        struct wal_seg *seg = lane_seg(lane, n);
        if (atomic_load(&seg->filled_end) < lane->o.segment_bytes) return seg;
    }
    return NULL;
}

int lane_prep_step(struct wal_lane *lane, bool *did_out)
{
    *did_out = false;
    int rc = retire_step(lane);
    if (rc != 0) return rc;
    /* What writers are about to reach comes first: the present segment's zeros, the successors that
     * must be there, then their zeros; then those that a burst would reach. */
    struct wal_seg *unfilled = first_unfilled(lane);
    bool is_present = unfilled != NULL && unfilled->number == atomic_load(&lane->cur_number);
    bool is_due = !is_present && is_short(lane, LANE_READY_AT_REST);
    uint32_t kept = ready_kept(lane);
    if (is_due || (unfilled == NULL && is_short(lane, kept) && has_spare(lane))) {
        rc = make_next(lane);
        *did_out = rc == 0;
        return rc;
    }
    *did_out = true;
    if (unfilled != NULL) return seg_fill_some(lane, unfilled);
    return touch_some(lane) ? 0 : spare_step(lane, did_out);
}

static void prep_report(struct wal_lane *lane, int rc)
{
    int before = atomic_exchange(&lane->space_error, rc);
    if (rc == before) return;
    if (rc != 0)
        log_warn(lane->o.log, "wal.segment_not_made", "lane=%" PRIu32 " error=%s", lane->o.lane,
                 err_name(rc));
    else
        log_info(lane->o.log, "wal.segment_made_again", "lane=%" PRIu32, lane->o.lane);
}

void *lane_prep_run(void *arg)
{
    struct wal_lane *lane = arg;
    while (!atomic_load(&lane->prep_stop)) {
        uint32_t word = atomic_load(&lane->prep_word);
        bool did;
        int rc = lane_prep_step(lane, &did);
        if (atomic_load(&lane->prep_stop)) break;
        prep_report(lane, rc);
        if (rc == 0 && did) continue;
        if (rc == 0 && !atomic_load(&lane->all_prepared)) {
            int64_t took = clock_read_ns(CLOCK_MONOTONIC) - lane->started_ns;
            atomic_store(&lane->prepared_ns, (uint64_t)took);
            atomic_store(&lane->all_prepared, true);
        }
        /* What failed is tried again by itself, so that space that comes back is used; a pinned
         * image is looked at again too. */
        bool again = rc != 0 || lane->retired_count > 0;
        atomic_fetch_add_explicit(&lane->stat_prep_sleeps, 1, memory_order_relaxed);
        (void)futex_wait(&lane->prep_word, word, again ? INT64_C(100000000) : -1);
    }
    atomic_store(&lane->prep_ended, 1);
    futex_wake_all(&lane->prep_ended);
    return NULL;
}

void lane_prep_kick(struct wal_lane *lane)
{
    atomic_fetch_add(&lane->prep_word, 1);
    futex_wake_one(&lane->prep_word);
}

int wal_lane_wait_prepared(struct wal_lane *lane)
{
    while (!atomic_load(&lane->all_prepared)) {
        int rc = atomic_load(&lane->space_error);
        if (rc != 0) return rc;
        struct timespec t = {.tv_nsec = 1000000};
        nanosleep(&t, NULL);
    }
    return 0;
}

/* ---- giving back ---- */

/* The last segment that is ready becomes a free file. Nobody can be in it, nor come into it: the
 * lane's threads and its writers are not there. Its file gets a name that no other has had: its
 * number is used again, and by then the file may still be free. */
static int give_back_last(struct wal_lane *lane)
{
    uint64_t number = atomic_load(&lane->ready_number), free_number = lane->free_number++;
    struct wal_seg *seg = lane_seg(lane, number);
    char from[WAL_PATH_BYTES], to[WAL_PATH_BYTES], folder[WAL_PATH_BYTES];
    wal_segment_path(from, lane->o.lane, number);
    wal_free_path(to, lane->o.lane, free_number);
    wal_lane_path(folder, lane->o.lane);
    int rc = io_rename(lane->o.env, from, to);
    if (rc != 0) return rc;
    atomic_store(&lane->ready_number, number - 1);
    lane->segs[number % LANE_SEGMENTS_MAX] = NULL;
    file_give(lane, (struct free_file){.file = seg->file, .number = free_number});
    image_give(lane, seg->image);
    mem_free(seg);
    /* Not durable after an error: the next one keeps its name. */
    return io_sync_dir(lane->o.env, folder);
}

void lane_give_back(struct wal_lane *lane)
{
    uint64_t kept = atomic_load(&lane->cur_number) + LANE_READY_AT_REST;
    int64_t deadline_ns = clock_read_ns(CLOCK_MONOTONIC) + GIVE_BACK_NS;
    int rc = 0;
    while (rc == 0 && atomic_load(&lane->ready_number) > kept &&
           clock_read_ns(CLOCK_MONOTONIC) < deadline_ns)
        rc = give_back_last(lane);
    if (rc != 0) /* the next open reads a segment more than it has to */
        log_warn(lane->o.log, "wal.segment_not_given_back", "lane=%" PRIu32 " error=%s",
                 lane->o.lane, err_name(rc));
}

static bool unmap_last_image(struct wal_lane *lane)
{
    struct wal_image *image = lane->images[lane->images_count - 1];
    for (uint32_t i = 0; i < lane->images_free_count; i++) {
        if (lane->images_free[i] != image) continue;
        lane->images_free[i] = lane->images_free[--lane->images_free_count];
        lane->images_count--;
        mem_unmap(image->base, wal_image_bytes(lane->o.segment_bytes));
        mem_free(image);
        return true;
    }
    return false;
}

void lane_fit_ring(struct wal_lane *lane)
{
    uint64_t held = atomic_load(&lane->cur_number) - atomic_load(&lane->head_number) + 1;
    uint64_t least = held + RING_BEYOND_LOG;
    if (least < live_count(lane)) least = live_count(lane);
    if (lane->o.segments_max < least) lane->o.segments_max = (uint32_t)least;
    while (lane->images_count > lane->o.segments_max && unmap_last_image(lane)) {
    }
}

/* ---- trim ---- */

/* How many segments from the head end at or below lsn and may go. */
static uint64_t trim_target(struct wal_lane *lane, uint64_t lsn)
{
    uint64_t durable = atomic_load_explicit(&lane->durable, memory_order_acquire);
    uint64_t visible = atomic_load_explicit(&lane->visible, memory_order_acquire);
    uint64_t head = atomic_load(&lane->head_number);
    uint64_t limit = lsn < durable ? lsn : durable;
    if (visible < limit) limit = visible;
    limit = lsn_normal(limit, lane->o.segment_bytes, lane->o.block_bytes);
    uint64_t target = lsn_segment(limit, lane->o.segment_bytes);
    uint64_t cur = atomic_load(&lane->cur_number);
    if (target > cur) target = cur;
    return target > head ? target : head;
}

/* The manifest first, then the head, then the files. prep_lock held. */
static int trim_locked(struct wal_lane *lane, uint64_t head, uint64_t target)
{
    int rc = lane->o.hooks.head_moved(lane->o.hooks.ctx, lane->o.lane, target);
    if (rc != 0) return rc;
    /* H1: sequentially consistent. A reader stores its pin, then loads the head; we store the
     * head, then ask for pins (in retire_step): one of the two sees the other. */
    atomic_store(&lane->head_number, target);
    fence_full();
    for (uint64_t n = head; n < target; n++)
        lane->retired[lane->retired_count++] = lane_seg(lane, n);
    return 0;
}

/* Where V runs ahead of the durable mark, what is to be freed is waited for; in an OFF lane that is
 * what has it written at all. */
static void write_before_trim(struct wal_lane *lane, uint64_t lsn)
{
    uint64_t visible = wal_visible(lane);
    if (visible < lsn) lsn = visible;
    uint64_t number = lsn_segment(lsn, lane->o.segment_bytes);
    if (number <= atomic_load(&lane->head_number)) return;
    int64_t deadline_ns = clock_read_ns(CLOCK_MONOTONIC) + LANE_TRIM_WAIT_NS;
    int rc = lane_flush_to(lane, seg_first_lsn(lane, number), deadline_ns);
    (void)rc; /* what is not durable is not freed */
}

int wal_trim(struct wal_lane *lane, uint64_t lsn)
{
    if (lane->o.mode != WAL_SYNC) write_before_trim(lane, lsn);
    lock_acquire(&lane->prep_lock);
    uint64_t head = atomic_load(&lane->head_number);
    uint64_t target = trim_target(lane, lsn);
    int rc = target > head ? trim_locked(lane, head, target) : 0;
    lock_release(&lane->prep_lock);
    if (target > head && rc == 0) lane_prep_kick(lane);
    return rc;
}

uint32_t wal_images(const struct wal_lane *lane, struct wal_image **images, uint32_t max)
{
    uint64_t head = atomic_load(&lane->head_number); /* H1 */
    uint64_t cur = atomic_load_explicit(&lane->cur_number, memory_order_acquire);
    uint32_t n = 0;
    for (uint64_t number = head; number <= cur; number++, n++)
        if (n < max) images[n] = lane->segs[number % LANE_SEGMENTS_MAX]->image;
    return n;
}

/* ---- end ---- */

void lane_segments_free(struct wal_lane *lane, bool abandon)
{
    uint64_t head = atomic_load(&lane->head_number), ready = atomic_load(&lane->ready_number);
    for (uint64_t n = head; n != 0 && n <= ready; n++) {
        struct wal_seg *seg = lane_seg(lane, n);
        if (seg == NULL || seg->number != n) continue;
        if (seg->file != NULL) io_close(seg->file);
        mem_free(seg);
    }
    for (uint32_t i = 0; i < lane->retired_count; i++) {
        if (lane->retired[i]->file != NULL) io_close(lane->retired[i]->file);
        mem_free(lane->retired[i]);
    }
    for (uint32_t i = 0; i < lane->free_count; i++)
        io_close(lane->free_files[i].file);
    for (uint32_t i = 0; i < lane->images_count; i++) {
        /* After a fork the child has no images: they are not inherited. */
        if (!abandon) mem_unmap(lane->images[i]->base, wal_image_bytes(lane->o.segment_bytes));
        mem_free(lane->images[i]);
    }
}
