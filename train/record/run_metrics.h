/* The numbers that a run measures, in its points, norms and result, and the rows that describe them.
 *
 * A metric is a field of one of these structs and a row of its table (metric_rows.c). metrics.jsonl, summary.json,
 * ledgers and reports walk the rows: adding a metric means adding the field, the row, and the place that measures it.
 * Missing values are NAN; a loss that is not finite is INFINITY, so that it does not look missing. */
#ifndef TRAIN_RECORD_RUN_METRICS_H
#define TRAIN_RECORD_RUN_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

enum { RUN_NAME = 64 };

/* A point of a curve: a training step, or a validation. */
typedef struct run_point {
    int64_t step;
    double loss, lr;                       /* training */
    double bits_per_byte;                  /* ... its loss in bits per byte of the raw text */
    double val_loss, accuracy, top5;       /* validation; top5: images with more than five classes */
    double val_bits_per_byte;              /* ... its loss in bits per byte of the raw text */
    double samples_per_s, optimizer_share; /* of this step; share of its time */
    double seconds;                        /* of this step */
    double time;                           /* wall clock, seconds since 1970 */
    double elapsed;                        /* seconds of the run so far, including those before it was resumed */
    double samples;                        /* trained on so far */
    const char *unit;                      /* name of the samples: "tokens", "images"; NULL: "samples" */
} run_point;

/* Norm of a parameter's weights against the bound that its rule promises. */
typedef struct run_norm {
    int64_t step;
    char name[RUN_NAME];
    double norm, bound; /* bound INFINITY: none */
    double overshoot;   /* factor by which the norm's iteration may exceed the bound */
    double update_size; /* RMS of the last step's change over that of the weights before it; NAN: not measured */
} run_norm;

/* The curves of a run, in order of steps. All zero: none. */
typedef struct run_curves {
    run_point *points;
    run_norm *norms;
    int64_t point_count, norm_count;
} run_curves;

typedef enum run_state {
    RUN_WAITING, /* in a ledger, not begun */
    RUN_RUNNING, /* going on, stopped, or out of time */
    RUN_DONE,
    RUN_DIVERGED, /* the loss was not finite, or grew without end */
    RUN_FAILED,   /* could not be run: the message says why */
    RUN_STATES
} run_state;

typedef struct run_result {
    run_state state;
    int64_t step, steps; /* done, planned */
    int64_t taken;       /* steps of this process */
    int64_t parameters, samples;
    double seconds;                            /* of this process */
    double elapsed;                            /* of the run, including those before it was resumed */
    double samples_per_s;                      /* in the steps alone */
    double overall_samples_per_s;              /* of this process, validations and checkpoints included */
    double last_loss;                          /* of the last step */
    double loss;                               /* running mean over the last steps */
    double val_loss, accuracy;                 /* of the last validation; accuracy where it is reported */
    double plain_accuracy, top5;               /* without tta; top5 as in a point */
    double best_val_loss;                      /* of all validations */
    double val_bits_per_byte;                  /* of the last validation, of text */
    uint64_t data_hash;                        /* of data_info; 0: not known */
    int64_t skipped;                           /* files or symbols of the data that were left out */
    double steps_s;                            /* of the steps, including waiting */
    double forward_s, backward_s, optimizer_s; /* sums over the steps of this process */
    double comm_s;                             /* ... waiting for other ranks */
    double state_bytes, peak_bytes;            /* weights, gradients and optimizer; peak of the process */
    char message[256];                         /* diverged, failed: why */
    const char *changes;                       /* settings changed by resuming (the trainer's); NULL: none */
} run_result;

/* A point with nothing but its step; a result with nothing known. */
run_point run_point_empty(int64_t step);
run_result run_result_empty(void);

static inline bool run_is_validation(const run_point *p)
{
    return p->val_loss == p->val_loss; /* not NAN */
}

const char *run_state_name(run_state s);

