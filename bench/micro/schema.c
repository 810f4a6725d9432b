/* Look-ups in the schema, as a writer makes them: a column of a table by name, in turn over all. */
#include "schema/schema.h"
#include "bench/shim/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 16

static void schema_column(struct bench_state *state)
{
    uint32_t n = (uint32_t)bench_arg(state, 0), at = 0;
    struct schema *schema = NULL;
    struct schema_table *table = NULL;
    char *names = calloc(n, NAME_BYTES);
    int rc = names == NULL ? -1 : schema_create(&schema);
    if (rc == 0) rc = schema_add_table(schema, "micro", 5, 1, false, 0, 1, &table);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        char *name = names + (size_t)i * NAME_BYTES;
        int bytes = snprintf(name, NAME_BYTES, "column%u", i);
        rc = schema_add_column(table, name, (size_t)bytes, i + 1, SCHEMA_DOUBLE, SCHEMA_FIELD, 1);
    }
    if (rc != 0) bench_fail(state, "no schema");
    while (bench_next(state)) {
        const char *name = names + (size_t)at * NAME_BYTES;
        const struct schema_column *c = schema_find_column(table, name, strlen(name), 1);
        bench_use(c->id);
        at = at + 1 == n ? 0 : at + 1;
    }
    bench_items(state, bench_rounds(state));
    if (schema != NULL) schema_destroy(schema);
    free(names);
}
BENCH(schema_column, 10, 1000, 60000)

static void schema_table_by_name(struct bench_state *state)
{
    struct schema *schema = NULL;
    struct schema_table *table = NULL;
    int rc = schema_create(&schema);
    for (uint32_t i = 0; rc == 0 && i < 1000; i++) {
        char name[NAME_BYTES];
        int bytes = snprintf(name, sizeof name, "table%u", i);
        rc = schema_add_table(schema, name, (size_t)bytes, i + 1, false, 0, 1, &table);
    }
    if (rc != 0) bench_fail(state, "no schema");
    while (bench_next(state))
        bench_use((uint64_t)(uintptr_t)schema_find_table(schema, "table777", 8, 1));
    if (schema != NULL) schema_destroy(schema);
}
BENCH(schema_table_by_name)
