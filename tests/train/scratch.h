/* Files for tests of what reads and writes files: a folder of its own for the program, gone when it ends.
 * A group of such tests is run with scratch_remove as its teardown. */
#ifndef SCION_TESTS_SCRATCH_H
#define SCION_TESTS_SCRATCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* nftw: include this file first */
#endif
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static char scratch_folder[1024];

/* Path of a file in the folder, in room. */
static inline char *scratch(const char *name)
{
    if (!scratch_folder[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(scratch_folder, sizeof scratch_folder, "%s/scion-test-XXXXXX", base && base[0] ? base : "/tmp");
        check(mkdtemp(scratch_folder) != NULL);
    }
    const size_t bytes = strlen(scratch_folder) + strlen(name) + 2;
    char *path = room(bytes);
    snprintf(path, bytes, "%s/%s", scratch_folder, name);
    return path;
}

/* A folder in it, and the path of a file in a folder. */
static inline char *scratch_dir(const char *name)
{
    char *path = scratch(name);
    mkdir(path, 0777);
    return path;
}

static inline char *scratch_in(const char *dir, const char *name)
{
    const size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = room(bytes);
    snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

static inline void scratch_put(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    check(file != NULL);
    check(bytes == 0 || fwrite(data, 1, bytes, file) == bytes);
    check(fclose(file) == 0);
}

static inline void scratch_text(const char *path, const char *text)
{
    scratch_put(path, text, strlen(text));
}

/* A whole file into room, with a 0 behind it. */
static inline char *scratch_get(const char *path, size_t *bytes)
{
    struct stat about;
    FILE *file = fopen(path, "rb");
    check(file != NULL && fstat(fileno(file), &about) == 0);
    char *data = room((size_t)about.st_size + 1);
    check(fread(data, 1, (size_t)about.st_size, file) == (size_t)about.st_size);
    fclose(file);
    if (bytes)
        *bytes = (size_t)about.st_size;
    return data;
}

/* Number of entries of a folder. */
static inline int scratch_count(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    check(open != NULL);
    for (struct dirent *entry; (entry = readdir(open)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

static inline int scratch_remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

/* rm -r. */
static inline void scratch_remove_tree(const char *path)
{
    nftw(path, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int scratch_remove(void **state)
{
    (void)state;
    if (scratch_folder[0])
        scratch_remove_tree(scratch_folder);
    return 0;
}

#endif
