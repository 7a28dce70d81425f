/* See path.h. */
#include "util/path.h"

#include <string.h>

enum { shown = 90 }; /* of the 231 bytes of a message */

const char *path_end(const char *path)
{
    const size_t length = strlen(path);
    return length > shown ? path + (length - shown) : path;
}
