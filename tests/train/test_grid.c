/* Grids: every form of list and range gives its values in order; sentences for what is wrong; what makes a run. */
#include "tiny.h"

#include "support.h"

#include "config/config.h"
#include "sweep/grid.h"

enum { MOST_PAIRS = 8 };

/* The grid of pairs that are apart by spaces, over a base that passes config_check. */
static scion_status make(grid *g, const char *text, scion_error *err)
{
    const config base = tiny(TINY_GPT);
    char copy[512];
    const char *pairs[MOST_PAIRS];
    int count = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *pair = strtok(copy, " "); pair; pair = strtok(NULL, " "))
        pairs[count++] = pair;
    return grid_make(g, &base, pairs, count, err);
}

/* The values of `keys` (apart by spaces) at each point, points apart by ' ', keys by '/'. */
static char *values(const grid *g, const char *keys)
{
    const size_t bytes = (size_t)(g->count + 1) * 256;
    char *text = room(bytes), copy[256];
    size_t used = 0;
    for (int64_t i = 0; i < g->count; i++) {
        snprintf(copy, sizeof copy, "%s", keys);
        for (char *key = strtok(copy, " "); key; key = strtok(NULL, " ")) {
            char value[CONFIG_TEXT];
            config_get(&g->points[i], config_find(key), value, sizeof value);
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", key == copy ? (i ? " " : "") : "/", value);
        }
    }
    return text;
}

