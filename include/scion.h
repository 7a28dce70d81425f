/* scion.h - norm-constrained LMO optimizers (Scion, ICML 2025) for weights and gradients in memory.
 *
 *     float w[10 * 784], g[10 * 784];
 *     scion_param p;
 *     scion_param_init(&p);
 *     p.name = "head";  p.ndim = 2;  p.shape[0] = 10;  p.shape[1] = 784;      // d_out x d_in, row-major
 *     p.weight = w;     p.grad = g;  p.role = SCION_ROLE_OUTPUT;  p.radius = 10;
 *     scion_options o;
 *     scion_options_init(&o, SCION_RULE_SCION);
 *     scion_optimizer *opt = NULL;
 *     scion_error err;
 *     if (scion_optimizer_create(&opt, &o, &p, 1, &err)) { puts(err.message); return 1; }
 *     scion_optimizer_init_weights(opt, 42, &err);                            // on the boundary of the ball
 *     for (int k = 0; k < n; k++) {
 *         scion_optimizer_begin(opt);                                         // zeroes g
 *         my_backward(w, g);                                                  // g += gradient at w
 *         if (scion_optimizer_step(opt, 0.05 * (1 - (double)k / n), &err)) { puts(err.message); return 1; }
 *     }
 *     scion_optimizer_free(opt);
 *
 * Letters: W is a weight of d_out x d_in, rho its radius, lr the step size, alpha the weight of the new
 * gradient in the average d. lmo(s) is the minimiser of <s, x> over the unit ball, so it is added.
 *
 * Memory: the caller owns weights and gradients; the optimizer borrows them until it is freed. Everything
 * else comes from the caller's allocator when the optimizer is made; a step allocates nothing.
 * Threads: functions are reentrant, there is no global state. One optimizer is used by one thread at a
 * time; different optimizers may be used at the same time. Inside, OpenMP threads share the work.
 * Errors: a call that can fail returns a status and, where `err` is not NULL, fills one sentence.
 * Versions: until 1.0 a minor version may change the ABI (and then the SONAME), a patch version never
 * does. Structs carry their size, so that they can grow at the end without a change of ABI.
 *
 * Licence: MIT. */
#ifndef SCION_H
#define SCION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCION_VERSION "0.1.0"

#if defined(__GNUC__)
#define SCION_API __attribute__((visibility("default")))
#else
#define SCION_API
#endif

/* ---- Status and names ------------------------------------------------------------------------------- */

typedef enum scion_status {
    SCION_OK = 0,
    SCION_EINVAL,     /* an argument, option or shape is wrong */
    SCION_ENOMEM,     /* the allocator returned NULL */
    SCION_ENONFINITE, /* a gradient holds NaN or Inf; nothing was changed */
    SCION_ESTATE,     /* a saved state is damaged or belongs to another optimizer; nothing was changed */
    SCION_ESTOPPED    /* a callback asked to stop */
} scion_status;

typedef struct scion_error {
    scion_status status;
    int64_t param;     /* index of the parameter at fault, or -1 */
    char message[232]; /* one sentence: what was found, what was expected */
} scion_error;

/* The version of the library that is linked, as SCION_VERSION. */
SCION_API const char *scion_version(void);
/* "out of memory" and so on; never NULL. */
SCION_API const char *scion_status_string(scion_status status);

typedef enum scion_dtype { SCION_F32 = 0, SCION_BF16 } scion_dtype;

/* Norms, with the operator norm that each is. AUTO: the routing decides by role. */
typedef enum scion_norm {
    SCION_NORM_AUTO = 0,
    SCION_NORM_SPECTRAL, /* RMS -> RMS: singular values */
    SCION_NORM_COL,      /* 1 -> RMS: columns */
    SCION_NORM_ROW,      /* RMS -> inf: rows */
    SCION_NORM_SIGN,     /* 1 -> inf: entries */
    SCION_NORM_RMS,      /* root mean square of all entries: biases, positional embeddings */
    SCION_NORM_EUCLID,   /* 2-norm of all entries: parameters of normalisation layers */
    SCION_NORM_MAX       /* largest absolute entry of all, no dimension factor */
} scion_norm;

