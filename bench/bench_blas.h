/* The BLAS: which one it is, and its kernels at their best. */
#ifndef BENCH_BLAS_H
#define BENCH_BLAS_H

/* If OpenBLAS chose kernels older than this CPU (it does not know models newer than itself, and then falls
 * back to SSE kernels at a quarter of the speed), sets OPENBLAS_CORETYPE and executes the program again, once.
 * A value set by the user is respected. The environment is as before afterwards, so that programs started by
 * this one choose for themselves. Call first thing in main. */
void blas_best_core(char **argv);

/* "OpenBLAS 0.3.21 SkylakeX", and in brackets who chose the kernels if OpenBLAS did not. Static memory, filled at
 * the first call. */
const char *blas_library(void);

/* From now on parallel regions, and products of the BLAS outside of them, use n threads. */
void blas_threads(int n);

#endif
