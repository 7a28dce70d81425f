/* Shared by the commands: arguments, errors, signals. See cli.h. */
#include "cli.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "util/clock.h"
#include "util/number.h"
#include "util/utf8.h"
#include "comm/launcher.h"
#include "data/catalogue.h"

static bool muted;

void cli_mute_errors(void)
{
    muted = true;
}

int cli_error(int status, const char *format, ...)
{
    if (muted)
        return status;
    va_list args;
    va_start(args, format);
    char *text = cli_printable(format, args);
    va_end(args);
    fprintf(stderr, "scion: %s\n", text ? text : "out of memory");
    free(text);
    return status;
}

int cli_end(scion_status status, const scion_error *err)
{
    return status == SCION_OK ? CLI_OK : cli_error(CLI_FAILED, "%s", err->message);
}

void cli_warning(const char *message)
{
    fflush(stdout);
    fputs(cli_style_begin(stderr, CLI_WARNING), stderr);
    cli_print(stderr, "scion: warning: %s", message);
    fprintf(stderr, "%s\n", cli_style_end(stderr, CLI_WARNING));
}

void cli_progress_warn(void *view, const char *message)
{
    cli_progress_clear(view);
    cli_warning(message);
}

/* ---- Arguments --------------------------------------------------------------------------------------------- */

static int argument_count(const cli_command *c)
{
    int count = 0;
    while (c->arguments && c->arguments[count].name)
        count++;
    return count;
}

static const char *without_dashes(const char *name)
{
    return name + strspn(name, "-");
}

int cli_find_argument(const cli_command *c, const char *name, size_t length)
{
    for (int i = 0; i < argument_count(c); i++) {
        const char *own = without_dashes(c->arguments[i].name);
        if (strlen(own) == length && memcmp(own, name, length) == 0)
            return i;
    }
    return -1;
}

bool cli_takes_option(const cli_command *c, const config_option *o)
{
    static const unsigned change[] = {[CLI_RESUME_OPTIONS] = OPTION_ON_RESUME, [CLI_EVAL_OPTIONS] = OPTION_ON_EVAL};
    return c->options == CLI_ALL_OPTIONS || (c->options != CLI_NO_OPTIONS && (o->change & change[c->options]));
}

/* True if config_unknown's answer to a key that other programs have is of use to a command. */
static bool has_answer(const cli_command *c, const char *key)
{
    const char *answer = c->options != CLI_NO_OPTIONS ? config_foreign_answer(key) : NULL;
    const config_option *o = answer ? config_find(answer) : NULL;
    return answer && (!o || cli_takes_option(c, o));
}

/* Says that the command has no such argument: `key` of `length` bytes, given as key=... or as --key. */
static bool unknown_argument(const cli_command *c, const char *key, size_t length, bool dashes)
{
    const char *mark = dashes ? "--" : "";
    char name[48], best[CONFIG_TEXT] = "", sentence[160];
    snprintf(name, sizeof name, "%.*s", (int)length, key);
    for (char *s = name; dashes && *s; s++)
        *s = *s == '-' ? '_' : *s;
    if (c->options != CLI_NO_OPTIONS && dashes && config_find(name))
        return cli_wrong("there is no --%s; settings are written without dashes: %s=VALUE", name, name);
    for (const cli_argument *r = c->arguments; r && r->name; r++)
        if (r->also && config_in_list(r->also, name))
            return cli_wrong("%s is called %s here: %s%s%s", name, without_dashes(r->name), r->name,
                             r->value ? "=" : "", r->value ? r->value : "");
    for (const cli_argument *r = c->arguments; r && r->name; r++)
        config_nearer(name, without_dashes(r->name), best);
    if (best[0]) {
        const cli_argument *r = &c->arguments[cli_find_argument(c, best, strlen(best))];
        return cli_wrong("scion %s has no %s%.*s; did you mean %s%s%s?", c->name, mark, (int)length, key, r->name,
                         r->value ? "=" : "", r->value ? r->value : "");
    }
    const config_option *o;
    for (int i = 0; c->options != CLI_ALL_OPTIONS && (o = config_option_at(i)) != NULL; i++)
        if (cli_takes_option(c, o))
            config_nearer(name, o->key, best);
    if (best[0])
        return cli_wrong("scion %s has no %s%.*s; did you mean %s=VALUE?", c->name, mark, (int)length, key, best);
    if (c->options != CLI_ALL_OPTIONS && !has_answer(c, name))
        return cli_wrong("scion %s has no %s%.*s; scion help %s says what it takes", c->name, mark, (int)length, key,
                         c->name);
    config_unknown(name, sentence, sizeof sentence);
    return cli_wrong("%s", sentence);
}

