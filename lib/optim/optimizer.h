/* The inside of the optimizer, for the files of this folder. */
#ifndef SCN_OPTIMIZER_H
#define SCN_OPTIMIZER_H

#include "base/bf16.h"
#include "base/sized_struct.h"
#include "norm/layout.h"

/* ---- Rules (rules.c) ---- */

/* The average d of a rule. */
typedef enum scn_average {
    SCN_AVERAGE_NONE,  /* the gradient itself */
    SCN_AVERAGE_EMA,   /* d = (1-a)d + a g */
    SCN_AVERAGE_HEAVY, /* d = (1-a)d + g */
    SCN_AVERAGE_STORM, /* d = g + (1-a)(d - g_prev) */
    SCN_AVERAGE_LMO    /* d = (1-a)d + a lmo(g) */
} scn_average;

/* Sums over all parameters that a step needs, unless `layerwise`. */
typedef enum scn_joint {
    SCN_JOINT_NONE,
    SCN_JOINT_FLAT, /* the 2-norm of all averages as one vector */
    SCN_JOINT_DUAL  /* the dual of the joint norm: sum of rho dual(g); layerwise: the parameter's own */
} scn_joint;

/* Number of values in a state array: one for each entry, row or column (as stored) of every block, or one a block. */
typedef enum scn_state_shape { SCN_ENTRIES, SCN_ROWS, SCN_COLUMNS, SCN_ONE } scn_state_shape;

typedef struct scn_state {
    const char *name;
    scn_state_shape shape;
    bool previous; /* the weights before the last step, in their type; all other arrays are float32 */
} scn_state;

enum { SCN_STATES_MAX = 4 };

/* Numbers of a step that a rule without an lmo works with. */
typedef struct scn_entries {
    const scion_options *o;
    double k;          /* number of this step, from 1 */
    double alpha;      /* weight of the new gradient */
    double rate, beta; /* w = beta w - rate ... */
    double grad_scale; /* multiplies g: the caller's, and clipping */
} scn_entries;

/* A block's lmo on its way to the weights: w = beta w + step z, or first into the average of SCN_AVERAGE_LMO. */
typedef struct scn_lmo {
    const scion_options *o;
    double k, alpha;             /* as in scn_entries */
    scn_mat z;                   /* the lmo, rows x cols of the block as stored */
    void *state[SCN_STATES_MAX]; /* the block's part of each state array; SCN_ENTRIES have the distance ld of rows */
    int64_t ld;
    int threads;
} scn_lmo;

struct scn_rule;

/* One row per rule. A rule is the lmo step with these columns, or goes entry by entry. */
typedef struct scn_rule {
    scion_rule_properties about; /* the public columns */
    scn_average average;
    scn_joint joint;
    bool layerwise, nesterov; /* defaults */
    /* State arrays, up to one without a name. A rule that averages has its average first; `light` leaves it out. */
    scn_state states[SCN_STATES_MAX];
    /* True if it steps the parameter itself, else about.others does; NULL: it steps all. */
    bool (*takes)(const struct scn_rule *rule, const scion_param *p);
    /* The factor c of a block in place of the norm's; NULL: the norm's. */
    double (*factor)(const scion_options *o, int role, const scn_block *b);
    /* Changes the lmo before the weights take it: scales rows, projects. No entry may become larger than the largest
     * Frobenius norm of an lmo, 2c sqrt(entries). NULL: nothing. A parameter of such a rule goes block by block,
     * never in ranges. */
    void (*after_lmo)(const scn_lmo *l);
    /* Rules without an lmo, whose states are all SCN_ENTRIES: steps n entries of weight and states. */
    void (*entries)(const scn_entries *e, int64_t n, const float *g, float *const state[], float *w);
    /* An upper bound of |new w - beta w| of such a rule, if no scaled gradient exceeds g and no entry of the first
     * state array *average, which becomes its bound after the step. NULL: every step is tried on copies first. */
    double (*reach)(const scn_entries *e, double g, double *average);
} scn_rule;

extern const scn_rule scn_rule_scion, scn_rule_uscion, scn_rule_almond, scn_rule_muon, scn_rule_signsgd,
    scn_rule_signum, scn_rule_nsgd, scn_rule_mnsgd, scn_rule_ssd, scn_rule_mars, scn_rule_adamw, scn_rule_sgd;
