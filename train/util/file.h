/* Files, folders and their names. */
#ifndef TRAIN_UTIL_FILE_H
#define TRAIN_UTIL_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "scion.h"

bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* Whether two paths lead to one file; false if one of them leads nowhere. */
bool file_same(const char *a, const char *b);

/* A path whose last name is looked up in the open folder `folder`, whatever has become of the rest of the path;
 * folder < 0: the path itself. For openat and its kin: file_at(folder), file_in(folder, path). */
int file_at(int folder);
const char *file_in(int folder, const char *path);
/* Whether an open folder was removed (rm -r): nothing can be made in it any more. */
bool file_folder_gone(int folder);
/* The names in a folder, given open (>= 0) or by its path: for readdir and closedir. NULL: it cannot be read. */
DIR *file_list(int folder, const char *path);

/* fsync, which is not given up when interrupted; of an open file, and of the folder that a path lies in. */
int file_flush(int fd);
void file_flush_folder(const char *path);

/* Makes a folder and those above it; one that exists is fine. */
scion_status file_make_folder(const char *path, scion_error *err);

/* The last name of a path, without slashes after it and without `ending` (".ini"; NULL: keep it). */
void file_name(const char *path, const char *ending, char *name, size_t bytes);

#endif
