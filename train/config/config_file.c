/* Configurations as .ini files and as JSON. After an error the caller's configuration is unchanged. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "config/config_parts.h"
#include "base/fail.h"
#include "base/path.h"

/* No configuration is larger, and one that includes that many others includes itself. */
enum { max_bytes = 1 << 20, max_depth = 8 };

static const char byte_order_mark[] = "\xef\xbb\xbf"; /* some editors put it in front of UTF-8 */

/* A file being read. */
typedef struct source {
    FILE *file;
    const char *path;
    config *c;
    int depth;
    int line;
    int *first; /* line of each option, 0: not yet given */
    bool any;   /* an option was given */
    scion_status status;
    scion_error *err;
} source;

/* Remembers the first fault of the file: what is wrong in which line. */
static void fault(source *s, const char *what)
{
    if (s->status == SCION_OK)
        s->status = train_fail(s->err, SCION_EINVAL, "%s:%d: %s", path_end(s->path), s->line, what);
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

static void set_option(source *s, const char *key, const char *value)
{
    const config_option *o = config_find(key);
    char where[1024], what[160];
    for (int i = 0; o && config_option_at(i); i++)
        if (config_option_at(i) == o) {
            if (s->first[i] > 0) {
                snprintf(what, sizeof what, "%s is given twice, first in line %d", key, s->first[i]);
                fault(s, what);
                return;
            }
            s->first[i] = s->line;
        }
    if (strcmp(key, "preset") == 0) {
        if (s->any)
            fault(s, "preset must be the first key, because it sets all others");
        else
            s->status = config_preset_at(s->c, value, s->path, s->depth + 1, s->err);
    } else {
        snprintf(where, sizeof where, "%s:%d", path_end(s->path), s->line);
        s->status = config_set(s->c, key, value, where, s->err);
    }
    s->any = true;
}

/* key = value (or key: value), [section], which is ignored, or nothing. */
static void read_line(source *s, char *text)
{
    remove_comment(text);
    char *line = trim(text), *value = line + strcspn(line, "=:");
    if (*line == '\0' || (*line == '[' && strchr(line, ']')))
        return;
    if (*line == '[' || *value == '\0') {
        fault(s, "expected key = value or [section]");
        return;
    }
    *value = '\0';
    set_option(s, trim(line), trim(value + 1));
}

static void read_lines(source *s)
{
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length;
    while (s->status == SCION_OK && (length = getline(&text, &capacity, s->file)) >= 0) {
        s->line++;
        const bool marked = s->line == 1 && strncmp(text, byte_order_mark, 3) == 0;
        if (strlen(text) != (size_t)length)
            fault(s, "holds a zero byte: this is not a text file");
        else
            read_line(s, text + (marked ? 3 : 0));
    }
    if (s->status == SCION_OK && !feof(s->file))
        fault(s, "the file could not be read to its end");
    free(text);
}

/* A regular file of a size that a configuration can have, open; NULL: err says why not. */
static FILE *open_source(const char *path, scion_error *err)
{
    struct stat about;
    FILE *file = NULL;
    if (stat(path, &about) != 0)
        train_fail(err, SCION_EINVAL, "%s: %s", path_end(path), strerror(errno));
    else if (!S_ISREG(about.st_mode))
        train_fail(err, SCION_EINVAL, "%s: is not a file", path_end(path));
    else if (about.st_size > max_bytes)
        train_fail(err, SCION_EINVAL, "%s: has %lld bytes, which is no configuration", path_end(path),
                   (long long)about.st_size);
    else if (!(file = fopen(path, "re")))
        train_fail(err, SCION_EINVAL, "%s: %s", path_end(path), strerror(errno));
    return file;
}

scion_status config_load_at(config *c, const char *path, int depth, scion_error *err)
{
    config copy = *c;
    int count = 0;
    if (depth > max_depth)
        return train_fail(err, SCION_EINVAL, "%s: its presets name each other in a circle", path_end(path));
    while (config_option_at(count))
        count++;
    source s = {.path = path, .c = &copy, .depth = depth, .status = SCION_OK, .err = err};
    s.file = open_source(path, err);
    if (!s.file)
        return SCION_EINVAL;
    s.first = calloc((size_t)count, sizeof *s.first);
    if (!s.first) {
        fclose(s.file);
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    }
    read_lines(&s);
    fclose(s.file);
    free(s.first);
    if (s.status == SCION_OK)
        *c = copy;
    return s.status;
}

scion_status config_load(config *c, const char *path, scion_error *err)
{
    return config_load_at(c, path, 0, err);
}

void config_write(const config *c, FILE *to, bool only_changed)
{
    const char *section = "";
    const config_option *o;
    char text[CONFIG_TEXT];
    config fresh;
    config_init(&fresh);
    /* A comment: all that the preset said is below, and a file that names it would depend on finding it. */
    if (c->preset[0])
        fprintf(to, "# preset: %s\n", c->preset);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        if (strcmp(o->key, "preset") == 0 || (only_changed && config_same(c, &fresh, o)))
            continue;
        if (strcmp(section, o->section) != 0)
            fprintf(to, "[%s]\n", o->section);
        section = o->section;
        config_get(c, o, text, sizeof text);
        fprintf(to, "%s = %s\n", o->key, text);
    }
}

char *config_to_json(const config *c)
{
    json_t *object = json_object();
    const config_option *o;
    char text[CONFIG_TEXT], *json;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        config_get(c, o, text, sizeof text);
        if (json_object_set_new(object, o->key, json_string(text)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    json = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return json;
}

scion_status config_from_json(config *c, const char *json, scion_error *err)
{
    json_error_t why;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &why), *value;
    const char *key;
    config copy;
    scion_status status = SCION_OK;
    config_init_origins(&copy);
    if (!json_is_object(object)) {
        status = train_fail(err, SCION_ESTATE, "stored configuration: not a JSON object: %.100s",
                            object ? "something else" : why.text);
        json_decref(object);
        return status;
    }
    json_object_foreach(object, key, value)
    {
        if (status != SCION_OK)
            break;
        if (!config_find(key))
            status = train_fail(err, SCION_ESTATE,
                                "stored configuration: this version of scion has no option \"%.40s\"", key);
        else if (json_is_string(value))
            status = config_set(&copy, key, json_string_value(value), "stored configuration", err);
        else
            status = train_fail(err, SCION_ESTATE, "stored configuration: %.40s is not a string", key);
    }
    json_decref(object);
    if (status == SCION_OK)
        *c = copy;
    return status;
}
