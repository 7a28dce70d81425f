/* Tokenizers: text to tokens and back. One file per kind and one row each in tokenizer_rows.c (tokenizer_row.h):
 * characters, bytes, byte pair encoding. A tokenizer never changes: all functions but learn, open and free may be
 * called by several threads at once. */
#ifndef TRAIN_TEXT_TOKENIZER_H
#define TRAIN_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

typedef struct tokenizer tokenizer;

/* Text to learn from. Nothing is learned across the border of two. */
typedef struct tokenizer_text {
    const char *bytes;
    size_t count;
} tokenizer_text;

/* How a vocabulary is learned. */
typedef struct tokenizer_options {
    int64_t vocab;            /* bpe: number of tokens, with the 256 bytes and the separator */
    int64_t max_token_length; /* bpe: bytes; 0: no limit */
    int threads;              /* changes nothing but the time; 0: the default */
    /* Says how far the work is, 0 <= share <= 1; called by the calling thread. NULL: not wanted. */
    void (*progress)(void *ctx, const char *what, double share);
    void *ctx;
} tokenizer_options;

/* Makes a tokenizer of a kind, from texts or from the bytes that tokenizer_save wrote; damaged bytes are an error. On
 * an error *out is NULL. */
scion_status tokenizer_learn(tokenizer **out, const char *kind, const tokenizer_text *texts, int64_t count,
                             const tokenizer_options *o, scion_error *err);
scion_status tokenizer_open(tokenizer **out, const char *kind, const void *bytes, size_t size, scion_error *err);
/* Opens files that others wrote: a tokenizer.json, a tiktoken file, or a folder with tokenizer.json, with
 * encoder.json and vocab.bpe, or with vocab.json and merges.txt. */
scion_status tokenizer_open_path(tokenizer **out, const char *path, scion_error *err);
void tokenizer_free(tokenizer *t);
/* Free *bytes, which may be NULL where *size is 0. */
scion_status tokenizer_save(const tokenizer *t, void **bytes, size_t *size, scion_error *err);

/* Encodes n bytes to at most one token for each. Returns the number of tokens. If *bad < n, encoding ended at that
 * byte and err says why: the text there has no token, or there is no memory. The text is plain: the characters of a
 * separator in it are characters. */
int64_t tokenizer_encode(const tokenizer *t, const char *text, size_t n, int32_t *tokens, size_t *bad,
                         scion_error *err);
/* Bytes of a token, which live as long as t; NULL: there is no such token. */
const char *tokenizer_decode(const tokenizer *t, int32_t token, size_t *n);

/* The last place in a text, at most n bytes from its start and before its end, where it can be cut in two without a
 * change to its tokens; 0: none is known. */
size_t tokenizer_cut(const tokenizer *t, const char *text, size_t n);

const char *tokenizer_name(const tokenizer *t);  /* of its kind */
const char *tokenizer_unit(const tokenizer *t);  /* of counts: "characters", "bytes", "tokens" */
int64_t tokenizer_size(const tokenizer *t);      /* 1 + the largest token */
int32_t tokenizer_separator(const tokenizer *t); /* the token between documents, "<|endoftext|>"; -1: none */
/* Pattern i, from 0, by which a text is split into words before it is encoded; NULL past the last. */
const char *tokenizer_pattern(const tokenizer *t, int i);
uint64_t tokenizer_hash(const tokenizer *t); /* of its kind and the bytes that save writes */

/* ---- For files of other programs ---- */

/* A tokenizer.json with the same tokens, of any kind; nothing is added to a text. Free *bytes. */
scion_status tokenizer_json(const tokenizer *t, void **bytes, size_t *size, scion_error *err);
/* True for a token that stands for something that no text has: the separator, say. */
bool tokenizer_is_added(const tokenizer *t, int32_t token);
/* Two sequences of bytes that become one, which need not be a token. */
typedef struct tokenizer_pair {
    const char *left, *right;
    size_t left_bytes, right_bytes;
} tokenizer_pair;
/* Pair i, from 0, in the order in which they are merged; one of no bytes is none. False past the last. */
bool tokenizer_merge(const tokenizer *t, int64_t i, tokenizer_pair *p);
/* Reason why GPT-2's algorithm (its pattern, then merges by rank) would give other tokens; NULL: it gives these. */
const char *tokenizer_unlike_gpt2(const tokenizer *t);

#endif
