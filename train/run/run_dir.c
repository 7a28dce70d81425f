/* See run_dir.h. */
#include "run/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/path.h"

/* Step of a checkpoint's file name, or -1. */
static int64_t step_of(const char *name)
{
    long long step;
    int end = 0;
    return sscanf(name, "step-%lld.safetensors%n", &step, &end) == 1 && end > 0 && name[end] == '\0' ? step : -1;
}

/* The largest step below `below` of which dir has a checkpoint, or -1. path, if not NULL: the checkpoint's, whose
 * name may have other zeros than ours; "" if it is too long. */
static int64_t newest(const char *dir, int64_t below, char path[RUN_PATH])
{
    int64_t found = -1;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        int64_t step = step_of(e->d_name);
        if (step <= found || step >= below)
            continue;
        found = step;
        if (path && snprintf(path, RUN_PATH, "%s/%s", dir, e->d_name) >= RUN_PATH)
            path[0] = '\0';
    }
    if (d)
        closedir(d);
    return found;
}

static void step_path(const char *dir, int64_t step, char path[RUN_PATH])
{
    snprintf(path, RUN_PATH, "%s/step-%08lld.safetensors", dir, (long long)step);
}

/* False: the path is too long. */
static bool best_path(const char *dir, char path[RUN_PATH])
{
    return snprintf(path, RUN_PATH, "%s/best.safetensors", dir) < RUN_PATH;
}

scion_status run_dir_create(const char *dir, scion_error *err)
{
    if (newest(dir, INT64_MAX, NULL) >= 0)
        return train_fail(err, SCION_EINVAL,
                          "%s already holds a run: scion resume %s continues it, another out=DIR starts a new one",
                          dir, dir);
    return file_make_folder(dir, err);
}

scion_status run_dir_lock(const char *dir, int *lock, scion_error *err)
{
    int result;
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return train_fail(err, SCION_EINVAL, "%s: cannot be locked against other processes: %s", path_end(dir),
                          strerror(errno));
    do
        result = flock(*lock, LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result == 0 || errno != EWOULDBLOCK)
        return SCION_OK;
    close(*lock);
    *lock = -1;
    return train_fail(err, SCION_EINVAL, "%s: another process is training in this folder", path_end(dir));
}

void run_dir_free_name(const char *base, char name[CONFIG_TEXT])
{
    snprintf(name, CONFIG_TEXT, "%s", base);
    for (int i = 2; file_exists(name) && i < 100000; i++)
        snprintf(name, CONFIG_TEXT, "%.*s-%d", CONFIG_TEXT - 16, base, i);
}

static scion_status too_long(const char *path, int most, scion_error *err)
{
    return train_fail(err, SCION_EINVAL, "%s: the path is too long, expected at most %d bytes (cd nearer to it)",
                      path_end(path), most);
}

static scion_status find_latest(const char *path, char latest[RUN_PATH], scion_error *err)
{
    if (!file_is_folder(path)) {
        if (!file_exists(path))
            return train_fail(err, SCION_EINVAL, "%s: there is no such run or checkpoint", path_end(path));
        return snprintf(latest, RUN_PATH, "%s", path) < RUN_PATH ? SCION_OK : too_long(path, RUN_PATH - 1, err);
    }
    if (newest(path, INT64_MAX, latest) < 0)
        return train_fail(err, SCION_EINVAL, "%s: there is no checkpoint in this folder", path_end(path));
    return latest[0] ? SCION_OK : too_long(path, RUN_PATH - 1, err);
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
    return file_is_folder(path) && best_path(path, best) && file_exists(best) ? SCION_OK
                                                                              : find_latest(path, best, err);
}

int run_dir_set_aside(const char *dir, int64_t step)
{
    char path[RUN_PATH], aside[RUN_PATH + 8];
    int count = 0;
    for (; newest(dir, INT64_MAX, path) > step; count++) {
        snprintf(aside, sizeof aside, "%s.aside", path);
        if (rename(path, aside) != 0)
            break;
    }
    return count;
}

void run_dir_of(const char *checkpoint, char dir[CONFIG_TEXT])
{
    const size_t length = folder_length(checkpoint);
    snprintf(dir, CONFIG_TEXT, "%.*s", length > 0 ? (int)length : 1, length > 0 ? checkpoint : ".");
}

scion_status run_dir_save_best(const trainer *t, scion_error *err)
{
    char path[RUN_PATH];
    best_path(t->c.run.out, path);
    return trainer_save(t, path, err);
}

scion_status run_dir_save(const trainer *t, int64_t keep, bool is_best, char path[RUN_PATH], scion_error *err)
{
    char best[RUN_PATH], old[RUN_PATH];
    best_path(t->c.run.out, best);
    step_path(t->c.run.out, t->step, path);
    scion_status status = is_best && atomic_link(best, path) ? SCION_OK : trainer_save(t, path, err);
    int64_t step = t->step;
    for (int64_t kept = 1; status == SCION_OK && step >= 0; kept++) {
        step = newest(t->c.run.out, step, old);
        if (step >= 0 && kept >= (keep > 0 ? keep : 1))
            unlink(old);
    }
    return status;
}
