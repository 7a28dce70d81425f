/* scion reproduce: the paper's figures, at a size for two cores. */
#include "reproduce/reproduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli.h"
#include "report/report.h"
#include "run/run_dir.h"
#include "sweep/estimate.h"
#include "sweep/sweep.h"

/* Runs are not shortened below this fraction of their steps: they would say nothing. */
static const double min_share = 0.05;

typedef struct job {
    const reproduce_figure *figure;
    bool full;
    double budget; /* seconds, 0: none */
    int64_t jobs, threads;
    char data[CONFIG_TEXT], folder[CONFIG_TEXT], ledger[RUN_PATH], page[RUN_PATH];
} job;

static cli_progress progress;

/* Progress of figures that are not sweeps. */
static bool show_share(double share)
{
    cli_progress_show(&progress, false, "%.0f%%", 100 * share);
    return !cli_interrupted();
}

static const char *figure_name(int i)
{
    const reproduce_figure *f = reproduce_at(i);
    return f ? f->name : NULL;
}

static void list_figures(FILE *to)
{
    const reproduce_figure *f;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++)
        cli_entry(to, 25, f->name, f->title);
}

/* Adds the runs of the figure to its ledger, shortened to the budget. A ledger that has runs is resumed as it is. */
static scion_status plan(const job *j, scion_error *err)
{
    ledger *l = NULL;
    ledger_run *runs = NULL;
    config *points = NULL;
    int64_t before, count = 0, added;
    double seconds = 0;
    char left[16], allowed[16];
    scion_status status = ledger_open(&l, j->ledger, true, err);
    if (status == SCION_OK)
        status = ledger_runs(l, &runs, &before, err);
    free(runs);
    ledger_close(l);
    if (status == SCION_OK && before > 0)
        cli_progress_show(&progress, true, "resuming the %lld runs of %s (out=FOLDER starts in another folder)",
                          (long long)before, j->ledger);
    if (status != SCION_OK || before > 0)
        return status;
    status = reproduce_points(j->figure, j->full, j->data[0] ? j->data : NULL, &points, &count, err);
    if (status == SCION_OK && !j->full) {
        cli_progress_show(&progress, false, "measuring how long %lld runs will take", (long long)count);
        status = sweep_estimate(points, count, (int)j->jobs, (int)j->threads, &seconds, err);
    }
    if (status == SCION_OK && j->budget > 0 && seconds > j->budget) {
        const double share = fmax(min_share, j->budget / seconds);
        cli_progress_show(&progress, true, "%lld runs would take %s; shortened to %.0f%% of their steps for %s%s",
                          (long long)count, cli_duration(seconds, left), 100 * share,
                          cli_duration(j->budget, allowed),
                          share > j->budget / seconds ? ", which will not be enough" : "");
        reproduce_shorten(points, count, share);
    } else if (status == SCION_OK && !j->full) {
        cli_progress_show(&progress, true, "%lld runs, about %s", (long long)count, cli_duration(seconds, left));
    }
    if (status == SCION_OK)
        status = ledger_open(&l, j->ledger, true, err);
    else
        l = NULL;
    if (status == SCION_OK)
        status = ledger_add(l, LEDGER_TRAINING, points, count, &added, err);
    if (l)
        ledger_close(l);
    free(points);
    return status;
}

static scion_status judge(const job *j, reproduce_judgement *verdict, scion_error *err)
{
    ledger *l;
    ledger_run *runs = NULL;
    int64_t count;
    scion_status status = ledger_open(&l, j->ledger, false, err);
    if (status == SCION_OK)
        status = ledger_runs(l, &runs, &count, err);
    if (status == SCION_OK)
        j->figure->judge(l, runs, count, verdict);
    free(runs);
    ledger_close(l);
    return status;
}

static scion_status write_page(const job *j, const reproduce_judgement *verdict, scion_error *err)
{
    char lead[1280];
    const char *source = j->ledger;
    snprintf(lead, sizeof lead, "Claim: %s. Here: %s (%s). Size: %s.", j->figure->claim, verdict->sentence,
             reproduce_verdict_name(verdict->verdict), j->full ? "the paper's own" : "reduced, for two cores");
    const report_options o = {.title = j->figure->title, .lead = lead};
    return report_write(&source, 1, j->page, &o, err);
}

/* Plans and runs; *open: how many runs are left. */
static scion_status run_sweeps(const job *j, int64_t *open, scion_error *err)
{
    sweep_progress end = {.left = 0};
    const sweep_options o = {
        .jobs = (int)j->jobs, .threads = (int)j->threads, .seconds = 1.25 * j->budget, /* estimates are not exact */
    };
    scion_status status = plan(j, err);
    if (status == SCION_OK)
        status = cli_sweep_work(j->ledger, &o, &end, err);
    *open = end.count[LEDGER_WAITING] + end.count[LEDGER_RUNNING];
    return status;
}

