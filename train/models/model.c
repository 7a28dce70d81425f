/* See model.h. */
#include "models/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "util/array.h"
#include "util/fail.h"
#include "util/utf8.h"

const char *model_name(int i)
{
    int k = 0;
    while (k < i && model_rows[k])
        k++;
    return model_rows[k] ? model_rows[k]->name : NULL;
}

/* "model gpt needs tokens, the data have pixels and targets". */
static scion_status check_inputs(const model_row *row, const data_info *data, scion_error *err)
{
    char names[120] = "";
    for (const char *const *input = row->inputs; *input; input++) {
        if (data_find(data, *input) >= 0)
            continue;
        for (int i = 0; i < data->array_count; i++)
            utf8_append(names, sizeof names, "%s%.30s", i == 0 ? "" : " and ", data->arrays[i].name);
        return train_fail(err, SCION_EINVAL, "model %s needs %s, the data have %s", row->name, *input, names);
    }
    return SCION_OK;
}

scion_status model_record(model *m, const model_row *row, const void *options, const data_info *data, int64_t batch,
                          scion_error *err)
{
    memset(m, 0, sizeof *m);
    RETURN_IF_FAILED(check_inputs(row, data, err));
    if (row->check)
        RETURN_IF_FAILED(row->check(options, err));
    *m = (model){.row = row, .tape = tape_create(), .data = data, .batch = batch};
    if (!m->tape)
        return train_fail(err, SCION_ENOMEM, "out of memory for the model");
    row->record(m, options);
    const char *failed = tape_failed(m->tape);
    if (!failed)
        return SCION_OK;
    train_fail(err, SCION_EINVAL, "model %s: %s", row->name, failed);
    model_free(m);
    return SCION_EINVAL;
}

void model_free(model *m)
{
    tape_free(m->tape);
    memset(m, 0, sizeof *m);
}

scion_status model_check_heads(int64_t width, int64_t head_size, scion_error *err)
{
    if (width % head_size != 0)
        return train_fail(err, SCION_EINVAL, "width is %lld, expected a multiple of head_size %lld", (long long)width,
                          (long long)head_size);
    return SCION_OK;
}

const tape_value *model_param(const model *m, const char *name)
{
    for (int64_t i = 0; i < tape_param_count(m->tape); i++)
        if (strcmp(tape_param_at(m->tape, i)->name, name) == 0)
            return tape_param_at(m->tape, i);
    return NULL;
}

/* ---- Outlines for other programs ------------------------------------------------------------------------ */

scion_status model_outline_make(model_outline *out, const model *m, const void *options, model_format format,
                                scion_error *err)
{
    *out = (model_outline){.tensors = NULL};
    if (!m->row->to)
        return train_fail(
            err, SCION_EINVAL,
            "model %s cannot be exported: transformers and llama.cpp do not have it; its checkpoint is a "
            "safetensors file, which other programs read",
            m->row->name);
    return m->row->to->list(m, options, format, out, err);
}

void model_outline_free(model_outline *out)
{
    free(out->tensors);
    *out = (model_outline){.tensors = NULL};
}

static void put(model_outline *out, const model_setting *s)
{
    assert(out->setting_count < MODEL_SETTINGS);
    out->settings[out->setting_count++] = *s;
}

void model_put_int(model_outline *out, const char *key, int64_t value)
{
    put(out, &(model_setting){.key = key, .type = MODEL_INT, .integer = value});
}

void model_put_real(model_outline *out, const char *key, double value)
{
    put(out, &(model_setting){.key = key, .type = MODEL_REAL, .real = value});
}

void model_put_bool(model_outline *out, const char *key, bool value)
{
    put(out, &(model_setting){.key = key, .type = MODEL_BOOL, .integer = value});
}

void model_put_text(model_outline *out, const char *key, const char *value)
{
    put(out, &(model_setting){.key = key, .type = MODEL_TEXT, .text = value});
}

scion_status model_put_tensor(model_outline *out, const model_tensor *tensor, scion_error *err)
{
    model_tensor *to = array_append(&out->tensors, &out->tensor_count, sizeof *to);
    if (!to)
        return train_fail(err, SCION_ENOMEM, "out of memory for the list of tensors");
    *to = *tensor;
    return SCION_OK;
}

/* ---- For models ------------------------------------------------------------------------------------------ */

const data_array *model_array(const model *m, const char *name)
{
    return &m->data->arrays[data_find(m->data, name)];
}

tape_value *model_input(model *m, const char *name, int ndim, const int64_t *shape)
{
    const int i = data_find(m->data, name);
    const data_array *a = &m->data->arrays[i];
    int64_t own[DATA_DIMS + 1] = {m->batch}, count = 1;
    if (ndim == 0) {
        memcpy(own + 1, a->shape, sizeof a->shape);
        shape = own;
        ndim = 1 + a->ndim;
    }
    for (int k = 0; k < ndim; k++)
        count *= shape[k];
    if (count != m->batch * a->count)
        return tape_fail(m->tape, "input %s: %lld elements, but the data have %lld", name, (long long)count,
                         (long long)(m->batch * a->count));
    m->inputs[i] =
        a->type == DATA_INT32 ? tape_ints(m->tape, name, ndim, shape) : tape_floats(m->tape, name, ndim, shape);
    return m->inputs[i];
}

void model_bind_targets(model *m)
{
    const int64_t rows[] = {m->batch * model_array(m, "targets")->count};
    model_input(m, "targets", 1, rows);
    if (data_find(m->data, "target_weights") >= 0)
        model_input(m, "target_weights", 0, NULL);
}

void model_set_loss(model *m, tape_value *x, tape_value *head, double smoothing)
{
    const int weights = data_find(m->data, "target_weights");
    m->smoothing = smoothing;
    m->logits = op_linear(m->tape, x, head, NULL);
    m->loss = op_cross_entropy(m->tape, x, head, NULL, m->inputs[data_find(m->data, "targets")],
                               weights >= 0 ? m->inputs[weights] : NULL, smoothing);
}
