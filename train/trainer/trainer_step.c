/* One training step, on one rank or many. A rank computes its pieces (step_share.h), the reducer sums their gradients
 * to the owners (reducer.h), every owner steps its part, and the weights travel back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/trainer_struct.h"
#include "util/clock.h"
#include "util/fail.h"
#include "util/regions.h"

/* All ranks exchange one at the end of a step. */
struct step_message {
    int32_t status, stop;
    double bytes;    /* raw bytes of its targets */
    double losses[]; /* of the rank's pieces */
};

size_t step_message_bytes(const step_share *s)
{
    return sizeof(struct step_message) + (size_t)share_max_pieces(s) * sizeof(double);
}

static struct step_message *message_of(const trainer *t, int rank)
{
    return (struct step_message *)(void *)((char *)t->messages + (size_t)rank * t->message_bytes);
}

static sized_plan *plan_for(trainer *t, const step_piece *p)
{
    return &t->sizes[t->sizes[0].count == p->count ? 0 : 1];
}

/* ---- Gradients ------------------------------------------------------------------------------------------------ */

/* Number of the first sequence of piece k, counted over the whole run; k may be one past the last: the next
 * step's. */
static step_piece piece_in_run(const trainer *t, int64_t k)
{
    const int64_t pieces = share_pieces(&t->share, t->comm->rank), step = t->step + (k == pieces);
    step_piece p = share_piece(&t->share, t->comm->rank, k % pieces);
    p.first += step * t->c.training.batch * t->c.training.accum;
    return p;
}

/* Puts piece k into the inputs of its plan; the next one is decoded meanwhile. */
static scion_status fill(trainer *t, int64_t k, const sized_plan *s, scion_error *err)
{
    const step_piece now = piece_in_run(t, k), next = piece_in_run(t, k + 1);
    void *arrays[DATA_ARRAYS] = {NULL};
    trainer_find_inputs(s->model, s->plan, arrays);
    const data_sequence samples = {.part = DATA_TRAIN};
    const scion_status status = data_fill(t->data, samples, now.first, now.count, arrays, err);
    data_prefetch(t->data, samples, next.first, next.count);
    return status;
}

/* Forward and backward pass of piece k; the first one computed in this step is number `begin`. */
static scion_status compute(trainer *t, int64_t k, int64_t begin, bool update, double *loss, step_report *report,
                            scion_error *err)
{
    const step_piece p = piece_in_run(t, k);
    sized_plan *s = plan_for(t, &p);
    tape_run run = {.threads = t->threads,
                    .loss_scale = (float)((double)p.count / (double)(t->c.training.batch * t->c.training.accum)),
                    .seed = t->c.training.seed,
                    .step = t->step,
                    .sample = p.first,
                    .round_nearest = t->c.training.rounding == SCION_ROUNDING_NEAREST,
                    .same_weights = k > begin && share_piece(&t->share, t->comm->rank, k - 1).count == p.count,
                    .update_buffers = update};
    const scion_status status = fill(t, k, s, err);
    if (status != SCION_OK)
        return status;
    if (update)
        running_clear(&t->running);
    const double start = clock_now();
    regions_mark(REGIONS_FORWARD);
    *loss = (double)plan_forward(s->plan, &run);
    regions_mark(REGIONS_BACKWARD);
    const double middle = clock_now();
    if (!isfinite(*loss)) {
        const char *bad = plan_first_nonfinite(s->plan, &run);
        return train_fail(
            err, SCION_ENONFINITE, "step %lld: the loss is %s; the first result that is not finite is %s",
            (long long)t->step + 1, isnan(*loss) ? "not a number" : "infinite", bad ? bad : "the loss itself");
    }
    message_of(t, t->comm->rank)->bytes += trainer_target_bytes(t, s->model, s->plan);
    reducer_watch(t->reducer, k, &run);
    plan_backward(s->plan, &run);
    regions_mark(REGIONS_OTHER);
    if (update)
        running_keep(&t->running, k);
    report->forward_s += middle - start;
    report->backward_s += clock_now() - middle;
    return SCION_OK;
}

/* With `light` the average is in the gradients. On one rank a step may then stop between pieces, and goes on there;
 * on several it may not stop at all, unless its sums are apart. */
static bool sums_into_average(const trainer *t)
{
    return t->c.optimizer.light && !reducer_is_apart(t->reducer);
}

