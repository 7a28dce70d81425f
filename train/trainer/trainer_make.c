/* Making a trainer: data, model, plans, memory, optimizer. See trainer_make.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "base/memory.h"
#include "util/threads.h"
#include "record/mistakes.h"
#include "trainer/routing.h"
#include "trainer/trainer_make.h"
#include "trainer/trainer_ranks.h"

enum { max_workers = 4 }; /* threads that decode data ahead */

/* The largest number that the option steps takes. */
static const double steps_max = 1e15;

scion_status trainer_open_data(trainer *t, const data_context *special, scion_error *err)
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

const scion_rule_properties *trainer_rule(const trainer *t)
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
    const double arrays = 4 + (double)trainer_rule(t)->states, floats = (double)tape_param_elements(t->model.tape);
    const size_t limit = memory_usable("", t->threads).bytes;
    return ranks_pieces(t) > 1 && ranks_use_plan(t) && !t->c.optimizer.light && !trainer_rule(t)->needs_prev &&
           training_storage(t->c.training.weights) == SCION_F32 &&
           training_storage(t->c.training.grads) == SCION_F32 &&
           (limit == 0 || arrays * floats * sizeof(float) <= packing_share * (double)limit);
}

static scion_status record_model(const trainer *t, int64_t batch, model *m, scion_error *err)
{
    const scion_status status =
        model_record(m, config_model(&t->c), config_model_options(&t->c), data_about(t->data), batch, err);
    if (status == SCION_OK)
        tape_store(m->tape, training_storage(t->c.training.weights), training_storage(t->c.training.grads));
    return status;
}

static plan_options training_plan(const trainer *t, bool pack)
{
    return (plan_options){.mode = PLAN_TRAINING,
                          .threads = t->threads,
                          .pack = pack,
                          .bf16 = training_storage(t->c.training.activations) == SCION_BF16};
}

static scion_status plan_training(trainer *t, bool pack, scion_error *err)
{
    const plan_options train = training_plan(t, pack);
    plan_free(t->train);
    return plan_make(&t->train, t->model.tape, t->model.loss, &train, err);
}

scion_status trainer_record_size(const trainer *t, int64_t batch, model *m, tape_plan **plan, scion_error *err)
{
    const plan_options train = training_plan(t, false);
    const scion_status status = record_model(t, batch, m, err);
    return status == SCION_OK ? plan_make(plan, m->tape, m->loss, &train, err) : status;
}

const tta *trainer_tta(const trainer *t)
{
    return tta_find(t->c.run.tta);
}

/* Logits of images are what they are evaluated by; the plan of the loss then gives nothing but its last operator. */
static scion_status plan_logits(trainer *t, scion_error *err)
{
    const plan_options evaluate = {.mode = PLAN_INFERENCE, .threads = t->threads};
    const bool possible = data_about(t->data)->image && t->model.logits, several = trainer_tta(t)->count > 1;
    if (several && !possible)
        return train_fail(err, SCION_EINVAL, "tta=%s: model %s does not classify images", t->c.run.tta, t->c.model);
    return possible ? plan_make(&t->logits, t->model.tape, t->model.logits, &evaluate, err) : SCION_OK;
}

scion_status trainer_record(trainer *t, bool training, scion_error *err)
{
    if (training && data_about(t->data)->samples[DATA_TRAIN] < 1)
        return train_fail(err, SCION_EINVAL, "the data have no %s to train on", data_about(t->data)->unit);
    const plan_options evaluate = {.mode = PLAN_INFERENCE, .threads = t->threads};
    scion_status status = record_model(t, t->c.training.batch, &t->model, err);
    const int mixed = data_find(data_about(t->data), "target_weights");
    if (status == SCION_OK && mixed >= 0 && !t->model.inputs[mixed])
        status =
            train_fail(err, SCION_EINVAL, "mixup and cutmix: model %s does not learn from mixed classes", t->c.model);
    if (status == SCION_OK)
        status = plan_make(&t->eval, t->model.tape, t->model.loss, &evaluate, err);
    if (status == SCION_OK)
        status = plan_logits(t, err);
    if (status == SCION_OK && training)
        status = plan_training(t, wants_packed(t), err);
    if (status == SCION_OK && training)
        status = ranks_make(t, err);
    if (status == SCION_OK && t->ranks) /* it may have one micro-batch of a step that has several */
        status = plan_training(t, wants_packed(t), err);
    if (status == SCION_OK)
        t->elements = tape_param_elements(t->model.tape);
    return status;
}

float *trainer_flat_array(size_t needed)
{
    const size_t bytes = (needed + 63) / 64 * 64;
    float *x = aligned_alloc(64, bytes);
    scn_large_pages(x, bytes);
    return x ? memset(x, 0, bytes) : NULL;
}

