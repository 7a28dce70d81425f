/* Making a trainer, and its step. See trainer.h. */
#include "run/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/thread.h"
#include "base/fail.h"
#include "run/routing.h"
#include "run/trainer_parts.h"
#include "base/clock.h"

enum { stream_init = 0x1000 };

/* Standard deviation of an embedding table that does not start on the boundary. */
static const double embedding_deviation = 0.02;

static model_shape shape_of(const trainer *t)
{
    const data_info *d = data_about(t->data);
    model_shape s = {.batch = t->c.training.batch, .block = d->tokens ? t->c.data.block : 1};
    if (d->tokens) {
        s.vocab = t->c.data.vocab > 0 ? t->c.data.vocab : d->vocab;
    } else {
        s.features = d->features;
        s.classes = d->classes;
    }
    return s;
}

/* Symbols of data that do not say it themselves: synthetic text has 64; shards have their own default. */
static int64_t default_vocab(const config *c)
{
    return strcmp(c->data.kind, "synthetic") == 0 ? 64 : 0;
}

scion_status trainer_open_data(trainer *t, const char *vocabulary, scion_error *err)
{
    const config *c = &t->c;
    data_options o = {
        .kind = c->data.kind,
        .path = c->data.path,
        .val = c->data.val[0] ? c->data.val : NULL,
        .val_fraction = c->data.val_fraction,
        .seed = c->training.seed,
        .vocabulary = vocabulary,
        .vocab = c->data.vocab > 0 || !model_find(c->model.name)->tokens ? c->data.vocab : default_vocab(c),
        .features = 784,
        .classes = 10,
    };
    scion_status status = data_open(&t->data, &o, err);
    if (status != SCION_OK)
        return status;
    const data_info *d = data_about(t->data);
    if (d->tokens && c->data.vocab > 0 && d->vocab > c->data.vocab)
        return train_fail(err, SCION_EINVAL, "vocab is %lld, but the data have %lld symbols",
                          (long long)c->data.vocab, (long long)d->vocab);
    if (c->data.path[0] && data_batches(t->data, DATA_TRAIN, c->training.batch, c->data.block) < 1)
        return train_fail(err, SCION_EINVAL, "%s: too small for one batch of %lld x %lld", c->data.path,
                          (long long)c->training.batch, (long long)c->data.block);
    t->steps = c->training.steps;
    if (t->steps == 0 && d->train > 0)
        t->steps = (int64_t)ceil(c->training.epochs * (double)d->train / (double)trainer_samples(t));
    if (t->steps < 1 && d->train > 0)
        return train_fail(err, SCION_EINVAL, "steps and epochs are both 0");
    return SCION_OK;
}

scion_status trainer_record(trainer *t, bool training, scion_error *err)
{
    const model_shape s = shape_of(t);
    scion_status status = model_record(&t->eval, &t->c, &s, err);
    if (status == SCION_OK && training)
        status = model_record(&t->train, &t->c, &s, err);
    if (status == SCION_OK)
        t->elements = tape_param_elements(t->eval.tape);
    return status;
}

scion_status trainer_allocate(trainer *t, bool training, scion_error *err)
{
    const size_t floats = (size_t)t->elements * sizeof(float), bytes = (floats + 63) / 64 * 64;
    t->weights = aligned_alloc(64, bytes);
    t->grads = training ? aligned_alloc(64, bytes) : NULL;
    if (training && strcmp(t->c.optimizer.rule, "mars") == 0)
        t->grads_before = aligned_alloc(64, bytes);
    if (!t->weights || (training && !t->grads) ||
        (training && strcmp(t->c.optimizer.rule, "mars") == 0 && !t->grads_before))
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld parameters", (long long)t->elements);
    memset(t->weights, 0, bytes);
    if (training)
        memset(t->grads, 0, bytes);
    scion_status status = tape_plan(t->eval.tape, t->eval.loss, TAPE_INFER, t->threads, err);
    if (status == SCION_OK && training)
        status = tape_plan(t->train.tape, t->train.loss, TAPE_TRAIN, t->threads, err);
    if (status != SCION_OK)
        return status;
    tape_bind(t->eval.tape, t->weights, NULL);
    if (training)
        tape_bind(t->train.tape, t->weights, t->grads);
    return SCION_OK;
}

scion_status trainer_make_optimizer(trainer *t, scion_error *err)
{
    const int64_t count = tape_param_count(t->train.tape);
    scion_options o;
    scion_param *params = calloc((size_t)count, sizeof *params);
    scion_status status = params ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the optimizer");
    if (status == SCION_OK)
        status = routing_params(&t->c, t->train.tape, params, err);
    if (status == SCION_OK)
        status = routing_options(&t->c, &o, err);
    for (int64_t i = 0; status == SCION_OK && t->grads_before && i < count; i++)
        params[i].grad_prev = t->grads_before + tape_param_at(t->train.tape, i)->offset;
    if (status == SCION_OK)
        status = scion_optimizer_create(&t->optimizer, &o, params, count, err);
    free(params);
    return status;
}

