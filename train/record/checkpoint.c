/* See checkpoint.h and, for the file, atomic_file.h. Reading maps the file and trusts nothing in it: every length,
 * offset and shape is checked against the size of the file, without overflow, before it is used. */
#define _GNU_SOURCE 1 /* asprintf, memmem */
#include "record/checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"
#include "util/utf8.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors files are little-endian");

#define METADATA "__metadata__"
#define CHECKSUM "checksum"
#define HEADER_CHECKSUM "header_checksum"
#define HASH "xxh3-64:"
#define HEX ".hex"
/* The bytes before the digits of a checksum, in the header as it is written. No string of JSON can hold these bytes,
 * because its quotation marks are escaped. */
#define BEFORE_DIGITS(key) "\"" key "\":\"" HASH

enum { hash_digits = 16, prefix_bytes = 8 /* of the header's length */ };

/* Largest header that the format allows. */
static const size_t header_max = 100000000;

/* Bytes of one element, 0: there is no such type. */
static size_t item_bytes(const char *dtype)
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

/* Bytes of a tensor; false: no such type, a negative dimension, or more than fits in a number. */
static bool tensor_bytes(const char *dtype, int ndim, const int64_t *shape, size_t *bytes)
{
    size_t count = item_bytes(dtype);
    bool ok = count > 0;
    for (int i = 0; i < ndim; i++)
        ok = ok && shape[i] >= 0 && !__builtin_mul_overflow(count, (size_t)shape[i], &count);
    *bytes = count;
    return ok;
}

/* Hash of the header without the digits that start at `at`; the part before them seeds that of the part after. */
static uint64_t header_hash(const char *header, size_t length, size_t at)
{
    const size_t after = at + hash_digits;
    return XXH3_64bits_withSeed(header + after, length - after, XXH3_64bits(header, at));
}

/* Place of the digits after `mark` in a header, 0: there are none. */
static size_t find_digits(const char *header, size_t length, const char *mark)
{
    const char *at = memmem(header, length, mark, strlen(mark));
    const size_t start = at ? (size_t)(at - header) + strlen(mark) : 0;
    return start + hash_digits <= length ? start : 0;
}

/* HASH and the digits. */
static void hash_text(uint64_t hash, char text[32])
{
    snprintf(text, 32, HASH "%016llx", (unsigned long long)hash);
}

static bool is_hex_key(const char *key)
{
    const size_t length = strlen(key), tail = strlen(HEX);
    return length >= tail && strcmp(key + (length - tail), HEX) == 0;
}

/* ---- Writing: the header --------------------------------------------------- */

/* True if JSON can take a name: it is new in the object, and UTF-8. */
static bool is_free(const json_t *in, const char *name)
{
    return !json_object_get(in, name) && utf8_bytes(name, strlen(name)) == strlen(name);
}

/* Adds a metadata entry, as text or, where that is no UTF-8, as hex digits. */
static bool add_meta(json_t *to, const char *key, const char *value)
{
    json_t *text = json_string(value);
    if (text)
        return json_object_set_new(to, key, text) == 0;
    const size_t length = strlen(value);
    char *digits = malloc(2 * length + 1), *hex_key = NULL;
    bool ok = digits && asprintf(&hex_key, "%s" HEX, key) >= 0;
    for (size_t i = 0; ok && i < length; i++)
        snprintf(digits + 2 * i, 3, "%02x", (unsigned)(unsigned char)value[i]);
    ok = ok && json_object_set_new(to, hex_key, json_string(digits)) == 0;
    free(hex_key);
    free(digits);
    return ok;
}

static json_t *describe(const checkpoint_tensor *t, size_t begin)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->ndim; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", t->dtype, "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + t->bytes));
}

