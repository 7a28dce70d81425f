/* Replacing a file at once: what is written goes to a temporary file in the same folder (PATH.tmp.PID), which takes
 * the file's place when all of it is on the disk. Until then, and if anything fails, the old file is as it was.
 *
 *     replacement r;
 *     status = replace_begin(&r, path, err);
 *     if (status == SCION_OK)
 *         status = replace_write(&r, data, bytes, err);     any number of times, until one fails
 *     if (status == SCION_OK)
 *         status = replace_commit(&r, err);
 *
 * A call that fails has already removed the temporary file; replace_abort is for giving up without a failure. */
#ifndef TRAIN_RUN_REPLACE_H
#define TRAIN_RUN_REPLACE_H

#include <stddef.h>
#include <stdio.h>

#include "scion.h"

typedef struct replacement {
    const char *path; /* the caller's, as long as the replacement lives */
    char *temporary;
    FILE *file;
} replacement;

scion_status replace_begin(replacement *r, const char *path, scion_error *err);
scion_status replace_write(replacement *r, const void *data, size_t bytes, scion_error *err);
scion_status replace_commit(replacement *r, scion_error *err);
void replace_abort(replacement *r);

/* Removes the temporary files that processes which are no more (kill -9) left in a folder. Not while this process
 * replaces a file in it. */
void replace_sweep(const char *folder);

#endif
