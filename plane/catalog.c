/* Opening, and one transaction a step. The changes inside it: catalog_change.c; the file's tables
 * and how they are read at open: catalog_load.c. */
#include "base/alloc.h"
#include "plane/catalog_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define CATALOG_MAGIC 0x52464354u

static const char *const statement_text[] = {
#define X(name, text) text,
    CATALOG_STATEMENTS(X)
#undef X
};

/* ---- statements ---- */

static int code_of(int sql_code, int system_error)
{
    switch (sql_code & 0xff) {
    case SQLITE_CANTOPEN: /* the database was there: a journal that can't be opened */
        if (system_error == EMFILE || system_error == ENFILE) return -system_error;
        return -RFE_METADATA_ERROR;
    case SQLITE_FULL: return -RFE_DISK_FULL;
    case SQLITE_NOMEM: return -ENOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return -RFE_CORRUPT;
    case SQLITE_BUSY: return -RFE_IN_USE; /* a shell has it open, perhaps */
    default: return -RFE_METADATA_ERROR;
    }
}

int catalog_sql_error(struct catalog *c, struct err_msg *msg, const char *doing)
{
    int sql_code = sqlite3_extended_errcode(c->db);
    int error = sqlite3_system_errno(c->db);
    return err_set(msg, code_of(sql_code, error), "%s: %s: %s (SQLite %d, errno %d)", c->path,
                   doing, sqlite3_errmsg(c->db), sql_code, error);
}

sqlite3_stmt *catalog_statement(struct catalog *c, enum catalog_statement which)
{
    /* The result is that of the run before, which has been told. */
    (void)sqlite3_reset(c->statement[which]);
    return c->statement[which];
}

int catalog_step(struct catalog *c, sqlite3_stmt *s, struct err_msg *msg)
{
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) return 1;
    int code = rc == SQLITE_DONE ? 0 : catalog_sql_error(c, msg, sqlite3_sql(s));
    (void)sqlite3_reset(s);
    return code;
}

int catalog_do(struct catalog *c, enum catalog_statement which, struct err_msg *msg)
{
    int rc = catalog_step(c, catalog_statement(c, which), msg);
    CHECK(rc != 1);
    return rc;
}

/* ---- one step ---- */

uint64_t catalog_version(const struct catalog *c)
{
    return c->version;
}

/* Reads what is committed. */
static int read_meta(struct catalog *c, struct err_msg *msg)
{
    sqlite3_stmt *s = catalog_statement(c, SQL_META);
    int rc = catalog_step(c, s, msg);
    if (rc == 0) return err_set(msg, -RFE_CORRUPT, "%s: table meta: no row, expected 1", c->path);
    if (rc < 0) return rc;
    sqlite3_int64 version = sqlite3_column_int64(s, 0), incarnation = sqlite3_column_int64(s, 1),
                  column = sqlite3_column_int64(s, 2);
    (void)sqlite3_reset(s);
    if (version < 0 || (uint64_t)version > SCHEMA_VERSION_MAX || incarnation < 1 || column < 1 ||
        column > (sqlite3_int64)SCHEMA_COLUMN_ID_MAX + 1)
        return err_set(msg, -RFE_CORRUPT,
                       "%s: table meta: version %" PRId64 ", next incarnation %" PRId64
                       ", next column %" PRId64 ": out of range",
                       c->path, (int64_t)version, (int64_t)incarnation, (int64_t)column);
    c->version = (uint64_t)version;
    c->next_incarnation = (uint64_t)incarnation;
    c->next_column = (uint32_t)column;
    return 0;
}

static void fail_all(struct catalog_request *first, int code, const struct err_msg *msg)
{
    for (struct catalog_request *r = first; r != NULL; r = r->next) {
        if (r->rc != 0) continue;
        r->rc = err_set(&r->msg, code, "%s", msg->text);
        r->effect_count = 0;
    }
}