/* Without the boundary: matrices uniform within 1/sqrt(d_in) as PyTorch's linear layers are, an embedding table of
 * its own normal, vectors zero. */
static void default_init(const trainer *t, int64_t i)
{
    const tape_value *v = tape_param_at(t->train.tape, i);
    const uint64_t stream = stream_init + (uint64_t)i;
    const double reach = 1 / sqrt((double)(v->count / v->shape[0]));
    if (v->ndim == 1)
        return;
    if (v->role == SCION_ROLE_ONEHOT)
        scn_normals(t->c.training.seed, stream, 0, v->count, v->data);
    for (int64_t k = 0; k < v->count; k++)
        v->data[k] = v->role == SCION_ROLE_ONEHOT
                         ? (float)(embedding_deviation * (double)v->data[k])
                         : (float)(reach * (2 * scn_uniform(t->c.training.seed, stream, (uint64_t)k) - 1));
}

/* The norms of vectors (RMS, Euclid, max) start at zero, and a network of such matrices (rule signum, say) would
 * never leave it. */
static bool starts_on_boundary(const trainer *t, int64_t i)
{
    scion_info info = {.size = sizeof info};
    scion_optimizer_inspect(t->optimizer, i, 0, &info, NULL);
    return t->c.optimizer.boundary_init && info.norm >= SCION_NORM_SPECTRAL && info.norm <= SCION_NORM_SIGN;
}

static scion_status init_weights(trainer *t, scion_error *err)
{
    bool mark = false;
    scion_status status =
        t->c.optimizer.boundary_init ? scion_optimizer_init_weights(t->optimizer, t->c.training.seed, err) : SCION_OK;
    for (int64_t i = 0; status == SCION_OK && i < tape_param_count(t->train.tape); i++) {
        const tape_value *v = tape_param_at(t->train.tape, i);
        if (!starts_on_boundary(t, i)) {
            default_init(t, i);
            mark = mark || v->ndim > 1 || !t->c.optimizer.boundary_init;
        }
        if (v->zero_start)
            memset(v->data, 0, (size_t)v->count * sizeof(float));
    }
    return status == SCION_OK && mark ? scion_optimizer_mark_start(t->optimizer, err) : status;
}

scion_status trainer_new(trainer **out, const config *c, scion_error *err)
{
    trainer *t = calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    t->c = *c;
    t->best = INFINITY;
    t->threads = scn_threads((int)c->training.threads);
    return SCION_OK;
}

scion_status trainer_create(trainer **out, const config *c, trainer_memory *memory, scion_error *err)
{
    trainer *t = NULL;
    trainer_memory plan;
    scion_status status = config_check(c, err);
    if (status == SCION_OK)
        status = trainer_new(&t, c, err);
    if (status == SCION_OK)
        status = trainer_open_data(t, NULL, err);
    if (status == SCION_OK)
        status = trainer_record(t, true, err);
    if (status == SCION_OK)
        status = trainer_check_memory(t, &plan, err);
    if (status == SCION_OK)
        status = trainer_allocate(t, true, err);
    if (status == SCION_OK)
        status = trainer_make_optimizer(t, err);
    if (status == SCION_OK)
        status = init_weights(t, err);
    if (status == SCION_OK && memory) {
        plan.workspace = scion_optimizer_workspace(t->optimizer);
        plan.total += scion_optimizer_state_bytes(t->optimizer) + plan.workspace - plan.state;
        plan.state = scion_optimizer_state_bytes(t->optimizer);
        *memory = plan;
    }
    if (status != SCION_OK) {
        trainer_free(t);
        t = NULL;
    }
    *out = t;
    return status;
}

void trainer_free(trainer *t)
{
    if (!t)
        return;
    scion_optimizer_free(t->optimizer);
    model_free(&t->train);
    model_free(&t->eval);
    data_close(t->data);
    free(t->weights);
    free(t->grads);
    free(t->grads_before);
    free(t);
}

const char *trainer_unit(const trainer *t)
{
    return data_about(t->data)->tokens ? "tokens" : "images";
}

bool trainer_reports_accuracy(const trainer *t)
{
    return !data_about(t->data)->tokens;
}

int64_t trainer_validation_batches(const trainer *t)
{
    const int64_t all = data_batches(t->data, DATA_VAL, t->c.training.batch, t->c.data.block);
    const int64_t limit = t->c.run.eval_batches;
    return limit > 0 && limit < all ? limit : all;
}

