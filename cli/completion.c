/* scion completion: scripts for shells that complete the command line. They call `scion --complete WORD ...`, which
 * prints candidates for the last word, one per line with its meaning after a tab, and ":files" if it may be a file,
 * ":runs" if it may be a folder or a checkpoint; it reads the same tables as help and parsing. */
#include <string.h>

#include "cli.h"

/* ---- Answers -------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Prints the candidate before + name + after if it begins with the last word. */
static void offer(const char *last, const char *before, const char *name, const char *after, const char *about)
{
    char text[2 * CONFIG_TEXT];
    snprintf(text, sizeof text, "%s%s%s", before, name, after);
    if (begins(text, last))
        printf("%s\t%s\n", text, about);
}

static void offer_preset(void *last, const char *name, const char *about)
{
    offer(last, "", name, "", about);
}

static void offer_commands(const char *last)
{
    const cli_command *c;
    for (int i = 0; (c = cli_command_at(i)) != NULL; i++)
        offer(last, "", c->name, "", c->summary);
}

/* Offers the values of an option; in a list, such as rule=scion,ad, for the last one. */
static void offer_values(const char *last, const config_option *o)
{
    static const char *const truth[] = {"yes", "no"};
    const char *value = strchr(last, '=') + 1, *comma = strrchr(value, ','), *name;
    char before[CONFIG_TEXT];
    snprintf(before, sizeof before, "%.*s", (int)((comma ? comma + 1 : value) - last), last);
    for (int i = 0; (name = option_choice(o, i)) != NULL; i++)
        offer(last, before, name, "", "");
    for (int i = 0; o->type == OPTION_BOOL && i < 2; i++)
        offer(last, before, truth[i], "", "");
    if (o->type == OPTION_STRING && !o->list)
        puts(":files");
}

/* Offers the values that an argument lists: "val|all". */
static void offer_choices(const char *last, size_t length, const char *choices)
{
    char before[CONFIG_TEXT], name[CONFIG_TEXT];
    snprintf(before, sizeof before, "%.*s", (int)length + 1, last);
    for (size_t n; *choices; choices += n + (choices[n] == '|')) {
        n = strcspn(choices, "|");
        snprintf(name, sizeof name, "%.*s", (int)n, choices);
        offer(last, before, name, "", "");
    }
}

/* Offers values after key= . */
static void offer_after_equal(const cli_command *c, const char *last)
{
    const size_t length = strcspn(last, "=");
    const int index = cli_find_argument(c, last, length);
    const char *value = index >= 0 ? c->arguments[index].value : NULL;
    char key[CONFIG_TEXT];
    snprintf(key, sizeof key, "%.*s", length < sizeof key ? (int)length : 0, last);
    const config_option *o = index < 0 ? config_find(key) : NULL;
    if (value && strchr(value, '|'))
        offer_choices(last, length, value);
    else if (value && (strcmp(value, "FILE") == 0 || strcmp(value, "FOLDER") == 0 || strcmp(value, "PATH") == 0))
        puts(":files");
    else if (o && cli_takes_option(c, o))
        offer_values(last, o);
}

/* True if a word before the last one is this switch, or sets this key. */
static bool given(int count, char **words, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 1; i + 1 < count; i++)
        if (begins(words[i], name) && (words[i][length] == '\0' || words[i][length] == '='))
            return true;
    return false;
}

/* Offers switches, and keys that are not set yet. */
static void offer_arguments(const cli_command *c, int count, char **words)
{
    const char *last = words[count - 1];
    const config_option *o;
    for (const cli_argument *r = c->arguments; r && r->name; r++)
        if (!given(count, words, r->name))
            offer(last, "", r->name, r->value ? "=" : "", r->help);
    offer(last, "", "--help", "", "describe the command");
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        if (cli_takes_option(c, o) && !given(count, words, o->key) &&
            cli_find_argument(c, o->key, strlen(o->key)) < 0)
            offer(last, "", o->key, "=", o->help);
}

static void offer_words(const cli_command *c, const char *last)
{
    const char *name;
    for (int i = 0; c->word && (name = c->word(i)) != NULL; i++)
        offer(last, "", name, "", "");
    if (c->words & CLI_PRESETS)
        config_presets(offer_preset, (void *)(size_t)last);
    if (c->words & CLI_FILES)
        puts(":files");
    if (c->words & CLI_RUNS)
        puts(":runs");
}

int cli_complete(int count, char **words)
{
    const char *last = count > 0 ? words[count - 1] : "";
    const cli_command *c = count > 1 ? cli_find_command(words[0]) : NULL;
    if (count <= 1 || (count == 2 && strcmp(words[0], "help") == 0)) {
        offer_commands(last);
        if (count <= 1)
            offer(last, "", "help", "", "describe a command");
    } else if (c && strchr(last, '=')) {
        offer_after_equal(c, last);
    } else if (c) {
        bool words_given = false;
        for (int i = 1; i + 1 < count; i++)
            words_given = words_given || (words[i][0] != '-' && !strchr(words[i], '='));
        offer_words(c, last);
        if (last[0] || words_given || !(c->words || c->word)) /* a hundred keys would hide the words */
            offer_arguments(c, count, words);
    }
    return CLI_OK;
}

/* ---- Scripts: cli/completion/, which the build turns into arrays ---------------------------------------------- */

extern const char completion_bash[], completion_zsh[], completion_fish[];

static const struct {
    const char *name, *script;
} shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

enum { shell_count = sizeof shells / sizeof *shells };

static const char *shell_name(int i)
{
    return i >= 0 && i < shell_count ? shells[i].name : NULL;
}

static int run_completion(cli_arguments *a)
{
    if (!cli_words(a, 1, "the name of a shell"))
        return CLI_USAGE;
    for (int i = 0; a->word_count == 1 && i < shell_count; i++)
        if (strcmp(a->words[0], shells[i].name) == 0) {
            fputs(shells[i].script, stdout);
            return CLI_OK;
        }
    return cli_error(CLI_USAGE, "name the shell: bash, zsh or fish");
}

const cli_command cli_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "print a script that lets the shell complete scion's arguments",
    .help = "make install puts the scripts where the shells look for them. Without it:\n\n"
            "  bash, in ~/.bashrc:                eval \"$(scion completion bash)\"\n"
            "  zsh, in ~/.zshrc after compinit:   eval \"$(scion completion zsh)\"\n"
            "  fish, in config.fish:              scion completion fish | source\n",
    .run = run_completion,
    .word = shell_name,
};