/* One request inside its savepoint. Returns 0, or a code when the whole transaction is lost. */
static int run_one(struct catalog *c, struct catalog_request *r, uint64_t version,
                   struct err_msg *msg)
{
    uint64_t incarnation = c->next_incarnation;
    uint32_t column = c->next_column;
    int rc = catalog_do(c, SQL_SAVEPOINT, msg);
    if (rc != 0) return rc;
    r->rc = catalog_change(c, r, version);
    if (r->rc != 0) {
        r->effect_count = 0;
        c->next_incarnation = incarnation;
        c->next_column = column;
        /* SQLite ends the transaction by itself after some errors: full disk, no memory, I/O. */
        if (sqlite3_get_autocommit(c->db)) return err_set(msg, r->rc, "%s", r->msg.text);
        rc = catalog_do(c, SQL_ROLLBACK_TO, msg);
        if (rc != 0) return rc;
    }
    return catalog_do(c, SQL_RELEASE, msg);
}

/* The last statements of a step, the last of which makes it last. */
static int commit(struct catalog *c, uint64_t version, struct err_msg *msg, bool *unknown_out)
{
    sqlite3_stmt *s = catalog_statement(c, SQL_SET_META);
    CHECK(sqlite3_bind_int64(s, 1, (sqlite3_int64)version) == SQLITE_OK);
    CHECK(sqlite3_bind_int64(s, 2, (sqlite3_int64)c->next_incarnation) == SQLITE_OK);
    CHECK(sqlite3_bind_int64(s, 3, (sqlite3_int64)c->next_column) == SQLITE_OK);
    int rc = catalog_step(c, s, msg);
    if (rc != 0) return rc;
    rc = catalog_do(c, SQL_COMMIT, msg);
    *unknown_out = rc != 0;
    return rc;
}

/* After a failed transaction: takes it back, and looks whether it is gone. A full disk and missing
 * memory are met before the journal ends, so they are; of a failed write or sync nobody knows. */
static void take_back(struct catalog *c, uint64_t version, bool in_commit, int code)
{
    struct err_msg ignored = {0};
    if (!sqlite3_get_autocommit(c->db)) (void)catalog_do(c, SQL_ROLLBACK, &ignored);
    bool harmless = !in_commit || code == -RFE_DISK_FULL || code == -ENOMEM;
    ignored = (struct err_msg){0};
    if (!sqlite3_get_autocommit(c->db) || read_meta(c, &ignored) != 0 || c->version != version ||
        !harmless) {
        c->latched = true;
        c->version = version;
    }
}

bool catalog_run(struct catalog *c, struct catalog_request *first, uint64_t *version_out)
{
    CHECK(c->magic == CATALOG_MAGIC);
    struct err_msg msg = {0};
    uint64_t before = c->version, version = before + 1;
    bool unknown = false, changed = false;
    *version_out = before;
    int rc = 0;
    if (c->latched)
        rc = err_set(&msg, -RFE_METADATA_ERROR,
                     "%s: an earlier commit failed on the disk: open again", c->path);
    else if (version > SCHEMA_VERSION_MAX - 1)
        rc = err_set(&msg, -RFE_LIMIT, "%s: out of versions", c->path);
    if (rc != 0) {
        fail_all(first, rc, &msg);
        return false;
    }
    rc = catalog_do(c, SQL_BEGIN, &msg);
    for (struct catalog_request *r = first; rc == 0 && r != NULL; r = r->next) {
        rc = run_one(c, r, version, &msg);
        changed |= r->effect_count != 0;
    }
    if (rc == 0 && changed) rc = commit(c, version, &msg, &unknown);
    if (rc == 0 && !changed) rc = catalog_do(c, SQL_ROLLBACK, &msg);
    if (rc != 0) {
        take_back(c, before, unknown, rc);
        fail_all(first, unknown && c->latched ? -RFE_UNKNOWN : rc, &msg);
        return false;
    }
    if (!changed) return false;
    c->version = *version_out = version;
    return true;
}

void catalog_idle(struct catalog *c)
{
    (void)sqlite3_db_release_memory(c->db); /* only ever SQLITE_OK */
}

/* ---- opening ---- */