/* Reads argv[*i], which begins with a dash: a switch, or a setting that has a meaning without a value (--json). */
static bool parse_dashes(cli_arguments *a, int argc, char **argv, int *i)
{
    const char *name = without_dashes(argv[*i]);
    const size_t length = strcspn(name, "=");
    const int index = argv[*i][1] == '-' ? cli_find_argument(a->command, name, length) : -1;
    const cli_argument *r = index >= 0 ? &a->command->arguments[index] : NULL;
    if (!r || (r->value && !r->bare))
        return unknown_argument(a->command, name, length, true);
    if (!r->value && name[length])
        return cli_wrong("%s takes no value", r->name);
    if (name[length])
        a->values[index] = name + length + 1;
    else if (r->bare && *i + 1 < argc && argv[*i + 1][0] != '-')
        a->values[index] = argv[++*i];
    else
        a->values[index] = r->bare ? r->bare : "";
    return true;
}

/* Reads key=value: an argument of the command, or an option of a run. */
static bool parse_pair(cli_arguments *a, const char *pair)
{
    const cli_command *c = a->command;
    const size_t length = strcspn(pair, "=");
    const int index = cli_find_argument(c, pair, length);
    char key[CONFIG_TEXT];
    if (index >= 0 && !c->arguments[index].value)
        return cli_wrong("%.40s: this is a switch; it is written %s", pair, c->arguments[index].name);
    if (index >= 0) {
        a->values[index] = pair + length + 1;
        return true;
    }
    snprintf(key, sizeof key, "%.*s", length < sizeof key ? (int)length : (int)sizeof key - 1, pair);
    if (length > 0 && (c->options == CLI_NO_OPTIONS || !config_find(key)))
        return unknown_argument(c, pair, length, false);
    a->pairs[a->pair_count++] = pair;
    return true;
}

/* A word may hold '=' where files are taken: after a slash, which no key has, and without one where options of a run
 * are not taken: the folder runs/lr=0.1. */
static bool is_pair(const cli_command *c, const char *text)
{
    const size_t length = strcspn(text, "=");
    if (text[length] == '\0' || (c->words & (CLI_FILES | CLI_RUNS) && memchr(text, '/', length)))
        return false;
    return c->options != CLI_NO_OPTIONS || !(c->words & (CLI_FILES | CLI_RUNS)) ||
           cli_find_argument(c, text, length) >= 0;
}

bool cli_parse(cli_arguments *a, const cli_command *c, int argc, char **argv)
{
    const size_t count = (size_t)argc;
    *a = (cli_arguments){.command = c, .argc = argc, .argv = argv};
    a->words = calloc(2 * count + (size_t)argument_count(c) + 2, sizeof *a->words);
    if (!a->words) {
        cli_error(CLI_FAILED, "out of memory");
        return false;
    }
    a->pairs = a->words + count + 1;
    a->values = a->pairs + count + 1;
    bool words_alone = false; /* after "--" */
    for (int i = 0; i < argc; i++) {
        if (words_alone) {
            a->words[a->word_count++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            words_alone = true;
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!parse_dashes(a, argc, argv, &i))
                return false;
        } else if (is_pair(c, argv[i])) {
            if (!parse_pair(a, argv[i]))
                return false;
        } else {
            a->words[a->word_count++] = argv[i];
        }
    }
    return true;
}

