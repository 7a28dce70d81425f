/* metrics.jsonl and summary.json: what the lines say, one line per step whatever was resumed, full disks. */
#include "scratch.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include <jansson.h>

#include "metric_cases.h"
#include "product/kernel.h"
#include "record/metrics.h"
#include "record/run_record.h"

static run_point step_point(int64_t step, double loss, double lr, double rate, double share)
{
    run_point p = run_point_empty(step);
    p.loss = loss;
    p.lr = lr;
    p.samples_per_s = rate;
    p.optimizer_share = share;
    return p;
}

static run_point validation_point(int64_t step, double val_loss, double accuracy)
{
    run_point p = run_point_empty(step);
    p.val_loss = val_loss;
    p.accuracy = accuracy;
    return p;
}

static void add_norm(metrics *m, const char *name, double bound, double overshoot)
{
    run_norm n = {.step = 10, .norm = 9, .bound = bound, .overshoot = overshoot, .update_size = NAN};
    scion_error err;
    strcpy(n.name, name);
    check_ok(metrics_norm(m, &n, &err), &err);
}

static void add(metrics *m, run_point p)
{
    scion_error err;
    check_ok(metrics_point(m, &p, &err), &err);
}

static void lines_are_as_documented(void **state)
{
    const char *dir = scratch_dir("lines");
    metrics *m = NULL;
    scion_error err;
    (void)state;
    check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
    add(m, step_point(10, 3.25, 0.03125, 50000, 0.1));
    add(m, validation_point(10, 3.5, NAN));
    add_norm(m, "a \"b\"\n\xc3\xa9", INFINITY, NAN);
    add_norm(m, "\xff", 10, 1.25);
    add(m, validation_point(11, INFINITY, NAN));
    run_point images = validation_point(12, 2, 0.5);
    images.top5 = 0.75; /* more than five classes */
    add(m, images);
    metrics_close(m);
    check(strcmp(scratch_get(scratch_in(dir, "metrics.jsonl"), NULL),
                 "{\"step\":10,\"loss\":3.25,\"lr\":0.03125,\"samples_per_s\":50000,\"optimizer_share\":0.1}\n"
                 "{\"step\":10,\"val_loss\":3.5,\"accuracy\":null}\n"
                 "{\"step\":10,\"name\":\"a \\\"b\\\"\\n\xc3\xa9\",\"norm\":9,\"bound\":null,\"ratio\":null}\n"
                 "{\"step\":10,\"name\":\"?\",\"norm\":9,\"bound\":10,\"overshoot\":1.25,\"ratio\":0.9}\n"
                 "{\"step\":11,\"val_loss\":null,\"accuracy\":null}\n"
                 "{\"step\":12,\"val_loss\":2,\"accuracy\":0.5,\"top5\":0.75}\n") == 0);
}

/* Points of a run say when they were, after how many seconds and samples, and what samples are. */
static void lines_have_their_place_in_time(void **state)
{
    const char *dir = scratch_dir("time");
    metrics *m = NULL;
    scion_error err;
    run_point step = step_point(10, 3.25, 0.03125, 50000, 0.1), validation = validation_point(10, 3.5, 0.25);
    (void)state;
    step.time = 1794852632;
    step.elapsed = 1.625;
    step.samples = 81920;
    step.unit = "tokens";
    validation.time = 0;
    validation.elapsed = 1e6;
    validation.samples = 0x1p52;
    validation.unit = "images";
    check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
    add(m, step);
    add(m, validation);
    step.unit = "images";
    add(m, step);
    metrics_close(m);
    check(strcmp(scratch_get(scratch_in(dir, "metrics.jsonl"), NULL),
                 "{\"step\":10,\"loss\":3.25,\"lr\":0.03125,\"tokens_per_s\":50000,\"optimizer_share\":0.1,"
                 "\"time\":\"2026-11-16T18:10:32Z\",\"elapsed\":1.625,\"tokens\":81920}\n"
                 "{\"step\":10,\"val_loss\":3.5,\"accuracy\":0.25,"
                 "\"time\":\"1970-01-01T00:00:00Z\",\"elapsed\":1000000,\"images\":4503599627370496}\n"
                 "{\"step\":10,\"loss\":3.25,\"lr\":0.03125,\"images_per_s\":50000,\"optimizer_share\":0.1,"
                 "\"time\":\"2026-11-16T18:10:32Z\",\"elapsed\":1.625,\"images\":81920}\n") == 0);
}

