/* Replacing a file at once: what is written goes to a temporary file in the same folder (PATH.tmp.PID), which takes
 * the file's place when all of it is on the disk. Until then, and if anything fails, the old file is as it was.
 *
 *     atomic_file r;
 *     status = atomic_begin(&r, path, err);
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
    const char *path; /* the caller's, as long as the atomic_file lives */
    int folder;       /* the open folder that it is in, < 0: the path says */
    char *temporary;  /* its name in that folder, or its path */
    int fd;           /* of the temporary file, -1: none */
} atomic_file;

scion_status atomic_begin(atomic_file *r, const char *path, scion_error *err);
/* The same for a file of an open folder, which the path ends in (file_in): another folder that has taken its name is
 * not touched. */
scion_status atomic_begin_in(atomic_file *r, int folder, const char *path, scion_error *err);
scion_status atomic_write(atomic_file *r, const void *data, size_t bytes, scion_error *err);
/* Writes over what was written from `at` on. */
scion_status atomic_write_at(atomic_file *r, size_t at, const void *data, size_t bytes, scion_error *err);
scion_status atomic_commit(atomic_file *r, scion_error *err);
void atomic_abort(atomic_file *r);

/* Makes `path` another name (a hard link) of the file `from` in the same folder, in the place of what was there; of
 * the open folder `folder` if that is >= 0. False: the file system has no such names; nothing has changed. */
bool atomic_link(int folder, const char *from, const char *path);

/* Removes the temporary files that processes which are no more (kill -9) left in a folder, given open (>= 0) or by
 * its path. Not while this process replaces a file in it. */
void atomic_remove_stale(int folder, const char *path);

#endif
