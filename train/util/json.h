/* Reading and writing JSON files. NaN and infinity, which JSON does not have, become null. */
#ifndef TRAIN_UTIL_JSON_H
#define TRAIN_UTIL_JSON_H

#include <jansson.h>

#include "util/number.h"
#include "scion.h"

/* A number, or null. */
json_t *json_number(double value);
/* A text, or "?" if it is not UTF-8. */
json_t *json_text(const char *text);
/* The same as the shortest text that reads back to the same number. */
const char *json_number_text(double value, char text[NUMBER_TEXT]);

/* Reads an object from a file of at most `max` bytes; free with json_decref. Errors name the file: EINVAL if it
 * cannot be opened, ESTATE if it is too large, no JSON, or no object. On failure *out is NULL. */
scion_status json_load_object(json_t **out, const char *path, size_t max, scion_error *err);

/* Writes path as a whole (atomic_file.h), or to standard output if it is "-"; flags are those of json_dumps. Takes
 * the reference to `value`; NULL: out of memory. */
scion_status json_save(json_t *value, size_t flags, const char *path, scion_error *err);

#endif
