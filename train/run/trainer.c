/* Making a trainer, its step, its memory and its checkpoints. See trainer.h. */
#define _GNU_SOURCE 1 /* asprintf */
#include "run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/memory_limit.h"
#include "base/number.h"
#include "base/threads.h"
#include "data/tta.h"
#include "run/checkpoint.h"
#include "run/routing.h"
#include "run/run_dir.h"

enum { max_workers = 4 }; /* threads that decode data ahead */

/* The largest number that the option steps takes. */
static const double steps_max = 1e15;

/* *context: what is special about these data, else all zero. */
static scion_status open_data(trainer *t, const data_context *special, scion_error *err)
{
    const config *c = &t->c;
    data_context context = *special;
    context.seed = c->training.seed;
    context.wants = config_model(c)->inputs;
    context.ahead = c->training.batch;
    context.workers = t->threads < max_workers ? t->threads : max_workers;
    scion_status status = data_open(&t->data, &c->data, &context, err);
    if (status != SCION_OK)
        return status;
    const data_info *d = data_about(t->data);
    const int64_t train = d->units[DATA_TRAIN];
    if (train > 0 && d->samples[DATA_TRAIN] < 1)
        return train_fail(err, SCION_EINVAL,
                          "the data are too small: %lld %s to train, fewer than one sample of %lld", (long long)train,
                          d->unit, (long long)d->sample_units);
    t->steps = c->training.steps;
    const double passes = ceil(c->training.epochs * (double)train / (double)trainer_samples(t));
    if (t->steps == 0 && passes > steps_max)
        return train_fail(err, SCION_EINVAL, "epochs=%g are %g steps; at most %g are possible", c->training.epochs,
                          passes, steps_max);
    if (t->steps == 0 && train > 0)
        t->steps = (int64_t)passes;
    if (t->steps < 1 && train > 0)
        return train_fail(err, SCION_EINVAL, "steps and epochs are both 0");
    return SCION_OK;
}

static const scion_rule_properties *rule_of(const trainer *t)
{
    return scion_rule_info(scion_enum_value(SCION_ENUM_RULE, t->c.optimizer.rule));
}

/* Share of what there is that a run may plan to use, and up to which weights are packed for the sake of speed. */
static const double memory_share = 0.95, packing_share = 0.5;

/* Weights are packed once a step where a step has several micro-batches, all with the same weights, unless memory is
 * what the user wants to save, or would not do: packed for the result and for the gradient they take twice their own
 * room, beside themselves, gradients and state. (check_memory looks again when all is known.) */
static bool wants_packed(const trainer *t)
{
    const double arrays = 4 + (double)rule_of(t)->states, floats = (double)tape_param_elements(t->model.tape);
    const size_t limit = memory_usable("", t->threads).bytes;
    return t->c.training.accum > 1 && !t->c.optimizer.light && !rule_of(t)->needs_prev &&
           (limit == 0 || arrays * floats * sizeof(float) <= packing_share * (double)limit);
}

static scion_status plan_training(trainer *t, bool pack, scion_error *err)
{
    const plan_options train = {.mode = PLAN_TRAINING, .threads = t->threads, .pack = pack};
    plan_free(t->train);
    return plan_make(&t->train, t->model.tape, t->model.loss, &train, err);
}

static const tta *tta_of(const trainer *t)
{
    return tta_find(t->c.run.tta);
}

/* Logits are for images: of a model that only evaluates, and for tta. */
static scion_status plan_logits(trainer *t, bool training, scion_error *err)
{
    const plan_options evaluate = {.mode = PLAN_INFERENCE, .threads = t->threads};
    const bool possible = data_about(t->data)->image && t->model.logits, several = tta_of(t)->count > 1;
    if (several && !possible)
        return train_fail(err, SCION_EINVAL, "tta=%s: model %s does not classify images", t->c.run.tta, t->c.model);
    return possible && (!training || several) ? plan_make(&t->logits, t->model.tape, t->model.logits, &evaluate, err)
                                              : SCION_OK;
}

/* Records the model and plans its runs; nothing large is allocated. */
static scion_status record(trainer *t, bool training, scion_error *err)
{
    if (training && data_about(t->data)->samples[DATA_TRAIN] < 1)
        return train_fail(err, SCION_EINVAL, "the data have no %s to train on", data_about(t->data)->unit);
    const plan_options evaluate = {.mode = PLAN_INFERENCE, .threads = t->threads};
    scion_status status = model_record(&t->model, config_model(&t->c), config_model_options(&t->c),
                                       data_about(t->data), t->c.training.batch, err);
    const int mixed = data_find(data_about(t->data), "target_weights");
    if (status == SCION_OK && mixed >= 0 && !t->model.inputs[mixed])
        status =
            train_fail(err, SCION_EINVAL, "mixup and cutmix: model %s does not learn from mixed classes", t->c.model);
    if (status == SCION_OK)
        status = plan_make(&t->eval, t->model.tape, t->model.loss, &evaluate, err);
    if (status == SCION_OK)
        status = plan_logits(t, training, err);
    if (status == SCION_OK && training)
        status = plan_training(t, wants_packed(t), err);
    if (status == SCION_OK)
        t->elements = tape_param_elements(t->model.tape);
    return status;
}

/* An array of floats for a whole model, zero. */
static float *flat_array(int64_t elements)
{
    const size_t bytes = ((size_t)elements * sizeof(float) + 63) / 64 * 64;
    float *x = aligned_alloc(64, bytes);
    scn_large_pages(x, bytes);
    return x ? memset(x, 0, bytes) : NULL;
}