static int reproduce(const job *j)
{
    reproduce_judgement verdict = {REPRODUCE_OPEN, ""};
    scion_error err;
    int64_t open = 0;
    scion_status status = j->figure->make ? j->figure->make(j->folder, j->full, j->data, show_share, &verdict, &err)
                                          : run_sweeps(j, &open, &err);
    cli_progress_clear(&progress);
    if (status == SCION_OK && !j->figure->make) {
        status = judge(j, &verdict, &err);
        if (open > 0)
            verdict.verdict = REPRODUCE_OPEN; /* whatever the finished runs say */
        if (status == SCION_OK)
            status = write_page(j, &verdict, &err);
        if (status == SCION_OK)
            cli_sweep_show(j->ledger, NULL);
    }
    if (status == SCION_ESTOPPED && cli_interrupted())
        return cli_error(cli_stopped(), "stopped; repeat the command to resume");
    if (status != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    printf("\nclaim: %s\n", j->figure->claim);
    if (open > 0)
        printf("not complete: %lld runs are left; repeat the command to resume\n", (long long)open);
    cli_fill(stdout, 4, "%s: %s", reproduce_verdict_name(verdict.verdict), verdict.sentence);
    printf("%s\n", j->page);
    return CLI_OK;
}

/* Fills in data and folder; not CLI_OK after printing an error. */
static int complete(job *j)
{
    const reproduce_data *data = j->figure->data;
    if (data && data->path && !j->data[0] && access(data->path, R_OK) == 0)
        snprintf(j->data, sizeof j->data, "%s", data->path);
    if (data && !j->data[0] && !(j->full && data->full_has_own))
        return cli_error(CLI_USAGE, "%s needs %s: give data=%s", j->figure->name, data->what, data->value);
    if (!j->folder[0])
        snprintf(j->folder, sizeof j->folder, "reproduce/%s", j->figure->name);
    scion_error err;
    if (file_make_folder(j->folder, &err) != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    if (access(j->folder, W_OK) != 0)
        return cli_error(CLI_FAILED, "%s: cannot write in this folder", j->folder);
    snprintf(j->ledger, sizeof j->ledger, "%s/ledger.db", j->folder);
    snprintf(j->page, sizeof j->page, "%s/report.html", j->folder);
    return CLI_OK;
}

enum { DATA, OUT, BUDGET, JOBS, THREADS, FULL };

static const cli_argument arguments[] = {
    [DATA] = CLI_SETTING("data", "PATH", "the text or images to learn from"),
    [OUT] = CLI_SETTING("out", "FOLDER", "the report and the ledger (reproduce/FIGURE)"),
    [BUDGET] = CLI_SETTING("budget", "TIME", "shorten the runs so that all fit in TIME (20m)"),
    [JOBS] = CLI_SETTING("jobs", "N", "runs at the same time (2; of --full 1)"),
    [THREADS] = CLI_SETTING("threads", "N", "threads of all jobs together (all cores)"),
    [FULL] = CLI_SWITCH("--full", "the paper's widths, steps and batches, without a budget"),
    {0},
};

static int run_reproduce(cli_arguments *a)
{
    job j = {.budget = 20 * 60, .jobs = 0};
    progress = cli_progress_start(stderr);
    if (!cli_get_text(a, DATA, j.data, sizeof j.data) || !cli_get_text(a, OUT, j.folder, sizeof j.folder) ||
        !cli_get_int(a, JOBS, 1, SWEEP_JOBS, &j.jobs) || !cli_get_int(a, THREADS, 0, 4096, &j.threads))
        return CLI_USAGE;
    j.figure = a->word_count == 1 ? reproduce_find(a->words[0]) : NULL;
    if (!j.figure) {
        if (a->word_count == 1)
            cli_error(CLI_USAGE, "there is no figure %s; the figures are:", a->words[0]);
        else
            cli_error(CLI_USAGE, "name one figure; the figures are:");
        list_figures(stderr);
        return CLI_USAGE;
    }
    j.full = a->values[FULL] != NULL;
    j.budget = j.full ? 0 : j.budget;
    if (!cli_get_seconds(a, BUDGET, &j.budget))
        return CLI_USAGE;
    if (j.jobs == 0) /* small runs use two cores best with one core each */
        j.jobs = j.full ? 1 : 2;
    const int status = complete(&j);
    if (status != CLI_OK)
        return status;
    cli_catch_signals();
    cli_outlive_reader();
    return reproduce(&j);
}

const cli_command cli_reproduce = {
    .name = "reproduce",
    .usage = "FIGURE [key=value ...] [--full]",
    .summary = "reproduce a figure of the paper and compare",
    .help = "Texts and images are given with data=; Debian's Fashion-MNIST is found automatically. Sizes are\n"
            "for two cores. The folder (out=, default reproduce/FIGURE) holds report.html and the ledger: to\n"
            "resume a figure that was stopped, repeat the command. The last lines say whether the paper's claim\n"
            "was reproduced, with the deciding number.\n\n"
            "  scion reproduce shallow-gpt-transfer data=input.txt budget=30m\n"
            "  scion reproduce mlp-transfer\n"
            "  scion reproduce rates\n",
    .run = run_reproduce,
    .arguments = arguments,
    .word = figure_name,
    .list = list_figures,
};
