/* Saving and loading: a loaded run goes on bit for bit under every rule; a state that is damaged, cut short, or
 * from another optimizer is refused with a sentence and changes nothing. */
#include "support.h"

#include <math.h>
#include <string.h>

static scion_error err;

enum { PARAMS = 4 };

typedef struct run {
    scion_options o;
    scion_param p[PARAMS];
    int64_t n[PARAMS];
    scion_optimizer *opt;
    rng r;
} run;

static scion_options options_of(scion_rule rule, int light, int vanishing)
{
    scion_options o;
    scion_options_init(&o, rule);
    o.light = light;
    o.vanishing = vanishing;
    o.seed = 5;
    return o;
}

/* One weight is bfloat16, so that the stochastic rounding has to go on as well. */
static run *make(const scion_options *o)
{
    run *a = room(sizeof *a);
    a->o = *o;
    a->r = rng_of(9);
    a->p[0] = matrix_of(5, 4, SCION_NORM_AUTO, SCION_ROLE_ONEHOT);
    a->p[1] = matrix_of(6, 5, SCION_NORM_AUTO, SCION_ROLE_HIDDEN);
    a->p[2] = matrix_of(3, 6, SCION_NORM_AUTO, SCION_ROLE_OUTPUT);
    a->p[3] = param_of(1, (int64_t[]){6}, SCION_NORM_AUTO, SCION_ROLE_VECTOR);
    for (int i = 0; i < PARAMS; i++) {
        a->n[i] = elements(&a->p[i]);
        float *w = gaussian(&a->r, a->n[i]);
        a->p[i].weight = i == 1 ? (void *)bf16_copy(a->n[i], w) : (void *)w;
        a->p[i].weight_type = i == 1 ? SCION_BF16 : SCION_F32;
        a->p[i].grad = floats(a->n[i]);
        a->p[i].grad_prev = floats(a->n[i]);
    }
    check_ok(scion_optimizer_create(&a->opt, o, a->p, PARAMS, &err), &err);
    return a;
}

static size_t weight_bytes(const run *a, int i)
{
    return (size_t)a->n[i] * (a->p[i].weight_type == SCION_BF16 ? 2 : 4);
}

static void steps(run *a, int count)
{
    for (int k = 0; k < count; k++) {
        scion_optimizer_begin(a->opt);
        for (int i = 0; i < PARAMS; i++) {
            float *g = a->p[i].grad, *prev = a->p[i].grad_prev;
            for (int64_t e = 0; e < a->n[i]; e++) {
                g[e] += (float)rng_normal(&a->r);
                prev[e] = (float)rng_normal(&a->r);
            }
        }
        check_ok(scion_optimizer_step(a->opt, 0.05, &err), &err);
    }
}

static unsigned char *save(const run *a, size_t *bytes)
{
    *bytes = scion_optimizer_save_bytes(a->opt, 0);
    unsigned char *buffer = room(*bytes);
    check_ok(scion_optimizer_save(a->opt, 0, buffer, *bytes, &err), &err);
    return buffer;
}

/* ---- Going on ------------------------------------------------------------------------------------------ */

