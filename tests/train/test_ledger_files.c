/* The files of ledgers: what was written comes back; files that are no ledgers, were cut, or hold wrong bytes. */
#include "ledger_cases.h"
#include "metric_cases.h"

#include <sys/wait.h>

#include "config/config.h"

/* ---- What was written comes back ----------------------------------------------------------------------- */

static run_point point(int64_t step, double loss, double lr, double val_loss, double accuracy)
{
    run_point p = run_point_empty(step);
    p.loss = loss;
    p.lr = lr;
    p.val_loss = val_loss;
    p.accuracy = accuracy;
    return p;
}

/* Takes the next run and finishes it with a result and curves. */
static int64_t finish(ledger *l, const run_result *result, const run_curves *curves)
{
    ledger_run run;
    bool lost;
    scion_error err;
    check(take(l, &run) > 0);
    run.result = *result;
    check_ok(ledger_finish(l, &run, curves, &lost, &err), &err);
    check(!lost);
    return run.id;
}

static void check_curves(ledger *l, int64_t run, const run_curves *want)
{
    run_curves got;
    scion_error err;
    check_ok(ledger_curves(l, run, &got, &err), &err);
    check(got.point_count == want->point_count && got.norm_count == want->norm_count);
    for (int64_t i = 0; i < want->point_count; i++) {
        check(got.points[i].step == want->points[i].step);
        check_metrics(run_point_metrics, &got.points[i], &want->points[i], 0);
    }
    for (int64_t i = 0; i < want->norm_count; i++) {
        check(got.norms[i].step == want->norms[i].step && strcmp(got.norms[i].name, want->norms[i].name) == 0);
        check_metrics(run_norm_metrics, &got.norms[i], &want->norms[i], 0);
    }
    run_curves_free(&got);
}

/* All metrics, of points and norms with every value and with none. */
static void results_and_curves_come_back(void **state)
{
    char *path = scratch("curves.db");
    ledger *l = open_new(path);
    run_point points[] = {point(10, 1.5, 0x1p-5, NAN, NAN), point(20, 1 / 3.0, 1e-300, NAN, NAN),
                          point(20, NAN, NAN, 1.25, NAN),   point(30, INFINITY, 0, NAN, NAN),
                          point(30, NAN, NAN, 0, 0.125),    point(40, NAN, NAN, NAN, NAN)};
    run_norm norms[] = {{10, "embedding", 2.5, NAN, NAN, NAN},
                        {10, "blocks.0.attn.q", 0, 1, 1.21, 0.25},
                        {20, "head", 1, 1e10, 1, NAN}};
    const run_curves curves = {points, norms, COUNT_OF(points), COUNT_OF(norms)};
    run_result result = {.state = RUN_DIVERGED, .message = "it's \"so\"; DROP TABLE runs; \xc3\xa9"};
    int64_t count;
    const config c = with_lr(0.5);
    scion_error err;
    (void)state;
    fill_metrics(run_point_metrics, &points[5], 1000);
    fill_metrics(run_result_metrics, &result, 100);
    result.parameters = (int64_t)1 << 40;
    result.data_hash = UINT64_MAX;
    result.val_loss = result.peak_bytes = NAN;
    add_runs(l, 2);
    for (int round = 0; round < 2; round++) { /* a second attempt replaces the first */
        check(finish(l, &result, &curves) == 1);
        if (round == 0)
            check_ok(ledger_retry(l, true, &count, &err), &err);
    }
    ledger_close(l);
    check_ok(ledger_open(&l, path, false, &err), &err);
    for (int round = 0; round < 2; round++) {
        ledger_run *runs;
        bool same;
        check_ok(ledger_runs(l, &runs, &count, &err), &err);
        if (round == 1) { /* results alone, as a sweep reads them */
            for (int64_t i = 0; i < count; i++)
                runs[i].result = run_result_empty();
            check_ok(ledger_refresh(l, runs, count, &same, &err), &err);
            check(same);
            check_ok(ledger_refresh(l, runs, count - 1, &same, &err), &err);
            check(!same);
        }
        check(count == 2 && runs[0].id == 1 && runs[0].c.training.lr == c.training.lr);
        check(runs[0].result.state == RUN_DIVERGED && strcmp(runs[0].result.message, result.message) == 0);
        check_metrics(run_result_metrics, &runs[0].result, &result, 0);
        check(runs[1].result.state == RUN_WAITING);
        free(runs);
    }
    check_curves(l, 1, &curves);
    check_curves(l, 2, &(run_curves){.points = NULL});
    ledger_close(l);
}

