/* Small files of every kind of data, in a folder of their own, and ways to open what is in them. */
#ifndef SCION_TESTS_DATA_FILES_H
#define SCION_TESTS_DATA_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "data/data.h"

enum { FILES_PATH = 512 };

/* Group setup and teardown: an empty folder, and its end with all that is in it. */
int files_setup(void **state);
int files_teardown(void **state);

/* Path of a name in the folder; valid until sixteen more were asked for. */
const char *files_path(const char *name);
/* Writes a file (folders in its name are made) and returns its path, as above. */
const char *files_write(const char *name, const void *bytes, size_t n);
const char *files_text(const char *name, const char *text);
const char *files_write_gz(const char *name, const void *bytes, size_t n);
/* Reads a file in the folder, at most `max` bytes. */
size_t files_read(const char *name, void *bytes, size_t max);

/* ---- Formats: fill `to` and return the number of bytes ------------------------------------------------- */

enum { SHARD_HEAD = 1024, CIFAR_RECORD = 3073 };

/* tokens first, first + 1, ... modulo vocab */
size_t shard_bytes(uint8_t *to, int32_t count, int32_t first, int32_t vocab);
/* Image i: pixel k is (7 i + k) mod 256. */
size_t idx_images(uint8_t *to, int count, int height, int width);
/* Label i is i mod classes. */
size_t idx_labels(uint8_t *to, int count, int classes);
/* A whole folder of idx files: `train` and `val` images. */
void idx_folder(const char *folder, int train, int val, int height, int width, int classes, int gz);
/* Six files of CIFAR-10 with `records` each. Over all files in order, record i has the label i mod 10, its first two
 * pixels spell i, and the rest of the pixels of channel c are (i + 50 c) mod 256. */
void cifar_folder(const char *folder, int records);

/* ---- Opening ------------------------------------------------------------------------------------------- */

/* Fields of data_options and data_context. */
typedef struct data_case {
    const char *kind, *path, *val; /* NULL: "auto", none, none */
    double val_fraction;
    int64_t vocab, block; /* block 0: 1 */
    uint64_t seed;
    const char *vocabulary; /* characters, as a model of them has saved them; NULL: none */
    const char *wants;
} data_case;

scion_status open_case(data_set **out, const data_case *c, scion_error *err);
/* The same with settings "key=value", ended by NULL. */
scion_status open_pairs(data_set **out, const char *path, const data_context *context, const char *const pairs[],
                        scion_error *err);
/* Opens or fails the test. */
data_set *must_open(const data_case *c);
/* Must not open; the sentence must have all of the NULL-ended words in it, be whole and end there. */
void must_refuse(const data_case *c, ...);

/* The vocabulary that a set's tokenizer saves, until the next call. */
const char *vocabulary_of(const data_set *d);
/* Encodes a text, as the tokenizer of a set does; returns the number of tokens, -1: err says why not. */
int64_t encode_text(const data_set *d, const char *text, int32_t *tokens, scion_error *err);
/* Decodes a token to a string; returns its length, 0: there is no such token. */
int decode_token(const data_set *d, int32_t token, char text[8]);

/* Batches that cover a part once, rounded up. */
int64_t batches_in(const data_set *d, data_part part, int64_t batch);
/* Batch `index` of a part: the set's two arrays. */
void must_fill(const data_set *d, data_part part, int64_t index, int64_t batch, void *inputs, int32_t *targets);
/* The range of the targets: symbols or classes. */
int64_t range_of(const data_set *d);

/* ---- Random numbers ------------------------------------------------------------------------------------ */

/* Seed of the run: SCION_TEST_SEED or a fixed number; printed once. */
uint64_t files_seed(void);
uint64_t files_random(uint64_t *state);

#endif
