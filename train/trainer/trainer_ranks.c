/* See trainer_ranks.h. */
#include "trainer/trainer_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/fail.h"
#include "comm/comm_self.h"
#include "ranks/exchange.h"
#include "record/mistakes.h"
#include "trainer/routing.h"
#include "trainer/trainer_make.h"

enum { TAG_ASK = 1, TAG_GIVE = 2 };

enum {
    sizes_max = 2, /* of micro-batches of a rank */
    arrays_max = 32
};

/* A micro-batch of this rank. */
typedef struct piece {
    int64_t first, count; /* sequences of the step */
    int size;             /* which plan */
} piece;

/* A plan for micro-batches of one size. */
typedef struct sized {
    int64_t count;
    model own;       /* recorded for it; not used for those of `batch` */
    tape_plan *plan; /* the trainer's, or one of `own` */
} sized;

struct trainer_ranks {
    comm *c;
    shard_plan shards;
    bool whole;      /* ranks have whole micro-batches */
    int64_t *firsts; /* of each rank: its first sequence of a step */
    exchange_rounding by;
    piece *pieces;
    int64_t count, most; /* pieces of this rank, and of the rank that has most */
    int64_t first_piece; /* of the step's, which are numbered through all ranks */
    sized sizes[sizes_max];
    int size_count;
    /* Sums along the tree of one rank. */
    int64_t group;              /* pieces that are added one after another */
    int depth;                  /* arrays above the first */
    void *sums[arrays_max];     /* [0]: where the sum of this rank goes, the trainer's gradients if NULL */
    int64_t begins[arrays_max]; /* the first sequence that is summed in each */
    int filled;                 /* arrays in use */
    void *bottom;               /* sums[0], or what stands for it */
    /* Moving buffers: what each micro-batch of the step would add. */
    float *moments;
    int64_t moving; /* elements of a micro-batch; 0: nothing moves */
    exchange *way;  /* of gradients and weights */
    /* What all ranks say at the end of a step. */
    struct word *words;
    size_t word_bytes;
    double *joint;
    bool stopping;
};

typedef struct word {
    int32_t status, stop;
    double losses[]; /* of the pieces of a rank */
} word;

static comm *comm_of(const trainer *t)
{
    return t->ranks ? t->ranks->c : comm_self();
}

int64_t ranks_pieces(const trainer *t)
{
    return t->ranks ? t->ranks->count : t->c.training.accum;
}

bool ranks_use_plan(const trainer *t)
{
    bool used = !t->ranks;
    for (int i = 0; t->ranks && i < t->ranks->size_count; i++)
        used = used || t->ranks->sizes[i].count == t->c.training.batch;
    return used;
}

bool ranks_stopping(const trainer *t)
{
    return t->ranks->stopping;
}

const shard_plan *ranks_shards(const trainer *t)
{
    return t->ranks && t->ranks->c->size > 1 ? &t->ranks->shards : NULL;
}

double ranks_wire_bytes(const trainer *t, int rank, double *gradients, double *weights)
{
    const trainer_ranks *r = t->ranks;
    const shard_traffic n = shard_traffic_of(&r->shards, rank, training_storage(t->c.training.wire));
    /* MARS has a second gradient, at the weights before, which travel there and back. */
    const double g = (t->grads_before ? 2 : 1) * (double)(n.gradients_sent + n.gradients_received);
    const double w = (t->grads_before ? 3 : 1) * (double)(n.weights_sent + n.weights_received);
    if (gradients)
        *gradients = g;
    if (weights)
        *weights = w;
    return g + w;
}

bool ranks_first(const trainer *t)
{
    return comm_of(t)->rank == 0;
}

scion_status ranks_agree(const trainer *t, scion_status status, scion_error *err)
{
    comm *c = comm_of(t);
    scion_error why = {.message = ""};
    if (!t->ranks || c->size == 1)
        return status;
    if (status != SCION_OK && err)
        why = *err;
    status = comm_agree(c, status, &why, NULL);
    if (status != SCION_OK && err)
        *err = why;
    return status;
}

/* ---- What ranks saw ----------------------------------------------------------------------------------------- */

