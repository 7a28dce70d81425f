/* The identity of a run: a text of the options that decide what it computes. Ledgers hold a hash of it, so it must not
 * change when options are added, renamed, moved or get another default. Therefore
 *   - the options of version 0.1.0 always count, in the order and under the names that they had there;
 *   - one that appeared later counts where it differs from its origin: what runs did before it existed. */
#include "config/config.h"

#include <string.h>

static const char *const first_options[] = {
    "model",
    "layers",
    "width",
    "head_size",
    "vocab",
    "block",
    "activation",
    "tied",
    "zero_init",
    "bias",
    "rotary_base",
    "qk_norm",
    "smoothing",
    "data",
    "data_kind",
    "val_data",
    "val_fraction",
    "batch",
    "accum",
    "steps",
    "epochs",
    "lr",
    "schedule",
    "warmup",
    "decay",
    "lr_start",
    "lr_end",
    "seed",
    "rule",
    "norms",
    "momentum",
    "weight_decay",
    "vanishing",
    "light",
    "nesterov",
    "boundary_init",
    "radius_first",
    "radius_hidden",
    "radius_last",
    "input_scale",
    "muon_multiplier",
    "beta1",
    "beta2",
    "adam_eps",
    "clip_norm",
    "eps",
    "polar",
    "polar_steps",
    "eval_batches",
};

enum { first_count = sizeof first_options / sizeof *first_options };

static bool is_first(const config_option *o)
{
    for (int i = 0; i < first_count; i++)
        if (config_find(first_options[i]) == o)
            return true;
    return false;
}

/* The option whose key comes next after `key` in alphabetical order, NULL: none. */
static const config_option *next_option(const char *key)
{
    const config_option *o, *next = NULL;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (strcmp(o->key, key) > 0 && (!next || strcmp(o->key, next->key) < 0))
            next = o;
    return next;
}

static void add_line(const config *c, const config_option *o, const char *key, config_line *add, void *ctx)
{
    char value[CONFIG_TEXT], line[2 * CONFIG_TEXT];
    config_get(c, o, value, sizeof value);
    const int length = snprintf(line, sizeof line, "%s=%s\n", key, value);
    add(ctx, line, (size_t)length);
}

void config_identity(const config *c, config_line *add, void *ctx)
{
    for (int i = 0; i < first_count; i++)
        if (config_find(first_options[i]))
            add_line(c, config_find(first_options[i]), first_options[i], add, ctx);
    for (const config_option *o = next_option(""); o; o = next_option(o->key))
        if (!o->neutral && !is_first(o) && !config_at_origin(c, o))
            add_line(c, o, o->key, add, ctx);
}
