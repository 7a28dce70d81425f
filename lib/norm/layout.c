/* See layout.h. A parameter is a stored matrix rows x cols:
 *     matrix d_out x d_in       as it is
 *     transposed                d_in x d_out
 *     convolution out,in,k...   out x (in k...)
 *     vector of n               1 x n, transposed (it is the n x 1 matrix of a layer with one input)
 * and RMS, EUCLID and MAX see all entries in any case. */
#include "norm/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double max_count = 4e18; /* so that products of dimensions stay within int64_t */

const char *scn_param_name(const scion_param *p, int64_t index, char *buffer)
{
    if (p->name)
        return p->name;
    snprintf(buffer, 32, "param%lld", (long long)index);
    return buffer;
}

static scion_status check_shape(const scion_param *p, const char *name, int64_t index, scion_error *err)
{
    double count = 1;
    if (p->ndim < 1 || p->ndim > 4)
        return scn_fail(err, SCION_EINVAL, index, "%s: ndim is %d, expected 1 to 4", name, (int)p->ndim);
    for (int i = 0; i < p->ndim; i++) {
        if (p->shape[i] < 1)
            return scn_fail(err, SCION_EINVAL, index, "%s: shape[%d] is %lld, expected at least 1", name, i,
                            (long long)p->shape[i]);
        count *= (double)p->shape[i];
    }
    if (count > max_count)
        return scn_fail(err, SCION_EINVAL, index, "%s: %.3g elements are too many", name, count);
    if (p->transposed && p->ndim > 2)
        return scn_fail(err, SCION_EINVAL, index, "%s: a convolution cannot be stored transposed", name);
    return SCION_OK;
}

static scion_status check_split(const scion_param *p, const scn_layout *l, const char *name, int64_t index,
                                scion_error *err)
{
    int64_t length = l->split_axis == 0 && p->ndim > 1 ? l->rows : l->cols, sum = 0;
    if (p->split_count < 0 || p->split_count > length)
        return scn_fail(err, SCION_EINVAL, index, "%s: split_count is %d, expected 0 to %lld", name,
                        (int)p->split_count, (long long)length);
    if (p->split_count < 2)
        return SCION_OK;
    if (p->ndim > 2)
        return scn_fail(err, SCION_EINVAL, index, "%s: a convolution cannot be split", name);
    if (p->split_axis < 0 || p->split_axis >= p->ndim)
        return scn_fail(err, SCION_EINVAL, index, "%s: split_axis is %d, expected 0%s", name, (int)p->split_axis,
                        p->ndim > 1 ? " or 1" : "");
    if (!p->split_sizes) {
        if (length % p->split_count != 0)
            return scn_fail(err, SCION_EINVAL, index, "%s: %lld do not split into %d equal blocks", name,
                            (long long)length, (int)p->split_count);
        return SCION_OK;
    }
    for (int i = 0; i < p->split_count; i++) {
        if (p->split_sizes[i] < 1)
            return scn_fail(err, SCION_EINVAL, index, "%s: split_sizes[%d] is %lld, expected at least 1", name, i,
                            (long long)p->split_sizes[i]);
        if (p->split_sizes[i] > length - sum) /* before the sum can overflow */
            return scn_fail(err, SCION_EINVAL, index, "%s: split_sizes[%d] is %lld, but only %lld of %lld are left",
                            name, i, (long long)p->split_sizes[i], (long long)(length - sum), (long long)length);
        sum += p->split_sizes[i];
    }
    if (sum != length)
        return scn_fail(err, SCION_EINVAL, index, "%s: split_sizes add up to %lld, expected %lld", name,
                        (long long)sum, (long long)length);
    return SCION_OK;
}

static scion_status check_kind(const scion_param *p, int routing, const char *name, int64_t index, scion_error *err)
{
    if (!scn_role_name(p->role))
        return scn_fail(err, SCION_EINVAL, index, "%s: unknown role %d", name, (int)p->role);
    if (p->norm != SCION_NORM_AUTO && !scn_norm_at(p->norm))
        return scn_fail(err, SCION_EINVAL, index, "%s: unknown norm %d", name, (int)p->norm);
    if (!scn_routing_name(routing))
        return scn_fail(err, SCION_EINVAL, -1, "unknown routing %d", routing);
    if (!(p->radius > 0) || isinf(p->radius))
        return scn_fail(err, SCION_EINVAL, index, "%s: radius is %g, expected a positive number", name, p->radius);
    return SCION_OK;
}

scion_status scn_layout_make(scn_layout *out, const scion_param *p, int routing, int64_t index, scion_error *err)
{
    char buffer[32];
    if (p->size < sizeof *p)
        return scn_fail(err, SCION_EINVAL, index,
                        "parameter %lld: size is %zu, expected %zu (scion_param_init sets it)", (long long)index,
                        p->size, sizeof *p);
    const char *name = scn_param_name(p, index, buffer);
    RETURN_IF_FAILED(check_shape(p, name, index, err));
    RETURN_IF_FAILED(check_kind(p, routing, name, index, err));
    scn_layout l = {.rows = p->shape[0], .cols = 1, .positions = 1, .role = p->role, .split_axis = p->split_axis};
    for (int i = 1; i < p->ndim; i++)
        l.cols *= p->shape[i];
    for (int i = 2; i < p->ndim; i++)
        l.positions *= p->shape[i];
    l.transposed = p->transposed != 0;
    if (p->ndim == 1) {
        l.vector = true;
        l.cols = l.rows;
        l.rows = 1;
        l.transposed = !l.transposed;
        l.split_axis = 1;
    }
    l.count = l.rows * l.cols;
    l.norm = p->norm == SCION_NORM_AUTO ? scn_route(routing, p->role, p->ndim) : p->norm;
    l.blocks = p->split_count > 1 ? p->split_count : 1;
    *out = l;
    return check_split(p, &l, name, index, err);
}

scn_block scn_layout_block(const scn_layout *l, const int64_t *split_sizes, int i)
{
    scn_block b = {.norm = scn_norm_at(l->norm),
                   .transposed = l->transposed,
                   .rows = l->rows,
                   .cols = l->cols,
                   .ld = l->cols,
                   .positions = l->positions,
                   .whole = l->whole};
    if (l->blocks > 1) {
        int64_t length = l->split_axis == 0 ? l->rows : l->cols, first = 0, size = length / l->blocks;
        for (int k = 0; k < i; k++)
            first += split_sizes ? split_sizes[k] : size;
        if (split_sizes)
            size = split_sizes[i];
        *(l->split_axis == 0 ? &b.rows : &b.cols) = size;
        b.offset = l->split_axis == 0 ? first * l->cols : first;
    }
    scn_dims d = {.positions = (double)l->positions, .count = (double)(b.rows * b.cols)};
    d.d_out = (double)(l->transposed ? b.cols : b.rows);
    d.d_in = (double)(l->transposed ? b.rows : b.cols) / d.positions;
    b.c = b.norm->factor ? b.norm->factor(l->role, d) : 1;
    if (scn_granularity_of(&b) == SCN_BY_ENTRY && b.cols == b.ld) { /* one long row: tiles of any length */
        b.cols *= b.rows;
        b.ld = b.cols;
        b.rows = 1;
    }
    return b;
}
