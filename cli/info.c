/* scion info: contents of a file or folder. Each kind is a row that says how it is known and fills a JSON object,
 * which is printed as it is (--json) or as lines of text. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "data/catalogue.h"
#include "data/paths.h"
#include "data/shard_file.h"
#include "record/gguf.h"
#include "record/hf_folder.h"
#include "record/run_record.h"
#include "record/run_tokenizer.h"
#include "sweep/ledger.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/json.h"
#include "util/path.h"
#include "util/utf8.h"

enum { JSON };

static const cli_argument arguments[] = {
    [JSON] = CLI_SWITCH("--json", "print one JSON object, with every tensor"),
    {0},
};

/* A path, and what can be seen of it without knowing its kind. */
typedef struct subject {
    const char *path;
    bool folder;
    unsigned char head[16]; /* first bytes of a file; zeros where it has fewer */
    int64_t bytes;
} subject;

/* ---- Parts that several kinds have -------------------------------------------------------------------- */

static void put(json_t *o, const char *key, json_t *value)
{
    json_object_set_new(o, key, value ? value : json_null());
}

static void put_int(json_t *o, const char *key, int64_t value)
{
    put(o, key, json_integer(value));
}

/* Text of a file, cut if it is long; bytes that JSON cannot hold become '?'. */
static json_t *foreign_text(const char *text, size_t n)
{
    enum { most = 200 };
    char copy[most + 4];
    const size_t kept = n <= most ? n : utf8_bytes(text, most);
    memcpy(copy, text, kept);
    copy[kept] = '\0';
    for (size_t i = 0; i < kept; i++)
        if (!copy[i])
            copy[i] = '?';
    utf8_make_printable(copy);
    if (n > most)
        strcat(copy, "...");
    return json_text(copy);
}

static void put_text(json_t *o, const char *key, const char *text)
{
    if (text)
        put(o, key, foreign_text(text, strlen(text)));
}

static void put_real(json_t *o, const char *key, double value)
{
    if (!isnan(value))
        put(o, key, json_number(value));
}

static void put_tensor(json_t *list, const char *name, const char *type, int ndim, const int64_t *shape)
{
    json_t *o = json_object(), *sizes = json_array();
    put_text(o, "name", name);
    for (int i = 0; i < ndim; i++)
        json_array_append_new(sizes, json_integer(shape[i]));
    put(o, "shape", sizes);
    put_text(o, "type", type);
    json_array_append_new(list, o);
}

static int64_t entries(const checkpoint_tensor *t)
{
    int64_t count = 1;
    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

/* Settings that differ from their defaults and matter to the run. */
static json_t *settings_of(const config *c)
{
    json_t *o = json_object();
    config defaults;
    const config_option *row;
    config_init(&defaults);
    for (int i = 0; (row = config_option_at(i)) != NULL; i++) {
        char value[CONFIG_TEXT];
        if (config_same(c, &defaults, row) || !config_has(c, row))
            continue;
        config_get(c, row, value, sizeof value);
        put_text(o, row->key, value);
    }
    return o;
}

static void put_tokenizer(json_t *o, const tokenizer *t)
{
    char hash[24];
    size_t n;
    const char *separator = tokenizer_decode(t, tokenizer_separator(t), &n);
    put_text(o, "tokenizer", tokenizer_name(t));
    put_int(o, "tokens", tokenizer_size(t));
    if (separator)
        put(o, "separator", foreign_text(separator, n));
    put_text(o, "pattern", tokenizer_pattern(t, 0));
    snprintf(hash, sizeof hash, "%016" PRIx64, tokenizer_hash(t));
    put_text(o, "hash", hash);
}

/* Adds the tokenizer that others have, or the reason why it cannot be opened. */
static void put_their_tokenizer(json_t *o, tokenizer *t, scion_status status, const scion_error *err)
{
    json_t *part = json_object();
    if (status == SCION_OK && t)
        put_tokenizer(part, t);
    else if (status != SCION_OK)
        put_text(part, "unreadable", err->message);
    if (json_object_size(part) > 0)
        put(o, "tokenizer", part);
    else
        json_decref(part);
    tokenizer_free(t);
}

/* ---- Checkpoints and other safetensors files ---------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static bool is_safetensors(const subject *s)
{
    uint64_t length;
    memcpy(&length, s->head, sizeof length);
    return !s->folder && (ends_with(s->path, ".safetensors") ||
                          (s->head[8] == '{' && length > 0 && length < (uint64_t)(s->bytes > 8 ? s->bytes - 8 : 0)));
}

/* A tensor of the optimizer or of the run, not of the model. */
static bool is_state(const char *name)
{
    return strncmp(name, "optimizer", 9) == 0 || strcmp(name, "tokenizer") == 0;
}

/* Adds what a checkpoint of ours says of its run. */
static void put_run_of(json_t *o, const checkpoint *file)
{
    static const char *const keys[] = {"step", "steps", "best", "data_kind", "vocab"};
    const char *json = checkpoint_get(file, "config");
    const data_vocabulary v = run_vocabulary(file);
    config c;
    scion_error err;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = checkpoint_get(file, keys[i]);
        double number;
        if (value && number_real(value, &number))
            put(o, keys[i],
                number == rint(number) && fabs(number) < 0x1p53 ? json_integer((json_int_t)number)
                                                                : json_number(number));
        else if (value && strcmp(value, "inf") != 0)
            put_text(o, keys[i], value);
    }
    if (v.kind) {
        tokenizer *t = NULL;
        const scion_status status = tokenizer_open(&t, v.kind, v.bytes, v.size, &err);
        put_their_tokenizer(o, t, status, &err);
    }
    if (!json || config_from_json(&c, json, &err) != SCION_OK)
        return;
    put_text(o, "model", c.model);
    put(o, "settings", settings_of(&c));
}

