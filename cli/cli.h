/* The command line: one file per command, one row each in the table of main.c.
 *
 * Exit status: 0 done (or stopped by the user with its work saved), 1 the run failed, 2 wrong usage. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "config/config.h"
#include "run/run_dir.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

typedef struct cli_command {
    const char *name;
    const char *usage;                 /* after "scion NAME" */
    const char *summary;               /* one line */
    const char *help;                  /* what, and examples */
    int (*run)(int argc, char **argv); /* the arguments after the command's name */
} cli_command;

extern const cli_command cli_train, cli_resume, cli_eval, cli_sample, cli_bench, cli_presets, cli_version, cli_sweep,
    cli_coordcheck, cli_tune, cli_report, cli_reproduce;

/* "scion: " and a sentence to standard error; returns the status it was given. */
int cli_error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The one of `names` (up to a NULL; what stands before its '=') that is nearest to a name that does not exist. */
const char *cli_nearest(const char *name, const char *const *names);

/* Arguments of the form [WORD ...] [key=value ...] [--flag [value] ...]: words go to words, pairs to pairs; false: an
 * unknown flag, told. `flags` is a NULL-terminated list of "--name" or "--name=" (takes a value, also as the next
 * argument); the value of flag i goes to values[i] ("" for one without). */
typedef struct cli_arguments {
    const char *words[4];
    int word_count;
    const char **pairs;
    int pair_count;
    const char *values[8];
} cli_arguments;

bool cli_parse(cli_arguments *a, int argc, char **argv, const char *const *flags);
void cli_parse_free(cli_arguments *a);

/* The same for a command on one run: one word, its folder or a checkpoint. */
bool cli_parse_run(cli_arguments *a, int argc, char **argv, const char *const *flags);
/* Opens that run: `find` gives the path of the checkpoint (run_dir_latest, run_dir_best), `open` a trainer from it.
 * CLI_OK, or CLI_FAILED, and the error is printed. */
int cli_open_run(trainer **out, const cli_arguments *a,
                 scion_status (*find)(const char *run, char path[RUN_PATH], scion_error *err),
                 scion_status (*open)(trainer **out, const char *path, const char *const *pairs, int count,
                                      scion_error *err),
                 char path[RUN_PATH]);

/* key=value pairs that are a command's own (jobs=2) are taken out of the pairs and leave *value as it is if they are
 * not there. False: wrong, and told. */
bool cli_take_text(cli_arguments *a, const char *key, char *value, size_t bytes);
bool cli_take_int(cli_arguments *a, const char *key, int64_t least, int64_t most, int64_t *value);
bool cli_take_real(cli_arguments *a, const char *key, double *value); /* 0 or above */

/* Prints the help of all options by section. */
void cli_print_options(FILE *to);

/* Set by Ctrl-C, SIGTERM or a closed terminal once cli_catch_signals was called; a second one ends the program at
 * once. */
void cli_catch_signals(void);
bool cli_interrupted(void);

/* A line that is written over on a terminal (and cut at its edge, for what wraps cannot be written over), and on its
 * own line in a pipe. */
typedef struct cli_progress {
    FILE *to;
    bool live;
    bool shown; /* a line stands there */
} cli_progress;

cli_progress cli_progress_start(void);
/* Shows a line; in a pipe only if `keep`. */
void cli_progress_show(cli_progress *p, bool keep, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Clears the live line, before something else is printed. */
void cli_progress_clear(cli_progress *p);

/* 3725 -> "1h02m", 61 -> "1m01s", 2.5 -> "2.5s". */
const char *cli_duration(double seconds, char text[16]);
/* A duration as people write it: "90" (seconds), "90s", "20m", "1h30m", "1.5h". False: it is none, or not above 0. */
bool cli_seconds(const char *text, double *seconds);
/* 1234567 -> "1.2 MB". */
const char *cli_bytes(double bytes, char text[16]);

#endif
