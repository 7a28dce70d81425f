/* Toy operators and random networks of them: see train_support_tape.h. */
#include "train_support_tape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Toy operators ------------------------------------------------------------------------------------- */

/* grad = x, or grad += x. */
static void give(const tape_node *n, int k, int64_t i, float x)
{
    if (n->needs_grad[k])
        n->in[k]->grad[i] = n->accumulate[k] ? n->in[k]->grad[i] + x : x;
}

static void scale_forward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->out->count; i++)
        n->out->data[i] = (float)n->reals[0] * n->in[0]->data[i];
}

static void scale_backward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->out->count; i++)
        give(n, 0, i, (float)n->reals[0] * n->out->grad[i]);
}

static double scale_flops(const tape_node *n)
{
    return (double)n->out->count;
}

static void mix_forward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->out->count; i++)
        n->out->data[i] = (float)n->reals[0] * n->in[0]->data[i] + (float)n->reals[1] * n->in[1]->data[i];
}

static void mix_backward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n->out->count; i++)
            give(n, k, i, (float)n->reals[k] * n->out->grad[i]);
    }
}

/* Through scratch memory, all of which it overwrites. */
static void mul_forward(const tape_node *n, const tape_run *run)
{
    size_t bytes = (size_t)n->out->count * sizeof(float);
    memset(run->scratch, 0xff, bytes * (size_t)run->threads);
    memcpy(run->scratch, n->in[0]->data, bytes);
    for (int64_t i = 0; i < n->out->count; i++)
        n->out->data[i] = run->scratch[i] * n->in[1]->data[i];
}

static void mul_backward(const tape_node *n, const tape_run *run)
{
    memset(run->scratch, 0xff, (size_t)n->out->count * (size_t)run->threads * sizeof(float));
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n->out->count; i++)
            give(n, k, i, n->in[1 - k]->data[i] * n->out->grad[i]);
    }
}

static size_t mul_scratch(const tape_node *n, int threads)
{
    return (size_t)n->out->count * (size_t)threads;
}

static void tanh_forward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->out->count; i++)
        n->out->data[i] = tanhf(n->in[0]->data[i]);
}

static void tanh_backward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->out->count; i++)
        give(n, 0, i, (1 - n->out->data[i] * n->out->data[i]) * n->out->grad[i]);
}

static size_t cube_saved(const tape_node *n)
{
    return (size_t)n->out->count;
}

static void cube_forward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->out->count; i++) {
        float x = n->in[0]->data[i];
        if (n->saved)
            n->saved[i] = 3 * x * x;
        n->out->data[i] = x * x * x;
    }
}

static void cube_backward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->out->count; i++)
        give(n, 0, i, n->saved[i] * n->out->grad[i]);
}

/* Element j of the longer one, j modulo the length, meets that of the shorter one. */
static void resize_forward(const tape_node *n, const tape_run *run)
{
    (void)run;
    int64_t from = n->in[0]->count, to = n->out->count, longest = from > to ? from : to;
    memset(n->out->data, 0, (size_t)to * sizeof(float));
    for (int64_t j = 0; j < longest; j++)
        n->out->data[j % to] += (float)n->reals[0] * n->in[0]->data[j % from];
}

static void resize_backward(const tape_node *n, const tape_run *run)
{
    (void)run;
    int64_t from = n->in[0]->count, to = n->out->count, longest = from > to ? from : to;
    for (int64_t j = 0; j < from; j++)
        give(n, 0, j, 0);
    for (int64_t j = 0; j < longest; j++)
        n->in[0]->grad[j % from] += (float)n->reals[0] * n->out->grad[j % to];
}

static void energy_forward(const tape_node *n, const tape_run *run)
{
    (void)run;
    double sum = 0;
    for (int64_t i = 0; i < n->in[0]->count; i++)
        sum += 0.5 * n->in[0]->data[i] * n->in[0]->data[i];
    n->out->data[0] = (float)sum;
}

static void energy_backward(const tape_node *n, const tape_run *run)
{
    (void)run;
    for (int64_t i = 0; i < n->in[0]->count; i++)
        give(n, 0, i, n->in[0]->data[i] * n->out->grad[0]);
}