/* A run goes on with the seconds of its lines up to the checkpoint, or of its summary if that is no later. */
static void elapsed_seconds_are_found_again(void **state)
{
    const char *dir = scratch_dir("elapsed");
    (void)state;
    check(run_record_elapsed(dir, 10) == 0 && run_record_elapsed(scratch("nowhere"), 10) == 0);
    scratch_text(scratch_in(dir, "metrics.jsonl"),
                 "{\"step\":1,\"loss\":3}\n{\"step\":5,\"loss\":2,\"elapsed\":2.5}\n"
                 "{\"step\":9,\"loss\":1,\"elapsed\":4}\n{\"step\":11,\"loss\":1,\"elapsed\":1e9}\nunfinished");
    check(run_record_elapsed(dir, 4) == 0 && run_record_elapsed(dir, 5) == 2.5 && run_record_elapsed(dir, 10) == 4);
    scratch_text(scratch_in(dir, "summary.json"), "{\"steps\": 10, \"elapsed\": 4.5}");
    check(run_record_elapsed(dir, 9) == 4 && run_record_elapsed(dir, 10) == 4.5);
}

/* Whatever the numbers, a line is JSON and holds them to the last bit. */
static void numbers_come_back(void **state)
{
    const char *dir = scratch_dir("numbers");
    rng r = rng_of(41);
    metrics *m = NULL;
    scion_error err;
    double loss[100];
    (void)state;
    check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
    for (int i = 0; i < 100; i++) {
        loss[i] = rng_normal(&r) * exp(50 * rng_normal(&r));
        add(m, step_point(i, loss[i], 1, 1, 1));
    }
    metrics_close(m);
    char *line = strtok(scratch_get(scratch_in(dir, "metrics.jsonl"), NULL), "\n");
    for (int i = 0; i < 100; i++, line = strtok(NULL, "\n")) {
        json_t *object = json_loads(line, 0, NULL);
        const double back = json_number_value(json_object_get(object, "loss"));
        at("%s", line);
        check_bits(sizeof back, &back, &loss[i]);
        json_decref(object);
    }
}

/* metrics.csv: a header, then a row for each point; unknown values are empty. */
static void rows_are_as_documented(void **state)
{
    static const char header[] =
        "step,timestamp,loss,lr,bits_per_byte,val_loss,val_bits_per_byte,accuracy,top5,tokens_per_s,optimizer_share,"
        "elapsed,tokens\n";
    const char *dir = scratch_dir("rows"), *path = scratch_in(dir, "metrics.csv");
    run_point step = step_point(10, 3.25, 0.03125, 50000, 0.1), validation = validation_point(10, INFINITY, 0.25);
    run_curves none = {.points = NULL}, before = {.points = NULL};
    metrics *m = NULL;
    scion_error err;
    char rows[1024];
    (void)state;
    step.unit = validation.unit = "tokens";
    step.time = 1794852632;
    step.elapsed = 1.625;
    step.samples = 81920;
    snprintf(rows, sizeof rows, "%s%s%s", header, "10,2026-11-16T18:10:32Z,3.25,0.03125,,,,,,50000,0.1,1.625,81920\n",
             "10,,,,,inf,,0.25,,,,,\n");
    scratch_text(path, "left by another run\n");
    check_ok(metrics_csv_open(&m, -1, dir, &none, "tokens", &err), &err);
    check(access(path, F_OK) != 0); /* until there is a point */
    check_ok(metrics_csv_point(m, &step, &err), &err);
    check_ok(metrics_csv_point(m, &validation, &err), &err);
    metrics_close(m);
    check(strcmp(scratch_get(path, NULL), rows) == 0);
    /* A run that goes on: the points before it, whatever is in the file, and those that follow. */
    check(run_curves_add_point(&before, &step));
    scratch_text(path, "step,loss\n10,3.25\n11,");
    check_ok(metrics_csv_open(&m, -1, dir, &before, "tokens", &err), &err);
    check_ok(metrics_csv_point(m, &validation, &err), &err);
    metrics_close(m);
    check(strcmp(scratch_get(path, NULL), rows) == 0);
    run_curves_free(&before);
}

