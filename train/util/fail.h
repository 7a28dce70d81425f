/* Errors of the program: a status and one sentence. */
#ifndef TRAIN_UTIL_FAIL_H
#define TRAIN_UTIL_FAIL_H

#include "scion.h"

/* Fills err (which may be NULL) and returns status. */
scion_status train_fail(scion_error *err, scion_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
