/* The paper's figures: every grid can be made and is what the figure promises; shorter runs keep their shares; the
 * judges, on ledgers that are synthetic. */
#include "ledger_cases.h"

#include "config/config.h"
#include "reproduce/reproduce.h"

static config *points_of(const reproduce_figure *f, bool full, int64_t *count)
{
    config *points;
    scion_error err;
    at("%s, full %d", f->name, full);
    check_ok(reproduce_points(f, full, "x.txt", &points, count, &err), &err);
    config *copy = room((size_t)(*count + 1) * sizeof *copy);
    if (*count > 0) /* a figure that is no sweep has none */
        memcpy(copy, points, (size_t)*count * sizeof *copy);
    free(points);
    return copy;
}

/* Distinct values of a number among those runs of `points` that have this rule and these norms. */
static int64_t distinct(const config *points, int64_t count, const config *like, size_t offset, double *low,
                        double *high)
{
    double seen[64];
    int64_t found = 0;
    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(points[i].optimizer.rule, like->optimizer.rule) != 0 ||
            strcmp(points[i].optimizer.norms, like->optimizer.norms) != 0)
            continue;
        const char *from = (const char *)&points[i] + offset;
        const double value = offset == offsetof(config, training.lr) ? *(const double *)(const void *)from
                                                                     : (double)*(const int64_t *)(const void *)from;
        int64_t k = 0;
        while (k < found && seen[k] != value)
            k++;
        if (k == found)
            seen[found++] = value;
        check(found < 64);
        *low = fmin(*low, value);
        *high = fmax(*high, value);
    }
    return found;
}

/* The factor that the judges allow is the library's. */
static void the_overshoot_is_the_librarys(void **state)
{
    float weight[16] = {0}, grad[16] = {0};
    scion_param p;
    scion_options o;
    scion_optimizer *opt;
    scion_error err;
    scion_info info = {.size = sizeof info};
    (void)state;
    scion_param_init(&p);
    p.name = "w";
    p.ndim = 2;
    p.shape[0] = p.shape[1] = 4;
    p.weight = weight;
    p.grad = grad;
    p.role = SCION_ROLE_HIDDEN;
    p.norm = SCION_NORM_SPECTRAL;
    scion_options_init(&o, SCION_RULE_SCION);
    check_ok(scion_optimizer_create(&opt, &o, &p, 1, &err), &err);
    check_ok(scion_optimizer_inspect(opt, 0, 0, &info, &err), &err);
    check(info.overshoot == reproduce_overshoot);
    scion_optimizer_free(opt);
}

/* ---- The table ----------------------------------------------------------------------------------------- */

static void every_figure_can_be_made(void **state)
{
    const reproduce_figure *f;
    scion_error err;
    int figures = 0;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++, figures++) {
        at("%s", f->name);
        check(reproduce_find(f->name) == f);
        check(f->title[0] && f->claim[0] && (f->judge != NULL) != (f->make != NULL));
        for (int full = 0; full < 2 && f->judge; full++) {
            int64_t count;
            config *points = points_of(f, full, &count);
            check(count > 0);
            for (int64_t k = 0; k < count; k++) {
                check(strcmp(points[k].data.path, "x.txt") == 0);
                check_ok(config_check(&points[k], &err), &err);
            }
        }
    }
    check(figures == 9);
    check(reproduce_find("nonsense") == NULL && reproduce_at(-1) == NULL);
}

/* No configuration twice, or the ledger would have fewer runs than were promised. */
static void no_run_is_there_twice(void **state)
{
    const reproduce_figure *f;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++) {
        ledger *l = open_new(scratch("figure.db"));
        int64_t count, added;
        scion_error err;
        config *points = points_of(f, false, &count);
        check_ok(ledger_add(l, LEDGER_TRAINING, points, count, &added, &err), &err);
        check(added == count);
        ledger_close(l);
    }
}

static void transfer_figures_have_widths_and_rates(void **state)
{
    const reproduce_figure *f;
    int figures = 0;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++) {
        if (f->judge != reproduce_judge_transfer)
            continue;
        figures++;
        for (int full = 0; full < 2; full++) {
            int64_t count, like = 0;
            double low, high;
            config *points = points_of(f, full, &count);
            for (like = 0; like < count; like += 1 + count / 50) {
                at("%s, full %d: %s %s", f->name, full, points[like].optimizer.rule, points[like].optimizer.norms);
                const int64_t widths =
                    distinct(points, count, &points[like], config_find("width")->offset, &low, &high);
                check(widths >= 4 && high >= (full ? 5 : 8) * low); /* the paper's NanoGPT: 512 to 2560 */
                const int64_t rates =
                    distinct(points, count, &points[like], offsetof(config, training.lr), &low, &high);
                check(rates >= 10 && high >= 512 * low);
            }
        }
    }
    check(figures == 4);
}

