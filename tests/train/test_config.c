/* Options: laws of the table, every value through text and back, error messages. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "models/model.h"
#include "ops/activation.h"

/* Old names of options and an option that was removed, in place of the program's table. */
const config_alias config_aliases[] = {{"learning_speed", "lr"}, {"depth", "layers"}, {"gone", NULL}, {NULL, NULL}};

/* ---- The table ----------------------------------------------------------------------------------------- */

/* Every byte of the struct belongs to one option, except padding (less than a word, before an aligned field) and the
 * models' share, where those that a model shares with another have a place each. */
static void every_field_has_one_row(void **state)
{
    unsigned char *owners = room(sizeof(config));
    const config_option *o;
    (void)state;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        at("%s", o->key);
        check(o->offset + option_size(o) <= sizeof(config));
        for (size_t k = 0; k < option_size(o); k++)
            check(owners[o->offset + k]++ == 0);
    }
    size_t gap = 0;
    for (size_t k = 0; k < offsetof(config, models); k++) {
        at("byte %zu", k);
        if (k == offsetof(config, data.kinds)) /* the share of kinds of data that have options */
            k += DATA_KIND_BYTES;
        gap = owners[k] ? 0 : gap + 1;
        check(gap < sizeof(int64_t));
        check(gap == 0 || k % sizeof(int64_t) != 0);
    }
}

static void rows_are_complete(void **state)
{
    const config_option *o, *other;
    config c;
    (void)state;
    config_init(&c);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        scion_error err;
        at("%s", o->key);
        check(strlen(o->help) > 5 && strlen(o->help) < 100);
        check(o->section != NULL && o->min <= o->max && (o->type == OPTION_ENUM) == (o->choice != NULL) &&
              (o->type == OPTION_CHOICE) == (o->names != NULL));
        check_ok(config_set(&c, o->key, o->initial, "default", &err), &err);
        for (int k = 0; k < i && (other = config_option_at(k)) != NULL; k++)
            check(strcmp(o->key, other->key) != 0);
    }
    check(config_option_at(-1) == NULL);
}

/* The choices of an option are the names of the table itself. */
static void choices_are_those_of_the_tables(void **state)
{
    (void)state;
    for (int i = 0; scion_enum_name(SCION_ENUM_RULE, i); i++)
        check(strcmp(config_find("rule")->choice(i), scion_enum_name(SCION_ENUM_RULE, i)) == 0);
    for (int i = 0; scion_enum_name(SCION_ENUM_SCHEDULE, i); i++)
        check(strcmp(config_find("schedule")->choice(i), scion_enum_name(SCION_ENUM_SCHEDULE, i)) == 0);
    for (int i = 0; scion_enum_name(SCION_ENUM_POLAR, i); i++)
        check(strcmp(config_find("polar")->choice(i), scion_enum_name(SCION_ENUM_POLAR, i)) == 0);
    for (int i = 0; activation_row(i); i++)
        check(strcmp(config_find("activation")->choice(i), activation_row(i)->name) == 0);
    for (int i = 0; model_rows[i]; i++)
        check(strcmp(config_find("model")->choice(i), model_rows[i]->name) == 0);
    check(strcmp(config_find("data_kind")->choice(0), "auto") == 0);
}

static bool has_value(const config *c, const char *key, const char *value)
{
    char text[64];
    config_get(c, config_find(key), text, sizeof text);
    return strcmp(text, value) == 0;
}

/* An option of two models is one entry, with the help of both, and is set for both. */
static void models_share_options(void **state)
{
    config c;
    scion_error err;
    (void)state;
    config_init(&c);
    check(strcmp(config_find("layers")->help, "gpt, vit: blocks; mlp: weight matrices") == 0);
    check(strcmp(config_find("head_size")->help, "gpt, vit: width of an attention head; divides width") == 0);
    check(strcmp(config_find("width")->help,
                 "gpt, mlp, vit: width of the layers (embedding dimension); cnn: channels of the first group") == 0);
    check_ok(config_set(&c, "layers", "7", "test", &err), &err);
    check_ok(config_set(&c, "activation", "tanh", "test", &err), &err);
    check(*(const int64_t *)config_model_options(&c) == 7); /* gpt's first field */
    check(has_value(&c, "activation", "tanh"));
    check_ok(config_set(&c, "model", "mlp", "test", &err), &err);
    check(config_model(&c) == model_rows[1]);
    check(*(const int64_t *)config_model_options(&c) == 7); /* mlp's first field */
    config_set_int(&c, "layers", 9);
    check(*(const int64_t *)config_model_options(&c) == 9 && config_int(&c, "layers") == 9);
}