static void loss_forward(const tape_node *n, const tape_run *run)
{
    (void)run;
    const float *x = n->in[0]->data, *w = n->in[1]->data;
    double sum = 0;
    for (int64_t i = 0; i < n->in[0]->count; i++)
        sum += (double)w[i] * x[i] * x[i];
    n->out->data[0] = (float)sum;
}

static void loss_forward_backward(const tape_node *n, const tape_run *run)
{
    const float *x = n->in[0]->data, *w = n->in[1]->data;
    loss_forward(n, run);
    for (int64_t i = 0; i < n->in[0]->count; i++) {
        const float dx = 2 * w[i] * x[i], dw = x[i] * x[i];
        give(n, 0, i, run->loss_scale * dx);
        give(n, 1, i, run->loss_scale * dw);
    }
}

static void mean_forward(const tape_node *n, const tape_run *run)
{
    const tape_value *x = n->in[0], *kept = n->in[1];
    float mean = 0;
    for (int64_t i = 0; i < x->count; i++)
        mean += x->data[i] / (float)x->count;
    for (int64_t i = 0; i < x->count; i++)
        n->out->data[i] = x->data[i] - (run->training ? mean : kept->data[0]);
    if (run->update_buffers)
        kept->data[0] += (mean - kept->data[0]) / 2;
}

static void mean_backward(const tape_node *n, const tape_run *run)
{
    (void)run;
    float mean = 0;
    for (int64_t i = 0; i < n->out->count; i++)
        mean += n->out->grad[i] / (float)n->out->count;
    for (int64_t i = 0; i < n->out->count; i++)
        give(n, 0, i, n->out->grad[i] - mean);
}

/* 0 or 2, by a hash of the run, the node and the element. */
static float dropout_factor(const tape_node *n, const tape_run *run, int64_t i)
{
    uint64_t state = run->seed + 31 * (uint64_t)run->step + 1009 * (uint64_t)run->sample;
    state = state * 65599 + 7919 * (uint64_t)n->out->index + (uint64_t)i;
    toy_random(&state, 2);
    return !run->training ? 1 : toy_random(&state, 2) ? 2 : 0;
}

static void dropout_forward(const tape_node *n, const tape_run *run)
{
    for (int64_t i = 0; i < n->out->count; i++)
        n->out->data[i] = dropout_factor(n, run, i) * n->in[0]->data[i];
}

static void dropout_backward(const tape_node *n, const tape_run *run)
{
    for (int64_t i = 0; i < n->out->count; i++)
        give(n, 0, i, dropout_factor(n, run, i) * n->out->grad[i]);
}

#define SCALE .name = "scale", .forward = scale_forward, .backward = scale_backward, .flops = scale_flops
#define MIX .name = "mix", .forward = mix_forward, .backward = mix_backward
#define TANH .name = "tanh", .forward = tanh_forward, .backward = tanh_backward, .backward_reads = TAPE_READS_OUT
#define CUBE .name = "cube", .forward = cube_forward, .backward = cube_backward, .saved = cube_saved
const tape_op toy_scale = {SCALE}, toy_scale_here = {SCALE, .in_place = true};
const tape_op toy_mix = {MIX}, toy_mix_here = {MIX, .in_place = true};
const tape_op toy_tanh = {TANH}, toy_tanh_here = {TANH, .in_place = true};
const tape_op toy_cube = {CUBE}, toy_cube_here = {CUBE, .in_place = true};
const tape_op toy_mul = {
    .name = "mul", .forward = mul_forward, .backward = mul_backward, .scratch = mul_scratch, .backward_reads = 1 | 2};
const tape_op toy_blind = {.name = "blind", .forward = scale_forward};
static const tape_op resize_row = {.name = "resize", .forward = resize_forward, .backward = resize_backward};
static const tape_op energy_row = {
    .name = "energy", .forward = energy_forward, .backward = energy_backward, .backward_reads = 1};
static const tape_op loss_row = {.name = "loss", .forward = loss_forward, .forward_backward = loss_forward_backward};
static const tape_op mean_row = {.name = "running_mean", .forward = mean_forward, .backward = mean_backward};
static const tape_op dropout_row = {.name = "dropout", .forward = dropout_forward, .backward = dropout_backward};
static const tape_op view_row = {.name = "view", .view = true};

/* ---- Builders ------------------------------------------------------------------------------------------ */