static void batches_have_the_same_tokens(void **state)
{
    const reproduce_figure *f = reproduce_find("batch-size");
    (void)state;
    for (int full = 0; full < 2; full++) {
        int64_t count;
        double low = INFINITY, high = 0, tokens = 0;
        config *points = points_of(f, full, &count);
        for (int64_t i = 0; i < count; i++) {
            const double batch = (double)(points[i].training.batch * points[i].training.accum);
            const double all = batch * (double)(points[i].data.block * points[i].training.steps);
            low = fmin(low, batch);
            high = fmax(high, batch);
            tokens = i == 0 ? all : tokens;
            at("full %d, run %lld: batch %g, %g tokens", full, (long long)i, batch, all);
            check(all == tokens);
            if (strcmp(points[i].training.schedule, "constant_linear") != 0)
                continue;
            /* The decay is 2/7 of the steps in all of them, a warm-up 1/20. */
            check(fabs((double)points[i].training.decay / (double)points[i].training.steps - 2.0 / 7) < 0.01);
            if (strcmp(points[i].optimizer.rule, "adamw") == 0)
                check(fabs((double)points[i].training.warmup / (double)points[i].training.steps - 0.05) < 0.02);
            else
                check(points[i].training.warmup == 0);
        }
        check(high >= (full ? 12 : 16) * low); /* the paper's own: 512 to 6144 */
    }
}

/* ---- Shorter runs -------------------------------------------------------------------------------------- */

static void shorter_runs_keep_their_shares(void **state)
{
    config c[3] = {tiny(TINY_GPT "schedule=constant_linear steps=1000 warmup=100 decay=300"),
                   tiny(TINY_MLP "steps=0 epochs=20"), tiny(TINY_MLP "steps=3")};
    (void)state;
    reproduce_shorten(c, 3, 0.25);
    check(c[0].training.steps == 250 && c[0].training.warmup == 25 && c[0].training.decay == 75);
    check(c[1].training.steps == 0 && c[1].training.epochs == 5);
    check(c[2].training.steps == 1); /* no fewer */
}

/* Down to the least share that scion reproduce takes, what is left can be run. */
static void shortened_figures_can_be_run(void **state)
{
    const reproduce_figure *f;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++)
        for (double factor = 1; factor > 0.05; factor *= 0.7) {
            int64_t count;
            config *points = points_of(f, false, &count);
            reproduce_shorten(points, count, fmax(factor, 0.05));
            for (int64_t k = 0; k < count; k++) {
                scion_error err;
                at("%s, %.3f: %lld steps", f->name, factor, (long long)points[k].training.steps);
                check_ok(config_check(&points[k], &err), &err);
            }
        }
}

/* ---- Judges -------------------------------------------------------------------------------------------- */

typedef struct table {
    ledger_run runs[300];
    int64_t count;
} table;

static ledger_run *add(table *t, const char *pairs, double loss)
{
    ledger_run *r = &t->runs[t->count++];
    *r = (ledger_run){.id = t->count, .state = LEDGER_DONE, .c = tiny(pairs)};
    check(t->count <= 300);
    r->result.loss = r->result.val_loss = loss;
    r->result.accuracy = NAN;
    return r;
}

/* Widths 64 and 512; the optimum of the small one is 2^-5, that of the large one 2^(-5 + moved). */
static void add_transfer(table *t, const char *rule, int moved)
{
    for (int width = 64; width <= 512; width += 448)
        for (int k = -10; k <= 0; k++) {
            const int best = -5 + (width == 512 ? moved : 0);
            ledger_run *r = add(t, TINY_MLP, (k - best) * (k - best));
            config_set_int(&r->c, "width", width);
            r->c.training.lr = ldexp(1, k);
            strcpy(r->c.optimizer.rule, rule);
        }
}

