/* Files, folders and their names. */
#ifndef TRAIN_BASE_FILE_H
#define TRAIN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "scion.h"

bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* Whether two paths lead to one file; false if one of them leads nowhere. */
bool file_same(const char *a, const char *b);

/* Makes a folder and those above it; one that exists is fine. */
scion_status file_make_folder(const char *path, scion_error *err);

/* The last name of a path, without slashes after it and without `ending` (".ini"; NULL: keep it). */
void file_name(const char *path, const char *ending, char *name, size_t bytes);

#endif
