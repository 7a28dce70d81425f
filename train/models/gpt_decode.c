/* The forward pass of gpt.c for one position: rows instead of matrices, and attention over cached keys and values. A
 * test compares it with the tape. */
#include "models/gpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/activation.h"
#include "util/fail.h"
#include "base/thread.h"
#include "product/gemm.h"

typedef struct block {
    const tape_value *q, *k, *v, *o, *up, *down;
    float *keys, *values; /* block x C each */
} block;

typedef struct decoder {
    gpt_options o;
    int64_t context, vocab, position;
    const activation *f;
    const tape_value *table, *head;
    block *blocks;
    int32_t *tokens; /* fed so far, in this context */
    float *memory;   /* everything below, and the keys and values */
    float *x, *y, *q, *mixed, *hidden, *scores, *logits;
} decoder;

static const double norm_eps = 0x1p-23; /* as in gpt.c */

static void destroy(void *from)
{
    decoder *d = from;
    if (!d)
        return;
    free(d->blocks);
    free(d->tokens);
    free(d->memory);
    free(d);
}

/* Parameter `name`, or that of block i (i >= 0); NULL: none. */
static const tape_value *param(const model *m, int64_t i, const char *name, scion_error *err)
{
    char full[64];
    snprintf(full, sizeof full, "blocks.%lld.%s", (long long)i, name);
    const char *wanted = i < 0 ? name : full;
    for (int64_t k = 0; k < tape_param_count(m->tape); k++)
        if (strcmp(tape_param_at(m->tape, k)->name, wanted) == 0)
            return tape_param_at(m->tape, k);
    train_fail(err, SCION_EINVAL, "model %s has no parameter %s", m->row->name, wanted);
    return NULL;
}

/* Finds the weights. */
static bool bind(decoder *d, const model *m, scion_error *err)
{
    d->table = param(m, -1, "embedding", err);
    d->head = d->o.tied ? d->table : param(m, -1, "head", err);
    bool found = d->table && d->head;
    for (int64_t i = 0; found && i < d->o.layers; i++) {
        block *b = &d->blocks[i];
        found = (b->q = param(m, i, "attn.q", err)) && (b->k = param(m, i, "attn.k", err)) &&
                (b->v = param(m, i, "attn.v", err)) && (b->o = param(m, i, "attn.o", err)) &&
                (b->up = param(m, i, "mlp.up", err)) && (b->down = param(m, i, "mlp.down", err));
    }
    return found;
}

static void *create(const model *m, const void *options, int64_t T, scion_error *err)
{
    const gpt_options *o = options;
    const int64_t C = o->width, vocab = model_array(m, "tokens")->range;
    const size_t floats = (size_t)(2 * o->layers * T * C + 4 * C + 4 * C + T + vocab);
    decoder *d = calloc(1, sizeof *d);
    if (d) {
        d->blocks = calloc((size_t)o->layers, sizeof *d->blocks);
        d->tokens = calloc((size_t)T, sizeof *d->tokens);
        d->memory = calloc(floats, sizeof *d->memory);
    }
    if (!d || !d->blocks || !d->tokens || !d->memory) {
        train_fail(err, SCION_ENOMEM, "out of memory");
        destroy(d);
        return NULL;
    }
    d->o = *o;
    d->context = T;
    d->vocab = vocab;
    d->f = activation_find(o->activation);
    if (!bind(d, m, err)) {
        destroy(d);
        return NULL;
    }
    float *at = d->memory;
    d->x = at, at += C;
    d->y = at, at += C;
    d->q = at, at += C;
    d->mixed = at, at += C;
    d->hidden = at, at += 4 * C;
    d->scores = at, at += T;
    d->logits = at, at += vocab;
    for (int64_t i = 0; i < o->layers; i++) {
        d->blocks[i].keys = at;
        d->blocks[i].values = at + T * C;
        at += 2 * T * C;
    }
    return d;
}

static void rmsnorm(int64_t width, const float *x, float *y)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += (double)x[i] * (double)x[i];
    const float r = (float)(1 / sqrt(sum / (double)width + norm_eps));
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * r;
}

