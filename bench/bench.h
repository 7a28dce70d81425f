/* bench.h - what the parts of the benchmark share.
 *
 * A row of the table is a race: ours and the plain version of the same work take turns, so that a noisy
 * machine disturbs both, and medians are compared. Rulers are measured in the same run: the rate of
 * multiply-adds on registers and that of sgemm (for what is bound by arithmetic), and the bandwidth of a copy (for
 * what is bound by memory).
 *
 *     bench_main.c         options, order of the run
 *     bench_race.c         clock, interleaved rounds, medians, memory, random numbers
 *     bench_cpu.c          which CPU this is;
 *     bench_blas.c         which BLAS this is, and its kernels at their best
 *     bench_rulers.c       sgemm rate and copy bandwidth
 *     bench_spectral.c     the spectral lmo: one matrix, and all of GPT-2
 *     bench_elementwise.c  the other lmos and the fused updates
 *     plain.c              the textbook's spectral iteration, on CBLAS
 *     plain_update.c       the textbook's elementwise lmos and updates
 *     bench_report.c       table and JSON
 *
 * Nothing here recovers from an error: bench_die prints a sentence and ends the program. */
#ifndef BENCH_H
#define BENCH_H

#include "scion_advanced.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define BENCH_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define BENCH_PRINTF(a, b)
#endif

#ifdef _OPENMP
#include <omp.h>
#else /* a build without OpenMP: one thread */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#define omp_get_thread_num() 0
#define omp_get_num_threads() 1
#define omp_get_num_procs() 1
#define omp_set_num_threads(threads) ((void)(threads))
#endif

enum { BENCH_ROUNDS_MAX = 401, BENCH_ROWS_MAX = 32, BENCH_POOL_MAX = 4096 };

typedef struct bench_options {
    int threads;
    int runs; /* rounds of every race; 0: as many as its budget of time allows */
    int quick;
    const char *only; /* run the rows whose name contains this; NULL: all */
    const char *json;
} bench_options;

/* ---- Races (bench_race.c) ---------------------------------------------------------------------------- */

typedef struct bench_entry {
    void (*run)(void *ctx);
    void *ctx;
    int skip;       /* takes no part */
    double warm_ms; /* time of the warm-up; above 0 on entry: it has been warmed up */
    int count;
    double ms[BENCH_ROUNDS_MAX];
} bench_entry;

/* Samples of one quantity from the whole run. */
typedef struct bench_pool {
    int count;
    double value[BENCH_POOL_MAX];
} bench_pool;

/* Warms up, then runs all entries in turn, forwards and backwards in alternate rounds. */
void bench_race(const bench_options *o, bench_entry *entries, int count);
/* Milliseconds of one run. */
double bench_time(const bench_entry *e);
double bench_median(const double *values, int count);
double bench_entry_median(const bench_entry *e);
void bench_pool_add(bench_pool *pool, double value);
/* Median of the pool, 0 if it is empty. */
double bench_pool_median(const bench_pool *pool);

void bench_die(const char *format, ...) BENCH_PRINTF(1, 2);
/* Dies with err's sentence if status is a failure. */
void bench_check(scion_status status, const scion_error *err);
/* `count` floats aligned to a page; dies if there are none. Freed by free. */
float *bench_floats(int64_t count);
/* x[i] uniform in [-1, 1), the same for any number of threads. */
void bench_fill(float *x, int64_t count, uint64_t seed);
/* max |x[i] - factor y[i]|. */
double bench_distance(const float *x, const float *y, double factor, int64_t count);
double bench_max_abs(const float *x, int64_t count);

/* An allocator that keeps what is freed and hands it out again: from the second call on, a function that
 * allocates its workspace gets it for nothing, as from an optimizer that planned it once. */
typedef struct bench_recycler {
    struct {
        void *memory;
        size_t bytes;
        int used;
    } block[64];
} bench_recycler;

scion_allocator bench_recycler_allocator(bench_recycler *r);
void bench_recycler_free(bench_recycler *r);

/* ---- The machine (bench_cpu.c; the BLAS is bench_blas.h) ---------------------------------------------------- */

const char *bench_cpu_name(void);

/* ---- Rulers (bench_rulers.c) ------------------------------------------------------------------------- */

typedef struct bench_peak bench_peak;
typedef struct bench_copy bench_copy;

