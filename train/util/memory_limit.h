/* Memory that this process may use: the machine's, or less, where a limit is lower. */
#ifndef TRAIN_UTIL_MEMORY_LIMIT_H
#define TRAIN_UTIL_MEMORY_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct memory_limit {
    size_t bytes;     /* 0: unknown */
    const char *what; /* source of the limit, before a number: "this machine has" */
    bool left;        /* memory in use already is subtracted */
} memory_limit;

/* The lowest of: the machine's memory; the limits of its cgroup and those above it (containers, systemd; versions 1
 * and 2); what RLIMIT_AS (ulimit -v) and RLIMIT_DATA (ulimit -d) leave after memory in use and the stacks of
 * `threads` threads. root: "", or a folder in the place of /, for tests. */
memory_limit memory_usable(const char *root, int threads);

#endif
