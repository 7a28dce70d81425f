/* What the tests of ledgers share: new ledgers with runs in them, and SQL behind their back. */
#ifndef TESTS_TRAIN_LEDGER_CASES_H
#define TESTS_TRAIN_LEDGER_CASES_H

#include "scratch.h"
#include "tiny.h"

#include <sqlite3.h>

#include "sweep/ledger.h"

static inline ledger *open_new(const char *path)
{
    ledger *l = NULL;
    scion_error err;
    unlink(path);
    check_ok(ledger_open(&l, path, true, &err), &err);
    return l;
}

static inline config with_lr(double lr)
{
    config c = tiny(TINY_MLP);
    c.training.lr = lr;
    return c;
}

/* `count` runs that differ in their seed. */
static inline void add_runs(ledger *l, int count)
{
    config *points = room((size_t)count * sizeof *points);
    int64_t added;
    scion_error err;
    for (int i = 0; i < count; i++) {
        points[i] = with_lr(0.5);
        points[i].training.seed = (uint64_t)i + 1;
    }
    check_ok(ledger_add(l, LEDGER_TRAINING, points, count, &added, &err), &err);
    check(added == count);
}

/* id of the run that was taken, 0: none waits. */
static inline int64_t take(ledger *l, ledger_run *run)
{
    bool found;
    scion_error err;
    check_ok(ledger_take(l, run, &found, &err), &err);
    return found ? run->id : 0;
}

/* SQL behind the ledger's back; returns the first number of the result. */
static inline double sql(const char *path, const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    double value = NAN;
    check(sqlite3_open(path, &db) == SQLITE_OK);
    at("%s", text);
    check(sqlite3_prepare_v2(db, text, -1, &s, NULL) == SQLITE_OK);
    const int code = sqlite3_step(s);
    check(code == SQLITE_ROW || code == SQLITE_DONE);
    if (code == SQLITE_ROW)
        value = sqlite3_column_double(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return value;
}

static inline ledger_run find(ledger *l, ledger_kind kind, const config *c)
{
    ledger_run run;
    bool found;
    scion_error err;
    check_ok(ledger_find(l, kind, c, &run, &found, &err), &err);
    check(found);
    return run;
}

#endif
