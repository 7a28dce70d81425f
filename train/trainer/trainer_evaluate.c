/* Validation and classification by a trainer. See trainer.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/trainer_struct.h"
#include "util/fail.h"

/* A validation measures the first `samples` of the validation part, or as many spread over it. */
typedef struct measured {
    int64_t samples;
    bool spread;
} measured;

static int64_t batches_of(const trainer *t, int64_t samples)
{
    return (samples + t->c.training.batch - 1) / t->c.training.batch;
}

static data_sequence sequence_of(const measured *m)
{
    return (data_sequence){.part = DATA_VAL, .even = m->spread ? m->samples : 0};
}

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
    if (!even) /* whole batches from the start */
        samples = batches_of(t, samples) * t->c.training.batch;
    return (measured){samples < all ? samples : all, even && samples < all};
}

int64_t trainer_validation_samples(const trainer *t, bool last)
{
    return validation_of(t, last).samples;
}

int64_t trainer_validation_passes(const trainer *t, bool last)
{
    return batches_of(t, trainer_validation_samples(t, last)) * (last ? trainer_tta(t)->count : 1);
}

/* Puts batch `index` of a sequence into the inputs of the evaluation plan; batch `next` is decoded meanwhile. */
static scion_status fill(const trainer *t, data_sequence s, int64_t index, int64_t next, scion_error *err)
{
    const int64_t batch = t->c.training.batch;
    void *arrays[DATA_ARRAYS] = {NULL};
    trainer_find_inputs(&t->model, t->eval, arrays);
    const scion_status status = data_fill(t->data, s, index * batch, batch, arrays, err);
    data_prefetch(t->data, s, next * batch, batch);
    return status;
}

scion_status trainer_fill_evaluation(trainer *t, data_part part, int64_t index, scion_error *err)
{
    return fill(t, (data_sequence){.part = part}, index, index + 1, err);
}

/* Sums over one batch of a validation. */
typedef struct batch_score {
    double loss, hits, rows; /* as the samples are */
    double bytes;            /* of text: raw bytes of the targets */
    double first, five;      /* by the mean logits: their class comes first, or among the first five */
} batch_score;

/* Scores the batch in the inputs of t->eval by its loss, from logits that are computed already if they are given. */
static void score_loss(const trainer *t, const tape_run *run, float *logits, batch_score *sums)
{
    const float loss = logits ? plan_forward_logits(t->eval, run, logits) : plan_forward(t->eval, run);
    plan_score(t->eval, &sums->hits, &sums->rows);
    sums->loss = (double)loss * sums->rows;
}

/* Computes the mean logits of the first `count` views of a batch of images into t->class_sums; the first view is the
 * image as it is. sums: scores that one by its loss, NULL: not wanted. Plans share their memory: its logits are
 * copied, behind the sums, before t->eval runs. */
static void view_logits(trainer *t, const tape_run *run, const float *from, int count, batch_score *sums)
{
    const tta *views = trainer_tta(t);
    const data_info *d = data_about(t->data);
    float *to = plan_value(t->logits, t->model.inputs[d->input])->data;
    const tape_value *z = plan_value(t->logits, t->model.logits);
    memset(t->class_sums, 0, (size_t)z->count * sizeof *t->class_sums);
    for (int i = 0; i < count; i++) {
        const float weight = count > 1 ? views->views[i].weight : 1;
        tta_apply(&views->views[i], &d->arrays[d->input], t->c.training.batch, from, to);
        plan_forward(t->logits, run);
        for (int64_t k = 0; k < z->count; k++)
            t->class_sums[k] += weight * z->data[k];
        if (i == 0 && sums)
            score_loss(t, run, memcpy(t->class_sums + z->count, z->data, (size_t)z->count * sizeof(float)), sums);
    }
}

/* Classes that are likelier than the target; of equals the first counts, as in the loss. Not a number is none. */
static int64_t rank_of(const float *z, int64_t classes, int32_t target)
{
    int64_t before = 0;
    for (int64_t k = 0; k < classes; k++)
        before += !(z[k] <= z[target]) || (k < target && z[k] == z[target]);
    return before;
}

