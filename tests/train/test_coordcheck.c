/* The coordinate check: what is measured equals the network computed in double; slopes and verdicts of synthetic
 * numbers are as computed by hand; and the paper's laws hold: fitting norms give layers that do not change with the
 * width, a step of AdamW gives layers that grow with it, the plain scale of the first layer goes as the square
 * root. */
#include "tiny.h"

#include "trainer_tests.h"
#include "tune/coordcheck.h"

#define MLP "model=mlp layers=3 batch=32 steps=40 data_kind=synthetic norms=image activation=relu threads=1 "

/* ---- Values ------------------------------------------------------------------------------------------------ */

static const float *weight(const trainer *t, const char *name)
{
    for (int64_t i = 0; i < tape_param_count(t->model.tape); i++)
        if (strcmp(tape_param_at(t->model.tape, i)->name, name) == 0)
            return tape_param_at(t->model.tape, i)->data;
    fail_msg("there is no %s", name);
    return NULL;
}

/* y = W x + b, and the sum of its squares. */
static double apply(int64_t d_out, int64_t d_in, const float *w, const float *b, const double *x, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < d_out; i++) {
        y[i] = b ? (double)b[i] : 0;
        for (int64_t k = 0; k < d_in; k++)
            y[i] += (double)w[i * d_in + k] * x[k];
        sum += y[i] * y[i];
    }
    return sum;
}

enum { pixels = 784, classes = 10, most_batch = 32, most_width = 32 };

/* Results of the three layers for a batch. */
typedef struct results {
    double of[3][most_batch][most_width];
} results;

/* RMS of the differences of two results; `width` of the layer. */
static double difference(const results *a, const results *b, int layer, int64_t batch, int64_t width)
{
    double sum = 0;
    for (int64_t r = 0; r < batch; r++)
        for (int64_t i = 0; i < width; i++)
            sum += (a->of[layer][r][i] - b->of[layer][r][i]) * (a->of[layer][r][i] - b->of[layer][r][i]);
    return sqrt(sum / (double)(batch * width));
}

/* The RMS of the three layers of an MLP in double, from the weights as they are, and what they compute. */
static void mlp_rms(const trainer *t, double rms[3], results *values)
{
    static float images[most_batch * pixels];
    static int32_t labels[most_batch];
    const int64_t batch = t->c.training.batch, width = config_int(&t->c, "width");
    double sum[3] = {0};
    void *const arrays[DATA_ARRAYS] = {images, labels};
    assert_int_equal(data_fill(t->data, (data_sequence){.part = DATA_TRAIN}, 0, batch, arrays, NULL), SCION_OK);
    for (int64_t r = 0; r < batch; r++) {
        double x[pixels], y[most_width], z[most_width];
        for (int64_t k = 0; k < pixels; k++)
            x[k] = (double)images[r * pixels + k];
        sum[0] += apply(width, pixels, weight(t, "layers.0.weight"), weight(t, "layers.0.bias"), x, y);
        memcpy(values->of[0][r], y, sizeof y);
        for (int64_t k = 0; k < width; k++)
            y[k] = fmax(0, y[k]);
        sum[1] += apply(width, width, weight(t, "layers.1.weight"), weight(t, "layers.1.bias"), y, z);
        memcpy(values->of[1][r], z, sizeof z);
        for (int64_t k = 0; k < width; k++)
            z[k] = fmax(0, z[k]);
        sum[2] += apply(classes, width, weight(t, "layers.2.weight"), NULL, z, y);
        memcpy(values->of[2][r], y, sizeof y);
    }
    rms[0] = sqrt(sum[0] / (double)(batch * width));
    rms[1] = sqrt(sum[1] / (double)(batch * width));
    rms[2] = sqrt(sum[2] / (double)(batch * classes));
}

/* float32 sums of 784 products are good to about 1e-6 of their size. */
static const double value_tolerance = 1e-5;

