/* See hf_folder.h. */
#include "record/hf_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/file.h"
#include "util/json.h"
#include "util/path.h"
#include "util/utf8.h"

/* Bytes of config.json and of the index, which has a line for each tensor; files of weights. */
enum { config_max = 1 << 24, index_max = 1 << 28, files_max = 4096 };

struct hf_folder {
    char path[PATH_MAX];
    json_t *config;
    checkpoint **files;
    int file_count;
    const checkpoint_tensor **tensors; /* of all files, by name */
    int64_t tensor_count;
};

/* ---- Names ------------------------------------------------------------------------------------------------- */

static bool put_path(const char *folder, const char *name, char path[PATH_MAX])
{
    return (size_t)snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

/* The folder of a config.json, or the path itself. */
static bool find_folder(const char *path, char folder[PATH_MAX])
{
    static const char name[] = "config.json";
    size_t length = strlen(path);
    const size_t end = sizeof name - 1;
    if (length >= end && strcmp(path + length - end, name) == 0 && (length == end || path[length - end - 1] == '/') &&
        !file_is_folder(path))
        length -= end;
    while (length > 1 && path[length - 1] == '/')
        length--;
    if (length >= PATH_MAX)
        return false;
    snprintf(folder, PATH_MAX, "%.*s", length > 0 ? (int)length : 1, length > 0 ? path : ".");
    return true;
}

bool hf_folder_is(const char *path)
{
    char folder[PATH_MAX], config[PATH_MAX];
    return find_folder(path, folder) && put_path(folder, "config.json", config) && file_exists(config);
}

/* ---- Files of weights -------------------------------------------------------------------------------------- */

static scion_status add_file(hf_folder *f, const char *name, scion_error *err)
{
    char path[PATH_MAX];
    if (!put_path(f->path, name, path))
        return train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(f->path));
    checkpoint **files = realloc(f->files, (size_t)(f->file_count + 1) * sizeof *files);
    if (!files)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(f->path));
    f->files = files;
    RETURN_IF_FAILED(checkpoint_open(&files[f->file_count], path, err));
    f->file_count++;
    return SCION_OK;
}

/* A plain name of a safetensors file: none that leads out of the folder. */
static bool is_plain(const char *name)
{
    static const char end[] = ".safetensors";
    const size_t length = strlen(name);
    return length > sizeof end - 1 && strcmp(name + length - (sizeof end - 1), end) == 0 && name[0] != '.' &&
           !strchr(name, '/');
}

/* Opens the files that an index names, each once, and checks that each has the tensors it should. */
static scion_status open_indexed(hf_folder *f, const json_t *map, const char *index, scion_error *err)
{
    json_t *opened = json_object(), *value;
    const char *tensor;
    scion_status status = SCION_OK;
    if (!json_is_object(map) || json_object_size(map) == 0)
        TRY(train_fail(err, SCION_ESTATE, "%s: has no weight_map", path_end(index)));
    json_object_foreach((json_t *)(size_t)map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!name || !is_plain(name))
            TRY(train_fail(err, SCION_ESTATE, "%s: tensor \"%.60s\" is not in a .safetensors file of this folder",
                           path_end(index), tensor));
        const json_t *number = json_object_get(opened, name);
        if (!number && f->file_count >= files_max)
            TRY(train_fail(err, SCION_ESTATE, "%s: names more than %d files", path_end(index), (int)files_max));
        if (!number) {
            TRY(add_file(f, name, err));
            json_object_set_new(opened, name, json_integer(f->file_count - 1));
        }
        const json_int_t i = number ? json_integer_value(number) : f->file_count - 1;
        if (!checkpoint_find(f->files[i], tensor))
            TRY(train_fail(err, SCION_ESTATE, "%s: \"%.60s\" should be in %.60s, which does not have it",
                           path_end(index), tensor, name));
    }
done:
    json_decref(opened);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const checkpoint_tensor *const *)a)->name, (*(const checkpoint_tensor *const *)b)->name);
}

