/* Short forms of a trainer's calls for tests, which may look inside it. */
#ifndef TESTS_TRAIN_TRAINER_TESTS_H
#define TESTS_TRAIN_TRAINER_TESTS_H

#include "trainer/trainer_struct.h"

/* A new run in this process alone. */
static inline scion_status tiny_create(trainer **out, const config *c, scion_error *err)
{
    return trainer_create(out, c, NULL, NULL, err);
}

/* A step that nobody watches. */
static inline scion_status tiny_step(trainer *t, double *loss, scion_error *err)
{
    step_report report;
    const scion_status status = trainer_step(t, NULL, &report, err);
    *loss = report.loss;
    return status;
}

/* Saves at `path` and resumes from there, with the position of a run that has not validated yet. */
static inline scion_status tiny_save(const trainer *t, const char *path, scion_error *err)
{
    const run_position start = run_position_start();
    return trainer_save(t, &start, -1, path, err);
}

static inline scion_status tiny_resume(trainer **out, const char *path, const char *const *pairs, int count,
                                       scion_error *err)
{
    run_position at;
    trainer_resumed before;
    const scion_status status = trainer_resume(out, path, pairs, count, false, NULL, &at, &before, err);
    run_position_free(&at);
    return status;
}

static inline float *tiny_weights(const trainer *t)
{
    return t->flats[FLAT_WEIGHTS];
}

#endif
