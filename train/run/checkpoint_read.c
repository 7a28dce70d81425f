/* Reading checkpoints. The file is mapped and nothing in it is believed: every length, offset and shape is checked
 * against the size of the file, in arithmetic that cannot overflow, before it is used. See checkpoint.h. */
#define _GNU_SOURCE 1 /* memmem */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <xxhash.h>

#include "base/fail.h"
#include "base/path.h"
#include "run/checkpoint_parts.h"

struct checkpoint {
    char *bytes; /* the mapped file */
    size_t size;
    const char *header, *data;
    size_t header_length, data_size;
    json_t *root;               /* names and metadata live in it */
    checkpoint_tensor *tensors; /* by their place in the file */
    int count;
};

/* ---- One tensor -------------------------------------------------------------------------------------------- */

static bool read_size(const json_t *value, int64_t *size)
{
    *size = json_is_integer(value) ? json_integer_value(value) : -1;
    return *size >= 0;
}

/* What is wrong with a tensor's entry, NULL: nothing, and *t is filled in. */
static const char *read_tensor(const checkpoint *c, const char *name, const json_t *entry, checkpoint_tensor *t)
{
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    int64_t begin, end;
    size_t bytes;
    *t = (checkpoint_tensor){.name = name};
    if (!json_is_object(entry) || json_object_size(entry) != 3 || !json_is_string(dtype) || !json_is_array(shape) ||
        !json_is_array(offsets) || json_array_size(offsets) != 2)
        return "its entry is not a dtype, a shape and two data_offsets";
    t->dtype = json_string_value(dtype);
    if (checkpoint_item(t->dtype) == 0)
        return "its dtype is unknown";
    if (json_array_size(shape) > 4)
        return "it has more than 4 dimensions";
    t->ndim = (int)json_array_size(shape);
    for (int i = 0; i < t->ndim; i++)
        if (!read_size(json_array_get(shape, (size_t)i), &t->shape[i]))
            return "its shape holds something else than sizes";
    if (!read_size(json_array_get(offsets, 0), &begin) || !read_size(json_array_get(offsets, 1), &end) || begin > end)
        return "its data_offsets are not two sizes in ascending order";
    if ((uint64_t)end > c->data_size)
        return "its data lie beyond the end of the file, which may be truncated";
    if (!checkpoint_bytes(t->dtype, t->ndim, t->shape, &bytes) || bytes != (size_t)(end - begin))
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

/* ---- The whole --------------------------------------------------------------------------------------------- */

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
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    scion_status status = SCION_OK;
    if (fd < 0 || fstat(fd, &about) != 0)
        status = train_fail(err, SCION_EINVAL, "%s: %s", path_end(path), strerror(errno));
    else if (!S_ISREG(about.st_mode))
        status = train_fail(err, SCION_EINVAL, "%s: is not a file", path_end(path));
    else if (about.st_size <= checkpoint_prefix)
        status = train_fail(err, SCION_ESTATE, "%s: has only %lld bytes: truncated, or not a safetensors file",
                            path_end(path), (long long)about.st_size);
    if (status == SCION_OK) {
        c->size = (size_t)about.st_size;
        c->bytes = mmap(NULL, c->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (c->bytes == MAP_FAILED) {
            c->bytes = NULL;
            status = train_fail(err, SCION_EINVAL, "%s: cannot be mapped: %s", path_end(path), strerror(errno));
        }
    }
    if (fd >= 0)
        close(fd);
    return status;
}

static scion_status read_header(checkpoint *c, const char *path, scion_error *err)
{
    const size_t rest = c->size - checkpoint_prefix;
    uint64_t length;
    json_error_t why;
    memcpy(&length, c->bytes, sizeof length);
    if (length > rest)
        return train_fail(err, SCION_ESTATE,
                          "%s: its header should have %llu bytes, but the file has %zu: truncated, or not a "
                          "safetensors file",
                          path_end(path), (unsigned long long)length, c->size);
    if (length > CHECKPOINT_HEADER_MOST)
        return damaged(path, "its header is larger than the format allows", err);
    c->header = c->bytes + checkpoint_prefix;
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
        if (strcmp(name, CHECKPOINT_METADATA) == 0)
            continue;
        const char *fault = read_tensor(c, name, entry, &c->tensors[c->count]);
        if (fault)
            return bad_tensor(path, name, fault, err);
        c->count++;
    }
    if (c->count > 1)
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
    return SCION_OK;
}

