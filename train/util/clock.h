/* Clocks. */
#ifndef TRAIN_UTIL_CLOCK_H
#define TRAIN_UTIL_CLOCK_H

/* Seconds since an arbitrary moment; not affected by setting the machine's clock. */
double clock_now(void);
/* Seconds that the calling thread has computed: without those in which it waited or another one had its core. */
double clock_thread(void);

#endif
