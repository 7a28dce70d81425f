/* See launcher.h. */
#define _GNU_SOURCE 1 /* sched_setaffinity */
#include "comm/launcher.h"

#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* Environment variables of one launcher. size and rank must be set to numbers; local_size may be missing.
 * `binding` is set if the user chose how processes are bound; NULL: the launcher's binding is never changed. */
typedef struct dialect {
    const char *name, *size, *rank, *local_size;
    const char *binding;
    bool mpi;
} dialect;

/* The first match wins: Open MPI and Hydra may themselves run in a job of Slurm. A batch script of Slurm is not a
 * step with tasks, hence SLURM_STEP_NUM_TASKS; srun supports MPI if given --mpi. */
static const dialect dialects[] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_MCA_hwloc_base_binding_policy", true},
    {"MPICH", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", NULL, true},
    {"Slurm with PMIx", "SLURM_STEP_NUM_TASKS", "PMIX_RANK", "SLURM_STEP_TASKS_PER_NODE", NULL, true},
    {"Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", NULL, false},
};

/* Number at the start of a variable ("2(x3)": two tasks on each of three nodes); -1: none. */
static int number_of(const char *variable)
{
    const char *text = variable ? getenv(variable) : NULL;
    char *end;
    const long n = text ? strtol(text, &end, 10) : -1;
    return text && end != text && n >= 0 && n < INT_MAX ? (int)n : -1;
}

launcher launcher_find(void)
{
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
        const dialect *d = &dialects[i];
        const int size = number_of(d->size), rank = number_of(d->rank);
        if (size < 1 || rank < 0 || rank >= size)
            continue;
        const int local_size = number_of(d->local_size);
        return (launcher){
            d->name, rank, size, local_size > 0 ? local_size : 1, d->mpi, !d->binding || getenv(d->binding)};
    }
    return (launcher){.name = NULL, .size = 1, .local_size = 1};
}

int launcher_share_cores(const launcher *l)
{
    cpu_set_t own, parents;
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return 1;
    /* fewer cores than the launcher itself has: bound */
    bool bound = l->local_size > 1 && sched_getaffinity(getppid(), sizeof parents, &parents) == 0 &&
                 CPU_COUNT(&parents) > CPU_COUNT(&own);
    if (bound && !l->bound && sched_setaffinity(0, sizeof parents, &parents) == 0) {
        own = parents;
        bound = false;
    }
    const int cores = CPU_COUNT(&own), share = bound ? cores : cores / l->local_size;
    return share > 1 ? share : 1;
}
