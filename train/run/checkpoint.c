/* Writing checkpoints. See checkpoint.h and, for the file, atomic_file.h. */
#include "run/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/fail.h"
#include "base/path.h"
#include "run/checkpoint_parts.h"
#include "base/atomic_file.h"

size_t checkpoint_item(const char *dtype)
{
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {
        {"F32", 4}, {"BF16", 2}, {"U8", 1},  {"I64", 8}, {"F64", 8},  {"F16", 2},     {"I32", 4},     {"U32", 4},
        {"U64", 8}, {"I16", 2},  {"U16", 2}, {"I8", 1},  {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].bytes;
    return 0;
}

bool checkpoint_bytes(const char *dtype, int ndim, const int64_t *shape, size_t *bytes)
{
    size_t count = checkpoint_item(dtype);
    bool ok = count > 0;
    for (int i = 0; i < ndim; i++)
        ok = ok && shape[i] >= 0 && !__builtin_mul_overflow(count, (size_t)shape[i], &count);
    *bytes = count;
    return ok;
}

uint64_t checkpoint_header_hash(const char *header, size_t length, size_t at)
{
    const size_t after = at + checkpoint_digits;
    return XXH3_64bits_withSeed(header + after, length - after, XXH3_64bits(header, at));
}

void checkpoint_hash_text(uint64_t hash, char text[32])
{
    snprintf(text, 32, CHECKPOINT_HASH "%016llx", (unsigned long long)hash);
}

/* ---- The header -------------------------------------------------------------------------------------------- */

/* A tensor and its place in the order given. */
typedef struct place {
    const checkpoint_tensor *tensor;
    int index;
} place;

static int larger_items_first(const void *a, const void *b)
{
    const place *x = a, *y = b;
    const size_t p = checkpoint_item(x->tensor->dtype), q = checkpoint_item(y->tensor->dtype);
    return p != q ? (p < q ? 1 : -1) : (x->index > y->index) - (x->index < y->index);
}

/* XXH3 of all tensors in a row. */
static bool hash_tensors(const place *order, int count, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return false;
    XXH3_64bits_reset(state);
    for (int i = 0; i < count; i++)
        if (order[i].tensor->bytes > 0)
            XXH3_64bits_update(state, order[i].tensor->data, order[i].tensor->bytes);
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return true;
}

/* A metadata entry, as text or, where that is no UTF-8, as hex digits. */
static bool add_meta(json_t *to, const char *key, const char *value)
{
    json_t *text = json_string(value);
    if (text)
        return json_object_set_new(to, key, text) == 0;
    const size_t length = strlen(value), key_bytes = strlen(key) + sizeof CHECKPOINT_HEX;
    char *digits = malloc(2 * length + 1), *hex_key = malloc(key_bytes);
    bool ok = digits && hex_key;
    if (ok) {
        snprintf(hex_key, key_bytes, "%s" CHECKPOINT_HEX, key);
        for (size_t i = 0; i < length; i++)
            snprintf(digits + 2 * i, 3, "%02x", (unsigned)(unsigned char)value[i]);
        ok = json_object_set_new(to, hex_key, json_string(digits)) == 0;
    }
    free(hex_key);
    free(digits);
    return ok;
}

static json_t *metadata(const checkpoint_meta *meta, int metas, uint64_t hash)
{
    json_t *to = json_object();
    char text[32];
    checkpoint_hash_text(hash, text);
    bool ok = json_object_set_new(to, CHECKPOINT_CHECKSUM, json_string(text)) == 0;
    checkpoint_hash_text(0, text);
    ok = ok && json_object_set_new(to, CHECKPOINT_HEADER_CHECKSUM, json_string(text)) == 0;
    for (int i = 0; ok && i < metas; i++)
        ok = add_meta(to, meta[i].key, meta[i].value);
    if (!ok) {
        json_decref(to);
        return NULL;
    }
    return to;
}

static json_t *describe(const checkpoint_tensor *t, size_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->ndim; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", t->dtype, "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + t->bytes));
}

/* The header as text with its checksum in place, padded with spaces so that the data start at a multiple of 8; NULL:
 * no memory. */
static char *make_header(const place *order, int count, const checkpoint_meta *meta, int metas, uint64_t hash,
                         size_t *length)
{
    json_t *root = json_object();
    size_t begin = 0;
    bool ok = json_object_set_new(root, CHECKPOINT_METADATA, metadata(meta, metas, hash)) == 0;
    for (int i = 0; ok && i < count; i++) {
        const checkpoint_tensor *t = order[i].tensor;
        ok = json_object_set_new(root, t->name, describe(t, begin)) == 0;
        begin += t->bytes;
    }
    char *text = ok ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text)
        return NULL;
    const size_t bare = strlen(text);
    *length = (bare + 7) / 8 * 8;
    char *header = malloc(*length + 1), *digits = header, sum[32];
    if (header) {
        memcpy(header, text, bare);
        memset(header + bare, ' ', *length - bare);
        header[*length] = '\0';
        digits = strstr(header, CHECKPOINT_DIGITS) + strlen(CHECKPOINT_DIGITS);
        checkpoint_hash_text(checkpoint_header_hash(header, *length, (size_t)(digits - header)), sum);
        memcpy(digits, sum + strlen(CHECKPOINT_HASH), checkpoint_digits);
    }
    free(text);
    return header;
}

