/* A layer that makes the pixels of small patches uncorrelated, computed from images and not learned. */
#ifndef TRAIN_MODELS_WHITENING_H
#define TRAIN_MODELS_WHITENING_H

#include "data/data.h"

/* Number of filters for images of that many channels: twice the size of a patch. */
int64_t whitening_filters(int64_t channels, int64_t side);

/* w (filters, channels, side, side) from the first `images` samples of the training part, as evaluation sees them,
 * whose array `image` has shape (height, width, channels): with M the mean of pp' over all patches p of side x side
 * pixels, lambda_i and v_i its eigenvalues, largest first, and eigenvectors,
 *
 *     w_i = v_i / sqrt(lambda_i + eps),     w_{i + n} = -w_i     for i < n, the size of a patch. */
scion_status whitening_compute(const data_set *d, int64_t images, int64_t side, double eps, float *w,
                               scion_error *err);

/* Eigenvalues of a symmetric n x n matrix, largest first, and its eigenvectors as rows. Overwrites a. */
void whitening_eigenvectors(int64_t n, double *a, double *values, double *vectors);

#endif