static void old_names_still_work(void **state)
{
    config c;
    scion_error err;
    (void)state;
    config_init(&c);
    check_ok(config_set_pair(&c, "learning_speed=0.25", &err), &err);
    check(c.training.lr == 0.25);
    check_ok(config_from_json(&c, "{\"depth\": \"5\", \"learning_speed\": \"0.5\"}", &err), &err);
    check(c.training.lr == 0.5 && config_int(&c, "layers") == 5);
    check(config_find("depth") == config_find("layers"));
    check_status(config_from_json(&c, "{\"breadth\": \"5\"}", &err), SCION_ESTATE, &err);
    check(strcmp(err.message, "stored configuration: this version of scion has no option \"breadth\"") == 0);
    check(c.training.lr == 0.5);
}

/* Files that set a removed option are read without it; nobody can set it any more. */
static void removed_options_are_passed_over_in_files(void **state)
{
    const char *path = "removed.ini";
    config c;
    scion_error err;
    (void)state;
    check(!config_find("gone") && config_removed("gone") && !config_removed("depth"));
    check_ok(config_from_json(&c, "{\"gone\": \"5\", \"lr\": \"0.5\"}", &err), &err);
    check(c.training.lr == 0.5);
    FILE *file = fopen(path, "w");
    check(file && fputs("gone = 5\nlr = 0.25\n", file) >= 0 && fclose(file) == 0);
    check_ok(config_load(&c, path, &err), &err);
    remove(path);
    check(c.training.lr == 0.25);
    check_status(config_set_pair(&c, "gone=5", &err), SCION_EINVAL, &err);
}

/* ---- Values -------------------------------------------------------------------------------------------- */

static void defaults_are_as_documented(void **state)
{
    config c;
    (void)state;
    config_init(&c);
    check(strcmp(c.model, "gpt") == 0 && config_int(&c, "layers") == 3 && config_int(&c, "width") == 128 &&
          config_int(&c, "head_size") == 64 && c.data.block == 256);
    check(c.training.lr == 0x1p-5 && c.optimizer.momentum == 0.1 && c.optimizer.beta1 == 0.9 &&
          c.optimizer.beta2 == 0.95 && c.optimizer.adam_eps == 1e-8);
    check(c.optimizer.radius_first == 1 && c.optimizer.radius_hidden == 3 && c.optimizer.radius_last == 10 &&
          c.optimizer.muon_multiplier == 0.1);
    check(has_value(&c, "qk_norm", "yes") && has_value(&c, "tied", "no"));
    check(c.optimizer.boundary_init && !c.optimizer.light && c.training.seed == 1 && c.training.steps == 0 &&
          c.training.epochs == 0);
}

/* ---- Values that other options decide ---------------------------------------------------------------------- */

static config with(const char *pairs)
{
    char text[256];
    scion_error err;
    config c;
    config_init(&c);
    snprintf(text, sizeof text, "%s", pairs);
    for (char *pair = strtok(text, " "); pair; pair = strtok(NULL, " "))
        check_ok(config_set_pair(&c, pair, &err), &err);
    return c;
}

static void add_line(void *ctx, const char *line, size_t length)
{
    char *text = ctx;
    strncat(text, line, length);
}

/* Checks that the identity has, or lacks, a line that begins so. */
static void check_identity(const config *c, const char *line, bool expected)
{
    char text[8192] = "\n", wanted[80];
    config_identity(c, add_line, text);
    snprintf(wanted, sizeof wanted, "\n%s", line);
    at("\"%s\" in %s", line, text);
    check((strstr(text, wanted) != NULL) == expected);
}

