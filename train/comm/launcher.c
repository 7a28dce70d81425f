/* See launcher.h. */
#define _GNU_SOURCE 1 /* sched_setaffinity */
#include "comm/launcher.h"

#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* A variable that tells that the user chose the binding; `part`, if not NULL: only if its value has this text. */
typedef struct choice {
    const char *variable, *part;
} choice;

/* Environment variables of one launcher. size and rank must be set to numbers; local_size may be missing.
 * choices: NULL: the launcher's binding is never changed. */
typedef struct dialect {
    const char *name, *size, *rank, *local_size;
    const choice *choices;
    bool mpi;
} dialect;

/* --bind-to, --cpu-list, --cpu-set, a rankfile, --cpus-per-proc, --map-by slot:PE=4, and the old --bind-to-core */
static const choice open_mpi_choices[] = {
    {"OMPI_MCA_hwloc_base_binding_policy", NULL},  {"OMPI_MCA_hwloc_base_cpu_list", NULL},
    {"OMPI_MCA_hwloc_base_cpu_set", NULL},         {"OMPI_MCA_orte_rankfile", NULL},
    {"OMPI_MCA_rmaps_rank_file_path", NULL},       {"OMPI_MCA_rmaps_base_cpus_per_rank", NULL},
    {"OMPI_MCA_rmaps_base_mapping_policy", "PE="}, {"OMPI_MCA_hwloc_base_bind_to_core", NULL},
    {"OMPI_MCA_hwloc_base_bind_to_socket", NULL},  {NULL, NULL},
};

/* The first match wins: Open MPI and Hydra may themselves run in a job of Slurm. A batch script of Slurm is not a
 * step with tasks, hence SLURM_STEP_NUM_TASKS; srun supports MPI if given --mpi. Only Open MPI binds by default. */
static const dialect dialects[] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", open_mpi_choices,
     true},
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

static bool user_bound(const dialect *d)
{
    for (const choice *c = d->choices; c && c->variable; c++) {
        const char *value = getenv(c->variable);
        if (value && (!c->part || strcasestr(value, c->part)))
            return true;
    }
    return !d->choices;
}

static const dialect *find_dialect(void)
{
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
        const int size = number_of(dialects[i].size), rank = number_of(dialects[i].rank);
        if (size >= 1 && rank >= 0 && rank < size)
            return &dialects[i];
    }
    return NULL;
}

launcher launcher_find(void)
{
    const dialect *d = find_dialect();
    if (!d)
        return (launcher){.name = NULL, .size = 1, .local_size = 1};
    const int local_size = number_of(d->local_size);
    return (launcher){d->name, number_of(d->rank), number_of(d->size), local_size > 0 ? local_size : 1, d->mpi};
}

/* ---- Cores ----------------------------------------------------------------------------------------------------- */

/* True if a process was started as a rank: the variable is in its environment, as in that of every shell or wrapper
 * between the launcher and this process. */
static bool is_rank(pid_t process, const char *variable)
{
    char path[64], *entry = NULL;
    size_t capacity = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)process);
    FILE *f = fopen(path, "r");
    while (f && !found && getdelim(&entry, &capacity, '\0', f) > 0)
        found = strncmp(entry, variable, strlen(variable)) == 0 && entry[strlen(variable)] == '=';
    free(entry);
    if (f)
        fclose(f);
    return found;
}

/* 0: not known */
static pid_t parent_of(pid_t process)
{
    char path[64], text[256] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *f = fopen(path, "r");
    const char *name_end = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
    if (name_end && sscanf(name_end, ") %*c %d", &parent) != 1)
        parent = 0;
    if (f)
        fclose(f);
    return (pid_t)parent;
}

/* Cores of the launcher on this host: of the nearest ancestor that is no rank. Own cores if there is none to be seen,
 * as in a container. */
static cpu_set_t launchers_cores(const dialect *d, cpu_set_t own)
{
    cpu_set_t all;
    pid_t process = getppid();
    while (process > 0 && is_rank(process, d->rank))
        process = parent_of(process);
    return process > 0 && sched_getaffinity(process, sizeof all, &all) == 0 ? all : own;
}

/* Undoes the default binding of a launcher. libgomp counts the cores when the program is loaded; this runs before it
 * does, as choose_waiting in threads.c. */
__attribute__((constructor(101))) static void undo_default_binding(void)
{
    const dialect *d = find_dialect();
    cpu_set_t own;
    if (!d || user_bound(d) || sched_getaffinity(0, sizeof own, &own) != 0)
        return;
    const cpu_set_t all = launchers_cores(d, own);
    if (CPU_COUNT(&all) > CPU_COUNT(&own))
        sched_setaffinity(0, sizeof all, &all); /* where it fails, the binding stays */
}

int launcher_share_cores(void)
{
    const dialect *d = find_dialect();
    cpu_set_t own;
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return 1;
    if (!d)
        return CPU_COUNT(&own);
    const cpu_set_t all = launchers_cores(d, own);
    const int cores = CPU_COUNT(&own), most = CPU_COUNT(&all) > cores ? CPU_COUNT(&all) : cores;
    const int share = most / launcher_find().local_size;
    return share < 1 ? 1 : share < cores ? share : cores;
}
