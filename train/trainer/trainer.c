/* Making a trainer: data, model, plans, memory, optimizer. See trainer.h; opening is trainer_open.c, the step
 * trainer_step.c, validation trainer_evaluate.c, checkpoints trainer_checkpoint.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/network.h"
#include "base/arith.h"
#include "record/run_tokenizer.h"
#include "trainer/trainer_struct.h"
#include "util/fail.h"
#include "util/number.h"
#include "util/threads.h"

enum { max_workers = 4 }; /* threads that decode data ahead */

/* The largest number that the option steps takes. */
static const double steps_max = 1e15;

/* ---- Looking -------------------------------------------------------------------------------------------------- */

trainer_info trainer_about(const trainer *t)
{
    return (trainer_info){.config = &t->c,
                          .data = t->data,
                          .model = &t->model,
                          .parameters = t->elements,
                          .optimizer = t->optimizer,
                          .evaluation = t->eval,
                          .memory = &t->memory,
                          .threads = t->threads,
                          .comm = t->comm,
                          .shards = t->comm->size > 1 ? &t->shards : NULL,
                          .unit = data_about(t->data)->unit,
                          .reports_accuracy = config_model(&t->c)->accuracy,
                          .reports_mistakes = t->logits && t->comm->size == 1,
                          .step = t->step,
                          .steps = t->steps,
                          .micro = t->micro,
                          .is_whole = !t->partial_step};
}

double trainer_wire_bytes(const trainer *t, int rank)
{
    const shard_traffic n = shard_traffic_of(&t->shards, rank, (scion_dtype)t->c.training.wire);
    const bool twice = trainer_rule(t)->needs_prev;
    return shard_gradient_passes(twice) * (double)(n.gradients_sent + n.gradients_received) +
           shard_weight_passes(twice) * (double)(n.weights_sent + n.weights_received);
}

int64_t trainer_samples(const trainer *t)
{
    return t->c.training.batch * t->c.training.accum * data_about(t->data)->sample_units;
}

double trainer_flops(const trainer *t)
{
    const double sequences = (double)(t->c.training.batch * t->c.training.accum);
    return 3 * plan_flops(t->sizes[0].plan) / (double)t->sizes[0].count * sequences;
}

double trainer_lr_at(const training_options *o, int64_t steps, int64_t step)
{
    const scion_schedule s = training_schedule(o, steps);
    return scion_schedule_value(&s, step);
}

double trainer_lr(const trainer *t)
{
    return trainer_lr_at(&t->c.training, t->steps, t->step);
}

const scion_rule_properties *trainer_rule(const trainer *t)
{
    return scion_rule_info(scion_enum_value(SCION_ENUM_RULE, t->c.optimizer.rule));
}

const tta *trainer_tta(const trainer *t)
{
    return tta_find(t->c.run.tta);
}

/* Counts a file that several ranks could not read once. */
int64_t trainer_skipped(const trainer *t)
{
    comm *c = t->comm;
    const int64_t files = data_files(t->data);
    if (c->size == 1 || files == 0)
        return data_skipped(t->data);
    int64_t bad = 0;
    uint8_t *seen = calloc((size_t)files, (size_t)c->size + 1), *all = seen ? seen + files : NULL;
    if (comm_agree(c, seen ? SCION_OK : SCION_ENOMEM, NULL, NULL) == SCION_OK) {
        data_unreadable(t->data, seen);
        comm_gather(c, seen, (size_t)files, all);
        for (int64_t i = 0; i < files; i++) {
            int rank = 0;
            while (rank < c->size && !all[rank * files + i])
                rank++;
            bad += rank < c->size;
        }
    }
    free(seen);
    return data_about(t->data)->skipped + bad;
}

static const char *nonfinite(tape_value *(*value)(const tape *t, int64_t i), const tape *t, int64_t n)
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

const char *trainer_nonfinite(const trainer *t, bool weights)
{
    const tape *m = t->model.tape;
    const char *bad = weights ? nonfinite(tape_param_at, m, tape_param_count(m)) : NULL;
    return bad ? bad : nonfinite(tape_buffer_at, m, tape_buffer_count(m));
}

