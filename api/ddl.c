/* Tables, series and the lease: the plane's part of the public calls. */
#include "api/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct rf_lease_request) == sizeof(struct plane_lease_request) &&
                   offsetof(struct rf_lease_request, view) ==
                       offsetof(struct plane_lease_request, view),
               "one request, two names");

static int change(struct rf_engine *h, struct plane_change *c, struct rf_error *error)
{
    if (handle_check(h) != 0) return handle_error(error, -RFE_FORKED, NULL);
    if ((h->options.flags & RF_READ_ONLY) != 0) return handle_error(error, -RFE_READ_ONLY, NULL);
    struct err_msg msg = {.code = 0};
    int rc = plane_change(h->plane, c, 1, h->options.durable_wait_ms * 1000000, &msg);
    return rc == 0 ? 0 : handle_error(error, rc, &msg);
}

/* The catalog's byte of a number of the caller's: what does not fit one stands for none. */
static uint8_t byte_of(int number)
{
    return number >= 0 && number < UINT8_MAX ? (uint8_t)number : UINT8_MAX;
}

/* A name that is missing is as good as an empty one: refused, and told so, by the catalog. */
static const char *name_of(const char *name)
{
    return name != NULL ? name : "";
}

static int change_columns(struct rf_engine *h, struct plane_change *c,
                          const struct rf_column_def *columns, uint32_t column_count,
                          struct rf_error *error)
{
    if (column_count > 0 && columns == NULL) {
        struct err_msg msg = {.code = 0};
        int rc = err_set(&msg, -EINVAL, "%u columns, and no array of them", column_count);
        return handle_error(error, rc, &msg);
    }
    struct plane_column *all = mem_zalloc_array((size_t)column_count + 1, sizeof *all);
    if (all == NULL) return handle_error(error, -ENOMEM, NULL);
    for (uint32_t i = 0; i < column_count; i++)
        all[i] = (struct plane_column){.name = name_of(columns[i].name),
                                       .name_bytes = strlen(name_of(columns[i].name)),
                                       .type = byte_of((int)columns[i].type),
                                       .category = byte_of((int)columns[i].category)};
    c->columns = all;
    c->column_count = column_count;
    int rc = change(h, c, error);
    mem_free(all);
    return rc;
}

int rf_table_create(struct rf_engine *h, const char *table, const struct rf_column_def *columns,
                    uint32_t column_count, int64_t ttl, struct rf_error *error_out)
{
    struct plane_change c = {.kind = PLANE_CREATE_TABLE,
                             .table = name_of(table),
                             .table_bytes = strlen(name_of(table)),
                             .ttl = ttl};
    return change_columns(h, &c, columns, column_count, error_out);
}

int rf_table_add_columns(struct rf_engine *h, const char *table,
                         const struct rf_column_def *columns, uint32_t column_count,
                         struct rf_error *error_out)
{
    struct plane_change c = {
        .kind = PLANE_ADD_COLUMNS, .table = name_of(table), .table_bytes = strlen(name_of(table))};
    return change_columns(h, &c, columns, column_count, error_out);
}

int rf_table_drop_column(struct rf_engine *h, const char *table, const char *column,
                         struct rf_error *error_out)
{
    struct plane_change c = {.kind = PLANE_DROP_COLUMN,
                             .table = name_of(table),
                             .table_bytes = strlen(name_of(table)),
                             .column = name_of(column),
                             .column_bytes = strlen(name_of(column))};
    return change(h, &c, error_out);
}

int rf_table_rename_column(struct rf_engine *h, const char *table, const char *from, const char *to,
                           struct rf_error *error_out)
{
    struct plane_change c = {.kind = PLANE_RENAME_COLUMN,
                             .table = name_of(table),
                             .table_bytes = strlen(name_of(table)),
                             .column = name_of(from),
                             .column_bytes = strlen(name_of(from)),
                             .to = name_of(to),
                             .to_bytes = strlen(name_of(to))};
    return change(h, &c, error_out);
}

int rf_table_set_ttl(struct rf_engine *h, const char *table, int64_t ttl,
                     struct rf_error *error_out)
{
    struct plane_change c = {.kind = PLANE_SET_TTL,
                             .table = name_of(table),
                             .table_bytes = strlen(name_of(table)),
                             .ttl = ttl};
    return change(h, &c, error_out);
}

int rf_table_drop(struct rf_engine *h, const char *table, struct rf_error *error_out)
{
    struct plane_change c = {
        .kind = PLANE_DROP_TABLE, .table = name_of(table), .table_bytes = strlen(name_of(table))};
    return change(h, &c, error_out);
}

/* Splits the device's path; the engine does it for tablets. */
static int series_change(struct rf_engine *h, struct plane_change *c, const char *device,
                         struct rf_error *error)
{
    struct tree_path path;
    if (!tree_path_split(name_of(device), &path)) {
        struct err_msg msg = {.code = 0};
        int rc = err_set(&msg, -RFE_BAD_NAME, "\"%s\" is no device: root.<database>.<device>",
                         name_of(device));
        return handle_error(error, rc, &msg);
    }
    c->tree = true;
    c->table = path.database;
    c->table_bytes = path.database_bytes;
    c->key = path.key;
    c->key_bytes = path.key_bytes;
    return change(h, c, error);
}

