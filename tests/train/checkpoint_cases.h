/* A small checkpoint that the tests of checkpoints write, read and damage. */
#ifndef SCION_TESTS_CHECKPOINT_CASES_H
#define SCION_TESTS_CHECKPOINT_CASES_H

#include "scratch.h"

#include "record/checkpoint.h"

enum { sample_tensors = 6, sample_metas = 4 };

typedef struct sample {
    float weights[6], scalar;
    uint16_t halves[5];
    unsigned char state[13];
    int64_t counts[2];
    checkpoint_tensor tensors[sample_tensors];
    checkpoint_meta meta[sample_metas];
} sample;

/* Fills it in with random bytes; not every one of them is a finite number. */
static inline sample *sample_make(rng *r)
{
    sample *s = room(sizeof *s);
    for (size_t i = 0; i < offsetof(sample, tensors); i++)
        ((unsigned char *)s)[i] = (unsigned char)(rng_uniform(r) * 256);
    const checkpoint_tensor tensors[] = {
        {"optimizer", "U8", 1, {13}, s->state, 13},
        {"blocks.0.weight", "F32", 2, {2, 3}, s->weights, 24},
        {"half \"\\\xc3\xa9", "BF16", 1, {5}, s->halves, 10},
        {"counts", "I64", 1, {2}, s->counts, 16},
        {"empty", "F32", 3, {4, 0, 7}, NULL, 0},
        {"scalar", "F32", 0, {0}, &s->scalar, 4},
    };
    const checkpoint_meta meta[] = {
        {"format", "test-1"},
        {"config", "{\"lr\":\"0.1\",\"text\":\"a\\nb\"}"},
        {"vocabulary", "\n !\"\\abc\xc3\xa9\xe2\x82\xac"},
        {"bytes", "a\xff\xfe\x80z"}, /* no UTF-8 */
    };
    memcpy(s->tensors, tensors, sizeof tensors);
    memcpy(s->meta, meta, sizeof meta);
    return s;
}

static inline scion_status write_tensors(const char *path, const checkpoint_tensor *tensors, int count,
                                         const checkpoint_meta *meta, int metas, scion_error *err)
{
    return checkpoint_write(-1, path, &(checkpoint_contents){tensors, count, meta, metas, NULL, NULL}, err);
}

static inline void sample_write(const sample *s, const char *path)
{
    scion_error err;
    check_ok(write_tensors(path, s->tensors, sample_tensors, s->meta, sample_metas, &err), &err);
}

/* The file holds exactly this. */
static inline void sample_check(const sample *s, const char *path)
{
    checkpoint *c = NULL;
    scion_error err;
    check_ok(checkpoint_open(&c, path, &err), &err);
    check(checkpoint_verified(c));
    for (int i = 0; i < sample_tensors; i++) {
        const checkpoint_tensor *want = &s->tensors[i], *got = checkpoint_find(c, want->name);
        at("tensor %s", want->name);
        check(got != NULL && strcmp(got->dtype, want->dtype) == 0 && got->ndim == want->ndim);
        check(got->bytes == want->bytes && memcmp(got->shape, want->shape, sizeof got->shape) == 0);
        if (want->bytes > 0)
            check_bits(want->bytes, got->data, want->data);
    }
    for (int i = 0; i < sample_metas; i++) {
        at("metadata %s", s->meta[i].key);
        check(checkpoint_get(c, s->meta[i].key) != NULL);
        check(strcmp(checkpoint_get(c, s->meta[i].key), s->meta[i].value) == 0);
    }
    check(checkpoint_at(c, sample_tensors) == NULL && checkpoint_at(c, -1) == NULL);
    check(checkpoint_find(c, "none") == NULL && checkpoint_get(c, "none") == NULL);
    checkpoint_close(c);
}

#endif
