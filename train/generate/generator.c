/* See generator.h.
 *
 * Steps are listed in the order of the tape, with one change: products of one array with several matrices (queries,
 * keys, values) are one step. All threads go through the list together. A phase is a run of steps that need not wait
 * for each other, because each thread reads only what it has written itself in that phase; between phases all meet. A
 * block of a GPT has seven:
 *
 *     norm | q k v | their norms, rotation, cache and attention, head by head | o, add | norm | up, f | down, add
 *
 * so that a team of threads is woken once for a token. Many rows of one sequence (a prompt) go step by step instead,
 * through the products of product/gemm.h. After the last attention only the rows matter whose logits are wanted.
 *
 * An array lives from the phase that writes it to the last that reads it; then another takes its memory. */
#include "generate/generator.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/bf16.h"
#include "base/memory.h"
#include "base/thread.h"
#include "generate/step.h"
#include "generate/team.h"
#include "util/fail.h"

enum {
    few_rows = 16,          /* of a prompt: from here on packing a matrix pays */
    max_chunk = 512,        /* rows of a prompt at a time */
    pieces_each = 4,        /* of a step over many rows, for each thread */
    thread_bytes = 1 << 18, /* weights: fewer are not worth a thread */
};

/* Where the array of a value is made and used. */
typedef struct array_use {
    int64_t maker;   /* step; -1: none */
    int readers;     /* steps */
    int first, last; /* phase */
    int64_t buffer;
} array_use;

typedef struct buffer {
    int64_t width;
    int busy; /* up to this phase */
} buffer;

typedef struct sequence {
    int64_t length;
    int32_t *tokens; /* in the context; one more than it holds */
} sequence;

struct generator {
    const model *model;
    generator_step *steps;
    int64_t count, tail; /* steps; the first of those for wanted rows alone */
    array_use *use;      /* of each value of the tape */
    step_memory memory;
    int team; /* threads for few rows */
    sequence *sequences;
    int64_t *position, *owner; /* of each row */
    int64_t *rows;
    float *arrays, *tables, *logits;
    void *rounded_weights; /* operands of products, as bfloat16 */
    int64_t rounded_count; /* their elements */
    int32_t *token_memory;
};

/* ---- Listing the steps ------------------------------------------------------------------------------------ */

/* Marks the nodes that the logits depend on. */
static void mark_needed(const tape *t, const tape_value *target, bool *value)
{
    value[target->index] = true;
    for (int64_t i = tape_node_count(t) - 1; i >= 0; i--) {
        const tape_node *n = tape_node_at(t, i);
        for (int k = 0; value[n->out->index] && k < n->inputs; k++)
            if (n->in[k])
                value[n->in[k]->index] = true;
    }
}

/* A product of the same array that is a step already; NULL: none. */
static generator_step *same_input(generator *g, const tape_node *n, const step_form *form)
{
    for (int64_t i = g->count - 1; form->whole_rows && i >= 0; i--) {
        generator_step *s = &g->steps[i];
        if (s->form == form && s->nodes < STEP_PARTS && s->node[0]->in[0] == n->in[0] &&
            s->width == n->out->shape[n->out->ndim - 1])
            return s;
    }
    return NULL;
}

static scion_status add_node(generator *g, const tape_node *n, scion_error *err)
{
    const step_row *row = step_row_of(n->op);
    scion_error why = {.message = "an operator on whole samples"};
    const char *name = g->model->row->name;
    if (!row || n->op->view)
        return train_fail(err, SCION_EINVAL, "model=%s writes no text: it has %s, %s", name, why.message,
                          n->op->name);
    for (int i = 0; i < 2 && row->form[i]; i++) {
        const step_form *form = row->form[i];
        generator_step *s = same_input(g, n, form);
        if (form->check && form->check(n, &why) != SCION_OK)
            return train_fail(err, SCION_EINVAL, "model=%s writes no text: it has %s", name, why.message);
        if (!s) {
            s = &g->steps[g->count++];
            *s = (generator_step){.form = form, .width = n->out->shape[n->out->ndim - 1], .unit = form->unit(n)};
        }
        s->node[s->nodes++] = n;
        g->use[n->out->index].maker = s - g->steps;
        if (form->other_rows)
            g->tail = s - g->steps;
    }
    return SCION_OK;
}

