/* bench_rulers.c - what this machine can do, measured in the same run: arithmetic by multiply-adds on registers
 * and by sgemm, memory by a copy.
 *
 * Each ruler is the fastest of several candidates, by medians of interleaved rounds: sgemm of several sizes,
 * with and without a transposed operand, as one call on all threads and as one call on each thread; and a
 * copy by a plain loop, by memcpy and by stores that bypass the cache. The winner is sampled again and again
 * during the run, and the median of all its samples is the figure that shares are counted in. */
#include "bench.h"
#include "bench_blas.h"

#include "product/kernel.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- sgemm ------------------------------------------------------------------------------------------- */

enum { GEMM_MAX = 2048, GEMM_KINDS = 16, PEAK_SAMPLES = 3, LIMIT_ROUNDS = 1000000 };
static const int64_t GEMM_SIZES[] = {1024, 1280, 1536, 2048};

typedef struct gemm_kind {
    const bench_peak *owner;
    int64_t n;      /* all three dimensions */
    int transposed; /* the second operand */
    int per_thread; /* one product on each thread, else one product on all */
} gemm_kind;

struct bench_peak {
    int threads;
    float *memory; /* three matrices for each thread */
    int kinds;
    gemm_kind kind[GEMM_KINDS];
    int best;
    bench_pool gflops;   /* of the best */
    bench_pool limit[2]; /* of multiply-adds on registers, by type */
};

/* Multiply-adds on registers by a kernel, on all threads at once. */
typedef struct registers {
    int threads;
    const scn_kernel *kernel;
} registers;

static void registers_run(void *ctx)
{
    const registers *r = ctx;
#pragma omp parallel num_threads(r->threads)
    r->kernel->limit(LIMIT_ROUNDS);
}

static double registers_gflops(const registers *r, double ms)
{
    return 1e-6 * r->threads * r->kernel->limit(1) * LIMIT_ROUNDS / ms;
}

static void gemm_once(const gemm_kind *k, int thread)
{
    int n = (int)k->n;
    int64_t stride = (int64_t)GEMM_MAX * GEMM_MAX;
    float *a = k->owner->memory + 3 * stride * thread, *b = a + stride, *c = b + stride;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, k->transposed ? CblasTrans : CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c,
                n);
}

static void gemm_run(void *ctx)
{
    const gemm_kind *k = ctx;
    int threads = k->owner->threads;
    if (!k->per_thread) {
        blas_threads(threads);
        gemm_once(k, 0);
        return;
    }
    blas_threads(1);
#pragma omp parallel num_threads(threads)
    gemm_once(k, omp_get_thread_num());
}

static double gemm_gflops(const gemm_kind *k, double ms)
{
    double products = k->per_thread ? k->owner->threads : 1;
    return products * 2e-6 * (double)k->n * (double)k->n * (double)k->n / ms;
}

static void list_kinds(bench_peak *p)
{
    for (size_t i = 0; i < sizeof GEMM_SIZES / sizeof GEMM_SIZES[0]; i++) {
        for (int variant = 0; variant < (p->threads > 1 ? 4 : 2); variant++)
            p->kind[p->kinds++] = (gemm_kind){p, GEMM_SIZES[i], variant % 2, variant / 2};
    }
}

bench_peak *bench_peak_create(const bench_options *o)
{
    bench_peak *p = calloc(1, sizeof *p);
    bench_entry *race = calloc(GEMM_KINDS, sizeof *race);
    if (!p || !race)
        bench_die("out of memory");
    p->threads = o->threads;
    int64_t floats = (int64_t)3 * GEMM_MAX * GEMM_MAX * o->threads;
    p->memory = bench_floats(floats);
    bench_fill(p->memory, floats, 1);
    list_kinds(p);
    for (int i = 0; i < p->kinds; i++)
        race[i] = (bench_entry){.run = gemm_run, .ctx = &p->kind[i]};
    bench_race(o, race, p->kinds);
    double best = 0;
    for (int i = 0; i < p->kinds; i++) {
        double gflops = gemm_gflops(&p->kind[i], bench_entry_median(&race[i]));
        if (gflops > best) {
            best = gflops;
            p->best = i;
        }
    }
    for (int r = 0; r < race[p->best].count; r++)
        bench_pool_add(&p->gflops, gemm_gflops(&p->kind[p->best], race[p->best].ms[r]));
    const gemm_kind *k = &p->kind[p->best];
    fprintf(stderr, "sgemm: %.1f Gflop/s (%d^3, %s, %s)\n", best, (int)k->n, k->transposed ? "NT" : "NN",
            k->per_thread ? "one product per thread" : "one product on all threads");
    free(race);
    return p;
}

void bench_peak_free(bench_peak *p)
{
    if (p)
        free(p->memory);
    free(p);
}