static void put_tensors(json_t *o, const checkpoint *file)
{
    json_t *list = json_array();
    const checkpoint_tensor *t;
    int64_t weights = 0, state = 0;
    for (int i = 0; (t = checkpoint_at(file, i)) != NULL; i++) {
        *(is_state(t->name) ? &state : &weights) += entries(t);
        put_tensor(list, t->name, t->dtype, t->ndim, t->shape);
    }
    put_int(o, "parameters", weights);
    if (state > 0)
        put_int(o, "state_entries", state);
    put(o, "tensors", list);
}

static scion_status describe_checkpoint(json_t *o, const subject *s, scion_error *err)
{
    checkpoint *file;
    RETURN_IF_FAILED(checkpoint_open(&file, s->path, err));
    const bool ours = checkpoint_get(file, "config") && checkpoint_get(file, "step");
    if (!ours)
        put_text(o, "kind", "safetensors");
    put(o, "verified", json_boolean(checkpoint_verified(file)));
    if (ours)
        put_run_of(o, file);
    put_tensors(o, file);
    checkpoint_close(file);
    return SCION_OK;
}

/* ---- Runs --------------------------------------------------------------------------------------------- */

static bool is_run(const subject *s)
{
    char path[RUN_PATH], metrics[RUN_FILE];
    return s->folder && (run_dir_best(s->path, path, NULL) == SCION_OK ||
                         (run_dir_file(s->path, "metrics.jsonl", metrics, NULL) == SCION_OK && file_exists(metrics)));
}

static void put_record(json_t *o, const run_record *r)
{
    const run_point *last = run_record_last(r, false);
    put(o, "ended", json_boolean(r->ended));
    put_int(o, "step", last ? last->step : r->result.step);
    if (r->ended)
        put_real(o, "elapsed_s", r->result.elapsed);
    if (last)
        put_real(o, "loss", last->loss);
    if ((last = run_record_last(r, true)) != NULL)
        put_real(o, "val_loss", last->val_loss);
    put_real(o, "best_loss", run_record_best(r));
    if (r->configured) {
        put_text(o, "model", r->c.model);
        put_text(o, "data", r->c.data.path);
    }
}

static scion_status describe_run(json_t *o, const subject *s, scion_error *err)
{
    char path[RUN_PATH];
    run_record record;
    scion_status status = run_record_read(&record, s->path, err);
    const bool checkpointed = run_dir_best(s->path, path, NULL) == SCION_OK;
    if (status == SCION_OK)
        put_record(o, &record);
    run_record_free(&record);
    if (!checkpointed)
        return status;
    json_t *part = json_object();
    put_text(part, "path", path);
    const subject best = {.path = path};
    status = describe_checkpoint(part, &best, err);
    put(o, "checkpoint", part);
    return status;
}

/* ---- Ledgers ------------------------------------------------------------------------------------------ */

