/* The coordinate check: do the layers of a network keep their size as it gets wider?
 *
 *     rms(l, k, w) = sqrt(mean of f_l^2)    f_l: result of layer l, width w, after k steps, over one fixed batch
 *     change(l, k, w): the same of f_l after k steps - f_l after k - 1 steps, on a sample of rows
 *     slope(l, k)  = d log2 rms / d log2 w   by least squares over the widths, and of the changes
 *
 * Norms that fit (the paper's tables of norms by layer) give rms = Theta(1) in every layer, at initialisation and
 * after steps, so that slopes are 0; a wrong scaling gives powers such as w^(1/2). The paper's lemma on transfer is
 * about the changes of the first step: if they do not depend on the width, neither does the best learning rate.
 *
 * Runs are put in groups that agree in everything except width and seed, and a value is the mean over the seeds. */
#ifndef TRAIN_TUNE_COORDCHECK_H
#define TRAIN_TUNE_COORDCHECK_H

#include "sweep/ledger.h"

/* One configuration, measured; coords by step, in each step by place. */
typedef struct coordcheck_run {
    config c;
    ledger_coord *coords;
    int64_t count;
} coordcheck_run;

typedef enum coordcheck_verdict { COORDCHECK_FLAT, COORDCHECK_SHRINKING, COORDCHECK_GROWING } coordcheck_verdict;

/* Measured are the size of a layer, and its change in the last step (NAN at step 0). */
typedef enum coordcheck_kind { COORDCHECK_RMS, COORDCHECK_CHANGE, COORDCHECK_VALUES } coordcheck_kind;

typedef struct coordcheck_values {
    double *value; /* layer_count x (steps + 1) x width_count; INFINITY: a seed diverged */
    double *slope; /* layer_count x (steps + 1); INFINITY: some width diverged; NAN: fewer than two are above 0 */
} coordcheck_values;

typedef struct coordcheck_group {
    char label[160]; /* options in which it differs from other groups: "rule=scion"; "" if it is the only one */
    config c;        /* of its first run */
    int64_t *widths; /* ascending */
    int64_t width_count;
    char (*names)[64]; /* of the layers, in forward order */
    int64_t layer_count;
    int64_t steps; /* measured at 0 .. steps, in all runs */
    int64_t seeds; /* at each width */
    coordcheck_values of[COORDCHECK_VALUES];
} coordcheck_group;

typedef struct coordcheck {
    coordcheck_group *groups;
    int64_t count;
} coordcheck;

/* Name of the layer of the logits: it has its own because a tied parameter has two layers. */
#define COORDCHECK_LOGITS "logits"

/* Slopes up to this count as flat. */
extern const double coordcheck_flat;

/* Measures c at initialisation and after each of `steps` steps, on batch 0 of the training part: every layer with a
 * matrix (linear, embedding, logits). `progress` (may be NULL) is called after each step and returns false to stop:
 * SCION_ESTOPPED. A run whose loss is no longer finite has the value INFINITY from there on. The caller frees
 * run->coords. */
scion_status coordcheck_measure(coordcheck_run *run, const config *c, int64_t steps,
                                bool (*progress)(void *context, int64_t step), void *context, scion_error *err);

/* Groups and fits, over the steps that all runs of a group have. EINVAL: a group whose runs have different layers.
 * Free with coordcheck_free, also after an error. */
scion_status coordcheck_make(coordcheck *k, const coordcheck_run *runs, int64_t count, scion_error *err);
void coordcheck_free(coordcheck *k);

static inline double coordcheck_value(const coordcheck_group *g, coordcheck_kind kind, int64_t layer, int64_t step,
                                      int64_t width)
{
    return g->of[kind].value[(layer * (g->steps + 1) + step) * g->width_count + width];
}

static inline double coordcheck_slope(const coordcheck_group *g, coordcheck_kind kind, int64_t layer, int64_t step)
{
    return g->of[kind].slope[layer * (g->steps + 1) + step];
}

/* True if layers have changes to show: those of the first step. */
bool coordcheck_has_changes(const coordcheck_group *g);

coordcheck_verdict coordcheck_judge(double slope);
const char *coordcheck_verdict_name(coordcheck_verdict v);

/* The layer that is furthest from flat after `step` steps. Shrinking logits count only if all layers are flat: see
 * coordcheck.c. */
int64_t coordcheck_worst(const coordcheck_group *g, int64_t step);

/* One sentence on the last step: "flat: after 4 steps the steepest layer blocks.0.attn.q goes as width^0.04 from
 * width 64 to 512". */
void coordcheck_sentence(const coordcheck_group *g, char text[256]);
/* One on the changes of the first step: "flat: the change in the first step goes as width^0.03 in its steepest layer,
 * layers.1.weight"; "" if there are none. */
void coordcheck_change_sentence(const coordcheck_group *g, char text[256]);

/* Writes everything to a JSON file. */
scion_status coordcheck_save(const coordcheck *k, const char *path, scion_error *err);

#endif
