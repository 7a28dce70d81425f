/* TensorBoard's event files: TFRecords, each with an Event as protocol buffer.
 *     record     uint64 bytes of the event, uint32 checksum of these 8 bytes, event, uint32 checksum of the event;
 *                little-endian; a checksum is CRC-32C, rotated right by 15 bits, + 0xa282ead8
 *     Event      1 wall_time (double), 2 step (varint), 3 file_version (string, in the first event), 5 summary,
 *                7 session_log
 *     Summary    1 value, any number of them: {1 tag (string), 2 simple_value (float)}
 * A record is one write: a killed run leaves whole records, and at most one torn at the end, which readers skip. */
#ifndef TRAIN_RECORD_EVENT_FILE_H
#define TRAIN_RECORD_EVENT_FILE_H

#include <stdint.h>

#include "scion.h"

typedef struct event_file event_file;

/* Makes `folder` and in it a new file events.out.tfevents.TIME.HOST.PID. step > 0: the run goes on after that step;
 * readers forget what files before this one have of later steps. On failure *out is NULL. */
scion_status event_file_open(event_file **out, const char *folder, int64_t step, scion_error *err);
/* Closes the file, and removes it and the folder if there is nothing in them. NULL is fine. */
void event_file_close(event_file *f);

/* Values of one step: begin, add, end. event_file_end writes the event, unless nothing was added. A name, if not
 * NULL, makes the tag KEY/NAME. Values that are not finite are left out. */
void event_file_begin(event_file *f, int64_t step, double wall_time);
void event_file_add(event_file *f, const char *key, const char *name, double value);
scion_status event_file_end(event_file *f, scion_error *err);

/* Masked checksum of a record's bytes. */
uint32_t event_checksum(const void *bytes, size_t count);

#endif
