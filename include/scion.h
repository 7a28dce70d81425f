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
 * This header is all that most programs need. scion_advanced.h adds names and properties of all choices, changes
 * between steps, measurements, state arrays, schedules, a step in phases, free-standing functions and minimisation.
 *
 * Letters: W is a weight of d_out x d_in, rho its radius, lr the step size, alpha the weight of the new gradient in
 * the average d. lmo(s) is the minimiser of <s, x> over the unit ball, so it is added.
 * First values: lr 0.05 falling linearly to 0, radius 1 and for the last layer 100. The last radius bounds the
 * logits: raise it if the loss stalls although all answers are right, lower it if the loss swings.
 *
 * Memory: the caller owns weights and gradients; the optimizer borrows them until it is freed. Everything else comes
 * from the caller's allocator when the optimizer is made; a step allocates nothing. Arrays are aligned to their type
 * (4 bytes, bfloat16 2) and do not overlap, also across parameters: create refuses others.
 * Threads: functions are reentrant, there is no global state. One optimizer is used by one thread at a time;
 * different optimizers may be used at the same time. Inside, OpenMP threads share the work. They do not survive fork:
 * a child of a process that has stepped with several threads may hang in its own step, unless it calls exec or its
 * steps have threads = 1.
 * Errors: a call that can fail returns a status and, where `err` is not NULL, fills one sentence.
 * Structs: set one up with its ..._init macro, then change members. A struct carries its size and grows only at its
 * end: a program compiled with an older header keeps working, and the members it does not know take their defaults. A
 * program compiled with a newer header works with an older library as long as it leaves the members at zero that the
 * library does not know; otherwise the call is refused. scion_error and scion_allocator never change.
 * Versions: until 1.0 a minor version may change the ABI (and then the SONAME), a patch version never does.
 *
 * Licence: MIT. */
#ifndef SCION_H
#define SCION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCION_VERSION "0.3.0"
#define SCION_VERSION_NUMBER 300 /* 10000 major + 100 minor + patch, for #if */

#if defined(__GNUC__)
#define SCION_API __attribute__((visibility("default")))
#else
#define SCION_API
#endif

/* ---- The optimizer ---------------------------------------------------------------------------------- */

typedef enum scion_status {
    SCION_OK = 0,
    SCION_EINVAL,     /* an argument, option or shape is wrong */
    SCION_ENOMEM,     /* the allocator returned NULL */
    SCION_ENONFINITE, /* a gradient, or a weight or state at the start, holds NaN or Inf, or the step would make one;
                         nothing was changed */
    SCION_ESTATE,     /* a saved state is damaged or belongs to another optimizer; nothing was changed */
    SCION_ESTOPPED    /* a callback asked to stop */
} scion_status;

typedef struct scion_error {
    int32_t status;    /* a scion_status */
    int32_t reserved;
    int64_t param;     /* index of the parameter at fault, or -1 */
    char message[232]; /* one sentence: what was found, what was expected */
} scion_error;

typedef struct scion_optimizer scion_optimizer;
typedef struct scion_param scion_param;     /* a weight, its gradient and its place in the network: below */
typedef struct scion_options scion_options; /* the rule and its settings: below */

/* Sets all members to their defaults. NULL: nothing happens, here and in every other ..._init_sized. */
#define scion_param_init(p) scion_param_init_sized((p), sizeof *(p))
#define scion_options_init(o, rule) scion_options_init_sized((o), sizeof *(o), (rule))
SCION_API void scion_param_init_sized(scion_param *p, size_t size);
SCION_API void scion_options_init_sized(scion_options *o, size_t size, int32_t rule);

/* Makes an optimizer of `count` parameters (copied). On failure *out is NULL. o may be NULL: SCION. */
SCION_API scion_status scion_optimizer_create(scion_optimizer **out, const scion_options *o,
                                              const scion_param *params, int64_t count, scion_error *err);
SCION_API void scion_optimizer_free(scion_optimizer *opt);

/* Puts every weight that is not frozen where its `start` says. The result depends on seed and parameter only, not
 * on threads. A spectral convolution starts position by position, as in the paper's code: its flattened norm is
 * then up to sqrt(positions) rho, and shrinks to rho from there. */
SCION_API scion_status scion_optimizer_init_weights(scion_optimizer *opt, uint64_t seed, scion_error *err);

/* Zeroes the gradients: call it before the backward passes that add up one step's gradient. With `light` the
 * gradients hold the average, and those that this caller owns are left alone. */
SCION_API void scion_optimizer_begin(scion_optimizer *opt);

/* One step. Refuses a gradient that is not finite: ENONFINITE names the parameter, and nothing was changed. In the
 * first step after create or load weights and state arrays are checked as well. Finite numbers so large that weights
 * or averages might not stay finite are refused in the same way: an average that would overflow, and a step of an lmo
 * rule that could move a weight by more than 2^96. */
SCION_API scion_status scion_optimizer_step(scion_optimizer *opt, double lr, scion_error *err);

/* Number of steps taken. */
SCION_API int64_t scion_optimizer_steps(const scion_optimizer *opt);

