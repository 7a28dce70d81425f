/* Configurations as .ini files, presets among them, and as JSON. After an error the caller's configuration is
 * unchanged. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/array.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/json.h"
#include "util/number.h"
#include "util/path.h"
#include "config/config.h"

/* ---- .ini files ------------------------------------------------------------------------------------------------ */

/* Larger files are not configurations; a deeper chain of presets would be hard to read. */
enum { max_bytes = 1 << 20, max_depth = 16 };

static const char byte_order_mark[] = "\xef\xbb\xbf"; /* written by some editors */

typedef struct source source;

/* `from`: the file that names the preset, whose folder is searched first, or NULL. */
static scion_status preset_at(config *c, const char *name, const source *from, scion_error *err);

/* A file being read. */
struct source {
    FILE *file;
    const char *path;
    const source *from; /* the file that named this one as its preset; NULL: none */
    config *c;
    int line;
    int first[CONFIG_OPTIONS]; /* line of each option, 0: not yet given */
    bool any;                  /* an option was given */
    scion_error *err;
};

static scion_status bad_line(const source *s, const char *why)
{
    return train_fail(s->err, SCION_EINVAL, "%s:%d: %s", path_end(s->path), s->line, why);
}

/* Removes spaces at both ends. */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    for (size_t n = strlen(text); n > 0 && isspace((unsigned char)text[n - 1]); n--)
        text[n - 1] = '\0';
    return text;
}

/* Removes a comment, which starts the line or follows a space. */
static void remove_comment(char *line)
{
    for (char *at = line; *at != '\0'; at++)
        if ((*at == ';' || *at == '#') && (at == line || isspace((unsigned char)at[-1]))) {
            *at = '\0';
            break;
        }
}

static scion_status set_option(source *s, const char *key, const char *value)
{
    const config_option *o = config_find(key);
    const bool first = !s->any;
    char where[1024];
    int i = 0;
    while (o && config_option_at(i) != o)
        i++;
    snprintf(where, sizeof where, "%s:%d", path_end(s->path), s->line);
    if (o && s->first[i] > 0)
        return train_fail(s->err, SCION_EINVAL, "%s: %s is given twice, first in line %d", where, key, s->first[i]);
    if (o)
        s->first[i] = s->line;
    s->any = true;
    if (strcmp(key, "preset") != 0)
        return config_removed(key) ? SCION_OK : config_set(s->c, key, value, where, s->err);
    return first ? preset_at(s->c, value, s, s->err)
                 : bad_line(s, "preset must be the first key, because it sets all others");
}

/* key = value (or key: value), [section], which is ignored, or nothing. */
static scion_status read_line(source *s, char *text)
{
    remove_comment(text);
    char *line = trim(text), *value = line + strcspn(line, "=:");
    if (*line == '\0' || (*line == '[' && strchr(line, ']')))
        return SCION_OK;
    if (*line == '[' || *value == '\0')
        return bad_line(s, "expected key = value or [section]");
    *value = '\0';
    return set_option(s, trim(line), trim(value + 1));
}

static scion_status read_lines(source *s)
{
    char *text = NULL;
    size_t capacity = 0;
    scion_status status = SCION_OK;
    for (ssize_t length; (length = getline(&text, &capacity, s->file)) >= 0;) {
        s->line++;
        const bool marked = s->line == 1 && strncmp(text, byte_order_mark, 3) == 0;
        TRY(strlen(text) == (size_t)length ? read_line(s, text + (marked ? 3 : 0))
                                           : bad_line(s, "contains a zero byte: not a text file"));
    }
    if (!feof(s->file))
        TRY(bad_line(s, "the file could not be read to its end"));
done:
    free(text);
    return status;
}

