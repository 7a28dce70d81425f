/* A model with buffers and a kind of data that the program does not have: identity, origins, old files, state. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/trainer_tests.h"

typedef struct text {
    char bytes[4096];
} text;

static void add_line(void *ctx, const char *line, size_t length)
{
    text *t = ctx;
    check(strlen(t->bytes) + length < sizeof t->bytes);
    strncat(t->bytes, line, length);
}

static text identity(const config *c)
{
    text t = {""};
    config_identity(c, add_line, &t);
    return t;
}

/* A new option changes no identity where it has its origin, whatever its default is; the order of rows counts
 * nothing. */
static void new_options_leave_old_runs_alone(void **state)
{
    config c, old;
    scion_error err;
    (void)state;
    config_init(&c);
    check_ok(config_set(&c, "model", "linear", "test", &err), &err);
    check(config_int(&c, "copies") == 2);
    check(strstr(identity(&c).bytes, "copies=2\n") != NULL); /* the default is not what runs did before */
    config_set_int(&c, "copies", 1);
    check(strstr(identity(&c).bytes, "copies") == NULL);
    check(strstr(identity(&c).bytes, "dots") == NULL);
    check_ok(config_set(&c, "noise", "0.25", "test", &err), &err);
    check_ok(config_set(&c, "dots", "65", "test", &err), &err);
    check(strstr(identity(&c).bytes, "dots=65\nnoise=0.25\n") != NULL);
    check(strncmp(identity(&c).bytes, "model=linear\nlayers=3\nwidth=128\n", 32) == 0);
    /* A configuration of the time before. */
    check_ok(config_from_json(&old, "{\"model\":\"linear\",\"lr\":\"0.5\"}", &err), &err);
    check(config_int(&old, "copies") == 1);
    check(strstr(identity(&old).bytes, "copies") == NULL);
}

static void values_of_new_options_are_stored(void **state)
{
    config c, back;
    scion_error err;
    (void)state;
    config_init(&c);
    check_ok(config_set(&c, "model", "linear", "test", &err), &err);
    check_ok(config_set(&c, "copies", "5", "test", &err), &err);
    check_ok(config_set(&c, "dots", "77", "test", &err), &err);
    check_ok(config_set(&c, "smoothing", "0.5", "test", &err), &err);
    check_ok(config_set(&c, "norms", "sign", "test", &err), &err); /* "auto" would be stored as what it stands for */
    check_ok(config_set(&c, "polar_compute", "float32", "test", &err), &err);
    char *json = config_to_json(&c);
    check(json != NULL);
    check_ok(config_from_json(&back, json, &err), &err);
    free(json);
    check_bits(sizeof c, &c, &back);
    check(config_int(&back, "dots") == 77 && *(const int64_t *)config_model_options(&back) == 5);
    check(strcmp(config_unit(&c), "images") == 0);
}

/* ---- Buffers: state of the model beside its weights -------------------------------------------------------- */

static trainer *start(const char *rule)
{
    config c;
    trainer *t = NULL;
    scion_error err;
    const char *const pairs[][2] = {{"model", "linear"}, {"data_kind", "dots"}, {"norms", "image"}, {"batch", "8"},
                                    {"accum", "3"},      {"steps", "6"},        {"lr", "0.1"},      {"rule", rule}};
    config_init(&c);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        check_ok(config_set(&c, pairs[i][0], pairs[i][1], "test", &err), &err);
    check_ok(tiny_create(&t, &c, &err), &err);
    return t;
}