int64_t ranks_skipped(const trainer *t)
{
    comm *c = comm_of(t);
    const int64_t files = data_files(t->data);
    if (!t->ranks || c->size == 1 || files == 0)
        return data_skipped(t->data);
    int64_t all = 0;
    uint8_t *seen = calloc((size_t)files, (size_t)c->size + 1), *of_all = seen ? seen + files : NULL;
    if (ranks_agree(t, seen ? SCION_OK : SCION_ENOMEM, NULL) == SCION_OK) {
        data_unreadable(t->data, seen);
        comm_gather(c, seen, (size_t)files, of_all);
        for (int64_t i = 0; i < files; i++) {
            bool bad = false;
            for (int rank = 0; rank < c->size; rank++)
                bad = bad || of_all[rank * files + i];
            all += bad;
        }
    }
    free(seen);
    return data_about(t->data)->skipped + all;
}

/* Rank 0 takes what the others packed, into room for the largest; sizes[r]: bytes of rank r. */
static scion_status take_mistakes(comm *c, mistakes *m, const uint64_t *sizes, void *room, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int rank = 1; rank < c->size; rank++) {
        comm_wait(c, comm_receive(c, rank, COMM_CONTROL, TAG_GIVE, room, (size_t)sizes[rank]), rank);
        if (status == SCION_OK && !mistakes_take(m, room))
            status = train_fail(err, SCION_ENOMEM, "out of memory for the mistakes of a validation");
    }
    return status;
}

scion_status ranks_unite_mistakes(const trainer *t, mistakes *m, scion_error *err)
{
    comm *c = comm_of(t);
    if (!t->ranks || c->size == 1)
        return SCION_OK;
    size_t bytes = 0;
    uint64_t largest = 1, *sizes = calloc((size_t)c->size + 1, sizeof *sizes);
    void *packed = sizes ? mistakes_pack(m, &bytes) : NULL, *room = NULL;
    scion_status status = ranks_agree(t, packed ? SCION_OK : SCION_ENOMEM, NULL);
    if (status == SCION_OK) {
        const uint64_t mine = bytes;
        comm_gather(c, &mine, sizeof mine, sizes);
        for (int rank = 0; rank < c->size; rank++)
            largest = sizes[rank] > largest ? sizes[rank] : largest;
        room = c->rank == 0 ? malloc((size_t)largest) : NULL;
        status = ranks_agree(t, c->rank > 0 || room ? SCION_OK : SCION_ENOMEM, NULL);
    }
    if (status != SCION_OK)
        train_fail(err, status, "out of memory for the mistakes of a validation");
    else if (c->rank == 0)
        status = take_mistakes(c, m, sizes, room, err);
    else
        comm_wait(c, comm_send(c, 0, COMM_CONTROL, TAG_GIVE, packed, bytes), 0);
    free(room);
    free(packed);
    free(sizes);
    return ranks_agree(t, status, err);
}

/* ---- Shares ------------------------------------------------------------------------------------------------- */

/* Sequences of a step that rank r begins with. */
static int64_t first_of(const trainer *t, const trainer_ranks *r, int rank)
{
    const training_options *o = &t->c.training;
    return r->whole ? o->accum * rank / r->c->size * o->batch : o->batch * o->accum * rank / r->c->size;
}

static int64_t pieces_of(const trainer *t, const trainer_ranks *r, int rank)
{
    const int64_t n = first_of(t, r, rank + 1) - first_of(t, r, rank), batch = t->c.training.batch;
    return (n + batch - 1) / batch;
}

/* The plan of this size, which is added if it is new; at most two sizes occur, that differ by one. */
static int size_of(trainer_ranks *r, int64_t count)
{
    for (int i = 0; i < r->size_count; i++)
        if (r->sizes[i].count == count)
            return i;
    r->sizes[r->size_count].count = count;
    return r->size_count++;
}

static scion_status share_out(trainer *t, trainer_ranks *r, scion_error *err)
{
    const int64_t accum = t->c.training.accum, batch = t->c.training.batch;
    const bool buffers = tape_buffer_count(t->model.tape) > 0;
    r->whole = accum % r->c->size == 0 || buffers;
    if (buffers && accum < r->c->size)
        return train_fail(
            err, SCION_EINVAL,
            "a step has %lld micro-batches (accum) for %d ranks: batch normalisation divides none, take "
            "a larger accum and a smaller batch",
            (long long)accum, r->c->size);
    if (accum * batch < r->c->size)
        return train_fail(err, SCION_EINVAL, "a step has %lld sequences (batch times accum) for %d ranks",
                          (long long)(accum * batch), r->c->size);
    const int64_t first = first_of(t, r, r->c->rank), n = first_of(t, r, r->c->rank + 1) - first;
    r->count = pieces_of(t, r, r->c->rank);
    for (int i = 0; i < r->c->size; i++) {
        r->first_piece += i < r->c->rank ? pieces_of(t, r, i) : 0;
        r->most = pieces_of(t, r, i) > r->most ? pieces_of(t, r, i) : r->most;
    }
    r->pieces = calloc((size_t)r->count, sizeof *r->pieces);
    if (!r->pieces)
        return train_fail(err, SCION_ENOMEM, "out of memory for a rank's share");
    for (int64_t k = 0; k < r->count; k++) {
        const int64_t begin = n * k / r->count, end = n * (k + 1) / r->count;
        r->pieces[k] = (piece){first + begin, end - begin, size_of(r, end - begin)};
    }
    return SCION_OK;
}

