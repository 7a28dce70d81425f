/* See fail.h. */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>

scion_status train_fail(scion_error *err, scion_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        err->status = status;
        err->param = -1;
    }
    return status;
}
