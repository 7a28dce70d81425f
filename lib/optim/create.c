/* Making an optimizer: checks everything, plans all memory, allocates. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "optim/optimizer.h"

/* The part of an array that this caller owns. */
typedef struct piece {
    uintptr_t first, end;
    int64_t tensor;
    const char *name, *what; /* of the tensor, and its array */
} piece;

enum { pieces_max = 3 + SCN_STATES_MAX }; /* of a tensor */

/* Adds n entries of an array from `first` on. */
static int add_piece(piece *out, int at, const void *array, int type, int64_t first, int64_t n, const char *what)
{
    if (!array)
        return at;
    const uintptr_t begin = (uintptr_t)array + scn_stored_bytes(type, first);
    out[at] = (piece){begin, begin + scn_stored_bytes(type, n), 0, "", what};
    return at + 1;
}

/* The caller's arrays of a tensor, as far as it owns them. */
static int pieces_of(const scn_tensor *t, int64_t tensor, piece *out)
{
    const int64_t first = t->own_first, n = t->own_count;
    int count = 0;
    if (n == 0)
        return 0;
    count = add_piece(out, count, t->weight, t->weight_type, first, n, "weight");
    count = add_piece(out, count, t->grad, t->grad_type, first, n, "grad");
    if (t->rule->about.needs_prev)
        count = add_piece(out, count, t->grad_prev, t->grad_type, first, n, "grad_prev");
    for (int k = 0; k < SCN_STATES_MAX; k++) {
        const scion_array array = scn_state_array(t, k);
        if (t->borrowed[k])
            count = add_piece(out, count, array.data, array.type, 0, array.count, array.name);
    }
    for (int k = 0; k < count; k++) {
        out[k].tensor = tensor;
        out[k].name = t->name;
    }
    return count;
}

static int by_address(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* Sorts the pieces and refuses neighbours that overlap. */
static scion_status check_apart(piece *all, size_t n, scion_error *err)
{
    qsort(all, n, sizeof *all, by_address);
    for (size_t k = 1; k < n; k++) {
        const piece *a = &all[k - 1], *b = &all[k];
        if (b->first < a->end) {
            const int64_t later = a->tensor > b->tensor ? a->tensor : b->tensor;
            return scn_fail(err, SCION_EINVAL, later, "the %s of %s overlaps the %s of %s: each needs its own memory",
                            a->what, a->name, b->what, b->name);
        }
    }
    return SCION_OK;
}

static scion_status check_memory(const scion_optimizer *opt, scion_error *err)
{
    piece *all = scn_alloc(opt->o.allocator, (size_t)opt->count * pieces_max * sizeof *all);
    size_t n = 0;
    if (!all)
        return SCION_ENOMEM;
    for (int64_t i = 0; i < opt->count; i++)
        n += (size_t)pieces_of(&opt->tensors[i], i, all + n);
    const scion_status status = check_apart(all, n, err);
    scn_free(opt->o.allocator, all);
    return status;
}

scion_status scn_check_own_memory(const scn_tensor *t, int64_t i, scion_error *err)
{
    piece own[pieces_max];
    const int n = pieces_of(t, i, own);
    return check_apart(own, (size_t)n, err);
}

static bool is_aligned(const void *array, int type)
{
    return (uintptr_t)array % scn_stored_bytes(type, 1) == 0;
}

scion_status scn_check_pointers(const scn_tensor *t, const char *name, int64_t i, const void *weight,
                                const void *grad, const void *grad_prev, scion_error *err)
{
    const char *what = !is_aligned(weight, t->weight_type)    ? "weight"
                       : !is_aligned(grad, t->grad_type)      ? "grad"
                       : !is_aligned(grad_prev, t->grad_type) ? "grad_prev"
                                                              : NULL;
    if (what)
        return scn_fail(err, SCION_EINVAL, i, "%s: %s is not aligned to its type", name, what);
    if (grad && weight == grad)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight and grad are the same memory", name);
    return SCION_OK;
}

static scion_status check_param(const scn_tensor *t, const scion_param *p, const char *name, int64_t i,
                                scion_error *err)
{
    const bool owned = t->own_count > 0;
    const double decay = t->rule->about.weight_decay;
    if (!p->weight && owned)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight is NULL", name);
    if (!(p->lr_scale >= 0) || isinf(p->lr_scale))
        return scn_fail(err, SCION_EINVAL, i, "%s: lr_scale is %g, expected 0 or more", name, p->lr_scale);
    if (isnan(p->weight_decay) || isinf(p->weight_decay))
        return scn_fail(err, SCION_EINVAL, i, "%s: weight_decay is %g", name, p->weight_decay);
    if (decay != 0 && p->weight_decay > 0 && p->weight_decay != decay)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight_decay is %g, but rule %s decays by lr", name,
                        p->weight_decay, t->rule->about.name);
    if (p->state_count < 0 || (p->state_count > 0 && !p->states))
        return scn_fail(err, SCION_EINVAL, i, "%s: state_count is %lld, and states %s NULL", name,
                        (long long)p->state_count, p->states ? "is not" : "is");
    if (!scion_enum_name(SCION_ENUM_START, p->start))
        return scn_fail(err, SCION_EINVAL, i, "%s: %d is no start", name, (int)p->start);
    if (t->rule->about.needs_prev && owned && p->grad && !p->grad_prev)
        return scn_fail(err, SCION_EINVAL, i, "%s: rule %s needs grad_prev", name, t->rule->about.name);
    return SCION_OK;
}