void trainer_find_inputs(const model *m, const tape_plan *p, void *arrays[DATA_ARRAYS])
{
    for (int i = 0; i < DATA_ARRAYS; i++) {
        const tape_value *v = m->inputs[i] ? plan_value(p, m->inputs[i]) : NULL;
        if (v)
            arrays[i] = v->kind == TAPE_INTS ? (void *)v->ints : v->data;
    }
}

double trainer_target_bytes(const trainer *t, const model *m, const tape_plan *p)
{
    const data_info *d = data_about(t->data);
    if (!d->token_bytes || m->smoothing > 0) /* a smoothed loss is no likelihood */
        return 0;
    const tape_value *targets = plan_value(p, m->inputs[d->targets]);
    return (double)data_raw_bytes(d, targets->ints, targets->count);
}

double trainer_bits_per_byte(double nats, double bytes)
{
    return bytes > 0 ? nats / (log(2) * bytes) : NAN;
}

/* ---- Data ----------------------------------------------------------------------------------------------------- */

scion_status trainer_new(trainer **out, const config *c, comm *ranks, scion_error *err)
{
    trainer *t = *out = calloc(1, sizeof *t);
    if (!t)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    t->c = *c;
    t->comm = ranks ? ranks : comm_self();
    t->threads = threads_set((int)c->training.threads);
    return SCION_OK;
}

static scion_status count_steps(trainer *t, scion_error *err)
{
    const data_info *d = data_about(t->data);
    const int64_t train = d->units[DATA_TRAIN];
    const double passes = ceil(t->c.training.epochs * (double)train / (double)trainer_samples(t));
    t->steps = t->c.training.steps;
    if (train == 0)
        return SCION_OK;
    if (d->samples[DATA_TRAIN] < 1)
        return train_fail(err, SCION_EINVAL,
                          "the data are too small: %lld %s to train, fewer than one sample of %lld", (long long)train,
                          d->unit, (long long)d->sample_units);
    if (t->steps == 0 && passes > steps_max)
        return train_fail(err, SCION_EINVAL, "epochs=%g are %g steps; at most %g are possible", t->c.training.epochs,
                          passes, steps_max);
    if (t->steps == 0)
        t->steps = (int64_t)passes;
    return t->steps > 0 ? SCION_OK : train_fail(err, SCION_EINVAL, "steps and epochs are both 0");
}

scion_status trainer_open_data(trainer *t, const data_context *special, scion_error *err)
{
    data_context context = *special;
    context.seed = t->c.training.seed;
    context.wants = config_model(&t->c)->inputs;
    context.ahead = t->c.training.batch;
    context.open_tokenizer = run_tokenizer_open;
    context.rank = t->comm->rank;
    context.ranks = t->comm->size;
    context.workers = t->threads < max_workers ? t->threads : max_workers;
    const scion_status status = data_open(&t->data, &t->c.data, &context, err);
    return status == SCION_OK ? count_steps(t, err) : status;
}

/* ---- Plans ---------------------------------------------------------------------------------------------------- */

/* Share of the memory that a run may plan to use, and up to which weights are packed for speed. */
static const double memory_share = 0.95, packing_share = 0.5;

/* Weights are packed once a step where a step has several micro-batches of one size, all with the same weights,
 * unless the user wants to save memory or there is too little of it: packed for the result and for the gradient they
 * take twice their own size beside themselves, gradients and state. (trainer_plan checks again when all is known.) */
static bool wants_packed(const trainer *t)
{
    const double arrays = 4 + (double)trainer_rule(t)->states, floats = (double)tape_param_elements(t->model.tape);
    const size_t limit = memory_usable("", t->threads).bytes;
    return share_pieces(&t->share, t->comm->rank) > 1 && !t->c.optimizer.light && !trainer_rule(t)->needs_prev &&
           (scion_dtype)t->c.training.weights == SCION_F32 && (scion_dtype)t->c.training.grads == SCION_F32 &&
           (limit == 0 || arrays * floats * sizeof(float) <= packing_share * (double)limit);
}

