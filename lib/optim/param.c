/* A parameter before any memory is spent on it: the rule that steps it, its norm and blocks, its state arrays, and
 * the entries that this caller owns. */
#include <stddef.h>
#include <string.h>

#include "optim/optimizer.h"

/* Operations for an entry where the norm has no cost of its own: it is read, squared or compared, scaled, written. */
static const double entry_flops = 4;

/* ---- Description ---- */

/* A sharp rule needs the dual norm of the whole; a state of rows or columns, and a hook, need whole blocks. */
bool scn_has_ranges(const scn_tensor *t)
{
    const scn_rule *rule = t->rule;
    for (int k = 0; k < SCN_STATES_MAX && rule->states[k].name; k++)
        if (rule->states[k].shape != SCN_ENTRIES)
            return false;
    const bool by_entry = !rule->about.lmo || scn_norm_at(t->layout.norm)->about.elementwise;
    return by_entry && t->layout.blocks == 1 && !rule->about.sharp && !rule->after_lmo;
}

/* Finds the entries that this caller owns. */
static scion_status take_range(scn_tensor *t, const scion_param *p, const char *name, int64_t i, scion_error *err)
{
    const int64_t count = t->layout.count, first = p->own_first, n = p->own_count;
    t->own_first = n <= 0 ? 0 : first;
    t->own_count = n < 0 ? count : n;
    if (n <= 0 || (first == 0 && n == count))
        return SCION_OK;
    if (first < 0 || first >= count || n > count - first)
        return scn_fail(err, SCION_EINVAL, i, "%s: own_first is %lld and own_count %lld, but it has %lld entries",
                        name, (long long)first, (long long)n, (long long)count);
    if (!scn_has_ranges(t))
        return scn_fail(
            err, SCION_EINVAL, i,
            "%s: only all or none of it can be owned: its norm or rule is not elementwise, or it is split", name);
    if (first % SCION_RANGE != 0 || (n % SCION_RANGE != 0 && first + n != count))
        return scn_fail(err, SCION_EINVAL, i,
                        "%s: own_first is %lld and own_count %lld, expected multiples of %d up to the end", name,
                        (long long)first, (long long)n, SCION_RANGE);
    return SCION_OK;
}

scion_status scn_describe(scn_tensor *t, const scion_options *o, const scion_param *p, int64_t i, scion_error *err)
{
    char buffer[32];
    const char *name = scn_param_name(p, i, buffer);
    scion_param routed = *p;
    t->rule_id = scn_rule_for(o->rule, p);
    t->rule = scn_rule_at(t->rule_id);
    if (t->rule->about.norm != SCION_NORM_AUTO)
        routed.norm = t->rule->about.norm;
    RETURN_IF_FAILED(scn_layout_make(&t->layout, &routed, o->routing, i, err));
    if ((unsigned)p->weight_type > SCION_BF16 || (unsigned)p->grad_type > SCION_BF16)
        return scn_fail(err, SCION_EINVAL, i, "%s: weight_type %d, grad_type %d: expected float32 or bfloat16", name,
                        (int)p->weight_type, (int)p->grad_type);
    t->layout.whole = t->rule->after_lmo != NULL;
    t->ndim = p->ndim;
    memcpy(t->shape, p->shape, sizeof t->shape);
    t->weight_type = p->weight_type;
    t->grad_type = p->grad_type;
    return take_range(t, p, name, i, err);
}

/* ---- States ---- */

int scn_state_at(const scn_tensor *t, const scion_options *o, int k)
{
    for (int n = o->light ? 1 : 0; n < SCN_STATES_MAX && t->rule->states[n].name; n++)
        if (k-- == 0)
            return n;
    return -1;
}

/* Values of a state array that is not one of entries. */
static int64_t values_of(const scn_layout *l, scn_state_shape shape)
{
    const int64_t across = l->split_axis == 1 ? l->blocks : 1, down = l->split_axis == 0 ? l->blocks : 1;
    return shape == SCN_ROWS ? across * l->rows : shape == SCN_COLUMNS ? down * l->cols : l->blocks;
}

