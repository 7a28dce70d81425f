/* The loop of a run: what its sinks are told, that they change nothing, that it can be stopped anywhere and goes on
 * as if it had not been, and what it leaves in its folder. */
#define _GNU_SOURCE 1
#include "scratch.h"
#include "tiny.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <png.h>

#include "image_files.h"
#include "record/checkpoint.h"
#include "run/metrics_sink.h"
#include "record/run_record.h"
#include "trainer_tests.h"

/* A file system without hard links. */
static bool no_links;

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    if (no_links) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

static trainer *create(const char *pairs, const char *out)
{
    config c = tiny(pairs);
    trainer *t = NULL;
    scion_error err;
    snprintf(c.run.out, sizeof c.run.out, "%s", out);
    OK(tiny_create(&t, &c, &err));
    return t;
}

/* Folder and position of a run. */
typedef struct place {
    run_dir dir;
    run_position at;
} place;

/* The policy of scion train, with checkpoints by their path. */
static run_policy policy_at(const trainer *t, place *p)
{
    run_policy policy = run_policy_of(&t->c);
    *p = (place){.dir = {.fd = -1}, .at = run_position_start()};
    snprintf(p->dir.path, sizeof p->dir.path, "%s", t->c.run.out);
    policy.dir = &p->dir;
    policy.position = &p->at;
    return policy;
}

/* Resumes the newest checkpoint of a folder, at its position. */
static trainer *resume(const char *out, place *p)
{
    trainer *t = NULL;
    trainer_resumed before;
    char path[RUN_PATH];
    scion_error err;
    OK(run_dir_latest(out, path, &err));
    OK(trainer_resume(&t, path, NULL, 0, false, NULL, &p->at, &before, &err));
    return t;
}

/* ---- Sinks -------------------------------------------------------------------------------------------------- */

typedef struct counts {
    int start, step, logged, validating, validation, norms, saved, end, warned;
    bool fails;
} counts;

static scion_status answer(const counts *k, scion_error *err)
{
    if (!k->fails)
        return SCION_OK;
    snprintf(err->message, sizeof err->message, "no room");
    return SCION_EINVAL;
}

static scion_status count_start(void *ctx, const run_event *e, scion_error *err)
{
    counts *k = ctx;
    (void)e;
    (void)err;
    k->start++;
    return SCION_OK;
}

static scion_status count_step(void *ctx, const run_event *e, scion_error *err)
{
    counts *k = ctx;
    const run_point *p = e->point;
    k->step++;
    k->logged += e->log;
    assert_int_equal(p->step, e->t->step);
    assert_true(e->step->loss == p->loss && e->step->forward_s > 0);
    assert_true(isfinite(p->loss) && isfinite(p->lr) && p->seconds > 0 && !run_is_validation(p));
    return answer(k, err);
}

static scion_status count_validation(void *ctx, const run_event *e, scion_error *err)
{
    counts *k = ctx;
    k->validation++;
    assert_int_equal(e->point->step, e->t->step);
    assert_true(run_is_validation(e->point) && isnan(e->point->loss));
    return answer(k, err);
}

static scion_status count_validating(void *ctx, const run_event *e, scion_error *err)
{
    counts *k = ctx;
    k->validating++;
    assert_int_equal(e->count, trainer_validation_passes(e->t, e->t->step == e->t->steps));
    assert_true(1 <= e->done && e->done <= e->count);
    return answer(k, err);
}

static scion_status count_norms(void *ctx, const run_event *e, scion_error *err)
{
    counts *k = ctx;
    k->norms++;
    assert_int_equal(e->count, tape_param_count(e->t->model.tape));
    assert_true(e->norms[0].step == e->t->step && e->norms[0].norm > 0);
    return answer(k, err);
}

static scion_status count_saved(void *ctx, const run_event *e, scion_error *err)
{
    counts *k = ctx;
    k->saved++;
    assert_int_equal(access(e->path, F_OK), 0);
    return answer(k, err);
}

static scion_status count_end(void *ctx, const run_event *e, scion_error *err)
{
    counts *k = ctx;
    k->end++;
    assert_int_equal(e->result->step, e->t->step);
    return answer(k, err);
}

static void count_warning(void *ctx, const char *message)
{
    counts *k = ctx;
    k->warned++;
    assert_string_equal(message, "no room");
}

static run_sink counting(counts *k)
{
    return (run_sink){.on = {[RUN_STARTS] = count_start,
                             [RUN_STEPPED] = count_step,
                             [RUN_VALIDATING] = count_validating,
                             [RUN_VALIDATED] = count_validation,
                             [RUN_MEASURED] = count_norms,
                             [RUN_SAVED] = count_saved,
                             [RUN_ENDED] = count_end},
                      .ctx = k};
}

