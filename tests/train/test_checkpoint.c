/* Checkpoints: bit for bit through the file, which is what the safetensors format says (by a reader that shares
 * nothing with ours), and what happens when it cannot be written. */
#include "checkpoint_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "util/atomic_file.h"

/* A file system that is interrupted and takes a part of what it is given: every other call of write fails with EINTR,
 * the others take at most 7 bytes more than half. */
static bool interrupts;
static int writes;

ssize_t write(int fd, const void *data, size_t bytes)
{
    if (interrupts && writes++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_write, fd, data, interrupts && bytes > 16 ? bytes / 2 + 7 : bytes);
}

static void what_is_written_reads_back(void **state)
{
    rng r = rng_of(21);
    (void)state;
    for (int i = 0; i < 20; i++) {
        const sample *s = sample_make(&r);
        sample_write(s, scratch("round.safetensors"));
        sample_check(s, scratch("round.safetensors"));
    }
}

static void writing_goes_on_after_an_interruption(void **state)
{
    rng r = rng_of(22);
    (void)state;
    for (int i = 0; i < 5; i++) {
        const sample *s = sample_make(&r);
        writes = 0;
        interrupts = true;
        sample_write(s, scratch("interrupted.safetensors"));
        interrupts = false;
        check(writes > 4);
        sample_check(s, scratch("interrupted.safetensors"));
    }
}

static void a_file_without_tensors_is_a_file(void **state)
{
    const checkpoint_meta meta = {"key", "value"};
    const char *path = scratch("none.safetensors");
    checkpoint *c;
    scion_error err;
    (void)state;
    check_ok(write_tensors(path, NULL, 0, &meta, 1, &err), &err);
    check_ok(checkpoint_open(&c, path, &err), &err);
    check(checkpoint_at(c, 0) == NULL && strcmp(checkpoint_get(c, "key"), "value") == 0);
    checkpoint_close(c);
}

/* ---- A reader of the format, from its description ------------------------------------------------------ */

typedef struct entry {
    char name[64], dtype[16];
    int ndim;
    long long shape[8], begin, end;
} entry;

typedef struct reader {
    const char *at;
    entry entries[16];
    int count, metas;
} reader;

static void expect(reader *r, char c)
{
    at("at \"%.40s\", expected %c", r->at, c);
    check(*r->at == c);
    r->at++;
}

static bool take(reader *r, char c)
{
    const bool there = *r->at == c;
    r->at += there;
    return there;
}

/* A string; its escapes stay as they are. */
static void read_string(reader *r, char *to, size_t bytes)
{
    size_t n = 0;
    expect(r, '"');
    for (; *r->at != '"'; r->at++) {
        check((unsigned char)*r->at >= 0x20);
        if (n + 2 < bytes)
            to[n++] = *r->at;
        if (*r->at == '\\' && n + 2 < bytes)
            to[n++] = *++r->at;
        else if (*r->at == '\\')
            r->at++;
    }
    to[n] = '\0';
    expect(r, '"');
}

static int read_numbers(reader *r, long long *to, int most)
{
    int n = 0;
    expect(r, '[');
    while (!take(r, ']')) {
        char *end;
        check(n < most && (n == 0 || take(r, ',')));
        to[n++] = strtoll(r->at, &end, 10);
        check(end != r->at);
        r->at = end;
    }
    return n;
}

static void read_metadata(reader *r)
{
    char text[4096];
    expect(r, '{');
    while (!take(r, '}')) {
        check(r->metas == 0 || take(r, ','));
        read_string(r, text, sizeof text);
        expect(r, ':');
        read_string(r, text, sizeof text);
        r->metas++;
    }
}

static void read_entry(reader *r, entry *e)
{
    char key[32];
    long long offsets[2];
    expect(r, '{');
    for (int i = 0; i < 3; i++) {
        check(i == 0 || take(r, ','));
        read_string(r, key, sizeof key);
        expect(r, ':');
        if (strcmp(key, "dtype") == 0)
            read_string(r, e->dtype, sizeof e->dtype);
        else if (strcmp(key, "shape") == 0)
            e->ndim = read_numbers(r, e->shape, 8);
        else {
            check(strcmp(key, "data_offsets") == 0 && read_numbers(r, offsets, 2) == 2);
            e->begin = offsets[0];
            e->end = offsets[1];
        }
    }
    expect(r, '}');
}

static void read_header(reader *r)
{
    char key[64];
    expect(r, '{');
    for (int i = 0; !take(r, '}'); i++) {
        check(i == 0 || take(r, ','));
        read_string(r, key, sizeof key);
        expect(r, ':');
        if (strcmp(key, "__metadata__") == 0) {
            check(i == 0);
            read_metadata(r);
        } else {
            entry *e = &r->entries[r->count++];
            strcpy(e->name, key);
            read_entry(r, e);
        }
    }
}

/* Eight bytes of length, a JSON object padded with spaces to a multiple of 8, then the tensors without gaps in the
 * order of the header, each aligned to its type. */
