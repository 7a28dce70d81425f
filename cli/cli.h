/* The command line: one file per command, one row each in the table of main.c.
 *
 * Exit status: 0 success (or stopped by the user with the work saved), 1 failure, 2 wrong usage. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "config/config.h"
#include "record/run_dir.h"
#include "screen.h"
#include "sweep/sweep.h"
#include "trainer/trainer.h"

/* CLI_OK is SCION_OK, so that TRY takes both. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* An argument of a command: a setting, written name=VALUE, or a switch, written --name. */
typedef struct cli_argument {
    const char *name; /* "out", "top_k"; of a switch "--force" */
    const char
        *value; /* kind of value, for help and completion: FILE, FOLDER, N, X, TEXT, TIME, a|b; NULL: a switch */
    const char *help; /* one line, with the default */
    const char *bare; /* a setting that may be written --name as well: its value where none follows; else NULL */
    const char *also; /* its names in other programs, for errors: "num_samples n"; NULL: none */
} cli_argument;

#define CLI_SETTING(key, of, about)                   \
    {                                                 \
        .name = (key), .value = (of), .help = (about) \
    }
#define CLI_SWITCH(word, about)         \
    {                                   \
        .name = (word), .help = (about) \
    }
/* json=FILE writes the numbers to FILE as well; --json (json=-) prints them, in place of the text. */
#define CLI_JSON                                                                                  \
    {                                                                                             \
        "json", "FILE", "also write the numbers to FILE; --json prints them instead", .bare = "-" \
    }

/* Arguments of a command: [WORD ...] [key=value ...] [--flag ...], in any order. */
typedef struct cli_arguments {
    const struct cli_command *command;
    const char **words; /* ended by NULL */
    int word_count;
    const char *
        *pairs; /* key=value that are options of a run, not arguments of the command; with space for one more */
    int pair_count;
    const char **values; /* of each argument of the command: "" for a switch, NULL if it was not given */
    int argc;            /* as they were given */
    char **argv;
} cli_arguments;

/* Options of a run that a command takes as key=value. */
typedef enum cli_options { CLI_NO_OPTIONS, CLI_ALL_OPTIONS, CLI_RESUME_OPTIONS, CLI_EVAL_OPTIONS } cli_options;

/* Kinds of words, for completion: names of presets; files and folders; folders and checkpoints alone. */
enum { CLI_PRESETS = 1, CLI_FILES = 2, CLI_RUNS = 4 };

/* Work of several processes of a command, started by mpirun or srun. */
typedef enum cli_ranks {
    CLI_ONE_RANK,   /* the first does the work, the others end at once */
    CLI_ALL_RANKS,  /* they work together (comm.h) */
    CLI_ALL_WORKERS /* each works by itself on what a ledger has, with its share of the host's threads; the first
                       prints */
} cli_ranks;

typedef struct cli_command {
    const char *name;
    const char *usage;             /* after "scion NAME" */
    const char *summary;           /* one line */
    const char *help;              /* what it does, and examples */
    int (*run)(cli_arguments *a);  /* returns the exit status */
    const cli_argument *arguments; /* ended by a row without a name; NULL: none */
    cli_options options;
    unsigned words; /* CLI_PRESETS | CLI_FILES, or CLI_RUNS */
    cli_ranks ranks;
    const char *(*word)(
        int i);             /* word i of those with a meaning of their own (show), NULL past the last; may be NULL */
    const char *rest;       /* the setting that words too many were probably meant for ("prompt"); NULL: none */
    void (*list)(FILE *to); /* prints what its words may be, for the help; NULL: nothing */
} cli_command;

/* The table of commands (main.c); NULL past the last. */
const cli_command *cli_command_at(int i);
const cli_command *cli_find_command(const char *name);

extern const cli_command cli_train, cli_resume, cli_eval, cli_sample, cli_bench, cli_presets, cli_version, cli_sweep,
    cli_coordcheck, cli_tune, cli_report, cli_reproduce, cli_completion, cli_data, cli_predict, cli_plan,
    cli_tokenizer, cli_export, cli_info;

/* Prints "scion: " and a sentence to standard error; returns `status`. */
int cli_error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports wrong usage; false. */
#define cli_wrong(...) (cli_error(CLI_USAGE, __VA_ARGS__) == CLI_OK)
/* The exit status of a command whose work ended so; prints err's sentence unless it is SCION_OK. */
int cli_end(scion_status status, const scion_error *err);
/* Silences cli_error from now on: another rank reports the same error. */
void cli_mute_errors(void);
/* Prints a warning to standard error, after all earlier output. */
void cli_warning(const char *message);
/* The same above a status line; view: a struct that begins with its cli_progress. */
void cli_progress_warn(void *view, const char *message);

