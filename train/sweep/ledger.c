/* See ledger.h. Each table has columns of its own and those of the metrics it holds (metric_rows.c); statements are
 * made from both. Columns that the file of an older version lacks are read as NULL, and added before the first write.
 * SQLite's own locks keep processes apart: whatever reads and then writes is one immediate transaction. */
#include "sweep/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>
#include <xxhash.h>

#include "config/config.h"
#include "util/array.h"
#include "util/fail.h"
#include "util/path.h"
#include "util/utf8.h"
#include "sweep/grid.h"
#include "sweep/worker.h"

enum {
    application = 0x5363696f, /* marks the file: "Scio" */
    version = 2,              /* 1: the ledgers of 0.2, with fewer columns */
    wait_ms = 60000,
    pulse = 10000,       /* instructions of SQLite's machine between two calls of count_pulse */
    max_pulses = 10000,  /* per statement: a second; a million rows take a tenth of that */
    max_value = 1 << 24, /* bytes: configurations have a few thousand */
    max_attempts = 3,    /* a run whose processes died that often is itself at fault */
    SQL_TEXT = 4096
};

struct ledger {
    sqlite3 *db;
    char path[CONFIG_TEXT];
    char worker[WORKER_TEXT];
    bool complete;   /* all columns are known to be there */
    bool identified; /* the hashes are known to follow the present rules */
    bool limited;    /* to the runs in the table temp.wanted */
    int64_t pulses;  /* since the last statement began */
};

/* ---- Tables ---- */

/* The tables without their metrics, whose columns are added one by one. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);"
    "CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL,"
    " state TEXT NOT NULL, config TEXT NOT NULL, worker TEXT, beat REAL, attempts INTEGER NOT NULL DEFAULT 0,"
    " message TEXT);"
    "CREATE TABLE IF NOT EXISTS points (run INTEGER NOT NULL, step INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS norms (run INTEGER NOT NULL, step INTEGER NOT NULL, name TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS coords (run INTEGER NOT NULL, step INTEGER NOT NULL, place INTEGER NOT NULL,"
    " name TEXT NOT NULL, rms REAL, change REAL);"
    "CREATE INDEX IF NOT EXISTS runs_by_state ON runs (state);"
    "CREATE INDEX IF NOT EXISTS points_by_run ON points (run);"
    "CREATE INDEX IF NOT EXISTS norms_by_run ON norms (run);"
    "CREATE INDEX IF NOT EXISTS coords_by_run ON coords (run);";

/* A table as it is read and written: the columns `first`, then the metrics. Rows of a curve begin with run and step;
 * elements of its array begin with the step. */
typedef struct ledger_table {
    const char *name, *first;
    const run_metric *metrics;
    size_t bytes, name_at; /* of an element; of its name, where `first` has one, else 0 */
    const char *order;     /* of the rows of a run */
} ledger_table;

static const run_metric coord_metrics[] = {
    {.key = "place", .type = METRIC_INT, .offset = offsetof(ledger_coord, place)},
    {.key = "rms", .type = METRIC_REAL, .offset = offsetof(ledger_coord, rms)},
    {.key = "change", .type = METRIC_REAL, .offset = offsetof(ledger_coord, change)},
    {.key = NULL},
};
static const ledger_table runs_table = {
    "runs", "id, kind, state, attempts, message, config", run_result_metrics, 0, 0, ""};
static const ledger_table points_table = {"points", "run, step", run_point_metrics, sizeof(run_point), 0, "rowid"};
static const ledger_table norms_table = {"norms",          "run, step, name",        run_norm_metrics,
                                         sizeof(run_norm), offsetof(run_norm, name), "rowid"};
static const ledger_table coords_table = {
    "coords", "run, step, name", coord_metrics, sizeof(ledger_coord), offsetof(ledger_coord, name), "place"};

/* Appends to a statement. */
#define ADD_SQL(sql, ...) utf8_append(sql, SQL_TEXT, __VA_ARGS__)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static scion_status broken(const ledger *l, scion_error *err)
{
    const int code = sqlite3_errcode(l->db);
    struct rlimit file;
    const char *why = sqlite3_errmsg(l->db);
    if (code == SQLITE_INTERRUPT)
        why = " is damaged, or no ledger of sweeps: reading it does not come to an end";
    else if (code == SQLITE_IOERR && getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur != RLIM_INFINITY)
        why = "cannot be read or written; files may not grow beyond ulimit -f";
    else if (code == SQLITE_NOTADB)
        why = " is not a ledger of sweeps";
    else if (code == SQLITE_READONLY)
        why = " cannot be written";
    else if (code == SQLITE_FULL)
        why = "the disk is full";
    return train_fail(err, SCION_EINVAL, "%s%s%.120s", path_end(l->path), why[0] == ' ' ? "" : ": ", why);
}

