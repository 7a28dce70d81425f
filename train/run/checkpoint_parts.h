/* What writing and reading a checkpoint share. */
#ifndef TRAIN_RUN_CHECKPOINT_PARTS_H
#define TRAIN_RUN_CHECKPOINT_PARTS_H

#include "run/checkpoint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors files are little-endian");

#define CHECKPOINT_METADATA "__metadata__"
#define CHECKPOINT_CHECKSUM "checksum"
#define CHECKPOINT_HEADER_CHECKSUM "header_checksum"
#define CHECKPOINT_HASH "xxh3-64:"
#define CHECKPOINT_HEX ".hex"
/* What stands before the digits of the header's checksum, in the header as it is written. No string of JSON can hold
 * these bytes, for its quotation marks are escaped. */
#define CHECKPOINT_DIGITS "\"" CHECKPOINT_HEADER_CHECKSUM "\":\"" CHECKPOINT_HASH

enum { checkpoint_digits = 16, checkpoint_prefix = 8 /* bytes of the header's length */ };

/* Largest header that the format allows. */
#define CHECKPOINT_HEADER_MOST ((size_t)100000000)

/* Bytes of one element, 0: there is no such type. */
size_t checkpoint_item(const char *dtype);

/* Bytes of a tensor; false: no such type, a negative dimension, or more than fits in a number. */
bool checkpoint_bytes(const char *dtype, int ndim, const int64_t *shape, size_t *bytes);

/* Hash of the header but for the digits that start at `at`: of what precedes them, then, seeded by that, of what
 * follows. */
uint64_t checkpoint_header_hash(const char *header, size_t length, size_t at);

/* CHECKPOINT_HASH and the digits. */
void checkpoint_hash_text(uint64_t hash, char text[32]);

#endif
