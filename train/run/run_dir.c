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

/* Step of a checkpoint's file name, or -1. */
static int64_t step_of(const char *name)
{
    long long step;
    int end = 0;
    return sscanf(name, "step-%lld.safetensors%n", &step, &end) == 1 && end > 0 && name[end] == '\0' ? step : -1;
}

/* The largest step below `below` of which dir has a checkpoint, or -1. */
static int64_t newest(const char *dir, int64_t below)
{
    int64_t found = -1;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        int64_t step = step_of(e->d_name);
        if (step > found && step < below)
            found = step;
    }
    if (d)
        closedir(d);
    return found;
}

static void step_path(const char *dir, int64_t step, char path[RUN_PATH])
{
    snprintf(path, RUN_PATH, "%s/step-%08lld.safetensors", dir, (long long)step);
}

static void best_path(const char *dir, char path[RUN_PATH])
{
    snprintf(path, RUN_PATH, "%s/best.safetensors", dir);
}

scion_status run_dir_create(const char *dir, scion_error *err)
{
    if (newest(dir, INT64_MAX) >= 0)
        return train_fail(err, SCION_EINVAL,
                          "%s already holds a run: scion resume %s continues it, another out=DIR starts a new one",
                          dir, dir);
    return file_make_folder(dir, err);
}

scion_status run_dir_lock(const char *dir, int *lock, scion_error *err)
{
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return SCION_OK;
    close(*lock);
    *lock = -1;
    return train_fail(err, SCION_EINVAL, "%s: another process is training in this folder", dir);
}

void run_dir_free_name(const char *base, char name[CONFIG_TEXT])
{
    snprintf(name, CONFIG_TEXT, "%s", base);
    for (int i = 2; file_exists(name) && i < 100000; i++)
        snprintf(name, CONFIG_TEXT, "%.*s-%d", CONFIG_TEXT - 16, base, i);
}

scion_status run_dir_latest(const char *path, char latest[RUN_PATH], scion_error *err)
{
    if (!file_is_folder(path)) {
        snprintf(latest, RUN_PATH, "%s", path);
        return file_exists(path) ? SCION_OK
                                 : train_fail(err, SCION_EINVAL, "%s: there is no such run or checkpoint", path);
    }
    const int64_t step = newest(path, INT64_MAX);
    if (step < 0)
        return train_fail(err, SCION_EINVAL, "%s: there is no checkpoint in this folder", path);
    step_path(path, step, latest);
    return SCION_OK;
}

scion_status run_dir_best(const char *path, char best[RUN_PATH], scion_error *err)
{
    best_path(path, best);
    return file_is_folder(path) && file_exists(best) ? SCION_OK : run_dir_latest(path, best, err);
}

int run_dir_set_aside(const char *dir, int64_t step)
{
    char path[RUN_PATH], aside[RUN_PATH + 8];
    int count = 0;
    for (int64_t later; (later = newest(dir, INT64_MAX)) > step; count++) {
        step_path(dir, later, path);
        snprintf(aside, sizeof aside, "%s.aside", path);
        if (rename(path, aside) != 0)
            break;
    }
    return count;
}

void run_dir_of(const char *checkpoint, char dir[CONFIG_TEXT])
{
    const char *slash = strrchr(checkpoint, '/');
    snprintf(dir, CONFIG_TEXT, "%.*s", slash ? (int)(slash - checkpoint) : 1, slash ? checkpoint : ".");
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
        step = newest(t->c.run.out, step);
        if (step >= 0 && kept >= (keep > 0 ? keep : 1)) {
            step_path(t->c.run.out, step, old);
            unlink(old);
        }
    }
    return status;
}