/* Once per micro-batch, whatever else the step computes: recomputation, the second gradient of MARS, evaluations. */
static void buffers_change_once_per_micro_batch(void **state)
{
    static const char *const rules[] = {"scion", "mars"};
    scion_error err;
    double loss, accuracy;
    (void)state;
    for (int k = 0; k < 2; k++) {
        trainer *t = start(rules[k]);
        const tape_value *mean = tape_buffer_at(t->model.tape, 0), *updates = tape_buffer_at(t->model.tape, 1);
        check(updates->data == (float *)t->flats[FLAT_BUFFERS] + mean->count);
        check(updates->data[0] == 0 && mean->data[0] == 0);
        for (int step = 1; step <= 4; step++) {
            check_ok(tiny_step(t, &loss, &err), &err);
            check_ok(trainer_evaluate(t, 0, &loss, &accuracy, &err), &err);
            check(updates->data[0] == (float)(3 * step));
        }
        double sum = 0;
        for (int64_t i = 0; i < mean->count; i++)
            sum += fabs((double)mean->data[i]);
        check(sum > 0);
        trainer_free(t);
    }
}

/* A step that is refused leaves buffers as they were; one that is not finite is never saved. */
static void refused_steps_restore_buffers(void **state)
{
    scion_error err;
    double loss;
    (void)state;
    trainer *t = start("scion");
    check_ok(tiny_step(t, &loss, &err), &err);
    const int64_t n = tape_buffer_elements(t->model.tape);
    float *before = copy_floats(n, t->flats[FLAT_BUFFERS]);
    float *w = tape_param_at(t->model.tape, tape_param_count(t->model.tape) - 1)->data, kept = w[0];
    w[0] = NAN; /* of the last layer: the buffers' means stay finite */
    check(tiny_step(t, &loss, &err) == SCION_ENONFINITE);
    check_bits((size_t)n * sizeof *before, t->flats[FLAT_BUFFERS], before);
    w[0] = kept;
    *(float *)t->flats[FLAT_BUFFERS] = INFINITY;
    check(tiny_save(t, "/tmp/scion-toys-not-written", &err) == SCION_ENONFINITE);
    check(strstr(err.message, "mean is not finite") != NULL);
    check(tiny_step(t, &loss, &err) == SCION_ENONFINITE);
    trainer_free(t);
}

/* They are saved under their names, and a run that resumes has them. */
static void buffers_are_saved(void **state)
{
    scion_error err;
    double loss, losses[2];
    trainer_scores scores[2];
    char path[] = "/tmp/scion-toys-XXXXXX";
    (void)state;
    const int fd = mkstemp(path);
    check(fd >= 0);
    close(fd);
    trainer *t = start("scion"), *resumed = NULL, *opened = NULL;
    for (int i = 0; i < 2; i++)
        check_ok(tiny_step(t, &loss, &err), &err);
    check_ok(tiny_save(t, path, &err), &err);
    check_ok(tiny_resume(&resumed, path, NULL, 0, &err), &err);
    check_ok(trainer_open(&opened, path, NULL, 0, TRAINER_EVALUATE, &err), &err);
    const size_t bytes = (size_t)tape_buffer_elements(t->model.tape) * sizeof(float);
    check_bits(bytes, resumed->flats[FLAT_BUFFERS], t->flats[FLAT_BUFFERS]);
    check_ok(trainer_validate(t, true, NULL, &scores[0], NULL, &err), &err);
    check_ok(trainer_validate(opened, true, NULL, &scores[1], NULL, &err), &err);
    check(scores[0].loss == scores[1].loss);
    check_ok(tiny_step(t, &losses[0], &err), &err);
    check_ok(tiny_step(resumed, &losses[1], &err), &err);
    check(losses[0] == losses[1]);
    check_bits(bytes, resumed->flats[FLAT_BUFFERS], t->flats[FLAT_BUFFERS]);
    trainer_free(t);
    trainer_free(resumed);
    trainer_free(opened);
    unlink(path);
}

/* ---- An average of the weights: one row of toy_flat.c --------------------------------------------------------- */

