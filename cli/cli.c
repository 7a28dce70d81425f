/* What the commands share: arguments, errors, signals, progress. */
#include "cli.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/config.h"
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

const char *cli_nearest(const char *name, const char *const *names, int count, size_t stride)
{
    const char *best = NULL;
    for (int i = 0, nearest = 0; i < count; i++) {
        const char *other = *(const char *const *)(const void *)((const char *)names + (size_t)i * stride);
        const int distance = config_distance(name, other);
        if (!best || distance < nearest) {
            nearest = distance;
            best = other;
        }
    }
    return best;
}

/* ---- Arguments --------------------------------------------------------------------------------------------- */

static int flag_count(const cli_flag *flags)
{
    int count = 0;
    while (flags && flags[count].name)
        count++;
    return count;
}

static void unknown_flag(const char *argument, const cli_flag *flags)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    if (strncmp(name, "--", 2) == 0 && config_find(name + 2))
        cli_error(CLI_USAGE, "there is no option %s here; settings are written %s=VALUE", name, name + 2);
    else if (flag_count(flags) > 0)
        cli_error(CLI_USAGE, "there is no option %s here; did you mean %s?", name,
                  cli_nearest(name, &flags->name, flag_count(flags), sizeof *flags));
    else
        cli_error(CLI_USAGE,
                  "there is no option %s here; settings are written key=value, scion presets --options lists them",
                  name);
}

/* Index of the flag that `argument` names, or -1; *value: the part after '=' or after the letter, NULL if there
 * is none. */
static int find_flag(const cli_flag *flags, const char *argument, const char **value)
{
    const size_t length = strcspn(argument, "=");
    *value = NULL;
    for (int i = 0; i < flag_count(flags); i++) {
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, argument, length) == 0) {
            *value = argument[length] ? argument + length + 1 : NULL;
            return i;
        }
        if (flags[i].letter && argument[1] == flags[i].letter) {
            *value = argument[2] ? argument + 2 : NULL;
            return i;
        }
    }
    return -1;
}

/* Reads the flag argv[*i], and its value if that is the next argument. */
static bool parse_flag(cli_arguments *a, int argc, char **argv, int *i)
{
    const char *value, *argument = argv[*i];
    const int flag = find_flag(a->flags, argument, &value);
    if (flag < 0) {
        unknown_flag(argument, a->flags);
        return false;
    }
    const bool takes = a->flags[flag].value != NULL;
    if ((!takes && value) || (takes && !value && *i + 1 >= argc)) {
        cli_error(CLI_USAGE, "%.*s %s", (int)strcspn(argument, "="), argument,
                  takes ? "needs a value" : "takes no value");
        return false;
    }
    a->values[flag] = !takes ? "" : value ? value : argv[++*i];
    return true;
}