static scion_status execute(ledger *l, const char *sql, scion_error *err)
{
    l->pulses = 0;
    return sqlite3_exec(l->db, sql, NULL, NULL, NULL) == SQLITE_OK ? SCION_OK : broken(l, err);
}

/* Ends a transaction: commits, or rolls back after a failure, also that of its beginning. */
static scion_status end(ledger *l, scion_status status, scion_error *err)
{
    if (status == SCION_OK)
        status = execute(l, "COMMIT", err);
    if (status != SCION_OK)
        sqlite3_exec(l->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static void bind_real(sqlite3_stmt *s, int i, double value)
{
    if (isnan(value))
        sqlite3_bind_null(s, i);
    else
        sqlite3_bind_double(s, i, value);
}

/* Makes a statement with values for its parameters, by their types: i int64_t, r double, t text. NULL: failed. */
static sqlite3_stmt *query(ledger *l, const char *sql, const char *types, ...)
{
    sqlite3_stmt *s = NULL;
    va_list values;
    l->pulses = 0;
    if (sqlite3_prepare_v2(l->db, sql, -1, &s, NULL) != SQLITE_OK)
        return NULL;
    va_start(values, types);
    for (int i = 1; *types; types++, i++)
        if (*types == 'i')
            sqlite3_bind_int64(s, i, va_arg(values, int64_t));
        else if (*types == 'r')
            bind_real(s, i, va_arg(values, double));
        else
            sqlite3_bind_text(s, i, va_arg(values, const char *), -1, SQLITE_TRANSIENT);
    va_end(values);
    return s;
}

/* Runs a statement that gives no row. */
static scion_status step(ledger *l, sqlite3_stmt *s, scion_error *err)
{
    const scion_status status = s && sqlite3_step(s) == SQLITE_DONE ? SCION_OK : broken(l, err);
    sqlite3_finalize(s);
    return status;
}

/* Moves to the next row; false: there is none, or *status is not OK. */
static bool next_row(ledger *l, sqlite3_stmt *s, scion_status *status, scion_error *err)
{
    if (*status != SCION_OK)
        return false;
    const int code = s ? sqlite3_step(s) : SQLITE_ERROR;
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        *status = broken(l, err);
    return code == SQLITE_ROW;
}

/* The number that a statement gives; *found false: it gives no row. */
static int64_t number(sqlite3_stmt *s, bool *found)
{
    *found = s && sqlite3_step(s) == SQLITE_ROW;
    const int64_t value = *found ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return value;
}

static double column_real(sqlite3_stmt *s, int i)
{
    return sqlite3_column_type(s, i) == SQLITE_NULL ? NAN : sqlite3_column_double(s, i);
}

/* Texts of the file, which may be foreign, are printed: only printable characters stay. */
static void column_text(sqlite3_stmt *s, int i, char *to, size_t bytes)
{
    const char *text = (const char *)sqlite3_column_text(s, i);
    snprintf(to, bytes, "%s", text ? text : "");
    utf8_make_printable(to);
}

/* Binds the metrics of a table from parameter `first` on. */
static void bind_metrics(sqlite3_stmt *s, int first, const run_metric *rows, const void *of)
{
    for (const run_metric *m = rows; m->key; m++, first++) {
        const void *from = metric_in(m, of);
        char hash[17];
        if (m->type == METRIC_INT) {
            sqlite3_bind_int64(s, first, *(const int64_t *)from);
        } else if (m->type == METRIC_HASH) {
            snprintf(hash, sizeof hash, "%016" PRIx64, *(const uint64_t *)from);
            sqlite3_bind_text(s, first, hash, -1, SQLITE_TRANSIENT);
        } else {
            bind_real(s, first, *(const double *)from);
        }
    }
}

static void column_metrics(sqlite3_stmt *s, int first, const run_metric *rows, void *of)
{
    for (const run_metric *m = rows; m->key; m++, first++) {
        void *to = metric_in(m, of);
        const char *text = m->type == METRIC_HASH ? (const char *)sqlite3_column_text(s, first) : NULL;
        if (m->type == METRIC_INT)
            *(int64_t *)to = sqlite3_column_int64(s, first);
        else if (m->type == METRIC_HASH)
            *(uint64_t *)to = text ? strtoull(text, NULL, 16) : 0;
        else
            *(double *)to = column_real(s, first);
    }
}

/* True if a table of the file has a column. */
static bool has_column(ledger *l, const ledger_table *t, const char *name)
{
    char sql[SQL_TEXT] = "";
    ADD_SQL(sql, "SELECT %s FROM %s LIMIT 0", name, t->name);
    sqlite3_stmt *s = query(l, sql, "");
    sqlite3_finalize(s);
    return s != NULL;
}

/* "SELECT first, metrics ... FROM table ", with NULL for metrics that the file does not have. */
static void select_from(ledger *l, const ledger_table *t, char sql[SQL_TEXT])
{
    sql[0] = '\0';
    ADD_SQL(sql, "SELECT %s", t->first);
    for (const run_metric *m = t->metrics; m->key; m++)
        ADD_SQL(sql, ", %s", l->complete || has_column(l, t, metric_column(m)) ? metric_column(m) : "NULL");
    ADD_SQL(sql, " FROM %s ", t->name);
}

/* Makes the tables, or adds the columns that they lack, inside a transaction. */
static scion_status make_tables(ledger *l, scion_error *err)
{
    static const ledger_table *const tables[] = {&runs_table, &points_table, &norms_table};
    char mark[SQL_TEXT] = "";
    bool read;
    scion_status status = execute(l, schema, err);
    ADD_SQL(mark, "PRAGMA application_id = %d; PRAGMA user_version = %d", application, version);
    for (int i = 0; i < 3; i++)
        for (const run_metric *m = tables[i]->metrics; status == SCION_OK && m->key; m++) {
            char sql[SQL_TEXT] = "";
            ADD_SQL(sql, "ALTER TABLE %s ADD COLUMN %s %s", tables[i]->name, metric_column(m),
                    m->type == METRIC_INT    ? "INTEGER"
                    : m->type == METRIC_HASH ? "TEXT"
                                             : "REAL");
            if (!has_column(l, tables[i], metric_column(m)))
                status = execute(l, sql, err);
        }
    if (status == SCION_OK && number(query(l, "PRAGMA user_version", ""), &read) != version) /* not without need */
        status = execute(l, mark, err);
    return status;
}

/* Begins a transaction that writes; before the first one, adds the columns that an older file lacks. */
static scion_status begin(ledger *l, scion_error *err)
{
    scion_status status = SCION_OK;
    if (!l->complete) {
        TRY(execute(l, "BEGIN IMMEDIATE", err));
        TRY(end(l, make_tables(l, err), err));
        l->complete = true;
    }
    status = execute(l, "BEGIN IMMEDIATE", err);
done:
    return status;
}

static int count_pulse(void *ctx)
{
    ledger *l = ctx;
    return ++l->pulses > max_pulses;
}

/* Protects against foreign files. Views and triggers do not run: ledgers have none, and a view may have endless rows.
 * So may a tree of pages that points into itself, hence the limit on each statement. Functions with side effects are
 * not called, and the schema cannot be edited directly. */
static void distrust(ledger *l)
{
    sqlite3 *db = l->db;
    sqlite3_progress_handler(db, pulse, count_pulse, l);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, max_value);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
}

/* Makes the tables in an empty file, if `create`; refuses files that are no ledger. */
static scion_status identify(ledger *l, bool create, scion_error *err)
{
    bool read;
    scion_status status = create ? execute(l, "BEGIN IMMEDIATE", err) : SCION_OK;
    if (status != SCION_OK)
        return status;
    const int64_t mark = number(query(l, "PRAGMA application_id", ""), &read),
                  made = read ? number(query(l, "PRAGMA user_version", ""), &read) : 0;
    if (!read)
        status = broken(l, err);
    else if (create && mark == 0 && number(query(l, "PRAGMA schema_version", ""), &read) == 0)
        status = make_tables(l, err);
    else if (mark != application)
        status = train_fail(err, SCION_EINVAL, "%s is not a ledger of sweeps", path_end(l->path));
    else if (made < 1 || made > version)
        status = train_fail(err, SCION_EINVAL, "%s is a ledger of version %lld, this program knows versions up to %d",
                            path_end(l->path), (long long)made, version);
    return create ? end(l, status, err) : status;
}

/* Reason why a file could not be opened for writing. SQLite then tried to read it, so errno is of no use. */
static const char *why_not(const char *path)
{
    char folder[CONFIG_TEXT + 2];
    const char *slash = strrchr(path, '/');
    const int length = slash ? (int)(slash - path) + 1 : 0;
    struct stat about;
    if (stat(path, &about) == 0)
        return S_ISDIR(about.st_mode)           ? strerror(EISDIR)
               : access(path, R_OK | W_OK) != 0 ? strerror(errno)
                                                : "it is no file";
    snprintf(folder, sizeof folder, "%.*s.", length < CONFIG_TEXT ? length : 0, path);
    return access(folder, W_OK | X_OK) != 0 ? strerror(errno) : "its folder takes no new files";
}

scion_status ledger_open(ledger **out, const char *path, bool create, scion_error *err)
{
    ledger *l = calloc(1, sizeof *l);
    scion_status status = SCION_OK;
    *out = NULL;
    if (!l)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    snprintf(l->path, sizeof l->path, "%s", path);
    worker_name(l->worker);
    errno = 0;
    if (!create && access(path, F_OK) != 0)
        TRY(train_fail(err, SCION_EINVAL, "%s: %s", path_end(path), strerror(errno)));
    if (sqlite3_open_v2(path, &l->db, SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0), NULL) != SQLITE_OK)
        TRY(train_fail(err, SCION_EINVAL, "%s cannot be %s: %s", path_end(path), create ? "made or written" : "read",
                       why_not(path)));
    sqlite3_busy_timeout(l->db, wait_ms);
    distrust(l);
    status = identify(l, create, err);
done:
    *out = status == SCION_OK ? l : NULL;
    if (status != SCION_OK)
        ledger_close(l);
    return status;
}