void cli_parse_free(cli_arguments *a)
{
    free(a->words);
}

const char *cli_option(const cli_arguments *a, const char *key)
{
    const size_t length = strlen(key);
    const char *value = NULL;
    for (int i = 0; i < a->pair_count; i++) /* the last counts */
        if (strncmp(a->pairs[i], key, length) == 0 && a->pairs[i][length] == '=')
            value = a->pairs[i] + length + 1;
    return value;
}

scion_status cli_settings(config *c, const char *preset, const cli_arguments *a, scion_error *err)
{
    scion_status status = preset ? config_preset(c, preset, err) : SCION_OK;
    if (status == SCION_OK)
        status = config_make_way(c, a->pairs, a->pair_count, err);
    for (int i = 0; status == SCION_OK && i < a->pair_count; i++)
        status = config_set_pair(c, a->pairs[i], err);
    return status;
}

bool cli_json_only(const cli_arguments *a, int argument)
{
    return a->values[argument] && strcmp(a->values[argument], "-") == 0;
}

bool cli_words(const cli_arguments *a, int count, const char *what)
{
    char joined[160] = "";
    if (a->word_count <= count)
        return true;
    for (int i = count; i < a->word_count; i++)
        utf8_append(joined, sizeof joined, "%s%s", i > count ? " " : "", a->words[i]);
    if (a->command->rest)
        return cli_wrong("scion %s takes %s; did you mean %s='%s'?", a->command->name, what, a->command->rest,
                         joined);
    return cli_wrong("scion %s takes %s; unexpected argument \"%s\"", a->command->name, what, joined);
}

bool cli_one_run(const cli_arguments *a)
{
    return a->word_count > 0 ? cli_words(a, 1, "one run") : cli_wrong("give the folder of a run, or a checkpoint");
}

int cli_open_run(trainer **out, const cli_arguments *a, trainer_use use, char path[RUN_PATH])
{
    scion_error err;
    scion_status status = run_dir_best(a->words[0], path, &err);
    if (status == SCION_OK)
        status = trainer_open(out, path, a->pairs, a->pair_count, use, &err);
    return cli_end(status, &err);
}

static bool file_or_pattern(const char *path)
{
    glob_t found;
    if (access(path, R_OK) == 0)
        return true;
    const int why = errno;
    if (glob(path, 0, NULL, &found) != 0)
        return cli_error(CLI_FAILED, "%s: %s", path, strerror(why)) == CLI_OK;
    globfree(&found);
    return true;
}

void cli_show_work(void *ctx, const char *what, double share)
{
    static const double patience = 2; /* seconds */
    static cli_progress progress;
    static double began;
    (void)ctx;
    if (comm_world()->rank > 0)
        return;
    if (began == 0) {
        began = clock_now();
        progress = cli_progress_start(stderr);
    }
    if (share < 1 && clock_now() - began > patience)
        cli_progress_show(&progress, CLI_WAITING, "%s: %.0f %%", what, 100 * share);
    if (share >= 1) {
        cli_progress_clear(&progress);
        began = 0;
    }
}

bool cli_find_data(const config *c)
{
    char path[OPTION_TEXT];
    scion_error err;
    if (!data_needs_path(c->data.kind))
        return true;
    if (cli_end(catalogue_path(c->data.path, path, &err), &err) != CLI_OK)
        return false;
    return file_or_pattern(path) && (!c->data.val[0] || file_or_pattern(c->data.val));
}

/* ---- Values of arguments ------------------------------------------------------------------------------------- */

bool cli_get_int(const cli_arguments *a, int argument, int64_t min, int64_t max, int64_t *value)
{
    const char *text = a->values[argument];
    return !text || (number_int(text, value) && *value >= min && *value <= max) ||
           cli_wrong("%s=%.40s: expected a whole number from %lld to %lld", a->command->arguments[argument].name,
                     text, (long long)min, (long long)max);
}