/* ---- Arguments --------------------------------------------------------------------------------------------- */

/* Sorts the arguments after the command's name. False after printing an error: an argument that the command does not
 * have, a key that no option has, a value that is missing. Free with cli_parse_free in any case. */
bool cli_parse(cli_arguments *a, const cli_command *c, int argc, char **argv);
void cli_parse_free(cli_arguments *a);

/* The argument of a command that is called `name` (`length` bytes, without dashes); -1: none. */
int cli_find_argument(const cli_command *c, const char *name, size_t length);

/* True if a command takes this option of a run. */
bool cli_takes_option(const cli_command *c, const config_option *o);
/* The value that the command line gives to an option of a run; NULL: none. */
const char *cli_option(const cli_arguments *a, const char *key);
/* Sets c as a preset (NULL: none) and then the options of the command line say. */
scion_status cli_settings(config *c, const char *preset, const cli_arguments *a, scion_error *err);

/* True if JSON goes to standard output in place of text: the value of CLI_JSON is "-". */
bool cli_json_only(const cli_arguments *a, int argument);

/* Refuses words beyond the first `count` (`what`: "one run"), and suggests the setting that they were probably meant
 * for. False after printing an error. */
bool cli_words(const cli_arguments *a, int count, const char *what);

/* Checks that the only argument is a run. False after printing an error. */
bool cli_one_run(const cli_arguments *a);
/* Opens the run that the first word names, its folder (then the best checkpoint) or a checkpoint, for a use; `path`:
 * the checkpoint. CLI_OK, or another status after printing an error. */
int cli_open_run(trainer **out, const cli_arguments *a, trainer_use use, char path[RUN_PATH]);

/* The value of an argument. Numbers are written as in settings (1k, 2^-5). *value stays as it is if the argument was
 * not given. False after printing an error. */
bool cli_get_int(const cli_arguments *a, int argument, int64_t min, int64_t max, int64_t *value);
bool cli_get_real(const cli_arguments *a, int argument, double min, double max, double *value);
bool cli_get_seconds(const cli_arguments *a, int argument, double *value); /* 90s, 20m, 1h30m */
bool cli_get_text(const cli_arguments *a, int argument, char *value, size_t bytes);
/* Whole numbers from 1 to `most`, separated by commas; `absent` if the argument was not given. Their count, at most
 * `capacity`; -1 after printing an error. */
int cli_get_numbers(const cli_arguments *a, int argument, const char *absent, int most, int *numbers, int capacity);

/* scion --complete WORD ...: what the last word may become (completion.c). Returns the exit status. */
int cli_complete(int count, char **words);

/* ---- Signals ----------------------------------------------------------------------------------------------- */

/* Lets Ctrl-C, SIGTERM and a closed terminal set cli_interrupted; a second Ctrl-C ends the program at once. System
 * calls are restarted. */
void cli_catch_signals(void);
bool cli_interrupted(void);
bool cli_stop(void *ctx); /* the same, for loops that ask whether to stop; ctx is not read */
/* The exit status of a command that a signal stopped: 128 and its number. A command that returns CLI_OK although it
 * was interrupted gets it from main. */
int cli_stopped(void);
/* Ends the program by SIGINT if that is what the status says: a shell leaves its loop only if it sees that. */
void cli_end_by_signal(int status);
/* Lets a command that writes files go on when the reader of its output is gone (a closed pipe). */
void cli_outlive_reader(void);
/* True if cli_outlive_reader was called and nobody reads standard output any more. */
bool cli_reader_gone(void);

/* Shows how far a piece of work is (0 <= share <= 1) if it takes more than two seconds: for data_on_progress. */
void cli_show_work(void *ctx, const char *what, double share);

/* Checks that the data of a configuration exist, before hours of work. False after printing an error. */
bool cli_find_data(const config *c);

/* ---- Sweeps (sweep.c) -------------------------------------------------------------------------------------- */

/* sweep_work with progress on standard error, until it is done or interrupted; o->stopped and o->show are set
 * here. */
scion_status cli_sweep_work(const char *ledger_path, const sweep_options *o, sweep_progress *end, scion_error *err);
/* Prints losses by learning rate and width, and whether the best value transfers. Returns the exit status. */
int cli_sweep_show(const char *ledger_path);
/* Says to `to` how many runs wait in a ledger that ledger_only leaves out, unless they are run as well (`all`); drop:
 * removes them. */
scion_status cli_sweep_others(FILE *to, ledger *l, const char *path, bool all, bool drop, scion_error *err);

#endif