void ledger_close(ledger *l)
{
    if (!l)
        return;
    sqlite3_close(l->db);
    free(l);
}

/* ---- Identity ------------------------------------------------------------------------------------------------
 *
 * A run is identified by a hash of the options that decide what it computes (config_identity). The hash is in the
 * file only so that SQLite can look for it: it is computed anew from the stored configurations when the rules of
 * config_identity are not those that wrote it. */

static void add_line(void *ctx, const char *line, size_t length)
{
    XXH3_128bits_update(ctx, line, length);
}

/* Adds the rules of config_identity: the options, their origins, and which are neutral. */
static void add_rules(XXH3_state_t *state)
{
    const config_option *o;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        char line[2 * CONFIG_TEXT];
        const int length =
            snprintf(line, sizeof line, "%s %s %d\n", o->key, o->origin ? o->origin : o->initial, o->neutral);
        add_line(state, line, (size_t)length);
    }
}

/* Hashes everything that decides what a run computes, to 128 bits; c NULL: hashes the rules of identity. */
static scion_status hash_of(ledger_kind kind, const config *c, char hash[33], scion_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    XXH3_128bits_reset(state);
    if (c) {
        XXH3_128bits_update(state, &kind, sizeof kind);
        config_identity(c, add_line, state);
    } else {
        add_rules(state);
    }
    const XXH128_hash_t h = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(hash, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    return SCION_OK;
}

/* Sets the hash of a run. If runs turn out to be the same, the most finished one keeps it; a waiting one is removed,
 * and finished duplicates keep an unused hash. */
static scion_status set_hash(ledger *l, int64_t id, const char *hash, bool waits, scion_error *err)
{
    bool taken;
    number(query(l, "SELECT 1 FROM runs WHERE hash = ?", "t", hash), &taken);
    if (taken && waits)
        return step(l, query(l, "DELETE FROM runs WHERE id = ?", "i", id), err);
    return step(l,
                query(l,
                      taken ? "UPDATE runs SET hash = ?1 || ' again ' || ?2 WHERE id = ?2"
                            : "UPDATE runs SET hash = ?1 WHERE id = ?2",
                      "ti", hash, id),
                err);
}

/* Computes the hashes of all runs from their configurations, the most finished first. A configuration that this
 * program cannot read keeps its hash. */
static scion_status rehash(ledger *l, scion_error *err)
{
    scion_status status = execute(l, "UPDATE runs SET hash = 'old ' || id || ' ' || hash", err);
    sqlite3_stmt *s = query(l,
                            "SELECT id, kind, config, state = 'waiting', "
                            "substr(hash, length('old ' || id || ' ') + 1) FROM runs ORDER BY CASE state "
                            "WHEN 'done' THEN 0 WHEN 'diverged' THEN 1 WHEN 'running' THEN 2 WHEN 'failed' THEN 3 "
                            "ELSE 4 END, id",
                            "");
    while (next_row(l, s, &status, err)) {
        const char *json = (const char *)sqlite3_column_text(s, 2);
        config c;
        char hash[64];
        config_init(&c);
        column_text(s, 4, hash, sizeof hash);
        if (json && config_from_json(&c, json, NULL) == SCION_OK)
            status = hash_of((ledger_kind)sqlite3_column_int(s, 1), &c, hash, err);
        if (status == SCION_OK)
            status = set_hash(l, sqlite3_column_int64(s, 0), hash, sqlite3_column_int(s, 3), err);
    }
    sqlite3_finalize(s);
    return status;
}

/* Updates the hashes, inside a transaction, before a run is looked for by its hash. */
static scion_status check_identities(ledger *l, scion_error *err)
{
    char rules[33];
    bool same = l->identified;
    scion_status status = SCION_OK;
    if (same)
        return SCION_OK;
    TRY(hash_of(LEDGER_TRAINING, NULL, rules, err));
    number(query(l, "SELECT 1 FROM meta WHERE key = 'identity' AND value = ?", "t", rules), &same);
    l->identified = same;
    if (same)
        return SCION_OK;
    TRY(rehash(l, err));
    status = step(l, query(l, "INSERT OR REPLACE INTO meta (key, value) VALUES ('identity', ?)", "t", rules), err);
done:
    return status;
}

/* ---- Runs --------------------------------------------------------------------------------------------------- */

static scion_status insert(ledger *l, ledger_kind kind, const config *c, run_state state, int64_t *added,
                           scion_error *err)
{
    char hash[33], *json = NULL;
    scion_status status = SCION_OK;
    TRY(hash_of(kind, c, hash, err));
    json = config_to_json(c);
    if (!json)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory"));
    TRY(step(l,
             query(l, "INSERT OR IGNORE INTO runs (hash, kind, state, config) VALUES (?, ?, ?, ?)", "titt", hash,
                   (int64_t)kind, run_state_name(state), json),
             err));
    *added += sqlite3_changes(l->db) > 0;
done:
    free(json);
    return status;
}

scion_status ledger_add(ledger *l, ledger_kind kind, const config *points, int64_t count, int64_t *added,
                        scion_error *err)
{
    int64_t fresh = 0;
    scion_status status = SCION_OK;
    TRY(begin(l, err));
    TRY(check_identities(l, err));
    for (int64_t i = 0; i < count; i++)
        TRY(insert(l, kind, &points[i], RUN_WAITING, &fresh, err));
done:
    if (added)
        *added = fresh;
    return end(l, status, err);
}

/* Reads a run without its configuration. */
static void read_result(sqlite3_stmt *s, ledger_run *run)
{
    const char *state = (const char *)sqlite3_column_text(s, 2);
    run->result = run_result_empty();
    run->result.state = RUN_WAITING;
    for (int i = 0; i < RUN_STATES; i++)
        if (state && strcmp(state, run_state_name((run_state)i)) == 0)
            run->result.state = (run_state)i;
    run->attempts = sqlite3_column_int(s, 3);
    column_text(s, 4, run->result.message, sizeof run->result.message);
    column_metrics(s, 6, run_result_metrics, &run->result);
}

static scion_status read_run(ledger *l, sqlite3_stmt *s, ledger_run *run, scion_error *err)
{
    const char *json = (const char *)sqlite3_column_text(s, 5);
    memset(run, 0, sizeof *run);
    run->id = sqlite3_column_int64(s, 0);
    run->kind = (ledger_kind)sqlite3_column_int(s, 1);
    read_result(s, run);
    scion_error wrong;
    config_init(&run->c);
    if (!json)
        return train_fail(err, SCION_EINVAL, "%s: run %lld: it has no configuration", path_end(l->path),
                          (long long)run->id);
    if (config_from_json(&run->c, json, &wrong) != SCION_OK) {
        utf8_make_printable(wrong.message); /* it quotes the file */
        return train_fail(err, SCION_EINVAL, "%s: run %lld: %.150s", path_end(l->path), (long long)run->id,
                          wrong.message);
    }
    return SCION_OK;
}

/* Sets state and worker (NULL: none) of a run. */
static scion_status set_state(ledger *l, int64_t id, run_state state, const char *worker, int64_t more_attempts,
                              const char *message, scion_error *err)
{
    return step(l,
                query(l,
                      "UPDATE runs SET state = ?, worker = ?, beat = ?, attempts = attempts + ?, message = ? "
                      "WHERE id = ?",
                      "ttriti", run_state_name(state), worker, now(), more_attempts, message, id),
                err);
}

/* Puts back the runs of workers that died. */
static scion_status free_orphans(ledger *l, scion_error *err)
{
    sqlite3_stmt *s = query(l, "SELECT id, worker, beat, attempts FROM runs WHERE state = 'running'", "");
    scion_status status = SCION_OK;
    while (next_row(l, s, &status, err)) {
        char worker[WORKER_TEXT];
        column_text(s, 1, worker, sizeof worker);
        if (worker_alive(worker, now() - sqlite3_column_double(s, 2)))
            continue;
        const bool again = sqlite3_column_int(s, 3) < max_attempts;
        status = set_state(l, sqlite3_column_int64(s, 0), again ? RUN_WAITING : RUN_FAILED, NULL, 0,
                           again ? NULL : "its process died each time it was tried", err);
    }
    sqlite3_finalize(s);
    return status;
}

/* Condition for the runs that take, retry and runs are limited to. */
static const char *within(const ledger *l)
{
    return l->limited ? "id IN temp.wanted" : "1";
}

/* Reads the first run that a condition selects, whose parameter is `bound`. */
static scion_status select_one(ledger *l, const char *condition, const char *bound, ledger_run *run, bool *found,
                               scion_error *err)
{
    char sql[SQL_TEXT];
    scion_status status = SCION_OK;
    select_from(l, &runs_table, sql);
    ADD_SQL(sql, "WHERE %s AND %s ORDER BY id LIMIT 1", condition, bound ? "1" : within(l));
    sqlite3_stmt *s = query(l, sql, bound ? "t" : "", bound);
    *found = next_row(l, s, &status, err);
    if (*found)
        status = read_run(l, s, run, err);
    sqlite3_finalize(s);
    return status;
}

scion_status ledger_ids(ledger *l, ledger_kind kind, const config *points, int64_t count, int64_t *ids,
                        scion_error *err)
{
    scion_status status = SCION_OK;
    for (int64_t i = 0; i < count; i++) {
        ledger_run run;
        bool found;
        TRY(ledger_find(l, kind, &points[i], &run, &found, err));
        if (!found)
            TRY(train_fail(err, SCION_EINVAL, "%s: a run of this command has been removed", path_end(l->path)));
        ids[i] = run.id;
    }
    qsort(ids, (size_t)count, sizeof *ids, array_ascending_int);
done:
    return status;
}

scion_status ledger_only(ledger *l, const int64_t *ids, int64_t count, scion_error *err)
{
    static const char clear_ids[] =
        "BEGIN; CREATE TEMP TABLE IF NOT EXISTS wanted (id INTEGER PRIMARY KEY); DELETE FROM temp.wanted";
    scion_status status = execute(l, clear_ids, err);
    sqlite3_stmt *s = status == SCION_OK ? query(l, "INSERT OR IGNORE INTO temp.wanted VALUES (?)", "") : NULL;
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        sqlite3_bind_int64(s, 1, ids[i]);
        next_row(l, s, &status, err);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    status = end(l, status, err);
    l->limited = status == SCION_OK && ids;
    return status;
}

/* Training runs that wait outside the limit. */
#define OTHERS "FROM runs WHERE state = 'waiting' AND kind = 0 AND id NOT IN temp.wanted"

scion_status ledger_others(ledger *l, int64_t *count, scion_error *err)
{
    bool read;
    *count = number(query(l, l->limited ? "SELECT count(*) " OTHERS : "SELECT 0", ""), &read);
    return read ? SCION_OK : broken(l, err);
}

scion_status ledger_drop(ledger *l, int64_t *count, scion_error *err)
{
    scion_status status = SCION_OK;
    *count = 0;
    TRY(begin(l, err));
    TRY(free_orphans(l, err));
    TRY(execute(l, l->limited ? "DELETE " OTHERS : "DELETE FROM runs WHERE state = 'waiting' AND kind = 0", err));
    *count = sqlite3_changes(l->db);
done:
    return end(l, status, err);
}

scion_status ledger_take(ledger *l, ledger_run *run, bool *found, scion_error *err)
{
    scion_status status = SCION_OK;
    *found = false;
    TRY(begin(l, err));
    TRY(free_orphans(l, err));
    TRY(select_one(l, "state = 'waiting' AND kind = 0", NULL, run, found, err));
    if (*found) {
        TRY(set_state(l, run->id, RUN_RUNNING, l->worker, 1, NULL, err));
        run->result.state = RUN_RUNNING;
        run->attempts++;
    }
done:
    return end(l, status, err);
}

/* Writes state and result; held: only if this worker still has the run. */
static scion_status write_run(ledger *l, const ledger_run *run, bool held, bool *lost, scion_error *err)
{
    char sql[SQL_TEXT] = "UPDATE runs SET beat = ?, state = ?, message = ?";
    for (const run_metric *m = run_result_metrics; m->key; m++)
        ADD_SQL(sql, ", %s = ?", metric_column(m));
    ADD_SQL(sql, " WHERE id = ?1000 AND (NOT ?1001 OR (state = 'running' AND worker = ?1002))");
    sqlite3_stmt *s = query(l, sql, "rtt", now(), run_state_name(run->result.state), run->result.message);
    bind_metrics(s, 4, run_result_metrics, &run->result);
    sqlite3_bind_int64(s, 1000, run->id);
    sqlite3_bind_int(s, 1001, held);
    sqlite3_bind_text(s, 1002, l->worker, -1, SQLITE_TRANSIENT);
    scion_status status = step(l, s, err);
    *lost = status == SCION_OK && sqlite3_changes(l->db) == 0;
    return status;
}

scion_status ledger_heartbeat(ledger *l, const ledger_run *run, bool *lost, scion_error *err)
{
    return write_run(l, run, true, lost, err);
}

scion_status ledger_put_back(ledger *l, const ledger_run *run, scion_error *err)
{
    return step(l,
                query(l,
                      "UPDATE runs SET state = 'waiting', worker = NULL, attempts = attempts - 1 "
                      "WHERE id = ? AND state = 'running' AND worker = ?",
                      "it", run->id, l->worker),
                err);
}

scion_status ledger_retry(ledger *l, bool diverged, int64_t *count, scion_error *err)
{
    char sql[SQL_TEXT] = "UPDATE runs SET state = 'waiting', worker = NULL, attempts = 0 WHERE kind = 0 AND "
                         "(state = 'failed' OR (? AND state = 'diverged')) AND ";
    ADD_SQL(sql, "%s", within(l));
    const scion_status status = step(l, query(l, sql, "i", (int64_t)diverged), err);
    *count = status == SCION_OK ? sqlite3_changes(l->db) : 0;
    return status;
}

scion_status ledger_find(ledger *l, ledger_kind kind, const config *c, ledger_run *run, bool *found, scion_error *err)
{
    char hash[33];
    scion_status status = SCION_OK;
    *found = false;
    if (!l->identified && sqlite3_get_autocommit(l->db)) { /* not inside a transaction */
        TRY(begin(l, err));
        TRY(end(l, check_identities(l, err), err));
    }
    TRY(hash_of(kind, c, hash, err));
    status = select_one(l, "hash = ?", hash, run, found, err);
done:
    return status;
}

/* Selects all runs within the limit, in the order in which they were added. */
static sqlite3_stmt *select_runs(ledger *l)
{
    char sql[SQL_TEXT];
    select_from(l, &runs_table, sql);
    ADD_SQL(sql, "WHERE %s ORDER BY id", within(l));
    return query(l, sql, "");
}

scion_status ledger_runs(ledger *l, ledger_run **runs, int64_t *count, scion_error *err)
{
    sqlite3_stmt *s = select_runs(l);
    scion_status status = SCION_OK;
    *runs = NULL;
    *count = 0;
    while (next_row(l, s, &status, err)) {
        const int64_t last = *count > 0 ? (*runs)[*count - 1].id : INT64_MIN;
        ledger_run *run = array_append(runs, count, sizeof *run);
        status = run ? read_run(l, s, run, err)
                     : train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)*count);
        if (status == SCION_OK && *count > 1 && run->id <= last) /* a tree that points into itself has no end */
            status = train_fail(err, SCION_EINVAL, "%s is damaged: its runs are not in order", path_end(l->path));
    }
    sqlite3_finalize(s);
    if (status != SCION_OK) {
        free(*runs);
        *runs = NULL;
        *count = 0;
    }
    return status;
}

