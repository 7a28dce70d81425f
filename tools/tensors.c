/* Whether the tensors of one safetensors file are, byte for byte, in others. tools/same-bits compiles it.
 *     tensors [-x PATTERN]... OLD NEW...
 * Each tensor of OLD whose name fits none of the PATTERNs (as a shell's) must be in one of the NEW files with the
 * same type, shape and bytes; what else they hold does not matter. Exit status 0: so it is; 1: it is not, and a line
 * says which is the first that differs and where; 2: a file cannot be read.
 *
 * The format: 8 bytes, little-endian, with the length of a JSON object, the object, then the bytes of the tensors;
 * the object has for each name {"dtype": text, "shape": [n...], "data_offsets": [begin, end]} and maybe
 * "__metadata__". */
#define _POSIX_C_SOURCE 200809L
#include <fnmatch.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_dims = 8, most_patterns = 32 };

typedef struct tensor {
    char name[256], dtype[16];
    int ndim;
    uint64_t shape[most_dims], begin, end; /* end is exclusive; both count from the end of the header */
} tensor;

typedef struct file {
    const char *path;
    char *bytes;
    uint64_t size, data; /* data: where the tensors begin */
    tensor *tensors;
    int count;
} file;

/* ---- JSON, as far as it is needed: a position in the header, and its end -------------------------------- */

typedef struct reader {
    const char *path, *at, *end;
} reader;

static void give_up(const char *path, const char *why)
{
    printf("%s: %s\n", path, why);
    exit(2);
}

static char peek(reader *r)
{
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
        r->at++;
    return r->at < r->end ? *r->at : '\0';
}

static bool accept(reader *r, char c)
{
    if (peek(r) != c)
        return false;
    r->at++;
    return true;
}

static void expect(reader *r, char c)
{
    if (!accept(r, c))
        give_up(r->path, "its header is not the JSON of a safetensors file");
}

/* A string into room for `bytes`; what an escape means beyond the next character does not matter for names. */
static void string(reader *r, char *to, size_t bytes)
{
    size_t n = 0;
    expect(r, '"');
    while (r->at < r->end && *r->at != '"') {
        if (*r->at == '\\' && r->at + 1 < r->end)
            r->at++;
        if (n + 1 < bytes)
            to[n++] = *r->at;
        r->at++;
    }
    expect(r, '"');
    if (bytes > 0)
        to[n] = '\0';
}

static uint64_t number(reader *r)
{
    uint64_t value = 0;
    if (peek(r) < '0' || peek(r) > '9')
        give_up(r->path, "its header has something else where a number should be");
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        value = value * 10 + (uint64_t)(*r->at - '0');
    return value;
}

/* Numbers in brackets; their count. */
static int numbers(reader *r, uint64_t *to, int most)
{
    int n = 0;
    expect(r, '[');
    if (accept(r, ']'))
        return 0;
    do {
        if (n == most)
            give_up(r->path, "a tensor has too many dimensions");
        to[n++] = number(r);
    } while (accept(r, ','));
    expect(r, ']');
    return n;
}

/* Any value, passed over. */
static void pass(reader *r)
{
    const char c = peek(r);
    if (c == '"') {
        string(r, NULL, 0);
    } else if (c == '{' || c == '[') {
        const char close = c == '{' ? '}' : ']';
        r->at++;
        if (accept(r, close))
            return;
        do {
            if (c == '{') {
                string(r, NULL, 0);
                expect(r, ':');
            }
            pass(r);
        } while (accept(r, ','));
        expect(r, close);
    } else { /* a number, true, false or null */
        const char *from = r->at;
        while (r->at < r->end && !strchr(",]} \t\r\n", *r->at))
            r->at++;
        if (r->at == from)
            give_up(r->path, "its header is not the JSON of a safetensors file");
    }
}

static void read_tensor(reader *r, tensor *t)
{
    char key[32];
    uint64_t offsets[2] = {0, 0};
    expect(r, '{');
    do {
        string(r, key, sizeof key);
        expect(r, ':');
        if (strcmp(key, "dtype") == 0)
            string(r, t->dtype, sizeof t->dtype);
        else if (strcmp(key, "shape") == 0)
            t->ndim = numbers(r, t->shape, most_dims);
        else if (strcmp(key, "data_offsets") == 0)
            numbers(r, offsets, 2);
        else
            pass(r);
    } while (accept(r, ','));
    expect(r, '}');
    t->begin = offsets[0];
    t->end = offsets[1];
}

/* ---- Files ------------------------------------------------------------------------------------------------ */