static void sinks_are_told_and_change_nothing(void **state)
{
    static const char pairs[] = TINY_MLP "steps=20 log_every=7 eval_every=8 norm_every=5 save_every=9 eval_batches=2";
    run_result r[2];
    int failed[2];
    scion_error err;
    trainer *t[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        counts k = {.fails = i > 0};
        const run_sink sink = counting(&k), *const sinks[] = {&sink};
        t[i] = create(pairs, scratch_dir(i ? "fails" : "told"));
        place p;
        run_policy policy = policy_at(t[i], &p);
        policy.warn = count_warning;
        policy.warn_ctx = &k;
        OK(run_train(t[i], &policy, sinks, 1, &r[i], &failed[i], &err));
        assert_int_equal(k.start, 1);
        assert_int_equal(k.step, 20);
        assert_int_equal(k.logged, 4);     /* 1, 7, 14, 20 */
        assert_int_equal(k.validation, 3); /* 8, 16, 20 */
        assert_int_equal(k.norms, 4);
        assert_int_equal(k.saved, 3);      /* 9, 18, 20 */
        assert_int_equal(k.validating, 6); /* 8, 16, 20: two batches each */
        assert_int_equal(k.end, 1);
        assert_int_equal(failed[i], i);
        assert_int_equal(k.warned, i); /* once, however often it fails */
        assert_true(r[i].state == RUN_DONE && r[i].step == 20 && r[i].taken == 20 && r[i].best_val_loss == p.at.best);
        assert_true(r[i].samples == 20 * 16 && r[i].peak_bytes > 0 && r[i].state_bytes >= 8 * (double)t[i]->elements);
    }
    assert_true(r[0].val_loss == r[1].val_loss && r[0].loss == r[1].loss && r[0].last_loss == r[1].last_loss);
    assert_memory_equal(tiny_weights(t[0]), tiny_weights(t[1]), (size_t)t[0]->elements * sizeof(float));
    trainer_free(t[0]);
    trainer_free(t[1]);
}

static scion_status keep_point(void *ctx, const run_event *e, scion_error *err)
{
    (void)err;
    *(run_point *)ctx = *e->point;
    return SCION_OK;
}

/* Seconds count from those before the run was resumed, samples from the first step; log_every=0 logs nothing; the
 * accuracy of a GPT is measured, too. */
static void points_have_their_place(void **state)
{
    run_point last;
    counts k = {.fails = false};
    const run_sink keeps = {.on = {[RUN_STEPPED] = keep_point}, .ctx = &last}, counting_sink = counting(&k);
    const run_sink *const sinks[] = {&keeps, &counting_sink};
    trainer *t = create(TINY_GPT "steps=6 log_every=0 eval_every=0 eval_batches=2", scratch_dir("place"));
    place p;
    run_policy policy = policy_at(t, &p);
    run_result r;
    scion_error err;
    (void)state;
    policy.steps = 4;
    policy.elapsed = 1000;
    OK(run_train(t, &policy, sinks, 2, &r, NULL, &err));
    assert_true(last.elapsed > 1000 && last.elapsed <= r.elapsed && r.elapsed < 1000 + 2 * r.seconds + 1);
    assert_true(last.samples == 4 * (double)trainer_samples(t) && strcmp(last.unit, "tokens") == 0 && last.time > 0);
    policy.steps = 0;
    OK(run_train(t, &policy, sinks, 2, &r, NULL, &err));
    assert_true(last.samples == 6 * (double)trainer_samples(t));
    assert_int_equal(k.step, 6);
    assert_int_equal(k.logged, 0);
    assert_true(r.accuracy >= 0 && r.accuracy <= 1);
    trainer_free(t);
}

static void an_empty_policy_only_steps(void **state)
{
    counts k = {.fails = false};
    const run_sink sink = counting(&k), *const sinks[] = {&sink};
    const run_policy nothing = {.steps = 0}, three = {.steps = 3};
    trainer *t = create(TINY_MLP "steps=10 eval_every=2", scratch("absent"));
    run_result r;
    scion_error err;
    (void)state;
    OK(run_train(t, &three, sinks, 1, &r, NULL, &err));
    assert_true(r.state == RUN_RUNNING && r.step == 3 && r.steps == 10 && k.step == 3);
    OK(run_train(t, &nothing, sinks, 1, &r, NULL, &err));
    assert_true(r.state == RUN_DONE && r.taken == 7 && k.step == 10 && isnan(r.val_loss));
    assert_int_equal(k.validation + k.norms + k.saved, 0);
    assert_int_not_equal(access(scratch("absent"), F_OK), 0);
    trainer_free(t);
}

/* ---- Stopping ----------------------------------------------------------------------------------------------- */

typedef struct stopper {
    int asked, at;
} stopper;

static bool stop_at(void *ctx)
{
    stopper *s = ctx;
    return ++s->asked >= s->at;
}

/* Trains to the end in `out`, stopped at the at-th question each time, and resumed; returns how often it was
 * stopped. */
static int train_stopped(const char *pairs, const char *out, int at, trainer **end, run_position *position)
{
    trainer *t = create(pairs, out);
    place p;
    run_policy policy = policy_at(t, &p);
    int stops = 0;
    for (;; stops++) {
        stopper s = {0, at + stops % 3}; /* a validation asks four times */
        run_sink sink;
        const run_sink *const sinks[] = {&sink};
        run_result r;
        int failed;
        scion_error err;
        OK(metrics_sink_open(&sink, &p.dir, &t->c, &err));
        if (at > 0) {
            policy.stop = stop_at;
            policy.stop_ctx = &s;
        }
        OK(run_train(t, &policy, sinks, 1, &r, &failed, &err));
        assert_int_equal(failed, 0);
        metrics_sink_close(&sink);
        if (r.state == RUN_DONE)
            break;
        trainer_free(t);
        t = resume(out, &p);
        assert_true(stops < 200);
    }
    *end = t;
    *position = p.at;
    return stops;
}

