/* Errors of the program: a status and one sentence. */
#ifndef TRAIN_UTIL_FAIL_H
#define TRAIN_UTIL_FAIL_H

#include "base/status.h"

/* Fills err (which may be NULL) and returns status. */
scion_status train_fail(scion_error *err, scion_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Leaves the function at `done:` with the variable `status` unless the call succeeds. */
#define TRY(call)                          \
    do {                                   \
        if ((status = (call)) != SCION_OK) \
            goto done;                     \
    } while (0)

#endif
