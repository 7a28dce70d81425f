/* tape.c - recording a network, its parameters, and the runs. The memory plan is made in plan.c. */
#include "tensor/plan.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* A quarter of a million gigabytes: far more than any machine, and sums of sizes do not overflow. */
static const int64_t MAX_ELEMENTS = (int64_t)1 << 46;

tape *tape_create(void)
{
    return calloc(1, sizeof(tape));
}

static void free_items(tape_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        free(list->item[i]);
    free(list->item);
}

void tape_free(tape *t)
{
    if (!t)
        return;
    free_items(&t->nodes);
    free_items(&t->values);
    free(t->params.item);
    plan_free(&t->plan);
    free(t->block);
    free(t);
}

/* ---- Errors of recording: the first one stays ---------------------------------------------------------- */

void tape_fail(tape *t, const char *format, ...)
{
    if (tape_failed(t))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(t->failure.message, sizeof t->failure.message, format, args);
    va_end(args);
    t->failure.status = SCION_EINVAL;
}

static void fail_memory(tape *t)
{
    if (!tape_failed(t))
        train_fail(&t->failure, SCION_ENOMEM, "out of memory while recording");
}

const char *tape_failed(const tape *t)
{
    if (!t)
        return "out of memory";
    return t->failure.status ? t->failure.message : NULL;
}

/* ---- Values -------------------------------------------------------------------------------------------- */

static bool add_item(tape_list *list, void *item)
{
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 64;
        void **more = realloc(list->item, (size_t)capacity * sizeof *more);
        if (!more)
            return false;
        list->item = more;
        list->capacity = capacity;
    }
    list->item[list->count++] = item;
    return true;
}

/* Number of elements; 0 after an error. */
static int64_t count_of(tape *t, const char *name, int ndim, const int64_t *shape)
{
    if (ndim < 0 || ndim > TAPE_DIMS) {
        tape_fail(t, "%s has %d dimensions: 0 to %d are possible", name, ndim, TAPE_DIMS);
        return 0;
    }
    int64_t count = 1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 1) {
            tape_fail(t, "dimension %d of %s is %lld: it must be positive", i, name, (long long)shape[i]);
            return 0;
        }
        if (shape[i] > MAX_ELEMENTS / count) {
            tape_fail(t, "%s has too many elements", name);
            return 0;
        }
        count *= shape[i];
    }
    return count;
}