scion_status ledger_refresh(ledger *l, ledger_run *runs, int64_t count, bool *same, scion_error *err)
{
    sqlite3_stmt *s = select_runs(l);
    scion_status status = SCION_OK;
    int64_t i = 0;
    *same = true;
    while (*same && next_row(l, s, &status, err)) {
        *same = i < count && runs[i].id == sqlite3_column_int64(s, 0);
        if (*same)
            read_result(s, &runs[i++]);
    }
    *same = *same && i == count;
    sqlite3_finalize(s);
    return status;
}

/* ---- The ends of runs, and their curves --------------------------------------------------------------------- */

/* Removes the curves of a run: a second attempt replaces the first. */
static scion_status clear(ledger *l, int64_t run, scion_error *err)
{
    static const char *const removals[] = {"DELETE FROM points WHERE run = ?", "DELETE FROM norms WHERE run = ?",
                                           "DELETE FROM coords WHERE run = ?"};
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < 3; i++)
        status = step(l, query(l, removals[i], "i", run), err);
    return status;
}

/* Adds the elements of an array to a table of curves. */
static scion_status add_rows(ledger *l, const ledger_table *t, int64_t run, const void *rows, int64_t count,
                             scion_error *err)
{
    char sql[SQL_TEXT] = "", values[SQL_TEXT] = "?1";
    int columns = t->name_at > 0 ? 3 : 2;
    for (int i = 2; i <= columns; i++)
        ADD_SQL(values, ", ?%d", i);
    ADD_SQL(sql, "INSERT INTO %s (%s", t->name, t->first);
    for (const run_metric *m = t->metrics; m->key; m++) {
        ADD_SQL(sql, ", %s", metric_column(m));
        ADD_SQL(values, ", ?");
    }
    ADD_SQL(sql, ") VALUES (%s)", values);
    sqlite3_stmt *s = query(l, sql, "i", run);
    scion_status status = s ? SCION_OK : broken(l, err);
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        const char *row = (const char *)rows + (size_t)i * t->bytes;
        sqlite3_bind_int64(s, 2, *(const int64_t *)(const void *)row);
        if (t->name_at > 0)
            sqlite3_bind_text(s, 3, row + t->name_at, -1, SQLITE_TRANSIENT);
        bind_metrics(s, columns + 1, t->metrics, row);
        next_row(l, s, &status, err);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return status;
}

