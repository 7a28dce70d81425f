/* Configurations in files: .ini with the line in every message, presets, JSON; damaged files of each. */
#include "scratch.h"

#include <math.h>

#include "config/config.h"

static config fresh(void)
{
    config c;
    memset(&c, 0, sizeof c);
    config_init(&c);
    return c;
}

/* ---- .ini ---------------------------------------------------------------------------------------------- */

static void ini_files_are_read(void **state)
{
    const char *path = scratch("good.ini");
    config c = fresh();
    scion_error err;
    (void)state;
    scratch_text(
        path, "\xef\xbb\xbf; about this file\r\n"
              "[whatever]\r\n"
              "width = 256 ; Table 3\r\n"
              "   lr=2^-7   # indented is not continued\n"
              "\n"
              "[optimizer]\n"
              "rule : uscion\n"
              "light = yes\n"
              "data = a;b#c = d\n"
              "# a comment that is longer than two hundred bytes, "
              "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
              "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"
              "seed = 18446744073709551615");
    check_ok(config_load(&c, path, &err), &err);
    check(config_int(&c, "width") == 256 && c.training.lr == 0x1p-7 && strcmp(c.optimizer.rule, "uscion") == 0 &&
          c.optimizer.light && c.training.seed == UINT64_MAX);
    check(strcmp(c.data.path, "a;b#c = d") == 0);
    check(config_int(&c, "layers") == 3 && !c.preset[0]);
}

static void ini_errors_name_the_line(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"width = 8\nwidht = 8\n", "bad.ini:2: there is no option \"widht\"; did you mean \"width\"?"},
        {"\n\nlr = fast\n", "bad.ini:3: lr is \"fast\""},
        {"[a]\nlr = 1\n[b]\nlr = 2\n", "bad.ini:4: lr is given twice, first in line 2"},
        {"lr = 1\nnonsense\n", "bad.ini:2: expected key = value or [section]"},
        {"lr = 1\n[model\nwidth = 8\n", "bad.ini:2: expected key = value or [section]"},
        {"lr = 1\nnonsense\nlr = x\n", "bad.ini:"},
        {"lr = 1\npreset = x\n", "bad.ini:2: preset must be the first key"},
        {"preset = no-such\n", "there is no preset \"no-such\""},
        {"lr = 1\n  2\n", "bad.ini:2: expected key = value"},
        {"lr = 1\n= 2\n", "bad.ini:2: there is no option \"\""},
        {"lr =;1\n", "bad.ini:1: lr is \";1\""},
    };
    const char *path = scratch("bad.ini");
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        const config before = fresh();
        config c = before;
        scion_error err = {0};
        at("%s", cases[i].text);
        scratch_text(path, cases[i].text);
        check_status(config_load(&c, path, &err), SCION_EINVAL, &err);
        at("%s: %s", cases[i].text, err.message);
        check(strstr(err.message, cases[i].says) != NULL);
        check_bits(sizeof c, &c, &before);
    }
}

static void files_that_are_no_configuration_are_refused(void **state)
{
    const char *path = scratch("odd.ini");
    char *large = room(1 << 21);
    config c = fresh();
    scion_error err;
    (void)state;
    scratch_put(path, "lr = 1\n\0\0width = 8\n", 19);
    check_status(config_load(&c, path, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "odd.ini:2: contains a zero byte") != NULL);
    memset(large, ' ', 1 << 21);
    scratch_put(path, large, 1 << 21);
    check_status(config_load(&c, path, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "odd.ini: has 2097152 bytes, too many for a configuration") != NULL);
    memset(large, 'x', 5000);
    scratch_put(path, large, 5000);
    check_status(config_load(&c, path, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "odd.ini:1: expected key = value") != NULL);
    check_status(config_load(&c, scratch(""), &err), SCION_EINVAL, &err);
    check(strstr(err.message, "is not a file") != NULL);
    check_status(config_load(&c, scratch("missing.ini"), &err), SCION_EINVAL, &err);
    check(strstr(err.message, "missing.ini: No such file") != NULL);
    check_status(config_load(&c, "/dev/zero", NULL), SCION_EINVAL, &err);
}