static void check_continuation(scion_rule rule, int light, int vanishing)
{
    scion_options o = options_of(rule, light, vanishing);
    size_t bytes, bytes_a, bytes_b;
    at("rule %s%s%s", scion_enum_name(SCION_ENUM_RULE, (int)rule), light ? " light" : "",
       vanishing ? " vanishing" : "");
    run *a = make(&o), *b = make(&o);
    steps(a, 5);
    unsigned char *state = save(a, &bytes);
    for (int i = 0; i < PARAMS; i++) {
        memcpy(b->p[i].weight, a->p[i].weight, weight_bytes(a, i));
        memcpy(b->p[i].grad, a->p[i].grad, (size_t)a->n[i] * sizeof(float));
    }
    b->r = a->r;
    check_ok(scion_optimizer_load(b->opt, 0, state, bytes, &err), &err);
    assert_int_equal(scion_optimizer_steps(b->opt), 5);
    for (int k = 0; k < 5; k++) {
        steps(a, 1);
        steps(b, 1);
        for (int i = 0; i < PARAMS; i++)
            check_bits(weight_bytes(a, i), b->p[i].weight, a->p[i].weight);
    }
    unsigned char *end_a = save(a, &bytes_a), *end_b = save(b, &bytes_b);
    assert_int_equal(bytes_a, bytes_b);
    check_bits(bytes_a, end_b, end_a);
    if (rule == SCION_RULE_MARS) { /* the previous weights travel along */
        check_ok(scion_optimizer_previous(a->opt, &err), &err);
        check_ok(scion_optimizer_previous(b->opt, &err), &err);
        for (int i = 0; i < PARAMS; i++)
            check_bits(weight_bytes(a, i), b->p[i].weight, a->p[i].weight);
    }
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
    release(NULL);
}

static void test_every_rule_goes_on(void **state)
{
    (void)state;
    static const scion_rule light[] = {SCION_RULE_SCION, SCION_RULE_USCION, SCION_RULE_SIGNUM, SCION_RULE_MNSGD};
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++)
        check_continuation((scion_rule)rule, 0, 0);
    check_continuation(SCION_RULE_SCION, 0, 1);
    check_continuation(SCION_RULE_USCION, 0, 1);
    for (int64_t t = 0; t < COUNT_OF(light); t++)
        check_continuation(light[t], 1, 0);
}

/* Saving twice gives the same bytes, and a state loaded and saved again is itself. */
static void test_round_trip(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    size_t bytes, again_bytes;
    run *a = make(&o), *b = make(&o);
    steps(a, 3);
    unsigned char *first = save(a, &bytes), *second = save(a, &again_bytes);
    check_bits(bytes, first, second);
    check_ok(scion_optimizer_load(b->opt, 0, first, bytes, &err), &err);
    check_bits(bytes, save(b, &again_bytes), first);
    assert_int_equal(bytes, again_bytes);
    check_le((double)scion_optimizer_state_bytes(a->opt), (double)bytes);
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
}

/* The bounds go on too: the sum of step sizes and the start are part of the state. */
static void test_bounds_travel(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_USCION, 0, 0);
    scion_info ia = {.size = sizeof ia}, ib = {.size = sizeof ib};
    size_t bytes;
    run *a = make(&o), *b = make(&o);
    check_ok(scion_optimizer_init_weights(a->opt, 1, &err), &err);
    steps(a, 3);
    unsigned char *bytes_of_a = save(a, &bytes);
    check_ok(scion_optimizer_load(b->opt, 0, bytes_of_a, bytes, &err), &err);
    for (int i = 0; i < PARAMS; i++) {
        check_ok(scion_optimizer_inspect(a->opt, i, 0, &ia, &err), &err);
        check_ok(scion_optimizer_inspect(b->opt, i, 0, &ib, &err), &err);
        check(ia.bound == ib.bound && isfinite(ia.bound));
    }
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
}

/* ---- Refusals ------------------------------------------------------------------------------------------ */

/* Loads and expects a refusal that leaves the optimizer's own state alone. */
static void check_refused(run *b, const void *buffer, size_t length, const unsigned char *own, size_t own_bytes)
{
    size_t bytes;
    memset(&err, 0, sizeof err);
    check_status(scion_optimizer_load(b->opt, 0, buffer, length, &err), SCION_ESTATE, &err);
    check(err.message[0] != '\0');
    const scion_error refusal = err;
    unsigned char *after = save(b, &bytes);
    assert_int_equal(bytes, own_bytes);
    check_bits(bytes, after, own);
    err = refusal;
}

