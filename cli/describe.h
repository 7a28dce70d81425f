/* Descriptions of a run, printed before it starts. */
#ifndef CLI_DESCRIBE_H
#define CLI_DESCRIBE_H

#include "trainer/trainer.h"

/* A table of the parameters: shape, role, norm, scale, radius. */
void describe_parameters(const trainer *t);
/* The memory that the run takes, by purpose. */
void describe_memory(const trainer *t);
/* Data, settings in one line, ranks, and the size of validations. */
void describe_run(const trainer *t);

#endif
