/* Laws of train/util: file names, folders, growing arrays, written JSON. */
#include "scratch.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/array.h"
#include "util/file.h"
#include "util/json.h"
#include "util/clock.h"
#include "util/memory_limit.h"
#include "util/utf8.h"

static void a_name_is_the_end_of_a_path(void **state)
{
    static const struct {
        const char *path, *ending, *name;
    } cases[] = {
        {"runs/a", NULL, "a"},
        {"runs/a/", NULL, "a"},
        {"a.ini", ".ini", "a"},
        {"x/a.ini", ".ini", "a"},
        {"x.ini/a", ".ini", "a"},
        {"a.ini.ini", ".ini", "a.ini"},
        {"a.inis", ".ini", "a.inis"},
        {".ini", ".ini", ".ini"},
        {"/", NULL, ""},
        {"presets/a.ini", NULL, "a.ini"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        file_name(cases[i].path, cases[i].ending, name, sizeof name);
        assert_string_equal(name, cases[i].name);
    }
}

static void folders_are_made_with_those_above(void **state)
{
    scion_error err;
    (void)state;
    check_ok(file_make_folder(scratch("a/b/c"), &err), &err);
    check_ok(file_make_folder(scratch("a/b/c/"), &err), &err);
    assert_true(file_is_folder(scratch("a/b/c")));
    scratch_text(scratch("a/file"), "");
    assert_true(file_exists(scratch("a/file")) && !file_is_folder(scratch("a/file")));
    assert_int_equal(file_make_folder(scratch("a/file"), &err), SCION_EINVAL);
    assert_int_equal(file_make_folder(scratch("a/file/b"), &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "a/file"));
}

static void arrays_grow(void **state)
{
    double *items = NULL;
    int64_t count = 0;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        double *last = array_append(&items, &count, sizeof *items);
        assert_non_null(last);
        *last = 1000 - i;
    }
    assert_int_equal(count, 1000);
    qsort(items, (size_t)count, sizeof *items, array_ascending);
    for (int i = 0; i < 1000; i++)
        assert_true(items[i] == i + 1);
    free(items);
}

/* Also to a pipe, which cannot be replaced. */
static void json_is_written_to_files_and_pipes(void **state)
{
    scion_error err;
    char text[64] = "", path[32];
    int ends[2];
    (void)state;
    check_ok(
        json_save(json_pack("[o, o]", json_number(1.5), json_number(NAN)), JSON_COMPACT, scratch("a.json"), &err),
        &err);
    assert_string_equal(scratch_get(scratch("a.json"), NULL), "[1.5,null]");
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    check_ok(json_save(json_pack("[o]", json_number(-INFINITY)), JSON_COMPACT, path, &err), &err);
    memset(text, 0, sizeof text);
    assert_int_equal(read(ends[0], text, sizeof text - 1), 6);
    assert_string_equal(text, "[null]");
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(json_save(json_null(), JSON_ENCODE_ANY, scratch("none/a.json"), &err), SCION_EINVAL);
    assert_int_equal(json_save(NULL, 0, scratch("a.json"), &err), SCION_ENOMEM);
}

