/* scion tune: lr and radii found on a narrow model, and written down for a wide one. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/file.h"
#include "cli.h"
#include "config/config_parts.h"
#include "base/number.h"
#include "sweep/grid.h"
#include "tune_show.h"
#include "base/clock.h"

enum { most_jobs = 4 };

enum { LEDGER, OUT, CANDIDATES, RUNGS, SEEDS, JOBS, BUDGET, FORCE, FLAGS };

static const char *const flags[FLAGS + 1] = {
    "--ledger=", "--out=", "--candidates=", "--rungs=", "--seeds=", "--jobs=", "--budget=", "--force", NULL};

/* What a tuning is asked for, and what it shows while it works. */
typedef struct tuning {
    tune t;
    config target;
    tune_runs runs;
    char ledger[CONFIG_TEXT], out[CONFIG_TEXT];
    cli_progress progress;
    int64_t proxy; /* width, 0: not given */
    int64_t first; /* trial of those that are being measured */
    double begin;
} tuning;

/* ---- What is shown --------------------------------------------------------------------------------------- */

static const char *rung_text(const tuning *u, char text[48])
{
    if (u->t.refining)
        snprintf(text, 48, "neighbours in lr");
    else
        snprintf(text, 48, "rung %d of %d", u->t.trials[u->first].rung + 1, u->t.rungs);
    return text;
}

static void show_progress(void *context, const sweep_progress *p)
{
    tuning *u = context;
    char rung[48], running[64] = "", left[16], where[256];
    const int64_t ended = p->count[LEDGER_DONE] + p->count[LEDGER_DIVERGED] + p->count[LEDGER_FAILED];
    for (int64_t i = 0; p->runs && i < p->run_count && !running[0]; i++)
        if (p->runs[i].state == LEDGER_RUNNING && p->runs[i].result.steps > 0)
            snprintf(running, sizeof running, "  now step %lld/%lld", (long long)p->runs[i].result.step,
                     (long long)p->runs[i].result.steps);
    snprintf(where, sizeof where, "%s: %lld of %lld runs%s", rung_text(u, rung), (long long)ended,
             (long long)(ended + p->count[LEDGER_WAITING] + p->count[LEDGER_RUNNING]), running);
    if (isfinite(p->left) && p->left > 0)
        cli_progress_show(&u->progress, false, "%s  %s left", where, cli_duration(p->left, left));
    else
        cli_progress_show(&u->progress, false, "%s", where);
}

/* Measures by the ledger, and says what came out. */
static scion_status measure(void *context, tune *t, int64_t first, int64_t count, scion_error *err)
{
    tuning *u = context;
    char rung[48], values[256], took[16];
    int64_t best = -1, diverged = 0, failed = 0, waiting = 0;
    u->first = first;
    scion_status status = tune_measure_runs(&u->runs, t, first, count, err);
    cli_progress_clear(&u->progress);
    if (status != SCION_OK)
        return status;
    for (int64_t i = first; i < first + count; i++) {
        diverged += t->trials[i].state == LEDGER_DIVERGED;
        failed += t->trials[i].state == LEDGER_FAILED;
        waiting += t->trials[i].state == LEDGER_WAITING;
        if (isfinite(t->trials[i].loss) && (best < 0 || t->trials[i].loss < t->trials[best].loss))
            best = i;
    }
    printf("%s: %lld point%s, %lld diverged, %lld failed", rung_text(u, rung), (long long)count, count > 1 ? "s" : "",
           (long long)diverged, (long long)failed);
    if (waiting > 0)
        printf(", %lld not run", (long long)waiting);
    if (best >= 0)
        printf("; best %.4f at %s", t->trials[best].loss, tune_show_point(t, &t->trials[best].at, values));
    printf(" (%s)\n", cli_duration(clock_now() - u->begin, took));
    fflush(stdout);
    return SCION_OK;
}

/* ---- What is asked for ----------------------------------------------------------------------------------- */

static bool read_count(const char *text, const char *name, int64_t least, int64_t most, int64_t *value)
{
    if (!text || (number_int(text, value) && *value >= least && *value <= most))
        return true;
    cli_error(CLI_USAGE, "%s: \"%s\", expected a whole number from %lld to %lld", name, text, (long long)least,
              (long long)most);
    return false;
}

