/* Shared by the tests: random numbers with a printed seed, memory that a test need not free, an allocator
 * that counts and fails, checks that name the case at hand, and the oracle: every norm, lmo and rule written
 * again in double precision, naively and straight from the paper's tables, with LAPACK's SVD for the
 * spectral ones. Nothing here shares code with the library.
 *
 * A test program is a list of LAW(function); SCION_TEST_SEED in the environment replaces the seed. */
#ifndef SCION_TESTS_SUPPORT_H
#define SCION_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scion_advanced.h"

#define COUNT_OF(a) ((int64_t)(sizeof(a) / sizeof *(a)))

/* ---- Memory of one test: zeroed, and freed when the test ends ------------------------------------------ */

void *room(size_t bytes);
float *floats(int64_t n);
double *doubles(int64_t n);
float *copy_floats(int64_t n, const float *x);
int release(void **state); /* the teardown of every test */
#define LAW(f) cmocka_unit_test_teardown(f, release)

/* ---- Random numbers ------------------------------------------------------------------------------------ */

typedef struct rng {
    uint64_t state;
    double spare;
    int has_spare;
} rng;

/* The seed of this run, printed once. */
uint64_t run_seed(void);
/* A stream of its own for each `stream`. */
rng rng_of(uint64_t stream);
double rng_uniform(rng *r); /* in (0,1) */
double rng_normal(rng *r);
void rng_gaussian(rng *r, int64_t n, float *x);
float *gaussian(rng *r, int64_t n);

/* ---- Checks. A failing check prints the case that `at` named ------------------------------------------- */