/* Opens a regular file of plausible size; NULL: err says why not. */
static FILE *open_source(const char *path, scion_error *err)
{
    struct stat about;
    FILE *file = NULL;
    if (stat(path, &about) != 0)
        train_fail(err, SCION_EINVAL, "%s: %s", path_end(path), strerror(errno));
    else if (!S_ISREG(about.st_mode))
        train_fail(err, SCION_EINVAL, "%s: is not a file", path_end(path));
    else if (about.st_size > max_bytes)
        train_fail(err, SCION_EINVAL, "%s: has %lld bytes, too many for a configuration", path_end(path),
                   (long long)about.st_size);
    else if (!(file = fopen(path, "re")))
        train_fail(err, SCION_EINVAL, "%s: %s", path_end(path), strerror(errno));
    return file;
}

static scion_status load_at(config *c, const char *path, const source *from, scion_error *err)
{
    config copy = *c;
    int depth = 0;
    for (const source *s = from; s; s = s->from, depth++)
        if (file_same(s->path, path))
            return train_fail(err, SCION_EINVAL, "%s: its presets include each other in a circle", path_end(path));
    if (depth > max_depth)
        return train_fail(err, SCION_EINVAL, "%s: reached through %d presets, expected at most %d", path_end(path),
                          depth, max_depth);
    source s = {.file = open_source(path, err), .path = path, .from = from, .c = &copy, .err = err};
    if (!s.file)
        return SCION_EINVAL;
    const scion_status status = read_lines(&s);
    fclose(s.file);
    if (status == SCION_OK)
        *c = copy;
    return status;
}

scion_status config_load(config *c, const char *path, scion_error *err)
{
    return load_at(c, path, NULL, err);
}

/* ---- Presets: .ini files in several folders, searched in order ---------------------------------------------- */

enum { path_bytes = 4096, about_bytes = 160 };

static const char ending[] = ".ini";

enum { folders = 5 };

/* Folder i to search for presets; false: none. */
static bool folder_at(int i, char *folder, size_t bytes)
{
    const char *const named[folders] = {getenv("SCION_PRESETS"), "presets", NULL, NULL, SCION_PRESET_DIR};
    static const char *const beside[folders] = {
        [2] = "../presets",             /* build/scion */
        [3] = "../share/scion/presets", /* bin/scion */
    };
    if (beside[i])
        return path_beside_program(beside[i], folder, bytes);
    return named[i] && named[i][0] && (size_t)snprintf(folder, bytes, "%s", named[i]) < bytes;
}

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* True for NAME.ini. */
static bool has_ending(const char *name)
{
    const size_t length = strlen(name), tail = sizeof ending - 1;
    return length > tail && strcmp(name + (length - tail), ending) == 0;
}

static bool is_path(const char *name)
{
    return strchr(name, '/') || has_ending(name);
}

/* Finds the file of a preset; false: not found. */
static bool find_preset(const char *name, char path[path_bytes])
{
    char folder[path_bytes];
    if (!name[0])
        return false;
    if (is_path(name))
        return snprintf(path, path_bytes, "%s", name) < path_bytes && is_file(path);
    for (int i = 0; i < folders; i++)
        if (folder_at(i, folder, sizeof folder) &&
            snprintf(path, path_bytes, "%s/%s%s", folder, name, ending) < path_bytes && is_file(path))
            return true;
    return false;
}

/* ---- The list ---------------------------------------------------------------------------------------------- */

typedef struct found {
    char name[CONFIG_TEXT];
    char about[about_bytes];
} found;

typedef struct list {
    found *items;
    int64_t count;
} list;

/* First line of a file, if it is a comment, without the comment sign. */
static void read_about(const char *path, char about[about_bytes])
{
    char line[about_bytes] = "";
    FILE *file = fopen(path, "re");
    about[0] = '\0';
    if (!file)
        return;
    if (fgets(line, sizeof line, file) && (line[0] == '#' || line[0] == ';')) {
        const char *from = line + 1 + strspn(line + 1, " \t");
        snprintf(about, about_bytes, "%.*s", (int)strcspn(from, "\r\n"), from);
    }
    fclose(file);
}