/* The default of norms is the model's; it is stored, compared and identified by its meaning. */
static void norms_follow_the_model(void **state)
{
    static const struct {
        const char *pairs, *norms;
        int32_t routing;
    } cases[] = {
        {"model=gpt", "onehot", SCION_ROUTING_ONEHOT},
        {"model=gpt tied=yes", "shared", SCION_ROUTING_SHARED},
        {"tied=yes norms=onehot", "onehot", SCION_ROUTING_ONEHOT},
        {"model=mlp", "image", SCION_ROUTING_IMAGE},
        {"norms=auto model=mlp", "image", SCION_ROUTING_IMAGE},
        {"model=mlp norms=sign", "sign", SCION_ROUTING_SIGN},
        {"model=mlp norms=sign,spectral,sign", "sign,spectral,sign", SCION_ROUTING_IMAGE},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        config c = with(cases[i].pairs), back, named = c;
        scion_options o;
        scion_error err;
        char text[CONFIG_TEXT], line[80];
        const config_option *norms = config_find("norms");
        config_get(&c, norms, text, sizeof text);
        at("%s: %s", cases[i].pairs, text);
        check(strcmp(text, cases[i].norms) == 0 && strcmp(config_norms_text(&c), text) == 0);
        check_ok(config_optimizer(&c, &o, &err), &err);
        check(o.routing == cases[i].routing);
        char *json = config_to_json(&c);
        check_ok(config_from_json(&back, json, &err), &err);
        free(json);
        check(strcmp(back.optimizer.norms, cases[i].norms) == 0 && config_same(&c, &back, norms));
        check_ok(config_set(&named, "norms", cases[i].norms, "test", &err), &err);
        snprintf(line, sizeof line, "norms=%s\n", cases[i].norms);
        check_identity(&c, line, true);
        check_identity(&named, line, true);
    }
}

