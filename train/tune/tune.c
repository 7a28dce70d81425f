/* See tune.h. Successive halving by thirds: the share of the steps that a rung's runs take times the number of
 * runs is the same in every rung, so that as much time goes to exploring as to comparing closely. */
#include "tune/tune.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arith.h"
#include "util/array.h"
#include "util/atomic_file.h"
#include "util/clock.h"
#include "util/fail.h"
#include "util/path.h"
#include "config/config.h"
#include "sweep/grid.h"

void tune_init(tune *t)
{
    *t = (tune){.candidates = TUNE_CANDIDATES, .rungs = 3, .seeds = 1, .jobs = 1, .best = -1, .own = -1};
    config_init(&t->base);
}

void tune_free(tune *t)
{
    free(t->trials);
    t->trials = NULL;
    t->count = 0;
}

int64_t tune_share(const tune *t, int rung)
{
    int64_t share = 1;
    for (; rung < t->rungs - 1; rung++)
        share *= TUNE_THIRD;
    return share;
}

int64_t tune_find(const tune *t, const tune_point *p, int rung)
{
    for (int64_t i = 0; i < t->count; i++)
        if (t->trials[i].rung == rung && memcmp(&t->trials[i].at, p, sizeof *p) == 0)
            return i;
    return -1;
}

/* Number of candidates in a rung, of `count` in the first. */
static int64_t kept(int64_t count, int rung)
{
    for (; rung > 0; rung--)
        count = scn_pieces(count, TUNE_THIRD);
    return count;
}

double tune_estimate(const tune *t, int64_t candidates, double seconds)
{
    const int64_t jobs = scn_max(t->jobs, 1);
    double sum = 0;
    for (int r = 0; r < t->rungs; r++) {
        const bool last = r == t->rungs - 1; /* with the preset's own point, and two neighbours of the winner */
        const int64_t runs = t->seeds * (kept(candidates, r) + last);
        const double cost = seconds * (double)(tune_share(t, 0) / tune_share(t, r)) / t->seeds;
        sum += cost * (double)scn_pieces(runs, jobs);
        if (last)
            sum += cost * (double)scn_pieces(2 * t->seeds, jobs);
    }
    return sum;
}

/* ---- Trials -------------------------------------------------------------------------------------------- */

static scion_status add_trial(tune *t, const tune_point *p, int rung, scion_error *err)
{
    tune_trial *trial = array_append(&t->trials, &t->count, sizeof *trial);
    if (!trial)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    *trial = (tune_trial){.at = *p, .rung = rung, .state = RUN_WAITING, .loss = NAN};
    return SCION_OK;
}

/* Orders by loss, then diverged trials, then unknown ones; among equals the earlier one. */
static bool better(const tune *t, int64_t a, int64_t b)
{
    const double x = t->trials[a].loss, y = t->trials[b].loss;
    const double known_x = isnan(x) ? 2 : isinf(x), known_y = isnan(y) ? 2 : isinf(y);
    if (known_x != known_y)
        return known_x < known_y;
    return known_x == 0 && x != y ? x < y : a < b;
}