/* Fills in a tensor but for its arrays. */
static scion_status set_up(scion_optimizer *opt, scn_tensor *t, const scion_param *p, int64_t i, scion_error *err)
{
    char buffer[32];
    const char *name = scn_param_name(p, i, buffer);
    RETURN_IF_FAILED(scn_describe(t, &opt->o, p, i, err));
    RETURN_IF_FAILED(check_param(t, p, name, i, err));
    RETURN_IF_FAILED(scn_check_pointers(t, name, i, p->weight, p->grad, p->grad_prev, err));
    const scion_rule_properties *about = &t->rule->about;
    t->weight = p->weight;
    t->grad = p->grad;
    t->grad_prev = p->grad_prev;
    t->radius = p->radius;
    t->lr_scale = p->lr_scale;
    t->momentum = about->lmo && !about->averages ? 1 : opt->o.momentum;
    t->decay = p->weight_decay >= 0 ? p->weight_decay : opt->o.weight_decay;
    if (about->weight_decay != 0)
        t->decay = about->weight_decay;
    t->group = p->group;
    t->start_kind = p->start;
    t->frozen = p->frozen != 0;
    t->vanishing = opt->o.vanishing != 0;
    t->start = 1;
    t->gain = 1;
    return SCION_OK;
}

/* State arrays: the caller's, or our own zeros. */
static scion_status make_states(const scion_optimizer *opt, scn_tensor *t, const scion_param *p, int64_t i,
                                scion_error *err)
{
    for (int k = 0, index; t->own_count > 0 && (index = scn_state_at(t, &opt->o, k)) >= 0; k++) {
        const scion_array about = scn_state_array(t, index);
        void *theirs = k < p->state_count ? p->states[k] : NULL;
        if (!is_aligned(theirs, about.type))
            return scn_fail(err, SCION_EINVAL, i, "%s: the state array %s is not aligned to its type", t->name,
                            about.name);
        t->borrowed[index] = theirs != NULL;
        t->state[index] =
            theirs ? theirs
                   : scn_alloc_shared(opt->o.allocator, scn_stored_bytes(about.type, about.count), opt->threads);
        if (!t->state[index])
            return SCION_ENOMEM;
    }
    return SCION_OK;
}

