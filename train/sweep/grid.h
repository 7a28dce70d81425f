/* A grid of configurations: every combination of the values that each key=value names.
 *
 *     lr=2^-12..2^-2         powers of two from the one to the other
 *     width=64..512:*2       the same with any factor
 *     momentum=0.1..0.5:0.1  equal steps; whole numbers step by 1 if no step is given: seed=1..3
 *     rule=scion,adamw       a list, of values and ranges
 *     norms=onehot/shared    norms are listed with /, because one value may have commas: sign,spectral,sign/onehot
 *
 * Paths (data, val_data, out) are taken as they stand. */
#ifndef TRAIN_SWEEP_GRID_H
#define TRAIN_SWEEP_GRID_H

#include "config/config.h"

enum { GRID_MAX = 100000 }; /* configurations in a grid */

typedef struct grid {
    config *points;
    int64_t count;
} grid;

/* Every combination, on top of `base`; the first key varies slowest. Each point passes config_check. EINVAL: a value
 * that config_set refuses, an empty range, too many points. Free with grid_free, also after an error. */
scion_status grid_make(grid *g, const config *base, const char *const *pairs, int count, scion_error *err);
/* Appends the grid of a preset (NULL: of the defaults) to g, which is empty or was made before. */
scion_status grid_add(grid *g, const char *preset, const char *const *pairs, int count, scion_error *err);
void grid_free(grid *g);

/* True if an option decides what a run computes; others (threads, out, intervals, ...) may differ between two
 * descriptions of the same run. */
bool grid_computes(const config_option *o);

/* True if two configurations are the same run except for the options whose keys are in `axes` (up to a NULL). */
bool grid_same(const config *a, const config *b, const char *const *axes);
bool grid_is_axis(const config_option *o, const char *const *axes);

/* True if option o has more than one value among count configurations, `stride` bytes apart. */
bool grid_varies(const config *first, size_t stride, int64_t count, const config_option *o);

/* Finds the fewest options (rule and norms first, then in table order) whose values distinguish the configurations as
 * well as all options do, without those in `axes` (up to a NULL; NULL: none). Returns their number. Among very many
 * configurations it looks at a sample. */
int grid_naming(const config *first, size_t stride, int64_t count, const char *const *axes,
                const config_option *options[], int max);
/* "rule=scion width=64": the values of some options. */
void grid_label(const config *c, const config_option *const *options, int count, char *text, size_t bytes);

/* Labels groups of runs by both functions above; labels and configurations are `stride` bytes apart. "" if there is
 * one group. */
void grid_name_groups(const config *first, size_t stride, int64_t count, const char *const *axes, char *label,
                      size_t bytes);

/* A learning rate as people write it: 2^-5 if it is a power of two. */
void grid_rate(double lr, char text[CONFIG_TEXT]);
/* The value of an option in the same way. */
void grid_pretty(const config *c, const config_option *o, char text[CONFIG_TEXT]);

#endif