/* Counted and allocated; the mean of the weights after each step; validations measure it, and leave the weights. */
static void the_average_is_validated(void **state)
{
    enum { steps = 4 };
    trainer *t = start("scion");
    const size_t bytes = tape_weight_bytes(t->model.tape), buffers = flat_bytes(t->model.tape, LIKE_BUFFERS);
    float *weights = tiny_weights(t), *mean = t->flats[FLAT_OWN], *kept;
    double *sum = calloc((size_t)t->elements, sizeof *sum), loss, plain;
    trainer_scores scores;
    scion_error err;
    (void)state;
    check(t->memory.weights == 2 * bytes + 2 * buffers);
    check_bits(bytes, mean, weights);
    for (int i = 0; i < steps; i++) {
        check_ok(tiny_step(t, &loss, &err), &err);
        for (int64_t k = 0; k < t->elements; k++)
            sum[k] += (double)weights[k];
    }
    for (int64_t k = 0; k < t->elements; k++)
        check(fabs((double)mean[k] - sum[k] / steps) <= 1e-6);
    kept = copy_floats(t->elements, weights);
    check_ok(trainer_validate(t, false, NULL, &scores, NULL, &err), &err);
    check_bits(bytes, weights, kept);
    check_ok(trainer_evaluate(t, 0, &plain, NULL, &err), &err);
    memcpy(weights, mean, bytes);
    check_ok(trainer_evaluate(t, 0, &loss, NULL, &err), &err);
    check(scores.loss == loss && loss != plain);
    free(sum);
    trainer_free(t);
}

/* Saved under its prefix; a resumed run has it bit for bit, and a model in use has it for its weights. */
static void the_average_is_saved(void **state)
{
    char path[] = "/tmp/scion-toys-XXXXXX";
    trainer *t = start("scion"), *resumed = NULL, *opened = NULL;
    const size_t bytes = tape_weight_bytes(t->model.tape);
    const tape_value *head = tape_param_at(t->model.tape, tape_param_count(t->model.tape) - 1);
    trainer_scores scores[2];
    checkpoint *file = NULL;
    scion_error err;
    double loss;
    (void)state;
    const int fd = mkstemp(path);
    check(fd >= 0);
    close(fd);
    for (int i = 0; i < 3; i++)
        check_ok(tiny_step(t, &loss, &err), &err);
    check_ok(tiny_save(t, path, &err), &err);
    check_ok(checkpoint_open(&file, path, &err), &err);
    const checkpoint_tensor *saved = checkpoint_find(file, "average_weights.head");
    check(saved != NULL && saved->bytes == (size_t)head->count * sizeof(float));
    check_bits(saved->bytes, saved->data, flat_at(t->flats[FLAT_OWN], LIKE_WEIGHTS, head));
    checkpoint_close(file);
    check_ok(tiny_resume(&resumed, path, NULL, 0, &err), &err);
    check_bits(bytes, resumed->flats[FLAT_OWN], t->flats[FLAT_OWN]);
    check_ok(trainer_open(&opened, path, NULL, 0, TRAINER_EVALUATE, &err), &err);
    check(opened->flats[FLAT_OWN] == NULL);
    check_bits(bytes, tiny_weights(opened), t->flats[FLAT_OWN]);
    check_ok(trainer_validate(t, true, NULL, &scores[0], NULL, &err), &err);
    check_ok(trainer_validate(opened, true, NULL, &scores[1], NULL, &err), &err);
    check(scores[0].loss == scores[1].loss);
    check_ok(tiny_step(t, &loss, &err), &err);
    check_ok(tiny_step(resumed, &loss, &err), &err);
    check_bits(bytes, resumed->flats[FLAT_OWN], t->flats[FLAT_OWN]);
    trainer_free(t);
    trainer_free(resumed);
    trainer_free(opened);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(new_options_leave_old_runs_alone),
        LAW(values_of_new_options_are_stored),
        LAW(buffers_change_once_per_micro_batch),
        LAW(refused_steps_restore_buffers),
        LAW(buffers_are_saved),
        LAW(the_average_is_validated),
        LAW(the_average_is_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
