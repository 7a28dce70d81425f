/* scion sweep: many runs over one ledger; scion sweep show: what they say. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli.h"
#include "sweep/grid.h"
#include "sweep/sweep.h"
#include "sweep_progress.h"
#include "sweep_show.h"

/* The ledger of a sweep that was given none: sweeps/PRESET.db. */
static void name_ledger(const char *preset, char path[CONFIG_TEXT])
{
    char name[200];
    file_name(preset, ".ini", name, sizeof name);
    snprintf(path, CONFIG_TEXT, "sweeps/%s.db", name);
}

/* Adds the grid of one preset to the ledger. Nothing is added unless all of it is right. */
static scion_status add_grid(ledger *l, const char *preset, const cli_arguments *a, int64_t *added, scion_error *err)
{
    config base;
    grid g;
    config_init(&base);
    scion_status status = preset ? config_preset(&base, preset, err) : SCION_OK;
    if (status != SCION_OK)
        return status;
    base.run.out[0] = '\0';
    status = grid_make(&g, &base, a->pairs, a->pair_count, err);
    if (status == SCION_OK && l)
        status = ledger_add_all(l, LEDGER_TRAINING, g.points, g.count, added, err);
    grid_free(&g);
    return status;
}

static int grids_of(const cli_arguments *a)
{
    return a->word_count > 0 ? a->word_count : a->pair_count > 0;
}

/* All are looked at before one is added. */
static scion_status check_grids(const cli_arguments *a, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < grids_of(a); i++)
        status = add_grid(NULL, a->words[i], a, NULL, err);
    return status;
}

static scion_status add_grids(const char *path, const cli_arguments *a, int64_t *added, scion_error *err)
{
    ledger *l = NULL;
    scion_status status = SCION_OK;
    const int grids = grids_of(a);
    *added = 0;
    if (strncmp(path, "sweeps/", 7) == 0)
        mkdir("sweeps", 0777); /* if that fails, so does what follows, and says why */
    if (status == SCION_OK)
        status = ledger_open(&l, path, grids > 0, err);
    for (int i = 0; status == SCION_OK && i < grids; i++) {
        int64_t more = 0;
        status = add_grid(l, a->words[i], a, &more, err);
        *added += more;
    }
    ledger_close(l);
    return status;
}

static scion_status retry(const char *path, bool diverged, scion_error *err)
{
    ledger *l;
    int64_t count = 0;
    scion_status status = ledger_open(&l, path, false, err);
    if (status == SCION_OK)
        status = ledger_retry(l, diverged, &count, err);
    if (status == SCION_OK)
        printf("%lld runs are tried again\n", (long long)count);
    ledger_close(l);
    return status;
}

static int finish(const char *path, const char *json, const sweep_progress *p)
{
    const int64_t open = p->count[LEDGER_WAITING] + p->count[LEDGER_RUNNING];
    char took[16];
    printf("%lld runs done, %lld diverged, %lld failed", (long long)p->count[LEDGER_DONE],
           (long long)p->count[LEDGER_DIVERGED], (long long)p->count[LEDGER_FAILED]);
    if (open > 0)
        printf(", %lld to go (scion sweep ledger=%s goes on)", (long long)open, path);
    printf("; %s in %s\n", path, cli_duration(p->seconds, took));
    return cli_show_sweep(path, json);
}