static void values_are_those_of_the_network(void **state)
{
    static const char *const names[] = {"layers.0.weight", "layers.1.weight", COORDCHECK_LOGITS};
    const config c = tiny(MLP "width=24 batch=32 lr=0.1");
    results *before = calloc(1, sizeof *before), *now = calloc(1, sizeof *now);
    coordcheck_run run;
    trainer *t = NULL;
    scion_error err;
    (void)state;
    OK(coordcheck_measure(&run, &c, 2, NULL, NULL, &err));
    OK(tiny_create(&t, &c, &err));
    assert_int_equal(run.count, 9);
    for (int64_t step = 0; step <= 2; step++) {
        double rms[3], loss;
        if (step > 0)
            OK(tiny_step(t, &loss, &err));
        *before = *now;
        mlp_rms(t, rms, now);
        for (int64_t i = 0; i < 3; i++) {
            const ledger_coord *got = &run.coords[3 * step + i];
            assert_int_equal(got->step, step);
            assert_int_equal(got->place, i);
            assert_string_equal(got->name, names[i]);
            near(names[i], got->rms, rms[i], value_tolerance);
            if (step == 0)
                assert_true(isnan(got->change));
            else
                near(names[i], got->change, difference(before, now, (int)i, 32, i < 2 ? 24 : classes),
                     value_tolerance);
        }
    }
    free(before);
    free(now);
    trainer_free(t);
    free(run.coords);
}

/* A tied matrix is two layers; projections that start at zero give zero, and no longer after two steps (the first
 * moves them, the one before them sees no gradient until then). */
static void layers_of_a_gpt(void **state)
{
    static const char *const names[] = {"embedding",       "blocks.0.attn.q", "blocks.0.attn.k",   "blocks.0.attn.v",
                                        "blocks.0.attn.o", "blocks.0.mlp.up", "blocks.0.mlp.down", COORDCHECK_LOGITS};
    enum { layers = sizeof names / sizeof *names };
    const config c = tiny(TINY_GPT "layers=1 tied=yes zero_init=yes recompute=yes");
    coordcheck_run run;
    scion_error err;
    (void)state;
    OK(coordcheck_measure(&run, &c, 1, NULL, NULL, &err));
    assert_int_equal(run.count, 2 * layers);
    for (int64_t i = 0; i < 2 * layers; i++) {
        assert_string_equal(run.coords[i].name, names[i % layers]);
        assert_true((run.coords[i].rms == 0) == (i == 4 || i == 6));
    }
    free(run.coords);
}

static bool stop_at_one(void *context, int64_t step)
{
    *(int64_t *)context = step;
    return step < 1;
}

static void a_check_can_be_stopped(void **state)
{
    const config c = tiny(MLP "width=8 steps=3");
    coordcheck_run run;
    scion_error err;
    int64_t last = -1;
    (void)state;
    assert_int_equal(coordcheck_measure(&run, &c, 3, stop_at_one, &last, &err), SCION_ESTOPPED);
    assert_int_equal(last, 1);
    assert_null(run.coords);
    assert_int_equal(coordcheck_measure(&run, &c, 4, NULL, NULL, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "steps"));
}

/* ---- Laws --------------------------------------------------------------------------------------------------- */

/* Checks `pairs` at three widths and three seeds, all of it one group. */
static coordcheck check(const char *pairs, int64_t steps)
{
    static const int64_t widths[] = {32, 64, 128};
    coordcheck_run runs[9];
    coordcheck k;
    scion_error err;
    for (int i = 0; i < 9; i++) {
        config c = tiny(pairs);
        config_set_int(&c, "width", widths[i % 3]);
        c.training.seed = (uint64_t)(i / 3 + 1);
        OK(coordcheck_measure(&runs[i], &c, steps, NULL, NULL, &err));
    }
    OK(coordcheck_make(&k, runs, 9, &err));
    assert_int_equal(k.count, 1);
    assert_int_equal(k.groups[0].seeds, 3);
    assert_int_equal(k.groups[0].width_count, 3);
    for (int i = 0; i < 9; i++)
        free(runs[i].coords);
    return k;
}

/* Three seeds scatter by about 0.02. */
static const double slope_tolerance = 0.06;

