/* What mpirun, mpiexec or srun say in the environment of the processes that they start. No MPI is needed to read it:
 * commands that fork, and programs that were built without MPI, want to know as well. */
#ifndef TRAIN_COMM_LAUNCHER_H
#define TRAIN_COMM_LAUNCHER_H

#include <stdbool.h>

typedef struct launcher {
    const char *name; /* "Open MPI", "MPICH or PMI", "Slurm"; NULL: nobody started this process with others */
    int rank, size;   /* of this process among all; 0 and 1 if nobody */
    int local_rank, local_size; /* among those on this host; 0 and 1 where it is not known */
    bool mpi;                   /* MPI can be started: the launcher speaks its language */
} launcher;

launcher launcher_find(void);

/* The cores that this process may use, if those on its host share them out: at least 1. A launcher that binds each
 * process to one core (Open MPI does with two or fewer, if it is not told otherwise) is overruled: from then on this
 * process and threads that it starts may run where the launcher itself may. What a person asked for by --bind-to, or
 * Slurm decided, stays. */
int launcher_share_cores(const launcher *l);

#endif