void bench_peak_sample(void *peak)
{
    bench_peak *p = peak;
    const bench_entry e = {.run = gemm_run, .ctx = &p->kind[p->best]};
    for (int i = 0; i < PEAK_SAMPLES; i++) {
        bench_pool_add(&p->gflops, gemm_gflops(&p->kind[p->best], bench_time(&e)));
        for (int type = 0; type < 2; type++) {
            registers r = {p->threads, scn_kernel_for(type == 0 ? SCION_F32 : SCION_BF16)};
            const bench_entry limit = {.run = registers_run, .ctx = &r};
            bench_pool_add(&p->limit[type], registers_gflops(&r, bench_time(&limit)));
        }
    }
}

double bench_peak_gflops(const bench_peak *p)
{
    return p ? bench_pool_median(&p->gflops) : 0;
}

double bench_limit_gflops(const bench_peak *p, scion_dtype compute)
{
    return p ? bench_pool_median(&p->limit[compute == SCION_BF16]) : 0;
}

/* ---- copy -------------------------------------------------------------------------------------------- */

typedef void copy_function(float *dst, const float *src, int64_t count);

static void copy_loop(float *dst, const float *src, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        dst[i] = src[i];
}

static void copy_memcpy(float *dst, const float *src, int64_t count)
{
    memcpy(dst, src, (size_t)count * sizeof *dst);
}

/* Stores past the cache spare the read of each line before it is overwritten. */
#if defined(__x86_64__)
static void copy_stream(float *dst, const float *src, int64_t count)
{
    for (int64_t i = 0; i < count; i += 16) {
        for (int64_t j = i; j < i + 16; j += 4)
            _mm_stream_ps(dst + j, _mm_loadu_ps(src + j));
    }
    _mm_sfence();
}

__attribute__((target("avx512f"))) static void copy_stream512(float *dst, const float *src, int64_t count)
{
    for (int64_t i = 0; i < count; i += 64) {
        for (int64_t j = i; j < i + 64; j += 16)
            _mm512_stream_ps(dst + j, _mm512_loadu_ps(src + j));
    }
    _mm_sfence();
}
#endif

typedef struct copy_kind {
    const char *name;
    copy_function *copy;
    int needs_avx512;
} copy_kind;

static const copy_kind COPY_KINDS[] = {
    {"plain loop", copy_loop, 0},
    {"memcpy", copy_memcpy, 0},
#if defined(__x86_64__)
    {"streaming stores of 16 bytes", copy_stream, 0},
    {"streaming stores of 64 bytes", copy_stream512, 1},
#endif
};
enum { COPIES = sizeof COPY_KINDS / sizeof COPY_KINDS[0], COPY_GRAIN = 64 };

struct bench_copy {
    int threads;
    const float *src;
    float *dst;
    int64_t count;
    const copy_kind *kind;
    bench_pool gbytes;
};

static int has_avx512(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") != 0;
#else
    return 0;
#endif
}

void bench_copy_run(void *ctx)
{
    const bench_copy *c = ctx;
#pragma omp parallel num_threads(c->threads)
    {
        int64_t grains = c->count / COPY_GRAIN, t = omp_get_thread_num(), all = omp_get_num_threads();
        int64_t from = grains * t / all * COPY_GRAIN, to = grains * (t + 1) / all * COPY_GRAIN;
        c->kind->copy(c->dst + from, c->src + from, to - from);
    }
}

static double copy_rate(const bench_copy *c, double ms)
{
    return 2e-6 * (double)c->count * sizeof(float) / ms;
}

void bench_copy_add(bench_copy *c, const bench_entry *e)
{
    for (int i = 0; i < e->count; i++)
        bench_pool_add(&c->gbytes, copy_rate(c, e->ms[i]));
}

bench_copy *bench_copy_create(const bench_options *o, const float *src, float *dst, int64_t count)
{
    bench_copy *c = calloc(1, sizeof *c), *contenders = calloc(COPIES, sizeof *contenders);
    bench_entry *race = calloc(COPIES, sizeof *race);
    if (!c || !contenders || !race)
        bench_die("out of memory");
    *c = (bench_copy){.threads = o->threads, .src = src, .dst = dst, .count = count};
    for (int i = 0; i < COPIES; i++) {
        contenders[i] = *c;
        contenders[i].kind = &COPY_KINDS[i];
        race[i] = (bench_entry){
            .run = bench_copy_run, .ctx = &contenders[i], .skip = COPY_KINDS[i].needs_avx512 && !has_avx512()};
    }
    bench_race(o, race, COPIES);
    int best = 0;
    for (int i = 0; i < COPIES; i++) {
        if (race[i].skip)
            continue;
        double ms = bench_entry_median(&race[i]);
        fprintf(stderr, "copy: %.1f GB/s by %s\n", copy_rate(c, ms), COPY_KINDS[i].name);
        if (ms < bench_entry_median(&race[best]))
            best = i;
    }
    c->kind = &COPY_KINDS[best];
    bench_copy_add(c, &race[best]);
    free(race);
    free(contenders);
    return c;
}

void bench_copy_free(bench_copy *c)
{
    free(c);
}

double bench_copy_gbytes(const bench_copy *c)
{
    return c ? bench_pool_median(&c->gbytes) : 0;
}
