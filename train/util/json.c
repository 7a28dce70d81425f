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

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : json_string("?");
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
    const bool output = strcmp(path, "-") == 0;
    char *text = value ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (!text)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    scion_status status = SCION_OK;
    if (!output && !(stat(path, &about) == 0 && !S_ISREG(about.st_mode))) {
        status = atomic_save(-1, path, text, strlen(text), err);
    } else { /* a device or a pipe cannot be replaced */
        FILE *to = output ? stdout : fopen(path, "we");
        bool written = to && fputs(text, to) >= 0 && (!output || putchar('\n') != EOF);
        if (to && !output)
            written = fclose(to) == 0 && written;
        if (!written)
            status = train_fail(err, SCION_EINVAL, "%s: cannot be written: %s",
                                output ? "standard output" : path_end(path), strerror(errno));
    }
    free(text);
    return status;
}
