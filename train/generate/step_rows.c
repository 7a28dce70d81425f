/* The operators that a generator can run; see step.h. */
#include <math.h>

#include "base/thread.h"
#include "generate/step.h"
#include "ops/ops.h"
#include "product/few.h"
#include "product/gemm.h"
#include "util/fail.h"

static int64_t width_of(const tape_value *v)
{
    return v->shape[v->ndim - 1];
}

/* ---- Operators that run as they are, on a part of their elements ---------------------------------------------- */

/* The forward pass on `count` elements of the result from `at` on. Parameters are read where they are. */
static void forward_part(const generator_step *s, const step_memory *m, const step_rows *r, int64_t at, int64_t count)
{
    const tape_run run = {.threads = 1};
    tape_node n = *s->node[0];
    tape_value in[TAPE_INPUTS], out = {.kind = TAPE_ACTIVATION, .ndim = 1, .shape = {count}, .count = count};
    out.data = step_data(m, r, n.out) + at;
    for (int i = 0; i < n.inputs; i++)
        if (n.in[i] && n.in[i]->kind == TAPE_ACTIVATION) {
            in[i] = out;
            in[i].data = step_data(m, r, n.in[i]) + at;
            n.in[i] = &in[i];
        }
    n.out = &out;
    n.op->forward(&n, &run);
}

static void run_cells(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part, int64_t parts)
{
    const int64_t cells = r->count * (s->width / s->unit);
    const int64_t first = step_share(cells, 1, part, parts), end = step_share(cells, 1, part + 1, parts);
    if (end > first)
        forward_part(s, m, r, first * s->unit, (end - first) * s->unit);
}

/* Columns of a cache line each, so that threads do not write to the same ones. */
enum { line_columns = 16 };

static void run_columns(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part,
                        int64_t parts)
{
    const int64_t first = step_share(s->width, line_columns, part, parts),
                  end = step_share(s->width, line_columns, part + 1, parts);
    for (int64_t i = 0; i < r->count && end > first; i++)
        forward_part(s, m, r, i * s->width + first, end - first);
}

static int64_t unit_one(const tape_node *n)
{
    (void)n;
    return 1;
}

static int64_t unit_given(const tape_node *n)
{
    return n->ints[0];
}

static int64_t unit_row(const tape_node *n)
{
    return width_of(n->out);
}

static const step_form runs = {.division = STEP_CELLS, .unit = unit_given, .run = run_cells};
static const step_form elements = {.division = STEP_COLUMNS, .unit = unit_one, .run = run_columns};

/* ---- Embedding ----------------------------------------------------------------------------------------------- */

static void run_embedding(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part,
                          int64_t parts)
{
    const int64_t first = step_share(r->count, 1, part, parts), end = step_share(r->count, 1, part + 1, parts);
    const tape_run run = {.threads = 1};
    tape_node n = *s->node[0];
    tape_value tokens = *n.in[0], out = *n.out;
    tokens.count = end - first;
    tokens.ints = (int32_t *)(uintptr_t)r->tokens + r->first + first; /* forward reads them */
    out.data = step_data(m, r, n.out) + first * s->width;
    n.in[0] = &tokens;
    n.out = &out;
    if (end > first)
        n.op->forward(&n, &run);
}

static const step_form embedding = {.division = STEP_CELLS, .unit = unit_row, .run = run_embedding};

/* ---- Products ------------------------------------------------------------------------------------------------ */

static scion_status check_linear(const tape_node *n, scion_error *err)
{
    if (n->in[1]->kind != TAPE_PARAM || (n->inputs > 2 && n->in[2]))
        return train_fail(err, SCION_EINVAL, "a product with a bias, or with a matrix that is not a parameter");
    return SCION_OK;
}

static const tape_value *matrix_of(const tape_node *n)
{
    return n->in[1];
}

/* The matrix as it is multiplied. */
static const void *operand_of(const step_memory *m, const tape_value *w)
{
    return m->rounded[w->index] ? m->rounded[w->index] : tape_weights(w);
}

static scion_dtype operand_type(const step_memory *m, const tape_value *w)
{
    return m->compute == SCION_BF16 ? SCION_BF16 : w->weight_type;
}

SCN_CLONES static void round_floats(int64_t n, const float *from, float *to)
{
    SCN_SIMD
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = scn_bf16_nearest(from[i]);
        memcpy(to + i, &bits, sizeof *to);
    }
}

/* Rows of the input, rounded to bfloat16 if products are. */
static const float *input_rows(const step_memory *m, const step_rows *r, const tape_value *v, float *scratch)
{
    const float *x = step_data(m, r, v);
    if (m->compute != SCION_BF16)
        return x;
    round_floats(r->count * width_of(v), x, scratch);
    return scratch;
}

