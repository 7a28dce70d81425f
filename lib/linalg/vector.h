/* Loops over arrays: float32 arithmetic, double for reductions.
 *
 * Each kernel is compiled for several instruction sets. Reductions over matrices are cut into pieces whose
 * bounds depend on the shape alone, so that the sum does not depend on the number of threads. */
#ifndef SCN_VECTOR_H
#define SCN_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "product/matrix.h"

/* z = beta z + a x; beta = 0 does not read z. A factor that float32 cannot hold (the direction of a tiny
 * vector needs one) is applied in parts. */
void scn_axpby(int64_t n, double a, const float *x, double beta, float *z);
/* z = beta z + a sign(x), sign(0) = 0. */
void scn_sign_axpby(int64_t n, double a, const float *x, double beta, float *z);
/* z *= a; a = 0 stores zeros whatever was there. */
void scn_scale(int64_t n, double a, float *z);
/* sums[j] += x[j]^2. */
void scn_add_squares(int64_t n, const float *x, double *sums);

double scn_sum_squares(int64_t n, const float *x);
double scn_dot(int64_t n, const float *x, const float *y);
double scn_dot_double(int64_t n, const float *x, const double *y);
/* z += a x, double. */
void scn_add_double(int64_t n, double a, const float *x, double *z);
/* Largest |x|, or INFINITY if one is Inf or NaN; 0 of nothing. */
float scn_largest(int64_t n, const float *x);

/* Over a matrix, by up to `threads` threads. */
double scn_sum_squares_mat(scn_mat a, int threads);
double scn_sum_abs_mat(scn_mat a, int threads);
double scn_max_abs_mat(scn_mat a, int threads);
double scn_dot_mat(scn_mat a, scn_mat b, int threads);
void scn_scale_mat(scn_mat a, double factor, int threads);
/* stream: past the cache (stream.h), if beta is 0. */
void scn_axpby_mat(double a, scn_mat x, double beta, scn_mat z, bool stream, int threads);

#endif
