/* Output for people: text within 80 columns, colour, a status line that is rewritten in place. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Width of all output for people, except for longer words. */
enum { CLI_COLUMNS = 80 };

/* ---- Text -------------------------------------------------------------------------------------------------- */

/* A formatted text that cannot do anything to a terminal, whatever the arguments are (names of files, settings of a
 * foreign checkpoint): control characters and bytes that are not UTF-8 become '?', except for the line breaks of the
 * format itself. All output with foreign text goes through it. The caller frees; NULL: out of memory. */
char *cli_printable(const char *format, va_list args) __attribute__((format(printf, 1, 0)));
/* Prints such a text. */
void cli_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line, broken at spaces where it is too long; what follows a break is indented by this many columns. */
void cli_fill(FILE *to, int indent, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a line that is put together by several calls: they print into cli_line_begin's stream, and
 * cli_line_end prints the whole. */
typedef struct cli_line {
    FILE *to;
    char *text;
    size_t bytes;
} cli_line;

FILE *cli_line_begin(cli_line *line);
void cli_line_end(cli_line *line, FILE *to, int indent);

/* "  NAME   text", with the text in column `column`, broken and indented there. A name that reaches into it gets a
 * line of its own. */
void cli_entry(FILE *to, int column, const char *name, const char *text);
/* Paragraphs, a line each, filled; lines that begin with a space stay as they are. */
void cli_paragraphs(FILE *to, const char *text);
/* Prints the help of all settings by section. */
void cli_print_options(FILE *to);

/* 3725 -> "1h02m", 61 -> "1m01s", 2.5 -> "2.5s". */
const char *cli_duration(double seconds, char text[16]);
/* 1234567 -> "1.2 MB". */
const char *cli_bytes(double bytes, char text[16]);
/* "" for 1, else "s". */
const char *cli_plural(long long count);

/* ---- Colour ------------------------------------------------------------------------------------------------ */

/* CLI_STATUS: the status line, which the next line replaces. CLI_WAITING: the same in a part of the work that takes
 * long; in a pipe a line every half minute. The others stay. */
typedef enum cli_style { CLI_STATUS, CLI_WAITING, CLI_PLAIN, CLI_RESULT, CLI_WARNING, CLI_SUCCESS } cli_style;

/* Escape sequences before and after a text in this style: "" where `to` is no terminal, or one without colours
 * (NO_COLOR is set, TERM is dumb). */
const char *cli_style_begin(const FILE *to, cli_style style);
const char *cli_style_end(const FILE *to, cli_style style);

/* ---- The status line --------------------------------------------------------------------------------------- */

/* Rewritten in place on a terminal (and cut at its edge, because a wrapped line cannot be rewritten); in a pipe, or
 * on a terminal that cannot do that (TERM=dumb), only lines that stay are printed, and CLI_WAITING now and then. */
typedef struct cli_progress {
    FILE *to;
    bool live;  /* a terminal */
    bool shown; /* a line is displayed */
    double at;  /* clock when a line was written, or the start */
} cli_progress;

cli_progress cli_progress_start(FILE *to);
/* Shows a line that stays, broken as by cli_fill on a terminal, or the status, not more often than it can be read. */
void cli_progress_show(cli_progress *p, cli_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Clears the line, before something else is printed. */
void cli_progress_clear(cli_progress *p);

#endif