/* Notes that a step ended before piece k. */
static void pause_at(trainer *t, int64_t k, const double *losses)
{
    if (!sums_into_average(t) || t->comm->size > 1)
        return;
    for (int64_t i = t->micro; i < k; i++)
        t->micro_loss += losses[i];
    t->micro_bytes += message_of(t, t->comm->rank)->bytes;
    t->micro = k;
}

/* Sums the gradients of the step into `into`, where they are owned. `status`: result so far. A rank
 * takes part to the end whatever happens to it, for the others count on it. */
static scion_status gradients(trainer *t, void *into, bool update, const trainer_watch *w, step_report *report,
                              scion_status status, scion_error *err)
{
    double *losses = message_of(t, t->comm->rank)->losses;
    const int64_t pieces = share_pieces(&t->share, t->comm->rank), done = t->micro - share_pieces_before(&t->share);
    const int64_t begin = done < 0 ? 0 : done < pieces ? done : pieces;
    const bool may_stop = !sums_into_average(t) || t->comm->size == 1;
    const void *bound = NULL;
    int64_t k = begin;
    message_of(t, t->comm->rank)->bytes = 0;
    memset(losses, 0, (size_t)begin * sizeof *losses); /* they are in the average already */
    reducer_begin(t->reducer, into, t->step);
    for (; status == SCION_OK && k < pieces; k++) {
        if (k > begin && may_stop && trainer_stopped(w)) {
            status = train_fail(err, SCION_ESTOPPED, "stopped in step %lld", (long long)t->step + 1);
            break;
        }
        void *array = reducer_array(t->reducer, k);
        if (array != bound)
            trainer_bind(t, array);
        bound = array;
        status = compute(t, k, begin, update, &losses[k], report, err);
        if (status != SCION_OK)
            break;
        reducer_end_piece(t->reducer, k);
        if (w && w->computed)
            w->computed(w->ctx, k + 1, pieces);
    }
    const double start = clock_now();
    reducer_finish(t->reducer, k < pieces || begin == pieces);
    report->comm_s += clock_now() - start;
    trainer_bind(t, t->flats[FLAT_GRADS]);
    if (status != SCION_OK && status != SCION_ENONFINITE)
        pause_at(t, k, losses);
    return status;
}

/* MARS: the gradient at the weights before, on the same batch. Owners have these weights, and share them. */
static scion_status gradients_before(trainer *t, const trainer_watch *w, step_report *report, scion_error *err)
{
    void *weights = t->flats[FLAT_WEIGHTS], *grads = t->flats[FLAT_GRADS_BEFORE];
    if (!grads || t->step == 0) /* the first step has none before it */
        return SCION_OK;
    memset(grads, 0, tape_grad_bytes(t->model.tape));
    scion_optimizer_previous(t->optimizer, NULL);
    reducer_spread(t->reducer, weights);
    const scion_status status = gradients(t, grads, false, w, report, SCION_OK, err);
    scion_optimizer_previous(t->optimizer, NULL);
    reducer_spread(t->reducer, weights);
    return status;
}

/* ---- All ranks ------------------------------------------------------------------------------------------------ */

/* Exchanges status and losses. All ranks return the status of the lowest rank that failed; a failure
 * takes precedence over a stop. */
static scion_status agree_on_step(trainer *t, scion_status status, const trainer_watch *w, step_report *report,
                                  scion_error *err)
{
    comm *c = t->comm;
    struct step_message *mine = message_of(t, c->rank);
    int failed = -1, stopped = -1;
    double sum = t->micro_loss, bytes = t->micro_bytes;
    mine->status = (int32_t)status;
    mine->stop = status == SCION_ESTOPPED || (c->size > 1 && trainer_stopped(w));
    comm_gather(c, mine, t->message_bytes, t->messages);
    report->stopping = false;
    for (int rank = c->size - 1; rank >= 0; rank--) {
        const struct step_message *m = message_of(t, rank);
        report->stopping = report->stopping || m->stop;
        stopped = m->status == SCION_ESTOPPED ? rank : stopped;
        failed = m->status != SCION_OK && m->status != SCION_ESTOPPED ? rank : failed;
    }
    failed = failed >= 0 ? failed : stopped;
    if (failed >= 0) {
        comm_broadcast(c, failed, err, sizeof *err);
        return (scion_status)message_of(t, failed)->status;
    }
    for (int rank = 0; rank < c->size; rank++) {
        bytes += message_of(t, rank)->bytes;
        for (int64_t k = 0; k < share_pieces(&t->share, rank); k++)
            sum += message_of(t, rank)->losses[k] *
                   ((double)share_piece(&t->share, rank, k).count / (double)t->c.training.batch);
    }
    report->loss = sum / (double)t->c.training.accum;
    report->bits_per_byte = trainer_bits_per_byte(report->loss * (double)trainer_samples(t), bytes);
    return SCION_OK;
}

