/* Reads what mpirun, mpiexec or srun put into the environment of the processes that they start, without MPI: commands
 * that fork, and programs built without MPI, need it too. */
#ifndef TRAIN_COMM_LAUNCHER_H
#define TRAIN_COMM_LAUNCHER_H

#include <stdbool.h>

typedef struct launcher {
    const char *name; /* "Open MPI", "MPICH", "Slurm"; NULL: this process was started alone */
    int rank, size;   /* 0 and 1 without a launcher */
    int local_size;   /* processes on this host; 1 if not known */
    bool mpi;         /* the launcher supports MPI */
} launcher;

launcher launcher_find(void);

/* This process's share of the cores of its host, at least 1: the launcher's cores divided by the processes there, and
 * not more than it may run on. Open MPI's default binding (to a core; with more than two processes to a socket) is
 * undone when the program is loaded. A binding that the user chose (--bind-to and the like), or Slurm, is kept. */
int launcher_share_cores(void);

#endif