static const json_t *metadata_of(const checkpoint *c)
{
    return json_object_get(c->root, CHECKPOINT_METADATA);
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

static bool is_hex_key(const char *key)
{
    const size_t length = strlen(key), tail = strlen(CHECKPOINT_HEX);
    return length > tail && strcmp(key + (length - tail), CHECKPOINT_HEX) == 0;
}

static bool is_hash(const char *text)
{
    return text && strncmp(text, CHECKPOINT_HASH, strlen(CHECKPOINT_HASH)) == 0;
}

/* Written by checkpoint_write, not by another program. */
static bool is_ours(const checkpoint *c)
{
    return is_hash(json_string_value(json_object_get(metadata_of(c), CHECKPOINT_CHECKSUM))) ||
           is_hash(json_string_value(json_object_get(metadata_of(c), CHECKPOINT_HEADER_CHECKSUM)));
}

/* Metadata are strings; those of ours under *.hex become what they stand for. */
static scion_status read_metadata(checkpoint *c, const char *path, scion_error *err)
{
    json_t *meta = json_object_get(c->root, CHECKPOINT_METADATA), *value;
    const bool ours = is_ours(c);
    const char *key;
    if (meta && !json_is_object(meta))
        return damaged(path, "its " CHECKPOINT_METADATA " is not an object", err);
    json_object_foreach(meta, key, value)
    {
        if (!json_is_string(value))
            return train_fail(err, SCION_ESTATE, "%s: metadata \"%.40s\" is not a string", path_end(path), key);
        if (ours && is_hex_key(key) && !decode_hex(value))
            return train_fail(err, SCION_ESTATE, "%s: metadata \"%.40s\" is not hex digits", path_end(path), key);
    }
    return SCION_OK;
}

/* Where the digits of the header's checksum start, 0: nowhere. */
static size_t find_digits(const checkpoint *c)
{
    const size_t mark = strlen(CHECKPOINT_DIGITS);
    const char *at = memmem(c->header, c->header_length, CHECKPOINT_DIGITS, mark);
    const size_t start = at ? (size_t)(at - c->header) + mark : 0;
    return start + checkpoint_digits <= c->header_length ? start : 0;
}

static scion_status check_sums(const checkpoint *c, const char *path, scion_error *err)
{
    const char *sum = json_string_value(json_object_get(metadata_of(c), CHECKPOINT_CHECKSUM));
    const char *header_sum = json_string_value(json_object_get(metadata_of(c), CHECKPOINT_HEADER_CHECKSUM));
    char expected[32];
    if (!is_ours(c))
        return SCION_OK;
    const size_t digits = find_digits(c);
    if (!sum || !header_sum || digits == 0)
        return damaged(path, "one of its two checksums is missing: the header was altered", err);
    checkpoint_hash_text(checkpoint_header_hash(c->header, c->header_length, digits), expected);
    if (strcmp(header_sum, expected) != 0)
        return damaged(path, "the checksum of its header is wrong: the file was altered", err);
    checkpoint_hash_text(XXH3_64bits(c->data, c->data_size), expected);
    if (strcmp(sum, expected) != 0)
        return damaged(path, "the checksum of its tensors is wrong: the file was altered", err);
    return SCION_OK;
}

/* Names of a strange file may hold what a terminal would obey. */
static void make_printable(scion_error *err)
{
    for (char *s = err ? err->message : NULL; s && *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

scion_status checkpoint_open(checkpoint **out, const char *path, scion_error *err)
{
    checkpoint *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    scion_status status = map_file(c, path, err);
    if (status == SCION_OK)
        status = read_header(c, path, err);
    if (status == SCION_OK)
        status = read_metadata(c, path, err);
    if (status == SCION_OK)
        status = read_tensors(c, path, err);
    if (status == SCION_OK)
        status = check_sums(c, path, err);
    if (status != SCION_OK) {
        make_printable(err);
        checkpoint_close(c);
        return status;
    }
    *out = c;
    return SCION_OK;
}

void checkpoint_close(checkpoint *c)
{
    if (!c)
        return;
    json_decref(c->root);
    free(c->tensors);
    if (c->bytes)
        munmap(c->bytes, c->size);
    free(c);
}

bool checkpoint_verified(const checkpoint *c)
{
    return is_ours(c); /* it would not be open if they were wrong */
}

const checkpoint_tensor *checkpoint_find(const checkpoint *c, const char *name)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

const checkpoint_tensor *checkpoint_at(const checkpoint *c, int i)
{
    return i >= 0 && i < c->count ? &c->tensors[i] : NULL;
}

const char *checkpoint_get(const checkpoint *c, const char *key)
{
    const json_t *meta = metadata_of(c);
    const char *value = json_string_value(json_object_get(meta, key));
    const size_t bytes = strlen(key) + sizeof CHECKPOINT_HEX;
    char *hex_key = value ? NULL : malloc(bytes);
    if (hex_key) {
        snprintf(hex_key, bytes, "%s" CHECKPOINT_HEX, key);
        value = json_string_value(json_object_get(meta, hex_key));
    }
    free(hex_key);
    return value;
}
