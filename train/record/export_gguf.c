/* GGUF, version 3, little-endian: the magic "GGUF", the version, the numbers of tensors and of key-value pairs; the
 * pairs; a list of the tensors with name, dimensions (the shortest stride first), type and offset; then their data,
 * each at a multiple of 32 bytes. Vectors are always float32.
 *
 * The tokenizer is that of GPT-2: tokens as characters that stand for bytes, merges by rank, its pattern. Characters
 * of several bytes are joined by merges whose results need not be tokens, which llama.cpp allows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "record/export.h"
#include "text/bpe_vocabulary.h"
#include "util/atomic_file.h"
#include "util/fail.h"

enum { ALIGNMENT = 32, PIECE = 1 << 20 /* entries that are written at once */ };

/* Types of values, and of tokens. */
typedef enum value_type { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 } value_type;
typedef enum token_type { NORMAL = 1, CONTROL = 3, UNUSED = 5 } token_type;

/* Header under construction. */
typedef struct header {
    FILE *to;
    uint64_t pairs;
} header;

/* ---- Values --------------------------------------------------------------------------------------------- */

static void put_u32(FILE *to, uint32_t x)
{
    fwrite(&x, sizeof x, 1, to);
}

static void put_u64(FILE *to, uint64_t x)
{
    fwrite(&x, sizeof x, 1, to);
}

static void put_string(FILE *to, const char *text)
{
    put_u64(to, strlen(text));
    fputs(text, to);
}

static void put_key(header *h, const char *key, value_type type)
{
    put_string(h->to, key);
    put_u32(h->to, type);
    h->pairs++;
}

static void put_array(header *h, const char *key, value_type type, uint64_t count)
{
    put_key(h, key, ARRAY);
    put_u32(h->to, type);
    put_u64(h->to, count);
}

static void put_int(header *h, const char *key, uint32_t x)
{
    put_key(h, key, U32);
    put_u32(h->to, x);
}

static void put_text(header *h, const char *key, const char *text)
{
    put_key(h, key, STRING);
    put_string(h->to, text);
}

static void put_bool(header *h, const char *key, bool x)
{
    put_key(h, key, BOOL);
    fputc(x ? 1 : 0, h->to);
}

static void put_setting(header *h, const model_setting *s)
{
    const float real = (float)s->real;
    if (s->type == MODEL_INT)
        put_int(h, s->key, (uint32_t)s->integer);
    else if (s->type == MODEL_BOOL)
        put_bool(h, s->key, s->integer != 0);
    else if (s->type == MODEL_TEXT)
        put_text(h, s->key, s->text);
    else {
        put_key(h, s->key, F32);
        fwrite(&real, sizeof real, 1, h->to);
    }
}

/* ---- The tokenizer -------------------------------------------------------------------------------------- */

/* Token i as text; the caller frees. Numbers of the model beyond the tokenizer are tokens that no text gives. */
static char *token_text(const tokenizer *t, int32_t i)
{
    size_t n;
    char unused[32];
    const char *bytes = tokenizer_decode(t, i, &n);
    snprintf(unused, sizeof unused, "<|unused%d|>", (int)i);
    if (!bytes)
        return strdup(unused);
    if (tokenizer_is_added(t, i))
        return strndup(bytes, n);
    char *text = malloc(2 * n + 1);
    if (text)
        bpe_to_characters(bytes, n, text);
    return text;
}

static token_type type_of_token(const tokenizer *t, int32_t i)
{
    if (i >= tokenizer_size(t))
        return UNUSED;
    return tokenizer_is_added(t, i) ? CONTROL : NORMAL;
}

