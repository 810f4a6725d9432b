/* The bare device and bare memory: what the engine is held against.
 *
 * The loop is our own: a file full of zeros as large as several images, memory as large as the file
 * and mapped as images are, direct I/O, whole blocks one after the other. Durable by a write and an
 * fdatasync that covers the writes completed before it (one sync in flight, writes go on beside it),
 * by DSYNC writes through the ring, or by one blocking pwritev2 at a time. */
#include "bench/macro/bench.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define DEVICE_BYTES (8 * 64 * MIB)
#define FLIGHTS_MAX  256u
#define SYNC_USER    UINT64_MAX

struct device {
    int fd;
    char path[BENCH_PATH_BYTES];
    uint8_t *memory;
    uint64_t at;
    struct io_uring ring;
};

const char *device_way_name(enum durable_way way)
{
    static const char *const names[] = {"write + fdatasync", "DSYNC", "blocking DSYNC"};
    return names[way];
}

struct device *device_open(const struct bench *bench)
{
    struct device *d = xalloc(sizeof *d);
    path_join(d->path, bench->dir, "device");
    d->fd = open(d->path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0644);
    if (d->fd < 0) die("%s: %s: the bare device needs direct I/O", d->path, strerror(errno));
    d->memory = mem_map(DEVICE_BYTES);
    if (d->memory == NULL) die("no memory for the bare device");
    memset(d->memory, 0, DEVICE_BYTES);
    for (uint64_t at = 0; at < DEVICE_BYTES; at += MIB)
        if (pwrite(d->fd, d->memory, MIB, (off_t)at) != (ssize_t)MIB)
            die("%s: %s", d->path, strerror(errno));
    if (fsync(d->fd) != 0) die("%s: %s", d->path, strerror(errno));
    /* Then it holds what the engine would write: bytes that nothing below can squeeze. */
    uint64_t word = 1;
    for (uint64_t i = 0; i < DEVICE_BYTES / 8; i++) {
        word = word * UINT64_C(6364136223846793005) + 1442695040888963407;
        memcpy(d->memory + i * 8, &word, 8);
    }
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                         IORING_SETUP_SUBMIT_ALL};
    int rc = io_uring_queue_init_params(FLIGHTS_MAX, &d->ring, &p);
    if (rc == -EINVAL) {
        p = (struct io_uring_params){0};
        rc = io_uring_queue_init_params(FLIGHTS_MAX, &d->ring, &p);
    }
    if (rc != 0) die("io_uring: %s", strerror(-rc));
    return d;
}

void device_close(struct device *d)
{
    io_uring_queue_exit(&d->ring);
    close(d->fd);
    unlink(d->path);
    mem_unmap(d->memory, DEVICE_BYTES);
    free(d);
}

static uint64_t next_at(struct device *d, uint32_t bytes)
{
    if (d->at + bytes > DEVICE_BYTES) d->at = 0;
    uint64_t at = d->at;
    d->at += bytes;
    return at;
}

static void write_blocking(struct device *d, uint32_t bytes)
{
    uint64_t at = next_at(d, bytes);
    struct iovec iov = {.iov_base = d->memory + at, .iov_len = bytes};
    if (pwritev2(d->fd, &iov, 1, (off_t)at, RWF_DSYNC) != (ssize_t)bytes)
        die("%s: pwritev2: %s", d->path, strerror(errno));
}

void device_writes(struct device *d, uint32_t bytes, uint32_t count, struct hist *latency)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t before = clock_read_ns(CLOCK_MONOTONIC);
        write_blocking(d, bytes);
        hist_add(latency, (uint64_t)(clock_read_ns(CLOCK_MONOTONIC) - before));
    }
}

static double blocking_rate(struct device *d, uint32_t bytes, double seconds, struct hist *latency)
{
    double began = now_seconds(), now = began;
    uint64_t done = 0;
    for (; now - began < seconds; done += bytes) {
        write_blocking(d, bytes);
        double after = now_seconds();
        if (latency != NULL) hist_add(latency, (uint64_t)((after - now) * 1e9));
        now = after;
    }
    return (double)done / (now - began);
}

struct loop {
    uint32_t writing;   /* in flight */
    uint32_t completed; /* and not yet covered by a sync */
    uint32_t syncing;   /* covered by the one in flight */
    uint64_t durable;
};

static void submit_write(struct device *d, const struct device_shape *s)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring);
    uint64_t at = next_at(d, s->block_bytes);
    io_uring_prep_write(sqe, d->fd, d->memory + at, s->block_bytes, at);
    if (s->way == WAY_DSYNC) sqe->rw_flags = RWF_DSYNC;
    io_uring_sqe_set_data64(sqe, s->block_bytes);
}

static void submit_sync(struct device *d, struct loop *l)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring);
    io_uring_prep_fsync(sqe, d->fd, IORING_FSYNC_DATASYNC);
    io_uring_sqe_set_data64(sqe, SYNC_USER);
    l->syncing = l->completed;
    l->completed = 0;
}

static void take(struct device *d, const struct device_shape *s, struct loop *l)
{
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&d->ring, &cqe) == 0) {
        uint64_t user = io_uring_cqe_get_data64(cqe);
        int32_t expected = user == SYNC_USER ? 0 : (int32_t)s->block_bytes;
        if (cqe->res != expected)
            die("%s: a bare write or sync returned %d", d->path, (int)cqe->res);
        io_uring_cqe_seen(&d->ring, cqe);
        if (user == SYNC_USER) {
            l->durable += l->syncing;
            l->syncing = 0;
        } else {
            l->writing--;
            if (s->way == WAY_DSYNC)
                l->durable++;
            else
                l->completed++;
        }
    }
}

