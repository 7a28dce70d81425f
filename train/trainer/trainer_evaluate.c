/* Validation and classification by a trainer. See trainer.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "record/mistakes.h"
#include "trainer/trainer_ranks.h"

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

int64_t trainer_validation_passes(const trainer *t, bool last)
{
    return trainer_validation_batches(t, last) * (last ? trainer_tta(t)->count : 1);
}

scion_status trainer_fill_evaluation(trainer *t, data_part part, int64_t index, scion_error *err)
{
    return trainer_fill(t, t->eval, part, index, index + 1, err);
}

/* Batch `index` of a validation into the plan's inputs; `next` will follow. */
static scion_status fill_validation(const trainer *t, const measured *m, int64_t index, int64_t next,
                                    scion_error *err)
{
    const int64_t batch = t->c.training.batch;
    void *arrays[DATA_ARRAYS] = {NULL};
    if (!m->spread)
        return trainer_fill(t, t->eval, DATA_VAL, index, next, err);
    trainer_find_inputs(t, t->eval, arrays);
    return data_fill_even(t->data, m->samples, index * batch, batch, arrays, err);
}

/* The mean logits of the first `count` views of the images that are in the inputs of t->eval, into t->class_sums; the
 * first view is the image as it is. *loss: of that one, from its logits; NULL: not wanted. */
