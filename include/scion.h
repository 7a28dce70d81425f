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
 * else comes from the caller's allocator when the optimizer is made; a step allocates nothing. Arrays are aligned to
 * their type (4 bytes, bfloat16 2) and do not overlap, those of different parameters neither: create refuses others.
 * Threads: functions are reentrant, there is no global state. One optimizer is used by one thread at a
 * time; different optimizers may be used at the same time. Inside, OpenMP threads share the work. They do not
 * survive fork: a child of a process that has stepped with several threads may hang in its own step, unless it calls
 * exec or its steps have threads = 1.
 * First values: lr 0.05 falling linearly to 0, radius 1 and for the last layer 100. The last radius bounds the
 * logits: a loss that stalls although all answers are right wants a larger one, a loss that swings a smaller one.
 * Errors: a call that can fail returns a status and, where `err` is not NULL, fills one sentence.
 * Structs: set one up with its ..._init macro, then change members. It carries its size, and grows only at its
 * end: a program compiled with an older header keeps working, the members it does not know take their
 * defaults. A program compiled with a newer header works with an older library as long as it leaves the
 * members at zero that the library does not know; otherwise the call is refused, so nothing is lost in silence.
 * scion_error and scion_allocator have no size and never change.
 * Versions: until 1.0 a minor version may change the ABI (and then the SONAME), a patch version never does.
 *
 * The everyday part comes first; what most programs never need follows under "Advanced".
 *
 * Licence: MIT. */
#ifndef SCION_H
#define SCION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SCION_VERSION "0.2.0"
#define SCION_VERSION_NUMBER 200 /* 10000 major + 100 minor + patch, for #if */

#if defined(__GNUC__)
#define SCION_API __attribute__((visibility("default")))
#else
#define SCION_API
#endif

/* ---- Status ----------------------------------------------------------------------------------------- */

typedef enum scion_status {
    SCION_OK = 0,
    SCION_EINVAL,     /* an argument, option or shape is wrong */
    SCION_ENOMEM,     /* the allocator returned NULL */
    SCION_ENONFINITE, /* a gradient, or a weight at the start, holds NaN or Inf; nothing was changed */
    SCION_ESTATE,     /* a saved state is damaged or belongs to another optimizer; nothing was changed */
    SCION_ESTOPPED    /* a callback asked to stop */
} scion_status;

typedef struct scion_error {
    int32_t status;    /* a scion_status */
    int32_t reserved;
    int64_t param;     /* index of the parameter at fault, or -1 */
    char message[232]; /* one sentence: what was found, what was expected */
} scion_error;

/* ---- Parameters ------------------------------------------------------------------------------------- */

/* What a parameter is for. Role and norm together fix the factor c of lmo(s) = -c * direction(s):
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

/* How a step rounds to bfloat16. STOCHASTIC: up or down at random, so that the mean is right and steps below half a
 * spacing add up. NEAREST loses them: for comparison. */
typedef enum scion_rounding { SCION_ROUNDING_STOCHASTIC = 0, SCION_ROUNDING_NEAREST } scion_rounding;

/* Where init_weights puts a weight. */
typedef enum scion_start {
    SCION_START_BOUNDARY = 0, /* on the boundary of the ball of radius rho; 0 under the norms RMS, EUCLID and MAX */
    SCION_START_ZERO,
    SCION_START_UNIFORM       /* uniform within 1/sqrt(d_in), as PyTorch's linear layers; ONEHOT: normal, deviation
                                 0.02; vectors: 0 */
} scion_start;

typedef struct scion_param {
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
    int32_t weight_type;        /* F32. What a step writes in bfloat16, the weights and under `light` the gradient, */
    int32_t grad_type;          /* is rounded stochastically (see `rounding`) */
    int32_t start;              /* BOUNDARY */
    int32_t frozen;             /* not stepped */
    int32_t group;              /* any number, for scion_optimizer_set_group */
    int32_t split_axis;         /* a fused matrix is split along this stored axis, 0 rows or 1 columns, */
    int32_t split_count;        /* into so many blocks (0 and 1: not at all), each with its own lmo, */
    int32_t reserved;
    const int64_t *split_sizes; /* of these sizes (copied), or of equal size if NULL */
    void *grad_prev;            /* rule MARS only: gradient at the previous weights, type of grad */
    /* For callers who share a step (see "A step in phases"). */
    int64_t own_first;          /* this caller steps own_count entries from own_first on and has their state; */
    int64_t own_count;          /* -1 (the default): all of them, 0: none */
    void *const *states;        /* state arrays in the caller's memory, in the order of scion_param_state, used as */
    int64_t state_count;        /* they are (zero: a fresh start). Those that are NULL, or missing at the end, are
                                   allocated by the optimizer */
} scion_param;

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

