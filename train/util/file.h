/* Files, folders and their names. */
#ifndef TRAIN_UTIL_FILE_H
#define TRAIN_UTIL_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "scion.h"

bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* True if two paths lead to the same file; false if one of them does not exist. */
bool file_same(const char *a, const char *b);

/* Arguments of openat and similar calls, file_at(folder) and file_in(folder, path): the last name of a path in the
 * open folder, even if the rest of the path has changed; folder < 0: the path itself. */
int file_at(int folder);
const char *file_in(int folder, const char *path);
/* True if an open folder was removed (rm -r): nothing can be created in it. */
bool file_folder_gone(int folder);
/* Opens a folder for readdir, given open (>= 0) or by its path. NULL: it cannot be read. */
DIR *file_list(int folder, const char *path);

/* Maps a regular file to read; *bytes is NULL if it is empty. Errors name the file. file_unmap takes NULL too. */
scion_status file_map(const char *path, char **bytes, size_t *size, scion_error *err);
void file_unmap(char *bytes, size_t size);

/* fsync, repeated when interrupted: of an open file, and of the folder of a path. */
int file_flush(int fd);
void file_flush_folder(const char *path);

/* Makes a folder and its parents, where they do not exist. */
scion_status file_make_folder(const char *path, scion_error *err);

/* The last name of a path, without slashes after it and without `ending` (".ini"; NULL: keep it). */
void file_name(const char *path, const char *ending, char *name, size_t bytes);

#endif