/* Plans the micro-batches of `batch`; smaller ones have a model of their own, and their weights are not packed. */
static scion_status plan_sizes(trainer *t, bool pack, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = 0; i < t->size_count; i++) {
        sized_plan *s = &t->sizes[i];
        const bool own = s->count != t->c.training.batch;
        plan_free(s->plan);
        s->plan = NULL;
        if (own && !s->own.tape)
            TRY(network_record(&s->own, &t->c, data_about(t->data), s->count, err));
        s->model = own ? &s->own : &t->model;
        const plan_options o = network_plan_options(&t->c, t->threads, pack && !own);
        TRY(plan_make(&s->plan, s->model->tape, s->model->loss, &o, err));
    }
done:
    return status;
}

/* Lists the sizes of this rank's micro-batches. */
static void find_sizes(trainer *t)
{
    const int rank = t->comm->rank;
    for (int64_t k = 0; k < share_pieces(&t->share, rank); k++) {
        const int64_t count = share_piece(&t->share, rank, k).count;
        int i = 0;
        while (i < t->size_count && t->sizes[i].count != count)
            i++;
        t->sizes[i].count = count;
        t->size_count = i == t->size_count ? i + 1 : t->size_count;
    }
}

static scion_status plan_micro_batches(trainer *t, scion_error *err)
{
    const bool indivisible = tape_buffer_count(t->model.tape) > 0 && t->comm->size > 1;
    scion_status status = SCION_OK;
    TRY(share_make(&t->share, t->comm->rank, t->comm->size, t->c.training.batch, t->c.training.accum, indivisible,
                   err));
    find_sizes(t);
    TRY(plan_sizes(t, wants_packed(t), err));
done:
    return status;
}

/* Plans the shares of the ranks, and the sums of gradients; this lists the parameters in pieces. */
static scion_status plan_sums(trainer *t, scion_error *err)
{
    const training_options *o = &t->c.training;
    const bool together = trainer_rule(t)->joint || t->c.optimizer.clip_norm > 0; /* sums over all parameters */
    scion_options options;
    scion_param *params = NULL;
    scion_status status = SCION_OK;
    TRY(network_params(&t->c, t->model.tape, &options, &params, err));
    TRY(shard_make(&t->shards, t->model.tape, params, &options, t->comm->size, o->deterministic && together, err));
    TRY(reducer_create(&t->reducer, &t->c, t->threads, t->comm, &t->shards, &t->share, t->sizes[0].plan, err));
done:
    free(params);
    return status;
}

/* ---- Memory --------------------------------------------------------------------------------------------------- */

static bool wants_flat(const trainer *t, const flat_row *row)
{
    return flat_bytes(t->model.tape, row->like) > 0 && (!row->training || t->size_count > 0) &&
           (!row->wanted || row->wanted(&t->c));
}

/* Most of the optimizer's workspace: that of its largest polar factor, whose products of matrices take more than
 * min(rows, cols) operations for each entry. Threads may work on several small ones. */
static size_t workspace_estimate(const trainer *t)
{
    scion_param_properties about;
    scion_options o;
    scion_param *params = NULL;
    size_t bytes = 0;
    if (network_params(&t->c, t->model.tape, &o, &params, NULL) != SCION_OK)
        return 0;
    scion_param_properties_init(&about);
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++) {
        const scion_param *p = &params[i];
        const double side = p->ndim > 1 ? (double)scn_min(p->shape[0], p->shape[1]) : INFINITY;
        if (scion_param_info(p, &o, &about, NULL) == SCION_OK && about.flops > side * (double)about.elements)
            bytes = scn_max_size(bytes, scion_polar_workspace_bytes(p->shape[0], p->shape[1], &o));
    }
    free(params);
    return bytes;
}

/* Bytes that a plan keeps from one run to the next. */
static size_t kept_bytes(const tape_plan *p)
{
    return p ? plan_bytes(p) - plan_passing_bytes(p) : 0;
}