/* A stored configuration without an option takes what runs did before it existed, and keeps its identity. */
static void runs_before_an_option_keep_their_meaning(void **state)
{
    static const struct {
        const char *stored;
        const char *now; /* the same today */
        const char *key, *value;
        const char *changed, *line; /* what today's default, or another value, adds to the identity; NULL: nothing */
    } cases[] = {
        {"{\"rule\":\"ssd\",\"layerwise\":\"yes\"}", "rule=ssd layerwise=yes", "layerwise", "yes", "rule=ssd",
         "layerwise=no\n"},
        {"{\"rule\":\"nsgd\"}", "rule=nsgd", "layerwise", "no", "rule=nsgd layerwise=yes", "layerwise=yes\n"},
        {"{\"rule\":\"mnsgd\"}", "rule=mnsgd", "layerwise", "no", "rule=mnsgd layerwise=yes", "layerwise=yes\n"},
        {"{\"rule\":\"scion\"}", "rule=scion", "layerwise", "no", NULL, NULL},
        {"{\"model\":\"mlp\",\"norms\":\"image\"}", "model=mlp bias_radius=hidden", "bias_radius", "hidden",
         "model=mlp", "bias_radius=layer\n"},
        {"{\"model\":\"gpt\"}", "model=gpt", "bias_radius", "hidden", NULL, NULL},
        {"{\"rule\":\"muon\"}", "rule=muon", "adam_lr", "0", "rule=muon adam_lr=0.5", "adam_lr=0.5\n"},
        {"{\"rule\":\"scion\"}", "rule=scion", "first_full", "no", "first_full=yes", "first_full=yes\n"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        config old, now = with(cases[i].now);
        scion_error err;
        char text[CONFIG_TEXT], left[8192] = "", right[8192] = "";
        config_init(&old);
        check_ok(config_from_json(&old, cases[i].stored, &err), &err);
        config_get(&old, config_find(cases[i].key), text, sizeof text);
        at("%s: %s is %s", cases[i].stored, cases[i].key, text);
        check(strcmp(text, cases[i].value) == 0);
        check_identity(&old, cases[i].key, false);
        config_identity(&old, add_line, left);
        config_identity(&now, add_line, right);
        at("%s and %s:\n%s\n%s", cases[i].stored, cases[i].now, left, right);
        check(strcmp(left, right) == 0);
        if (!cases[i].changed)
            continue;
        const config changed = with(cases[i].changed);
        check_identity(&changed, cases[i].line, true);
    }
}

/* Options of the optimizer as the library sees them. */
static void options_reach_the_library(void **state)
{
    const config c = with("rule=muon lr=0.5 adam_lr=0.125 first_full=yes polar=cubic"), ssd = with("rule=ssd"),
                 nsgd = with("rule=nsgd layerwise=yes"), plain = with("rule=muon"), half = with("polar_compute=bf16");
    scion_options o;
    scion_error err;
    (void)state;
    check_ok(config_optimizer(&c, &o, &err), &err);
    check(o.adam_lr_scale == 0.25 && o.first_full == 1 && o.polar == SCION_POLAR_CUBIC);
    check_ok(config_optimizer(&plain, &o, &err), &err);
    check(o.adam_lr_scale == 1 && o.first_full == 0);
    check_ok(config_optimizer(&ssd, &o, &err), &err);
    check(o.layerwise == 0);
    check_ok(config_optimizer(&nsgd, &o, &err), &err);
    check(o.layerwise == 1 && o.polar_compute == SCION_F32);
    check_ok(config_optimizer(&half, &o, &err), &err);
    check(o.polar_compute == SCION_BF16);
}

/* polar_compute follows compute where the set of coefficients can; it is stored and identified by its meaning, so
 * that runs in float32 are those that they were. */
static void polar_compute_follows_compute(void **state)
{
    static const struct {
        const char *pairs, *polar, *line; /* in the identity; NULL: none */
    } cases[] = {
        {"lr=0.5", "float32", NULL},
        {"polar_compute=auto", "float32", NULL},
        {"polar_compute=float32", "float32", NULL},
        {"polar_compute=bf16", "bf16", "polar_compute=bf16\n"},
        {"compute=bf16", "bf16", "polar_compute=bf16\n"},
        {"compute=bf16 polar_compute=float32", "float32", NULL},
        {"compute=bf16 polar=cubic", "float32", NULL},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        config c = with(cases[i].pairs), back;
        snprintf(c.data.kind, sizeof c.data.kind, "synthetic");
        c.training.steps = 10;
        scion_options o;
        scion_error err;
        char text[CONFIG_TEXT];
        config_get(&c, config_find("polar_compute"), text, sizeof text);
        at("%s: %s", cases[i].pairs, text);
        check(strcmp(text, cases[i].polar) == 0);
        check_ok(config_optimizer(&c, &o, &err), &err);
        check(o.polar_compute == (strcmp(text, "bf16") == 0 ? SCION_BF16 : SCION_F32));
        check_ok(config_check(&c, &err), &err);
        char *json = config_to_json(&c);
        check_ok(config_from_json(&back, json, &err), &err);
        free(json);
        check(config_same(&c, &back, config_find("polar_compute")) && back.training.compute == c.training.compute);
        check_identity(&c, cases[i].line ? cases[i].line : "polar_compute", cases[i].line != NULL);
        check_identity(&c, "compute=bf16\n", strstr(cases[i].pairs, "compute=bf16") == cases[i].pairs);
    }
}

/* A random value in the range of an option, put where it belongs. */
static void randomize(config *c, const config_option *o, rng *r)
{
    char *to = (char *)c + o->offset;
    const double u = rng_uniform(r), most = o->max < 1e15 ? o->max : 1e15;
    const bool flag = u < 0.5;
    const double real = u < 0.3 ? o->min : u < 0.6 ? most : o->min + (most - o->min) * pow(u, 20);
    const int64_t whole = (int64_t)floor(real);
    const uint64_t seed = (uint64_t)(u * 0x1p63) * 2 + 1;
    switch (o->type) {
    case OPTION_BOOL: memcpy(to, &flag, sizeof flag); break;
    case OPTION_REAL: memcpy(to, &real, sizeof real); break;
    case OPTION_INT: memcpy(to, &whole, sizeof whole); break;
    case OPTION_SPAN:
        memcpy(to, &(option_span){flag ? (double)whole : 100 * u, flag ? 0 : 100}, sizeof(option_span));
        break;
    case OPTION_SEED: memcpy(to, &seed, sizeof seed); break;
    case OPTION_STRING:
        memset(to, 0, CONFIG_TEXT);
        for (int i = 0; i < (int)(u * CONFIG_TEXT) && i < CONFIG_TEXT - 1; i++)
            to[i] = "abc/=\"\\'.*:-_"[(int)(rng_uniform(r) * 13)];
        break;
    case OPTION_ENUM:
        for (int i = 0; o->choice(i); i++) /* the last one */
            strcpy(to, o->choice(i));
        break;
    case OPTION_CHOICE: memcpy(to, &(int){flag}, sizeof(int)); break;
    }
}

static void every_option_goes_through_text_and_back(void **state)
{
    rng r = rng_of(2);
    const config_option *o;
    (void)state;
    for (int round = 0; round < 50; round++) {
        config c, back;
        memset(&c, 0, sizeof c);
        config_init(&back);
        for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
            char text[CONFIG_TEXT];
            scion_error err;
            randomize(&c, o, &r);
            config_get(&c, o, text, sizeof text);
            at("%s = %s", o->key, text);
            check_ok(config_set(&back, o->key, text, "test", &err), &err);
            if (o->type == OPTION_STRING || o->type == OPTION_ENUM)
                check(strcmp((char *)&c + o->offset, (char *)&back + o->offset) == 0);
            else
                check_bits(option_size(o), (char *)&c + o->offset, (char *)&back + o->offset);
        }
    }
}