/* Writes the texts of all tokens, which must differ. */
static scion_status put_tokens(header *h, const tokenizer *t, int32_t count, scion_error *err)
{
    json_t *seen = json_object();
    scion_status status = seen ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
    put_array(h, "tokenizer.ggml.tokens", STRING, (uint64_t)count);
    for (int32_t i = 0; status == SCION_OK && i < count; i++) {
        char *text = token_text(t, i);
        if (!text)
            status = train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
        else if (json_object_get(seen, text))
            status = train_fail(err, SCION_EINVAL,
                                "the tokenizer cannot be exported to GGUF: two of its tokens are written \"%.40s\"; "
                                "export with format=hf",
                                text);
        else if (json_object_set_new(seen, text, json_true()) != 0)
            status = train_fail(err, SCION_EINVAL, "the tokenizer cannot be exported: token %d is not UTF-8", (int)i);
        else
            put_string(h->to, text);
        free(text);
    }
    json_decref(seen);
    return status;
}

/* Writes a pair as "left right". False: out of memory. */
static bool put_merge(FILE *to, const tokenizer_pair *p)
{
    char *text = malloc(2 * (p->left_bytes + p->right_bytes) + 2);
    if (!text)
        return false;
    char *end = bpe_to_characters(p->left, p->left_bytes, text);
    *end = ' ';
    bpe_to_characters(p->right, p->right_bytes, end + 1);
    put_string(to, text);
    free(text);
    return true;
}

static scion_status put_merges(header *h, const tokenizer *t, scion_error *err)
{
    tokenizer_pair p;
    uint64_t count = 0;
    for (int64_t i = 0; tokenizer_merge(t, i, &p); i++)
        count += p.left_bytes > 0;
    put_array(h, "tokenizer.ggml.merges", STRING, count);
    for (int64_t i = 0; tokenizer_merge(t, i, &p); i++)
        if (p.left_bytes > 0 && !put_merge(h->to, &p))
            return train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
    return SCION_OK;
}

/* The end of a text: the separator; without one a number that the tokenizer never gives, or else the last token.
 * llama.cpp must have one: by itself it would take number 11, whatever that is. */
static int32_t end_token(const tokenizer *t, int32_t count)
{
    if (tokenizer_separator(t) >= 0)
        return tokenizer_separator(t);
    return tokenizer_size(t) < count ? (int32_t)tokenizer_size(t) : count - 1;
}

static scion_status put_tokenizer(header *h, const tokenizer *t, int32_t count, scion_error *err)
{
    const uint32_t end = (uint32_t)end_token(t, count);
    put_text(h, "tokenizer.ggml.model", "gpt2");
    put_text(h, "tokenizer.ggml.pre", "gpt-2");
    RETURN_IF_FAILED(put_tokens(h, t, count, err));
    put_array(h, "tokenizer.ggml.token_type", I32, (uint64_t)count);
    for (int32_t i = 0; i < count; i++)
        put_u32(h->to, type_of_token(t, i));
    RETURN_IF_FAILED(put_merges(h, t, err));
    put_int(h, "tokenizer.ggml.bos_token_id", end);
    put_int(h, "tokenizer.ggml.eos_token_id", end);
    put_bool(h, "tokenizer.ggml.add_bos_token", false);
    return SCION_OK;
}

/* ---- The file ------------------------------------------------------------------------------------------- */

static const export_type *type_of_tensor(const model_tensor *t, const export_type *type)
{
    int64_t shape[4];
    return export_shape(t, shape) > 1 ? type : &export_float32;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void put_tensors(FILE *to, const model_outline *o, const export_type *type)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < o->tensor_count; i++) {
        const model_tensor *t = &o->tensors[i];
        const export_type *own = type_of_tensor(t, type);
        int64_t shape[4];
        const int ndim = export_shape(t, shape);
        put_string(to, t->name);
        put_u32(to, (uint32_t)ndim);
        for (int k = ndim - 1; k >= 0; k--)
            put_u64(to, (uint64_t)shape[k]);
        put_u32(to, own->gguf);
        put_u64(to, at);
        at += aligned(export_bytes(t, own));
    }
}

