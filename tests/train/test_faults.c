/* Disks that fail. A short run with checkpoints is trained in a folder of its own, while the system calls that change
 * files are this program's:
 *
 * 1. Faults. Each call in turn fails (the disk is full, broken), does a part of its work, or is interrupted. Whatever
 *    happened, the folder has a whole checkpoint from the last save that was reported on, and the run that is resumed
 *    from it ends with the weights of one that met no fault.
 *
 * 2. Power failures. The calls of a run are recorded, and played to a model of a disk, which keeps for certain only
 *    what was flushed: the data of a file by fsync of the file, names by fsync of the folder. The power fails after
 *    each call: with all calls before it on the disk; with none that was not flushed; and with each of those dropped
 *    singly. The same must hold of each folder that remains. */
#define _GNU_SOURCE 1
#include "scratch.h"
#include "tiny.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "data_files.h"
#include "run/metrics_sink.h"
#include "trainer_tests.h"

#define RUN "model=mlp layers=2 width=4 batch=2 steps=4 norms=image threads=1 "
#define SAVES "log_every=1 eval_every=2 eval_batches=1 save_every=1 keep=1"

/* ---- The calls ------------------------------------------------------------------------------------------------ */

typedef enum call { WRITE, FSYNC, RENAME, CLOSE, UNLINK, TRUNCATE, LINK, CREATE, calls } call;
static const char *const call_names[] = {"write", "fsync", "rename", "close", "unlink", "ftruncate", "link", "open"};

enum { A_PART = -1 }; /* in the place of an errno: half of a write */

static bool armed;                  /* only while the run goes on */
static run_dir folder = {.fd = -1}; /* of the run */
static run_position position;
static int counts[calls], fault_at, fault_errno;
static call fault_call;

static void record(call what, int fd, const char *name, const char *other, const void *data, size_t bytes);

/* Whether this call is the one that meets the fault. */
static bool meets_fault(call what)
{
    return armed && ++counts[what] == fault_at && what == fault_call;
}

static int faulty(void)
{
    errno = fault_errno;
    return -1;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    size_t part = bytes;
    if (meets_fault(WRITE)) {
        if (fault_errno != A_PART)
            return faulty();
        part = bytes > 1 ? bytes / 2 : 1;
    }
    if (armed)
        record(WRITE, fd, NULL, NULL, data, part);
    return syscall(SYS_write, fd, data, part);
}

