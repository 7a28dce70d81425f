/* Loops over arrays: float32 arithmetic, double for reductions.
 *
 * Each kernel is compiled for several instruction sets. Reductions over matrices are cut into pieces whose
 * bounds depend on the shape alone, so that the sum does not depend on the number of threads. */
#ifndef SCN_VECTOR_H
#define SCN_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "product/matrix.h"

/* z = keep z + a x; keep = 0 does not read z. A factor that float32 cannot hold (the direction of a tiny
 * vector needs one) is applied in parts. */
void scn_axpby(int64_t n, double a, const float *x, double keep, float *z);
/* z = keep z + a sign(x), sign(0) = 0. */
void scn_sign_axpby(int64_t n, double a, const float *x, double keep, float *z);
/* The same with keep = 0, stored past the cache: saves reading the lines of z before they are overwritten. */
void scn_stream(int64_t n, double a, const float *x, float *z);
void scn_sign_stream(int64_t n, double a, const float *x, float *z);
/* z = keep z + f x entry by entry; stream: past the cache, if keep is 0. */
void scn_multiply(int64_t n, const float *f, const float *x, double keep, float *z, bool stream);
/* Asks for n values that will be read next. The CPU's own prefetching stops at every page. */
void scn_prefetch(int64_t n, const float *x);
/* After the last of a thread's streams: makes them visible to other threads. */
void scn_stream_end(void);
/* z *= a; a = 0 stores zeros whatever was there. */
void scn_scale(int64_t n, double a, float *z);
/* sums[j] += x[j]^2. */
void scn_add_squares(int64_t n, const float *x, double *sums);

double scn_sum_squares(int64_t n, const float *x);
double scn_sum_abs(int64_t n, const float *x);
double scn_max_abs(int64_t n, const float *x);
double scn_dot(int64_t n, const float *x, const float *y);
double scn_dot_double(int64_t n, const float *x, const double *y);
/* z += a x, double. */
void scn_add_double(int64_t n, double a, const float *x, double *z);
bool scn_all_finite(int64_t n, const float *x);

/* The same over a matrix, by up to `threads` threads. */
double scn_sum_squares_mat(scn_mat a, int threads);
double scn_sum_abs_mat(scn_mat a, int threads);
double scn_max_abs_mat(scn_mat a, int threads);
double scn_dot_mat(scn_mat a, scn_mat b, int threads);
void scn_scale_mat(scn_mat a, double factor, int threads);
/* stream: as scn_stream, if keep is 0. */
void scn_axpby_mat(double a, scn_mat x, double keep, scn_mat z, bool stream, int threads);

/* bfloat16: to float32 exactly; back to nearest, ties to even; or up or down at random so that the mean is
 * right (number first + i of the random stream decides for element i; first is a multiple of 8). */
void scn_from_bf16(int64_t n, const uint16_t *from, float *to);
void scn_to_bf16(int64_t n, const float *from, uint16_t *to);
void scn_to_bf16_random(int64_t n, const float *from, uint16_t *to, uint64_t seed, uint64_t stream, int64_t first);
bool scn_all_finite_bf16(int64_t n, const uint16_t *x);

#endif