/* Coefficients of the odd iteration X <- aX + (bA + cA^2)X, A = XX', from X = G / ||G||_F, for the spectral lmo. */
typedef enum scion_polar_set {
    SCION_POLAR_QUINTIC = 0, /* (3.4445, -4.7750, 2.0315), as the paper ran: singular values 0.68 to 1.20 */
    SCION_POLAR_EXPRESS,     /* Polar Express: a different quintic each step, about 0.99 to 1.01 after 6 */
    SCION_POLAR_CONVERGED,   /* as exact as float32: singular values above 1e-4 of the Frobenius norm become 1 */
    SCION_POLAR_CUBIC        /* (1.5, -0.5, 0) from G / ||GG'||_F^(1/2), as the authors' CIFAR-10 script has it: never
                                above 1; singular values above 0.055 of that norm end above 0.99 */
} scion_polar_set;

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
typedef struct scion_options {
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
    int32_t layerwise;         /* NSGD, MNSGD, SSD: each parameter's own norm, not one of all; 0 (SSD of 0.1: 1) */
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
    int32_t reserved;
} scion_options;

#define scion_param_init(p) scion_param_init_sized((p), sizeof *(p))
#define scion_options_init(o, rule) scion_options_init_sized((o), sizeof *(o), (rule))
SCION_API void scion_param_init_sized(scion_param *p, size_t size);
SCION_API void scion_options_init_sized(scion_options *o, size_t size, int32_t rule);

/* ---- The optimizer ---------------------------------------------------------------------------------- */

typedef struct scion_optimizer scion_optimizer;

/* Makes an optimizer of `count` parameters (copied). On failure *out is NULL. o may be NULL: SCION. */
SCION_API scion_status scion_optimizer_create(scion_optimizer **out, const scion_options *o,
                                              const scion_param *params, int64_t count, scion_error *err);
SCION_API void scion_optimizer_free(scion_optimizer *opt);

/* Puts every weight that is not frozen where its `start` says. The result depends on seed and parameter only, not
 * on threads. A spectral convolution starts position by position, as in the paper's code: its flattened norm is
 * then up to sqrt(positions) rho, and shrinks to rho from there. */
SCION_API scion_status scion_optimizer_init_weights(scion_optimizer *opt, uint64_t seed, scion_error *err);

/* Call before the backward passes that add up one step's gradient: zeroes the gradients; with `light`,
 * whose gradients hold the average, does nothing (to those that this caller owns). */
SCION_API void scion_optimizer_begin(scion_optimizer *opt);

/* One step. A gradient that is not finite is refused: ENONFINITE names it, and nothing was changed. So are weights in
 * the first step after create or load; later ones are not looked at. */
SCION_API scion_status scion_optimizer_step(scion_optimizer *opt, double lr, scion_error *err);

/* Number of steps taken. */
SCION_API int64_t scion_optimizer_steps(const scion_optimizer *opt);

/* Saving: `save` writes exactly `save_bytes` bytes, versioned and checksummed, the same on every machine of
 * the same byte order. Weights are the caller's and so are, with `light`, the gradients: save those too.
 * `load` refuses (ESTATE) what does not fit, and settings that scion_optimizer_set refuses; it then changes nothing.
 * A loaded run continues bit for bit: what scion_optimizer_set changed is part of the state. States of version 0.1
 * load as well.
 * flags: 0, or SCION_WITHOUT_ARRAYS: settings and counters only, for callers who store the arrays themselves
 * (scion_optimizer_state). */
enum { SCION_WITHOUT_ARRAYS = 1 };
SCION_API size_t scion_optimizer_save_bytes(const scion_optimizer *opt, unsigned flags);
SCION_API scion_status scion_optimizer_save(const scion_optimizer *opt, unsigned flags, void *buffer, size_t bytes,
                                            scion_error *err);