/* Bytes that the plans share: of training, and of all. */
static size_t training_bytes(const trainer *t)
{
    size_t bytes = 0;
    for (int i = 0; i < t->size_count; i++)
        bytes = scn_max_size(bytes, plan_passing_bytes(t->sizes[i].plan));
    return bytes;
}

static size_t passing_bytes(const trainer *t)
{
    size_t bytes = training_bytes(t);
    if (t->eval)
        bytes = scn_max_size(bytes, plan_passing_bytes(t->eval));
    if (t->logits)
        bytes = scn_max_size(bytes, plan_passing_bytes(t->logits));
    return bytes;
}

/* Counts the memory of the run. The optimizer's share is an estimate until it exists. */
static void plan_memory(trainer *t)
{
    trainer_memory *m = &t->memory;
    *m = (trainer_memory){
        .data = data_bytes(t->data), .decoding = data_decode_bytes(t->data), .limit = memory_usable("", t->threads)};
    m->limit.bytes /= (size_t)t->comm->local_size;
    for (const flat_row *row = flat_rows; row->name; row++)
        if (wants_flat(t, row))
            *(row->like == LIKE_GRADS ? &m->gradients : &m->weights) += flat_bytes(t->model.tape, row->like);
    for (int i = 0; i < t->size_count; i++) {
        m->packed += plan_packed_bytes(t->sizes[i].plan);
        m->activations += kept_bytes(t->sizes[i].plan) - plan_packed_bytes(t->sizes[i].plan);
    }
    m->activations += training_bytes(t);
    m->evaluation = kept_bytes(t->eval) + kept_bytes(t->logits) + passing_bytes(t) - training_bytes(t);
    if (t->reducer)
        m->sharing = reducer_bytes(t->reducer);
    const double owned =
        t->reducer ? (double)t->shards.entries[t->comm->rank] : (double)t->elements / (double)t->comm->size;
    if (t->size_count > 0 && !t->c.optimizer.light)
        m->state = (size_t)((double)trainer_rule(t)->states * sizeof(float) * owned);
    if (t->size_count > 0)
        m->workspace = workspace_estimate(t);
    m->total = m->weights + m->gradients + m->state + m->workspace + m->activations + m->packed + m->evaluation +
               m->sharing + m->data;
}

static scion_status check_memory(const trainer_memory *m, scion_error *err)
{
    const double activations = (double)m->activations + (double)m->evaluation;
    /* In double: a plan that cannot be made counts as SIZE_MAX bytes. */
    const double loaded = m->limit.left ? 0 : (double)m->data; /* which is here already */
    const double data = loaded + (double)m->decoding;
    const double optimizer = (double)m->state + (double)m->workspace;
    const double total =
        (double)m->weights + (double)m->gradients + optimizer + activations + (double)m->sharing + data;
    char text[7][NUMBER_BYTES_TEXT];
    if (m->limit.bytes == 0 || total <= memory_share * (double)m->limit.bytes)
        return SCION_OK;
    return train_fail(
        err, SCION_ENOMEM,
        "the run needs %s (weights %s, gradients %s, optimizer %s, activations %s, data %s) and %s %s: take a "
        "smaller model or batch, weights=bf16, grads=bf16, light=1 or recompute=1",
        number_bytes(total, text[0]), number_bytes((double)m->weights, text[1]),
        number_bytes((double)m->gradients, text[2]), number_bytes(optimizer, text[3]),
        number_bytes(activations, text[4]), number_bytes(data, text[5]), m->limit.what,
        number_bytes((double)m->limit.bytes, text[6]));
}

/* ---- The model ------------------------------------------------------------------------------------------------ */

/* Images are scored by their logits; the loss plan then runs only its last operator. */
static scion_status plan_logits(trainer *t, const plan_options *o, scion_error *err)
{
    const bool possible = data_about(t->data)->classes > 0 && t->model.logits, several = trainer_tta(t)->count > 1;
    if (several && !possible)
        return train_fail(err, SCION_EINVAL, "tta=%s: model %s does not classify images", t->c.run.tta, t->c.model);
    return possible ? plan_make(&t->logits, t->model.tape, t->model.logits, o, err) : SCION_OK;
}

