/* Norms made of the 2-norms of lines, rows or columns of the block as stored:
 *     size = largest,   dual size = sum,   direction = each line over its 2-norm (0 for a zero line).
 * RowNorm and ColNorm share all of it but their factor; a transposed parameter exchanges them. */
#ifndef SCN_ROW_COL_NORM_H
#define SCN_ROW_COL_NORM_H

#include "norm/norm.h"

scn_granularity scn_lines_granularity(const scn_block *b);
double scn_lines_size(const scn_block *b, scn_mat x, const scn_work *w);
double scn_lines_dual(const scn_block *b, scn_mat s, const scn_work *w);
/* Each line is divided by ||line|| / c + eps. Here z may be s itself. */
void scn_lines_lmo(const scn_block *b, scn_mat z, double beta, double step, scn_mat s, const scn_work *w);
/* Gaussian lines of the right length. */
void scn_lines_init(const scn_block *b, scn_mat z, double radius, scn_start start, const scn_work *w);
/* For the sums of a tall block. */
size_t scn_lines_memory(const scn_block *b, scn_use use, const scn_work *w);

#endif
