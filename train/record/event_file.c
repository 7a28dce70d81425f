/* See event_file.h. */
#include "record/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/crc32c.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/path.h"

/* Bytes that are being made, by open_memstream. */
typedef struct message {
    FILE *to; /* NULL: out of memory */
    char *bytes;
    size_t count; /* known when it is ended */
} message;

struct event_file {
    int fd;
    char *folder, *path;
    message summary; /* of the event that was begun */
    int64_t step, values;
    double wall_time;
    bool used; /* an event beside the first was written */
};

static void begin(message *m)
{
    m->bytes = NULL;
    m->to = open_memstream(&m->bytes, &m->count);
}

/* False: out of memory. The caller frees the bytes. */
static bool end(message *m)
{
    const bool whole = m->to && !ferror(m->to);
    const bool closed = m->to && fclose(m->to) == 0;
    m->to = NULL;
    return whole && closed;
}

/* ---- Protocol buffers ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* types of fields */

static void put(FILE *to, const void *bytes, size_t count)
{
    if (to)
        fwrite(bytes, 1, count, to);
}

static void put_varint(FILE *to, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    put(to, bytes, n);
}

static void put_field(FILE *to, int number, int type)
{
    put_varint(to, (uint64_t)(number << 3 | type));
}

static void put_bytes(FILE *to, int number, const void *bytes, size_t count)
{
    put_field(to, number, BYTES);
    put_varint(to, count);
    put(to, bytes, count);
}

/* Numbers are little-endian, as the machine must be. */
static void put_place(FILE *to, double wall_time, int64_t step)
{
    put_field(to, 1, FIXED64);
    put(to, &wall_time, sizeof wall_time);
    if (step == 0) /* the default */
        return;
    put_field(to, 2, VARINT);
    put_varint(to, (uint64_t)step);
}

/* ---- Records ---- */

uint32_t event_checksum(const void *bytes, size_t count)
{
    const uint32_t crc = crc32c(bytes, count);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* Writes all bytes; of a record that does not fit on the disk nothing stays. Returns 0, or why it failed. */
static int write_whole(int fd, const char *bytes, size_t count)
{
    const off_t before = lseek(fd, 0, SEEK_END);
    size_t done = 0;
    int reason = 0;
    while (done < count && reason == 0) {
        const ssize_t written = write(fd, bytes + done, count - done);
        if (written > 0)
            done += (size_t)written;
        else if (written == 0 || errno != EINTR)
            reason = written < 0 ? errno : ENOSPC;
    }
    if (reason != 0 && before >= 0 && ftruncate(fd, before) != 0)
        return EIO;
    return reason;
}

/* Writes an event as a record, and frees it. */
static scion_status write_event(const event_file *f, message *event, scion_error *err)
{
    message record = {.to = NULL};
    int reason = ENOMEM;
    if (end(event)) {
        const uint64_t length = event->count;
        const uint32_t head = event_checksum(&length, sizeof length),
                       tail = event_checksum(event->bytes, event->count);
        begin(&record);
        put(record.to, &length, sizeof length);
        put(record.to, &head, sizeof head);
        put(record.to, event->bytes, event->count);
        put(record.to, &tail, sizeof tail);
        if (end(&record))
            reason = write_whole(f->fd, record.bytes, record.count);
    }
    free(event->bytes);
    free(record.bytes);
    return reason == 0 ? SCION_OK
                       : train_fail(err, reason == ENOMEM ? SCION_ENOMEM : SCION_EINVAL, "%s: cannot be written: %s",
                                    path_end(f->path), strerror(reason));
}

/* ---- Files ---- */

/* The first event says what file this is; one more, that a session starts after `step`. */
static scion_status write_start(const event_file *f, int64_t step, scion_error *err)
{
    static const char version[] = "brain.Event:2";
    static const uint8_t started[] = {1 << 3 | VARINT, 1}; /* status: START */
    const double now = (double)time(NULL);
    message event;
    begin(&event);
    put_place(event.to, now, 0);
    put_bytes(event.to, 3, version, sizeof version - 1);
    RETURN_IF_FAILED(write_event(f, &event, err));
    if (step == 0)
        return SCION_OK;
    begin(&event);
    put_place(event.to, now, step + 1);
    put_bytes(event.to, 7, started, sizeof started);
    return write_event(f, &event, err);
}

scion_status event_file_open(event_file **out, const char *folder, int64_t step, scion_error *err)
{
    event_file *f = *out = calloc(1, sizeof *f);
    char host[64] = "";
    scion_status status = SCION_OK;
    if (!f)
        return train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(folder));
    f->fd = -1;
    TRY(file_make_folder(folder, err));
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(host, sizeof host, "host");
    f->folder = strdup(folder);
    const size_t bytes = strlen(folder) + sizeof host + 80;
    f->path = malloc(bytes);
    if (!f->folder || !f->path)
        TRY(train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(folder)));
    for (int n = 0; f->fd < 0 && n < 1000; n++) { /* a test may open many in one second */
        snprintf(f->path, bytes, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder, (long long)time(NULL), host,
                 (long)getpid(), n);
        f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST)
            break;
    }
    if (f->fd < 0)
        TRY(train_fail(err, SCION_EINVAL, "%s: cannot be created: %s", path_end(f->path), strerror(errno)));
    TRY(write_start(f, step, err));
done:
    if (status != SCION_OK) {
        event_file_close(f);
        *out = NULL;
    }
    return status;
}

void event_file_close(event_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0) {
        file_flush(f->fd);
        close(f->fd);
        if (!f->used && unlink(f->path) == 0)
            rmdir(f->folder);
    }
    free(f->folder);
    free(f->path);
    free(f);
}

/* ---- Values ---- */

void event_file_begin(event_file *f, int64_t step, double wall_time)
{
    begin(&f->summary);
    f->step = step;
    f->wall_time = wall_time;
    f->values = 0;
}

void event_file_add(event_file *f, const char *key, const char *name, double value)
{
    enum { max_tag = 120 }; /* the length of a value is then one byte */
    const float number = (float)value;
    char tag[max_tag + 1];
    if (!isfinite(number))
        return;
    snprintf(tag, sizeof tag, "%s%s%s", key, name ? "/" : "", name ? name : "");
    const size_t length = strlen(tag);
    put_field(f->summary.to, 1, BYTES);
    put_varint(f->summary.to, 2 + length + 1 + sizeof number);
    put_bytes(f->summary.to, 1, tag, length);
    put_field(f->summary.to, 2, FIXED32);
    put(f->summary.to, &number, sizeof number);
    f->values++;
}

scion_status event_file_end(event_file *f, scion_error *err)
{
    message event = {.to = NULL};
    const bool made = end(&f->summary);
    scion_status status = SCION_OK;
    if (made && f->values > 0) {
        begin(&event);
        put_place(event.to, f->wall_time, f->step);
        put_bytes(event.to, 5, f->summary.bytes, f->summary.count);
        status = write_event(f, &event, err);
        f->used = f->used || status == SCION_OK;
    } else if (!made) {
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(f->path));
    }
    free(f->summary.bytes);
    f->summary.bytes = NULL;
    return status;
}
