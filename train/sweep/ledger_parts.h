/* What the files of the ledger share. */
#ifndef TRAIN_SWEEP_LEDGER_PARTS_H
#define TRAIN_SWEEP_LEDGER_PARTS_H

#include <sqlite3.h>

#include "sweep/ledger.h"
#include "sweep/worker.h"

struct ledger {
    sqlite3 *db;
    char path[CONFIG_TEXT];
    char worker[WORKER_TEXT];
};

/* The error that SQLite met last. */
scion_status ledger_broken(const ledger *l, scion_error *err);

/* SQL without rows; ledger_end ends a transaction by what became of it. */
scion_status ledger_execute(ledger *l, const char *sql, scion_error *err);
scion_status ledger_end(ledger *l, scion_status status, scion_error *err);

/* NULL: it failed, and ledger_broken tells. Binding to NULL is harmless, and ledger_step tells then. */
sqlite3_stmt *ledger_prepare(ledger *l, const char *sql);
/* Runs a statement that gives no row, and frees it. */
scion_status ledger_step(ledger *l, sqlite3_stmt *s, scion_error *err);

/* NAN is NULL in the file. */
void ledger_bind_real(sqlite3_stmt *s, int i, double value);
double ledger_column_real(sqlite3_stmt *s, int i);
void ledger_column_text(sqlite3_stmt *s, int i, char *to, size_t bytes);

/* A run that is in no table yet, or the one that is there; *id. */
scion_status ledger_insert(ledger *l, ledger_kind kind, const config *c, ledger_state state, bool *added,
                           scion_error *err);
/* Writes state and result; held: only if this worker holds it, else *lost. */
scion_status ledger_write_run(ledger *l, const ledger_run *run, bool held, bool *lost, scion_error *err);

#endif
