/* See export.h. Types of entries:
 *     float32, bf16   as they are, or rounded to nearest
 *     q8_0            blocks of 32 entries of a row: a half-precision scale d = max |x| / 127, then round(x / d) */
#include "record/export.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bf16.h"
#include "util/fail.h"
#include "util/path.h"
#include "util/utf8.h"

/* ---- Types ---------------------------------------------------------------------------------------------- */

static void store_float32(int64_t n, const float *from, void *to)
{
    memcpy(to, from, (size_t)n * sizeof *from);
}

static void store_bf16(int64_t n, const float *from, void *to)
{
    scn_to_bf16(n, from, to);
}

/* The nearest half-precision number of x >= 0, ties to even. Numbers too large become infinite. */
static uint16_t half_of(float x)
{
    int exponent;
    if (!(x < 65520.0f))
        return 0x7c00;
    frexpf(x, &exponent);
    /* Units of the last place: 2^-24 below 2^-14, else 2^(exponent - 11). rint rounds to even. */
    const int unit = exponent < -13 ? -24 : exponent - 11;
    const uint32_t units = (uint32_t)rintf(ldexpf(x, -unit));
    return (uint16_t)(units + ((uint32_t)(unit + 24) << 10)); /* a carry goes on into the exponent */
}

enum { Q8_BLOCK = 32 };

static void store_q8_0(int64_t n, const float *from, void *to)
{
    unsigned char *out = to;
    for (int64_t i = 0; i < n; i += Q8_BLOCK, out += 2 + Q8_BLOCK) {
        float max = 0;
        for (int k = 0; k < Q8_BLOCK; k++)
            max = fmaxf(max, fabsf(from[i + k]));
        const float d = max / 127, inverse = d > 0 ? 1 / d : 0;
        const uint16_t scale = half_of(d);
        memcpy(out, &scale, sizeof scale);
        for (int k = 0; k < Q8_BLOCK; k++)
            out[2 + k] = (unsigned char)(signed char)roundf(from[i + k] * inverse);
    }
}

const export_type export_float32 = {"float32", "F32", "float32", 0, 0, 1, 4, store_float32};
const export_type export_bf16 = {"bf16", "BF16", "bfloat16", 30, 32, 1, 2, store_bf16};
const export_type export_q8_0 = {"q8_0", NULL, NULL, 8, 7, Q8_BLOCK, 2 + Q8_BLOCK, store_q8_0};

static const export_type *const types[] = {&export_float32, &export_bf16, &export_q8_0, NULL};

/* ---- Tensors -------------------------------------------------------------------------------------------- */

int export_shape(const model_tensor *t, int64_t shape[4])
{
    if (!t->param) {
        shape[0] = t->ones;
        return 1;
    }
    memcpy(shape, t->param->shape, (size_t)t->param->ndim * sizeof *shape);
    return t->param->ndim;
}

size_t export_bytes(const model_tensor *t, const export_type *type)
{
    const int64_t count = t->param ? t->param->count : t->ones;
    return (size_t)(count / type->block) * type->block_bytes;
}

void export_piece(const model_tensor *t, const export_type *type, size_t at, size_t bytes, float *buffer, void *to)
{
    const int64_t first = (int64_t)(at / type->block_bytes) * type->block;
    const int64_t n = (int64_t)(bytes / type->block_bytes) * type->block;
    const float *from = t->param ? tape_floats_of(t->param, first, n, buffer) : NULL;
    for (int64_t i = 0; i < n; i++)
        buffer[i] = from ? t->factor * from[i] : 1;
    type->store(n, buffer, to);
}

/* Refuses rows that are not whole blocks. */
static scion_status check_rows(const model_outline *o, const export_type *type, scion_error *err)
{
    for (int64_t i = 0; i < o->tensor_count; i++) {
        int64_t shape[4];
        const int ndim = export_shape(&o->tensors[i], shape);
        if (ndim > 1 && shape[ndim - 1] % type->block != 0)
            return train_fail(
                err, SCION_EINVAL,
                "type=%s stores %lld entries of a row together, and %s has rows of %lld; type=bf16 takes "
                "any",
                type->name, (long long)type->block, o->tensors[i].name, (long long)shape[ndim - 1]);
    }
    return SCION_OK;
}

/* ---- Formats -------------------------------------------------------------------------------------------- */

static const export_format *const formats[] = {&export_hf, &export_gguf};

const export_format *export_format_at(int i)
{
    return i >= 0 && (size_t)i < sizeof formats / sizeof *formats ? formats[i] : NULL;
}

static scion_status find_format(const char *name, const export_format **out, scion_error *err)
{
    char names[80] = "";
    for (int i = 0; export_format_at(i); i++) {
        *out = export_format_at(i);
        if (strcmp((*out)->name, name) == 0)
            return SCION_OK;
        utf8_append(names, sizeof names, "%s%s", i > 0 ? " or " : "", (*out)->name);
    }
    return train_fail(err, SCION_EINVAL, "format=%.40s: expected %s", name, names);
}

static scion_status find_type(const export_format *f, const char *name, const export_type **out, scion_error *err)
{
    char names[80] = "";
    if (!name)
        name = f->types[0];
    for (int i = 0; f->types[i]; i++) {
        for (int k = 0; strcmp(f->types[i], name) == 0 && types[k]; k++)
            if (strcmp(types[k]->name, name) == 0) {
                *out = types[k];
                return SCION_OK;
            }
        utf8_append(names, sizeof names, "%s%s", i > 0 ? " or " : "", f->types[i]);
    }
    return train_fail(err, SCION_EINVAL, "type=%.40s: format=%s expects %s", name, f->name, names);
}

static scion_status check_source(const char *out, const export_source *s, scion_error *err)
{
    struct stat about;
    if (lstat(out, &about) == 0)
        return train_fail(err, SCION_EINVAL, "%s: exists already: choose another out, or remove it", path_end(out));
    if (errno != ENOENT)
        return train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", path_end(out), strerror(errno));
    if (!s->data->tokenizer)
        return train_fail(err, SCION_EINVAL,
                          "the tokenizer of this model is not known: tokenizer=gpt2|FILE|FOLDER names it");
    return SCION_OK;
}

scion_status export_model(const char *out, const char *format, const char *type, const export_source *s,
                          scion_error *err)
{
    const export_format *f = NULL;
    const export_type *t = NULL;
    model_outline outline = {.tensors = NULL};
    scion_status status;
    TRY(find_format(format, &f, err));
    TRY(find_type(f, type, &t, err));
    TRY(check_source(out, s, err));
    TRY(model_outline_make(&outline, s->model, config_model_options(s->config), f->format, err));
    TRY(check_rows(&outline, t, err));
    TRY(f->write(out, s, &outline, t, err));
done:
    model_outline_free(&outline);
    return status;
}

scion_status export_go_on(const export_source *s, scion_error *err)
{
    return s->stop && s->stop(NULL) ? train_fail(err, SCION_ESTOPPED, "stopped") : SCION_OK;
}