/* The numbers of metrics.jsonl that do not depend on time. */
static void same_curves(const char *a, const char *b)
{
    run_record x, y;
    scion_error err;
    OK(run_record_read(&x, a, &err));
    OK(run_record_read(&y, b, &err));
    for (int validation = 0; validation < 2; validation++) {
        int64_t k = 0;
        for (int64_t i = 0; i < x.curves.point_count; i++) {
            const run_point *p = &x.curves.points[i];
            if (run_is_validation(p) != (validation == 1))
                continue;
            while (k < y.curves.point_count && (run_is_validation(&y.curves.points[k]) != (validation == 1) ||
                                                (!validation && y.curves.points[k].step < p->step)))
                k++;
            if (k == y.curves.point_count || y.curves.points[k].step != p->step)
                fail_msg("%s: step %d has no %s", b, (int)p->step, validation ? "validation" : "loss");
            assert_true(validation ? y.curves.points[k].val_loss == p->val_loss : y.curves.points[k].loss == p->loss);
            k++;
        }
        for (; k < y.curves.point_count; k++)
            assert_true(!validation || !run_is_validation(&y.curves.points[k]));
    }
    run_record_free(&x);
    run_record_free(&y);
}

/* In the middle of steps and of validations, which are all made up for. */
static void a_run_stopped_anywhere_is_the_same_run(void **state)
{
    static const char *const cases[] = {
        TINY_MLP "steps=12 accum=3 log_every=1 eval_every=4 eval_batches=5 threads=1",
        TINY_MLP "steps=12 accum=3 light=1 log_every=1 eval_every=4 eval_batches=5 threads=1",
        TINY_GPT "steps=6 accum=2 rule=mars log_every=1 eval_every=3 eval_batches=4 threads=1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trainer *whole;
        run_position whole_end, end;
        char name[32];
        snprintf(name, sizeof name, "whole%zu", i);
        const char *want = scratch_dir(name);
        assert_int_equal(train_stopped(cases[i], want, 0, &whole, &whole_end), 0);
        for (int at = 4; at <= 7; at++) {
            trainer *t;
            snprintf(name, sizeof name, "stopped%zu-%d", i, at);
            const char *got = scratch_dir(name);
            assert_true(train_stopped(cases[i], got, at, &t, &end) > 0);
            assert_memory_equal(tiny_weights(whole), tiny_weights(t), (size_t)t->elements * sizeof(float));
            assert_true(whole_end.best == end.best && !end.validation_due);
            same_curves(want, got);
            trainer_free(t);
        }
        trainer_free(whole);
    }
}

/* What a process leaves that is killed after a validation, before its outcome is in the checkpoint. */
static scion_status copy_folder(void *ctx, const run_event *e, scion_error *err)
{
    static const char *const names[] = {"step-00000012.safetensors", "metrics.jsonl"};
    const trainer *t = e->t;
    (void)err;
    for (int i = 0; t->step == t->steps && i < 2; i++) {
        size_t bytes;
        const char *data = scratch_get(scratch_in(t->c.run.out, names[i]), &bytes);
        scratch_put(scratch_in(ctx, names[i]), data, bytes);
    }
    return SCION_OK;
}

static void a_run_is_saved_before_its_validation(void **state)
{
    char *whole = scratch_dir("validated"), *killed = scratch_dir("killed");
    trainer *t = create(TINY_MLP "steps=12 log_every=1 eval_every=4 eval_batches=5 threads=1", whole);
    place p;
    run_policy policy = policy_at(t, &p);
    run_sink metric;
    const run_sink copy = {.on = {[RUN_VALIDATED] = copy_folder}, .ctx = killed};
    const run_sink *const sinks[] = {&metric, &copy};
    run_result r;
    int failed;
    scion_error err;
    (void)state;
    OK(metrics_sink_open(&metric, &p.dir, &t->c, &err));
    OK(run_train(t, &policy, sinks, 2, &r, &failed, &err));
    metrics_sink_close(&metric);
    const double best = p.at.best;
    trainer_free(t);
    t = resume(whole, &p);
    assert_true(!p.at.validation_due && p.at.best == best && isfinite(best));
    trainer_free(t);

    t = resume(killed, &p);
    assert_true(t->step == t->steps && p.at.validation_due);
    snprintf(p.dir.path, sizeof p.dir.path, "%s", killed);
    OK(metrics_sink_open(&metric, &p.dir, &t->c, &err));
    OK(run_train(t, &policy, sinks, 1, &r, &failed, &err));
    metrics_sink_close(&metric);
    assert_true(r.state == RUN_DONE && p.at.best == best && !p.at.validation_due);
    trainer_free(t);
    same_curves(whole, killed); /* the validation is there once */
}

static void the_first_step_of_mars_computes_one_gradient(void **state)
{
    trainer *t = create(TINY_GPT "rule=mars accum=3", scratch("none"));
    stopper s = {0, 1000};
    const trainer_watch watch = {.stop = stop_at, .ctx = &s}; /* asked between micro-batches: twice a gradient */
    step_report report;
    scion_error err;
    (void)state;
    OK(trainer_step(t, &watch, &report, &err));
    assert_int_equal(s.asked, 2);
    OK(trainer_step(t, &watch, &report, &err));
    assert_int_equal(s.asked, 6);
    trainer_free(t);
}

