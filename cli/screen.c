/* See screen.h. */
#define _GNU_SOURCE 1 /* vasprintf */
#include "screen.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "config/config.h"
#include "util/clock.h"
#include "util/number.h"
#include "util/utf8.h"

/* ---- Text -------------------------------------------------------------------------------------------------- */

/* Columns of UTF-8 text: its characters. */
static int columns_of(const char *text, size_t bytes)
{
    int columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    return columns;
}

/* Words of `text` from column `at` on. Several spaces in a row stay where no line is broken. */
static void fill_words(FILE *to, int at, int indent, const char *text)
{
    while (*text) {
        const size_t spaces = strspn(text, " "), letters = strcspn(text + spaces, " \n");
        const int width = (int)spaces + columns_of(text + spaces, letters);
        if (at + width > CLI_COLUMNS && at > indent) {
            fprintf(to, "\n%*s%.*s", indent, "", (int)letters, text + spaces);
            at = indent + width - (int)spaces;
        } else {
            fprintf(to, "%.*s", (int)(spaces + letters), text);
            at += width;
        }
        text += spaces + letters;
        if (*text == '\n') {
            at = at > 0 && text[1] ? indent : 0; /* not after empty lines before the text */
            fprintf(to, "\n%*s", at, "");
            text++;
        }
    }
    fputc('\n', to);
}

char *cli_printable(const char *format, va_list args)
{
    va_list again;
    char *text = NULL, *marked = NULL, *marks = strdup(format);
    va_copy(again, args);
    for (char *s = marks; s && *s; s++)
        *s = *s == '\n' ? '\r' : *s;
    if (!marks || vasprintf(&text, format, args) < 0 || vasprintf(&marked, marks, again) < 0) {
        free(text);
        text = NULL;
    } else {
        for (char *s = text; *s;) { /* line by line: where the two texts differ is a line break of the format */
            char *end = s;
            while (*end && *end == marked[end - text])
                end++;
            const char at_end = *end;
            *end = '\0';
            utf8_make_printable(s);
            *end = at_end;
            s = at_end ? end + 1 : end;
        }
    }
    va_end(again);
    free(marks);
    free(marked);
    return text;
}

void cli_print(FILE *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = cli_printable(format, args);
    if (text)
        fputs(text, to);
    va_end(args);
    free(text);
}

void cli_fill(FILE *to, int indent, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = cli_printable(format, args);
    if (text)
        fill_words(to, 0, indent, text);
    va_end(args);
    free(text);
}

FILE *cli_line_begin(cli_line *line)
{
    *line = (cli_line){.text = NULL};
    line->to = open_memstream(&line->text, &line->bytes);
    return line->to ? line->to : stdout;
}

void cli_line_end(cli_line *line, FILE *to, int indent)
{
    if (line->to && fclose(line->to) == 0) {
        utf8_make_printable(line->text);
        fill_words(to, 0, indent, line->text);
    }
    free(line->text);
}

void cli_entry(FILE *to, int column, const char *name, const char *text)
{
    char *copy = strdup(text);
    if (columns_of(name, strlen(name)) + 3 > column)
        cli_print(to, "  %s\n%*s", name, column, "");
    else
        cli_print(to, "  %s%*s", name, column - 2 - columns_of(name, strlen(name)), "");
    if (copy)
        utf8_make_printable(copy);
    fill_words(to, column, column, copy ? copy : "");
    free(copy);
}

void cli_paragraphs(FILE *to, const char *text)
{
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        char *line = strndup(text, length);
        if (line && *line != ' ')
            fill_words(to, 0, 0, line);
        else
            fprintf(to, "%.*s\n", (int)length, text);
        free(line);
    }
}

void cli_print_options(FILE *to)
{
    const char *section = "";
    const config_option *o;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        char names[OPTION_TEXT] = "", text[3 * OPTION_TEXT];
        if (strcmp(section, o->section) != 0)
            fprintf(to, "\n%s\n", section = o->section);
        option_choices(o, names, sizeof names);
        snprintf(text, sizeof text,
                 names[0]        ? "%s (%s; %s)"
                 : o->initial[0] ? "%s (%s)"
                                 : "%s",
                 o->help, o->initial, names);
        cli_entry(to, 19, o->key, text);
    }
}

