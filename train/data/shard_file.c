/* See shard_file.h. Beyond magic, version and number of tokens all of the header is zero. */
#include "data/shard_file.h"

#include <stdlib.h>
#include <string.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "data/paths.h"
#include "text/tokenizer_row.h"

static const shard_form forms[] = {{20240520, 1, 2, 50304}, {20240801, 7, 4, 128256}};
enum { form_count = sizeof forms / sizeof *forms };

const shard_form *shard_form_of(int32_t magic)
{
    for (int i = 0; i < form_count; i++)
        if (forms[i].magic == magic)
            return &forms[i];
    return NULL;
}

const shard_form *shard_form_wide(int width)
{
    for (int i = 0; i < form_count; i++)
        if (forms[i].width == width)
            return &forms[i];
    return NULL;
}

void shard_header(int32_t head[SHARD_INTS], int width, int64_t count)
{
    const shard_form *form = shard_form_wide(width);
    memset(head, 0, SHARD_HEADER);
    head[0] = form->magic;
    head[1] = form->version;
    head[2] = (int32_t)count;
}

/* Path of the file beside a shard in which a kind of tokenizer is saved. */
static scion_status path_beside(char path[data_path_bytes], const char *shard, const tokenizer_row *row,
                                scion_error *err)
{
    const char *slash = strrchr(shard, '/');
    if (data_path(path, "%.*s%s%s", slash ? (int)(slash - shard) + 1 : 0, shard, row->file ? "" : "tokenizer.",
                  row->file ? row->file : row->name))
        return SCION_OK;
    return data_fail(err, SCION_EINVAL, shard, "the path of the tokenizer beside it is too long");
}

/* Opens a file that tokenizer_save wrote. */
static scion_status open_file(tokenizer **out, const char *path, const tokenizer_row *row, scion_error *err)
{
    uint8_t *bytes = NULL;
    int64_t size = 0;
    scion_error inner;
    if (row->learn) /* else the file is empty */
        RETURN_IF_FAILED(data_read_file(path, &bytes, &size, err));
    const scion_status status = tokenizer_open(out, row->name, bytes, (size_t)size, &inner);
    free(bytes);
    return status == SCION_OK ? SCION_OK : data_fail(err, status, path, "%s", inner.message);
}

scion_status shard_tokenizer_open(tokenizer **out, const char *shard, scion_error *err)
{
    char path[data_path_bytes];
    *out = NULL;
    for (int i = 0; tokenizer_rows[i]; i++) {
        RETURN_IF_FAILED(path_beside(path, shard, tokenizer_rows[i], err));
        if (file_exists(path))
            return open_file(out, path, tokenizer_rows[i], err);
    }
    return SCION_OK;
}

scion_status shard_tokenizer_save(const tokenizer *t, const char *shard, scion_error *err)
{
    char path[data_path_bytes];
    void *bytes;
    size_t size;
    RETURN_IF_FAILED(path_beside(path, shard, tokenizer_find_row(tokenizer_name(t)), err));
    RETURN_IF_FAILED(tokenizer_save(t, &bytes, &size, err));
    const scion_status status = atomic_save(-1, path, size > 0 ? bytes : "", size, err);
    free(bytes);
    return status;
}