static void check_damage(scion_rule rule)
{
    scion_options o = options_of(rule, 0, 0);
    size_t bytes, own_bytes;
    run *a = make(&o), *b = make(&o);
    steps(a, 4);
    steps(b, 2);
    unsigned char *state = save(a, &bytes), *own = save(b, &own_bytes), *copy;
    for (size_t length = 0; length < bytes; length++) {
        at("rule %d cut to %zu of %zu bytes", (int)rule, length, bytes);
        copy = room(length); /* exactly as long: a read past the end shows under AddressSanitizer */
        memcpy(copy, state, length);
        check_refused(b, copy, length, own, own_bytes);
    }
    for (size_t i = 0; i < bytes; i++)
        for (int flip = 0; flip < 2; flip++) {
            at("rule %d, byte %zu of %zu changed", (int)rule, i, bytes);
            state[i] ^= flip ? 0xFF : 0x01;
            check_refused(b, state, bytes, own, own_bytes);
            state[i] ^= flip ? 0xFF : 0x01;
        }
    copy = room(bytes + 1);
    memcpy(copy, state, bytes);
    at("rule %d, one byte too many", (int)rule);
    check_refused(b, copy, bytes + 1, own, own_bytes);
    check_ok(scion_optimizer_load(b->opt, 0, state, bytes, &err), &err);
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
    release(NULL);
}

static void test_damage(void **state)
{
    (void)state;
    check_damage(SCION_RULE_SCION);
    check_damage(SCION_RULE_ADAMW);
    check_damage(SCION_RULE_MARS);
    check_damage(SCION_RULE_SIGNSGD);
}

/* The version stands after eight bytes of magic: another one is refused, and the sentence says so. */
static void test_other_versions(void **state)
{
    (void)state;
    static const uint64_t others[] = {0, 1, 4, UINT64_MAX};
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    size_t bytes, own_bytes;
    run *a = make(&o);
    unsigned char *own = save(a, &own_bytes), *other = save(a, &bytes);
    for (int64_t t = 0; t < COUNT_OF(others); t++) {
        memcpy(other + 8, &others[t], sizeof others[t]);
        check_status(scion_optimizer_load(a->opt, 0, other, bytes, &err), SCION_ESTATE, &err);
        check(strstr(err.message, "version") != NULL);
        check_refused(a, other, bytes, own, own_bytes);
    }
    scion_optimizer_free(a->opt);
}

