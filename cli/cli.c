/* What the commands share: arguments, errors, signals, progress. */
#define _DEFAULT_SOURCE 1 /* winsize */
#include "cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/config_parts.h"
#include "base/number.h"

int cli_error(int status, const char *format, ...)
{
    va_list args;
    fputs("scion: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return status;
}

const char *cli_nearest(const char *name, const char *const *names)
{
    const char *best = names[0];
    int least = -1;
    for (int i = 0; names[i]; i++) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(names[i], "="), names[i]);
        const int distance = config_distance(name, word);
        if (least < 0 || distance < least) {
            least = distance;
            best = names[i];
        }
    }
    return best;
}

/* Says what is wrong with an argument that starts with "--". */
static void wrong_flag(const char *argument, const char *const *flags, int flag)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    if (flag >= 0) {
        cli_error(CLI_USAGE, "%s %s", name, strchr(flags[flag], '=') ? "needs a value behind it" : "takes no value");
    } else if (config_find(name + 2)) {
        cli_error(CLI_USAGE, "there is no option %s here; settings are written %s=VALUE", name, name + 2);
    } else if (flags && flags[0]) {
        const char *nearest = cli_nearest(name, flags);
        cli_error(CLI_USAGE, "there is no option %s here; did you mean %.*s?", name, (int)strcspn(nearest, "="),
                  nearest);
    } else {
        cli_error(CLI_USAGE,
                  "there is no option %s here; settings are written key=value, scion presets --options lists them",
                  name);
    }
}

/* Index of the flag that `argument` names, or -1; *value: what stands behind its '='. */
static int find_flag(const char *const *flags, const char *argument, const char **value)
{
    const char *equal = strchr(argument, '=');
    const size_t length = equal ? (size_t)(equal - argument) : strlen(argument);
    *value = equal ? equal + 1 : NULL;
    for (int i = 0; flags && flags[i]; i++) {
        size_t name = strcspn(flags[i], "=");
        if (name == length && strncmp(flags[i], argument, name) == 0)
            return i;
    }
    return -1;
}

bool cli_parse(cli_arguments *a, int argc, char **argv, const char *const *flags)
{
    memset(a, 0, sizeof *a);
    a->pairs = calloc((size_t)argc + 1, sizeof *a->pairs);
    for (int i = 0; a->pairs && i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            const char *value;
            int flag = find_flag(flags, argv[i], &value);
            bool takes = flag >= 0 && strchr(flags[flag], '=');
            if (flag < 0 || (!takes && value) || (takes && !value && i + 1 >= argc)) {
                wrong_flag(argv[i], flags, flag);
                return false;
            }
            a->values[flag] = !takes ? "" : value ? value : argv[++i];
        } else if (strchr(argv[i], '=')) {
            a->pairs[a->pair_count++] = argv[i];
        } else if (a->word_count < (int)(sizeof a->words / sizeof *a->words)) {
            a->words[a->word_count++] = argv[i];
        } else {
            cli_error(CLI_USAGE, "too many arguments: %s", argv[i]);
            return false;
        }
    }
    return a->pairs != NULL;
}

void cli_parse_free(cli_arguments *a)
{
    free(a->pairs);
}

bool cli_parse_run(cli_arguments *a, int argc, char **argv, const char *const *flags)
{
    if (!cli_parse(a, argc, argv, flags))
        return false;
    if (a->word_count == 1)
        return true;
    cli_error(CLI_USAGE, "give the folder of a run, or a checkpoint");
    return false;
}

int cli_open_run(trainer **out, const cli_arguments *a,
                 scion_status (*find)(const char *run, char path[RUN_PATH], scion_error *err),
                 scion_status (*open)(trainer **out, const char *path, const char *const *pairs, int count,
                                      scion_error *err),
                 char path[RUN_PATH])
{
    scion_error err;
    if (find(a->words[0], path, &err) == SCION_OK && open(out, path, a->pairs, a->pair_count, &err) == SCION_OK)
        return CLI_OK;
    return cli_error(CLI_FAILED, "%s", err.message);
}

/* The value of the last pair of that key; all of them are taken out. NULL: there is none. */
static const char *take(cli_arguments *a, const char *key)
{
    const size_t length = strlen(key);
    const char *value = NULL;
    int kept = 0;
    for (int i = 0; i < a->pair_count; i++)
        if (strncmp(a->pairs[i], key, length) == 0 && a->pairs[i][length] == '=')
            value = a->pairs[i] + length + 1;
        else
            a->pairs[kept++] = a->pairs[i];
    a->pair_count = kept;
    return value;
}

