/* See trainer_hf.h. A tensor there is a factor times a weight here; factors 1 and 2 are divided out exactly, sqrt(2)
 * to rounding. */
#include "trainer/trainer_hf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "record/run_dir.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"

bool trainer_hf_is(const char *init)
{
    char path[RUN_PATH];
    return hf_folder_is(init) && run_dir_best(init, path, NULL) != SCION_OK;
}

/* ---- Settings ----------------------------------------------------------------------------------------- */

/* "init: FOLDER: " before a sentence. */
static scion_status refused(const hf_folder *f, scion_status status, const char *why, scion_error *err)
{
    return train_fail(err, status, "init: %s: %s", path_tail(hf_folder_path(f), 60), why);
}

/* The model whose class this is; NULL: none. */
static const model_row *row_of(const char *class_name)
{
    for (int i = 0; model_rows[i]; i++)
        if (class_name && model_rows[i]->to && model_rows[i]->to->take &&
            strcmp(model_rows[i]->to->class_name, class_name) == 0)
            return model_rows[i];
    return NULL;
}

scion_status trainer_hf_config(const hf_folder *f, const char *activation, config *c, scion_error *err)
{
    const char *class_name = hf_folder_class(f);
    const model_row *row = row_of(class_name);
    model_taken choices[MODEL_TAKEN];
    scion_error inner;
    int count = 0;
    config_init(c);
    if (!row)
        return train_fail(err, SCION_EINVAL,
                          "init: %s: architecture %.60s is not one of this program; the folders that scion export "
                          "writes can be taken",
                          path_tail(hf_folder_path(f), 60), class_name ? class_name : "unknown");
    scion_status status = row->to->take(hf_folder_config(f), activation ? activation : hf_folder_get(f, "activation"),
                                        choices, &count, &inner);
    if (status == SCION_OK)
        status = config_set(c, "model", row->name, "config.json", &inner);
    for (int i = 0; status == SCION_OK && i < count; i++)
        status = config_set(c, choices[i].key, choices[i].value, "config.json", &inner);
    return status == SCION_OK ? SCION_OK : refused(f, status, inner.message, err);
}

/* ---- The tokenizer ------------------------------------------------------------------------------------ */

scion_status trainer_hf_context(const hf_folder *f, const config *c, data_context *context, void **saved,
                                scion_error *err)
{
    const json_t *size = json_object_get(hf_folder_config(f), "vocab_size");
    const bool given = c->data.tokenizer[0] && strcmp(c->data.tokenizer, "auto") != 0;
    tokenizer *t = NULL;
    scion_error inner;
    *saved = NULL;
    if (!json_is_integer(size) || json_integer_value(size) < 1 || json_integer_value(size) > 1 << 24)
        return refused(f, SCION_EINVAL, "config.json: vocab_size is not a number of tokens", err);
    context->range = json_integer_value(size);
    scion_status status = tokenizer_open_path(&t, hf_folder_path(f), &inner);
    if (status != SCION_OK) {
        if (given)
            return SCION_OK; /* the data's, which must have tokens below the range */
        return train_fail(
            err, status,
            "init: its tokenizer cannot be read (%.110s): tokenizer=FILE|FOLDER names one with the same "
            "tokens",
            inner.message);
    }
    if (given && !file_same(c->data.tokenizer, hf_folder_path(f)))
        status = train_fail(err, SCION_EINVAL,
                            "init: %s has its own tokenizer, of %lld tokens: leave tokenizer out, or say "
                            "tokenizer=%s",
                            path_tail(hf_folder_path(f), 50), (long long)tokenizer_size(t),
                            path_tail(hf_folder_path(f), 50));
    else if (tokenizer_size(t) > context->range)
        status =
            train_fail(err, SCION_EINVAL, "init: %s: its tokenizer has %lld tokens, but config.json says %lld",
                       path_tail(hf_folder_path(f), 60), (long long)tokenizer_size(t), (long long)context->range);
    size_t bytes = 0;
    if (status == SCION_OK)
        status = tokenizer_save(t, saved, &bytes, err);
    if (status == SCION_OK) /* names of kinds are constants */
        context->vocabulary = (data_vocabulary){tokenizer_name(t), *saved, bytes};
    tokenizer_free(t);
    return status;
}

/* ---- Weights ------------------------------------------------------------------------------------------ */

