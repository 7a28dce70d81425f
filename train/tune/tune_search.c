/* Successive halving over the points of tune.c, by thirds: the share of the steps that a rung's runs take times the
 * number of runs is the same in every rung, so that as much time goes to looking around as to looking closely. See
 * tune.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "tune/tune.h"

void tune_init(tune *t)
{
    *t = (tune){.candidates = TUNE_CANDIDATES, .rungs = 3, .seeds = 1, .jobs = 1, .best = -1, .own = -1};
    config_init(&t->base);
}

void tune_free(tune *t)
{
    free(t->trials);
    t->trials = NULL;
    t->count = t->room = 0;
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

/* Candidates that a rung keeps of `count` in the first. */
static int64_t kept(int64_t count, int rung)
{
    for (; rung > 0; rung--)
        count = (count + TUNE_THIRD - 1) / TUNE_THIRD;
    return count;
}

double tune_estimate(const tune *t, int64_t candidates, double seconds)
{
    const int64_t jobs = t->jobs > 0 ? t->jobs : 1;
    double sum = 0;
    for (int r = 0; r < t->rungs; r++) {
        const bool last = r == t->rungs - 1; /* with the preset's own point, and two neighbours of the winner */
        const int64_t runs = t->seeds * (kept(candidates, r) + last);
        const double cost = seconds * (double)(tune_share(t, 0) / tune_share(t, r)) / t->seeds;
        sum += cost * (double)((runs + jobs - 1) / jobs);
        if (last)
            sum += cost * (double)((2 * t->seeds + jobs - 1) / jobs);
    }
    return sum;
}

/* ---- Trials -------------------------------------------------------------------------------------------- */

static scion_status add_trial(tune *t, const tune_point *p, int rung, scion_error *err)
{
    if (t->count == t->room) {
        const int64_t room = 2 * t->room + 32;
        tune_trial *larger = realloc(t->trials, (size_t)room * sizeof *larger);
        if (!larger)
            return train_fail(err, SCION_ENOMEM, "out of memory");
        t->trials = larger;
        t->room = room;
    }
    t->trials[t->count++] = (tune_trial){.at = *p, .rung = rung, .state = LEDGER_WAITING, .loss = NAN};
    return SCION_OK;
}

/* Lower losses first, then what diverged, then what is not known; among equals the earlier one. */
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

/* How many candidates the budget pays for, by the slowest of the trials so far (those that diverge end early). */
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

static scion_status first_rung(tune *t, tune_measure measure, void *context, scion_error *err)
{
    enum { probes = 3 };
    tune_point *points = calloc((size_t)t->candidates, sizeof *points);
    scion_status status = points ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory");
    if (status != SCION_OK)
        return status;
    t->candidates = tune_candidates(&t->space, t->base.training.seed, points, t->candidates);
    const int64_t probe = t->jobs > probes ? t->jobs : probes;
    while (status == SCION_OK && t->count < t->candidates && !t->time_up) {
        const int64_t first = t->count;
        const int64_t until = t->budget > 0 && first == 0 && probe < t->candidates ? probe : t->candidates;
        while (status == SCION_OK && t->count < until)
            status = add_trial(t, &points[t->count], 0, err);
        if (status == SCION_OK)
            status = measure(context, t, first, t->count - first, err);
        if (status == SCION_OK && t->budget > 0 && first == 0)
            t->candidates = affordable(t);
    }
    free(points);
    return status;
}

/* The best third of the rung below; in the last rung the preset's own point as well, to compare with. */
static scion_status next_rung(tune *t, int rung, tune_measure measure, void *context, scion_error *err)
{
    const tune_point own = {{0}};
    const int64_t first = t->count;
    int64_t *order = calloc((size_t)t->count, sizeof *order);
    scion_status status = order ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory");
    const int64_t count = order ? tune_order(t, rung - 1, order) : 0;
    for (int64_t i = 0; status == SCION_OK && i < count && i < kept(t->candidates, rung); i++) {
        const tune_trial from = t->trials[order[i]]; /* a copy: the array grows */
        if (isfinite(from.loss))
            status = add_trial(t, &from.at, rung, err);
    }
    const int64_t before = tune_find(t, &own, 0);
    if (status == SCION_OK && rung == t->rungs - 1 && before >= 0 && isfinite(t->trials[before].loss) &&
        tune_find(t, &own, rung) < 0)
        status = add_trial(t, &own, rung, err);
    if (status == SCION_OK && t->count > first)
        status = measure(context, t, first, t->count - first, err);
    free(order);
    return status;
}

/* The winner's neighbour in lr, false: the rule does not take it. */
static bool neighbour(const tune *t, int64_t of, int step, tune_point *p)
{
    *p = t->trials[of].at;
    p->power[TUNE_LR] += step;
    return p->power[TUNE_LR] <= t->space.most;
}

/* Walks downhill in lr until both neighbours are worse. */
static scion_status refine(tune *t, tune_measure measure, void *context, scion_error *err)
{
    const int last = t->rungs - 1;
    t->refining = true;
    for (int move = 0; move <= TUNE_MOVES && !t->time_up; move++) {
        const int64_t winner = best_of(t, last), first = t->count;
        scion_status status = SCION_OK;
        for (int step = -1; status == SCION_OK && winner >= 0 && step <= 1; step += 2) {
            tune_point p;
            if (neighbour(t, winner, step, &p) && tune_find(t, &p, last) < 0)
                status = add_trial(t, &p, last, err);
        }
        if (status == SCION_OK && t->count == first)
            return SCION_OK;
        if (status == SCION_OK)
            status = measure(context, t, first, t->count - first, err);
        if (status != SCION_OK)
            return status;
    }
    return SCION_OK;
}

static bool is_settled(const tune *t)
{
    for (int step = -1; step <= 1; step += 2) {
        tune_point p;
        if (!neighbour(t, t->best, step, &p))
            continue;
        const int64_t found = tune_find(t, &p, t->rungs - 1);
        if (found < 0 || t->trials[found].state == LEDGER_WAITING || t->trials[found].state == LEDGER_FAILED)
            return false;
    }
    return true;
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
        return train_fail(err, SCION_EINVAL, "the time was up before one run had ended");
    return train_fail(err, SCION_EINVAL, "all %lld runs diverged, from lr %g on: start from a smaller one, lr=%g say",
                      (long long)t->count, ldexp(t->base.training.lr, t->space.low[TUNE_LR]),
                      ldexp(t->base.training.lr, -8));
}

scion_status tune_search(tune *t, tune_measure measure, void *context, scion_error *err)
{
    const tune_point own = {{0}};
    scion_status status = first_rung(t, measure, context, err);
    for (int rung = 1; status == SCION_OK && rung < t->rungs && !t->time_up; rung++)
        status = next_rung(t, rung, measure, context, err);
    if (status == SCION_OK)
        status = refine(t, measure, context, err);
    if (status != SCION_OK)
        return status;
    for (int rung = t->rungs - 1; rung >= 0 && t->best < 0; rung--)
        t->best = best_of(t, rung);
    if (t->best < 0)
        return nothing_found(t, err);
    t->own = tune_find(t, &own, t->trials[t->best].rung);
    t->settled = t->trials[t->best].rung == t->rungs - 1 && is_settled(t);
    return SCION_OK;
}