scion_status trainer_allocate(trainer *t, bool training, scion_error *err)
{
    const bool before = training && trainer_rule(t)->needs_prev;
    const int64_t buffers = tape_buffer_elements(t->model.tape);
    const size_t grad_bytes = tape_grad_bytes(t->model.tape), buffer_bytes = (size_t)buffers * sizeof(float);
    t->weights = trainer_flat_array(tape_weight_bytes(t->model.tape));
    t->grads = training ? trainer_flat_array(grad_bytes) : NULL;
    t->grads_before = before ? trainer_flat_array(grad_bytes) : NULL;
    t->buffers = buffers > 0 ? trainer_flat_array(buffer_bytes) : NULL;
    t->buffers_before = buffers > 0 && training ? trainer_flat_array(buffer_bytes) : NULL;
    if (!t->weights || (training && !t->grads) || (before && !t->grads_before) || (buffers > 0 && !t->buffers) ||
        (buffers > 0 && training && !t->buffers_before))
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld parameters", (long long)t->elements);
    if (t->logits && !(t->class_sums = trainer_flat_array((size_t)t->model.logits->count * sizeof(float))))
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld logits", (long long)t->model.logits->count);
    scion_status status = plan_commit(t->eval, err);
    if (status == SCION_OK && t->logits)
        status = plan_commit(t->logits, err);
    if (status == SCION_OK && training && ranks_use_plan(t))
        status = plan_commit(t->train, err);
    tape_bind(t->model.tape, t->weights, t->grads, t->buffers);
    tape_init_buffers(t->model.tape);
    if (status == SCION_OK && training)
        status = ranks_allocate(t, err);
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

scion_status trainer_make_optimizer(trainer *t, scion_error *err)
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
        params[i].grad_prev = t->grads_before ? (char *)t->grads_before + v->grad_at : NULL;
    }
    if (status == SCION_OK)
        ranks_own(t, params);
    if (status == SCION_OK)
        status = scion_optimizer_create(&t->optimizer, &o, params, count, err);
    free(params);
    return status;
}

scion_status trainer_new(trainer **out, const config *c, scion_error *err)
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
    const scion_rule_properties *rule = trainer_rule(t);
    *m = (trainer_memory){
        .weights = tape_weight_bytes(t->model.tape) + 2 * (size_t)tape_buffer_elements(t->model.tape) * sizeof(float),
        .gradients = tape_grad_bytes(t->model.tape) * (rule->needs_prev ? 2 : 1),
        .state = t->c.optimizer.light ? 0 : (size_t)((double)rule->states * (double)floats * ranks_state_share(t)),
        .sharing = ranks_bytes(t),
        .activations =
            ranks_activations(t) + (ranks_use_plan(t) ? plan_bytes(t->train) - plan_packed_bytes(t->train) : 0),
        .packed = ranks_use_plan(t) ? plan_packed_bytes(t->train) : 0,
        .evaluation = plan_bytes(t->eval) + (t->logits ? plan_bytes(t->logits) : 0),
        .data = data_bytes(t->data),
        .limit = memory_usable("", t->threads),
    };
    m->limit.bytes /= (size_t)comm_world()->local_size;
    m->total =
        m->weights + m->gradients + m->state + m->activations + m->packed + m->evaluation + m->sharing + m->data;
}

static scion_status check_plan(const trainer_memory *m, scion_error *err)
{
    const double gb = 1e9, activations = (double)m->activations + (double)m->evaluation;
    /* In double: a plan that cannot be made counts as SIZE_MAX bytes. */
    const double data = m->limit.left ? 0 : (double)m->data; /* which is here already */
    const double total =
        (double)m->weights + (double)m->gradients + (double)m->state + activations + (double)m->sharing + data;
    if (m->limit.bytes == 0 || total <= memory_share * (double)m->limit.bytes)
        return SCION_OK;
    return train_fail(
        err, SCION_ENOMEM,
        "the run needs %.3g GB (weights %.3g, gradients %.3g, optimizer %.3g, activations %.3g, data %.3g) and %s "
        "%.3g: take a smaller model or batch, weights=bf16, grads=bf16, light=1 or recompute=1",
        total / gb, (double)m->weights / gb, (double)m->gradients / gb, (double)m->state / gb, activations / gb,
        data / gb, m->limit.what, (double)m->limit.bytes / gb);
}

scion_status trainer_check_memory(trainer *t, scion_error *err)
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

/* The library starts a bfloat16 parameter in a float32 copy of it, and measures its norm in one. When weights start,
 * the activations' memory has not been touched yet. */
static size_t copy_bytes(const trainer *t, size_t activations)
{
    size_t most = 0;
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++) {
        const tape_value *v = tape_param_at(t->model.tape, i);
        const size_t bytes = v->half ? (size_t)v->count * sizeof(float) : 0;
        most = bytes > most ? bytes : most;
    }
    if (t->c.run.norm_every > 0)
        return most;
    return most > activations ? most - activations : 0;
}

void trainer_count_optimizer(trainer *t)
{
    trainer_memory *m = &t->memory;
    const size_t state = scion_optimizer_state_bytes(t->optimizer);
    m->workspace = scion_optimizer_workspace_bytes(t->optimizer);
    m->workspace += copy_bytes(t, m->activations + m->packed + m->evaluation);
    m->total += state + m->workspace - m->state;
    m->state = state;
    m->per_parameter = (double)(m->weights + m->gradients + m->state) / (double)t->elements;
}

void trainer_free(trainer *t)
{
    if (!t)
        return;
    scion_optimizer_free(t->optimizer);
    ranks_free(t);
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
    mistakes_free(t->wrong);
    free(t->changes);
    free(t);
}
