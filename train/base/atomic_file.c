/* See atomic_file.h. */
#include "base/atomic_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/path.h"

static const char mark[] = ".tmp.";

void atomic_abort(atomic_file *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->temporary)
        unlink(r->temporary);
    free(r->temporary);
    *r = (atomic_file){r->path, NULL, -1};
}

static scion_status failed(atomic_file *r, const char *what, int reason, scion_error *err)
{
    atomic_abort(r);
    return train_fail(err, SCION_EINVAL, "%s: %s: %s", path_end(r->path), what, strerror(reason));
}

scion_status atomic_begin(atomic_file *r, const char *path, scion_error *err)
{
    struct stat about;
    const size_t bytes = strlen(path) + sizeof mark + 24;
    *r = (atomic_file){path, malloc(bytes), -1};
    if (!r->temporary)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    snprintf(r->temporary, bytes, "%s%s%ld", path, mark, (long)getpid());
    /* rename would put a file in the place of a device or a pipe, too. */
    if (lstat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISLNK(about.st_mode)) {
        free(r->temporary);
        r->temporary = NULL;
        return train_fail(err, SCION_EINVAL, "%s: cannot be written: it exists and is not a file", path_end(path));
    }
    /* No O_EXCL: a process of the same number, killed long ago, may have left its file here. */
    do
        r->fd = open(r->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    while (r->fd < 0 && errno == EINTR);
    if (r->fd < 0) {
        const int reason = errno;
        free(r->temporary); /* it is not ours to remove */
        r->temporary = NULL;
        return failed(r, "cannot be written", reason, err);
    }
    return SCION_OK;
}

scion_status atomic_write(atomic_file *r, const void *data, size_t bytes, scion_error *err)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t written = write(r->fd, at, bytes);
        if (written < 0 && errno == EINTR) /* file systems in user space can be interrupted */
            continue;
        if (written <= 0)
            return failed(r, "not written, the earlier file is kept", written < 0 ? errno : ENOSPC, err);
        at += written;
        bytes -= (size_t)written;
    }
    return SCION_OK;
}

static int flush(int fd)
{
    int result;
    do
        result = fsync(fd);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Makes the new name last. A file system that cannot flush a folder still has a whole file under the name, the old
 * one or the new one: no reason to fail. */
static void flush_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    const int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        flush(fd);
        close(fd);
    }
    free(folder);
}

scion_status atomic_commit(atomic_file *r, scion_error *err)
{
    if (flush(r->fd) != 0)
        return failed(r, "not written, the earlier file is kept", errno, err);
    const int closed = close(r->fd), reason = errno;
    r->fd = -1;
    if (closed != 0 && reason != EINTR) /* Linux has closed it */
        return failed(r, "not written, the earlier file is kept", reason, err);
    if (rename(r->temporary, r->path) != 0)
        return failed(r, "not written", errno, err);
    flush_folder(r->path);
    free(r->temporary);
    r->temporary = NULL;
    return SCION_OK;
}

bool atomic_link(const char *from, const char *path)
{
    const size_t bytes = strlen(path) + sizeof mark + 24;
    char *temporary = malloc(bytes);
    if (!temporary)
        return false;
    snprintf(temporary, bytes, "%s%s%ld", path, mark, (long)getpid());
    unlink(temporary); /* a process of the same number may have left it */
    bool done = link(from, temporary) == 0;
    if (done) {
        done = rename(temporary, path) == 0;
        unlink(temporary); /* still there if it failed, and if path was this file already */
        flush_folder(path);
    }
    free(temporary);
    return done;
}

/* The process that a temporary file's name ends in, 0: the name is none. */
static long owner_of(const char *name)
{
    const char *at = NULL;
    for (const char *next = name; (next = strstr(next, mark)) != NULL; next++)
        at = next + sizeof mark - 1;
    if (!at || !isdigit((unsigned char)*at) || strspn(at, "0123456789") != strlen(at) || strlen(at) > 10)
        return 0;
    return strtol(at, NULL, 10);
}

void atomic_remove_stale(const char *folder)
{
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open)) != NULL;) {
        const long owner = owner_of(entry->d_name);
        if (owner > 0 && (owner == (long)getpid() || (kill((pid_t)owner, 0) != 0 && errno == ESRCH)))
            unlinkat(dirfd(open), entry->d_name, 0);
    }
    if (open)
        closedir(open);
}
