/* scion sweep: trains many configurations that are listed in a ledger; scion sweep show: prints their losses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/array.h"
#include "util/file.h"
#include "util/fail.h"
#include "cli.h"
#include "comm/launcher.h"
#include "sweep/grid.h"
#include "tune/transfer.h"
#include "util/utf8.h"

/* ---- Progress: a line for each run that has ended, and a status line ------------------------------------------ */

enum { max_columns = 16 };

typedef struct sweep_view {
    cli_progress progress;
    bool *printed; /* runs whose end was printed, by index in the ledger */
    int64_t capacity;
    const config_option *columns[max_columns]; /* options in which the runs differ */
    int column_count;
    bool estimated; /* the time left was printed, where there is no status line */
} sweep_view;

/* Prints the end of a run, numbers first so that they are aligned whatever its name. */
static void print_end(sweep_view *v, const ledger_run *r, const char *text)
{
    char took[16], loss[64], accuracy[32] = "";
    const run_result *e = &r->result;
    if (isnan(e->val_loss))
        snprintf(loss, sizeof loss, "loss %.4f", e->loss);
    else
        snprintf(loss, sizeof loss, "validation %.4f", e->val_loss);
    if (!isnan(e->val_bits_per_byte))
        utf8_append(loss, sizeof loss, "  %.4f bits per byte", e->val_bits_per_byte);
    if (!isnan(e->accuracy))
        snprintf(accuracy, sizeof accuracy, "  accuracy %.2f%%", 100 * e->accuracy);
    if (r->result.state == RUN_DONE)
        cli_progress_show(&v->progress, CLI_PLAIN, "done  %s%s  %6s  %s", loss, accuracy,
                          cli_duration(e->seconds, took), text);
    else
        cli_progress_show(&v->progress, CLI_WARNING, "%s  %s  %s", run_state_name(r->result.state), text, e->message);
}

/* Makes the array longer; runs that had ended before the sweep began count as printed. */
static bool grow(sweep_view *v, const sweep_progress *p)
{
    bool *more = realloc(v->printed, (size_t)p->run_count * sizeof *more);
    if (!more)
        return false;
    for (int64_t i = v->capacity; i < p->run_count; i++)
        more[i] = v->capacity == 0 && p->runs[i].result.state >= RUN_DONE;
    v->printed = more;
    v->capacity = p->run_count;
    v->column_count = grid_naming(&p->runs[0].c, sizeof *p->runs, p->run_count, NULL, v->columns, max_columns);
    return true;
}

/* Seconds left that are worth a line in a log. */
static const double worth_saying = 60;

static void show_progress(void *context, const sweep_progress *p)
{
    sweep_view *v = context;
    char text[256], running[96] = "", left[16];
    if (p->run_count > v->capacity && !grow(v, p))
        return;
    for (int64_t i = 0; i < p->run_count; i++) {
        const ledger_run *r = &p->runs[i];
        if (r->kind != LEDGER_TRAINING)
            continue;
        grid_label(&r->c, v->columns, v->column_count, text, sizeof text);
        if (r->result.state == RUN_RUNNING && r->result.steps > 0 && !running[0])
            snprintf(running, sizeof running, "  now %.44s: step %lld/%lld", text, (long long)r->result.step,
                     (long long)r->result.steps);
        if (r->result.state < RUN_DONE || v->printed[i])
            continue;
        v->printed[i] = true;
        print_end(v, r, text);
    }
    const int64_t ended = p->count[RUN_DONE] + p->count[RUN_DIVERGED] + p->count[RUN_FAILED];
    const int64_t open = p->count[RUN_WAITING] + p->count[RUN_RUNNING];
    cli_progress_show(&v->progress, CLI_STATUS, "%lld of %lld runs%s  %s left", (long long)ended,
                      (long long)(ended + open), running, isnan(p->left) ? "?" : cli_duration(p->left, left));
    if (!v->progress.live && !v->estimated && p->left > worth_saying) {
        v->estimated = true;
        cli_progress_show(&v->progress, CLI_PLAIN, "%lld run%s to go, about %s", (long long)open, cli_plural(open),
                          cli_duration(p->left, left));
    }
}