/* As docs/file-formats.md has it. */
static uint64_t checksum_of(const unsigned char *bytes, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n ^ (uint64_t)3 << 56;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

/* A record with more fields than this version knows is taken if they are zero, and refused if one is not, so
 * that nothing of a later version is lost in silence. */
static void test_longer_records(void **state)
{
    (void)state;
    enum { MORE = 16 };
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    run *a = make(&o);
    steps(a, 2);
    size_t bytes = scion_optimizer_save_bytes(a->opt, SCION_WITHOUT_ARRAYS), longer = bytes + MORE;
    unsigned char *own = room(bytes), *other = room(longer);
    check_ok(scion_optimizer_save(a->opt, SCION_WITHOUT_ARRAYS, own, bytes, &err), &err);
    for (int value = 0; value < 2; value++) {
        int64_t length;
        const size_t first = 32; /* the optimizer's record, which grows at its end */
        memcpy(&length, own + first, sizeof length);
        const size_t end = first + sizeof length + (size_t)length;
        memcpy(other, own, end);
        memset(other + end, value, MORE);
        memcpy(other + end + MORE, own + end, bytes - end);
        length += MORE;
        memcpy(other + first, &length, sizeof length);
        memcpy(other + 16, &longer, sizeof longer);
        const uint64_t sum = checksum_of(other + 32, longer - 32);
        memcpy(other + 24, &sum, sizeof sum);
        at("a longer record, its new fields %d", value);
        check_status(scion_optimizer_load(a->opt, SCION_WITHOUT_ARRAYS, other, longer, &err),
                     value ? SCION_ESTATE : SCION_OK, &err);
        check(!value || strstr(err.message, "newer") != NULL);
    }
    scion_optimizer_free(a->opt);
}

/* A state with one number changed and the checksum made anew: what is not damage is checked as well. */
typedef struct wrong_value {
    const char *name;
    double mark, value; /* the setting that is looked for, and what takes its place */
} wrong_value;

static void replace_number(unsigned char *state, size_t bytes, const void *mark, const void *value)
{
    size_t found = 0;
    for (size_t i = 32; i + 8 <= bytes; i++)
        if (memcmp(state + i, mark, 8) == 0) {
            memcpy(state + i, value, 8);
            found++;
            i += 7;
        }
    assert_int_equal(found, 1);
    const uint64_t sum = checksum_of(state + 32, bytes - 32);
    memcpy(state + 24, &sum, sizeof sum);
}

static void test_values_out_of_range(void **state)
{
    (void)state;
    enum { RADIUS = 1, LR_SCALE, DECAY, MOMENTUM };
    static const double mark[] = {0, 1234.5, 0.34567, 0.45678, 0.56789};
    static const wrong_value wrong[] = {
        {"radius NaN", mark[RADIUS], NAN},     {"radius -5", mark[RADIUS], -5},
        {"radius 0", mark[RADIUS], 0},         {"radius Inf", mark[RADIUS], INFINITY},
        {"lr_scale NaN", mark[LR_SCALE], NAN}, {"lr_scale -1", mark[LR_SCALE], -1},
        {"decay -1", mark[DECAY], -1},         {"decay NaN", mark[DECAY], NAN},
        {"momentum 0", mark[MOMENTUM], 0},     {"momentum 1.5", mark[MOMENTUM], 1.5},
        {"momentum NaN", mark[MOMENTUM], NAN},
    };
    scion_options o = options_of(SCION_RULE_USCION, 0, 0);
    run *a = make(&o), *b = make(&o);
    size_t bytes, own_bytes;
    steps(b, 2);
    for (int what = SCION_SET_RADIUS; what <= SCION_SET_MOMENTUM; what++)
        check_ok(scion_optimizer_set(a->opt, 2, what, mark[what + 1], &err), &err);
    unsigned char *own = save(b, &own_bytes);
    for (int64_t t = 0; t < COUNT_OF(wrong); t++) {
        unsigned char *other = save(a, &bytes);
        at("%s", wrong[t].name);
        replace_number(other, bytes, &wrong[t].mark, &wrong[t].value);
        check_status(scion_optimizer_load(b->opt, 0, other, bytes, &err), SCION_ESTATE, &err);
        assert_int_equal(err.param, 2);
        check(strstr(err.message, "expected") != NULL);
        check_refused(b, other, bytes, own, own_bytes);
    }
    at("a good value in its place");
    unsigned char *good = save(a, &bytes);
    replace_number(good, bytes, &mark[RADIUS], &(double){7});
    check_ok(scion_optimizer_load(b->opt, 0, good, bytes, &err), &err);
    scion_info info = {.size = sizeof info};
    check_ok(scion_optimizer_inspect(b->opt, 2, 0, &info, &err), &err);
    check(info.radius == 7);
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
}

/* The optimizer's record: its length, rule, light, count, steps, swapped. */
static void test_counters_out_of_range(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t offset;
        int64_t value;
        scion_status want;
    } cases[] = {
        {"steps that overflow", 32 + 4 * 8, INT64_MAX, SCION_ESTATE},
        {"steps that overflow soon", 32 + 4 * 8, INT64_MAX - 1, SCION_ESTATE},
        {"negative steps", 32 + 4 * 8, -1, SCION_ESTATE},
        {"exchanged weights of a rule that keeps none", 32 + 5 * 8, 1, SCION_ESTATE},
        {"a flag of 2", 32 + 5 * 8, 2, SCION_ESTATE},
        {"as many steps as there may be", 32 + 4 * 8, INT64_MAX / 2, SCION_OK},
    };
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    run *a = make(&o);
    steps(a, 2);
    size_t bytes;
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        unsigned char *other = save(a, &bytes);
        memcpy(other + cases[t].offset, &cases[t].value, sizeof cases[t].value);
        const uint64_t sum = checksum_of(other + 32, bytes - 32);
        memcpy(other + 24, &sum, sizeof sum);
        at("%s", cases[t].name);
        check_status(scion_optimizer_load(a->opt, 0, other, bytes, &err), cases[t].want, &err);
    }
    steps(a, 1);
    assert_int_equal(scion_optimizer_steps(a->opt), INT64_MAX / 2 + 1);
    scion_optimizer_free(a->opt);
}