/* The header as a JSON object, with zeros for the checksums; order: the tensors as they follow in the file. */
static scion_status fill_header(json_t *root, const checkpoint_contents *c, const checkpoint_tensor *const *order,
                                const char *shown, scion_error *err)
{
    char zeros[32];
    hash_text(0, zeros);
    json_t *meta = json_pack("{s:s, s:s}", CHECKSUM, zeros, HEADER_CHECKSUM, zeros);
    bool ok = json_object_set_new(root, METADATA, meta) == 0;
    for (int i = 0; ok && i < c->metas; i++) {
        if (!c->meta[i].value)
            continue;
        if (is_hex_key(c->meta[i].key) || !is_free(meta, c->meta[i].key))
            return train_fail(err, SCION_EINVAL, "%s: the metadata key \"%.60s\" is taken or not UTF-8", shown,
                              c->meta[i].key);
        ok = add_meta(meta, c->meta[i].key, c->meta[i].value);
    }
    size_t begin = 0;
    for (int i = 0; ok && i < c->count; begin += order[i++]->bytes) {
        if (!is_free(root, order[i]->name))
            return train_fail(err, SCION_EINVAL, "%s: the name of tensor \"%.60s\" is taken or not UTF-8", shown,
                              order[i]->name);
        ok = json_object_set_new(root, order[i]->name, describe(order[i], begin)) == 0;
    }
    return ok ? SCION_OK : train_fail(err, SCION_ENOMEM, "%s: out of memory for its header", shown);
}

/* The header as text, padded with spaces so that the data start at a multiple of 8. */
static scion_status make_header(char **header, size_t *length, const checkpoint_contents *c,
                                const checkpoint_tensor *const *order, const char *shown, scion_error *err)
{
    json_t *root = json_object();
    char *text = NULL;
    scion_status status = SCION_OK;
    TRY(fill_header(root, c, order, shown, err));
    text = json_dumps(root, JSON_COMPACT);
    *length = text ? (strlen(text) + 7) / 8 * 8 : 0;
    if (*length > header_max)
        TRY(train_fail(err, SCION_EINVAL, "%s: the header would have %zu bytes, more than the format allows", shown,
                       *length));
    if (!text || asprintf(header, "%-*s", (int)*length, text) < 0)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory for its header", shown));
done:
    free(text);
    json_decref(root);
    return status;
}

/* Puts the digits of a checksum into the header. */
static void put_digits(char *header, size_t at, uint64_t hash)
{
    char text[32];
    hash_text(hash, text);
    memcpy(header + at, text + strlen(HASH), hash_digits);
}

/* ---- Writing: the file --------------------------------------------------- */

/* Lists the tensors by the size of their type, largest first. */
static scion_status order_tensors(const checkpoint_contents *c, const checkpoint_tensor **order, const char *shown,
                                  scion_error *err)
{
    int n = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (int i = 0; i < c->count; i++)
            if (item_bytes(c->tensors[i].dtype) == size)
                order[n++] = &c->tensors[i];
    for (int i = 0; i < c->count; i++) {
        const checkpoint_tensor *t = &c->tensors[i];
        size_t bytes;
        if (t->ndim < 0 || t->ndim > 4 || !tensor_bytes(t->dtype, t->ndim, t->shape, &bytes) || bytes != t->bytes)
            return train_fail(err, SCION_EINVAL,
                              "%s: tensor \"%.60s\": type %.10s, %d dimensions and %zu bytes do not agree", shown,
                              t->name, t->dtype, t->ndim, t->bytes);
    }
    return SCION_OK;
}

/* Writes a tensor and adds it to the checksum. */
static scion_status write_tensor(atomic_file *r, const checkpoint_contents *c, const checkpoint_tensor *t,
                                 XXH3_state_t *hash, scion_error *err)
{
    scion_status status = SCION_OK;
    for (size_t at = 0, n; status == SCION_OK && at < t->bytes; at += n) {
        n = t->bytes - at < CHECKPOINT_PIECE ? t->bytes - at : CHECKPOINT_PIECE;
        const void *from = t->data ? (const char *)t->data + at : c->fetch(c->ctx, (int)(t - c->tensors), at, n);
        XXH3_64bits_update(hash, from, n);
        status = atomic_write(r, from, n, err);
    }
    return status;
}

