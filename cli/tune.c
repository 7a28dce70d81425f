/* scion tune: finds lr and radii on a narrow model, for a wide one. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"
#include "base/thread.h"
#include "util/fail.h"
#include "util/file.h"
#include "cli.h"
#include "comm/launcher.h"
#include "config/config.h"
#include "sweep/grid.h"
#include "tune/tune.h"
#include "util/clock.h"
#include "util/utf8.h"

enum { max_default_jobs = 4 };

enum { PROXY, OUT, LEDGER, CANDIDATES, RUNGS, SEEDS, JOBS, BUDGET, ALL, DROP, FORCE };

static const cli_argument arguments[] = {
    [PROXY] = CLI_SETTING("proxy", "WIDTH", "width of the narrow model (a quarter of the width)"),
    [OUT] = CLI_SETTING("out", "FILE", "the .ini file to write (PRESET-tuned.ini)"),
    [LEDGER] = CLI_SETTING("ledger", "FILE", "ledger of the runs (sweeps/PRESET-tune.db)"),
    [CANDIDATES] = CLI_SETTING("candidates", "N", "points in the first rung (27)"),
    [RUNGS] = CLI_SETTING("rungs", "N", "3: 1/9, 1/3 and all of the steps (3)"),
    [SEEDS] = CLI_SETTING("seeds", "N", "runs of each point, from seed= on; their mean counts (1)"),
    [JOBS] = CLI_SETTING("jobs", "N", "runs at the same time (as many as cores, up to 4)"),
    [BUDGET] = CLI_SETTING("budget", "TIME", "20m, 1h30m: fewer points if needed, no run started later"),
    [ALL] = CLI_SWITCH("--all", "also run other waiting runs of the ledger"),
    [DROP] = CLI_SWITCH("--drop", "remove what else waits in the ledger"),
    [FORCE] = CLI_SWITCH("--force", "replace the file"),
    {0},
};

typedef struct tuning {
    cli_progress progress;
    tune t;
    config target;
    tune_runs runs;
    char ledger[CONFIG_TEXT], out[CONFIG_TEXT];
    int64_t proxy; /* width, 0: not given */
    int64_t first; /* trial of those that are being measured */
    double begin;
} tuning;

/* ---- Output --------------------------------------------------------------------------------------------------- */

/* "lr 2^-5, radius_last 10": the values that are searched. */
static const char *point_text(const tune *t, const tune_point *p, char text[256])
{
    text[0] = '\0';
    for (int a = 0; a < TUNE_AXES; a++) {
        char value[CONFIG_TEXT];
        if (t->space.fixed[a])
            continue;
        tune_value_text(t, p, (tune_axis)a, value);
        utf8_append(text, 256, "%s%s %s", text[0] ? ", " : "", tune_option((tune_axis)a)->key, value);
    }
    return text;
}

static void show_plan(const tune *t, const config *target, const char *ledger_path)
{
    const int64_t size = tune_space_size(&t->space);
    char took[16];
    cli_line line;
    FILE *to = cli_line_begin(&line);
    cli_print(to, "tuning %s at width %lld for width %lld:", target->preset, (long long)config_int(&t->base, "width"),
              (long long)config_int(target, "width"));
    for (int a = 0; a < TUNE_AXES; a++)
        if (!t->space.fixed[a])
            fprintf(to, " %s", tune_option((tune_axis)a)->key);
    fprintf(to, "; %lld of %lld points", (long long)(t->candidates < size ? t->candidates : size), (long long)size);
    if (t->budget > 0)
        fprintf(to, ", at most %s", cli_duration(t->budget, took));
    cli_print(to, "; ledger %s", ledger_path);
    cli_line_end(&line, stdout, 4);
    for (int a = 0; a < TUNE_AXES; a++)
        if (t->space.fixed[a])
            cli_fill(stdout, 4, "%s is not searched: %s", tune_option((tune_axis)a)->key, t->space.fixed[a]);
    fflush(stdout);
}

/* Prints the full-length runs, the best first. */
static void show_table(const tune *t)
{
    putchar('\n');
    tune_table(stdout, t, t->trials[t->best].rung, "");
    const int64_t ties = tune_ties(t);
    if (ties >= 0)
        cli_fill(stdout, 4, "%lld of the others cannot be distinguished from it with %d seeds (95%% intervals)",
                 (long long)ties, t->seeds);
}