static void switches_have_four_pairs_of_words(void **state)
{
    static const char *const words[] = {"0", "1", "no", "yes", "false", "true", "off", "on", "No", "YES"};
    (void)state;
    for (int i = 0; i < COUNT_OF(words); i++) {
        config c;
        scion_error err;
        config_init(&c);
        c.optimizer.light = i % 2 == 0;
        at("%s", words[i]);
        check_ok(config_set(&c, "light", words[i], "test", &err), &err);
        check(c.optimizer.light == (i % 2 == 1));
    }
}

/* ---- Sentences ----------------------------------------------------------------------------------------- */

/* A foreign name is no option here, stands in one row, and its key is an option. */
static void foreign_names_point_to_options(void **state)
{
    static const char *const asked[] = {
        "n_layer",   "n_embd",     "max_iters",   "attn_pdrop", "min_lr",       "grad_clip",
        "init_from", "heads",      "seq_len",     "device",     "context",      "d_model",
        "wandb_log", "checkpoint", "hidden_size", "n_head",     "warmup_iters", "num_hidden_layers"};
    (void)state;
    char all[8192] = " ";
    for (const config_foreign_name *f = config_foreign_names; f->names; f++) {
        check(config_find(f->answer) || strchr(f->answer, ' '));
        for (const char *from = f->names; *from; from += strspn(from, " ")) {
            const int length = (int)strcspn(from, " ");
            char name[64], spaced[66];
            snprintf(name, sizeof name, "%.*s", length, from);
            snprintf(spaced, sizeof spaced, " %s ", name);
            at("%s", name);
            check(config_find(name) == NULL || strcmp(name, "depth") == 0); /* an alias of this test */
            check(strstr(all, spaced) == NULL);
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s ", name);
            from += length;
        }
    }
    for (int64_t i = 0; i < COUNT_OF(asked); i++) {
        char sentence[160];
        at("%s", asked[i]);
        config_unknown(asked[i], sentence, sizeof sentence);
        check(strstr(sentence, "did you mean") == NULL && strstr(sentence, "--options") == NULL);
    }
}

