/* The ends of runs and their curves. See ledger.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "sweep/ledger_parts.h"

/* Removes what the tables of curves have of a run: a second attempt replaces the first. */
static scion_status clear(ledger *l, int64_t run, scion_error *err)
{
    static const char *const tables[] = {"points", "norms", "coords"};
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < 3; i++) {
        char sql[64];
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE run = ?", tables[i]);
        sqlite3_stmt *s = ledger_prepare(l, sql);
        sqlite3_bind_int64(s, 1, run);
        status = ledger_step(l, s, err);
    }
    return status;
}

/* Adds rows to a table of curves; the first column is the run, `bind` fills in the others from an element. */
static scion_status add_rows(ledger *l, const char *sql, int64_t run, const void *rows, int64_t count, size_t bytes,
                             void (*bind)(sqlite3_stmt *s, const void *row), scion_error *err)
{
    sqlite3_stmt *s = ledger_prepare(l, sql);
    scion_status status = s ? SCION_OK : ledger_broken(l, err);
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        sqlite3_bind_int64(s, 1, run);
        bind(s, (const char *)rows + (size_t)i * bytes);
        if (sqlite3_step(s) != SQLITE_DONE)
            status = ledger_broken(l, err);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return status;
}

static void bind_point(sqlite3_stmt *s, const void *row)
{
    const ledger_point *p = row;
    sqlite3_bind_int64(s, 2, p->step);
    ledger_bind_real(s, 3, p->loss);
    ledger_bind_real(s, 4, p->lr);
    ledger_bind_real(s, 5, p->val_loss);
    ledger_bind_real(s, 6, p->accuracy);
}

static void bind_norm(sqlite3_stmt *s, const void *row)
{
    const ledger_norm *n = row;
    sqlite3_bind_int64(s, 2, n->step);
    sqlite3_bind_text(s, 3, n->name, -1, SQLITE_TRANSIENT);
    ledger_bind_real(s, 4, n->norm);
    ledger_bind_real(s, 5, n->bound);
}

static void bind_coord(sqlite3_stmt *s, const void *row)
{
    const ledger_coord *c = row;
    sqlite3_bind_int64(s, 2, c->step);
    sqlite3_bind_int64(s, 3, c->place);
    sqlite3_bind_text(s, 4, c->name, -1, SQLITE_TRANSIENT);
    ledger_bind_real(s, 5, c->rms);
}

scion_status ledger_finish(ledger *l, const ledger_run *run, const ledger_point *points, int64_t point_count,
                           const ledger_norm *norms, int64_t norm_count, bool *lost, scion_error *err)
{
    scion_status status = ledger_execute(l, "BEGIN IMMEDIATE", err);
    *lost = false;
    if (status != SCION_OK)
        return status;
    status = ledger_write_run(l, run, true, lost, err);
    if (status == SCION_OK && !*lost) {
        status = clear(l, run->id, err);
        if (status == SCION_OK)
            status = add_rows(l, "INSERT INTO points VALUES (?, ?, ?, ?, ?, ?)", run->id, points, point_count,
                              sizeof *points, bind_point, err);
        if (status == SCION_OK)
            status = add_rows(l, "INSERT INTO norms VALUES (?, ?, ?, ?, ?)", run->id, norms, norm_count,
                              sizeof *norms, bind_norm, err);
    }
    return ledger_end(l, status, err);
}

scion_status ledger_put_coords(ledger *l, const ledger_run *run, const ledger_coord *coords, int64_t count,
                               scion_error *err)
{
    ledger_run stored;
    bool added, found, lost;
    scion_status status = ledger_execute(l, "BEGIN IMMEDIATE", err);
    if (status != SCION_OK)
        return status;
    status = ledger_insert(l, LEDGER_COORD, &run->c, LEDGER_DONE, &added, err);
    if (status == SCION_OK)
        status = ledger_find(l, LEDGER_COORD, &run->c, &stored, &found, err);
    if (status == SCION_OK) {
        stored.state = LEDGER_DONE;
        stored.result = run->result;
        status = ledger_write_run(l, &stored, false, &lost, err);
    }
    if (status == SCION_OK)
        status = clear(l, stored.id, err);
    if (status == SCION_OK)
        status = add_rows(l, "INSERT INTO coords VALUES (?, ?, ?, ?, ?)", stored.id, coords, count, sizeof *coords,
                          bind_coord, err);
    return ledger_end(l, status, err);
}

