/* The folder of a run: step-00000122.safetensors (the last few), best.safetensors, metrics.jsonl, summary.json,
 * mistakes.json. */
#ifndef TRAIN_RECORD_RUN_DIR_H
#define TRAIN_RECORD_RUN_DIR_H

#include "trainer/trainer.h"

enum { RUN_PATH = 512 };

/* Opens the folder, and keeps other processes out of it until *folder is closed or the process ends. All that a run
 * writes goes into this open folder (trainer.folder): one that takes its name afterwards is not touched. EINVAL:
 * another process is in it, or it cannot be opened. Where the file system knows no locks, all may enter. */
scion_status run_dir_lock(const char *dir, int *folder, scion_error *err);
/* The same for a new run: makes the folder (and those above it). A folder that already holds a run is refused. */
scion_status run_dir_create(const char *dir, int *folder, scion_error *err);
/* The path of the locked folder, if it is no longer t->c.run.out; false: it is, or the path is not known. */
bool run_dir_moved(const trainer *t, char dir[CONFIG_TEXT]);
/* A name for a new run: base, or base-2, base-3, ... */
void run_dir_free_name(const char *base, char name[CONFIG_TEXT]);

/* The newest checkpoint of a run, or `path` itself if it is a file. EINVAL: there is none, or its folder's path is
 * longer than the setting `out` can be: nothing is cut. */
scion_status run_dir_latest(const char *path, char latest[RUN_PATH], scion_error *err);
/* best.safetensors if there is one, else the newest. */
scion_status run_dir_best(const char *path, char best[RUN_PATH], scion_error *err);
/* The newest step of which a locked folder has a checkpoint, -1: none. */
int64_t run_dir_newest(int folder);
/* Renames the checkpoints of a locked folder of later steps than `step` to NAME.aside: they belong to a run that this
 * one replaces. Returns their number. */
int run_dir_set_aside(int folder, int64_t step);
/* The folder that a checkpoint lies in, of a path by run_dir_latest. */
void run_dir_of(const char *checkpoint, char dir[CONFIG_TEXT]);

/* Saves best.safetensors. */
scion_status run_dir_save_best(const trainer *t, scion_error *err);
/* Saves a checkpoint of the present step and removes all but the newest `keep` (at least one). is_best:
 * best.safetensors was saved after the same step, and a hard link to it is enough. */
scion_status run_dir_save(const trainer *t, int64_t keep, bool is_best, char path[RUN_PATH], scion_error *err);

#endif
