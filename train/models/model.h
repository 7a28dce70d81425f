/* Models: each records itself on a tape, binds its inputs to arrays of the data by name, and declares its parameters
 * with roles. A model knows no optimizer and only its own options. One file each, one row in model_rows.c. */
#ifndef TRAIN_MODELS_MODEL_H
#define TRAIN_MODELS_MODEL_H

#include <jansson.h>

#include "util/option.h"
#include "data/data.h"
#include "tensor/tape.h"

typedef struct model_row model_row;

/* A recorded model: inputs to fill, loss to read. */
typedef struct model {
    const model_row *row;
    tape *tape;
    const data_info *data;           /* the data that the inputs are bound to */
    int64_t batch;                   /* samples */
    tape_value *inputs[DATA_ARRAYS]; /* one per array of the data; NULL: the model does not read it */
    tape_value *loss;
    tape_value *logits; /* for evaluation; the loss does not need it */
    double smoothing;   /* label smoothing in the loss */
} model;

/* Files of other programs: a folder for transformers, a file for llama.cpp. */
typedef enum model_format { MODEL_HF, MODEL_GGUF, MODEL_FORMATS } model_format;

/* A hyperparameter under its key there. */
typedef struct model_setting {
    const char *key;
    enum { MODEL_INT, MODEL_REAL, MODEL_BOOL, MODEL_TEXT } type;
    int64_t integer; /* of a BOOL too */
    double real;
    const char *text;
} model_setting;

/* A tensor there: `factor` times a parameter, in its shape, or a vector of ones. */
enum { MODEL_TENSOR_NAME = 64, MODEL_SETTINGS = 24 };
typedef struct model_tensor {
    char name[MODEL_TENSOR_NAME];
    const tape_value *param; /* NULL: `ones` ones */
    int64_t ones;
    float factor;
} model_tensor;

typedef struct model_outline {
    model_setting settings[MODEL_SETTINGS];
    int setting_count;
    model_tensor *tensors;
    int64_t tensor_count;
} model_outline;

/* An option of a model, as text, that a file of another program decides. */
enum { MODEL_TAKEN = 8 };
typedef struct model_taken {
    const char *key;
    char value[OPTION_NAME];
} model_taken;

/* A model in the files of other programs. */
typedef struct model_export {
    const char *architecture; /* its name there */
    const char *class_name;   /* in transformers */
    /* Lists hyperparameters and tensors with the functions below. EINVAL: the format cannot express the model; err
     * says why and the way out. */
    scion_status (*list)(const model *m, const void *options, model_format format, model_outline *out,
                         scion_error *err);
    /* The reverse for transformers: options of the network that a config.json of class_name describes, at most
     * MODEL_TAKEN. `activation`: the one that is wanted, if it is that of the file up to a factor (NULL: the file's
     * own). EINVAL: another network; err says why. */
    scion_status (*take)(const json_t *file, const char *activation, model_taken *choices, int *count,
                         scion_error *err);
} model_export;

/* Reasons why a radius need not be searched; NULL: it must be. */
typedef struct model_radii {
    const char *first, *hidden; /* no parameter has this radius alone */
    /* Changing this radius has the effect of changing another, or lr, while weights start and stay on their balls. */
    const char *first_scale, *hidden_scale;
} model_radii;

struct model_row {
    const char *name, *help;
    /* Names of the arrays that the model reads, ended by NULL. */
    const char *const *inputs;
    /* Options, in the model's own struct. A key that several models have must have the same type, default and range
     * in all of them; it is set for all. */
    const option *options;
    size_t options_size;
    /* Checks that involve several options. NULL: none. */
    scion_status (*check)(const void *options, scion_error *err);
    /* Binds the inputs (model_input), records the operators, sets m->loss. */
    void (*record)(model *m, const void *options);
    /* Model-specific initialisation; may read the data. Called after all parameters and buffers have been initialised
     * by their roles. Random numbers of parameter i come from its scn_stream_uniform. NULL: none. */
    scion_status (*start)(model *m, const void *options, const data_set *data, uint64_t seed, scion_error *err);
    /* Routing of scion.h that norms=auto stands for: norms_by's result, or norms (NULL: onehot). */
    const char *norms;
    const char *(*norms_by)(const void *options);
    bool accuracy;          /* report the share of right answers */
    bool writes;            /* text: the logits of a position are those of the token that follows (generate/) */
    const model_export *to; /* NULL: other programs do not know it */
    /* For tuning: names radii that need no search. NULL: all are searched. */
    void (*radii)(const void *options, model_radii *r);
    /* For tuning on a proxy of a quarter of the width: the minimum width, and the option that must divide it (NULL:
     * none). */
    int64_t proxy_min;
    const char *proxy_divisor;
    /* For estimates of time before a run is recorded: operations per sample of `block` tokens (1: not text), up to a
     * factor. NULL: the same for all. */
    double (*cost)(const void *options, int64_t block);
};

