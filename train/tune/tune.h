/* Tuning on a small model: learning rate and radii for a larger one, by successive halving.
 *
 * Many points of a space are trained for a ninth of the steps, the best third of them for a
 * third, the best third of these for all; then the winner's neighbours in lr are tried until both are worse
 * (Jamieson and Talwalkar 2016, with the schedule of every run over the run's own steps). */
#ifndef TRAIN_TUNE_TUNE_H
#define TRAIN_TUNE_TUNE_H

#include "util/statistics.h"
#include "sweep/sweep.h"

/* ---- The space: learning rate and radii, on a grid of powers of two around the preset's values ---------------- */

typedef enum tune_axis { TUNE_LR, TUNE_FIRST, TUNE_HIDDEN, TUNE_LAST, TUNE_AXES } tune_axis;

enum { TUNE_MAX_CANDIDATES = 2000 };

/* A point of the grid: each value is the preset's times 2^power. */
typedef struct tune_point {
    int power[TUNE_AXES];
} tune_point;

/* The powers from low to high of each axis. An axis that is not searched has 0 and 0, and `fixed` says why. */
typedef struct tune_space {
    int low[TUNE_AXES], high[TUNE_AXES];
    int max_lr;                   /* largest power of lr that the rule accepts, >= high */
    const char *fixed[TUNE_AXES]; /* NULL: searched */
} tune_space;

/* The option of an axis: lr, radius_first, radius_hidden, radius_last. */
const config_option *tune_option(tune_axis axis);

/* The space of a configuration that config_check has passed. EINVAL: lr is 0, or too large for its rule. */
scion_status tune_space_make(tune_space *s, const config *c, scion_error *err);
/* Number of points in it. */
int64_t tune_space_size(const tune_space *s);

/* Distinct points of the space, the preset's own first: `count`, or as many as there are; returns their number.
 * With the same seed a shorter list is the beginning of a longer one. */
int64_t tune_candidates(const tune_space *s, uint64_t seed, tune_point *points, int64_t count);

/* The run of a point for 1/share of the steps: radii and lr multiplied (lr_start and lr_end as lr, so that the
 * schedule keeps its shape), steps or epochs, warmup and decay divided. */
config tune_config(const config *base, const tune_point *p, int64_t share);

/* True if the rule's best values are expected to hold at other widths. */
bool tune_carries(const config *c);

/* ---- The search --------------------------------------------------------------------------------------------- */

enum {
    TUNE_MAX_RUNGS = 8,
    TUNE_THIRD = 3,       /* a rung passes on the best third */
    TUNE_CANDIDATES = 27, /* default */
    TUNE_MOVES = 6        /* of the winner to a better neighbour, at most */
};

/* One point in one rung. */
typedef struct tune_trial {
    tune_point at;
    int rung;
    run_state state;    /* waiting until all its seeds have ended, then the worst of failed, diverged, done */
    double loss;        /* mean over the seeds; INFINITY: diverged; NAN: unknown */
    stat_sample losses; /* of the seeds that are done */
    double seconds;     /* of all its seeds */
} tune_trial;

typedef struct tune tune;

/* Fills in state, loss and seconds of `count` trials from `first` on, all of one rung. Sets t->time_up if time
 * ran out and t->failure if a run failed. ESTOPPED ends the search. */
typedef scion_status tune_measure(void *context, tune *t, int64_t first, int64_t count, scion_error *err);

struct tune {
    config base; /* of the runs: the preset at the proxy's width */
    tune_space space;
    int64_t candidates; /* in the first rung; fewer after tune_search if the budget or the space is too small */
    int rungs, seeds;
    double budget; /* seconds, 0: no limit */
    int jobs;      /* runs at a time, for the estimate of the budget */
    tune_trial *trials;
    int64_t count;
    bool refining;     /* now measuring neighbours of the winner */
    int64_t best;      /* trial that won, -1: none */
    int64_t own;       /* the preset's own point in the last rung, -1: not run there */
    bool settled;      /* both neighbours of the winner in lr are worse (or cannot be run) */
    bool time_up;      /* some trials were not run for lack of time */
    char failure[256]; /* message of the first run that failed, "": none did */
    tune_measure *measure;
    void *context; /* of measure */
};

/* Defaults: 27 candidates, 3 rungs, 1 seed. */
void tune_init(tune *t);
void tune_free(tune *t);

/* Searches. EINVAL: no trial gave a loss; the message says why. */
scion_status tune_search(tune *t, tune_measure *measure, void *context, scion_error *err);

/* Denominator of the steps of a rung: 1 for the last one. */
int64_t tune_share(const tune *t, int rung);
/* The trial of a point in a rung, or -1. */
int64_t tune_find(const tune *t, const tune_point *p, int rung);
/* Estimated time of a search of so many candidates, if one of the first rung takes `seconds`. */
double tune_estimate(const tune *t, int64_t candidates, double seconds);

/* ---- Measuring by the runs of a ledger -------------------------------------------------------------------- */

typedef struct tune_runs {
    const char *path;    /* of the ledger */
    sweep_options sweep; /* its seconds are set from `end` */
    double end;          /* no run begins after this time of CLOCK_MONOTONIC; 0: no limit */
    bool all;            /* also the other runs that wait in the ledger */
    int64_t added;       /* runs that were not in the ledger before */
} tune_runs;

/* A tune_measure, whose context is a tune_runs. Adds the runs of the trials to the ledger, works until all of
 * them have ended, in this process or another, and reads the results. Runs that failed before are retried. */
tune_measure tune_measure_runs;

/* ---- Results ---------------------------------------------------------------------------------------------- */

/* The target with the values that were found: `target` is the preset at its own width. Settings of the machine and
 * of one run (threads, out) are as in a fresh configuration. */
config tune_result(const tune *t, const config *target);

/* The trials of a rung, the best first: their indices in t->trials, into order[t->count]. Returns their number. */
int64_t tune_order(const tune *t, int rung, int64_t *order);

/* The trials of a rung as a table, the best first, each line after `begin`. */
void tune_table(FILE *to, const tune *t, int rung, const char *begin);

/* A value of a trial as text: 2^-5 for powers of two, losses with four digits or "diverged". */
void tune_value_text(const tune *t, const tune_point *p, tune_axis axis, char text[CONFIG_TEXT]);
const char *tune_loss_text(const tune_trial *trial, char text[32]);

/* Number of other trials in the winner's rung whose loss cannot be distinguished from the winner's, by the rule of
 * util/statistics.h; -1: one seed, which distinguishes nothing. */
int64_t tune_ties(const tune *t);

/* True if a radius of the winner is at the edge of the space: the best value may be outside. */
bool tune_at_edge(const tune *t, tune_axis axis);

/* Writes an .ini file that config_load reads as tune_result, with the measurements in its comments. Replaces `path`
 * atomically; a value that an .ini file cannot hold is refused. `command`: the user's command line. */
scion_status tune_write(const tune *t, const config *target, const char *command, const char *path, scion_error *err);

#endif