/* With the average in the gradients, half a step cannot be taken back: it is gone on with. */
static void a_light_step_goes_on_where_it_was_stopped(void **state)
{
    trainer *t = create(TINY_GPT "light=1 accum=3 steps=2", scratch("none")),
            *whole = create(TINY_GPT "light=1 accum=3 steps=2", scratch("none"));
    const char *path = scratch("half.safetensors");
    stopper s = {0, 1};
    const trainer_watch watch = {.stop = stop_at, .ctx = &s};
    step_report report;
    double loss[2];
    scion_error err;
    (void)state;
    for (int i = 1; i < 3; i++) { /* stopped before each micro-batch but the first */
        s.asked = 0;
        assert_int_equal(trainer_step(t, &watch, &report, &err), SCION_ESTOPPED);
        assert_int_equal(t->micro, i);
        OK(tiny_save(t, path, &err));
        trainer_free(t);
        OK(tiny_resume(&t, path, NULL, 0, &err));
        assert_int_equal(t->micro, i);
        assert_int_equal(t->step, 0);
    }
    for (int i = 0; i < 2; i++) {
        OK(tiny_step(t, &loss[0], &err));
        OK(tiny_step(whole, &loss[1], &err));
        assert_true(loss[0] == loss[1] && t->micro == 0);
        assert_memory_equal(tiny_weights(whole), tiny_weights(t), (size_t)t->elements * sizeof(float));
    }
    trainer_free(t);
    trainer_free(whole);
}

/* A step of three micro-batches is stopped after at most two. */
static void a_step_that_is_whole_was_not_stopped(void **state)
{
    trainer *t = create(TINY_MLP "light=1 accum=3 steps=2", scratch("none")), *then = NULL;
    const char *path = scratch("whole.safetensors");
    scion_error err;
    (void)state;
    t->micro = 3;
    OK(tiny_save(t, path, &err));
    assert_int_equal(tiny_resume(&then, path, NULL, 0, &err), SCION_ESTATE);
    assert_non_null(strstr(err.message, "whole.safetensors: its micro is 3, and a step has 3"));
    assert_null(then);
    trainer_free(t);
}

static scion_status cannot_start(void *ctx, const run_event *e, scion_error *err)
{
    (void)ctx;
    (void)e;
    snprintf(err->message, sizeof err->message, "no place for metrics");
    return SCION_EINVAL;
}

static scion_status count_saving(void *ctx, const run_event *e, scion_error *err)
{
    (void)e;
    (void)err;
    ++*(int *)ctx;
    return SCION_OK;
}

/* A process that has done nothing has nothing to save, though the step that it found is half done. */
static void nothing_is_saved_where_nothing_was_done(void **state)
{
    trainer *t = create(TINY_MLP "light=1 accum=3 steps=2", scratch_dir("unsaved"));
    stopper s = {0, 1};
    int savings = 0;
    const run_sink sink = {.on = {[RUN_STARTS] = cannot_start, [RUN_SAVING] = count_saving}, .ctx = &savings};
    const run_sink *const sinks[] = {&sink};
    const trainer_watch watch = {.stop = stop_at, .ctx = &s};
    place p;
    const run_policy policy = policy_at(t, &p);
    run_result r;
    step_report report;
    scion_error err;
    (void)state;
    assert_int_equal(trainer_step(t, &watch, &report, &err), SCION_ESTOPPED);
    assert_true(t->micro > 0);
    assert_int_equal(run_train(t, &policy, sinks, 1, &r, NULL, &err), SCION_EINVAL);
    assert_string_equal(err.message, "no place for metrics");
    assert_int_equal(savings, 0);
    trainer_free(t);
}

/* ---- Data that are lost on the way -------------------------------------------------------------------------- */

/* A folder of images that is moved away after a step. */
typedef struct lost_folder {
    int64_t step;
    const char *from, *to;
} lost_folder;

static scion_status lose_folder(void *ctx, const run_event *e, scion_error *err)
{
    const lost_folder *f = ctx;
    (void)err;
    if (e->t->step == f->step)
        assert_int_equal(rename(f->from, f->to), 0);
    return SCION_OK;
}

static void make_images(const char *folder)
{
    for (int i = 0; i < 24; i++) {
        uint8_t samples[6 * 6 * 3];
        for (size_t k = 0; k < sizeof samples; k++)
            samples[k] = (uint8_t)(i * (int)k);
        const image_bytes png = make_png(6, 6, PNG_COLOR_TYPE_RGB, 8, false, samples);
        char name[16];
        snprintf(name, sizeof name, "%02d.png", i);
        scratch_put(scratch_in(scratch_in(folder, i % 2 ? "odd" : "even"), name), png.at, png.count);
        free(png.at);
    }
}