static void fitting_norms_are_flat(void **state)
{
    coordcheck k = check(MLP "radius_hidden=1 lr=2^-5", 2);
    const coordcheck_group *g = &k.groups[0];
    (void)state;
    for (int64_t step = 0; step <= 2; step++)
        for (int64_t layer = 0; layer < 2; layer++)
            near(g->names[layer], coordcheck_slope(g, COORDCHECK_RMS, layer, step), 0, slope_tolerance);
    near("logits at the start", coordcheck_slope(g, COORDCHECK_RMS, 2, 0), -0.5,
         0.15); /* ten classes of few seeds scatter more */
    assert_true(coordcheck_judge(coordcheck_slope(g, COORDCHECK_RMS, coordcheck_worst(g, 2), 2)) == COORDCHECK_FLAT);
    coordcheck_free(&k);
}

/* Every entry of W moves by lr in a direction that the inputs share: W x changes in proportion to the width. */
static void adamw_grows(void **state)
{
    coordcheck k = check(MLP "rule=adamw boundary_init=no lr=2^-6", 3);
    const coordcheck_group *g = &k.groups[0];
    (void)state;
    near("a hidden layer at the start", coordcheck_slope(g, COORDCHECK_RMS, 1, 0), 0, slope_tolerance);
    assert_true(coordcheck_slope(g, COORDCHECK_RMS, 1, 3) > 0.25);
    assert_true(coordcheck_slope(g, COORDCHECK_RMS, 2, 3) > 0.5);
    assert_string_equal(g->names[coordcheck_worst(g, 3)], COORDCHECK_LOGITS);
    coordcheck_free(&k);
}

/* One sample, momentum 1, Spectral: the step is lr scale u v', with v along the input, so that the first layer
 * changes by lr scale |x| / sqrt(width) in RMS: under sqrt(width / inputs) by lr RMS(x) at every width, as the lemma
 * on transfer has it; under max(1, ...) by width^(-1/2) while the layer is narrower than its input, which the lemma
 * excludes. */
static void the_first_step_of_the_lemma(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        coordcheck k =
            check(plain ? MLP "batch=1 bias=no rule=uscion momentum=1 norms=spectral lr=2^-6 input_scale=plain"
                        : MLP "batch=1 bias=no rule=uscion momentum=1 norms=spectral lr=2^-6 input_scale=max",
                  1);
        const coordcheck_group *g = &k.groups[0];
        assert_true(coordcheck_has_changes(g) && isnan(coordcheck_slope(g, COORDCHECK_CHANGE, 0, 0)));
        near("slope of the change", coordcheck_slope(g, COORDCHECK_CHANGE, 0, 1), plain ? 0 : -0.5, slope_tolerance);
        coordcheck_free(&k);
    }
}

/* Layers of a GPT change alike at every width under Scion's norms, and in proportion to it under AdamW. */
static void changes_of_a_gpt(void **state)
{
    static const char gpt[] = TINY_GPT "layers=1 lr=2^-5 ";
    (void)state;
    for (int adamw = 0; adamw < 2; adamw++) {
        char pairs[256];
        snprintf(pairs, sizeof pairs, "%s%s", gpt, adamw ? "rule=adamw" : "rule=uscion momentum=1");
        coordcheck k = check(pairs, 1);
        const coordcheck_group *g = &k.groups[0];
        assert_string_equal(g->names[1], "blocks.0.attn.q");
        near("embedding", coordcheck_slope(g, COORDCHECK_CHANGE, 0, 1), 0, slope_tolerance);
        if (adamw)
            assert_true(coordcheck_slope(g, COORDCHECK_CHANGE, 1, 1) > 0.5);
        else
            near("blocks.0.attn.q", coordcheck_slope(g, COORDCHECK_CHANGE, 1, 1), 0, coordcheck_flat);
        coordcheck_free(&k);
    }
}

/* Below the width of the input, semi-orthogonal rows keep the RMS of the input (1) times their scale. */
static void plain_input_scale_goes_as_the_root(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        coordcheck k = check(plain ? MLP "input_scale=plain" : MLP "input_scale=max", 0);
        const coordcheck_group *g = &k.groups[0];
        near("slope", coordcheck_slope(g, COORDCHECK_RMS, 0, 0), plain ? 0.5 : 0, 0.02);
        for (int64_t w = 0; w < g->width_count; w++) {
            const double scale = plain ? sqrt((double)g->widths[w] / pixels) : 1;
            near("rms / scale", coordcheck_value(g, COORDCHECK_RMS, 0, 0, w) / scale, 1, 0.03);
        }
        coordcheck_free(&k);
    }
}