static void add_preset(list *l, const char *file)
{
    found item;
    char path[path_bytes];
    file_name(file, ending, item.name, sizeof item.name);
    for (int64_t i = 0; i < l->count; i++)
        if (strcmp(l->items[i].name, item.name) == 0)
            return;
    if (!find_preset(item.name, path))
        return;
    read_about(path, item.about);
    found *to = array_append(&l->items, &l->count, sizeof *to);
    if (to)
        *to = item;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const found *)a)->name, ((const found *)b)->name);
}

void config_presets(void (*each)(void *ctx, const char *name, const char *about), void *ctx)
{
    list l = {NULL, 0};
    char folder[path_bytes];
    for (int i = 0; i < folders; i++) {
        DIR *open = folder_at(i, folder, sizeof folder) ? opendir(folder) : NULL;
        for (struct dirent *entry; open && (entry = readdir(open)) != NULL;)
            if (has_ending(entry->d_name) && entry->d_name[0] != '.')
                add_preset(&l, entry->d_name);
        if (open)
            closedir(open);
    }
    if (l.count > 0)
        qsort(l.items, (size_t)l.count, sizeof *l.items, by_name);
    for (int64_t i = 0; i < l.count; i++)
        each(ctx, l.items[i].name, l.items[i].about);
    free(l.items);
}

/* ---- Reading one ------------------------------------------------------------------------------------------- */

typedef struct search {
    const char *name;
    char nearest[CONFIG_TEXT];
    bool any;
} search;

static void compare(void *ctx, const char *name, const char *about)
{
    search *s = ctx;
    (void)about;
    s->any = true;
    config_nearer(s->name, name, s->nearest);
}

static scion_status not_found(const char *name, scion_error *err)
{
    search s = {.name = name};
    struct stat about;
    if (is_path(name) && stat(name, &about) != 0 && errno != ENOENT)
        return train_fail(err, SCION_EINVAL, "%s: cannot be read: %s", path_end(name), strerror(errno));
    if (is_path(name))
        return train_fail(err, SCION_EINVAL,
                          file_exists(name) ? "%s: a preset is a file, and this is not one"
                                            : "%s: there is no such file",
                          path_end(name));
    config_presets(compare, &s);
    if (s.nearest[0])
        return train_fail(err, SCION_EINVAL, "there is no preset \"%.60s\"; did you mean \"%.60s\"?", name,
                          s.nearest);
    if (s.any)
        return train_fail(err, SCION_EINVAL, "there is no preset \"%.60s\"; scion presets lists them", name);
    return train_fail(
        err, SCION_EINVAL,
        "there is no preset \"%.60s\", and no folder of presets; SCION_PRESETS in the environment names one", name);
}

/* NAME.ini in the folder of the file `beside`, if it is another file. */
static bool path_beside(const char *name, const char *beside, char path[path_bytes])
{
    const char *slash = strrchr(beside, '/');
    const int folder = slash ? (int)(slash - beside) + 1 : 0;
    return name[0] && !is_path(name) &&
           snprintf(path, path_bytes, "%.*s%s%s", folder, beside, name, ending) < path_bytes && is_file(path) &&
           !file_same(path, beside);
}

static scion_status preset_at(config *c, const char *name, const source *from, scion_error *err)
{
    char path[path_bytes];
    config copy = *c;
    scion_status status;
    if (!(from && path_beside(name, from->path, path)) && !find_preset(name, path))
        return not_found(name, err);
    TRY(load_at(&copy, path, from, err));
    TRY(config_set(&copy, "preset", name, "preset", err));
    *c = copy;
done:
    return status;
}

scion_status config_preset(config *c, const char *name, scion_error *err)
{
    return preset_at(c, name, NULL, err);
}

/* ---- Writing, and JSON -------------------------------------------------------------------------------------- */

