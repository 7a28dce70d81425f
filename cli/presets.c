/* scion presets: lists presets and settings. */
#include "cli.h"

static void print_preset(void *ctx, const char *name, const char *about)
{
    (void)ctx;
    cli_entry(stdout, 23, name, about);
}

static const cli_argument arguments[] = {
    CLI_SWITCH("--options", "list all settings with their meaning, default and choices"),
    {0},
};

static int run_presets(cli_arguments *a)
{
    scion_error err;
    config c;
    if (!cli_words(a, 1, "one preset at most"))
        return CLI_USAGE;
    if (a->values[0]) {
        cli_print_options(stdout);
    } else if (a->word_count == 0) {
        config_presets(print_preset, NULL);
        puts("\nscion train PRESET data=FILE trains one.\nscion presets PRESET shows its settings.");
    } else {
        config_init(&c);
        if (config_preset(&c, a->words[0], &err) != SCION_OK)
            return cli_error(CLI_USAGE, "%s", err.message);
        config_write(&c, stdout, CONFIG_OWN); /* values hold no control characters */
    }
    return CLI_OK;
}

const cli_command cli_presets = {
    .name = "presets",
    .usage = "[PRESET | --options]",
    .summary = "list the presets, show one, or list all settings",
    .help = "  scion presets\n"
            "  scion presets nanogpt-124m\n"
            "  scion presets --options\n",
    .run = run_presets,
    .arguments = arguments,
    .words = CLI_PRESETS | CLI_FILES,
};