static reproduce_judgement judged(const table *t,
                                  void (*judge)(ledger *, const ledger_run *, int64_t, reproduce_judgement *))
{
    reproduce_judgement j = {REPRODUCE_OPEN, ""};
    judge(NULL, t->runs, t->count, &j);
    at("%s: %s", reproduce_verdict_name(j.verdict), j.sentence);
    check(j.sentence[0] != '\0');
    return j;
}

static void transfer_is_judged_by_scions_move(void **state)
{
    static const struct {
        int scion, uscion;
        reproduce_verdict verdict;
        const char *says;
    } cases[] = {
        {0, 0, REPRODUCE_YES, "2 of 2 Scion variants"},
        {1, -1, REPRODUCE_YES, "the largest move is 1;"},
        {0, 2, REPRODUCE_PARTLY, "1 of 2 Scion variants"},
        {3, -2, REPRODUCE_NO, "the largest move is 3;"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        add_transfer(t, "scion", cases[i].scion);
        add_transfer(t, "uscion", cases[i].uscion);
        add_transfer(t, "adamw", -4); /* of which nothing is asked */
        const reproduce_judgement j = judged(t, reproduce_judge_transfer);
        check(j.verdict == cases[i].verdict && strstr(j.sentence, cases[i].says) != NULL);
        check(strstr(j.sentence, "adamw by -4") != NULL);
    }
    table *t = room(sizeof *t);
    check(judged(t, reproduce_judge_transfer).verdict == REPRODUCE_OPEN);
    add_transfer(t, "scion", 0);
    t->count /= 2; /* one width: neither for nor against */
    check(judged(t, reproduce_judge_transfer).verdict == REPRODUCE_OPEN);
}

/* A loss of 1 at batch 4, and of 1 + rise at batch 64, at the best of two step sizes. */
static void add_batches(table *t, const char *rule, double rise)
{
    for (int i = 0; i < 4; i++) {
        ledger_run *r = add(t, TINY_MLP, 1 + (i < 2 ? 0 : rise) + i % 2);
        r->c.training.batch = i < 2 ? 4 : 8;
        r->c.training.accum = i < 2 ? 1 : 8;
        r->c.training.lr = ldexp(1, i % 2);
        strcpy(r->c.optimizer.rule, rule);
    }
}

static void batches_are_judged_by_the_rise(void **state)
{
    static const struct {
        double muon, adamw;
        reproduce_verdict verdict;
    } cases[] = {{0.3, 0.4, REPRODUCE_YES},
                 {0.1, 0.4, REPRODUCE_PARTLY},
                 {0.3, 0.1, REPRODUCE_PARTLY},
                 {0.1, 0.1, REPRODUCE_NO}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        add_batches(t, "scion", 0.2);
        check(judged(t, reproduce_judge_batch).verdict == REPRODUCE_OPEN);
        add_batches(t, "muon", cases[i].muon);
        add_batches(t, "adamw", cases[i].adamw);
        const reproduce_judgement j = judged(t, reproduce_judge_batch);
        check(j.verdict == cases[i].verdict);
        check(strstr(j.sentence, "from batches of 4 to 64") && strstr(j.sentence, "scion 1.000 to 1.200 (+0.200)"));
        for (int64_t k = 0; k < t->count; k++) /* a rival that has not come to an end decides nothing */
            if (strcmp(t->runs[k].c.optimizer.rule, "adamw") == 0)
                t->runs[k].state = LEDGER_WAITING;
        check(judged(t, reproduce_judge_batch).verdict != REPRODUCE_YES);
    }
    table *t = room(sizeof *t);
    check(judged(t, reproduce_judge_batch).verdict == REPRODUCE_OPEN);
}

/* A run in a ledger, with two parameters whose last norms are `norm` and whose bounds are `bound`. */
static void add_norms(ledger *l, const char *rule, int64_t steps, double norm, double bound)
{
    run_norm norms[] = {{1, "a", 100, bound, 1}, {steps, "a", norm, bound, 1}, {steps, "b", norm / 2, bound, 1}};
    const run_curves curves = {.norms = norms, .norm_count = 3};
    config c = tiny(TINY_MLP);
    ledger_run run;
    bool found, lost;
    scion_error err;
    c.training.steps = steps;
    strcpy(c.optimizer.rule, rule);
    check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
    check_ok(ledger_take(l, &run, &found, &err), &err);
    check(found);
    run.state = LEDGER_DONE;
    run.result.steps = steps;
    check_ok(ledger_finish(l, &run, &curves, &lost, &err), &err);
    check(!lost);
}

static reproduce_verdict judged_by_norms(ledger *l,
                                         void (*judge)(ledger *, const ledger_run *, int64_t, reproduce_judgement *))
{
    reproduce_judgement j = {REPRODUCE_OPEN, ""};
    ledger_run *runs;
    int64_t count;
    scion_error err;
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    judge(l, runs, count, &j);
    free(runs);
    at("%s: %s", reproduce_verdict_name(j.verdict), j.sentence);
    check(j.sentence[0] != '\0');
    return j.verdict;
}

static void norms_are_judged_by_bounds_and_size(void **state)
{
    static const struct {
        double scion, uscion;
        reproduce_verdict verdict;
    } cases[] = {{1.0, 2, REPRODUCE_YES},
                 {1.2, 2, REPRODUCE_YES},
                 {1.5, 2, REPRODUCE_PARTLY},
                 {1.0, 0.5, REPRODUCE_PARTLY},
                 {1.5, 0.5, REPRODUCE_NO}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        ledger *l = open_new(scratch("norms.db"));
        check(judged_by_norms(l, reproduce_judge_norms) == REPRODUCE_OPEN);
        add_norms(l, "scion", 10, cases[i].scion, 1);
        check(judged_by_norms(l, reproduce_judge_norms) == REPRODUCE_OPEN);
        add_norms(l, "uscion", 10, cases[i].uscion, NAN);
        add_norms(l, "adamw", 10, 50, NAN);
        check(judged_by_norms(l, reproduce_judge_norms) == cases[i].verdict);
        ledger_close(l);
    }
}

static void epochs_are_judged_by_the_slope(void **state)
{
    static const struct {
        double scion, slope;
        reproduce_verdict verdict;
    } cases[] = {{1.0, 0.5, REPRODUCE_YES},    {1.0, 0.65, REPRODUCE_YES},   {1.0, 1, REPRODUCE_PARTLY},
                 {1.0, 0.1, REPRODUCE_PARTLY}, {2.0, 0.5, REPRODUCE_PARTLY}, {2.0, 1, REPRODUCE_NO}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        ledger *l = open_new(scratch("epochs.db"));
        for (int k = 0; k < 4; k++) {
            check(judged_by_norms(l, reproduce_judge_epochs) == (k < 3 ? REPRODUCE_OPEN : cases[i].verdict));
            add_norms(l, "scion", 10 << k, k == 2 ? cases[i].scion : 1, 1); /* the worst of them decides */
            add_norms(l, "uscion", 10 << k, 7 * pow(10 << k, cases[i].slope), NAN);
        }
        check(judged_by_norms(l, reproduce_judge_epochs) == cases[i].verdict);
        ledger_close(l);
    }
}

static void verdicts_have_names(void **state)
{
    (void)state;
    check(strcmp(reproduce_verdict_name(REPRODUCE_YES), "reproduced") == 0);
    check(strcmp(reproduce_verdict_name(REPRODUCE_PARTLY), "partly reproduced") == 0);
    check(strcmp(reproduce_verdict_name(REPRODUCE_NO), "not reproduced") == 0);
    check(strcmp(reproduce_verdict_name(REPRODUCE_OPEN), "undecided") == 0);
}

/* The presets of the repository, two folders above this file. */
static int find_presets(void **state)
{
    char path[sizeof __FILE__ + 16];
    (void)state;
    snprintf(path, sizeof path, "%s", __FILE__);
    char *end = strstr(path, "tests/train/test_reproduce.c");
    if (!end)
        return -1;
    strcpy(end, "presets");
    return setenv("SCION_PRESETS", path, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(every_figure_can_be_made),
        LAW(no_run_is_there_twice),
        LAW(transfer_figures_have_widths_and_rates),
        LAW(batches_have_the_same_tokens),
        LAW(shorter_runs_keep_their_shares),
        LAW(shortened_figures_can_be_run),
        LAW(transfer_is_judged_by_scions_move),
        LAW(batches_are_judged_by_the_rise),
        LAW(norms_are_judged_by_bounds_and_size),
        LAW(epochs_are_judged_by_the_slope),
        LAW(verdicts_have_names),
        LAW(the_overshoot_is_the_librarys),
    };
    return cmocka_run_group_tests(tests, find_presets, scratch_remove);
}