/* The tensors are read once: the header, which has their checksum, is written before them and again after them. */
scion_status checkpoint_write(int folder, const char *path, const checkpoint_contents *c, scion_error *err)
{
    const char *shown = path_end(path);
    const checkpoint_tensor **order = malloc(((size_t)c->count + 1) * sizeof *order);
    XXH3_state_t *hash = XXH3_createState();
    char *header = NULL;
    size_t length = 0;
    atomic_file r;
    scion_status status = SCION_OK;
    if (!order || !hash)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory for its header", shown));
    TRY(order_tensors(c, order, shown, err));
    TRY(make_header(&header, &length, c, order, shown, err));
    const uint64_t prefix = length;
    TRY(atomic_begin(&r, folder, path, err));
    TRY(atomic_write(&r, &prefix, prefix_bytes, err));
    TRY(atomic_write(&r, header, length, err));
    XXH3_64bits_reset(hash);
    for (int i = 0; i < c->count; i++)
        TRY(write_tensor(&r, c, order[i], hash, err));
    put_digits(header, find_digits(header, length, BEFORE_DIGITS(CHECKSUM)), XXH3_64bits_digest(hash));
    const size_t at = find_digits(header, length, BEFORE_DIGITS(HEADER_CHECKSUM));
    put_digits(header, at, header_hash(header, length, at));
    TRY(atomic_write_at(&r, prefix_bytes, header, length, err));
    TRY(atomic_commit(&r, err));
done:
    free(header);
    XXH3_freeState(hash);
    free(order);
    return status;
}

struct checkpoint {
    char *bytes; /* the mapped file */
    size_t size;
    const char *header, *data;
    size_t header_length, data_size;
    json_t *root;               /* names and metadata live in it */
    checkpoint_tensor *tensors; /* in the order of their names */
    int count;
};

/* ---- Reading: one tensor --------------------------------------------------- */

static bool read_size(const json_t *value, int64_t *size)
{
    *size = json_is_integer(value) ? json_integer_value(value) : -1;
    return *size >= 0;
}

/* Fills in *t from a tensor's entry. Returns what is wrong with it; NULL: nothing. */
static const char *read_tensor(const checkpoint *c, const char *name, json_t *entry, checkpoint_tensor *t)
{
    json_t *shape, *first, *last;
    int64_t begin, end;
    size_t bytes;
    *t = (checkpoint_tensor){.name = name};
    if (json_unpack_ex(entry, NULL, JSON_STRICT, "{s:s, s:o, s:[o,o]}", "dtype", &t->dtype, "shape", &shape,
                       "data_offsets", &first, &last) != 0 ||
        !json_is_array(shape))
        return "its entry is not a dtype, a shape and two data_offsets";
    if (item_bytes(t->dtype) == 0)
        return "its dtype is unknown";
    if (json_array_size(shape) > 4)
        return "it has more than 4 dimensions";
    t->ndim = (int)json_array_size(shape);
    for (int i = 0; i < t->ndim; i++)
        if (!read_size(json_array_get(shape, (size_t)i), &t->shape[i]))
            return "its shape holds something else than sizes";
    if (!read_size(first, &begin) || !read_size(last, &end) || begin > end)
        return "its data_offsets are not two sizes in ascending order";
    if ((uint64_t)end > c->data_size)
        return "its data lie beyond the end of the file, which may be truncated";
    if (!tensor_bytes(t->dtype, t->ndim, t->shape, &bytes) || bytes != (size_t)(end - begin))
        return "its data_offsets do not agree with its shape and dtype";
    t->data = c->data + begin;
    t->bytes = bytes;
    return NULL;
}