scion_status cli_sweep_work(const char *path, const sweep_options *o, sweep_progress *end, scion_error *err)
{
    sweep_view v = {.progress = cli_progress_start(stderr)};
    sweep_options options = *o;
    options.stopped = cli_interrupted;
    options.show = show_progress;
    options.warn = cli_progress_warn;
    options.context = &v;
    options.together = launcher_find().size > 1;
    const scion_status status = sweep_work(path, &options, end, err);
    cli_progress_clear(&v.progress);
    free(v.printed);
    return status;
}

/* ---- Table ---------------------------------------------------------------------------------------------------- */

/* The lowest learning rate of a group above `last`; INFINITY: none. */
static double next_rate(const transfer_group *g, double last)
{
    double next = INFINITY;
    for (int64_t i = 0; i < g->count; i++)
        for (int64_t k = 0; k < g->widths[i].count; k++)
            if (g->widths[i].points[k].lr > last)
                next = fmin(next, g->widths[i].points[k].lr);
    return next;
}

static void print_cell(const transfer_width *w, double lr, int columns)
{
    char text[32];
    for (int64_t i = 0; i < w->count; i++)
        if (w->points[i].lr == lr) {
            printf(" %*s%c", columns, transfer_loss_text(&w->points[i], text), i == w->best ? '*' : ' ');
            return;
        }
    printf(" %*s ", columns, "-");
}

/* Width of a printed loss. */
static int columns_of(const transfer_group *g)
{
    char text[32];
    int columns = 9;
    for (int64_t i = 0; i < g->count; i++)
        for (int64_t k = 0; k < g->widths[i].count; k++) {
            const int length = (int)strlen(transfer_loss_text(&g->widths[i].points[k], text));
            columns = length > columns ? length : columns;
        }
    return columns;
}

static void print_group(const transfer_group *g)
{
    char text[CONFIG_TEXT], sentence[TRANSFER_TEXT];
    const int columns = columns_of(g);
    cli_print(stdout, g->label[0] ? "\n%s\n%-10s" : "\n%s%-10s", g->label, "lr \\ width");
    for (int64_t k = 0; k < g->count; k++)
        printf(" %*lld ", columns, (long long)g->widths[k].width);
    printf("\n");
    for (double lr = next_rate(g, -INFINITY); lr < INFINITY; lr = next_rate(g, lr)) {
        grid_rate(lr, text);
        printf("%-10s", text);
        for (int64_t k = 0; k < g->count; k++)
            print_cell(&g->widths[k], lr, columns);
        printf("\n");
    }
    transfer_sentence(g, sentence);
    cli_fill(stdout, 0, "%s", sentence);
}

/* Files for the numbers of a table, beside the text; NULL: none; "-": standard output, in place of the text. */
typedef struct table_files {
    const char *json, *csv;
} table_files;

/* False, after an error, if a file would replace the ledger that it is made from, or both go to standard output. */
static bool spares(const char *path, table_files f)
{
    if (f.json && file_same(path, f.json))
        return cli_wrong("json=%s: this is the ledger itself; give another file", f.json);
    if (f.csv && file_same(path, f.csv))
        return cli_wrong("csv=%s: this is the ledger itself; give another file", f.csv);
    if (f.json && f.csv && strcmp(f.json, f.csv) == 0)
        return cli_wrong("json=%s and csv=%s: give two files", f.json, f.csv);
    return true;
}

