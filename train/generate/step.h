/* Steps of a generator: operators of a recorded model in the form that continues sequences.
 *
 * A row is the next position of some sequence; arrays have a row for each. An operator that computes a row, or a run
 * of `unit` elements of a row, from the same elements of its inputs runs its own forward pass on them. Only products,
 * embeddings, rotation and attention have a form of their own here. A model whose operators all have a row in the
 * table of step_rows.c writes text: nothing describes it a second time. */
#ifndef TRAIN_GENERATE_STEP_H
#define TRAIN_GENERATE_STEP_H

#include "tensor/tape.h"

enum { STEP_PARTS = 4 };

/* The rows of one run: those from `first` on. */
typedef struct step_rows {
    int64_t first, count;
    const int32_t *tokens;              /* of all rows, from row 0 on; */
    const int64_t *position, *sequence; /* likewise */
    bool apart;                         /* every row belongs to another sequence */
} step_rows;

/* Memory that steps share. */
typedef struct step_memory {
    int64_t context, rows, sequences; /* positions of a sequence; rows of an array; sequences */
    int64_t few;                      /* rows that a share (step_form.run) of a product has, at most */
    int threads;
    float **data;             /* of each value of the tape; NULL: none */
    const tape_value *logits; /* its rows begin with those of the run, not with row 0 */
    float *cache;             /* of each sequence cache_floats, of which a step has some from its `at` on */
    size_t cache_floats;
    float *scratch; /* scratch_floats for each thread */
    size_t scratch_floats;
    float *workspace;    /* of products */
    scion_dtype compute; /* SCION_BF16: operands of products with parameters are rounded to bfloat16 */
    uint16_t **rounded;  /* of each value of the tape, the parameter as bfloat16; NULL: it is so, or is no operand */
} step_memory;

typedef struct generator_step generator_step;

/* How the work of a step is divided among threads: by columns of all rows; or by cells, runs of `unit` elements, row
 * by row. Steps with the same division, width and unit need not wait for each other. */
typedef enum step_division { STEP_COLUMNS, STEP_CELLS } step_division;

typedef struct step_form {
    step_division division;
    bool whole_rows; /* reads all of a row of its first input, whatever it computes of its result */
    bool other_rows; /* reads other rows of its sequence */
    /* Checks the node. NULL: all can be run. EINVAL: err says what cannot. */
    scion_status (*check)(const tape_node *n, scion_error *err);
    int64_t (*unit)(const tape_node *n); /* elements that are computed together */
    /* Floats that the step keeps: for itself, for each sequence; and those it needs of each thread while it runs.
     * NULL: 0. */
    size_t (*table)(const tape_node *n, int64_t context);
    void (*fill)(const tape_node *n, int64_t context, float *table);
    size_t (*cache)(const tape_node *n, int64_t context);
    size_t (*scratch)(const tape_node *n, const step_memory *m);
    /* Floats of workspace for a product of that many rows. NULL: 0. */
    size_t (*workspace)(const tape_node *n, const step_memory *m, int64_t rows);
    /* The parameter that is an operand of a product. NULL: none. */
    const tape_value *(*operand)(const tape_node *n);
    /* The share `part` of `parts` of the work. */
    void (*run)(const generator_step *s, const step_memory *m, const step_rows *r, int64_t part, int64_t parts);
    /* All of the work, by all threads, for many rows of one sequence. NULL: run does, in pieces. */
    void (*run_many)(const generator_step *s, const step_memory *m, const step_rows *r);
} step_form;

struct generator_step {
    const step_form *form;
    const tape_node *node[STEP_PARTS]; /* products with one input are one generator_step */
    int nodes;
    int64_t width, unit;
    float *table;
    size_t at; /* of its part of a sequence's cache */
    int phase; /* steps of a phase do not wait for each other */
};

/* Up to two steps do the work of an operator; ended by NULL. */
typedef struct step_row {
    const tape_op *op;
    const step_form *form[2];
} step_row;

/* The row of an operator; NULL: it has none. */
const step_row *step_row_of(const tape_op *op);

extern const step_form step_attention_store, step_attention_read;

/* First index of share `part` of `count` things, in multiples of `grain`. */
static inline int64_t step_share(int64_t count, int64_t grain, int64_t part, int64_t parts)
{
    const int64_t at = part == parts ? count : count * part / parts / grain * grain;
    return at;
}

/* Rows of a value in the run. */
static inline float *step_data(const step_memory *m, const step_rows *r, const tape_value *v)
{
    const int64_t width = v->shape[v->ndim - 1];
    return m->data[v->index] + (v == m->logits ? 0 : r->first * width);
}

#endif