static scion_status allocate(trainer *t, bool training, scion_error *err)
{
    const bool before = training && rule_of(t)->needs_prev;
    const int64_t buffers = tape_buffer_elements(t->model.tape);
    t->weights = flat_array(t->elements);
    t->grads = training ? flat_array(t->elements) : NULL;
    t->grads_before = before ? flat_array(t->elements) : NULL;
    t->buffers = buffers > 0 ? flat_array(buffers) : NULL;
    t->buffers_before = buffers > 0 && training ? flat_array(buffers) : NULL;
    if (!t->weights || (training && !t->grads) || (before && !t->grads_before) || (buffers > 0 && !t->buffers) ||
        (buffers > 0 && training && !t->buffers_before))
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld parameters", (long long)t->elements);
    if (t->logits && !(t->class_sums = flat_array(t->model.logits->count)))
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld logits", (long long)t->model.logits->count);
    scion_status status = plan_commit(t->eval, err);
    if (status == SCION_OK && t->logits)
        status = plan_commit(t->logits, err);
    if (status == SCION_OK && training)
        status = plan_commit(t->train, err);
    tape_bind(t->model.tape, t->weights, t->grads, t->buffers);
    tape_init_buffers(t->model.tape);
    return status;
}

/* Where a weight starts. The norms of vectors (RMS, Euclid, max) start at zero, and a network of such matrices (rule
 * signum, say) would never leave it. */
static int32_t start_of(const trainer *t, const tape_value *v, int32_t norm)
{
    if (v->zero_start)
        return SCION_START_ZERO;
    return t->c.optimizer.boundary_init && !scion_norm_info(norm)->starts_at_zero ? SCION_START_BOUNDARY
                                                                                  : SCION_START_UNIFORM;
}

static scion_status make_optimizer(trainer *t, scion_error *err)
{
    const int64_t count = tape_param_count(t->model.tape);
    scion_options o;
    scion_param *params = calloc((size_t)count, sizeof *params);
    scion_status status = params ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the optimizer");
    if (status == SCION_OK)
        status = routing_params(&t->c, t->model.tape, params, err);
    if (status == SCION_OK)
        status = config_optimizer(&t->c, &o, err);
    if (status == SCION_OK)
        status = scion_route(params, count, &o, err);
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        const tape_value *v = tape_param_at(t->model.tape, i);
        params[i].start = start_of(t, v, params[i].norm);
        params[i].grad_prev = t->grads_before ? t->grads_before + v->offset : NULL;
    }
    if (status == SCION_OK)
        status = scion_optimizer_create(&t->optimizer, &o, params, count, err);
    free(params);
    return status;
}

static scion_status new_trainer(trainer **out, const config *c, scion_error *err)
{
    trainer *t = calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    t->c = *c;
    t->best = INFINITY;
    t->folder = -1;
    t->lr_before = NAN;
    t->threads = threads_set((int)c->training.threads);
    return SCION_OK;
}

/* ---- Memory: what a run will take, and whether the machine has it -------------------------------------------- */

/* What the run will take. The optimizer's share is an upper estimate until it exists. */
static void plan_memory(const trainer *t, trainer_memory *m)
{
    const size_t floats = (size_t)t->elements * sizeof(float);
    const scion_rule_properties *rule = rule_of(t);
    *m = (trainer_memory){
        .weights = floats + 2 * (size_t)tape_buffer_elements(t->model.tape) * sizeof(float),
        .gradients = floats * (rule->needs_prev ? 2 : 1),
        .state = t->c.optimizer.light ? 0 : (size_t)rule->states * floats,
        .activations = plan_bytes(t->train) - plan_packed_bytes(t->train),
        .packed = plan_packed_bytes(t->train),
        .evaluation = plan_bytes(t->eval) + (t->logits ? plan_bytes(t->logits) : 0),
        .limit = memory_usable("", t->threads),
    };
    m->total = m->weights + m->gradients + m->state + m->activations + m->packed + m->evaluation;
}

static scion_status check_plan(const trainer_memory *m, scion_error *err)
{
    const double gb = 1e9, activations = (double)m->activations + (double)m->evaluation;
    /* In double: a plan that cannot be made counts as SIZE_MAX bytes. */
    const double total = (double)m->weights + (double)m->gradients + (double)m->state + activations;
    if (m->limit.bytes == 0 || total <= memory_share * (double)m->limit.bytes)
        return SCION_OK;
    return train_fail(err, SCION_ENOMEM,
                      "the run needs %.3g GB (weights %.3g, gradients %.3g, optimizer %.3g, activations %.3g) and %s "
                      "%.3g: take a smaller model or batch, light=1 or recompute=1",
                      total / gb, (double)m->weights / gb, (double)m->gradients / gb, (double)m->state / gb,
                      activations / gb, m->limit.what, (double)m->limit.bytes / gb);
}

/* Refuses a run that there is no memory for. */
static scion_status check_memory(trainer *t, scion_error *err)
{
    const trainer_memory *m = &t->memory;
    scion_status status = SCION_OK;
    plan_memory(t, &t->memory);
    if (m->packed > 0 && m->limit.bytes > 0 && (double)m->total > packing_share * (double)m->limit.bytes) {
        status = plan_training(t, false, err);
        if (status == SCION_OK)
            plan_memory(t, &t->memory);
    }
    return status == SCION_OK ? check_plan(m, err) : status;
}

/* The estimate of the optimizer's share becomes what it is. */
static void count_optimizer(trainer *t)
{
    trainer_memory *m = &t->memory;
    const size_t state = scion_optimizer_state_bytes(t->optimizer);
    m->workspace = scion_optimizer_workspace_bytes(t->optimizer);
    m->total += state + m->workspace - m->state;
    m->state = state;
}

/* ---- The whole ---------------------------------------------------------------------------------------------- */

void trainer_free(trainer *t)
{
    if (!t)
        return;
    scion_optimizer_free(t->optimizer);
    plan_free(t->train);
    plan_free(t->eval);
    plan_free(t->logits);
    model_free(&t->model);
    data_close(t->data);
    free(t->weights);
    free(t->grads);
    free(t->grads_before);
    free(t->buffers);
    free(t->buffers_before);
    free(t->class_sums);
    free(t->changes);
    free(t);
}

const char *trainer_unit(const trainer *t)
{
    return data_about(t->data)->unit;
}

bool trainer_reports_accuracy(const trainer *t)
{
    return config_model(&t->c)->accuracy;
}

/* What a validation measures: the first `samples` of the validation part, or as many spread over it. */
typedef struct measured {
    int64_t samples;
    bool spread;
} measured;

