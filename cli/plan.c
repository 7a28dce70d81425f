/* scion plan: what a step would take on so many ranks. A forecast: nothing is trained, nothing is measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/number.h"
#include "cli.h"
#include "draw/figure.h"
#include "ranks/forecast.h"

enum { RANKS, BANDWIDTH, LATENCY, GFLOPS, SVG };
enum { ranks_max = 16 };

static const cli_argument arguments[] = {
    [RANKS] = CLI_SETTING("ranks", "N,...", "numbers of ranks, one row each (1,2,4,8)"),
    [BANDWIDTH] = CLI_SETTING("bandwidth", "X", "GB/s that a rank sends while it receives as much (10)"),
    [LATENCY] = CLI_SETTING("latency", "X", "microseconds of a message (5)"),
    [GFLOPS] = CLI_SETTING("gflops", "X", "speed of a rank, in 10^9 operations a second (1000)"),
    [SVG] = CLI_SETTING("svg", "FILE", "also draw the time of a step against the ranks"),
    {0},
};

/* Data are not needed: synthetic ones have the same shape, where the settings fix the vocabulary or the size of
 * images; but these have ten classes. */
static void take_synthetic(config *c, const cli_arguments *a)
{
    if (cli_option(a, "data"))
        return;
    c->data.path[0] = c->data.val[0] = '\0';
    snprintf(c->data.kind, sizeof c->data.kind, "synthetic");
}

static void print_head(const forecast *f, const char *preset, const config *c, const forecast_machine *m)
{
    cli_fill(stdout, 2,
             "%s: %.4g M parameters, %lld %s a step, rule %s%s; forecast for ranks of %g Gflop/s, %g GB/s and "
             "%g us each; %s",
             preset, 1e-6 * (double)f->parameters, (long long)f->sequences,
             data_content_of(config_model(c)->inputs[0])->samples, c->optimizer.rule,
             c->optimizer.light ? " light" : "", 1e-9 * m->speed, 1e-9 * m->bandwidth, 1e6 * m->latency, f->data);
    printf("%6s %10s %9s %7s %7s %7s %8s %9s %9s\n", "ranks", "step s", "compute", "oracle", "comm", "hidden",
           "share", "sent GB", "rank GB");
}

static void print_row(const forecast *f, const forecast_machine *m)
{
    const double sent = f->gradients_s + f->weights_s, hidden = f->gradients_s - f->exposed_s;
    printf("%6d %10.4g %8.0f%% %6.1f%% %6.1f%% %6.1f%% %8.2f %9.4g %9.4g\n", m->ranks, f->step_s,
           100 * f->compute_s / f->step_s, 100 * f->oracle_s / f->step_s, 100 * (sent - hidden) / f->step_s,
           sent > 0 ? 100 * hidden / sent : 0, f->mean_bytes > 0 ? f->largest_bytes / f->mean_bytes : 1,
           1e-9 * (f->gradient_bytes + f->weight_bytes), 1e-9 * f->total);
}

/* Prints bytes and memory of the last row. Bytes are also printed as whole numbers, which can be compared with those
 * that a run has sent. */
static void print_bytes(const forecast *f, int ranks)
{
    char text[5][16];
    cli_fill(stdout, 2, "%d rank%s: %s of gradients and %s of weights are sent in a step (%.0f and %.0f bytes)",
             ranks, cli_plural(ranks), cli_bytes(f->gradient_bytes, text[0]), cli_bytes(f->weight_bytes, text[1]),
             f->gradient_bytes, f->weight_bytes);
    cli_fill(stdout, 2,
             "%d rank%s, memory of each: weights %s, gradients %s, optimizer %s, activations %s, messages %s", ranks,
             cli_plural(ranks), cli_bytes(f->weights, text[0]), cli_bytes(f->gradients, text[1]),
             cli_bytes(f->state, text[2]), cli_bytes(f->activations, text[3]), cli_bytes(f->sharing, text[4]));
}

/* The figures of svg=FILE. */
static const struct {
    const char *mark; /* before the end of FILE */
    const char *id, *title, *unit;
    axis_scale scale;
} pictures[] = {
    {"", "forecast-step", "Forecast: time of a step", "seconds", AXIS_LOG10},
    {"-oracle", "forecast-oracle", "Forecast: share of the oracle", "% of the step", AXIS_LINEAR},
};

enum { picture_count = sizeof pictures / sizeof *pictures };

/* One preset: a table, and a line of each figure. */
static scion_status forecast_one(const char *preset, const config *c, const int *ranks, int count, forecast_machine m,
                                 figure f[picture_count], scion_error *err)
{
    forecaster *all = NULL;
    forecast out;
    scion_status status;
    TRY(forecaster_create(&all, c, err));
    const int time = figure_series(&f[0], preset, FIGURE_LINE), share = figure_series(&f[1], preset, FIGURE_LINE);
    for (int i = 0; i < count; i++) {
        m.ranks = ranks[i];
        TRY(forecaster_ask(all, &m, &out, err));
        if (i == 0)
            print_head(&out, preset, c, &m);
        print_row(&out, &m);
        figure_point(&f[0], time, m.ranks, out.step_s);
        figure_point(&f[1], share, m.ranks, 100 * out.oracle_s / out.step_s);
    }
    print_bytes(&out, m.ranks);
done:
    forecaster_free(all);
    return status;
}

