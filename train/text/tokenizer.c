/* See tokenizer.h: what all kinds have in common. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "util/fail.h"
#include "util/utf8.h"
#include "text/tokenizer_row.h"

const tokenizer_row *tokenizer_find_row(const char *name)
{
    for (int i = 0; tokenizer_rows[i]; i++)
        if (strcmp(tokenizer_rows[i]->name, name) == 0)
            return tokenizer_rows[i];
    return NULL;
}

static scion_status unknown_kind(const char *name, scion_error *err)
{
    char names[160] = "";
    for (int i = 0; tokenizer_rows[i]; i++)
        utf8_append(names, sizeof names, "%s%s", names[0] ? ", " : "", tokenizer_rows[i]->name);
    return train_fail(err, SCION_EINVAL, "there is no kind of tokenizer %.40s; there are %s", name, names);
}

static scion_status make(tokenizer **out, const char *kind, scion_error *err)
{
    const tokenizer_row *row = tokenizer_find_row(kind);
    *out = NULL;
    if (!row)
        return unknown_kind(kind, err);
    tokenizer *t = calloc(1, sizeof *t);
    void *state = row->state_bytes > 0 ? calloc(1, row->state_bytes) : NULL;
    if (!t || (row->state_bytes > 0 && !state)) {
        free(t);
        free(state);
        return train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
    }
    *t = (tokenizer){.row = row, .state = state, .separator = -1, .unit = "tokens"};
    *out = t;
    return SCION_OK;
}

/* Hashes a tokenizer that was made, or frees it if that failed. */
static scion_status finish(tokenizer **out, scion_status status, scion_error *err)
{
    tokenizer *t = *out;
    void *bytes = NULL;
    size_t size = 0;
    if (status == SCION_OK)
        status = t->row->save(t, &bytes, &size, err);
    if (status == SCION_OK) {
        t->hash = XXH3_64bits(t->row->name, strlen(t->row->name));
        if (size > 0)
            t->hash = XXH3_64bits_withSeed(bytes, size, t->hash);
    } else {
        tokenizer_free(t);
        *out = NULL;
    }
    free(bytes);
    return status;
}

scion_status tokenizer_learn(tokenizer **out, const char *kind, const tokenizer_text *texts, int64_t count,
                             const tokenizer_options *o, scion_error *err)
{
    RETURN_IF_FAILED(make(out, kind, err));
    const tokenizer_row *row = (*out)->row;
    return finish(out, row->learn ? row->learn(*out, texts, count, o, err) : row->open(*out, NULL, 0, err), err);
}

scion_status tokenizer_open(tokenizer **out, const char *kind, const void *bytes, size_t size, scion_error *err)
{
    RETURN_IF_FAILED(make(out, kind, err));
    return finish(out, (*out)->row->open(*out, bytes, size, err), err);
}

void tokenizer_free(tokenizer *t)
{
    if (!t)
        return;
    if (t->row->close)
        t->row->close(t);
    free(t->state);
    free(t);
}

scion_status tokenizer_save(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    *bytes = NULL;
    *size = 0;
    return t->row->save(t, bytes, size, err);
}

int64_t tokenizer_encode(const tokenizer *t, const char *text, size_t n, int32_t *tokens, size_t *bad,
                         scion_error *err)
{
    *bad = n;
    return t->row->encode(t, text, n, tokens, bad, err);
}

const char *tokenizer_decode(const tokenizer *t, int32_t token, size_t *n)
{
    *n = 0;
    return token >= 0 && token < t->size ? t->row->decode(t, token, n) : NULL;
}

size_t tokenizer_cut(const tokenizer *t, const char *text, size_t n)
{
    return t->row->cut ? t->row->cut(t, text, n) : 0;
}

const char *tokenizer_unit(const tokenizer *t)
{
    return t->unit;
}

const char *tokenizer_name(const tokenizer *t)
{
    return t->row->name;
}

int64_t tokenizer_size(const tokenizer *t)
{
    return t->size;
}

int32_t tokenizer_separator(const tokenizer *t)
{
    return t->separator;
}

const char *tokenizer_pattern(const tokenizer *t, int i)
{
    return t->row->pattern ? t->row->pattern(t, i) : NULL;
}

uint64_t tokenizer_hash(const tokenizer *t)
{
    return t->hash;
}

scion_status tokenizer_json(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    *bytes = NULL;
    *size = 0;
    return t->row->json(t, bytes, size, err);
}

bool tokenizer_is_added(const tokenizer *t, int32_t token)
{
    return t->row->is_added && t->row->is_added(t, token);
}

bool tokenizer_merge(const tokenizer *t, int64_t i, tokenizer_pair *p)
{
    return t->row->merge && t->row->merge(t, i, p);
}

const char *tokenizer_unlike_gpt2(const tokenizer *t)
{
    return t->row->unlike_gpt2 ? t->row->unlike_gpt2(t) : NULL;
}
