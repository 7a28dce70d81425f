/* See catalogue.h. */
#include "data/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"

const catalogue_set catalogue[] = {
    {"cifar10", "60,000 photographs of 10 kinds of things, 32 x 32 pixels (Krizhevsky, 2009)",
     "none stated by its authors", "", 184380000},
    {"fashion-mnist", "70,000 grey images of 10 kinds of clothes, 28 x 28 pixels (Zalando, 2017)", "MIT", "",
     54950048},
    {"gpt2-bpe", "GPT-2's byte pair encoding, for tokenizer=gpt2 (OpenAI, 2019)", "MIT", "", 1498619},
    {"gutenberg", "18 books of Project Gutenberg: novels, poems, plays, the Bible", "public domain", "books",
     11793320},
    {"mnist", "70,000 handwritten digits, 28 x 28 pixels (LeCun, Cortes, Burges)", "CC BY-SA 3.0", "", 54950048},
    {"shakespeare", "plays of Shakespeare as one text", "public domain", "input.txt", 1115394},
    {0},
};

const catalogue_set *catalogue_find(const char *name)
{
    for (const catalogue_set *s = catalogue; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

bool catalogue_folder(const catalogue_set *s, char path[CATALOGUE_PATH])
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    const bool standard = data && data[0] == '/'; /* the XDG standard ignores relative paths */
    if (!standard && !(home && home[0]))
        return false;
    return snprintf(path, CATALOGUE_PATH, "%s%s/scion%s%s", standard ? data : home, standard ? "" : "/.local/share",
                    s ? "/" : "", s ? s->name : "") < CATALOGUE_PATH;
}

bool catalogue_here(const catalogue_set *s, catalogue_copy *copy)
{
    char folder[CATALOGUE_PATH], path[CATALOGUE_PATH + 128], name[64];
    catalogue_copy found = {.bytes = 0};
    long long bytes;
    if (!catalogue_folder(s, folder))
        return false;
    snprintf(path, sizeof path, "%s/source.txt", folder);
    FILE *f = fopen(path, "r");
    bool whole = f && fgets(found.source, sizeof found.source, f) != NULL;
    found.source[strcspn(found.source, "\n")] = '\0';
    while (whole && fscanf(f, "%lld %63s", &bytes, name) == 2) {
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        whole = stat(path, &about) == 0 && about.st_size == bytes;
        found.bytes += whole ? bytes : 0;
    }
    if (f)
        fclose(f);
    if (found.bytes == 0) /* version 0.2 wrote the first line only */
        found.bytes = s->bytes;
    if (copy)
        *copy = found;
    return whole;
}

bool catalogue_script(char path[CATALOGUE_PATH])
{
    const char *named = getenv("SCION_GET_DATA");
    if (named && named[0])
        return snprintf(path, CATALOGUE_PATH, "%s", named) < CATALOGUE_PATH && file_exists(path);
    if ((path_beside_program("../tools/get-data", path, CATALOGUE_PATH) && file_exists(path)) ||
        (path_beside_program("../share/scion/get-data", path, CATALOGUE_PATH) && file_exists(path)))
        return true;
    return snprintf(path, CATALOGUE_PATH, "%s/../get-data", SCION_PRESET_DIR) < CATALOGUE_PATH && file_exists(path);
}

scion_status catalogue_path(const char *text, char path[OPTION_TEXT], scion_error *err)
{
    char folder[CATALOGUE_PATH], name[CATALOGUE_PATH];
    const int length = snprintf(name, sizeof name, "%s", text);
    for (int i = length < (int)sizeof name ? length - 1 : 0; i > 0 && name[i] == '/'; i--)
        name[i] = '\0'; /* shells complete the name of a folder with a slash */
    const catalogue_set *s = catalogue_find(name);
    if (!s || file_exists(text)) {
        memmove(path, text, strlen(text) + 1);
        return SCION_OK;
    }
    if (!catalogue_here(s, NULL))
        return train_fail(err, SCION_EINVAL,
                          "%s: there is no such file, and the data set of this name is not here: "
                          "scion data get %s fetches it",
                          text, s->name);
    if (!catalogue_folder(s, folder) ||
        snprintf(path, OPTION_TEXT, "%s%s%s", folder, s->data[0] ? "/" : "", s->data) >= OPTION_TEXT)
        return train_fail(err, SCION_EINVAL, "%s: the path of its folder is longer than %d bytes", s->name,
                          OPTION_TEXT - 1);
    return SCION_OK;
}
