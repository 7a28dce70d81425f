/* Folders of Hugging Face's transformers: config.json, and model.safetensors or several files of which
 * model.safetensors.index.json says which tensor is where. Nothing in them is trusted. */
#ifndef TRAIN_RECORD_HF_FOLDER_H
#define TRAIN_RECORD_HF_FOLDER_H

#include <jansson.h>

#include "record/checkpoint.h"

typedef struct hf_folder hf_folder;

/* True if a path is a folder with a config.json, or the config.json of one. */
bool hf_folder_is(const char *path);

/* Opens config.json alone (`weights` false), or with all files of weights. `path`: the folder, or its config.json.
 * Errors name the file and what is wrong. On failure *out is NULL. */
scion_status hf_folder_open(hf_folder **out, const char *path, bool weights, scion_error *err);
void hf_folder_close(hf_folder *f);

const json_t *hf_folder_config(const hf_folder *f);
/* Its class ("ApertusForCausalLM"); NULL: it does not say. */
const char *hf_folder_class(const hf_folder *f);
/* Path of the folder, without a slash at its end unless it is the root. */
const char *hf_folder_path(const hf_folder *f);
/* Tensors by name, and in the order of their names; NULL: none. Valid until close. */
const checkpoint_tensor *hf_folder_find(const hf_folder *f, const char *name);
const checkpoint_tensor *hf_folder_at(const hf_folder *f, int64_t i);
/* Number of files of weights. */
int hf_folder_files(const hf_folder *f);
/* Metadata of the first file; NULL: none. */
const char *hf_folder_get(const hf_folder *f, const char *key);

#endif
