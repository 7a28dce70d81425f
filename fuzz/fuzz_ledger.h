/* Ledgers in memory: SQLite's own file system for that, "memdb", in the place of the machine's. */
#ifndef FUZZ_FUZZ_LEDGER_H
#define FUZZ_FUZZ_LEDGER_H

#include "fuzz.h"
#include "sweep/ledger.h"

/* The path of the ledger in memory, now with these bytes. */
const char *fuzz_ledger_set(const void *bytes, size_t size);
/* The bytes of a small good ledger: runs of every state, curves, norms, coordinates. */
const uint8_t *fuzz_ledger_good(size_t *size);

#endif