static size_t linear_scratch(const tape_node *n, const step_memory *m)
{
    return m->compute == SCION_BF16 ? (size_t)(m->few * width_of(n->in[0])) : 0;
}

/* Parts of a generator_step have the same input. */
static void run_linear(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part, int64_t parts)
{
    scn_few *few = scn_few_of(scn_kernel_for(SCION_F32));
    const float *x = input_rows(m, r, s->node[0]->in[0], m->scratch + (size_t)part * m->scratch_floats);
    const int64_t first = step_share(s->width, line_columns, part, parts),
                  count = step_share(s->width, line_columns, part + 1, parts) - first;
    for (int i = 0; i < s->nodes && count > 0; i++) {
        const tape_node *n = s->node[i];
        const int64_t k = width_of(n->in[0]);
        const tape_value *w = n->in[1];
        const scion_dtype type = operand_type(m, w);
        const char *rows = (const char *)operand_of(m, w) + scn_stored_bytes(type, first * k);
        few(r->count, count, k, x, k, rows, type, k, 0, step_data(m, r, n->out) + first, s->width);
    }
}

static scn_gemm product_of(const tape_node *n, const step_memory *m, int64_t rows)
{
    const scn_gemm_shape shape = {.m = rows,
                                  .n = width_of(n->out),
                                  .k = width_of(n->in[0]),
                                  .transpose_b = true,
                                  .b = operand_type(m, n->in[1]),
                                  .compute = m->compute};
    return scn_gemm_plan(&shape, m->threads);
}

static size_t linear_workspace(const tape_node *n, const step_memory *m, int64_t rows)
{
    const scn_gemm g = product_of(n, m, rows);
    return scn_gemm_floats(&g);
}

static void run_linear_many(const generator_step *s, const step_memory *m, const step_rows *r)
{
    for (int i = 0; i < s->nodes; i++) {
        const tape_node *n = s->node[i];
        const scn_gemm g = product_of(n, m, r->count);
        scn_gemm_run(&g, step_data(m, r, n->in[0]), g.shape.k, operand_of(m, n->in[1]), g.shape.k, 1, false,
                     step_data(m, r, n->out), g.shape.n, NULL, m->workspace);
    }
}

static const step_form linear = {.division = STEP_COLUMNS,
                                 .whole_rows = true,
                                 .check = check_linear,
                                 .unit = unit_one,
                                 .scratch = linear_scratch,
                                 .workspace = linear_workspace,
                                 .operand = matrix_of,
                                 .run = run_linear,
                                 .run_many = run_linear_many};

/* ---- Rotary embedding ---------------------------------------------------------------------------------------- */

/* For each position D/2 cosines, then D/2 sines: the angles of op_rotary, once for all tokens. */
static size_t rotary_table(const tape_node *n, int64_t context)
{
    return (size_t)(context * n->ints[0]);
}

static void fill_rotary(const tape_node *n, int64_t context, float *table)
{
    const int64_t half = n->ints[0] / 2;
    for (int64_t i = 0; i < half; i++) {
        const double rate = pow(n->reals[0], -(double)i / (double)half);
        for (int64_t t = 0; t < context; t++) {
            table[t * 2 * half + i] = (float)cos(rate * (double)t);
            table[t * 2 * half + half + i] = (float)sin(rate * (double)t);
        }
    }
}

SCN_CLONES static void rotate_cell(int64_t half, const float *table, const float *x, float *y)
{
    const float *c = table, *s = table + half;
    SCN_SIMD
    for (int64_t i = 0; i < half; i++) {
        const float p = x[i], q = x[i + half];
        y[i] = p * c[i] - q * s[i];
        y[i + half] = q * c[i] + p * s[i];
    }
}

static void run_rotary(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part, int64_t parts)
{
    const int64_t D = s->unit, heads = s->width / D, cells = r->count * heads;
    const float *x = step_data(m, r, s->node[0]->in[0]);
    float *y = step_data(m, r, s->node[0]->out);
    for (int64_t i = step_share(cells, 1, part, parts); i < step_share(cells, 1, part + 1, parts); i++)
        rotate_cell(D / 2, s->table + r->position[r->first + i / heads] * D, x + i * D, y + i * D);
}

static const step_form rotary = {
    .division = STEP_CELLS, .unit = unit_given, .table = rotary_table, .fill = fill_rotary, .run = run_rotary};

/* ---- The table ----------------------------------------------------------------------------------------------- */

static const step_row table[] = {
    {&op_linear_row, {&linear}},
    {&op_embedding_row, {&embedding}},
    {&op_rmsnorm_row, {&runs}},
    {&op_activation_row, {&elements}},
    {&op_add_row, {&elements}},
    {&op_rotary_row, {&rotary}},
    {&op_attention_row, {&step_attention_store, &step_attention_read}},
};

const step_row *step_row_of(const tape_op *op)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].op == op)
            return &table[i];
    return NULL;
}