/* Where array number `which` of that name begins in a state: its type, after its length and its name. */
static size_t find_array(const unsigned char *state, size_t bytes, const char *name, int which)
{
    const int64_t length = (int64_t)strlen(name);
    for (size_t i = 32; i + 8 + (size_t)length <= bytes; i++)
        if (memcmp(state + i, &length, 8) == 0 && memcmp(state + i + 8, name, (size_t)length) == 0 && which-- == 0)
            return i + 8 + (size_t)length;
    fail_msg("the state has no array %s", name);
    return 0;
}

static void seal(unsigned char *state, size_t bytes)
{
    memcpy(state + 16, &bytes, sizeof bytes);
    const uint64_t sum = checksum_of(state + 32, bytes - 32);
    memcpy(state + 24, &sum, sizeof sum);
}

/* Arrays of a forged state: entries that this caller owns are missing at an end, or are not there at all; a type, a
 * first entry or a number of entries that no array has. */
static void test_forged_arrays(void **state)
{
    (void)state;
    enum { TYPE, FIRST, COUNT };
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    run *a = make(&o), *b = make(&o);
    steps(a, 2);
    steps(b, 3);
    size_t bytes, own_bytes;
    unsigned char *own = save(b, &own_bytes), *good = save(a, &bytes);
    for (int which = 0; which < PARAMS; which++) {
        const size_t at_type = find_array(good, bytes, "average", which), at_data = at_type + 24;
        const int64_t n = a->n[which];
        const struct {
            const char *name;
            int64_t first, count; /* of the entries that are left */
        } cuts[] = {{"the last entry", 0, n - 1}, {"the first entry", 1, n - 1}, {"all entries", 0, 0}};
        for (int64_t t = 0; t < COUNT_OF(cuts); t++) {
            const size_t gone = (size_t)(n - cuts[t].count) * 4, less = bytes - gone;
            unsigned char *other = room(less);
            memcpy(other, good, at_data);
            memcpy(other + at_type + 8 * FIRST, &cuts[t].first, 8);
            memcpy(other + at_type + 8 * COUNT, &cuts[t].count, 8);
            memcpy(other + at_data, good + at_data + 4 * cuts[t].first, (size_t)cuts[t].count * 4);
            memcpy(other + at_data + 4 * cuts[t].count, good + at_data + 4 * n, bytes - at_data - (size_t)n * 4);
            seal(other, less);
            at("parameter %d without %s", which, cuts[t].name);
            check_refused(b, other, less, own, own_bytes);
            check(strstr(err.message, "missing") != NULL && err.param == which);
        }
        static const struct {
            int field;
            int64_t value;
        } wrong[] = {{TYPE, 2},     {TYPE, -1},  {TYPE, SCION_BF16}, {FIRST, -1},       {FIRST, 1},
                     {FIRST, 1000}, {COUNT, -1}, {COUNT, 1000},      {COUNT, INT64_MAX}};
        for (int64_t t = 0; t < COUNT_OF(wrong); t++) {
            unsigned char *other = save(a, &bytes);
            memcpy(other + at_type + 8 * wrong[t].field, &wrong[t].value, 8);
            seal(other, bytes);
            at("parameter %d, field %d is %lld", which, wrong[t].field, (long long)wrong[t].value);
            check_refused(b, other, bytes, own, own_bytes);
        }
        unsigned char *other = save(a, &bytes);
        other[at_type - 1] ^= 1; /* a name that no array has */
        seal(other, bytes);
        at("parameter %d, another name", which);
        check_refused(b, other, bytes, own, own_bytes);
    }
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
}

