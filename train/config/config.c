/* The list of options, collected from all rows; values from and to text. */
#include "config/config.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "util/fail.h"
#include "util/number.h"
#include "util/path.h"
#include "util/utf8.h"

enum { max_owners = 16, help_bytes = 256 };

/* ---- The list ------------------------------------------------------------------------------------------------ */

/* An option of the list. An option of several models or kinds of data has several places in struct config. */
typedef struct entry {
    option row; /* first member: config_option_at returns its address; its offset is the first place's */
    int places;
    size_t at[max_owners];         /* offsets in struct config */
    const char *owner[max_owners]; /* the model or kind of data; NULL: none */
    const char *helps[max_owners];
    const char *of; /* "model", "data"; NULL: no owner */
    char help[help_bytes];
} entry;

static entry entries[CONFIG_OPTIONS];
static int count;
static int models, kinds;
static size_t model_at[max_owners]; /* offset of a model's struct in struct config */
static config defaults, origins;

static const option own_rows[] = {
    OPTION_STRING_ROW(config, preset, "preset", "", "preset that the other options started from", .neutral = true),
    OPTION_END,
};

static const option model_choice[] = {
    OPTION_ENUM_ROW(config, model, "model", "gpt", model_name, "what to train"),
    OPTION_END,
};

static entry *find_entry(const char *key)
{
    for (int i = 0; i < count; i++)
        if (strcmp(entries[i].row.key, key) == 0)
            return &entries[i];
    return NULL;
}

static void add_option(const option *o, const char *section, size_t base, const char *of, const char *owner)
{
    entry *e = find_entry(o->key);
    if (!e) {
        assert(count < CONFIG_OPTIONS);
        e = &entries[count++];
        e->row = *o;
        e->row.section = section;
        e->row.offset += base;
        e->of = of;
    }
    /* A shared key is one option, with one type, default and range. */
    assert(e->places == 0 ||
           (of && e->of == of && e->places < max_owners && e->row.type == o->type &&
            strcmp(e->row.initial, o->initial) == 0 && e->row.min == o->min && e->row.max == o->max &&
            e->row.choice == o->choice && e->row.names == o->names && e->row.neutral == o->neutral));
    e->at[e->places] = base + o->offset;
    e->owner[e->places] = owner;
    e->helps[e->places++] = o->help;
}

static void add_group(const option *rows, const char *section, size_t base, const char *of, const char *owner)
{
    for (; rows && rows->key; rows++)
        add_option(rows, section, base, of, owner);
}

/* "gpt: blocks; mlp: weight matrices"; just the text if all `owners` have the same. */
static void merge_help(entry *e, int owners)
{
    bool same = e->places == owners;
    for (int i = 1; i < e->places; i++)
        same = same && strcmp(e->helps[i], e->helps[0]) == 0;
    for (int i = 0; !same && i < e->places; i++) {
        bool said = false; /* together with an earlier owner */
        for (int k = 0; k < i; k++)
            said = said || strcmp(e->helps[k], e->helps[i]) == 0;
        if (said)
            continue;
        utf8_append(e->help, help_bytes, "%s%s", e->help[0] ? "; " : "", e->owner[i]);
        for (int k = i + 1; k < e->places; k++)
            if (strcmp(e->helps[k], e->helps[i]) == 0)
                utf8_append(e->help, help_bytes, ", %s", e->owner[k]);
        utf8_append(e->help, help_bytes, ": %s", e->helps[i]);
    }
    if (!same)
        e->row.help = e->help;
}

static scion_status set_places(config *c, const entry *e, const char *text, const char *where, scion_error *err)
{
    for (int i = 0; i < e->places; i++) {
        option o = e->row;
        o.offset = e->at[i];
        scion_status status = option_set(&o, c, text, where, err);
        if (status != SCION_OK)
            return status; /* at the first place, because the rows agree */
    }
    return SCION_OK;
}

static const char of_model[] = "model", of_data[] = "data";