tape_value *toy(tape *t, const tape_op *op, tape_value *a, tape_value *b, double c, double d)
{
    return a ? tape_record(t, &(tape_node){.op = op, .in = {a, b}, .reals = {c, d}}, a->ndim, a->shape) : NULL;
}

static tape_value *to_count(tape *t, const tape_op *op, tape_value *a, tape_value *b, int64_t count)
{
    if (!a)
        return NULL;
    const double factor = a->count > count ? 1.0 / (double)((a->count + count - 1) / count) : 1;
    return tape_record(t, &(tape_node){.op = op, .in = {a, b}, .reals = {factor}}, 1, &count);
}

tape_value *toy_resize(tape *t, tape_value *a, int64_t count)
{
    return to_count(t, &resize_row, a, NULL, count);
}

tape_value *toy_energy(tape *t, tape_value *a)
{
    return to_count(t, &energy_row, a, NULL, 1);
}

tape_value *toy_loss(tape *t, tape_value *a, tape_value *w)
{
    return to_count(t, &loss_row, a, w, 1);
}

tape_value *toy_running_mean(tape *t, tape_value *a, tape_value *mean)
{
    return toy(t, &mean_row, a, mean, 0, 0);
}

tape_value *toy_dropout(tape *t, tape_value *a)
{
    return toy(t, &dropout_row, a, NULL, 0, 0);
}

tape_value *toy_view(tape *t, tape_value *a, int ndim, const int64_t *shape)
{
    return a ? tape_record(t, &(tape_node){.op = &view_row, .in = {a}}, ndim, shape) : NULL;
}

tape_value *toy_param(tape *t, const char *name, int64_t count)
{
    return tape_param(t, name, SCION_ROLE_VECTOR, 1, &count);
}

tape_value *toy_input(tape *t, const char *name, int64_t count)
{
    return tape_floats(t, name, 1, &count);
}

/* ---- Random networks ----------------------------------------------------------------------------------- */

uint64_t toy_seed(void)
{
    const char *text = getenv("SCION_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20250;
    printf("seed %llu (SCION_TEST_SEED)\n", (unsigned long long)seed);
    return seed;
}

int64_t toy_random(uint64_t *state, int64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)n);
}

void toy_fill(uint64_t *state, int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)toy_random(state, 2001) / 1000 - 1;
}

enum { MAX_NODES = 64 };

/* One more value from values of the pool, mostly late ones. */
static tape_value *random_node(tape *t, uint64_t *state, tape_value **pool, int64_t pooled)
{
    static const tape_op *const rows[] = {&toy_scale, &toy_scale_here, &toy_mix,  &toy_mix_here,  &toy_mul,
                                          &toy_tanh,  &toy_tanh_here,  &toy_cube, &toy_cube_here, NULL};
    const tape_op *op = rows[toy_random(state, 10)];
    tape_value *a = pool[pooled - 1 - toy_random(state, toy_random(state, 2) ? pooled : 1)];
    tape_value *b = pool[pooled - 1 - toy_random(state, pooled)];
    if (!op && toy_random(state, 2))
        return toy_view(t, a, 2, (int64_t[]){1, a->count});
    if (!op)
        return toy_resize(t, a, 1 + toy_random(state, 60));
    if (op->forward != mix_forward && op->forward != mul_forward)
        return toy(t, op, a, NULL, 0.9, 0);
    if (b->count != a->count)
        b = toy_resize(t, b, a->count);
    return toy(t, op, a, b, 0.5, -0.5);
}

tape_value *toy_network(tape *t, uint64_t *state, int nodes, bool recompute)
{
    tape_value *pool[MAX_NODES + 8];
    char name[16];
    int64_t pooled = 0;
    bool open = false;
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "p%d", i);
        int64_t count = 1 + toy_random(state, 60);
        pool[pooled++] = i < 4 ? toy_param(t, name, count) : toy_input(t, name, count);
    }
    for (int i = 0; i < nodes && i < MAX_NODES; i++) {
        if (recompute && toy_random(state, 4) == 0) {
            open ? tape_recompute_end(t) : tape_recompute_begin(t);
            open = !open;
        }
        pool[pooled] = random_node(t, state, pool, pooled);
        pooled++;
    }
    tape_value *last = pool[pooled - 1];
    tape_value *loss = toy_loss(t, last, toy_param(t, "weights", last->count));
    if (open)
        tape_recompute_end(t);
    return loss;
}
