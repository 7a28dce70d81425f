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
    bool bound;       /* the user or Slurm decided how processes are bound, not the launcher's default */
} launcher;

launcher launcher_find(void);

/* This process's share of the cores of its host, at least 1. Undoes the default of launchers that bind each process
 * to one core (Open MPI with two or fewer processes): from then on this process and its threads may run on all cores
 * of the launcher. A binding that the user chose (--bind-to) or Slurm is kept. */
int launcher_share_cores(const launcher *l);

#endif