/* Cut anywhere or made longer, with its length and checksum made anew: only the walk can find it. */
static void test_forged_lengths(void **state)
{
    (void)state;
    static const scion_rule rules[] = {SCION_RULE_SCION, SCION_RULE_ADAMW};
    for (int64_t t = 0; t < COUNT_OF(rules); t++) {
        scion_options o = options_of(rules[t], 0, 0);
        run *a = make(&o), *b = make(&o);
        steps(a, 2);
        steps(b, 1);
        size_t bytes, own_bytes;
        unsigned char *own = save(b, &own_bytes), *good = save(a, &bytes);
        for (size_t length = 32; length < bytes + 8; length++) {
            unsigned char *other = room(length);
            memcpy(other, good, length < bytes ? length : bytes);
            seal(other, length);
            at("rule %d, %zu bytes of %zu", (int)rules[t], length, bytes);
            if (length != bytes)
                check_refused(b, other, length, own, own_bytes);
        }
        scion_optimizer_free(a->opt);
        scion_optimizer_free(b->opt);
        release(NULL);
    }
}

/* NaN or Inf in an array is refused, and the sentence names array and parameter. The largest number is fine. */
static void test_nonfinite_arrays(void **state)
{
    (void)state;
    static const struct {
        scion_rule rule;
        const char *array;
        int param, half;
    } cases[] = {{SCION_RULE_SCION, "average", 0, 0},
                 {SCION_RULE_ADAMW, "second", 3, 0},
                 {SCION_RULE_ADAMW, "average", 2, 0},
                 {SCION_RULE_MARS, "previous", 1, 1},
                 {SCION_RULE_MARS, "previous", 2, 0}};
    for (int64_t t = 0; t < COUNT_OF(cases); t++) {
        scion_options o = options_of(cases[t].rule, 0, 0);
        run *a = make(&o), *b = make(&o);
        steps(a, 2);
        steps(b, 1);
        size_t bytes, own_bytes;
        unsigned char *own = save(b, &own_bytes), *other = save(a, &bytes);
        const size_t data = find_array(other, bytes, cases[t].array, cases[t].param) + 24;
        const size_t width = cases[t].half ? 2 : 4, last = ((size_t)a->n[cases[t].param] - 1) * width;
        static const uint32_t bad[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF}, fine = 0x7F7F0000;
        for (int64_t k = 0; k < 2 * COUNT_OF(bad); k++) {
            unsigned char kept[4], *entry = other + data + (k % 2 ? last : 0);
            memcpy(kept, entry, width);
            const uint32_t value = bad[k / 2] >> (cases[t].half ? 16 : 0);
            memcpy(entry, &value, width);
            seal(other, bytes);
            at("rule %d, %s, value %#x", (int)cases[t].rule, cases[t].array, (unsigned)value);
            check_refused(b, other, bytes, own, own_bytes);
            assert_int_equal(err.param, cases[t].param);
            check(strstr(err.message, cases[t].array) != NULL && strstr(err.message, "param") != NULL);
            memcpy(entry, kept, width);
        }
        const uint32_t value = fine >> (cases[t].half ? 16 : 0);
        memcpy(other + data + last, &value, width);
        seal(other, bytes);
        check_ok(scion_optimizer_load(b->opt, 0, other, bytes, &err), &err);
        scion_optimizer_free(a->opt);
        scion_optimizer_free(b->opt);
        release(NULL);
    }
}

/* A flag is 0 or 1, also where either could be: exchanged weights of MARS. */
static void test_flags_out_of_range(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_MARS, 0, 0);
    run *a = make(&o);
    steps(a, 2);
    for (int64_t value = 0; value < 3; value++) {
        size_t bytes;
        unsigned char *other = save(a, &bytes);
        memcpy(other + 32 + 5 * 8, &value, sizeof value);
        const uint64_t sum = checksum_of(other + 32, bytes - 32);
        memcpy(other + 24, &sum, sizeof sum);
        at("a flag of %d", (int)value);
        check_status(scion_optimizer_load(a->opt, 0, other, bytes, &err), value < 2 ? SCION_OK : SCION_ESTATE, &err);
    }
    check(strstr(err.message, "flag of 0 or 1") != NULL);
    scion_optimizer_free(a->opt);
}

