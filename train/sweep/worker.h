/* Names of worker processes, by which others can tell whether they are alive. */
#ifndef TRAIN_SWEEP_WORKER_H
#define TRAIN_SWEEP_WORKER_H

#include <stdbool.h>

enum { WORKER_TEXT = 128 };

/* The name of this process: host, process id, and when it was started (ids are reused). */
void worker_name(char name[WORKER_TEXT]);

/* Is the worker alive, whose last heartbeat was `silence` seconds ago? On this host its process is looked for; on
 * another host it counts as dead after two minutes, and if its clock is ahead by much more than an hour. */
bool worker_alive(const char *name, double silence);

#endif
