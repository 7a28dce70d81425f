/* See gguf.h. The file: "GGUF", version, numbers of tensors and of pairs; the pairs; the tensors; padding to the
 * alignment; data. All numbers are little-endian. */
#include "record/gguf.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"
#include "util/utf8.h"

enum { header_bytes = 24, default_alignment = 32, max_name = 1 << 16 };
/* The shortest pair and the shortest tensor: an empty name, a type, one byte; an empty name, no dimension. */
enum { pair_min = 8 + 4 + 1, tensor_min = 8 + 4 + 4 + 8 };

static const size_t value_bytes[GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};

/* Types of tensors: entries that are stored together, and their bytes. */
static const struct tensor_type {
    uint32_t number;
    const char *name;
    int64_t block;
    size_t bytes;
} types[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},     {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},     {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},  {14, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},       {26, "I32", 1, 4},
    {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},  {30, "BF16", 1, 2},
    {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
};

static const struct tensor_type *find_type(uint32_t number)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number)
            return &types[i];
    return NULL;
}

/* ---- Bytes -------------------------------------------------------------------------------------------- */

/* A place in the file. `missing`: it ended before a value was complete; then all values are 0. */
typedef struct reader {
    const char *bytes;
    size_t size, at;
    bool missing;
} reader;

static const char *take(reader *r, uint64_t n)
{
    if (r->missing || n > r->size - r->at) {
        r->missing = true;
        return NULL;
    }
    const char *from = r->bytes + r->at;
    r->at += (size_t)n;
    return from;
}

static uint64_t take_number(reader *r, size_t bytes)
{
    uint64_t x = 0;
    const char *from = take(r, bytes);
    if (from)
        memcpy(&x, from, bytes);
    return x;
}

static const char *take_text(reader *r, size_t *bytes)
{
    const uint64_t n = take_number(r, 8);
    const char *text = take(r, n);
    *bytes = text ? (size_t)n : 0;
    return text;
}

/* ---- Values ------------------------------------------------------------------------------------------- */

static void take_scalar(reader *r, gguf_type type, gguf_value *v)
{
    *v = (gguf_value){.type = type};
    if (type == GGUF_STRING) {
        v->text = take_text(r, &v->bytes);
        return;
    }
    v->whole = take_number(r, value_bytes[type]);
    float single;
    switch (type) {
    case GGUF_I8: v->sign = (int64_t)v->whole - (v->whole < 128 ? 0 : 256); break;
    case GGUF_I16: v->sign = (int16_t)v->whole; break;
    case GGUF_I32: v->sign = (int32_t)v->whole; break;
    case GGUF_I64: v->sign = (int64_t)v->whole; break;
    case GGUF_F32: memcpy(&single, &v->whole, sizeof single), v->real = (double)single; break;
    case GGUF_F64: memcpy(&v->real, &v->whole, sizeof v->real); break;
    default: break;
    }
}

/* Returns a fault; NULL: none. */
static const char *take_array(reader *r, gguf_value *v)
{
    const uint64_t type = take_number(r, 4), count = take_number(r, 8);
    *v = (gguf_value){.type = GGUF_ARRAY, .whole = count};
    if (type >= GGUF_TYPES)
        return "its items have an unknown type";
    if (type == GGUF_ARRAY)
        return "its items are arrays, which are not read";
    v->items = (gguf_type)type;
    v->text = r->bytes + r->at;
    const size_t start = r->at, each = type == GGUF_STRING ? 8 : value_bytes[type];
    if (r->missing || count > (r->size - r->at) / each) {
        r->missing = true;
        return NULL;
    }
    if (type != GGUF_STRING)
        take(r, count * each);
    for (uint64_t i = 0; type == GGUF_STRING && i < count && !r->missing; i++) {
        size_t n;
        take_text(r, &n);
    }
    v->bytes = r->at - start;
    return NULL;
}

gguf_value gguf_item(const gguf_value *array, uint64_t i, size_t *at)
{
    gguf_value v;
    reader r = {array->text, array->bytes, array->items == GGUF_STRING ? *at : (size_t)i * value_bytes[array->items],
                false};
    take_scalar(&r, array->items, &v);
    *at = r.at;
    return v;
}

/* A name as a string; NULL: it is too long or no text. */
static char *copy_name(const char *text, size_t n)
{
    if (n >= max_name || utf8_bytes(text, n) != n || memchr(text, '\0', n))
        return NULL;
    char *copy = malloc(n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = '\0';
    }
    return copy;
}

/* ---- Pairs and tensors -------------------------------------------------------------------------------- */

static scion_status damaged(const char *path, const char *part, int64_t number, const char *what, scion_error *err)
{
    return train_fail(err, SCION_ESTATE, "%s: %s %" PRId64 ": %s", path_end(path), part, number + 1, what);
}

