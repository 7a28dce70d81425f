/* Measuring the layers of one run; see coordcheck.h. Results are read inside a forward pass (tape_watch), for their
 * memory is used again after it; sums are in double. The logits never exist at once, since the output layer and the
 * loss are one operator: they are computed here, in double, for a sample of the batch's rows. */
#include "tune/coordcheck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "run/trainer.h"

/* Products of the sample of logits, about a tenth of a second's work; rows are as many as fit, but at least 16. */
enum { logit_products = 1 << 27, logit_rows_least = 16 };

typedef struct meter {
    ledger_coord *coords;
    int64_t count, room;
    int64_t step, place;
    bool failed; /* out of memory */
} meter;

static bool add_coord(meter *m, const char *name, double rms)
{
    if (m->count == m->room) {
        const int64_t room = m->room ? 2 * m->room : 64;
        ledger_coord *more = realloc(m->coords, (size_t)room * sizeof *more);
        m->failed = !more;
        if (!more)
            return false;
        m->coords = more;
        m->room = room;
    }
    ledger_coord *c = &m->coords[m->count++];
    *c = (ledger_coord){.step = m->step, .place = m->place++, .rms = isfinite(rms) ? rms : INFINITY};
    snprintf(c->name, sizeof c->name, "%s", name);
    return true;
}

static double rms_of(const tape_value *v)
{
    double sum = 0;
    for (int64_t i = 0; i < v->count; i++)
        sum += (double)v->data[i] * (double)v->data[i];
    return sqrt(sum / (double)v->count);
}

static double dot(int64_t n, const float *x, const float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Of x w' + bias, for rows of x that are spread evenly. */
static double rms_of_logits(const tape_value *x, const tape_value *w, const tape_value *bias)
{
    const int64_t V = w->shape[0], C = w->shape[1], rows = x->count / C;
    int64_t sample = logit_products / (V * C);
    if (sample < logit_rows_least)
        sample = logit_rows_least;
    if (sample > rows)
        sample = rows;
    double sum = 0;
    for (int64_t i = 0; i < sample; i++)
        for (int64_t v = 0; v < V; v++) {
            const double z =
                dot(C, x->data + i * rows / sample * C, w->data + v * C) + (bias ? (double)bias->data[v] : 0);
            sum += z * z;
        }
    return sqrt(sum / (double)(sample * V));
}

/* Operators that apply a matrix, their parameter, and how their result is measured. */
static bool look(void *context, const tape_node *n)
{
    if (strcmp(n->op->name, "cross_entropy") == 0)
        return add_coord(context, COORDCHECK_LOGITS, rms_of_logits(n->in[0], n->in[1], n->in[2]));
    if (strcmp(n->op->name, "linear") == 0 || strcmp(n->op->name, "embedding") == 0)
        return add_coord(context, n->in[1]->name, rms_of(n->out));
    return true;
}

/* All layers, with the present weights. */
static scion_status measure(meter *m, trainer *t, scion_error *err)
{
    tape_run run = {.threads = t->threads, .training = false, .loss_scale = 1};
    m->step = t->step;
    m->place = 0;
    tape_watch(t->eval.tape, &run, look, m);
    return m->failed ? train_fail(err, SCION_ENOMEM, "out of memory for the coordinate check") : SCION_OK;
}

/* After the loss was not finite: the layers of step 0 again, as diverged. */
static scion_status measure_diverged(meter *m, int64_t step, scion_error *err)
{
    const int64_t layers = m->place;
    m->step = step;
    m->place = 0;
    while (m->place < layers) {
        char name[sizeof m->coords->name];
        memcpy(name, m->coords[m->place].name, sizeof name); /* add_coord may move what it is copied from */
        if (!add_coord(m, name, INFINITY))
            return train_fail(err, SCION_ENOMEM, "out of memory for the coordinate check");
    }
    return SCION_OK;
}

/* The evaluation's inputs are nobody else's while the trainer only steps: one batch stays there. */
static void fill(const trainer *t)
{
    const model *m = &t->eval;
    if (m->tokens)
        data_tokens(t->data, DATA_TRAIN, 0, t->c.training.batch, t->c.data.block, m->tokens->ints, m->targets->ints);
    else
        data_images(t->data, DATA_TRAIN, 0, t->c.training.batch, m->pixels->data, m->targets->ints);
}

scion_status coordcheck_measure(coordcheck_run *run, const config *c, int64_t steps,
                                bool (*beat)(void *context, int64_t step), void *context, scion_error *err)
{
    meter m = {.coords = NULL};
    trainer *t = NULL;
    bool diverged = false;
    *run = (coordcheck_run){.c = *c};
    scion_status status = trainer_create(&t, c, NULL, err);
    if (status == SCION_OK && steps > t->steps)
        status =
            train_fail(err, SCION_EINVAL,
                       "the check is to take %lld steps, but the run has only %lld: set steps=", (long long)steps,
                       (long long)t->steps);
    for (int64_t step = 0; status == SCION_OK && step <= steps; step++) {
        double loss;
        if (step == 0)
            fill(t);
        else if (!diverged)
            status = trainer_step(t, &loss, err);
        diverged = diverged || status == SCION_ENONFINITE;
        if (diverged)
            status = measure_diverged(&m, step, err);
        else if (status == SCION_OK)
            status = measure(&m, t, err);
        if (status == SCION_OK && beat && !beat(context, step))
            status = train_fail(err, SCION_ESTOPPED, "stopped before the check was complete");
    }
    trainer_free(t);
    if (status != SCION_OK) {
        free(m.coords);
        return status;
    }
    run->coords = m.coords;
    run->count = m.count;
    return SCION_OK;
}
