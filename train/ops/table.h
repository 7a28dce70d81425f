/* The rows of the operators, and what their builders share. */
#ifndef TRAIN_OPS_TABLE_H
#define TRAIN_OPS_TABLE_H

#include "tensor/tape.h"

extern const tape_op op_linear_row, op_embedding_row, op_rmsnorm_row, op_layernorm_row, op_rotary_row,
    op_attention_row, op_activation_row, op_add_row, op_cross_entropy_row, op_mse_row;

/* Records an operation whose result has the shape of `like` with rows of `width`. NULL if that failed. */
tape_node *op_record(tape *t, const tape_op *op, const tape_value *like, int64_t width, tape_value *const *in,
                     int inputs);

/* The node's result; NULL of NULL. */
static inline tape_value *op_result(const tape_node *n)
{
    return n ? n->out : NULL;
}

#endif