static bool is_ledger(const subject *s)
{
    return memcmp(s->head, "SQLite format 3", sizeof s->head) == 0;
}

static scion_status describe_ledger(json_t *o, const subject *s, scion_error *err)
{
    ledger *l = NULL;
    ledger_run *runs = NULL;
    int64_t count = 0, states[RUN_STATES] = {0}, best = -1;
    scion_status status;
    TRY(ledger_open(&l, s->path, false, err));
    TRY(ledger_runs(l, &runs, &count, err));
    put_int(o, "runs", count);
    for (int64_t i = 0; i < count; i++) {
        const run_result *r = &runs[i].result;
        states[r->state]++;
        if (r->state == RUN_DONE && isfinite(r->val_loss) && (best < 0 || r->val_loss < runs[best].result.val_loss))
            best = i;
    }
    for (int i = 0; i < RUN_STATES; i++)
        if (states[i] > 0)
            put_int(o, run_state_name((run_state)i), states[i]);
    if (best >= 0) {
        put_real(o, "best_loss", runs[best].result.val_loss);
        put(o, "best", settings_of(&runs[best].c));
    }
done:
    free(runs);
    ledger_close(l);
    return status;
}

/* ---- Token shards ------------------------------------------------------------------------------------- */

static bool is_shard(const subject *s)
{
    int32_t magic;
    memcpy(&magic, s->head, sizeof magic);
    return shard_form_of(magic) != NULL;
}

static scion_status describe_shard(json_t *o, const subject *s, scion_error *err)
{
    int32_t head[3];
    memcpy(head, s->head, sizeof head);
    const shard_form *form = shard_form_of(head[0]);
    const int64_t held = s->bytes > SHARD_HEADER ? (s->bytes - SHARD_HEADER) / form->width : 0;
    tokenizer *t = NULL;
    scion_error why;
    if (head[1] != form->version)
        return data_fail(err, SCION_ESTATE, s->path, "a shard of version %d; expected %d", (int)head[1],
                         (int)form->version);
    if (head[2] < 0 || held != head[2])
        return data_fail(err, SCION_ESTATE, s->path,
                         "its header says %d tokens, but the file holds %lld: truncated or damaged", (int)head[2],
                         (long long)held);
    put_int(o, "tokens", held);
    put_int(o, "token_bytes", form->width);
    const scion_status status = shard_tokenizer_open(&t, s->path, &why);
    put_their_tokenizer(o, t, status, &why);
    return SCION_OK;
}

/* ---- Tokenizers --------------------------------------------------------------------------------------- */