static scion_status put_pairs(header *h, const export_source *s, const model_outline *o, const export_type *type,
                              scion_error *err)
{
    put_text(h, "general.architecture", s->model->row->to->architecture);
    put_text(h, "general.name", s->name);
    put_int(h, "general.file_type", type->file_type);
    put_int(h, "general.quantization_version", 2);
    put_int(h, "general.alignment", ALIGNMENT);
    for (int i = 0; i < o->setting_count; i++)
        put_setting(h, &o->settings[i]);
    return put_tokenizer(h, s->data->tokenizer, (int32_t)s->data->arrays[s->data->input].range, err);
}

/* Writes all before the data, padded, into memory that the caller frees. */
static scion_status make_header(const export_source *s, const model_outline *o, const export_type *type, char **bytes,
                                size_t *size, scion_error *err)
{
    static const char zeros[ALIGNMENT] = "";
    char *pairs = NULL;
    size_t pair_bytes = 0;
    header h = {.to = open_memstream(&pairs, &pair_bytes)};
    FILE *to = open_memstream(bytes, size);
    bool fine = h.to && to;
    scion_status status = fine ? put_pairs(&h, s, o, type, err) : SCION_OK;
    fine = h.to && fclose(h.to) == 0 && fine;
    if (fine && status == SCION_OK) {
        fwrite("GGUF", 1, 4, to);
        put_u32(to, 3);
        put_u64(to, (uint64_t)o->tensor_count);
        put_u64(to, h.pairs);
        fwrite(pairs, 1, pair_bytes, to);
        put_tensors(to, o, type);
        fflush(to);
        fwrite(zeros, 1, aligned(*size) - *size, to);
    }
    fine = to && fclose(to) == 0 && fine;
    free(pairs);
    return fine ? status : train_fail(err, SCION_ENOMEM, "out of memory for the header");
}

/* Writes a tensor and the padding behind it. */
static scion_status write_tensor(atomic_file *r, const model_tensor *t, const export_type *type, float *buffer,
                                 char *piece, scion_error *err)
{
    static const char zeros[ALIGNMENT] = "";
    const size_t bytes = export_bytes(t, type);
    const size_t step = PIECE / (size_t)type->block * type->block_bytes;
    for (size_t at = 0; at < bytes; at += step) {
        const size_t n = bytes - at < step ? bytes - at : step;
        export_piece(t, type, at, n, buffer, piece);
        RETURN_IF_FAILED(atomic_write(r, piece, n, err));
    }
    return atomic_write(r, zeros, aligned(bytes) - bytes, err);
}

static scion_status write_gguf(const char *out, const export_source *s, const model_outline *o,
                               const export_type *type, scion_error *err)
{
    atomic_file r = {.fd = -1, .folder = -1};
    char *bytes = NULL, *piece = malloc(PIECE * sizeof(float));
    float *buffer = malloc(PIECE * sizeof *buffer);
    size_t size = 0;
    scion_status status = SCION_OK;
    const char *unlike = tokenizer_unlike_gpt2(s->data->tokenizer);
    if (unlike)
        TRY(train_fail(err, SCION_EINVAL, "the tokenizer cannot be exported to GGUF: %s; export with format=hf",
                       unlike));
    if (!buffer || !piece)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the export"));
    TRY(make_header(s, o, type, &bytes, &size, err));
    TRY(atomic_begin(&r, -1, out, err));
    TRY(atomic_write(&r, bytes, size, err));
    for (int64_t i = 0; i < o->tensor_count; i++) {
        TRY(export_go_on(s, err));
        TRY(write_tensor(&r, &o->tensors[i], type_of_tensor(&o->tensors[i], type), buffer, piece, err));
    }
    TRY(atomic_commit(&r, err));
done:
    if (r.temporary)
        atomic_abort(&r);
    free(bytes);
    free(piece);
    free(buffer);
    return status;
}

const export_format export_gguf = {
    .name = "gguf",
    .help = "a file for llama.cpp",
    .format = MODEL_GGUF,
    .types = (const char *const[]){"bf16", "float32", "q8_0", NULL},
    .write = write_gguf,
};
