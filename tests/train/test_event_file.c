/* Event files of TensorBoard: checksums and bytes against known values, whole records whatever happens. */
#include "scratch.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "record/event_file.h"
#include "util/crc32c.h"

/* RFC 3720, B.4, and the usual check value. */
static void checksums_are_those_of_the_standard(void **state)
{
    uint8_t bytes[32];
    (void)state;
    assert_int_equal(crc32c("", 0), 0);
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x46dd794e);
    /* Every event file of TensorFlow begins with a record of 24 bytes. */
    assert_int_equal(event_checksum(&(uint64_t){24}, 8), 0x224b7fa3);
}

/* Path of the only file in a folder. */
static char *only_file(const char *folder)
{
    char *path = NULL;
    DIR *list = opendir(folder);
    check(list != NULL);
    for (struct dirent *e; (e = readdir(list)) != NULL;)
        if (e->d_name[0] != '.') {
            check(path == NULL && strncmp(e->d_name, "events.out.tfevents.", 20) == 0);
            path = scratch_in(folder, e->d_name);
        }
    closedir(list);
    check(path != NULL);
    return path;
}

/* Checks length and checksums of the record at *at and steps over it. Returns its event; *bytes: its length. */
static const uint8_t *next_record(const uint8_t *file, size_t size, size_t *at, uint64_t *bytes)
{
    uint32_t head, tail;
    check(*at + 12 <= size);
    memcpy(bytes, file + *at, 8);
    memcpy(&head, file + *at + 8, 4);
    assert_int_equal(head, event_checksum(file + *at, 8));
    const uint8_t *event = file + *at + 12;
    check(*bytes <= size && *at + 16 + *bytes <= size);
    memcpy(&tail, event + *bytes, 4);
    assert_int_equal(tail, event_checksum(event, *bytes));
    *at += 16 + *bytes;
    return event;
}

static void write_some(event_file *f)
{
    scion_error err;
    event_file_begin(f, 300, 1.5);
    event_file_add(f, "loss", NULL, 2.5);
    event_file_add(f, "lr", NULL, NAN); /* left out */
    event_file_add(f, "val_loss", NULL, INFINITY);
    event_file_add(f, "norm", "head", 10);
    check_ok(event_file_end(f, &err), &err);
    event_file_begin(f, 301, 2);
    event_file_add(f, "loss", NULL, NAN);
    check_ok(event_file_end(f, &err), &err); /* nothing */
}

/* The bytes that TensorFlow's protocol buffers have for this event, and its record. */
static const uint8_t expected[] = {
    0x2d, 0,   0,    0,    0,    0,    0,    0,    0x3c, 0x41, 0x8a, 0xfb, 0x09, 0,    0,   0,
    0,    0,   0,    0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 0x1f, 0x0a, 0x0b, 0x0a, 0x04, 'l', 'o',
    's',  's', 0x15, 0,    0,    0x20, 0x40, 0x0a, 0x10, 0x0a, 0x09, 'n',  'o',  'r',  'm', '/',
    'h',  'e', 'a',  'd',  0x15, 0,    0,    0x20, 0x41, 0x2d, 0x92, 0x86, 0x48,
};

static void events_have_their_known_bytes(void **state)
{
    const char *folder = scratch("new/run");
    event_file *f = NULL;
    scion_error err;
    size_t size, at = 0;
    uint64_t bytes;
    (void)state;
    check_ok(event_file_open(&f, folder, 0, &err), &err);
    write_some(f);
    event_file_close(f);
    const uint8_t *file = (const uint8_t *)scratch_get(only_file(folder), &size);
    const uint8_t *first = next_record(file, size, &at, &bytes);
    assert_int_equal(bytes, 24);
    check(first[0] == 0x09); /* wall_time */
    check_bits(15, first + 9,
               "\x1a\x0d"
               "brain.Event:2");
    check(size - at == sizeof expected);
    check_bits(sizeof expected, file + at, expected);
}

/* A run that goes on says so: readers forget the steps behind its checkpoint. */
static void a_resumed_run_starts_a_session(void **state)
{
    const char *folder = scratch("resumed");
    event_file *f = NULL;
    scion_error err;
    size_t size, at = 0;
    uint64_t bytes;
    (void)state;
    check_ok(event_file_open(&f, folder, 20, &err), &err);
    write_some(f);
    event_file_close(f);
    const uint8_t *file = (const uint8_t *)scratch_get(only_file(folder), &size);
    next_record(file, size, &at, &bytes);
    const uint8_t *event = next_record(file, size, &at, &bytes);
    assert_int_equal(bytes, 15);
    check_bits(6, event + 9, "\x10\x15\x3a\x02\x08\x01"); /* step 21, session_log: START */
    check(size - at == sizeof expected);
    check_ok(event_file_open(&f, folder, 30, &err), &err); /* another file, in the same second too */
    write_some(f);
    event_file_close(f);
    check(scratch_count(folder) == 2);
}

static void nothing_measured_leaves_nothing(void **state)
{
    const char *folder = scratch("unused");
    event_file *f = NULL;
    scion_error err;
    (void)state;
    check_ok(event_file_open(&f, folder, 0, &err), &err);
    event_file_close(f);
    check(access(folder, F_OK) != 0);
    event_file_close(NULL);
}

static void a_full_disk_keeps_whole_records(void **state)
{
    const char *folder = scratch("full");
    struct rlimit before, limit;
    event_file *f = NULL;
    scion_error err = {0};
    size_t size, after, at = 0;
    uint64_t bytes;
    (void)state;
    check_ok(event_file_open(&f, folder, 0, &err), &err);
    write_some(f);
    const char *path = only_file(folder);
    scratch_get(path, &size);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){size + 30, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    event_file_begin(f, 302, 3);
    event_file_add(f, "loss", NULL, 1);
    const scion_status status = event_file_end(f, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    check_status(status, SCION_EINVAL, &err);
    check(strstr(err.message, ": cannot be written: ") != NULL);
    write_some(f); /* there is room again */
    event_file_close(f);
    const uint8_t *file = (const uint8_t *)scratch_get(path, &after);
    assert_int_equal(after, size + sizeof expected);
    while (at < after)
        next_record(file, after, &at, &bytes);
}

static void folders_that_cannot_be_made(void **state)
{
    event_file *f = NULL;
    scion_error err = {0};
    (void)state;
    scratch_text(scratch("file"), "not a folder");
    check(event_file_open(&f, scratch("file/run"), 0, &err) != SCION_OK && f == NULL);
    check(strstr(err.message, "file") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(checksums_are_those_of_the_standard), LAW(events_have_their_known_bytes),
        LAW(a_resumed_run_starts_a_session),      LAW(nothing_measured_leaves_nothing),
        LAW(a_full_disk_keeps_whole_records),     LAW(folders_that_cannot_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
