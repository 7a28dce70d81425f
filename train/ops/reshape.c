/* y = x in another shape with as many elements. A view: nothing is computed, and y's data and gradient are x's. */
#include "ops/ops.h"

const tape_op op_reshape_row = {.name = "reshape", .view = true};

tape_value *op_reshape(tape *t, tape_value *x, int ndim, const int64_t *shape)
{
    if (!x)
        return NULL;
    tape_value *const in[] = {x};
    tape_value *y = op_result(tape_record(t, &op_reshape_row, ndim, shape, in, 1));
    if (y && y->count != x->count) {
        tape_fail(t, "reshape: %s has %lld elements, the new shape %lld", x->name, (long long)x->count,
                  (long long)y->count);
        return NULL;
    }
    return y;
}