/* What a parameter is for. Norm and role together fix the factor c of lmo(s) = -c * direction(s):
 *
 *                  ONEHOT        INPUT (dense)                HIDDEN, OUTPUT           PLAIN
 *     SPECTRAL     sqrt(d_out)   max(1, sqrt(d_out/d_in))     sqrt(d_out/d_in)         1
 *     COL          sqrt(d_out)   sqrt(d_out)/d_in             sqrt(d_out)/d_in         1
 *     ROW          1             1/sqrt(d_in)                 1/sqrt(d_in)             1
 *     SIGN         1             1/d_in                       1/d_in                   1
 *
 * RMS has c = sqrt(count), EUCLID and MAX have c = 1, in every role. A convolution weight (out, in, k...)
 * is the matrix out x (in * k...): SPECTRAL takes d_in = in and divides by the number of kernel positions,
 * the others take d_in = in * k... (PLAIN divides by nothing). A weight shared by the first and the last layer is
 * one OUTPUT. A spectral convolution starts position by position, as in the paper's code: its flattened norm is
 * then up to sqrt(positions) rho, and shrinks to rho from there. */
typedef enum scion_role {
    SCION_ROLE_HIDDEN = 0,
    SCION_ROLE_ONEHOT,        /* first layer, one-hot input: an embedding table */
    SCION_ROLE_INPUT,         /* first layer, dense input such as pixels */
    SCION_ROLE_OUTPUT,        /* last layer */
    SCION_ROLE_VECTOR,        /* bias, positional embedding, class token */
    SCION_ROLE_NORMALIZATION, /* gain or shift of a normalisation layer */
    SCION_ROLE_PLAIN          /* no dimension factor */
} scion_role;

/* Which norm AUTO means, by role (first layer, hidden, last layer):
 *     IMAGE spectral, spectral, sign     ONEHOT col, spectral, sign     SHARED sign, spectral, sign
 *     and the same norm throughout: SIGN, COL, ROW, SPECTRAL.
 * Vectors (and parameters of one dimension) take RMS, in a SIGN network MAX; normalisation EUCLID. */
typedef enum scion_routing {
    SCION_ROUTING_IMAGE = 0,
    SCION_ROUTING_ONEHOT,
    SCION_ROUTING_SHARED,
    SCION_ROUTING_SIGN,
    SCION_ROUTING_COL,
    SCION_ROUTING_ROW,
    SCION_ROUTING_SPECTRAL
} scion_routing;

/* Rules. d starts at 0; mu is the weight decay; g the gradient. */
typedef enum scion_rule {
    SCION_RULE_SCION = 0, /* d = (1-alpha)d + alpha g;  w = (1-lr)w + lr rho lmo(d): ||w|| <= rho for ever */
    SCION_RULE_USCION,    /* the same d;  w = (1-lr mu)w + lr rho lmo(d); mu in (0,1] bounds ||w|| by rho/mu */
    SCION_RULE_ALMOND,    /* d = (1-alpha)d + alpha lmo(g);  w = (1-lr mu)w + lr rho d */
    SCION_RULE_MUON,      /* G = g + (1-alpha)G;  spectral lmo of g + (1-alpha)G, or of G without Nesterov, for
                             HIDDEN and PLAIN matrices and convolutions whose norm is AUTO or SPECTRAL, times
                             muon_multiplier and (HIDDEN) sqrt(max(rows, cols)); AdamW for all others */
    SCION_RULE_SIGNSGD,   /* uscion with alpha = 1 and the max norm */
    SCION_RULE_SIGNUM,    /* uscion with the max norm */
    SCION_RULE_NSGD,      /* uscion with alpha = 1 and the 2-norm of all parameters as one vector */
    SCION_RULE_MNSGD,     /* the same with momentum; `layerwise` takes each parameter's (or block's) own 2-norm */
    SCION_RULE_SSD,       /* steepest descent: w = (1-lr mu)w - lr sharp(g), sharp(g) = -rho^2 dual(g) lmo(g);
                             not `layerwise`: with the dual of the joint norm, sum of rho dual(g) */
    SCION_RULE_MARS,      /* scion with the STORM average d = g + (1-alpha)(d - g_prev), g_prev the gradient at
                             the previous weights on the same batch (see scion_optimizer_previous); the first
                             step has d = g and does not read g_prev */
    SCION_RULE_ADAMW,     /* decoupled decay, bias correction; w = (1-lr mu)w - lr mhat/(sqrt(vhat)+eps) */
    SCION_RULE_SGD        /* d = (1-alpha)d + g;  w = (1-lr mu)w - lr d */
} scion_rule;

