/* Sweeps: a run of a sweep is the run that the trainer alone does; runs that diverge or cannot begin; workers over
 * a ledger; the time that runs will take. */
#include "ledger_cases.h"

#include <sys/wait.h>
#include <time.h>

#include "trainer_tests.h"
#include "sweep/sweep.h"

#define FEW "eval_batches=2 " /* of validation: the synthetic sets have many */

/* Tests of sweep_train open OpenMP regions, after which a process must not fork: they run in processes of their
 * own. */
static void apart(void (*test)(void))
{
    int status;
    const pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        test();
        _exit(0);
    }
    check(waitpid(pid, &status, 0) == pid);
    at("signal %d, exit status %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0, WEXITSTATUS(status));
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Ends the process with a sentence: cmocka's own way out leads back to the parent's. */
#define must(cond)                                                        \
    do {                                                                  \
        if (!(cond)) {                                                    \
            fprintf(stderr, "not true: %s (line %d)\n", #cond, __LINE__); \
            _exit(1);                                                     \
        }                                                                 \
    } while (0)

static ledger_run train(const char *pairs, run_curves *curves)
{
    ledger_run run = {.id = 1, .result.state = RUN_RUNNING, .c = tiny(pairs)};
    sweep_train(&run, curves, NULL, NULL, NULL);
    return run;
}

/* ---- One run ------------------------------------------------------------------------------------------- */

static void compare_with_trainer(const char *pairs, bool images)
{
    const config c = tiny(pairs);
    run_curves curves;
    const ledger_run run = train(pairs, &curves);
    const run_result *r = &run.result;
    double loss, val_loss, accuracy, smooth = 0;
    int64_t seen = 0, validations = 0;
    trainer *t;
    must(tiny_create(&t, &c, NULL) == SCION_OK);
    must(run.result.state == RUN_DONE && r->step == c.training.steps && r->steps == c.training.steps &&
         r->parameters == t->elements);
    for (int64_t i = 0; i < c.training.steps; i++) {
        const double lr = trainer_lr(t);
        must(tiny_step(t, &loss, NULL) == SCION_OK);
        smooth = i == 0 ? loss : smooth + 0.1 * (loss - smooth);
        if (c.run.eval_every > 0 &&
            t->step % c.run.eval_every == 0) { /* as the run did: it must not change what follows */
            must(trainer_evaluate(t, c.run.eval_batches, &val_loss, &accuracy, NULL) == SCION_OK);
            validations++;
        }
        while (seen < curves.point_count && isnan(curves.points[seen].loss))
            seen++;
        must(seen < curves.point_count); /* fewer than 200 steps: each is a point */
        must(curves.points[seen].step == t->step && curves.points[seen].loss == loss && curves.points[seen].lr == lr);
        seen++;
    }
    must(trainer_evaluate(t, c.run.eval_batches, &val_loss, &accuracy, NULL) == SCION_OK);
    validations += c.run.eval_every == 0 || c.training.steps % c.run.eval_every != 0;
    must(curves.point_count == c.training.steps + validations);
    must(curves.points[curves.point_count - 1].val_loss == val_loss);
    must(r->val_loss == val_loss && r->loss == smooth);
    must(images ? r->accuracy == accuracy : isnan(r->accuracy));
    must(curves.norm_count > 0 && curves.norms[curves.norm_count - 1].step == c.training.steps);
    for (int64_t i = 0; i < curves.norm_count; i++)
        must(curves.norms[i].norm > 0 && curves.norms[i].name[0]);
    must(r->seconds > 0 && r->samples_per_s > 0 && r->state_bytes >= 8 * (double)t->elements && r->peak_bytes > 0);
    trainer_free(t);
    run_curves_free(&curves);
    must(curves.points == NULL && curves.norms == NULL);
}

static void as_the_trainer(void)
{
    compare_with_trainer(TINY_GPT FEW "steps=30 eval_every=0 threads=1", false);
    compare_with_trainer(TINY_GPT FEW "steps=20 eval_every=8 threads=1 rule=adamw lr=0.001 boundary_init=0", false);
    compare_with_trainer(TINY_MLP FEW "steps=20 eval_every=10 threads=1", true);
}

static void a_run_is_what_the_trainer_does(void **state)
{
    (void)state;
    apart(as_the_trainer);
}

/* Curves of long runs are thinned: each point is the mean since the last one, and the last step has one. */
static void long_curve(void)
{
    run_curves curves;
    const ledger_run run = train(TINY_MLP FEW "steps=1003 width=8 batch=4 threads=1 eval_every=0", &curves);
    must(run.result.state == RUN_DONE);
    must(curves.point_count >= 200 && curves.point_count <= 210);
    for (int64_t i = 1; i < curves.point_count; i++)
        must(curves.points[i].step >= curves.points[i - 1].step);
    must(curves.points[curves.point_count - 2].step == 1003 && curves.points[curves.point_count - 1].step == 1003);
    run_curves_free(&curves);
}

static void curves_of_long_runs_are_thinned(void **state)
{
    (void)state;
    apart(long_curve);
}

/* Step sizes that no network survives; long before the end it is given up. */
static void huge_rates(void)
{
    static const char *const pairs[] = {
        TINY_MLP FEW "rule=adamw lr=1e6 steps=2000 threads=1",
        TINY_MLP FEW "rule=sgd lr=1e6 steps=2000 threads=1",
        TINY_GPT FEW "rule=sgd lr=1e6 steps=2000 threads=1",
    };
    for (int i = 0; i < COUNT_OF(pairs); i++) {
        run_curves curves;
        const ledger_run run = train(pairs[i], &curves);
        fprintf(stderr, "%s: %s after %lld steps: %s\n", pairs[i], run_state_name(run.result.state),
                (long long)run.result.step, run.result.message);
        must(run.result.state == RUN_DIVERGED);
        must(run.result.step < 100 && run.result.message[0]);
        must(isnan(run.result.val_loss));
        run_curves_free(&curves);
    }
}

static void huge_rates_diverge_and_stop_early(void **state)
{
    (void)state;
    apart(huge_rates);
}

/* Steepest descent with such radii leaves what a float can hold: the weights are not finite after the only step,
 * whose own loss was. */
static void bad_end(void)
{
    run_curves curves;
    const ledger_run run =
        train(TINY_GPT FEW "rule=ssd lr=1e6 radius_first=1e-9 radius_hidden=1e9 radius_last=1e9 zero_init=1 steps=1 "
                           "threads=1",
              &curves);
    fprintf(stderr, "%s: %s\n", run_state_name(run.result.state), run.result.message);
    must(run.result.state == RUN_DIVERGED && run.result.message[0]);
    run_curves_free(&curves);
}

static void a_validation_loss_that_is_no_number_is_divergence(void **state)
{
    (void)state;
    apart(bad_end);
}

static void no_data(void)
{
    static const struct {
        const char *pairs, *says;
    } cases[] = {
        {TINY_GPT FEW "data_kind=chars data=absent-file.txt", "absent-file.txt"},
        {TINY_MLP FEW "rule=adamw light=1", "light"}, /* what config_check refuses */
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        run_curves curves;
        const ledger_run run = train(cases[i].pairs, &curves);
        must(run.result.state == RUN_FAILED && strstr(run.result.message, cases[i].says));
        must(curves.point_count == 0 && isnan(run.result.loss) && isnan(run.result.val_loss));
        run_curves_free(&curves);
    }
}

static void a_run_that_cannot_begin_has_failed(void **state)
{
    (void)state;
    apart(no_data);
}

static bool stop_at_third(void *ctx)
{
    return ++*(int *)ctx == 3;
}

/* The run asks after every step; it stops, and is as it was. */
static void ask(void)
{
    ledger_run run = {.id = 1, .result.state = RUN_RUNNING, .c = tiny(TINY_MLP FEW "steps=100000000 threads=1")};
    run_curves curves;
    int asked = 0;
    sweep_train(&run, &curves, stop_at_third, NULL, &asked);
    must(asked == 3 && run.result.state == RUN_RUNNING && run.result.step == 3 && run.result.step < run.result.steps);
    run_curves_free(&curves);
}

static void a_run_that_is_stopped_is_still_running(void **state)
{
    (void)state;
    apart(ask);
}

/* ---- Workers ------------------------------------------------------------------------------------------- */

static void fill(const char *path, const char *pairs, int seeds)
{
    ledger *l = open_new(path);
    config c = tiny(pairs);
    scion_error err;
    for (int i = 1; i <= seeds; i++) {
        c.training.seed = (uint64_t)i;
        check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
    }
    ledger_close(l);
}

static ledger_run *results(const char *path, int64_t *count)
{
    ledger *l;
    ledger_run *runs;
    scion_error err;
    check_ok(ledger_open(&l, path, false, &err), &err);
    check_ok(ledger_runs(l, &runs, count, &err), &err);
    ledger_close(l);
    return runs;
}

static void count_shows(void *context, const sweep_progress *p)
{
    check(p->runs != NULL && p->run_count > 0);
    (*(int *)context)++;
}

/* Any number of jobs gives the same losses: each run has its own process, and threads change no bit. */
static void jobs_change_no_loss(void **state)
{
    double losses[6] = {0};
    (void)state;
    for (int jobs = 1; jobs <= 3; jobs++) {
        char *path = scratch("jobs.db");
        sweep_progress end;
        int64_t count;
        int shows = 0;
        scion_error err;
        fill(path, TINY_MLP FEW "steps=10", 6);
        const sweep_options o = {.jobs = jobs, .threads = 1, .show = count_shows, .context = &shows};
        check_ok(sweep_work(path, &o, &end, &err), &err);
        check(end.count[RUN_DONE] == 6 && end.count[RUN_WAITING] == 0 && end.runs == NULL && shows > 0);
        ledger_run *runs = results(path, &count);
        check(count == 6);
        for (int i = 0; i < 6; i++) {
            at("jobs %d, run %d", jobs, i + 1);
            check(runs[i].result.state == RUN_DONE && runs[i].attempts == 1 && runs[i].result.val_loss > 0);
            check(jobs == 1 || runs[i].result.val_loss == losses[i]);
            losses[i] = runs[i].result.val_loss;
        }
        free(runs);
        check_ok(sweep_work(path, &o, &end, &err), &err); /* nothing is left */
        check(end.count[RUN_DONE] == 6);
    }
}

static void bad_runs_do_not_stop_a_sweep(void **state)
{
    char *path = scratch("bad.db");
    config c = tiny(TINY_MLP FEW "steps=10 data_kind=auto data=absent-file");
    sweep_progress end;
    ledger *l;
    scion_error err;
    (void)state;
    fill(path, TINY_MLP FEW "steps=10", 1);
    check_ok(ledger_open(&l, path, false, &err), &err);
    check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
    c = tiny(TINY_MLP FEW "rule=sgd lr=1e6");
    check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
    ledger_close(l);
    const sweep_options o = {.threads = 1};
    check_ok(sweep_work(path, &o, &end, &err), &err);
    check(end.count[RUN_DONE] == 1 && end.count[RUN_FAILED] == 1 && end.count[RUN_DIVERGED] == 1);
}

static void a_bad_ledger_is_told(void **state)
{
    const sweep_options o = {.threads = 1};
    char *path = scratch("text.db");
    scion_error err = {0};
    (void)state;
    scratch_text(path,
                 "no ledger, but a text that is long enough not to be taken for an empty file, as it were, or a "
                 "file that is being written");
    check_status(sweep_work(path, &o, NULL, &err), SCION_EINVAL, &err);
    at("%s", err.message);
    check(strstr(err.message, "text.db is not a ledger") != NULL);
}

static double stop_time;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool stop(void)
{
    return now() > stop_time;
}

/* Runs of a sweep that is stopped wait again, and have lost no attempt. */
static void a_stopped_run_waits_again(void **state)
{
    char *path = scratch("stopped.db");
    sweep_progress end;
    int64_t count;
    scion_error err;
    (void)state;
    fill(path, TINY_MLP FEW "steps=100000000", 3);
    stop_time = now() + 0.3;
    const sweep_options o = {.jobs = 2, .threads = 1, .stopped = stop};
    check_ok(sweep_work(path, &o, &end, &err), &err);
    check(end.count[RUN_WAITING] == 3 && end.count[RUN_RUNNING] == 0);
    ledger_run *runs = results(path, &count);
    for (int i = 0; i < 3; i++)
        check(runs[i].result.state == RUN_WAITING && runs[i].attempts == 0);
    free(runs);
}

/* A sweep that is about some runs of a ledger runs these, counts these and shows these. */
static void a_sweep_runs_what_it_is_about(void **state)
{
    char *path = scratch("about.db");
    const int64_t ids[] = {2, 5};
    sweep_progress end;
    int64_t count;
    scion_error err;
    (void)state;
    fill(path, TINY_MLP FEW "steps=10", 6);
    const sweep_options o = {.only = ids, .only_count = 2, .jobs = 2, .threads = 1};
    check_ok(sweep_work(path, &o, &end, &err), &err);
    check(end.count[RUN_DONE] == 2 && end.count[RUN_WAITING] == 0 && end.run_count == 2);
    ledger_run *runs = results(path, &count);
    for (int i = 0; i < 6; i++)
        check(runs[i].result.state == (i == 1 || i == 4 ? RUN_DONE : RUN_WAITING));
    free(runs);
}

/* Stops the sweep when a run is under way and the time left is between two values. */
typedef struct expected_left {
    double above, below;
    bool seen;
} expected_left;

static void look_at_left(void *context, const sweep_progress *p)
{
    expected_left *e = context;
    if (p->count[RUN_DONE] > 0 || p->count[RUN_RUNNING] == 0 || !(p->left > e->above && p->left < e->below))
        return;
    e->seen = true;
    stop_time = 0;
}

/* The time that is left is known before a run has ended: from the steps of one under way. */
static void the_time_left_is_known_while_the_first_run_goes_on(void **state)
{
    char *path = scratch("left.db");
    expected_left e = {.above = 0, .below = 1e9};
    scion_error err;
    (void)state;
    fill(path, TINY_MLP FEW "steps=100000000", 3);
    stop_time = now() + 20;
    const sweep_options o = {
        .threads = 1, .forecast = 1e12, .stopped = stop, .show = look_at_left, .context = &e}; /* it is not needed */
    check_ok(sweep_work(path, &o, NULL, &err), &err);
    check(e.seen);
}

/* Short runs do not say how long a longer one will take, where it was measured. */
static void the_time_left_is_the_forecast_until_the_longest_run_begins(void **state)
{
    char *path = scratch("forecast.db");
    expected_left e = {.above = 1e12 - 1000, .below = 1e12};
    scion_error err;
    (void)state;
    const config both[] = {tiny(TINY_MLP FEW "steps=100000000"), tiny(TINY_MLP FEW "steps=200000000")};
    ledger *l = open_new(path);
    check_ok(ledger_add(l, LEDGER_TRAINING, both, 2, NULL, &err), &err);
    ledger_close(l);
    stop_time = now() + 20;
    const sweep_options o = {.threads = 1, .forecast = 1e12, .stopped = stop, .show = look_at_left, .context = &e};
    check_ok(sweep_work(path, &o, NULL, &err), &err);
    check(e.seen);
}

static void no_run_begins_when_the_time_is_up(void **state)
{
    char *path = scratch("late.db");
    sweep_progress end;
    scion_error err;
    (void)state;
    fill(path, TINY_MLP FEW "steps=10", 3);
    const sweep_options o = {.threads = 1, .seconds = 1e-9};
    check_ok(sweep_work(path, &o, &end, &err), &err);
    check(end.count[RUN_WAITING] == 3 && end.count[RUN_DONE] == 0);
}

/* ---- Estimates ----------------------------------------------------------------------------------------- */

static double estimate(const config *points, int64_t count, int jobs)
{
    double seconds = NAN;
    scion_error err;
    check_ok(sweep_estimate(points, count, jobs, 1, &seconds, &err), &err);
    return seconds;
}

static void estimates_grow_with_the_work(void **state)
{
    config points[8];
    double seconds;
    scion_error err = {0};
    (void)state;
    for (int i = 0; i < 8; i++)
        points[i] = tiny(TINY_MLP FEW "steps=1"); /* fewer than are timed */
    const double one = estimate(points, 1, 1);
    check(one > 0 && isfinite(one));
    points[1].training.steps = 1000000; /* of the same size, so of the same measurement */
    seconds = estimate(points, 2, 1);
    at("%g and %g seconds", one, seconds);
    check(seconds > 100 * one);
    points[1].training.steps = 0;
    points[1].training.epochs = 1e6;
    config_set_int(&points[1], "width", 32); /* another measurement */
    check(estimate(points, 2, 1) > 100 * one);
    check(estimate(points, 0, 1) == 0);
    check(estimate(points + 2, 1, 4) > 0); /* more jobs than threads */
    points[3] = tiny(TINY_GPT FEW "data_kind=chars data=absent-file.txt");
    check_status(sweep_estimate(points, 4, 1, 1, &seconds, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "absent-file.txt") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_run_is_what_the_trainer_does),
        LAW(curves_of_long_runs_are_thinned),
        LAW(huge_rates_diverge_and_stop_early),
        LAW(a_validation_loss_that_is_no_number_is_divergence),
        LAW(a_run_that_cannot_begin_has_failed),
        LAW(a_run_that_is_stopped_is_still_running),
        LAW(jobs_change_no_loss),
        LAW(bad_runs_do_not_stop_a_sweep),
        LAW(a_bad_ledger_is_told),
        LAW(a_stopped_run_waits_again),
        LAW(a_sweep_runs_what_it_is_about),
        LAW(the_time_left_is_known_while_the_first_run_goes_on),
        LAW(the_time_left_is_the_forecast_until_the_longest_run_begins),
        LAW(no_run_begins_when_the_time_is_up),
        LAW(estimates_grow_with_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