/* Finds the shape and threading in which sgemm is fastest. NULL is fine for free. */
bench_peak *bench_peak_create(const bench_options *o);
void bench_peak_free(bench_peak *p);
/* A few more samples of the fastest. The argument is the bench_peak, so that this can be an entry of a race. */
void bench_peak_sample(void *peak);
/* Median rate, in Gflop/s, over the whole run. */
double bench_peak_gflops(const bench_peak *p);
/* The same of multiply-adds on registers, as products compute in float32 or in bfloat16. */
double bench_limit_gflops(const bench_peak *p, scion_dtype compute);

/* Finds the fastest of several ways to copy `count` floats (a multiple of 64) from src to dst. */
bench_copy *bench_copy_create(const bench_options *o, const float *src, float *dst, int64_t count);
void bench_copy_free(bench_copy *c);
/* One copy in the fastest way; ctx is the bench_copy. */
void bench_copy_run(void *ctx);
void bench_copy_add(bench_copy *c, const bench_entry *e);
/* Median bandwidth over the whole run, in GB/s, bytes read and bytes written both counted. */
double bench_copy_gbytes(const bench_copy *c);

/* ---- The plain versions ------------------------------------------------------------------------------ */

typedef struct plain_work plain_work;

/* Workspace for matrices of up to `elements` entries whose shorter side is at most `side`. */
plain_work *plain_create(int64_t elements, int64_t side);
void plain_free(plain_work *k);
/* out = 5 steps of the quintic iteration on in (rows x cols), three sgemm a step. `threads` are for the
 * loops beside sgemm, which has its own. */
void plain_polar(plain_work *k, int64_t rows, int64_t cols, const float *in, float *out, int threads);

/* One parameter of rows x cols as stored, and how the plain version steps it. */
typedef struct plain_param {
    int64_t rows, cols;
    int threads;
    double factor; /* c of the lmo -c * direction */
    double lr, alpha;
    double beta1, beta2, eps; /* AdamW */
    int64_t k;                /* AdamW: steps taken */
    float *w, *g, *d, *v, *z; /* weight, gradient, average, AdamW's second moment, lmo */
} plain_param;

/* z = lmo(s) */
void plain_lmo_sign(const plain_param *p, const float *s, float *z);
void plain_lmo_rows(const plain_param *p, const float *s, float *z);
void plain_lmo_cols(const plain_param *p, const float *s, float *z);
void plain_lmo_rms(const plain_param *p, const float *s, float *z);
/* d = (1-alpha)d + alpha g;  z = lmo(d);  w = (1-lr)w + lr z. */
void plain_scion(plain_param *p, void (*lmo)(const plain_param *, const float *, float *));
/* z = lmo(g);  w = (1-lr)w + lr z;  g = (1-alpha)g. */
void plain_light(plain_param *p, void (*lmo)(const plain_param *, const float *, float *));
void plain_adamw(plain_param *p);

/* ---- Results (bench_report.c) ------------------------------------------------------------------------ */

/* Yardstick of a row: sgemm and the limit in float32, the limit in bfloat16, or the copy. */
typedef enum bench_ruler { BENCH_BY_PEAK, BENCH_BY_BF16, BENCH_BY_COPY } bench_ruler;

typedef struct bench_row {
    const char *name;
    double ms, plain_ms;
    int rounds;
    bench_ruler ruler;
    double work;                 /* Gflop that our formulation needs, or GB that must move */
    double ratio_bar, share_bar; /* what is asked for; 0: nothing */
    char note[160];
} bench_row;

typedef struct bench_report {
    const bench_options *options;
    int count;
    bench_row row[BENCH_ROWS_MAX];
    /* 0: not measured */
    double limit_gflops, bf16_limit_gflops, peak_gflops, copy_gbytes;
    double load; /* processes that wanted the CPU when the run started */
} bench_report;

/* A new row; `ours` and `plain` have raced. */
bench_row *bench_report_add(bench_report *r, const char *name, const bench_entry *ours, const bench_entry *plain);
void bench_report_print(const bench_report *r);
void bench_report_json(const bench_report *r);

/* ---- The parts of the run ---------------------------------------------------------------------------- */

/* True if --only asks for this row. */
int bench_wanted(const bench_options *o, const char *name);
void bench_spectral(const bench_options *o, bench_report *r);
void bench_elementwise(const bench_options *o, bench_report *r);

#endif