/* Does a step read, in its phase, more than its own thread has written? */
static bool must_wait(const generator *g, const generator_step *s, int phase)
{
    for (int i = 0; i < s->nodes; i++)
        for (int k = 0; k < s->node[i]->inputs; k++) {
            const tape_value *v = s->node[i]->in[k];
            const int64_t maker = v ? g->use[v->index].maker : -1;
            const generator_step *m = maker >= 0 && &g->steps[maker] != s ? &g->steps[maker] : NULL;
            if (m && m->phase == phase &&
                (s->form->whole_rows || m->form->division != s->form->division || m->width != s->width ||
                 m->unit != s->unit))
                return true;
        }
    return false;
}

static void list_phases(generator *g)
{
    int phase = 0;
    for (int64_t i = 0; i < g->count; i++) {
        generator_step *s = &g->steps[i];
        s->phase = -1;
        phase += must_wait(g, s, phase);
        s->phase = phase;
    }
}

static scion_status list_steps(generator *g, scion_error *err)
{
    const tape *t = g->model->tape;
    const int64_t values = tape_value_count(t), nodes = tape_node_count(t);
    bool *needed = calloc((size_t)values, sizeof *needed);
    scion_status status = SCION_OK;
    g->steps = calloc((size_t)(2 * nodes), sizeof *g->steps);
    g->use = calloc((size_t)values, sizeof *g->use);
    if (!needed || !g->steps || !g->use)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory"));
    for (int64_t i = 0; i < values; i++)
        g->use[i] = (array_use){.maker = -1, .buffer = -1};
    mark_needed(t, g->model->logits, needed);
    for (int64_t i = 0; i < nodes; i++)
        if (needed[tape_node_at(t, i)->out->index])
            TRY(add_node(g, tape_node_at(t, i), err));
    list_phases(g);
done:
    free(needed);
    return status;
}

/* ---- Memory ----------------------------------------------------------------------------------------------- */

/* Phases in which each array lives. */
static void find_uses(generator *g)
{
    for (int64_t i = 0; i < g->count; i++)
        for (int n = 0; n < g->steps[i].nodes; n++) {
            const tape_node *node = g->steps[i].node[n];
            array_use *out = &g->use[node->out->index];
            out->first = g->steps[out->maker].phase;
            out->last = out->last > out->first ? out->last : out->first;
            for (int k = 0; k < node->inputs; k++)
                if (node->in[k] && g->use[node->in[k]->index].maker >= 0) {
                    array_use *in = &g->use[node->in[k]->index];
                    in->last = g->steps[i].phase > in->last ? g->steps[i].phase : in->last;
                    in->readers++;
                }
        }
}

/* Gives the result of node n a buffer: its first input's, if nobody else reads that and the operator may work in
 * place; or one that is free. */
static void take_buffer(generator *g, const tape_node *n, buffer *buffers, int64_t *count)
{
    array_use *out = &g->use[n->out->index], *in = &g->use[n->in[0]->index];
    const int64_t width = n->out->shape[n->out->ndim - 1];
    int64_t best = -1;
    if (n->op->in_place && in->buffer >= 0 && in->readers == 1)
        best = in->buffer;
    for (int64_t i = 0; best < 0 && i < *count; i++)
        if (buffers[i].width == width && buffers[i].busy < out->first)
            best = i;
    if (best < 0) {
        best = (*count)++;
        buffers[best] = (buffer){.width = width};
    }
    out->buffer = best;
    buffers[best].busy = out->last > buffers[best].busy ? out->last : buffers[best].busy;
}

/* Memory that nobody has written to yet: pages that stay unused take none. */
static float *allocate(size_t floats)
{
    const size_t bytes = (size_t)scn_round_up((int64_t)(floats * sizeof(float)), SCN_ALIGN) + SCN_ALIGN;
    void *memory = aligned_alloc(SCN_ALIGN, bytes);
    if (memory)
        scn_large_pages(memory, bytes);
    return memory;
}