/* At least one sample, if there is one. */
static measured validation_of(const trainer *t, bool last)
{
    const run_options *o = &t->c.run;
    const data_info *d = data_about(t->data);
    const int64_t all = d->samples[DATA_VAL], end = last ? o->eval_end : 0;
    const bool batches = o->eval_batches > 0 && end == 0, even = end == 0 && !batches;
    const int64_t units = end > 0 ? end : o->eval_tokens;
    int64_t samples = all;
    if (batches)
        samples = o->eval_batches < all ? o->eval_batches * t->c.training.batch : all;
    else if (units > 0)
        samples = units / d->sample_units > 0 ? units / d->sample_units : 1;
    return (measured){samples < all ? samples : all, even && samples < all};
}

int64_t trainer_validation_samples(const trainer *t, bool last)
{
    return validation_of(t, last).samples;
}

static int64_t batches_of(const trainer *t, int64_t samples)
{
    return (samples + t->c.training.batch - 1) / t->c.training.batch;
}

int64_t trainer_validation_batches(const trainer *t, bool last)
{
    return batches_of(t, trainer_validation_samples(t, last));
}

int64_t trainer_samples(const trainer *t)
{
    return t->c.training.batch * t->c.training.accum * data_about(t->data)->sample_units;
}

double trainer_flops(const trainer *t)
{
    return 3 * plan_flops(t->train) * (double)t->c.training.accum;
}

static double lr_at(const training_options *o, int64_t steps, int64_t step)
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
    return lr_at(&t->c.training, t->steps, t->step);
}

/* Where a plan wants the arrays of a batch. */
static void find_inputs(const trainer *t, const tape_plan *p, void *arrays[DATA_ARRAYS])
{
    for (int i = 0; i < DATA_ARRAYS; i++) {
        const tape_value *v = t->model.inputs[i] ? plan_value(p, t->model.inputs[i]) : NULL;
        if (v)
            arrays[i] = v->kind == TAPE_INTS ? (void *)v->ints : v->data;
    }
}

/* Batch `index` of a part into a plan's inputs; the next one is decoded meanwhile, if it must be. */
static scion_status fill(const trainer *t, const tape_plan *p, data_part part, int64_t index, scion_error *err)
{
    const int64_t batch = t->c.training.batch;
    void *arrays[DATA_ARRAYS] = {NULL};
    find_inputs(t, p, arrays);
    data_prefetch(t->data, part, index * batch, batch); /* the first batch, which nobody has asked for yet */
    scion_status status = data_fill(t->data, part, index * batch, batch, arrays, err);
    data_prefetch(t->data, part, (index + 1) * batch, batch);
    return status;
}

scion_status trainer_fill_evaluation(trainer *t, data_part part, int64_t index, scion_error *err)
{
    return fill(t, t->eval, part, index, err);
}

static bool stopped(const trainer *t)
{
    return t->stop && t->stop(t->stop_ctx);
}

/* Forward and backward over all micro-batches of the present step, into whatever the tape is bound to. */
static scion_status gradients(trainer *t, bool update_buffers, double *loss, scion_error *err)
{
    tape_run run = {.threads = t->threads,
                    .loss_scale = (float)(1.0 / (double)t->c.training.accum),
                    .seed = t->c.training.seed,
                    .step = t->step,
                    .update_buffers = update_buffers};
    const int64_t first = t->micro;
    double sum = t->micro_loss;
    for (int64_t i = first; i < t->c.training.accum; i++) {
        if (i > first && stopped(t)) {
            t->micro = t->c.optimizer.light ? i : 0;
            t->micro_loss = t->c.optimizer.light ? sum : 0;
            return train_fail(err, SCION_ESTOPPED, "stopped in step %lld", (long long)t->step + 1);
        }
        const int64_t index = t->step * t->c.training.accum + i;
        scion_status status = fill(t, t->train, DATA_TRAIN, index, err);
        if (status != SCION_OK)
            return status;
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
    }
    *loss = sum / (double)t->c.training.accum;
    return SCION_OK;
}

/* MARS: the gradient at the weights before, on the same batch. */
static scion_status gradients_before(trainer *t, scion_error *err)
{
    double ignored;
    memset(t->grads_before, 0, (size_t)t->elements * sizeof(float));
    scion_optimizer_previous(t->optimizer, NULL);
    tape_bind(t->model.tape, t->weights, t->grads_before, t->buffers);
    scion_status status = gradients(t, false, &ignored, err);
    tape_bind(t->model.tape, t->weights, t->grads, t->buffers);
    scion_optimizer_previous(t->optimizer, NULL);
    return status;
}

/* The first of n values that is not finite, by its name; NULL: all are. */
static const char *find_nonfinite(tape_value *(*value)(const tape *t, int64_t i), const tape *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const tape_value *v = value(t, i);
        for (int64_t k = 0; k < v->count; k++)
            if (!isfinite(v->data[k]))
                return v->name;
    }
    return NULL;
}

static const char *nonfinite_buffer(const trainer *t)
{
    return find_nonfinite(tape_buffer_at, t->model.tape, tape_buffer_count(t->model.tape));
}

