/* A tape run naively, and a plan run with poison: see train_support_tape.h. */
#include "train_support_tape.h"

#include <math.h>
#include <stdio.h>
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

static void naive_make(naive *v, const tape *t, const tape_plan *p, float *weights, float *grads)
{
    *v = (naive){.values = tape_value_count(t), .nodes = tape_node_count(t)};
    v->value = zeros((size_t)v->values, sizeof *v->value);
    v->node = zeros((size_t)v->nodes, sizeof *v->node);
    for (int64_t i = 0; i < v->values; i++) {
        tape_value *x = &v->value[i];
        *x = *tape_value_at(t, i);
        bool param = x->kind == TAPE_PARAM;
        x->grad = param ? grads + x->offset : zeros((size_t)x->count, sizeof(float));
        x->data = param ? weights + x->offset : zeros((size_t)x->count, sizeof(float));
        if (x->kind == TAPE_FLOATS && plan_value(p, x)->data)
            memcpy(x->data, plan_value(p, x)->data, (size_t)x->count * sizeof(float));
    }
    for (int64_t i = 0; i < v->nodes; i++) {
        tape_node *n = &v->node[i];
        *n = *tape_node_at(t, i);
        n->out = &v->value[n->out->index];
        for (int k = 0; k < n->inputs; k++) {
            n->in[k] = n->in[k] ? &v->value[n->in[k]->index] : NULL;
            n->needs_grad[k] = n->in[k] && n->in[k]->kind != TAPE_INTS;
            n->accumulate[k] = true;
        }
        if (n->op->view) { /* the same sums in the same order */
            if (n->out->kind != TAPE_PARAM) {
                free(n->out->data);
                free(n->out->grad);
            }
            n->out->data = n->in[0]->data;
            n->out->grad = n->in[0]->grad;
        }
        n->saved = zeros(n->op->saved ? n->op->saved(n) : 0, sizeof(float));
        size_t own = n->op->scratch ? n->op->scratch(n, 1) : 0;
        v->scratch = own > v->scratch ? own : v->scratch;
    }
}

static void naive_free(naive *v)
{
    for (int64_t i = 0; i < v->nodes; i++) {
        free(v->node[i].saved);
        if (v->node[i].op->view)
            v->node[i].out->data = v->node[i].out->grad = NULL;
    }
    for (int64_t i = 0; i < v->values; i++) {
        if (v->value[i].kind != TAPE_PARAM) {
            free(v->value[i].grad);
            free(v->value[i].data);
        }
    }
    free(v->value);
    free(v->node);
}

float naive_run(const tape *t, const tape_plan *p, const tape_value *loss, float scale, float *weights, float *grads)
{
    naive v;
    naive_make(&v, t, p, weights, grads);
    tape_run run = {.threads = 1, .training = true, .loss_scale = scale, .scratch = zeros(v.scratch, sizeof(float))};
    for (int64_t i = 0; i < v.nodes; i++) {
        const tape_node *n = &v.node[i];
        if (n->out->index == loss->index && n->op->forward_backward)
            n->op->forward_backward(n, &run);
        else if (!n->op->view)
            n->op->forward(n, &run);
    }
    float result = v.value[loss->index].data[0];
    v.value[loss->index].grad[0] = scale;
    for (int64_t i = v.nodes - 1; i >= 0; i--) {
        if (v.node[i].op->backward)
            v.node[i].op->backward(&v.node[i], &run);
    }
    free(run.scratch);
    naive_free(&v);
    return result;
}

/* ---- The plan, with poison ----------------------------------------------------------------------------- */

tape_plan *toy_plan(const tape *t, const tape_value *target, plan_mode mode)
{
    scion_error err = {0};
    tape_plan *p = NULL;
    if (plan_make(&p, t, target, &(plan_options){.mode = mode, .threads = 1}, &err) || plan_commit(p, NULL, &err)) {
        printf("no plan: %s\n", err.message);
        abort();
    }
    return p;
}

static void mark(const plan_array *a, int64_t event, char *live)
{
    for (int s = 0; s < a->spans && a->bytes; s++) {
        if (a->span[s].first <= event && a->span[s].last > event)
            memset(live + a->offset, 1, a->bytes);
    }
}

/* Scratch is never live. */
static void poison_after(tape_plan *p, int64_t event)
{
    char *live = zeros(p->passing, 1);
    for (int64_t i = 0; i < p->values; i++) {
        const plan_entry *v = &p->value[i];
        mark(&v->data, event, live);
        mark(&v->grad, event, live);
        mark(&v->stored, event, live);
    }
    for (int64_t i = 0; i < p->nodes; i++)
        mark(&p->node[i].saved, event, live);
    for (size_t i = 0; i < p->passing; i++) {
        if (!live[i])
            p->memory[i] = (char)0xff; /* four of these are a NaN */
    }
    free(live);
}

float poisoned_run(tape_plan *p, const tape_run *run)
{
    const tape_run now = plan_prepare(p, run);
    const tape_value *target = &p->value[p->target].own;
    float loss = 0;
    poison_after(p, -1);
    for (int64_t e = 0; e < p->events; e++) {
        if (e == p->forward && target->grad)
            target->grad[0] = run->loss_scale;
        plan_run_event(p, e, &now);
        poison_after(p, e);
        if (e == p->forward - 1)
            loss = target->data[0];
    }
    return target->data[0] == loss ? loss : NAN; /* it stays readable after the backward pass */
}