static scion_status read_pair(gguf *g, reader *r, int64_t i, const char *path, scion_error *err)
{
    static const char part[] = "key-value pair";
    gguf_pair *p = &g->pairs[i];
    size_t n;
    const char *text = take_text(r, &n), *fault = NULL;
    const uint64_t type = take_number(r, 4);
    if (!r->missing) {
        g->pair_count = i + 1;
        if (!(p->key = copy_name(text, n)))
            return damaged(path, part, i, "its key is not a text", err);
        if (type >= GGUF_TYPES)
            return train_fail(err, SCION_ESTATE, "%s: the value of \"%.60s\" has an unknown type", path_end(path),
                              p->key);
        if (type == GGUF_ARRAY)
            fault = take_array(r, &p->value);
        else
            take_scalar(r, (gguf_type)type, &p->value);
    }
    if (fault)
        return train_fail(err, SCION_ESTATE, "%s: the value of \"%.60s\": %s", path_end(path), p->key, fault);
    return r->missing ? damaged(path, part, i, "the file ends in it: it was truncated", err) : SCION_OK;
}

/* Sets the entries and bytes of a tensor. Returns a fault; NULL: none. */
static const char *measure(gguf_tensor *t)
{
    const struct tensor_type *type = find_type(t->type);
    t->count = 1;
    for (int k = 0; k < t->ndim; k++)
        if (t->shape[k] < 0 || __builtin_mul_overflow(t->count, t->shape[k], &t->count))
            return "its shape is too large";
    if (!type)
        return NULL;
    t->type_name = type->name;
    const int64_t row = t->ndim > 0 ? t->shape[t->ndim - 1] : 1;
    if (row % type->block != 0)
        return "its rows are not whole blocks of its type";
    if (__builtin_mul_overflow((size_t)(t->count / type->block), type->bytes, &t->bytes))
        return "its shape is too large";
    return NULL;
}

static scion_status read_tensor(gguf *g, reader *r, int64_t i, const char *path, scion_error *err)
{
    static const char part[] = "tensor";
    gguf_tensor *t = &g->tensors[i];
    size_t n;
    const char *text = take_text(r, &n);
    const uint64_t ndim = take_number(r, 4);
    if (!r->missing && ndim > 4)
        return damaged(path, part, i, "it has more than 4 dimensions", err);
    t->ndim = (int)ndim;
    for (int k = t->ndim - 1; k >= 0; k--)
        t->shape[k] = (int64_t)take_number(r, 8);
    t->type = (uint32_t)take_number(r, 4);
    t->offset = take_number(r, 8);
    if (r->missing)
        return damaged(path, part, i, "the file ends in it: it was truncated", err);
    g->tensor_count = i + 1;
    if (!(t->name = copy_name(text, n)))
        return damaged(path, part, i, "its name is not a text", err);
    const char *fault = measure(t);
    return fault ? train_fail(err, SCION_ESTATE, "%s: tensor \"%.60s\": %s", path_end(path), t->name, fault)
                 : SCION_OK;
}

