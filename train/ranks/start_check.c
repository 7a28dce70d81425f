/* See start_check.h. */
#include "ranks/start_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"

char *start_text(const char *version, const config *settings)
{
    char *text = NULL, value[CONFIG_TEXT];
    size_t bytes;
    const config_option *o;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    fprintf(to, "version=%s\n", version);
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

scion_status start_check_settings(comm *c, const config *settings, scion_error *err)
{
    if (c->size == 1)
        return SCION_OK;
    char *own = start_text(scion_version(), settings);
    int64_t bytes = own ? (int64_t)strlen(own) + 1 : 0;
    comm_broadcast(c, 0, &bytes, sizeof bytes);
    char *first = bytes > 0 ? malloc((size_t)bytes) : NULL;
    if (bytes > 0 && !first) { /* the others wait for this rank to pass it on */
        free(own);
        comm_fail(c, c->rank, "is out of memory");
        return train_fail(err, SCION_ENOMEM, "out of memory");
    }
    if (c->rank == 0 && first && own)
        memcpy(first, own, (size_t)bytes);
    if (first)
        comm_broadcast(c, 0, first, (size_t)bytes);
    const scion_status status =
        own && first ? start_compare(first, own, err) : train_fail(err, SCION_ENOMEM, "out of memory");
    free(own);
    free(first);
    return status;
}

scion_status start_check_data(comm *c, const data_info *data, scion_error *err)
{
    struct {
        uint64_t hash;
        int64_t units[DATA_PARTS], sample_units;
        char description[sizeof data->description];
    } own = {data->hash, {data->units[DATA_TRAIN], data->units[DATA_VAL]}, data->sample_units, ""}, first;
    if (c->size == 1)
        return SCION_OK;
    snprintf(own.description, sizeof own.description, "%s", data->description);
    first = own;
    comm_broadcast(c, 0, &first, sizeof first);
    if (own.hash == first.hash && memcmp(own.units, first.units, sizeof own.units) == 0 &&
        own.sample_units == first.sample_units)
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "other data: %.80s (%016" PRIx64 "), rank 0 has %.80s (%016" PRIx64 ")",
                      own.description, own.hash, first.description, first.hash);
}

scion_status start_check_position(comm *c, int64_t step, int64_t micro, scion_error *err)
{
    int64_t first[2] = {step, micro};
    if (c->size == 1)
        return SCION_OK;
    comm_broadcast(c, 0, first, sizeof first);
    if (first[0] == step && first[1] == micro)
        return SCION_OK;
    return train_fail(err, SCION_EINVAL, "the checkpoint here is after step %lld, that of rank 0 after step %lld",
                      (long long)step, (long long)first[0]);
}
