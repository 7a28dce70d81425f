/* Results that are stored past the cache. If they are larger than it, nobody would find them there, and the lines of
 * z need not be read before they are overwritten. */
#ifndef SCN_STREAM_H
#define SCN_STREAM_H

#include <stdbool.h>
#include <stdint.h>

/* z = a x, and z = a sign(x), as scn_axpby and scn_sign_axpby with beta = 0. */
void scn_stream(int64_t n, double a, const float *x, float *z);
void scn_sign_stream(int64_t n, double a, const float *x, float *z);
/* z = beta z + f x entry by entry; beta = 0 does not read z. stream: past the cache, if beta is 0. z may be x. */
void scn_multiply(int64_t n, const float *f, const float *x, double beta, float *z, bool stream);
/* After the last of a thread's streams: makes them visible to other threads. */
void scn_stream_end(void);

/* Asks for n values that will be read next. The CPU's own prefetching stops at every page. */
void scn_prefetch(int64_t n, const float *x);

#endif