scion_status trainer_step(trainer *t, double *loss, scion_error *err)
{
    const size_t buffer_bytes = (size_t)tape_buffer_elements(t->model.tape) * sizeof(float);
    scion_status status = SCION_OK;
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
    const char *bad = status == SCION_OK ? nonfinite_buffer(t) : NULL;
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

/* Batch `index` of a validation into the plan's inputs. */
static scion_status fill_validation(const trainer *t, const measured *m, int64_t index, scion_error *err)
{
    const int64_t batch = t->c.training.batch;
    void *arrays[DATA_ARRAYS] = {NULL};
    if (!m->spread)
        return fill(t, t->eval, DATA_VAL, index, err);
    find_inputs(t, t->eval, arrays);
    return data_fill_even(t->data, m->samples, index * batch, batch, arrays, err);
}

/* The mean logits of all views of the images that are in the inputs of t->eval, into t->class_sums. */
static void view_logits(trainer *t, const tape_run *run)
{
    const tta *views = tta_of(t);
    const float *from = plan_value(t->eval, t->model.inputs[0])->data;
    float *to = plan_value(t->logits, t->model.inputs[0])->data;
    const tape_value *z = plan_value(t->logits, t->model.logits);
    memset(t->class_sums, 0, (size_t)z->count * sizeof *t->class_sums);
    for (int i = 0; i < views->count; i++) {
        tta_apply(&views->views[i], &data_about(t->data)->arrays[0], t->c.training.batch, from, to);
        plan_forward(t->logits, run);
        for (int64_t k = 0; k < z->count; k++)
            t->class_sums[k] += views->views[i].weight * z->data[k];
    }
}

/* Classes that are likelier than the target; of equals the first counts, as in the loss. */
static int64_t rank_of(const float *z, int64_t classes, int32_t target)
{
    int64_t before = 0;
    for (int64_t k = 0; k < classes; k++)
        before += z[k] > z[target] || (k < target && z[k] == z[target]);
    return before;
}

/* Adds to the images whose class comes first, and among the first five, by t->class_sums. */
static void score_views(const trainer *t, double *first, double *five)
{
    const tape_value *targets = plan_value(t->eval, t->model.inputs[data_find(data_about(t->data), "targets")]);
    const int64_t classes = data_about(t->data)->image->classes;
    for (int64_t i = 0; i < t->c.training.batch; i++) {
        if (targets->ints[i] < 0)
            continue;
        const int64_t rank = rank_of(t->class_sums + i * classes, classes, targets->ints[i]);
        *first += rank == 0;
        *five += rank < 5;
    }
}

/* views: with the logits, if they are planned. */
static scion_status evaluate(trainer *t, measured m, bool views, trainer_scores *scores, scion_error *err)
{
    tape_run run = {.threads = t->threads, .loss_scale = 1, .seed = t->c.training.seed, .step = t->step};
    const int64_t count = batches_of(t, m.samples);
    double sum = 0, hits = 0, rows = 0, first = 0, five = 0;
    views = views && t->logits;
    if (count < 1)
        return train_fail(err, SCION_EINVAL, "%s: the validation part has not one sample of %lld %s", t->c.data.path,
                          (long long)data_about(t->data)->sample_units, data_about(t->data)->unit);
    for (int64_t i = 0; i < count; i++) {
        double batch_hits, batch_rows;
        if (i > 0 && stopped(t))
            return train_fail(err, SCION_ESTOPPED, "stopped in a validation");
        scion_status status = fill_validation(t, &m, i, err);
        if (status != SCION_OK)
            return status;
        run.sample = i * t->c.training.batch;
        double part = (double)plan_forward(t->eval, &run);
        plan_score(t->eval, &batch_hits, &batch_rows);
        if (views) {
            view_logits(t, &run);
            score_views(t, &first, &five);
        }
        sum += part * batch_rows;
        hits += batch_hits;
        rows += batch_rows;
        if (t->evaluated)
            t->evaluated(t->stop_ctx, i + 1, count);
    }
    if (rows == 0)
        return train_fail(err, SCION_EINVAL, "%s: nothing in the validation part can be measured", t->c.data.path);
    *scores = (trainer_scores){.loss = sum / rows,
                               .accuracy = (views && tta_of(t)->count > 1 ? first : hits) / rows,
                               .plain_accuracy = hits / rows,
                               .top5 = views && data_about(t->data)->image->classes > 5 ? five / rows : NAN};
    return SCION_OK;
}

scion_status trainer_evaluate(trainer *t, int64_t batches, double *loss, double *accuracy, scion_error *err)
{
    const int64_t all = data_about(t->data)->samples[DATA_VAL];
    const bool some = batches > 0 && batches < batches_of(t, all);
    trainer_scores scores = {0};
    const scion_status status =
        evaluate(t, (measured){some ? batches * t->c.training.batch : all, false}, false, &scores, err);
    if (status == SCION_OK)
        *loss = scores.loss;
    if (status == SCION_OK && accuracy)
        *accuracy = scores.accuracy;
    return status;
}

scion_status trainer_validate(trainer *t, bool last, trainer_scores *scores, scion_error *err)
{
    return evaluate(t, validation_of(t, last), last, scores, err);
}

scion_status trainer_put_file(trainer *t, int64_t row, const char *path, scion_error *err)
{
    float *images = plan_value(t->eval, t->model.inputs[0])->data;
    return data_put_file(t->data, path, images + row * data_about(t->data)->arrays[0].count, err);
}

/* softmax, in double. */
static void normalise(const float *z, int64_t n, float *p)
{
    double most = (double)z[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        most = fmax(most, (double)z[k]);
    for (int64_t k = 0; k < n; k++)
        sum += exp((double)z[k] - most);
    for (int64_t k = 0; k < n; k++)
        p[k] = (float)(exp((double)z[k] - most) / sum);
}

void trainer_classify(trainer *t, float *probabilities)
{
    const tape_run run = {.threads = t->threads, .loss_scale = 1, .seed = t->c.training.seed, .step = t->step};
    const int64_t classes = data_about(t->data)->image->classes;
    view_logits(t, &run);
    for (int64_t i = 0; i < t->c.training.batch; i++)
        normalise(t->class_sums + i * classes, classes, probabilities + i * classes);
}

/* ---- Checkpoints ------------------------------------------------------------------------------------------------
 *     tensors    every parameter and buffer under its name; the optimizer's arrays as "optimizer.average.NAME",
 *                "optimizer.second.NAME", "optimizer.previous.NAME" (scion_optimizer_state; with `light`, the
 *                averages that are in the gradients); "optimizer", bytes: its settings and counters
 *     metadata   format, config (JSON), step, steps, best, data_kind; vocabulary or images, where there are; due =
 *                validation, if the run was stopped in the validation after `step`; micro and micro_loss, if it was
 *                stopped in a step with `light`: micro-batches of it that the averages have, the sum of their
 *                losses; changes, if step sizes were changed on the way
 * The data have no position: batches are functions of the step. Files of format scion-1 (version 0.1) have the arrays
 * inside "optimizer", and the averages of `light` as "average.NAME". */

static const char format_name[] = "scion-2", old_format[] = "scion-1";

enum { name_bytes = 128, prefix_bytes = 48, max_arrays = 4 /* of the optimizer, for one parameter */ };

typedef struct listing {
    checkpoint_tensor *tensors;
    char (*names)[name_bytes];
    int count;
} listing;

static void list_tensor(listing *l, const tape_value *v, const char *prefix, const void *data)
{
    checkpoint_tensor *out = &l->tensors[l->count];
    snprintf(l->names[l->count], name_bytes, "%s%s", prefix, v->name);
    *out = (checkpoint_tensor){.name = l->names[l->count],
                               .dtype = "F32",
                               .ndim = v->ndim,
                               .data = data,
                               .bytes = (size_t)v->count * sizeof(float)};
    memcpy(out->shape, v->shape, sizeof out->shape);
    l->count++;
}

/* Weights that are not finite must not take the place of good ones. */
static scion_status check_finite(const trainer *t, const char *path, scion_error *err)
{
    const char *bad = find_nonfinite(tape_param_at, t->model.tape, tape_param_count(t->model.tape));
    if (!bad)
        bad = nonfinite_buffer(t);
    return bad ? train_fail(err, SCION_ENONFINITE, "%s: not saved: after step %lld %s is not finite", path,
                            (long long)t->step, bad)
               : SCION_OK;
}

/* State array k of parameter i, and the prefix of its name in the file; false: there is none. */
static bool state_array(const trainer *t, int64_t i, int k, scion_array *array, char prefix[prefix_bytes])
{
    scion_array_init(array);
    if (k >= max_arrays || !scion_optimizer_state(t->optimizer, i, k, array))
        return false;
    snprintf(prefix, prefix_bytes, "optimizer.%s.", array->name);
    return true;
}

static void list_tensors(listing *l, const trainer *t)
{
    char prefix[prefix_bytes];
    scion_array array;
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++) {
        const tape_value *v = tape_param_at(t->model.tape, i);
        list_tensor(l, v, "", v->data);
        if (t->c.optimizer.light)
            list_tensor(l, v, "optimizer.average.", v->grad);
        for (int k = 0; state_array(t, i, k, &array, prefix); k++)
            list_tensor(l, v, prefix, array.data);
    }
    for (int64_t i = 0; i < tape_buffer_count(t->model.tape); i++) {
        const tape_value *v = tape_buffer_at(t->model.tape, i);
        list_tensor(l, v, "", v->data);
    }
}

static scion_status write_checkpoint(const trainer *t, int folder, const char *path, const listing *l,
                                     scion_error *err)
{
    char *json = config_to_json(&t->c), step[32], steps[32], best[32], micro[32], micro_loss[32];
    const char *vocabulary = data_about(t->data)->vocabulary, *images = data_about(t->data)->images;
    if (!json)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory for the checkpoint", path);
    snprintf(step, sizeof step, "%lld", (long long)t->step);
    snprintf(steps, sizeof steps, "%lld", (long long)t->steps);
    snprintf(best, sizeof best, "%.17g", t->best);
    snprintf(micro, sizeof micro, "%lld", (long long)t->micro);
    snprintf(micro_loss, sizeof micro_loss, "%.17g", t->micro_loss);
    int metas = 6;
    checkpoint_meta meta[12] = {{"format", format_name}, {"config", json}, {"step", step},
                                {"steps", steps},        {"best", best},   {"data_kind", data_about(t->data)->kind}};
    if (vocabulary)
        meta[metas++] = (checkpoint_meta){"vocabulary", vocabulary};
    if (images)
        meta[metas++] = (checkpoint_meta){"images", images};
    if (t->validation_due)
        meta[metas++] = (checkpoint_meta){"due", "validation"};
    if (t->micro > 0) {
        meta[metas++] = (checkpoint_meta){"micro", micro};
        meta[metas++] = (checkpoint_meta){"micro_loss", micro_loss};
    }
    if (t->changes)
        meta[metas++] = (checkpoint_meta){"changes", t->changes};
    const scion_status status = checkpoint_write(folder, path, l->tensors, l->count, meta, metas, err);
    free(json);
    return status;
}

/* The arrays are written from where they are: saving takes no memory worth planning for. */
scion_status trainer_save(const trainer *t, int folder, const char *path, scion_error *err)
{
    const size_t max =
        (size_t)(tape_param_count(t->model.tape) * (2 + max_arrays) + tape_buffer_count(t->model.tape) + 1);
    const size_t settings_bytes = scion_optimizer_save_bytes(t->optimizer, SCION_WITHOUT_ARRAYS);
    listing l = {calloc(max, sizeof *l.tensors), calloc(max, sizeof *l.names), 0};
    void *settings = malloc(settings_bytes);
    scion_status status = check_finite(t, path, err);
    if (status == SCION_OK && (!l.tensors || !l.names || !settings))
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory for the checkpoint", path);
    if (status == SCION_OK)
        status = scion_optimizer_save(t->optimizer, SCION_WITHOUT_ARRAYS, settings, settings_bytes, err);
    if (status == SCION_OK) {
        list_tensors(&l, t);
        l.tensors[l.count++] =
            (checkpoint_tensor){"optimizer", "U8", 1, {(int64_t)settings_bytes}, settings, settings_bytes};
        status = write_checkpoint(t, folder, path, &l, err);
    }
    free(settings);
    free(l.names);
    free(l.tensors);
    return status;
}

typedef enum purpose { TO_TRAIN, TO_CHANGE, TO_EVALUATE, TO_EVALUATE_WHOLE, TO_SAMPLE, TO_CLASSIFY } purpose;

static bool trains(purpose why)
{
    return why == TO_TRAIN || why == TO_CHANGE;
}

/* The option of a "key=value". */
static const config_option *option_of(const char *pair)
{
    char key[CONFIG_TEXT];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pair, "="), pair);
    return config_find(key);
}

