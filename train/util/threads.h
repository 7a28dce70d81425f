/* The number of threads, set in one place: for the program's loops and products, and for the library. */
#ifndef TRAIN_UTIL_THREADS_H
#define TRAIN_UTIL_THREADS_H

/* Sets the number of threads of parallel regions; 0: the default (OMP_NUM_THREADS, or all cores). Returns the number.
 * Running threads are not ended. */
int threads_set(int n);
/* Sets the default: the share of a process that shares its host with others. Has no effect if OMP_NUM_THREADS is set.
 * */
void threads_share(int n);

#endif