static void write_steps(metrics *m, int first, int last)
{
    for (int i = first; i <= last; i++) {
        add(m, step_point(i, 1, 1, 1, 1));
        if (i % 2 == 0)
            add(m, validation_point(i, 1, 1));
    }
}

/* A run that is stopped anywhere and goes on from an earlier checkpoint has the file of one that was not stopped. */
static void a_resumed_run_has_each_step_once(void **state)
{
    const char *dir = scratch_dir("resumed"), *path = scratch_in(dir, "metrics.jsonl");
    rng r = rng_of(42);
    metrics *m = NULL;
    scion_error err;
    (void)state;
    check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
    write_steps(m, 1, 30);
    metrics_close(m);
    char *whole = scratch_get(path, NULL);
    for (int i = 0; i < 100; i++) {
        const int stopped = 1 + (int)(rng_uniform(&r) * 29), saved = (int)(rng_uniform(&r) * (stopped + 1));
        check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
        write_steps(m, 1, stopped);
        metrics_close(m);
        if (i % 2 == 0 && saved < stopped) { /* killed in the middle of a line */
            size_t bytes;
            scratch_get(path, &bytes);
            check(truncate(path, (off_t)(bytes - 1 - (size_t)(rng_uniform(&r) * 20))) == 0);
        }
        at("stopped after %d, resumed from %d", stopped, saved);
        check_ok(metrics_open(&m, -1, dir, saved, false, &err), &err);
        write_steps(m, saved + 1, 30);
        metrics_close(m);
        check(strcmp(scratch_get(path, NULL), whole) == 0);
    }
}

static void a_new_run_starts_empty(void **state)
{
    const char *dir = scratch_dir("new");
    metrics *m = NULL;
    scion_error err;
    (void)state;
    scratch_text(scratch_in(dir, "metrics.jsonl"), "{\"step\":0}\nwhatever\n{\"step\":1}\n");
    check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
    metrics_close(m);
    check(strcmp(scratch_get(scratch_in(dir, "metrics.jsonl"), NULL), "") == 0);
    check_ok(metrics_open(&m, -1, scratch_dir("newer"), 5, false, &err),
             &err); /* a run resumed without its metrics */
    metrics_close(m);
}

static void strange_files_are_refused(void **state)
{
    static const struct {
        const char *text, *says, *left;
    } cases[] = {
        {"{\"step\":1}\nnonsense\n{\"step\":2}\n", "metrics.jsonl:2: not a line of metrics", NULL},
        {"{\"loss\":1}\n{\"step\":2}\n", "metrics.jsonl:1: not a line of metrics", NULL},
        {"{\"step\":1}\nnonsense\n", NULL, "{\"step\":1}\n"}, /* an end that a crash left */
        {"{\"step\":1}\n{\"step\":2}", NULL, "{\"step\":1}\n"},
        {"{\"step\":6}\n{\"step\":2}\n", NULL, ""},
    };
    const char *dir = scratch_dir("strange"), *path = scratch_in(dir, "metrics.jsonl");
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        metrics *m = NULL;
        scion_error err = {0};
        scratch_text(path, cases[i].text);
        at("%s", cases[i].text);
        check_status(metrics_open(&m, -1, dir, 5, false, &err), cases[i].says ? SCION_ESTATE : SCION_OK, &err);
        check(!cases[i].says || strstr(err.message, cases[i].says) != NULL);
        metrics_close(m);
        check(strcmp(scratch_get(path, NULL), cases[i].left ? cases[i].left : cases[i].text) == 0);
    }
}