void at(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define check(cond) check_true_at((cond) != 0, #cond, __FILE__, __LINE__)
/* |got - want| <= tol |want| */
#define check_rel(got, want, tol) check_rel_at((got), (want), (tol), #got, __FILE__, __LINE__)
/* a <= b */
#define check_le(a, b) check_le_at((a), (b), #a, __FILE__, __LINE__)
#define check_status(call, want, err) check_status_at((call), (want), (err), #call, __FILE__, __LINE__)
#define check_ok(call, err) check_status(call, SCION_OK, err)
/* max |got - want| <= tol max |want|; where want is all zero, got must be exactly zero. */
#define check_array(n, got, want, tol) check_array_at((n), (got), (want), (tol), #got, __FILE__, __LINE__)
#define check_bits(bytes, a, b) check_bits_at((bytes), (a), (b), #a, __FILE__, __LINE__)
#define check_finite(n, x) check_finite_at((n), (x), #x, __FILE__, __LINE__)

void check_true_at(int ok, const char *what, const char *file, int line);
void check_rel_at(double got, double want, double tol, const char *what, const char *file, int line);
void check_le_at(double a, double b, const char *what, const char *file, int line);
void check_status_at(scion_status got, scion_status want, const scion_error *err, const char *what, const char *file,
                     int line);
void check_array_at(int64_t n, const float *got, const double *want, double tol, const char *what, const char *file,
                    int line);
void check_bits_at(size_t bytes, const void *a, const void *b, const char *what, const char *file, int line);
void check_finite_at(int64_t n, const float *x, const char *what, const char *file, int line);

/* max |got - want| / max |want| */
double array_error(int64_t n, const float *got, const double *want);
/* Frobenius norm of got - want over that of want. */
double frobenius_error(int64_t n, const float *got, const double *want);
double dot(int64_t n, const float *a, const float *b);
double *widen(int64_t n, const float *x); /* into room */

/* ---- bfloat16 ------------------------------------------------------------------------------------------ */

uint16_t bf16_nearest(float x); /* ties to even */
float bf16_value(uint16_t h);
uint16_t *bf16_copy(int64_t n, const float *x); /* into room */

/* ---- An allocator that counts, and fails at the fail_at-th call (0: never) ----------------------------- */

typedef struct meter {
    int64_t calls; /* of alloc */
    int64_t live;  /* blocks not yet freed */
    int64_t bytes; /* not yet freed */
    int64_t fail_at;
    scion_allocator allocator; /* for options to point at */
} meter;

/* Fresh memory is filled with bytes that are NaN as float32, so that a read before a write shows. */
scion_allocator meter_allocator(meter *m);

/* ---- The oracle: norms --------------------------------------------------------------------------------- */

int64_t elements(const scion_param *p);
/* A parameter of this shape, norm and role with every other field at its default. */
scion_param param_of(int32_t ndim, const int64_t *shape, scion_norm norm, scion_role role);
scion_param matrix_of(int64_t rows, int64_t cols, scion_norm norm, scion_role role);
/* "spectral hidden 7x3 transposed split 0/3", in a static buffer. */
const char *describe(const scion_param *p);

/* Norm of the unit ball, its dual, and rho lmo (exact, or spectral by `steps` of the quintic iteration). */
double oracle_norm(const scion_param *p, const double *x);
double oracle_dual(const scion_param *p, const double *s);
#define EXACT 0
void oracle_lmo(const scion_param *p, int steps, const double *s, double *out);
/* The factor c of the first block, and its d_out and d_in (a kernel's positions counted in d_in). */
double oracle_scale(const scion_param *p);
void oracle_block(const scion_param *p, int64_t *d_out, int64_t *d_in);
/* The norm that a configuration gives to a role. */
scion_norm oracle_route(scion_routing routing, scion_role role, int32_t ndim);

/* ---- The oracle: matrices, row-major ------------------------------------------------------------------- */

/* min(rows, cols) singular values, descending, into room. */
double *singular_values(int64_t rows, int64_t cols, const double *a);
/* U V' over the singular values above `cut` times the largest. */
void oracle_polar(int64_t rows, int64_t cols, const double *a, double cut, double *out);
/* `steps` of X <- aX + (bA + cA^2)X, A = XX', from X = a/||a||_F: (3.4445, -4.7750, 2.0315). */
void oracle_quintic(int64_t rows, int64_t cols, const double *a, int steps, double *out);
/* Lakic's iteration as the authors' CIFAR-10 script has it: S = aa', t = ||S||_F, N = S/t, Z = I; `steps` times
 * U = (3I - N)/2, Z <- ZU, N <- NUU; then Za / sqrt(t). For a tall matrix the same of a'. */
void oracle_cubic(int64_t rows, int64_t cols, const double *a, int steps, double *out);
/* A rows x cols matrix with these min(rows, cols) singular values and Haar-like singular vectors. */
float *with_spectrum(rng *r, int64_t rows, int64_t cols, const double *sigma);

/* ---- The cases: every norm in every role on every shape ------------------------------------------------ */

/* Calls law(p, r) for each, r a stream of random numbers of its own; `at` names the case. */
void for_each_case(void (*law)(const scion_param *p, rng *r));

/* ---- The oracle: rules --------------------------------------------------------------------------------- */

typedef struct oracle_param {
    scion_param p; /* norm routed, radius, lr_scale, weight_decay, frozen as the library has them */
    int64_t n;
    double *w, *d; /* weight and average (or Muon's and SGD's accumulation, or with light the gradient) */
    double *m, *v; /* AdamW */
    int skipped;   /* NULL gradient in this step */
    int64_t steps; /* that it took part in, for AdamW's bias correction and MARS's start */
} oracle_param;

typedef struct oracle_run {
    scion_options o;
    int64_t count, steps;
    oracle_param *params;
} oracle_run;

/* Weights are read from the float32 weights of params; all memory is room. */
oracle_run *oracle_start(const scion_options *o, const scion_param *params, int64_t count);
/* One step; g[i] (and for MARS g_prev[i]) are this step's gradients; with light, those to be added. */
void oracle_step(oracle_run *run, double lr, const float *const *g, const float *const *g_prev);

/* ---- A problem for scion_minimize -------------------------------------------------------------------------- */

enum { BOWL_ROWS = 3, BOWL_COLS = 4, BOWL_N = BOWL_ROWS * BOWL_COLS, BOWL_CALLS = 4096 };

/* f(x) = 1/2 ||x - target||^2, or the non-convex sum of (x - target)^2 / (1 + (x - target)^2); noise of mean 0 that
 * is +9 sigma with probability 1/10 and -sigma else: skewed, so that averaging is what removes its effect. */
typedef struct bowl {
    float x[BOWL_N], g[BOWL_N], g_prev[BOWL_N];
    double target[BOWL_N], sigma;
    int nonconvex;
    scion_param p;
    int64_t calls, reports, exacts;
    int64_t stop_gradient, stop_exact, stop_report; /* at this call; 0: never */
    struct {
        int64_t k;
        uint64_t sample;
        float x[BOWL_N];
    } seen[BOWL_CALLS]; /* by the gradient callback, which MARS calls twice with one sample */
    scion_report report[BOWL_CALLS];
    double worst_norm; /* of the iterates, over the radius */
} bowl;

/* The one bowl there is, made anew; it starts at 0. */
bowl *bowl_make(scion_norm norm, double radius);
void bowl_gradient(const bowl *b, float *g, double sigma, uint64_t sample); /* g += */
/* Reported in every step, with the exact gradient if there is noise. */
scion_problem bowl_problem(bowl *b, int64_t steps, scion_schedule_kind kind, double peak);
scion_options bowl_options(scion_rule rule, double momentum);

#endif
