/* See running_buffers.h. */
#include "ranks/running_buffers.h"

#include <stdlib.h>
#include <string.h>

#include "util/fail.h"

/* The next running buffer from number *i on; NULL: none. */
static const tape_value *next_running(const tape *t, int64_t *i)
{
    while (*i < tape_buffer_count(t)) {
        const tape_value *v = tape_buffer_at(t, (*i)++);
        if (v->running)
            return v;
    }
    return NULL;
}

scion_status running_make(running_buffers *m, const tape *t, const step_share *share, scion_error *err)
{
    const tape_value *v;
    *m = (running_buffers){.tape = t, .share = share, .max_pieces = share_max_pieces(share)};
    for (int64_t i = 0; (v = next_running(t, &i)) != NULL;)
        m->count += v->count;
    if (m->count > 0 && !(m->parts = calloc((size_t)(share->ranks * m->max_pieces * m->count), sizeof *m->parts)))
        return train_fail(err, SCION_ENOMEM, "out of memory for running statistics");
    return SCION_OK;
}

void running_free(running_buffers *m)
{
    free(m->parts);
}

void running_clear(const running_buffers *m)
{
    const tape_value *v;
    for (int64_t i = 0; m->count > 0 && (v = next_running(m->tape, &i)) != NULL;)
        memset(v->data, 0, (size_t)v->count * sizeof *v->data);
}

static float *part_at(const running_buffers *m, int rank, int64_t k)
{
    return m->parts + (rank * m->max_pieces + k) * m->count;
}

void running_keep(const running_buffers *m, int64_t k)
{
    float *to = m->count > 0 ? part_at(m, m->share->rank, k) : NULL;
    const tape_value *v;
    for (int64_t i = 0; to && (v = next_running(m->tape, &i)) != NULL; to += v->count)
        memcpy(to, v->data, (size_t)v->count * sizeof *to);
}

void running_apply(const running_buffers *m, comm *c, const float *before, int64_t skip)
{
    const tape_value *v;
    if (m->count == 0)
        return;
    comm_gather(c, part_at(m, c->rank, 0), (size_t)(m->max_pieces * m->count) * sizeof *m->parts, m->parts);
    for (int64_t i = 0; i < tape_buffer_count(m->tape); i++) {
        v = tape_buffer_at(m->tape, i);
        memcpy(v->data, before + v->offset, (size_t)v->count * sizeof *v->data);
    }
    for (int rank = 0; rank < c->size; rank++)
        for (int64_t k = 0; k < share_pieces(m->share, rank); k++) {
            const float *part = part_at(m, rank, k);
            if (skip-- > 0)
                continue;
            for (int64_t i = 0; (v = next_running(m->tape, &i)) != NULL; part += v->count)
                for (int64_t e = 0; e < v->count; e++)
                    v->data[e] = (float)(v->decay * (double)v->data[e] + (double)part[e]);
        }
}