/* asked: candidates at first; added: new runs; out: the file that was written. */
static void show_result(const tune *t, const config *target, int64_t asked, int64_t added, const char *out)
{
    const tune_trial *winner = &t->trials[t->best];
    char values[256];
    cli_line line;
    show_table(t);
    if (t->candidates < asked && t->candidates < tune_space_size(&t->space))
        cli_fill(stdout, 4, "\nthe budget was enough for %lld of %lld points", (long long)t->candidates,
                 (long long)asked);
    if (t->failure[0])
        cli_fill(stdout, 4, "\nsome runs failed: %s", t->failure);
    if (t->time_up)
        cli_fill(stdout, 4,
                 "\nout of time: the values are the best of rung %d of %d; repeat the command with --force to resume",
                 winner->rung + 1, t->rungs);
    else if (winner->rung < t->rungs - 1)
        cli_fill(stdout, 4, "\nno run of a later rung gave a loss: the values are the best of rung %d of %d",
                 winner->rung + 1, t->rungs);
    else if (!t->settled)
        cli_fill(stdout, 4, "\nthe search along lr did not finish: scion tune %s continues it", out);
    for (int a = TUNE_FIRST; a < TUNE_AXES; a++)
        if (tune_at_edge(t, (tune_axis)a))
            cli_fill(stdout, 4, "\n%s is at the edge of the searched range: scion tune %s continues from there",
                     tune_option((tune_axis)a)->key, out);
    putchar('\n');
    FILE *to = cli_line_begin(&line);
    fprintf(to, "found %s", point_text(t, &winner->at, values));
    if (t->own == t->best)
        fprintf(to, ": the preset's own values are the best");
    else if (t->own >= 0 && isfinite(t->trials[t->own].loss))
        fprintf(to, ": loss %.4f at width %lld, the preset's own values give %.4f", winner->loss,
                (long long)config_int(&t->base, "width"), t->trials[t->own].loss);
    cli_line_end(&line, stdout, 4);
    cli_fill(stdout, 4, "%lld new run%s; the values and the measurements are in %s", (long long)added,
             cli_plural(added), out);
    if (config_int(target, "width") != config_int(&t->base, "width") && !tune_carries(target))
        cli_fill(stdout, 4, "rule %s: the best lr may differ at width %lld (check with scion sweep)",
                 target->optimizer.rule, (long long)config_int(target, "width"));
    cli_print(stdout, "scion train %s\n", out);
}

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
    const int64_t ended = p->count[RUN_DONE] + p->count[RUN_DIVERGED] + p->count[RUN_FAILED];
    for (int64_t i = 0; p->runs && i < p->run_count && !running[0]; i++)
        if (p->runs[i].result.state == RUN_RUNNING && p->runs[i].result.steps > 0)
            snprintf(running, sizeof running, "  now step %lld/%lld", (long long)p->runs[i].result.step,
                     (long long)p->runs[i].result.steps);
    snprintf(where, sizeof where, "%s: %lld of %lld runs%s", rung_text(u, rung), (long long)ended,
             (long long)(ended + p->count[RUN_WAITING] + p->count[RUN_RUNNING]), running);
    if (isfinite(p->left) && p->left > 0)
        cli_progress_show(&u->progress, CLI_STATUS, "%s  %s left", where, cli_duration(p->left, left));
    else
        cli_progress_show(&u->progress, CLI_STATUS, "%s", where);
}

/* Measures by the ledger, and prints the result. */
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
        diverged += t->trials[i].state == RUN_DIVERGED;
        failed += t->trials[i].state == RUN_FAILED;
        waiting += t->trials[i].state == RUN_WAITING;
        if (isfinite(t->trials[i].loss) && (best < 0 || t->trials[i].loss < t->trials[best].loss))
            best = i;
    }
    cli_line line;
    FILE *to = cli_line_begin(&line);
    fprintf(to, "%s: %lld point%s, %lld diverged, %lld failed", rung_text(u, rung), (long long)count,
            count > 1 ? "s" : "", (long long)diverged, (long long)failed);
    if (waiting > 0)
        fprintf(to, ", %lld not run", (long long)waiting);
    if (best >= 0)
        fprintf(to, "; best %.4f at %s", t->trials[best].loss, point_text(t, &t->trials[best].at, values));
    fprintf(to, " (%s)", cli_duration(clock_now() - u->begin, took));
    cli_line_end(&line, stdout, 4);
    fflush(stdout);
    return SCION_OK;
}

/* ---- Arguments ------------------------------------------------------------------------------------------------ */

