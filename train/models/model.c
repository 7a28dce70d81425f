/* See model.h. */
#include "models/model.h"

#include <string.h>

#include "base/fail.h"

const char *model_name(int i)
{
    int count = 0;
    while (model_rows[count])
        count++;
    return i >= 0 && i < count ? model_rows[i]->name : NULL;
}

scion_status model_record(model *m, const model_row *row, const void *options, const model_shape *s, scion_error *err)
{
    memset(m, 0, sizeof *m);
    if (row->tokens != (s->vocab > 0))
        return train_fail(err, SCION_EINVAL, "model %s learns from %s, but the data are %s", row->name,
                          row->tokens ? "sequences of tokens" : "images", row->tokens ? "images" : "tokens");
    scion_status status = row->check ? row->check(options, err) : SCION_OK;
    if (status != SCION_OK)
        return status;
    m->tape = tape_create();
    if (!m->tape)
        return train_fail(err, SCION_ENOMEM, "out of memory for the model");
    row->record(m, options, s);
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
