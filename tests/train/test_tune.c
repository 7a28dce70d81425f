/* scion tune: candidates, successive halving on losses that are synthetic, the runs of a rung, and the file at the
 * end. */
#include "scratch.h"
#include "tiny.h"

#include "config/config.h"
#include "tune/tune.h"

/* ---- Candidates ---------------------------------------------------------------------------------------- */

static tune_space space_of(const char *pairs)
{
    const config c = tiny(pairs);
    tune_space s;
    scion_error err;
    OK(tune_space_make(&s, &c, &err));
    return s;
}

static bool same(const tune_point *a, const tune_point *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void candidates_are_distinct_and_on_the_grid(void **state)
{
    const tune_space s = space_of(TINY_GPT "rule=scion lr=2^-5");
    const tune_point own = {{0}};
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tune_point p[100], again[100], other[100];
        int times[9] = {0};
        at("seed %llu", (unsigned long long)seed);
        check(tune_candidates(&s, seed, p, 100) == 100);
        check(tune_candidates(&s, seed, again, 27) == 27);
        check(tune_candidates(&s, seed + 1, other, 27) == 27);
        check(same(&p[0], &own));
        for (int i = 0; i < 100; i++) {
            for (int a = 0; a < TUNE_AXES; a++)
                check(p[i].power[a] >= s.low[a] && p[i].power[a] <= s.high[a]);
            for (int k = 0; k < i; k++)
                check(!same(&p[i], &p[k]));
        }
        check(memcmp(p, again, sizeof *p * 27) == 0); /* fewer are the first of more */
        check(memcmp(p, other, sizeof *p * 27) != 0);
        for (int i = 0; i < 27; i++)
            times[p[i].power[TUNE_LR] + 4]++;
        for (int k = 0; k < 9; k++) /* 26 draws beside the preset's own are nearly three rounds of nine */
            check(times[k] >= 2 && times[k] <= 4);
    }
}

static void a_small_space_is_searched_whole(void **state)
{
    const tune_space s = space_of(TINY_GPT "rule=adamw boundary_init=0 lr=2^-8");
    const tune_space wide = space_of(TINY_GPT "rule=scion lr=2^-5");
    tune_point *all = room(TUNE_MAX_CANDIDATES * sizeof *all);
    tune_point p[27];
    int times[9] = {0};
    (void)state;
    check(tune_candidates(&s, 1, p, 27) == 9);
    for (int i = 0; i < 9; i++)
        times[p[i].power[TUNE_LR] + 4]++;
    for (int k = 0; k < 9; k++)
        check(times[k] == 1);
    check(tune_space_size(&wide) == 9 * 5 * 5 * 5);
    check(tune_candidates(&wide, 1, all, TUNE_MAX_CANDIDATES) == tune_space_size(&wide));
}

/* ---- Halving ------------------------------------------------------------------------------------------- */

/* A convex loss with its minimum at `best`, to which a short run adds as much as one step of the grid in lr is
 * worth: it wants larger steps. */
typedef struct valley {
    tune_point best;
    double seconds;      /* of a run of the first rung */
    int diverges;        /* from this power of lr on */
    int64_t measured[8]; /* trials by rung */
    int64_t limit;       /* trials that there is time for */
    bool fails;
} valley;

static double valley_loss(const valley *b, const tune_point *p, int64_t share)
{
    double loss = 2 + 0.1 * (double)(share - 1);
    for (int a = 0; a < TUNE_AXES; a++) {
        const double x = p->power[a] - b->best.power[a] - (a == TUNE_LR && share > 1 ? 1 : 0);
        loss += 0.1 * (a + 1) * x * x;
    }
    return loss;
}

static scion_status measure(void *context, tune *t, int64_t first, int64_t count, scion_error *err)
{
    valley *b = context;
    (void)err;
    for (int64_t i = first; i < first + count; i++) {
        tune_trial *trial = &t->trials[i];
        const int64_t share = tune_share(t, trial->rung);
        if (b->limit-- <= 0) {
            t->time_up = true;
            continue;
        }
        trial->seconds = b->seconds * (double)tune_share(t, 0) / (double)share;
        b->measured[trial->rung]++;
        trial->state = b->fails ? RUN_FAILED : trial->at.power[TUNE_LR] >= b->diverges ? RUN_DIVERGED : RUN_DONE;
        trial->loss = trial->state == RUN_DONE       ? valley_loss(b, &trial->at, share)
                      : trial->state == RUN_DIVERGED ? INFINITY
                                                     : NAN;
        if (b->fails)
            snprintf(t->failure, sizeof t->failure, "absent.txt: cannot open");
    }
    return SCION_OK;
}

