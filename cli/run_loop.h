/* The loop of a run: steps, progress, evaluation, norms, checkpoints, until it ends or is stopped. */
#ifndef CLI_RUN_LOOP_H
#define CLI_RUN_LOOP_H

#include "run/trainer.h"

/* Returns the program's exit status. */
int run_loop(trainer *t);

#endif