scion_status ledger_finish(ledger *l, const ledger_run *run, const run_curves *curves, bool *lost, scion_error *err)
{
    scion_status status = SCION_OK;
    *lost = false;
    TRY(begin(l, err));
    TRY(write_run(l, run, true, lost, err));
    if (*lost)
        goto done;
    TRY(clear(l, run->id, err));
    if (!curves)
        goto done;
    TRY(add_rows(l, &points_table, run->id, curves->points, curves->point_count, err));
    TRY(add_rows(l, &norms_table, run->id, curves->norms, curves->norm_count, err));
done:
    return end(l, status, err);
}

scion_status ledger_put_coords(ledger *l, const ledger_run *run, const ledger_coord *coords, int64_t count,
                               scion_error *err)
{
    ledger_run stored;
    bool found, lost;
    int64_t added = 0;
    scion_status status = SCION_OK;
    TRY(begin(l, err));
    TRY(check_identities(l, err));
    TRY(insert(l, LEDGER_COORD, &run->c, RUN_DONE, &added, err));
    TRY(ledger_find(l, LEDGER_COORD, &run->c, &stored, &found, err));
    stored.result = run->result;
    stored.result.state = RUN_DONE;
    TRY(write_run(l, &stored, false, &lost, err));
    TRY(clear(l, stored.id, err));
    TRY(add_rows(l, &coords_table, stored.id, coords, count, err));
done:
    return end(l, status, err);
}