/* Arrays of rows of all results but the logits. */
static bool place_arrays(generator *g)
{
    step_memory *m = &g->memory;
    const int64_t values = tape_value_count(g->model->tape);
    buffer *buffers = calloc((size_t)values, sizeof *buffers);
    size_t *offset = calloc((size_t)values, sizeof *offset), floats = 0;
    int64_t count = 0;
    m->data = calloc((size_t)values, sizeof *m->data);
    find_uses(g);
    for (int64_t i = 0; buffers && i < g->count; i++)
        for (int n = 0; n < g->steps[i].nodes; n++)
            if (g->steps[i].node[n]->out != m->logits && g->use[g->steps[i].node[n]->out->index].buffer < 0)
                take_buffer(g, g->steps[i].node[n], buffers, &count);
    for (int64_t i = 0; buffers && offset && i < count; i++) {
        offset[i] = floats;
        floats += (size_t)scn_round_up(m->rows * buffers[i].width, SCN_ALIGN);
    }
    g->arrays = allocate(floats);
    g->logits = allocate((size_t)(m->sequences * generator_vocab(g)));
    const bool allocated = buffers && offset && m->data && g->arrays && g->logits;
    for (int64_t i = 0; allocated && i < values; i++)
        if (g->use[i].buffer >= 0)
            m->data[i] = g->arrays + offset[g->use[i].buffer];
    if (allocated)
        m->data[m->logits->index] = g->logits;
    free(buffers);
    free(offset);
    return allocated;
}

/* A step before i with the same table: rotations by the same angles. */
static float *same_table(const generator *g, int64_t i)
{
    const tape_node *n = g->steps[i].node[0];
    for (int64_t k = 0; k < i; k++) {
        const generator_step *s = &g->steps[k];
        if (s->form == g->steps[i].form && s->node[0]->ints[0] == n->ints[0] && s->node[0]->reals[0] == n->reals[0])
            return s->table;
    }
    return NULL;
}

/* Tables, caches, scratch memory, and the workspace of products. */
static bool place_extras(generator *g)
{
    step_memory *m = &g->memory;
    size_t tables = 0, workspace = 0;
    for (int64_t i = 0; i < g->count; i++) {
        generator_step *s = &g->steps[i];
        const step_form *f = s->form;
        tables += f->table && !same_table(g, i) ? f->table(s->node[0], m->context) : 0;
        if (f->cache) {
            s->at = m->cache_floats;
            m->cache_floats += f->cache(s->node[0], m->context);
        } else if (i > 0 && s->node[0] == s[-1].node[0])
            s->at = s[-1].at;
        if (f->scratch)
            m->scratch_floats = scn_max_size(m->scratch_floats, f->scratch(s->node[0], m));
        for (int64_t rows = 1; f->workspace && rows <= m->rows; rows++)
            workspace = scn_max_size(workspace, f->workspace(s->node[0], m, rows));
    }
    m->cache = allocate((size_t)m->sequences * m->cache_floats);
    m->scratch = allocate((size_t)m->threads * m->scratch_floats);
    m->workspace = allocate(workspace);
    g->tables = allocate(tables);
    float *at = g->tables;
    for (int64_t i = 0; at && i < g->count; i++)
        if (g->steps[i].form->table) {
            g->steps[i].table = same_table(g, i);
            if (g->steps[i].table)
                continue;
            g->steps[i].table = at;
            g->steps[i].form->fill(g->steps[i].node[0], m->context, at);
            at += g->steps[i].form->table(g->steps[i].node[0], m->context);
        }
    return m->cache && m->scratch && m->workspace && g->tables;
}

/* Rounds the float32 operands of products to bfloat16, once. */
static bool round_weights(generator *g)
{
    step_memory *m = &g->memory;
    const tape *t = g->model->tape;
    m->rounded = calloc((size_t)tape_value_count(t), sizeof *m->rounded);
    if (!m->rounded || m->compute != SCION_BF16)
        return m->rounded;
    g->rounded_weights = allocate(tape_weight_bytes(t) / (2 * sizeof(float)) + 1); /* all of them, if float32 */
    uint16_t *at = g->rounded_weights;
    for (int64_t i = 0; at && i < g->count; i++)
        for (int n = 0; g->steps[i].form->operand && n < g->steps[i].nodes; n++) {
            const tape_value *w = g->steps[i].form->operand(g->steps[i].node[n]);
            if (w->weight_type == SCION_BF16 || m->rounded[w->index])
                continue;
            m->rounded[w->index] = at;
            scn_to_bf16(w->count, w->data, at);
            at += w->count;
            g->rounded_count += w->count;
        }
    return at;
}

