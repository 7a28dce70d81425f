/* See json.h. */
#include "util/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    char *text = value ? json_dumps(value, flags) : NULL;
    json_decref(value);
    if (!text)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    const scion_status status = atomic_print(path, text, err);
    free(text);
    return status;
}