/* The tables of version 0.2, with a run that is done and three that wait. */
static void make_0_2(const char *path)
{
    static const char *const text[] = {
        "PRAGMA application_id = 1399023983",
        "PRAGMA user_version = 1",
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)",
        "CREATE TABLE runs (id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL,"
        " revision INTEGER NOT NULL DEFAULT 0,"
        " state TEXT NOT NULL, config TEXT NOT NULL, worker TEXT, beat REAL, attempts INTEGER NOT NULL DEFAULT 0,"
        " step INTEGER, steps INTEGER, parameters INTEGER, seconds REAL, loss REAL, val_loss REAL, accuracy REAL,"
        " samples_per_s REAL, forward_s REAL, backward_s REAL, optimizer_s REAL, state_bytes REAL, peak_bytes REAL,"
        " message TEXT)",
        "CREATE INDEX runs_by_state ON runs (state)",
        "CREATE TABLE points (run INTEGER NOT NULL, step INTEGER NOT NULL, loss REAL, lr REAL, val_loss REAL,"
        " accuracy REAL)",
        "CREATE INDEX points_by_run ON points (run)",
        "CREATE TABLE norms (run INTEGER NOT NULL, step INTEGER NOT NULL, name TEXT NOT NULL, norm REAL, bound REAL)",
        "CREATE INDEX norms_by_run ON norms (run)",
        "CREATE TABLE coords (run INTEGER NOT NULL, step INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT NOT "
        "NULL,"
        " rms REAL, change REAL)",
        "CREATE INDEX coords_by_run ON coords (run)",
        "INSERT INTO runs (hash, kind, state, config, step, steps, seconds, loss, val_loss, samples_per_s) VALUES"
        " ('a', 0, 'done', '{\"lr\":\"0.5\",\"baseline\":\"0\"}', 10, 20, 1.5, 2.25, 2.5, 1e3),"
        " ('b', 0, 'waiting', '{\"seed\":\"1\"}', NULL, NULL, NULL, NULL, NULL, NULL),"
        " ('c', 0, 'waiting', '{\"seed\":\"2\"}', NULL, NULL, NULL, NULL, NULL, NULL),"
        " ('d', 0, 'waiting', '{\"seed\":\"3\"}', NULL, NULL, NULL, NULL, NULL, NULL)",
        "INSERT INTO points VALUES (1, 10, 2.75, 0.125, NULL, NULL), (1, 10, NULL, NULL, 2.5, 0.5)",
        "INSERT INTO norms VALUES (1, 10, 'head', 0.5, 1)",
    };
    unlink(path);
    for (int i = 0; i < COUNT_OF(text); i++)
        sql(path, text[i]);
}

/* Checks that the run which 0.2 finished is as it was, and metrics that 0.2 did not have are unknown. */
static void check_0_2(ledger *l)
{
    ledger_run *runs;
    run_point points[] = {point(10, 2.75, 0.125, NAN, NAN), point(10, NAN, NAN, 2.5, 0.5)};
    run_norm norms[] = {{10, "head", 0.5, 1, NAN, NAN}};
    const run_curves curves = {points, norms, 2, 1};
    int64_t count;
    scion_error err;
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    const run_result *r = &runs[0].result;
    check(count == 4 && r->state == RUN_DONE && r->step == 10 && r->steps == 20 && r->seconds == 1.5);
    check(r->loss == 2.25 && r->val_loss == 2.5 && r->samples_per_s == 1e3 && runs[0].c.training.lr == 0.5);
    check(isnan(r->last_loss) && isnan(r->elapsed) && isnan(r->top5) && r->data_hash == 0 && r->samples == 0);
    free(runs);
    check_curves(l, 1, &curves);
}

/* Ledgers of 0.2 are read as they are, and get the columns that they lack with the first run that is taken, however
 * many processes do so at once. */
