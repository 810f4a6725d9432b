/* Whether a catalog knows what a record names. A number with a tombstone is a table's or a column's
 * that is gone. One with neither row nor tombstone, or of another table or type, means that this
 * catalog is not this log's. */
#include "engine/engine_impl.h"

static int wrong(struct err_msg *why, const char *what, uint64_t number)
{
    return err_set(why, -RFE_WRONG_CATALOG,
                   "names %s %" PRIu64 ", which this catalog never had: it is not this log's", what,
                   number);
}

/* *column: NULL, or one that was found to be of the table; in its place comes the one of this id. */
static int check_column(const struct schema *s, const struct schema_table *table, uint32_t id,
                        const struct schema_column **column, struct err_msg *why)
{
    const struct schema_column *c = schema_column_by_id(s, id);
    if (c == NULL) return wrong(why, "column", id);
    bool is_of_table = *column != NULL ? schema_column_is_beside(c, *column)
                                       : schema_table_of_column(s, id) == table;
    if (!is_of_table) return wrong(why, "another table's column", id);
    *column = c;
    return 0;
}

static int check_group(const struct schema *s, const struct batch_view *v,
                       const struct batch_group *g, bool *gone_out, struct err_msg *why)
{
    const struct schema_table *table = schema_table_by_incarnation(s, g->incarnation);
    if (table == NULL) return wrong(why, "table", g->incarnation);
    const struct schema_column *column = NULL;
    for (uint32_t i = 0; i < g->column_count; i++) {
        uint32_t id;
        uint8_t type;
        batch_read_column_type(v, g, i, &id, &type);
        int rc = check_column(s, table, id, &column, why);
        if (rc != 0) return rc;
        if (column->type != type) return wrong(why, "with another type column", id);
    }
    *gone_out = !schema_table_exists(table, SCHEMA_VERSION_MAX);
    return 0;
}

static int check_data(const struct schema *s, const uint8_t *payload, uint32_t bytes,
                      bool *gone_out, struct err_msg *why)
{
    struct batch_view v;
    int rc = batch_check(payload, bytes, why);
    if (rc != 0) return rc;
    batch_open(&v, payload, bytes);
    *gone_out = true;
    for (uint32_t i = 0; i < v.group_count; i++) {
        struct batch_group g;
        bool gone = false;
        batch_read_group(&v, i, &g);
        rc = check_group(s, &v, &g, &gone, why);
        if (rc != 0) return rc;
        *gone_out = *gone_out && gone;
    }
    return 0;
}

static int check_delete(const struct schema *s, const uint8_t *payload, uint32_t bytes,
                        bool *gone_out, struct err_msg *why)
{
    struct batch_delete d;
    int rc = batch_decode_delete(payload, bytes, &d, why);
    if (rc != 0) return rc;
    const struct schema_table *table = schema_table_by_incarnation(s, d.incarnation);
    if (table == NULL) return wrong(why, "table", d.incarnation);
    const struct schema_column *column = NULL;
    for (uint32_t i = 0; i < d.column_count; i++) {
        rc = check_column(s, table, d.columns[i], &column, why);
        if (rc != 0) return rc;
    }
    *gone_out = !schema_table_exists(table, SCHEMA_VERSION_MAX);
    return 0;
}

int engine_check_record(const struct schema *schema, uint8_t type, const uint8_t *payload,
                        uint32_t bytes, bool *gone_out, struct err_msg *why)
{
    return type == WAL_RECORD_DELETE ? check_delete(schema, payload, bytes, gone_out, why)
                                     : check_data(schema, payload, bytes, gone_out, why);
}