/* Saving: `save` writes exactly `save_bytes` bytes, versioned and checksummed, the same on every machine of the same
 * byte order. Weights are the caller's, and with `light` so are the gradients: save those too. `load` refuses
 * (ESTATE) what does not fit and then changes nothing. A loaded run continues bit for bit, with the settings that
 * scion_optimizer_set had changed. States of version 0.2 load as well. Arrays that hold NaN or Inf are refused.
 * flags: 0, or SCION_WITHOUT_ARRAYS: settings and counters only, for callers who store the arrays themselves
 * (scion_optimizer_state). */
enum { SCION_WITHOUT_ARRAYS = 1 };
SCION_API size_t scion_optimizer_save_bytes(const scion_optimizer *opt, unsigned flags);
SCION_API scion_status scion_optimizer_save(const scion_optimizer *opt, unsigned flags, void *buffer, size_t bytes,
                                            scion_error *err);
SCION_API scion_status scion_optimizer_load(scion_optimizer *opt, unsigned flags, const void *buffer, size_t bytes,
                                            scion_error *err);

/* Version of the library that is linked, as SCION_VERSION. */
SCION_API const char *scion_version(void);
/* "out of memory" and so on; never NULL. */
SCION_API const char *scion_status_string(int32_t status);

/* ---- Parameters ------------------------------------------------------------------------------------- */

/* Use of a parameter. Role and norm together fix the factor c of lmo(s) = -c * direction(s):
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
 * one OUTPUT. A parameter of one dimension n is the matrix n x 1 (transposed: 1 x n) to the first four norms:
 * SPECTRAL is then RMS, by the iteration. */
typedef enum scion_role {
    SCION_ROLE_HIDDEN = 0,
    SCION_ROLE_ONEHOT,        /* first layer, one-hot input: an embedding table */
    SCION_ROLE_INPUT,         /* first layer, dense input such as pixels */
    SCION_ROLE_OUTPUT,        /* last layer */
    SCION_ROLE_VECTOR,        /* bias, positional embedding, class token */
    SCION_ROLE_NORMALIZATION, /* gain or shift of a normalisation layer */
    SCION_ROLE_PLAIN          /* no dimension factor */
} scion_role;

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

typedef enum scion_dtype { SCION_F32 = 0, SCION_BF16 } scion_dtype;

/* Start of a weight, by scion_optimizer_init_weights. */
typedef enum scion_start {
    SCION_START_BOUNDARY = 0, /* on the boundary of the ball of radius rho; 0 under the norms RMS, EUCLID and MAX */
    SCION_START_ZERO,
    SCION_START_UNIFORM       /* uniform within 1/sqrt(d_in), as PyTorch's linear layers; ONEHOT: normal, deviation
                                 0.02; vectors: 0 */
} scion_start;

struct scion_param {
    size_t size;                /* set by scion_param_init, as in all structs */
    const char *name;           /* copied; NULL is "param" and its index */
    void *weight;               /* contiguous, row-major */
    void *grad;                 /* same shape; NULL: the parameter is skipped altogether */
    int64_t shape[4];
    int32_t ndim;               /* 1 to 4; a matrix is d_out x d_in, a convolution out, in, k, k */
    /* The members above must be set; those below have defaults. */
    int32_t role;               /* HIDDEN */
    int32_t norm;               /* AUTO */
    int32_t transposed;         /* stored as d_in x d_out (an embedding table: vocabulary x dim) */
    double radius;              /* rho > 0; 1 */
    double lr_scale;            /* multiplies lr; 1 */
    double weight_decay;        /* mu; negative (the default): the optimizer's */
    int32_t weight_type;        /* F32. Weights in bfloat16, and with `light` gradients in bfloat16, are rounded */
    int32_t grad_type;          /* stochastically (see `rounding`) */
    int32_t start;              /* BOUNDARY */
    int32_t frozen;             /* not stepped */
    int32_t group;              /* any number, for scion_optimizer_set_group */
    int32_t split_axis;         /* a fused matrix is split along this stored axis, 0 rows or 1 columns, */
    int32_t split_count;        /* into so many blocks (0 and 1: not at all), each with its own lmo, */
    int32_t reserved;
    const int64_t *split_sizes; /* of these sizes (copied), or of equal size if NULL */
    void *grad_prev;            /* rule MARS only: gradient at the previous weights, type of grad */
    /* For callers who share a step or keep the state (scion_advanced.h). */
    int64_t own_first;          /* this caller steps own_count entries from own_first on and has their state; */
    int64_t own_count;          /* -1 (the default): all of them, 0: none */
    void *const *states;        /* state arrays in the caller's memory, in the order of scion_param_state, used as */
    int64_t state_count;        /* they are (zero: a fresh start). The optimizer allocates those that are NULL, or
                                   missing at the end */
};