/* Coefficients of the odd quintic iteration X <- aX + (bA + cA^2)X, A = XX', for the spectral lmo. */
typedef enum scion_polar_set {
    SCION_POLAR_QUINTIC = 0, /* (3.4445, -4.7750, 2.0315), as the paper ran: singular values 0.68 to 1.20 */
    SCION_POLAR_EXPRESS,     /* Polar Express: a different quintic each step, about 0.99 to 1.01 after 6 */
    SCION_POLAR_CONVERGED    /* as exact as float32: singular values above 1e-4 of the Frobenius norm become 1 */
} scion_polar_set;

typedef enum scion_schedule_kind {
    SCION_SCHEDULE_CONSTANT = 0,    /* peak */
    SCION_SCHEDULE_LINEAR,          /* peak (1 - k/n) */
    SCION_SCHEDULE_CONSTANT_LINEAR, /* from start to peak in `warmup` steps, peak for k < n-decay, then
                                       peak (n-k)/decay */
    SCION_SCHEDULE_COSINE,          /* from start to peak in `warmup` steps, then a half cosine to end */
    SCION_SCHEDULE_COSINE_UNSHIFTED, /* the same, the cosine's clock running from step 0 */
    SCION_SCHEDULE_INV_SQRT_N,      /* peak / sqrt(n): the analysis with constant momentum */
    SCION_SCHEDULE_INV_N34,         /* peak * 3/(4 n^(3/4)): the analysis with vanishing momentum */
    SCION_SCHEDULE_INV_SQRT_K       /* peak / sqrt(k), k from 1: vanishing momentum itself */
} scion_schedule_kind;

/* Names as in files and on command lines: "scion", "spectral", "onehot", ... */
typedef enum scion_enum {
    SCION_ENUM_NORM = 0,
    SCION_ENUM_ROLE,
    SCION_ENUM_ROUTING,
    SCION_ENUM_RULE,
    SCION_ENUM_POLAR,
    SCION_ENUM_SCHEDULE
} scion_enum;

/* Name of a value, or NULL when there is no such value (so that a loop can list them all). */
SCION_API const char *scion_enum_name(scion_enum kind, int value);
/* Value of a name, or -1. */
SCION_API int scion_enum_value(scion_enum kind, const char *name);

/* ---- Parameters and options ------------------------------------------------------------------------- */

/* Memory from the caller. alloc returns NULL on failure, else memory aligned as malloc's. */
typedef struct scion_allocator {
    void *(*alloc)(void *ctx, size_t bytes);
    void (*free)(void *ctx, void *memory);
    void *ctx;
} scion_allocator;

typedef struct scion_param {
    size_t size;               /* sizeof(scion_param) */
    const char *name;          /* copied; NULL is "param" and its index */
    int32_t ndim;              /* 1 to 4; a matrix is d_out x d_in, a convolution out, in, k, k */
    int64_t shape[4];
    void *weight;              /* contiguous, row-major */
    void *grad;                /* same shape; NULL: the parameter is skipped altogether */
    void *grad_prev;           /* rule MARS only: gradient at the previous weights, type of grad */
    scion_dtype weight_type;   /* bfloat16 weights are rounded stochastically, */
    scion_dtype grad_type;     /* bfloat16 gradients to nearest even */
    scion_norm norm;
    scion_role role;
    double radius;             /* rho > 0 */
    double lr_scale;           /* multiplies lr */
    double weight_decay;       /* mu; negative: the optimizer's */
    int32_t transposed;        /* stored as d_in x d_out (an embedding table: vocabulary x dim) */
    int32_t split_axis;        /* a fused matrix is split along this stored axis, 0 rows or 1 columns, */
    int32_t split_count;       /* into so many blocks (0 and 1: not at all), each with its own lmo, */
    const int64_t *split_sizes; /* of these sizes (copied), or of equal size if NULL */
    int32_t group;             /* any number, for scion_optimizer_set */
    int32_t frozen;            /* not stepped */
} scion_param;