static tune tune_of(const char *pairs)
{
    tune t;
    scion_error err;
    tune_init(&t);
    t.base = tiny(pairs);
    OK(tune_space_make(&t.space, &t.base, &err));
    return t;
}

static valley valley_at(int lr, int first, int hidden, int last)
{
    return (valley){.best = {{lr, first, hidden, last}}, .seconds = 1, .diverges = 1000, .limit = 1 << 30};
}

static const char wide[] = TINY_GPT "rule=scion lr=2^-8", narrow[] = TINY_GPT "rule=adamw boundary_init=0 lr=2^-8";

/* All points of the grid as candidates: the minimum itself. */
static void the_minimum_of_the_grid_is_found(void **state)
{
    scion_error err;
    (void)state;
    for (int lr = -3; lr <= 3; lr += 3)
        for (int radius = -2; radius <= 2; radius++) {
            tune t = tune_of(wide);
            valley b = valley_at(lr, radius, -radius, radius);
            t.candidates = TUNE_MAX_CANDIDATES;
            at("minimum at lr %d, radius %d", lr, radius);
            check_ok(tune_search(&t, measure, &b, &err), &err);
            check(same(&t.trials[t.best].at, &b.best));
            check(t.settled && !t.time_up);
            tune_free(&t);
        }
}

/* A few of them: near the minimum in lr, the value that matters most, wherever it lies: the neighbours in lr are
 * walked to, also beyond the grid. */
static void few_candidates_find_lr(void **state)
{
    scion_error err;
    (void)state;
    for (int lr = -6; lr <= 6; lr++) {
        tune one = tune_of(narrow), four = tune_of(wide);
        valley b = valley_at(lr, 0, 0, 0), c = valley_at(lr, 1, -1, 2);
        at("minimum at lr %d", lr);
        check_ok(tune_search(&one, measure, &b, &err), &err);
        check_ok(tune_search(&four, measure, &c, &err), &err);
        check(one.trials[one.best].at.power[TUNE_LR] == lr && one.settled);
        check(four.trials[four.best].at.power[TUNE_LR] == lr && four.settled);
        check(one.trials[one.best].rung == 2);
        for (int64_t i = 0; i < four.count; i++)
            check(four.trials[i].rung < 2 || four.trials[i].loss >= four.trials[four.best].loss);
        tune_free(&one);
        tune_free(&four);
    }
}

static void thirds_go_on(void **state)
{
    tune t = tune_of(wide);
    valley b = valley_at(2, 1, 1, 1);
    scion_error err;
    int64_t order[100];
    (void)state;
    check_ok(tune_search(&t, measure, &b, &err), &err);
    check(b.measured[0] == 27 && b.measured[1] == 9);
    check(b.measured[2] >= 4 + 2 && b.measured[2] <= 4 + 2 + TUNE_MOVES);
    check(tune_share(&t, 0) == 9 && tune_share(&t, 1) == 3 && tune_share(&t, 2) == 1);
    check(t.own >= 0 && same(&t.trials[t.own].at, &(tune_point){{0}}) && t.trials[t.own].rung == 2);
    check(tune_order(&t, 0, order) == 27);
    for (int i = 0; i < 27; i++) /* the best nine went on, and no other but the preset's own */
        check((tune_find(&t, &t.trials[order[i]].at, 1) >= 0) == (i < 9));
    tune_free(&t);
}

static void what_diverges_comes_last(void **state)
{
    tune t = tune_of(wide);
    valley b = valley_at(4, 0, 0, 0);
    scion_error err;
    int64_t order[100];
    (void)state;
    b.diverges = 2; /* short of the minimum: the best is the largest that does not */
    check_ok(tune_search(&t, measure, &b, &err), &err);
    check(t.trials[t.best].at.power[TUNE_LR] == 1 && t.settled);
    const int64_t count = tune_order(&t, 0, order);
    for (int64_t i = 1; i < count; i++)
        check(!isinf(t.trials[order[i - 1]].loss) || isinf(t.trials[order[i]].loss));
    tune_free(&t);
    t = tune_of(wide);
    b.diverges = -100;
    check(tune_search(&t, measure, &b, &err) == SCION_EINVAL);
    check(strstr(err.message, "all 27 runs diverged") != NULL);
    tune_free(&t);
    t = tune_of(wide);
    b.fails = true;
    check(tune_search(&t, measure, &b, &err) == SCION_EINVAL);
    check(strstr(err.message, "absent.txt: cannot open") != NULL);
    tune_free(&t);
}

