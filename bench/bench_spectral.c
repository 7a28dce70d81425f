/* bench_spectral.c - the spectral lmo against the plain iteration and against sgemm; in bfloat16 (polar_compute,
 * rows lmo-bf16/...) against our own in float32.
 *
 * One matrix: scion_lmo as a user calls it, with an allocator that recycles, so that the workspace is found
 * and not made (an optimizer plans it once as well). The plain iteration has its buffers too.
 * All 72 matrices of GPT-2 124M: a whole step of an uscion optimizer, that is the check of the gradients,
 * the averages, the 72 lmos and the update of the weights; the plain version does its 72 polar factors and
 * nothing else, threaded in BLAS or with one matrix per thread, whichever is faster.
 *
 * Operations that our formulation needs, m <= n, 5 steps in I intervals between restarts (docs/numerics.md derives
 * them):
 *     (20 - 3 I) m^3 + 3 I m^2 n
 * I = 5 for n = m, else 1, and 3 in bfloat16. */
#include "bench.h"
#include "bench_blas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five steps in float32 in two different orders of operation: on matrices of independent entries they part
 * by about 1e-5 of the result's norm (docs/numerics.md), and entries are below that norm. */
static const double AGREE = 1e-4;

typedef struct shape_case {
    const char *name;
    int64_t rows, cols;
    double ratio_bar;
    scion_dtype compute;
} shape_case;

static const shape_case SHAPES[] = {
    {"lmo/256x256", 256, 256, 1.15, SCION_F32},      {"lmo/256x1024", 256, 1024, 2.2, SCION_F32},
    {"lmo/768x768", 768, 768, 1.45, SCION_F32},      {"lmo/768x3072", 768, 3072, 2.8, SCION_F32},
    {"lmo/3072x768", 3072, 768, 2.8, SCION_F32},     {"lmo/2560x2560", 2560, 2560, 1.4, SCION_F32},
    {"lmo-bf16/768x768", 768, 768, 0, SCION_BF16},   {"lmo-bf16/768x3072", 768, 3072, 0, SCION_BF16},
    {"lmo-bf16/3072x768", 3072, 768, 0, SCION_BF16},
};

static double gflop_needed(int64_t rows, int64_t cols, scion_dtype compute)
{
    const double m = (double)(rows < cols ? rows : cols), n = (double)(rows < cols ? cols : rows);
    const double intervals = n <= m ? 5 : compute == SCION_BF16 ? 3 : 1;
    return 1e-9 * ((20 - 3 * intervals) * m * m * m + 3 * intervals * m * m * n);
}

/* ---- one matrix -------------------------------------------------------------------------------------- */

typedef struct single {
    scion_param param;
    scion_options options, in_float32;
    bench_recycler recycler;
    scion_allocator allocator;
    plain_work *plain;
    int threads;
    float *g, *ours, *reference;
} single;

static void single_ours(void *ctx)
{
    single *s = ctx;
    scion_error err;
    bench_check(scion_lmo(&s->param, &s->options, s->g, s->ours, &err), &err);
}

static void single_float32(void *ctx)
{
    single *s = ctx;
    scion_error err;
    bench_check(scion_lmo(&s->param, &s->in_float32, s->g, s->reference, &err), &err);
}

static void single_plain(void *ctx)
{
    single *s = ctx;
    blas_threads(s->threads);
    plain_polar(s->plain, s->param.shape[0], s->param.shape[1], s->g, s->reference, s->threads);
}

static void single_create(single *s, const bench_options *o, const shape_case *c)
{
    int64_t count = c->rows * c->cols;
    scion_param_init(&s->param);
    s->param.ndim = 2;
    s->param.shape[0] = c->rows;
    s->param.shape[1] = c->cols;
    s->param.norm = SCION_NORM_SPECTRAL;
    s->param.role = SCION_ROLE_PLAIN; /* lmo = -UV', without a factor */
    scion_options_init(&s->options, SCION_RULE_USCION);
    s->options.threads = o->threads;
    s->allocator = bench_recycler_allocator(&s->recycler);
    s->options.allocator = &s->allocator;
    s->in_float32 = s->options;
    s->options.polar_compute = c->compute;
    s->threads = o->threads;
    s->plain = plain_create(count, c->rows < c->cols ? c->rows : c->cols);
    s->g = bench_floats(count);
    s->ours = bench_floats(count);
    s->reference = bench_floats(count);
    bench_fill(s->g, count, 2);
}

static void single_free(single *s)
{
    plain_free(s->plain);
    bench_recycler_free(&s->recycler);
    free(s->g);
    free(s->ours);
    free(s->reference);
}

static void check_agreement(const char *name, const float *ours, const float *polar, double factor, int64_t count)
{
    double gap = bench_distance(ours, polar, -factor, count) / factor;
    if (!(gap <= AGREE))
        bench_die("%s: ours and the plain iteration differ by %.3g, more than %.0e", name, gap, AGREE);
}