/* A network that diverges is a finding, not the end of the check. */
static void divergence_is_infinite(void **state)
{
    const config c = tiny(MLP "width=16 rule=sgd lr=1e6");
    coordcheck_run run;
    scion_error err;
    (void)state;
    OK(coordcheck_measure(&run, &c, 20, NULL, NULL, &err));
    assert_int_equal(run.count, 3 * 21);
    assert_true(isfinite(run.coords[0].rms));
    assert_true(isinf(run.coords[3 * 20].rms));
    assert_string_equal(run.coords[3 * 20 + 1].name, "layers.1.weight");
    assert_int_equal(run.coords[3 * 20 + 2].step, 20);
    free(run.coords);
}

/* ---- Fits of synthetic numbers ------------------------------------------------------------------------------- */

/* Two layers at steps 0 and 1: "up" is a width^power at 0 and 0 at 1, the logits b width^-1 at both. */
typedef struct made {
    coordcheck_run run;
    ledger_coord coords[4];
} made;

static void make(made *m, const char *pairs, double a, double power)
{
    m->run = (coordcheck_run){.c = tiny(pairs), .coords = m->coords, .count = 4};
    const double w = (double)config_int(&m->run.c, "width");
    const double rms[] = {a * pow(w, power), 2 / w, 0, 2 / w};
    for (int i = 0; i < 4; i++) {
        m->coords[i] = (ledger_coord){.step = i / 2,
                                      .place = i % 2,
                                      .rms = rms[i],
                                      .change = i < 2    ? NAN
                                                : i == 2 ? 3 / w
                                                         : 5};
        strcpy(m->coords[i].name, i % 2 ? COORDCHECK_LOGITS : "up");
    }
}

static void slopes_and_groups(void **state)
{
    static made m[7];
    char sentence[256];
    coordcheck_run runs[7];
    coordcheck k;
    scion_error err;
    (void)state;
    make(&m[0], "width=256 seed=1 threads=1", 1, 0.25);
    make(&m[1], "width=64 seed=1", 1, 0.25);
    make(&m[2], "width=64 seed=2", 3, 0.25);
    make(&m[3], "width=256 seed=2", 3, 0.25);
    make(&m[4], "width=64 rule=adamw lr=2^-9", 1, 1);
    make(&m[5], "width=128 rule=adamw lr=2^-9", 1, 1);
    make(&m[6], "width=256 rule=adamw lr=2^-9", INFINITY, 1);
    for (int i = 0; i < 7; i++)
        runs[i] = m[i].run;
    OK(coordcheck_make(&k, runs, 7, &err));
    assert_int_equal(k.count, 2);
    const coordcheck_group *a = &k.groups[0], *b = &k.groups[1];
    assert_string_equal(a->label, "rule=scion");
    assert_string_equal(b->label, "rule=adamw");
    assert_int_equal(a->seeds, 2);
    assert_int_equal(a->width_count, 2);
    assert_int_equal(a->widths[0], 64);
    near("mean over seeds", coordcheck_value(a, COORDCHECK_RMS, 0, 0, 1), 2 * 4, 1e-12);
    near("slope", coordcheck_slope(a, COORDCHECK_RMS, 0, 0), 0.25, 1e-12);
    near("slope", coordcheck_slope(a, COORDCHECK_RMS, 1, 1), -1, 1e-12);
    assert_true(isnan(coordcheck_slope(a, COORDCHECK_RMS, 0, 1)));
    assert_int_equal(coordcheck_worst(a, 0), 0); /* logits that shrink are not held against it */
    assert_int_equal(b->width_count, 3);
    assert_true(isinf(coordcheck_slope(b, COORDCHECK_RMS, 0, 0)));
    coordcheck_sentence(a, sentence);
    assert_string_equal(
        sentence, "flat: after 1 step the steepest layer up goes as width^0.00 from width 64 to 256 (the logits as "
                  "width^-1.00)");
    near("change", coordcheck_value(a, COORDCHECK_CHANGE, 0, 1, 0), 3.0 / 64, 1e-12);
    near("slope of the change", coordcheck_slope(a, COORDCHECK_CHANGE, 0, 1), -1, 1e-12);
    near("slope of the change", coordcheck_slope(a, COORDCHECK_CHANGE, 1, 1), 0, 1e-12);
    coordcheck_change_sentence(a, sentence);
    assert_string_equal(sentence,
                        "shrinking: the change in the first step goes as width^-1.00 in its steepest layer, up");
    coordcheck_free(&k);
    for (int i = 0; i < 28; i++) /* as a ledger of 0.1 has them */
        m[i / 4].coords[i % 4].change = NAN;
    OK(coordcheck_make(&k, runs, 7, &err));
    assert_false(coordcheck_has_changes(&k.groups[0]));
    coordcheck_change_sentence(&k.groups[0], sentence);
    assert_string_equal(sentence, "");
    coordcheck_free(&k);
}

