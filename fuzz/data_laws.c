/* See fuzz_data.h. */
#include "fuzz_data.h"

#include <math.h>
#include <string.h>

enum { batch = 2, max_batches = 8 };

data_options fuzz_data_options(const char *kind, const char *path)
{
    data_options o;
    memset(&o, 0, sizeof o);
    snprintf(o.path, sizeof o.path, "%s", path);
    snprintf(o.kind, sizeof o.kind, "%s", kind);
    o.val_fraction = 0.3;
    o.block = 3;
    return o;
}

data_set *fuzz_data_open(const data_options *o, data_vocabulary vocabulary)
{
    data_set *d;
    scion_error err = {0};
    const data_context context = {.seed = 1, .vocabulary = vocabulary};
    if (data_open(&d, o, &context, &err) == SCION_OK)
        return d;
    fuzz_require(d == NULL);
    fuzz_require_sentence(&err);
    return NULL;
}

static void read_batch(const data_set *d, data_part part, int64_t at)
{
    const data_info *info = data_about(d);
    void *arrays[DATA_ARRAYS] = {NULL};
    scion_error err = {0};
    for (int i = 0; i < info->array_count; i++) {
        arrays[i] = malloc((size_t)(batch * info->arrays[i].count) * DATA_TYPE_BYTES);
        fuzz_require(arrays[i]);
    }
    fuzz_require(data_fill(d, (data_sequence){.part = part}, at * batch, batch, arrays, &err) == SCION_OK);
    for (int i = 0; i < info->array_count; i++) {
        const data_array *a = &info->arrays[i];
        for (int64_t k = 0; k < batch * a->count; k++) {
            if (a->type == DATA_FLOAT32)
                fuzz_require(isfinite(((const float *)arrays[i])[k]));
            else
                fuzz_require(((const int32_t *)arrays[i])[k] >= -1 && ((const int32_t *)arrays[i])[k] < a->range);
        }
        free(arrays[i]);
    }
}

void fuzz_data_read(const data_set *d)
{
    for (int part = 0; part < DATA_PARTS; part++) {
        const int64_t batches = (data_about(d)->samples[part] + batch - 1) / batch;
        for (int64_t i = 0; i < batches && i < max_batches; i++)
            read_batch(d, (data_part)part, i);
    }
}
