/* Every norm in every role on every shape: the table that the laws of the norms run through. */
#include "support.h"

typedef struct shape_row {
    const char *what;
    int32_t ndim;
    int64_t shape[4];
    int32_t transposed, axis, count;
    int64_t sizes[3]; /* of the split; zeros: equal */
} shape_row;

static const shape_row shapes[] = {
    {"tall", 2, .shape = {7, 3}},
    {"wide", 2, .shape = {3, 8}},
    {"square", 2, .shape = {5, 5}},
    {"one row", 2, .shape = {1, 6}},
    {"one column", 2, .shape = {6, 1}},
    {"one entry", 2, .shape = {1, 1}},
    {"wide, larger than one tile of any kernel", 2, .shape = {33, 50}},
    {"tall, larger than one tile of any kernel", 2, .shape = {70, 18}},
    {"an embedding table: vocabulary x dim", 2, .shape = {9, 4}, .transposed = 1},
    {"a wide transposed one", 2, .shape = {4, 9}, .transposed = 1},
    {"fused QKV, stored as rows", 2, .shape = {12, 5}, .count = 3},
    {"fused QKV, stored as columns", 2, .shape = {5, 12}, .axis = 1, .count = 3},
    {"grouped queries: unequal blocks", 2, .shape = {11, 6}, .count = 3, .sizes = {6, 3, 2}},
    {"unequal columns", 2, .shape = {4, 13}, .axis = 1, .count = 2, .sizes = {9, 4}},
    {"transposed and fused", 2, .shape = {12, 4}, .transposed = 1, .count = 2, .sizes = {7, 5}},
    {"transposed, split along the other axis", 2, .shape = {4, 12}, .transposed = 1, .axis = 1, .count = 4},
    {"1-D convolution", 3, .shape = {4, 3, 3}},
    {"2-D convolution", 4, .shape = {6, 4, 3, 3}},
    {"a kernel that is not square", 4, .shape = {3, 2, 3, 2}},
    {"a kernel of one position", 4, .shape = {5, 7, 1, 1}},
    {"more outputs than inputs times positions", 4, .shape = {20, 2, 2, 1}},
    {"a bias", 1, .shape = {9}},
    {"a bias of one", 1, .shape = {1}},
    {"two biases in one", 1, .shape = {10}, .count = 2, .sizes = {7, 3}},
};

static const scion_role roles[] = {SCION_ROLE_HIDDEN, SCION_ROLE_ONEHOT,        SCION_ROLE_INPUT, SCION_ROLE_OUTPUT,
                                   SCION_ROLE_VECTOR, SCION_ROLE_NORMALIZATION, SCION_ROLE_PLAIN};

/* The table of factors has no column for vectors: a matrix norm in such a role means nothing. The flat norms are
 * at home in every role. A parameter of one dimension is the n x 1 matrix of a layer with one input. */
static int makes_sense(scion_norm norm, scion_role role)
{
    return scion_norm_info((int32_t)norm)->starts_at_zero ||
           (role != SCION_ROLE_VECTOR && role != SCION_ROLE_NORMALIZATION);
}

void for_each_case(void (*law)(const scion_param *p, rng *r))
{
    uint64_t number = 0;
    for (int64_t s = 0; s < COUNT_OF(shapes); s++)
        for (int32_t n = 1; scion_norm_info(n); n++) /* 0 is AUTO */
            for (int64_t e = 0; e < COUNT_OF(roles); e++) {
                number++;
                if (!makes_sense((scion_norm)n, roles[e]))
                    continue;
                scion_param p = param_of(shapes[s].ndim, shapes[s].shape, (scion_norm)n, roles[e]);
                p.transposed = shapes[s].transposed;
                p.split_axis = shapes[s].axis;
                p.split_count = shapes[s].count;
                p.split_sizes = shapes[s].sizes[0] ? shapes[s].sizes : NULL;
                p.radius = number % 3 == 0 ? 1 : number % 3 == 1 ? 2.5 : 50;
                rng r = rng_of(1000 + number);
                at("%s: %s radius %g", shapes[s].what, describe(&p), p.radius);
                law(&p, &r);
                release(NULL);
            }
}
