/* Who works on a run: a name that tells whether the process still lives. */
#ifndef TRAIN_SWEEP_WORKER_H
#define TRAIN_SWEEP_WORKER_H

#include <stdbool.h>

enum { WORKER_TEXT = 128 };

/* The name of this process: host, process number, and when it was started (numbers are used again). */
void worker_name(char name[WORKER_TEXT]);

/* Whether a worker lives that was last heard of `silence` seconds ago. On this host the process is looked for; one on
 * another host counts as gone after two minutes. */
bool worker_lives(const char *name, double silence);

#endif