int rf_series_create(struct rf_engine *h, const char *device, const char *measurement,
                     enum rf_type type, struct rf_error *error_out)
{
    struct plane_column column = {.name = name_of(measurement),
                                  .name_bytes = strlen(name_of(measurement)),
                                  .type = byte_of((int)type),
                                  .category = SCHEMA_FIELD};
    struct plane_change c = {.kind = PLANE_CREATE_SERIES, .columns = &column, .column_count = 1};
    return series_change(h, &c, device, error_out);
}

int rf_series_drop(struct rf_engine *h, const char *device, const char *measurement,
                   struct rf_error *error_out)
{
    struct plane_change c = {.kind = PLANE_DROP_SERIES,
                             .column = name_of(measurement),
                             .column_bytes = strlen(name_of(measurement))};
    return series_change(h, &c, device, error_out);
}

/* ---- listing ---- */

struct table_list {
    const struct schema_table **tables;
    uint32_t count, room;
};

static int each_table(void *ctx, const struct schema_table *table)
{
    struct table_list *l = ctx;
    if (l->count == l->room) {
        uint32_t room = l->room == 0 ? 64 : 2 * l->room;
        const struct schema_table **more = mem_realloc(l->tables, room * sizeof(*more));
        if (more == NULL) return -ENOMEM;
        l->tables = more;
        l->room = room;
    }
    l->tables[l->count++] = table;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(schema_table_name(*(const struct schema_table *const *)a),
                  schema_table_name(*(const struct schema_table *const *)b));
}

struct column_list {
    const struct schema_table *table;
    uint64_t version;
    struct rf_column_def *columns;
    uint32_t count, room;
};

static int each_column(void *ctx, const struct schema_column *column)
{
    struct column_list *l = ctx;
    if (l->count == l->room) {
        uint32_t room = l->room == 0 ? 64 : 2 * l->room;
        struct rf_column_def *more = mem_realloc(l->columns, room * sizeof *more);
        if (more == NULL) return -ENOMEM;
        l->columns = more;
        l->room = room;
    }
    l->columns[l->count++] =
        (struct rf_column_def){.name = schema_column_name(l->table, column, l->version),
                               .type = (enum rf_type)column->type,
                               .category = (enum rf_category)column->category};
    return 0;
}

static int tell(const struct schema_table *table, uint64_t version,
                int (*each)(void *ctx, const struct rf_table_info *info), void *ctx)
{
    struct column_list l = {.table = table, .version = version};
    int rc = 0;
    if (!schema_table_is_tree(table)) rc = schema_each_column(table, version, each_column, &l);
    struct rf_table_info info = {.name = schema_table_name(table),
                                 .tree = schema_table_is_tree(table),
                                 .ttl = schema_table_ttl(table),
                                 .incarnation = schema_table_incarnation(table),
                                 .column_count = l.count,
                                 .columns = l.columns};
    if (rc == 0) rc = each(ctx, &info);
    mem_free(l.columns);
    return rc;
}

int rf_tables(struct rf_engine *h, int (*each)(void *ctx, const struct rf_table_info *info),
              void *ctx)
{
    int rc = handle_check(h);
    if (rc != 0) return rc;
    struct lease_look look = lease_look(&h->words, &h->clock);
    if (!look.live) return -RFE_LEASE_FENCED;
    uint64_t version = view_version(look.view);
    struct table_list l = {.count = 0};
    rc = schema_each_table(h->schema, version, each_table, &l);
    if (l.count > 0) qsort(l.tables, l.count, sizeof *l.tables, by_name);
    for (uint32_t i = 0; i < l.count && rc == 0; i++)
        rc = tell(l.tables[i], version, each, ctx);
    mem_free(l.tables);
    return rc;
}

/* ---- the lease ---- */

static int lease_check_handle(struct rf_engine *h, bool external_only)
{
    int rc = handle_check(h);
    if (rc != 0) return rc;
    if (h->options.lease == RF_LEASE_OFF) return -EINVAL;
    return external_only && h->options.lease != RF_LEASE_EXTERNAL ? -EINVAL : 0;
}

static struct plane_lease_request request_in(const struct rf_lease_request *r)
{
    return (struct plane_lease_request){
        .asked_boot_ns = r->asked_boot_ns, .view = r->view, .boot = r->boot};
}

int rf_lease_ask(struct rf_engine *h, struct rf_lease_request *request_out)
{
    int rc = lease_check_handle(h, true);
    struct plane_lease_request r;
    if (rc == 0) rc = plane_lease_ask(h->plane, &r);
    if (rc != 0) return rc;
    *request_out =
        (struct rf_lease_request){.asked_boot_ns = r.asked_boot_ns, .view = r.view, .boot = r.boot};
    return 0;
}

int rf_lease_grant(struct rf_engine *h, const struct rf_lease_request *request, int64_t ttl_ms)
{
    int rc = lease_check_handle(h, true);
    struct plane_lease_request r = request_in(request);
    return rc != 0 ? rc : plane_lease_grant(h->plane, &r, ttl_ms);
}

int rf_lease_fence(struct rf_engine *h)
{
    int rc = lease_check_handle(h, false);
    return rc != 0 ? rc : plane_lease_fence(h->plane);
}

int rf_lease_resume(struct rf_engine *h, const struct rf_lease_request *request, int64_t ttl_ms)
{
    int rc = lease_check_handle(h, true);
    struct plane_lease_request r = request_in(request);
    return rc != 0 ? rc : plane_lease_resume(h->plane, &r, ttl_ms);
}