/* ---- Checks over all of them -------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Refuses names that occur twice. `size`: bytes from one to the next. */
static scion_status check_names(const char *path, const char *what, const void *first, int64_t count, size_t size,
                                scion_error *err)
{
    char **names = calloc((size_t)count + 1, sizeof *names);
    scion_status status = SCION_OK;
    if (!names)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    for (int64_t i = 0; i < count; i++)
        names[i] = *(char *const *)((const char *)first + (size_t)i * size);
    qsort(names, (size_t)count, sizeof *names, by_text);
    for (int64_t i = 1; status == SCION_OK && i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status =
                train_fail(err, SCION_ESTATE, "%s: the %s \"%.60s\" occurs twice", path_end(path), what, names[i]);
    free(names);
    return status;
}

static int by_offset(const void *a, const void *b)
{
    const gguf_tensor *x = *(const gguf_tensor *const *)a, *y = *(const gguf_tensor *const *)b;
    return x->offset != y->offset ? (x->offset > y->offset ? 1 : -1) : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static scion_status misplaced(const char *path, const gguf_tensor *t, const char *what, scion_error *err)
{
    return train_fail(err, SCION_ESTATE, "%s: tensor \"%.60s\": %s", path_end(path), t->name, what);
}

/* Checks that all data lie in the file and overlap nowhere. */
static scion_status check_places(const gguf *g, const char *path, scion_error *err)
{
    const gguf_tensor **order = calloc((size_t)g->tensor_count + 1, sizeof *order);
    const uint64_t all = g->size - g->data;
    uint64_t end = 0;
    scion_status status = SCION_OK;
    if (!order)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    for (int64_t i = 0; i < g->tensor_count; i++)
        order[i] = &g->tensors[i];
    qsort(order, (size_t)g->tensor_count, sizeof *order, by_offset);
    for (int64_t i = 0; i < g->tensor_count; i++) {
        const gguf_tensor *t = order[i];
        if (t->offset % g->alignment != 0)
            TRY(misplaced(path, t, "its data are not aligned", err));
        if (t->offset > all || t->bytes > all - t->offset)
            TRY(misplaced(path, t, "its data lie beyond the end of the file, which may be truncated", err));
        if (t->offset < end)
            TRY(misplaced(path, t, "its data overlap those of another one", err));
        end = t->offset + t->bytes;
    }
done:
    free(order);
    return status;
}

static scion_status find_data(gguf *g, const reader *r, const char *path, scion_error *err)
{
    const gguf_value *given = gguf_find(g, "general.alignment");
    g->alignment = default_alignment;
    if (given && (given->type != GGUF_U32 || given->whole == 0 || (given->whole & (given->whole - 1)) != 0))
        return train_fail(err, SCION_ESTATE, "%s: general.alignment is not a power of two", path_end(path));
    if (given)
        g->alignment = given->whole;
    const uint64_t data = (r->at + g->alignment - 1) / g->alignment * g->alignment;
    g->data = data < g->size ? (size_t)data : g->size; /* a file without tensors need not be padded */
    return SCION_OK;
}

/* ---- The whole ---------------------------------------------------------------------------------------- */

static scion_status read_counts(gguf *g, reader *r, const char *path, uint64_t *tensors, uint64_t *pairs,
                                scion_error *err)
{
    if (g->size < 4 || memcmp(g->mapped, "GGUF", 4) != 0)
        return train_fail(err, SCION_ESTATE, "%s: does not begin with GGUF: not a GGUF file", path_end(path));
    if (g->size < header_bytes)
        return train_fail(err, SCION_ESTATE, "%s: has only %zu bytes: truncated", path_end(path), g->size);
    take(r, 4);
    g->version = (uint32_t)take_number(r, 4);
    if (g->version != 0 && (g->version & 0xffff) == 0)
        return train_fail(err, SCION_ESTATE, "%s: a big-endian GGUF file; only little-endian ones are read",
                          path_end(path));
    if (g->version != 2 && g->version != 3)
        return train_fail(err, SCION_ESTATE, "%s: GGUF version %u; versions 2 and 3 are read", path_end(path),
                          (unsigned)g->version);
    *tensors = take_number(r, 8);
    *pairs = take_number(r, 8);
    if (*tensors > g->size / tensor_min || *pairs > g->size / pair_min)
        return train_fail(err, SCION_ESTATE,
                          "%s: should have %" PRIu64 " tensors and %" PRIu64
                          " key-value pairs, more than a file of %zu bytes can hold: damaged",
                          path_end(path), *tensors, *pairs, g->size);
    g->pairs = calloc((size_t)*pairs + 1, sizeof *g->pairs);
    g->tensors = calloc((size_t)*tensors + 1, sizeof *g->tensors);
    return g->pairs && g->tensors ? SCION_OK : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
}

scion_status gguf_open(gguf **out, const char *path, scion_error *err)
{
    gguf *g = *out = calloc(1, sizeof *g);
    uint64_t tensors = 0, pairs = 0;
    scion_status status = SCION_OK;
    if (!g)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    TRY(file_map(path, &g->mapped, &g->size, err));
    reader r = {.bytes = g->mapped, .size = g->size};
    TRY(read_counts(g, &r, path, &tensors, &pairs, err));
    for (int64_t i = 0; i < (int64_t)pairs; i++)
        TRY(read_pair(g, &r, i, path, err));
    for (int64_t i = 0; i < (int64_t)tensors; i++)
        TRY(read_tensor(g, &r, i, path, err));
    TRY(check_names(path, "key", g->pairs, g->pair_count, sizeof *g->pairs, err));
    TRY(check_names(path, "tensor", g->tensors, g->tensor_count, sizeof *g->tensors, err));
    TRY(find_data(g, &r, path, err));
    TRY(check_places(g, path, err));
done:
    if (status != SCION_OK) {
        if (err) /* names in the file may be anything */
            utf8_make_printable(err->message);
        gguf_close(g);
        *out = NULL;
    }
    return status;
}

void gguf_close(gguf *g)
{
    if (!g)
        return;
    for (int64_t i = 0; i < g->pair_count; i++)
        free(g->pairs[i].key);
    for (int64_t i = 0; i < g->tensor_count; i++)
        free(g->tensors[i].name);
    free(g->pairs);
    free(g->tensors);
    file_unmap(g->mapped, g->size);
    free(g);
}

const gguf_value *gguf_find(const gguf *g, const char *key)
{
    for (int64_t i = 0; i < g->pair_count; i++)
        if (strcmp(g->pairs[i].key, key) == 0)
            return &g->pairs[i].value;
    return NULL;
}