static void wrong_input_is_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *pair, *says;
    } cases[] = {
        {"lrr=1", "there is no option \"lrr\"; did you mean \"lr\"?"},
        {"widht=8", "did you mean \"width\"?"},
        {"head-size=8", "did you mean \"head_size\"?"},
        {"STEPS=8", "did you mean \"steps\"?"},
        {"radius=8", "did you mean \"radius_"},
        {"batch_size=8", "batch_size is called batch here"},
        {"learning_rate=8", "learning_rate is called lr here"},
        {"batch_per_step=8", "did you mean \"batch\"?"},
        {"step_size=8", "did you mean \"lr\"?"},
        {"attn_pdrop=0.1", "command line: there is no dropout of attention here"},
        {"drop_path=0.1", "drop_path is called stochastic_depth here"},
        {"n_head=8", "width / head_size"},
        {"quux=8", "there is no option \"quux\"; scion presets --options lists them"},
        {"backout=8", "there is no option \"backout\"; scion presets --options lists them"},
        {"lr=fast", "command line: lr is \"fast\", expected a number such as"},
        {"lr=", "lr is \"\", expected a number"},
        {"lr=-1", "lr is -1, expected 0 to 1000000"},
        {"rotary_base=0", "rotary_base is 0, expected 1 or more"},
        {"width=0", "width is 0, expected 1 to 1048576"},
        {"layers=501", "layers is 501, expected 1 to 500"}, /* planned in a second */
        {"width=1.5", "width is \"1.5\", expected a whole number"},
        {"seed=-1", "seed is \"-1\", expected a whole number from 0"},
        {"light=maybe", "light is \"maybe\", expected yes or no"},
        {"rule=adam", "rule is \"adam\", expected one of: scion uscion"},
        {"model=gpt mlp", "expected one of: gpt mlp"},
        {"model=", "expected one of: gpt mlp"},
        {"out=a\nb", "out: the value contains a control character"},
        {"out=a ;b", "out: the value contains the start of a comment"},
        {"out=#b", "out: the value contains the start of a comment"},
        {"out=\xff", "out: the value is not UTF-8"},
        {"out=\xe0\x80\x80", "out: the value is not UTF-8"},
        {"width", "\"width\", expected key=value"},
        {"=3", "expected key=value"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        config c, before;
        scion_error err = {0};
        memset(&before, 0, sizeof before);
        config_init(&before);
        memcpy(&c, &before, sizeof c);
        at("%s", cases[i].pair);
        check_status(config_set_pair(&c, cases[i].pair, &err), SCION_EINVAL, &err);
        at("%s: %s", cases[i].pair, err.message);
        check(strstr(err.message, cases[i].says) != NULL);
        check_bits(sizeof c, &c, &before);
        check(config_set_pair(&c, cases[i].pair, NULL) == SCION_EINVAL);
    }
}

static void long_values_are_refused(void **state)
{
    char pair[1000] = "out=";
    scion_error err;
    config c;
    (void)state;
    config_init(&c);
    memset(pair + 4, 'x', CONFIG_TEXT - 1);
    check_ok(config_set_pair(&c, pair, &err), &err);
    memset(pair + 4, 'x', sizeof pair - 5);
    check_status(config_set_pair(&c, pair, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "out: the value is longer than 255 bytes") != NULL);
    memset(pair, 'x', sizeof pair - 1);
    pair[900] = '=';
    check_status(config_set_pair(&c, pair, &err), SCION_EINVAL, &err);
}

/* ---- Spans of a run ------------------------------------------------------------------------------------ */

/* NanoGPT's table has a decay of 1450 and a warm-up of 255 in 5100 steps; runs of larger batches are shorter. */
static void shares_give_the_tables_steps(void **state)
{
    static const struct {
        int64_t steps, decay, warmup;
    } rows[] = {{5100, 1450, 255}, {2550, 725, 128}, {1275, 363, 64}, {425, 121, 21}, {6, 2, 1}, {1, 1, 0}};
    config c;
    scion_error err;
    (void)state;
    config_init(&c);
    check_ok(config_preset(&c, "nanogpt-124m-adamw", &err), &err);
    check_ok(config_set_pair(&c, "data=x", &err), &err);
    for (int i = 0; i < COUNT_OF(rows); i++) {
        c.training.steps = rows[i].steps;
        const scion_schedule s = training_schedule(&c.training, rows[i].steps);
        at("%lld steps: decay %lld, warmup %lld", (long long)s.n, (long long)s.decay, (long long)s.warmup);
        check_ok(config_check(&c, &err), &err);
        check(s.decay == rows[i].decay && s.warmup == rows[i].warmup);
    }
    c.training.steps = 5100; /* runs that were begun when the preset had numbers keep their identity */
    check_identity(&c, "decay=1450\n", true);
    check_identity(&c, "warmup=255\n", true);
}