/* The trainer's plan where it has the size, else one of its own. */
static scion_status plan_sizes(trainer *t, trainer_ranks *r, scion_error *err)
{
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < r->size_count; i++) {
        sized *s = &r->sizes[i];
        if (s->count != t->c.training.batch)
            status = trainer_record_size(t, s->count, &s->own, &s->plan, err);
    }
    return status;
}

static bool is_own(const sized *s)
{
    return s->own.tape != NULL;
}

static tape_plan *plan_of(const trainer *t, const sized *s)
{
    return is_own(s) ? s->plan : t->train;
}

static const model *model_of(const trainer *t, const sized *s)
{
    return is_own(s) ? &s->own : &t->model;
}

/* ---- The tree of one rank ------------------------------------------------------------------------------------ */

/* The largest power of two that divides n. */
static int64_t power_in(int64_t n)
{
    return n & -n;
}

static void plan_tree(const trainer *t, trainer_ranks *r)
{
    const int64_t groups = power_in(t->c.training.accum);
    const bool branch = r->whole && groups % r->c->size == 0; /* a rank has one branch of the tree */
    r->group = r->count;
    r->depth = 0;
    if (!t->c.training.deterministic || !branch)
        return;
    r->group = t->c.training.accum / groups;
    for (int64_t n = groups / r->c->size; n > 1; n /= 2)
        r->depth++;
}

/* Arrays of gradients that are ours: all, if the first may not be the trainer's. */
static bool apart(const trainer *t)
{
    return t->c.training.deterministic && t->c.optimizer.light;
}

static char *sum_at(const trainer_ranks *r, int i)
{
    return i == 0 ? r->bottom : r->sums[i];
}

/* Adds the topmost arrays in pairs until `down_to` are left, of one parameter. */
static void fold(const trainer *t, const trainer_ranks *r, int down_to, const tape_value *v)
{
    for (int i = r->filled - 1; i >= down_to; i--)
        exchange_add(t->threads, v->grad_type, exchange_meeting(&r->by, r->begins[i]), v->offset, v->count,
                     sum_at(r, i) + v->grad_at, sum_at(r, i - 1) + v->grad_at);
}

static void bind_all(const trainer *t, void *grads)
{
    const trainer_ranks *r = t->ranks;
    tape_bind(t->model.tape, t->weights, grads, t->buffers);
    for (int i = 0; i < r->size_count; i++)
        if (is_own(&r->sizes[i]))
            tape_bind(r->sizes[i].own.tape, t->weights, grads, t->buffers);
}

/* Piece k begins: the first of a group has an array of its own. */
static void begin_piece(const trainer *t, trainer_ranks *r, int64_t k)
{
    if (k % r->group != 0 && r->filled > 0)
        return;
    void *array = sum_at(r, r->filled);
    if (r->filled > 0 || array == r->sums[0]) /* the trainer's own are as the optimizer wants them */
        memset(array, 0, tape_grad_bytes(t->model.tape));
    r->begins[r->filled++] = r->pieces[k].first;
    bind_all(t, array);
}

/* ... and ends, not being the last: groups are added in pairs, and pairs in pairs. */
static void end_piece(const trainer *t, trainer_ranks *r, int64_t k)
{
    if ((k + 1) % r->group != 0)
        return;
    for (int64_t groups = (k + 1) / r->group; groups % 2 == 0; groups /= 2) {
        for (int64_t i = 0; i < r->shards.params; i++)
            fold(t, r, r->filled - 1, tape_param_at(t->model.tape, i));
        r->filled--;
    }
}

void ranks_begin(trainer *t)
{
    const comm *c = comm_of(t);
    if (c->size == 1)
        return;
    comm_broadcast(t->ranks->c, 0, t->weights, tape_weight_bytes(t->model.tape));
    if (t->buffers)
        comm_broadcast(t->ranks->c, 0, t->buffers, (size_t)tape_buffer_elements(t->model.tape) * sizeof *t->buffers);
}

