/* See path.h. */
#include "util/path.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { shown = 90 }; /* of the 231 bytes of a message */

const char *path_end(const char *path)
{
    const size_t length = strlen(path);
    return length > shown ? path + (length - shown) : path;
}

bool path_of_program(char *path, size_t bytes)
{
    const ssize_t length = readlink("/proc/self/exe", path, bytes);
    if (length <= 0 || (size_t)length >= bytes)
        return false;
    path[length] = '\0';
    return true;
}

bool path_beside_program(const char *relative, char *path, size_t bytes)
{
    if (!path_of_program(path, bytes))
        return false;
    const size_t folder = (size_t)(strrchr(path, '/') + 1 - path);
    return (size_t)snprintf(path + folder, bytes - folder, "%s", relative) < bytes - folder;
}