static void build(void)
{
    size_t at = offsetof(config, models);
    const char *kind;
    const option *rows;
    add_group(own_rows, "", 0, NULL, NULL);
    add_group(model_choice, "model", 0, NULL, NULL);
    for (; model_rows[models]; models++) {
        assert(models < max_owners);
        model_at[models] = at;
        add_group(model_rows[models]->options, "model", at, of_model, model_rows[models]->name);
        at += (model_rows[models]->options_size + 7) / 8 * 8;
        assert(at <= offsetof(config, models) + CONFIG_MODEL_BYTES);
    }
    add_group(data_option_rows, "data", offsetof(config, data), NULL, NULL);
    for (; data_kind_options(kinds, &kind, &rows, &at); kinds++) {
        assert(at <= sizeof(data_options)); /* DATA_KIND_BYTES */
        add_group(rows, "data", offsetof(config, data) + at, of_data, kind);
    }
    add_group(training_option_rows, "training", offsetof(config, training), NULL, NULL);
    add_group(optimizer_option_rows, "optimizer", offsetof(config, optimizer), NULL, NULL);
    add_group(run_option_rows, "run", offsetof(config, run), NULL, NULL);
    for (int i = 0; i < count; i++) {
        entry *e = &entries[i];
        if (e->of)
            merge_help(e, e->of == of_model ? models : kinds);
        set_places(&defaults, e, e->row.initial, "defaults", NULL);
        set_places(&origins, e, e->row.origin ? e->row.origin : e->row.initial, "origins", NULL);
    }
}

static void prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build);
}

static const entry *entry_of(const config_option *o)
{
    return (const entry *)(const void *)o;
}

const config_option *config_option_at(int i)
{
    prepare();
    return i >= 0 && i < count ? &entries[i].row : NULL;
}

const config_option *config_find(const char *key)
{
    prepare();
    for (const config_alias *a = config_aliases; a->old; a++)
        if (a->key && strcmp(a->old, key) == 0)
            key = a->key;
    const entry *e = find_entry(key);
    return e ? &e->row : NULL;
}

bool config_removed(const char *key)
{
    for (const config_alias *a = config_aliases; a->old; a++)
        if (!a->key && strcmp(a->old, key) == 0)
            return true;
    return false;
}

void config_init(config *c)
{
    prepare();
    memcpy(c, &defaults, sizeof *c);
}

void config_init_origins(config *c)
{
    prepare();
    memcpy(c, &origins, sizeof *c);
}

/* ---- Values -------------------------------------------------------------------------------------------------- */

/* True if an option is not a model's, or is the chosen model's. */
static bool has_option(const config *c, const entry *e)
{
    bool own = e->of != of_model;
    for (int k = 0; k < e->places; k++)
        own = own || strcmp(e->owner[k], config_model(c)->name) == 0;
    return own;
}

bool config_has(const config *c, const config_option *o)
{
    const entry *e = entry_of(o);
    const bool images = data_content_of(config_model(c)->inputs[0])->images, any = strcmp(c->data.kind, "auto") == 0;
    bool own = e->of != of_data;
    for (int k = 0; k < e->places && e->of == of_data; k++)
        own = own || data_same_kind(e->owner[k], c->data.kind) ||
              (any && data_needs_path(e->owner[k]) && data_kind_gives(e->owner[k], images));
    return own && has_option(c, e);
}

bool config_same(const config *a, const config *b, const config_option *o)
{
    char left[CONFIG_TEXT], right[CONFIG_TEXT];
    if (!o->derive)
        return option_same(o, a, b);
    config_get(a, o, left, sizeof left);
    config_get(b, o, right, sizeof right);
    return strcmp(left, right) == 0;
}

bool config_at_origin(const config *c, const config_option *o)
{
    char text[CONFIG_TEXT];
    if (!has_option(c, entry_of(o)))
        return true;
    if (!o->origin_of)
        return option_same(o, c, &origins);
    config_get(c, o, text, sizeof text);
    return strcmp(text, o->origin_of(c)) == 0;
}