/* All options changed at random, out and data up to their full length. */
static config shuffled(rng *r)
{
    config c = fresh();
    config_set_int(&c, "width", 1 + (int64_t)(rng_uniform(r) * 1000));
    c.training.lr = exp(rng_normal(r));
    c.training.seed = (uint64_t)(rng_uniform(r) * 0x1p63);
    c.optimizer.momentum = rng_uniform(r);
    c.optimizer.light = rng_uniform(r) < 0.5;
    c.optimizer.eps = 1e-8 * rng_uniform(r);
    strcpy(c.optimizer.rule, rng_uniform(r) < 0.5 ? "muon" : "scion");
    strcpy(c.optimizer.norms, "shared"); /* "auto" is written as its meaning */
    c.optimizer.polar_compute = SCION_BF16;
    memset(c.data.path, 'd', (size_t)(rng_uniform(r) * CONFIG_TEXT));
    memset(c.run.out, '=', (size_t)(rng_uniform(r) * CONFIG_TEXT));
    return c;
}

static void what_is_written_reads_back(void **state)
{
    rng r = rng_of(11);
    (void)state;
    for (int i = 0; i < 200; i++) {
        const config c = shuffled(&r);
        config back = fresh();
        scion_error err;
        const char *path = scratch("written.ini");
        FILE *file = fopen(path, "w");
        at("round %d", i);
        check(file != NULL);
        config_write(&c, file, i % 2 == 0 ? CONFIG_CHANGED : CONFIG_ALL);
        fclose(file);
        check_ok(config_load(&back, path, &err), &err);
        check_bits(sizeof c, &c, &back);
    }
}

/* A preset's name is kept as a comment: the file does not need the preset. */
static void a_written_file_stands_alone(void **state)
{
    config c = fresh(), back = fresh();
    const char *path = scratch("alone.ini");
    scion_error err;
    (void)state;
    strcpy(c.preset, "gone");
    config_set_int(&c, "width", 64);
    FILE *file = fopen(path, "w");
    config_write(&c, file, CONFIG_CHANGED);
    fclose(file);
    check(strcmp(scratch_get(path, NULL), "# preset: gone\n[model]\nwidth = 64\n") == 0);
    check_ok(config_load(&back, path, &err), &err);
    check(config_int(&back, "width") == 64);
}

/* ---- Presets ------------------------------------------------------------------------------------------- */

typedef struct listing {
    int count;
    char text[16384];
} listing;

static void note(void *ctx, const char *name, const char *about)
{
    listing *l = ctx;
    const size_t used = strlen(l->text);
    l->count++;
    snprintf(l->text + used, sizeof l->text - used, "%s: %s\n", name, about);
}

static void presets_are_found_by_name(void **state)
{
    config c = fresh();
    scion_error err;
    listing l = {0};
    (void)state;
    mkdir(scratch("presets"), 0777);
    scratch_text(scratch("presets/zz-small.ini"), "# A small one\nwidth = 32\nlr = 0.5\n");
    scratch_text(scratch("presets/zz-larger.ini"), ";  Larger\r\npreset = zz-small\nwidth = 64\n");
    scratch_text(scratch("presets/zz-plain.ini"), "width = 96\n");
    scratch_text(scratch("presets/zz-notes.txt"), "no preset\n");
    setenv("SCION_PRESETS", scratch("presets"), 1);
    check_ok(config_preset(&c, "zz-larger", &err), &err);
    check(config_int(&c, "width") == 64 && c.training.lr == 0.5 && strcmp(c.preset, "zz-larger") == 0);
    check_status(config_preset(&c, "", &err), SCION_EINVAL, &err);
    config_presets(note, &l);
    check(l.count >= 3);
    check(strstr(l.text, "zz-larger: Larger\nzz-plain: \nzz-small: A small one\n") != NULL);
    check_status(config_preset(&c, "zz-smal", &err), SCION_EINVAL, &err);
    check(strstr(err.message, "there is no preset \"zz-smal\"; did you mean \"zz-small\"?") != NULL);
    check_status(config_preset(&c, "./none.ini", &err), SCION_EINVAL, &err);
    check(strstr(err.message, "./none.ini: there is no such file") != NULL);
    check(config_int(&c, "width") == 64);
}