/* All models, ended by NULL. Tests may link another table. */
extern const model_row *const model_rows[];

const char *model_name(int i); /* NULL past the last */

/* Records a model for batches of such data, which must outlive it. Errors name the wrong option, or the array that
 * the data do not have. */
scion_status model_record(model *m, const model_row *row, const void *options, const data_info *data, int64_t batch,
                          scion_error *err);
void model_free(model *m);

/* Lists a model with weights for a format; EINVAL: it cannot be exported, err says why. Free in any case. */
scion_status model_outline_make(model_outline *out, const model *m, const void *options, model_format format,
                                scion_error *err);
void model_outline_free(model_outline *out);

/* ---- For models ---- */

/* Planning compares the arrays of a network with each other, so its time grows with the square of the layers; a GPT
 * with this many takes less than a second. */
enum { MODEL_MAX_LAYERS = 500 };

/* Rows of options that several models have; `owner` is the model's struct. */
#define MODEL_LAYERS(owner, about) OPTION_INT_ROW(owner, layers, "layers", "3", 1, MODEL_MAX_LAYERS, about)
#define MODEL_WIDTH(owner, about) OPTION_INT_ROW(owner, width, "width", "128", 1, OPTION_MANY, about)
#define MODEL_HEAD_SIZE(owner) \
    OPTION_INT_ROW(owner, head_size, "head_size", "64", 2, OPTION_MANY, "width of an attention head; divides width")
#define MODEL_ACTIVATION(owner)                                                     \
    OPTION_ENUM_ROW(owner, activation, "activation", "sqrt2_gelu", activation_name, \
                    "function between the layers; the scaled ones keep the variance")
#define MODEL_BIAS(owner) OPTION_BOOL_ROW(owner, bias, "bias", "yes", "layers but the last have a bias")
#define MODEL_SMOOTHING(owner) \
    OPTION_REAL_ROW(owner, smoothing, "smoothing", "0", 0, 0.999, "label smoothing", .change = OPTION_ON_INIT)
#define MODEL_RECOMPUTE(owner)                                                                                    \
    OPTION_BOOL_ROW(owner, recompute, "recompute", "no", "recompute blocks in the backward pass, to save memory", \
                    .neutral = true)
/* For models with attention: head_size must divide width. */
scion_status model_check_heads(int64_t width, int64_t head_size, scion_error *err);

/* Parameter of a recorded model by its name; NULL: none. */
const tape_value *model_param(const model *m, const char *name);
/* For model_export.list. */
void model_put_int(model_outline *out, const char *key, int64_t value);
void model_put_real(model_outline *out, const char *key, double value);
void model_put_bool(model_outline *out, const char *key, bool value);
void model_put_text(model_outline *out, const char *key, const char *value);
scion_status model_put_tensor(model_outline *out, const model_tensor *tensor, scion_error *err);

/* Description of an array of row->inputs, which the data all have. */
const data_array *model_array(const model *m, const char *name);
/* An input for a batch of that array, in any shape with as many elements (ndim 0: batch, then the array's shape). */
tape_value *model_input(model *m, const char *name, int ndim, const int64_t *shape);
/* Inputs for the targets of the data, one row each, and for their weights if there are some. To be called before
 * operators are recorded: dropout draws its numbers by the count of values before it. */
void model_bind_targets(model *m);
/* Sets logits and loss: those of a last layer `head` (classes, features) without bias on x, for these targets. */
void model_set_loss(model *m, tape_value *x, tape_value *head, double smoothing);

#endif