/* 27 candidates of a second: 27 + 9 x 3 + (3 + 1) x 9 + 2 x 9 = 108 seconds. */
static void a_budget_drops_candidates(void **state)
{
    scion_error err;
    (void)state;
    for (int jobs = 1; jobs <= 4; jobs++)
        for (double budget = 30; budget < 150; budget += 10) {
            tune t = tune_of(wide);
            valley b = valley_at(0, 0, 0, 0);
            t.budget = budget;
            t.jobs = jobs;
            at("%d jobs, budget %g", jobs, budget);
            if (jobs == 1)
                check(tune_estimate(&t, 27, 1) == 108);
            const bool enough = tune_estimate(&t, 27, 1) <= budget;
            check_ok(tune_search(&t, measure, &b, &err), &err);
            check((t.candidates == 27) == enough);
            check(t.candidates == 3 || t.candidates == jobs || tune_estimate(&t, t.candidates, 1) <= budget);
            check(b.measured[0] == t.candidates);
            tune_free(&t);
        }
}

/* Time that ends early leaves the best of what was run; the whole search is 27 + 9 + 3 trials and a neighbour in lr
 * that is not among them. */
static void what_there_is_counts_when_the_time_is_up(void **state)
{
    scion_error err;
    int64_t all = 40;
    (void)state;
    for (int64_t limit = 0; limit <= all; limit++) {
        tune t = tune_of(wide);
        valley b = valley_at(0, 0, 0, 0);
        b.limit = limit;
        at("time for %lld trials", (long long)limit);
        const scion_status status = tune_search(&t, measure, &b, &err);
        check(status == (limit > 0 ? SCION_OK : SCION_EINVAL));
        check(t.time_up == (limit < all));
        check(t.settled == (limit == all));
        if (limit > 0)
            check(t.trials[t.best].rung == (limit <= 27 ? 0 : limit <= 36 ? 1 : 2));
        tune_free(&t);
    }
}

/* ---- The runs ------------------------------------------------------------------------------------------ */

/* A short run is a whole run: the parts of its schedule keep their share, and every rung's configuration is right. */
static void short_runs_are_whole_runs(void **state)
{
    static const char *const schedules[] = {"schedule=linear",
                                            "schedule=constant_linear decay=300 warmup=100",
                                            "schedule=constant_linear decay=999",
                                            "schedule=cosine warmup=990 lr_end=2^-10 lr_start=2^-9",
                                            "schedule=constant_linear decay=1 warmup=999",
                                            "schedule=constant_linear decay=1450/5100 warmup=5%"};
    const tune_point up = {{3, 0, 0, 0}};
    scion_error err;
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(schedules); i++)
        for (int64_t share = 1; share <= 2187; share *= 3) {
            char pairs[512];
            snprintf(pairs, sizeof pairs, TINY_GPT "rule=scion lr=2^-8 %s", schedules[i]);
            config base = tiny(pairs);
            base.training.steps = 1000;
            at("%s, 1/%lld of 1000 steps", schedules[i], (long long)share);
            const config c = tune_config(&base, &up, share);
            check_ok(config_check(&c, &err), &err);
            check(c.training.steps == (1000 / share > 0 ? 1000 / share : 1));
            check(c.training.lr == 0x1p-5 && c.training.lr_end == 8 * base.training.lr_end);
            check(c.training.lr_start == (base.training.lr_start > 0 ? 8 : 1) * base.training.lr_start);
            const scion_schedule now = training_schedule(&c.training, c.training.steps),
                                 before = training_schedule(&base.training, 1000);
            check(now.decay <= before.decay / share + 1 && now.warmup <= before.warmup / share + 1);
        }
    config images = tiny(TINY_MLP);
    images.training.steps = 0;
    images.training.epochs = 18;
    check(tune_config(&images, &up, 9).training.epochs == 2);
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static void the_file_reads_back(void **state)
{
    tune t = tune_of(wide);
    valley b = valley_at(1, 0, -1, 2);
    scion_error err;
    char *path = scratch("tuned.ini");
    config target = t.base, got;
    const config_option *o;
    (void)state;
    config_set_int(&target, "width", 128);
    target.training.threads = 2;
    snprintf(target.data.path, sizeof target.data.path, "a text; with a semicolon.txt");
    snprintf(target.preset, sizeof target.preset, "shakespeare");
    t.candidates = TUNE_MAX_CANDIDATES;
    check_ok(tune_search(&t, measure, &b, &err), &err);
    check_ok(tune_write(&t, &target, "scion tune\nwidth=7", path, &err), &err);
    config_init(&got);
    check_ok(config_load(&got, path, &err), &err);
    const config want = tune_result(&t, &target);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (strcmp(o->key, "preset") != 0) {
            at("%s", o->key);
            check(config_same(&got, &want, o));
        }
    check(config_int(&got, "width") == 128 && got.training.threads == 0 && got.run.out[0] == '\0');
    check(got.training.lr == 0x1p-7 && got.optimizer.radius_first == 1 && got.optimizer.radius_hidden == 1.5 &&
          got.optimizer.radius_last == 40);
    const char *text = scratch_get(path, NULL);
    check(strncmp(text, "; shakespeare at width 128, tuned at width 32\n", 46) == 0);
    check(strstr(text, "scion tune width=7\n") != NULL);
    check(strstr(text, "found          lr 2^-7       2.0000") != NULL);
    check(strstr(text, "lr x 2         lr 2^-6       2.1000") != NULL);
    check(strstr(text, "the preset's   lr 2^-8") != NULL);
    check(strstr(text, "Carried over from width 32 to 128: a step of rule scion has the same size") != NULL);
    check(strstr(text, "radius_last is at the edge") != NULL);
    tune_free(&t);
}

