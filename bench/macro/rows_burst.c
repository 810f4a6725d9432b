/* What the engine does when nobody waits for the device: against memcpy, in every shape. */
#include "bench/macro/bench.h"

#define IMAGE_BYTES  (64 * MIB)
#define IMAGES_BYTES (10 * IMAGE_BYTES)

struct burst {
    const struct bench *bench;
    struct target async;
    uint8_t *images;
    uint64_t bytes_max; /* of one burst */
    uint32_t runs, runs_max;
};

static struct load_side load_of(struct burst *b, const struct shape *shape)
{
    return (struct load_side){
        .target = &b->async,
        .load = {.shape = shape, .bytes_max = b->bytes_max, .seconds_max = 30}};
}

static void pair(struct burst *b, enum row row, struct load_side *load, measure *base, void *ctx)
{
    pair_run(b->bench, row, (struct side){measure_load, load}, (struct side){base, ctx}, b->runs,
             b->runs_max);
}

static void against_copy(struct burst *b, enum row row, struct load_side *load)
{
    if (!row_wanted(b->bench, row)) return;
    struct tablets tablets;
    tablets_make(&tablets, load->load.shape, 0);
    struct copy_side copy = {.tablets = &tablets,
                             .images = b->images,
                             .image_bytes = IMAGE_BYTES,
                             .images_bytes = IMAGES_BYTES,
                             .bytes_max = b->bytes_max};
    pair(b, row, load, measure_copy, &copy);
    tablets_free(&tablets);
}

static void row_off(struct burst *b)
{
    if (!row_wanted(b->bench, ROW_BURST_OFF)) return;
    struct target off;
    const struct target_options o = {.sync = RF_SYNC_OFF};
    target_open(&off, b->bench, "off", &o);
    struct load_side load = load_of(b, &shape_main);
    load.target = &off;
    against_copy(b, ROW_BURST_OFF, &load);
    target_close(&off);
}

static void rows_writers(struct burst *b)
{
    struct load_side one = load_of(b, &shape_main), many = one;
    one.load.writers = 1;
    many.load.writers = 2;
    pair(b, ROW_WRITERS_2, &many, measure_load, &one);
    many.load.writers = 4;
    pair(b, ROW_WRITERS_4, &many, measure_load, &one);
}

static void rows_shapes(struct burst *b)
{
    static const struct {
        enum row copy, main;
        const struct shape *shape;
    } rows[] = {
        {ROW_WIDE, ROW_WIDE_MAIN, &shape_wide},
        {ROW_NARROW, ROW_NARROW_MAIN, &shape_narrow},
        {ROW_TEXT, ROW_TEXT_MAIN, &shape_text},
        {ROW_FLEET, ROW_FLEET_MAIN, &shape_fleet},
        {ROW_TURNS, ROW_TURNS_MAIN, &shape_turns},
        {ROW_DISORDER, ROW_DISORDER_MAIN, &shape_disorder},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct load_side load = load_of(b, rows[i].shape), main = load_of(b, &shape_main);
        load.load.bytes_max /= 2; /* their arenas fill sooner than their images */
        against_copy(b, rows[i].copy, &load);
        pair(b, rows[i].main, &load, measure_load, &main);
    }
}

static void rows_peers(struct burst *b)
{
    static const struct {
        enum row row;
        bool by_rows;
    } rows[] = {{ROW_ROCKS_BLOB_ASYNC, false}, {ROW_ROCKS_ROWS_ASYNC, true}};
    struct tablets tablets;
    tablets_make(&tablets, &shape_main, 0);
    for (int i = 0; i < 2; i++) {
        if (!row_wanted(b->bench, rows[i].row)) continue;
        const struct rocks_options o = {.rows = rows[i].by_rows, .threads = 1, .tablets_a_put = 1};
        struct load_side load = load_of(b, &shape_main);
        struct peer *peer = peer_rocksdb(b->bench->dir, &tablets, &o);
        struct peer_side side = {.peer = peer, .seconds = b->bench->quick ? 0.15 : 0.6};
        row_note(rows[i].row, "%s", peer->name);
        pair(b, rows[i].row, &load, measure_peer, &side);
        peer_close(peer);
    }
    tablets_free(&tablets);
}

static bool any_wanted(const struct bench *bench)
{
    for (enum row row = ROW_BURST; row <= ROW_DISORDER_MAIN; row++)
        if (row_wanted(bench, row)) return true;
    return row_wanted(bench, ROW_ROCKS_BLOB_ASYNC) || row_wanted(bench, ROW_ROCKS_ROWS_ASYNC);
}

void rows_burst(const struct bench *bench)
{
    if (!any_wanted(bench)) return;
    struct burst b = {.bench = bench,
                      .bytes_max = (bench->quick ? 4 : 8) * IMAGE_BYTES,
                      .runs = bench->quick ? 5 : 21,
                      .runs_max = bench->quick ? 7 : 80};
    const struct target_options o = {.sync = RF_SYNC_ASYNC};
    target_open(&b.async, bench, "async", &o);
    b.images = copy_images(IMAGES_BYTES);
    struct load_side main = load_of(&b, &shape_main);
    against_copy(&b, ROW_BURST, &main);
    row_off(&b);
    rows_writers(&b);
    rows_shapes(&b);
    rows_peers(&b);
    copy_images_free(b.images, IMAGES_BYTES);
    target_close(&b.async);
}
