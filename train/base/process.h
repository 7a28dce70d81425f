/* Other programs, as children. */
#ifndef TRAIN_BASE_PROCESS_H
#define TRAIN_BASE_PROCESS_H

#include <stdbool.h>

/* Whether a program of that name is on the PATH. */
bool process_exists(const char *program);

/* Runs a program (argv[0] is looked up on the PATH, argv ends with NULL) in a folder (NULL: here) until it ends,
 * or kills it when `seconds` have passed. It reads nothing, and what it prints goes nowhere; Ctrl-C reaches it
 * too. Whether it ended with 0. */
bool process_run(const char *folder, const char *const argv[], double seconds);

#endif
