/* The table of models. */
#include "models/model.h"

#include <string.h>

#include "base/fail.h"
#include "models/models.h"

static const model_row *const table[] = {&model_gpt, &model_mlp};

enum { models = sizeof table / sizeof *table };

const model_row *model_at(int i)
{
    return i >= 0 && i < models ? table[i] : NULL;
}

const model_row *model_find(const char *name)
{
    for (int i = 0; i < models; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

scion_status model_record(model *m, const config *c, const model_shape *s, scion_error *err)
{
    const model_row *row = model_find(c->model.name);
    memset(m, 0, sizeof *m);
    if (!row)
        return train_fail(err, SCION_EINVAL, "model: there is no model %s", c->model.name);
    if (row->tokens != (s->vocab > 0))
        return train_fail(err, SCION_EINVAL, "model %s learns from %s, but the data are %s", row->name,
                          row->tokens ? "sequences of tokens" : "images", row->tokens ? "images" : "tokens");
    m->tape = tape_create();
    if (!m->tape)
        return train_fail(err, SCION_ENOMEM, "out of memory for the model");
    row->record(m, c, s);
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