int64_t trainer_samples(const trainer *t)
{
    const int64_t rows = t->c.training.batch * t->c.training.accum;
    return data_about(t->data)->tokens ? rows * t->c.data.block : rows;
}

double trainer_flops(const trainer *t)
{
    return 3 * tape_flops(t->train.tape) * (double)t->c.training.accum;
}

double trainer_lr(const trainer *t)
{
    const scion_schedule s = {
        .size = sizeof s,
        .kind = (scion_schedule_kind)scion_find(SCION_NAMES_SCHEDULE, t->c.training.schedule),
        .n = t->steps,
        .warmup = t->c.training.warmup,
        .decay = t->c.training.decay,
        .peak = t->c.training.lr,
        .start = t->c.training.lr_start,
        .end = t->c.training.lr_end,
    };
    return scion_schedule_value(&s, t->step + (s.kind == SCION_SCHEDULE_INV_SQRT_K));
}

/* Batch `index` of a part into a model's inputs. */
static void fill(const trainer *t, const model *m, data_part part, int64_t index)
{
    if (m->tokens)
        data_tokens(t->data, part, index, t->c.training.batch, t->c.data.block, m->tokens->ints, m->targets->ints);
    else
        data_images(t->data, part, index, t->c.training.batch, m->pixels->data, m->targets->ints);
}

/* Forward and backward over all micro-batches of the present step, into whatever the tape is bound to. */
static scion_status gradients(trainer *t, double *loss, scion_error *err)
{
    tape_run run = {
        .threads = t->threads, .training = true, .loss_scale = (float)(1.0 / (double)t->c.training.accum)};
    double sum = 0;
    for (int64_t i = 0; i < t->c.training.accum; i++) {
        fill(t, &t->train, DATA_TRAIN, t->step * t->c.training.accum + i);
        double begin = clock_now();
        double part = (double)tape_forward(t->train.tape, &run);
        double middle = clock_now();
        if (!isfinite(part)) {
            const char *bad = tape_first_nonfinite(t->train.tape, &run);
            return train_fail(
                err, SCION_ENONFINITE, "step %lld: the loss is %s; the first result that is not finite is %s",
                (long long)t->step + 1, isnan(part) ? "not a number" : "infinite", bad ? bad : "the loss itself");
        }
        tape_backward(t->train.tape, &run);
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
    tape_bind(t->train.tape, t->weights, t->grads_before);
    scion_status status = gradients(t, &ignored, err);
    tape_bind(t->train.tape, t->weights, t->grads);
    scion_optimizer_previous(t->optimizer, NULL);
    return status;
}

scion_status trainer_step(trainer *t, double *loss, scion_error *err)
{
    scion_status status = SCION_OK;
    t->forward_s = t->backward_s = 0;
    if (t->grads_before)
        status = gradients_before(t, err);
    double begin = clock_now();
    scion_optimizer_begin(t->optimizer);
    t->optimizer_s = clock_now() - begin;
    if (status == SCION_OK)
        status = gradients(t, loss, err);
    begin = clock_now();
    if (status == SCION_OK)
        status = scion_optimizer_step(t->optimizer, trainer_lr(t), err);
    t->optimizer_s += clock_now() - begin;
    if (status == SCION_OK)
        t->step++;
    return status;
}

scion_status trainer_evaluate(trainer *t, int64_t batches, double *loss, double *accuracy, scion_error *err)
{
    tape_run run = {.threads = t->threads, .training = false, .loss_scale = 1};
    const int64_t all = data_batches(t->data, DATA_VAL, t->c.training.batch, t->c.data.block);
    const int64_t count = batches > 0 && batches < all ? batches : all;
    int64_t hits = 0, rows = 0;
    double sum = 0;
    if (count < 1)
        return train_fail(err, SCION_EINVAL, "%s: the validation part has not one batch of %lld x %lld",
                          t->c.data.path, (long long)t->c.training.batch, (long long)t->c.data.block);
    for (int64_t i = 0; i < count; i++) {
        int64_t batch_hits = 0, batch_rows = 0;
        fill(t, &t->eval, DATA_VAL, i);
        double part = (double)tape_forward(t->eval.tape, &run);
        op_cross_entropy_hits(t->eval.loss, t->eval.tape, &batch_hits, &batch_rows);
        sum += part * (double)batch_rows;
        hits += batch_hits;
        rows += batch_rows;
    }
    *loss = sum / (double)(rows > 0 ? rows : 1);
    if (accuracy)
        *accuracy = (double)hits / (double)(rows > 0 ? rows : 1);
    return SCION_OK;
}
