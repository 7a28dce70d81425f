/* Text files, files of JSON Lines and folders of them, read into memory. */
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

/* A file, or a record of a file of JSON Lines. */
typedef struct data_document {
    size_t start, count; /* its bytes, of which there is at least one */
    int64_t file, line;  /* line of a record; 0: the document is the file */
} data_document;

/* The bytes of all documents, one after the other. Those of a record are followed by a line break, which belongs to
 * no document, unless they end in one. */
typedef struct data_texts {
    uint8_t *bytes;
    size_t count, capacity;
    data_text_file *files;
    data_document *documents;
    int64_t file_count, document_count;
    int64_t others; /* files of the folder that are no text */
    int64_t utf16;  /* files that were UTF-16 */
    int64_t json;   /* files that look like JSON Lines, but are not named so */
} data_texts;

/* How texts are read. */
typedef struct data_reading {
    const char *except; /* a file or folder that is left out; NULL, "": none */
    const char *field;  /* of the records in files named *.jsonl and *.ndjson; NULL, "": these are plain texts */
    bool keep_mark;     /* the byte order mark of UTF-8 is a character */
    bool skip_others;   /* a file that is no text, or has none in it, is no error, as in a folder */
} data_reading;

/* Reads a text file or a folder of them. Free *t in any case. */
scion_status data_read_texts(data_texts *t, const char *path, const data_reading *how, scion_error *err);
void data_free_texts(data_texts *t);
/* The file, line and byte, from 1, of a place in the texts; the byte of a record's text is counted from its start. */
const char *data_text_place(const data_texts *t, size_t at, int64_t *line, size_t *byte);

#endif