static void files_are_what_the_format_says(void **state)
{
    rng random = rng_of(22);
    const sample *s = sample_make(&random);
    const char *path = scratch("format.safetensors");
    reader r = {0};
    size_t bytes;
    uint64_t length = 0;
    long long expected = 0;
    (void)state;
    sample_write(s, path);
    char *file = scratch_get(path, &bytes);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (unsigned char)file[i];
    check(length % 8 == 0 && length + 8 < bytes);
    r.at = file + 8;
    read_header(&r);
    while (r.at < file + 8 + length)
        expect(&r, ' ');
    check(r.at == file + 8 + length);
    check(r.count == sample_tensors && r.metas == sample_metas + 2);
    for (int i = 0; i < r.count; i++) {
        const entry *e = &r.entries[i];
        const checkpoint_tensor *t = NULL;
        for (int k = 0; k < sample_tensors; k++)
            if (strcmp(s->tensors[k].name, e->name) == 0 || (e->name[0] == 'h' && s->tensors[k].name[0] == 'h'))
                t = &s->tensors[k];
        at("tensor %s", e->name);
        check(t != NULL && strcmp(t->dtype, e->dtype) == 0 && t->ndim == e->ndim);
        for (int k = 0; k < e->ndim; k++)
            check(t->shape[k] == e->shape[k]);
        check(e->begin == expected && e->end == expected + (long long)t->bytes);
        if (t->bytes > 0)
            check_bits(t->bytes, file + 8 + length + e->begin, t->data);
        check(e->begin % (strcmp(e->dtype, "I64") == 0 ? 8 : strcmp(e->dtype, "F32") == 0 ? 4 : 1) == 0);
        expected = e->end;
    }
    check((uint64_t)expected == bytes - 8 - length);
    check(strcmp(r.entries[r.count - 1].name, "optimizer") == 0); /* bytes come last, so that all are aligned */
}

/* ---- What cannot be written ---------------------------------------------------------------------------- */

static void wrong_tensors_are_refused(void **state)
{
    float x[4] = {0};
    const checkpoint_tensor good = {"a", "F32", 1, {4}, x, 16};
    const checkpoint_tensor cases[] = {
        {"a", "F32", 1, {4}, x, 16},
        {"b", "F32", 1, {4}, x, 15},
        {"b", "F33", 1, {4}, x, 16},
        {"b", "F32", 5, {1, 1, 1, 1}, x, 4},
        {"b", "F32", 1, {-1}, x, 4},
        {"\xff", "F32", 1, {4}, x, 16},
        {"__metadata__", "F32", 1, {4}, x, 16},
        {"b", "F32", 2, {INT64_MAX, 8}, x, 4},
    };
    static const char *const keys[] = {"checksum", "header_checksum", "a.hex", "\xff", "twice"};
    const char *path = scratch("wrong.safetensors");
    scion_error err;
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        const checkpoint_tensor pair[] = {good, cases[i]};
        at("case %d", (int)i);
        check_status(write_tensors(path, pair, 2, NULL, 0, &err), SCION_EINVAL, &err);
        check(strstr(err.message, "wrong.safetensors: ") != NULL);
    }
    for (int64_t i = 0; i < COUNT_OF(keys); i++) {
        const checkpoint_meta meta[] = {{"twice", "1"}, {keys[i], "2"}};
        at("key %s", keys[i]);
        check_status(write_tensors(path, &good, 1, meta, 2, &err), SCION_EINVAL, &err);
    }
    check(access(path, F_OK) != 0);
}

