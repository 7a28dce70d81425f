/* The number of threads, set in one place: for the program's loops and products, and for the library. */
#ifndef TRAIN_UTIL_THREADS_H
#define TRAIN_UTIL_THREADS_H

/* From now on parallel regions use n threads; 0: as many as the process was started with (OMP_NUM_THREADS, or all
 * cores). Returns the number. Threads that have been started are not ended. */
int threads_set(int n);
/* What 0 means from now on, in place of that: the share of a process that has others beside it on its host. Who sets
 * OMP_NUM_THREADS has decided, and nothing changes. */
void threads_share(int n);

#endif
