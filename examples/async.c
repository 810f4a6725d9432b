/* Many batches in flight from one thread: begin them, do other work, collect what is done.
 *
 * A batch that is refused for want of room (RF_CODE_WRITE_REJECT) is begun again once something in
 * front of it has been collected; one whose outcome is not known may be written again, since the
 * same cells written twice are the same cells. */
#include <ringfence/ringfence.h>

#include <poll.h>
#include <stdio.h>

enum { BATCHES = 2000, ROWS = 100, IN_FLIGHT_MAX = 64 };

struct load {
    struct rf_queue *queue;
    uint32_t begun, stored, failed;
};

/* Runs inside rf_completions, on this thread. */
static void done(void *user, int code)
{
    struct load *load = user;
    if (code == 0)
        load->stored++;
    else
        load->failed++;
    if (code != 0) fprintf(stderr, "a batch: %s\n", rf_strerror(code));
}

/* The columns are copied before rf_write_async returns, so the same arrays serve every batch. */
static int begin_batch(struct load *load)
{
    static int64_t times[ROWS];
    static double speed[ROWS];
    for (int i = 0; i < ROWS; i++) {
        times[i] = (int64_t)load->begun * ROWS + i;
        speed[i] = i * 0.5;
    }
    const struct rf_column column = {
        .name = "speed", .type = RF_DOUBLE, .category = RF_FIELD, .values = speed};
    const struct rf_tablet tablet = {.size = sizeof tablet,
                                     .device = "root.fleet.van1",
                                     .rows = ROWS,
                                     .columns = 1,
                                     .times = times,
                                     .column = &column};
    struct rf_error error;
    int rc = rf_write_async(load->queue, &tablet, 1, 0, done, load, &error);
    if (rc == 0)
        load->begun++;
    else if (rc != -RF_CODE_WRITE_REJECT)
        fprintf(stderr, "%s\n", error.text);
    return rc;
}

static int run(struct load *load)
{
    while (load->stored + load->failed < BATCHES) {
        int rc = 0;
        while (rc == 0 && load->begun < BATCHES && rf_queue_in_flight(load->queue) < IN_FLIGHT_MAX)
            rc = begin_batch(load);
        if (rc != 0 && rc != -RF_CODE_WRITE_REJECT) return rc;

        /* An event loop would poll this descriptor among its others. */
        struct pollfd ready = {.fd = rf_queue_eventfd(load->queue), .events = POLLIN};
        if (rf_queue_in_flight(load->queue) > 0 && poll(&ready, 1, 10000) < 0) return -1;
        rc = rf_completions(load->queue, NULL, IN_FLIGHT_MAX, 0);
        if (rc < 0) return rc;
    }
    return load->failed == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct rf_engine *engine;
    struct rf_error error;
    struct load load = {0};
    int rc = rf_open(argc > 1 ? argv[1] : "data", NULL, &engine, &error);
    if (rc != 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    rc = rf_queue_open(engine, &load.queue);
    if (rc == 0) {
        rc = run(&load);
        rf_queue_close(load.queue);
    }
    struct rf_scan_options all;
    uint64_t rows = 0;
    rf_scan_options_init(&all);
    all.device = "root.fleet.van1";
    if (rc == 0) rc = rf_count(engine, &all, &rows, &error);
    printf("%u batches stored, %llu rows there\n", load.stored, (unsigned long long)rows);
    if (rc == 0 && rows != (uint64_t)BATCHES * ROWS) rc = -1;
    return rf_close(engine) != 0 || rc != 0;
}
