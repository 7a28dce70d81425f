/* Text files and folders of them, read into memory. */
#ifndef TRAIN_DATA_TEXT_FILES_H
#define TRAIN_DATA_TEXT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

typedef struct data_text_file {
    char *path;
    size_t start; /* of its bytes */
} data_text_file;

typedef struct data_texts {
    uint8_t *bytes; /* of all files, one after the other */
    size_t count, capacity;
    data_text_file *files;
    int64_t file_count;
    int64_t others; /* files of the folder that are no text */
    int64_t utf16;  /* files that were UTF-16 */
    int64_t json;   /* files that look like JSON Lines */
} data_texts;

/* Reads a text file or a folder of them, except the file or folder `except` (may be NULL). keep_mark: the byte order
 * mark of UTF-8 is a character. Free *t in any case. */
scion_status data_read_texts(data_texts *t, const char *path, const char *except, bool keep_mark, scion_error *err);
void data_free_texts(data_texts *t);
/* The file, line and byte, from 1, of a place in the texts. */
const char *data_text_place(const data_texts *t, size_t at, int64_t *line, size_t *byte);

#endif