static bool read_flags(tuning *u, cli_arguments *a)
{
    const int cores = scn_threads(0);
    int64_t rungs = u->t.rungs, seeds = u->t.seeds, jobs = cores < max_default_jobs ? cores : max_default_jobs;
    if (!cli_get_int(a, CANDIDATES, 1, TUNE_MAX_CANDIDATES, &u->t.candidates) ||
        !cli_get_int(a, RUNGS, 1, TUNE_MAX_RUNGS, &rungs) || !cli_get_int(a, SEEDS, 1, 100, &seeds) ||
        !cli_get_int(a, JOBS, 1, SWEEP_JOBS, &jobs) || !cli_get_text(a, LEDGER, u->ledger, sizeof u->ledger) ||
        !cli_get_text(a, OUT, u->out, sizeof u->out) || !cli_get_int(a, PROXY, 1, 1 << 20, &u->proxy) ||
        !cli_get_seconds(a, BUDGET, &u->t.budget))
        return false;
    u->t.rungs = (int)rungs;
    u->t.seeds = (int)seeds;
    u->t.jobs = u->runs.sweep.jobs = (int)jobs;
    u->runs.all = a->values[ALL] != NULL;
    return true;
}

static int64_t default_proxy(const config *c)
{
    const model_row *row = config_model(c);
    const int64_t full = config_int(c, "width"), unit = row->proxy_divisor ? config_int(c, row->proxy_divisor) : 1;
    return scn_min(full, scn_max(full / 4 / unit * unit, scn_max(unit, row->proxy_min)));
}

static const char folder[] = "sweeps/"; /* of ledgers that are given no name */

static void name_files(tuning *u)
{
    char name[200];
    file_name(u->target.preset, ".ini", name, sizeof name);
    if (!u->out[0])
        snprintf(u->out, sizeof u->out, "%.200s-tuned.ini", name);
    if (!u->ledger[0])
        snprintf(u->ledger, sizeof u->ledger, "%s%.200s-tune.db", folder, name);
    u->runs.path = u->ledger;
}

/* The target's configuration and the proxy's. */
static scion_status read_target(tuning *u, const cli_arguments *a, scion_error *err)
{
    config *c = &u->target;
    scion_status status;
    config_init(c);
    TRY(cli_settings(c, a->words[0], a, err));
    if (!c->data.path[0] && data_needs_path(c->data.kind))
        return train_fail(err, SCION_EINVAL, "nothing to learn from: give data=FILE, or data_kind=synthetic");
    c->run.out[0] = '\0';
    u->t.base = *c;
    config_set_int(&u->t.base, "width", u->proxy > 0 ? u->proxy : default_proxy(c));
    if (config_int(&u->t.base, "width") > config_int(c, "width"))
        return train_fail(err, SCION_EINVAL, "proxy is %lld, expected at most the width %lld", (long long)u->proxy,
                          (long long)config_int(c, "width"));
    u->runs.sweep.threads = (int)c->training.threads;
    TRY(config_check(c, err));
    TRY(config_check(&u->t.base, err));
    TRY(tune_space_make(&u->t.space, &u->t.base, err));
done:
    return status;
}

/* Reports files that exist or cannot be written before the work, not after. */
static bool check_files(const tuning *u, const cli_arguments *a)
{
    struct stat about;
    char beside[CONFIG_TEXT];
    snprintf(beside, sizeof beside, "%s", u->out);
    char *slash = strrchr(beside, '/');
    snprintf(slash ? slash + 1 : beside, 2, "."); /* the folder that it is in */
    if (stat(u->out, &about) == 0 && !a->values[FORCE])
        cli_error(CLI_FAILED, "%s exists; --force replaces it, out=FILE names another", u->out);
    else if (access(beside, W_OK) != 0)
        cli_error(CLI_FAILED, "%s cannot be written: its folder is missing or read-only", u->out);
    else
        return cli_find_data(&u->target);
    return false;
}

/* Writes the .ini file, with the command line in its comments. */
static scion_status write_file(const tuning *u, const cli_arguments *a, scion_error *err)
{
    char *command = NULL;
    size_t bytes;
    FILE *to = open_memstream(&command, &bytes);
    if (!to)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", u->out);
    fputs("scion tune", to);
    for (int i = 0; i < a->argc; i++)
        fprintf(to, strpbrk(a->argv[i], " *?;'\"") ? " '%s'" : " %s", a->argv[i]);
    fclose(to);
    const scion_status status = tune_write(&u->t, &u->target, command, u->out, err);
    free(command);
    return status;
}

/* Removes runs of other settings that wait in the ledger, or mentions them. None that waits now will be missed: the
 * search adds what it needs. */
