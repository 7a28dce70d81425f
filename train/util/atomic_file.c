/* See atomic_file.h. */
#include "util/atomic_file.h"

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

#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"

static const char mark[] = ".tmp.";

void atomic_abort(atomic_file *r)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->temporary)
        unlinkat(file_at(r->folder), r->temporary, 0);
    free(r->temporary);
    *r = (atomic_file){r->path, r->folder, NULL, -1, r->replaces};
}

static scion_status failed(atomic_file *r, const char *what, int reason, scion_error *err)
{
    atomic_abort(r);
    if (file_folder_gone(r->folder))
        return train_fail(err, SCION_EINVAL, "%s: not written: the folder of this run was removed or replaced",
                          path_end(r->path));
    return train_fail(err, SCION_EINVAL, "%s: %s: %s", path_end(r->path), what, strerror(reason));
}

static scion_status not_written(atomic_file *r, int reason, scion_error *err)
{
    return failed(r, r->replaces ? "not written, the earlier file is kept" : "not written", reason, err);
}

/* Temporary name in the same folder, freed by the caller; NULL: out of memory. */
static char *temporary_name(const char *name)
{
    const size_t bytes = strlen(name) + sizeof mark + 24;
    char *temporary = malloc(bytes);
    if (temporary)
        snprintf(temporary, bytes, "%s%s%ld", name, mark, (long)getpid());
    return temporary;
}

scion_status atomic_begin(atomic_file *r, int folder, const char *path, scion_error *err)
{
    struct stat about;
    const char *name = file_in(folder, path);
    const bool exists = fstatat(file_at(folder), name, &about, AT_SYMLINK_NOFOLLOW) == 0;
    *r = (atomic_file){path, folder, NULL, -1, exists};
    /* rename would replace even a device or a pipe. */
    if (exists && !S_ISREG(about.st_mode) && !S_ISLNK(about.st_mode))
        return train_fail(err, SCION_EINVAL, "%s: cannot be written: it exists and is not a file", path_end(path));
    r->temporary = temporary_name(name);
    if (!r->temporary)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    /* No O_EXCL: an earlier process with this number may have left its file here. */
    do
        r->fd = openat(file_at(folder), r->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    while (r->fd < 0 && errno == EINTR);
    if (r->fd < 0) {
        const int reason = errno;
        free(r->temporary); /* not ours to remove */
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
            return not_written(r, written < 0 ? errno : ENOSPC, err);
        at += written;
        bytes -= (size_t)written;
    }
    return SCION_OK;
}

scion_status atomic_write_at(atomic_file *r, size_t at, const void *data, size_t bytes, scion_error *err)
{
    if (lseek(r->fd, (off_t)at, SEEK_SET) < 0)
        return not_written(r, errno, err);
    return atomic_write(r, data, bytes, err);
}

/* Makes the rename durable. If a file system cannot flush a folder, the name still refers to a whole file, old or
 * new: no error. */
static void flush_folder(int folder, const char *path)
{
    if (folder >= 0)
        file_flush(folder);
    else
        file_flush_folder(path);
}

scion_status atomic_commit(atomic_file *r, scion_error *err)
{
    if (file_flush(r->fd) != 0)
        return not_written(r, errno, err);
    const int closed = close(r->fd), reason = errno;
    r->fd = -1;
    if (closed != 0 && reason != EINTR) /* Linux has closed it */
        return not_written(r, reason, err);
    if (renameat(file_at(r->folder), r->temporary, file_at(r->folder), file_in(r->folder, r->path)) != 0)
        return not_written(r, errno, err);
    flush_folder(r->folder, r->path);
    free(r->temporary);
    r->temporary = NULL;
    return SCION_OK;
}

scion_status atomic_save(int folder, const char *path, const void *data, size_t bytes, scion_error *err)
{
    atomic_file r;
    scion_status status;
    TRY(atomic_begin(&r, folder, path, err));
    TRY(atomic_write(&r, data, bytes, err));
    TRY(atomic_commit(&r, err));
done:
    return status;
}

scion_status atomic_print(const char *path, const char *text, scion_error *err)
{
    struct stat about;
    const bool output = strcmp(path, "-") == 0;
    const size_t length = strlen(text);
    if (!output && !(stat(path, &about) == 0 && !S_ISREG(about.st_mode)))
        return atomic_save(-1, path, text, length, err);
    FILE *to = output ? stdout : fopen(path, "we"); /* a device or a pipe cannot be replaced */
    bool written = to && fputs(text, to) >= 0;
    if (written && output && (length == 0 || text[length - 1] != '\n'))
        written = putchar('\n') != EOF;
    if (to && !output)
        written = fclose(to) == 0 && written;
    if (!written)
        return train_fail(err, SCION_EINVAL, "%s: cannot be written: %s", output ? "standard output" : path_end(path),
                          strerror(errno));
    return SCION_OK;
}

bool atomic_link(int folder, const char *from, const char *path)
{
    const int at = file_at(folder);
    const char *name = file_in(folder, path);
    char *temporary = temporary_name(name);
    if (!temporary)
        return false;
    unlinkat(at, temporary, 0); /* left by an earlier process with this number */
    bool done = linkat(at, file_in(folder, from), at, temporary, 0) == 0;
    if (done) {
        done = renameat(at, temporary, at, name) == 0;
        unlinkat(at, temporary, 0); /* still there if rename failed, or if path was this file already */
        flush_folder(folder, path);
    }
    free(temporary);
    return done;
}

/* Process number at the end of a temporary file's name, 0: not such a name. */
static long owner_of(const char *name)
{
    const char *at = NULL;
    for (const char *next = name; (next = strstr(next, mark)) != NULL; next++)
        at = next + sizeof mark - 1;
    if (!at || !isdigit((unsigned char)*at) || strspn(at, "0123456789") != strlen(at) || strlen(at) > 10)
        return 0;
    return strtol(at, NULL, 10);
}

void atomic_remove_stale(int folder, const char *path)
{
    DIR *list = file_list(folder, path);
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        const long owner = owner_of(entry->d_name);
        if (owner > 0 && (owner == (long)getpid() || (kill((pid_t)owner, 0) != 0 && errno == ESRCH)))
            unlinkat(dirfd(list), entry->d_name, 0);
    }
    if (list)
        closedir(list);
}
