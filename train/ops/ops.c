/* The table of operators. */
#include "ops/ops.h"

static const tape_op *const TABLE[] = {
    &op_linear_row,       &op_embedding_row,   &op_rmsnorm_row,   &op_layernorm_row,      &op_rotary_row,
    &op_attention_row,    &op_activation_row,  &op_add_row,       &op_cross_entropy_row,  &op_reshape_row,
    &op_factor_row,       &op_convolution_row, &op_batchnorm_row, &op_max_pool_row,       &op_patches_row,
    &op_add_each_row,     &op_prepend_row,     &op_pick_row,      &op_mean_positions_row, &op_dropout_row,
    &op_drop_samples_row,
};

const tape_op *op_at(int i)
{
    return i >= 0 && (size_t)i < sizeof TABLE / sizeof *TABLE ? TABLE[i] : NULL;
}
