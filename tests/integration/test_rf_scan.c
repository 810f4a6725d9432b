/* ctest: concurrent
 *
 * Scans beside writers: a batch is whole or absent, a snapshot stays what it was, a forgotten cursor
 * stops nobody and goes on behind its last row. */
#include "rf_kit.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[KIT_PATH_BYTES];
static struct rf_engine *e;

static void open_with(enum rf_sync sync, uint64_t memory_bytes)
{
    struct rf_options o;
    kit_options(&o);
    o.sync = sync;
    o.memory_bytes = memory_bytes;
    o.log_bytes_max = 0;
    o.partition_interval = 100;
    o.wait_prepared = true;
    e = kit_open(dir, &o);
}

static int setup(void **state)
{
    (void)state;
    kit_dir(dir);
    e = NULL;
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    if (e != NULL) assert_int_equal(rf_close(e), 0);
    e = NULL;
    kit_remove(dir);
    return 0;
}

/* ---- batches that can be told apart ---- */

#define HOSTS 2
#define EACH  128 /* rows a host in a batch; over two or three partitions */
#define ROWS  (HOSTS * EACH)

/* Rows first..first + EACH - 1 of both hosts, all with this value. `hosts`: two names of one
 * letter. */
static int write_batch(const char *hosts, int64_t first, int64_t value)
{
    int64_t times[ROWS], values[ROWS];
    uint32_t offsets[ROWS + 1];
    char tags[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        times[i] = first + i % EACH;
        values[i] = value;
        tags[i] = hosts[i / EACH];
        offsets[i] = i;
    }
    offsets[ROWS] = ROWS;
    struct rf_column c[] = {
        {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = values},
        {.name = "host", .type = RF_STRING, .category = RF_TAG, .values = tags, .offsets = offsets},
        {.name = "w", .type = RF_TIMESTAMP, .category = RF_FIELD, .values = values},
    };
    struct rf_tablet t = {
        .size = sizeof t, .table = "t", .rows = ROWS, .columns = 3, .times = times, .column = c};
    return rf_write(e, &t, NULL);
}

static struct rf_scan_options all_of(const char *table)
{
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.table = table;
    return o;
}

static int64_t value_at(const struct rf_tablet *t, uint32_t column, uint32_t row)
{
    return ((const int64_t *)t->column[column].values)[row];
}

/* ---- whole or absent ---- */

static _Atomic bool done;
static _Atomic int64_t acknowledged; /* batches 0..this of the writer */
static _Atomic uint64_t rows_read, scans, faults;

static void fault(const char *what)
{
    if (atomic_fetch_add(&faults, 1) == 0) fprintf(stderr, "%s\n", what);
}

static void *write_ahead(void *arg)
{
    (void)arg;
    for (int64_t n = 0; !atomic_load(&done); n++) {
        if (write_batch("ab", n * EACH, n) != 0) fault("a write failed");
        atomic_store(&acknowledged, n);
    }
    return NULL;
}

/* Looks at the newest batches: each of those acknowledged before is there with all its rows, each
 * later one with all or none. */
static void look_at_newest(void)
{
    int64_t acked = atomic_load(&acknowledged), from = acked > 10 ? acked - 10 : 0;
    if (acked < 0) return;
    struct rf_scan_options o = all_of("t");
    struct rf_cursor *c;
    struct rf_tablet t;
    uint32_t seen[HOSTS][64] = {{0}};
    o.time_from = from * EACH;
    o.time_to = (from + 64) * EACH - 1;
    if (rf_scan_open(e, &o, &c, NULL) != 0) {
        fault("a scan could not be opened");
        return;
    }
    int rc;
    while ((rc = rf_scan_next(c, &t)) == 1) {
        int host = ((const char *)t.column[0].values)[t.column[0].offsets[0]] - 'a';
        for (uint32_t i = 0; i < t.rows; i++) {
            int64_t n = t.times[i] / EACH;
            if (value_at(&t, 1, i) != n || value_at(&t, 2, i) != n) fault("a wrong cell");
            seen[host][n - from]++;
        }
        atomic_fetch_add(&rows_read, t.rows);
    }
    if (rc != 0) fault("a scan failed");
    rf_scan_close(c);
    for (int64_t n = 0; n < 64; n++) {
        if (seen[0][n] != seen[1][n]) fault("a batch of one device without the other's");
        if (seen[0][n] != 0 && seen[0][n] != EACH) fault("a batch in part");
        if (from + n <= acked && seen[0][n] == 0) fault("an acknowledged batch is not there");
        if (n > 0 && seen[0][n] != 0 && seen[0][n - 1] == 0)
            fault("a later batch without its elder");
    }
    atomic_fetch_add(&scans, 1);
}

