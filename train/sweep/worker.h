/* Names of worker processes, by which others can tell whether they are alive. */
#ifndef TRAIN_SWEEP_WORKER_H
#define TRAIN_SWEEP_WORKER_H

#include <stdbool.h>

enum { WORKER_TEXT = 128 };

/* The name of this process: host, process id, and when it was started (ids are reused). */
void worker_name(char name[WORKER_TEXT]);

/* True if the worker, whose last heartbeat was `silence` seconds ago, is alive. On this host its process must exist;
 * on another host it is dead after two minutes, or if its clock is ahead by much more than an hour. */
bool worker_alive(const char *name, double silence);

#endif