static void read_bytes(file *f)
{
    FILE *from = fopen(f->path, "rb");
    long size = -1;
    if (from && fseek(from, 0, SEEK_END) == 0)
        size = ftell(from);
    f->bytes = size >= 8 ? malloc((size_t)size) : NULL;
    if (!f->bytes)
        give_up(f->path, "cannot be read, or is too short");
    rewind(from);
    if (fread(f->bytes, 1, (size_t)size, from) != (size_t)size)
        give_up(f->path, "cannot be read to its end");
    fclose(from);
    f->size = (uint64_t)size;
}

static void read_file(file *f)
{
    uint64_t length = 0;
    read_bytes(f);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (unsigned char)f->bytes[i];
    if (length > f->size - 8)
        give_up(f->path, "is not a safetensors file");
    f->data = 8 + length;
    reader r = {f->path, f->bytes + 8, f->bytes + f->data};
    expect(&r, '{');
    if (accept(&r, '}'))
        return;
    do {
        f->tensors = realloc(f->tensors, (size_t)(f->count + 1) * sizeof *f->tensors);
        if (!f->tensors)
            give_up(f->path, "out of memory");
        tensor *t = &f->tensors[f->count];
        memset(t, 0, sizeof *t);
        string(&r, t->name, sizeof t->name);
        expect(&r, ':');
        if (strcmp(t->name, "__metadata__") == 0) {
            pass(&r);
            continue;
        }
        read_tensor(&r, t);
        if (t->begin > t->end || t->end > f->size - f->data)
            give_up(f->path, "a tensor reaches beyond its end");
        f->count++;
    } while (accept(&r, ','));
    expect(&r, '}');
}

/* ---- Comparing ---------------------------------------------------------------------------------------------- */

/* The number at `at`: a float32, or the upper half of one. */
static double real(const char *at, uint64_t bytes)
{
    char whole[4] = {0};
    float x;
    memcpy(whole + 4 - bytes, at, bytes);
    memcpy(&x, whole, sizeof x);
    return (double)x;
}

/* Prints where two tensors of the same type and shape differ; whether they do. */
static bool differ(const char *name, const char *dtype, const char *a, const char *b, uint64_t bytes)
{
    const uint64_t unit = strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "BF16") == 0 ? 2 : 1;
    uint64_t first = 0, count = 0;
    for (uint64_t i = 0; i + unit <= bytes; i += unit)
        if (memcmp(a + i, b + i, unit) != 0 && count++ == 0)
            first = i;
    if (count == 0)
        return false;
    printf("%s[%" PRIu64 "]", name, first / unit);
    if (unit > 1)
        printf(" is %.9g and %.9g", real(a + first, unit), real(b + first, unit));
    printf(", %" PRIu64 " of %" PRIu64 " differ\n", count, bytes / unit);
    return true;
}

static bool same(const file *old, const tensor *t, const file *new, int files)
{
    for (int i = 0; i < files; i++)
        for (int k = 0; k < new[i].count; k++) {
            const tensor *other = &new[i].tensors[k];
            if (strcmp(other->name, t->name) != 0)
                continue;
            bool fits = strcmp(other->dtype, t->dtype) == 0 && other->ndim == t->ndim &&
                        other->end - other->begin == t->end - t->begin;
            for (int d = 0; fits && d < t->ndim; d++)
                fits = other->shape[d] == t->shape[d];
            if (!fits) {
                printf("%s has another type or shape\n", t->name);
                return false;
            }
            return !differ(t->name, t->dtype, old->bytes + old->data + t->begin,
                           new[i].bytes + new[i].data + other->begin, t->end - t->begin);
        }
    printf("%s is missing\n", t->name);
    return false;
}

int main(int argc, char **argv)
{
    const char *patterns[most_patterns];
    int pattern_count = 0, compared = 0, at = 1;
    for (; at + 1 < argc && strcmp(argv[at], "-x") == 0 && pattern_count < most_patterns; at += 2)
        patterns[pattern_count++] = argv[at + 1];
    if (argc - at < 2)
        give_up("usage", "tensors [-x PATTERN]... OLD NEW...");
    const int files = argc - at;
    file *all = calloc((size_t)files, sizeof *all);
    if (!all)
        give_up(argv[at], "out of memory");
    for (int i = 0; i < files; i++) {
        all[i].path = argv[at + i];
        read_file(&all[i]);
    }
    for (int i = 0; i < all[0].count; i++) {
        bool left_out = false;
        for (int k = 0; k < pattern_count; k++)
            left_out = left_out || fnmatch(patterns[k], all[0].tensors[i].name, 0) == 0;
        if (left_out)
            continue;
        compared++;
        if (!same(&all[0], &all[0].tensors[i], all + 1, files - 1))
            return 1;
    }
    if (compared == 0)
        give_up(all[0].path, "holds no tensor to compare");
    return 0;
}
