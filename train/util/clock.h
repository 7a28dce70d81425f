/* A monotonic clock. */
#ifndef TRAIN_UTIL_CLOCK_H
#define TRAIN_UTIL_CLOCK_H

/* Seconds since an arbitrary moment; not affected by setting the machine's clock. */
double clock_now(void);

#endif
