/* bench_products - the matrix products of training by several engines, in turn, with the same threads:
 *     bench_products [--threads N] [--quick]
 * ours is product/gemm.h, in float32, with weights (the operand W, or the result dW, rounded at random) in
 * bfloat16, and as compute=bf16 has it (mixed: x and dy are stored in bfloat16, W is rounded while it is packed).
 * The others are what this machine has of OpenBLAS, BLIS and oneDNN, loaded by name when the program runs: nothing
 * is linked to them (Debian's BLIS needs LD_LIBRARY_PATH to name its folder blis-openmp). A number is Gflop/s by
 * the median time; `limit` and `limit 16` are what multiply-adds on registers reach in the same run, in float32
 * and as `mixed` computes. Where OpenBLAS may not know the CPU it is told to take its AVX-512 or AVX2 kernels,
 * unless OPENBLAS_CORETYPE is set. */
#define _POSIX_C_SOURCE 200809L
#include "../bench.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "product/gemm.h"

/* As in training: y = x W', dx += dy W, dW += dy' x. */
typedef enum form { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT } form;

static const struct {
    form form;
    int64_t m, n, k;
    const char *text;
} cases[] = {
    {FORWARD, 8192, 256, 256, "x W'"},
    {FORWARD, 8192, 1024, 256, "x W'"},
    {INPUT_GRADIENT, 8192, 256, 1024, "dy W, added"},
    {WEIGHT_GRADIENT, 1024, 256, 8192, "dy' x, added"},
    {WEIGHT_GRADIENT, 256, 256, 8192, "dy' x, added"},
    {FORWARD, 1024, 768, 768, "x W'"},
    {FORWARD, 1024, 3072, 768, "x W'"},
    {INPUT_GRADIENT, 1024, 768, 3072, "dy W, added"},
    {FORWARD, 1024, 768, 3072, "x W'"},
    {INPUT_GRADIENT, 1024, 3072, 768, "dy W, added"},
    {INPUT_GRADIENT, 1024, 768, 768, "dy W, added"},
    {WEIGHT_GRADIENT, 768, 768, 1024, "dy' x, added"},
    {WEIGHT_GRADIENT, 3072, 768, 1024, "dy' x, added"},
    {WEIGHT_GRADIENT, 768, 3072, 1024, "dy' x, added"},
    /* the output layer, 256 rows at a time */
    {FORWARD, 256, 50304, 768, "x W'"},
    {INPUT_GRADIENT, 256, 768, 50304, "dy W, added"},
    {WEIGHT_GRADIENT, 50304, 768, 256, "dy' x, added"},
    {FORWARD, 2560, 2560, 2560, "x W'"},
};

/* ---- Engines --------------------------------------------------------------------------------------------- */

enum { row_major = 101, no_trans = 111, trans = 112 };
typedef void cblas_sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
typedef int dnnl_sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                          const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct problem {
    int threads;
    bool ta, tb, accumulate;
    int64_t m, n, k, lda, ldb;
    float *a, *b, *c, *workspace;
    uint16_t *halves; /* b, or of a gradient of weights c: what belongs to the weights, in bfloat16 */
    uint16_t *x, *y;  /* a, and of a gradient of weights b, in bfloat16 */
    scn_gemm plan, plan_half, plan_mixed;
} problem;

static cblas_sgemm_fn *openblas, *blis;
static dnnl_sgemm_fn *onednn;

static void run_ours(void *ctx)
{
    const problem *p = ctx;
    scn_gemm_run(&p->plan, p->a, p->lda, p->b, p->ldb, 1, p->accumulate, p->c, p->n, NULL, p->workspace);
}

static void run_half(void *ctx)
{
    const problem *p = ctx;
    const bool result = p->plan_half.shape.c == SCION_BF16;
    scn_gemm_run(&p->plan_half, p->a, p->lda, result ? (void *)p->b : p->halves, p->ldb, 1, p->accumulate,
                 result ? (void *)p->halves : p->c, p->n, NULL, p->workspace);
}

static void run_mixed(void *ctx)
{
    const problem *p = ctx;
    scn_gemm_run(&p->plan_mixed, p->x, p->lda, p->y ? (void *)p->y : p->b, p->ldb, 1, p->accumulate, p->c, p->n, NULL,
                 p->workspace);
}

static void run_cblas(const problem *p, cblas_sgemm_fn *sgemm)
{
    sgemm(row_major, p->ta ? trans : no_trans, p->tb ? trans : no_trans, (int)p->m, (int)p->n, (int)p->k, 1, p->a,
          (int)p->lda, p->b, (int)p->ldb, p->accumulate ? 1.0f : 0.0f, p->c, (int)p->n);
}

static void run_openblas(void *ctx)
{
    run_cblas(ctx, openblas);
}

static void run_blis(void *ctx)
{
    run_cblas(ctx, blis);
}

static void run_onednn(void *ctx)
{
    const problem *p = ctx;
    onednn(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb,
           p->accumulate ? 1.0f : 0.0f, p->c, p->n);
}

static void *symbol_of(const char *const *libraries, const char *name)
{
    for (; *libraries; libraries++) {
        void *library = dlopen(*libraries, RTLD_NOW | RTLD_LOCAL);
        void *symbol = library ? dlsym(library, name) : NULL;
        if (symbol)
            return symbol;
    }
    return NULL;
}

/* A symbol as a function, which ISO C has no cast for. */
#define LOAD(function, name, ...)                                                 \
    do {                                                                          \
        void *symbol = symbol_of((const char *const[]){__VA_ARGS__, NULL}, name); \
        memcpy(&(function), &symbol, sizeof symbol);                              \
    } while (0)

