/* Statistics of measurements with several seeds: means, intervals, and verdicts about differences. docs/reproduce.md
 * states the rule; everything that compares losses or learning rates uses it from here.
 *
 *     error = t(d) s sqrt(sum of c_i^2 / n_i)     of sum of c_i mean_i: half of the 95 % interval
 *     s: standard deviation over the seeds, pooled over all samples that are compared; d: its degrees of freedom
 *
 * A statement "a <= x <= b" is kept if the whole interval lies within [a, b], failed if the whole lies outside, and
 * undecided otherwise. One seed has no spread, so that nothing is decided by it. */
#ifndef TRAIN_UTIL_STATISTICS_H
#define TRAIN_UTIL_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

/* Values of one quantity, one for each seed; all 0 at first. */
typedef struct stat_sample {
    int64_t count;
    double mean, squares; /* sum of squared deviations from the mean */
    double low, high;
} stat_sample;

void stat_add(stat_sample *s, double value);
/* Standard deviation; NAN: fewer than two values. */
double stat_deviation(const stat_sample *s);

/* "2.4486(12)": the mean of losses and their standard deviation in units of the last digit; "2.4486" of one seed. */
const char *stat_text(const stat_sample *s, char text[32]);

/* Pooled deviations of several samples. */
typedef struct stat_pool {
    double squares;
    int64_t freedom;
} stat_pool;

void stat_pool_add(stat_pool *p, const stat_sample *s);

/* A number and half of its 95 % interval: NAN if the spread is not known, 0 if it is zero. */
typedef struct stat_estimate {
    double value, error;
} stat_estimate;

/* The mean of one sample by its own spread. */
stat_estimate stat_mean(const stat_sample *s);
/* mean of b - mean of a, by the spread of the pool. */
stat_estimate stat_difference(const stat_sample *a, const stat_sample *b, const stat_pool *p);
/* t(d) s sqrt(inverse), where inverse is the sum of c_i^2 / n_i. */
double stat_error(const stat_pool *p, double inverse);

/* The 97.5 % quantile of Student's distribution; INFINITY: 0 degrees of freedom. */
double stat_student(int64_t freedom);

typedef enum stat_finding { STAT_KEPT, STAT_FAILED, STAT_UNDECIDED } stat_finding;

const char *stat_name(stat_finding f); /* "kept", "failed", "undecided" */
/* Judges min <= e <= max; either bound may be infinite. */
stat_finding stat_within(stat_estimate e, double min, double max);
/* The same for a value known to lie between low and high. */
stat_finding stat_range_within(double low, double high, double min, double max);
stat_finding stat_opposite(stat_finding f);

/* The lowest point of a curve, x ascending. y is INFINITY where a run diverged and NAN where nothing is known. */
typedef struct stat_minimum {
    int64_t at;   /* index of the lowest value, -1: no value is finite */
    double x, y;  /* vertex of the parabola through it and its neighbours; its own x if one of them is not finite */
    bool at_edge; /* no value is known on one side of it: the true minimum may lie there */
} stat_minimum;

stat_minimum stat_lowest(const double *x, const double *y, int64_t count);

/* Slope of y over x by least squares; NAN: fewer than two points. */
double stat_slope(const double *x, const double *y, int64_t count);

#endif
