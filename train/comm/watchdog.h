/* Ends this process when a call that cannot be interrupted (MPI_Init, MPI_Finalize) does not return: another rank is
 * stopped or gone, and nothing of MPI can be called meanwhile. The launcher then ends the other ranks. */
#ifndef TRAIN_COMM_WATCHDOG_H
#define TRAIN_COMM_WATCHDOG_H

/* Starts to wait, in a thread. After `seconds` that thread calls `expired`, then ends the process with status 1. Time
 * in which this process was stopped counts little. 0 seconds: does nothing. There is one watchdog at a time. */
void watchdog_start(double seconds, void (*expired)(void *ctx), void *ctx);
void watchdog_stop(void);

#endif
