/* Disks that hesitate. The calls that read images are this program's: they are interrupted, fail for a while, or for
 * good. A sample is a function of the seed, not of the weather: what passes changes nothing, what does not pass ends
 * the reading, and never puts another image in the place of one that may be fine. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "data/paths.h"
#include "data_files.h"
#include "image_files.h"

/* ---- The calls ----------------------------------------------------------------------------------------- */

static int open_fails, read_fails, text_fails, reason; /* so many calls fail, for this reason */

static bool fails(int *times)
{
    if (*times == 0)
        return false;
    *times -= *times > 0;
    errno = reason;
    return true;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return !(flags & O_CREAT) && strstr(path, ".png") && fails(&open_fails)
               ? -1
               : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t pread(int fd, void *to, size_t n, off_t offset)
{
    return fails(&read_fails) ? -1 : syscall(SYS_pread64, fd, to, n, offset);
}

/* As zlib reads, which has to see it. */
__attribute__((visibility("default"))) ssize_t read(int fd, void *to, size_t n)
{
    return fails(&text_fails) ? -1 : syscall(SYS_read, fd, to, n);
}

/* ---- Samples ------------------------------------------------------------------------------------------- */

enum { N = 12, SIDE = 8, EACH = 3 * SIDE * SIDE };

static data_set *open_images(void)
{
    static const char *const pairs[] = {"image_size=8", "val_fraction=0", NULL};
    const data_context context = {.seed = 4};
    data_set *d = NULL;
    scion_error err = {0};
    if (open_pairs(&d, files_path("set"), &context, pairs, &err) != SCION_OK)
        fail_msg("%s", err.message);
    return d;
}

static int make_images(void **state)
{
    char name[FILES_PATH / 4];
    if (files_setup(state) != 0)
        return -1;
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "set/%s/%02d.png", i % 2 ? "cat" : "dog", i);
        image_file(name, 9 + i, 20 - i, i);
    }
    return 0;
}

static scion_status fill(const data_set *d, float *x, scion_error *err)
{
    void *const arrays[DATA_ARRAYS] = {x};
    return data_fill(d, (data_sequence){.part = DATA_TRAIN}, 0, N, arrays, err);
}

static void what_passes_changes_nothing(void **state)
{
    static const struct {
        int reason, times;
    } faults[] = {{EINTR, 50}, {EIO, 3}, {ESTALE, 2}, {EAGAIN, 1}, {ENFILE, 2}};
    static float x[N * EACH], y[N * EACH];
    scion_error err = {0};
    (void)state;
    data_set *d = open_images();
    assert_int_equal(fill(d, x, &err), SCION_OK);
    for (size_t i = 0; i < 2 * sizeof faults / sizeof *faults; i++) {
        memset(y, 0, sizeof y);
        reason = faults[i / 2].reason;
        *(i % 2 ? &open_fails : &read_fails) = faults[i / 2].times;
        if (fill(d, y, &err) != SCION_OK)
            fail_msg("%s", err.message);
        assert_int_equal(open_fails + read_fails, 0);
        assert_memory_equal(x, y, sizeof x);
    }
    assert_int_equal(data_skipped(d), 0);
    data_close(d);
}

/* A text whose disk fails is not called damaged. */
static void texts_that_cannot_be_read_are_refused(void **state)
{
    const data_case text = {.kind = "chars", .path = files_write("a.txt", "abcabcabc", 9)};
    data_set *d = NULL;
    scion_error err = {0};
    (void)state;
    reason = EIO;
    text_fails = -1;
    const scion_status status = open_case(&d, &text, &err);
    text_fails = 0;
    assert_int_equal(status, SCION_EINVAL);
    assert_non_null(strstr(err.message, "a.txt: cannot read: "));
    assert_non_null(strstr(err.message, strerror(EIO)));
}

/* Then the same data give the same samples, when the disk is back. */
static void what_does_not_pass_ends_the_reading(void **state)
{
    static float x[N * EACH], y[N * EACH];
    scion_error err = {0};
    (void)state;
    data_set *d = open_images();
    assert_int_equal(fill(d, x, &err), SCION_OK);
    for (int i = 0; i < 2; i++) {
        reason = EIO;
        *(i ? &open_fails : &read_fails) = -1;
        assert_int_equal(fill(d, y, &err), DATA_EPASSING);
        open_fails = read_fails = 0;
        assert_non_null(strstr(err.message, ".png: cannot "));
        assert_non_null(strstr(err.message, strerror(EIO)));
        assert_int_equal(data_skipped(d), 0);
        assert_int_equal(fill(d, y, &err), SCION_OK);
        assert_memory_equal(x, y, sizeof x);
    }
    data_close(d);
}

/* A file that is gone, or may not be read, is the file's fault. */
static void what_is_gone_is_replaced(void **state)
{
    static float x[N * EACH];
    scion_error err = {0};
    (void)state;
    data_set *d = open_images();
    reason = EACCES;
    open_fails = 1;
    assert_int_equal(fill(d, x, &err), SCION_OK);
    assert_int_equal(data_skipped(d), 1);
    data_close(d);
}

/* An image for which there is no memory is replaced, too: a run would end there each time it is resumed. */
static void no_memory_for_an_image_ends_nothing(void **state)
{
    enum { side = 7000 };
    static float x[N * EACH];
    const size_t room = (size_t)64 << 20;
    struct rlimit before, limit;
    long pages = 0;
    scion_error err = {0};
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* reserves terabytes of addresses */
#endif
    uint8_t *bits = calloc(side * side / 8, 1);
    const image_bytes large = make_png(side, side, PNG_COLOR_TYPE_GRAY, 1, false, bits);
    files_write("set/cat/large.png", large.at, large.count);
    free(large.at);
    free(bits);
    data_set *d = open_images();
    FILE *f = fopen("/proc/self/statm", "r");
    assert_true(f && fscanf(f, "%ld", &pages) == 1);
    fclose(f);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + room;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    const scion_status status = fill(d, x, &err) == SCION_OK ? fill(d, x, &err) : SCION_EINVAL;
    setrlimit(RLIMIT_AS, &before);
    assert_int_equal(status, SCION_OK);
    assert_int_equal(data_skipped(d), 1);
    assert_true(data_next_warning(d, &err));
    assert_non_null(strstr(err.message, "large.png: out of memory: 7000 x 7000 pixels"));
    data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_passes_changes_nothing),
        cmocka_unit_test(texts_that_cannot_be_read_are_refused),
        cmocka_unit_test(what_does_not_pass_ends_the_reading),
        cmocka_unit_test(what_is_gone_is_replaced),
        cmocka_unit_test(no_memory_for_an_image_ends_nothing),
    };
    return cmocka_run_group_tests(tests, make_images, files_teardown);
}