/* Refuses options that may not change when a run is resumed or opened. */
static scion_status check_change(const char *pair, const char *path, purpose why, scion_error *err)
{
    const config_option *o = option_of(pair);
    const unsigned change = o ? o->change : 0;
    char dir[CONFIG_TEXT];
    if (change & (trains(why) ? OPTION_ON_RESUME : OPTION_ON_EVAL) || (why == TO_CHANGE && change & OPTION_ON_FORCE))
        return SCION_OK;
    if (!trains(why))
        return train_fail(err, SCION_EINVAL, "%s: cannot be changed for a trained model", pair);
    if (change & OPTION_ON_FORCE)
        return train_fail(err, SCION_EINVAL, "%s: cannot be changed when a run is resumed; --force changes it", pair);
    run_dir_of(path, dir);
    return train_fail(err, SCION_EINVAL,
                      "%s: cannot be changed when a run is resumed; scion train init=%s starts a new run from its "
                      "weights",
                      pair, dir);
}

/* Written by version 0.1. */
static bool is_old(const checkpoint *file)
{
    const char *format = checkpoint_get(file, "format");
    return format && strcmp(format, old_format) == 0;
}

/* The configuration of a checkpoint, with changes. */
static scion_status read_config(const checkpoint *file, const char *path, const char *const *pairs, int count,
                                purpose why, config *c, scion_error *err)
{
    const char *format = checkpoint_get(file, "format"), *json = checkpoint_get(file, "config");
    if (!format || (strcmp(format, format_name) != 0 && !is_old(file)) || !json)
        return train_fail(err, SCION_ESTATE, "%s: not a checkpoint of scion (format %.40s, expected %s)", path,
                          format ? format : "is missing", format_name);
    if (!checkpoint_verified(file))
        return train_fail(err, SCION_ESTATE, "%s: damaged: it has no checksum, and every checkpoint of scion has one",
                          path);
    config_init(c);
    scion_status status = config_from_json(c, json, err);
    for (int i = 0; status == SCION_OK && i < count; i++) {
        status = check_change(pairs[i], path, why, err);
        if (status == SCION_OK)
            status = config_set_pair(c, pairs[i], err);
    }
    if (status == SCION_OK && trains(why) && count > 0)
        status = config_check_schedule(c, err);
    return status;
}