/* Writes FILE with `mark` before its end. */
static scion_status write_figure(const figure *f, const char *path, const char *mark, scion_error *err)
{
    char *text = NULL, full[4096 + 16];
    size_t bytes;
    const size_t stem = strlen(path) - (strlen(path) > 4 && strcmp(path + strlen(path) - 4, ".svg") == 0 ? 4 : 0);
    snprintf(full, sizeof full, "%.*s%s%s", (int)stem, path, mark, path + stem);
    FILE *to = open_memstream(&text, &bytes);
    scion_status status = SCION_OK;
    if (to && !f->failed)
        figure_svg(f, to, true);
    if (!to || fclose(to) != 0 || f->failed)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory"));
    TRY(atomic_save(-1, full, text, bytes, err));
    printf("%s\n", full);
done:
    free(text);
    return status;
}

static figure make_figure(int i, const forecast_machine *m)
{
    char caption[256];
    snprintf(caption, sizeof caption,
             "A forecast, not a measurement: ranks of %g Gflop/s with %g GB/s and %g us of latency each "
             "(docs/scaling.md).",
             1e-9 * m->speed, 1e-9 * m->bandwidth, 1e6 * m->latency);
    figure f = figure_make(pictures[i].id, pictures[i].title, caption);
    figure_axes(&f, "ranks", AXIS_LOG2, pictures[i].unit, pictures[i].scale);
    if (pictures[i].scale == AXIS_LINEAR)
        f.include = 0;
    return f;
}

static int run_plan(cli_arguments *a)
{
    double bandwidth = 10, latency = 5, gflops = 1000;
    char svg[4096] = "";
    int ranks[ranks_max], status = CLI_OK;
    figure f[picture_count];
    scion_error err;
    enum { most_ranks = 1 << 20 };
    const int count = cli_get_numbers(a, RANKS, "1,2,4,8", most_ranks, ranks, ranks_max);
    if (count < 1 || !cli_get_real(a, BANDWIDTH, 1e-6, 1e6, &bandwidth) ||
        !cli_get_real(a, LATENCY, 0, 1e9, &latency) || !cli_get_real(a, GFLOPS, 1e-3, 1e9, &gflops) ||
        !cli_get_text(a, SVG, svg, sizeof svg))
        return CLI_USAGE;
    if (a->word_count == 0)
        return cli_error(CLI_USAGE, "give a preset: scion plan nanogpt-124m ranks=8,64");
    const forecast_machine m = {.bandwidth = 1e9 * bandwidth, .latency = 1e-6 * latency, .speed = 1e9 * gflops};
    for (int i = 0; i < picture_count; i++)
        f[i] = make_figure(i, &m);
    for (int i = 0; i < a->word_count; i++) {
        config c;
        config_init(&c);
        if (cli_settings(&c, a->words[i], a, &err) != SCION_OK)
            TRY(cli_error(CLI_USAGE, "%s", err.message));
        take_synthetic(&c, a);
        TRY(cli_end(forecast_one(a->words[i], &c, ranks, count, m, f, &err), &err));
    }
    for (int i = 0; svg[0] && i < picture_count; i++)
        TRY(cli_end(write_figure(&f[i], svg, pictures[i].mark, &err), &err));
done:
    for (int i = 0; i < picture_count; i++)
        figure_free(&f[i]);
    return status;
}

const cli_command cli_plan = {
    .name = "plan",
    .usage = "PRESET ... [ranks=N,...] [bandwidth=X] [latency=X] [gflops=X] [key=value ...]",
    .summary = "forecast time, communication and memory on several ranks",
    .help = "Computes a forecast from the model's sizes and the numbers given. Nothing is trained or measured. "
            "docs/scaling.md has the cost model. Columns:\n\n"
            "  step s     time of a step, in seconds\n"
            "  compute    part of the step in forward and backward passes\n"
            "  oracle     part of the step in the optimizer, on the rank with the most work\n"
            "  comm       part of the step that waits for communication\n"
            "  hidden     part of the communication that runs during the backward pass\n"
            "  share      bytes of the busiest rank, divided by the mean over the ranks\n"
            "  sent GB    data that all ranks together send in a step\n"
            "  rank GB    memory of one rank\n\n"
            "  scion plan nanogpt-124m ranks=1,2,4,8 bandwidth=1.25 latency=30 gflops=200\n"
            "  scion plan nanogpt-124m nanogpt-3b ranks=8,64,512 svg=forecast.svg\n",
    .run = run_plan,
    .arguments = arguments,
    .options = CLI_ALL_OPTIONS,
    .words = CLI_PRESETS | CLI_FILES,
};