static void load_engines(int threads)
{
    char number[16];
    snprintf(number, sizeof number, "%d", threads);
    setenv("OMP_NUM_THREADS", number, 1);
    setenv("BLIS_NUM_THREADS", number, 1);
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512vl"))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
    else if (__builtin_cpu_supports("avx2"))
        setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
    LOAD(openblas, "cblas_sgemm", "libopenblas.so.0");
    LOAD(blis, "cblas_sgemm", "libblis.so.4", "libblis.so.3", "libblis.so");
    LOAD(onednn, "dnnl_sgemm", "libdnnl.so.2", "libdnnl.so.3");
}

/* ---- Rows of the table ------------------------------------------------------------------------------------- */

static uint16_t *halves_of(int64_t n, const float *from)
{
    uint16_t *to = (uint16_t *)(void *)bench_floats(n / 2 + 1);
    scn_to_bf16(n, from, to);
    return to;
}

static problem problem_of(int i, int threads)
{
    problem p = {.threads = threads, .m = cases[i].m, .n = cases[i].n, .k = cases[i].k};
    p.ta = cases[i].form == WEIGHT_GRADIENT;
    p.tb = cases[i].form == FORWARD;
    p.accumulate = cases[i].form != FORWARD;
    p.lda = p.ta ? p.m : p.k;
    p.ldb = p.tb ? p.k : p.n;
    scn_gemm_shape s = {.m = p.m, .n = p.n, .k = p.k, .transpose_a = p.ta, .transpose_b = p.tb}, mixed = s;
    p.plan = scn_gemm_plan(&s, threads);
    mixed.compute = mixed.a = SCION_BF16;
    mixed.b = p.ta ? SCION_BF16 : SCION_F32;
    p.plan_mixed = scn_gemm_plan(&mixed, threads);
    if (cases[i].form == WEIGHT_GRADIENT)
        s.c = SCION_BF16;
    else
        s.b = SCION_BF16;
    p.plan_half = scn_gemm_plan(&s, threads);
    p.plan_half.rounding = scn_rounding_by(1, 2); /* of a bfloat16 result, as in training */
    p.a = bench_floats(p.m * p.k);
    p.b = bench_floats(p.k * p.n);
    p.c = bench_floats(p.m * p.n);
    size_t floats = 0;
    const scn_gemm *plans[] = {&p.plan, &p.plan_half, &p.plan_mixed};
    for (int k = 0; k < 3; k++)
        floats = scn_gemm_floats(plans[k]) > floats ? scn_gemm_floats(plans[k]) : floats;
    p.workspace = bench_floats((int64_t)floats + 16);
    bench_fill(p.a, p.m * p.k, 1);
    bench_fill(p.b, p.k * p.n, 2);
    bench_fill(p.c, p.m * p.n, 3);
    p.halves = p.ta ? halves_of(p.m * p.n, p.c) : halves_of(p.k * p.n, p.b);
    p.x = halves_of(p.m * p.k, p.a);
    p.y = p.ta ? halves_of(p.k * p.n, p.b) : NULL;
    return p;
}

static void free_problem(problem *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->workspace);
    free(p->halves);
    free(p->x);
    free(p->y);
}

/* Multiply-adds on registers, and how many they were. */
typedef struct registers {
    scion_dtype compute;
    double operations;
} registers;

/* By all threads, for about a tenth of a second. */
static void run_registers(void *ctx)
{
    registers *r = ctx;
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    sum += scn_kernel_for(r->compute)->limit(10000000);
    r->operations = sum;
}

static void row(const bench_options *o, int i)
{
    problem p = problem_of(i, o->threads);
    registers limit[] = {{.compute = SCION_F32}, {.compute = SCION_BF16}};
    bench_entry race[] = {
        {.run = run_registers, .ctx = &limit[0]},
        {.run = run_ours, .ctx = &p},
        {.run = run_half, .ctx = &p},
        {.run = run_registers, .ctx = &limit[1]},
        {.run = run_mixed, .ctx = &p},
        {.run = run_onednn, .ctx = &p, .skip = !onednn},
        {.run = run_openblas, .ctx = &p, .skip = !openblas},
        {.run = run_blis, .ctx = &p, .skip = !blis},
    };
    enum { entries = sizeof race / sizeof *race };
    char shape[64];
    bench_race(o, race, entries);
    snprintf(shape, sizeof shape, "%lld x %lld x %lld, %s", (long long)p.m, (long long)p.n, (long long)p.k,
             cases[i].text);
    printf("%-34s", shape);
    for (int e = 0; e < entries; e++) {
        const double flop = race[e].run == run_registers ? ((const registers *)race[e].ctx)->operations
                                                         : 2.0 * (double)p.m * (double)p.n * (double)p.k;
        if (race[e].skip)
            printf(" %9s", "-");
        else
            printf(" %9.1f", 1e-6 * flop / bench_entry_median(&race[e]));
    }
    printf("\n");
    fflush(stdout);
    free_problem(&p);
}

int main(int argc, char **argv)
{
    bench_options o = {.threads = omp_get_num_procs()};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            o.quick = 1;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0)
            o.threads = atoi(argv[++i]);
        else
            bench_die("usage: bench_products [--threads N] [--quick]");
    }
    omp_set_num_threads(o.threads);
    load_engines(o.threads);
    printf("%s, %s kernels, %d threads, Gflop/s\n", bench_cpu_name(), scn_isa_used()->name, o.threads);
    printf("%-34s %9s %9s %9s %9s %9s %9s %9s %9s\n", "m x n x k", "limit", "ours", "W bf16", "limit 16", "mixed",
           "oneDNN", "OpenBLAS", "BLIS");
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        row(&o, i);
    return 0;
}
