/* Data sets that are known by name. `scion data get NAME` fetches one (tools/get-data has the addresses and
 * checksums); data=NAME then means it, unless there is a file or folder of that name.
 *
 * A set is kept in $XDG_DATA_HOME/scion/NAME (~/.local/share/scion/NAME). Its source.txt has a line that says where
 * it came from, then a line "BYTES NAME" for each file. */
#ifndef TRAIN_DATA_CATALOGUE_H
#define TRAIN_DATA_CATALOGUE_H

#include <stdbool.h>

#include "util/option.h"

typedef struct catalogue_set {
    const char *name, *about, *licence;
    const char *data; /* the file or folder in its folder that data=NAME means; "": the folder */
    int64_t bytes;    /* from its first source */
} catalogue_set;

/* The table; ended by a row without a name. */
extern const catalogue_set catalogue[];
const catalogue_set *catalogue_find(const char *name);

enum { CATALOGUE_PATH = 512, CATALOGUE_SOURCE = 160 };

/* The folder of a set, whether or not it exists; NULL: that of all sets. False: the environment has neither
 * XDG_DATA_HOME nor HOME. */
bool catalogue_folder(const catalogue_set *s, char path[CATALOGUE_PATH]);

/* A set on this machine. */
typedef struct catalogue_copy {
    char source[CATALOGUE_SOURCE]; /* where it came from */
    int64_t bytes;
} catalogue_copy;

/* False: the set is not here, or a file is missing or has another size. copy may be NULL. */
bool catalogue_here(const catalogue_set *s, catalogue_copy *copy);

/* The script that fetches sets: SCION_GET_DATA in the environment, or where presets are, too. False: not found. */
bool catalogue_script(char path[CATALOGUE_PATH]);

/* Path that data=TEXT means: TEXT, or that of the set of this name if there is no such file. Fails if the set is not
 * here. path may be text. */
scion_status catalogue_path(const char *text, char path[OPTION_TEXT], scion_error *err);

#endif
