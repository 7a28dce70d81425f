/* The part of `scion bench train` about parallel loops: which of them multiply matrices, time outside them, tasks of
 * the large ones, forecast for more cores. */
#ifndef CLI_BENCH_CORES_H
#define CLI_BENCH_CORES_H

#include <jansson.h>

#include "util/regions.h"

/* Forward and backward pass: the loops that multiply matrices, packing and softmax included. */
typedef struct bench_products {
    double one_core; /* seconds of a step */
    double share;    /* of all time of both passes; 0: no loop was watched */
} bench_products;

bench_products bench_products_of(const regions *r, int steps);

/* Prints the share of each part of a step that only one core can do, and the loops with most work. `steps` steps were
 * watched. */
void bench_cores_print(const regions *r, int steps);
json_t *bench_cores_json(const regions *r, int steps);

/* Prints the forecast of r, whose loops were planned for `cores` cores. one_core: seconds of a step on one core. */
void bench_forecast_print(const regions *r, int steps, int cores, double one_core);
json_t *bench_forecast_json(const regions *r, int steps, int cores, double one_core);

/* Says what the forecasts leave out. */
void bench_forecast_note(void);

#endif