static bool place_sequences(generator *g)
{
    const step_memory *m = &g->memory;
    const size_t each = (size_t)m->context + 1;
    g->sequences = calloc((size_t)m->sequences, sizeof *g->sequences);
    g->token_memory = calloc((size_t)m->sequences * each, sizeof *g->token_memory);
    g->rows = calloc(2 * (size_t)m->rows, sizeof *g->rows);
    g->position = g->rows;
    g->owner = g->rows ? g->rows + m->rows : NULL;
    for (int64_t i = 0; g->sequences && g->token_memory && i < m->sequences; i++)
        g->sequences[i].tokens = g->token_memory + (size_t)i * each;
    return g->sequences && g->token_memory && g->rows;
}

scion_status generator_create(generator **out, const model *m, scion_dtype compute, int64_t context,
                              int64_t sequences, int threads, scion_error *err)
{
    generator *g = calloc(1, sizeof *g);
    scion_status status = SCION_OK;
    *out = NULL;
    if (!g)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    g->model = m;
    const int64_t chunk = context < max_chunk ? context : max_chunk;
    g->memory = (step_memory){.context = context,
                              .rows = chunk > sequences ? chunk : sequences,
                              .sequences = sequences,
                              .few = few_rows > sequences ? few_rows : sequences,
                              .compute = compute,
                              .threads = threads > 1 ? threads : 1,
                              .logits = m->logits};
    if (!m->row->writes)
        TRY(train_fail(err, SCION_EINVAL, "model=%s writes no text", m->row->name));
    TRY(list_steps(g, err));
    if (!place_arrays(g) || !place_extras(g) || !round_weights(g) || !place_sequences(g))
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for %lld sequences of %lld tokens", (long long)sequences,
                       (long long)context));
    const size_t wanted = 1 + tape_weight_bytes(m->tape) / thread_bytes;
    g->team = wanted < (size_t)g->memory.threads ? (int)wanted : g->memory.threads;
    *out = g;
done:
    if (status != SCION_OK)
        generator_free(g);
    return status;
}

void generator_free(generator *g)
{
    if (!g)
        return;
    free(g->steps);
    free(g->use);
    free(g->memory.data);
    free(g->arrays);
    free(g->logits);
    free(g->memory.cache);
    free(g->memory.scratch);
    free(g->memory.workspace);
    free(g->memory.rounded);
    free(g->rounded_weights);
    free(g->tables);
    free(g->sequences);
    free(g->token_memory);
    free(g->rows);
    free(g);
}

/* ---- Running ---------------------------------------------------------------------------------------------- */

/* One thread's way through the steps from `first` on. */
static void run_share(const generator *g, int64_t first, const step_rows *all, const step_rows *wanted, int part,
                      int parts, team_meeting *meeting)
{
    for (int64_t i = first; i < g->count; i++) {
        const generator_step *s = &g->steps[i];
        if (i > first && (s->phase > s[-1].phase || (s->form->other_rows && !all->apart)))
            team_meet(meeting, parts);
        s->form->run(s, &g->memory, i < g->tail ? all : wanted, part, parts);
    }
}

static void run_few(const generator *g, int64_t first, const step_rows *all, const step_rows *wanted)
{
    team_meeting meeting = {0};
    const int threads = scn_threads(g->team) < g->team ? 1 : g->team;
    SCN_TEAM(threads, part, parts, run_share(g, first, all, wanted, part, parts, &meeting));
}

/* The steps up to the last attention, for many rows of one sequence. */
static void run_many(const generator *g, const step_rows *all)
{
    const int threads = g->memory.threads;
    for (int64_t i = 0; i < g->tail; i++) {
        const generator_step *s = &g->steps[i];
        const int64_t pieces = (int64_t)pieces_each * threads;
        if (s->form->run_many)
            s->form->run_many(s, &g->memory, all);
        else
            SCN_PARALLEL(threads, k, pieces, s->form->run(s, &g->memory, all, k, pieces));
    }
}