SCION_API scion_status scion_optimizer_load(scion_optimizer *opt, unsigned flags, const void *buffer, size_t bytes,
                                            scion_error *err);

/* ===== Advanced ======================================================================================= */

/* ---- Names and properties --------------------------------------------------------------------------- */

/* The version of the library that is linked, as SCION_VERSION. */
SCION_API const char *scion_version(void);
/* "out of memory" and so on; never NULL. */
SCION_API const char *scion_status_string(int32_t status);

/* Names as in files and on command lines: "scion", "spectral", "onehot", ... */
typedef enum scion_enum {
    SCION_ENUM_NORM = 0,
    SCION_ENUM_ROLE,
    SCION_ENUM_ROUTING,
    SCION_ENUM_RULE,
    SCION_ENUM_POLAR,
    SCION_ENUM_SCHEDULE,
    SCION_ENUM_START
} scion_enum;

/* Name of a value, or NULL when there is no such value (so that a loop can list them all). */
SCION_API const char *scion_enum_name(int32_t kind, int32_t value);
/* Value of a name, or -1. */
SCION_API int32_t scion_enum_value(int32_t kind, const char *name);

/* What a rule is and needs: rows of the library's table, valid for ever. */
typedef struct scion_rule_properties {
    size_t size;             /* of this struct in the library that is linked */
    const char *name, *help; /* "scion", and one line */
    double momentum;         /* default alpha */
    double weight_decay;     /* mu that it has by definition, else 0 */
    int32_t norm;            /* that it takes for every parameter, or AUTO: the parameter's own */
    int32_t others;          /* rule of the parameters that it does not take itself (MUON: ADAMW), else itself */
    int32_t states;          /* largest number of state arrays that a parameter has */
    int32_t lmo;             /* takes an lmo step: radius and norm matter; else it goes entry by entry */
    int32_t averages;        /* has an average that momentum is for */
    int32_t light;           /* may keep that average in the gradient */
    int32_t needs_prev;      /* needs grad_prev, and keeps the weights before the last step */
    int32_t sharp;           /* the step grows with the gradient's dual norm, and with the square of the radius */
    int32_t bounded;         /* the norm of the weights has a bound (see scion_info) */
    int32_t joint;           /* one norm for all parameters, unless `layerwise` */
} scion_rule_properties;

/* What a norm is: likewise. */
typedef struct scion_norm_properties {
    size_t size;
    const char *name, *help;
    int32_t starts_at_zero; /* SCION_START_BOUNDARY puts such weights at 0 */
    int32_t elementwise;    /* the lmo of an entry depends on that entry alone */
} scion_norm_properties;

/* NULL: there is no such rule, no such norm (AUTO is none). */
SCION_API const scion_rule_properties *scion_rule_info(int32_t rule);
SCION_API const scion_norm_properties *scion_norm_info(int32_t norm);

/* Whether create would take these options: EINVAL and a sentence if not. */
SCION_API scion_status scion_options_check(const scion_options *o, scion_error *err);

/* What create would make of a parameter under o (NULL: defaults). Its pointers are not read. */
typedef struct scion_param_properties {
    size_t size;
    int64_t elements;
    int32_t rule;        /* that steps it: ADAMW where MUON leaves it to it */
    int32_t norm;        /* the rule's own, the parameter's, or what the routing means by AUTO */
    double scale;        /* the factor c of the lmo (of the first block) */
    double flops;        /* operations of its lmo; 0 where the rule takes none */
    int32_t ranges;      /* it may be owned and stepped in ranges of entries */
    int32_t states;      /* number of its state arrays, */
    size_t state_bytes;  /* and their bytes for the entries that own_first and own_count name */
} scion_param_properties;

#define scion_param_properties_init(p) scion_param_properties_init_sized((p), sizeof *(p))
SCION_API void scion_param_properties_init_sized(scion_param_properties *p, size_t size);
SCION_API scion_status scion_param_info(const scion_param *p, const scion_options *o, scion_param_properties *info,
                                        scion_error *err);

/* ---- Between steps ---------------------------------------------------------------------------------- */

