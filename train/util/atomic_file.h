/* Replacing a file atomically: data are written to a temporary file in the same folder (PATH.tmp.PID), which is
 * renamed when all of it is on the disk. Until then, and after an error, the old file is unchanged.
 *
 *     atomic_file r;
 *     status = atomic_begin(&r, -1, path, err);
 *     if (status == SCION_OK)
 *         status = atomic_write(&r, data, bytes, err);     any number of times, until one fails; not buffered
 *     if (status == SCION_OK)
 *         status = atomic_commit(&r, err);
 *
 * A call that fails has already removed the temporary file; atomic_abort is for giving up without a failure. */
#ifndef TRAIN_UTIL_ATOMIC_FILE_H
#define TRAIN_UTIL_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "scion.h"

typedef struct atomic_file {
    const char *path; /* the caller's; must outlive the atomic_file */
    int folder;       /* its open folder; < 0: use the path */
    char *temporary;  /* its name in that folder, or its path */
    int fd;           /* of the temporary file, -1: none */
    bool replaces;    /* there was a file of this name */
} atomic_file;

/* folder: open, so that a folder that has since taken its name is not touched (file_in); < 0: the path itself. */
scion_status atomic_begin(atomic_file *r, int folder, const char *path, scion_error *err);
scion_status atomic_write(atomic_file *r, const void *data, size_t bytes, scion_error *err);
/* Overwrites bytes written before, from `at` on. */
scion_status atomic_write_at(atomic_file *r, size_t at, const void *data, size_t bytes, scion_error *err);
scion_status atomic_commit(atomic_file *r, scion_error *err);
void atomic_abort(atomic_file *r);
/* Replaces a file by these bytes at once: begin, write, commit. */
scion_status atomic_save(int folder, const char *path, const void *data, size_t bytes, scion_error *err);

/* Writes a text where a user wants it: replaces a file, writes to a device or a pipe, or prints it with a newline at
 * its end where the path is "-". */
scion_status atomic_print(const char *path, const char *text, scion_error *err);

/* Makes `path` a hard link to the file `from` in the same folder (the open `folder` if >= 0), replacing what was
 * there. False: the file system has no hard links; nothing has changed. */
bool atomic_link(int folder, const char *from, const char *path);

/* Removes temporary files that dead processes (kill -9) left in a folder, given open (>= 0) or by its path. Not while
 * this process replaces a file in it. */
void atomic_remove_stale(int folder, const char *path);

#endif