static bool is_tokenizer(const subject *s)
{
    static const char *const names[] = {"tokenizer.json", "vocab.bpe", "merges.txt"};
    char path[PATH_MAX];
    for (size_t i = 0; s->folder && i < sizeof names / sizeof *names; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", s->path, names[i]) < sizeof path && file_exists(path))
            return true;
    return !s->folder && (ends_with(s->path, ".tiktoken") || (s->head[0] == '{' && ends_with(s->path, ".json")));
}

static scion_status describe_tokenizer(json_t *o, const subject *s, scion_error *err)
{
    tokenizer *t;
    RETURN_IF_FAILED(tokenizer_open_path(&t, s->path, err));
    put_tokenizer(o, t);
    tokenizer_free(t);
    return SCION_OK;
}

/* ---- GGUF --------------------------------------------------------------------------------------------- */

static bool is_gguf(const subject *s)
{
    return !s->folder && (memcmp(s->head, "GGUF", 4) == 0 || ends_with(s->path, ".gguf"));
}

static json_t *gguf_json(const gguf_value *v)
{
    enum { shown = 16 }; /* of an array; tokens are many */
    static const char *const names[GGUF_TYPES] = {
        [GGUF_U8] = "u8",         [GGUF_I8] = "i8",       [GGUF_U16] = "u16", [GGUF_I16] = "i16",
        [GGUF_U32] = "u32",       [GGUF_I32] = "i32",     [GGUF_F32] = "f32", [GGUF_BOOL] = "bool",
        [GGUF_STRING] = "string", [GGUF_ARRAY] = "array", [GGUF_U64] = "u64", [GGUF_I64] = "i64",
        [GGUF_F64] = "f64"};
    switch (v->type) {
    case GGUF_STRING: return foreign_text(v->text, v->bytes);
    case GGUF_BOOL: return json_boolean(v->whole != 0);
    case GGUF_F32:
    case GGUF_F64: return json_number(v->real);
    case GGUF_I8:
    case GGUF_I16:
    case GGUF_I32:
    case GGUF_I64: return json_integer(v->sign);
    case GGUF_ARRAY: break;
    default: return v->whole <= INT64_MAX ? json_integer((json_int_t)v->whole) : json_number((double)v->whole);
    }
    if (v->whole > shown)
        return json_pack("{s:s, s:I}", "items", names[v->items], "count", (json_int_t)v->whole);
    json_t *list = json_array();
    size_t at = 0;
    for (uint64_t i = 0; i < v->whole; i++) {
        const gguf_value item = gguf_item(v, i, &at);
        json_array_append_new(list, gguf_json(&item));
    }
    return list;
}

static scion_status describe_gguf(json_t *o, const subject *s, scion_error *err)
{
    gguf *g;
    RETURN_IF_FAILED(gguf_open(&g, s->path, err));
    json_t *keys = json_object(), *list = json_array();
    int64_t parameters = 0;
    for (int64_t i = 0; i < g->tensor_count; i++) {
        const gguf_tensor *t = &g->tensors[i];
        char type[24];
        snprintf(type, sizeof type, "type %u", (unsigned)t->type);
        put_tensor(list, t->name, t->type_name ? t->type_name : type, t->ndim, t->shape);
        if (__builtin_add_overflow(parameters, t->count, &parameters))
            parameters = INT64_MAX;
    }
    for (int64_t i = 0; i < g->pair_count; i++)
        put(keys, g->pairs[i].key, gguf_json(&g->pairs[i].value));
    put_int(o, "version", (int64_t)g->version);
    put_int(o, "parameters", parameters);
    put(o, "keys", keys);
    put(o, "tensors", list);
    gguf_close(g);
    return SCION_OK;
}

/* ---- Folders of transformers -------------------------------------------------------------------------- */

static bool is_hf(const subject *s)
{
    return hf_folder_is(s->path);
}

static scion_status describe_hf(json_t *o, const subject *s, scion_error *err)
{
    hf_folder *f;
    const checkpoint_tensor *t;
    tokenizer *tokens = NULL;
    scion_error why;
    int64_t parameters = 0;
    RETURN_IF_FAILED(hf_folder_open(&f, s->path, s->folder, err)); /* config.json alone has no weights */
    put_text(o, "class", hf_folder_class(f));
    if (s->folder) {
        json_t *list = json_array();
        for (int64_t i = 0; (t = hf_folder_at(f, i)) != NULL; i++) {
            put_tensor(list, t->name, t->dtype, t->ndim, t->shape);
            parameters += entries(t);
        }
        put_int(o, "weight_files", hf_folder_files(f));
        put_int(o, "parameters", parameters);
        put(o, "tensors", list);
        const subject folder = {.path = hf_folder_path(f), .folder = true};
        if (is_tokenizer(&folder)) {
            const scion_status status = tokenizer_open_path(&tokens, folder.path, &why);
            put_their_tokenizer(o, tokens, status, &why);
        }
    }
    json_object_set(o, "config", (json_t *)(size_t)hf_folder_config(f));
    hf_folder_close(f);
    return SCION_OK;
}

/* ---- Data --------------------------------------------------------------------------------------------- */

static bool is_data(const subject *s)
{
    (void)s; /* whatever is none of the others */
    return true;
}

static scion_status describe_data(json_t *o, const subject *s, scion_error *err)
{
    static const char *const parts[] = {"train", "validation"};
    const data_context context = {.open_tokenizer = run_tokenizer_open};
    config c;
    data_set *d = NULL;
    char hash[24];
    config_init(&c);
    if ((size_t)snprintf(c.data.path, sizeof c.data.path, "%s", s->path) >= sizeof c.data.path)
        return train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(s->path));
    RETURN_IF_FAILED(data_open(&d, &c.data, &context, err));
    const data_info *about = data_about(d);
    put_text(o, "data_kind", about->kind);
    put_text(o, "holds", about->description);
    for (int i = 0; i < DATA_PARTS; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_%s", parts[i], about->unit);
        put_int(o, key, about->units[i]);
    }
    if (about->classes > 0)
        put_int(o, "classes", about->classes);
    if (about->image) {
        const data_image_info *image = about->image;
        put(o, "image",
            json_pack("[I,I,I]", (json_int_t)image->channels, (json_int_t)image->height, (json_int_t)image->width));
    }
    if (about->symbols > 0)
        put_int(o, "symbols", about->symbols);
    if (about->hash) {
        snprintf(hash, sizeof hash, "%016" PRIx64, about->hash);
        put_text(o, "hash", hash);
    }
    if (about->note[0])
        put_text(o, "note", about->note);
    data_close(d);
    return SCION_OK;
}