/* Number of parameters, and the index of the one of that name or -1. */
SCION_API int64_t scion_optimizer_count(const scion_optimizer *opt);
SCION_API int64_t scion_optimizer_find(const scion_optimizer *opt, const char *name);

/* Moves parameter i to other memory of the same shape and types; a NULL grad skips it from now on. NULL
 * leaves grad_prev (MARS) where it is. That it overlaps no other parameter is the caller's to see: the others may be
 * about to move as well. */
SCION_API scion_status scion_optimizer_bind(scion_optimizer *opt, int64_t i, void *weight, void *grad,
                                            void *grad_prev,
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
SCION_API scion_status scion_optimizer_set(scion_optimizer *opt, int64_t i, int32_t what, double value,
                                           scion_error *err);
SCION_API scion_status scion_optimizer_set_group(scion_optimizer *opt, int32_t group, int32_t what, double value,
                                                 scion_error *err);

/* What the optimizer knows of a parameter. */
typedef struct scion_info {
    size_t size;
    const char *name;    /* valid as long as the optimizer */
    int64_t elements;
    int32_t rule;        /* ADAMW for the parameters that MUON leaves to it */
    int32_t norm;
    int32_t role;
    int32_t reserved;
    double scale;        /* the factor c of the lmo (of the first block) */
    double radius;
    size_t state_bytes;  /* optimizer state beside weight and gradient */
    double seconds;      /* spent on this parameter in the last step */
    double bound;        /* what the rule promises for the norm of the weight: rho (SCION, MARS), rho/mu, or
                            rho times the sum of lr; counted with the start of init_weights or of
                            scion_optimizer_mark_start, else as if it started at 0. INFINITY: no promise */
    double overshoot;    /* the factor by which the spectral iteration may exceed it: 1.21, 1.01, 1 or 1 with
                            the sets' own number of steps */
    double weight_norm;  /* computed if SCION_INSPECT_NORM, else NaN */
    double grad_dual;    /* dual norm of the gradient buffer if SCION_INSPECT_DUAL, else NaN */
    double fw_gap;       /* <g, w> + rho dual(g) if SCION_INSPECT_DUAL, else NaN */
} scion_info;

#define scion_info_init(i) scion_info_init_sized((i), sizeof *(i))
SCION_API void scion_info_init_sized(scion_info *info, size_t size);

enum { SCION_INSPECT_NORM = 1, SCION_INSPECT_DUAL = 2 };

/* Routing, bounds, time; norms on demand (they cost about as much as a step). */
SCION_API scion_status scion_optimizer_inspect(scion_optimizer *opt, int64_t i, unsigned what, scion_info *info,
                                               scion_error *err);
/* Measures the norms of the weights as they are now, as the start that bounds are counted from. */
SCION_API scion_status scion_optimizer_mark_start(scion_optimizer *opt, scion_error *err);

/* Bytes of workspace that create planned, and of state beside weights and gradients. */
SCION_API size_t scion_optimizer_workspace_bytes(const scion_optimizer *opt);
SCION_API size_t scion_optimizer_state_bytes(const scion_optimizer *opt);

/* A state array: all of it has the shape below, and the caller holds `count` entries from `first` on. It is as large
 * as the parameter, or has one number for each row, column or block of it, which are never divided among callers. */
typedef struct scion_array {
    size_t size;
    const char *name;     /* "average" (d, G or AdamW's m), "second" (AdamW's v), "previous" (weights before) */
    void *data;           /* to read, and between steps to write */
    int64_t first, count; /* entries that this caller owns */
    int32_t type;         /* SCION_F32; "previous" has the type of the weights */
    int32_t ndim;
    int64_t shape[4];
} scion_array;

#define scion_array_init(a) scion_array_init_sized((a), sizeof *(a))
SCION_API void scion_array_init_sized(scion_array *a, size_t size);

/* State array k of parameter i, k from 0; returns 0 when there is none (so that a loop can list them all). */
SCION_API int scion_optimizer_state(const scion_optimizer *opt, int64_t i, int k, scion_array *array);
/* The same before there is an optimizer; data is NULL. */
SCION_API int scion_param_state(const scion_param *p, const scion_options *o, int k, scion_array *array);

/* ---- A step in phases ------------------------------------------------------------------------------- */

typedef struct scion_step {
    size_t size;
    double lr;
    /* The member above must be set; those below have defaults. */
    double momentum;      /* alpha of this step; negative (the default) or NaN: the optimizer's own */
    double next_momentum; /* likewise of the next step. Only `light` asks: it shrinks its average for it */
    double grad_scale;    /* gradients are multiplied by it as they are read (1/micro-batches, 1/loss scale); 1.
                             `light` refuses others: there the gradient is the average */
    int32_t threads;      /* at most so many, and at most as many as the optimizer was made with; 0: those */
    int32_t reserved;
} scion_step;

#define scion_step_init(s) scion_step_init_sized((s), sizeof *(s))
SCION_API void scion_step_init_sized(scion_step *s, size_t size);

/* One step with more settings than lr. It is check, joint, part (of SCION_ALL) and finish in one call. */
SCION_API scion_status scion_optimizer_step_with(scion_optimizer *opt, const scion_step *s, scion_error *err);

/* For callers who share the work (ranks of a data-parallel run, say). Each creates all parameters, in the same
 * order and with the same options, and owns some (scion_param.own_first, own_count): state exists for those only.
 * Gradients must be there for what a caller owns. A step is then
 *     check     every caller; all agree on the answer before they continue
 *     joint     every caller; where joint_count is not 0 they add up their arrays of so many doubles
 *     part      every caller, its own parameters: one by one, in any order, or SCION_ALL
 *     finish    every caller
 * after which they exchange the weights. It is the step of one caller, bit for bit (a parameter that is cut into
 * ranges adds to the joint sum in another order: the last bit of that double may differ). */

/* Finite gradients, lr, momentum: changes nothing. */
SCION_API scion_status scion_optimizer_check(scion_optimizer *opt, const scion_step *s, scion_error *err);
/* How many sums joint makes: 0 if the rule's step of a parameter depends on no other parameter. */
SCION_API int64_t scion_optimizer_joint_count(const scion_optimizer *opt);
/* What parameters share: joint norms, clipping. May update averages (MNSGD). sums: joint_count doubles, 0 for what
 * others own; may be NULL if joint_count is 0. */
SCION_API scion_status scion_optimizer_joint(scion_optimizer *opt, const scion_step *s, double *sums,
                                             scion_error *err);
/* Steps n entries of parameter i from `first` on; n < 0: all that this caller owns. Ranges are for elementwise norms
 * (scion_norm_info), not under SSD, and for rules without an lmo, in parameters that are not split; they, and owned
 * ranges too, begin at a multiple of SCION_RANGE and end at one or at the parameter's end. */
#define SCION_RANGE 16384
SCION_API scion_status scion_optimizer_part(scion_optimizer *opt, const scion_step *s, const double *sums, int64_t i,
                                            int64_t first, int64_t n, scion_error *err);
/* Counts the step, for all parameters that are not frozen (or without gradient where they are owned). */
SCION_API scion_status scion_optimizer_finish(scion_optimizer *opt, const scion_step *s, scion_error *err);

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
/* Bytes of workspace that the polar factor of one rows x cols matrix takes; 0 if an argument is wrong. */
SCION_API size_t scion_polar_workspace_bytes(int64_t rows, int64_t cols, const scion_options *o);

/* ---- Schedules -------------------------------------------------------------------------------------- */

typedef enum scion_schedule_kind {
    SCION_SCHEDULE_CONSTANT = 0,    /* peak */
    SCION_SCHEDULE_LINEAR,          /* peak (1 - k/n) */
    SCION_SCHEDULE_CONSTANT_LINEAR, /* from start to peak in `warmup` steps, peak for k < n-decay, then
                                       peak (n-k)/decay */
    SCION_SCHEDULE_COSINE,          /* from start to peak in `warmup` steps, then a half cosine to end */
    SCION_SCHEDULE_COSINE_UNSHIFTED, /* the same, the cosine's clock running from step 0 */
    SCION_SCHEDULE_INV_SQRT_N,      /* peak / sqrt(n): the analysis with constant momentum */
    SCION_SCHEDULE_INV_N34,         /* peak * 3/(4 n^(3/4)): the analysis with vanishing momentum */
    SCION_SCHEDULE_INV_SQRT_K       /* peak / sqrt(k+1): vanishing momentum itself */
} scion_schedule_kind;

typedef struct scion_schedule {
    size_t size;
    int64_t n;      /* number of steps; CONSTANT and INV_SQRT_K need none */
    double peak;
    int32_t kind;
    /* The members above must be set; those below have defaults, all 0. */
    int32_t reserved;
    int64_t warmup; /* COSINE, COSINE_UNSHIFTED, CONSTANT_LINEAR: steps of the rise */
    int64_t decay;  /* CONSTANT_LINEAR: steps of the decay */
    double start, end;
} scion_schedule;

#define scion_schedule_init(s) scion_schedule_init_sized((s), sizeof *(s))
SCION_API void scion_schedule_init_sized(scion_schedule *s, size_t size);

/* Members that a schedule reads beside peak (1 or 0), and its name. NULL: there is no such schedule. */
typedef struct scion_schedule_properties {
    size_t size;
    const char *name;
    int32_t n, warmup, decay, start, end;
} scion_schedule_properties;

SCION_API const scion_schedule_properties *scion_schedule_info(int32_t kind);

/* Whether the schedule makes sense: EINVAL and a sentence if not. */
SCION_API scion_status scion_schedule_check(const scion_schedule *s, scion_error *err);
/* Step size of step k, k from 0. After the last step the schedule stays where it ended: k > n is taken as n. NaN if
 * k is negative or the schedule makes no sense. */
SCION_API double scion_schedule_value(const scion_schedule *s, int64_t k);

/* ---- Minimisation of a stochastic function ---------------------------------------------------------- */

typedef struct scion_report {
    size_t size;
    int64_t k;        /* step, from 1; the values are at x^k, before the step */
    double lr;
    double momentum;
    double dual_norm; /* of the joint norm max_i norm(x_i)/rho_i: sum of rho_i dual(g_i) */
    double fw_gap;    /* joint: sum of <g_i,x_i> + rho_i dual(g_i) */
} scion_report;

typedef struct scion_problem {
    size_t size;
    const scion_param *params;  /* weights: start and result; grads: where the callbacks add */
    int64_t count;
    /* Adds a gradient at the present weights, drawn by `sample`, to the grads (zeroed, or with `light` shrunk).
     * The same sample at other weights must be the same draw. Nonzero stops the run. */
    int (*gradient)(void *ctx, int64_t k, uint64_t sample);
    const scion_schedule *schedule; /* its n is taken as `steps` if 0 */
    int64_t steps;
    /* The members above must be set; those below have defaults, all 0. */
    void *ctx;
    /* Optional: the same without noise, for reports; else they use the stochastic gradient. */
    int (*exact)(void *ctx, int64_t k);
    /* Optional: told every report_every steps; nonzero stops the run (Ctrl-C lands here). */
    int (*report)(void *ctx, const scion_report *r);
    int64_t report_every;       /* measured are steps 1, 1 + e, 1 + 2e, ... and the last; 0: only the last */
    uint64_t seed;              /* of samples, and of the draw of `uniform` */
    int32_t uniform;            /* return an iterate drawn uniformly from x^1..x^steps, not the last one */
    int32_t reserved;
} scion_problem;

typedef struct scion_result {
    size_t size;
    int64_t steps;         /* taken */
    int64_t iterate;       /* index k of the returned x^k; steps + 1 for the last one */
    double mean_dual_norm; /* over all reports: what the theorems bound in expectation */
    double mean_fw_gap;
    scion_report *last;    /* the caller's, or NULL: filled with the last report */
} scion_result;

#define scion_report_init(r) scion_report_init_sized((r), sizeof *(r))
#define scion_problem_init(p) scion_problem_init_sized((p), sizeof *(p))
#define scion_result_init(r) scion_result_init_sized((r), sizeof *(r))
SCION_API void scion_report_init_sized(scion_report *r, size_t size);
SCION_API void scion_problem_init_sized(scion_problem *p, size_t size);
SCION_API void scion_result_init_sized(scion_result *r, size_t size);

/* Runs o's rule on the problem. result may be NULL. ESTOPPED: a callback stopped it; weights and result are as of
 * then. */
SCION_API scion_status scion_minimize(const scion_problem *problem, const scion_options *o, scion_result *result,
                                      scion_error *err);

#ifdef __cplusplus
}
#endif
#endif
