/* See fail.h. */
#include "util/fail.h"

scion_status train_fail(scion_error *err, scion_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    scn_fail_list(err, status, -1, format, args);
    va_end(args);
    return status;
}