/* ---- Kinds -------------------------------------------------------------------------------------------- */

/* In the order in which they are asked. */
static const struct {
    const char *name;
    bool (*is)(const subject *s);
    scion_status (*describe)(json_t *o, const subject *s, scion_error *err);
} kinds[] = {
    {"GGUF file", is_gguf, describe_gguf},           {"ledger", is_ledger, describe_ledger},
    {"token shard", is_shard, describe_shard},       {"checkpoint", is_safetensors, describe_checkpoint},
    {"Hugging Face folder", is_hf, describe_hf},     {"run", is_run, describe_run},
    {"tokenizer", is_tokenizer, describe_tokenizer}, {"data", is_data, describe_data},
};

/* Looks at a path, or at a data set that is known by this name. */
static scion_status look(const char *path, char found[OPTION_TEXT], subject *s, scion_error *err)
{
    struct stat about;
    int file = -1;
    *s = (subject){.path = path};
    if (!file_exists(path) && catalogue_find(path)) {
        RETURN_IF_FAILED(catalogue_path(path, found, err));
        s->path = found;
    }
    s->folder = file_is_folder(s->path);
    if (s->folder || strpbrk(s->path, "*?[")) /* a pattern of shards */
        return SCION_OK;
    RETURN_IF_FAILED(data_open_file(s->path, &file, &s->bytes, err));
    const size_t n = s->bytes < (int64_t)sizeof s->head ? (size_t)s->bytes : sizeof s->head;
    const scion_status status = data_read_at(file, s->path, 0, s->head, n, err);
    if (fstat(file, &about) == 0)
        s->bytes = about.st_size;
    close(file);
    return status;
}

static scion_status describe(json_t *o, const char *path, scion_error *err)
{
    char found[OPTION_TEXT];
    subject s;
    size_t i = 0;
    RETURN_IF_FAILED(look(path, found, &s, err));
    while (!kinds[i].is(&s))
        i++;
    put_text(o, "kind", kinds[i].name);
    put_text(o, "path", s.path);
    if (!s.folder && s.bytes > 0)
        put_int(o, "bytes", s.bytes);
    return kinds[i].describe(o, &s, err);
}

/* ---- Text --------------------------------------------------------------------------------------------- */

enum { INDENT = 2 };

/* Bytes of the longest key of a value that is printed beside it. */
static int longest_key(const json_t *o)
{
    int longest = 14;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(size_t)o, key, value) if (!json_is_object(value) && (int)strlen(key) > longest)
        longest = (int)strlen(key);
    return longest;
}

