/* y = x in another shape with as many elements. A view: nothing is computed, and y's data and gradient are x's. */
#include "ops/ops.h"

const tape_op op_reshape_row = {.name = "reshape", .view = true};

tape_value *op_reshape(tape *t, tape_value *x, int ndim, const int64_t *shape)
{
    if (!x)
        return NULL;
    tape_value *y = tape_record(t, &(tape_node){.op = &op_reshape_row, .in = {x}}, ndim, shape);
    if (y && y->count != x->count)
        return tape_fail(t, "reshape: %s has %lld elements, the new shape %lld", x->name, (long long)x->count,
                         (long long)y->count);
    return y;
}
