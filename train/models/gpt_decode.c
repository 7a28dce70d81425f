/* The forward pass of gpt.c for one position, written out: rows instead of matrices, and attention over the kept keys
 * and values. A test holds it against the tape. */
#include "models/gpt_decode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/activation.h"
#include "tensor/gemm.h"

typedef struct block {
    const float *q, *k, *v, *o, *up, *down;
    float *keys, *values; /* block x C each */
} block;

struct gpt_decoder {
    gpt_options o;
    int64_t context, vocab, position;
    const activation *f;
    const float *table, *head;
    block *blocks;
    int32_t *tokens; /* fed so far, in this context */
    float *memory;   /* everything below, and the keys and values */
    float *x, *y, *q, *mixed, *hidden, *scores, *logits;
};

static const double norm_eps = 0x1p-23; /* as in gpt.c */

static const float *param(const tape *t, const char *name)
{
    for (int64_t i = 0; i < tape_param_count(t); i++)
        if (strcmp(tape_param_at(t, i)->name, name) == 0)
            return tape_param_at(t, i)->data;
    return NULL;
}

static const float *block_param(const tape *t, int64_t i, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "blocks.%lld.%s", (long long)i, name);
    return param(t, full);
}

gpt_decoder *gpt_decoder_create(const gpt_options *o, const tape *t, int64_t T, int64_t vocab)
{
    const int64_t C = o->width;
    const size_t floats = (size_t)(2 * o->layers * T * C + 4 * C + 4 * C + T + vocab);
    gpt_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->o = *o;
    d->context = T;
    d->vocab = vocab;
    d->f = activation_find(o->activation);
    d->table = param(t, "embedding");
    d->head = o->tied ? d->table : param(t, "head");
    d->blocks = calloc((size_t)o->layers, sizeof *d->blocks);
    d->tokens = calloc((size_t)T, sizeof *d->tokens);
    d->memory = calloc(floats, sizeof *d->memory);
    if (!d->blocks || !d->tokens || !d->memory || !d->f || !d->head) {
        gpt_decoder_free(d);
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
        d->blocks[i] = (block){
            .q = block_param(t, i, "attn.q"),
            .k = block_param(t, i, "attn.k"),
            .v = block_param(t, i, "attn.v"),
            .o = block_param(t, i, "attn.o"),
            .up = block_param(t, i, "mlp.up"),
            .down = block_param(t, i, "mlp.down"),
            .keys = at,
            .values = at + T * C,
        };
        at += 2 * T * C;
    }
    return d;
}

void gpt_decoder_free(gpt_decoder *d)
{
    if (!d)
        return;
    free(d->blocks);
    free(d->tokens);
    free(d->memory);
    free(d);
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

/* y = keep y + W x, W out x in. */
static void apply(int64_t out, int64_t in, const float *w, const float *x, float keep, float *y)
{
    gemm(false, true, 1, out, in, 1, x, in, w, in, keep, y, out);
}

/* QK-norm and rotary embedding of every head of one row, in place. */
static void turn(const gpt_decoder *d, float *x)
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
static void attend(gpt_decoder *d, const block *b)
{
    const int64_t C = d->o.width, D = d->o.head_size, n = d->position + 1;
    const float scale = (float)(1 / sqrt((double)D));
    for (int64_t h = 0; h < C; h += D) {
        float most = -INFINITY;
        double sum = 0;
        for (int64_t p = 0; p < n; p++) {
            float s = 0;
            for (int64_t i = 0; i < D; i++)
                s += d->q[h + i] * b->keys[p * C + h + i];
            d->scores[p] = s * scale;
            most = fmaxf(most, d->scores[p]);
        }
        for (int64_t p = 0; p < n; p++) {
            d->scores[p] = expf(d->scores[p] - most);
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

static void run_block(gpt_decoder *d, const block *b)
{
    const int64_t C = d->o.width;
    float *key = b->keys + d->position * C;
    rmsnorm(C, d->x, d->y);
    apply(C, C, b->q, d->y, 0, d->q);
    apply(C, C, b->k, d->y, 0, key);
    apply(C, C, b->v, d->y, 0, b->values + d->position * C);
    turn(d, d->q);
    turn(d, key);
    attend(d, b);
    apply(C, C, b->o, d->mixed, 1, d->x);
    rmsnorm(C, d->x, d->y);
    apply(4 * C, C, b->up, d->y, 0, d->hidden);
    d->f->forward(d->f->factor, 4 * C, d->hidden, d->hidden);
    apply(C, 4 * C, b->down, d->hidden, 1, d->x);
}

static void feed(gpt_decoder *d, int32_t token)
{
    const int64_t C = d->o.width;
    d->tokens[d->position] = token;
    memcpy(d->x, d->table + token * C, (size_t)C * sizeof(float));
    for (int64_t i = 0; i < d->o.layers; i++)
        run_block(d, &d->blocks[i]);
    d->position++;
}

const float *gpt_decoder_step(gpt_decoder *d, int32_t token)
{
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
    apply(d->vocab, d->o.width, d->head, d->y, 0, d->logits);
    return d->logits;
}