/* All rules by their number (rule_rows.c). */
extern const scn_rule *const scn_rule_rows[];
extern const int scn_rule_count;

const scn_rule *scn_rule_at(int rule); /* NULL: there is no such rule */
/* The rule that steps p where the optimizer's is `rule`. */
int scn_rule_for(int rule, const scion_param *p);

/* Entries of adamw and sgd (entrywise.c). */
void scn_adamw(const scn_entries *e, int64_t n, const float *g, float *const state[], float *w);
void scn_sgd(const scn_entries *e, int64_t n, const float *g, float *const state[], float *w);
double scn_adamw_reach(const scn_entries *e, double g, double *average);
double scn_sgd_reach(const scn_entries *e, double g, double *average);

/* ---- Options (options.c) ---- */

/* Checks o (which may be NULL) and copies it. */
scion_status scn_options_take(scion_options *copy, const scion_options *o, scion_error *err);
/* Copies element i of an array of parameters, whose stride is the first one's size. */
scion_status scn_param_take(scion_param *copy, const scion_param *params, int64_t i, scion_error *err);
scion_status scn_step_take(scion_step *copy, const scion_step *s, scion_error *err);
/* Settings of options o (already taken), without memory. */
scn_work scn_work_of(const scion_options *o, int threads);

/* ---- The optimizer ---- */

typedef struct scn_tensor {
    char *name;
    void *weight, *grad, *grad_prev;
    int weight_type, grad_type;
    int32_t ndim;
    int64_t shape[4];
    scn_layout layout;
    int64_t *split_sizes; /* or NULL */
    scn_block *block;     /* layout.blocks of them */
    int rule_id;          /* ADAMW for what MUON leaves to it */
    const scn_rule *rule;
    double radius, lr_scale, decay, momentum;
    int32_t group;
    int start_kind;
    bool frozen, vanishing;
    bool stepped;                  /* since it was made or loaded; its weights and states were found finite */
    int64_t own_first, own_count;  /* entries that this caller steps; state arrays hold these only */
    void *state[SCN_STATES_MAX];   /* the rule's state arrays, or NULL */
    bool borrowed[SCN_STATES_MAX]; /* the array is the caller's */
    int64_t steps;                 /* that this parameter took part in */
    double next_alpha;             /* light: the alpha that the gradient was shrunk for, if a step said so, else 0 */
    /* For the bound: a step w <- beta w + lr rho lmo multiplies start by beta and makes pushed
     * beta pushed + lr rho, so that ||w|| <= start ||w_0|| + pushed. */
    double start, start_norm, pushed;
    double gain;                  /* dual norm that multiplies the lmo of a sharp rule, else 1 */
    double largest, next_largest; /* upper bound of |first state array|: now, and after the step that was checked */
    double seconds;
} scn_tensor;

/* A block whose lmo is expensive, so that it is scheduled on its own. */
typedef struct scn_job {
    int64_t tensor;
    int block;
    double cost;
    size_t one_bytes, team_bytes; /* of workspace: by one thread, by all */
} scn_job;

/* Float32 arrays that a thread needs for a tile: the gradient and the weight where they are stored as bfloat16, and a
 * source or an lmo that has no other place. */
typedef struct scn_scratch {
    float *grad, *source, *lmo, *weight;
} scn_scratch;

struct scion_optimizer {
    scion_options o; /* its allocator is the one below, or NULL */
    scion_allocator allocator;
    int64_t count, steps;
    scn_tensor *tensors;
    double *sums;  /* count joint sums, for steps that are not shared */
    scn_job *jobs; /* largest first; the first team_jobs take all threads each, the others one */
    int64_t job_count, team_jobs;
    int threads;
    int64_t scratch_floats[4]; /* of a thread's grad, source, lmo, weight */
    bool swapped;              /* weights and `previous` are exchanged */
    bool joined;               /* joint was called, finish was not */
    void *memory;
    size_t memory_bytes, thread_bytes, scratch_bytes; /* in all; for each thread; its scratch */
};

/* ---- The plan of a step (step_plan.c) ---- */