bool cli_take_text(cli_arguments *a, const char *key, char *value, size_t bytes)
{
    const char *text = take(a, key);
    if (!text)
        return true;
    if (strlen(text) >= bytes || !text[0]) {
        cli_error(CLI_USAGE, "%s=%.60s: a value of 1 to %d bytes was expected", key, text, (int)bytes - 1);
        return false;
    }
    memcpy(value, text, strlen(text) + 1);
    return true;
}

bool cli_take_int(cli_arguments *a, const char *key, int64_t least, int64_t most, int64_t *value)
{
    const char *text = take(a, key);
    if (!text || (number_int(text, value) && *value >= least && *value <= most))
        return true;
    cli_error(CLI_USAGE, "%s=%.40s: a whole number from %lld to %lld was expected", key, text, (long long)least,
              (long long)most);
    return false;
}

bool cli_take_real(cli_arguments *a, const char *key, double *value)
{
    const char *text = take(a, key);
    if (!text || (number_real(text, value) && *value >= 0))
        return true;
    cli_error(CLI_USAGE, "%s=%.40s: a number of 0 or more was expected", key, text);
    return false;
}

void cli_print_options(FILE *to)
{
    const char *section = "";
    const config_option *o;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        if (strcmp(section, o->section) != 0)
            fprintf(to, "\n%s\n", section = o->section);
        char names[OPTION_TEXT] = "";
        if (o->choice)
            option_choices(o, names, sizeof names);
        fprintf(to, "  %-16s %s", o->key, o->help);
        fprintf(to, names[0] ? " (%s; %s)\n" : o->initial[0] ? " (%s)\n" : "\n", o->initial, names);
    }
}

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    if (interrupted)
        _exit(128 + number);
    interrupted = 1;
}

void cli_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup has it ignored */
        sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

cli_progress cli_progress_start(void)
{
    return (cli_progress){stderr, isatty(STDERR_FILENO) != 0, false};
}

void cli_progress_clear(cli_progress *p)
{
    if (p->live && p->shown)
        fputs("\r\033[K", p->to);
    p->shown = false;
}

static int terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void cli_progress_show(cli_progress *p, bool keep, const char *format, ...)
{
    char line[256];
    va_list args;
    if (!p->live && !keep)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    cli_progress_clear(p);
    if (p->live && !keep) {
        fprintf(p->to, "%.*s", terminal_width() - 1, line);
        p->shown = true;
    } else {
        fprintf(p->to, "%s\n", line);
    }
    fflush(p->to);
}

const char *cli_duration(double seconds, char text[16])
{
    const unsigned s = seconds > 0 && seconds < 3e9 ? (unsigned)(seconds + 0.5) : 0;
    if (seconds < 60)
        snprintf(text, 16, "%.1fs", seconds);
    else if (s < 3600)
        snprintf(text, 16, "%um%02us", s / 60, s % 60);
    else
        snprintf(text, 16, "%uh%02um", s / 3600, s / 60 % 60);
    return text;
}

bool cli_seconds(const char *text, double *seconds)
{
    static const struct {
        char name;
        double seconds;
    } units[] = {{'h', 3600}, {'m', 60}, {'s', 1}};
    double sum = 0;
    size_t next = 0; /* units come in this order, each at most once */
    for (bool first = true; first || *text; first = false) {
        const size_t length = strspn(text, "0123456789.");
        char number[NUMBER_TEXT];
        double value;
        if (length >= sizeof number)
            return false;
        memcpy(number, text, length);
        number[length] = '\0';
        if (!number_real(number, &value))
            return false;
        text += length;
        if (*text == '\0' && first) {
            sum = value;
            break;
        }
        while (next < 3 && units[next].name != *text)
            next++;
        if (next == 3)
            return false;
        sum += value * units[next++].seconds;
        text++;
    }
    *seconds = sum;
    return sum > 0;
}

const char *cli_bytes(double bytes, char text[16])
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB"};
    int i = 0;
    for (; bytes >= 1000 && i < 4; i++)
        bytes /= 1000;
    snprintf(text, 16, i > 0 ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return text;
}
