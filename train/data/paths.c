/* See paths.h. */
#define _DEFAULT_SOURCE 1 /* DT_DIR */
#include "data/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/array.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/number.h"
#include "util/path.h"

bool data_path(char path[data_path_bytes], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(path, data_path_bytes, format, args);
    va_end(args);
    return length >= 0 && length < data_path_bytes;
}

scion_status data_fail(scion_error *err, scion_status status, const char *path, const char *format, ...)
{
    enum { max_sentence = 120 };
    char sentence[max_sentence];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return train_fail(err, status, "%s: %s", path_tail(path, sizeof err->message - max_sentence - 2), sentence);
}

scion_status data_add_name(data_names *n, const char *name, scion_error *err)
{
    char *kept = strdup(name), **to = kept ? array_append(&n->name, &n->count, sizeof *to) : NULL;
    if (!to) {
        free(kept);
        return train_fail(err, SCION_ENOMEM, "out of memory for the names of files");
    }
    *to = kept;
    return SCION_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void data_sort_names(data_names *n)
{
    if (n->count > 0)
        qsort(n->name, (size_t)n->count, sizeof *n->name, by_bytes);
}

void data_free_names(data_names *n)
{
    for (int64_t i = 0; i < n->count; i++)
        free(n->name[i]);
    free(n->name);
    *n = (data_names){NULL, 0};
}

data_file_kind data_kind_of_file(const char *name, const char **end)
{
    static const char *const ends[] = {".png",  ".jpg", ".jpeg", ".gif",  ".webp", ".bmp",
                                       ".tiff", ".tif", ".heic", ".heif", ".avif", ".jxl"};
    enum { readable = 3, count = sizeof ends / sizeof *ends };
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < count; i++)
        if (strcasecmp(dot, ends[i]) == 0) {
            if (end)
                *end = ends[i];
            return i < readable ? DATA_IMAGE : DATA_OTHER_IMAGE;
        }
    return DATA_NO_IMAGE;
}

/* Raises the limit of open files, which many shards may exceed. */
static bool allow_more_files(void)
{
    struct rlimit limit;
    if (errno != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* True for an errno that says nothing about the file: the same call may succeed later. */
static bool may_pass(int reason)
{
    static const int reasons[] = {EIO,       ESTALE,   EAGAIN,    EBUSY,       ETIMEDOUT,   ENOLCK,
                                  EHOSTDOWN, ENETDOWN, EREMOTEIO, ENOTCONN,    ECONNRESET,  EHOSTUNREACH,
                                  EMFILE,    ENFILE,   ENOMEM,    ENETUNREACH, ECONNABORTED};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reason == reasons[i])
            return true;
    return false;
}

/* After a call that failed by errno: true if it is worth another try. Waits before it, longer each time. */
static bool try_again(int *tries)
{
    static const long wait[] = {10, 100, 900}; /* milliseconds */
    const int reason = errno;
    if (reason == EINTR)
        return true;
    if (!may_pass(reason) || *tries >= (int)(sizeof wait / sizeof *wait))
        return false;
    nanosleep(&(struct timespec){.tv_nsec = wait[(*tries)++] * 1000000}, NULL);
    errno = reason;
    return true;
}

static scion_status fail_by_errno(scion_error *err, const char *path, const char *what)
{
    const int reason = errno;
    return data_fail(err, may_pass(reason) ? DATA_EPASSING : SCION_EINVAL, path, "%s: %s", what, strerror(reason));
}

scion_status data_open_file(const char *path, int *file, int64_t *bytes, scion_error *err)
{
    const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK; /* a pipe is refused below, not waited for */
    struct stat s;
    int tries = 0;
    do
        *file = open(path, flags);
    while (*file < 0 && (allow_more_files() || try_again(&tries)));
    if (*file < 0)
        return fail_by_errno(err, path, "cannot open");
    if (fstat(*file, &s) != 0) {
        const scion_status status = fail_by_errno(err, path, "cannot open");
        close(*file);
        return status;
    }
    const bool regular = S_ISREG(s.st_mode);
    *bytes = s.st_size;
    if (regular && s.st_size > 0)
        return SCION_OK;
    close(*file);
    return data_fail(err, SCION_EINVAL, path, regular ? "the file is empty" : "not a regular file");
}

scion_status data_read_at(int file, const char *path, int64_t offset, void *to, size_t n, scion_error *err)
{
    int tries = 0;
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(file, (char *)to + done, n - done, (off_t)offset + (off_t)done);
        if (got < 0 && try_again(&tries))
            continue;
        if (got < 0)
            return fail_by_errno(err, path, "cannot read");
        if (got == 0)
            return data_fail(err, SCION_EINVAL, path, "it ends before byte %lld now: it was cut off while in use",
                             (long long)offset + (long long)n);
        done += (size_t)got;
    }
    return SCION_OK;
}

scion_status data_read_file(const char *path, uint8_t **bytes, int64_t *count, scion_error *err)
{
    char text[NUMBER_BYTES_TEXT];
    int file;
    *bytes = NULL;
    RETURN_IF_FAILED(data_open_file(path, &file, count, err));
    *bytes = malloc((size_t)*count);
    const scion_status status =
        *bytes ? data_read_at(file, path, 0, *bytes, (size_t)*count, err)
               : data_fail(err, SCION_ENOMEM, path, "out of memory for %s", number_bytes((double)*count, text));
    close(file);
    if (status != SCION_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}

scion_status data_open_gzip(const char *path, gzFile *file, int64_t *bytes, scion_error *err)
{
    int own;
    RETURN_IF_FAILED(data_open_file(path, &own, bytes, err));
    *file = gzdopen(own, "rb"); /* gzclose closes it */
    if (*file)
        return SCION_OK;
    close(own);
    return data_fail(err, SCION_ENOMEM, path, "out of memory to read it");
}

/* True for a folder; links to folders count if they are followed. */
static bool is_folder(const char *path, const struct dirent *e, bool follow)
{
    struct stat s;
    if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
        return e->d_type == DT_DIR;
    return (follow ? stat(path, &s) : lstat(path, &s)) == 0 && S_ISDIR(s.st_mode);
}

scion_status data_list(const char *root, const char *inside, const char *except, data_names *files,
                       data_names *folders, scion_error *err)
{
    char at[data_path_bytes];
    scion_status status = SCION_OK;
    if (!data_path(at, "%s/%s", root, inside))
        return data_fail(err, SCION_EINVAL, root, "the path of a folder in it is too long");
    DIR *d;
    int tries = 0;
    do
        d = opendir(at);
    while (!d && try_again(&tries));
    if (!d)
        return fail_by_errno(err, at, "cannot open");
    for (const struct dirent *e; status == SCION_OK && (e = readdir(d)) != NULL;) {
        char path[data_path_bytes], name[data_path_bytes];
        if (e->d_name[0] == '.')
            continue;
        if (!data_path(path, "%s/%s", at, e->d_name) ||
            !data_path(name, "%s%s%s", inside, inside[0] ? "/" : "", e->d_name))
            status = data_fail(err, SCION_EINVAL, at, "the path of a file in it is too long");
        else if (except && except[0] && file_same(path, except))
            continue;
        else if (!is_folder(path, e, folders != NULL))
            status = data_add_name(files, name, err);
        else if (folders)
            status = data_add_name(folders, name, err);
        else
            status = data_list(root, name, except, files, NULL, err);
    }
    closedir(d);
    return status;
}