bool cli_parse(cli_arguments *a, const cli_command *c, int argc, char **argv)
{
    const size_t count = (size_t)argc;
    *a = (cli_arguments){.flags = c->flags, .argc = argc, .argv = argv};
    a->words = calloc(2 * count + (size_t)flag_count(c->flags) + 1, sizeof *a->words);
    if (!a->words) {
        cli_error(CLI_FAILED, "out of memory");
        return false;
    }
    a->pairs = a->words + count;
    a->values = a->pairs + count;
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!parse_flag(a, argc, argv, &i))
                return false;
        } else if (!c->words_only && strchr(argv[i], '=')) {
            a->pairs[a->pair_count++] = argv[i];
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

int cli_open_run(trainer **out, const cli_arguments *a,
                 scion_status (*find)(const char *run, char path[RUN_PATH], scion_error *err),
                 scion_status (*open)(trainer **out, const char *path, const char *const *pairs, int count,
                                      scion_error *err),
                 char path[RUN_PATH])
{
    scion_error err;
    if (a->word_count != 1)
        return cli_error(CLI_USAGE, "give the folder of a run, or a checkpoint");
    if (find(a->words[0], path, &err) == SCION_OK && open(out, path, a->pairs, a->pair_count, &err) == SCION_OK)
        return CLI_OK;
    return cli_error(CLI_FAILED, "%s", err.message);
}

/* ---- Values: of a flag ("--jobs", " ") or of a pair ("jobs", "="); text NULL: not given ------------------------ */

static bool read_int(const char *name, const char *equal, const char *text, int64_t min, int64_t max, int64_t *value)
{
    if (!text || (number_int(text, value) && *value >= min && *value <= max))
        return true;
    cli_error(CLI_USAGE, "%s%s%.40s: expected a whole number from %lld to %lld", name, equal, text, (long long)min,
              (long long)max);
    return false;
}

static bool read_real(const char *name, const char *equal, const char *text, double min, double max, double *value)
{
    if (!text || (number_real(text, value) && *value >= min && *value <= max))
        return true;
    if (isinf(max))
        cli_error(CLI_USAGE, "%s%s%.40s: expected a number of %g or more", name, equal, text, min);
    else
        cli_error(CLI_USAGE, "%s%s%.40s: expected a number from %g to %g", name, equal, text, min, max);
    return false;
}

static bool read_text(const char *name, const char *equal, const char *text, char *value, size_t bytes)
{
    if (!text)
        return true;
    if (strlen(text) >= bytes || !text[0]) {
        cli_error(CLI_USAGE, "%s%s%.60s: expected 1 to %d bytes", name, equal, text, (int)bytes - 1);
        return false;
    }
    memcpy(value, text, strlen(text) + 1);
    return true;
}

/* "90" (seconds), "90s", "20m", "1h30m", "1.5h". False: something else, or not above 0. */
static bool parse_seconds(const char *text, double *seconds)
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

bool cli_flag_int(const cli_arguments *a, int flag, int64_t min, int64_t max, int64_t *value)
{
    return read_int(a->flags[flag].name, " ", a->values[flag], min, max, value);
}

bool cli_flag_real(const cli_arguments *a, int flag, double min, double max, double *value)
{
    return read_real(a->flags[flag].name, " ", a->values[flag], min, max, value);
}

bool cli_flag_text(const cli_arguments *a, int flag, char *value, size_t bytes)
{
    return read_text(a->flags[flag].name, " ", a->values[flag], value, bytes);
}

bool cli_flag_seconds(const cli_arguments *a, int flag, double *value)
{
    const char *text = a->values[flag];
    if (!text || parse_seconds(text, value))
        return true;
    cli_error(CLI_USAGE, "%s %.40s: expected a time such as 90s, 20m or 1h30m", a->flags[flag].name, text);
    return false;
}

/* The value of the last pair with this key, all of which are removed. NULL if there is none. */
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

bool cli_take_int(cli_arguments *a, const char *key, int64_t min, int64_t max, int64_t *value)
{
    return read_int(key, "=", take(a, key), min, max, value);
}

bool cli_take_real(cli_arguments *a, const char *key, double min, double max, double *value)
{
    return read_real(key, "=", take(a, key), min, max, value);
}

bool cli_take_text(cli_arguments *a, const char *key, char *value, size_t bytes)
{
    return read_text(key, "=", take(a, key), value, bytes);
}

/* ---- Output ------------------------------------------------------------------------------------------------ */

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

const char *cli_bytes(double bytes, char text[16])
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB"};
    int i = 0;
    for (; bytes >= 1000 && i < 4; i++)
        bytes /= 1000;
    snprintf(text, 16, i > 0 ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return text;
}

/* ---- Signals ----------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t first_signal, interrupts; /* its number, 0: none; how many were SIGINT */

/* Only a person says the same thing twice: a closed terminal sends SIGHUP by the kernel and again by the shell. */
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
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup ignores it */
        sigaction(SIGHUP, &action, NULL);
}

bool cli_interrupted(void)
{
    return first_signal != 0;
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
    if (status != 128 + SIGINT || first_signal != SIGINT)
        return;
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}