/* Notes what the pairs change in the course of a run that is after step `step`. */
static scion_status note_changes(trainer *t, const config *stored, const char *const *pairs, int count,
                                 scion_error *err)
{
    for (int i = 0; i < count; i++) {
        const config_option *o = option_of(pairs[i]);
        const char *before = t->changes ? t->changes : "";
        char old[CONFIG_TEXT], now[CONFIG_TEXT], *all;
        if (!(o->change & OPTION_ON_FORCE) || config_same(stored, &t->c, o))
            continue;
        config_get(stored, o, old, sizeof old);
        config_get(&t->c, o, now, sizeof now);
        if (asprintf(&all, "%s%safter step %lld: %s %s -> %s", before, before[0] ? "\n" : "", (long long)t->step,
                     o->key, old, now) < 0)
            return train_fail(err, SCION_ENOMEM, "out of memory");
        free(t->changes);
        t->changes = all;
    }
    return SCION_OK;
}

/* One tensor of the file into `to`. */
static scion_status read_tensor(const checkpoint *file, const char *path, const char *prefix, const tape_value *v,
                                void *to, scion_error *err)
{
    char name[name_bytes];
    snprintf(name, sizeof name, "%s%s", prefix, v->name);
    const checkpoint_tensor *from = checkpoint_find(file, name);
    if (!from)
        return train_fail(err, SCION_ESTATE, "%s: tensor %s is missing", path, name);
    bool fits = strcmp(from->dtype, "F32") == 0 && from->ndim == v->ndim;
    for (int i = 0; fits && i < v->ndim; i++)
        fits = from->shape[i] == v->shape[i];
    if (!fits)
        return train_fail(err, SCION_ESTATE, "%s: tensor %s has another type or shape than the model", path, name);
    memcpy(to, from->data, (size_t)v->count * sizeof(float));
    return SCION_OK;
}

static scion_status read_weights(trainer *t, const checkpoint *file, const char *path, bool training,
                                 scion_error *err)
{
    const tape *from = t->model.tape;
    scion_status status = SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < tape_param_count(from); i++) {
        const tape_value *v = tape_param_at(from, i);
        status = read_tensor(file, path, "", v, v->data, err);
        if (status == SCION_OK && training && t->c.optimizer.light)
            status = read_tensor(file, path, is_old(file) ? "average." : "optimizer.average.", v, v->grad, err);
    }
    for (int64_t i = 0; status == SCION_OK && i < tape_buffer_count(from); i++) {
        const tape_value *v = tape_buffer_at(from, i);
        status = read_tensor(file, path, "", v, v->data, err);
    }
    return status;
}

/* A count of steps in the metadata. */
static scion_status read_count(const checkpoint *file, const char *path, const char *key, int64_t *count,
                               scion_error *err)
{
    const char *text = checkpoint_get(file, key);
    if (text && number_int(text, count) && *count >= 0)
        return SCION_OK;
    return train_fail(err, SCION_ESTATE, "%s: its %s is %.40s", path, key, text ? text : "missing");
}

/* The steps of a run that is counted in epochs are those that it was begun with: the batch and the data of this
 * command may be others. */
static scion_status read_position(trainer *t, const checkpoint *file, const char *path, bool training,
                                  scion_error *err)
{
    const char *best = checkpoint_get(file, "best"), *due = checkpoint_get(file, "due");
    const char *loss = checkpoint_get(file, "micro_loss"), *changes = checkpoint_get(file, "changes");
    int64_t steps;
    scion_status status = read_count(file, path, "step", &t->step, err);
    if (status == SCION_OK)
        status = read_count(file, path, "steps", &steps, err);
    if (status != SCION_OK)
        return status;
    if (t->c.training.steps == 0)
        t->steps = steps;
    t->best = best ? strtod(best, NULL) : INFINITY;
    t->validation_due = due && strcmp(due, "validation") == 0;
    t->steps_before = steps;
    if (checkpoint_get(file, "micro"))
        status = read_count(file, path, "micro", &t->micro, err);
    if (status == SCION_OK && t->micro >= t->c.training.accum)
        status = train_fail(err, SCION_ESTATE, "%s: its micro is %lld, and a step has %lld", path,
                            (long long)t->micro, (long long)t->c.training.accum);
    t->micro_loss = loss ? strtod(loss, NULL) : 0;
    t->changes = changes ? strdup(changes) : NULL;
    if (status == SCION_OK && changes && !t->changes)
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path);
    if (status != SCION_OK)
        return status;
    if (training && t->step > t->steps)
        return train_fail(err, SCION_EINVAL, "%s: it is at step %lld, past steps=%lld", path, (long long)t->step,
                          (long long)t->steps);
    return SCION_OK;
}