static void a_run_whose_data_are_lost_is_saved(void **state)
{
    static const char *const cases[] = {"", "accum=2 light=1 ", "deterministic=1 "};
    const char *folder = scratch_dir("images"), *away = scratch("images-away");
    (void)state;
    mkdir(scratch_in(folder, "even"), 0777);
    mkdir(scratch_in(folder, "odd"), 0777);
    make_images(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char pairs[1024], name[16];
        lost_folder lost = {4, folder, away};
        const run_sink sink = {.on = {[RUN_STEPPED] = lose_folder}, .ctx = &lost}, *const sinks[] = {&sink};
        place p;
        run_result r;
        scion_error err;
        snprintf(
            pairs, sizeof pairs,
            "model=mlp layers=3 width=24 norms=image batch=8 steps=8 image_size=6 flip=random threads=1 %sdata=%s",
            cases[i], folder);
        snprintf(name, sizeof name, "lost%zu", i);
        const char *out = scratch_dir(name);
        trainer *t = create(pairs, out), *whole = create(pairs, scratch("none"));
        const run_policy policy = policy_at(t, &p), only_steps = {.steps = 8};
        assert_int_equal(run_train(t, &policy, sinks, 1, &r, NULL, &err), SCION_EINVAL);
        assert_non_null(strstr(err.message, "can be read"));
        assert_true(r.state == RUN_FAILED && t->step >= 4 && t->step < 8); /* some were decoded ahead */
        trainer_free(t);
        assert_int_equal(rename(away, folder), 0);
        t = resume(out, &p);
        assert_true(t->step >= 4);
        OK(run_train(t, &policy, NULL, 0, &r, NULL, &err));
        OK(run_train(whole, &only_steps, NULL, 0, &r, NULL, &err));
        assert_memory_equal(tiny_weights(whole), tiny_weights(t), (size_t)t->elements * sizeof(float));
        trainer_free(t);
        trainer_free(whole);
    }
}

/* ---- Other step sizes, other runs ----------------------------------------------------------------------------- */

static void resuming_checks_the_schedule(void **state)
{
    static const char *const shorter[] = {"steps=20"}, *const lower[] = {"lr=0.001"}, *const other[] = {"seed=3"};
    trainer *t = create(TINY_MLP "steps=40 schedule=constant_linear warmup=5 decay=30", scratch("none")), *then;
    const char *path = scratch("course.safetensors");
    run_position at;
    trainer_resumed before;
    double loss;
    scion_error err;
    (void)state;
    OK(tiny_step(t, &loss, &err));
    OK(tiny_save(t, path, &err));
    assert_int_equal(tiny_resume(&then, path, shorter, 1, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "decay is 30, expected at most steps 20"));
    assert_int_equal(tiny_resume(&then, path, lower, 1, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "--force"));
    assert_int_equal(trainer_resume(&then, path, other, 1, true, NULL, &at, &before, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "init="));
    OK(trainer_resume(&then, path, lower, 1, true, NULL, &at, &before, &err));
    assert_true(before.lr_before == 0.03125 / 5 && trainer_lr(then) == 0.001 / 5 + (0.001 - 0.001 / 5) / 5 &&
                before.steps_before == 40);
    assert_string_equal(at.changes, "after step 1: lr 0.03125 -> 0.001");
    OK(trainer_save(then, &at, -1, path, &err));
    trainer_free(then);
    run_position_free(&at);
    OK(trainer_resume(&then, path, NULL, 0, false, NULL, &at, &before, &err)); /* the record stays */
    assert_string_equal(at.changes, "after step 1: lr 0.03125 -> 0.001");
    trainer_free(then);
    run_position_free(&at);
    trainer_free(t);
}

/* A new run from the weights of another: these weights, and everything else as if it were new. */
static void a_run_starts_from_the_weights_of_another(void **state)
{
    trainer *t = create(TINY_MLP "steps=3 rule=scion", scratch("none")), *then = NULL;
    const char *path = scratch("weights.safetensors");
    int64_t init_step;
    double loss;
    scion_error err;
    (void)state;
    OK(tiny_step(t, &loss, &err));
    OK(tiny_save(t, path, &err));
    config c = tiny(TINY_MLP "steps=7 rule=adamw lr=0.01");
    snprintf(c.training.init, sizeof c.training.init, "%s", path);
    OK(trainer_create(&then, &c, NULL, &init_step, &err));
    assert_memory_equal(tiny_weights(then), tiny_weights(t), (size_t)t->elements * sizeof(float));
    assert_true(then->step == 0 && init_step == 1);
    assert_true(trainer_lr(then) == 0.01);
    trainer_free(then);

    /* Bounds are counted from the weights that it started from, however large. */
    for (int64_t i = 0; i < t->elements; i++)
        tiny_weights(t)[i] *= 10;
    OK(tiny_save(t, path, &err));
    snprintf(c.optimizer.rule, sizeof c.optimizer.rule, "uscion");
    OK(tiny_create(&then, &c, &err));
    for (int64_t i = 0; i < tape_param_count(then->model.tape); i++) {
        scion_info info;
        scion_info_init(&info);
        OK(scion_optimizer_inspect(then->optimizer, i, SCION_INSPECT_NORM, &info, &err));
        assert_true(info.weight_norm <= info.bound * 1.0001);
    }
    assert_memory_equal(tiny_weights(then), tiny_weights(t), (size_t)t->elements * sizeof(float));
    trainer_free(then);

    config_set_int(&c, "width", config_int(&c, "width") * 2);
    assert_int_equal(tiny_create(&then, &c, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "width="));
    config from;
    bool trained = false;
    OK(trainer_model_of(&c, path, &from, &trained, &err));
    assert_true(trained);
    OK(tiny_create(&then, &c, &err));
    trainer_free(then);
    trainer_free(t);
}

/* ---- The folder --------------------------------------------------------------------------------------------- */

