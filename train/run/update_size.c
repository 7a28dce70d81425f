/* See update_size.h. */
#include "run/update_size.h"

#include <math.h>
#include <stdlib.h>

#include "base/arith.h"
#include "base/bf16.h"

struct update_size {
    const tape *t;
    float *before; /* UPDATE_ENTRIES for each parameter */
    bool kept;
};

update_size *update_size_create(const tape *t)
{
    update_size *u = calloc(1, sizeof *u);
    float *before = malloc(((size_t)tape_param_count(t) * UPDATE_ENTRIES + 1) * sizeof *before);
    if (!u || !before) {
        free(u);
        free(before);
        return NULL;
    }
    *u = (update_size){.t = t, .before = before};
    return u;
}

void update_size_free(update_size *u)
{
    if (u)
        free(u->before);
    free(u);
}

static int64_t entries_of(const tape_value *v)
{
    return scn_min(v->count, UPDATE_ENTRIES);
}

/* Entry k of those that are measured. */
static float entry(const tape_value *v, int64_t k)
{
    const int64_t n = entries_of(v), i = k * (v->count / n) + k * (v->count % n) / n;
    float value;
    if (v->data)
        return v->data[i];
    scn_from_bf16(1, v->half + i, &value);
    return value;
}

void update_size_keep(update_size *u)
{
    for (int64_t p = 0; p < tape_param_count(u->t); p++) {
        const tape_value *v = tape_param_at(u->t, p);
        for (int64_t k = 0; k < entries_of(v); k++)
            u->before[p * UPDATE_ENTRIES + k] = entry(v, k);
    }
    u->kept = true;
}

void update_size_measure(update_size *u, run_norm *norms, int64_t count)
{
    for (int64_t p = 0; p < count; p++) {
        const tape_value *v = tape_param_at(u->t, p);
        const float *before = u->before + p * UPDATE_ENTRIES;
        double change = 0, size = 0;
        for (int64_t k = 0; u->kept && k < entries_of(v); k++) {
            const double d = (double)entry(v, k) - (double)before[k];
            change += d * d;
            size += (double)before[k] * (double)before[k];
        }
        norms[p].update_size = size > 0 ? sqrt(change / size) : NAN;
    }
    u->kept = false;
}
