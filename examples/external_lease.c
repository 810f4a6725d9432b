/* A host with a coordinator of its own: writes and reads go on only while the coordinator says so.
 *
 * The coordinator here is two functions in this program; in a cluster its answer comes over the
 * network, late, twice or never. What keeps that safe is that a request is stamped *before* it
 * leaves: a grant counts from the stamp, never from when its answer arrived. */
#include <ringfence/ringfence.h>

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

/* What a coordinator answers: for how long, in ms; 0: not at all. */
static int64_t coordinator_grants(bool in_the_cluster)
{
    return in_the_cluster ? 300 : 0;
}

static int write_row(struct rf_engine *engine, int64_t time)
{
    const double level = 1.5;
    const struct rf_column column = {
        .name = "level", .type = RF_DOUBLE, .category = RF_FIELD, .values = &level};
    const struct rf_tablet tablet = {.size = sizeof tablet,
                                     .table = "tank",
                                     .rows = 1,
                                     .columns = 1,
                                     .times = &time,
                                     .column = &column};
    return rf_write(engine, &tablet, NULL);
}

/* One heartbeat. resume: after a fencing, once what the host trusts has been loaded again. */
static int heartbeat(struct rf_engine *engine, bool in_the_cluster, bool resume)
{
    struct rf_lease_request request;
    int rc = rf_lease_ask(engine, &request);
    if (rc != 0) return rc;
    int64_t ttl_ms = coordinator_grants(in_the_cluster);
    if (ttl_ms == 0) return 0;
    return resume ? rf_lease_resume(engine, &request, ttl_ms)
                  : rf_lease_grant(engine, &request, ttl_ms);
}

static int expect(const char *what, int code, int expected)
{
    printf("%-44s %s\n", what, code == 0 ? "stored" : rf_code_name(code));
    return code == expected ? 0 : 1;
}

static int run(struct rf_engine *engine)
{
    const int fenced = -RF_CODE_LEASE_FENCED_RETRY;
    int wrong = expect("before the first grant", write_row(engine, 1), fenced);
    wrong += heartbeat(engine, true, true) != 0;
    wrong += expect("under a lease", write_row(engine, 2), 0);

    /* The coordinator falls silent: the lease runs out by itself, whatever the network does. */
    wrong += heartbeat(engine, false, false) != 0;
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    wrong += expect("400 ms after the last grant of 300 ms", write_row(engine, 3), fenced);
    wrong += heartbeat(engine, true, true) != 0;
    wrong += expect("after coming back", write_row(engine, 4), 0);

    /* Told to stop: when this returns, nothing undecided can still be acknowledged. */
    wrong += rf_lease_fence(engine) != 0;
    wrong += expect("fenced by the host", write_row(engine, 5), fenced);
    wrong += heartbeat(engine, true, true) != 0;

    struct rf_scan_options all;
    uint64_t rows = 0;
    rf_scan_options_init(&all);
    all.table = "tank";
    wrong += rf_count(engine, &all, &rows, NULL) != 0;
    printf("rows there: %" PRIu64 "\n", rows);
    return wrong + (rows != 2);
}

int main(int argc, char **argv)
{
    struct rf_options options;
    struct rf_engine *engine;
    struct rf_error error;
    rf_options_init(&options);
    options.lease = RF_LEASE_EXTERNAL;
    options.write_wait_ms = 50; /* how long rf_write waits for a lease to come back */
    if (rf_open(argc > 1 ? argv[1] : "data", &options, &engine, &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    int wrong = run(engine);
    return rf_close(engine) != 0 || wrong != 0;
}