static scion_status other_runs(const tuning *u, bool drop, scion_error *err)
{
    static const int64_t none[1];
    ledger *l = NULL;
    if (access(u->ledger, F_OK) != 0)
        return SCION_OK;
    scion_status status;
    TRY(ledger_open(&l, u->ledger, false, err));
    TRY(ledger_only(l, none, 0, err));
    TRY(cli_sweep_others(stdout, l, u->ledger, u->runs.all, drop, err));
done:
    ledger_close(l);
    return status;
}

static int work(tuning *u, const cli_arguments *a)
{
    const int64_t asked = u->t.candidates;
    scion_error err;
    show_plan(&u->t, &u->target, u->ledger);
    if (strncmp(u->ledger, folder, sizeof folder - 1) == 0)
        mkdir(folder, 0777); /* if it fails, ledger_open reports why */
    cli_catch_signals();
    cli_outlive_reader();
    u->begin = clock_now();
    u->runs.end = u->t.budget > 0 ? u->begin + u->t.budget : 0;
    u->runs.sweep.stopped = cli_interrupted;
    u->runs.sweep.show = show_progress;
    u->runs.sweep.warn = cli_progress_warn;
    u->runs.sweep.context = u;
    u->runs.sweep.together = launcher_find().size > 1;
    scion_status status = a->values[DROP] ? other_runs(u, true, &err) : SCION_OK;
    if (status == SCION_OK)
        status = tune_search(&u->t, measure, u, &err);
    cli_progress_clear(&u->progress);
    if (status == SCION_ESTOPPED) {
        cli_print(stdout, "stopped; repeat the command to resume (%s)\n", u->ledger);
        return cli_interrupted() ? cli_stopped() : CLI_OK;
    }
    if (status == SCION_OK && launcher_find().rank > 0) /* every process searches alike; the first writes */
        return u->t.failure[0] ? CLI_FAILED : CLI_OK;
    if (status == SCION_OK)
        status = write_file(u, a, &err);
    if (status != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    show_result(&u->t, &u->target, asked, u->runs.added, u->out);
    if (!u->t.time_up && other_runs(u, false, &err) != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    return u->t.failure[0] ? CLI_FAILED : CLI_OK;
}

static int tune_preset(tuning *u, cli_arguments *a)
{
    scion_error err;
    tune_init(&u->t);
    u->progress = cli_progress_start(stderr);
    if (!read_flags(u, a))
        return CLI_USAGE;
    if (a->values[ALL] && a->values[DROP])
        return cli_error(CLI_USAGE, "give --all or --drop, not both");
    if (a->word_count == 0)
        return cli_error(CLI_USAGE,
                         "give a preset, or an .ini file: scion tune PRESET [proxy=WIDTH] [key=value ...]");
    if (!cli_words(a, 1, "one preset, then key=value"))
        return CLI_USAGE;
    if (read_target(u, a, &err) != SCION_OK)
        return cli_error(CLI_USAGE, "%s", err.message);
    name_files(u);
    return check_files(u, a) ? work(u, a) : CLI_FAILED;
}

static int run_tune(cli_arguments *a)
{
    tuning *u = calloc(1, sizeof *u);
    if (!u)
        return cli_error(CLI_FAILED, "out of memory");
    const int status = tune_preset(u, a);
    tune_free(&u->t);
    free(u);
    return status;
}

const cli_command cli_tune = {
    .name = "tune",
    .usage = "PRESET [proxy=WIDTH] [key=value ...]",
    .summary = "find lr and radii on a narrow model, for a wide one",
    .help = "Trains PRESET at a small width (proxy=; default: a quarter of the width) with many values of lr "
            "and of the radii, and writes an .ini file with the best of them for the preset's own width (or "
            "width=). Candidates are trained for a ninth of the steps, the best third of them for a third, the "
            "best third of these for all; then the winner's neighbours in lr are tried. Values that have no "
            "effect under the rule are not searched.\n\n"
            "Runs are kept in a ledger: to resume a tuning that was stopped, repeat the command. Several "
            "processes may work on one ledger at once. If a run fails, the exit status is 1.\n\n"
            "  scion tune shakespeare data=input.txt width=512 proxy=64\n"
            "  scion tune mlp data=fashion-mnist width=2048 budget=20m out=wide.ini\n"
            "  scion train wide.ini\n",
    .run = run_tune,
    .arguments = arguments,
    .options = CLI_ALL_OPTIONS,
    .words = CLI_PRESETS | CLI_FILES,
    .ranks = CLI_ALL_WORKERS,
};
