/* Paths, names and files of data. */
#ifndef TRAIN_DATA_PATHS_H
#define TRAIN_DATA_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "scion.h"

/* Makes a path by a format. False: it does not fit. */
enum { data_path_bytes = 1024 };
bool data_path(char path[data_path_bytes], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "file: sentence", where the sentence stays whole however long the path is. Returns status. */
scion_status data_fail(scion_error *err, scion_status status, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A list of names. All zero: empty. Free it in any case. */
typedef struct data_names {
    char **name;
    int64_t count;
} data_names;

scion_status data_add_name(data_names *n, const char *name, scion_error *err);
void data_sort_names(data_names *n); /* as bytes */
void data_free_names(data_names *n);

/* Status of a failure that is not the file's and may pass: no more files can be opened, a disk or a server does not
 * answer, though it was asked several times within a second. A run ends there and can be resumed: with another image
 * in its place it would become another run. */
#define DATA_EPASSING SCION_ESTATE

/* Kinds of files, by the ends of their names. */
typedef enum data_file_kind { DATA_NO_IMAGE, DATA_IMAGE, DATA_OTHER_IMAGE } data_file_kind;
/* DATA_IMAGE: .png, .jpg, .jpeg. DATA_OTHER_IMAGE: an image in a format that is not read; *end (may be NULL) is the
 * usual end of its names. */
data_file_kind data_kind_of_file(const char *name, const char **end);

/* Opens a file to read; an empty file, or one that is not regular, is an error. */
scion_status data_open_file(const char *path, int *file, int64_t *bytes, scion_error *err);
/* Reads exactly n bytes from an offset; a file that has become shorter is an error. */
scion_status data_read_at(int file, const char *path, int64_t offset, void *to, size_t n, scion_error *err);
/* Reads a whole file; the caller frees *bytes, which is NULL after an error. */
scion_status data_read_file(const char *path, uint8_t **bytes, int64_t *count, scion_error *err);
/* Opens a file for gzread, which unpacks gzip and gives other files as they are. *bytes: its size on the disk. */
scion_status data_open_gzip(const char *path, gzFile *file, int64_t *bytes, scion_error *err);

/* Adds the files in root/inside ("": the root) and in its folders, with paths relative to the root, except hidden
 * ones and the file or folder `except` (NULL, "": none). Links to folders are files: they may lead back. With
 * `folders`, the folders in root/inside, and links to them, are added there and not entered. */
scion_status data_list(const char *root, const char *inside, const char *except, data_names *files,
                       data_names *folders, scion_error *err);

#endif