/* An array of a name that the rule does not have is not taken for one that it has. */
static void test_foreign_arrays(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    run *a = make(&o);
    size_t bytes, at_name = 0;
    steps(a, 2);
    unsigned char *other = save(a, &bytes);
    while (at_name + 7 < bytes && memcmp(other + at_name, "average", 7) != 0)
        at_name++;
    check(at_name + 7 < bytes);
    other[at_name] = 'b';
    const uint64_t sum = checksum_of(other + 32, bytes - 32);
    memcpy(other + 24, &sum, sizeof sum);
    check_status(scion_optimizer_load(a->opt, 0, other, bytes, &err), SCION_ESTATE, &err);
    scion_optimizer_free(a->opt);
}

/* Three more steps of both give the same weights; frees both. */
static void must_go_on_alike(run *a, run *b)
{
    steps(a, 3);
    steps(b, 3);
    for (int i = 0; i < PARAMS; i++)
        check_bits(weight_bytes(a, i), b->p[i].weight, a->p[i].weight);
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
}

/* A caller who kept the state arrays and the number of steps goes on without a saved state. */
static void test_arrays_and_steps_go_on(void **state)
{
    (void)state;
    for (int rule = 0; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        scion_options o = options_of((scion_rule)rule, 0, scion_rule_info(rule)->averages);
        at("rule %s", scion_enum_name(SCION_ENUM_RULE, rule));
        run *a = make(&o), *b = make(&o);
        steps(a, 3);
        for (int i = 0; i < PARAMS; i++) {
            scion_array from, to;
            scion_array_init(&from);
            scion_array_init(&to);
            memcpy(b->p[i].weight, a->p[i].weight, weight_bytes(a, i));
            for (int k = 0; scion_optimizer_state(a->opt, i, k, &from) && scion_optimizer_state(b->opt, i, k, &to);
                 k++)
                memcpy(to.data, from.data, (size_t)from.count * (from.type == SCION_BF16 ? 2 : 4));
        }
        b->r = a->r;
        check_ok(scion_optimizer_set(b->opt, SCION_ALL, SCION_SET_STEPS, 3, &err), &err);
        assert_int_equal(scion_optimizer_steps(b->opt), 3);
        must_go_on_alike(a, b);
        release(NULL);
    }
}

/* Settings that were changed on the way are part of the run. */
static void test_settings_travel(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_USCION, 0, 1);
    size_t bytes;
    run *a = make(&o), *b = make(&o);
    steps(a, 2);
    check_ok(scion_optimizer_set(a->opt, 0, SCION_SET_RADIUS, 5, &err), &err);
    check_ok(scion_optimizer_set(a->opt, 1, SCION_SET_LR_SCALE, 0.5, &err), &err);
    check_ok(scion_optimizer_set(a->opt, 2, SCION_SET_WEIGHT_DECAY, 0.5, &err), &err);
    check_ok(scion_optimizer_set(a->opt, 2, SCION_SET_MOMENTUM, 0.3, &err), &err);
    check_ok(scion_optimizer_set(a->opt, 3, SCION_SET_FROZEN, 1, &err), &err);
    unsigned char *saved = save(a, &bytes);
    check_ok(scion_optimizer_load(b->opt, 0, saved, bytes, &err), &err);
    for (int i = 0; i < PARAMS; i++)
        memcpy(b->p[i].weight, a->p[i].weight, weight_bytes(a, i));
    b->r = a->r;
    must_go_on_alike(a, b);
}