static void ledgers_of_0_2_are_read_and_completed(void **state)
{
    enum { processes = 3 };
    char *path = scratch("old.db");
    ledger *l;
    scion_error err;
    int status;
    (void)state;
    make_0_2(path);
    check_ok(ledger_open(&l, path, false, &err), &err);
    check_0_2(l);
    check(sql(path, "PRAGMA user_version") == 1); /* reading changes nothing */
    ledger_close(l);
    for (int i = 0; i < processes; i++) {
        const pid_t pid = fork();
        check(pid >= 0);
        if (pid > 0)
            continue;
        ledger_run run;
        bool found, lost;
        run_point p = point(5, 1, 1, NAN, NAN);
        fill_metrics(run_point_metrics, &p, 1);
        if (ledger_open(&l, path, false, NULL) != SCION_OK || ledger_take(l, &run, &found, NULL) != SCION_OK ||
            !found)
            _exit(1);
        fill_metrics(run_result_metrics, &run.result, (int)run.id);
        run.result.state = RUN_DONE;
        _exit(ledger_finish(l, &run, &(run_curves){.points = &p, .point_count = 1}, &lost, NULL) != SCION_OK || lost);
    }
    for (int i = 0; i < processes; i++)
        check(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_ok(ledger_open(&l, path, false, &err), &err);
    check_0_2(l);
    check(sql(path, "PRAGMA user_version") == 2);
    check(sql(path, "SELECT count(*) FROM runs WHERE state = 'done' AND top5 > 0 AND data_hash > ''") == processes);
    check(sql(path, "SELECT count(*) FROM points WHERE elapsed > 0 AND time > 0") == processes);
    ledger_close(l);
}

static void configurations_come_back(void **state)
{
    ledger *l = open_new(scratch("config.db"));
    config c = tiny(TINY_GPT "rule=adamw lr=0.1 seed=18446744073709551615 norms=sign,spectral,sign");
    const config_option *o;
    scion_error err;
    (void)state;
    strcpy(c.data.path, "a \"file\" with spaces, commas/../and \xc3\xa9.txt");
    check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
    const ledger_run run = find(l, LEDGER_TRAINING, &c);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        at("%s", o->key);
        check(config_same(&c, &run.c, o));
    }
    ledger_close(l);
}

static void coordinates_replace_those_before(void **state)
{
    ledger *l = open_new(scratch("coords.db"));
    const ledger_coord first[] = {{0, 0, "embedding", 1, NAN}, {0, 1, "head", 2, NAN}, {1, 0, "embedding", 3, 0.25}};
    const ledger_coord second[] = {{0, 1, "head", INFINITY, INFINITY}, {0, 0, "embedding", 0.5, 0}};
    ledger_run run = {.kind = LEDGER_COORD, .c = with_lr(0.5)};
    ledger_run *runs;
    ledger_coord *coords;
    int64_t count;
    scion_error err;
    (void)state;
    check_ok(ledger_put_coords(l, &run, first, COUNT_OF(first), &err), &err);
    check_ok(ledger_coords(l, 1, &coords, &count, &err), &err);
    check(count == 3 && coords[2].step == 1 && coords[2].rms == 3 && strcmp(coords[1].name, "head") == 0);
    check(coords[2].change == 0.25 && isnan(coords[0].change));
    free(coords);
    run.result.seconds = 7;
    check_ok(ledger_put_coords(l, &run, second, COUNT_OF(second), &err), &err);
    check_ok(ledger_coords(l, 1, &coords, &count, &err), &err);
    check(count == 2 && coords[0].place == 0 && coords[0].rms == 0.5 && isinf(coords[1].rms)); /* in forward order */
    free(coords);
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    check(count == 1 && runs[0].result.state == RUN_DONE && runs[0].kind == LEDGER_COORD &&
          runs[0].result.seconds == 7);
    free(runs);
    ledger_close(l);
}

/* ---- Files that are no ledgers ------------------------------------------------------------------------- */

static void refused(const char *path, bool create, const char *says)
{
    ledger *l = (ledger *)(void *)&l;
    scion_error err = {0};
    at("%s, create %d", path, create);
    check_status(ledger_open(&l, path, create, &err), SCION_EINVAL, &err);
    at("%s, create %d: %s", path, create, err.message);
    check(l == NULL);
    check(strstr(err.message, strrchr(path, '/') + 1) != NULL && strstr(err.message, says) != NULL);
    check(strchr(err.message, '\n') == NULL);
}

