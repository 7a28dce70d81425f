/* See file.h. */
#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fail.h"
#include "util/path.h"

bool file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

bool file_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool file_same(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

int file_at(int folder)
{
    return folder >= 0 ? folder : AT_FDCWD;
}

const char *file_in(int folder, const char *path)
{
    const char *slash = folder >= 0 ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

bool file_folder_gone(int folder)
{
    struct stat about;
    return folder >= 0 && fstat(folder, &about) == 0 && about.st_nlink == 0;
}

DIR *file_list(int folder, const char *path)
{
    if (folder < 0)
        return opendir(path);
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* with its own position */
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !list)
        close(fd);
    return list;
}

scion_status file_map(const char *path, char **bytes, size_t *size, scion_error *err)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make us wait */
    scion_status status = SCION_OK;
    *bytes = NULL;
    *size = 0;
    if (fd < 0 || fstat(fd, &about) != 0)
        TRY(train_fail(err, SCION_EINVAL, "%s: %s", path_end(path), strerror(errno)));
    if (!S_ISREG(about.st_mode))
        TRY(train_fail(err, SCION_EINVAL, "%s: is not a file", path_end(path)));
    if (about.st_size == 0)
        goto done;
    void *mapped = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED)
        TRY(train_fail(err, SCION_EINVAL, "%s: cannot be mapped: %s", path_end(path), strerror(errno)));
    *bytes = mapped;
    *size = (size_t)about.st_size;
done:
    if (fd >= 0)
        close(fd);
    return status;
}

void file_unmap(char *bytes, size_t size)
{
    if (bytes)
        munmap(bytes, size);
}

int file_flush(int fd)
{
    int result;
    do
        result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result;
}

void file_flush_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    const int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        file_flush(fd);
        close(fd);
    }
    free(folder);
}

scion_status file_make_folder(const char *path, scion_error *err)
{
    char *part = strdup(path);
    scion_status status = part ? SCION_OK : train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    const size_t length = strlen(path);
    for (size_t i = 1; status == SCION_OK && i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        part[i] = '\0';
        const bool made = mkdir(part, 0777) == 0;
        if (!made && errno != EEXIST)
            status =
                train_fail(err, SCION_EINVAL, "%s: cannot make this folder: %s", path_end(part), strerror(errno));
        if (made)
            file_flush_folder(part);
        part[i] = path[i];
    }
    free(part);
    if (status == SCION_OK && !file_is_folder(path))
        status = train_fail(err, SCION_EINVAL, "%s is not a folder", path_end(path));
    return status;
}

void file_name(const char *path, const char *ending, char *name, size_t bytes)
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/'; begin--)
        ;
    const size_t tail = ending ? strlen(ending) : 0;
    if (tail > 0 && end - begin > tail && strncmp(path + (end - tail), ending, tail) == 0)
        end -= tail;
    snprintf(name, bytes, "%.*s", (int)(end - begin), path + begin);
}