static scion_status read_optimizer(trainer *t, const checkpoint *file, const char *path, scion_error *err)
{
    const checkpoint_tensor *state = checkpoint_find(file, "optimizer");
    const unsigned flags = is_old(file) ? 0 : SCION_WITHOUT_ARRAYS;
    char prefix[prefix_bytes];
    scion_array array;
    scion_error inner;
    if (!state)
        return train_fail(err, SCION_ESTATE, "%s: the optimizer's state is missing", path);
    if (scion_optimizer_load(t->optimizer, flags, state->data, state->bytes, &inner) != SCION_OK)
        return train_fail(err, SCION_ESTATE, "%s: %.180s", path, inner.message);
    scion_status status = SCION_OK;
    for (int64_t i = 0; flags && i < tape_param_count(t->model.tape); i++)
        for (int k = 0; status == SCION_OK && state_array(t, i, k, &array, prefix); k++)
            status = read_tensor(file, path, prefix, tape_param_at(t->model.tape, i), array.data, err);
    return status;
}

static bool is_given(const char *key, const char *const *pairs, int count)
{
    for (int i = 0; i < count; i++)
        if (strncmp(pairs[i], key, strlen(key)) == 0 && pairs[i][strlen(key)] == '=')
            return true;
    return false;
}

/* Whether the data are of the kind that the model learned from. Checkpoints of earlier versions only tell whether it
 * had a vocabulary. */
static scion_status check_kind(const trainer *t, const checkpoint *file, scion_error *err)
{
    const data_info *d = data_about(t->data);
    const char *kind = checkpoint_get(file, "data_kind"), *vocabulary = checkpoint_get(file, "vocabulary");
    if (kind ? strcmp(kind, d->kind) == 0 : !vocabulary == !d->vocabulary)
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "%.150s: data of kind %s, but the model learned from %s%s", t->c.data.path,
                      d->kind, kind ? "kind " : "data with ",
                      kind         ? kind
                      : vocabulary ? "a vocabulary"
                                   : "none");
}

/* The data of a run may have moved since. */
static scion_status open_stored_data(trainer *t, const checkpoint *file, const char *const *pairs, int count,
                                     purpose why, scion_error *err)
{
    const bool other = is_given("data", pairs, count) || is_given("val_data", pairs, count);
    const data_context special = {.vocabulary = checkpoint_get(file, "vocabulary"),
                                  .images = checkpoint_get(file, "images"),
                                  .whole = why == TO_EVALUATE_WHOLE,
                                  .as_0_1 = is_old(file) && !other};
    scion_error inner;
    scion_status status = open_data(t, &special, &inner);
    if (status == SCION_OK)
        return why == TO_CLASSIFY ? SCION_OK : check_kind(t, file, err);
    return train_fail(
        err, status, "%.180s%s", inner.message,
        t->c.data.path[0] && access(t->c.data.path, F_OK) != 0 ? " (data=FILE says where the data are now)" : "");
}