static void what_is_no_ledger_is_refused(void **state)
{
    char *path = scratch("text.db");
    size_t bytes;
    (void)state;
    scratch_text(path, "This is a text that is longer than the header of an SQLite file, which has 100 bytes, "
                       "so that it cannot be taken for one that is still being written.");
    refused(path, false, "is not a ledger");
    refused(path, true, "is not a ledger");
    check(scratch_get(path, &bytes)[0] == 'T'); /* left alone */
    path = scratch("other.db");
    sql(path, "CREATE TABLE people (name TEXT)");
    refused(path, false, "is not a ledger");
    refused(path, true, "is not a ledger");
    check(sql(path, "SELECT count(*) FROM sqlite_schema") == 1);
    path = scratch("empty.db");
    scratch_text(path, "");
    refused(path, false, "is not a ledger");
    ledger_close(open_new(path)); /* is made one */
    path = scratch("newer.db");
    ledger_close(open_new(path));
    sql(path, "PRAGMA user_version = 3");
    refused(path, false, "version 3");
    refused(path, true, "version 3");
    refused(scratch("absent.db"), false, "No such file");
    check(access(scratch("absent.db"), F_OK) != 0);
    refused(scratch("no/folder.db"), true, "No such file");
    refused(scratch("text.db/below.db"), true, "Not a directory");
    refused(scratch("text.db/below.db"), false, "Not a directory");
    check(mkdir(scratch("folder.db"), 0777) == 0);
    refused(scratch("folder.db"), false, "directory");
    refused(scratch("folder.db"), true, "directory");
}

/* A path of any length: the message shows its end. */
static void long_paths_are_named_by_their_end(void **state)
{
    char name[240];
    (void)state;
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    ledger *l = NULL;
    scion_error err = {0};
    check_status(ledger_open(&l, scratch(name), false, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "xxx: No such file") != NULL);
}

/* Does all that a sweep does. The file may be broken; whatever happens, it is told or works. */
static bool use(const char *path)
{
    ledger *l;
    ledger_run *runs, run;
    run_curves curves;
    const config c = with_lr(0.125);
    int64_t count;
    bool found, lost, good = true;
    scion_error err = {0};
    if (ledger_open(&l, path, false, &err) != SCION_OK) {
        check(strstr(err.message, "cut.db") != NULL);
        return false;
    }
    good = ledger_runs(l, &runs, &count, &err) == SCION_OK && good;
    if (good && count > 0) {
        good = ledger_curves(l, runs[0].id, &curves, &err) == SCION_OK;
        run_curves_free(&curves);
    }
    free(runs);
    good = ledger_take(l, &run, &found, &err) == SCION_OK && good;
    if (good && found) {
        run.result.state = RUN_DONE;
        good = ledger_finish(l, &run, NULL, &lost, &err) == SCION_OK;
    }
    good = ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err) == SCION_OK && good;
    run = (ledger_run){.kind = LEDGER_COORD, .c = c};
    good = ledger_put_coords(l, &run, NULL, 0, &err) == SCION_OK && good;
    if (!good)
        check(strstr(err.message, "cut.db") != NULL);
    ledger_close(l);
    return good;
}

/* A ledger with something in every table. */
static char *filled(size_t *bytes)
{
    char *path = scratch("whole.db");
    ledger *l = open_new(path);
    run_point points[50];
    const run_curves curves = {.points = points, .point_count = 50};
    ledger_run run;
    bool lost;
    scion_error err;
    for (int i = 0; i < 50; i++)
        points[i] = point(i, 1, 2, 3, 4);
    add_runs(l, 12);
    check(take(l, &run) == 1);
    run.result.state = RUN_DONE;
    check_ok(ledger_finish(l, &run, &curves, &lost, &err), &err);
    ledger_close(l);
    return scratch_get(path, bytes);
}

static void a_file_that_was_cut_is_no_crash(void **state)
{
    size_t bytes;
    char *whole = filled(&bytes), *path = scratch("cut.db");
    int bad = 0, tries = 0;
    (void)state;
    for (size_t cut = 0; cut < bytes; cut += cut < 128 ? 9 : 1531) {
        at("cut at %zu of %zu", cut, bytes);
        scratch_put(path, whole, cut);
        bad += !use(path);
        tries++;
    }
    at("%d of %d", bad, tries);
    check(bad > tries / 2); /* most of it cannot be used, and that is told */
    scratch_put(path, whole, bytes);
    check(use(path));
}

