/* Other programs, as children. */
#ifndef TRAIN_UTIL_PROCESS_H
#define TRAIN_UTIL_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a program of that name is on the PATH. */
bool process_exists(const char *program);

typedef struct process_limits {
    double seconds;        /* then it is killed */
    int64_t file_bytes;    /* of each file that it writes: it fails beyond; 0: any */
    bool (*stopped)(void); /* asked again and again: true kills it; NULL: never */
} process_limits;

/* Runs a program (argv[0] is looked up on the PATH, argv ends with NULL) in a folder (NULL: here) until it ends,
 * or kills it where a limit is reached. It reads nothing, and what it prints goes nowhere; Ctrl-C reaches it
 * too. Whether it ended with 0. */
bool process_run(const char *folder, const char *const argv[], process_limits limits);

#endif
