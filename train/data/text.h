/* Text as streams of tokens, of which samples are windows. */
#ifndef TRAIN_DATA_TEXT_H
#define TRAIN_DATA_TEXT_H

#include "data/data_kind.h"

/* Tokens of 1, 2 or 4 bytes each, in memory or in a file. A file is read when a sample is asked for, and not mapped:
 * a file that shrinks meanwhile is an error and not a signal. */
typedef struct data_segment {
    const void *tokens; /* NULL: in a file */
    int width;
    int64_t count;
    int file;
    int64_t offset; /* in bytes */
    const char *path;
    int64_t start; /* in the stream; set by data_add_segment, as is next */
    struct data_segment *next;
} data_segment;

/* Segments one after another. */
typedef struct data_stream {
    data_segment *first, *last;
    int64_t count, total; /* segments, tokens */
} data_stream;

/* The state of a kind of text starts with this. */
typedef struct data_text {
    data_stream streams[DATA_PARTS];
    int64_t block;
} data_text;

/* Reads tokens [first, first + count) of a segment; tokens from `range` on are an error. */
scion_status data_read_tokens(const data_segment *s, int64_t range, int64_t first, int64_t count, int32_t *to,
                              scion_error *err);
/* Bytes of a token below `range`. */
int data_token_width(int64_t range);
void data_put_token(void *tokens, int width, int64_t i, uint32_t token);
/* Adds a copy of a segment to a part (to the validation part if the set is whole). */
scion_status data_add_segment(data_set *d, data_part part, const data_segment *s, scion_error *err);
/* Divides a segment in memory into both parts: its last val_fraction is for validation. */
scion_status data_split(data_set *d, const data_segment *all, scion_error *err);
/* Describes the validation part of such a split. */
void data_describe_split(data_set *d, const char *name);
/* Describes the text, whose own tokens are below `symbols`; `drawn`: training windows at random places. */
scion_status data_text_ready(data_set *d, int64_t symbols, bool drawn, scion_error *err);

#endif