/* Reads the rows of a run into an array that grows. */
static scion_status read_rows(ledger *l, const ledger_table *t, int64_t run, void *rows, int64_t *count,
                              scion_error *err)
{
    char sql[SQL_TEXT];
    scion_status status = SCION_OK;
    *count = 0;
    select_from(l, t, sql);
    ADD_SQL(sql, "WHERE run = ? ORDER BY step, %s", t->order);
    sqlite3_stmt *s = query(l, sql, "i", run);
    while (next_row(l, s, &status, err)) {
        char *row = array_append(rows, count, t->bytes);
        if (!row) {
            status = train_fail(err, SCION_ENOMEM, "out of memory for the curves of a run");
            break;
        }
        memset(row, 0, t->bytes);
        *(int64_t *)(void *)row = sqlite3_column_int64(s, 1);
        if (t->name_at > 0)
            column_text(s, 2, row + t->name_at, RUN_NAME);
        column_metrics(s, t->name_at > 0 ? 3 : 2, t->metrics, row);
    }
    sqlite3_finalize(s);
    return status;
}

scion_status ledger_curves(ledger *l, int64_t run, run_curves *curves, scion_error *err)
{
    *curves = (run_curves){.points = NULL};
    const scion_status status = read_rows(l, &points_table, run, &curves->points, &curves->point_count, err);
    return status == SCION_OK ? read_rows(l, &norms_table, run, &curves->norms, &curves->norm_count, err) : status;
}

scion_status ledger_coords(ledger *l, int64_t run, ledger_coord **coords, int64_t *count, scion_error *err)
{
    *coords = NULL;
    const scion_status status = read_rows(l, &coords_table, run, coords, count, err);
    if (status != SCION_OK) {
        free(*coords);
        *coords = NULL;
        *count = 0;
    }
    return status;
}