/* Jobs and workspace of an optimizer whose tensors are made; false: out of memory. */
bool scn_plan(scion_optimizer *opt);
/* True if block k of the tensor is a job. */
bool scn_is_job(const scn_tensor *t, int k);
/* Settings and memory of thread `index`, or with index < 0 of a team of `threads`. */
scn_work scn_optimizer_work(const scion_optimizer *opt, int index, int threads, scn_scratch *scratch);

/* ---- Parameters and their states (param.c) ---- */

/* Fills in all that follows from the parameter's description and the options: rule, layout, types, owned entries. */
scion_status scn_describe(scn_tensor *t, const scion_options *o, const scion_param *p, int64_t i, scion_error *err);
/* True if it can be stepped in ranges of entries. */
bool scn_has_ranges(const scn_tensor *t);
/* The index in the rule's row of state array k, among those that exist under o; -1: there are no more. */
int scn_state_at(const scn_tensor *t, const scion_options *o, int k);
/* A state array as its rule's row describes it, with the entries that are owned here. */
scion_array scn_state_array(const scn_tensor *t, int index);
size_t scn_state_bytes(const scn_tensor *t, const scion_options *o);
/* Block k's part of a state array. */
void *scn_block_state(const scn_tensor *t, int index, int k);
/* The average d of an lmo rule, or NULL. */
static inline float *scn_average_array(const scn_tensor *t)
{
    return t->rule->average == SCN_AVERAGE_NONE ? NULL : t->state[0];
}
/* The weights before the last step, or NULL. */
void *scn_previous(const scn_tensor *t);

/* ---- Tensors (step.c) ---- */

/* alpha of the tensor's step number k (from 1). */
double scn_alpha(const scion_optimizer *opt, const scn_tensor *t, int64_t k);
/* n gradients or weights from entry `first`: where they lie if they are float32, else converted into
 * `buffer`. */
const float *scn_floats(const void *array, int type, int64_t first, int64_t n, float *buffer);
/* The opposite: nothing for float32; else rounds, as the options say, by the streams of this step. */
void scn_store_weights(const scion_optimizer *opt, scn_tensor *t, int64_t first, int64_t n, const float *values);
void scn_store_grads(const scion_optimizer *opt, scn_tensor *t, int64_t first, int64_t n, const float *values);

/* A tensor's array as float32: itself, or a copy for the caller to free (*copy); NULL: out of memory. */
float *scn_tensor_floats(const scion_optimizer *opt, const scn_tensor *t, void *array, int type, float **copy);
/* Workspace for one use of any of the tensor's blocks between two steps: that of the steps where it suffices. Give it
 * back in any case. False: out of memory. */
bool scn_borrow(const scion_optimizer *opt, const scn_tensor *t, scn_use use, scn_work *w);
void scn_give_back(const scion_optimizer *opt, const scn_work *w);
/* The norm of a tensor's weight; 0 where there is none. */
scion_status scn_weight_norm(scion_optimizer *opt, int64_t i, double *value, scion_error *err);
/* NULL if a setting (scion_setting) of the tensor may have that value, else the expected values. */
const char *scn_setting_expected(const scn_tensor *t, int32_t what, double value);
/* Checks that the arrays of parameter i are aligned to its types, and weight and grad apart (create.c). */
scion_status scn_check_pointers(const scn_tensor *t, const char *name, int64_t i, const void *weight,
                                const void *grad, const void *grad_prev, scion_error *err);
/* Refuses arrays of parameter i that overlap each other. */
scion_status scn_check_own_memory(const scn_tensor *t, int64_t i, scion_error *err);
/* Refuses an index that no parameter has. */
scion_status scn_check_index(const scion_optimizer *opt, int64_t i, scion_error *err);

/* Steps of the rules that take no lmo: n entries from `first` on. */
void scn_step_entries(scion_optimizer *opt, scn_tensor *t, const scn_entries *e, int64_t first, int64_t n,
                      int threads);
/* Tries such a step of all that is owned here on copies. Returns the largest |first state array| after it, or
 * INFINITY if a weight or a state would not be finite. */
double scn_try_entries(const scn_tensor *t, const scn_entries *e);
/* Sum of the squares of the gradients that this caller owns. */
double scn_grad_squares(const scn_tensor *t, int threads);

#endif