static void the_best_is_the_same_file(void **state)
{
    (void)state;
    for (int links = 0; links < 2; links++) {
        const char *dir = scratch_dir(links ? "linked" : "copied");
        struct stat best, last;
        size_t bytes[2];
        trainer *t;
        run_position end;
        no_links = links == 0;
        train_stopped(TINY_MLP "steps=4 eval_batches=2", dir, 0, &t, &end); /* the only validation is the best */
        no_links = false;
        assert_int_equal(stat(scratch_in(dir, "best.safetensors"), &best), 0);
        assert_int_equal(stat(scratch_in(dir, "step-00000004.safetensors"), &last), 0);
        assert_int_equal(best.st_ino == last.st_ino, links);
        const char *a = scratch_get(scratch_in(dir, "best.safetensors"), &bytes[0]);
        const char *b = scratch_get(scratch_in(dir, "step-00000004.safetensors"), &bytes[1]);
        assert_true(bytes[0] == bytes[1] && memcmp(a, b, bytes[0]) == 0);
        assert_int_equal(scratch_count(dir), 5); /* two checkpoints, metrics.jsonl, summary.json, mistakes.json */
        trainer_free(t);
    }
}

/* Where nothing is learned every validation has the same loss: the first of them is the best. */
static void a_tie_keeps_the_best(void **state)
{
    const char *dir = scratch_dir("tie");
    trainer *t;
    run_position end;
    checkpoint *file;
    scion_error err;
    (void)state;
    train_stopped(TINY_MLP "steps=6 lr=0 eval_every=2 eval_batches=2", dir, 0, &t, &end);
    OK(checkpoint_open(&file, scratch_in(dir, "best.safetensors"), &err));
    assert_string_equal(checkpoint_get(file, "step"), "2");
    checkpoint_close(file);
    trainer_free(t);
}

/* What stays of a linked file when its other name is replaced or removed. */
static void a_better_one_leaves_the_checkpoint(void **state)
{
    const char *dir = scratch_dir("better"), *step = scratch_in(dir, "step-00000004.safetensors");
    trainer *t;
    run_position end;
    checkpoint *file;
    scion_error err;
    (void)state;
    train_stopped(TINY_MLP "steps=4 eval_batches=2", dir, 0, &t, &end);
    t->step = 3;
    OK(trainer_save(t, &end, -1, scratch_in(dir, "best.safetensors"), &err));
    OK(checkpoint_open(&file, step, &err));
    assert_string_equal(checkpoint_get(file, "step"), "4");
    checkpoint_close(file);
    OK(checkpoint_open(&file, scratch_in(dir, "best.safetensors"), &err));
    assert_string_equal(checkpoint_get(file, "step"), "3");
    checkpoint_close(file);
    trainer_free(t);
}

/* A checkpoint may have been renamed by hand: what counts is its number. */
static void checkpoints_are_found_without_zeros(void **state)
{
    const char *dir = scratch_dir("zeros");
    char path[RUN_PATH];
    scion_error err;
    (void)state;
    scratch_text(scratch_in(dir, "step-00000003.safetensors"), "x");
    scratch_text(scratch_in(dir, "step-99.safetensors"), "x");
    OK(run_dir_latest(dir, path, &err));
    assert_string_equal(path, scratch_in(dir, "step-99.safetensors"));
    run_dir d;
    OK(run_dir_lock(&d, dir, &err));
    assert_int_equal(run_dir_newest(&d), 99);
    assert_int_equal(run_dir_set_aside(&d, 3), 1);
    run_dir_close(&d);
    assert_int_equal(access(scratch_in(dir, "step-99.safetensors.aside"), F_OK), 0);
    OK(run_dir_latest(dir, path, &err));
    assert_string_equal(path, scratch_in(dir, "step-00000003.safetensors"));
}

/* A path that is cut leads to the folder of another run. */
static void long_paths_are_refused_not_cut(void **state)
{
    const char *base = scratch_dir("long");
    char name[256], path[RUN_PATH], dir[CONFIG_TEXT];
    scion_error err;
    (void)state;
    for (size_t length = CONFIG_TEXT - 1; length <= CONFIG_TEXT; length++) {
        memset(name, 'n', sizeof name);
        name[length - strlen(base) - 1] = '\0';
        const char *run = scratch_in(base, name);
        assert_int_equal(mkdir(run, 0777), 0);
        scratch_text(scratch_in(run, "step-00000001.safetensors"), "x");
        const scion_status status = run_dir_latest(run, path, &err);
        assert_int_equal(status, length < CONFIG_TEXT ? SCION_OK : SCION_EINVAL);
        OK(run_dir_best(run, path, &err)); /* reading needs no folder to write to */
        if (status == SCION_OK) {
            run_dir_of(path, dir);
            assert_string_equal(dir, run);
            continue;
        }
        assert_int_equal(run_dir_latest(scratch_in(run, "step-00000001.safetensors"), path, &err), SCION_EINVAL);
        assert_non_null(strstr(err.message, "too long"));
        name[length - strlen(base) - 1] = 'n';
        name[250] = '\0';
        const char *below = scratch_in(run, name);
        assert_int_equal(mkdir(below, 0777), 0);
        scratch_text(scratch_in(below, "best.safetensors"), "x");
        scratch_text(scratch_in(below, "step-00000001.safetensors"), "x");
        assert_int_equal(run_dir_best(below, path, &err), SCION_EINVAL);
        assert_non_null(strstr(err.message, "too long"));
    }
    run_dir_of("/x.safetensors", dir);
    assert_string_equal(dir, "/");
    run_dir_of("x.safetensors", dir);
    assert_string_equal(dir, ".");
}

static void a_folder_that_cannot_be_locked_is_refused(void **state)
{
    run_dir d;
    scion_error err;
    (void)state;
    assert_int_equal(run_dir_lock(&d, scratch("unlocked"), &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "cannot be locked"));
    OK(run_dir_lock(&d, scratch_dir("locked"), &err));
    run_dir_close(&d);
}