int64_t tune_order(const tune *t, int rung, int64_t *order)
{
    int64_t count = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (t->trials[i].rung != rung)
            continue;
        int64_t at = count++;
        for (; at > 0 && better(t, i, order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return count;
}

/* The best trial of a rung that has a loss, or -1. */
static int64_t best_of(const tune *t, int rung)
{
    int64_t best = -1;
    for (int64_t i = 0; i < t->count; i++)
        if (t->trials[i].rung == rung && isfinite(t->trials[i].loss) && (best < 0 || better(t, i, best)))
            best = i;
    return best;
}

/* ---- The search ---------------------------------------------------------------------------------------- */

/* Number of candidates that fit in the budget, by the slowest trial so far (those that diverge end early). */
static int64_t affordable(const tune *t)
{
    double seconds = 0;
    int64_t count = t->candidates;
    for (int64_t i = 0; i < t->count; i++)
        seconds = fmax(seconds, t->trials[i].seconds);
    while (count > t->count && tune_estimate(t, count, seconds) > t->budget)
        count--;
    return count;
}

/* Measures the trials from `first` on, if there are any. */
static scion_status measure_from(tune *t, int64_t first, scion_error *err)
{
    return t->count > first ? t->measure(t->context, t, first, t->count - first, err) : SCION_OK;
}

static scion_status first_rung(tune *t, scion_error *err)
{
    enum { probes = 3 };
    tune_point *points = calloc((size_t)t->candidates, sizeof *points);
    scion_status status = SCION_OK;
    if (!points)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    t->candidates = tune_candidates(&t->space, t->base.training.seed, points, t->candidates);
    while (t->count < t->candidates && !t->time_up) {
        const int64_t first = t->count;
        const bool probing = t->budget > 0 && first == 0;
        const int64_t until = probing ? scn_min(scn_max(t->jobs, probes), t->candidates) : t->candidates;
        while (t->count < until)
            TRY(add_trial(t, &points[t->count], 0, err));
        TRY(measure_from(t, first, err));
        if (probing)
            t->candidates = affordable(t);
    }
done:
    free(points);
    return status;
}

/* The best third of the rung below; in the last rung the preset's own point as well, to compare with. */
static scion_status next_rung(tune *t, int rung, scion_error *err)
{
    const tune_point own = {{0}};
    const int64_t first = t->count, before = tune_find(t, &own, 0);
    int64_t *order = calloc((size_t)t->count, sizeof *order);
    scion_status status = SCION_OK;
    if (!order)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    const int64_t count = scn_min(tune_order(t, rung - 1, order), kept(t->candidates, rung));
    for (int64_t i = 0; i < count; i++) {
        const tune_trial from = t->trials[order[i]]; /* a copy: the array grows */
        if (isfinite(from.loss))
            TRY(add_trial(t, &from.at, rung, err));
    }
    if (rung == t->rungs - 1 && before >= 0 && isfinite(t->trials[before].loss) && tune_find(t, &own, rung) < 0)
        TRY(add_trial(t, &own, rung, err));
    status = measure_from(t, first, err);
done:
    free(order);
    return status;
}

/* The winner's neighbour in lr, false: the rule does not accept it. */
static bool neighbour(const tune *t, int64_t of, int step, tune_point *p)
{
    *p = t->trials[of].at;
    p->power[TUNE_LR] += step;
    return p->power[TUNE_LR] <= t->space.max_lr;
}

/* Walks downhill in lr until both neighbours are worse. */
static scion_status refine(tune *t, scion_error *err)
{
    const int last = t->rungs - 1;
    scion_status status = SCION_OK;
    t->refining = true;
    for (int move = 0; move <= TUNE_MOVES && !t->time_up; move++) {
        const int64_t winner = best_of(t, last), first = t->count;
        for (int step = -1; winner >= 0 && step <= 1; step += 2) {
            tune_point p;
            if (neighbour(t, winner, step, &p) && tune_find(t, &p, last) < 0)
                TRY(add_trial(t, &p, last, err));
        }
        if (t->count == first)
            break;
        TRY(measure_from(t, first, err));
    }
done:
    return status;
}

static bool is_settled(const tune *t)
{
    for (int step = -1; step <= 1; step += 2) {
        tune_point p;
        if (!neighbour(t, t->best, step, &p))
            continue;
        const int64_t found = tune_find(t, &p, t->rungs - 1);
        if (found < 0 || t->trials[found].state == RUN_WAITING || t->trials[found].state == RUN_FAILED)
            return false;
    }
    return true;
}

int64_t tune_ties(const tune *t)
{
    const tune_trial *winner = &t->trials[t->best];
    stat_pool spread = {0, 0};
    int64_t ties = 0;
    for (int64_t i = 0; i < t->count; i++)
        if (t->trials[i].rung == winner->rung && isfinite(t->trials[i].loss))
            stat_pool_add(&spread, &t->trials[i].losses);
    if (spread.freedom == 0)
        return -1;
    for (int64_t i = 0; i < t->count; i++)
        if (i != t->best && t->trials[i].rung == winner->rung && isfinite(t->trials[i].loss))
            ties += stat_within(stat_difference(&winner->losses, &t->trials[i].losses, &spread), 0, INFINITY) !=
                    STAT_KEPT;
    return ties;
}

bool tune_at_edge(const tune *t, tune_axis axis)
{
    const int power = t->trials[t->best].at.power[axis];
    return axis != TUNE_LR && !t->space.fixed[axis] && (power == t->space.low[axis] || power == t->space.high[axis]);
}

static scion_status nothing_found(const tune *t, scion_error *err)
{
    if (t->failure[0])
        return train_fail(err, SCION_EINVAL, "no run could be trained: %.180s", t->failure);
    if (t->time_up)
        return train_fail(err, SCION_EINVAL, "out of time before one run had finished");
    return train_fail(err, SCION_EINVAL, "all %lld runs diverged, from lr %g on: try a smaller lr, such as lr=%g",
                      (long long)t->count, ldexp(t->base.training.lr, t->space.low[TUNE_LR]),
                      ldexp(t->base.training.lr, -8));
}

scion_status tune_search(tune *t, tune_measure *measure, void *context, scion_error *err)
{
    const tune_point own = {{0}};
    scion_status status = SCION_OK;
    t->measure = measure;
    t->context = context;
    TRY(first_rung(t, err));
    for (int rung = 1; rung < t->rungs && !t->time_up; rung++)
        TRY(next_rung(t, rung, err));
    TRY(refine(t, err));
    for (int rung = t->rungs - 1; rung >= 0 && t->best < 0; rung--)
        t->best = best_of(t, rung);
    if (t->best < 0)
        return nothing_found(t, err);
    t->own = tune_find(t, &own, t->trials[t->best].rung);
    t->settled = t->trials[t->best].rung == t->rungs - 1 && is_settled(t);
done:
    return status;
}

/* ---- Measuring by the runs of a ledger ------------------------------------------------------------------------ */

/* The runs of `count` trials, one for each seed; NULL: out of memory. */
static config *configs_of(const tune *t, int64_t first, int64_t count)
{
    config *points = malloc((size_t)(count * t->seeds) * sizeof *points);
    for (int64_t i = 0; points && i < count * t->seeds; i++) {
        const tune_trial *trial = &t->trials[first + i / t->seeds];
        points[i] = tune_config(&t->base, &trial->at, tune_share(t, trial->rung));
        points[i].training.seed += (uint64_t)(i % t->seeds);
    }
    return points;
}

/* Adds new runs, and retries those that failed before: the cause may be gone. */
static scion_status enter(tune_runs *r, const config *points, int64_t count, int64_t *ids, scion_error *err)
{
    ledger *l = NULL;
    int64_t added = 0, retried = 0;
    scion_status status = SCION_OK;
    TRY(ledger_open(&l, r->path, true, err));
    TRY(ledger_add(l, LEDGER_TRAINING, points, count, &added, err));
    r->added += added;
    TRY(ledger_ids(l, LEDGER_TRAINING, points, count, ids, err));
    TRY(ledger_only(l, ids, count, err));
    status = ledger_retry(l, false, &retried, err);
done:
    ledger_close(l);
    return status;
}

/* Adds the run of one seed to its trial, whose state is the worst of its runs. */
static void count_run(tune *t, tune_trial *trial, const ledger_run *run)
{
    const run_result *r = &run->result;
    const double loss = isfinite(r->val_loss) ? r->val_loss : r->loss;
    if (r->state < RUN_DONE)
        trial->state = RUN_WAITING;
    else if (trial->state != RUN_WAITING && r->state > trial->state)
        trial->state = r->state;
    if (r->state == RUN_FAILED && !t->failure[0])
        snprintf(t->failure, sizeof t->failure, "%s", r->message);
    if (isfinite(r->seconds))
        trial->seconds += r->seconds;
    trial->loss += loss / t->seeds;
    if (r->state == RUN_DONE)
        stat_add(&trial->losses, loss);
}

/* Reads the results of the trials; *waiting: how many have not ended. */
static scion_status look(const tune_runs *r, tune *t, int64_t first, const config *points, int64_t count,
                         int64_t *waiting, scion_error *err)
{
    ledger *l = NULL;
    scion_status status = SCION_OK;
    *waiting = 0;
    TRY(ledger_open(&l, r->path, false, err));
    for (int64_t i = 0; i < count; i++) {
        tune_trial *trial = &t->trials[first + i];
        trial->state = RUN_DONE;
        trial->loss = trial->seconds = 0;
        trial->losses = (stat_sample){0};
        for (int k = 0; k < t->seeds; k++) {
            ledger_run run;
            bool found;
            TRY(ledger_find(l, LEDGER_TRAINING, &points[i * t->seeds + k], &run, &found, err));
            if (!found)
                TRY(train_fail(err, SCION_EINVAL, "%s: a run of this search has been removed", r->path));
            count_run(t, trial, &run);
        }
        if (trial->state != RUN_DONE)
            trial->loss = trial->state == RUN_DIVERGED ? INFINITY : NAN;
        *waiting += trial->state == RUN_WAITING;
    }
done:
    ledger_close(l);
    return status;
}

scion_status tune_measure_runs(void *context, tune *t, int64_t first, int64_t count, scion_error *err)
{
    tune_runs *r = context;
    const struct timespec pause = {0, 300000000};
    int64_t waiting = 0;
    config *points = configs_of(t, first, count);
    int64_t *ids = calloc((size_t)(count * t->seeds), sizeof *ids);
    scion_status status = SCION_OK;
    if (!points || !ids)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory"));
    TRY(enter(r, points, count * t->seeds, ids, err));
    if (!r->all) {
        r->sweep.only = ids;
        r->sweep.only_count = count * t->seeds;
    }
    TRY(look(r, t, first, points, count, &waiting, err));
    while (waiting > 0) {
        sweep_progress at;
        t->time_up = t->time_up || (r->end > 0 && clock_now() >= r->end);
        if (t->time_up)
            break;
        r->sweep.seconds = r->end > 0 ? fmax(0.001, r->end - clock_now()) : 0; /* 0: no limit */
        TRY(sweep_work(r->path, &r->sweep, &at, err));
        if (r->sweep.stopped && r->sweep.stopped())
            TRY(train_fail(err, SCION_ESTOPPED, "stopped"));
        TRY(look(r, t, first, points, count, &waiting, err));
        if (waiting > 0) { /* another process has the rest */
            if (r->sweep.show)
                r->sweep.show(r->sweep.context, &at);
            nanosleep(&pause, NULL);
        }
    }
done:
    r->sweep.only = NULL;
    free(ids);
    free(points);
    return status;
}

/* ---- Results as text ------------------------------------------------------------------------------------------ */

config tune_result(const tune *t, const config *target)
{
    config c = tune_config(target, &t->trials[t->best].at, 1), fresh;
    config_init(&fresh);
    c.training.threads = fresh.training.threads;
    memcpy(c.run.out, fresh.run.out, sizeof c.run.out);
    return c;
}

void tune_value_text(const tune *t, const tune_point *p, tune_axis axis, char text[CONFIG_TEXT])
{
    const config c = tune_config(&t->base, p, 1);
    grid_pretty(&c, tune_option(axis), text);
}

const char *tune_loss_text(const tune_trial *trial, char text[32])
{
    if (isfinite(trial->loss) && trial->losses.count > 1)
        stat_text(&trial->losses, text);
    else if (isfinite(trial->loss))
        snprintf(text, 32, "%.4f", trial->loss);
    else
        snprintf(text, 32, "%s", trial->state == RUN_WAITING ? "not run" : run_state_name(trial->state));
    return text;
}

/* ---- Comments of the file -------------------------------------------------------------------------------------- */

/* "300 steps" or "2.5 epochs" of a rung. */
static const char *length_text(const tune *t, int rung, char text[48])
{
    const tune_point own = {{0}};
    const config c = tune_config(&t->base, &own, tune_share(t, rung));
    if (c.training.steps > 0)
        snprintf(text, 48, "%lld step%s", (long long)c.training.steps, c.training.steps > 1 ? "s" : "");
    else
        snprintf(text, 48, "%.3g epochs", c.training.epochs);
    return text;
}

/* Control characters, which would end the comment, become spaces. */
static void write_line(FILE *to, const char *text)
{
    for (; *text; text++)
        fputc(iscntrl((unsigned char)*text) ? ' ' : *text, to);
    fputc('\n', to);
}

static void write_search(FILE *to, const tune *t)
{
    double seconds = 0;
    int64_t failed = 0, diverged = 0;
    char text[48];
    for (int64_t i = 0; i < t->count; i++) {
        seconds += t->trials[i].seconds;
        failed += t->trials[i].state == RUN_FAILED;
        diverged += t->trials[i].state == RUN_DIVERGED;
    }
    fprintf(to, "; %lld runs of up to %s, %.3g seconds of training in all; %lld diverged, %lld failed.\n",
            (long long)t->count * t->seeds, length_text(t, t->rungs - 1, text), seconds, (long long)diverged,
            (long long)failed);
    fprintf(to, "; Searched: %lld of %lld points on a grid of powers of two around the preset's values:\n",
            (long long)t->candidates, (long long)tune_space_size(&t->space));
    for (int a = 0; a < TUNE_AXES; a++)
        if (!t->space.fixed[a])
            fprintf(to, ";   %s x 2^%d..2^%d\n", tune_option((tune_axis)a)->key, t->space.low[a], t->space.high[a]);
    for (int a = 0; a < TUNE_AXES; a++)
        if (t->space.fixed[a])
            fprintf(to, "; %s was not searched: %s.\n", tune_option((tune_axis)a)->key, t->space.fixed[a]);
}

/* Writes the winner beside its neighbours in lr and the preset's own point. */
static void write_comparison(FILE *to, const tune *t)
{
    static const char *const names[] = {"lr x 1/2", "found", "lr x 2"};
    const tune_trial *best = &t->trials[t->best];
    char text[48], loss[32], lr[CONFIG_TEXT];
    fprintf(to, ";\n; Loss at width %lld after %s%s:\n", (long long)config_int(&t->base, "width"),
            length_text(t, best->rung, text), t->seeds > 1 ? ", mean over the seeds" : "");
    for (int step = -1; step <= 1; step++) {
        tune_point p = best->at;
        p.power[TUNE_LR] += step;
        const int64_t found = tune_find(t, &p, best->rung);
        if (found < 0)
            continue;
        tune_value_text(t, &p, TUNE_LR, lr);
        fprintf(to, ";   %-14s lr %-10s %s\n", names[step + 1], lr, tune_loss_text(&t->trials[found], loss));
    }
    tune_value_text(t, &(tune_point){{0}}, TUNE_LR, lr);
    if (t->own >= 0)
        fprintf(to, ";   %-14s lr %-10s %s\n", "the preset's", lr, tune_loss_text(&t->trials[t->own], loss));
}

/* Writes what follows from the numbers. */
static void write_meaning(FILE *to, const tune *t, const config *target)
{
    const tune_trial *best = &t->trials[t->best];
    const long long proxy = config_int(&t->base, "width"), width = config_int(target, "width");
    fputs(";\n", to);
    if (t->time_up || best->rung < t->rungs - 1)
        fprintf(to, "; %s: the values are the best of rung %d of %d.\n",
                t->time_up ? "Out of time" : "No longer run gave a loss", best->rung + 1, t->rungs);
    else if (!t->settled)
        fputs("; The search along lr did not finish: tune again from this file.\n", to);
    for (int a = TUNE_FIRST; a < TUNE_AXES; a++)
        if (tune_at_edge(t, (tune_axis)a))
            fprintf(to, "; %s is at the edge of the searched range: tune again from this file.\n",
                    tune_option((tune_axis)a)->key);
    if (proxy == width)
        fprintf(to, "; Measured at width %lld itself: nothing is carried over.\n", width);
    else if (tune_carries(target))
        fprintf(
            to,
            "; Carried over from width %lld to %lld: a step of rule %s has the same size in the norms of the layers\n"
            "; at every width, so that the best values are expected to stay the same. To check: scion sweep over "
            "width\n"
            "; and lr, then scion sweep show.\n",
            proxy, width, target->optimizer.rule);
    else
        fprintf(
            to,
            "; Carried over from width %lld to %lld. Under rule %s the best lr may be another one there: check with\n"
            "; scion sweep over width and lr, then scion sweep show.\n",
            proxy, width, target->optimizer.rule);
}

void tune_table(FILE *to, const tune *t, int rung, const char *begin)
{
    char text[CONFIG_TEXT], loss[32];
    int64_t *order = calloc((size_t)t->count, sizeof *order);
    const int64_t count = order ? tune_order(t, rung, order) : 0;
    for (int64_t i = -1; order && i < count; i++) { /* -1: the names */
        const tune_trial *trial = i < 0 ? NULL : &t->trials[order[i]];
        fputs(begin, to);
        for (int a = 0; a < TUNE_AXES; a++) {
            const char *key = tune_option((tune_axis)a)->key;
            if (t->space.fixed[a])
                continue;
            if (trial)
                tune_value_text(t, &trial->at, (tune_axis)a, text);
            fprintf(to, "%*s ", (int)fmax(8, (double)strlen(key)), trial ? text : key);
        }
        fprintf(to, "%12s", trial ? tune_loss_text(trial, loss) : "loss");
        if (trial && order[i] == t->best)
            fputs("  found", to);
        if (trial && order[i] == t->own)
            fputs(order[i] == t->best ? " (own)" : "  the preset's own", to);
        fputc('\n', to);
    }
    free(order);
}

static void write_rung(FILE *to, const tune *t, int rung)
{
    char length[48];
    int64_t first = 0;
    while (first < t->count && t->trials[first].rung != rung)
        first++;
    if (first == t->count)
        return;
    fprintf(to, ";\n; Rung %d of %d, %s:\n", rung + 1, t->rungs, length_text(t, rung, length));
    tune_table(to, t, rung, ";  ");
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static void write_all(FILE *to, const tune *t, const config *target, const char *command)
{
    const config c = tune_result(t, target);
    char line[2 * CONFIG_TEXT];
    const char *name = target->preset[0] ? path_end(target->preset) : target->model;
    snprintf(line, sizeof line, "; %s at width %lld, tuned at width %lld", name,
             (long long)config_int(target, "width"), (long long)config_int(&t->base, "width"));
    write_line(to, line);
    fputs(";\n;   ", to);
    write_line(to, command);
    fputs(";\n", to);
    write_search(to, t);
    write_comparison(to, t);
    write_meaning(to, t, target);
    for (int rung = t->rungs - 1; rung >= 0; rung--)
        write_rung(to, t, rung);
    fputc('\n', to);
    config_write(&c, to, CONFIG_CHANGED);
}

/* An .ini file cannot hold every text (such as a path with " ;"): the file must read back as it was meant. */
static scion_status check_file(const char *written, const config *want, const char *path, scion_error *err)
{
    const config_option *o;
    config got;
    scion_error why;
    config_init(&got);
    if (config_load(&got, written, &why) != SCION_OK)
        return train_fail(err, SCION_EINVAL, "%s: not written, because it could not be read back: %.140s",
                          path_end(path), why.message);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (strcmp(o->key, "preset") != 0 && !config_same(&got, want, o))
            return train_fail(err, SCION_EINVAL, "%s: not written, because an .ini file cannot hold this %s",
                              path_end(path), o->key);
    return SCION_OK;
}

scion_status tune_write(const tune *t, const config *target, const char *command, const char *path, scion_error *err)
{
    const config c = tune_result(t, target);
    atomic_file r;
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    scion_status status = SCION_OK;
    if (memory)
        write_all(memory, t, target, command);
    if (!memory || fclose(memory) != 0)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path)));
    TRY(atomic_begin(&r, -1, path, err));
    TRY(atomic_write(&r, text, bytes, err));
    status = check_file(r.temporary, &c, path, err);
    if (status == SCION_OK)
        status = atomic_commit(&r, err);
    else
        atomic_abort(&r);
done:
    free(text);
    return status;
}