static void view_logits(trainer *t, const tape_run *run, int count, double *loss)
{
    const tta *views = trainer_tta(t);
    const float *from = plan_value(t->eval, t->model.inputs[0])->data;
    float *to = plan_value(t->logits, t->model.inputs[0])->data;
    const tape_value *z = plan_value(t->logits, t->model.logits);
    memset(t->class_sums, 0, (size_t)z->count * sizeof *t->class_sums);
    for (int i = 0; i < count; i++) {
        const float weight = count > 1 ? views->views[i].weight : 1;
        tta_apply(&views->views[i], &data_about(t->data)->arrays[0], t->c.training.batch, from, to);
        plan_forward(t->logits, run);
        for (int64_t k = 0; k < z->count; k++)
            t->class_sums[k] += weight * z->data[k];
        if (i == 0 && loss)
            *loss = (double)plan_forward_logits(t->eval, run, z->data);
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

/* Sums over the samples of a validation. */
typedef struct tally {
    double loss, hits, rows; /* as the samples are */
    double first, five;      /* by the mean logits: their class comes first, or among the first five */
    mistakes *wrong;         /* by them, too; NULL: not wanted */
} tally;

/* Scores a batch by t->class_sums. */
static scion_status score_views(trainer *t, int64_t first, tally *sums, scion_error *err)
{
    const data_info *d = data_about(t->data);
    const tape_value *targets = plan_value(t->eval, t->model.inputs[data_find(d, "targets")]);
    const float *pixels = plan_value(t->eval, t->model.inputs[0])->data;
    const int64_t classes = d->image->classes;
    for (int64_t i = 0; i < t->c.training.batch; i++) {
        const float *z = t->class_sums + i * classes;
        if (targets->ints[i] < 0)
            continue;
        const int64_t rank = rank_of(z, classes, targets->ints[i]);
        sums->first += rank == 0;
        sums->five += rank < 5;
        if (sums->wrong &&
            !mistakes_add(sums->wrong, d, first + i, targets->ints[i], z, pixels + i * d->arrays[0].count))
            return train_fail(err, SCION_ENOMEM, "out of memory for the mistakes of a validation");
    }
    return SCION_OK;
}

/* The batch in the inputs of t->eval, whose first sample is number `first`. views: 0: by the loss alone. */
static scion_status score_batch(trainer *t, int64_t first, int views, tally *sums, scion_error *err)
{
    const tape_run run = {
        .threads = t->threads, .loss_scale = 1, .seed = t->c.training.seed, .step = t->step, .sample = first};
    double loss, hits, rows;
    if (views > 0)
        view_logits(t, &run, views, &loss);
    else
        loss = (double)plan_forward(t->eval, &run);
    plan_score(t->eval, &hits, &rows);
    sums->loss += loss * rows;
    sums->hits += hits;
    sums->rows += rows;
    return views > 0 ? score_views(t, first, sums, err) : SCION_OK;
}

/* What one batch of a validation found. */
typedef struct batch_score {
    double loss, hits, rows, first, five;
} batch_score;

/* Ranks share the batches out; each fills in its own. */
static scion_status evaluate_batches(trainer *t, const measured *m, int views, mistakes *wrong, int64_t count,
                                     batch_score *found, scion_error *err)
{
    const comm *c = t->ranks ? comm_world() : NULL; /* others evaluate alone */
    const int64_t ranks = c ? c->size : 1;
    for (int64_t i = c ? c->rank : 0; i < count; i += ranks) {
        tally sums = {.wrong = wrong};
        if (i > 0 && trainer_stopped(t))
            return train_fail(err, SCION_ESTOPPED, "stopped in a validation");
        scion_status status = fill_validation(t, m, i, i + ranks, err);
        if (status == SCION_OK)
            status = score_batch(t, i * t->c.training.batch, views, &sums, err);
        if (status != SCION_OK)
            return status;
        found[i] = (batch_score){sums.loss, sums.hits, sums.rows, sums.first, sums.five};
        if (t->evaluated)
            t->evaluated(t->stop_ctx, i + 1, count);
    }
    return SCION_OK;
}

/* views: as in score_batch; wrong: what is added to, may be NULL. */
static scion_status evaluate(trainer *t, measured m, int views, mistakes *wrong, trainer_scores *scores,
                             scion_error *err)
{
    const int64_t count = batches_of(t, m.samples), numbers = sizeof(batch_score) / sizeof(double);
    batch_score all = {0};
    if (count < 1)
        return train_fail(err, SCION_EINVAL, "%s: the validation part has not one sample of %lld %s", t->c.data.path,
                          (long long)data_about(t->data)->sample_units, data_about(t->data)->unit);
    batch_score *found = calloc((size_t)count, sizeof *found);
    scion_status status = found ? evaluate_batches(t, &m, views, wrong, count, found, err)
                                : train_fail(err, SCION_ENOMEM, "out of memory");
    status = ranks_agree(t, status, err);
    if (status == SCION_OK && t->ranks) /* each batch is one rank's: the others add 0 */
        status = comm_sum(comm_world(), &found[0].loss, count * numbers, err);
    for (int64_t i = 0; status == SCION_OK && i < count; i++) {
        all.loss += found[i].loss;
        all.hits += found[i].hits;
        all.rows += found[i].rows;
        all.first += found[i].first;
        all.five += found[i].five;
    }
    free(found);
    if (status == SCION_OK && all.rows == 0)
        status = train_fail(err, SCION_EINVAL, "%s: nothing in the validation part can be measured", t->c.data.path);
    if (status == SCION_OK)
        *scores = (trainer_scores){.loss = all.loss / all.rows,
                                   .accuracy = (views > 1 ? all.first : all.hits) / all.rows,
                                   .plain_accuracy = all.hits / all.rows,
                                   .measured = (int64_t)all.rows,
                                   .top5 = views > 0 && data_about(t->data)->image->classes > 5 ? all.five / all.rows
                                                                                                : NAN};
    return status;
}

scion_status trainer_evaluate(trainer *t, int64_t batches, double *loss, double *accuracy, scion_error *err)
{
    const int64_t all = data_about(t->data)->samples[DATA_VAL];
    const bool some = batches > 0 && batches < batches_of(t, all);
    trainer_scores scores = {0};
    const scion_status status =
        evaluate(t, (measured){some ? batches * t->c.training.batch : all, false}, 0, NULL, &scores, err);
    if (status == SCION_OK)
        *loss = scores.loss;
    if (status == SCION_OK && accuracy)
        *accuracy = scores.accuracy;
    return status;
}

scion_status trainer_validate(trainer *t, bool last, trainer_scores *scores, scion_error *err)
{
    const int views = !t->logits ? 0 : last ? trainer_tta(t)->count : 1;
    mistakes *wrong = NULL;
    scion_status status = last && views > 0 ? mistakes_create(&wrong, data_about(t->data), err) : SCION_OK;
    status = ranks_agree(t, status, err);
    if (status == SCION_OK)
        status = evaluate(t, validation_of(t, last), views, wrong, scores, err);
    if (status == SCION_OK && wrong)
        status = ranks_unite_mistakes(t, wrong, err);
    if (status != SCION_OK || !isfinite(scores->loss)) { /* not finished, or there are no answers */
        mistakes_free(wrong);
        wrong = NULL;
    }
    if (wrong) {
        wrong->step = t->step;
        snprintf(wrong->tta, sizeof wrong->tta, "%s", trainer_tta(t)->name);
        snprintf(wrong->part, sizeof wrong->part, "%s", data_about(t->data)->held_out);
        mistakes_end(wrong);
    }
    if (last) {
        mistakes_free(t->wrong);
        t->wrong = wrong;
    }
    return status;
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
    view_logits(t, &run, trainer_tta(t)->count, NULL);
    for (int64_t i = 0; i < t->c.training.batch; i++)
        normalise(t->class_sums + i * classes, classes, probabilities + i * classes);
}