/* However few the steps, the shares fit into them, the first step is lr/warmup and no step is 0 or above lr. */
static void shares_fit_into_any_run(void **state)
{
    static const char *const texts[] = {
        "schedule=constant_linear decay=50% warmup=50%", "schedule=constant_linear decay=1/3 warmup=2/3",
        "schedule=constant_linear decay=100%", "schedule=cosine warmup=99%", "schedule=cosine warmup=0.1%"};
    scion_error err;
    (void)state;
    for (int i = 0; i < COUNT_OF(texts); i++)
        for (int64_t steps = 1; steps <= 60; steps++) {
            char pairs[160];
            config c;
            config_init(&c);
            snprintf(pairs, sizeof pairs, "data=x lr=0.5 %s", texts[i]);
            for (char *pair = strtok(pairs, " "); pair; pair = strtok(NULL, " "))
                check_ok(config_set_pair(&c, pair, &err), &err);
            c.training.steps = steps;
            check_ok(config_check(&c, &err), &err);
            const scion_schedule s = training_schedule(&c.training, steps);
            at("%s, %lld steps", texts[i], (long long)steps);
            check_ok(scion_schedule_check(&s, &err), &err);
            check(scion_schedule_value(&s, 0) == (s.warmup > 1 ? 0.5 / (double)s.warmup : 0.5));
            for (int64_t k = 0; k < steps; k++)
                check(scion_schedule_value(&s, k) > 0 && scion_schedule_value(&s, k) <= 0.5);
        }
}

static void spans_are_steps_or_shares(void **state)
{
    static const char *const wrong[] = {"101%", "-1%", "5%%", "5/0", "3/2", "1/2/3", "%", "/", "5 %x", "1.5", "-1"};
    config c;
    scion_error err;
    (void)state;
    config_init(&c);
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        at("warmup=%s", wrong[i]);
        check_status(config_set(&c, "warmup", wrong[i], "test", &err), SCION_EINVAL, &err);
    }
    check_ok(config_set(&c, "warmup", "2k", "test", &err), &err);
    check(option_span_steps(c.training.warmup, 7) == 2000); /* a number of steps is that number in any run */
    check_ok(config_set(&c, "warmup", "0%", "test", &err), &err);
    check(option_span_steps(c.training.warmup, 7) == 0);
}

