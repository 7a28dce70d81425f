/* Folders of transformers: config.json, a byte 0xff, the index (none: the weights are one file), a byte 0xff, a file
 * of weights. A folder that opens has its tensors in order; its network is taken with settings that pass their
 * checks, or refused. */
#include <string.h>

#include "config/config.h"
#include "fuzz.h"
#include "trainer/trainer_hf.h"

static void read_tensors(const hf_folder *f)
{
    const checkpoint_tensor *t, *before = NULL;
    for (int64_t i = 0; (t = hf_folder_at(f, i)) != NULL; i++, before = t) {
        fuzz_require(hf_folder_find(f, t->name) == t);
        fuzz_require(!before || strcmp(before->name, t->name) < 0);
    }
}

static void take(const hf_folder *f)
{
    config c;
    data_context context = {.seed = 0};
    void *saved = NULL;
    scion_error err = {0};
    if (trainer_hf_config(f, NULL, &c, &err) != SCION_OK) {
        fuzz_require_sentence(&err);
        return;
    }
    fuzz_require(config_model(&c)->to);
    if (config_check(&c, &err) != SCION_OK)
        fuzz_require_sentence(&err);
    snprintf(c.data.tokenizer, sizeof c.data.tokenizer, "bytes");
    if (trainer_hf_context(f, &c, &context, &saved, &err) == SCION_OK)
        fuzz_require(context.range > 0);
    else
        fuzz_require_sentence(&err);
    free(saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const fuzz_input settings = fuzz_part(&in, 0xff), index = fuzz_part(&in, 0xff);
    const char *folder = fuzz_folder();
    hf_folder *f;
    scion_error err = {0};
    fuzz_put("config.json", settings.at, settings.left);
    fuzz_put("model.safetensors.index.json", index.left > 0 ? index.at : NULL, index.left);
    fuzz_put("part.safetensors", in.at, in.left);
    fuzz_put("model.safetensors", index.left > 0 ? NULL : in.at, in.left);
    fuzz_require(hf_folder_is(folder));
    if (hf_folder_open(&f, folder, true, &err) == SCION_OK) {
        read_tensors(f);
        take(f);
        hf_folder_close(f);
    } else {
        fuzz_require(!f);
        fuzz_require_sentence(&err);
        for (const char *s = err.message; *s; s++) /* names in the files are printed */
            fuzz_require((unsigned char)*s >= 0x20 && *s != 0x7f);
        if (hf_folder_open(&f, folder, false, &err) == SCION_OK)
            take(f);
        hf_folder_close(f);
    }
    return 0;
}