/* The backward pass of the last piece has added all that belongs to a parameter. */
static void complete(void *context, const tape_value *param)
{
    const trainer *t = context;
    fold(t, t->ranks, 1, param);
    exchange_complete(t->ranks->way, param);
}

/* ---- Moving buffers ------------------------------------------------------------------------------------------- */

/* A micro-batch begins with its moving buffers at 0: what it leaves there is what it adds. */
static void clear_moving(const trainer *t)
{
    for (int64_t i = 0; i < tape_buffer_count(t->model.tape); i++) {
        const tape_value *v = tape_buffer_at(t->model.tape, i);
        if (v->moves)
            memset(v->data, 0, (size_t)v->count * sizeof *v->data);
    }
}

static void keep_moving(const trainer *t, const trainer_ranks *r, int64_t k)
{
    float *to = r->moments + (r->c->rank * r->most + k) * r->moving;
    for (int64_t i = 0; i < tape_buffer_count(t->model.tape); i++) {
        const tape_value *v = tape_buffer_at(t->model.tape, i);
        if (!v->moves)
            continue;
        memcpy(to, v->data, (size_t)v->count * sizeof *to);
        to += v->count;
    }
}

/* All micro-batches of the step, in their order, on every rank. */
static void move_buffers(const trainer *t, trainer_ranks *r)
{
    const size_t bytes = (size_t)(r->most * r->moving) * sizeof *r->moments;
    comm_gather(r->c, r->moments + r->c->rank * r->most * r->moving, bytes, r->moments);
    memcpy(t->buffers, t->buffers_before, (size_t)tape_buffer_elements(t->model.tape) * sizeof *t->buffers);
    for (int rank = 0; rank < r->c->size; rank++)
        for (int64_t k = 0; k < pieces_of(t, r, rank); k++) {
            const float *from = r->moments + (rank * r->most + k) * r->moving;
            for (int64_t i = 0; i < tape_buffer_count(t->model.tape); i++) {
                const tape_value *v = tape_buffer_at(t->model.tape, i);
                for (int64_t e = 0; v->moves && e < v->count; e++)
                    v->data[e] = (float)(v->keep * (double)v->data[e] + (double)from[e]);
                from += v->moves ? v->count : 0;
            }
        }
}

/* ---- The step ------------------------------------------------------------------------------------------------- */

static scion_status fill(const trainer *t, const sized *s, const piece *p, scion_error *err)
{
    const int64_t first = t->step * t->c.training.batch * t->c.training.accum + p->first;
    void *arrays[DATA_ARRAYS] = {NULL};
    const tape_plan *plan = plan_of(t, s);
    for (int i = 0; i < DATA_ARRAYS; i++) {
        const tape_value *recorded = model_of(t, s)->inputs[i], *v = recorded ? plan_value(plan, recorded) : NULL;
        if (v)
            arrays[i] = v->kind == TAPE_INTS ? (void *)v->ints : v->data;
    }
    data_prefetch(t->data, DATA_TRAIN, first, p->count);
    return data_fill(t->data, DATA_TRAIN, first, p->count, arrays, err);
}

/* The next piece is decoded while this one is computed. */
static void look_ahead(const trainer *t, const trainer_ranks *r, int64_t k)
{
    const int64_t step = t->step + (k + 1 == r->count), next = (k + 1) % r->count;
    data_prefetch(t->data, DATA_TRAIN, step * t->c.training.batch * t->c.training.accum + r->pieces[next].first,
                  r->pieces[next].count);
}

/* Forward and backward of piece k. */
static scion_status compute(trainer *t, int64_t k, bool update, double *loss, scion_error *err)
{
    trainer_ranks *r = t->ranks;
    const piece *p = &r->pieces[k];
    const sized *s = &r->sizes[p->size];
    tape_plan *plan = plan_of(t, s);
    const double all = (double)(t->c.training.batch * t->c.training.accum);
    const tape_run run = {.threads = t->threads,
                          .loss_scale = (float)((double)p->count / all),
                          .seed = t->c.training.seed,
                          .step = t->step,
                          .sample = t->step * t->c.training.batch * t->c.training.accum + p->first,
                          .round_nearest = r->by.nearest,
                          .same_weights = k > 0 && p->size == r->pieces[k - 1].size,
                          .update_buffers = update,
                          .complete = k + 1 == r->count ? complete : NULL,
                          .complete_context = t};
    scion_status status = fill(t, s, p, err);
    if (status != SCION_OK)
        return status;
    look_ahead(t, r, k);
    if (update && r->moving > 0)
        clear_moving(t);
    const double begin = clock_now();
    *loss = (double)plan_forward(plan, &run);
    const double middle = clock_now();
    if (!isfinite(*loss)) {
        const char *bad = plan_first_nonfinite(plan, &run);
        return train_fail(
            err, SCION_ENONFINITE, "step %lld: the loss is %s; the first result that is not finite is %s",
            (long long)t->step + 1, isnan(*loss) ? "not a number" : "infinite", bad ? bad : "the loss itself");
    }
    plan_backward(plan, &run);
    if (update && r->moving > 0)
        keep_moving(t, r, k);
    t->forward_s += middle - begin;
    t->backward_s += clock_now() - middle;
    return SCION_OK;
}