/* Reads the rows of a run into an array that grows; `read` fills in one element. */
static scion_status read_rows(ledger *l, const char *sql, int64_t run, size_t bytes,
                              void (*read)(sqlite3_stmt *s, void *row), void **rows, int64_t *count, scion_error *err)
{
    sqlite3_stmt *s = ledger_prepare(l, sql);
    scion_status status = s ? SCION_OK : ledger_broken(l, err);
    int code = SQLITE_DONE;
    *rows = NULL;
    *count = 0;
    sqlite3_bind_int64(s, 1, run);
    while (status == SCION_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
        if ((*count & (*count - 1)) == 0) {
            void *larger = realloc(*rows, (size_t)(*count ? 2 * *count : 1) * bytes);
            if (!larger)
                status = train_fail(err, SCION_ENOMEM, "out of memory for the curves of a run");
            else
                *rows = larger;
        }
        if (status == SCION_OK)
            read(s, (char *)*rows + (size_t)(*count)++ * bytes);
    }
    if (status == SCION_OK && code != SQLITE_DONE)
        status = ledger_broken(l, err);
    sqlite3_finalize(s);
    if (status != SCION_OK) {
        free(*rows);
        *rows = NULL;
        *count = 0;
    }
    return status;
}

static void read_point(sqlite3_stmt *s, void *row)
{
    *(ledger_point *)row =
        (ledger_point){sqlite3_column_int64(s, 0), ledger_column_real(s, 1), ledger_column_real(s, 2),
                       ledger_column_real(s, 3), ledger_column_real(s, 4)};
}

static void read_norm(sqlite3_stmt *s, void *row)
{
    ledger_norm *n = row;
    n->step = sqlite3_column_int64(s, 0);
    ledger_column_text(s, 1, n->name, sizeof n->name);
    n->norm = ledger_column_real(s, 2);
    n->bound = ledger_column_real(s, 3);
}

static void read_coord(sqlite3_stmt *s, void *row)
{
    ledger_coord *c = row;
    c->step = sqlite3_column_int64(s, 0);
    c->place = sqlite3_column_int64(s, 1);
    ledger_column_text(s, 2, c->name, sizeof c->name);
    c->rms = ledger_column_real(s, 3);
}

scion_status ledger_points(ledger *l, int64_t run, ledger_point **points, int64_t *count, scion_error *err)
{
    void *rows;
    scion_status status =
        read_rows(l, "SELECT step, loss, lr, val_loss, accuracy FROM points WHERE run = ? ORDER BY step, rowid", run,
                  sizeof **points, read_point, &rows, count, err);
    *points = rows;
    return status;
}

scion_status ledger_norms(ledger *l, int64_t run, ledger_norm **norms, int64_t *count, scion_error *err)
{
    void *rows;
    scion_status status = read_rows(l, "SELECT step, name, norm, bound FROM norms WHERE run = ? ORDER BY step, rowid",
                                    run, sizeof **norms, read_norm, &rows, count, err);
    *norms = rows;
    return status;
}

scion_status ledger_coords(ledger *l, int64_t run, ledger_coord **coords, int64_t *count, scion_error *err)
{
    void *rows;
    scion_status status = read_rows(l, "SELECT step, place, name, rms FROM coords WHERE run = ? ORDER BY step, place",
                                    run, sizeof **coords, read_coord, &rows, count, err);
    *coords = rows;
    return status;
}