/* By path, with the preset that it names beside it or, if it has the same name as the file, in the usual places. */
static void presets_are_found_by_path(void **state)
{
    config c = fresh();
    scion_error err;
    (void)state;
    unsetenv("SCION_PRESETS");
    mkdir(scratch("presets"), 0777);
    mkdir(scratch("mine"), 0777);
    scratch_text(scratch("mine/base.ini"), "width = 48\n");
    scratch_text(scratch("mine/top.ini"), "preset = base\nlayers = 7\n");
    check_ok(config_preset(&c, scratch("mine/top.ini"), &err), &err);
    check(config_int(&c, "width") == 48 && config_int(&c, "layers") == 7 &&
          strcmp(c.preset, scratch("mine/top.ini")) == 0);
    scratch_text(scratch("mine/zz-own.ini"), "preset = zz-own\nlayers = 5\n");
    scratch_text(scratch("presets/zz-own.ini"), "width = 16\nlayers = 1\n");
    setenv("SCION_PRESETS", scratch("presets"), 1);
    check_ok(config_load(&c, scratch("mine/zz-own.ini"), &err), &err);
    check(config_int(&c, "width") == 16 && config_int(&c, "layers") == 5 && strcmp(c.preset, "zz-own") == 0);
}

static void a_circle_of_presets_ends(void **state)
{
    config c = fresh();
    scion_error err;
    (void)state;
    mkdir(scratch("circle"), 0777);
    setenv("SCION_PRESETS", scratch("circle"), 1);
    scratch_text(scratch("circle/zz-a.ini"), "preset = zz-b\n");
    scratch_text(scratch("circle/zz-b.ini"), "preset = zz-a\n");
    check_status(config_preset(&c, "zz-a", &err), SCION_EINVAL, &err);
    check(strstr(err.message, "in a circle") != NULL);
}

/* A long chain is no circle: it is read, or refused with the limit. What is not a file is not called absent. */
static void deep_and_odd_presets(void **state)
{
    enum { limit = 16 };
    config c = fresh();
    scion_error err;
    (void)state;
    mkdir(scratch("deep"), 0777);
    setenv("SCION_PRESETS", scratch("deep"), 1);
    for (int i = 0; i <= limit + 1; i++) {
        char name[64], text[64];
        snprintf(name, sizeof name, "deep/zz-%d.ini", i);
        snprintf(text, sizeof text, i == 0 ? "width = 32\n" : "preset = zz-%d\n", i - 1);
        scratch_text(scratch(name), text);
    }
    check_ok(config_preset(&c, "zz-16", &err), &err);
    check(config_int(&c, "width") == 32);
    check_status(config_preset(&c, "zz-17", &err), SCION_EINVAL, &err);
    check(strstr(err.message, "zz-0.ini: reached through 17 presets, expected at most 16") != NULL);
    mkfifo(scratch("deep/pipe.ini"), 0666);
    check_status(config_preset(&c, scratch("deep/pipe.ini"), &err), SCION_EINVAL, &err);
    check(strstr(err.message, "pipe.ini: a preset is a file, and this is not one") != NULL);
    check(symlink("loop.ini", scratch("deep/loop.ini")) == 0);
    check_status(config_preset(&c, scratch("deep/loop.ini"), &err), SCION_EINVAL, &err);
    check(strstr(err.message, "loop.ini: cannot be read: ") != NULL);
    check_status(config_preset(&c, scratch("deep/none.ini"), &err), SCION_EINVAL, &err);
    check(strstr(err.message, "none.ini: there is no such file") != NULL);
}