/* Appends tokens, for which there is room, to a sequence; logits of the last one if `wanted`. */
static void append(generator *g, int64_t index, int64_t count, const int32_t *tokens, bool wanted)
{
    sequence *q = &g->sequences[index];
    for (int64_t done = 0, n; done < count; done += n) {
        n = scn_min(count - done, g->memory.rows);
        for (int64_t i = 0; i < n; i++) {
            g->position[i] = q->length + i;
            g->owner[i] = index;
        }
        int32_t *at = q->tokens + q->length;
        memmove(at, tokens + done, (size_t)n * sizeof *at); /* which may be further on in the same array */
        const step_rows all = {0, n, at, g->position, g->owner, n == 1};
        step_rows last = all;
        last.first = n - 1;
        last.count = 1;
        last.apart = true;
        q->length += n;
        if (n <= few_rows) {
            run_few(g, 0, &all, &last);
            continue;
        }
        run_many(g, &all);
        if (wanted && done + n == count)
            run_few(g, g->tail, &last, &last);
    }
}

/* Number of the `count` tokens (those remembered, then new ones) with which the context begins after the last: a full
 * context drops all but its second half when a token more comes. */
static int64_t context_start(int64_t context, int64_t length, int64_t count)
{
    int64_t first = 0;
    for (int64_t at = length; at < length + count; at++)
        if (at - first == context)
            first = at - context / 2;
    return first;
}

/* Makes room for `count` more tokens: if the context begins anew before the last of them, reads again what of the
 * remembered ones stays in it. Returns how many of the new tokens fall out of it at once. */
static int64_t make_room(generator *g, int64_t index, int64_t count)
{
    sequence *q = &g->sequences[index];
    const int64_t length = q->length, first = context_start(g->memory.context, length, count);
    if (first == 0)
        return 0;
    q->length = 0;
    if (first < length)
        append(g, index, length - first, q->tokens + first, false);
    return first > length ? first - length : 0;
}

const float *generator_read(generator *g, int64_t index, int64_t count, const int32_t *tokens)
{
    const int64_t skip = make_room(g, index, count);
    append(g, index, count - skip, tokens + skip, true);
    return g->logits;
}

const float *generator_write(generator *g, int64_t count, const int64_t *sequences, const int32_t *tokens)
{
    for (int64_t i = 0; i < count; i++)
        make_room(g, sequences[i], 1);
    for (int64_t i = 0; i < count; i++) {
        sequence *q = &g->sequences[sequences[i]];
        g->position[i] = q->length;
        g->owner[i] = sequences[i];
        q->tokens[q->length++] = tokens[i];
    }
    const step_rows rows = {0, count, tokens, g->position, g->owner, true};
    run_few(g, 0, &rows, &rows);
    return g->logits;
}

/* ---- Sequences --------------------------------------------------------------------------------------------- */

void generator_copy(generator *g, int64_t from, int64_t to)
{
    const step_memory *m = &g->memory;
    const sequence *q = &g->sequences[from];
    const float *a = m->cache + (size_t)from * m->cache_floats;
    float *b = m->cache + (size_t)to * m->cache_floats;
    if (from == to)
        return;
    for (int64_t i = 0; i < g->count; i++) {
        const generator_step *s = &g->steps[i];
        const size_t each = (size_t)(m->context * s->unit), kept = (size_t)(q->length * s->unit);
        if (s->form->cache) /* runs of `context` units, of which `length` are written */
            for (size_t at = s->at; at < s->at + s->form->cache(s->node[0], m->context); at += each)
                memcpy(b + at, a + at, kept * sizeof *a);
    }
    memcpy(g->sequences[to].tokens, q->tokens, (size_t)q->length * sizeof *q->tokens);
    g->sequences[to].length = q->length;
}

void generator_clear(generator *g, int64_t index)
{
    g->sequences[index].length = 0;
}

int64_t generator_length(const generator *g, int64_t index)
{
    return g->sequences[index].length;
}

int64_t generator_vocab(const generator *g)
{
    const tape_value *logits = g->memory.logits;
    return logits->shape[logits->ndim - 1];
}

double generator_bytes(const generator *g, int64_t length)
{
    const step_memory *m = &g->memory;
    return (double)tape_weight_bytes(g->model->tape) - (double)scn_stored_bytes(SCION_BF16, g->rounded_count) +
           (double)m->cache_floats * sizeof(float) * (double)length / (double)m->context;
}
