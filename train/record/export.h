/* Files of a trained model for other programs, one row for each format:
 *     hf      a folder for transformers: config.json, model.safetensors, tokenizer.json, ...  (export_hf.c)
 *     gguf    a file for llama.cpp                                                            (export_gguf.c)
 * The model's row says by which names, hyperparameters and factors (model_export); docs/export.md has the whole. */
#ifndef TRAIN_RECORD_EXPORT_H
#define TRAIN_RECORD_EXPORT_H

#include "config/config.h"
#include "data/data.h"
#include "models/model.h"
#include "record/run_record.h"

/* Types in which the entries of tensors are stored. */
typedef struct export_type {
    const char *name;
    const char *dtype, *torch; /* in safetensors and in config.json; NULL: it does not have this type */
    uint32_t gguf, file_type;  /* numbers of the type, and of a file of it, in GGUF */
    int64_t block;             /* entries that are stored together; divides the rows of a tensor */
    size_t block_bytes;
    void (*store)(int64_t n, const float *from, void *to); /* n: a multiple of block */
} export_type;

/* The model to export. */
typedef struct export_source {
    const model *model; /* with its weights */
    const config *config;
    const data_info *data; /* has the tokenizer */
    const char *name;      /* of the run */
    int64_t step, parameters;
    const run_record *record; /* for the model card; NULL: only the checkpoint is there */
    bool (*stop)(void *ctx);  /* asked before the files get their name */
} export_source;

typedef struct export_format {
    const char *name, *help;
    model_format format;
    const char *const *types; /* their names, the default first, ended by NULL */
    /* Writes `out`, which does not exist. After an error nothing is there. */
    scion_status (*write)(const char *out, const export_source *s, const model_outline *outline,
                          const export_type *type, scion_error *err);
} export_format;

/* Row i, NULL past the last. */
const export_format *export_format_at(int i);

/* Writes `out` in a format by its name, in a type by its name (NULL: the default). Refuses a model or tokenizer that
 * the format cannot express, and an `out` that exists. Until all is written, its name is OUT.tmp.PID. */
scion_status export_model(const char *out, const char *format, const char *type, const export_source *s,
                          scion_error *err);

/* ---- For formats ---- */

extern const export_format export_hf, export_gguf;
extern const export_type export_float32, export_bf16, export_q8_0;

/* Shape of a tensor, rows first; returns the number of dimensions. */
int export_shape(const model_tensor *t, int64_t shape[4]);
size_t export_bytes(const model_tensor *t, const export_type *type);
/* Stores `bytes` bytes of a tensor from `at` on, whole blocks, into `to`; `buffer` has space for their entries. */
void export_piece(const model_tensor *t, const export_type *type, size_t at, size_t bytes, float *buffer, void *to);
/* SCION_ESTOPPED if the source says so. */
scion_status export_go_on(const export_source *s, scion_error *err);

#endif