static void *look_on(void *arg)
{
    (void)arg;
    while (!atomic_load(&done))
        look_at_newest();
    return NULL;
}

static void never_in_part(enum rf_sync sync, uint64_t rows_wanted)
{
    pthread_t writer, readers[2];
    open_with(sync, 256 << 20);
    atomic_store(&done, false);
    atomic_store(&acknowledged, -1);
    atomic_store(&rows_read, 0);
    atomic_store(&scans, 0);
    assert_int_equal(write_batch("ab", 0, 0), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_ahead, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_on, NULL), 0);
    int64_t until = kit_now_ns() + INT64_C(40000000000);
    while ((atomic_load(&rows_read) < rows_wanted || atomic_load(&acknowledged) < 60) &&
           kit_now_ns() < until && kit_stats(e).segments < 200)
        usleep(2000);
    atomic_store(&done, true);
    assert_int_equal(pthread_join(writer, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    print_message("sync %d: %" PRIu64 " rows in %" PRIu64 " scans beside %" PRId64 " batches\n",
                  (int)sync, atomic_load(&rows_read), atomic_load(&scans),
                  atomic_load(&acknowledged) + 1);
    assert_int_equal(atomic_load(&faults), 0);
    assert_true(atomic_load(&scans) > 50);
    assert_true(atomic_load(&acknowledged) > 50);
    assert_int_equal(rf_close(e), 0);
    kit_remove(dir);
    kit_dir(dir);
    e = NULL;
}

static void rf_scan__beside_writers__no_batch_in_part(void **state)
{
    (void)state;
    never_in_part(RF_SYNC_ALWAYS, 2000000);
    never_in_part(RF_SYNC_ASYNC, 2000000);
    never_in_part(RF_SYNC_OFF, 1000000);
}

static _Atomic int64_t may_be_gone; /* batches up to this one may have been trimmed */

/* Batch n: a row of each of two devices at time n. The oldest ones are trimmed. */
static void *write_small(void *arg)
{
    (void)arg;
    struct rf_trim_options trim;
    rf_trim_options_init(&trim);
    for (int64_t n = 0; !atomic_load(&done); n++) {
        int64_t times[] = {n, n}, values[] = {n, n};
        const uint32_t offsets[] = {0, 1, 2};
        struct rf_column c[] = {
            {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = values},
            {.name = "host",
             .type = RF_STRING,
             .category = RF_TAG,
             .values = "ab",
             .offsets = offsets}};
        struct rf_tablet t = {
            .size = sizeof t, .table = "s", .rows = 2, .columns = 2, .times = times, .column = c};
        if (rf_write(e, &t, NULL) != 0) fault("a write failed");
        atomic_store(&acknowledged, n);
        if (n % 500 != 499) continue;
        trim.before_position = kit_stats(e).position;
        atomic_store(&may_be_gone, n);
        if (rf_trim(e, &trim, NULL) != 0) fault("a trim failed");
    }
    return NULL;
}

/* The newest few: both rows or none, none that is older than one that is missing, and what was
 * acknowledged before. */
static void look_at_small(void)
{
    int64_t acked = atomic_load(&acknowledged), from = acked > 2 ? acked - 2 : 0;
    struct rf_scan_options o = all_of("s");
    struct rf_cursor *c;
    struct rf_tablet t;
    uint32_t seen[2][16] = {{0}};
    o.time_from = from;
    o.time_to = from + 15;
    int rc = rf_scan_open(e, &o, &c, NULL);
    if (rc == 0) {
        while ((rc = rf_scan_next(c, &t)) == 1)
            for (uint32_t i = 0; i < t.rows; i++) {
                int host = ((const char *)t.column[0].values)[t.column[0].offsets[i]] - 'a';
                if (value_at(&t, 1, i) != t.times[i]) fault("a wrong cell");
                seen[host][t.times[i] - from]++;
            }
        rf_scan_close(c);
    }
    if (rc != 0) fault("a scan failed");
    int64_t gone = atomic_load(&may_be_gone);
    for (int64_t n = 0; n < 16; n++) {
        if (seen[0][n] != seen[1][n] || seen[0][n] > 1) fault("a batch in part");
        if (from + n <= gone) continue;
        if (from + n <= acked && seen[0][n] == 0) fault("an acknowledged batch is not there");
        if (n > 0 && from + n - 1 > gone && seen[0][n] > seen[0][n - 1])
            fault("a later batch without its elder");
    }
    atomic_fetch_add(&scans, 1);
}

static void *look_on_small(void *arg)
{
    const uint64_t *wanted = arg;
    while (atomic_load(&acknowledged) < 3)
        usleep(100);
    while ((atomic_load(&scans) < *wanted || atomic_load(&acknowledged) < 200) &&
           atomic_load(&faults) == 0)
        look_at_small();
    return NULL;
}

/* RF_SCANS: how many, in each mode. */
static void many_small_scans(enum rf_sync sync)
{
    const char *text = getenv("RF_SCANS");
    uint64_t wanted = text != NULL ? strtoull(text, NULL, 10) : 30000;
    pthread_t writer, readers[2];
    open_with(sync, 64 << 20);
    atomic_store(&done, false);
    atomic_store(&acknowledged, -1);
    atomic_store(&may_be_gone, -1);
    atomic_store(&scans, 0);
    assert_int_equal(pthread_create(&writer, NULL, write_small, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_on_small, &wanted), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    atomic_store(&done, true);
    assert_int_equal(pthread_join(writer, NULL), 0);
    print_message("sync %d: newest rows in %" PRIu64 " scans beside %" PRId64 " batches\n",
                  (int)sync, atomic_load(&scans), atomic_load(&acknowledged) + 1);
    assert_int_equal(atomic_load(&faults), 0);
    assert_int_equal(rf_close(e), 0);
    kit_remove(dir);
    kit_dir(dir);
    e = NULL;
}

static void rf_scan__newest_rows_over_and_over__no_batch_in_part(void **state)
{
    (void)state;
    many_small_scans(RF_SYNC_ALWAYS);
    many_small_scans(RF_SYNC_ASYNC);
}

/* The same rows over and over: every scan sees one batch's value in all of them. */
static void *overwrite(void *arg)
{
    (void)arg;
    for (int64_t n = 1; n <= 300; n++) {
        if (write_batch("ab", 0, n) != 0) fault("a write failed");
        atomic_store(&acknowledged, n);
    }
    return NULL;
}

static void rf_scan__rows_overwritten__one_value_at_a_time(void **state)
{
    (void)state;
    open_with(RF_SYNC_ALWAYS, 64 << 20);
    pthread_t writer;
    atomic_store(&acknowledged, 0);
    assert_int_equal(write_batch("ab", 0, 0), 0);
    assert_int_equal(pthread_create(&writer, NULL, overwrite, NULL), 0);
    int64_t newest = 0;
    for (uint32_t n = 0; newest < 300; n++) {
        struct rf_scan_options o = all_of("t");
        struct rf_cursor *c;
        struct rf_tablet t;
        int64_t acked = atomic_load(&acknowledged), value = -1;
        uint32_t rows = 0;
        o.descending = n % 2 != 0;
        assert_int_equal(rf_scan_open(e, &o, &c, NULL), 0);
        while (rf_scan_next(c, &t) == 1)
            for (uint32_t i = 0; i < t.rows; i++, rows++) {
                if (rows == 0) value = value_at(&t, 1, i);
                if (value_at(&t, 1, i) != value || value_at(&t, 2, i) != value)
                    fail_msg("%" PRId64 " beside %" PRId64, value_at(&t, 1, i), value);
            }
        rf_scan_close(c);
        assert_int_equal(rows, ROWS);
        assert_true(value >= acked && value >= newest);
        newest = value;
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(atomic_load(&faults), 0);
}

/* ---- snapshots ---- */

#define MANY 6000

static void write_many(int64_t from, int64_t to, int64_t add)
{
    static int64_t times[MANY], values[MANY];
    uint32_t n = 0;
    for (int64_t i = from; i < to; i++, n++) {
        times[n] = i;
        values[n] = i + add;
    }
    struct rf_column c = {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = values};
    struct rf_tablet t = {
        .size = sizeof t, .table = "s", .rows = n, .columns = 1, .times = times, .column = &c};
    assert_int_equal(rf_write(e, &t, NULL), 0);
}

/* Reads on; *next is the row to come, which carries next + add. Returns rows read. */
static uint32_t read_on(struct rf_cursor *c, int64_t *next, int64_t step, int64_t add,
                        uint32_t chunks)
{
    struct rf_tablet t;
    uint32_t rows = 0;
    for (; chunks > 0; chunks--) {
        int rc = rf_scan_next(c, &t);
        assert_in_range(rc, 0, 1);
        if (rc == 0) break;
        for (uint32_t i = 0; i < t.rows; i++, rows++, *next += step) {
            if (t.times[i] != *next || value_at(&t, 0, i) != *next + add)
                fail_msg("time %" PRId64 " value %" PRId64 ", not %" PRId64 " and %" PRId64,
                         t.times[i], value_at(&t, 0, i), *next, *next + add);
        }
    }
    return rows;
}

static void *change_everything(void *arg)
{
    struct rf_delete_options d;
    (void)arg;
    rf_delete_options_init(&d);
    d.table = "s";
    for (int64_t n = 0; !atomic_load(&done); n++) {
        if (n % 3 == 2) {
            if (rf_delete(e, &d, NULL) != 0) fault("a delete failed");
        } else {
            write_many(n % 5 * 1000, n % 5 * 1000 + 1000, 1000000 + n);
        }
        usleep(300);
    }
    return NULL;
}

static void rf_scan__writers_and_deleters_go_on__snapshot_stays(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, 128 << 20);
    pthread_t writer;
    write_many(0, MANY, 7);
    struct rf_cursor *c[8];
    struct rf_scan_options o = all_of("s");
    int64_t next[8];
    uint32_t rows[8];
    for (int i = 0; i < 8; i++) {
        o.descending = i % 2 != 0;
        next[i] = i % 2 != 0 ? MANY - 1 : 0;
        assert_int_equal(rf_scan_open(e, &o, &c[i], NULL), 0);
        rows[i] = i < 4 ? read_on(c[i], &next[i], i % 2 != 0 ? -1 : 1, 7, 1) : 0;
    }
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&writer, NULL, change_everything, NULL), 0);
    for (int left = 8; left > 0;) { /* in turns, while all of it is being changed */
        left = 0;
        for (int i = 0; i < 8; i++) {
            uint32_t n = read_on(c[i], &next[i], i % 2 != 0 ? -1 : 1, 7, 1);
            rows[i] += n;
            left += n > 0;
        }
        usleep(2000);
    }
    atomic_store(&done, true);
    assert_int_equal(pthread_join(writer, NULL), 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(rows[i], MANY);
        rf_scan_close(c[i]);
    }
    assert_int_equal(atomic_load(&faults), 0);
    struct rf_delete_options d; /* and a new scan sees what is there now */
    rf_delete_options_init(&d);
    d.table = "s";
    assert_int_equal(rf_delete(e, &d, NULL), 0);
    assert_int_equal(kit_count(e, "s"), 0);
}