static bool allocate(scion_optimizer *opt, scn_tensor *t, const scion_param *p, int64_t i)
{
    const scion_allocator *a = opt->o.allocator;
    char buffer[32];
    bool ok = (t->name = scn_copy_string(a, scn_param_name(p, i, buffer))) != NULL;
    if (ok && t->layout.blocks > 1 && p->split_sizes) {
        size_t bytes = (size_t)t->layout.blocks * sizeof(int64_t);
        ok = (t->split_sizes = scn_alloc(a, bytes)) != NULL;
        if (ok)
            memcpy(t->split_sizes, p->split_sizes, bytes);
    }
    ok = ok && (t->block = scn_alloc(a, (size_t)t->layout.blocks * sizeof *t->block)) != NULL;
    for (int k = 0; ok && k < t->layout.blocks; k++) {
        scn_block *b = &t->block[k];
        *b = scn_layout_block(&t->layout, t->split_sizes, k);
        if (t->rule->factor)
            b->c = t->rule->factor(&opt->o, t->layout.role, b);
    }
    return ok;
}

static scion_status add_tensor(scion_optimizer *opt, const scion_param *params, int64_t i, scion_error *err)
{
    scion_param p;
    RETURN_IF_FAILED(scn_param_take(&p, params, i, err));
    RETURN_IF_FAILED(set_up(opt, &opt->tensors[i], &p, i, err));
    if (!allocate(opt, &opt->tensors[i], &p, i))
        return SCION_ENOMEM;
    return make_states(opt, &opt->tensors[i], &p, i, err);
}

static scion_status fill(scion_optimizer *opt, const scion_options *options, const scion_param *params, int64_t count,
                         scion_error *err)
{
    opt->o = *options;
    if (options->allocator) {
        opt->allocator = *options->allocator;
        opt->o.allocator = &opt->allocator;
    }
    opt->threads = scn_threads(options->threads);
    opt->tensors = scn_alloc(opt->o.allocator, (size_t)count * sizeof *opt->tensors);
    opt->sums = scn_alloc(opt->o.allocator, (size_t)count * sizeof *opt->sums);
    if (!opt->tensors || !opt->sums)
        return SCION_ENOMEM;
    opt->count = count;
    for (int64_t i = 0; i < count; i++)
        RETURN_IF_FAILED(add_tensor(opt, params, i, err));
    RETURN_IF_FAILED(check_memory(opt, err));
    return scn_plan(opt) ? scn_ok(err) : SCION_ENOMEM;
}

scion_status scion_optimizer_create(scion_optimizer **out, const scion_options *o, const scion_param *params,
                                    int64_t count, scion_error *err)
{
    scion_options options;
    if (!out)
        return scn_fail(err, SCION_EINVAL, -1, "out is NULL");
    *out = NULL;
    RETURN_IF_FAILED(scn_options_take(&options, o, err));
    if (count < 1 || !params)
        return scn_fail(err, SCION_EINVAL, -1, "params is NULL or count is %lld: nothing to optimise",
                        (long long)count);
    if ((uint64_t)count > SIZE_MAX / 2 / (sizeof(scn_tensor) + pieces_max * sizeof(piece)))
        return scn_fail(err, SCION_EINVAL, -1, "count is %lld: more parameters than memory can hold",
                        (long long)count);
    scion_optimizer *opt = scn_alloc(options.allocator, sizeof *opt);
    const scion_status status = opt ? fill(opt, &options, params, count, err) : SCION_ENOMEM;
    if (status == SCION_ENOMEM)
        scn_fail(err, status, -1, "out of memory for an optimizer of %lld parameters", (long long)count);
    if (status != SCION_OK)
        scion_optimizer_free(opt);
    else
        *out = opt;
    return status;
}

void scion_optimizer_free(scion_optimizer *opt)
{
    if (!opt)
        return;
    const scion_allocator copy = opt->allocator, *a = opt->o.allocator ? &copy : NULL;
    for (int64_t i = 0; i < opt->count; i++) {
        scn_tensor *t = &opt->tensors[i];
        scn_free(a, t->name);
        scn_free(a, t->split_sizes);
        scn_free(a, t->block);
        for (int k = 0; k < SCN_STATES_MAX; k++)
            scn_free(a, t->borrowed[k] ? NULL : t->state[k]);
    }
    scn_free(a, opt->tensors);
    scn_free(a, opt->sums);
    scn_free(a, opt->jobs);
    scn_free(a, opt->memory);
    scn_free(a, opt);
}