static void ranges_and_lists_give_their_values(void **state)
{
    static const struct {
        const char *pairs, *keys, *values;
    } cases[] = {
        {"lr=2^-3..2^-1", "lr", "0.125 0.25 0.5"},
        {"lr=10^-3..10^-1", "lr", "0.001 0.01 0.1"},
        {"lr=2^-4..2^-1:2", "lr", "0.0625 0.25"}, /* the exponent's step */
        {"lr=2^-1..2^0:0.5", "lr", "0.5 0.7071067811865476 1"},
        {"lr=2^-4..2^-2:*2", "lr", "0.0625 0.125 0.25"},
        {"lr=2^-4..2^-4", "lr", "0.0625"},
        {"lr=0.001..1:*10", "lr", "0.001 0.01 0.1 1"},
        {"lr=0.1..0.3:0.1", "lr", "0.1 0.2 0.3"},
        {"lr=0.1..0.35:0.1", "lr", "0.1 0.2 0.3"},
        {"momentum=0.1..0.5:0.1", "momentum", "0.1 0.2 0.3 0.4 0.5"},
        {"width=64..512:*2", "width", "64 128 256 512"},
        {"width=32..500:*3", "width", "32 96 288"},
        {"width=32..96:32", "width", "32 64 96"},
        {"seed=1..3", "seed", "1 2 3"},
        {"seed=1..3,7,9..10", "seed", "1 2 3 7 9 10"},
        {"seed=5,4", "seed", "5 4"}, /* as given */
        {"batch=1k,2k", "batch", "1000 2000"},
        {"rule=scion,adamw", "rule", "scion adamw"},
        {"tied=0,1", "tied", "no yes"},
        {"norms=onehot/shared", "norms", "onehot shared"},
        {"norms=sign,spectral,sign/onehot", "norms", "sign,spectral,sign onehot"},
        {"data=../a,b.txt", "data", "../a,b.txt"},
        {"val_data=a..b:c", "val_data", "a..b:c"},
        {"out=x,y/..", "out", "x,y/.."},
        {"val_data=", "val_data", ""},
        {"seed=1..2 lr=2^-2..2^-1", "seed lr", "1/0.25 1/0.5 2/0.25 2/0.5"},
        {"lr=2^-2..2^-1 seed=1..2", "seed lr", "1/0.25 2/0.25 1/0.5 2/0.5"},
        {"rule=scion,sgd seed=1,2 width=32,64", "rule seed width",
         "scion/1/32 scion/1/64 scion/2/32 scion/2/64 sgd/1/32 sgd/1/64 sgd/2/32 sgd/2/64"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        grid g;
        scion_error err;
        at("%s", cases[i].pairs);
        check_ok(make(&g, cases[i].pairs, &err), &err);
        const char *got = values(&g, cases[i].keys);
        at("%s: %s", cases[i].pairs, got);
        check(strcmp(got, cases[i].values) == 0);
        for (int64_t k = 0; k < g.count; k++) /* the base's */
            check(config_int(&g.points[k], "layers") == 2 && g.points[k].data.vocab == 24);
        grid_free(&g);
        check(g.points == NULL && g.count == 0);
    }
}

static void no_pairs_are_the_base_itself(void **state)
{
    const config base = tiny(TINY_GPT "lr=0.5");
    grid g;
    scion_error err;
    (void)state;
    check_ok(grid_make(&g, &base, NULL, 0, &err), &err);
    check(g.count == 1 && g.points[0].training.lr == 0.5);
    grid_free(&g);
}

static void wrong_input_is_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *pairs, *says;
    } cases[] = {
        {"lr=2^-2..2^-5", "lr=2^-2..2^-5 is empty"},
        {"seed=3..1", "seed=3..1 is empty"},
        {"width=64..32:*2", "width=64..32:*2 is empty"},
        {"lr=", "lr=: a value is missing"},
        {"lr=1,,2", "lr=1,,2: a value is missing"},
        {"lr=1,", "lr=1,: a value is missing"},
        {"norms=onehot/", "norms=onehot/: a value is missing"},
        {"widht=64", "there is no option \"widht\"; did you mean \"width\"?"},
        {"lrr=1..2", "did you mean \"lr\"?"},
        {"lr=1 lr=2", "lr is given twice"},
        {"lr=1 seed=1 lr=2", "lr is given twice"},
        {"preset=mlp", "preset="},
        {"preset=mlp,shakespeare", "preset="},
        {"lr=0.1..0.5", "lr=0.1..0.5 needs a step: 0.1..0.5:0.1"},
        {"lr=2^-4..3^-1", "lr=2^-4..3^-1 needs a step"},
        {"lr=1..2:0", "lr=1..2:0: the step is \"0\""},
        {"lr=1..2:-1", "lr=1..2:-1: the step is \"-1\""},
        {"lr=1..2:*1", "lr=1..2:*1: the step is \"*1\""},
        {"lr=0..2:*2", "lr=0..2:*2: the step is \"*2\""},
        {"lr=1..2:", "lr=1..2:: the step is \"\""},
        {"lr=1..2:x", "lr=1..2:x: the step is \"x\""},
        {"lr=1:2..3", "lr=1:2..3"},
        {"lr=a..b", "lr=a..b, expected a range of numbers"},
        {"lr=1..2..3", "lr=1..2..3, expected a range of numbers"},
        {"lr=..", "lr=.., expected a range of numbers"},
        {"width=32..33.5:0.5", "width is \"32.5\", expected a whole number"},
        {"rule=scion..adamw", "rule is \"scion..adamw\", expected one of"},
        {"lr=0.1,fast", "lr is \"fast\""},
        {"width=32,40", "width is 40, expected a multiple of head_size"}, /* what config_check sees */
        {"rule=scion,adamw light=1", "rule adamw cannot keep"},
        {"seed=1..1000000", "seed=1..1000000 has more than 100000 values"},
        {"lr=0..1:1e-300", "lr=0..1:1e-300 has more than 100000 values"},
        {"seed=1..1000 batch=1..1000", "the grid has 1000000 points, at most 100000"},
        {"seed", "\"seed\", expected key=value"},
        {"=3", "\"=3\", expected key=value"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        grid g;
        scion_error err = {0};
        at("%s", cases[i].pairs);
        check_status(make(&g, cases[i].pairs, &err), SCION_EINVAL, &err);
        at("%s: %s", cases[i].pairs, err.message);
        check(strstr(err.message, cases[i].says) != NULL);
        grid_free(&g);
    }
}

static void long_values_are_refused(void **state)
{
    char pair[1000];
    scion_error err;
    (void)state;
    for (int i = 0; i < 2; i++) {
        grid g;
        const char *key = i ? "data=" : "rule=";
        const config base = tiny(TINY_GPT);
        const char *pairs[] = {pair};
        memset(pair, 'x', sizeof pair);
        memcpy(pair, key, 5);
        pair[sizeof pair - 1] = '\0';
        check_status(grid_make(&g, &base, pairs, 1, &err), SCION_EINVAL, &err);
        check(strstr(err.message, i ? "data" : "rule") != NULL);
        grid_free(&g);
    }
}