static bool prints(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* True if a point has several seeds. */
static bool has_seeds(const transfer *t)
{
    for (int64_t i = 0; i < t->count; i++)
        for (int64_t k = 0; k < t->groups[i].count; k++)
            for (int64_t n = 0; n < t->groups[i].widths[k].count; n++)
                if (t->groups[i].widths[k].points[n].done.count > 1)
                    return true;
    return false;
}

static void print_table(const char *path, const transfer *t, const ledger_run *runs, int64_t count)
{
    if (t->count == 0)
        cli_print(stdout, "%s: no run has finished yet\n", path);
    else if (has_seeds(t))
        printf("validation loss, mean over the seeds (standard deviation in the last digits);\n"
               "* the best of its width; +- half of a 95%% interval; the margin of a cost is two\n"
               "standard deviations of a loss over the seeds\n");
    else
        printf("validation loss; * the best of its width\n");
    for (int64_t i = 0; i < t->count; i++)
        print_group(&t->groups[i]);
    for (int64_t i = 0; i < count; i++)
        if (runs[i].result.state == RUN_FAILED)
            cli_print(stdout, "run %lld failed: %s\n", (long long)runs[i].id, runs[i].result.message);
}

/* Prints the table of the runs `only` (NULL: of all). */
static int show_runs(const char *path, const int64_t *only, int64_t only_count, table_files files)
{
    ledger *l = NULL;
    ledger_run *runs = NULL;
    int64_t count = 0;
    transfer t = {NULL, 0};
    scion_error err;
    scion_status status;
    if (!spares(path, files))
        return CLI_USAGE;
    TRY(ledger_open(&l, path, false, &err));
    if (only)
        TRY(ledger_only(l, only, only_count, &err));
    TRY(ledger_runs(l, &runs, &count, &err));
    TRY(transfer_make(&t, runs, count, &err));
    if (!prints(files.json) && !prints(files.csv))
        print_table(path, &t, runs, count);
    if (files.json)
        TRY(transfer_save(&t, files.json, &err));
    if (files.csv)
        TRY(transfer_save_csv(&t, files.csv, &err));
done:
    transfer_free(&t);
    free(runs);
    ledger_close(l);
    return cli_end(status, &err);
}

int cli_sweep_show(const char *path)
{
    return show_runs(path, NULL, 0, (table_files){NULL, NULL});
}

/* ---- The command ---------------------------------------------------------------------------------------------- */

/* The default ledger: sweeps/PRESET.db. */
static void name_ledger(const char *preset, char path[CONFIG_TEXT])
{
    char name[200];
    file_name(preset, ".ini", name, sizeof name);
    snprintf(path, CONFIG_TEXT, "sweeps/%s.db", name);
}

enum { LEDGER, JOBS, THREADS, BUDGET, JSON, CSV, ALL, DROP, RETRY, RETRY_DIVERGED, ADD };

/* The runs that a command is about. */
typedef struct plan {
    grid g; /* the grid of each preset, one after the other; empty: all of the ledger */
    int64_t *ids;
    char ledger[CONFIG_TEXT];
    sweep_options work;
    FILE *say; /* text for people: standard output, unless JSON goes there */
} plan;

static bool is_ledger(const char *path)
{
    ledger *l = NULL;
    scion_error err;
    const bool is = ledger_open(&l, path, false, &err) == SCION_OK;
    ledger_close(l);
    return is;
}

/* Nothing is added to a ledger if a part is wrong. Returns the exit status. */
static int name_runs(plan *p, const cli_arguments *a)
{
    scion_status status = SCION_OK;
    scion_error err;
    const int grids = a->word_count > 0 ? a->word_count : a->pair_count > 0;
    for (int i = 0; status == SCION_OK && i < grids; i++)
        status = grid_add(&p->g, a->word_count > 0 ? a->words[i] : NULL, a->pairs, a->pair_count, &err);
    if (status != SCION_OK)
        return cli_error(CLI_USAGE, "%s", err.message);
    if (p->g.count == 1 && !(a->values[LEDGER] && is_ledger(p->ledger))) /* a single run may join others */
        return cli_error(CLI_USAGE,
                         "nothing to sweep: give a setting several values, such as lr=2^-8..2^-3; or did you "
                         "mean scion train?");
    for (int64_t i = 0; i < p->g.count; i++)
        if ((i == 0 || strcmp(p->g.points[i].data.path, p->g.points[i - 1].data.path) != 0) &&
            !cli_find_data(&p->g.points[i]))
            return CLI_FAILED;
    return CLI_OK;
}

scion_status cli_sweep_others(FILE *to, ledger *l, const char *path, bool all, bool drop, scion_error *err)
{
    int64_t count;
    const scion_status status = drop ? ledger_drop(l, &count, err) : ledger_others(l, &count, err);
    if (status != SCION_OK || count == 0)
        return status;
    if (drop)
        fprintf(to, "%lld run%s that waited %s removed\n", (long long)count, cli_plural(count),
                count == 1 ? "was" : "were");
    else if (!all)
        cli_print(to, "%lld run%s of other settings wait%s in %s: --all runs them, --drop removes them\n",
                  (long long)count, cli_plural(count), count == 1 ? "s" : "", path);
    return SCION_OK;
}

/* Adds the runs to the ledger, and applies the switches to those in it. */
static scion_status enter(plan *p, const cli_arguments *a, scion_error *err)
{
    ledger *l = NULL;
    int64_t added = 0, again = 0;
    const bool named = p->g.count > 0, all = a->values[ALL] != NULL, diverged = a->values[RETRY_DIVERGED] != NULL;
    scion_status status;
    if (strncmp(p->ledger, "sweeps/", 7) == 0 && named)
        mkdir("sweeps", 0777); /* if it fails, ledger_open reports why */
    TRY(ledger_open(&l, p->ledger, named, err));
    if (named) {
        TRY(ledger_add(l, LEDGER_TRAINING, p->g.points, p->g.count, &added, err));
        TRY(ledger_ids(l, LEDGER_TRAINING, p->g.points, p->g.count, p->ids, err));
        TRY(ledger_only(l, p->ids, p->g.count, err));
        cli_print(p->say, "%lld new run%s in %s\n", (long long)added, cli_plural(added), p->ledger);
    }
    TRY(cli_sweep_others(p->say, l, p->ledger, all, a->values[DROP] != NULL, err));
    if (named && !all) {
        p->work.only = p->ids;
        p->work.only_count = p->g.count;
    }
    if (a->values[RETRY] || diverged) {
        TRY(ledger_only(l, p->work.only, p->work.only_count, err));
        TRY(ledger_retry(l, diverged, &again, err));
        fprintf(p->say, "%lld run%s will be retried\n", (long long)again, cli_plural(again));
    }
done:
    fflush(p->say);
    ledger_close(l);
    return status;
}

/* Runs that failed make the command fail. */
static int finish(const plan *p, table_files files, const sweep_progress *end)
{
    const int64_t open = end->count[RUN_WAITING] + end->count[RUN_RUNNING], done = end->count[RUN_DONE];
    char took[16];
    fprintf(p->say, "%lld run%s done, %lld diverged, %lld failed", (long long)done, cli_plural(done),
            (long long)end->count[RUN_DIVERGED], (long long)end->count[RUN_FAILED]);
    if (open > 0)
        fprintf(p->say, ", %lld left (repeat the command to resume)", (long long)open);
    cli_print(p->say, "; %s in %s\n", p->ledger, cli_duration(end->seconds, took));
    const int status = show_runs(p->ledger, p->work.only, p->work.only_count, files);
    return status == CLI_OK && end->count[RUN_FAILED] > 0 && !cli_interrupted() ? CLI_FAILED : status;
}

static const cli_argument arguments[] = {
    [LEDGER] = CLI_SETTING("ledger", "FILE", "where the runs are kept (sweeps/PRESET.db)"),
    [JOBS] = CLI_SETTING("jobs", "N", "runs at the same time, which share the threads (1)"),
    [THREADS] = CLI_SETTING("threads", "N", "threads of all jobs together (all cores)"),
    [BUDGET] = CLI_SETTING("budget", "TIME", "90s, 20m, 1h30m: start no run later than that"),
    [JSON] = CLI_JSON,
    [CSV] = {"csv", "FILE", "also write the table to FILE, a row for each lr and width; --csv prints it instead",
             .bare = "-"},
    [ALL] = CLI_SWITCH("--all", "also run other waiting runs of the ledger"),
    [DROP] = CLI_SWITCH("--drop", "remove what else waits in the ledger; with ledger= alone all that waits"),
    [RETRY] = CLI_SWITCH("--retry", "retry runs that failed"),
    [RETRY_DIVERGED] = CLI_SWITCH("--retry-diverged", "retry runs that failed or diverged"),
    [ADD] = CLI_SWITCH("--add", "only add the runs to the ledger"),
    {0},
};

static table_files files_of(const cli_arguments *a)
{
    return (table_files){a->values[JSON], a->values[CSV]};
}

/* scion sweep show LEDGER. */
static int show_command(const cli_arguments *a, const char *path)
{
    const char *ledger_path = path[0] ? path : a->word_count == 2 ? a->words[1] : NULL;
    if (!ledger_path || a->word_count > 2 || a->pair_count > 0)
        return cli_error(CLI_USAGE, "scion sweep show takes one ledger, and nothing else");
    return show_runs(ledger_path, NULL, 0, files_of(a));
}

static int work(plan *p, const cli_arguments *a)
{
    sweep_progress end;
    scion_error err;
    p->ids = calloc((size_t)p->g.count + 1, sizeof *p->ids);
    if (!p->ids)
        return cli_error(CLI_FAILED, "out of memory");
    int status = cli_end(enter(p, a, &err), &err);
    if (status != CLI_OK || a->values[ADD])
        return status;
    cli_catch_signals();
    cli_outlive_reader();
    status = cli_end(cli_sweep_work(p->ledger, &p->work, &end, &err), &err);
    if (status != CLI_OK)
        return status;
    if (launcher_find().rank > 0) /* the first process reports */
        return end.count[RUN_FAILED] > 0 ? CLI_FAILED : CLI_OK;
    return finish(p, files_of(a), &end);
}

static int run_sweep(cli_arguments *a)
{
    plan p = {.say = prints(a->values[JSON]) || prints(a->values[CSV]) ? stderr : stdout};
    int64_t jobs = 1, threads = 0;
    if (!cli_get_text(a, LEDGER, p.ledger, sizeof p.ledger) || !cli_get_int(a, JOBS, 1, SWEEP_JOBS, &jobs) ||
        !cli_get_int(a, THREADS, 0, 4096, &threads) || !cli_get_seconds(a, BUDGET, &p.work.seconds))
        return CLI_USAGE;
    p.work.jobs = (int)jobs;
    p.work.threads = (int)threads;
    if (a->word_count > 0 && strcmp(a->words[0], "show") == 0)
        return show_command(a, p.ledger);
    if (!p.ledger[0] && a->word_count == 0)
        return cli_error(CLI_USAGE, "name a preset to sweep, or the ledger of a sweep to resume: ledger=FILE");
    if (a->values[ALL] && a->values[DROP])
        return cli_error(CLI_USAGE, "give --all or --drop, not both");
    for (int i = 0; i < a->word_count; i++)
        if (is_ledger(a->words[i]))
            return cli_error(CLI_USAGE,
                             "%s is a ledger, not a preset: scion sweep ledger=%s resumes it, scion sweep show %s "
                             "prints it",
                             a->words[i], a->words[i], a->words[i]);
    if (!p.ledger[0])
        name_ledger(a->words[0], p.ledger);
    if (!spares(p.ledger, files_of(a))) /* before hours of work */
        return CLI_USAGE;
    int status = name_runs(&p, a);
    if (status == CLI_OK)
        status = work(&p, a);
    grid_free(&p.g);
    free(p.ids);
    return status;
}

static const char *sweep_word(int i)
{
    return i == 0 ? "show" : NULL;
}

const cli_command cli_sweep = {
    .name = "sweep",
    .usage = "[PRESET ...] key=values ... | show LEDGER [json=FILE] [csv=FILE]",
    .summary = "train many configurations and compare them",
    .help = "Every setting may be a list or a range:\n"
            "  lr=2^-12..2^-2     powers of two     seed=1..3              integers\n"
            "  width=64..512:*2   any factor        momentum=0.1..0.5:0.1  equal steps\n"
            "  rule=scion,adamw   a list            norms=onehot/shared    a list of norms\n\n"
            "Runs are kept in a ledger, an SQLite file (sweeps/PRESET.db, or ledger=FILE). To resume a sweep "
            "that was stopped or killed, repeat the command: it runs what it names and nothing else that waits "
            "in the ledger. ledger=FILE alone runs all of it. Several processes may work on one ledger at once: "
            "mpirun or srun start them, and each has its share of the cores. "
            "Runs that fail or diverge are recorded and do not stop the others; if one fails, the exit status "
            "is 1.\n"
            "\n"
            "scion sweep show LEDGER prints the losses by learning rate and width, the best of each width, the "
            "largest move of the best learning rate (interpolated by a parabola) between any two widths, and what "
            "using the smallest model's value costs at each width. seed=1..3 gives spreads and errors, and a "
            "judgement: it transfers if it moves by at most a factor of two and costs at most two standard "
            "deviations of a loss. On the edge of a grid both are open.\n\n"
            "  scion sweep shallow-gpt data=input.txt lr=2^-8..2^-3 width=64,128,256\n"
            "  scion sweep shallow-gpt shallow-gpt-adamw data=input.txt lr=2^-12..2^-2 \\\n"
            "      width=64,256 ledger=both.db\n"
            "  scion sweep ledger=both.db jobs=2         resume, or help another process\n"
            "  scion sweep show both.db\n",
    .run = run_sweep,
    .arguments = arguments,
    .options = CLI_ALL_OPTIONS,
    .words = CLI_PRESETS | CLI_FILES,
    .ranks = CLI_ALL_WORKERS,
    .word = sweep_word,
};