static void run_shape(const bench_options *o, bench_report *r, bench_peak *peak, const shape_case *c)
{
    single *s = calloc(1, sizeof *s);
    bench_entry *race = calloc(2, sizeof *race);
    if (!s || !race)
        bench_die("out of memory");
    fprintf(stderr, "%s\n", c->name);
    single_create(s, o, c);
    race[0] = (bench_entry){.run = single_ours, .ctx = s};
    race[1] = (bench_entry){.run = c->compute == SCION_BF16 ? single_float32 : single_plain, .ctx = s};
    race[0].run(s);
    race[1].run(s);
    if (c->compute == SCION_F32) /* how near bfloat16 comes is a test: test_polar.c */
        check_agreement(c->name, s->ours, s->reference, 1, c->rows * c->cols);
    bench_peak_sample(peak);
    bench_race(o, race, 2);
    bench_peak_sample(peak);
    bench_row *row = bench_report_add(r, c->name, &race[0], &race[1]);
    row->work = gflop_needed(c->rows, c->cols, c->compute);
    row->ruler = c->compute == SCION_BF16 ? BENCH_BY_BF16 : BENCH_BY_PEAK;
    row->ratio_bar = c->ratio_bar;
    single_free(s);
    free(race);
    free(s);
}

/* ---- GPT-2 124M -------------------------------------------------------------------------------------- */

enum { LAYERS = 12, DIM = 768, WIDE = 3072, MATRICES = 6 * LAYERS, WIDES = 2 * LAYERS };
static const char GPT2_NAME[] = "lmo/gpt2-124m", GPT2_BF16_NAME[] = "lmo-bf16/gpt2-124m";
static const double GPT2_RATIO_BAR = 2, GPT2_SHARE_BAR = 0.85, GPT2_BF16_RATIO_BAR = 1.35;
static const double GPT2_LR = 1e-4;
/* A plain threading slower than the other by this factor in the warm-up is not timed further. */
static const double HOPELESS = 1.15;

typedef struct gpt2 {
    scion_param param[MATRICES]; /* the wide ones first, so that dynamic scheduling ends evenly */
    scion_optimizer *opt, *in_bf16;
    double lr;
    int threads;
    plain_work **plain; /* one for each thread */
    float **out;
} gpt2;

static void gpt2_ours(void *ctx)
{
    gpt2 *s = ctx;
    scion_error err;
    bench_check(scion_optimizer_step(s->opt, s->lr, &err), &err);
}

static void gpt2_bf16(void *ctx)
{
    gpt2 *s = ctx;
    scion_error err;
    bench_check(scion_optimizer_step(s->in_bf16, s->lr, &err), &err);
}

static void gpt2_plain_blas(void *ctx)
{
    gpt2 *s = ctx;
    blas_threads(s->threads);
    for (int i = 0; i < MATRICES; i++)
        plain_polar(s->plain[0], s->param[i].shape[0], s->param[i].shape[1], s->param[i].grad, s->out[0], s->threads);
}

static void gpt2_plain_matrices(void *ctx)
{
    gpt2 *s = ctx;
    blas_threads(1);
#pragma omp parallel for schedule(dynamic, 1) num_threads(s->threads)
    for (int i = 0; i < MATRICES; i++) {
        int t = omp_get_thread_num();
        plain_polar(s->plain[t], s->param[i].shape[0], s->param[i].shape[1], s->param[i].grad, s->out[t], 1);
    }
}

static void gpt2_create(gpt2 *s, const bench_options *o)
{
    s->threads = o->threads;
    for (int i = 0; i < MATRICES; i++) {
        scion_param *p = &s->param[i];
        scion_param_init(p);
        p->ndim = 2;
        p->shape[0] = i < LAYERS ? WIDE : DIM;
        p->shape[1] = i >= LAYERS && i < WIDES ? WIDE : DIM;
        int64_t count = p->shape[0] * p->shape[1];
        p->weight = bench_floats(count);
        p->grad = bench_floats(count);
        memset(p->weight, 0, (size_t)count * sizeof(float));
        bench_fill(p->grad, count, 100 + (uint64_t)i);
        p->norm = SCION_NORM_SPECTRAL;
        p->role = SCION_ROLE_HIDDEN;
    }
    s->plain = calloc((size_t)o->threads, sizeof(plain_work *));
    s->out = calloc((size_t)o->threads, sizeof(float *));
    if (!s->plain || !s->out)
        bench_die("out of memory");
    for (int t = 0; t < o->threads; t++) {
        s->plain[t] = plain_create(DIM * WIDE, DIM);
        s->out[t] = bench_floats(DIM * WIDE);
    }
    scion_options options;
    scion_error err;
    scion_options_init(&options, SCION_RULE_USCION);
    options.threads = o->threads;
    bench_check(scion_optimizer_create(&s->opt, &options, s->param, MATRICES, &err), &err);
    options.polar_compute = SCION_BF16;
    bench_check(scion_optimizer_create(&s->in_bf16, &options, s->param, MATRICES, &err), &err);
}