/* Steps the part that this rank owns. */
static scion_status step_owned(trainer *t, const scion_step *s, scion_error *err)
{
    scion_status status = SCION_OK;
    TRY(scion_optimizer_joint(t->optimizer, s, t->joint, err));
    TRY(comm_sum(t->comm, t->joint, scion_optimizer_joint_count(t->optimizer), err));
    TRY(scion_optimizer_part(t->optimizer, s, t->joint, SCION_ALL, 0, -1, err));
    TRY(scion_optimizer_finish(t->optimizer, s, err));
done:
    return status;
}

static scion_status check_buffers(const trainer *t, scion_error *err)
{
    const char *bad = trainer_nonfinite(t, false);
    return bad ? train_fail(err, SCION_ENONFINITE, "step %lld: %s is not finite", (long long)t->step + 1, bad)
               : SCION_OK;
}

static void copy_buffers(const trainer *t, flat_index to, flat_index from)
{
    if (t->flats[FLAT_BUFFERS])
        memcpy(t->flats[to], t->flats[from], flat_bytes(t->model.tape, LIKE_BUFFERS));
}

/* Counts the step and updates the copies of the weights; or undoes the changes of a failed one. */
static void end_step(trainer *t, scion_status status)
{
    t->partial_step = status != SCION_OK && sums_into_average(t) && t->comm->size > 1;
    if (status != SCION_OK) {
        if (t->micro == 0)
            copy_buffers(t, FLAT_BUFFERS, FLAT_BUFFERS_BEFORE);
        return;
    }
    t->step++;
    t->micro = 0;
    t->micro_loss = t->micro_bytes = 0;
    for (int i = 0; flat_rows[i].name; i++)
        if (flat_rows[i].after_step && t->flats[i])
            flat_rows[i].after_step(&t->c, t->model.tape, t->flats[FLAT_WEIGHTS], t->flats[i], t->step);
}

static void lap(double *clock, double *sum)
{
    const double now = clock_now();
    *sum += now - *clock;
    *clock = now;
}

scion_status trainer_step(trainer *t, const trainer_watch *w, step_report *report, scion_error *err)
{
    scion_error why = {.message = ""};
    scion_step s;
    scion_step_init(&s);
    s.lr = trainer_lr(t);
    *report = (step_report){.loss = NAN, .bits_per_byte = NAN};
    copy_buffers(t, FLAT_BUFFERS_BEFORE, FLAT_BUFFERS);
    scion_status status = gradients_before(t, w, report, &why);
    double clock = clock_now();
    regions_mark(REGIONS_OPTIMIZER);
    scion_optimizer_begin(t->optimizer);
    regions_mark(REGIONS_OTHER);
    lap(&clock, &report->optimizer_s);
    status = gradients(t, t->flats[FLAT_GRADS], true, w, report, status, &why);
    clock = clock_now();
    regions_mark(REGIONS_OPTIMIZER);
    if (status == SCION_OK) {
        reducer_add_to_average(t->reducer, t->flats[FLAT_GRADS]);
        status = scion_optimizer_check(t->optimizer, &s, &why);
    }
    regions_mark(REGIONS_OTHER);
    lap(&clock, &report->optimizer_s);
    TRY(agree_on_step(t, status, w, report, &why)); /* all ranks have one status from here on */
    running_apply(&t->running, t->comm, t->flats[FLAT_BUFFERS_BEFORE], t->micro);
    TRY(check_buffers(t, &why));
    lap(&clock, &report->comm_s);
    regions_mark(REGIONS_OPTIMIZER);
    TRY(step_owned(t, &s, &why));
    regions_mark(REGIONS_OTHER);
    lap(&clock, &report->optimizer_s);
    reducer_spread(t->reducer, t->flats[FLAT_WEIGHTS]);
    lap(&clock, &report->comm_s);
done:
    end_step(t, status);
    if (status != SCION_OK && err)
        *err = why;
    return status;
}