/* Scores a batch by t->class_sums. wrong: collects mistakes, may be NULL. */
static scion_status score_views(trainer *t, const float *pixels, int64_t first, batch_score *sums, mistakes *wrong,
                                scion_error *err)
{
    const data_info *d = data_about(t->data);
    const tape_value *targets = plan_value(t->eval, t->model.inputs[d->targets]);
    const int64_t classes = d->classes;
    for (int64_t i = 0; i < t->c.training.batch; i++) {
        const float *z = t->class_sums + i * classes;
        if (targets->ints[i] < 0)
            continue;
        const int64_t rank = rank_of(z, classes, targets->ints[i]);
        sums->first += rank == 0;
        sums->five += rank < 5;
        if (wrong && !mistakes_add(wrong, d, first + i, targets->ints[i], z, pixels + i * d->arrays[d->input].count))
            return train_fail(err, SCION_ENOMEM, "out of memory for the mistakes of a validation");
    }
    return SCION_OK;
}

/* Scores the batch in the inputs of t->eval, whose first sample is number `first`. views: 0: by the loss alone. */
static scion_status score_batch(trainer *t, int64_t first, int views, batch_score *sums, mistakes *wrong,
                                scion_error *err)
{
    const tape_run run = {
        .threads = t->threads, .loss_scale = 1, .seed = t->c.training.seed, .step = t->step, .sample = first};
    const float *pixels = plan_value(t->eval, t->model.inputs[data_about(t->data)->input])->data;
    if (views > 0)
        view_logits(t, &run, pixels, views, sums);
    else
        score_loss(t, &run, NULL, sums);
    sums->bytes = trainer_target_bytes(t, &t->model, t->eval);
    return views > 0 ? score_views(t, pixels, first, sums, wrong, err) : SCION_OK;
}

/* Ranks divide the batches; each fills in its own. */
static scion_status evaluate_batches(trainer *t, const measured *m, int views, const trainer_watch *w,
                                     mistakes *wrong, int64_t count, batch_score *found, scion_error *err)
{
    const comm *c = t->comm;
    const data_sequence samples = sequence_of(m);
    scion_status status = SCION_OK;
    for (int64_t i = c->rank; i < count; i += c->size) {
        if (i > 0 && trainer_stopped(w))
            return train_fail(err, SCION_ESTOPPED, "stopped in a validation");
        TRY(fill(t, samples, i, i + c->size, err));
        TRY(score_batch(t, i * t->c.training.batch, views, &found[i], wrong, err));
        if (w && w->evaluated)
            w->evaluated(w->ctx, i + 1, count);
    }
done:
    return status;
}

/* views: as in score_batch; wrong: collects mistakes, may be NULL. */
static scion_status evaluate(trainer *t, measured m, int views, const trainer_watch *w, mistakes *wrong,
                             trainer_scores *scores, scion_error *err)
{
    const int64_t count = batches_of(t, m.samples), numbers = sizeof(batch_score) / sizeof(double);
    const data_info *d = data_about(t->data);
    batch_score all = {0}, *found = NULL;
    scion_status status = SCION_OK;
    if (count < 1)
        return train_fail(err, SCION_EINVAL, "%s: the validation part is smaller than one sample of %lld %s",
                          t->c.data.path, (long long)d->sample_units, d->unit);
    found = calloc((size_t)count, sizeof *found);
    status = found ? evaluate_batches(t, &m, views, w, wrong, count, found, err)
                   : train_fail(err, SCION_ENOMEM, "out of memory");
    TRY(comm_agree(t->comm, status, err, NULL));
    TRY(comm_sum(t->comm, &found[0].loss, count * numbers, err)); /* each batch is one rank's: the others add 0 */
    for (int64_t i = 0; i < count; i++) {
        all.loss += found[i].loss;
        all.hits += found[i].hits;
        all.rows += found[i].rows;
        all.bytes += found[i].bytes;
        all.first += found[i].first;
        all.five += found[i].five;
    }
    if (all.rows == 0)
        TRY(train_fail(err, SCION_EINVAL, "%s: nothing in the validation part can be measured", t->c.data.path));
    *scores = (trainer_scores){.loss = all.loss / all.rows,
                               .bits_per_byte = trainer_bits_per_byte(all.loss, all.bytes),
                               .accuracy = (views > 1 ? all.first : all.hits) / all.rows,
                               .plain_accuracy = all.hits / all.rows,
                               .measured = (int64_t)all.rows,
                               .top5 = views > 0 && d->classes > 5 ? all.five / all.rows : NAN};
done:
    free(found);
    return status;
}

