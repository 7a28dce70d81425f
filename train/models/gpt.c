/* GPT as in the paper's experiments (the modernised nanoGPT): with N() the RMS norm without parameters,
 *     x = table[tokens]
 *     x = x + O attention(R(N(Q y)), R(N(K y)), V y),  y = N(x)     R rotary embedding, N over each head (QK-norm)
 *     x = x + W_2 f(W_1 N(x))                                        f = ScaledReLU^2, sqrt(2) GELU, ...
 *     loss = cross-entropy of W_L N(x)
 * for each of `layers` blocks; separate Q, K, V, O; no biases; hidden width of the MLP 4C. The output matrix
 * is a parameter of its own, or the embedding table again (`tied`; it is then one parameter, with the role of the
 * output). With `zero_init` the projections back into the residual (O, W_2) start at zero. */
#include <stdio.h>

#include "models/models.h"
#include "ops/ops.h"

static const double norm_eps = 0x1p-23; /* as the reference has it: float32's own epsilon */

typedef struct gpt {
    tape *t;
    const config *c;
    int block;
} gpt;

/* Parameter `name` of the present block. */
static tape_value *weight(const gpt *g, const char *name, int64_t d_out, int64_t d_in)
{
    char full[64];
    const int64_t shape[] = {d_out, d_in};
    snprintf(full, sizeof full, "blocks.%d.%s", g->block, name);
    return tape_param(g->t, full, SCION_ROLE_HIDDEN, 2, shape);
}

/* A projection back into the residual. */
static tape_value *projection(const gpt *g, const char *name, int64_t d_out, int64_t d_in)
{
    tape_value *w = weight(g, name, d_out, d_in);
    if (w)
        w->zero_start = g->c->model.zero_init;
    return w;
}

/* N and R of queries or keys. */
static tape_value *turned(const gpt *g, tape_value *x)
{
    if (g->c->model.qk_norm)
        x = op_rmsnorm(g->t, x, g->c->model.head_size, norm_eps);
    return op_rotary(g->t, x, g->c->model.head_size, g->c->model.rotary_base);
}

static tape_value *attention(const gpt *g, tape_value *x)
{
    const int64_t C = g->c->model.width;
    tape_value *y = op_rmsnorm(g->t, x, C, norm_eps);
    tape_value *q = turned(g, op_linear(g->t, y, weight(g, "attn.q", C, C), NULL));
    tape_value *k = turned(g, op_linear(g->t, y, weight(g, "attn.k", C, C), NULL));
    tape_value *v = op_linear(g->t, y, weight(g, "attn.v", C, C), NULL);
    tape_value *mixed = op_attention(g->t, q, k, v, g->c->model.head_size, true);
    return op_add(g->t, x, op_linear(g->t, mixed, projection(g, "attn.o", C, C), NULL));
}

static tape_value *feed_forward(const gpt *g, tape_value *x, const activation *f)
{
    const int64_t C = g->c->model.width;
    tape_value *y = op_rmsnorm(g->t, x, C, norm_eps);
    y = op_activation(g->t, op_linear(g->t, y, weight(g, "mlp.up", 4 * C, C), NULL), f);
    return op_add(g->t, x, op_linear(g->t, y, projection(g, "mlp.down", C, 4 * C), NULL));
}

static void record(model *m, const config *c, const model_shape *s)
{
    gpt g = {m->tape, c, 0};
    const activation *f = activation_find(c->model.activation);
    const int64_t batch[] = {s->batch, s->block}, rows[] = {s->batch * s->block},
                  table_shape[] = {s->vocab, c->model.width};
    if (!f)
        tape_fail(g.t, "there is no activation %s", c->model.activation);
    if (c->model.width % c->model.head_size != 0 || c->model.head_size % 2 != 0)
        tape_fail(g.t, "width %lld must be a multiple of head_size %lld, and that must be even",
                  (long long)c->model.width, (long long)c->model.head_size);
    if (tape_failed(g.t))
        return;
    m->tokens = tape_ints(g.t, "tokens", 2, batch);
    m->targets = tape_ints(g.t, "targets", 1, rows);
    tape_value *table =
        tape_param(g.t, "embedding", c->model.tied ? SCION_ROLE_OUTPUT : SCION_ROLE_ONEHOT, 2, table_shape);
    if (table)
        table->transposed = !c->model.tied;
    tape_value *x = op_embedding(g.t, m->tokens, table);
    for (; g.block < c->model.layers; g.block++) {
        if (c->model.recompute)
            tape_recompute_begin(g.t);
        x = feed_forward(&g, attention(&g, x), f);
        if (c->model.recompute)
            tape_recompute_end(g.t);
    }
    tape_value *head = c->model.tied ? table : tape_param(g.t, "head", SCION_ROLE_OUTPUT, 2, table_shape);
    m->loss = op_cross_entropy(g.t, op_rmsnorm(g.t, x, c->model.width, norm_eps), head, NULL, m->targets,
                               c->model.smoothing);
}

const model_row model_gpt = {"gpt", "decoder-only transformer: rotary embedding, RMS norm, QK-norm", true, record};