static void a_full_disk_keeps_whole_lines(void **state)
{
    const char *dir = scratch_dir("full"), *path = scratch_in(dir, "metrics.jsonl");
    struct rlimit before, limit;
    metrics *m = NULL;
    scion_error err = {0};
    size_t bytes, after;
    const run_result result = run_result_empty();
    config c;
    (void)state;
    config_init(&c);
    check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
    write_steps(m, 1, 3);
    scratch_get(path, &bytes);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){bytes + 7, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    const run_point p = step_point(4, 1, 1, 1, 1);
    const scion_status line = metrics_point(m, &p, &err);
    limit.rlim_cur = 5;
    setrlimit(RLIMIT_FSIZE, &limit);
    const scion_status summary = metrics_summary(-1, dir, &result, &c, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    check_status(line, SCION_EINVAL, &err);
    check(strstr(err.message, "full/metrics.jsonl: cannot be written: ") != NULL);
    metrics_close(m);
    scratch_get(path, &after);
    check(after == bytes);
    check(summary == SCION_EINVAL && scratch_count(dir) == 1);
}

static void folders_that_are_not_there(void **state)
{
    metrics *m = NULL;
    const run_result result = run_result_empty();
    config c;
    scion_error err;
    (void)state;
    config_init(&c);
    check_status(metrics_open(&m, -1, scratch("nowhere"), 0, false, &err), SCION_EINVAL, &err);
    check(m == NULL && strstr(err.message, "nowhere/metrics.jsonl: cannot be written: No such file") != NULL);
    check_status(metrics_summary(-1, scratch("nowhere"), &result, &c, &err), SCION_EINVAL, &err);
    metrics_close(NULL);
}

static json_t *summary_of(const char *dir)
{
    json_t *o = json_loads(scratch_get(scratch_in(dir, "summary.json"), NULL), JSON_REJECT_DUPLICATES, NULL);
    check(json_is_object(o));
    return o;
}

static void the_summary_is_one_object(void **state)
{
    const char *dir = scratch_dir("summary");
    run_result r = run_result_empty();
    r.step = 100;
    r.parameters = 3000000000;
    r.samples = 300;
    r.seconds = 1.5;
    r.elapsed = 2.25;
    r.forward_s = 0.25;
    r.backward_s = 0.5;
    r.optimizer_s = 0.125;
    r.overall_samples_per_s = 200;
    r.last_loss = 1.75;
    r.loss = 1.5;
    r.val_loss = 1.8155;
    r.best_val_loss = 1.8;
    r.peak_bytes = 0x1p40;
    config c;
    scion_error err;
    (void)state;
    config_init(&c);
    c.training.lr = 0.1;
    check_ok(metrics_summary(-1, dir, &r, &c, &err), &err);
    json_t *object = summary_of(dir);
    check(json_object_size(object) == 17);
    check(strcmp(json_string_value(json_object_get(object, "kernels")), scn_isa_used()->name) == 0);
    check(strcmp(json_string_value(json_object_get(object, "state")), "stopped") == 0);
    check(json_real_value(json_object_get(object, "elapsed")) == 2.25);
    check(json_real_value(json_object_get(object, "forward_s")) == 0.25);
    check(json_real_value(json_object_get(object, "backward_s")) == 0.5);
    check(json_real_value(json_object_get(object, "optimizer_s")) == 0.125);
    check(json_integer_value(json_object_get(object, "parameters")) == 3000000000);
    check(json_integer_value(json_object_get(object, "peak_bytes")) == 1ll << 40);
    check(json_integer_value(json_object_get(object, "tokens_per_s")) == 200);
    check(json_real_value(json_object_get(object, "loss")) == 1.75);
    check(json_real_value(json_object_get(object, "val_loss")) == 1.8155);
    check(json_is_null(json_object_get(object, "accuracy")));
    const json_t *settings = json_object_get(object, "config");
    check(json_real_value(json_object_get(settings, "lr")) == 0.1);
    check(json_integer_value(json_object_get(settings, "layers")) == 3);
    check(json_is_false(json_object_get(settings, "light")));
    check(json_is_string(json_object_get(settings, "rule")));
    json_decref(object);
    check(scratch_count(dir) == 1);
    r.accuracy = 0.75; /* what only some runs have */
    r.plain_accuracy = 0.5;
    r.top5 = 0.875;
    r.skipped = 7;
    check_ok(metrics_summary(-1, dir, &r, &c, &err), &err);
    object = summary_of(dir);
    check(json_object_size(object) == 20);
    check(json_real_value(json_object_get(object, "top5")) == 0.875);
    check(json_real_value(json_object_get(object, "plain_accuracy")) == 0.5);
    check(json_integer_value(json_object_get(object, "skipped")) == 7);
    check(json_integer_value(json_object_get(object, "tokens")) == 300);
    json_decref(object);
    check_ok(config_set(&c, "model", "mlp", "test", &err), &err); /* images are images */
    check_ok(metrics_summary(-1, dir, &r, &c, &err), &err);
    object = summary_of(dir);
    check(json_integer_value(json_object_get(object, "images_per_s")) == 200 && json_object_size(object) == 20);
    check(json_integer_value(json_object_get(object, "images")) == 300 && !json_object_get(object, "tokens"));
    json_decref(object);
}

/* Everything that is written is read back, to the last bit, in this version's files and in those of 0.2. */
static void records_come_back(void **state)
{
    const char *dir = scratch_dir("record"), *metrics_file = scratch_in(dir, "metrics.jsonl");
    metrics *m = NULL;
    run_result r = run_result_empty();
    run_record back;
    config c;
    scion_error err;
    (void)state;
    config_init(&c);
    check_ok(config_set(&c, "model", "mlp", "test", &err), &err);
    run_point p[] = {step_point(10, 1 / 3.0, 0.1, 7e3, 0.25), validation_point(10, 1 / 7.0, 0.5)};
    for (int i = 0; i < 2; i++) {
        p[i].time = 1794852632;
        p[i].elapsed = 0.125;
        p[i].samples = 640;
        p[i].unit = "images";
    }
    p[1].top5 = 0.75;
    fill_metrics(run_result_metrics, &r, 100);
    check_ok(metrics_open(&m, -1, dir, 0, false, &err), &err);
    add(m, p[0]);
    add(m, p[1]);
    add_norm(m, "a", 10, 1.25);
    metrics_close(m);
    check_ok(metrics_summary(-1, dir, &r, &c, &err), &err);
    check_ok(run_record_read(&back, dir, &err), &err);
    check(back.ended && back.configured && back.curves.point_count == 2 && back.curves.norm_count == 1);
    check_metrics(run_point_metrics, &p[0], &back.curves.points[0], METRIC_STEP);
    check_metrics(run_point_metrics, &p[1], &back.curves.points[1], METRIC_VALIDATION);
    check_metrics(run_result_metrics, &r, &back.result, METRIC_SUMMARY);
    check(back.curves.norms[0].overshoot == 1.25 && back.curves.norms[0].bound == 10);
    run_record_free(&back);
    scratch_text(metrics_file, "{\"step\":1,\"loss\":2,\"tokens_per_s\":5,\"images\":64}\n"
                               "{\"step\":1,\"name\":\"a\",\"norm\":2,\"bound\":null,\"ratio\":null}\n");
    scratch_text(scratch_in(dir, "summary.json"), "{\"steps\":1,\"tokens\":64,\"tokens_per_s\":4,\"baseline\":1.5,"
                                                  "\"config\":{\"model\":\"mlp\",\"baseline\":1.5}}");
    check_ok(run_record_read(&back, dir, &err), &err);
    check(back.curves.points[0].samples_per_s == 5 && back.curves.points[0].samples == 64);
    check(back.result.samples == 64 && back.result.overall_samples_per_s == 4 && back.configured);
    check(isinf(back.curves.norms[0].bound) && isnan(back.curves.norms[0].overshoot));
    run_record_free(&back);
}

/* The file is cut when it is opened: what a link leads to is not. */
static void a_link_is_not_followed(void **state)
{
    const char *dir = scratch_dir("linked"), *other = scratch("precious");
    metrics *m = NULL;
    scion_error err;
    (void)state;
    scratch_text(other, "precious");
    check(symlink(other, scratch_in(dir, "metrics.jsonl")) == 0);
    check_status(metrics_open(&m, -1, dir, 0, false, &err), SCION_EINVAL, &err);
    check(m == NULL && strstr(err.message, "is a link") != NULL);
    check(strcmp(scratch_get(other, NULL), "precious") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(rows_are_as_documented),
        LAW(lines_are_as_documented),
        LAW(numbers_come_back),
        LAW(a_resumed_run_has_each_step_once),
        LAW(lines_have_their_place_in_time),
        LAW(elapsed_seconds_are_found_again),
        LAW(a_new_run_starts_empty),
        LAW(strange_files_are_refused),
        LAW(a_full_disk_keeps_whole_lines),
        LAW(folders_that_are_not_there),
        LAW(the_summary_is_one_object),
        LAW(a_link_is_not_followed),
        LAW(records_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
