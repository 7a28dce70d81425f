/* See run_dir.h. */
#include "record/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"

scion_status run_dir_file(const char *dir, const char *name, char path[RUN_FILE], scion_error *err)
{
    return snprintf(path, RUN_FILE, "%s/%s", dir, name) < RUN_FILE
               ? SCION_OK
               : train_fail(err, SCION_EINVAL, "%s: the path is too long", path_end(dir));
}

/* Step of a checkpoint's file name, or -1. */
static int64_t step_of(const char *name)
{
    long long step;
    int end = 0;
    return sscanf(name, "step-%lld.safetensors%n", &step, &end) == 1 && end > 0 && name[end] == '\0' ? step : -1;
}

/* The largest step below `below` of which a folder, open or by its path, has a checkpoint, or -1. name, if not NULL:
 * that of the checkpoint, which may have other zeros than ours. */
static int64_t newest(int folder, const char *dir, int64_t below, char name[NAME_MAX + 1])
{
    int64_t found = -1;
    DIR *list = file_list(folder, dir);
    for (struct dirent *e; list && (e = readdir(list)) != NULL;) {
        int64_t step = step_of(e->d_name);
        if (step <= found || step >= below)
            continue;
        found = step;
        if (name)
            snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    }
    if (list)
        closedir(list);
    return found;
}

bool run_dir_best_path(const char *dir, char path[RUN_PATH])
{
    return snprintf(path, RUN_PATH, "%s/best.safetensors", dir) < RUN_PATH;
}

static scion_status check_unused(int folder, const char *dir, scion_error *err)
{
    if (newest(folder, dir, INT64_MAX, NULL) < 0)
        return SCION_OK;
    return train_fail(err, SCION_EINVAL,
                      "%s already holds a run: scion resume %s continues it, another out=DIR starts a new one", dir,
                      dir);
}

/* True if the path leads to the open folder. */
static bool leads_to(const char *dir, int folder)
{
    struct stat there, here;
    return stat(dir, &there) == 0 && fstat(folder, &here) == 0 && there.st_dev == here.st_dev &&
           there.st_ino == here.st_ino;
}

scion_status run_dir_lock(run_dir *out, const char *path, scion_error *err)
{
    int result;
    snprintf(out->path, sizeof out->path, "%s", path);
    out->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->fd < 0)
        return train_fail(err, SCION_EINVAL, "%s: cannot be locked against other processes: %s", path_end(path),
                          strerror(errno));
    do
        result = flock(out->fd, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    const bool other = result != 0 && errno == EWOULDBLOCK;
    if (!other && leads_to(path, out->fd))
        return SCION_OK;
    run_dir_close(out);
    return train_fail(err, SCION_EINVAL, "%s: %s", path_end(path),
                      other ? "another process is training in this folder"
                            : "the folder was removed or replaced meanwhile");
}

scion_status run_dir_create(run_dir *out, const char *path, scion_error *err)
{
    scion_status status = SCION_OK;
    out->fd = -1;
    TRY(check_unused(-1, path, err));
    TRY(file_make_folder(path, err));
    TRY(run_dir_lock(out, path, err));
    TRY(check_unused(out->fd, path, err)); /* another process may have been in it until now */
done:
    if (status != SCION_OK)
        run_dir_close(out);
    return status;
}

void run_dir_close(run_dir *d)
{
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

bool run_dir_moved(run_dir *d)
{
    char link[64], now[CONFIG_TEXT];
    if (d->fd < 0 || file_folder_gone(d->fd) || leads_to(d->path, d->fd))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", d->fd);
    const ssize_t length = readlink(link, now, sizeof now);
    if (length < 1 || length >= CONFIG_TEXT)
        return false;
    now[length] = '\0';
    if (!leads_to(now, d->fd))
        return false;
    memcpy(d->path, now, (size_t)length + 1);
    return true;
}

void run_dir_free_name(const char *base, char name[CONFIG_TEXT])
{
    snprintf(name, CONFIG_TEXT, "%s", base);
    for (int i = 2; file_exists(name) && i < 100000; i++)
        snprintf(name, CONFIG_TEXT, "%.*s-%d", CONFIG_TEXT - 16, base, i);
}

static scion_status too_long(const char *path, int max, scion_error *err)
{
    return train_fail(err, SCION_EINVAL, "%s: the path is too long, expected at most %d bytes (cd nearer to it)",
                      path_end(path), max);
}

static scion_status find_latest(const char *path, char latest[RUN_PATH], scion_error *err)
{
    const bool folder = file_is_folder(path);
    char name[NAME_MAX + 1] = "";
    if (!folder && !file_exists(path))
        return train_fail(err, SCION_EINVAL, "%s: there is no such run or checkpoint", path_end(path));
    if (folder && newest(-1, path, INT64_MAX, name) < 0)
        return train_fail(err, SCION_EINVAL, "%s: there is no checkpoint in this folder", path_end(path));
    const int length = snprintf(latest, RUN_PATH, "%s%s%s", path, folder ? "/" : "", name);
    return length < RUN_PATH ? SCION_OK : too_long(path, RUN_PATH - 1, err);
}

/* Length of the folder's part of a path. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
}

scion_status run_dir_latest(const char *path, char latest[RUN_PATH], scion_error *err)
{
    const scion_status status = find_latest(path, latest, err);
    return status == SCION_OK && folder_length(latest) >= CONFIG_TEXT ? too_long(path, CONFIG_TEXT - 1, err) : status;
}

scion_status run_dir_best(const char *path, char best[RUN_PATH], scion_error *err)
{
    return file_is_folder(path) && run_dir_best_path(path, best) && file_exists(best) ? SCION_OK
                                                                                      : find_latest(path, best, err);
}

int64_t run_dir_newest(const run_dir *d)
{
    return newest(d->fd, d->path, INT64_MAX, NULL);
}

int run_dir_set_aside(const run_dir *d, int64_t step)
{
    char name[NAME_MAX + 1], aside[NAME_MAX + 8];
    int count = 0;
    for (; newest(d->fd, d->path, INT64_MAX, name) > step; count++) {
        snprintf(aside, sizeof aside, "%s.aside", name);
        if (renameat(d->fd, name, d->fd, aside) != 0)
            break;
    }
    return count;
}

void run_dir_of(const char *checkpoint, char dir[CONFIG_TEXT])
{
    const size_t length = folder_length(checkpoint);
    snprintf(dir, CONFIG_TEXT, "%.*s", length > 0 ? (int)length : 1, length > 0 ? checkpoint : ".");
}

void run_dir_step_path(const run_dir *d, int64_t step, char path[RUN_PATH])
{
    snprintf(path, RUN_PATH, "%s/step-%08lld.safetensors", d->path, (long long)step);
}

bool run_dir_link_best(const run_dir *d, int64_t step)
{
    char best[RUN_PATH], path[RUN_PATH];
    run_dir_best_path(d->path, best);
    run_dir_step_path(d, step, path);
    return atomic_link(d->fd, best, path);
}

void run_dir_prune(const run_dir *d, int64_t step, int64_t keep)
{
    char name[NAME_MAX + 1], path[RUN_PATH];
    for (int64_t kept = 1; (step = newest(d->fd, d->path, step, name)) >= 0; kept++)
        if (kept >= keep && snprintf(path, sizeof path, "%s/%s", d->path, name) < RUN_PATH)
            unlinkat(file_at(d->fd), file_in(d->fd, path), 0);
}
