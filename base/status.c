/* Status codes, their messages, and the version. */
#include "base/status.h"

#include <stdio.h>

const char *scion_version(void)
{
    return SCION_VERSION;
}

const char *scion_status_string(int32_t status)
{
    static const char *const text[] = {
        [SCION_OK] = "success",
        [SCION_EINVAL] = "invalid argument",
        [SCION_ENOMEM] = "out of memory",
        [SCION_ENONFINITE] = "a number is not finite",
        [SCION_ESTATE] = "saved state does not fit",
        [SCION_ESTOPPED] = "stopped by a callback",
    };
    size_t i = (size_t)status;
    return i < sizeof text / sizeof *text ? text[i] : "unknown status";
}

scion_status scn_fail_list(scion_error *err, scion_status status, int64_t param, const char *format, va_list args)
{
    if (err) {
        vsnprintf(err->message, sizeof err->message, format, args);
        err->status = status;
        err->reserved = 0;
        err->param = param;
    }
    return status;
}

scion_status scn_fail(scion_error *err, scion_status status, int64_t param, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    scn_fail_list(err, status, param, format, args);
    va_end(args);
    return status;
}

scion_status scn_ok(scion_error *err)
{
    if (err) {
        err->status = SCION_OK;
        err->reserved = 0;
        err->param = -1;
        err->message[0] = '\0';
    }
    return SCION_OK;
}