/* The folder of a run after 2 of its steps: removed or moved away, and made again by somebody else. */
typedef struct swap {
    const char *moved; /* NULL: removed */
} swap;

static scion_status swap_folder(void *ctx, const run_event *e, scion_error *err)
{
    const swap *s = ctx;
    const char *dir = e->t->c.run.out;
    (void)err;
    if (e->t->step != 2)
        return SCION_OK;
    if (s->moved)
        assert_int_equal(rename(dir, s->moved), 0);
    else
        scratch_remove_tree(dir);
    assert_int_equal(mkdir(dir, 0777), 0);
    scratch_text(scratch_in(dir, "step-00000001.safetensors"), "theirs");
    scratch_text(scratch_in(dir, "best.safetensors"), "theirs");
    scratch_text(scratch_in(dir, "metrics.jsonl"), "theirs");
    return SCION_OK;
}

static void check_theirs(const char *dir)
{
    static const char *const names[] = {"step-00000001.safetensors", "best.safetensors", "metrics.jsonl"};
    assert_int_equal(scratch_count(dir), 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(scratch_get(scratch_in(dir, names[i]), NULL), "theirs");
}

/* All of a run goes into the folder that it has locked, whatever has its name now. */
static void another_folder_of_the_same_name_is_not_touched(void **state)
{
    (void)state;
    for (int moves = 0; moves < 2; moves++) {
        const char *dir = scratch_dir(moves ? "swapped" : "replaced");
        swap s = {moves ? scratch("moved") : NULL};
        trainer *t = create(TINY_MLP "steps=6 log_every=1 eval_every=1 eval_batches=2 save_every=2 keep=1", dir);
        place p;
        const run_policy policy = policy_at(t, &p);
        run_sink metric;
        const run_sink swapper = {.on = {[RUN_STEPPED] = swap_folder}, .ctx = &s};
        const run_sink *const sinks[] = {&metric, &swapper};
        run_result r;
        int failed;
        scion_error err;
        OK(run_dir_create(&p.dir, dir, &err));
        OK(metrics_sink_open(&metric, &p.dir, &t->c, &err));
        const scion_status status = run_train(t, &policy, sinks, 2, &r, &failed, &err);
        metrics_sink_close(&metric);
        check_theirs(dir);
        assert_int_equal(run_dir_moved(&p.dir), moves);
        if (moves) {
            OK(status);
            assert_string_equal(p.dir.path, s.moved);
            assert_int_equal(run_dir_newest(&p.dir), 6);
            assert_int_equal(access(scratch_in(s.moved, "summary.json"), F_OK), 0);
        } else {
            assert_int_equal(status, SCION_EINVAL);
            assert_non_null(strstr(err.message, "the folder of this run was removed or replaced"));
        }
        run_dir_close(&p.dir);
        trainer_free(t);
    }
}

static void a_run_made_while_another_waits_is_not_taken(void **state)
{
    const char *dir = scratch_dir("waited");
    run_dir first, second;
    scion_error err;
    (void)state;
    OK(run_dir_create(&first, dir, &err));
    assert_int_equal(run_dir_create(&second, dir, &err), SCION_EINVAL);
    assert_int_equal(second.fd, -1);
    scratch_text(scratch_in(dir, "step-00000001.safetensors"), "x");
    run_dir_close(&first);
    assert_int_equal(run_dir_create(&second, dir, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "already holds a run"));
}

/* Other programs read the arrays by name, with the shape of their parameter. */
static void the_optimizer_is_in_named_tensors(void **state)
{
    static const struct {
        const char *pairs, *names[3];
    } cases[] = {
        {TINY_GPT "rule=scion", {"optimizer.average.blocks.0.attn.q"}},
        {TINY_GPT "rule=scion light=1", {"optimizer.average.blocks.0.attn.q"}},
        {TINY_GPT "rule=adamw lr=0.001", {"optimizer.average.head", "optimizer.second.head"}},
        {TINY_GPT "rule=mars", {"optimizer.average.embedding", "optimizer.previous.embedding"}},
        {TINY_GPT "rule=signsgd lr=0.001", {NULL}},
    };
    const char *path = scratch("named.safetensors");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trainer *t = create(cases[i].pairs, scratch("none"));
        checkpoint *file;
        double loss;
        int named = 0;
        scion_error err;
        for (int k = 0; k < 3; k++)
            OK(tiny_step(t, &loss, &err));
        OK(tiny_save(t, path, &err));
        OK(checkpoint_open(&file, path, &err));
        for (int k = 0; checkpoint_at(file, k); k++) {
            const checkpoint_tensor *a = checkpoint_at(file, k), *w;
            if (strncmp(a->name, "optimizer.", 10) != 0)
                continue;
            w = checkpoint_find(file, strchr(a->name + 10, '.') + 1);
            assert_true(w && strcmp(a->dtype, "F32") == 0 && a->ndim == w->ndim && a->bytes == w->bytes);
            assert_memory_equal(a->shape, w->shape, (size_t)a->ndim * sizeof *a->shape);
            named++;
        }
        int arrays = 0;
        for (; arrays < 3 && cases[i].names[arrays]; arrays++)
            assert_non_null(checkpoint_find(file, cases[i].names[arrays]));
        assert_int_equal(named, arrays * tape_param_count(t->model.tape));
        assert_true(checkpoint_find(file, "optimizer")->bytes < 200 * (size_t)(1 + tape_param_count(t->model.tape)));
        checkpoint_close(file);
        trainer_free(t);
    }
}