static scion_status list_tensors(hf_folder *f, scion_error *err)
{
    const checkpoint_tensor *t;
    size_t count = 0;
    for (int i = 0; i < f->file_count; i++)
        for (int k = 0; checkpoint_at(f->files[i], k); k++)
            count++;
    f->tensors = calloc(count + 1, sizeof *f->tensors);
    if (!f->tensors)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(f->path));
    for (int i = 0; i < f->file_count; i++)
        for (int k = 0; (t = checkpoint_at(f->files[i], k)) != NULL; k++)
            f->tensors[f->tensor_count++] = t;
    qsort(f->tensors, count, sizeof *f->tensors, by_name);
    for (int64_t i = 1; i < f->tensor_count; i++)
        if (by_name(&f->tensors[i - 1], &f->tensors[i]) == 0)
            return train_fail(err, SCION_ESTATE, "%s: tensor \"%.60s\" is in two files", path_end(f->path),
                              f->tensors[i]->name);
    return SCION_OK;
}

static scion_status open_weights(hf_folder *f, scion_error *err)
{
    static const char whole[] = "model.safetensors", parts[] = "model.safetensors.index.json";
    char path[PATH_MAX], index[PATH_MAX];
    json_t *o = NULL;
    scion_status status = SCION_OK;
    if (!put_path(f->path, whole, path) || !put_path(f->path, parts, index))
        TRY(train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(f->path)));
    if (file_exists(path)) {
        TRY(add_file(f, whole, err));
    } else if (file_exists(index)) {
        TRY(json_load_object(&o, index, index_max, err));
        TRY(open_indexed(f, json_object_get(o, "weight_map"), index, err));
    } else {
        TRY(train_fail(
            err, SCION_EINVAL,
            "%s: has neither %s nor %s: weights are read from safetensors files alone, which transformers' "
            "save_pretrained writes",
            path_end(f->path), whole, parts));
    }
    TRY(list_tensors(f, err));
done:
    json_decref(o);
    return status;
}

/* ---- The whole --------------------------------------------------------------------------------------------- */

scion_status hf_folder_open(hf_folder **out, const char *path, bool weights, scion_error *err)
{
    hf_folder *f = *out = calloc(1, sizeof *f);
    char config[PATH_MAX];
    scion_status status = SCION_OK;
    if (!f)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    if (!find_folder(path, f->path) || !put_path(f->path, "config.json", config))
        TRY(train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(path)));
    TRY(json_load_object(&f->config, config, config_max, err));
    if (weights)
        TRY(open_weights(f, err));
done:
    if (status != SCION_OK) {
        if (err) /* names in the files may be anything */
            utf8_make_printable(err->message);
        hf_folder_close(f);
        *out = NULL;
    }
    return status;
}

void hf_folder_close(hf_folder *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->file_count; i++)
        checkpoint_close(f->files[i]);
    free(f->files);
    free(f->tensors);
    json_decref(f->config);
    free(f);
}

const json_t *hf_folder_config(const hf_folder *f)
{
    return f->config;
}

const char *hf_folder_class(const hf_folder *f)
{
    return json_string_value(json_array_get(json_object_get(f->config, "architectures"), 0));
}

const char *hf_folder_path(const hf_folder *f)
{
    return f->path;
}

const checkpoint_tensor *hf_folder_find(const hf_folder *f, const char *name)
{
    const checkpoint_tensor key = {.name = name}, *wanted = &key;
    const checkpoint_tensor *const *found =
        bsearch(&wanted, f->tensors, (size_t)f->tensor_count, sizeof *f->tensors, by_name);
    return found ? *found : NULL;
}

const checkpoint_tensor *hf_folder_at(const hf_folder *f, int64_t i)
{
    return i >= 0 && i < f->tensor_count ? f->tensors[i] : NULL;
}

int hf_folder_files(const hf_folder *f)
{
    return f->file_count;
}

const char *hf_folder_get(const hf_folder *f, const char *key)
{
    return f->file_count > 0 ? checkpoint_get(f->files[0], key) : NULL;
}
