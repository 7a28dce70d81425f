/* The step of a trainer. See trainer.h; making one is trainer_make.c, validation trainer_evaluate.c, checkpoints
 * trainer_files.c. */
#include "trainer/trainer.h"

#include <math.h>
#include <string.h>

#include "util/clock.h"
#include "util/fail.h"
#include "trainer/trainer_ranks.h"

const char *trainer_unit(const trainer *t)
{
    return data_about(t->data)->unit;
}

bool trainer_reports_accuracy(const trainer *t)
{
    return config_model(&t->c)->accuracy;
}

int64_t trainer_samples(const trainer *t)
{
    return t->c.training.batch * t->c.training.accum * data_about(t->data)->sample_units;
}

double trainer_flops(const trainer *t)
{
    return 3 * plan_flops(t->train) * (double)t->c.training.accum;
}

double trainer_lr_at(const training_options *o, int64_t steps, int64_t step)
{
    const scion_schedule s = {
        .size = sizeof s,
        .kind = scion_enum_value(SCION_ENUM_SCHEDULE, o->schedule),
        .n = steps,
        .warmup = o->warmup,
        .decay = o->decay,
        .peak = o->lr,
        .start = o->lr_start,
        .end = o->lr_end,
    };
    return scion_schedule_value(&s, step);
}

double trainer_lr(const trainer *t)
{
    return trainer_lr_at(&t->c.training, t->steps, t->step);
}

void trainer_find_inputs(const trainer *t, const tape_plan *p, void *arrays[DATA_ARRAYS])
{
    for (int i = 0; i < DATA_ARRAYS; i++) {
        const tape_value *v = t->model.inputs[i] ? plan_value(p, t->model.inputs[i]) : NULL;
        if (v)
            arrays[i] = v->kind == TAPE_INTS ? (void *)v->ints : v->data;
    }
}

scion_status trainer_fill(const trainer *t, const tape_plan *p, data_part part, int64_t index, int64_t next,
                          scion_error *err)
{
    const int64_t batch = t->c.training.batch;
    void *arrays[DATA_ARRAYS] = {NULL};
    trainer_find_inputs(t, p, arrays);
    data_prefetch(t->data, part, index * batch, batch); /* the first batch, which nobody has asked for yet */
    scion_status status = data_fill(t->data, part, index * batch, batch, arrays, err);
    data_prefetch(t->data, part, next * batch, batch);
    return status;
}

bool trainer_stopped(const trainer *t)
{
    return t->stop && t->stop(t->stop_ctx);
}

/* A step ends before its micro-batch i. With `light` those before it are in the average: it goes on with i. */
static void leave_step(trainer *t, int64_t i, double sum)
{
    t->micro = t->c.optimizer.light ? i : 0;
    t->micro_loss = t->c.optimizer.light ? sum : 0;
}

/* Forward and backward over all micro-batches of the present step, into whatever the tape is bound to. */
static scion_status gradients(trainer *t, bool update_buffers, double *loss, scion_error *err)
{
    tape_run run = {.threads = t->threads,
                    .loss_scale = (float)(1.0 / (double)t->c.training.accum),
                    .seed = t->c.training.seed,
                    .step = t->step,
                    .round_nearest = training_rounds_nearest(&t->c.training),
                    .update_buffers = update_buffers};
    const int64_t first = t->micro;
    double sum = t->micro_loss;
    for (int64_t i = first; i < t->c.training.accum; i++) {
        if (i > first && trainer_stopped(t)) {
            leave_step(t, i, sum);
            return train_fail(err, SCION_ESTOPPED, "stopped in step %lld", (long long)t->step + 1);
        }
        const int64_t index = t->step * t->c.training.accum + i;
        scion_status status = trainer_fill(t, t->train, DATA_TRAIN, index, index + 1, err);
        if (status != SCION_OK) {
            leave_step(t, i, sum);
            return status;
        }
        run.sample = index * t->c.training.batch;
        run.same_weights = i > first;
        double begin = clock_now();
        double part = (double)plan_forward(t->train, &run);
        double middle = clock_now();
        if (!isfinite(part)) {
            const char *bad = plan_first_nonfinite(t->train, &run);
            return train_fail(
                err, SCION_ENONFINITE, "step %lld: the loss is %s; the first result that is not finite is %s",
                (long long)t->step + 1, isnan(part) ? "not a number" : "infinite", bad ? bad : "the loss itself");
        }
        plan_backward(t->train, &run);
        t->forward_s += middle - begin;
        t->backward_s += clock_now() - middle;
        sum += part;
        if (t->computed)
            t->computed(t->stop_ctx, i + 1, t->c.training.accum);
    }
    *loss = sum / (double)t->c.training.accum;
    return SCION_OK;
}

/* MARS: the gradient at the weights before, on the same batch. */
static scion_status gradients_before(trainer *t, scion_error *err)
{
    double ignored;
    memset(t->grads_before, 0, tape_grad_bytes(t->model.tape));
    scion_optimizer_previous(t->optimizer, NULL);
    tape_bind(t->model.tape, t->weights, t->grads_before, t->buffers);
    scion_status status = gradients(t, false, &ignored, err);
    tape_bind(t->model.tape, t->weights, t->grads, t->buffers);
    scion_optimizer_previous(t->optimizer, NULL);
    return status;
}

const char *trainer_find_nonfinite(tape_value *(*value)(const tape *t, int64_t i), const tape *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const tape_value *v = value(t, i);
        if (v->half && !scn_all_finite_bf16(v->count, v->half))
            return v->name;
        for (int64_t k = 0; !v->half && k < v->count; k++)
            if (!isfinite(v->data[k]))
                return v->name;
    }
    return NULL;
}

const char *trainer_nonfinite_buffer(const trainer *t)
{
    return trainer_find_nonfinite(tape_buffer_at, t->model.tape, tape_buffer_count(t->model.tape));
}

scion_status trainer_step(trainer *t, double *loss, scion_error *err)
{
    const size_t buffer_bytes = (size_t)tape_buffer_elements(t->model.tape) * sizeof(float);
    scion_status status = SCION_OK;
    if (t->ranks)
        return ranks_step(t, loss, err);
    t->forward_s = t->backward_s = 0;
    if (t->buffers)
        memcpy(t->buffers_before, t->buffers, buffer_bytes);
    if (t->grads_before && t->step > 0) /* the first step has none before it */
        status = gradients_before(t, err);
    double begin = clock_now();
    scion_optimizer_begin(t->optimizer);
    t->optimizer_s = clock_now() - begin;
    if (status == SCION_OK)
        status = gradients(t, true, loss, err);
    const char *bad = status == SCION_OK ? trainer_nonfinite_buffer(t) : NULL;
    if (bad)
        status = train_fail(err, SCION_ENONFINITE, "step %lld: %s is not finite", (long long)t->step + 1, bad);
    begin = clock_now();
    if (status == SCION_OK)
        status = scion_optimizer_step(t->optimizer, trainer_lr(t), err);
    t->optimizer_s += clock_now() - begin;
    if (status == SCION_OK) {
        t->step++;
        t->micro = 0;
        t->micro_loss = 0;
    } else if (t->buffers && t->micro == 0)
        memcpy(t->buffers, t->buffers_before, buffer_bytes);
    return status;
}
