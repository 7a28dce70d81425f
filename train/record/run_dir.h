/* The folder of a run: step-00000122.safetensors (the last few), best.safetensors, metrics.jsonl, summary.json,
 * mistakes.json. */
#ifndef TRAIN_RECORD_RUN_DIR_H
#define TRAIN_RECORD_RUN_DIR_H

#include "config/config.h"

enum { RUN_PATH = 512, RUN_FILE = 4096 };

/* Path of a file in a folder of a run. EINVAL: it is too long. */
scion_status run_dir_file(const char *dir, const char *name, char path[RUN_FILE], scion_error *err);

/* A folder, open and locked. All that a run writes goes into this open folder: one that takes its name afterwards is
 * not touched. */
typedef struct run_dir {
    char path[CONFIG_TEXT];
    int fd; /* -1: none; files then go by their path */
} run_dir;

/* Opens the folder, and keeps other processes out of it until it is closed or the process ends. EINVAL: another
 * process is in it, or it cannot be opened. Without locks in the file system nobody is kept out. */
scion_status run_dir_lock(run_dir *out, const char *path, scion_error *err);
/* The same for a new run: makes the folder (and those above it). A folder that already holds a run is refused. */
scion_status run_dir_create(run_dir *out, const char *path, scion_error *err);
void run_dir_close(run_dir *d);
/* Finds where the folder is now, if it was moved: true, and d->path is its new path. */
bool run_dir_moved(run_dir *d);
/* A name for a new run: base, or base-2, base-3, ... */
void run_dir_free_name(const char *base, char name[CONFIG_TEXT]);

/* The newest checkpoint of a run, or `path` itself if it is a file. EINVAL: there is none, or its folder's path is
 * longer than the setting `out` can be: nothing is cut. */
scion_status run_dir_latest(const char *path, char latest[RUN_PATH], scion_error *err);
/* best.safetensors if there is one, else the newest. */
scion_status run_dir_best(const char *path, char best[RUN_PATH], scion_error *err);
/* The newest step of which a folder has a checkpoint, -1: none. */
int64_t run_dir_newest(const run_dir *d);
/* Renames the checkpoints of later steps than `step` to NAME.aside: they belong to a run that this one replaces.
 * Returns their number. */
int run_dir_set_aside(const run_dir *d, int64_t step);
/* The folder that a checkpoint lies in, of a path by run_dir_latest. */
void run_dir_of(const char *checkpoint, char dir[CONFIG_TEXT]);

/* Paths of the checkpoint of a step and of best.safetensors. False: it is too long. */
void run_dir_step_path(const run_dir *d, int64_t step, char path[RUN_PATH]);
bool run_dir_best_path(const char *dir, char path[RUN_PATH]);
/* Makes the checkpoint of a step a hard link to best.safetensors; false: not possible. */
bool run_dir_link_best(const run_dir *d, int64_t step);
/* Removes all checkpoints before that of `step` but the newest keep - 1. */
void run_dir_prune(const run_dir *d, int64_t step, int64_t keep);

#endif
