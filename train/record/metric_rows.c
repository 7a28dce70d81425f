/* All metrics. A row that is added here appears in the files, ledgers and reports; it is measured in run.c. Rows keep
 * their keys and columns: files stay. */
#include "record/run_metrics.h"

#define POINT(field) .offset = offsetof(run_point, field)
#define NORM(field) .offset = offsetof(run_norm, field)
#define RESULT(field) .offset = offsetof(run_result, field)

enum { BOTH = METRIC_STEP | METRIC_VALIDATION };

const run_metric run_point_metrics[] = {
    {"loss", .type = METRIC_REAL, POINT(loss), .objects = METRIC_STEP},
    {"lr", .type = METRIC_REAL, POINT(lr), .objects = METRIC_STEP, .figure = "lr", .title = "Learning rate",
     .label = "learning rate", .caption = "The step size, as the schedule gives it."},
    {"bits_per_byte", .type = METRIC_REAL, POINT(bits_per_byte), .objects = METRIC_STEP, .optional = true},
    {"val_loss", .type = METRIC_REAL, POINT(val_loss), .objects = METRIC_VALIDATION},
    {"val_bits_per_byte", .type = METRIC_REAL, POINT(val_bits_per_byte), .objects = METRIC_VALIDATION,
     .optional = true},
    {"accuracy", .type = METRIC_REAL, POINT(accuracy), .objects = METRIC_VALIDATION},
    {"top5", .type = METRIC_REAL, POINT(top5), .objects = METRIC_VALIDATION, .optional = true},
    {"samples_per_s", .type = METRIC_REAL, POINT(samples_per_s), .objects = METRIC_STEP, .figure = "speed",
     .title = "Speed", .label = "samples per second",
     .caption = "Of the logged steps, without validation and saving."},
    {"optimizer_share", .type = METRIC_REAL, POINT(optimizer_share), .objects = METRIC_STEP, .figure = "optimizer",
     .title = "Time in the optimizer", .label = "percent of a step", .factor = 100,
     .caption = "Share of a step; the rest is the forward and backward pass."},
    {"seconds", .type = METRIC_REAL, POINT(seconds), .unit = "s"},
    {"time", .type = METRIC_TIME, POINT(time), .objects = BOTH, .optional = true},
    {"elapsed", .type = METRIC_REAL, POINT(elapsed), .objects = BOTH, .optional = true, .unit = "s"},
    {"samples", .type = METRIC_REAL, POINT(samples), .objects = BOTH, .optional = true},
    {.key = NULL},
};

const run_metric run_norm_metrics[] = {
    {"norm", .type = METRIC_REAL, NORM(norm), .objects = METRIC_NORM},
    {"bound", .type = METRIC_REAL, NORM(bound), .objects = METRIC_NORM},
    {"overshoot", .type = METRIC_REAL, NORM(overshoot), .objects = METRIC_NORM, .optional = true, .constant = true},
    {"update_size", .type = METRIC_REAL, NORM(update_size), .objects = METRIC_NORM, .optional = true},
    {.key = NULL},
};

const run_metric run_result_metrics[] = {
    {"steps", "step", METRIC_INT, RESULT(step), .objects = METRIC_SUMMARY},
    {"steps", .type = METRIC_INT, RESULT(steps)},
    {"taken", .type = METRIC_INT, RESULT(taken)},
    {"parameters", .type = METRIC_INT, RESULT(parameters), .objects = METRIC_SUMMARY, .title = "parameters"},
    {"samples", .type = METRIC_INT, RESULT(samples), .objects = METRIC_SUMMARY},
    {"seconds", .type = METRIC_SUM, RESULT(seconds), .objects = METRIC_SUMMARY, .unit = "s", .title = "time"},
    {"elapsed", .type = METRIC_REAL, RESULT(elapsed), .objects = METRIC_SUMMARY, .unit = "s"},
    {"samples_per_s", "overall_samples_per_s", METRIC_REAL, RESULT(overall_samples_per_s), .objects = METRIC_SUMMARY},
    {"samples_per_s", .type = METRIC_REAL, RESULT(samples_per_s)},
    {"loss", "last_loss", METRIC_REAL, RESULT(last_loss), .objects = METRIC_SUMMARY},
    {"loss", .type = METRIC_REAL, RESULT(loss)},
    {"val_loss", .type = METRIC_REAL, RESULT(val_loss), .objects = METRIC_SUMMARY},
    {"best_val_loss", .type = METRIC_REAL, RESULT(best_val_loss), .objects = METRIC_SUMMARY},
    {"val_bits_per_byte", .type = METRIC_REAL, RESULT(val_bits_per_byte), .objects = METRIC_SUMMARY,
     .optional = true},
    {"accuracy", .type = METRIC_REAL, RESULT(accuracy), .objects = METRIC_SUMMARY},
    {"plain_accuracy", .type = METRIC_REAL, RESULT(plain_accuracy), .objects = METRIC_SUMMARY, .optional = true},
    {"top5", .type = METRIC_REAL, RESULT(top5), .objects = METRIC_SUMMARY, .optional = true},
    {"data_hash", .type = METRIC_HASH, RESULT(data_hash), .objects = METRIC_SUMMARY, .optional = true},
    {"skipped", .type = METRIC_INT, RESULT(skipped), .objects = METRIC_SUMMARY, .optional = true},
    {"steps_s", .type = METRIC_SUM, RESULT(steps_s), .unit = "s"},
    {"forward_s", .type = METRIC_SUM, RESULT(forward_s), .objects = METRIC_SUMMARY, .unit = "s"},
    {"backward_s", .type = METRIC_SUM, RESULT(backward_s), .objects = METRIC_SUMMARY, .unit = "s"},
    {"optimizer_s", .type = METRIC_SUM, RESULT(optimizer_s), .objects = METRIC_SUMMARY, .unit = "s"},
    {"comm_s", .type = METRIC_SUM, RESULT(comm_s), .unit = "s"},
    {"state_bytes", .type = METRIC_REAL, RESULT(state_bytes), .unit = "bytes"},
    {"peak_bytes", .type = METRIC_REAL, RESULT(peak_bytes), .objects = METRIC_SUMMARY, .unit = "bytes",
     .title = "memory at its peak"},
    {.key = NULL},
};