/* ---- Options ---------------------------------------------------------------------------------------- */

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
    SCION_RULE_SSD,       /* steepest descent: w = (1-lr mu)w - lr sharp(g) in the norm max of norm(w_i)/rho_i of all
                             parameters: sharp(g)_i = -rho_i lmo(g_i) times its dual, the sum of rho_j dual(g_j);
                             `layerwise` takes each parameter's own, rho_i dual(g_i) */
    SCION_RULE_MARS,      /* scion with the STORM average d = g + (1-alpha)(d - g_prev), g_prev the gradient at
                             the previous weights on the same batch (see scion_optimizer_previous); the first
                             step has d = g and does not read g_prev */
    SCION_RULE_ADAMW,     /* decoupled decay, bias correction; w = (1-lr mu)w - lr mhat/(sqrt(vhat)+eps) */
    SCION_RULE_SGD        /* d = (1-alpha)d + g;  w = (1-lr mu)w - lr d */
} scion_rule;

/* Norms that AUTO means, by role (first layer, hidden, last layer):
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

/* Coefficients of the odd iteration X <- aX + (bA + cA^2)X, A = XX', from X = G / ||G||_F, for the spectral lmo. */
typedef enum scion_polar_set {
    SCION_POLAR_QUINTIC = 0, /* (3.4445, -4.7750, 2.0315), as the paper ran: singular values 0.68 to 1.20 */
    SCION_POLAR_EXPRESS,     /* Polar Express: a different quintic each step, about 0.99 to 1.01 after 6 */
    SCION_POLAR_CONVERGED,   /* as exact as float32: singular values above 1e-4 of the Frobenius norm become 1 */
    SCION_POLAR_CUBIC        /* (1.5, -0.5, 0) from G / ||GG'||_F^(1/2), as the authors' CIFAR-10 script has it: never
                                above 1; singular values above 0.055 of that norm end above 0.99 */
} scion_polar_set;

/* Rounding to bfloat16 in a step. STOCHASTIC: up or down at random, so that the mean is right and steps below half a
 * spacing add up. NEAREST loses them: for comparison. */
typedef enum scion_rounding { SCION_ROUNDING_STOCHASTIC = 0, SCION_ROUNDING_NEAREST } scion_rounding;

/* Memory from the caller. alloc returns NULL on failure, else memory aligned as malloc's. */
typedef struct scion_allocator {
    void *(*alloc)(void *ctx, size_t bytes);
    void (*free)(void *ctx, void *memory);
    void *ctx;
} scion_allocator;

/* Momentum is alpha, the weight of the new gradient, as in the paper: alpha = 1 - beta, so that PyTorch's
 * momentum=0.9 (or Muon's 0.95) is 0.1 (or 0.05) here, and 1 is no momentum at all. Two more things differ: the
 * average of SCION and its kin is d = (1-alpha)d + alpha g, where PyTorch's SGD has d = beta d + g (rules SGD and
 * MUON do as PyTorch does); and AdamW has beta1 and beta2 by their usual names. */
struct scion_options {
    size_t size;
    int32_t rule;
    /* The members above are set by scion_options_init; those below have defaults. */
    int32_t routing;           /* IMAGE */
    double momentum;           /* alpha in (0,1]; 0.1, and 1 for SGD and where the rule does not average */
    double weight_decay;       /* mu; SCION and MARS have 1 by definition and take 0 or 1 here */
    int32_t vanishing;         /* alpha_k = 1/sqrt(k), k from 1, in place of `momentum` */
    int32_t first_full;        /* alpha = 1 in the first step, as the analysis does */
    int32_t light;             /* keep the average in the gradient buffer: no other state (SCION, USCION,
                                  SIGNUM, MNSGD). The step leaves (1-alpha)G in grad; do not zero it */
    int32_t nesterov;          /* MUON; 1 */
    int32_t layerwise;         /* NSGD, MNSGD, SSD: each parameter's own norm, not one of all; 0 */
    int32_t threads;           /* at most so many; 0: OpenMP's default (OMP_NUM_THREADS). An optimizer that is
                                  created inside a parallel region has one thread for ever */
    double muon_multiplier;    /* 0.1 */
    double adam_lr_scale;      /* MUON's AdamW part steps with lr times this; 1 */
    double beta1, beta2, adam_eps; /* ADAMW, and MUON's AdamW part: 0.9, 0.95, 1e-8 */
    double clip_norm;          /* ADAMW, SGD: gradients are scaled to this joint 2-norm if above; 0: off */
    double eps;                /* added to the denominators of COL, ROW and RMS; the reference has 1e-8 */
    double polar_eps;          /* added to the Frobenius norm of SPECTRAL (CUBIC: its own); the reference has 1e-7.
                                  Both are 0 by default: scale-invariant, and zeros stay zero */
    int32_t polar;             /* QUINTIC */
    int32_t polar_steps;       /* 0: the set's own (5, 6, 12, 9) */
    uint64_t seed;             /* of the stochastic rounding */
    const scion_allocator *allocator; /* copied; NULL: malloc and free */
    int32_t rounding;          /* to bfloat16: STOCHASTIC */
    int32_t polar_compute;     /* F32. BF16: products of SPECTRAL's lmo round their operands to bfloat16 and sum in
                                  float32, as the authors' code runs it; for QUINTIC. Faster where the CPU multiplies
                                  bfloat16 fast. Norms and dual norms stay in float32 */
};

#ifdef __cplusplus
}
#endif
#endif