/* On the command line a preset must come first: it would silently undo earlier settings. */
static void a_preset_among_pairs_comes_first(void **state)
{
    config c = fresh();
    scion_error err;
    (void)state;
    mkdir(scratch("pairs"), 0777);
    setenv("SCION_PRESETS", scratch("pairs"), 1);
    scratch_text(scratch("pairs/zz-p.ini"), "width = 32\n");
    check_ok(config_set_pair(&c, "preset=zz-p", &err), &err);
    check(config_int(&c, "width") == 32 && strcmp(c.preset, "zz-p") == 0);
    c = fresh();
    check_ok(config_set_pair(&c, "lr=1", &err), &err);
    check_status(config_set_pair(&c, "preset=zz-p", &err), SCION_EINVAL, &err);
    check(strstr(err.message, "preset=zz-p would replace lr") != NULL);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static void json_reads_back(void **state)
{
    rng r = rng_of(12);
    (void)state;
    for (int i = 0; i < 200; i++) {
        config c = shuffled(&r), back = fresh();
        scion_error err;
        strcpy(c.preset, "na\xc3\xafve \"quoted\" \\ /");
        char *json = config_to_json(&c);
        at("round %d", i);
        check(json != NULL);
        check_ok(config_from_json(&back, json, &err), &err);
        check_bits(sizeof c, &c, &back);
        free(json);
        json = config_to_values(&c); /* numbers and booleans, to the last bit */
        check(json != NULL);
        back = fresh();
        check_ok(config_from_json(&back, json, &err), &err);
        check_bits(sizeof c, &c, &back);
        free(json);
    }
}

static void wrong_json_is_refused(void **state)
{
    static const struct {
        const char *json, *says;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"", "not a JSON object"},
        {"{\"width\":null}", "width is not a string, a number or a boolean"},
        {"{\"width\":[8]}", "width is not a string"},
        {"{\"width\":8.5}", "width is \"8.5\", expected a whole number"},
        {"{\"width\":true}", "width is \"yes\", expected a whole number"},
        {"{\"width\":\"x\"}", "stored configuration: width is \"x\", expected a whole number"},
        {"{\"widht\":\"8\"}", "has no option \"widht\""},
        {"{\"lr\":\"1\",\"lr\":\"2\"}", "duplicate"},
    };
    const config before = fresh();
    config c = before;
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        scion_error err = {0};
        check(config_from_json(&c, cases[i].json, &err) != SCION_OK);
        at("%s: %s", cases[i].json, err.message);
        check(strstr(err.message, cases[i].says) != NULL);
        check_bits(sizeof c, &c, &before);
    }
    char *json = config_to_json(&c);
    for (size_t n = strlen(json); n-- > 0;) {
        json[n] = '\0';
        at("cut at %zu", n);
        check(config_from_json(&c, json, NULL) == SCION_ESTATE);
    }
    free(json);
}

/* ---- Damage -------------------------------------------------------------------------------------------- */

/* Whatever a file holds: OK or a sentence that names the file, and in the second case nothing changed. */
static void damaged_files_never_crash(void **state)
{
    rng r = rng_of(13);
    const config before = shuffled(&r);
    const char *path = scratch("fuzz.ini");
    size_t bytes;
    (void)state;
    setenv("SCION_PRESETS", "/nonexistent", 1);
    FILE *file = fopen(path, "w");
    config_write(&before, file, CONFIG_ALL);
    fclose(file);
    const char *good = scratch_get(path, &bytes);
    for (int i = 0; i < 2000; i++) {
        char *bad = room(bytes);
        const size_t kept = i % 4 == 0 ? (size_t)(rng_uniform(&r) * (double)bytes) : bytes;
        memcpy(bad, good, bytes);
        for (int k = 0; k <= i % 3; k++)
            bad[(size_t)(rng_uniform(&r) * (double)bytes)] = (char)(rng_uniform(&r) * 256);
        config c = fresh();
        scion_error err = {0};
        scratch_put(path, bad, kept);
        at("round %d", i);
        if (config_load(&c, path, &err) != SCION_OK) {
            const config untouched = fresh();
            check(strstr(err.message, "fuzz.ini") != NULL || strstr(err.message, "preset") != NULL);
            check_bits(sizeof c, &c, &untouched);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(ini_files_are_read),
        LAW(ini_errors_name_the_line),
        LAW(files_that_are_no_configuration_are_refused),
        LAW(what_is_written_reads_back),
        LAW(a_written_file_stands_alone),
        LAW(presets_are_found_by_name),
        LAW(presets_are_found_by_path),
        LAW(a_circle_of_presets_ends),
        LAW(deep_and_odd_presets),
        LAW(a_preset_among_pairs_comes_first),
        LAW(json_reads_back),
        LAW(wrong_json_is_refused),
        LAW(damaged_files_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