static int by_place(const void *a, const void *b)
{
    const checkpoint_tensor *x = a, *y = b;
    const char *p = x->data, *q = y->data;
    return p != q ? (p > q ? 1 : -1) : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b)
{
    const checkpoint_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* ---- Reading: the whole --------------------------------------------------- */

static scion_status damaged(const char *path, const char *what, scion_error *err)
{
    return train_fail(err, SCION_ESTATE, "%s: %s", path_end(path), what);
}

static scion_status bad_tensor(const char *path, const char *name, const char *what, scion_error *err)
{
    return train_fail(err, SCION_ESTATE, "%s: tensor \"%.40s\": %s", path_end(path), name, what);
}

static scion_status map_file(checkpoint *c, const char *path, scion_error *err)
{
    RETURN_IF_FAILED(file_map(path, &c->bytes, &c->size, err));
    if (c->size <= prefix_bytes)
        return train_fail(err, SCION_ESTATE, "%s: has only %zu bytes: truncated, or not a safetensors file",
                          path_end(path), c->size);
    return SCION_OK;
}

static scion_status read_header(checkpoint *c, const char *path, scion_error *err)
{
    const size_t rest = c->size - prefix_bytes;
    uint64_t length;
    json_error_t why;
    memcpy(&length, c->bytes, sizeof length);
    if (length > rest)
        return train_fail(err, SCION_ESTATE,
                          "%s: its header should have %llu bytes, but the file has %zu: truncated, or not a "
                          "safetensors file",
                          path_end(path), (unsigned long long)length, c->size);
    if (length > header_max)
        return damaged(path, "its header is larger than the format allows", err);
    c->header = c->bytes + prefix_bytes;
    c->header_length = (size_t)length;
    c->data = c->header + length;
    c->data_size = rest - (size_t)length;
    if (length == 0 || c->header[0] != '{')
        return damaged(path, "its header does not start with {: not a safetensors file", err);
    c->root = json_loadb(c->header, c->header_length, JSON_REJECT_DUPLICATES, &why);
    if (!c->root)
        return train_fail(err, SCION_ESTATE, "%s: its header is not valid JSON: %.90s", path_end(path), why.text);
    return SCION_OK;
}

static scion_status read_tensors(checkpoint *c, const char *path, scion_error *err)
{
    const size_t entries = json_object_size(c->root);
    const char *name, *expected = c->data;
    json_t *entry;
    if (entries >= INT_MAX)
        return damaged(path, "too many tensors", err);
    c->tensors = calloc(entries + 1, sizeof *c->tensors);
    if (!c->tensors)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory for %zu tensors", path_end(path), entries);
    json_object_foreach(c->root, name, entry)
    {
        if (strcmp(name, METADATA) == 0)
            continue;
        const char *fault = read_tensor(c, name, entry, &c->tensors[c->count]);
        if (fault)
            return bad_tensor(path, name, fault, err);
        c->count++;
    }
    qsort(c->tensors, (size_t)c->count, sizeof *c->tensors, by_place);
    for (int i = 0; i < c->count; i++) {
        const checkpoint_tensor *t = &c->tensors[i];
        if ((const char *)t->data != expected)
            return bad_tensor(path, t->name,
                              (const char *)t->data < expected ? "its data overlap those of another one"
                                                               : "there is a gap before its data",
                              err);
        expected += t->bytes;
    }
    if (expected != c->data + c->data_size)
        return damaged(path, "there are bytes behind the last tensor that belong to none", err);
    qsort(c->tensors, (size_t)c->count, sizeof *c->tensors, by_name);
    return SCION_OK;
}

static const json_t *metadata_of(const checkpoint *c)
{
    return json_object_get(c->root, METADATA);
}

/* A hex digit, -1: it is none. */
static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hex digits in place to the bytes that they are; false: they are none, or one of the bytes is 0. */
static bool decode_hex(json_t *value)
{
    const char *from = json_string_value(value);
    const size_t length = strlen(from);
    char *to = malloc(length / 2 + 1);
    bool ok = to && length % 2 == 0;
    for (size_t i = 0; ok && i < length; i += 2) {
        const int high = digit(from[i]), low = digit(from[i + 1]);
        ok = high >= 0 && low >= 0 && high + low > 0;
        to[i / 2] = (char)(16 * high + low);
    }
    /* The bytes are not UTF-8: that is why they were hex digits, and why jansson must not check them. */
    ok = ok && json_string_setn_nocheck(value, to, length / 2) == 0;
    free(to);
    return ok;
}

static bool is_hash(const char *text)
{
    return text && strncmp(text, HASH, strlen(HASH)) == 0;
}

/* Written by checkpoint_write, not by another program. */
static bool is_ours(const checkpoint *c)
{
    return is_hash(json_string_value(json_object_get(metadata_of(c), CHECKSUM))) ||
           is_hash(json_string_value(json_object_get(metadata_of(c), HEADER_CHECKSUM)));
}

/* Metadata are strings; those of ours under *.hex are decoded. */
static scion_status read_metadata(checkpoint *c, const char *path, scion_error *err)
{
    json_t *meta = json_object_get(c->root, METADATA), *value;
    const bool ours = is_ours(c);
    const char *key;
    if (meta && !json_is_object(meta))
        return damaged(path, "its " METADATA " is not an object", err);
    json_object_foreach(meta, key, value)
    {
        if (!json_is_string(value))
            return train_fail(err, SCION_ESTATE, "%s: metadata \"%.40s\" is not a string", path_end(path), key);
        if (ours && is_hex_key(key) && !decode_hex(value))
            return train_fail(err, SCION_ESTATE, "%s: metadata \"%.40s\" is not hex digits", path_end(path), key);
    }
    return SCION_OK;
}

static scion_status check_sums(const checkpoint *c, const char *path, scion_error *err)
{
    const char *sum = json_string_value(json_object_get(metadata_of(c), CHECKSUM));
    const char *header_sum = json_string_value(json_object_get(metadata_of(c), HEADER_CHECKSUM));
    char expected[32];
    if (!is_ours(c))
        return SCION_OK;
    const size_t digits = find_digits(c->header, c->header_length, BEFORE_DIGITS(HEADER_CHECKSUM));
    if (!sum || !header_sum || digits == 0)
        return damaged(path, "one of its two checksums is missing: the header was altered", err);
    hash_text(header_hash(c->header, c->header_length, digits), expected);
    if (strcmp(header_sum, expected) != 0)
        return damaged(path, "the checksum of its header is wrong: the file was altered", err);
    hash_text(XXH3_64bits(c->data, c->data_size), expected);
    if (strcmp(sum, expected) != 0)
        return damaged(path, "the checksum of its tensors is wrong: the file was altered", err);
    return SCION_OK;
}

scion_status checkpoint_open(checkpoint **out, const char *path, scion_error *err)
{
    checkpoint *c = *out = calloc(1, sizeof *c);
    scion_status status = SCION_OK;
    if (!c)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    TRY(map_file(c, path, err));
    TRY(read_header(c, path, err));
    TRY(read_metadata(c, path, err));
    TRY(read_tensors(c, path, err));
    TRY(check_sums(c, path, err));
done:
    if (status != SCION_OK) {
        if (err) /* names in the file may be anything */
            utf8_make_printable(err->message);
        checkpoint_close(c);
        *out = NULL;
    }
    return status;
}

void checkpoint_close(checkpoint *c)
{
    if (!c)
        return;
    json_decref(c->root);
    free(c->tensors);
    file_unmap(c->bytes, c->size);
    free(c);
}

bool checkpoint_verified(const checkpoint *c)
{
    return is_ours(c); /* it would not be open if they were wrong */
}

const checkpoint_tensor *checkpoint_find(const checkpoint *c, const char *name)
{
    const checkpoint_tensor key = {.name = name};
    return bsearch(&key, c->tensors, (size_t)c->count, sizeof *c->tensors, by_name);
}

const checkpoint_tensor *checkpoint_at(const checkpoint *c, int i)
{
    return i >= 0 && i < c->count ? &c->tensors[i] : NULL;
}

const char *checkpoint_get(const checkpoint *c, const char *key)
{
    const json_t *meta = metadata_of(c);
    const char *value = json_string_value(json_object_get(meta, key));
    char *hex_key = NULL;
    if (!value && asprintf(&hex_key, "%s" HEX, key) >= 0)
        value = json_string_value(json_object_get(meta, hex_key));
    free(hex_key);
    return value;
}