bool cli_get_real(const cli_arguments *a, int argument, double min, double max, double *value)
{
    const char *text = a->values[argument];
    return !text || (number_real(text, value) && *value >= min && *value <= max) ||
           cli_wrong("%s=%.40s: expected a number from %g to %g", a->command->arguments[argument].name, text, min,
                     max);
}

int cli_get_numbers(const cli_arguments *a, int argument, const char *absent, int most, int *numbers, int capacity)
{
    const char *text = a->values[argument] ? a->values[argument] : absent;
    int count = 0;
    for (const char *at = text; *at;) {
        char number[NUMBER_TEXT];
        int64_t n;
        const size_t length = strcspn(at, ",");
        snprintf(number, sizeof number, "%.*s", (int)length, at);
        if (length >= sizeof number || !number_int(number, &n) || n < 1 || n > most || count == capacity) {
            cli_error(CLI_USAGE, "%s=%.60s: expected up to %d numbers from 1 to %d, separated by commas",
                      a->command->arguments[argument].name, text, capacity, most);
            return -1;
        }
        numbers[count++] = (int)n;
        at += length + (at[length] == ',');
    }
    return count;
}

bool cli_get_text(const cli_arguments *a, int argument, char *value, size_t bytes)
{
    const char *text = a->values[argument];
    if (!text)
        return true;
    if (strlen(text) >= bytes || !text[0])
        return cli_wrong("%s=%.60s: expected 1 to %d bytes", a->command->arguments[argument].name, text,
                         (int)bytes - 1);
    memcpy(value, text, strlen(text) + 1);
    return true;
}

/* "90" (seconds), "90s", "20m", "1h30m", "1.5h". False: something else, or not above 0. */
static bool parse_seconds(const char *text, double *seconds)
{
    static const char digits[] = "0123456789.";
    const char *units = "hms"; /* in this order, each at most once */
    if (text[strspn(text, digits)] == '\0')
        return number_real(text, seconds) && *seconds > 0;
    for (*seconds = 0; *text; text++) {
        char *end;
        const double value = strtod(text, &end);
        const char *unit = strchr(digits, *text) && *end ? strchr(units, *end) : NULL;
        if (!unit)
            return false;
        *seconds += value * (*unit == 'h' ? 3600 : *unit == 'm' ? 60 : 1);
        units = unit + 1;
        text = end;
    }
    return *seconds > 0 && isfinite(*seconds);
}

bool cli_get_seconds(const cli_arguments *a, int argument, double *value)
{
    const char *text = a->values[argument];
    return !text || parse_seconds(text, value) ||
           cli_wrong("%s=%.40s: expected a time such as 90s, 20m or 1h30m", a->command->arguments[argument].name,
                     text);
}

/* ---- Signals ----------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t first_signal, interrupts; /* its number, 0: none; how many were SIGINT */

/* Only a second Ctrl-C ends the program: a closed terminal sends SIGHUP twice, by the kernel and by the shell. */
static void on_signal(int number)
{
    if (number == SIGINT && interrupts++ > 0)
        _exit(128 + number);
    if (first_signal == 0)
        first_signal = number;
}

void cli_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (launcher_find().size > 1)
        sigaction(SIGUSR1, &action, NULL); /* which launchers pass on, and batch systems send before the end */
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup ignores it */
        sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void)
{
    return first_signal != 0;
}

bool cli_stop(void *ctx)
{
    (void)ctx;
    return cli_interrupted();
}

int cli_stopped(void)
{
    return 128 + first_signal;
}

static bool outlives_reader;

void cli_outlive_reader(void)
{
    outlives_reader = true;
    signal(SIGPIPE, SIG_IGN);
}

bool cli_reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return outlives_reader && poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP));
}

void cli_end_by_signal(int status)
{
    if (status != 128 + SIGINT || first_signal != SIGINT || launcher_find().size > 1)
        return;
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}