scion_status trainer_plan(trainer *t, unsigned plans, scion_error *err)
{
    const data_info *d = data_about(t->data);
    const plan_options evaluate = {
        .mode = PLAN_INFERENCE, .threads = t->threads, .compute = (scion_dtype)t->c.training.compute};
    const int mixed = data_find(d, "target_weights");
    scion_status status = SCION_OK;
    if (plans & PLAN_TO_TRAIN && d->samples[DATA_TRAIN] < 1)
        return train_fail(err, SCION_EINVAL, "the data have no %s to train on", d->unit);
    TRY(network_record(&t->model, &t->c, d, t->c.training.batch, err));
    t->elements = tape_param_elements(t->model.tape);
    if (mixed >= 0 && !t->model.inputs[mixed])
        return train_fail(err, SCION_EINVAL, "mixup and cutmix: model %s does not learn from mixed classes",
                          t->c.model);
    if (plans & PLAN_TO_EVALUATE)
        TRY(plan_make(&t->eval, t->model.tape, t->model.loss, &evaluate, err));
    if (plans & (PLAN_TO_EVALUATE | PLAN_TO_CLASSIFY))
        TRY(plan_logits(t, &evaluate, err));
    const trainer_memory *m = &t->memory;
    if (plans & PLAN_TO_TRAIN) {
        TRY(plan_micro_batches(t, err));
        plan_memory(t);
        TRY(check_memory(m, err)); /* before plan_sums: a model that does not fit has very many buckets */
        TRY(plan_sums(t, err));
    }
    plan_memory(t);
    if (m->packed > 0 && m->limit.bytes > 0 && (double)m->total > packing_share * (double)m->limit.bytes) {
        TRY(plan_sizes(t, false, err));
        plan_memory(t);
    }
    if (plans & PLAN_TO_TRAIN)
        TRY(check_memory(m, err));
done:
    return status;
}

void trainer_bind(const trainer *t, void *grads)
{
    tape_bind(t->model.tape, t->flats[FLAT_WEIGHTS], grads, t->flats[FLAT_BUFFERS]);
    for (int i = 0; i < t->size_count; i++)
        if (t->sizes[i].own.tape)
            tape_bind(t->sizes[i].own.tape, t->flats[FLAT_WEIGHTS], grads, t->flats[FLAT_BUFFERS]);
}

scion_status trainer_allocate(trainer *t, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = 0; i < FLATS_MAX && flat_rows[i].name; i++)
        if (wants_flat(t, &flat_rows[i]) &&
            !(t->flats[i] = flat_allocate(flat_bytes(t->model.tape, flat_rows[i].like))))
            return train_fail(err, SCION_ENOMEM, "out of memory for the %s of %lld parameters", flat_rows[i].name,
                              (long long)t->elements);
    if (t->logits && !(t->class_sums = flat_allocate(2 * (size_t)t->model.logits->count * sizeof(float))))
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld logits", (long long)t->model.logits->count);
    if (t->logits && !t->eval &&
        !(t->images = flat_allocate((size_t)t->model.inputs[data_about(t->data)->input]->count * sizeof(float))))
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld images", (long long)t->c.training.batch);
    if (!(t->passing = plan_allocate(passing_bytes(t), err)))
        return SCION_ENOMEM;
    if (t->eval)
        TRY(plan_commit(t->eval, t->passing, err));
    if (t->logits)
        TRY(plan_commit(t->logits, t->passing, err));
    for (int i = 0; i < t->size_count; i++)
        TRY(plan_commit(t->sizes[i].plan, t->passing, err));
    trainer_bind(t, t->flats[FLAT_GRADS]);
    tape_init_buffers(t->model.tape);
    if (!t->reducer)
        return SCION_OK;
    t->message_bytes = step_message_bytes(&t->share);
    t->messages = calloc((size_t)t->comm->size, t->message_bytes);
    t->joint = calloc((size_t)t->shards.params + 1, sizeof *t->joint);
    if (!t->messages || !t->joint)
        return train_fail(err, SCION_ENOMEM, "out of memory for messages of ranks");
    if (t->comm->size > 1 || t->c.training.deterministic) /* else the forward pass updates them in place */
        TRY(running_make(&t->running, t->model.tape, &t->share, err));
    TRY(reducer_allocate(t->reducer, err));