/* Runs of fewer steps shorten the group; other layers make it none; one width has no slope. */
static void runs_that_do_not_fit_together(void **state)
{
    static made m[2];
    char sentence[256];
    coordcheck k;
    scion_error err;
    (void)state;
    make(&m[0], "width=64", 1, 0);
    make(&m[1], "width=128", 1, 0);
    coordcheck_run runs[] = {m[0].run, m[1].run};
    runs[1].count = 2;
    OK(coordcheck_make(&k, runs, 2, &err));
    assert_int_equal(k.groups[0].steps, 0);
    near("slope", coordcheck_slope(&k.groups[0], COORDCHECK_RMS, 1, 0), -1, 1e-12);
    coordcheck_free(&k);
    OK(coordcheck_make(&k, runs, 1, &err));
    assert_true(isnan(coordcheck_slope(&k.groups[0], COORDCHECK_RMS, 0, 0)));
    coordcheck_sentence(&k.groups[0], sentence);
    assert_string_equal(sentence, "only width 64 was measured: there is nothing to compare");
    coordcheck_free(&k);
    strcpy(m[1].coords[0].name, "down");
    assert_int_equal(coordcheck_make(&k, runs, 2, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "down"));
    coordcheck_free(&k);
    runs[1].count = 1;
    assert_int_equal(coordcheck_make(&k, runs, 2, &err), SCION_EINVAL);
    coordcheck_free(&k);
    for (int64_t i = 0; i < runs[0].count; i++)
        m[0].coords[i].step--;
    assert_int_equal(coordcheck_make(&k, runs, 1, &err), SCION_EINVAL);
    assert_string_equal(err.message, "the check of width 64 does not begin with step 0");
    coordcheck_free(&k);
}

static void verdicts(void **state)
{
    (void)state;
    assert_int_equal(coordcheck_judge(coordcheck_flat), COORDCHECK_FLAT);
    assert_int_equal(coordcheck_judge(-coordcheck_flat), COORDCHECK_FLAT);
    assert_int_equal(coordcheck_judge(NAN), COORDCHECK_FLAT);
    assert_int_equal(coordcheck_judge(0.5), COORDCHECK_GROWING);
    assert_int_equal(coordcheck_judge(INFINITY), COORDCHECK_GROWING);
    assert_int_equal(coordcheck_judge(-0.5), COORDCHECK_SHRINKING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_network),
        cmocka_unit_test(layers_of_a_gpt),
        cmocka_unit_test(a_check_can_be_stopped),
        cmocka_unit_test(fitting_norms_are_flat),
        cmocka_unit_test(adamw_grows),
        cmocka_unit_test(the_first_step_of_the_lemma),
        cmocka_unit_test(changes_of_a_gpt),
        cmocka_unit_test(plain_input_scale_goes_as_the_root),
        cmocka_unit_test(divergence_is_infinite),
        cmocka_unit_test(slopes_and_groups),
        cmocka_unit_test(runs_that_do_not_fit_together),
        cmocka_unit_test(verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
