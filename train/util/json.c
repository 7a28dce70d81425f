/* See json.h. */
#include "util/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"
#include "util/utf8.h"

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

scion_status json_load_object(json_t **out, const char *path, size_t max, scion_error *err)
{
    char *bytes;
    size_t size;
    json_error_t why;
    scion_status status = SCION_OK;
    *out = NULL;
    RETURN_IF_FAILED(file_map(path, &bytes, &size, err));
    if (size > max)
        TRY(train_fail(err, SCION_ESTATE, "%s: has %zu bytes; expected at most %zu", path_end(path), size, max));
    *out = json_loadb(size > 0 ? bytes : "", size, JSON_REJECT_DUPLICATES, &why);
    if (!*out)
        TRY(train_fail(err, SCION_ESTATE, "%s: is not valid JSON: line %d: %.90s", path_end(path), why.line,
                       why.text));
    if (!json_is_object(*out))
        TRY(train_fail(err, SCION_ESTATE, "%s: is not a JSON object", path_end(path)));
done:
    file_unmap(bytes, size);
    if (status != SCION_OK) {
        json_decref(*out);
        *out = NULL;
        if (err)
            utf8_make_printable(err->message);
    }
    return status;
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