typedef struct scion_options {
    size_t size;               /* sizeof(scion_options) */
    scion_rule rule;
    scion_routing routing;
    double momentum;           /* alpha in (0,1], the weight of the new gradient */
    int32_t vanishing;         /* alpha_k = 1/sqrt(k), k from 1, in place of `momentum` */
    int32_t first_full;        /* alpha = 1 in the first step, as the analysis does */
    int32_t light;             /* keep the average in the gradient buffer: no other state (SCION, USCION,
                                  SIGNUM, MNSGD). The step leaves (1-alpha)G in grad; do not zero it */
    int32_t nesterov;          /* MUON */
    int32_t layerwise;         /* NSGD, MNSGD, SSD */
    double weight_decay;       /* mu; SCION and MARS have 1 by definition and take 0 or 1 here */
    double muon_multiplier;
    double beta1, beta2, adam_eps; /* ADAMW, and MUON's AdamW part */
    double clip_norm;          /* ADAMW, SGD: gradients are scaled to this joint 2-norm if above; 0: off */
    double eps;                /* added to the denominators of COL, ROW and RMS; the reference has 1e-8 */
    double polar_eps;          /* added to the Frobenius norm of SPECTRAL; the reference has 1e-7.
                                  Both are 0 by default: scale-invariant, and zeros stay zero */
    scion_polar_set polar;
    int32_t polar_steps;       /* 0: the set's own (5, 6, 12) */
    int32_t threads;           /* 0: OpenMP's default */
    uint64_t seed;             /* of the stochastic rounding */
    scion_allocator allocator; /* zeros: malloc and free */
} scion_options;

/* Defaults. In a SCION network the paper's alpha = 0.1; radius and lr_scale 1; muon_multiplier 0.1. */
#define scion_param_init(p) scion_param_init_sized((p), sizeof *(p))
#define scion_options_init(o, rule) scion_options_init_sized((o), sizeof *(o), (rule))
SCION_API void scion_param_init_sized(scion_param *p, size_t size);
SCION_API void scion_options_init_sized(scion_options *o, size_t size, scion_rule rule);

/* Replaces AUTO in each parameter by the norm that `routing` gives its role. create does it as well. */
SCION_API scion_status scion_route(scion_param *params, int64_t count, scion_routing routing, scion_error *err);

/* ---- The optimizer ---------------------------------------------------------------------------------- */

typedef struct scion_optimizer scion_optimizer;

/* Makes an optimizer of `count` parameters (copied). On failure *out is NULL. o may be NULL: SCION. */
SCION_API scion_status scion_optimizer_create(scion_optimizer **out, const scion_options *o,
                                              const scion_param *params, int64_t count, scion_error *err);
SCION_API void scion_optimizer_free(scion_optimizer *opt);

/* Puts every weight that is not frozen on the boundary of its ball (vectors: 0). Independent of threads. */
SCION_API scion_status scion_optimizer_init_weights(scion_optimizer *opt, uint64_t seed, scion_error *err);

/* Call before the backward passes that add up one step's gradient: zeroes the gradients; with `light`,
 * whose gradients hold the average, does nothing. */
SCION_API void scion_optimizer_begin(scion_optimizer *opt);

/* One step. A gradient that is not finite is refused: ENONFINITE names it, and nothing was changed. */
SCION_API scion_status scion_optimizer_step(scion_optimizer *opt, double lr, scion_error *err);

/* Number of steps taken. */
SCION_API int64_t scion_optimizer_steps(const scion_optimizer *opt);

/* Moves parameter i to other memory of the same shape and types; a NULL grad skips it from now on. */
SCION_API scion_status scion_optimizer_bind(scion_optimizer *opt, int64_t i, void *weight, void *grad,
                                            scion_error *err);

/* MARS: exchanges the weights with those before the last step (call it in pairs around the second backward
 * pass, which writes grad_prev). Before the first step it changes nothing. */
SCION_API scion_status scion_optimizer_previous(scion_optimizer *opt, scion_error *err);

