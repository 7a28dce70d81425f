/* Runs of an optimizer in conformance records, shared by the reference's runs (conform_trajectory.c) and the paper's
 * (conform_methods.c).
 *
 * Each run goes through the public calls alone: create, bind (with no gradient where the record has null), begin,
 * step. Every weight is compared after every step. The averages that stay inside the optimizer (`momentum_buffer`,
 * `state`, `m`, `v`) have no public reader: they show in the weights that they lead to, and the recorded ones are
 * compared with the recursion run in double on the gradients of the record, which checks the record and not the
 * library. That recursion is the `replay` of a run. */
#ifndef CONFORM_RUN_H
#define CONFORM_RUN_H

#include "conform.h"

typedef struct conform_member {
    scion_param p;
    int64_t n;
    int32_t polar_steps;
    const char *label;
    float *weight, *grad;
    float **grads;                                                  /* one per step; NULL: the parameter is skipped */
    double **golden;                                                /* weights after each step */
    double *average, *square;                                       /* replayed: d, G or m; and v */
    const double *golden_average, *golden_square, *golden_retained; /* NULL: not recorded */
} conform_member;

typedef struct conform_run conform_run;

/* Takes the gradient of step k, which is in m->grad, into the member's averages. */
typedef void (*conform_replay)(conform_case *c, const conform_run *r, conform_member *m, int64_t k);

struct conform_run {
    scion_options o;
    double *lr;
    int64_t steps, count;
    conform_member *members;
    double alpha, alpha_first; /* alpha_first NaN: as alpha */
    bool set_alpha;            /* alpha is set before each step, for no option gives this sequence */
    bool caller_zeroes;        /* gradients replace those before; else they are added to what is there */
    conform_replay replay;     /* NULL: no state */
};

/* alpha of step k, from 0. */
double conform_alpha_at(const conform_run *r, int64_t k);

/* d = (1-alpha)d + alpha g */
void conform_replay_average(conform_case *c, const conform_run *r, conform_member *m, int64_t k);

/* `steps`, and the step sizes under `key`: one for all steps or one for each. */
void conform_read_steps(conform_case *c, conform_run *r, const char *key);

/* The list of parameters, and memory for a member each. */
const json_t *conform_read_params(conform_case *c, conform_run *r);

/* Memory, start, gradients and golden weights of member i, whose parameter and count have been read. `start` and
 * `weights` name the fields. */
void conform_read_member(conform_case *c, conform_run *r, int64_t i, const json_t *object, const char *start,
                         const char *weights);

/* An array field of n numbers, or NULL where it is absent or null. */
const double *conform_optional(conform_case *c, const json_t *object, const char *key, int64_t n);

/* Runs all members and compares their weights; false when the library refused a call. */
bool conform_run_all(conform_case *c, conform_run *r);

/* Compares one array of a member; golden NULL: nothing to compare. */
void conform_compare_member(conform_case *c, const conform_member *m, const char *array, const double *ours,
                            const double *golden);

#endif
