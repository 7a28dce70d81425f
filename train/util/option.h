/* Options. A row has everything about one setting: its key in files and on the command line, type, default, range,
 * help, and its part in the identity of a run. A model, the data, the optimizer each have rows for their own struct;
 * config/ collects them. */
#ifndef TRAIN_UTIL_OPTION_H
#define TRAIN_UTIL_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

enum { OPTION_TEXT = 256, OPTION_NAME = 32 }; /* bytes of a STRING and of an ENUM */

typedef enum option_type {
    OPTION_INT,    /* int64_t */
    OPTION_REAL,   /* double */
    OPTION_BOOL,   /* bool */
    OPTION_ENUM,   /* char[OPTION_NAME]: the name of a table's row */
    OPTION_CHOICE, /* int: an index into a fixed list of names */
    OPTION_STRING, /* char[OPTION_TEXT] */
    OPTION_SEED,   /* uint64_t */
    OPTION_SPAN    /* option_span */
} option_type;

/* A part of a run: a number of steps (300), or a share of the run's steps (28%, 1450/5100). */
typedef struct option_span {
    double value, of; /* of: 0: `value` steps; 100: per cent */
} option_span;

/* Steps of a span in a run of that many steps: a share is rounded, and at least one step unless it is 0. */
int64_t option_span_steps(option_span s, int64_t steps);

/* When an option may be changed for an existing run. */
enum {
    OPTION_ON_RESUME = 1,
    OPTION_ON_FORCE = 4,   /* on resume, if asked for explicitly: it is no longer the same run */
    OPTION_ON_INIT = 8,    /* a model's: may differ from that of the run that `init` names */
    OPTION_FROM_INIT = 16, /* not a model's, but taken from that run as well */
    OPTION_ON_EVAL = 2
};

typedef struct option {
    const char *key;
    const char *section; /* of .ini files; set by config.c */
    const char *help;
    option_type type;
    size_t offset;                /* in the struct of its owner */
    const char *initial;          /* default, as text */
    double min, max;              /* INT, REAL; SPAN: steps */
    const char *(*choice)(int i); /* ENUM: name i of a table, NULL past the last */
    const char *const *names;     /* CHOICE: the names, ended by NULL */
    bool automatic;               /* REAL: "auto" is a value too, stored as OPTION_AUTO */
    bool neutral;                 /* does not change what a run computes (threads, intervals of the log, ...) */
    /* The value that runs had before the option existed, as text; NULL: the default. It stays when the default
     * changes, so that runs keep their identity. origin_of, if not NULL, computes it from other options. */
    const char *origin;
    const char *(*origin_of)(const void *configuration);
    /* STRING, CHOICE: the value that "auto" stands for; this is what is compared and stored. NULL: "auto" has no
     * meaning. */
    const char *(*derive)(const void *configuration);
    /* Replaces the value as text by that which counts in the identity of a run; NULL: the text itself. */
    void (*meaning)(const void *configuration, char *text, size_t bytes);
    char list;       /* STRING: separator of the values of a list in a sweep; 0: no lists */
    unsigned change; /* OPTION_ON_RESUME, ... */
} option;

/* Rows. `owner` is the struct, `...` further columns such as .neutral = true. */
#define OPTION_ROW(kind, owner, field, name, value, ...)                                           \
    {                                                                                              \
        .key = name, .type = kind, .offset = offsetof(owner, field), .initial = value, __VA_ARGS__ \
    }
#define OPTION_INT_ROW(owner, field, name, value, low, high, about, ...) \
    OPTION_ROW(OPTION_INT, owner, field, name, value, .min = low, .max = high, .help = about, __VA_ARGS__)
#define OPTION_REAL_ROW(owner, field, name, value, low, high, about, ...) \
    OPTION_ROW(OPTION_REAL, owner, field, name, value, .min = low, .max = high, .help = about, __VA_ARGS__)
#define OPTION_BOOL_ROW(owner, field, name, value, about, ...) \
    OPTION_ROW(OPTION_BOOL, owner, field, name, value, .max = 1, .help = about, __VA_ARGS__)
#define OPTION_ENUM_ROW(owner, field, name, value, names, about, ...) \
    OPTION_ROW(OPTION_ENUM, owner, field, name, value, .choice = names, .help = about, __VA_ARGS__)
#define OPTION_CHOICE_ROW(owner, field, name, value, list, about, ...) \
    OPTION_ROW(OPTION_CHOICE, owner, field, name, value, .names = list, .help = about, __VA_ARGS__)
#define OPTION_STRING_ROW(owner, field, name, value, about, ...) \
    OPTION_ROW(OPTION_STRING, owner, field, name, value, .help = about, __VA_ARGS__)
#define OPTION_SEED_ROW(owner, field, name, value, about, ...) \
    OPTION_ROW(OPTION_SEED, owner, field, name, value, .max = 0x1p64, .help = about, __VA_ARGS__)
#define OPTION_SPAN_ROW(owner, field, name, value, about, ...) \
    OPTION_ROW(OPTION_SPAN, owner, field, name, value, .max = OPTION_EVER, .help = about, __VA_ARGS__)
/* Ends an array of rows. */
#define OPTION_END  \
    {               \
        .key = NULL \
    }

/* Sizes stay below OPTION_MANY and counts of steps below OPTION_EVER, so that batch x accum x block and
 * width x width x 4 fit in 63 bits. */
#define OPTION_MANY 0x1p20
#define OPTION_EVER 1e15
#define OPTION_AUTO (-1.0)

/* Bytes of a value. */
size_t option_size(const option *o);
/* Reads a value from text into its field of `values`. Numbers may be written 1e-3, 2^-5, 0x10, 1k, 1m; booleans 1/0,
 * yes/no, true/false, on/off; shares 28%, 1450/5100. `where` begins an error's message, which names the range or the
 * choices; nothing has changed then. */
scion_status option_set(const option *o, void *values, const char *text, const char *where, scion_error *err);
/* The value as text that option_set reads back to the same value. */
void option_get(const option *o, const void *values, char *text, size_t bytes);
bool option_same(const option *o, const void *a, const void *b);
/* Name i of an ENUM or a CHOICE; NULL past the last, and for other types. */
const char *option_choice(const option *o, int i);
/* "gpt mlp". */
void option_choices(const option *o, char *text, size_t bytes);

#endif