static void a_file_with_wrong_bytes_is_no_crash(void **state)
{
    size_t bytes;
    char *whole = filled(&bytes), *broken = room(bytes), *path = scratch("cut.db");
    rng r = rng_of(1);
    (void)state;
    for (int round = 0; round < 60; round++) {
        memcpy(broken, whole, bytes);
        const size_t from = (size_t)(rng_uniform(&r) * (double)bytes), page = from / 4096 * 4096;
        const size_t start = round % 2 ? page : from; /* headers of pages are where it hurts */
        for (size_t i = start; i < bytes && i < start + 64; i++)
            broken[i] = (char)(int)(rng_uniform(&r) * 256 - 128);
        at("round %d: from %zu of %zu", round, start, bytes);
        scratch_put(path, broken, bytes);
        use(path);
    }
}

/* A page that is no page of a table, where an index was: none of what needs it says that there is nothing. */
static void a_broken_index_is_told(void **state)
{
    static const char *const indexes[] = {"runs_by_state", "sqlite_autoindex_runs_1"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        char *whole = filled(&bytes), *path = scratch("index.db"), text[128];
        const config c = with_lr(0.5);
        ledger *l = NULL;
        ledger_run run;
        bool found = true;
        scion_error err = {0};
        snprintf(text, sizeof text, "SELECT rootpage FROM sqlite_schema WHERE name = '%s'", indexes[i]);
        const size_t page = (size_t)sql(scratch("whole.db"), text) - 1;
        memset(whole + page * 4096, 0x7f, 64);
        scratch_put(path, whole, bytes);
        check_ok(ledger_open(&l, path, false, &err), &err);
        check_status(i == 0 ? ledger_take(l, &run, &found, &err)
                            : ledger_find(l, LEDGER_TRAINING, &c, &run, &found, &err),
                     SCION_EINVAL, &err);
        at("%s: %s", indexes[i], err.message);
        check(!found && strstr(err.message, "index.db") != NULL);
        ledger_close(l);
    }
}

/* A configuration that an older or newer program wrote, or that somebody touched. */
static void a_bad_configuration_is_told_with_its_run(void **state)
{
    static const char *const texts[] = {"'nonsense'", "'{\"lrr\":\"1\"}'", "'{\"lr\":\"fast\"}'", "'[]'", "''"};
    char *path = scratch("json.db"), text[128];
    (void)state;
    for (int i = 0; i < COUNT_OF(texts); i++) {
        ledger *l = open_new(path);
        ledger_run *runs, run;
        int64_t count;
        bool found;
        scion_error err = {0};
        add_runs(l, 2);
        snprintf(text, sizeof text, "UPDATE runs SET config = %s WHERE id = 2", texts[i]);
        sql(path, text);
        check_status(ledger_runs(l, &runs, &count, &err), SCION_EINVAL, &err);
        at("%s: %s", texts[i], err.message);
        check(runs == NULL && count == 0);
        check(strstr(err.message, "json.db: run 2: ") != NULL);
        check(take(l, &run) == 1); /* the other one is good */
        check_status(ledger_take(l, &run, &found, &err), SCION_EINVAL, &err);
        ledger_close(l);
    }
}

/* Control characters for terminals do not get through. */
static void texts_of_a_ledger_are_printable(void **state)
{
    char *path = scratch("texts.db");
    ledger *l = open_new(path);
    ledger_run *runs;
    int64_t count;
    scion_error err = {0};
    (void)state;
    add_runs(l, 2);
    sql(path, "UPDATE runs SET message = 'a' || char(27, 10, 155) || 'b', state = 'failed'");
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    check(strcmp(runs[0].result.message, "a????b") == 0);
    free(runs);
    sql(path, "UPDATE runs SET config = '{\"x\\u001b\\ny\":\"1\"}'");
    check_status(ledger_runs(l, &runs, &count, &err), SCION_EINVAL, &err);
    at("%s", err.message);
    check(strstr(err.message, "x??y") != NULL);
    ledger_close(l);
}

