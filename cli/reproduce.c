/* scion reproduce: the paper's figures, at a size for two cores. */
#include "reproduce/reproduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/fail.h"
#include "util/file.h"
#include "cli.h"
#include "data/catalogue.h"
#include "record/run_dir.h"
#include "sweep/sweep.h"

typedef struct job {
    const reproduce_figure *figure;
    bool full;
    double budget; /* seconds, 0: none */
    int64_t seeds; /* 0: the default, or fewer if the budget does not allow it */
    int64_t jobs, threads;
    char data[CONFIG_TEXT], folder[CONFIG_TEXT], ledger[RUN_PATH], page[RUN_PATH];
} job;

static cli_progress progress;

/* Progress of figures that are not sweeps. */
static bool show_share(double share)
{
    cli_progress_show(&progress, CLI_STATUS, "%.0f%%", 100 * share);
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

/* The runs of a new figure, with as many seeds and steps as fit in the budget; *forecast: seconds that they take. */
static scion_status make_points(const job *j, config **points, int64_t *count, double *forecast, scion_error *err)
{
    const char *data = j->data[0] ? j->data : NULL;
    double seconds = 0, share = 1;
    int64_t seeds = j->seeds > 0 ? j->seeds : REPRODUCE_SEEDS;
    char left[16], allowed[16];
    if (j->full)
        return reproduce_points(j->figure, true, data, seeds, points, count, err);
    scion_status status;
    TRY(reproduce_points(j->figure, false, data, 1, points, count, err));
    cli_progress_show(&progress, CLI_STATUS, "measuring how long %lld runs will take", (long long)*count);
    TRY(sweep_estimate(*points, *count, (int)j->jobs, (int)j->threads, &seconds, err));
    seeds = reproduce_afford(seconds, j->budget, j->seeds > 0 ? j->seeds : 1, seeds, &share);
    free(*points);
    *points = NULL;
    TRY(reproduce_points(j->figure, false, data, seeds, points, count, err));
    seconds *= (double)seeds;
    if (share < 1 && share * seconds > 1.01 * j->budget)
        cli_progress_show(
            &progress, CLI_WARNING,
            "%lld runs of %lld seed%s, shortened to %.0f%% of their steps, take about %s: after the budget "
            "of %s the others are left, the last seed first",
            (long long)*count, (long long)seeds, seeds == 1 ? "" : "s", 100 * share,
            cli_duration(share * seconds, left), cli_duration(j->budget, allowed));
    else if (share < 1)
        cli_progress_show(&progress, CLI_PLAIN,
                          "%lld runs of %lld seed%s would take %s; shortened to %.0f%% of their steps for %s",
                          (long long)*count, (long long)seeds, seeds == 1 ? "" : "s", cli_duration(seconds, left),
                          100 * share, cli_duration(j->budget, allowed));
    else
        cli_progress_show(&progress, CLI_PLAIN, "%lld runs of %lld seed%s, about %s", (long long)*count,
                          (long long)seeds, seeds == 1 ? "" : "s", cli_duration(seconds, left));
    reproduce_shorten(*points, *count, share);
    *forecast = share * seconds;
done:
    return status;
}

/* The runs of a ledger with more seeds, if asked for: its first seed and the following ones. */
static scion_status more_seeds(const job *j, const ledger_run *runs, int64_t before, config **points, int64_t *count,
                               scion_error *err)
{
    *points = malloc((size_t)(before * (j->seeds > 0 ? j->seeds : 1)) * sizeof **points);
    *count = 0;
    if (!*points)
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld runs", (long long)before);
    for (int64_t i = 0; i < before; i++)
        for (int64_t s = 0; runs[i].c.training.seed == runs[0].c.training.seed && s < j->seeds; s++) {
            (*points)[*count] = runs[i].c;
            (*points)[(*count)++].training.seed += (uint64_t)s;
        }
    return SCION_OK;
}

/* Adds the runs of the figure to its ledger. A ledger that has runs is resumed as it is, or gets more seeds. */
static scion_status plan(const job *j, double *forecast, scion_error *err)
{
    ledger *l = NULL;
    ledger_run *runs = NULL;
    config *points = NULL;
    int64_t before = 0, count = 0, added = 0;
    scion_status status;
    TRY(ledger_open(&l, j->ledger, true, err));
    TRY(ledger_runs(l, &runs, &before, err));
    ledger_close(l); /* not open while processes measure */
    l = NULL;
    TRY(before > 0 ? more_seeds(j, runs, before, &points, &count, err)
                   : make_points(j, &points, &count, forecast, err));
    TRY(ledger_open(&l, j->ledger, true, err));
    if (count > 0)
        TRY(ledger_add(l, LEDGER_TRAINING, points, count, &added, err));
    if (before > 0)
        cli_progress_show(&progress, CLI_PLAIN,
                          "resuming the %lld runs of %s%s (out=FOLDER starts in another folder)",
                          (long long)(before + added), j->ledger, added > 0 ? ", with more seeds" : "");
done:
    ledger_close(l);
    free(points);
    free(runs);
    return status;
}

/* Judges a sweep, and shows it on a page and as tables. */
static scion_status judge(const job *j, int64_t left, reproduce_judgement *verdict, scion_error *err)
{
    ledger *l = NULL;
    ledger_run *runs = NULL;
    int64_t count;
    scion_status status;
    TRY(ledger_open(&l, j->ledger, false, err));
    TRY(ledger_runs(l, &runs, &count, err));
    reproduce_judge(j->figure, l, runs, count, left, verdict);
    TRY(reproduce_page(j->figure, j->full, verdict, j->ledger, j->page, err));
    cli_sweep_show(j->ledger);
done:
    free(runs);
    ledger_close(l);
    return status;
}

/* Plans and runs; *open: how many runs are left. */
static scion_status run_sweeps(const job *j, int64_t *open, scion_error *err)
{
    sweep_progress end = {.left = 0};
    sweep_options o = {
        .jobs = (int)j->jobs, .threads = (int)j->threads, .seconds = 1.25 * j->budget, /* estimates are not exact */
    };
    scion_status status = plan(j, &o.forecast, err);
    if (status == SCION_OK)
        status = cli_sweep_work(j->ledger, &o, &end, err);
    *open = end.count[RUN_WAITING] + end.count[RUN_RUNNING];
    return status;
}

/* Each part of the claim with its verdict, then the margin and the verdict on the whole. */
static void print_judgement(const job *j, const reproduce_judgement *v)
{
    int found[3] = {0};
    printf("\n");
    cli_fill(stdout, 7, "claim: %s", j->figure->claim);
    for (int i = 0; i < v->count; i++) {
        const reproduce_part *p = &v->parts[i];
        char text[sizeof p->claim + sizeof p->evidence + 4];
        found[p->finding]++;
        snprintf(text, sizeof text, "%s: %s", p->claim, p->evidence);
        cli_entry(stdout, 13, stat_name(p->finding), text);
    }
    if (v->aside[0])
        cli_entry(stdout, 13, "(besides)", v->aside);
    cli_fill(stdout, 8, "margin: %s", v->margin);
    cli_fill(stdout, 6, "size: %s%s%s", j->figure->size[j->full], v->runs[0] ? "; " : "", v->runs);
    printf("%s: %d part%s kept, %d failed, %d undecided\n%s\n",
           reproduce_verdict_name(j->figure, reproduce_verdict_of(v)), found[STAT_KEPT],
           found[STAT_KEPT] == 1 ? "" : "s", found[STAT_FAILED], found[STAT_UNDECIDED], j->page);
}

static int reproduce(const job *j)
{
    static reproduce_judgement verdict;
    const reproduce_order order = {j->folder, j->full, j->seeds > 0 ? j->seeds : REPRODUCE_SEEDS, show_share};
    scion_error err;
    int64_t open = 0;
    scion_status status =
        j->figure->make ? j->figure->make(j->figure, &order, &verdict, &err) : run_sweeps(j, &open, &err);
    cli_progress_clear(&progress);
    if (status == SCION_OK && !j->figure->make)
        status = judge(j, open, &verdict, &err);
    if (status == SCION_ESTOPPED && cli_interrupted())
        return cli_error(cli_stopped(), "stopped; repeat the command to resume");
    if (status != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    if (open > 0)
        printf("\nnot complete: %lld runs are left; repeat the command to resume\n", (long long)open);
    print_judgement(j, &verdict);
    return CLI_OK;
}

/* Fills in data and folder; not CLI_OK after printing an error. */
static int complete(job *j)
{
    const reproduce_data *data = j->figure->data;
    if (data && data->set && !j->data[0] && catalogue_here(catalogue_find(data->set), NULL))
        snprintf(j->data, sizeof j->data, "%s", data->set);
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

enum { DATA, OUT, SEEDS, BUDGET, JOBS, THREADS, FULL };

static const cli_argument arguments[] = {
    [DATA] = CLI_SETTING("data", "PATH", "the text or images to learn from"),
    [OUT] = CLI_SETTING("out", "FOLDER", "the report and the ledger (reproduce/FIGURE)"),
    [SEEDS] = CLI_SETTING("seeds", "N", "runs of each point (3, or as many as the budget allows)"),
    [BUDGET] = CLI_SETTING("budget", "TIME", "shorten the runs so that all fit in TIME (20m)"),
    [JOBS] = CLI_SETTING("jobs", "N", "runs at the same time (2; of --full 1)"),
    [THREADS] = CLI_SETTING("threads", "N", "threads of all jobs together (all cores)"),
    [FULL] = CLI_SWITCH("--full", "steps and batches of the paper, without a budget"),
    {0},
};

static int run_reproduce(cli_arguments *a)
{
    job j = {.budget = 20 * 60, .jobs = 0};
    progress = cli_progress_start(stderr);
    if (!cli_get_text(a, DATA, j.data, sizeof j.data) || !cli_get_text(a, OUT, j.folder, sizeof j.folder) ||
        !cli_get_int(a, SEEDS, 1, 100, &j.seeds) || !cli_get_int(a, JOBS, 1, SWEEP_JOBS, &j.jobs) ||
        !cli_get_int(a, THREADS, 0, 4096, &j.threads))
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
    .help = "Texts and images are given with data=; CIFAR-10 (scion data get cifar10), else Debian's Fashion-MNIST, "
            "is found automatically. Sizes are for two cores. The folder (out=, default reproduce/FIGURE) holds "
            "report.html and the ledger: to resume a figure that was stopped, repeat the command; with a larger "
            "seeds= it gets more seeds. "
            "The last lines judge each part of the paper's claim: kept, failed, or undecided where seeds overlap "
            "or a best value lies on the edge of its grid (one seed decides little). Warm-ups and decays keep their "
            "shares of shortened runs, a warm-up at least one step.\n\n"
            "  scion reproduce shallow-gpt-transfer data=input.txt budget=30m\n"
            "  scion reproduce mlp-transfer\n"
            "  scion reproduce rates\n",
    .run = run_reproduce,
    .arguments = arguments,
    .word = figure_name,
    .list = list_figures,
};