void config_write(const config *c, FILE *to, config_part part)
{
    const char *section = "";
    const config_option *o;
    char text[CONFIG_TEXT];
    config fresh;
    config_init(&fresh);
    /* Only a comment: the preset's options are all written below, so the file does not depend on it. */
    if (c->preset[0])
        fprintf(to, "# preset: %s\n", c->preset);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        if (strcmp(o->key, "preset") == 0 || (part == CONFIG_CHANGED && config_same(c, &fresh, o)) ||
            (part == CONFIG_OWN && !config_has(c, o)))
            continue;
        if (strcmp(section, o->section) != 0)
            fprintf(to, "[%s]\n", o->section);
        section = o->section;
        config_get(c, o, text, sizeof text);
        fprintf(to, "%s = %s\n", o->key, text);
    }
}

/* Writes a value as a string, or (`values`) as JSON's own numbers and booleans; those that JSON has no number for (a
 * seed of 2^63) stay strings. False: out of memory. */
static bool print_value(FILE *to, const config *c, const config_option *o, bool values)
{
    char text[CONFIG_TEXT], number[NUMBER_TEXT];
    double real;
    int64_t whole;
    config_get(c, o, text, sizeof text);
    if (values && o->type == OPTION_BOOL)
        return fputs(strcmp(text, "yes") == 0 ? "true" : "false", to) >= 0;
    if (values && (o->type == OPTION_INT || o->type == OPTION_SEED || o->type == OPTION_SPAN) &&
        number_int(text, &whole))
        return fprintf(to, "%lld", (long long)whole) > 0;
    if (values && o->type == OPTION_REAL && number_real(text, &real) && isfinite(real))
        return fputs(json_number_text(real, number), to) >= 0;
    json_t *string = json_string(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    const bool done = quoted && fputs(quoted, to) >= 0;
    free(quoted);
    json_decref(string);
    return done;
}

static char *to_json(const config *c, bool values)
{
    char *json = NULL;
    size_t bytes;
    FILE *to = open_memstream(&json, &bytes);
    bool done = to != NULL;
    const config_option *o;
    for (int i = 0; done && (o = config_option_at(i)) != NULL; i++)
        done = fprintf(to, "%s\"%s\":", i == 0 ? "{" : ",", o->key) > 0 && print_value(to, c, o, values);
    done = done && fputc('}', to) != EOF;
    if (to && (fclose(to) != 0 || !done)) {
        free(json);
        json = NULL;
    }
    return json;
}

char *config_to_json(const config *c)
{
    return to_json(c, false);
}

char *config_to_values(const config *c)
{
    return to_json(c, true);
}

/* A string, number or boolean as text that config_set reads; NULL: another type. */
static const char *value_text(const json_t *value, char text[NUMBER_TEXT])
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_boolean(value))
        return json_is_true(value) ? "yes" : "no";
    if (json_is_integer(value))
        snprintf(text, NUMBER_TEXT, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, NUMBER_TEXT, "%.17g", json_real_value(value));
    else
        return NULL;
    return text;
}

scion_status config_from_json(config *c, const char *json, scion_error *err)
{
    json_error_t why;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &why), *value;
    const char *key, *text;
    char number[NUMBER_TEXT];
    config copy;
    scion_status status = SCION_OK;
    config_init_origins(&copy);
    if (!json_is_object(object))
        TRY(train_fail(err, SCION_ESTATE, "stored configuration: not a JSON object: %.100s",
                       object ? "something else" : why.text));
    json_object_foreach(object, key, value)
    {
        if (config_removed(key))
            continue;
        if (!config_find(key))
            TRY(train_fail(err, SCION_ESTATE, "stored configuration: this version of scion has no option \"%.40s\"",
                           key));
        text = value_text(value, number);
        if (!text)
            TRY(train_fail(err, SCION_ESTATE, "stored configuration: %.40s is not a string, a number or a boolean",
                           key));
        TRY(config_set(&copy, key, text, "stored configuration", err));
    }
    *c = copy;
done:
    json_decref(object);
    return status;
}
