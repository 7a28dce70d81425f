/* Errors: a status for the program, a sentence for the person. Nothing is printed here. */
#ifndef SCN_STATUS_H
#define SCN_STATUS_H

#include <stdarg.h>

#include "scion.h"

/* Fills err (which may be NULL) and returns status, so that callers can `return scn_fail(...)`. */
scion_status scn_fail(scion_error *err, scion_status status, int64_t param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

scion_status scn_fail_list(scion_error *err, scion_status status, int64_t param, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));

/* Clears err (which may be NULL) and returns SCION_OK. */
scion_status scn_ok(scion_error *err);

/* Leaves the function with the status of the call unless it succeeds. */
#define RETURN_IF_FAILED(call)              \
    do {                                    \
        const scion_status failed = (call); \
        if (failed != SCION_OK)             \
            return failed;                  \
    } while (0)

#endif
