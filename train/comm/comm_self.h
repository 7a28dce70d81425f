/* See comm_self.c. */
#ifndef TRAIN_COMM_COMM_SELF_H
#define TRAIN_COMM_COMM_SELF_H

#include "comm/comm.h"

comm *comm_self(void);

#endif
