/* tape.c - recording a network: values, parameters, buffers, operations. */
#include "tensor/tape.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"

/* 256 TB in float32: more than any machine has, and sums of sizes do not overflow. */
static const int64_t MAX_ELEMENTS = (int64_t)1 << 46;

/* A growing list of pointers. */
typedef struct list {
    void **item;
    int64_t count, capacity;
} list;

struct tape {
    list values, nodes;
    list params, buffers; /* the values that are parameters or buffers; not owned */
    int segments;         /* segments of recomputation so far */
    bool recomputing;     /* between begin and end */
    const tape_value *last_param;
    int64_t elements[2]; /* sums over all parameters, all buffers */
    scion_error failure;
};

tape *tape_create(void)
{
    return calloc(1, sizeof(tape));
}

static void free_items(list *l)
{
    for (int64_t i = 0; i < l->count; i++)
        free(l->item[i]);
    free(l->item);
}

void tape_free(tape *t)
{
    if (!t)
        return;
    free_items(&t->nodes);
    free_items(&t->values);
    free(t->params.item);
    free(t->buffers.item);
    free(t);
}

/* ---- Errors of recording: the first is kept ------------------------------------------------------------ */

void *tape_fail(tape *t, const char *format, ...)
{
    if (tape_failed(t))
        return NULL;
    va_list args;
    va_start(args, format);
    scn_fail_list(&t->failure, SCION_EINVAL, -1, format, args);
    va_end(args);
    return NULL;
}

static void *fail_memory(tape *t)
{
    if (!tape_failed(t))
        train_fail(&t->failure, SCION_ENOMEM, "out of memory while recording");
    return NULL;
}

const char *tape_failed(const tape *t)
{
    if (!t)
        return "out of memory";
    return t->failure.status ? t->failure.message : NULL;
}

scion_status tape_check(const tape *t, scion_error *err)
{
    if (tape_failed(t))
        return train_fail(err, t ? t->failure.status : SCION_ENOMEM, "%s", tape_failed(t));
    if (t->recomputing)
        return train_fail(err, SCION_EINVAL, "a segment of recomputation was not ended");
    return SCION_OK;
}

/* ---- Values -------------------------------------------------------------------------------------------- */

static bool add_item(list *l, void *item)
{
    if (l->count == l->capacity) {
        int64_t capacity = l->capacity ? 2 * l->capacity : 64;
        void **more = realloc(l->item, (size_t)capacity * sizeof *more);
        if (!more)
            return false;
        l->item = more;
        l->capacity = capacity;
    }
    l->item[l->count++] = item;
    return true;
}

static void *item_at(const list *l, int64_t i)
{
    return i >= 0 && i < l->count ? l->item[i] : NULL;
}

/* Number of elements, unless the tape fails. */
static int64_t count_of(tape *t, const char *name, int ndim, const int64_t *shape)
{
    int64_t count = 1;
    if (ndim < 0 || ndim > TAPE_DIMS)
        tape_fail(t, "%s has %d dimensions, expected 0 to %d", name, ndim, TAPE_DIMS);
    for (int i = 0; i < ndim && !tape_failed(t); i++) {
        if (shape[i] < 1)
            tape_fail(t, "dimension %d of %s is %lld, expected at least 1", i, name, (long long)shape[i]);
        else if (shape[i] > MAX_ELEMENTS / count)
            tape_fail(t, "%s has too many elements", name);
        count *= shape[i];
    }
    return count;
}

static tape_value *add_value(tape *t, tape_kind kind, const char *name, int ndim, const int64_t *shape)
{
    if (tape_failed(t))
        return NULL;
    if (strlen(name) >= sizeof(((tape_value *)0)->name))
        tape_fail(t, "the name %.80s is longer than 63 bytes", name);
    int64_t count = count_of(t, name, ndim, shape);
    if (tape_failed(t))
        return NULL;
    tape_value *v = calloc(1, sizeof *v);
    if (!v || !add_item(&t->values, v)) {
        free(v);
        return fail_memory(t);
    }
    strcpy(v->name, name);
    v->index = t->values.count - 1;
    v->kind = kind;
    v->ndim = ndim;
    v->count = count;
    for (int i = 0; i < ndim; i++)
        v->shape[i] = shape[i];
    return v;
}

