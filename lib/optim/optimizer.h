/* Inside of the optimizer: what the files of this folder share. */
#ifndef SCN_OPTIMIZER_H
#define SCN_OPTIMIZER_H

#include "norm/layout.h"

/* What is averaged, and where the lmo comes in. */
typedef enum scn_average {
    SCN_AVERAGE_NONE,  /* the gradient itself */
    SCN_AVERAGE_EMA,   /* d = (1-a)d + a g */
    SCN_AVERAGE_HEAVY, /* d = (1-a)d + g */
    SCN_AVERAGE_STORM, /* d = g + (1-a)(d - g_prev) */
    SCN_AVERAGE_LMO    /* d = (1-a)d + a lmo(g) */
} scn_average;

/* One row per rule. A rule is the lmo step with these columns, or goes entry by entry (adamw, sgd). */
typedef struct scn_rule {
    const char *name;
    scn_average average;
    scion_norm norm; /* forced on every parameter, or AUTO */
    double alpha;    /* default */
    double decay;    /* mu that the rule has by definition, else 0 */
    bool light;      /* may keep its average in the gradient */
    bool layerwise;  /* default */
    int states;      /* arrays of float32 beside weight and gradient */
    bool entrywise;
} scn_rule;

const scn_rule *scn_rule_at(scion_rule rule); /* NULL: there is no such rule */

typedef struct scn_tensor {
    char *name;
    void *weight, *grad, *grad_prev;
    scion_dtype weight_type, grad_type;
    scn_layout layout;
    int64_t *split_sizes; /* or NULL */
    scn_ball *balls;      /* layout.blocks of them */
    scion_rule id;        /* ADAMW for what MUON leaves to it */
    const scn_rule *rule;
    double radius, lr_scale, decay, momentum;
    int32_t group;
    bool frozen, vanishing;
    float *average; /* d, m, or NULL */
    float *second;  /* v, or NULL */
    void *before;   /* MARS: weights before the last step, in the weights' type */
    int64_t steps;  /* that this parameter took part in */
    /* For the bound: a step w <- keep w + lr rho lmo multiplies start by keep and makes pushed
     * keep pushed + lr rho, so that ||w|| <= start ||w_0|| + pushed. */
    double start, start_norm, pushed;
    double gain; /* SSD: dual norm that multiplies the lmo, else 1 */
    double seconds;
} scn_tensor;

/* A block whose lmo is expensive, so that it is scheduled on its own. */
typedef struct scn_job {
    int64_t tensor;
    int block;
    double cost;
} scn_job;

/* Float32 arrays that a thread needs for a piece: the gradient and the weight where they are stored as
 * bfloat16, and a source or an lmo that has no other place. */
typedef struct scn_scratch {
    float *grad, *source, *weight;
} scn_scratch;

struct scion_optimizer {
    scion_options o;
    int64_t count, steps;
    scn_tensor *tensors;
    scn_job *jobs; /* largest first; the first team_jobs take all threads each, the others one */
    int64_t job_count, team_jobs;
    int threads;
    int64_t scratch_floats[3]; /* of a thread's grad, source, weight */
    bool swapped;              /* MARS: weights and `before` are exchanged */
    void *memory;
    size_t memory_bytes, thread_bytes; /* in all; for each thread */
};

/* Settings and memory of thread `index`, or with index < 0 of a team of all threads. */
scn_work scn_optimizer_work(const scion_optimizer *opt, int index, scn_scratch *scratch);
/* Settings of options o (already taken), without memory. */
scn_work scn_work_of(const scion_options *o, int threads);

/* Checks o (which may be NULL) and copies it. */
scion_status scn_options_take(scion_options *copy, const scion_options *o, scion_error *err);

/* alpha of the tensor's step number k (from 1). */
double scn_alpha(const scion_optimizer *opt, const scn_tensor *t, int64_t k);
/* Takes part in steps now. */
bool scn_active(const scn_tensor *t);
/* Bytes of an array of the tensor's shape in a type. */
size_t scn_tensor_bytes(const scn_tensor *t, scion_dtype type);
/* n gradients or weights from entry `first`: where they lie if they are float32, else converted into
 * `buffer`. */
const float *scn_floats(const void *array, scion_dtype type, int64_t first, int64_t n, float *buffer);
/* The opposite: nothing for float32; else rounds, weights at random (stream of this step), gradients not. */
void scn_store_weights(const scion_optimizer *opt, scn_tensor *t, int64_t first, int64_t n, const float *values);
void scn_store_grads(scn_tensor *t, int64_t first, int64_t n, const float *values);

/* A tensor's array as float32: itself, or a copy for the caller to free (*copy); NULL: out of memory. */
float *scn_tensor_floats(const scion_optimizer *opt, const scn_tensor *t, void *array, scion_dtype type,
                         float **copy);

/* Steps of the rules that take no lmo. */
void scn_step_entrywise(scion_optimizer *opt, scn_tensor *t, double lr, double grad_scale);
/* Factor that brings the joint 2-norm of the gradients of such tensors down to clip_norm. */
double scn_clip_factor(const scion_optimizer *opt);

#endif