/* ---- Checks and writing ------------------------------------------------------------------------------------ */

static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    json_decref(string);
    return string != NULL;
}

static scion_status check_tensor(const char *path, const checkpoint_tensor *t, const json_t *seen, scion_error *err)
{
    size_t bytes;
    if (!is_utf8(t->name) || strcmp(t->name, CHECKPOINT_METADATA) == 0 || json_object_get(seen, t->name))
        return train_fail(err, SCION_EINVAL, "%s: the name of tensor \"%.60s\" is taken or not UTF-8", path, t->name);
    if (t->ndim < 0 || t->ndim > 4 || !checkpoint_bytes(t->dtype, t->ndim, t->shape, &bytes) || bytes != t->bytes)
        return train_fail(err, SCION_EINVAL,
                          "%s: tensor \"%.60s\": type %.10s, %d dimensions and %zu bytes do not agree", path, t->name,
                          t->dtype, t->ndim, t->bytes);
    return SCION_OK;
}

static scion_status check_meta(const char *path, const char *key, const json_t *seen, scion_error *err)
{
    const size_t length = strlen(key), tail = strlen(CHECKPOINT_HEX);
    const bool hex = length >= tail && strcmp(key + (length - tail), CHECKPOINT_HEX) == 0;
    if (hex || !is_utf8(key) || json_object_get(seen, key) || strcmp(key, CHECKPOINT_CHECKSUM) == 0 ||
        strcmp(key, CHECKPOINT_HEADER_CHECKSUM) == 0)
        return train_fail(err, SCION_EINVAL, "%s: the metadata key \"%.60s\" is taken or not UTF-8", path, key);
    return SCION_OK;
}

static scion_status check_all(const char *path, const checkpoint_tensor *tensors, int count,
                              const checkpoint_meta *meta, int metas, scion_error *err)
{
    json_t *names = json_object(), *keys = json_object();
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && i < count; i++) {
        status = check_tensor(path, &tensors[i], names, err);
        if (status == SCION_OK)
            json_object_set_new(names, tensors[i].name, json_true());
    }
    for (int i = 0; status == SCION_OK && i < metas; i++) {
        status = check_meta(path, meta[i].key, keys, err);
        if (status == SCION_OK)
            json_object_set_new(keys, meta[i].key, json_true());
    }
    json_decref(names);
    json_decref(keys);
    return status;
}

static scion_status write_file(const char *path, const char *header, uint64_t length, const place *order, int count,
                               scion_error *err)
{
    atomic_file r;
    scion_status status = atomic_begin(&r, path, err);
    if (status == SCION_OK)
        status = atomic_write(&r, &length, checkpoint_prefix, err);
    if (status == SCION_OK)
        status = atomic_write(&r, header, (size_t)length, err);
    for (int i = 0; status == SCION_OK && i < count; i++)
        status = atomic_write(&r, order[i].tensor->data, order[i].tensor->bytes, err);
    if (status == SCION_OK)
        status = atomic_commit(&r, err);
    return status;
}

scion_status checkpoint_write(const char *path, const checkpoint_tensor *tensors, int count,
                              const checkpoint_meta *meta, int metas, scion_error *err)
{
    const char *shown = path_end(path);
    scion_status status = check_all(shown, tensors, count, meta, metas, err);
    place *order = status == SCION_OK ? malloc(((size_t)count + 1) * sizeof *order) : NULL;
    char *header = NULL;
    uint64_t hash;
    size_t length = 0;
    for (int i = 0; order && i < count; i++)
        order[i] = (place){&tensors[i], i};
    if (order && count > 1)
        qsort(order, (size_t)count, sizeof *order, larger_items_first);
    if (order && hash_tensors(order, count, &hash))
        header = make_header(order, count, meta, metas, hash, &length);
    if (status == SCION_OK && !header)
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory for its header", shown);
    if (status == SCION_OK && length > CHECKPOINT_HEADER_MOST)
        status = train_fail(err, SCION_EINVAL, "%s: the header would have %zu bytes, more than the format allows",
                            shown, length);
    if (status == SCION_OK)
        status = write_file(path, header, length, order, count, err);
    free(header);
    free(order);
    return status;
}
