/* The identity of a run: a text of the options that decide what it computes. Ledgers store its hash, so it must not
 * change when options are added, renamed, moved or get another default. Therefore
 *   - the options of the first version always count, in the order and with the names that they had then;
 *   - a later option counts where the model has it and it differs from its origin, the value that runs had before it
 *     existed. These follow in alphabetical order. */
#include "config/config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char first_options[] =
    "model layers width head_size vocab block activation tied zero_init bias rotary_base qk_norm smoothing "
    "data data_kind val_data val_fraction batch accum steps epochs lr schedule warmup decay lr_start lr_end seed "
    "rule norms momentum weight_decay vanishing light nesterov boundary_init radius_first radius_hidden radius_last "
    "input_scale muon_multiplier beta1 beta2 adam_eps clip_norm eps polar polar_steps eval_batches";

typedef struct line {
    const config_option *option;
    const char *key; /* name in the first version */
    int length;      /* bytes of the key */
} line;

static line lines[CONFIG_OPTIONS];
static int first_count, count;

static int by_key(const void *a, const void *b)
{
    return strcmp(((const line *)a)->option->key, ((const line *)b)->option->key);
}

static bool is_first(const config_option *o)
{
    for (int i = 0; i < first_count; i++)
        if (lines[i].option == o)
            return true;
    return false;
}

static void list_lines(void)
{
    const config_option *o;
    for (const char *at = first_options; *at; at += strspn(at, " ")) {
        char key[OPTION_NAME];
        const int length = (int)strcspn(at, " ");
        snprintf(key, sizeof key, "%.*s", length, at);
        lines[first_count] = (line){config_find(key), at, length};
        first_count += lines[first_count].option != NULL;
        at += length;
    }
    count = first_count;
    for (int i = 0; (o = config_option_at(i)) != NULL && count < CONFIG_OPTIONS; i++)
        if (!o->neutral && !is_first(o))
            lines[count++] = (line){o, o->key, (int)strlen(o->key)};
    qsort(lines + first_count, (size_t)(count - first_count), sizeof *lines, by_key);
}

void config_identity(const config *c, config_line *add, void *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, list_lines);
    for (int i = 0; i < count; i++) {
        char value[CONFIG_TEXT], text[2 * CONFIG_TEXT];
        if (i >= first_count && config_at_origin(c, lines[i].option))
            continue;
        config_get(c, lines[i].option, value, sizeof value);
        if (lines[i].option->meaning)
            lines[i].option->meaning(c, value, sizeof value);
        add(ctx, text, (size_t)snprintf(text, sizeof text, "%.*s=%s\n", lines[i].length, lines[i].key, value));
    }
}
