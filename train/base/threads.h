/* The number of threads, set in one place for OpenMP, the BLAS, and with OpenMP the library. */
#ifndef TRAIN_BASE_THREADS_H
#define TRAIN_BASE_THREADS_H

/* From now on parallel regions and matrix products outside of them use n threads; 0: as many as the process was
 * started with (OMP_NUM_THREADS, or all cores). Returns the number. Call it before the first product: threads that
 * have been started are not ended. */
int threads_set(int n);

#endif
