/* See json.h. */
#include "util/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/path.h"

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

const char *json_number_text(double value, char text[NUMBER_TEXT])
{
    if (isfinite(value))
        number_write(value, text);
    else
        memcpy(text, "null", sizeof "null");
    return text;
}

scion_status json_save(json_t *value, size_t flags, const char *path, scion_error *err)
{
    struct stat about;
    if (strcmp(path, "-") == 0) {
        const int failed = value ? json_dumpf(value, stdout, flags) || fputc('\n', stdout) == EOF : -1;
        json_decref(value);
        return failed ? train_fail(err, SCION_EINVAL, "standard output could not be written") : SCION_OK;
    }
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) { /* a device or a pipe cannot be replaced */
        const int failed = value ? json_dump_file(value, path, flags) : -1;
        const int reason = errno;
        json_decref(value);
        return failed ? train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", path_end(path), strerror(reason))
                      : SCION_OK;
    }
    char *text = value ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (!text)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    const scion_status status = atomic_save(-1, path, text, strlen(text), err);
    free(text);
    return status;
}