tape_value *tape_ints(tape *t, const char *name, int ndim, const int64_t *shape)
{
    return add_value(t, TAPE_INTS, name, ndim, shape);
}

tape_value *tape_floats(tape *t, const char *name, int ndim, const int64_t *shape)
{
    return add_value(t, TAPE_FLOATS, name, ndim, shape);
}

int64_t tape_value_count(const tape *t)
{
    return t->values.count;
}

tape_value *tape_value_at(const tape *t, int64_t i)
{
    return item_at(&t->values, i);
}

/* ---- Parameters and buffers ---------------------------------------------------------------------------- */

static bool has_name(const list *l, const char *name)
{
    for (int64_t i = 0; i < l->count; i++)
        if (strcmp(((const tape_value *)l->item[i])->name, name) == 0)
            return true;
    return false;
}

/* Adds a value of the flat arrays; *elements counts those before it. */
static tape_value *add_bound(tape *t, tape_kind kind, list *among, int64_t *elements, const char *name, int ndim,
                             const int64_t *shape)
{
    if (has_name(&t->params, name) || has_name(&t->buffers, name))
        tape_fail(t, "two parameters or buffers are called %s", name);
    tape_value *v = add_value(t, kind, name, ndim, shape);
    if (!v)
        return NULL;
    if (!add_item(among, v))
        return fail_memory(t);
    v->offset = *elements;
    v->weight_at = v->grad_at = (size_t)*elements * sizeof(float);
    *elements += v->count;
    return v;
}

tape_value *tape_param(tape *t, const char *name, scion_role role, int ndim, const int64_t *shape)
{
    tape_value *v = t ? add_bound(t, TAPE_PARAM, &t->params, &t->elements[0], name, ndim, shape) : NULL;
    if (v)
        v->role = role;
    return v;
}

tape_value *tape_buffer(tape *t, const char *name, float initial, int ndim, const int64_t *shape)
{
    tape_value *v = t ? add_bound(t, TAPE_BUFFER, &t->buffers, &t->elements[1], name, ndim, shape) : NULL;
    if (v)
        v->initial = initial;
    return v;
}

tape_value *tape_param_at(const tape *t, int64_t i)
{
    return t ? item_at(&t->params, i) : NULL;
}

int64_t tape_param_count(const tape *t)
{
    return t ? t->params.count : 0;
}

int64_t tape_param_elements(const tape *t)
{
    return t->elements[0];
}

tape_value *tape_buffer_at(const tape *t, int64_t i)
{
    return t ? item_at(&t->buffers, i) : NULL;
}

int64_t tape_buffer_count(const tape *t)
{
    return t ? t->buffers.count : 0;
}

int64_t tape_buffer_elements(const tape *t)
{
    return t->elements[1];
}

/* A multiple of 4, because the next parameter may be float32. */
static size_t stored_bytes(scion_dtype type, int64_t count)
{
    return (scn_stored_bytes(type, count) + 3) / 4 * 4;
}

void tape_store(tape *t, scion_dtype weights, scion_dtype grads)
{
    size_t weight_at = 0, grad_at = 0;
    for (int64_t i = 0; i < t->params.count; i++) {
        tape_value *v = t->params.item[i];
        const bool half = v->used && !v->float_only;
        v->weight_type = half ? weights : SCION_F32;
        v->grad_type = half ? grads : SCION_F32;
        v->weight_at = weight_at;
        v->grad_at = grad_at;
        weight_at += stored_bytes(v->weight_type, v->count);
        grad_at += stored_bytes(v->grad_type, v->count);
    }
}

static const tape_value *last_param(const tape *t)
{
    return tape_param_at(t, t->params.count - 1);
}

size_t tape_weight_bytes(const tape *t)
{
    const tape_value *v = last_param(t);
    return v ? v->weight_at + stored_bytes(v->weight_type, v->count) : 0;
}