static tape_value *add_value(tape *t, tape_kind kind, const char *name, int ndim, const int64_t *shape)
{
    if (tape_failed(t))
        return NULL;
    if (strlen(name) >= sizeof(((tape_value *)0)->name))
        tape_fail(t, "the name %.80s is too long: at most 63 bytes are possible", name);
    int64_t count = count_of(t, name, ndim, shape);
    if (tape_failed(t))
        return NULL;
    tape_value *v = calloc(1, sizeof *v);
    if (!v || !add_item(&t->values, v)) {
        free(v);
        fail_memory(t);
        return NULL;
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

/* ---- Parameters ---------------------------------------------------------------------------------------- */

tape_value *tape_param(tape *t, const char *name, scion_role role, int ndim, const int64_t *shape)
{
    for (int64_t i = 0; i < tape_param_count(t); i++) {
        if (!strcmp(tape_param_at(t, i)->name, name))
            tape_fail(t, "there are two parameters called %s", name);
    }
    tape_value *v = add_value(t, TAPE_PARAM, name, ndim, shape);
    if (!v)
        return NULL;
    if (!add_item(&t->params, v)) {
        fail_memory(t);
        return NULL;
    }
    v->role = role;
    v->offset = t->elements;
    t->elements += v->count;
    return v;
}

tape_value *tape_param_at(const tape *t, int64_t i)
{
    return i >= 0 && i < tape_param_count(t) ? t->params.item[i] : NULL;
}

int64_t tape_param_count(const tape *t)
{
    return t ? t->params.count : 0;
}

int64_t tape_param_elements(const tape *t)
{
    return t->elements;
}

void tape_bind(tape *t, float *weights, float *grads)
{
    for (int64_t i = 0; i < t->params.count; i++) {
        tape_value *v = t->params.item[i];
        v->data = weights + v->offset;
        v->grad = grads ? grads + v->offset : NULL;
    }
}

/* ---- Operations ---------------------------------------------------------------------------------------- */

static bool check_inputs(tape *t, const tape_op *op, tape_value *const *in, int inputs)
{
    if (inputs < 0 || inputs > TAPE_INPUTS)
        tape_fail(t, "operator %s has %d inputs: at most %d are possible", op->name, inputs, TAPE_INPUTS);
    for (int i = 0; i < inputs && !tape_failed(t); i++) {
        if (in[i] && (in[i]->index >= t->values.count || tape_value_of(t, in[i]->index) != in[i]))
            tape_fail(t, "input %d of operator %s, %s, is of another tape", i, op->name, in[i]->name);
    }
    return !tape_failed(t);
}

/* "linear blocks.3.attn.q" by its first parameter, "add after blocks.3.attn.o" without one, "scale" before any. */
static void name_result(tape *t, tape_value *out, const tape_op *op, tape_value *const *in, int inputs)
{
    const tape_value *own = NULL;
    for (int i = 0; i < inputs && !own; i++)
        own = in[i] && in[i]->kind == TAPE_PARAM ? in[i] : NULL;
    t->last_param = own ? own : t->last_param;
    const char *param = t->last_param ? t->last_param->name : "";
    snprintf(out->name, sizeof out->name, "%.15s%s%.41s", op->name, !*param ? "" : own ? " " : " after ", param);
}

tape_node *tape_record(tape *t, const tape_op *op, int ndim, const int64_t *shape, tape_value *const *in, int inputs)
{
    if (tape_failed(t) || !check_inputs(t, op, in, inputs))
        return NULL;
    tape_value *out = add_value(t, TAPE_ACTIVATION, op->name, ndim, shape);
    if (!out)
        return NULL;
    name_result(t, out, op, in, inputs);
    tape_node *n = calloc(1, sizeof *n);
    if (!n || !add_item(&t->nodes, n)) {
        free(n);
        fail_memory(t);
        return NULL;
    }
    n->op = op;
    n->inputs = inputs;
    for (int i = 0; i < inputs; i++)
        n->in[i] = in[i];
    n->out = out;
    n->segment = t->recomputing ? t->segments : 0;
    return n;
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
        tape_fail(t, "a segment of recomputation was ended that was not begun");
    t->recomputing = false;
}

const tape_node *tape_node_at(const tape *t, int64_t i)
{
    return i >= 0 && i < t->nodes.count ? tape_node_of(t, i) : NULL;
}

double tape_flops(const tape *t)
{
    double sum = 0;
    for (int64_t i = 0; i < t->nodes.count; i++) {
        const tape_node *n = tape_node_of(t, i);
        sum += n->op->flops ? n->op->flops(n) : 0;
    }
    return sum;
}

/* ---- Planning: plan.c decides, here the pointers are set ----------------------------------------------- */

size_t tape_plan_bytes(const tape *t, const tape_value *loss, tape_mode mode, int threads)
{
    plan p;
    if (tape_failed(t) || plan_make(&p, t, loss, mode, threads, NULL))
        return SIZE_MAX;
    size_t bytes = p.bytes;
    plan_free(&p);
    return bytes;
}

static float *address(const tape *t, const plan_array *a)
{
    return (float *)(void *)(t->block + a->offset);
}

static void set_pointers(tape *t)
{
    const plan *p = &t->plan;
    for (int64_t i = 0; i < p->values; i++) {
        tape_value *v = tape_value_of(t, i);
        const plan_array *data = &p->value[p->value[i].home].data, *grad = &p->value[i].grad;
        if (v->kind == TAPE_PARAM)
            continue;
        if (v->kind == TAPE_INTS)
            v->ints = memset(address(t, data), 0, (size_t)v->count * sizeof *v->ints);
        else
            v->data = address(t, data);
        if (v->kind == TAPE_FLOATS)
            memset(v->data, 0, (size_t)v->count * sizeof *v->data);
        v->grad = grad->bytes ? address(t, grad) : NULL;
    }
    for (int64_t i = 0; i < p->nodes; i++) {
        tape_node *n = tape_node_of(t, i);
        const plan_node *pn = &p->node[i];
        n->saved = pn->saved.bytes ? address(t, &pn->saved) : NULL;
        memcpy(n->needs_grad, pn->needs_grad, sizeof n->needs_grad);
        memcpy(n->accumulate, pn->accumulate, sizeof n->accumulate);
    }
}

scion_status tape_plan(tape *t, tape_value *loss, tape_mode mode, int threads, scion_error *err)
{
    if (tape_failed(t))
        return train_fail(err, t ? t->failure.status : SCION_ENOMEM, "%s", tape_failed(t));
    plan p;
    scion_status status = plan_make(&p, t, loss, mode, threads, err);
    if (status)
        return status;
    char *block = aligned_alloc(PLAN_ALIGN, p.bytes);
    if (!block) {
        status = train_fail(err, SCION_ENOMEM, "there is no memory for %zu bytes of activations", p.bytes);
        plan_free(&p);
        return status;
    }
    plan_free(&t->plan);
    free(t->block);
    t->plan = p;
    t->block = block;
    t->mode = mode;
    t->threads = threads;
    t->loss = loss;
    set_pointers(t);
    return SCION_OK;
}

/* ---- Runs ---------------------------------------------------------------------------------------------- */

/* What operators see: run, with the scratch memory and within what was planned. */
static tape_run settle(const tape *t, tape_run *run)
{
    assert(t->block && "tape_plan comes first");
    run->scratch = (float *)(void *)(t->block + t->plan.scratch);
    tape_run now = *run;
    now.threads = run->threads < 1 || run->threads > t->threads ? t->threads : run->threads;
    now.training = run->training && t->mode == TAPE_TRAIN;
    return now;
}

float tape_forward(tape *t, tape_run *run)
{
    tape_run now = settle(t, run), first = now;
    first.training = false;
    for (int64_t i = 0; i < t->plan.forward; i++) {
        const tape_node *n = tape_node_of(t, i);
        n->op->forward(n, t->plan.node[i].recompute ? &first : &now);
    }
    return t->loss->data[0];
}

void tape_backward(tape *t, tape_run *run)
{
    tape_run now = settle(t, run);
    assert(t->mode == TAPE_TRAIN && "only a tape planned for training goes backwards");
    if (t->loss->grad) {
        memset(t->loss->grad, 0, (size_t)t->loss->count * sizeof(float));
        t->loss->grad[0] = run->loss_scale;
    }
    for (int64_t e = t->plan.forward; e < t->plan.events; e++) {
        const tape_node *n = tape_node_of(t, t->plan.event[e].node);
        (t->plan.event[e].what == PLAN_RECOMPUTE ? n->op->forward : n->op->backward)(n, &now);
    }
}

const tape_node *tape_watch(tape *t, tape_run *run, tape_look *look, void *context)
{
    tape_run now = settle(t, run);
    now.training = false;
    for (int64_t i = 0; i < t->plan.forward; i++) {
        const tape_node *n = tape_node_of(t, i);
        n->op->forward(n, &now);
        if (!look(context, n))
            return n;
    }
    return NULL;
}

static bool is_finite(void *context, const tape_node *n)
{
    (void)context;
    for (int64_t k = 0; k < n->out->count; k++)
        if (!isfinite(n->out->data[k]))
            return false;
    return true;
}

const char *tape_first_nonfinite(tape *t, tape_run *run)
{
    const tape_node *n = tape_watch(t, run, is_finite, NULL);
    return n ? n->out->name : NULL;
}
