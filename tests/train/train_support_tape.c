/* A tape run naively, and a plan run with poison: see train_support_tape.h. */
#include "train_support_tape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The naive interpreter ----------------------------------------------------------------------------- */

static void *zeros(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory)
        abort();
    return memory;
}

/* Values and nodes as the tape has them, with arrays of their own. */
typedef struct naive {
    tape_value *value;
    tape_node *node;
    int64_t values, nodes;
    size_t scratch;
} naive;

static void naive_make(naive *v, const tape *t, float *weights, float *grads)
{
    *v = (naive){.values = t->values.count, .nodes = t->nodes.count};
    v->value = zeros((size_t)v->values, sizeof *v->value);
    v->node = zeros((size_t)v->nodes, sizeof *v->node);
    for (int64_t i = 0; i < v->values; i++) {
        tape_value *x = &v->value[i];
        *x = *tape_value_of(t, i);
        bool param = x->kind == TAPE_PARAM;
        x->grad = param ? grads + x->offset : zeros((size_t)x->count, sizeof(float));
        if (x->kind == TAPE_ACTIVATION || param)
            x->data = param ? weights + x->offset : zeros((size_t)x->count, sizeof(float));
    }
    for (int64_t i = 0; i < v->nodes; i++) {
        tape_node *n = &v->node[i];
        *n = *tape_node_of(t, i);
        n->out = &v->value[n->out->index];
        for (int k = 0; k < n->inputs; k++) {
            n->in[k] = n->in[k] ? &v->value[n->in[k]->index] : NULL;
            n->needs_grad[k] = n->in[k] && n->in[k]->kind != TAPE_INTS;
            n->accumulate[k] = 1;
        }
        n->saved = zeros(n->op->saved ? n->op->saved(n) : 0, sizeof(float));
        size_t own = n->op->scratch ? n->op->scratch(n, 1) : 0;
        v->scratch = own > v->scratch ? own : v->scratch;
    }
}

static void naive_free(naive *v)
{
    for (int64_t i = 0; i < v->values; i++) {
        if (v->value[i].kind != TAPE_PARAM)
            free(v->value[i].grad);
        if (v->value[i].kind == TAPE_ACTIVATION)
            free(v->value[i].data);
    }
    for (int64_t i = 0; i < v->nodes; i++)
        free(v->node[i].saved);
    free(v->value);
    free(v->node);
}

float naive_run(const tape *t, const tape_value *loss, float scale, float *weights, float *grads)
{
    naive v;
    naive_make(&v, t, weights, grads);
    tape_run run = {.threads = 1, .training = true, .loss_scale = scale, .scratch = zeros(v.scratch, sizeof(float))};
    for (int64_t i = 0; i < v.nodes; i++)
        v.node[i].op->forward(&v.node[i], &run);
    float result = v.value[loss->index].data[0];
    v.value[loss->index].grad[0] = scale;
    for (int64_t i = v.nodes - 1; i >= 0; i--)
        v.node[i].op->backward(&v.node[i], &run);
    free(run.scratch);
    naive_free(&v);
    return result;
}

/* ---- The plan, with poison ----------------------------------------------------------------------------- */

static void mark(const plan_array *a, int64_t event, char *live)
{
    for (int s = 0; s < a->spans && a->bytes; s++) {
        if (a->span[s].first <= event && a->span[s].last > event)
            memset(live + a->offset, 1, a->bytes);
    }
}

/* Inputs and what lies behind them are not planned: they count as live here, but for scratch. */
static void poison_after(tape *t, int64_t event)
{
    const plan *p = &t->plan;
    char *live = zeros(p->bytes, 1);
    for (int64_t i = 0; i < p->values; i++) {
        const tape_value *v = tape_value_of(t, i);
        if (v->kind == TAPE_FLOATS || v->kind == TAPE_INTS)
            memset(live + p->value[i].data.offset, 1, (size_t)v->count * sizeof(float));
        mark(&p->value[i].data, event, live);
        mark(&p->value[i].grad, event, live);
    }
    for (int64_t i = 0; i < p->nodes; i++)
        mark(&p->node[i].saved, event, live);
    for (size_t i = 0; i < p->bytes; i++) {
        if (!live[i])
            t->block[i] = (char)0xff; /* four of these are a NaN */
    }
    free(live);
}

float poisoned_run(tape *t, const tape_run *run)
{
    const plan *p = &t->plan;
    tape_run now = *run, first = now;
    first.scratch = now.scratch = (float *)(void *)(t->block + p->scratch);
    first.training = false;
    float loss = 0;
    poison_after(t, -1);
    for (int64_t e = 0; e < p->events; e++) {
        const tape_node *n = tape_node_of(t, p->event[e].node);
        if (e == p->forward && t->loss->grad)
            t->loss->grad[0] = run->loss_scale;
        if (p->event[e].what == PLAN_BACKWARD)
            n->op->backward(n, &now);
        else
            n->op->forward(n,
                           p->event[e].what == PLAN_FORWARD && p->node[p->event[e].node].recompute ? &first : &now);
        poison_after(t, e);
        if (e == p->forward - 1)
            loss = t->loss->data[0];
    }
    return t->loss->data[0] == loss ? loss : NAN; /* it stays readable after the backward pass */
}