/* The gradients of the step, summed up where they are owned. Whatever happens to a rank, it takes part to the end:
 * the others count on it. */
static scion_status gradients(trainer *t, void *into, bool update, double *losses, scion_error *err)
{
    trainer_ranks *r = t->ranks;
    scion_status status = SCION_OK;
    const int64_t resumed = t->micro - r->first_piece, first = resumed > 0 ? resumed : 0;
    int64_t k = first < r->count ? first : r->count;
    r->bottom = r->sums[0] ? r->sums[0] : into;
    r->filled = 0;
    r->by.step = t->step;
    exchange_begin(r->way, r->bottom, &r->by);
    for (int64_t i = 0; i < k; i++) /* they are in the average already */
        losses[i] = 0;
    for (; status == SCION_OK && k < r->count; k++) {
        if (k > first && !t->c.optimizer.light && trainer_stopped(t)) {
            status = train_fail(err, SCION_ESTOPPED, "stopped in step %lld", (long long)t->step + 1);
            break;
        }
        begin_piece(t, r, k);
        status = compute(t, k, update, &losses[k], err);
        if (status == SCION_OK && k + 1 < r->count)
            end_piece(t, r, k);
        exchange_progress(r->way);
        if (t->computed)
            t->computed(t->stop_ctx, k + 1, r->count);
    }
    const double begin = clock_now();
    exchange_finish(r->way, status != SCION_OK || first >= r->count);
    t->comm_s += clock_now() - begin;
    bind_all(t, t->grads);
    return status;
}

/* `light`, summed apart: the average takes the sum in. */
static void take_in(const trainer *t, const trainer_ranks *r)
{
    const scn_rounding how = exchange_meeting(&r->by, 0);
    for (int64_t i = 0; i < r->shards.count; i++) {
        const shard_bucket *b = &r->shards.buckets[i];
        if (b->owner == r->c->rank)
            exchange_add(t->threads, b->grad_type, how, b->first, b->count, sum_at(r, 0) + b->grad_at,
                         (char *)t->grads + b->grad_at);
    }
}

/* MARS: the gradient at the weights before, on the same batch. Owners have those weights, and share them. */
static scion_status gradients_before(trainer *t, double *ignored, scion_error *err)
{
    trainer_ranks *r = t->ranks;
    memset(t->grads_before, 0, tape_grad_bytes(t->model.tape));
    scion_optimizer_previous(t->optimizer, NULL);
    exchange_spread(r->way, t->weights);
    const scion_status status = gradients(t, t->grads_before, false, ignored, err);
    scion_optimizer_previous(t->optimizer, NULL);
    exchange_spread(r->way, t->weights);
    return status;
}

static word *word_at(const trainer_ranks *r, int rank)
{
    return (word *)(void *)((char *)r->words + (size_t)rank * r->word_bytes);
}

/* All ranks tell how they fared; the loss of the step, and the status of the lowest rank that failed. One that only
 * stopped gives way to one that failed. */
static scion_status conclude(trainer *t, scion_status status, double *loss, scion_error *err)
{
    trainer_ranks *r = t->ranks;
    word *mine = word_at(r, r->c->rank);
    int failed = -1, stopped = -1;
    double sum = t->micro_loss;
    mine->status = (int32_t)status;
    mine->stop = status == SCION_ESTOPPED || trainer_stopped(t);
    comm_gather(r->c, mine, r->word_bytes, r->words);
    r->stopping = false;
    for (int rank = r->c->size - 1; rank >= 0; rank--) {
        const word *w = word_at(r, rank);
        r->stopping = r->stopping || w->stop;
        stopped = w->status == SCION_ESTOPPED ? rank : stopped;
        failed = w->status != SCION_OK && w->status != SCION_ESTOPPED ? rank : failed;
    }
    failed = failed >= 0 ? failed : stopped;
    if (failed >= 0) {
        comm_broadcast(r->c, failed, err, sizeof *err);
        return (scion_status)word_at(r, failed)->status;
    }
    for (int rank = 0; rank < r->c->size; rank++) {
        const int64_t first = first_of(t, r, rank), n = first_of(t, r, rank + 1) - first, m = pieces_of(t, r, rank);
        for (int64_t k = 0; k < m; k++)
            sum +=
                word_at(r, rank)->losses[k] * ((double)(n * (k + 1) / m - n * k / m) / (double)t->c.training.batch);
    }
    *loss = sum / (double)t->c.training.accum;
    return SCION_OK;
}