/* Lets evaluations read a copy of the weights where one is to be validated in their place. */
static void bind_validated(trainer *t)
{
    for (int i = FLAT_OWN; t->optimizer && flat_rows[i].name; i++)
        if (flat_rows[i].validated && t->flats[i])
            tape_bind(t->model.tape, t->flats[i], t->flats[FLAT_GRADS], t->flats[FLAT_BUFFERS]);
}

scion_status trainer_evaluate(trainer *t, int64_t batches, double *loss, double *accuracy, scion_error *err)
{
    const int64_t all = data_about(t->data)->samples[DATA_VAL];
    const bool some = batches > 0 && batches < batches_of(t, all);
    trainer_scores scores = {0};
    const scion_status status =
        evaluate(t, (measured){some ? batches * t->c.training.batch : all, false}, 0, NULL, NULL, &scores, err);
    if (status == SCION_OK)
        *loss = scores.loss;
    if (status == SCION_OK && accuracy)
        *accuracy = scores.accuracy;
    return status;
}

scion_status trainer_validate(trainer *t, bool last, const trainer_watch *w, trainer_scores *scores, mistakes **wrong,
                              scion_error *err)
{
    const int views = !t->logits ? 0 : last ? trainer_tta(t)->count : 1;
    const measured part = validation_of(t, last);
    mistakes *m = NULL;
    scion_status status = SCION_OK;
    if (wrong)
        *wrong = NULL;
    if (wrong && trainer_about(t).reports_mistakes)
        TRY(mistakes_create(&m, data_about(t->data), err));
    bind_validated(t);
    status = evaluate(t, part, views, w, m, scores, err);
    trainer_bind(t, t->flats[FLAT_GRADS]);
    if (status == SCION_OK && m && isfinite(scores->loss)) {
        m->step = t->step;
        snprintf(m->tta, sizeof m->tta, "%s", trainer_tta(t)->name);
        snprintf(m->part, sizeof m->part, "%s", data_about(t->data)->held_out);
        mistakes_end(m, t->data, sequence_of(&part));
        *wrong = m;
        m = NULL;
    }
done:
    mistakes_free(m);
    return status;
}

scion_status trainer_put_file(trainer *t, int64_t row, const char *path, scion_error *err)
{
    const data_info *d = data_about(t->data);
    return data_put_file(t->data, path, t->images + row * d->arrays[d->input].count, err);
}

/* softmax, in double. */
static void normalise(const float *z, int64_t n, float *p)
{
    double max = (double)z[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        max = fmax(max, (double)z[k]);
    for (int64_t k = 0; k < n; k++)
        sum += exp((double)z[k] - max);
    for (int64_t k = 0; k < n; k++)
        p[k] = (float)(exp((double)z[k] - max) / sum);
}

void trainer_classify(trainer *t, float *probabilities)
{
    const tape_run run = {.threads = t->threads, .loss_scale = 1, .seed = t->c.training.seed, .step = t->step};
    const int64_t classes = data_about(t->data)->classes;
    view_logits(t, &run, t->images, trainer_tta(t)->count, NULL);
    for (int64_t i = 0; i < t->c.training.batch; i++)
        normalise(t->class_sums + i * classes, classes, probabilities + i * classes);
}