static bool read_flags(tuning *u, cli_arguments *a)
{
    const int cores = scn_threads(0);
    int64_t rungs = u->t.rungs, seeds = u->t.seeds, jobs = cores < most_jobs ? cores : most_jobs;
    if (!read_count(a->values[CANDIDATES], "--candidates", 1, TUNE_MAX_CANDIDATES, &u->t.candidates) ||
        !read_count(a->values[RUNGS], "--rungs", 1, TUNE_MAX_RUNGS, &rungs) ||
        !read_count(a->values[SEEDS], "--seeds", 1, 100, &seeds) ||
        !read_count(a->values[JOBS], "--jobs", 1, SWEEP_JOBS, &jobs) ||
        !cli_take_int(a, "jobs", 1, SWEEP_JOBS, &jobs) || !cli_take_text(a, "ledger", u->ledger, sizeof u->ledger) ||
        !cli_take_int(a, "proxy", 1, 1 << 20, &u->proxy))
        return false;
    for (int i = LEDGER; i <= OUT; i++)
        if (a->values[i] && (!a->values[i][0] || strlen(a->values[i]) >= CONFIG_TEXT)) {
            cli_error(CLI_USAGE, "%s: a path of 1 to %d bytes was expected", i == OUT ? "--out" : "--ledger",
                      CONFIG_TEXT - 1);
            return false;
        }
    if (a->values[BUDGET] && !cli_seconds(a->values[BUDGET], &u->t.budget)) {
        cli_error(CLI_USAGE, "--budget: \"%s\", expected a time such as 90s, 20m or 1h30m", a->values[BUDGET]);
        return false;
    }
    u->t.rungs = (int)rungs;
    u->t.seeds = (int)seeds;
    u->t.jobs = u->runs.sweep.jobs = (int)jobs;
    return true;
}

static int64_t default_proxy(const config *c)
{
    const model_row *row = config_model(c);
    const int64_t full = config_int(c, "width"),
                  width = row->proxy_width ? row->proxy_width(config_model_options(c)) : (full + 3) / 4;
    return width < full ? width : full;
}

static const char folder[] = "sweeps/"; /* of ledgers that are given no name */

static void name_files(tuning *u, const cli_arguments *a)
{
    char name[200];
    file_name(u->target.preset, ".ini", name, sizeof name);
    if (a->values[OUT])
        snprintf(u->out, sizeof u->out, "%s", a->values[OUT]);
    else
        snprintf(u->out, sizeof u->out, "%.200s-tuned.ini", name);
    if (a->values[LEDGER])
        snprintf(u->ledger, sizeof u->ledger, "%s", a->values[LEDGER]);
    if (!u->ledger[0])
        snprintf(u->ledger, sizeof u->ledger, "%s%.200s-tune.db", folder, name);
    u->runs.path = u->ledger;
}

/* A recorded loss to compare with is that of the preset as it stands. */
static void check_baseline(config *c, const config *preset)
{
    const config_option *o;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (grid_computes(o) && strncmp(o->key, "data", 4) != 0 && strcmp(o->key, "lr") != 0 &&
            !config_same(c, preset, o))
            c->run.baseline = 0;
}

/* The target's configuration and the proxy's; false: told what is wrong. */
static bool read_target(tuning *u, const cli_arguments *a)
{
    config *c = &u->target, preset;
    scion_error err;
    config_init(c);
    if (config_preset(c, a->words[0], &err) != SCION_OK)
        goto wrong;
    preset = *c;
    for (int i = 0; i < a->pair_count; i++) {
        const char *pair = a->pairs[i];
        if (strncmp(pair, "out=", 4) == 0) {
            cli_error(CLI_USAGE, "out= is the folder of a run; the file that is written is named by --out FILE.ini");
            return false;
        }
        if (config_set_pair(c, pair, &err) != SCION_OK)
            goto wrong;
    }
    if (!c->data.path[0] && data_needs_path(c->data.kind)) {
        cli_error(CLI_USAGE, "nothing to learn from: give data=FILE, or data_kind=synthetic for made-up data");
        return false;
    }
    c->run.out[0] = '\0';
    check_baseline(c, &preset);
    u->t.base = *c;
    config_set_int(&u->t.base, "width", u->proxy > 0 ? u->proxy : default_proxy(c));
    if (config_int(&u->t.base, "width") > config_int(c, "width")) {
        cli_error(CLI_USAGE, "proxy is %lld, expected at most the width %lld that it stands for", (long long)u->proxy,
                  (long long)config_int(c, "width"));
        return false;
    }
    u->runs.sweep.threads = (int)c->training.threads;
    if (config_check(c, &err) == SCION_OK && config_check(&u->t.base, &err) == SCION_OK &&
        tune_space_make(&u->t.space, &u->t.base, &err) == SCION_OK)
        return true;
wrong:
    cli_error(CLI_USAGE, "%s", err.message);
    return false;
}