/* As many points as are allowed, and their first and last. */
static void a_large_grid_is_made(void **state)
{
    grid g;
    scion_error err;
    (void)state;
    check_ok(make(&g, "seed=1..100000", &err), &err);
    check(g.count == GRID_MAX && g.points[0].training.seed == 1 && g.points[GRID_MAX - 1].training.seed == GRID_MAX);
    grid_free(&g);
}

static void numbers_are_exact(void **state)
{
    grid g;
    scion_error err;
    (void)state;
    check_ok(make(&g, "seed=9007199254740990..9007199254740992", &err), &err);
    check(g.count == 3);
    for (int64_t i = 0; i < 3; i++)
        check(g.points[i].training.seed == 9007199254740990u + (uint64_t)i);
    grid_free(&g);
    check_ok(make(&g, "lr=1.0000001^1..1.0000001^2", &err), &err);
    check(g.count == 2 && g.points[0].training.lr == 1.0000001 && g.points[1].training.lr > g.points[0].training.lr);
    grid_free(&g);
}

/* Options that may differ between two descriptions of the same run. */
static void options_beside_the_run_compute_nothing(void **state)
{
    static const char beside[] = " preset threads recompute out max_minutes keep log_every eval_every "
                                 "eval_tokens norm_every save_every comm_timeout token_cache tensorboard report ";
    const config_option *o;
    int found = 0;
    (void)state;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", o->key);
        at("%s", o->key);
        check(grid_computes(o) == (strstr(beside, word) == NULL));
        found += !grid_computes(o);
    }
    check(found == 15);
    check(grid_computes(config_find("lr")) && grid_computes(config_find("eval_batches")));
    check(!grid_computes(config_find("out")) && !grid_computes(config_find("threads")));
}

static void varying_options_are_seen(void **state)
{
    grid g;
    scion_error err;
    const config_option *o;
    (void)state;
    check_ok(make(&g, "seed=1,1,2 rule=scion lr=0.5,0.25", &err), &err);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        at("%s", o->key);
        check(grid_varies(g.points, sizeof *g.points, g.count, o) ==
              (strcmp(o->key, "seed") == 0 || strcmp(o->key, "lr") == 0));
    }
    check(!grid_varies(g.points, 2 * sizeof *g.points, 3, config_find("lr"))); /* every second */
    check(!grid_varies(g.points, sizeof *g.points, 1, config_find("lr")));
    grid_free(&g);
}

static void rates_are_written_as_people_do(void **state)
{
    static const struct {
        double lr;
        const char *text;
    } cases[] = {{0x1p-5, "2^-5"}, {1, "2^0"}, {8, "2^3"}, {0.1, "0.1"}, {0, "0"}, {0.75, "0.75"}, {3e-4, "0.0003"}};
    char text[CONFIG_TEXT];
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        grid_rate(cases[i].lr, text);
        at("%g: %s", cases[i].lr, text);
        check(strcmp(text, cases[i].text) == 0);
        config c = tiny(TINY_GPT "width=32 rule=adamw"), back = c;
        scion_error err;
        c.training.lr = cases[i].lr;
        grid_pretty(&c, config_find("lr"), text);
        check(strcmp(text, cases[i].text) == 0);
        check_ok(config_set(&back, "lr", text, "test", &err), &err); /* and can be typed again */
        check(back.training.lr == c.training.lr);
        grid_pretty(&c, config_find("width"), text); /* only rates are powers */
        check(strcmp(text, "32") == 0);
        grid_pretty(&c, config_find("rule"), text);
        check(strcmp(text, "adamw") == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(ranges_and_lists_give_their_values),
        LAW(no_pairs_are_the_base_itself),
        LAW(wrong_input_is_refused_with_a_sentence),
        LAW(long_values_are_refused),
        LAW(a_large_grid_is_made),
        LAW(numbers_are_exact),
        LAW(options_beside_the_run_compute_nothing),
        LAW(varying_options_are_seen),
        LAW(rates_are_written_as_people_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
