/* Checkpoints: safetensors files (8 bytes of header length, a JSON header, then raw little-endian arrays), which
 * Python's safetensors package loads. Written under a temporary name, flushed to disk, renamed: a file
 * that can be found is whole. Two entries of the metadata reveal a change of any byte:
 *     checksum         "xxh3-64:" and 16 hex digits: XXH3-64 of all tensor bytes in the order of the file
 *     header_checksum  the same of the header, padding included, without these 16 digits
 * A metadata value that is not UTF-8, which JSON cannot hold, is stored as hex digits under its key and ".hex". */
#ifndef TRAIN_RECORD_CHECKPOINT_H
#define TRAIN_RECORD_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

typedef struct checkpoint_tensor {
    const char *name;
    const char *dtype; /* "F32", "BF16", "U8", "I64", and the other types of the format */
    int ndim;          /* 0 to 4 */
    int64_t shape[4];
    const void *data; /* reading: points into the mapped file; files of other programs may not align it */
    size_t bytes;
} checkpoint_tensor;

typedef struct checkpoint_meta {
    const char *key, *value; /* value NULL: left out when writing */
} checkpoint_meta;

/* Gives `bytes` bytes of tensor i from `at` on, CHECKPOINT_PIECE at most, valid until it is called again. */
enum { CHECKPOINT_PIECE = 1 << 22 }; /* a multiple of every type's size */
typedef const void *checkpoint_fetch(void *ctx, int i, size_t at, size_t bytes);

typedef struct checkpoint_contents {
    const checkpoint_tensor *tensors;
    int count;
    const checkpoint_meta *meta; /* the keys of the checksums are not for the caller */
    int metas;
    checkpoint_fetch *fetch; /* of tensors whose data is NULL, because it is elsewhere; each is asked for once */
    void *ctx;
} checkpoint_contents;

/* Writes path, into the open folder `folder` if that is >= 0 (file.h). Tensors are laid out by the size of their
 * type, largest first, so that all are aligned, and otherwise in the order given. On failure (full disk, no
 * permission) the old file is as it was, no temporary file is left, and err names the file and the reason. */
scion_status checkpoint_write(int folder, const char *path, const checkpoint_contents *c, scion_error *err);

typedef struct checkpoint checkpoint;

/* Maps a file and checks it: header, offsets, sizes against shapes, overlaps, checksums where there are any (files of
 * other programs have none). Errors name the file and what is wrong: EINVAL if it cannot be opened, ESTATE if it is
 * damaged or no safetensors file. On failure *out is NULL. */
scion_status checkpoint_open(checkpoint **out, const char *path, scion_error *err);
void checkpoint_close(checkpoint *c);
/* True if the file has our checksums, with which every byte was checked. Ask for it where a file of checkpoint_write
 * is expected: damage that hits both checksums' names makes a file look like another program's. */
bool checkpoint_verified(const checkpoint *c);
/* NULL: there is none of that name. Valid until close. */
const checkpoint_tensor *checkpoint_find(const checkpoint *c, const char *name);
const checkpoint_tensor *checkpoint_at(const checkpoint *c, int i); /* by name; NULL past the last */
const char *checkpoint_get(const checkpoint *c, const char *key);   /* metadata */

#endif