/* A value that an .ini file cannot hold is refused, and nothing is left behind. */
static void a_file_that_would_not_read_back_is_not_written(void **state)
{
    tune t = tune_of(wide);
    valley b = valley_at(0, 0, 0, 0);
    scion_error err;
    config target = t.base;
    char *folder = scratch("empty"), *path = scratch("empty/tuned.ini");
    (void)state;
    check(mkdir(folder, 0777) == 0);
    snprintf(target.data.path, sizeof target.data.path, "a text ; with a comment.txt");
    check_ok(tune_search(&t, measure, &b, &err), &err);
    check(tune_write(&t, &target, "scion tune", path, &err) == SCION_EINVAL);
    check(strstr(err.message, "cannot hold this data") != NULL);
    check(scratch_count(folder) == 0);
    check(tune_write(&t, &target, "scion tune", scratch("none/tuned.ini"), &err) == SCION_EINVAL);
    tune_free(&t);
}

/* Three seeds of four trials: the second overlaps the winner, the third does not, the fourth is of another rung. */
static void trials_are_told_apart_by_their_seeds(void **state)
{
    tune_trial trials[4] = {{.rung = 1}, {.rung = 1}, {.rung = 1}, {.rung = 0}};
    static const double losses[4][3] = {{2.00, 2.01, 2.02}, {2.01, 2.02, 2.03}, {2.11, 2.10, 2.12}, {1, 1, 1}};
    tune t = {.trials = trials, .count = 4, .best = 0, .seeds = 3};
    char text[32];
    (void)state;
    for (int i = 0; i < 12; i++)
        stat_add(&trials[i / 3].losses, losses[i / 3][i % 3]);
    for (int i = 0; i < 4; i++)
        trials[i].loss = trials[i].losses.mean;
    check(tune_ties(&t) == 1);
    check(strcmp(tune_loss_text(&trials[2], text), "2.1100(100)") == 0);
    for (int i = 0; i < 4; i++) { /* one seed */
        trials[i].losses = (stat_sample){0};
        stat_add(&trials[i].losses, trials[i].loss);
    }
    check(tune_ties(&t) == -1);
    check(strcmp(tune_loss_text(&trials[2], text), "2.1100") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(trials_are_told_apart_by_their_seeds),
        LAW(candidates_are_distinct_and_on_the_grid),
        LAW(a_small_space_is_searched_whole),
        LAW(the_minimum_of_the_grid_is_found),
        LAW(few_candidates_find_lr),
        LAW(thirds_go_on),
        LAW(what_diverges_comes_last),
        LAW(a_budget_drops_candidates),
        LAW(what_there_is_counts_when_the_time_is_up),
        LAW(short_runs_are_whole_runs),
        LAW(the_file_reads_back),
        LAW(a_file_that_would_not_read_back_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