/* Nothing to wait for: no power fails here. */
int fsync(int fd)
{
    if (meets_fault(FSYNC))
        return faulty();
    if (armed)
        record(FSYNC, fd, NULL, NULL, NULL, 0);
    return 0;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (meets_fault(RENAME))
        return faulty();
    if (armed)
        record(RENAME, -1, from, to, NULL, 0);
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

/* Closed in any case, as Linux does it. */
int close(int fd)
{
    const bool fails = meets_fault(CLOSE);
    const int result = (int)syscall(SYS_close, fd);
    return fails ? faulty() : result;
}

int unlinkat(int in, const char *name, int flags)
{
    if (meets_fault(UNLINK))
        return faulty();
    if (armed)
        record(UNLINK, -1, name, NULL, NULL, 0);
    return (int)syscall(SYS_unlinkat, in, name, flags);
}

int ftruncate(int fd, off_t bytes)
{
    if (meets_fault(TRUNCATE))
        return faulty();
    if (armed)
        record(TRUNCATE, fd, NULL, NULL, NULL, (size_t)bytes);
    return (int)syscall(SYS_ftruncate, fd, bytes);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    if (meets_fault(LINK))
        return faulty();
    if (armed)
        record(LINK, -1, from, to, NULL, 0);
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int openat(int in, const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    if (flags & O_CREAT && meets_fault(CREATE))
        return faulty();
    const int fd = (int)syscall(SYS_openat, in, name, flags, mode);
    if (armed && fd >= 0 && flags & O_CREAT)
        record(CREATE, fd, name, NULL, NULL, flags & O_TRUNC);
    return fd;
}

/* ---- Runs ----------------------------------------------------------------------------------------------------- */

static float *want; /* weights at the end of a run that meets nothing */
static int64_t want_count;

typedef struct outcome {
    scion_status status;
    int64_t saved; /* the last step whose checkpoint was reported, -1: none */
    int sinks_failed;
    char message[256];
} outcome;

static scion_status note_saved(void *ctx, const run_event *e, scion_error *err)
{
    outcome *o = ctx;
    (void)err;
    o->saved = e->t->step;
    return SCION_OK;
}

/* Trains on in `folder`, from `position`. */
static outcome go_on(trainer *t, run_sink noting, bool with_faults)
{
    outcome o = {.saved = -1};
    run_sink metric;
    const run_sink *const sinks[] = {&metric, &noting};
    run_policy policy = run_policy_of(&t->c);
    run_result r;
    scion_error err = {.message = ""};
    policy.dir = &folder;
    policy.position = &position;
    if (!noting.ctx)
        noting.ctx = &o;
    assert_int_equal(metrics_sink_open(&metric, &folder, &t->c, &err), SCION_OK);
    memset(counts, 0, sizeof counts);
    armed = with_faults;
    o.status = run_train(t, &policy, sinks, 2, &r, &o.sinks_failed, &err);
    metrics_sink_close(&metric);
    armed = false;
    snprintf(o.message, sizeof o.message, "%s", err.message);
    return o;
}

static const run_sink notes_saved = {.on = {[RUN_SAVED] = note_saved}};

static trainer *new_run(const char *dir)
{
    config c = tiny(RUN SAVES);
    trainer *t = NULL;
    scion_error err;
    snprintf(c.run.out, sizeof c.run.out, "%s", dir);
    snprintf(c.data.path, sizeof c.data.path, "%s", files_path("images"));
    if (tiny_create(&t, &c, &err) != SCION_OK || run_dir_create(&folder, dir, &err) != SCION_OK)
        fail_msg("%s", err.message);
    position = run_position_start();
    return t;
}

static void end_run(trainer *t)
{
    run_dir_close(&folder);
    run_position_free(&position);
    trainer_free(t);
}

/* What is left of a run after `what` has a whole checkpoint of step `saved` or later (-1: or none), and goes on from
 * it to the same end. */
static void check_resumes(const char *dir, int64_t saved, const char *what)
{
    char path[RUN_PATH];
    trainer *t = NULL;
    trainer_resumed before;
    scion_error err;
    if (run_dir_latest(dir, path, &err) != SCION_OK) {
        if (saved >= 0)
            fail_msg("%s: the checkpoint of step %d is lost", what, (int)saved);
        return;
    }
    if (trainer_resume(&t, path, NULL, 0, false, NULL, &position, &before, &err) != SCION_OK)
        fail_msg("%s: %s", what, err.message);
    if (t->step < saved)
        fail_msg("%s: step %d was saved, step %d is left", what, (int)saved, (int)t->step);
    if (run_dir_lock(&folder, dir, &err) != SCION_OK)
        fail_msg("%s: %s", what, err.message);
    const outcome o = go_on(t, notes_saved, false);
    if (o.status != SCION_OK || o.sinks_failed > 0)
        fail_msg("%s: resumed: %s", what, o.message);
    if (memcmp(tiny_weights(t), want, (size_t)want_count * sizeof(float)) != 0)
        fail_msg("%s: other weights at the end", what);
    end_run(t);
}

static void run_without_faults(int n[calls])
{
    const char *dir = scratch("whole");
    trainer *t = new_run(dir);
    fault_at = 0;
    const outcome o = go_on(t, notes_saved, true);
    memcpy(n, counts, sizeof counts);
    assert_int_equal(o.status, SCION_OK);
    assert_int_equal(o.saved, 4);
    want_count = t->elements;
    free(want);
    want = malloc((size_t)want_count * sizeof(float));
    assert_non_null(want);
    memcpy(want, tiny_weights(t), (size_t)want_count * sizeof(float));
    end_run(t);
    scratch_remove_tree(dir);
}

/* ---- 1. Faults ------------------------------------------------------------------------------------------------- */

static void each_call_fails_once(void **state)
{
    /* harmless: the run goes on as if nothing had happened */
    static const struct {
        call what;
        int how;
        bool harmless;
    } faults[] = {
        {WRITE, ENOSPC, false}, {WRITE, EIO, false},     {WRITE, EINTR, true},   {WRITE, A_PART, true},
        {FSYNC, EIO, false},    {FSYNC, EINTR, true},    {RENAME, EIO, false},   {RENAME, ENOSPC, false},
        {CLOSE, EIO, false},    {CLOSE, EINTR, true},    {UNLINK, EACCES, true}, {TRUNCATE, EIO, false},
        {LINK, EPERM, true},    {CREATE, ENOSPC, false}, {CREATE, EINTR, false},
    };
    int n[calls], tried = 0;
    (void)state;
    run_without_faults(n);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        assert_true(n[faults[i].what] > 0);
        for (int at = 1; at <= n[faults[i].what]; at++, tried++) {
            const char *dir = scratch("faults");
            char what[128];
            trainer *t = new_run(dir);
            fault_call = faults[i].what;
            fault_errno = faults[i].how;
            fault_at = at;
            const outcome o = go_on(t, notes_saved, true);
            fault_at = 0;
            end_run(t);
            snprintf(what, sizeof what, "%s %d of %d: %s", call_names[faults[i].what], at, n[faults[i].what],
                     faults[i].how == A_PART ? "a part" : strerror(faults[i].how));
            if (faults[i].harmless && (o.status != SCION_OK || o.sinks_failed > 0))
                fail_msg("%s: %s", what, o.message);
            if (o.status != SCION_OK && !o.message[0])
                fail_msg("%s: failed without a sentence", what);
            check_resumes(dir, o.saved, what);
            scratch_remove_tree(dir);
        }
    }
    printf("%d faults\n", tried);
}

/* ---- 2. Power failures ----------------------------------------------------------------------------------------- */

enum { max_events = 1024, max_files = 64, name_bytes = 64 };

/* A call as it was made. A file keeps its number when its names change. */
typedef struct event {
    call what;
    int file;              /* CREATE, WRITE, TRUNCATE, FSYNC; FSYNC of the folder: -1 */
    char name[name_bytes]; /* CREATE, RENAME, LINK, UNLINK */
    char other[name_bytes];
    char *data; /* WRITE */
    size_t at, bytes;
    int64_t saved; /* the last step whose checkpoint had been reported */
} event;

static event events[max_events];
static int event_count, file_count;
static bool recording;
static int file_of_fd[1024];

static void record(call what, int fd, const char *name, const char *other, const void *data, size_t bytes)
{
    if (!recording)
        return;
    assert_true(event_count < max_events && fd < 1024);
    event *e = &events[event_count];
    *e = (event){.what = what, .file = -1, .bytes = bytes, .saved = -1};
    snprintf(e->name, sizeof e->name, "%s", name ? name : "");
    snprintf(e->other, sizeof e->other, "%s", other ? other : "");
    if (what == CREATE)
        file_of_fd[fd] = file_count++; /* nothing is opened twice in this run */
    if (fd >= 0 && fd != folder.fd)
        e->file = file_of_fd[fd];
    if (what == WRITE) {
        if (e->file < 0)
            return; /* standard output */
        const off_t at = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
        e->at = (size_t)at;
        e->data = malloc(bytes);
        assert_non_null(e->data);
        memcpy(e->data, data, bytes);
    }
    event_count++;
}

/* A disk: names of files, and what is in them. */
typedef struct disk {
    struct {
        char name[name_bytes];
        int file;
    } names[max_files];
    int name_count;
    char *data[max_files];
    size_t bytes[max_files];
} disk;

static int find_name(const disk *d, const char *name)
{
    for (int i = 0; i < d->name_count; i++)
        if (strcmp(d->names[i].name, name) == 0)
            return i;
    return -1;
}

static void remove_name(disk *d, const char *name)
{
    const int i = find_name(d, name);
    if (i >= 0)
        d->names[i] = d->names[--d->name_count];
}

static void set_name(disk *d, const char *name, int file)
{
    remove_name(d, name);
    assert_true(d->name_count < max_files && file < max_files);
    snprintf(d->names[d->name_count].name, name_bytes, "%s", name);
    d->names[d->name_count++].file = file;
}

static void set_size(disk *d, int file, size_t bytes)
{
    char *data = realloc(d->data[file], bytes + 1);
    assert_non_null(data);
    if (bytes > d->bytes[file])
        memset(data + d->bytes[file], 0, bytes - d->bytes[file]);
    d->data[file] = data;
    d->bytes[file] = bytes;
}

static void play(disk *d, const event *e)
{
    const int from = e->name[0] ? find_name(d, e->name) : -1;
    switch (e->what) {
    case CREATE: set_name(d, e->name, e->file); break;
    case WRITE:
        if (e->at + e->bytes > d->bytes[e->file])
            set_size(d, e->file, e->at + e->bytes);
        memcpy(d->data[e->file] + e->at, e->data, e->bytes);
        break;
    case TRUNCATE: set_size(d, e->file, e->bytes); break;
    case UNLINK: remove_name(d, e->name); break;
    case LINK:
        if (from >= 0)
            set_name(d, e->other, d->names[from].file);
        break;
    case RENAME:
        if (from >= 0) {
            const int file = d->names[from].file, to = find_name(d, e->other);
            if (to >= 0 && d->names[to].file == file)
                break; /* two names of one file: rename does nothing */
            remove_name(d, e->name);
            set_name(d, e->other, file);
        }
        break;
    default: break;
    }
}

/* Whether the effect of event i is flushed before event `end`. */
static bool is_flushed(int i, int end)
{
    const bool names = events[i].what != WRITE && events[i].what != TRUNCATE;
    for (int k = i + 1; k < end; k++)
        if (events[k].what == FSYNC && events[k].file == (names ? -1 : events[i].file))
            return true;
    return false;
}

static bool changes_disk(int i)
{
    return events[i].what != FSYNC && events[i].what != CLOSE;
}

enum { NONE = -1, ALL = -2 };

/* The power fails before event `end`: what is on the disk, without event `dropped`, or without ALL that is not
 * flushed, is written to dir. */
static void write_disk(const char *dir, int end, int dropped)
{
    disk d = {.name_count = 0};
    for (int i = 0; i < end; i++)
        if (i != dropped && (dropped != ALL || !changes_disk(i) || is_flushed(i, end)))
            play(&d, &events[i]);
    assert_int_equal(mkdir(dir, 0777), 0);
    for (int i = 0; i < d.name_count; i++) {
        char path[RUN_PATH];
        const int file = d.names[i].file;
        snprintf(path, sizeof path, "%s/%s", dir, d.names[i].name);
        scratch_put(path, d.data[file] ? d.data[file] : "", d.bytes[file]);
    }
    for (int i = 0; i < max_files; i++)
        free(d.data[i]);
}

static void try_disk(int end, int dropped, int *tried)
{
    const char *dir = scratch("disk");
    char what[160];
    snprintf(what, sizeof what, "power failure before call %d of %d (%s %.40s), %s %d", end, event_count,
             end < event_count ? call_names[events[end].what] : "none", end < event_count ? events[end].name : "",
             dropped == ALL ? "nothing unflushed" : "without call", dropped);
    write_disk(dir, end, dropped);
    check_resumes(dir, end > 0 ? events[end - 1].saved : -1, what);
    scratch_remove_tree(dir);
    ++*tried;
}

static scion_status record_saved(void *ctx, const run_event *e, scion_error *err)
{
    (void)ctx;
    (void)err;
    if (event_count > 0)
        events[event_count - 1].saved = e->t->step;
    return SCION_OK;
}

static void record_run(void)
{
    trainer *t = new_run(scratch("recorded"));
    for (int i = 0; i < 1024; i++)
        file_of_fd[i] = -1;
    for (int i = 0; i < max_events; i++)
        events[i].saved = -1;
    recording = true;
    assert_int_equal(go_on(t, (run_sink){.on = {[RUN_SAVED] = record_saved}}, true).status, SCION_OK);
    recording = false;
    end_run(t);
}

static void the_power_fails_after_each_call(void **state)
{
    int n[calls], tried = 0;
    (void)state;
    run_without_faults(n);
    record_run();
    for (int i = 1; i < event_count; i++) /* what was saved before stays saved */
        if (events[i].saved < events[i - 1].saved)
            events[i].saved = events[i - 1].saved;
    assert_int_equal(events[event_count - 1].saved, 4);
    for (int end = 0; end <= event_count; end++) {
        try_disk(end, NONE, &tried);
        try_disk(end, ALL, &tried);
        for (int i = 0; i < end; i++)
            if (changes_disk(i) && !is_flushed(i, end))
                try_disk(end, i, &tried);
    }
    for (int i = 0; i < event_count; i++)
        free(events[i].data);
    free(want);
    want = NULL;
    printf("%d calls, %d disks\n", event_count, tried);
}

static int make_images(void **state)
{
    files_setup(state);
    idx_folder("images", 12, 4, 3, 3, 2, 0);
    return 0;
}

static int remove_all(void **state)
{
    files_teardown(state);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_fails_once),
        cmocka_unit_test(the_power_fails_after_each_call),
    };
    return cmocka_run_group_tests(tests, make_images, remove_all);
}