scion_array scn_state_array(const scn_tensor *t, int index)
{
    const scn_state *s = &t->rule->states[index];
    scion_array a = {.size = sizeof a, .name = s->name, .data = t->state[index], .ndim = 1};
    a.type = s->previous ? t->weight_type : SCION_F32;
    if (s->shape == SCN_ENTRIES) {
        a.ndim = t->ndim;
        memcpy(a.shape, t->shape, (size_t)t->ndim * sizeof *a.shape);
        a.first = t->own_first;
        a.count = t->own_count;
    } else {
        a.shape[0] = values_of(&t->layout, s->shape);
        a.count = t->own_count > 0 ? a.shape[0] : 0;
    }
    return a;
}

size_t scn_state_bytes(const scn_tensor *t, const scion_options *o)
{
    size_t bytes = 0;
    for (int k = 0, index; (index = scn_state_at(t, o, k)) >= 0; k++) {
        const scion_array a = scn_state_array(t, index);
        bytes += scn_stored_bytes(a.type, a.count);
    }
    return bytes;
}

void *scn_block_state(const scn_tensor *t, int index, int k)
{
    const scn_state *s = &t->rule->states[index];
    int64_t at = s->shape == SCN_ONE ? k : 0;
    if (!t->state[index])
        return NULL;
    if (s->shape == SCN_ENTRIES)
        at = t->block[k].offset - t->own_first;
    for (int i = 0; i < k && s->shape != SCN_ENTRIES && s->shape != SCN_ONE; i++)
        at += s->shape == SCN_ROWS ? t->block[i].rows : t->block[i].cols;
    return (char *)t->state[index] + scn_stored_bytes(s->previous ? t->weight_type : SCION_F32, at);
}

void *scn_previous(const scn_tensor *t)
{
    for (int k = 0; k < SCN_STATES_MAX; k++)
        if (t->rule->states[k].previous)
            return t->state[k];
    return NULL;
}

/* ---- Queries ---- */

/* Describes one parameter of the caller's. */
static scion_status ask(const scion_param *p, const scion_options *o, scn_tensor *t, scion_options *options,
                        scion_param *copy, scion_error *err)
{
    *t = (scn_tensor){.name = NULL};
    if (!p)
        return scn_fail(err, SCION_EINVAL, -1, "p is NULL");
    RETURN_IF_FAILED(scn_options_take(options, o, err));
    RETURN_IF_FAILED(scn_param_take(copy, p, 0, err));
    return scn_describe(t, options, copy, 0, err);
}

scion_status scion_param_info(const scion_param *p, const scion_options *o, scion_param_properties *info,
                              scion_error *err)
{
    scn_tensor t;
    scion_options options;
    scion_param copy;
    if (!info || info->size < offsetof(scion_param_properties, elements))
        return scn_fail(err, SCION_EINVAL, -1, "info is NULL, or without a size (scion_param_properties_init)");
    RETURN_IF_FAILED(ask(p, o, &t, &options, &copy, err));
    scion_param_properties all = {.elements = t.layout.count,
                                  .rule = t.rule_id,
                                  .norm = t.layout.norm,
                                  .ranges = scn_has_ranges(&t),
                                  .state_bytes = scn_state_bytes(&t, &options)};
    const scn_work w = scn_work_of(&options, 1);
    for (int k = t.layout.blocks - 1; k >= 0; k--) {
        const scn_block b = scn_layout_block(&t.layout, copy.split_sizes, k);
        all.scale = t.rule->factor ? t.rule->factor(&options, t.layout.role, &b) : b.c;
        if (t.rule->about.lmo)
            all.flops += b.norm->cost ? b.norm->cost(&b, &w) : entry_flops * (double)b.rows * (double)b.cols;
    }
    while (scn_state_at(&t, &options, all.states) >= 0)
        all.states++;
    scn_struct_give(info, info->size, &all, sizeof all);
    return scn_ok(err);
}

int scion_param_state(const scion_param *p, const scion_options *o, int k, scion_array *array)
{
    scn_tensor t;
    scion_options options;
    scion_param copy;
    if (k < 0 || !array || array->size < offsetof(scion_array, first) ||
        ask(p, o, &t, &options, &copy, NULL) != SCION_OK)
        return 0;
    const int index = scn_state_at(&t, &options, k);
    if (index < 0)
        return 0;
    const scion_array found = scn_state_array(&t, index);
    scn_struct_give(array, array->size, &found, sizeof found);
    return 1;
}
