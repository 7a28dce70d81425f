/* Options of a model and of a kind of data that the program does not have: identity, origins, old files. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"

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

/* A new option changes no identity where it has its origin, whatever its default is; the order of rows counts nothing. */
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
    char *json = config_to_json(&c);
    check(json != NULL);
    check_ok(config_from_json(&back, json, &err), &err);
    free(json);
    check_bits(sizeof c, &c, &back);
    check(config_int(&back, "dots") == 77 && *(const int64_t *)config_model_options(&back) == 5);
    check(strcmp(config_unit(&c), "images") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(new_options_leave_old_runs_alone),
        LAW(values_of_new_options_are_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
