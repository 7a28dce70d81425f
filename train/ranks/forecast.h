/* Forecast of a step on many ranks: time, communication and memory, from the plan of the model and the shares
 * of the ranks, without training anything. docs/scaling.md states the cost model:
 *
 *     compute   operations of the rank with most sequences / speed
 *     optimizer operations of the costliest share of oracles, and passes over its entries / speed
 *     gradients, weights     bytes of the busiest rank / bandwidth + its messages x latency
 *     step      compute + optimizer + weights + the part of gradients that the last backward pass does not hide */
#ifndef TRAIN_RANKS_FORECAST_H
#define TRAIN_RANKS_FORECAST_H

#include "config/config.h"

typedef struct forecast_machine {
    int ranks;
    double bandwidth; /* bytes per second that a rank sends while it receives as many */
    double latency;   /* seconds of a message */
    double speed;     /* operations per second of a rank */
} forecast_machine;

typedef struct forecast {
    int64_t parameters, sequences; /* of the model; of a step */
    int64_t most_sequences;        /* of a rank */
    const char *data;              /* that their shape is taken from: data_info.description */
    double flops, oracle_flops;    /* of the busiest rank: both passes; the oracles */
    double compute_s, oracle_s, entries_s, gradients_s, weights_s, exposed_s, step_s;
    double gradient_bytes, weight_bytes;                           /* sent in a step by all ranks */
    double largest_bytes, mean_bytes;                              /* sent and received by a rank */
    double weights, gradients, state, activations, sharing, total; /* bytes of the rank with most */
} forecast;

/* The parts of a model that do not depend on the ranks are found once. */
typedef struct forecaster forecaster;
scion_status forecaster_create(forecaster **out, const config *c, scion_error *err);
scion_status forecaster_ask(const forecaster *f, const forecast_machine *m, forecast *out, scion_error *err);
void forecaster_free(forecaster *f);

#endif