static void print_scalar(FILE *to, const json_t *value)
{
    char text[NUMBER_TEXT];
    if (json_is_string(value))
        fputs(json_string_value(value), to);
    else if (json_is_integer(value))
        fprintf(to, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        number_write(json_real_value(value), text), fputs(text, to);
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", to);
    else if (json_is_null(value))
        fputs("none", to);
    else { /* a short list, or an object within a list */
        char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        fputs(dump ? dump : "?", to);
        free(dump);
    }
}

/* A group of tensors that differ in one number of their names. */
typedef struct tensor_group {
    const char *name; /* of the first */
    const json_t *shape;
    const char *type;
    size_t digits; /* where the number begins; the end of the name: it has none */
    long first, last;
    int64_t count;
} tensor_group;

static size_t digits_at(const char *name)
{
    return strcspn(name, "0123456789");
}

/* Finds the group of a tensor by everything but that number; -1: a new one. */
static json_int_t group_of(json_t *keys, const json_t *tensor, json_int_t next)
{
    const char *name = json_string_value(json_object_get(tensor, "name"));
    const size_t begin = digits_at(name), end = begin + strspn(name + begin, "0123456789");
    char *shape = json_dumps(json_object_get(tensor, "shape"), JSON_COMPACT), key[512];
    snprintf(key, sizeof key, "%.*s#%s %s %s", (int)begin, name, name + end, shape ? shape : "",
             json_string_value(json_object_get(tensor, "type")));
    free(shape);
    const json_t *known = json_object_get(keys, key);
    if (known)
        return json_integer_value(known);
    json_object_set_new(keys, key, json_integer(next));
    return -1;
}

static void print_group(const tensor_group *g)
{
    char name[256], shape[128] = "";
    const size_t begin = g->digits, end = begin + strspn(g->name + begin, "0123456789");
    if (g->count > 1)
        snprintf(name, sizeof name, "%.*s%ld-%ld%s", (int)begin, g->name, g->first, g->last, g->name + end);
    else
        snprintf(name, sizeof name, "%s", g->name);
    for (size_t i = 0; i < json_array_size(g->shape); i++)
        utf8_append(shape, sizeof shape, "%s%lld", i > 0 ? " x " : "",
                    (long long)json_integer_value(json_array_get(g->shape, i)));
    cli_print(stdout, "  %-45s %-8s %s\n", name, g->type, shape);
}

static void print_tensors(const json_t *list)
{
    const size_t count = json_array_size(list);
    tensor_group *groups = calloc(count + 1, sizeof *groups);
    json_t *keys = json_object();
    json_int_t used = 0;
    cli_print(stdout, "tensors: %zu\n", count);
    for (size_t i = 0; groups && i < count; i++) {
        const json_t *t = json_array_get(list, i);
        const json_int_t known = group_of(keys, t, used);
        tensor_group *g = &groups[known >= 0 ? known : used];
        const char *name = json_string_value(json_object_get(t, "name"));
        const long number = strtol(name + digits_at(name), NULL, 10);
        if (known < 0) {
            *g = (tensor_group){name,
                                json_object_get(t, "shape"),
                                json_string_value(json_object_get(t, "type")),
                                digits_at(name),
                                number,
                                number,
                                0};
            used++;
        }
        g->count++;
        g->first = number < g->first ? number : g->first;
        g->last = number > g->last ? number : g->last;
    }
    for (json_int_t i = 0; groups && i < used; i++)
        print_group(&groups[i]);
    json_decref(keys);
    free(groups);
}

static void print_object(const json_t *o, int indent)
{
    const int column = longest_key(o);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(size_t)o, key, value)
    {
        if (json_is_object(value)) {
            cli_print(stdout, "%*s%s\n", indent, "", key);
            print_object(value, indent + INDENT);
        } else if (strcmp(key, "tensors") == 0 && json_is_array(value)) {
            print_tensors(value);
        } else {
            cli_line line;
            FILE *to = cli_line_begin(&line);
            fprintf(to, "%*s%-*s  ", indent, "", column, key);
            print_scalar(to, value);
            cli_line_end(&line, stdout, indent + column + 2);
        }
    }
}

static int run_info(cli_arguments *a)
{
    json_t *o = json_object();
    scion_error err;
    if (a->word_count < 1)
        return cli_error(CLI_USAGE, "name a file or folder: scion info FILE");
    if (!cli_words(a, 1, "one file or folder"))
        return CLI_USAGE;
    const scion_status status = describe(o, a->words[0], &err);
    if (status == SCION_OK && a->values[JSON]) {
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
    } else if (status == SCION_OK) {
        print_object(o, 0);
    }
    json_decref(o);
    return cli_end(status, &err);
}

const cli_command cli_info = {
    .name = "info",
    .usage = "FILE|FOLDER [--json]",
    .summary = "describe a checkpoint, run, data set, tokenizer or model file",
    .help =
        "Says what a file or folder is, by its content, and what it holds: a checkpoint or another safetensors file, "
        "the folder of a run, the ledger of a sweep, a token shard, a tokenizer (tokenizer.json, tiktoken's files, "
        "vocab.json with merges.txt), a GGUF file, a folder of Hugging Face's transformers, or else data to learn "
        "from: a text, a folder of texts or images, the name of a data set. Settings are those that differ from "
        "their defaults. Tensors whose names differ in one number share a line; --json lists each. Files are read "
        "and checked, never changed; damage is reported in one sentence.\n\n"
        "  scion info runs/shakespeare\n"
        "  scion info shakespeare.gguf --json\n"
        "  scion info shakespeare-hf\n",
    .run = run_info,
    .arguments = arguments,
    .words = CLI_FILES,
};
