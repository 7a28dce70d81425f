/* Norms made of the 2-norms of the rows, or of the columns, of the block as stored:
 *     size = largest,   dual size = sum,   direction = each row (column) over its 2-norm (0 for a zero one).
 * RowNorm and ColNorm share all of it but their factor; a transposed parameter exchanges them. */
#ifndef SCN_ROW_COL_NORM_H
#define SCN_ROW_COL_NORM_H

#include "norm/norm.h"

scn_granularity scn_row_col_granularity(const scn_block *b);
double scn_row_col_size(const scn_block *b, scn_mat x, const scn_work *w);
double scn_row_col_dual(const scn_block *b, scn_mat s, const scn_work *w);
/* Divides each row (column) by its norm / c + eps. Here z may be s itself. */
void scn_row_col_lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w);
/* Gaussian rows (columns) of the right length. */
void scn_row_col_init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w);
/* For the sums of a tall block. */
size_t scn_row_col_memory(const scn_block *b, scn_use use, const scn_work *w);

#endif