static scion_status from_file(trainer **out, const char *path, const char *const *pairs, int count, purpose why,
                              scion_error *err)
{
    const bool training = trains(why);
    checkpoint *file = NULL;
    trainer *t = NULL;
    config c, stored;
    scion_status status = checkpoint_open(&file, path, err);
    if (status == SCION_OK)
        status = read_config(file, path, NULL, 0, why, &stored, err);
    if (status == SCION_OK)
        status = read_config(file, path, pairs, count, why, &c, err);
    if (status == SCION_OK && why == TO_SAMPLE && !(config_model(&c)->decode && checkpoint_get(file, "vocabulary")))
        status = train_fail(err, SCION_EINVAL, "%s: only a model that learned from a text file can write text", path);
    if (status == SCION_OK && why == TO_CLASSIFY && !checkpoint_get(file, "images"))
        status = train_fail(err, SCION_EINVAL, "%s: only a model that learned from images can classify them", path);
    if (status == SCION_OK && (why == TO_SAMPLE || why == TO_CLASSIFY)) { /* vocabulary, or classes, are enough */
        c.data.path[0] = '\0';
        snprintf(c.data.kind, sizeof c.data.kind, "auto");
    }
    if (status == SCION_OK && why == TO_SAMPLE)
        c.training.batch = 1;
    if (status == SCION_OK && !training && is_given("data", pairs, count) && !is_given("val_data", pairs, count))
        c.data.val[0] = '\0'; /* that of the run has nothing to do with these */
    if (status == SCION_OK)
        status = new_trainer(&t, &c, err);
    if (status == SCION_OK)
        status = open_stored_data(t, file, pairs, count, why, err);
    if (status == SCION_OK)
        status = record(t, training, err);
    if (status == SCION_OK && training)
        status = check_memory(t, err);
    if (status == SCION_OK)
        status = allocate(t, training, err);
    if (status == SCION_OK && training)
        status = make_optimizer(t, err);
    if (status == SCION_OK)
        status = read_weights(t, file, path, training, err);
    if (status == SCION_OK && training)
        status = read_optimizer(t, file, path, err);
    if (status == SCION_OK && training)
        count_optimizer(t);
    if (status == SCION_OK)
        status = read_position(t, file, path, training, err);
    if (status == SCION_OK && t->step > 0)
        t->lr_before = lr_at(&stored.training, t->steps_before, t->step - 1);
    if (status == SCION_OK && why == TO_CHANGE)
        status = note_changes(t, &stored, pairs, count, err);
    checkpoint_close(file);
    if (status != SCION_OK) {
        trainer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

scion_status trainer_resume(trainer **out, const char *path, const char *const *pairs, int count, scion_error *err)
{
    return from_file(out, path, pairs, count, TO_TRAIN, err);
}

scion_status trainer_resume_changed(trainer **out, const char *path, const char *const *pairs, int count,
                                    scion_error *err)
{
    return from_file(out, path, pairs, count, TO_CHANGE, err);
}

scion_status trainer_open(trainer **out, const char *path, const char *const *pairs, int count, scion_error *err)
{
    return from_file(out, path, pairs, count, TO_EVALUATE, err);
}

scion_status trainer_open_whole(trainer **out, const char *path, const char *const *pairs, int count,
                                scion_error *err)
{
    return from_file(out, path, pairs, count, TO_EVALUATE_WHOLE, err);
}

scion_status trainer_open_model(trainer **out, const char *path, const char *const *pairs, int count,
                                scion_error *err)
{
    return from_file(out, path, pairs, count, TO_SAMPLE, err);
}

scion_status trainer_open_images(trainer **out, const char *path, const char *const *pairs, int count,
                                 scion_error *err)
{
    return from_file(out, path, pairs, count, TO_CLASSIFY, err);
}

/* ---- A new run ---------------------------------------------------------------------------------------------- */

/* Option i of those that say what the weights are: the chosen model's, then the data's that it depends on; NULL past
 * the last. */
static const config_option *init_option(const config *c, int i)
{
    const model_row *row = config_model(c);
    int count = 0;
    for (const option *o = row->options; o && o->key; o++)
        if (!o->neutral && !(o->change & OPTION_ON_INIT) && count++ == i)
            return config_find(o->key);
    const config_option *o;
    for (int k = 0; (o = config_option_at(k)) != NULL; k++)
        if (o->change & OPTION_FROM_INIT && count++ == i)
            return o;
    return NULL;
}

static scion_status open_init(checkpoint **file, const char *run, char path[RUN_PATH], config *c, scion_error *err)
{
    *file = NULL;
    scion_status status = run_dir_best(run, path, err);
    if (status == SCION_OK)
        status = checkpoint_open(file, path, err);
    if (status == SCION_OK)
        status = read_config(*file, path, NULL, 0, TO_EVALUATE, c, err);
    return status;
}

scion_status trainer_model_of(config *c, const char *run, scion_error *err)
{
    char path[RUN_PATH], value[CONFIG_TEXT];
    checkpoint *file;
    config from;
    scion_status status = open_init(&file, run, path, &from, err);
    checkpoint_close(file);
    if (status == SCION_OK)
        status = config_set(c, "model", from.model, path, err);
    const config_option *o;
    for (int i = 0; status == SCION_OK && (o = init_option(&from, i)) != NULL; i++) {
        config_get(&from, o, value, sizeof value);
        status = config_set(c, o->key, value, path, err);
    }
    return status;
}

/* Refuses a model that the weights are not of. */
static scion_status check_init(const config *c, const config *from, scion_error *err)
{
    const config_option *o;
    const char *run = c->training.init;
    if (strcmp(c->model, from->model) != 0)
        return train_fail(err, SCION_EINVAL, "init: %.120s has model %s, this run %s", run, from->model, c->model);
    for (int i = 0; (o = init_option(from, i)) != NULL; i++) {
        char theirs[CONFIG_TEXT], ours[CONFIG_TEXT];
        if (o->change & OPTION_ON_EVAL || config_same(c, from, o))
            continue;
        config_get(from, o, theirs, sizeof theirs);
        config_get(c, o, ours, sizeof ours);
        return train_fail(err, SCION_EINVAL, "init: %.100s has %s=%.32s, this run %s=%.32s: say %s=%.32s", run,
                          o->key, theirs, o->key, ours, o->key, theirs);
    }
    return SCION_OK;
}

/* Data, and the model's weights: of the checkpoint that init names. */
static scion_status open_data_of(trainer *t, const checkpoint *file, scion_error *err)
{
    const data_context special = {.vocabulary = checkpoint_get(file, "vocabulary")};
    const scion_status status = open_data(t, &special, err);
    return status == SCION_OK ? check_kind(t, file, err) : status;
}

/* By role, then what the model starts otherwise. */
static scion_status start_weights(trainer *t, scion_error *err)
{
    const model_row *row = config_model(&t->c);
    scion_status status = scion_optimizer_init_weights(t->optimizer, t->c.training.seed, err);
    if (status == SCION_OK && row->start) {
        status = row->start(&t->model, config_model_options(&t->c), t->data, err);
        if (status == SCION_OK)
            status = scion_optimizer_mark_start(t->optimizer, err);
    }
    return status;
}

scion_status trainer_create(trainer **out, const config *c, scion_error *err)
{
    const bool starts = c->training.init[0] != '\0';
    trainer *t = NULL;
    checkpoint *file = NULL;
    char path[RUN_PATH];
    config from;
    scion_status status = config_check(c, err);
    if (status == SCION_OK && starts)
        status = open_init(&file, c->training.init, path, &from, err);
    if (status == SCION_OK && starts)
        status = check_init(c, &from, err);
    if (status == SCION_OK)
        status = new_trainer(&t, c, err);
    if (status == SCION_OK)
        status = starts ? open_data_of(t, file, err) : open_data(t, &(data_context){.seed = 0}, err);
    if (status == SCION_OK)
        status = record(t, true, err);
    if (status == SCION_OK)
        status = check_memory(t, err);
    if (status == SCION_OK)
        status = allocate(t, true, err);
    if (status == SCION_OK)
        status = make_optimizer(t, err);
    if (status == SCION_OK)
        status = start_weights(t, err);
    if (status == SCION_OK)
        count_optimizer(t);
    if (status == SCION_OK && starts)
        status = read_weights(t, file, path, false, err);
    if (status == SCION_OK && starts) /* bounds are counted from there */
        status = scion_optimizer_mark_start(t->optimizer, err);
    if (status == SCION_OK && starts)
        status = read_count(file, path, "step", &t->init_step, err);
    checkpoint_close(file);
    if (status != SCION_OK) {
        trainer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}