/* The disk is full after n bytes, for n up to the size of the file: the old file is whole, nothing is left over. */
static void a_full_disk_keeps_the_old_file(void **state)
{
    rng r = rng_of(23);
    const sample *old = sample_make(&r), *next = sample_make(&r);
    struct rlimit before, limit;
    char *path;
    size_t bytes;
    (void)state;
    mkdir(scratch("full"), 0777);
    path = scratch("full/run.safetensors");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){1, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    scion_error first = {0};
    check(write_tensors(path, next->tensors, sample_tensors, next->meta, sample_metas, &first) == SCION_EINVAL);
    setrlimit(RLIMIT_FSIZE, &before);
    check(strstr(first.message, "full/run.safetensors: not written: File too large"));
    sample_write(old, path);
    scratch_get(path, &bytes);
    for (size_t n = 0; n < bytes; n += 1 + bytes / 50) {
        scion_error err = {0};
        limit = (struct rlimit){n, before.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
        const scion_status status =
            write_tensors(path, next->tensors, sample_tensors, next->meta, sample_metas, &err);
        setrlimit(RLIMIT_FSIZE, &before);
        at("full after %zu bytes: %s", n, err.message);
        check(status == SCION_EINVAL);
        check(strstr(err.message, "full/run.safetensors: not written, the earlier file is kept: File too large"));
        check(scratch_count(scratch("full")) == 1);
        sample_check(old, path);
    }
    signal(SIGXFSZ, SIG_DFL);
    sample_write(next, path);
    sample_check(next, path);
}

/* A child that may not write to a folder; root may write everywhere, hence the change of user. */
static int write_as_nobody(const char *path)
{
    const pid_t child = fork();
    int result = -1;
    if (child == 0) {
        float x = 1;
        const checkpoint_tensor t = {"x", "F32", 1, {1}, &x, 4};
        scion_error err = {0};
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(99);
        const scion_status status = write_tensors(path, &t, 1, NULL, 0, &err);
        _exit(status == SCION_EINVAL && strstr(err.message, "run.safetensors: cannot be written: Permission denied")
                  ? 0
                  : 1);
    }
    waitpid(child, &result, 0);
    return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

static void a_folder_that_is_read_only_keeps_the_old_file(void **state)
{
    rng r = rng_of(24);
    const sample *s = sample_make(&r);
    (void)state;
    mkdir(scratch("locked"), 0777);
    sample_write(s, scratch("locked/run.safetensors"));
    chmod(scratch(""), 0755);
    chmod(scratch("locked"), 0555);
    const int result = write_as_nobody(scratch("locked/run.safetensors"));
    chmod(scratch("locked"), 0777);
    check(result == 0);
    check(scratch_count(scratch("locked")) == 1);
    sample_check(s, scratch("locked/run.safetensors"));
}

static void places_that_no_file_can_be_in(void **state)
{
    const char *folder = scratch("folder.safetensors"), *pipe = scratch("pipe.safetensors");
    checkpoint *c;
    scion_error err;
    (void)state;
    mkdir(folder, 0777);
    mkfifo(pipe, 0666);
    check_status(write_tensors(folder, NULL, 0, NULL, 0, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "it exists and is not a file") != NULL);
    check_status(write_tensors(pipe, NULL, 0, NULL, 0, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "it exists and is not a file") != NULL);
    check_status(write_tensors(scratch("no/such"), NULL, 0, NULL, 0, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "no/such: cannot be written: No such file") != NULL);
    check_status(checkpoint_open(&c, folder, &err), SCION_EINVAL, &err);
    check_status(checkpoint_open(&c, pipe, &err), SCION_EINVAL, &err);
    check_status(checkpoint_open(&c, scratch("missing"), &err), SCION_EINVAL, &err);
    check(strstr(err.message, "missing: No such file") != NULL && c == NULL);
}

/* A link in the place of the temporary file, laid by somebody else: the file that it leads to is not touched. */
static void a_link_is_not_written_through(void **state)
{
    const char *other = scratch("theirs");
    char link[64];
    scion_error err;
    (void)state;
    scratch_text(other, "not ours");
    snprintf(link, sizeof link, "linked.safetensors.tmp.%ld", (long)getpid());
    check(symlink(other, scratch(link)) == 0);
    check_status(write_tensors(scratch("linked.safetensors"), NULL, 0, NULL, 0, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "linked.safetensors: cannot be written: ") != NULL);
    check(strcmp(scratch_get(other, NULL), "not ours") == 0);
    check(access(scratch("linked.safetensors"), F_OK) != 0);
}

/* A process that saves without end, killed at a random moment: the file is whole. What it left is swept away. */
static void a_killed_process_leaves_a_whole_file(void **state)
{
    rng r = rng_of(25);
    float *x = gaussian(&r, 50000);
    const checkpoint_tensor t = {"x", "F32", 1, {50000}, x, 200000};
    const char *path;
    (void)state;
    mkdir(scratch("killed"), 0777);
    path = scratch("killed/run.safetensors");
    scion_error err;
    check_ok(write_tensors(path, &t, 1, NULL, 0, &err), &err);
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        checkpoint *c;
        if (child == 0)
            for (;;)
                write_tensors(path, &t, 1, NULL, 0, NULL);
        usleep((useconds_t)(rng_uniform(&r) * 20000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        at("round %d", i);
        check_ok(checkpoint_open(&c, path, &err), &err);
        check_bits(t.bytes, checkpoint_find(c, "x")->data, x);
        checkpoint_close(c);
    }
    scratch_text(scratch("killed/other.tmp.x1"), "not ours");
    scratch_text(scratch("killed/living.tmp.1"), "of a process that lives");
    atomic_remove_stale(-1, scratch("killed"));
    check(scratch_count(scratch("killed")) == 3);
    atomic_remove_stale(-1, "/nonexistent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(what_is_written_reads_back),
        LAW(writing_goes_on_after_an_interruption),
        LAW(a_file_without_tensors_is_a_file),
        LAW(files_are_what_the_format_says),
        LAW(wrong_tensors_are_refused),
        LAW(a_full_disk_keeps_the_old_file),
        LAW(a_folder_that_is_read_only_keeps_the_old_file),
        LAW(places_that_no_file_can_be_in),
        LAW(a_link_is_not_written_through),
        LAW(a_killed_process_leaves_a_whole_file),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
