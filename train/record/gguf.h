/* Reads GGUF files, versions 2 and 3, little-endian: key-value pairs and the list of tensors (export_gguf.c writes
 * them). The file is mapped and nothing in it is trusted: every count, length and offset is checked against the size
 * of the file before it is used. */
#ifndef TRAIN_RECORD_GGUF_H
#define TRAIN_RECORD_GGUF_H

#include <stddef.h>
#include <stdint.h>

#include "scion.h"

typedef enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
} gguf_type;

/* One value. Strings lie in the file, and are not ended by a 0. */
typedef struct gguf_value {
    gguf_type type;
    uint64_t whole; /* unsigned numbers, BOOL; of an ARRAY: how many items */
    int64_t sign;   /* signed numbers */
    double real;
    const char *text; /* STRING; of an ARRAY: its first item */
    size_t bytes;
    gguf_type items; /* ARRAY: their type, which is not ARRAY */
} gguf_value;

typedef struct gguf_pair {
    char *key; /* UTF-8 */
    gguf_value value;
} gguf_pair;

typedef struct gguf_tensor {
    char *name;       /* UTF-8 */
    int ndim;         /* 0 to 4 */
    int64_t shape[4]; /* rows first, as elsewhere in this program: the reverse of the file */
    int64_t count;    /* entries */
    uint32_t type;
    const char *type_name; /* "BF16"; NULL: a type that is not known here */
    uint64_t offset;       /* in the data */
    size_t bytes;          /* 0: the type is not known */
} gguf_tensor;

typedef struct gguf {
    char *mapped;
    size_t size;
    uint32_t version;
    gguf_pair *pairs;
    int64_t pair_count;
    gguf_tensor *tensors;
    int64_t tensor_count;
    uint64_t alignment;
    size_t data; /* where the data of tensors begin */
} gguf;

/* Opens a file. Errors name the file and what is wrong: EINVAL if it cannot be opened, ESTATE if it is damaged, no
 * GGUF file, or of a version that is not read. On failure *out is NULL. */
scion_status gguf_open(gguf **out, const char *path, scion_error *err);
void gguf_close(gguf *g);
/* The value of a key; NULL: none. */
const gguf_value *gguf_find(const gguf *g, const char *key);
/* Item i of an ARRAY, 0 <= i < whole; items of strings are found by walking from the first: ask in order, *at is 0
 * before the first. */
gguf_value gguf_item(const gguf_value *array, uint64_t i, size_t *at);

#endif
