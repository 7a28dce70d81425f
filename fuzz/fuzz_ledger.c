/* Ledgers, byte by byte. First byte: 0, the rest is a file; else the rest is changes of a good ledger, six bytes
 * each: where (2) and what (4). Rows are read, a run is taken, curves and coordinates of all runs are read. */
#include "fuzz_ledger.h"

#include <string.h>

static void read_all(ledger *l)
{
    ledger_run *runs = NULL, run;
    int64_t count = 0, n;
    bool found, lost;
    scion_error err = {0};
    if (ledger_runs(l, &runs, &count, &err) != SCION_OK)
        fuzz_require_sentence(&err);
    for (int64_t i = 0; i < count && i < 16; i++) {
        run_curves curves;
        ledger_coord *coords = NULL;
        fuzz_require(runs[i].result.state >= 0 && runs[i].result.state < RUN_STATES);
        if (ledger_curves(l, runs[i].id, &curves, &err) != SCION_OK)
            fuzz_require_sentence(&err);
        run_curves_free(&curves);
        if (ledger_coords(l, runs[i].id, &coords, &n, &err) != SCION_OK)
            fuzz_require_sentence(&err);
        free(coords);
    }
    if (ledger_take(l, &run, &found, &err) != SCION_OK)
        fuzz_require_sentence(&err);
    else if (found && ledger_heartbeat(l, &run, &lost, &err) == SCION_OK && !lost &&
             ledger_put_back(l, &run, &err) != SCION_OK)
        fuzz_require_sentence(&err);
    if (count > 0 && ledger_find(l, LEDGER_TRAINING, &runs[0].c, &run, &found, &err) != SCION_OK)
        fuzz_require_sentence(&err);
    free(runs);
}

static uint8_t *changed(fuzz_input *in, size_t *size)
{
    const uint8_t *good = fuzz_ledger_good(size);
    uint8_t *bytes = malloc(*size);
    fuzz_require(bytes);
    memcpy(bytes, good, *size);
    while (in->left > 0) {
        const size_t low = fuzz_byte(in), at = low + 256 * (size_t)fuzz_byte(in);
        for (size_t k = 0; k < 4 && at + k < *size && in->left > 0; k++)
            bytes[at + k] = fuzz_byte(in);
    }
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    ledger *l;
    scion_error err = {0};
    if (fuzz_byte(&in) == 0) {
        fuzz_ledger_set(in.at, in.left);
    } else {
        size_t bytes;
        uint8_t *ledger_bytes = changed(&in, &bytes);
        fuzz_ledger_set(ledger_bytes, bytes);
        free(ledger_bytes);
    }
    if (ledger_open(&l, "/dev/null", false, &err) == SCION_OK)
        read_all(l);
    else
        fuzz_require_sentence(&err);
    ledger_close(l);
    return 0;
}
