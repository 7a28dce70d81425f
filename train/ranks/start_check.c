/* See start_check.h. */
#include "ranks/start_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "product/kernel.h"
#include "util/fail.h"

char *start_text(const char *version, const char *kernels, const config *settings)
{
    char *text = NULL, value[CONFIG_TEXT];
    size_t bytes;
    const config_option *o;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    fprintf(to, "version=%s\n", version);
    fprintf(to, "%s kernels (SCION_ISA chooses others)\n", kernels);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        if (strcmp(o->key, "out") == 0 || strcmp(o->key, "threads") == 0)
            continue;
        config_get(settings, o, value, sizeof value);
        fprintf(to, "%s=%s\n", o->key, value);
    }
    return fclose(to) == 0 ? text : NULL;
}

scion_status start_compare(const char *first, const char *own, scion_error *err)
{
    while (*first || *own) {
        const int length = (int)strcspn(first, "\n"), own_length = (int)strcspn(own, "\n");
        if (length != own_length || strncmp(first, own, (size_t)length) != 0)
            return train_fail(err, SCION_EINVAL, "this rank has %.*s, rank 0 has %.*s",
                              own_length < 80 ? own_length : 80, own, length < 80 ? length : 80, first);
        first += length + (first[length] != '\0');
        own += length + (own[length] != '\0');
    }
    return SCION_OK;
}

/* Compares a text with rank 0's. NULL: out of memory. */
static scion_status compare_with_first(comm *c, const char *own, scion_error *err)
{
    int64_t bytes = own ? (int64_t)strlen(own) + 1 : 0;
    if (own)
        comm_broadcast(c, 0, &bytes, sizeof bytes);
    char *first = own ? malloc((size_t)bytes) : NULL;
    if (!first) {
        comm_fail(c, c->rank, "is out of memory"); /* the others wait for this rank to pass it on */
        return train_fail(err, SCION_ENOMEM, "out of memory");
    }
    if (c->rank == 0)
        memcpy(first, own, (size_t)bytes);
    comm_broadcast(c, 0, first, (size_t)bytes);
    const scion_status status = start_compare(first, own, err);
    free(first);
    return status;
}

scion_status start_check_settings(comm *c, const config *settings, scion_error *err)
{
    if (c->size == 1)
        return SCION_OK;
    /* a set that only multiplies bfloat16 otherwise is the same if nothing is computed in that */
    const bool bf16 =
        (scion_dtype)settings->training.compute == SCION_BF16 || config_polar_compute(settings) == SCION_BF16;
    char *own = start_text(scion_version(), bf16 ? scn_isa_used()->name : scn_kernel_for(SCION_F32)->name, settings);
    const scion_status status = compare_with_first(c, own, err);
    free(own);
    return status;
}

scion_status start_check_data(comm *c, const data_info *d, scion_error *err)
{
    char own[320];
    const uint64_t tokens = d->tokenizer ? tokenizer_hash(d->tokenizer) : 0;
    snprintf(own, sizeof own,
             "data %.60s\ndata of hash %016" PRIx64 "-%016" PRIx64
             "\ndata of %lld and %lld units, %lld in a sample\ntokenizer of hash %016" PRIx64,
             d->description, d->hash, d->glance, (long long)d->units[DATA_TRAIN], (long long)d->units[DATA_VAL],
             (long long)d->sample_units, tokens);
    return c->size == 1 ? SCION_OK : compare_with_first(c, own, err);
}

scion_status start_check_position(comm *c, int64_t step, int64_t micro, scion_error *err)
{
    char own[128];
    snprintf(own, sizeof own, "a checkpoint after step %lld and %lld micro-batches", (long long)step,
             (long long)micro);
    return c->size == 1 ? SCION_OK : compare_with_first(c, own, err);
}
