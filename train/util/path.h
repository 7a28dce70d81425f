/* Paths in messages. */
#ifndef TRAIN_UTIL_PATH_H
#define TRAIN_UTIL_PATH_H

/* The end of a long path, so that a message has room for what is wrong. */
const char *path_end(const char *path);

#endif