/* ---- forgotten cursors ---- */

static void rf_trim__forgotten_cursor__is_revoked_and_goes_on(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, 1); /* the least: four segments */
    write_many(0, MANY, 1);
    struct rf_cursor *up, *down, *fresh;
    struct rf_scan_options o = all_of("s");
    int64_t up_next = 0, down_next = MANY - 1, fresh_next = 0;
    assert_int_equal(rf_scan_open(e, &o, &up, NULL), 0);
    assert_int_equal(rf_scan_open(e, &o, &fresh, NULL), 0);
    o.descending = true;
    assert_int_equal(rf_scan_open(e, &o, &down, NULL), 0);
    uint32_t up_rows = read_on(up, &up_next, 1, 1, 2);
    uint32_t down_rows = read_on(down, &down_next, -1, 1, 2);
    assert_in_range(up_rows, 1, MANY / 2);
    assert_in_range(down_rows, 1, MANY / 2);
    /* Three times what the log holds: the cursors stand in the way for a while, then no more. */
    uint64_t until = kit_stats(e).position + (UINT64_C(12) << 20), reached = 0;
    struct rf_trim_options trim;
    rf_trim_options_init(&trim);
    int64_t began = kit_now_ns();
    while (kit_stats(e).position < until) {
        write_many(0, MANY, 900);
        trim.before_position = kit_stats(e).position;
        assert_int_equal(rf_trim(e, &trim, &reached), 0);
    }
    print_message("12 segments in a log of four, %.1f s, trimmed below %" PRIu64 "\n",
                  (double)(kit_now_ns() - began) / 1e9, reached);
    assert_true(reached > (UINT64_C(8) << 20));
    write_many(0, MANY, 900);
    up_rows += read_on(up, &up_next, 1, 900, UINT32_MAX);
    down_rows += read_on(down, &down_next, -1, 900, UINT32_MAX);
    assert_int_equal(up_rows, MANY); /* no row twice, none left out */
    assert_int_equal(down_rows, MANY);
    assert_int_equal(read_on(fresh, &fresh_next, 1, 900, UINT32_MAX), MANY);
    rf_scan_close(up);
    rf_scan_close(down);
    rf_scan_close(fresh);
}