/* The step of what is owned here; the others' weights come back. */
static scion_status step_owned(trainer *t, const scion_step *s, scion_error *err)
{
    trainer_ranks *r = t->ranks;
    scion_status status = scion_optimizer_joint(t->optimizer, s, r->joint, err);
    if (status == SCION_OK)
        status = comm_sum(r->c, r->joint, scion_optimizer_joint_count(t->optimizer), err);
    if (status == SCION_OK)
        status = scion_optimizer_part(t->optimizer, s, r->joint, SCION_ALL, 0, -1, err);
    if (status == SCION_OK)
        status = scion_optimizer_finish(t->optimizer, s, err);
    return status;
}

scion_status ranks_step(trainer *t, double *loss, scion_error *err)
{
    trainer_ranks *r = t->ranks;
    const size_t buffer_bytes = (size_t)tape_buffer_elements(t->model.tape) * sizeof(float);
    double *losses = word_at(r, r->c->rank)->losses;
    scion_step s;
    scion_status status = SCION_OK, before = SCION_OK;
    scion_error why = {.message = ""};
    scion_step_init(&s);
    s.lr = trainer_lr(t);
    t->forward_s = t->backward_s = t->comm_s = 0;
    if (t->buffers)
        memcpy(t->buffers_before, t->buffers, buffer_bytes);
    if (t->grads_before && t->step > 0)
        before = gradients_before(t, losses, &why);
    double begin = clock_now();
    scion_optimizer_begin(t->optimizer);
    t->optimizer_s = clock_now() - begin;
    status = gradients(t, t->grads, true, losses, before == SCION_OK ? &why : NULL);
    status = before != SCION_OK ? before : status;
    if (r->sums[0] && status == SCION_OK)
        take_in(t, r);
    begin = clock_now();
    if (status == SCION_OK)
        status = scion_optimizer_check(t->optimizer, &s, &why);
    t->optimizer_s += clock_now() - begin;
    begin = clock_now();
    status = conclude(t, status, loss, &why);
    if (status == SCION_OK && r->moving > 0)
        move_buffers(t, r);
    t->comm_s += clock_now() - begin;
    const char *bad = status == SCION_OK ? trainer_nonfinite_buffer(t) : NULL;
    if (bad)
        status = train_fail(&why, SCION_ENONFINITE, "step %lld: %s is not finite", (long long)t->step + 1, bad);
    begin = clock_now();
    if (status == SCION_OK)
        status = step_owned(t, &s, &why);
    t->optimizer_s += clock_now() - begin;
    begin = clock_now();
    if (status == SCION_OK)
        exchange_spread(r->way, t->weights);
    t->comm_s += clock_now() - begin;
    if (status == SCION_OK) {
        t->step++;
        t->micro = 0;
        t->micro_loss = 0;
    } else if (t->buffers) {
        memcpy(t->buffers, t->buffers_before, buffer_bytes);
    }
    t->torn = status != SCION_OK && t->c.optimizer.light;
    if (status != SCION_OK && err)
        *err = why;
    return status;
}

/* ---- Checkpoints ---------------------------------------------------------------------------------------------- */

typedef enum demand_kind { ASK_ABOUT, ASK_ENTRIES, ASK_NO_MORE } demand_kind;

typedef struct demand {
    int32_t kind, k, type;
    int64_t param, first, count;
} demand;

/* State array k of a parameter as far as it is here; k < 0: the gradient. */
static bool find_array(const trainer *t, int64_t param, int k, scion_array *a)
{
    const trainer_ranks *r = t->ranks;
    const tape_value *v = tape_param_at(t->model.tape, param);
    scion_array_init(a);
    if (k >= 0)
        return scion_optimizer_state(t->optimizer, param, k, a) != 0;
    a->first = shard_first(&r->shards, r->c->rank, param);
    a->count = shard_own(&r->shards, r->c->rank, param);
    a->type = (int32_t)v->grad_type;
    a->data = (char *)tape_grads(v) + scn_stored_bytes(v->grad_type, a->first);
    return a->count > 0;
}