static void gpt2_free(gpt2 *s)
{
    scion_optimizer_free(s->opt);
    scion_optimizer_free(s->in_bf16);
    for (int i = 0; i < MATRICES; i++) {
        free(s->param[i].weight);
        free(s->param[i].grad);
    }
    for (int t = 0; t < s->threads; t++) {
        plain_free(s->plain[t]);
        free(s->out[t]);
    }
    free(s->plain);
    free(s->out);
}

/* After one step of length 1 from 0 the weights are the lmos: compares one of each shape. */
static void gpt2_verify(gpt2 *s)
{
    static const int SAMPLES[] = {0, LAYERS, WIDES};
    for (int i = 0; i < 3; i++) {
        const scion_param *p = &s->param[SAMPLES[i]];
        blas_threads(s->threads);
        plain_polar(s->plain[0], p->shape[0], p->shape[1], p->grad, s->out[0], s->threads);
        check_agreement(GPT2_NAME, p->weight, s->out[0], sqrt((double)p->shape[0] / (double)p->shape[1]),
                        p->shape[0] * p->shape[1]);
    }
}

static void run_gpt2(const bench_options *o, bench_report *r, bench_peak *peak)
{
    gpt2 *s = calloc(1, sizeof *s);
    bench_entry *race = calloc(5, sizeof *race);
    if (!s || !race)
        bench_die("out of memory");
    fprintf(stderr, "%s\n", GPT2_NAME);
    gpt2_create(s, o);
    race[0] = (bench_entry){.run = gpt2_ours, .ctx = s};
    race[1] = (bench_entry){.run = gpt2_plain_blas, .ctx = s};
    race[2] = (bench_entry){.run = gpt2_plain_matrices, .ctx = s, .skip = o->threads == 1};
    race[3] = (bench_entry){.run = bench_peak_sample, .ctx = peak}; /* the race is long: the ruler takes part */
    race[4] = (bench_entry){.run = gpt2_bf16, .ctx = s};
    s->lr = 1;
    race[0].warm_ms = bench_time(&race[0]);
    gpt2_verify(s);
    s->lr = GPT2_LR;
    for (int i = 1; i < 3; i++)
        race[i].warm_ms = race[i].skip ? INFINITY : bench_time(&race[i]);
    race[1].skip |= race[1].warm_ms > HOPELESS * race[2].warm_ms;
    race[2].skip |= race[2].warm_ms > HOPELESS * race[1].warm_ms;
    bench_race(o, race, 5);
    int best = race[1].skip || (!race[2].skip && bench_entry_median(&race[2]) < bench_entry_median(&race[1])) ? 2 : 1;
    bench_row *row = bench_report_add(r, GPT2_NAME, &race[0], &race[best]);
    bench_row *bf16 = bench_report_add(r, GPT2_BF16_NAME, &race[4], &race[0]);
    for (int i = 0; i < MATRICES; i++) {
        row->work += gflop_needed(s->param[i].shape[0], s->param[i].shape[1], SCION_F32);
        bf16->work += gflop_needed(s->param[i].shape[0], s->param[i].shape[1], SCION_BF16);
    }
    bf16->ruler = BENCH_BY_BF16;
    bf16->ratio_bar = GPT2_BF16_RATIO_BAR;
    row->ratio_bar = GPT2_RATIO_BAR;
    row->share_bar = GPT2_SHARE_BAR;
    snprintf(row->note, sizeof row->note, "plain at its best: %s",
             best == 1 ? "threads inside BLAS" : "one matrix per thread");
    gpt2_free(s);
    free(race);
    free(s);
}

void bench_spectral(const bench_options *o, bench_report *r)
{
    bench_peak *peak = NULL;
    for (size_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0]; i++) {
        if (!bench_wanted(o, SHAPES[i].name))
            continue;
        peak = peak ? peak : bench_peak_create(o);
        run_shape(o, r, peak, &SHAPES[i]);
    }
    if (bench_wanted(o, GPT2_NAME) || bench_wanted(o, GPT2_BF16_NAME)) {
        peak = peak ? peak : bench_peak_create(o);
        run_gpt2(o, r, peak);
    }
    r->peak_gflops = bench_peak_gflops(peak);
    r->limit_gflops = bench_limit_gflops(peak, SCION_F32);
    r->bf16_limit_gflops = bench_limit_gflops(peak, SCION_BF16);
    bench_peak_free(peak);
}