/* ---- trim by time ---- */

static uint64_t trim_before(int64_t time)
{
    struct rf_trim_options o;
    uint64_t reached = 0;
    rf_trim_options_init(&o);
    o.by_time = true;
    o.before_time = time;
    assert_int_equal(rf_trim(e, &o, &reached), 0);
    return reached;
}

static void rf_trim__by_time__frees_segments_that_are_older_as_a_whole(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, 32 << 20);
    uint64_t start = kit_stats(e).oldest_position;
    for (int64_t i = 0; i < 100; i++) /* about ten segments, times rising */
        write_many(i * MANY, (i + 1) * MANY, 0);
    struct rf_scan_options o = all_of("s");
    uint64_t rows, all = 100 * MANY;
    assert_int_equal(trim_before(0), start); /* nothing is older */
    assert_int_equal(kit_count(e, "s"), all);
    uint64_t reached = trim_before(50 * MANY);
    assert_true(reached > start);
    assert_int_equal(kit_stats(e).oldest_position, reached);
    o.time_from = 50 * MANY;
    assert_int_equal(rf_count(e, &o, &rows, NULL), 0);
    assert_int_equal(rows, 50 * MANY); /* every row from there on */
    uint64_t left = kit_count(e, "s");
    assert_true(left < all);
    /* Rows written late keep their segment, and with it all behind it. */
    for (int64_t i = 0; i < 12; i++)
        write_many(0, MANY, 5);
    write_many(200 * MANY, 200 * MANY + 1, 0);
    for (int64_t i = 0; i < 24; i++)
        write_many(0, MANY, 6);
    reached = trim_before(150 * MANY);
    assert_int_equal(kit_stats(e).oldest_position, reached);
    o.time_from = 150 * MANY;
    assert_int_equal(rf_count(e, &o, &rows, NULL), 0);
    assert_int_equal(rows, 1);
    assert_int_equal(rf_close(e), 0);
    open_with(RF_SYNC_ASYNC, 32 << 20); /* what was freed does not come back */
    assert_true(kit_stats(e).oldest_position >= reached);
    assert_int_equal(rf_count(e, &o, &rows, NULL), 0);
    assert_int_equal(rows, 1);
    o.time_from = MANY;
    o.time_to = 50 * MANY - MANY;
    assert_int_equal(rf_count(e, &o, &rows, NULL), 0);
    assert_int_equal(rows, 0);
}