/* Whether one more write may begin. */
static bool may_write(const struct device_shape *s, const struct loop *l)
{
    if (l->writing >= s->depth) return false;
    if (s->strict && l->completed + l->syncing > 0) return false;
    uint32_t most = s->outstanding != 0 ? s->outstanding : FLIGHTS_MAX - 1;
    return l->writing + l->completed + l->syncing < most;
}

double device_rate(struct device *d, const struct device_shape *s, double seconds,
                   struct hist *latency)
{
    if (s->way == WAY_BLOCKING) return blocking_rate(d, s->block_bytes, seconds, latency);
    struct loop l = {0};
    double began = now_seconds(), last = began;
    for (;;) {
        bool more = now_seconds() - began < seconds;
        while (more && may_write(s, &l)) {
            submit_write(d, s);
            l.writing++;
        }
        if (l.completed > 0 && l.syncing == 0) submit_sync(d, &l);
        if (l.writing + l.completed + l.syncing == 0) break;
        uint64_t durable = l.durable;
        int rc = io_uring_submit_and_wait(&d->ring, 1);
        if (rc < 0 && rc != -EINTR) die("io_uring: %s", strerror(-rc));
        take(d, s, &l);
        if (latency != NULL && l.durable != durable) {
            double now = now_seconds();
            hist_add(latency, (uint64_t)((now - last) * 1e9));
            last = now;
        }
    }
    return (double)(l.durable * s->block_bytes) / (now_seconds() - began);
}

struct device_shape device_best_of(struct device *d, const struct device_shape *shapes,
                                   uint32_t count, double seconds)
{
    struct device_shape best = shapes[0];
    double best_rate = 0;
    for (uint32_t i = 0; i < count; i++) {
        double rate = device_rate(d, &shapes[i], seconds, NULL);
        if (rate <= best_rate) continue;
        best_rate = rate;
        best = shapes[i];
    }
    return best;
}

void measure_device(void *ctx, struct sample *out)
{
    const struct device_side *side = ctx;
    *out = (struct sample){0};
    if (side->p50_us) {
        struct hist *latency = xalloc(sizeof *latency);
        hist_init(latency);
        (void)device_rate(side->device, &side->shape, side->seconds, latency);
        out->value = (double)hist_quantile(latency, 0.5) / 1e3;
        free(latency);
        return;
    }
    out->value = device_rate(side->device, &side->shape, side->seconds, NULL) * side->per_byte;
    if (side->time_us) out->value = 1e6 / out->value;
}

/* ---- memory ---- */

uint8_t *copy_images(uint64_t bytes)
{
    uint8_t *images = mem_map(bytes);
    if (images == NULL) die("no memory for the images of the copy");
    memset(images, 1, bytes);
    return images;
}

void copy_images_free(uint8_t *images, uint64_t bytes)
{
    mem_unmap(images, bytes);
}

static uint64_t record_bytes(const struct tablets *t)
{
    uint64_t bytes = 64;
    for (uint32_t i = 0; i < t->piece_count; i++)
        bytes += (t->pieces[i].bytes + 7) / 8 * 8;
    return (bytes + 63) / 64 * 64;
}

/* As a lane lays records out: one behind the other on 64-byte bounds, none across an image's end,
 * all parts on 8-byte bounds. */
void measure_copy(void *ctx, struct sample *out)
{
    struct copy_side *side = ctx;
    const struct tablets *t = side->tablets;
    uint64_t record = record_bytes(t), at = 0, n = 0;
    double cpu = cpu_seconds(), began = now_seconds();
    for (; n * t->bytes < side->bytes_max; n++) {
        if (at % side->image_bytes + record > side->image_bytes)
            at = (at / side->image_bytes + 1) * side->image_bytes;
        if (at == side->images_bytes) die("a copy would run over its own images");
        uint8_t *to = side->images + at + 64;
        for (uint32_t i = 0; i < t->piece_count; i++) {
            memcpy(to, t->pieces[i].data, t->pieces[i].bytes);
            to += (t->pieces[i].bytes + 7) / 8 * 8;
        }
        at += record;
    }
    double seconds = now_seconds() - began;
    double points = (double)(n * t->points);
    out->value = points / seconds;
    out->cpu_s_per_mpoint = (cpu_seconds() - cpu) * 1e6 / points;
}

/* ---- busy threads ---- */

struct busy {
    _Atomic bool stop;
    long count;
    pthread_t threads[];
};

static void *spin(void *arg)
{
    struct busy *busy = arg;
    while (!atomic_load_explicit(&busy->stop, memory_order_relaxed))
        ;
    return NULL;
}

struct busy *busy_start(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    struct busy *busy = xalloc(sizeof *busy + (size_t)count * sizeof(pthread_t));
    for (; busy->count < count; busy->count++)
        if (pthread_create(&busy->threads[busy->count], NULL, spin, busy) != 0)
            die("no thread to be busy");
    return busy;
}

void busy_stop(struct busy *busy)
{
    atomic_store(&busy->stop, true);
    for (long i = 0; i < busy->count; i++)
        pthread_join(busy->threads[i], NULL);
    free(busy);
}