void config_get(const config *c, const config_option *o, char *text, size_t bytes)
{
    option_get(o, c, text, bytes);
    if (o->derive && strcmp(text, "auto") == 0)
        snprintf(text, bytes, "%s", o->derive(c));
}

int64_t config_int(const config *c, const char *key)
{
    const config_option *o = config_find(key);
    int64_t value;
    assert(o && o->type == OPTION_INT);
    memcpy(&value, (const char *)c + o->offset, sizeof value);
    return value;
}

void config_set_int(config *c, const char *key, int64_t value)
{
    const config_option *o = config_find(key);
    assert(o && o->type == OPTION_INT);
    for (int i = 0; i < entry_of(o)->places; i++)
        memcpy((char *)c + entry_of(o)->at[i], &value, sizeof value);
}

static int model_index(const config *c)
{
    prepare();
    for (int i = 0; i < models; i++)
        if (strcmp(model_rows[i]->name, c->model) == 0)
            return i;
    return 0;
}

const model_row *config_model(const config *c)
{
    return model_rows[model_index(c)];
}

const void *config_model_options(const config *c)
{
    return (const char *)c + model_at[model_index(c)];
}

const char *config_unit(const config *c)
{
    return data_content_of(config_model(c)->inputs[0])->unit;
}

const char *config_foreign_option(const config *c, char *owner, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        const entry *e = &entries[i];
        if (has_option(c, e) || option_same(&e->row, c, &defaults))
            continue;
        snprintf(owner, bytes, "model%s ", e->places > 1 ? "s" : "");
        for (int k = 0; k < e->places; k++)
            utf8_append(owner, bytes, "%s%s", k > 0 ? ", " : "", e->owner[k]);
        return e->row.key;
    }
    return NULL;
}

/* ---- Keys ---------------------------------------------------------------------------------------------------- */

enum { max_letters = 64 }; /* compared; further ones are ignored */

static int min_of(int a, int b)
{
    return a < b ? a : b;
}