/* ---- beside changes of the table ---- */

static void *change_columns(void *arg)
{
    const struct rf_column_def def = {"x", RF_INT32, RF_FIELD};
    uint32_t *changes = arg;
    for (; !atomic_load(&done); *changes += 3) {
        if (rf_table_add_columns(e, "s", &def, 1, NULL) != 0) fault("a column was not added");
        if (rf_table_drop_column(e, "s", "x", NULL) != 0) fault("a column was not dropped");
        if (rf_table_set_ttl(e, "s", *changes % 2 == 0 ? INT64_MAX : 0, NULL) != 0) /* hides none */
            fault("a TTL was not set");
    }
    return NULL;
}

static void rf_count__table_changed_meanwhile__starts_over(void **state)
{
    (void)state;
    open_with(RF_SYNC_OFF, 64 << 20);
    for (int64_t i = 0; i < 100; i++)
        write_many(i * MANY, (i + 1) * MANY, 0);
    pthread_t changer;
    uint32_t changes = 0, counts = 0, changed = 0, chunks = 0;
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&changer, NULL, change_columns, &changes), 0);
    struct rf_scan_options o = all_of("s");
    for (int64_t until = kit_now_ns() + INT64_C(1500000000); kit_now_ns() < until; counts++) {
        struct rf_error error = {.text = ""};
        struct rf_cursor *c;
        struct rf_tablet t;
        uint64_t rows = 0;
        int rc = rf_count(e, &o, &rows, &error);
        if (rc != 0 || rows != 100 * MANY) fail_msg("%d %s, %" PRIu64, rc, error.text, rows);
        assert_int_equal(rf_scan_open(e, &o, &c, NULL), 0); /* rows are handed out: it is told */
        while ((rc = rf_scan_next(c, &t)) == 1)
            chunks++;
        assert_true(rc == 0 || rc == -RF_CODE_SCHEMA_CHANGED);
        changed += rc != 0;
        rf_scan_close(c);
    }
    atomic_store(&done, true);
    assert_int_equal(pthread_join(changer, NULL), 0);
    print_message("%u counts and scans beside %u changes, %u scans were told\n", counts, changes,
                  changed);
    assert_int_equal(atomic_load(&faults), 0);
    assert_true(chunks > 0 && counts > 0 && changes > 0);
}

