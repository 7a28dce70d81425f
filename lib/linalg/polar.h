/* Polar factor UV' of a matrix by odd polynomial iterations: the spectral lmo. See polar.c. */
#ifndef SCN_POLAR_H
#define SCN_POLAR_H

#include "product/product.h"

/* A coefficient set and its guarantees. */
typedef struct scn_polar_set {
    const char *name;
    int default_steps;
    int restart_interval; /* steps in a row that the Gram form may take without a restart */
    int bf16_interval;    /* the same in bfloat16; 0: the set computes in float32 alone */
    double overshoot;     /* largest singular value of the result, with the default number of steps */
    double safety;        /* steps before the last listed one take p(x / safety) in place of p(x) */
    bool schatten4;       /* starts from G over its Schatten 4-norm ||GG'||_F^(1/2), not over ||G||_F */
    int listed;           /* rows of `step`; the last one is used again after that */
    const double (*step)[3];
} scn_polar_set;

const scn_polar_set *scn_polar_set_at(int set); /* NULL: there is no such set */

/* Largest singular value that `steps` steps (0: the set's own number) may leave. */
double scn_polar_overshoot(const scn_polar_set *set, int steps);

/* A way to run one shape: made once, used for every matrix of that shape. */
typedef struct scn_polar_plan {
    const scn_polar_set *set;
    int steps;
    int64_t m, n;         /* short and long side */
    int restart_interval; /* steps between restarts; 1: the symmetric form */
    scion_dtype compute;  /* of the products: the kernel's `in` */
} scn_polar_plan;

/* steps = 0: the set's own number. SCION_BF16: only if the set has a bf16_interval. */
scn_polar_plan scn_polar_plan_make(const scn_polar_set *set, int steps, scion_dtype compute, int64_t rows,
                                   int64_t cols);

/* Operations that the formulation needs (for scheduling and benchmarks). */
double scn_polar_flops(const scn_polar_plan *plan);

/* Memory of one run with one thread team, taken from the arena. The kernel's `in` is the plan's `compute`. */
typedef struct scn_polar_work {
    scn_engine engine;
    scn_panels r, p, q, s;       /* m x m */
    scn_panels wide, tall, next; /* X as m x n and n x m; the next X */
} scn_polar_work;

scn_polar_work scn_polar_work_take(scn_arena *arena, const scn_polar_plan *plan, const scn_kernel *kernel,
                                   int threads);

/* z = beta z + alpha polar(g), where the iteration starts from g / (the set's norm of g + eps). z and g have the
 * plan's shape or its transpose; they may not overlap. A zero g gives a zero polar factor. */
void scn_polar_run(const scn_polar_plan *plan, const scn_polar_work *work, scn_mat z, double beta, double alpha,
                   scn_mat g, double eps);

#endif
