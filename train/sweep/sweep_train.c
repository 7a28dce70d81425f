/* One run of a sweep: as scion train would do it, without a folder. See sweep.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/fail.h"
#include "run/norm_watch.h"
#include "sweep/sweep.h"
#include "base/clock.h"

/* A smoothed loss this many times that of the first step (and one more, for losses near zero) will not come back in
 * time: networks begin near the loss of guessing, and a spike that a run recovers from is lower. */
static const double hopeless = 3;

/* Weight of the newest loss in the smoothed one, and the steps that it takes to mean something. */
static const double smoothing = 0.1;
enum { settled = 10 };

enum { curve_points = 200, norm_points = 10 };

static const double beat_s = 1;

typedef struct training {
    trainer *t;
    ledger_run *run;
    sweep_curves *curves;
    double first, begin, beaten;
    double sum; /* of the losses since the last point of the curve */
    int64_t summed;
    bool stopped, full; /* full: out of memory for a curve */
} training;

/* Room for one more in an array that doubles. */
static void *next(training *k, void **array, int64_t *count, size_t bytes)
{
    if ((*count & (*count - 1)) == 0) {
        void *larger = realloc(*array, (size_t)(*count ? 2 * *count : 1) * bytes);
        if (!larger) {
            k->full = true;
            return NULL;
        }
        *array = larger;
    }
    return (char *)*array + (size_t)(*count)++ * bytes;
}

static void add_point(training *k, ledger_point p)
{
    void *points = k->curves->points;
    ledger_point *to = next(k, &points, &k->curves->point_count, sizeof p);
    k->curves->points = points;
    if (to)
        *to = p;
}

static void add_norm(void *context, const scion_info *info)
{
    training *k = context;
    void *norms = k->curves->norms;
    ledger_norm *to = next(k, &norms, &k->curves->norm_count, sizeof *to);
    k->curves->norms = norms;
    if (!to)
        return;
    *to = (ledger_norm){.step = k->t->step, .norm = info->weight_norm, .bound = info->bound};
    snprintf(to->name, sizeof to->name, "%s", info->name);
}

/* Every n-th step such that there are about `points` of them, and the last. */
static bool due(const trainer *t, int64_t points)
{
    const int64_t every = t->steps / points > 1 ? t->steps / points : 1;
    return t->step % every == 0 || t->step == t->steps;
}

static void after_step(training *k, double loss, double lr)
{
    const trainer *t = k->t;
    ledger_result *r = &k->run->result;
    if (t->step == 1)
        k->first = r->loss = loss;
    r->loss += smoothing * (loss - r->loss);
    r->step = t->step;
    r->forward_s += t->forward_s;
    r->backward_s += t->backward_s;
    r->optimizer_s += t->optimizer_s;
    r->seconds = clock_now() - k->begin;
    k->sum += loss;
    k->summed++;
    if (!due(t, curve_points))
        return;
    add_point(k, (ledger_point){t->step, k->sum / (double)k->summed, lr, NAN, NAN});
    k->sum = 0;
    k->summed = 0;
}

static scion_status evaluate(training *k, scion_error *err)
{
    trainer *t = k->t;
    ledger_result *r = &k->run->result;
    if (trainer_validation_batches(t) < 1)
        return SCION_OK;
    scion_status status = trainer_evaluate(t, t->c.run.eval_batches, &r->val_loss, &r->accuracy, err);
    if (!trainer_reports_accuracy(t))
        r->accuracy = NAN;
    if (status == SCION_OK && !isfinite(r->val_loss)) {
        r->val_loss = r->accuracy = NAN;
        return train_fail(err, SCION_ENONFINITE, "after step %lld the validation loss is not finite",
                          (long long)t->step);
    }
    if (status == SCION_OK)
        add_point(k, (ledger_point){t->step, NAN, NAN, r->val_loss, r->accuracy});
    return status;
}

static bool is_hopeless(const training *k)
{
    return k->t->step >= settled && k->run->result.loss > hopeless * k->first + 1;
}

static scion_status one_step(training *k, scion_error *err)
{
    trainer *t = k->t;
    double loss;
    const double lr = trainer_lr(t);
    scion_status status = trainer_step(t, &loss, err);
    if (status != SCION_OK)
        return status;
    after_step(k, loss, lr);
    if (due(t, norm_points))
        status = norms_each(t, add_norm, k, err);
    if (status == SCION_OK &&
        (t->step == t->steps || (t->c.run.eval_every > 0 && t->step % t->c.run.eval_every == 0)))
        status = evaluate(k, err);
    return status;
}

static void train(training *k, bool (*beat)(void *context), void *context)
{
    ledger_run *run = k->run;
    ledger_result *r = &run->result;
    scion_error err = {.message = ""};
    scion_status status = SCION_OK;
    while (status == SCION_OK && k->t->step < k->t->steps && !is_hopeless(k) && !k->stopped) {
        status = one_step(k, &err);
        if (beat && clock_now() - k->beaten > beat_s) {
            k->beaten = clock_now();
            k->stopped = !beat(context);
        }
    }
    if (status == SCION_OK && k->stopped && k->t->step < k->t->steps)
        return;
    run->state = LEDGER_DONE;
    if (status == SCION_ENONFINITE) {
        run->state = LEDGER_DIVERGED;
        snprintf(r->message, sizeof r->message, "%s", err.message);
    } else if (status != SCION_OK || k->full) {
        run->state = LEDGER_FAILED;
        snprintf(r->message, sizeof r->message, "%s", k->full ? "out of memory" : err.message);
    } else if (is_hopeless(k) && k->t->step < k->t->steps) {
        run->state = LEDGER_DIVERGED;
        snprintf(r->message, sizeof r->message, "stopped at step %lld: the loss rose from %.4g to %.4g",
                 (long long)k->t->step, k->first, r->loss);
    }
}

static void measure_end(training *k, const trainer_memory *memory)
{
    ledger_result *r = &k->run->result;
    struct rusage usage;
    r->seconds = clock_now() - k->begin;
    r->samples_per_s = (double)(r->step * trainer_samples(k->t)) / (r->forward_s + r->backward_s + r->optimizer_s);
    r->state_bytes = (double)(memory->weights + memory->gradients + memory->state);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        r->peak_bytes = (double)usage.ru_maxrss * 1024;
}

void sweep_train(ledger_run *run, sweep_curves *curves, bool (*beat)(void *context), void *context)
{
    training k = {.run = run, .curves = curves, .begin = clock_now(), .beaten = clock_now()};
    trainer_memory memory;
    scion_error err;
    memset(curves, 0, sizeof *curves);
    run->result =
        (ledger_result){.loss = NAN, .val_loss = NAN, .accuracy = NAN, .samples_per_s = NAN, .peak_bytes = NAN};
    if (trainer_create(&k.t, &run->c, &memory, &err) != SCION_OK) {
        run->state = LEDGER_FAILED;
        snprintf(run->result.message, sizeof run->result.message, "%s", err.message);
        return;
    }
    run->result.steps = k.t->steps;
    run->result.parameters = k.t->elements;
    train(&k, beat, context);
    measure_end(&k, &memory);
    trainer_free(k.t);
}

void sweep_curves_free(sweep_curves *curves)
{
    free(curves->points);
    free(curves->norms);
    memset(curves, 0, sizeof *curves);
}