/* ---- how many, and who waits ---- */

static void rf_scan_open__1024_cursors__no_more(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, 16 << 20);
    write_many(0, 100, 3);
    static struct rf_cursor *c[1024];
    struct rf_cursor *more;
    struct rf_scan_options o = all_of("s");
    struct rf_error error = {.text = ""};
    uint64_t before = kit_stats(e).heap_bytes;
    for (int i = 0; i < 1024; i++)
        assert_int_equal(rf_scan_open(e, &o, &c[i], NULL), 0);
    assert_int_equal(rf_scan_open(e, &o, &more, &error), -RF_CODE_LIMIT);
    print_message("1024 cursors: %s; %" PRIu64 " KiB each\n", error.text,
                  (kit_stats(e).heap_bytes - before) >> 20);
    uint64_t rows;
    assert_int_equal(rf_count(e, &o, &rows, NULL), -RF_CODE_LIMIT);
    rf_scan_close(c[500]);
    assert_int_equal(rf_count(e, &o, &rows, NULL), 0);
    assert_int_equal(rf_scan_open(e, &o, &c[500], NULL), 0);
    for (int i = 0; i < 1024; i++) {
        int64_t next = 0;
        assert_int_equal(read_on(c[i], &next, 1, 3, UINT32_MAX), 100);
        rf_scan_close(c[i]);
    }
    rf_scan_close(NULL);
    assert_true(kit_stats(e).heap_bytes <= before + 65536); /* 70 MiB came and went */
}

static void rf_write_async__cursors_in_the_middle__never_waits(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, 96 << 20); /* room for all of it, made ready */
    write_many(0, MANY, 1);
    struct rf_cursor *c[100];
    struct rf_scan_options o = all_of("s");
    int64_t next[100] = {0};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(rf_scan_open(e, &o, &c[i], NULL), 0);
        assert_true(read_on(c[i], &next[i], 1, 1, 1) > 0); /* a chunk is lent */
    }
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    uint64_t until = kit_stats(e).position + (UINT64_C(40) << 20);
    static int64_t times[MANY];
    struct rf_column column = {
        .name = "v", .type = RF_INT64, .category = RF_FIELD, .values = times};
    struct rf_tablet t = {.size = sizeof t,
                          .table = "s",
                          .rows = MANY,
                          .columns = 1,
                          .times = times,
                          .column = &column};
    for (int i = 0; i < MANY; i++)
        times[i] = i;
    uint32_t n = 0, waited = 0;
    for (; kit_stats(e).position < until; n++) {
        int rc = rf_write_async(q, &t, 1, 0, NULL, NULL, NULL);
        while (rc == -RF_CODE_WRITE_REJECT) { /* the log's own: a segment is not ready yet */
            waited++;
            usleep(1000);
            rc = rf_write_async(q, &t, 1, 0, NULL, NULL, NULL);
        }
        assert_int_equal(rc, 0);
    }
    while (rf_queue_in_flight(q) > 0)
        assert_true(rf_completions(q, NULL, 64, -1) > 0);
    rf_queue_close(q);
    print_message("%u batches, %u refusals\n", n, waited);
    for (int i = 0; i < 100; i++) {
        (void)read_on(c[i], &next[i], 1, 1, UINT32_MAX);
        assert_int_equal(next[i], MANY);
        rf_scan_close(c[i]);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rf_scan__beside_writers__no_batch_in_part),
        CASE(rf_scan__newest_rows_over_and_over__no_batch_in_part),
        CASE(rf_scan__rows_overwritten__one_value_at_a_time),
        CASE(rf_scan__writers_and_deleters_go_on__snapshot_stays),
        CASE(rf_trim__forgotten_cursor__is_revoked_and_goes_on),
        CASE(rf_trim__by_time__frees_segments_that_are_older_as_a_whole),
        CASE(rf_count__table_changed_meanwhile__starts_over),
        CASE(rf_scan_open__1024_cursors__no_more),
        CASE(rf_write_async__cursors_in_the_middle__never_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
