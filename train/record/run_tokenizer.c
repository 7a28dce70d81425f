/* See run_tokenizer.h. */
#include "record/run_tokenizer.h"

#include <string.h>

#include "data/catalogue.h"
#include "record/run_dir.h"
#include "text/tokenizer_row.h"
#include "util/fail.h"
#include "util/file.h"

data_vocabulary run_vocabulary(const checkpoint *file)
{
    const char *kind = checkpoint_get(file, "tokenizer"), *characters = checkpoint_get(file, "vocabulary");
    const checkpoint_tensor *saved = checkpoint_find(file, "tokenizer");
    if (kind)
        return (data_vocabulary){kind, saved ? saved->data : NULL, saved ? saved->bytes : 0};
    return (data_vocabulary){characters ? "chars" : NULL, characters, characters ? strlen(characters) : 0};
}

/* The tokenizer of a checkpoint. */
static scion_status open_checkpoint(tokenizer **out, const char *path, scion_error *err)
{
    checkpoint *file = NULL;
    scion_error inner;
    scion_status status;
    TRY(checkpoint_open(&file, path, err));
    const data_vocabulary v = run_vocabulary(file);
    if (!v.kind)
        TRY(train_fail(err, SCION_EINVAL, "%.200s: a checkpoint without a tokenizer", path));
    status = tokenizer_open(out, v.kind, v.bytes, v.size, &inner);
    if (status != SCION_OK)
        train_fail(err, status, "%.120s: its tokenizer: %.120s", path, inner.message);
done:
    checkpoint_close(file);
    return status;
}

static bool is_checkpoint(const char *name)
{
    static const char end[] = ".safetensors";
    const size_t length = strlen(name);
    return length > sizeof end - 1 && strcmp(name + (length - (sizeof end - 1)), end) == 0;
}

scion_status run_tokenizer_open(tokenizer **out, const char *name, scion_error *err)
{
    static const char gpt2[] = "gpt2", set[] = "gpt2-bpe";
    char path[RUN_PATH], folder[OPTION_TEXT];
    const tokenizer_row *row = tokenizer_find_row(name);
    *out = NULL;
    if (row && !row->learn && !file_exists(name))
        return tokenizer_open(out, name, NULL, 0, err);
    if (is_checkpoint(name))
        return open_checkpoint(out, name, err);
    if (file_is_folder(name) && run_dir_best(name, path, NULL) == SCION_OK)
        return open_checkpoint(out, path, err);
    if (!file_exists(name) && strcmp(name, gpt2) == 0) {
        if (!catalogue_here(catalogue_find(set), NULL))
            return train_fail(err, SCION_EINVAL, "tokenizer %s is not here: scion data get %s brings it", gpt2, set);
        RETURN_IF_FAILED(catalogue_path(set, folder, err));
        return tokenizer_open_path(out, folder, err);
    }
    return tokenizer_open_path(out, name, err);
}