static void options_that_contradict_are_refused(void **state)
{
    static const struct {
        const char *pairs, *says; /* pairs apart by spaces; says NULL: they agree */
    } cases[] = {
        {"", NULL},
        {"rule=adamw weight_decay=0.1 clip_norm=1", NULL},
        {"light=1", NULL},
        {"rule=uscion light=1", NULL},
        {"rule=signum light=1", NULL},
        {"rule=mnsgd light=1", NULL},
        {"rule=mars", NULL},
        {"momentum=0", NULL},
        {"schedule=cosine warmup=5 lr_end=1e-6", NULL},
        {"schedule=constant_linear decay=10", NULL},
        {"schedule=constant_linear decay=6 warmup=4 lr_start=1e-3", NULL},
        {"norms=colnorm,spectral,sign", NULL},
        {"model=mlp layers=2 steps=0 epochs=0.5", NULL},
        {"data= data_kind=synthetic", NULL},
        {"polar_compute=bf16", NULL},
        {"polar_compute=bf16 polar=cubic", "polar_compute is bfloat16, but the set cubic computes in float32 only"},
        {"width=100", "width is 100, expected a multiple of head_size 64"},
        {"head_size=3 width=9", "head_size is 3, expected an even number"},
        {"model=mlp layers=1", "layers is 1, expected 2 or more"},
        {"model=mlp tied=1", "tied is for model gpt, model mlp has none"},
        {"model=mlp head_size=32", "head_size is for models gpt, vit, model mlp has none"},
        {"bias=no", "bias is for models mlp, vit, model gpt has none"},
        {"steps=0", "steps is not given"},
        {"data=", "data is not given"},
        {"rule=adamw light=1", "rule adamw cannot keep its average in the gradient"},
        {"rule=muon light=1", "rule muon cannot keep"},
        {"weight_decay=0.5", "weight_decay is 0.5, but rule scion decays by lr"},
        {"schedule=constant_linear", "needs decay"},
        {"schedule=constant_linear decay=11",
         "decay is 11, expected at most steps 10: decay=28% is a share of the steps"},
        {"decay=5", "decay is for schedule constant_linear; schedule linear has none"},
        {"warmup=5", "warmup is for schedules constant_linear, cosine, cosine_unshifted; schedule linear has none"},
        {"schedule=constant_linear decay=60% warmup=40%", NULL},
        {"schedule=constant_linear decay=60% warmup=41%", "expected at most 100% together"},
        {"schedule=constant_linear decay=60% warmup=5", "warmup 5 and decay 6 are more than steps 10"},
        {"schedule=constant_linear decay=6 warmup=5", "warmup 5 and decay 6 are more than steps 10"},
        {"schedule=constant_linear decay=6 lr_end=1e-3",
         "lr_end is for schedules cosine, cosine_unshifted; schedule constant_linear has none"},
        {"schedule=cosine warmup=10",
         "warmup is 10, expected fewer than steps 10: warmup=5% is a share of the steps"},
        {"schedule=cosine lr_end=1", "lr_end is 1, expected at most lr 0.03125"},
        {"norms=colnorm,spectral", "norms is \"colnorm,spectral\", expected auto, image, onehot"},
        {"norms=colnorm,spectral,auto", "expected auto, image, onehot"},
        {"norms=colnorm,spectral,sign,", "expected auto, image, onehot"},
        {"norms=", "expected auto, image, onehot"},
        {"radius_last=0", "radius_last is 0, expected a positive number"},
        {"rule=muon muon_multiplier=0", "muon_multiplier 0"},
        {"rule=ssd layerwise=yes", NULL},
        {"rule=muon adam_lr=1e-3 first_full=yes", NULL},
        {"layerwise=yes", "layerwise has no effect: rule scion has no joint norm of all layers"},
        {"rule=nsgd first_full=yes", "first_full has no effect: rule nsgd keeps no average"},
        {"rule=adamw adam_lr=1e-3", "adam_lr has no effect: rule adamw has no AdamW part"},
        {"rule=muon adam_lr=1e-3 lr=0", "adam_lr is 0.001, but lr is 0"},
        {"model=mlp bias_radius=hidden", NULL},
        {"bias_radius=hidden", "bias_radius is for model mlp, model gpt has none"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        char pairs[256];
        scion_error err = {0};
        config c;
        config_init(&c);
        snprintf(pairs, sizeof pairs, "data=text steps=10 %s", cases[i].pairs);
        at("%s", pairs);
        for (char *pair = strtok(pairs, " "); pair; pair = strtok(NULL, " "))
            check_ok(config_set_pair(&c, pair, &err), &err);
        at("%s: %s", cases[i].pairs, err.message);
        if (!cases[i].says) {
            check_ok(config_check(&c, &err), &err);
        } else {
            check_status(config_check(&c, &err), SCION_EINVAL, &err);
            at("%s: %s", cases[i].pairs, err.message);
            check(strstr(err.message, cases[i].says) != NULL);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(every_field_has_one_row),
        LAW(rows_are_complete),
        LAW(choices_are_those_of_the_tables),
        LAW(models_share_options),
        LAW(old_names_still_work),
        LAW(removed_options_are_passed_over_in_files),
        LAW(defaults_are_as_documented),
        LAW(norms_follow_the_model),
        LAW(runs_before_an_option_keep_their_meaning),
        LAW(options_reach_the_library),
        LAW(polar_compute_follows_compute),
        LAW(every_option_goes_through_text_and_back),
        LAW(switches_have_four_pairs_of_words),
        LAW(foreign_names_point_to_options),
        LAW(wrong_input_is_refused_with_a_sentence),
        LAW(long_values_are_refused),
        LAW(shares_give_the_tables_steps),
        LAW(shares_fit_into_any_run),
        LAW(spans_are_steps_or_shares),
        LAW(options_that_contradict_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
