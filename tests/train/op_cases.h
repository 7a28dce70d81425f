/* The operators' cases: one table serves the checks against naive double versions, the checks of gradients and the
 * measurement of speed (bench/ops). Needs the program's tape and operators, and no test library.
 *
 *     op_fixture *f = op_fixture_create(c, &c->timing, threads, seed);
 *     op_fixture_train(f);
 *     op_fixture_free(f); */
#ifndef TESTS_OP_CASES_H
#define TESTS_OP_CASES_H

#include "ops/ops.h"

/* B T C D V: batch, positions, width, head size (or run of a norm), vocabulary or width of the output. Images: T
 * height (and width), C channels, D size of the kernel or square, V channels of the result. Letters that an operator
 * does not know are 0. */
typedef struct op_sizes {
    int64_t B, T, C, D, V;
} op_sizes;

typedef struct op_case op_case;
struct op_case {
    const char *name;
    /* Declares inputs on an empty tape and records the one operation. */
    tape_value *(*build)(tape *t, const op_case *c, const op_sizes *s);
    /* The result in double. in[i]: values of input i; ints: its whole numbers, if some input has them. */
    void (*oracle)(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
    const char *function; /* of an activation */
    double real;          /* eps, base, smoothing, factor, rate */
    bool flag;            /* causal; bias or shift present */
    bool scaled;          /* a scale is present */
    bool oblong;          /* images and kernels are wider than high, by 2 and by 1 */
    int64_t stride, pad;  /* of a convolution */
    bool soft;            /* targets have weights per class */
    double bf16;          /* computed in bfloat16: error of result and gradients, in units of 2^-9 of the largest */
    op_sizes small[7];    /* for comparisons; ends with zeros */
    op_sizes wide;        /* large enough that all threads take part, small enough for a test */
    op_sizes timing;      /* as in GPT-2 of 124M parameters, 4 x 256 tokens; images: as in airbench, 500 of them;
                             the vision transformer: 100 images of 65 positions */
};

/* Case i, NULL past the last; the case of that name, or NULL. */
const op_case *op_case_at(int i);
const op_case *op_case_find(const char *name);

/* One operation with memory of its own, filled at random: floats are Gaussian (none within 1e-3 of 0, where relu
 * has its kink), tokens within the vocabulary, one target in eight negative. Backward may overwrite out.grad. */
typedef struct op_fixture {
    tape *tape;
    tape_value value[TAPE_INPUTS], out;
    tape_node node;        /* needs every gradient that exists; accumulates */
    tape_run run;          /* training, loss_scale 1; of a loss, out.grad[0] is that too */
    size_t saved, scratch; /* floats */
} op_fixture;

/* NULL: out of memory, or the builder refused. */
op_fixture *op_fixture_create(const op_case *c, const op_sizes *s, int threads, uint64_t seed);
/* The same, computed in bfloat16. As a plan does it: with the operands of products rounded in an array of their own,
 * and where the operator can, the result too, or that alone, unless backward reads it. */
typedef enum op_halves { OP_HALVES_NONE, OP_HALVES_BOTH, OP_HALVES_ONLY } op_halves;
op_fixture *op_fixture_rounded(const op_case *c, const op_sizes *s, int threads, uint64_t seed, op_halves halves);
/* Rounds the inputs again, after a test has changed them. */
void op_fixture_round(op_fixture *f);
void op_fixture_free(op_fixture *f);

/* Forward and backward, or forward_backward where the operator has it. */
void op_fixture_train(op_fixture *f);

/* The oracles (op_oracles.c). */
void oracle_linear(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_embedding(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_rmsnorm(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_layernorm(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_rotary(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_attention(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_activation(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_add(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_cross_entropy(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_factor(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_convolution(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_batchnorm(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_max_pool(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_patches(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_add_each(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_prepend(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_pick(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_mean_positions(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_dropout(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);
void oracle_drop_samples(const op_case *c, const op_sizes *s, double *const *in, const int32_t *ints, double *out);

/* f(z) and f'(z) of an activation, in double. */
double oracle_function(const char *name, double z);
double oracle_slope(const char *name, double z);

#endif