done:
    return status;
}

/* ---- The optimizer -------------------------------------------------------------------------------------------- */

/* Start of a weight. Norms of vectors (RMS, Euclid, max) start at zero, and a network of such matrices (rule
 * signum, say) would never leave it. */
static int32_t start_of(const trainer *t, const tape_value *v, int32_t norm)
{
    if (v->zero_start)
        return SCION_START_ZERO;
    return t->c.optimizer.boundary_init && !scion_norm_info(norm)->starts_at_zero ? SCION_START_BOUNDARY
                                                                                  : SCION_START_UNIFORM;
}

/* The library starts a bfloat16 parameter in a float32 copy of it, and measures its norm in one. When weights start,
 * the memory of activations has not been touched yet. */
static size_t copy_bytes(const trainer *t, size_t activations)
{
    size_t max = 0;
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++) {
        const tape_value *v = tape_param_at(t->model.tape, i);
        const size_t bytes = v->half ? (size_t)v->count * sizeof(float) : 0;
        max = bytes > max ? bytes : max;
    }
    if (t->c.run.norm_every > 0)
        return max;
    return max > activations ? max - activations : 0;
}

/* Replaces the estimated optimizer memory by the real one. */
static void count_optimizer(trainer *t)
{
    trainer_memory *m = &t->memory;
    const size_t state = scion_optimizer_state_bytes(t->optimizer), estimate = m->state + m->workspace;
    m->workspace = scion_optimizer_workspace_bytes(t->optimizer);
    m->workspace += copy_bytes(t, m->activations + m->packed + m->evaluation);
    m->total += state + m->workspace - estimate;
    m->state = state;
    m->per_parameter = (double)(m->weights + m->gradients + m->state) / (double)t->elements;
}

scion_status trainer_make_optimizer(trainer *t, scion_error *err)
{
    const int64_t count = tape_param_count(t->model.tape);
    char *before = t->flats[FLAT_GRADS_BEFORE];
    scion_param_properties about;
    scion_options o;
    scion_param *params = NULL;
    scion_status status = SCION_OK;
    TRY(network_params(&t->c, t->model.tape, &o, &params, err));
    for (int64_t i = 0; i < count; i++) {
        const tape_value *v = tape_param_at(t->model.tape, i);
        scion_param_properties_init(&about);
        TRY(scion_param_info(&params[i], &o, &about, err));
        params[i].start = start_of(t, v, about.norm);
        params[i].grad_prev = before ? before + v->grad_at : NULL;
        params[i].own_first = shard_first(&t->shards, t->comm->rank, i);
        params[i].own_count = shard_own(&t->shards, t->comm->rank, i);
    }
    TRY(scion_optimizer_create(&t->optimizer, &o, params, count, err));
    count_optimizer(t);
done:
    free(params);
    return status;
}

void trainer_free(trainer *t)
{
    if (!t)
        return;
    scion_optimizer_free(t->optimizer);
    reducer_free(t->reducer);
    running_free(&t->running);
    shard_free(&t->shards);
    for (int i = 0; i < t->size_count; i++) {
        plan_free(t->sizes[i].plan);
        model_free(&t->sizes[i].own);
    }
    plan_free(t->eval);
    plan_free(t->logits);
    free(t->passing);
    model_free(&t->model);
    data_close(t->data);
    for (int i = 0; i < FLATS_MAX; i++)
        free(t->flats[i]);
    free(t->messages);
    free(t->joint);
    free(t->class_sums);
    free(t->images);
    free(t);
}