static int open_error(struct catalog *c, const struct catalog_options *o, struct err_msg *msg)
{
    int error = sqlite3_system_errno(c->db);
    if ((sqlite3_extended_errcode(c->db) & 0xff) == SQLITE_CANTOPEN && error == ENOENT)
        return err_set(msg, -RFE_WRONG_CATALOG, "%s: missing", o->path);
    if ((sqlite3_extended_errcode(c->db) & 0xff) == SQLITE_CANTOPEN && error > 0 && error < 200)
        return err_set(msg, -error, "%s: %s", o->path, err_text(-error));
    return catalog_sql_error(c, msg, "opening");
}

/* One statement without parameters that may give a row with a number. */
static int ask(struct catalog *c, const char *sql, sqlite3_int64 *value_out, struct err_msg *msg)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return catalog_sql_error(c, msg, sql);
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW && value_out != NULL) *value_out = sqlite3_column_int64(s, 0);
    int code = rc == SQLITE_ROW || rc == SQLITE_DONE ? 0 : catalog_sql_error(c, msg, sql);
    (void)sqlite3_finalize(s);
    return code;
}

/* The lock is taken at once and kept, so that a shell that reads can't make a commit fail later. */
static int set_up(struct catalog *c, struct err_msg *msg)
{
    enum { LOCK_WAIT_MS = 1000 };
    (void)sqlite3_busy_timeout(c->db, LOCK_WAIT_MS);
    static const char *const pragmas[] = {
        "PRAGMA locking_mode = EXCLUSIVE",
        "BEGIN EXCLUSIVE",
        "COMMIT",
        "PRAGMA journal_mode = TRUNCATE",
        "PRAGMA synchronous = EXTRA",
        "PRAGMA trusted_schema = OFF",
        "PRAGMA temp_store = MEMORY",
    };
    for (size_t i = 0; i < sizeof pragmas / sizeof pragmas[0]; i++) {
        int rc = ask(c, pragmas[i], NULL, msg);
        if (rc != 0) return rc;
    }
    return 0;
}

static int check_text(struct catalog *c, const char *sql, const char *what, const char *expected,
                      struct err_msg *msg)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return catalog_sql_error(c, msg, sql);
    int rc = sqlite3_step(s);
    const char *found = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
    int code = 0;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        code = catalog_sql_error(c, msg, sql);
    else if (found == NULL || strcmp(found, expected) != 0)
        code = err_set(msg, -RFE_WRONG_CATALOG, "%s: %s: expected %s, found %s", c->path, what,
                       expected, found != NULL ? found : "none");
    (void)sqlite3_finalize(s);
    return code;
}

/* Whether this is the catalog that belongs to the directory. */
static int check_identity(struct catalog *c, const struct catalog_options *o, struct err_msg *msg)
{
    char text[33];
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", o->uuid[i]);
    int rc = check_text(c, "SELECT uuid FROM meta", "uuid", text, msg);
    if (rc != 0) return rc;
    snprintf(text, sizeof text, "%" PRId64, (int64_t)o->generation);
    rc = check_text(c, "SELECT CAST(generation AS TEXT) FROM meta", "generation", text, msg);
    if (rc != 0) return rc;
    rc = read_meta(c, msg);
    if (rc != 0) return rc;
    if (c->version < o->version_min)
        return err_set(msg, -RFE_WRONG_CATALOG,
                       "%s: version: expected at least %" PRIu64 ", found %" PRIu64, c->path,
                       o->version_min, c->version);
    return 0;
}

/* What kind of file this is: ours, empty (made, if it may be), newer, or something else. */
static int check_format(struct catalog *c, const struct catalog_options *o, struct err_msg *msg)
{
    sqlite3_int64 id = 0, format = 0, things = 0;
    int rc = ask(c, "PRAGMA application_id", &id, msg);
    if (rc == 0) rc = ask(c, "PRAGMA user_version", &format, msg);
    if (rc == 0) rc = ask(c, "SELECT count(*) FROM sqlite_schema", &things, msg);
    if (rc != 0) return rc;
    if (id == 0 && format == 0 && things == 0) {
        if (!o->create || o->read_only || o->version_min != 0)
            return err_set(msg, -RFE_WRONG_CATALOG, "%s: empty", c->path);
        return catalog_make(c, o, msg);
    }
    if (id != CATALOG_APPLICATION_ID)
        return err_set(msg, -RFE_WRONG_CATALOG, "%s: application_id: expected %d, found %" PRId64,
                       c->path, CATALOG_APPLICATION_ID, (int64_t)id);
    if (format > CATALOG_FORMAT)
        return err_set(msg, -RFE_NEWER_VERSION, "%s: format %" PRId64 ", this library knows %d",
                       c->path, (int64_t)format, CATALOG_FORMAT);
    if (format != CATALOG_FORMAT)
        return err_set(msg, -RFE_CORRUPT, "%s: user_version: expected %d, found %" PRId64, c->path,
                       CATALOG_FORMAT, (int64_t)format);
    return 0;
}