/* y = W x, or y + that; W out x in. A product of one row needs no workspace. */
static void apply(int64_t out, int64_t in, const tape_value *w, const float *x, bool accumulate, float *y)
{
    const scn_gemm_shape shape = {.m = 1, .n = out, .k = in, .transpose_b = true, .b = w->weight_type};
    const scn_gemm g = scn_gemm_plan(&shape, scn_threads(0));
    scn_gemm_run(&g, x, in, tape_weights(w), in, 1, accumulate, y, out, NULL, NULL);
}

/* QK-norm and rotary embedding of every head of one row, in place. */
static void add_position(const decoder *d, float *x)
{
    const int64_t D = d->o.head_size;
    for (float *h = x; h < x + d->o.width; h += D) {
        if (d->o.qk_norm)
            rmsnorm(D, h, h);
        for (int64_t i = 0; i < D / 2; i++) {
            double angle = (double)d->position * pow(d->o.rotary_base, -2.0 * (double)i / (double)D);
            float cosine = (float)cos(angle), sine = (float)sin(angle), a = h[i], b = h[i + D / 2];
            h[i] = a * cosine - b * sine;
            h[i + D / 2] = a * sine + b * cosine;
        }
    }
}

/* mixed = attention of the present query over all positions so far. */
static void attend(decoder *d, const block *b)
{
    const int64_t C = d->o.width, D = d->o.head_size, n = d->position + 1;
    const float scale = (float)(1 / sqrt((double)D));
    for (int64_t h = 0; h < C; h += D) {
        float max = -INFINITY;
        double sum = 0;
        for (int64_t p = 0; p < n; p++) {
            float s = 0;
            for (int64_t i = 0; i < D; i++)
                s += d->q[h + i] * b->keys[p * C + h + i];
            d->scores[p] = s * scale;
            max = fmaxf(max, d->scores[p]);
        }
        for (int64_t p = 0; p < n; p++) {
            d->scores[p] = expf(d->scores[p] - max);
            sum += (double)d->scores[p];
        }
        memset(d->mixed + h, 0, (size_t)D * sizeof(float));
        for (int64_t p = 0; p < n; p++) {
            const float weight = (float)((double)d->scores[p] / sum);
            for (int64_t i = 0; i < D; i++)
                d->mixed[h + i] += weight * b->values[p * C + h + i];
        }
    }
}

static void run_block(decoder *d, const block *b)
{
    const int64_t C = d->o.width;
    float *key = b->keys + d->position * C;
    rmsnorm(C, d->x, d->y);
    apply(C, C, b->q, d->y, false, d->q);
    apply(C, C, b->k, d->y, false, key);
    apply(C, C, b->v, d->y, false, b->values + d->position * C);
    add_position(d, d->q);
    add_position(d, key);
    attend(d, b);
    apply(C, C, b->o, d->mixed, true, d->x);
    rmsnorm(C, d->x, d->y);
    apply(4 * C, C, b->up, d->y, false, d->hidden);
    d->f->forward(d->f->factor, 4 * C, d->hidden, d->hidden);
    apply(C, 4 * C, b->down, d->hidden, true, d->x);
}

static void feed(decoder *d, int32_t token)
{
    const int64_t C = d->o.width;
    d->tokens[d->position] = token;
    const float *row = tape_floats_of(d->table, token * C, C, d->x);
    if (row != d->x)
        memcpy(d->x, row, (size_t)C * sizeof(float));
    for (int64_t i = 0; i < d->o.layers; i++)
        run_block(d, &d->blocks[i]);
    d->position++;
}

static const float *step(void *from, int32_t token)
{
    decoder *d = from;
    const int64_t T = d->context;
    if (d->position == T) {
        const int64_t half = T / 2;
        memmove(d->tokens, d->tokens + T - half, (size_t)half * sizeof *d->tokens);
        d->position = 0;
        for (int64_t i = 0; i < half; i++)
            feed(d, d->tokens[i]);
    }
    feed(d, token);
    rmsnorm(d->o.width, d->x, d->y);
    apply(d->vocab, d->o.width, d->head, d->y, false, d->logits);
    return d->logits;
}

const model_decode gpt_decode = {.create = create, .step = step, .free = destroy};