/* One tensor of the outline. */
static scion_status find_tensor(const hf_folder *f, const model_tensor *t, const checkpoint_tensor **out,
                                scion_error *err)
{
    char why[160];
    const checkpoint_tensor *from = *out = hf_folder_find(f, t->name);
    const int ndim = t->param ? t->param->ndim : 1;
    const int64_t *shape = t->param ? t->param->shape : &t->ones;
    bool fits = from && from->ndim == ndim;
    for (int i = 0; fits && i < ndim; i++)
        fits = from->shape[i] == shape[i];
    if (!from)
        snprintf(why, sizeof why, "tensor %.60s is missing", t->name);
    else if (!fits)
        snprintf(why, sizeof why, "tensor %.60s has another shape than config.json says", t->name);
    else if (strcmp(from->dtype, "F32") != 0 && strcmp(from->dtype, "BF16") != 0)
        snprintf(why, sizeof why, "tensor %.60s is %.10s; save it as float32 or bfloat16", t->name, from->dtype);
    else
        return SCION_OK;
    return refused(f, SCION_EINVAL, why, err);
}

/* Entries [first, first + n) of a tensor, which need not be aligned in its file. */
static void read_floats(const checkpoint_tensor *t, int64_t first, int64_t n, float *to)
{
    enum { piece = 256 };
    if (strcmp(t->dtype, "F32") == 0) {
        memcpy(to, (const char *)t->data + (size_t)first * sizeof *to, (size_t)n * sizeof *to);
        return;
    }
    uint16_t half[piece];
    for (int64_t i = 0; i < n; i += piece) {
        const int64_t count = n - i < piece ? n - i : piece;
        memcpy(half, (const char *)t->data + (size_t)(first + i) * sizeof *half, (size_t)count * sizeof *half);
        scn_from_bf16(count, half, to + i);
    }
}

static scion_status check_ones(const hf_folder *f, const checkpoint_tensor *t, int64_t count, scion_error *err)
{
    char why[200];
    for (int64_t i = 0; i < count; i++) {
        float x;
        read_floats(t, i, 1, &x);
        if (x == 1)
            continue;
        snprintf(
            why, sizeof why,
            "%.60s has the gain %g: norms have no gains here; a model that is trained elsewhere must keep them at 1",
            t->name, (double)x);
        return refused(f, SCION_EINVAL, why, err);
    }
    return SCION_OK;
}

/* Stores a tensor divided by its factor as a weight. */
static void store(const checkpoint_tensor *from, float factor, int64_t count, scion_dtype type, void *to)
{
    enum { piece = 4096 };
    float x[piece];
    for (int64_t i = 0; i < count; i += piece) {
        const int64_t n = count - i < piece ? count - i : piece;
        read_floats(from, i, n, x);
        for (int64_t k = 0; factor != 1 && k < n; k++)
            x[k] /= factor;
        if (type == SCION_BF16)
            scn_to_bf16(n, x, (uint16_t *)to + i);
        else
            memcpy((float *)to + i, x, (size_t)n * sizeof *x);
    }
}

/* Refuses tensors that the network does not have. */
static scion_status check_extra(const hf_folder *f, const model_outline *o, scion_error *err)
{
    const checkpoint_tensor *t;
    char why[160];
    int64_t k = 0;
    for (; (t = hf_folder_at(f, k)) != NULL; k++) {
        int64_t i = 0;
        while (i < o->tensor_count && strcmp(o->tensors[i].name, t->name) != 0)
            i++;
        if (i < o->tensor_count)
            continue;
        snprintf(why, sizeof why, "tensor %.80s is not one of this network", t->name);
        return refused(f, SCION_EINVAL, why, err);
    }
    return SCION_OK;
}

scion_status trainer_hf_weights(trainer *t, const hf_folder *f, scion_error *err)
{
    model_outline outline = {.tensors = NULL};
    scion_status status;
    TRY(model_outline_make(&outline, &t->model, config_model_options(&t->c), MODEL_HF, err));
    TRY(check_extra(f, &outline, err));
    for (int64_t i = 0; i < outline.tensor_count; i++) {
        const model_tensor *to = &outline.tensors[i];
        const checkpoint_tensor *from;
        TRY(find_tensor(f, to, &from, err));
        if (to->param)
            store(from, to->factor, to->param->count, flat_type(LIKE_WEIGHTS, to->param),
                  flat_at(t->flats[FLAT_WEIGHTS], LIKE_WEIGHTS, to->param));
        else
            TRY(check_ones(f, from, to->ones, err));
    }
    const char *bad = trainer_nonfinite(t, true);
    if (bad)
        TRY(train_fail(err, SCION_ENONFINITE, "init: %s: %s is not finite: the model is of no use",
                       path_tail(hf_folder_path(f), 60), bad));
done:
    model_outline_free(&outline);
    return status;
}