static int prepare_all(struct catalog *c, struct err_msg *msg)
{
    for (int i = 0; i < SQL_COUNT; i++)
        if (sqlite3_prepare_v3(c->db, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &c->statement[i], NULL) != SQLITE_OK)
            return catalog_sql_error(c, msg, statement_text[i]);
    return 0;
}

/* A table with a marker was being dropped when the process ended. Whoever asked for that has had
 * no answer, or none that says "not done": it is finished. Nobody decides anything at open, so the
 * views between its steps need no closing. */
static int finish_drops(struct catalog *c, struct err_msg *msg)
{
    sqlite3_stmt *marked = catalog_statement(c, SQL_MARKED_TABLES);
    int rc = catalog_step(c, marked, msg);
    (void)sqlite3_reset(marked);
    if (rc <= 0) return rc;
    uint64_t version = c->version + 1;
    bool unknown;
    rc = catalog_do(c, SQL_BEGIN, msg);
    for (;;) {
        if (rc < 0) return rc;
        marked = catalog_statement(c, SQL_MARKED_TABLES);
        rc = catalog_step(c, marked, msg);
        if (rc <= 0) break;
        uint64_t incarnation = (uint64_t)sqlite3_column_int64(marked, 0);
        (void)sqlite3_reset(marked);
        rc = catalog_drop_table(c, incarnation, version, msg);
    }
    if (rc == 0) rc = commit(c, version, msg, &unknown);
    if (rc == 0) c->version = version;
    return rc;
}

static int open_file(struct catalog *c, const struct catalog_options *o, struct err_msg *msg)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                SQLITE_OPEN_EXRESCODE | (o->create && !o->read_only ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(o->path, &c->db, flags, o->vfs);
    if (c->db == NULL) return err_set(msg, -ENOMEM, "%s: out of memory", o->path);
    if (rc != SQLITE_OK) return open_error(c, o, msg);
    if (!o->read_only && sqlite3_db_readonly(c->db, "main") == 1)
        return err_set(msg, -EACCES, "%s: it can't be written", o->path);
    rc = set_up(c, msg);
    if (rc == 0) rc = check_format(c, o, msg);
    if (rc == 0) rc = prepare_all(c, msg);
    if (rc == 0) rc = check_identity(c, o, msg);
    return rc;
}

int catalog_open(const struct catalog_options *o, struct schema *schema,
                 struct catalog **catalog_out, struct err_msg *msg)
{
    struct catalog *c = mem_zalloc(sizeof *c);
    if (c == NULL) return err_set(msg, -ENOMEM, "out of memory");
    c->magic = CATALOG_MAGIC;
    c->next_series = 1;
    c->path = mem_strndup(o->path, strlen(o->path));
    int rc = c->path != NULL ? open_file(c, o, msg) : err_set(msg, -ENOMEM, "out of memory");
    if (rc == 0 && !o->read_only) rc = finish_drops(c, msg);
    if (rc == 0) rc = catalog_load(c, schema, msg);
    if (rc != 0) {
        catalog_close(c);
        return rc;
    }
    catalog_idle(c);
    *catalog_out = c;
    return 0;
}

void catalog_close(struct catalog *c)
{
    if (c == NULL) return;
    CHECK(c->magic == CATALOG_MAGIC);
    c->magic = 0;
    for (int i = 0; i < SQL_COUNT; i++)
        (void)sqlite3_finalize(c->statement[i]); /* the errors of past runs, already told */
    CHECK(sqlite3_close(c->db) == SQLITE_OK);
    mem_free((void *)(uintptr_t)c->path);
    mem_free(c);
}