/* Every code point comes back; invalid UTF-8 has no length. */
static void utf8_is_decoded_and_encoded(void **state)
{
    static const char *const wrong[] = {
        "\x80",
        "\xc0\xaf",
        "\xc1\xbf",
        "\xc3",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xe2\x82",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
    };
    (void)state;
    for (uint32_t code = 1; code < UTF8_CODE_POINTS; code++) {
        char text[5] = "";
        uint32_t back = 0;
        const int length = utf8_encode(code, text);
        const bool surrogate = code >= 0xd800 && code < 0xe000;
        if (utf8_decode(text, (size_t)length, &back) != (surrogate ? 0 : length) || (!surrogate && back != code) ||
            utf8_length(text) != (surrogate ? 0 : length) ||
            utf8_decode(text, (size_t)length - (length > 1), &back) != (length > 1 || surrogate ? 0 : length))
            fail_msg("code point %x", code);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (utf8_length(wrong[i]) != 0)
            fail_msg("wrong text %zu", i);
}

static void texts_are_made_printable(void **state)
{
    static const char *const cases[][2] = {{"plain \u00e9\u4e2d", "plain \u00e9\u4e2d"},
                                           {"a\x1b[2Jb\nc\x7f", "a?[2Jb?c?"},
                                           {"\xc2\x9b"
                                            "31m",
                                            "??31m"},
                                           {"\xff\xc3", "??"},
                                           {"", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", cases[i][0]);
        utf8_make_printable(text);
        assert_string_equal(text, cases[i][1]);
    }
}

/* A file of the kernel's in the folder that stands for /. */
static const char *kernel_file(const char *root, const char *name, const char *text)
{
    char path[512], dir[512];
    scion_error err;
    snprintf(path, sizeof path, "%s/%s", root, name);
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    check_ok(file_make_folder(dir, &err), &err);
    scratch_text(path, text);
    return root;
}

/* The lowest limit counts, wherever above the process it is set. */
static void memory_is_what_the_lowest_limit_leaves(void **state)
{
    const char *none = scratch("no-limits");
    (void)state;
    const memory_limit machine = memory_usable(none, 1);
    assert_true(machine.bytes > 1 << 20);
    assert_string_equal(machine.what, "this machine has");

    const char *two = kernel_file(scratch("version-2"), "proc/self/cgroup", "0::/user.slice/job\n");
    kernel_file(two, "sys/fs/cgroup/user.slice/job/memory.max", "max\n");
    assert_true(memory_usable(two, 1).bytes == machine.bytes);
    kernel_file(two, "sys/fs/cgroup/user.slice/memory.max", "1048576\n");
    assert_true(memory_usable(two, 1).bytes == 1048576);
    assert_string_equal(memory_usable(two, 1).what, "its cgroup allows");
    kernel_file(two, "sys/fs/cgroup/user.slice/job/memory.max", "524288\n");
    assert_true(memory_usable(two, 1).bytes == 524288);

    const char *one = kernel_file(scratch("version-1"), "proc/self/cgroup",
                                  "12:cpu,cpuacct:/a\n9:memory:/docker/12\n8:hugetlb:/b\n0::/c\n");
    kernel_file(one, "sys/fs/cgroup/memory/docker/12/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(memory_usable(one, 1).bytes == machine.bytes);
    kernel_file(one, "sys/fs/cgroup/memory/docker/12/memory.limit_in_bytes", "2097152\n");
    assert_true(memory_usable(one, 1).bytes == 2097152);

    /* In a container the path may be the host's: the mounted root counts. */
    const char *inside = kernel_file(scratch("inside"), "proc/self/cgroup", "0::/host/only\n");
    kernel_file(inside, "sys/fs/cgroup/memory.max", "4194304\n");
    assert_true(memory_usable(inside, 1).bytes == 4194304);
}

/* Memory in use is taken off ulimit -d: the limit is far above any use here, and all but a MiB is said to be used. */
static void memory_in_use_counts(void **state)
{
    char text[100];
    struct rlimit before, limit;
    const unsigned long long all = 1ull << 60, page = (unsigned long long)sysconf(_SC_PAGE_SIZE);
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    if (before.rlim_max != RLIM_INFINITY)
        skip(); /* the limit cannot be raised so far */
    snprintf(text, sizeof text, "900 800 700 600 0 %llu 0\n", (all - (1 << 20)) / page);
    const char *root = kernel_file(scratch("data"), "proc/self/statm", text);
    limit = before;
    limit.rlim_cur = (rlim_t)all;
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
    const memory_limit m = memory_usable(root, 1);
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
    assert_int_equal(m.bytes, 1 << 20);
    assert_string_equal(m.what, "ulimit -d leaves");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_the_end_of_a_path),
        cmocka_unit_test(folders_are_made_with_those_above),
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(memory_is_what_the_lowest_limit_leaves),
        cmocka_unit_test(memory_in_use_counts),
        cmocka_unit_test(json_is_written_to_files_and_pipes),
        cmocka_unit_test(utf8_is_decoded_and_encoded),
        cmocka_unit_test(texts_are_made_printable),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