/* A model in use has the plans and arrays of that use, and no more. */
static void each_use_plans_what_it_runs(void **state)
{
    static const struct {
        trainer_use use;
        bool eval, logits;
    } cases[] = {
        {TRAINER_EVALUATE, true, true}, {TRAINER_EVALUATE_WHOLE, true, true}, {TRAINER_CLASSIFY, false, true}};
    const char *folder = scratch_dir("classes"), *path = scratch("use.safetensors");
    char pairs[512];
    trainer *t;
    double loss;
    scion_error err;
    (void)state;
    mkdir(scratch_in(folder, "even"), 0777);
    mkdir(scratch_in(folder, "odd"), 0777);
    make_images(folder);
    snprintf(pairs, sizeof pairs, "model=mlp width=8 norms=image batch=8 steps=8 image_size=6 threads=1 data=%s",
             folder);
    t = create(pairs, scratch("none"));
    OK(tiny_step(t, &loss, &err));
    OK(tiny_save(t, path, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trainer *then;
        OK(trainer_open(&then, path, NULL, 0, cases[i].use, &err));
        assert_true(!then->eval == !cases[i].eval && !then->logits == !cases[i].logits);
        assert_true(then->size_count == 0 && !then->optimizer && !then->flats[FLAT_GRADS]);
        assert_memory_equal(tiny_weights(then), tiny_weights(t), (size_t)t->elements * sizeof(float));
        trainer_free(then);
    }
    trainer_free(t);
}

/* The steps of such a run follow from its batch and its data, which the command that opens it may change. */
static void runs_counted_in_epochs_are_opened(void **state)
{
    const char *path = scratch("epochs.safetensors"), *batch[] = {"batch=64"};
    trainer *t = create(TINY_MLP "steps=0 epochs=0.05", scratch("none")), *then = NULL;
    double loss;
    scion_error err;
    (void)state;
    while (t->step < t->steps)
        OK(tiny_step(t, &loss, &err));
    const int64_t steps = t->steps;
    assert_true(steps > 4);
    OK(tiny_save(t, path, &err));
    trainer_free(t);
    OK(trainer_open(&then, path, batch, 1, TRAINER_EVALUATE, &err));
    assert_true(then->step == steps && then->steps == steps);
    trainer_free(then);
    OK(tiny_resume(&then, path, NULL, 0, &err));
    assert_int_equal(then->steps, steps);
    trainer_free(then);

    char *text = room(20001);
    for (int i = 0; i < 20000; i++)
        text[i] = (char)('a' + i * 7 % 13);
    scratch_text(scratch("text"), text);
    config c = tiny(TINY_GPT "data_kind=chars vocab=0 steps=0 epochs=0.1");
    snprintf(c.data.path, sizeof c.data.path, "%s", scratch("text"));
    OK(tiny_create(&t, &c, &err));
    while (t->step < t->steps)
        OK(tiny_step(t, &loss, &err));
    OK(tiny_save(t, path, &err));
    trainer_free(t);
    OK(trainer_open(&then, path, NULL, 0, TRAINER_GENERATE, &err));
    assert_true(!then->eval && !then->logits && then->size_count == 0 && !then->optimizer &&
                then->memory.evaluation == 0);
    trainer_free(then);
}

static void epochs_without_end_are_refused(void **state)
{
    config c = tiny(TINY_MLP "steps=0 epochs=1e9 batch=1");
    trainer *t = NULL;
    scion_error err = {0};
    (void)state;
    c.training.epochs = 1e300;
    assert_int_equal(tiny_create(&t, &c, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "epochs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sinks_are_told_and_change_nothing),
        cmocka_unit_test(points_have_their_place),
        cmocka_unit_test(an_empty_policy_only_steps),
        cmocka_unit_test(a_run_stopped_anywhere_is_the_same_run),
        cmocka_unit_test(a_run_is_saved_before_its_validation),
        cmocka_unit_test(the_first_step_of_mars_computes_one_gradient),
        cmocka_unit_test(a_light_step_goes_on_where_it_was_stopped),
        cmocka_unit_test(a_step_that_is_whole_was_not_stopped),
        cmocka_unit_test(nothing_is_saved_where_nothing_was_done),
        cmocka_unit_test(a_run_whose_data_are_lost_is_saved),
        cmocka_unit_test(resuming_checks_the_schedule),
        cmocka_unit_test(a_run_starts_from_the_weights_of_another),
        cmocka_unit_test(the_best_is_the_same_file),
        cmocka_unit_test(a_tie_keeps_the_best),
        cmocka_unit_test(a_better_one_leaves_the_checkpoint),
        cmocka_unit_test(checkpoints_are_found_without_zeros),
        cmocka_unit_test(long_paths_are_refused_not_cut),
        cmocka_unit_test(a_folder_that_cannot_be_locked_is_refused),
        cmocka_unit_test(another_folder_of_the_same_name_is_not_touched),
        cmocka_unit_test(a_run_made_while_another_waits_is_not_taken),
        cmocka_unit_test(the_optimizer_is_in_named_tensors),
        cmocka_unit_test(each_use_plans_what_it_runs),
        cmocka_unit_test(runs_counted_in_epochs_are_opened),
        cmocka_unit_test(epochs_without_end_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