/* Appends a copy. False: out of memory. */
bool run_curves_add_point(run_curves *c, const run_point *p);
bool run_curves_add_norm(run_curves *c, const run_norm *n);
void run_curves_free(run_curves *c);

/* Norm over bound and overshoot; NAN: there is no bound. */
double run_norm_share(const run_norm *n);
/* The parameter nearest to its bound, or furthest beyond it; NULL: none has a bound. */
const run_norm *run_norms_worst(const run_norm *norms, int64_t count);
/* True if a bound is exceeded by more than overshoot and rounding explain. */
bool run_norm_exceeded(const run_norm *n);

/* ---- Rows ---- */

typedef enum metric_type {
    METRIC_INT,  /* int64_t, 0 at first */
    METRIC_REAL, /* double, NAN at first */
    METRIC_SUM,  /* double, 0 at first */
    METRIC_TIME, /* METRIC_REAL, seconds since 1970; in JSON as "2026-11-16T18:10:32Z" */
    METRIC_HASH  /* uint64_t, 0: unknown; 16 hexadecimal digits */
} metric_type;

/* JSON objects that a metric is written into; ledgers have all metrics. */
enum { METRIC_STEP = 1, METRIC_VALIDATION = 2, METRIC_NORM = 4, METRIC_SUMMARY = 8 };

typedef struct run_metric {
    const char *key;    /* in JSON; its "samples" becomes the unit: "tokens_per_s", "images_per_s" */
    const char *column; /* in a ledger, if it is called otherwise there */
    metric_type type;
    size_t offset;
    int objects;      /* METRIC_STEP | ... */
    bool optional;    /* left out of JSON while it is unknown or 0, not null */
    bool constant;    /* the same in all steps: not drawn as a curve by itself */
    const char *unit; /* "s", "bytes"; NULL: a plain number */
    /* In a report: the heading of a card (of a result) or a figure (of a point); NULL: none of its own. */
    const char *title;
    const char *figure, *label, *caption; /* of a figure: its id, the axis, and the sentence below it */
    double factor;                        /* of a figure: 100 for percent; 0: 1 */
} run_metric;

/* The tables, each ended by a row without a key. */
extern const run_metric run_point_metrics[], run_norm_metrics[], run_result_metrics[];

static inline const char *metric_column(const run_metric *m)
{
    return m->column ? m->column : m->key;
}

/* Address of the metric in its struct. */
static inline void *metric_in(const run_metric *m, const void *of)
{
    return (char *)of + m->offset;
}

/* True for metrics that are curves over the steps of a run: in its files, no time, not constant. */
static inline bool metric_is_curve(const run_metric *m)
{
    return m->objects != 0 && m->type != METRIC_TIME && !m->constant;
}

/* Key of a metric with `unit` (NULL: none) in place of "samples". */
enum { METRIC_KEY = 64 };
const char *metric_key(const run_metric *m, const char *unit, char text[METRIC_KEY]);
/* Value of a metric that is not a hash; NAN: unknown. */
double metric_value(const run_metric *m, const void *of);

/* Resets all metrics of a struct to their values before a measurement. */
void metrics_clear(const run_metric *rows, void *of);

/* Writes the metrics of one kind of object as JSON members, each with a comma and `begin` before it, and `colon`
 * between key and value. unit: name of the samples. */
void metrics_write(FILE *to, const run_metric *rows, const void *of, int object, const char *unit, const char *begin,
                   const char *colon);
/* Metrics of the points as fields of a CSV file, each with a comma before it: names, and values; unknown ones are
 * empty. The value of METRIC_TIME is the first, without its comma and its name. */
void metrics_csv_names(FILE *to, const run_metric *rows, const char *unit);
void metrics_csv_values(FILE *to, const run_metric *rows, const void *of);
/* Reads them. Values that are missing or null are unknown. Images of 0.2, whose keys say tokens, are found too. */
void metrics_read(const run_metric *rows, void *of, int object, const json_t *from);

#endif
