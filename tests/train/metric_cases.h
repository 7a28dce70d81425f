/* Metrics that all have values of their own, and their comparison, by the rows that the files are made from. */
#ifndef TESTS_TRAIN_METRIC_CASES_H
#define TESTS_TRAIN_METRIC_CASES_H

#include "support.h"

#include "record/run_metrics.h"

/* Gives every metric a value of its own, from `first` on. */
static inline void fill_metrics(const run_metric *rows, void *of, int first)
{
    for (int i = 0; rows[i].key; i++)
        if (rows[i].type == METRIC_INT || rows[i].type == METRIC_HASH)
            *(int64_t *)metric_in(&rows[i], of) = first + i;
        else
            *(double *)metric_in(&rows[i], of) = first + i + 1 / 3.0;
}

/* Compares the metrics of two structs bit by bit; objects: only those of these JSON objects, 0: all. */
static inline void check_metrics(const run_metric *rows, const void *a, const void *b, int objects)
{
    for (; rows->key; rows++) {
        at("%s", rows->key);
        if (!objects || (rows->objects & objects))
            check_bits(sizeof(double), metric_in(rows, a), metric_in(rows, b));
    }
}

#endif