static int run_sweep(int argc, char **argv)
{
    static const char *const flags[] = {"--retry", "--retry-diverged", "--add", "--json=", NULL};
    cli_arguments a;
    char path[CONFIG_TEXT] = "";
    int64_t jobs = 1, threads = 0, added = 0;
    double minutes = 0;
    scion_error err;
    sweep_view w = {.progress = cli_progress_start()};
    int status = CLI_USAGE;
    if (!cli_parse(&a, argc, argv, flags))
        goto done;
    if (!cli_take_text(&a, "ledger", path, sizeof path) || !cli_take_int(&a, "jobs", 1, SWEEP_JOBS, &jobs) ||
        !cli_take_int(&a, "threads", 0, 4096, &threads) || !cli_take_real(&a, "minutes", &minutes))
        goto done;
    if (a.word_count > 0 && strcmp(a.words[0], "show") == 0) {
        if (a.word_count == 2 && !path[0])
            snprintf(path, sizeof path, "%s", a.words[1]);
        status = path[0] && a.word_count <= 2 && a.pair_count == 0
                     ? cli_show_sweep(path, a.values[3])
                     : cli_error(CLI_USAGE, "scion sweep show takes one ledger, and nothing else");
        goto done;
    }
    if (!path[0] && a.word_count == 0) {
        cli_error(CLI_USAGE, "name a preset to sweep, or the ledger of a sweep to go on with: ledger=FILE");
        goto done;
    }
    if (!path[0])
        name_ledger(a.words[0], path);
    if (check_grids(&a, &err) != SCION_OK)
        goto wrong;
    status = CLI_FAILED;
    if (add_grids(path, &a, &added, &err) != SCION_OK)
        goto wrong;
    if ((a.values[0] || a.values[1]) && retry(path, a.values[1] != NULL, &err) != SCION_OK)
        goto wrong;
    printf("%lld new runs in %s\n", (long long)added, path);
    fflush(stdout);
    status = CLI_OK;
    if (a.values[2])
        goto done;
    cli_catch_signals();
    sweep_progress end;
    const sweep_options o = {
        .jobs = (int)jobs,
        .threads = (int)threads,
        .seconds = 60 * minutes,
        .stopped = cli_interrupted,
        .show = sweep_view_show,
        .context = &w,
    };
    status = CLI_FAILED;
    if (sweep_work(path, &o, &end, &err) != SCION_OK)
        goto wrong;
    cli_progress_clear(&w.progress);
    status = finish(path, a.values[3], &end);
    goto done;
wrong:
    cli_progress_clear(&w.progress);
    cli_error(status, "%s", err.message);
done:
    sweep_view_free(&w);
    cli_parse_free(&a);
    return status;
}

const cli_command cli_sweep = {
    "sweep",
    "[PRESET ...] key=values ... [ledger=FILE] [jobs=N] | show LEDGER",
    "train many configurations, and compare them",
    "Every option can be swept, with lists and ranges:\n"
    "  lr=2^-12..2^-2       powers of two          seed=1..3             whole numbers\n"
    "  width=64..512:*2     any factor             momentum=0.1..0.5:0.1 equal steps\n"
    "  rule=scion,adamw     a list                 norms=onehot/shared   norms, for one may have commas\n\n"
    "The runs stand in a ledger (an SQLite file, sweeps/PRESET.db unless ledger= names another). A sweep that was\n"
    "stopped or killed goes on when the command is given again; several processes may work on one ledger at once.\n"
    "Runs that fail or diverge are recorded as such; --retry and --retry-diverged try them again.\n"
    "  jobs=N               runs at the same time; the threads are divided among them\n"
    "  threads=N            of all of them together (all cores)\n"
    "  minutes=N            begin no run after that time\n"
    "  --add                add the runs to the ledger and leave them to others\n\n"
    "scion sweep show LEDGER [--json FILE] prints the losses by learning rate and width, the best of each width, "
    "how\n"
    "far the best learning rate moves from the smallest to the largest, and what that costs.\n\n"
    "  scion sweep shallow-gpt data=input.txt lr=2^-8..2^-3 width=64,128,256 rule=scion,uscion\n"
    "  scion sweep shallow-gpt shallow-gpt-adamw data=input.txt lr=2^-12..2^-2 width=64,256 ledger=both.db\n"
    "  scion sweep ledger=both.db jobs=2         go on, or help\n"
    "  scion sweep show both.db\n",
    run_sweep,
};