/* Weights, gradients and the run after a refusal are those of a run that never tried. */
static void test_refusal_changes_nothing(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_MARS, 0, 0);
    size_t bytes;
    run *a = make(&o), *b = make(&o), *c = make(&o);
    steps(a, 4);
    steps(b, 2);
    steps(c, 2);
    unsigned char *bad = save(a, &bytes);
    bad[bytes / 2] ^= 4;
    check_status(scion_optimizer_load(b->opt, 0, bad, bytes, &err), SCION_ESTATE, &err);
    for (int k = 0; k < 3; k++) {
        steps(b, 1);
        steps(c, 1);
        for (int i = 0; i < PARAMS; i++)
            check_bits(weight_bytes(b, i), b->p[i].weight, c->p[i].weight);
    }
    scion_optimizer_free(a->opt);
    scion_optimizer_free(b->opt);
    scion_optimizer_free(c->opt);
}

/* A state of another rule, of other shapes, or of more parameters. */
static void test_misfits(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    size_t bytes, own_bytes;
    run *a = make(&o);
    steps(a, 2);
    unsigned char *saved = save(a, &bytes);
    for (int rule = 1; scion_enum_name(SCION_ENUM_RULE, rule); rule++) {
        scion_options other = options_of((scion_rule)rule, 0, 0);
        run *b = make(&other);
        unsigned char *own = save(b, &own_bytes);
        at("a state of scion into %s", scion_enum_name(SCION_ENUM_RULE, rule));
        check_refused(b, saved, bytes, own, own_bytes);
        scion_optimizer_free(b->opt);
    }
    run *b = make(&o), *c = room(sizeof *c);
    unsigned char *own;
    *c = *b;
    at("other shape of the same size");
    c->p[0].shape[0] = 4;
    c->p[0].shape[1] = 5;
    check_ok(scion_optimizer_create(&c->opt, &o, c->p, PARAMS, &err), &err);
    own = save(c, &own_bytes);
    check_refused(c, saved, bytes, own, own_bytes);
    scion_optimizer_free(c->opt);
    at("one parameter less");
    check_ok(scion_optimizer_create(&c->opt, &o, b->p, PARAMS - 1, &err), &err);
    own = save(c, &own_bytes);
    check_refused(c, saved, bytes, own, own_bytes);
    scion_optimizer_free(c->opt);
    at("light into plain");
    scion_options light = options_of(SCION_RULE_SCION, 1, 0);
    check_ok(scion_optimizer_create(&c->opt, &light, b->p, PARAMS, &err), &err);
    own = save(c, &own_bytes);
    check_refused(c, saved, bytes, own, own_bytes);
    scion_optimizer_free(c->opt);
    scion_optimizer_free(b->opt);
    scion_optimizer_free(a->opt);
}

static void test_save_needs_its_size(void **state)
{
    (void)state;
    scion_options o = options_of(SCION_RULE_SCION, 0, 0);
    run *a = make(&o);
    size_t bytes = scion_optimizer_save_bytes(a->opt, 0);
    unsigned char *buffer = room(bytes);
    check(bytes > 0);
    check_status(scion_optimizer_save(a->opt, 0, buffer, bytes - 1, &err), SCION_EINVAL, &err);
    check(err.message[0] != '\0');
    check_status(scion_optimizer_save(a->opt, 0, NULL, bytes, &err), SCION_EINVAL, &err);
    check_status(scion_optimizer_load(a->opt, 0, NULL, bytes, &err), SCION_EINVAL, &err);
    scion_optimizer_free(a->opt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(test_every_rule_goes_on),      LAW(test_round_trip),
        LAW(test_bounds_travel),           LAW(test_damage),
        LAW(test_other_versions),          LAW(test_longer_records),
        LAW(test_values_out_of_range),     LAW(test_counters_out_of_range),
        LAW(test_forged_arrays),           LAW(test_forged_lengths),
        LAW(test_nonfinite_arrays),        LAW(test_arrays_and_steps_go_on),
        LAW(test_settings_travel),         LAW(test_flags_out_of_range),
        LAW(test_refusal_changes_nothing), LAW(test_misfits),
        LAW(test_foreign_arrays),          LAW(test_save_needs_its_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
