/* Paths in messages, and of the program itself. */
#ifndef TRAIN_UTIL_PATH_H
#define TRAIN_UTIL_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* The end of a path, at most `max` bytes, from the start of a name if possible. */
const char *path_tail(const char *path, size_t max);
/* The same, short enough for a message about what is wrong with the file. */
const char *path_end(const char *path);

/* The program's own file, and a path relative to its folder. False: unknown, or longer than `bytes`. */
bool path_of_program(char *path, size_t bytes);
bool path_beside_program(const char *relative, char *path, size_t bytes);

#endif