const char *cli_duration(double seconds, char text[16])
{
    const double hours = seconds / 3600;
    const unsigned s = seconds > 0 && seconds < 3e9 ? (unsigned)(seconds + 0.5) : 0;
    if (!(seconds < 3e9)) /* a century */
        snprintf(text, 16, isfinite(hours) ? "%.0eh" : "?", hours);
    else if (seconds < 60)
        snprintf(text, 16, "%.1fs", seconds);
    else if (s < 3600)
        snprintf(text, 16, "%um%02us", s / 60, s % 60);
    else
        snprintf(text, 16, "%uh%02um", s / 3600, s / 60 % 60);
    return text;
}

const char *cli_bytes(double bytes, char text[16])
{
    return number_bytes(bytes, text);
}

const char *cli_plural(long long count)
{
    return count == 1 ? "" : "s";
}

/* ---- Colour ------------------------------------------------------------------------------------------------ */

/* A terminal that understands escape sequences. */
static bool is_terminal(const FILE *to)
{
    const char *term = getenv("TERM");
    return isatty(fileno((FILE *)to)) != 0 && term && strcmp(term, "dumb") != 0;
}

static bool has_colours(const FILE *to)
{
    const char *none = getenv("NO_COLOR"); /* https://no-color.org: set, and not empty */
    return is_terminal(to) && !(none && none[0]);
}

const char *cli_style_begin(const FILE *to, cli_style style)
{
    static const char *const begin[] = {
        [CLI_STATUS] = "",        [CLI_WAITING] = "",         [CLI_PLAIN] = "",
        [CLI_RESULT] = "\033[1m", [CLI_WARNING] = "\033[33m", [CLI_SUCCESS] = "\033[32m"};
    return has_colours(to) ? begin[style] : "";
}

const char *cli_style_end(const FILE *to, cli_style style)
{
    return style > CLI_PLAIN && has_colours(to) ? "\033[0m" : "";
}

/* ---- The status line --------------------------------------------------------------------------------------- */

cli_progress cli_progress_start(FILE *to)
{
    return (cli_progress){.to = to, .live = is_terminal(to), .at = clock_now()};
}

void cli_progress_clear(cli_progress *p)
{
    if (p->live && p->shown)
        fputs("\r\033[K", p->to);
    p->shown = false;
}

static int terminal_width(FILE *to)
{
    struct winsize size;
    return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : CLI_COLUMNS;
}

/* A line that stays. */
static void print_kept(cli_progress *p, cli_style style, const char *format, va_list args)
{
    enum { indent = 4 };
    char *text = cli_printable(format, args);
    cli_progress_clear(p);
    if (!text)
        return;
    fputs(cli_style_begin(p->to, style), p->to);
    if (p->live)
        fill_words(p->to, 0, indent, text);
    else
        fprintf(p->to, "%s\n", text); /* one line per event, for grep */
    fputs(cli_style_end(p->to, style), p->to);
    fflush(p->to);
    free(text);
}

void cli_progress_show(cli_progress *p, cli_style style, const char *format, ...)
{
    static const double live_s = 0.1, piped_s = 30;
    const double since = clock_now() - p->at;
    va_list args;
    va_start(args, format);
    if (style != CLI_STATUS && (style != CLI_WAITING || (!p->live && since >= piped_s))) {
        print_kept(p, style, format, args);
        p->at = clock_now();
    } else if (p->live && !(p->shown && since < live_s)) {
        char *line = cli_printable(format, args);
        cli_progress_clear(p);
        fprintf(p->to, "%.*s", terminal_width(p->to) - 1, line ? line : "");
        fflush(p->to);
        free(line);
        p->shown = true;
        p->at = clock_now();
    }
    va_end(args);
}
