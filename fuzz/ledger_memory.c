/* See fuzz_ledger.h. */
#include "fuzz_ledger.h"

#include <math.h>
#include <string.h>

#include <sqlite3.h>

/* SQLite keeps the bytes under this name as long as somebody has it open, and ledger_open asks whether the path
 * exists. */
static const char path[] = "/dev/null";

static sqlite3_file *held(void)
{
    static sqlite3_file *file;
    static sqlite3 *db;
    if (!file) {
        fuzz_require(sqlite3_vfs_register(sqlite3_vfs_find("memdb"), 1) == SQLITE_OK);
        fuzz_require(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK);
        fuzz_require(sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK);
    }
    return file;
}

const char *fuzz_ledger_set(const void *bytes, size_t size)
{
    sqlite3_file *file = held();
    fuzz_require(file->pMethods->xTruncate(file, 0) == SQLITE_OK);
    if (size > 0)
        fuzz_require(file->pMethods->xWrite(file, bytes, (int)size, 0) == SQLITE_OK);
    return path;
}

static void add_curves(ledger *l, ledger_run *run, int which)
{
    scion_error err;
    run_curves curves = {.points = NULL};
    bool lost;
    for (int64_t step = 1; step <= 2; step++) {
        const run_point p = {.step = step * 10,
                             .loss = step % 2 ? 3.0 / (double)step : NAN,
                             .lr = 0.01,
                             .val_loss = step % 2 ? NAN : 2.5 + 0.1 * which,
                             .accuracy = NAN,
                             .top5 = NAN,
                             .samples_per_s = NAN,
                             .optimizer_share = NAN,
                             .seconds = NAN};
        const run_norm n = {.step = step * 10, .name = "head", .norm = 0.5, .bound = 1, .overshoot = 1};
        fuzz_require(run_curves_add_point(&curves, &p) && run_curves_add_norm(&curves, &n));
    }
    run->result.state = which == 2 ? RUN_DIVERGED : RUN_DONE;
    run->result.step = run->result.steps = 40;
    run->result.parameters = 1000;
    run->result.loss = 2.4;
    run->result.val_loss = 2.5 + 0.1 * which;
    run->result.seconds = 3;
    fuzz_require(ledger_finish(l, run, &curves, &lost, &err) == SCION_OK && !lost);
    run_curves_free(&curves);
}

static void add_coords(ledger *l, const config *c, int64_t width)
{
    static const char *const layers[] = {"embedding", "hidden", "head"};
    ledger_run run = {.kind = LEDGER_COORD, .c = *c, .result = run_result_empty()};
    ledger_coord coords[6];
    scion_error err;
    config_set_int(&run.c, "width", width);
    for (int i = 0; i < 6; i++) {
        coords[i] = (ledger_coord){.step = i / 3, .place = i % 3, .rms = 0.5 + 0.01 * i};
        snprintf(coords[i].name, sizeof coords[i].name, "%s", layers[i % 3]);
    }
    fuzz_require(ledger_put_coords(l, &run, coords, 6, &err) == SCION_OK);
}

static void fill(ledger *l)
{
    config points[4];
    scion_error err;
    int64_t added;
    for (int i = 0; i < 4; i++) {
        config_init(&points[i]);
        points[i].training.lr = ldexp(1, -1 - i % 2);
        config_set_int(&points[i], "width", 32 << i / 2);
    }
    fuzz_require(ledger_add(l, LEDGER_TRAINING, points, 4, &added, &err) == SCION_OK && added == 4);
    for (int i = 0; i < 3; i++) {
        ledger_run run;
        bool found;
        fuzz_require(ledger_take(l, &run, &found, &err) == SCION_OK && found);
        add_curves(l, &run, i);
    }
    add_coords(l, &points[0], 32);
    add_coords(l, &points[0], 64);
}

/* Leaves the settings of the first run whole and shortens the others, which would take most of the time. */
static void shorten(void)
{
    static const char sql[] = "UPDATE runs SET config = json_object('width', json_extract(config, '$.width'), "
                              "'lr', json_extract(config, '$.lr')) WHERE id > 1; VACUUM";
    sqlite3 *db;
    fuzz_require(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    fuzz_require(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
}

const uint8_t *fuzz_ledger_good(size_t *size)
{
    static uint8_t *bytes;
    static size_t count;
    if (!bytes) {
        ledger *l;
        scion_error err;
        sqlite3_int64 length;
        sqlite3_file *file = held();
        fuzz_ledger_set(NULL, 0);
        fuzz_require(ledger_open(&l, path, true, &err) == SCION_OK);
        fill(l);
        ledger_close(l);
        shorten();
        fuzz_require(file->pMethods->xFileSize(file, &length) == SQLITE_OK);
        count = (size_t)length;
        bytes = malloc(count);
        fuzz_require(bytes && file->pMethods->xRead(file, bytes, (int)count, 0) == SQLITE_OK);
    }
    *size = count;
    return bytes;
}
