/* See path.h. */
#include "util/path.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { shown = 90 }; /* of a message's 231 bytes */

const char *path_tail(const char *path, size_t max)
{
    const size_t n = strlen(path);
    if (n <= max)
        return path;
    const char *tail = path + (n - max), *slash = strchr(tail, '/');
    if (slash && slash[1])
        return slash + 1;
    while (((uint8_t)*tail & 0xc0) == 0x80) /* not from the middle of a UTF-8 character */
        tail++;
    return tail;
}

const char *path_end(const char *path)
{
    return path_tail(path, shown);
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