/* A foreign ledger is data: its triggers do not run, and a view, which may have no end, is not read. */
static void views_and_triggers_do_not_run(void **state)
{
    char *path = scratch("views.db");
    ledger *l = open_new(path);
    ledger_run *runs, run;
    int64_t count;
    scion_error err = {0};
    (void)state;
    add_runs(l, 2);
    sql(path, "CREATE TRIGGER later AFTER UPDATE ON runs BEGIN DELETE FROM runs; END");
    check(take(l, &run) == 1);
    check(sql(path, "SELECT count(*) FROM runs") == 2);
    ledger_close(l);
    sql(path, "DROP TRIGGER later");
    sql(path, "ALTER TABLE runs RENAME TO hidden");
    sql(path, "CREATE VIEW runs AS SELECT * FROM hidden");
    check_ok(ledger_open(&l, path, false, &err), &err);
    check_status(ledger_runs(l, &runs, &count, &err), SCION_EINVAL, &err);
    at("%s", err.message);
    check(runs == NULL && strstr(err.message, "views.db") != NULL);
    ledger_close(l);
}

static void put32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* A page of SQLite's tree of a table all of whose children are one and the same page. */
static void interior_page(unsigned char *page, size_t bytes, uint32_t child)
{
    enum { cells = 400, header = 12, cell = 5 };
    memset(page, 0, bytes);
    page[0] = 5; /* inside of a table's tree */
    page[3] = cells >> 8;
    page[4] = cells & 255;
    const size_t content = bytes - cells * cell;
    page[5] = (unsigned char)(content >> 8);
    page[6] = (unsigned char)(content & 255);
    put32(page + 8, child);
    for (size_t i = 0; i < cells; i++) {
        const size_t at_cell = content + cell * i;
        page[header + 2 * i] = (unsigned char)(at_cell >> 8);
        page[header + 2 * i + 1] = (unsigned char)(at_cell & 255);
        put32(page + at_cell, child);
        page[at_cell + 4] = 1; /* key */
    }
}

/* Makes the table of runs of a ledger a tree whose pages point to the same page 400 times each, five levels deep: a
 * file of a few pages with 10^13 rows. */
static void make_endless(const char *path)
{
    enum { levels = 5 };
    sql(path, "DROP INDEX runs_by_state"); /* so that runs are looked for in the table */
    const size_t root = (size_t)sql(path, "SELECT rootpage FROM sqlite_master WHERE name = 'runs'");
    const size_t size = (size_t)sql(path, "PRAGMA page_size");
    size_t bytes;
    const char *old = scratch_get(path, &bytes);
    const uint32_t pages = (uint32_t)(bytes / size);
    unsigned char *file = room(bytes + (levels + 1) * size);
    memcpy(file, old, bytes);
    memcpy(file + bytes, file + (root - 1) * size, size); /* the leaf: page `pages` + 1 */
    for (uint32_t i = 1; i <= levels; i++)
        interior_page(file + bytes + i * size, size, pages + i);
    interior_page(file + (root - 1) * size, size, pages + levels + 1);
    put32(file + 28, pages + levels + 1);
    scratch_put(path, file, bytes + (levels + 1) * size);
}

/* Reading a file that is made to have no end comes to one. */
static void endless_ledgers_are_refused(void **state)
{
    char *path = scratch("endless.db");
    ledger *l = open_new(path);
    ledger_run *runs, run;
    int64_t count;
    bool found;
    scion_error err = {0};
    (void)state;
    add_runs(l, 1);
    ledger_close(l);
    make_endless(path);
    check_ok(ledger_open(&l, path, false, &err), &err);
    check_status(ledger_runs(l, &runs, &count, &err), SCION_EINVAL, &err);
    at("%s", err.message);
    check(runs == NULL && strstr(err.message, "endless.db is damaged: its runs are not in order") != NULL);
    check_status(ledger_take(l, &run, &found, &err), SCION_EINVAL, &err);
    at("%s", err.message);
    check(!found && strstr(err.message, "reading it does not come to an end") != NULL);
    ledger_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(results_and_curves_come_back),     LAW(configurations_come_back),
        LAW(coordinates_replace_those_before), LAW(ledgers_of_0_2_are_read_and_completed),
        LAW(what_is_no_ledger_is_refused),     LAW(long_paths_are_named_by_their_end),
        LAW(a_file_that_was_cut_is_no_crash),  LAW(a_file_with_wrong_bytes_is_no_crash),
        LAW(a_broken_index_is_told),           LAW(a_bad_configuration_is_told_with_its_run),
        LAW(texts_of_a_ledger_are_printable),  LAW(views_and_triggers_do_not_run),
        LAW(endless_ledgers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