/* Number of letters to insert, delete, replace or swap to turn a into b, ignoring case. */
static int distance_of(const char *a, const char *b)
{
    int row[3][max_letters + 1]; /* rows of the last three letters of a */
    const int n = min_of((int)strlen(a), max_letters), m = min_of((int)strlen(b), max_letters);
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            const int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            now[j] = min_of(min_of(last[j], now[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                now[j] = min_of(now[j], earlier[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

/* Distance of a name that may have been meant; INT_MAX: it differs in more than a third of the letters. */
static int near(const char *name, const char *offered)
{
    const int letters = min_of((int)strlen(name), 9), distance = distance_of(name, offered);
    return distance <= (letters < 6 ? 1 : letters / 3) ? distance : INT_MAX;
}

void config_nearer(const char *name, const char *offered, char nearest[CONFIG_TEXT])
{
    if (near(name, offered) < (nearest[0] ? near(name, nearest) : INT_MAX))
        snprintf(nearest, CONFIG_TEXT, "%s", offered);
}

/* True if `part` is one or more whole words of `key`: batch in batch_size, not out in dropout. */
static bool has_words(const char *key, const char *part)
{
    const size_t length = strlen(part);
    for (const char *s = key; length > 1 && (s = strstr(s, part)) != NULL; s++)
        if ((s == key || s[-1] == '_') && (s[length] == '\0' || s[length] == '_'))
            return true;
    return false;
}

/* Distance of an unknown key from an option: negative if one contains the other's words (batch_size, radius), smaller
 * if it begins with them; 0 if the help contains the key's words (learning_rate); else the number of typing errors,
 * or INT_MAX if these are too many. */
static int key_distance(const char *key, const config_option *o)
{
    char words[max_letters + 1];
    if (has_words(key, o->key) || has_words(o->key, key))
        return strncmp(key, o->key, 3) == 0 ? -2 : -1;
    snprintf(words, sizeof words, "%s", key);
    for (char *s = words; *s; s++)
        *s = *s == '_' || *s == '-' ? ' ' : *s;
    if (strlen(words) > 3 && strstr(o->help, words))
        return 0;
    return near(key, o->key);
}

bool config_in_list(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (size_t n; (n = strcspn(list, " ")) > 0; list += n + strspn(list + n, " "))
        if (n == length && strncasecmp(list, word, n) == 0)
            return true;
    return false;
}

const char *config_foreign_answer(const char *key)
{
    for (const config_foreign_name *f = config_foreign_names; f->names; f++)
        if (config_in_list(f->names, key))
            return f->answer;
    return NULL;
}

void config_unknown(const char *key, char *text, size_t bytes)
{
    const config_option *o;
    const char *best = NULL, *answer = config_foreign_answer(key);
    int nearest = INT_MAX;
    if (answer) {
        if (config_find(answer))
            snprintf(text, bytes, "%.40s is called %s here", key, answer);
        else
            snprintf(text, bytes, "%s", answer);
        return;
    }
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (key_distance(key, o) < nearest) {
            nearest = key_distance(key, o);
            best = o->key;
        }
    if (best)
        snprintf(text, bytes, "there is no option \"%.40s\"; did you mean \"%s\"?", key, best);
    else
        snprintf(text, bytes, "there is no option \"%.40s\"; scion presets --options lists them", key);
}

scion_status config_set(config *c, const char *key, const char *value, const char *where, scion_error *err)
{
    const config_option *o = config_find(key);
    where = where ? path_end(where) : "configuration";
    if (!o) {
        char sentence[160];
        config_unknown(key, sentence, sizeof sentence);
        return train_fail(err, SCION_EINVAL, "%s: %s", where, sentence);
    }
    return set_places(c, entry_of(o), value, where, err);
}

/* A preset replaces all options, so it must come first. */
static scion_status set_preset(config *c, const char *name, scion_error *err)
{
    const config_option *o;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (!config_same(c, &defaults, o))
            return train_fail(err, SCION_EINVAL,
                              "command line: preset=%.60s would replace %s; name the preset before anything else",
                              name, o->key);
    return config_preset(c, name, err);
}

scion_status config_set_pair(config *c, const char *pair, scion_error *err)
{
    const char *equal = strchr(pair, '=');
    char key[CONFIG_TEXT];
    if (!equal || equal == pair)
        return train_fail(err, SCION_EINVAL, "command line: \"%.80s\", expected key=value", pair);
    snprintf(key, sizeof key, "%.*s", (int)(equal - pair < CONFIG_TEXT ? equal - pair : CONFIG_TEXT - 1), pair);
    if (strcmp(key, "preset") == 0)
        return set_preset(c, equal + 1, err);
    return config_set(c, key, equal + 1, "command line", err);
}

/* Value that the pairs give to a key, or NULL. */
static const char *given_value(const char *key, const char *const *pairs, int n)
{
    const size_t length = strlen(key);
    for (int i = 0; i < n; i++)
        if (strncmp(pairs[i], key, length) == 0 && pairs[i][length] == '=')
            return pairs[i] + length + 1;
    return NULL;
}

bool config_given(const char *key, const char *const *pairs, int n)
{
    return given_value(key, pairs, n) != NULL;
}

bool config_limits(const char *key, const char *const *pairs, int n)
{
    const char *value = given_value(key, pairs, n);
    return value && strcmp(value, "0") != 0;
}

scion_status config_make_way(config *c, const char *const *pairs, int n, scion_error *err)
{
    const bool tokens = config_given("eval_tokens", pairs, n), batches = config_given("eval_batches", pairs, n);
    if (config_limits("eval_tokens", pairs, n) && config_limits("eval_batches", pairs, n))
        return train_fail(err, SCION_EINVAL,
                          "command line: eval_tokens and eval_batches both limit a validation: give one of them");
    if (tokens)
        c->run.eval_batches = 0;
    if ((tokens || batches) && !config_given("eval_end", pairs, n))
        c->run.eval_end = 0;
    return SCION_OK;
}