size_t tape_grad_bytes(const tape *t)
{
    const tape_value *v = last_param(t);
    return v ? v->grad_at + stored_bytes(v->grad_type, v->count) : 0;
}

/* Sets the pointer of the array's type, and the other to NULL. */
static void bind_array(void *flat, size_t at, scion_dtype type, float **floats, uint16_t **halves)
{
    void *array = flat ? (char *)flat + at : NULL;
    *floats = type == SCION_F32 ? array : NULL;
    *halves = type == SCION_F32 ? NULL : array;
}

void tape_bind(tape *t, void *weights, void *grads, float *buffers)
{
    for (int64_t i = 0; i < t->params.count; i++) {
        tape_value *v = t->params.item[i];
        bind_array(weights, v->weight_at, v->weight_type, &v->data, &v->half);
        bind_array(grads, v->grad_at, v->grad_type, &v->grad, &v->half_grad);
    }
    for (int64_t i = 0; i < t->buffers.count; i++) {
        tape_value *v = t->buffers.item[i];
        v->data = buffers ? buffers + v->offset : NULL;
    }
}

const float *tape_floats_of(const tape_value *v, int64_t first, int64_t n, float *buffer)
{
    if (v->data)
        return v->data + first;
    scn_from_bf16(n, v->half + first, buffer);
    return buffer;
}

void tape_init_buffers(tape *t)
{
    for (int64_t i = 0; i < t->buffers.count; i++) {
        const tape_value *v = t->buffers.item[i];
        for (int64_t k = 0; k < v->count; k++)
            v->data[k] = v->initial;
    }
}

/* ---- Operations ---------------------------------------------------------------------------------------- */

/* "linear blocks.3.attn.q" by its first parameter, "add after blocks.3.attn.o" without one, "scale" before any. */
static void name_result(tape *t, const tape_node *n)
{
    const tape_value *own = NULL;
    for (int i = 0; i < n->inputs && !own; i++)
        own = n->in[i] && n->in[i]->kind == TAPE_PARAM ? n->in[i] : NULL;
    t->last_param = own ? own : t->last_param;
    const char *param = t->last_param ? t->last_param->name : "", *between = own ? " " : " after ";
    snprintf(n->out->name, sizeof n->out->name, "%.15s%s%.41s", n->op->name, *param ? between : "", param);
}

tape_value *tape_record(tape *t, const tape_node *like, int ndim, const int64_t *shape)
{
    if (tape_failed(t))
        return NULL;
    tape_node *n = calloc(1, sizeof *n);
    if (!n || !add_item(&t->nodes, n)) {
        free(n);
        return fail_memory(t);
    }
    *n = *like;
    for (int i = 0; i < TAPE_INPUTS; i++) {
        if (!n->in[i])
            continue;
        if (tape_value_at(t, n->in[i]->index) != n->in[i])
            return tape_fail(t, "input %d of operator %s, %s, belongs to another tape", i, n->op->name,
                             n->in[i]->name);
        n->inputs = i + 1;
        n->in[i]->used = true;
        n->in[i]->float_only = n->in[i]->float_only || !(n->op->half_params >> i & 1);
    }
    n->out = add_value(t, TAPE_ACTIVATION, n->op->name, ndim, shape);
    if (!n->out)
        return NULL;
    name_result(t, n);
    if (n->op->view)
        n->out->kind = n->in[0]->kind;
    n->segment = t->recomputing ? t->segments : 0;
    return n->out;
}

void tape_recompute_begin(tape *t)
{
    if (tape_failed(t))
        return;
    if (t->recomputing)
        tape_fail(t, "segments of recomputation do not nest");
    t->recomputing = true;
    t->segments++;
}

void tape_recompute_end(tape *t)
{
    if (tape_failed(t))
        return;
    if (!t->recomputing)
        tape_fail(t, "a segment of recomputation was ended without a beginning");
    t->recomputing = false;
}

int64_t tape_node_count(const tape *t)
{
    return t->nodes.count;
}

const tape_node *tape_node_at(const tape *t, int64_t i)
{
    return item_at(&t->nodes, i);
}
