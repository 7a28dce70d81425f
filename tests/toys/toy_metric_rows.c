/* Metrics that the other toys need, with a toy in two tables, in place of metric_rows.c: the seconds of a step, which
 * no file has otherwise, and those of all steps. */
#include "record/run_metrics.h"

#define POINT(field) .offset = offsetof(run_point, field), .type = METRIC_REAL
#define RESULT(field) .offset = offsetof(run_result, field)

const run_metric run_point_metrics[] = {
    {"loss", POINT(loss), .objects = METRIC_STEP},
    {"lr", POINT(lr), .objects = METRIC_STEP},
    {"val_loss", POINT(val_loss), .objects = METRIC_VALIDATION},
    {"accuracy", POINT(accuracy), .objects = METRIC_VALIDATION},
    {"top5", POINT(top5), .objects = METRIC_VALIDATION, .optional = true},
    {"elapsed", POINT(elapsed), .objects = METRIC_STEP | METRIC_VALIDATION},
    {"samples", POINT(samples), .objects = METRIC_STEP | METRIC_VALIDATION},
    {"toy_s", POINT(seconds), .objects = METRIC_STEP, .unit = "s", .figure = "toy", .title = "Seconds of a toy",
     .label = "toy seconds", .caption = "A figure that nobody drew."},
    {.key = NULL},
};

const run_metric run_norm_metrics[] = {{.key = NULL}};

const run_metric run_result_metrics[] = {
    {"steps", "step", METRIC_INT, RESULT(step), .objects = METRIC_SUMMARY},
    {"steps", .type = METRIC_INT, RESULT(steps)},
    {"seconds", .type = METRIC_SUM, RESULT(seconds), .objects = METRIC_SUMMARY},
    {"loss", .type = METRIC_REAL, RESULT(loss), .objects = METRIC_SUMMARY},
    {"val_loss", .type = METRIC_REAL, RESULT(val_loss), .objects = METRIC_SUMMARY},
    {"accuracy", .type = METRIC_REAL, RESULT(accuracy), .objects = METRIC_SUMMARY},
    {"toys_s", .type = METRIC_SUM, RESULT(steps_s), .objects = METRIC_SUMMARY, .unit = "s", .title = "toy time"},
    {.key = NULL},
};