static ranks_array about_here(const trainer *t, int64_t param, int k)
{
    scion_array a;
    ranks_array found = {.exists = find_array(t, param, k, &a)};
    if (found.exists) {
        found.type = a.type;
        snprintf(found.name, sizeof found.name, "%s", a.name);
    }
    return found;
}

static void ask(const trainer *t, int whom, demand d, void *to, size_t bytes)
{
    comm *c = t->ranks->c;
    comm_wait(c, comm_send(c, whom, COMM_CONTROL, TAG_ASK, &d, sizeof d), whom);
    if (bytes > 0)
        comm_wait(c, comm_receive(c, whom, COMM_CONTROL, TAG_GIVE, to, bytes), whom);
}

ranks_array ranks_about(const trainer *t, int64_t param, int k)
{
    const trainer_ranks *r = t->ranks;
    ranks_array found = {.exists = 0};
    for (int rank = 0; rank < r->c->size; rank++) {
        if (shard_own(&r->shards, rank, param) == 0)
            continue;
        if (rank == r->c->rank)
            return about_here(t, param, k);
        ask(t, rank, (demand){.kind = ASK_ABOUT, .k = k, .param = param}, &found, sizeof found);
        return found;
    }
    return found;
}

static void give(const trainer *t, const demand *d)
{
    comm *c = t->ranks->c;
    scion_array a;
    ranks_array found = about_here(t, d->param, d->k);
    const void *from = &found;
    size_t bytes = sizeof found;
    if (d->kind == ASK_ENTRIES && find_array(t, d->param, d->k, &a)) {
        from = (const char *)a.data + scn_stored_bytes(d->type, d->first - a.first);
        bytes = scn_stored_bytes(d->type, d->count);
    }
    comm_wait(c, comm_send(c, 0, COMM_CONTROL, TAG_GIVE, from, bytes), 0);
}

void ranks_fetch(const trainer *t, int64_t param, int k, scion_dtype type, int64_t first, int64_t count, void *to)
{
    const trainer_ranks *r = t->ranks;
    for (int rank = 0; rank < r->c->size; rank++) {
        const int64_t begin = shard_first(&r->shards, rank, param), end = begin + shard_own(&r->shards, rank, param);
        const int64_t from = begin > first ? begin : first, up_to = end < first + count ? end : first + count;
        const size_t bytes = up_to > from ? scn_stored_bytes(type, up_to - from) : 0;
        char *into = (char *)to + (bytes > 0 ? scn_stored_bytes(type, from - first) : 0);
        const demand d = {ASK_ENTRIES, k, (int32_t)type, param, from, up_to - from};
        scion_array a;
        if (bytes > 0 && rank != r->c->rank)
            ask(t, rank, d, into, bytes);
        else if (bytes > 0 && find_array(t, param, k, &a))
            memcpy(into, (const char *)a.data + scn_stored_bytes(type, from - a.first), bytes);
    }
}

scion_status ranks_save_end(const trainer *t, scion_status status, scion_error *err)
{
    comm *c = comm_of(t);
    if (c->size == 1)
        return status;
    for (int rank = 1; c->rank == 0 && rank < c->size; rank++)
        ask(t, rank, (demand){.kind = ASK_NO_MORE}, NULL, 0);
    for (demand d = {.kind = ASK_ABOUT}; c->rank != 0 && d.kind != ASK_NO_MORE;) {
        comm_wait(c, comm_receive(c, 0, COMM_CONTROL, TAG_ASK, &d, sizeof d), 0);
        if (d.kind != ASK_NO_MORE)
            give(t, &d);
    }
    return ranks_agree(t, status, err);
}

scion_status ranks_check_position(const trainer *t, const char *path, scion_error *err)
{
    if (!t->ranks || t->micro == 0 || (t->ranks->whole && !t->c.training.deterministic))
        return SCION_OK;
    return train_fail(
        err, SCION_EINVAL,
        "%s: it was stopped after micro-batch %lld of %lld of a step: go on with a number of ranks that "
        "divides these, and deterministic=no",
        path, (long long)t->micro, (long long)t->c.training.accum);
}

/* ---- Making --------------------------------------------------------------------------------------------------- */