typedef enum scion_setting {
    SCION_SET_RADIUS = 0,
    SCION_SET_LR_SCALE,
    SCION_SET_WEIGHT_DECAY,
    SCION_SET_MOMENTUM, /* constant alpha from now on */
    SCION_SET_FROZEN    /* 0 or 1 */
} scion_setting;

#define SCION_ALL (-1)
/* Changes a setting of parameter i (or SCION_ALL), or of every parameter of a group, between steps. */
SCION_API scion_status scion_optimizer_set(scion_optimizer *opt, int64_t i, scion_setting what, double value,
                                           scion_error *err);
SCION_API scion_status scion_optimizer_set_group(scion_optimizer *opt, int32_t group, scion_setting what,
                                                 double value, scion_error *err);

/* What the optimizer knows of a parameter. */
typedef struct scion_info {
    size_t size;         /* sizeof(scion_info), set by the caller */
    const char *name;    /* valid as long as the optimizer */
    int64_t elements;
    scion_rule rule;     /* ADAMW for the parameters that MUON leaves to it */
    scion_norm norm;
    scion_role role;
    double scale;        /* the factor c of the lmo (of the first block) */
    double radius;
    size_t state_bytes;  /* optimizer state beside weight and gradient */
    double seconds;      /* spent on this parameter in the last step */
    double bound;        /* what the rule promises for the norm of the weight: rho (SCION, MARS), rho/mu, or
                            rho times the sum of lr; counted with the start of init_weights or of
                            scion_optimizer_mark_start, else as if it started at 0. INFINITY: no promise */
    double overshoot;    /* the factor by which the spectral iteration may exceed it: 1.21, 1.01 or 1 with the
                            sets' own number of steps */
    double weight_norm;  /* computed if SCION_INSPECT_NORM, else NaN */
    double grad_dual;    /* dual norm of the gradient buffer if SCION_INSPECT_DUAL, else NaN */
    double fw_gap;       /* <g, w> + rho dual(g) if SCION_INSPECT_DUAL, else NaN */
} scion_info;

enum { SCION_INSPECT_NORM = 1, SCION_INSPECT_DUAL = 2 };

/* Routing, bounds, time; norms on demand (they cost about as much as a step). */
SCION_API scion_status scion_optimizer_inspect(scion_optimizer *opt, int64_t i, unsigned what, scion_info *info,
                                               scion_error *err);
/* Measures the norms of the weights as they are now, as the start that bounds are counted from. */
SCION_API scion_status scion_optimizer_mark_start(scion_optimizer *opt, scion_error *err);

/* Bytes of workspace that create planned, and of state beside weights and gradients. */
SCION_API size_t scion_optimizer_workspace_bytes(const scion_optimizer *opt);
SCION_API size_t scion_optimizer_state_bytes(const scion_optimizer *opt);

/* Saving: `save` writes exactly `save_size` bytes, versioned and checksummed, the same on every machine of
 * the same byte order. Weights are the caller's and so are, with `light`, the gradients: save those too.
 * `load` refuses (ESTATE) what does not fit and then changes nothing. A loaded run goes on bit for bit: what
 * scion_optimizer_set changed is part of the state. */
SCION_API size_t scion_optimizer_save_bytes(const scion_optimizer *opt);
SCION_API scion_status scion_optimizer_save(const scion_optimizer *opt, void *buffer, size_t bytes,
                                            scion_error *err);
SCION_API scion_status scion_optimizer_load(scion_optimizer *opt, const void *buffer, size_t bytes,
                                            scion_error *err);

/* ---- Free-standing ---------------------------------------------------------------------------------- */

/* These take shape, norm, role, radius, transposed and splits from p (its pointers are not used) and
 * polar, eps, threads and allocator from o (NULL: defaults; AUTO is routed by o's routing). Arrays are
 * float32 of p's shape; `out` may not overlap the input. Thread-safe. */

/* out = rho lmo(s). */
SCION_API scion_status scion_lmo(const scion_param *p, const scion_options *o, const float *s, float *out,
                                 scion_error *err);
/* Norm of x in the unit of the ball of radius 1 (lmo has norm 1), and its dual. Exact: spectral values come
 * from Lanczos and from the converged polar factor, whatever o says. */
SCION_API scion_status scion_norm_value(const scion_param *p, const scion_options *o, const float *x,
                                        double *value, scion_error *err);
