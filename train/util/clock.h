/* Time that passes. */
#ifndef TRAIN_UTIL_CLOCK_H
#define TRAIN_UTIL_CLOCK_H

/* Seconds since some moment. Only differences mean something; setting the machine's clock does not change them. */
double clock_now(void);

#endif