static scion_status make_lists(trainer *t, trainer_ranks *r, scion_error *err)
{
    r->word_bytes = sizeof(word) + (size_t)r->most * sizeof(double);
    r->words = calloc((size_t)r->c->size, r->word_bytes);
    r->joint = calloc((size_t)r->shards.params + 1, sizeof *r->joint);
    r->firsts = calloc((size_t)r->c->size, sizeof *r->firsts);
    if (!r->words || !r->joint || !r->firsts)
        return train_fail(err, SCION_ENOMEM, "out of memory for a rank's lists");
    for (int i = 0; i < r->c->size; i++)
        r->firsts[i] = first_of(t, r, i);
    r->by = (exchange_rounding){
        .seed = t->c.training.seed, .nearest = training_rounds_nearest(&t->c.training), .firsts = r->firsts};
    for (int64_t i = 0; i < tape_buffer_count(t->model.tape); i++)
        r->moving += tape_buffer_at(t->model.tape, i)->moves ? tape_buffer_at(t->model.tape, i)->count : 0;
    return exchange_create(&r->way, r->c, &r->shards, t->train, training_storage(t->c.training.wire), t->threads,
                           err);
}

scion_status ranks_make(trainer *t, scion_error *err)
{
    comm *c = comm_world();
    const bool deterministic = t->c.training.deterministic;
    if (c->size == 1 && !deterministic)
        return SCION_OK;
    trainer_ranks *r = t->ranks = calloc(1, sizeof *r);
    if (!r)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    r->c = c;
    scion_status status = share_out(t, r, err);
    if (status == SCION_OK)
        status = plan_sizes(t, r, err);
    if (status == SCION_OK)
        status = shard_make(&r->shards, &t->c, t->model.tape, c->size,
                            deterministic && (trainer_rule(t)->joint || t->c.optimizer.clip_norm > 0), err);
    if (status == SCION_OK)
        status = make_lists(t, r, err);
    if (status == SCION_OK)
        plan_tree(t, r);
    return status;
}

static size_t sum_arrays(const trainer *t)
{
    return (size_t)t->ranks->depth + (apart(t) ? 1 : 0);
}

size_t ranks_bytes(const trainer *t)
{
    const trainer_ranks *r = t->ranks;
    return r ? sum_arrays(t) * tape_grad_bytes(t->model.tape) + exchange_bytes(r->way) : 0;
}

size_t ranks_activations(const trainer *t)
{
    const trainer_ranks *r = t->ranks;
    size_t bytes = 0;
    for (int i = 0; r && i < r->size_count; i++)
        bytes += is_own(&r->sizes[i]) ? plan_bytes(r->sizes[i].plan) : 0;
    return bytes;
}

double ranks_state_share(const trainer *t)
{
    const trainer_ranks *r = t->ranks;
    return r ? (double)r->shards.entries[r->c->rank] / (double)t->elements : 1;
}

void ranks_own(const trainer *t, scion_param *params)
{
    const trainer_ranks *r = t->ranks;
    for (int64_t i = 0; r && i < r->shards.params; i++) {
        params[i].own_first = shard_first(&r->shards, r->c->rank, i);
        params[i].own_count = shard_own(&r->shards, r->c->rank, i);
    }
}

scion_status ranks_allocate(trainer *t, scion_error *err)
{
    trainer_ranks *r = t->ranks;
    if (!r)
        return SCION_OK;
    scion_status status = SCION_OK;
    for (int i = 0; i < r->size_count && status == SCION_OK; i++)
        status = is_own(&r->sizes[i]) ? plan_commit(r->sizes[i].plan, err) : SCION_OK;
    if (status != SCION_OK)
        return status;
    bool ok = true;
    for (int i = apart(t) ? 0 : 1; i <= r->depth; i++)
        ok = (r->sums[i] = trainer_flat_array(tape_grad_bytes(t->model.tape))) != NULL && ok;
    if (r->moving > 0)
        ok = (r->moments = calloc((size_t)(r->c->size * r->most * r->moving), sizeof *r->moments)) != NULL && ok;
    if (!ok)
        return train_fail(err, SCION_ENOMEM, "out of memory for %lld parameters", (long long)t->elements);
    bind_all(t, t->grads);
    return exchange_allocate(r->way, err);
}

void ranks_free(trainer *t)
{
    trainer_ranks *r = t->ranks;
    if (!r)
        return;
    for (int i = 0; i < r->size_count; i++) {
        if (!is_own(&r->sizes[i]))
            continue;
        plan_free(r->sizes[i].plan);
        model_free(&r->sizes[i].own);
    }
    for (int i = 0; i < arrays_max; i++)
        free(r->sums[i]);
    shard_free(&r->shards);
    free(r->pieces);
    exchange_free(r->way);
    free(r->words);
    free(r->joint);
    free(r->firsts);
    free(r->moments);
    free(r);
    t->ranks = NULL;
}