SCION_API scion_status scion_dual_norm(const scion_param *p, const scion_options *o, const float *s,
                                       double *value, scion_error *err);
/* out = sharp(s) = -dual(s) lmo(s) of the unit ball: <s,out> = norm(out)^2 = dual(s)^2. Exact. */
SCION_API scion_status scion_sharp(const scion_param *p, const scion_options *o, const float *s, float *out,
                                   scion_error *err);
/* Frank-Wolfe gap max over norm(u) <= rho of <g, x-u> = <g,x> + rho dual(g). Exact. */
SCION_API scion_status scion_fw_gap(const scion_param *p, const scion_options *o, const float *g, const float *x,
                                    double *gap, scion_error *err);
/* out = a random point of the boundary of the ball of radius rho; zeros for RMS, EUCLID and MAX. */
SCION_API scion_status scion_boundary_init(const scion_param *p, const scion_options *o, uint64_t seed, float *out,
                                           scion_error *err);
/* out = the polar factor UV' of in (rows x cols), by o's coefficient set and number of steps. */
SCION_API scion_status scion_polar(int64_t rows, int64_t cols, const float *in, float *out,
                                   const scion_options *o, scion_error *err);
/* Bytes of workspace that the polar factor of one rows x cols matrix takes. */
SCION_API size_t scion_polar_workspace_bytes(int64_t rows, int64_t cols, const scion_options *o);

typedef struct scion_schedule {
    size_t size; /* sizeof(scion_schedule) */
    scion_schedule_kind kind;
    int64_t n;      /* number of steps */
    int64_t warmup; /* COSINE, CONSTANT_LINEAR: steps of the rise */
    int64_t decay;  /* CONSTANT_LINEAR: steps of the decay */
    double peak, start, end;
} scion_schedule;

/* Step size of step k; k counts from 0 (INV_SQRT_K: from 1). NaN if the schedule makes no sense. */
SCION_API double scion_schedule_value(const scion_schedule *s, int64_t k);

/* ---- Minimisation of a stochastic function ---------------------------------------------------------- */

typedef struct scion_report {
    int64_t k;        /* step, from 1; the values are at x^k, before the step */
    double lr;
    double momentum;
    double dual_norm; /* of the joint norm max_i norm(x_i)/rho_i: sum of rho_i dual(g_i) */
    double fw_gap;    /* joint: sum of <g_i,x_i> + rho_i dual(g_i) */
} scion_report;

typedef struct scion_problem {
    size_t size;                /* sizeof(scion_problem) */
    const scion_param *params;  /* weights: start and result; grads: where the callbacks add */
    int64_t count;
    void *ctx;
    /* Adds a gradient at the present weights, drawn by `sample`, to the grads (zeroed, or with `light` shrunk).
     * The same sample at other weights must be the same draw. Nonzero stops the run. */
    int (*gradient)(void *ctx, int64_t k, uint64_t sample);
    /* Optional: the same without noise, for reports; else they use the stochastic gradient. */
    int (*exact)(void *ctx, int64_t k);
    /* Optional: told every report_every steps; nonzero stops the run (Ctrl-C lands here). */
    int (*report)(void *ctx, const scion_report *r);
    int64_t steps;
    int64_t report_every;       /* measured are steps 1, 1 + e, 1 + 2e, ... and the last; 0: only the last */
    scion_schedule schedule;    /* its n is set to steps if 0 */
    int32_t uniform;            /* return an iterate drawn uniformly from x^1..x^steps, not the last one */
    uint64_t seed;              /* of samples and of that draw */
} scion_problem;

typedef struct scion_result {
    size_t size;           /* sizeof(scion_result), set by the caller */
    int64_t steps;         /* taken */
    int64_t iterate;       /* index k of the returned x^k; steps + 1 for the last one */
    scion_report last;     /* the last report */
    double mean_dual_norm; /* over all reports: what the theorems bound in expectation */
    double mean_fw_gap;
} scion_result;

/* Runs o's rule on the problem. ESTOPPED: a callback stopped it; weights and result are as of then. */
SCION_API scion_status scion_minimize(const scion_problem *problem, const scion_options *o, scion_result *result,
                                      scion_error *err);

#ifdef __cplusplus
}
#endif
#endif
