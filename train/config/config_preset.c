/* Presets: .ini files in the folders below, the first folder that has a name wins. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config_parts.h"
#include "base/fail.h"
#include "base/path.h"

enum { path_bytes = 4096, about_bytes = 160 };

static const char ending[] = ".ini";

/* `below` the folder that the program is in; false: it cannot be told. */
static bool beside_program(const char *below, char *folder, size_t bytes)
{
    char program[path_bytes];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return (size_t)snprintf(folder, bytes, "%s/%s", program, below) < bytes;
}

enum { folders = 5 };

/* Folder i of those that presets are looked for in; false: there is none. */
static bool folder_at(int i, char *folder, size_t bytes)
{
    const char *named = NULL;
    switch (i) {
    case 0: named = getenv("SCION_PRESETS"); break;
    case 1: named = "presets"; break;
    case 2: /* build/scion beside presets */ return beside_program("../presets", folder, bytes);
    case 3: /* bin/scion beside share */ return beside_program("../share/scion/presets", folder, bytes);
    default:
#ifdef SCION_PRESET_DIR
        named = SCION_PRESET_DIR;
#endif
        break;
    }
    return named && named[0] && (size_t)snprintf(folder, bytes, "%s", named) < bytes;
}

static bool is_file(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Whether a file name has the ending of a preset and something before it. */
static bool has_ending(const char *name)
{
    const size_t length = strlen(name), tail = sizeof ending - 1;
    return length > tail && strcmp(name + (length - tail), ending) == 0;
}

static bool is_path(const char *name)
{
    return strchr(name, '/') || has_ending(name);
}

bool config_preset_path(const char *name, char *path, size_t bytes)
{
    char folder[path_bytes];
    if (!name[0])
        return false;
    if (is_path(name))
        return (size_t)snprintf(path, bytes, "%s", name) < bytes && is_file(path);
    for (int i = 0; i < folders; i++)
        if (folder_at(i, folder, sizeof folder) &&
            (size_t)snprintf(path, bytes, "%s/%s%s", folder, name, ending) < bytes && is_file(path))
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
    size_t count, room;
} list;

/* First line of a file, if it is a comment, without the comment's sign. */
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

static void add_preset(list *l, const char *folder, const char *file)
{
    const size_t length = strlen(file) - (sizeof ending - 1);
    char path[2 * path_bytes];
    if (length >= CONFIG_TEXT || (size_t)snprintf(path, sizeof path, "%s/%s", folder, file) >= sizeof path)
        return;
    for (size_t i = 0; i < l->count; i++)
        if (strlen(l->items[i].name) == length && memcmp(l->items[i].name, file, length) == 0)
            return;
    if (!is_file(path))
        return;
    if (l->count == l->room) {
        const size_t room = 2 * l->room + 16;
        found *items = realloc(l->items, room * sizeof *items);
        if (!items)
            return;
        l->items = items;
        l->room = room;
    }
    found *item = &l->items[l->count++];
    snprintf(item->name, sizeof item->name, "%.*s", (int)length, file);
    read_about(path, item->about);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const found *)a)->name, ((const found *)b)->name);
}

void config_presets(void (*each)(void *ctx, const char *name, const char *about), void *ctx)
{
    list l = {NULL, 0, 0};
    char folder[path_bytes];
    for (int i = 0; i < folders; i++) {
        DIR *open = folder_at(i, folder, sizeof folder) ? opendir(folder) : NULL;
        for (struct dirent *entry; open && (entry = readdir(open)) != NULL;)
            if (has_ending(entry->d_name) && entry->d_name[0] != '.')
                add_preset(&l, folder, entry->d_name);
        if (open)
            closedir(open);
    }
    if (l.count > 0)
        qsort(l.items, l.count, sizeof *l.items, by_name);
    for (size_t i = 0; i < l.count; i++)
        each(ctx, l.items[i].name, l.items[i].about);
    free(l.items);
}

/* ---- Reading one ------------------------------------------------------------------------------------------- */

typedef struct search {
    const char *name;
    char nearest[CONFIG_TEXT];
    int distance;
} search;

static void compare(void *ctx, const char *name, const char *about)
{
    search *s = ctx;
    const int distance = config_distance(s->name, name);
    (void)about;
    if (s->nearest[0] == '\0' || distance < s->distance) {
        snprintf(s->nearest, sizeof s->nearest, "%s", name);
        s->distance = distance;
    }
}

static scion_status not_found(const char *name, scion_error *err)
{
    search s = {.name = name};
    if (is_path(name))
        return train_fail(err, SCION_EINVAL, "%s: there is no such file", path_end(name));
    config_presets(compare, &s);
    if (s.nearest[0])
        return train_fail(err, SCION_EINVAL, "there is no preset \"%.60s\"; did you mean \"%.60s\"?", name,
                          s.nearest);
    return train_fail(
        err, SCION_EINVAL,
        "there is no preset \"%.60s\", and no folder of presets; SCION_PRESETS in the environment names one", name);
}

/* NAME.ini in the folder of the file `beside`, if it is another file. */
static bool path_beside(const char *name, const char *beside, char *path, size_t bytes)
{
    const char *slash = strrchr(beside, '/');
    const int folder = slash ? (int)(slash - beside) + 1 : 0;
    struct stat one, other;
    if (is_path(name) || (size_t)snprintf(path, bytes, "%.*s%s%s", folder, beside, name, ending) >= bytes)
        return false;
    return is_file(path) && stat(path, &one) == 0 && stat(beside, &other) == 0 &&
           (one.st_dev != other.st_dev || one.st_ino != other.st_ino);
}

scion_status config_preset_at(config *c, const char *name, const char *beside, int depth, scion_error *err)
{
    char path[path_bytes];
    config copy = *c;
    if (!(beside && name[0] && path_beside(name, beside, path, sizeof path)) &&
        !config_preset_path(name, path, sizeof path))
        return not_found(name, err);
    scion_status status = config_load_at(&copy, path, depth, err);
    if (status == SCION_OK)
        status = config_set(&copy, "preset", name, "preset", err);
    if (status == SCION_OK)
        *c = copy;
    return status;
}

scion_status config_preset(config *c, const char *name, scion_error *err)
{
    return config_preset_at(c, name, NULL, 0, err);
}
