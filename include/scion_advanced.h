/* scion_advanced.h - the rest of libscion, for programs that need more than scion.h.
 *
 * It has: names and properties of everything that can be chosen; what create makes of a parameter; changes and
 * measurements between steps; state arrays; schedules; a step in phases, for callers who share the work;
 * free-standing functions of one norm; the minimisation of a stochastic function.
 *
 * Licence: MIT. */
#ifndef SCION_ADVANCED_H
#define SCION_ADVANCED_H

#include "scion.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Names and properties --------------------------------------------------------------------------- */

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

/* Properties of a rule: a row of the library's table, valid for ever. */
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

/* Properties of a norm, likewise. */
typedef struct scion_norm_properties {
    size_t size;
    const char *name, *help;
    int32_t starts_at_zero; /* SCION_START_BOUNDARY puts such weights at 0 */
    int32_t elementwise;    /* the lmo of an entry depends on that entry alone */
} scion_norm_properties;

/* NULL: there is no such rule, no such norm (AUTO is none). */
SCION_API const scion_rule_properties *scion_rule_info(int32_t rule);
SCION_API const scion_norm_properties *scion_norm_info(int32_t norm);

/* ---- Before there is an optimizer ------------------------------------------------------------------- */

/* Checks options as create does: EINVAL and a sentence if they are wrong. */
SCION_API scion_status scion_options_check(const scion_options *o, scion_error *err);

/* A parameter as create would see it under o (NULL: defaults). Its pointers are not read, and nothing is made. */
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
 * leaves grad_prev (MARS) where it is. Its arrays may not overlap each other. Overlap with other parameters is not
 * checked: they may be about to move as well. */
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
    SCION_SET_FROZEN,   /* 0 or 1 */
    SCION_SET_STEPS     /* steps that the parameter has taken part in; of SCION_ALL, and the optimizer's as well: for
                           callers who keep the state arrays, and make the optimizer of a resumed run from them */
} scion_setting;

#define SCION_ALL (-1)
/* Changes a setting of parameter i (or SCION_ALL), or of every parameter of a group, between steps. */
SCION_API scion_status scion_optimizer_set(scion_optimizer *opt, int64_t i, int32_t what, double value,
                                           scion_error *err);
SCION_API scion_status scion_optimizer_set_group(scion_optimizer *opt, int32_t group, int32_t what, double value,
                                                 scion_error *err);

/* Facts and measurements of a parameter. */
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
    double bound;        /* upper bound that the rule promises for the norm of the weight: rho (SCION, MARS), rho/mu,
                            or rho times the sum of lr; counted from the start of init_weights or of
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

/* ---- State arrays ----------------------------------------------------------------------------------- */

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

/* Checks a schedule: EINVAL and a sentence if it makes no sense. */
SCION_API scion_status scion_schedule_check(const scion_schedule *s, scion_error *err);
/* Step size of step k, k from 0. After the last step the schedule stays where it ended: k > n is taken as n. NaN if
 * k is negative or the schedule makes no sense. */
SCION_API double scion_schedule_value(const scion_schedule *s, int64_t k);

/* ---- A step in phases ------------------------------------------------------------------------------- */

typedef struct scion_step {
    size_t size;
    double lr;
    /* The member above must be set; those below have defaults. */
    double momentum;      /* alpha of this step; negative (the default) or NaN: the optimizer's own */
    double next_momentum; /* likewise of the next step. Only `light` asks: it shrinks its average for it */
    double grad_scale;    /* gradients are multiplied by it as they are read (1/micro-batches, 1/loss scale); 1, at
                             most 1e30. `light` refuses others: there the gradient is the average */
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

/* Checks gradients, lr and momentum, and that the step keeps weights and averages finite; changes nothing. */
SCION_API scion_status scion_optimizer_check(scion_optimizer *opt, const scion_step *s, scion_error *err);
/* Number of sums that joint makes: 0 if the rule's step of a parameter depends on no other parameter. */
SCION_API int64_t scion_optimizer_joint_count(const scion_optimizer *opt);
/* Norms over all parameters, and clipping. May update averages (MNSGD). sums: joint_count doubles, 0 for parameters
 * of others; may be NULL if joint_count is 0. */
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