/* Files that are in the way or cannot be written are told of before the work, not after. */
static bool check_files(const tuning *u, const cli_arguments *a)
{
    const bool synthetic = !data_needs_path(u->target.data.kind);
    struct stat about;
    char beside[CONFIG_TEXT];
    snprintf(beside, sizeof beside, "%s", u->out);
    char *slash = strrchr(beside, '/');
    snprintf(slash ? slash + 1 : beside, 2, "."); /* the folder that it is in */
    if (stat(u->out, &about) == 0 && !a->values[FORCE])
        cli_error(CLI_FAILED, "%s exists; --force replaces it, --out names another file", u->out);
    else if (access(beside, W_OK) != 0)
        cli_error(CLI_FAILED, "%s cannot be written: its folder is missing or closed", u->out);
    else if (!synthetic && !strchr(u->target.data.path, '*') && access(u->target.data.path, R_OK) != 0)
        cli_error(CLI_FAILED, "%s: cannot be read: %s", u->target.data.path, strerror(errno));
    else
        return true;
    return false;
}

/* The command line, for the comments of the file. */
static char *command_text(int argc, char **argv)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    fputs("scion tune", to);
    for (int i = 0; i < argc; i++)
        fprintf(to, strpbrk(argv[i], " *?;'\"") ? " '%s'" : " %s", argv[i]);
    fclose(to);
    return text;
}

static int work(tuning *u, const char *command)
{
    const int64_t asked = u->t.candidates;
    scion_error err;
    tune_show_plan(&u->t, &u->target, u->ledger);
    if (strncmp(u->ledger, folder, sizeof folder - 1) == 0)
        mkdir(folder, 0777); /* ledger_open tells if it is not there */
    cli_catch_signals();
    u->begin = clock_now();
    u->runs.end = u->t.budget > 0 ? u->begin + u->t.budget : 0;
    u->runs.sweep.stopped = cli_interrupted;
    u->runs.sweep.show = show_progress;
    u->runs.sweep.context = u;
    scion_status status = tune_search(&u->t, measure, u, &err);
    cli_progress_clear(&u->progress);
    if (status == SCION_ESTOPPED) {
        printf("stopped; the same command goes on from here (%s)\n", u->ledger);
        return CLI_OK;
    }
    if (status == SCION_OK)
        status = tune_write(&u->t, &u->target, command, u->out, &err);
    if (status != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    tune_show_end(&u->t, &u->target, asked, u->runs.added, u->out);
    return CLI_OK;
}

static int run_tune(int argc, char **argv)
{
    static char out_flag[] = "--out";
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = out_flag;
    cli_arguments a;
    tuning *u = calloc(1, sizeof *u);
    char *command = command_text(argc, argv);
    int status = CLI_USAGE;
    if (!u || !command) {
        free(u);
        free(command);
        return cli_error(CLI_FAILED, "out of memory");
    }
    tune_init(&u->t);
    u->progress = cli_progress_start();
    if (!cli_parse(&a, argc, argv, flags) || !read_flags(u, &a))
        goto done;
    if (a.word_count != 1) {
        cli_error(CLI_USAGE, "give one preset, or an .ini file: scion tune PRESET [proxy=WIDTH] [key=value ...]");
        goto done;
    }
    if (!read_target(u, &a))
        goto done;
    name_files(u, &a);
    status = CLI_FAILED;
    if (!check_files(u, &a))
        goto done;
    status = work(u, command);
done:
    tune_free(&u->t);
    free(u);
    free(command);
    cli_parse_free(&a);
    return status;
}

const cli_command cli_tune = {
    "tune",
    "PRESET [proxy=WIDTH] [key=value ...] [--out FILE.ini] [--budget 20m]",
    "find lr and radii on a narrow model, for a wide one",
    "Trains PRESET at a small width (proxy; a quarter of the preset's if not given) with many values of lr and of "
    "the\n"
    "radii, and writes an .ini file with the best of them for the preset's own width (or width=). Candidates start "
    "with\n"
    "a ninth of the steps; the best third goes on to a third of the steps, the best third of these to all, then the\n"
    "winner's neighbours in lr are tried. Values that change nothing for the rule are not searched.\n\n"
    "The runs stand in a ledger (sweeps/PRESET-tune.db): a tuning that was stopped goes on when the command is "
    "given\n"
    "again, and several processes may work on one ledger at once.\n"
    "  --out FILE.ini       what is written (PRESET-tuned.ini); --force replaces a file\n"
    "  --candidates N       points in the first rung (27)\n"
    "  --rungs N            3: 1/9, 1/3 and all of the steps\n"
    "  --seeds N            runs of each point, with seeds from seed= on; their mean counts (1)\n"
    "  --budget TIME        90s, 20m, 1h30m: fewer candidates, if need be, and no run begins after that time\n"
    "  --jobs N             runs at the same time (as many as cores, up to 4)\n"
    "  --ledger FILE        ledger of the runs\n\n"
    "  scion tune shakespeare data=input.txt width=512 proxy=64\n"
    "  scion tune mlp data=fashion-mnist/ width=2048 --budget 20m --out wide.ini\n"
    "  scion train wide.ini\n",
    run_tune,
};
