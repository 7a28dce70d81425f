/* See flat.h. */
#include "trainer/flat.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/thread.h"

size_t flat_bytes(const tape *t, flat_like like)
{
    switch (like) {
    case LIKE_WEIGHTS: return tape_weight_bytes(t);
    case LIKE_GRADS: return tape_grad_bytes(t);
    default: return (size_t)tape_buffer_elements(t) * sizeof(float);
    }
}

scion_dtype flat_type(flat_like like, const tape_value *v)
{
    return like == LIKE_WEIGHTS ? v->weight_type : like == LIKE_GRADS ? v->grad_type : SCION_F32;
}

void *flat_at(void *array, flat_like like, const tape_value *v)
{
    const size_t at = like == LIKE_WEIGHTS ? v->weight_at : like == LIKE_GRADS ? v->grad_at : (size_t)v->offset * 4;
    return (char *)array + at;
}

void *flat_allocate(size_t bytes)
{
    const size_t rounded = (bytes + 63) / 64 * 64;
    void *x = aligned_alloc(64, rounded);
    scn_large_pages(x, rounded);
    if (x)
        scn_zero(x, rounded, scn_threads(0));
    return x;
}

bool flat_wants_grads_before(const config *c)
{
    return scion_rule_info(scion_enum_value(SCION_ENUM_RULE, c->optimizer.rule))->needs_prev;
}
