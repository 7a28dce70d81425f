/* Bits per byte of the raw text: known values of a model that knows nothing, whose loss is ln of the number of
 * symbols for every token. Losses are sums of float32 that are good to about 1e-6. */
#include "data_files.h"
#include "tiny.h"
#include "trainer_tests.h"

static const double rounding = 1e-5;

/* A GPT whose weights are all 0: every symbol has the same probability. */
static trainer *ignorant(const char *path, const char *more)
{
    char pairs[1024];
    trainer *t = NULL;
    scion_error err = {0};
    snprintf(pairs, sizeof pairs,
             "data=%s layers=1 width=16 head_size=8 block=8 batch=4 accum=2 steps=2 threads=1 lr=0 eval_tokens=0 %s",
             path, more);
    const config c = tiny(pairs);
    OK(tiny_create(&t, &c, &err));
    memset(tiny_weights(t), 0, tape_weight_bytes(t->model.tape));
    return t;
}

/* Bits per byte of a validation and of a step. */
typedef struct bits {
    double validation, training;
} bits;

static bits measure(trainer *t)
{
    trainer_scores scores = {0};
    step_report report;
    scion_error err = {0};
    OK(trainer_validate(t, true, NULL, &scores, NULL, &err));
    OK(trainer_step(t, NULL, &report, &err));
    return (bits){scores.bits_per_byte, report.bits_per_byte};
}

/* `count` symbols of a text, in a row without end. */
static const char *repeat(const char *name, const char *const *symbols, int kinds, int count)
{
    static char text[1 << 15];
    text[0] = '\0';
    char *end = text;
    for (int i = 0; i < count; i++)
        end = stpcpy(end, symbols[(i * i + i / 3) % kinds]); /* every kind, in no simple order */
    return files_write(name, text, (size_t)(end - text));
}

static void a_byte_of_256_costs_8_bits(void **state)
{
    uint8_t bytes[4096];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(37 * i + i / 256);
    trainer *t = ignorant(files_write("bytes.txt", bytes, sizeof bytes), "");
    assert_int_equal(data_about(t->data)->symbols, 256);
    const bits b = measure(t);
    near("a validation", b.validation, 8, rounding);
    near("a step", b.training, 8, rounding);
    trainer_free(t);
}

static void characters_count_their_bytes(void **state)
{
    static const struct {
        const char *symbols[4];
        double bits; /* 2 bits for a symbol, divided by its bytes */
    } cases[] = {
        {{"a", "b", "c", "\n"}, 2},
        {{"\u00e4", "\u00e9", "\u00f1", "\u0416"}, 1},
        {{"\u4e00", "\u20ac", "\u3042", "\u2192"}, 2.0 / 3},
        {{"\U0001f600", "\U0001f601", "\U0001f602", "\U0001f603"}, 0.5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trainer *t = ignorant(repeat("text.txt", cases[i].symbols, 4, 2000), "");
        assert_int_equal(data_about(t->data)->symbols, 4);
        const bits b = measure(t);
        near("a validation", b.validation, cases[i].bits, rounding);
        near("a step", b.training, cases[i].bits, rounding);
        trainer_free(t);
    }
}

/* The bytes are those of the targets that were measured, without the padding of the last batch: of 203 symbols 25
 * windows of 8 have a target each, 6 batches of 4 windows and one more. */
static void padding_counts_nothing(void **state)
{
    static const char *const symbols[] = {"a", "\u00e9"};
    (void)state;
    const char *path = repeat("held.txt", symbols, 2, 203);
    char text[1024], more[FILES_PATH + 16];
    text[files_read("held.txt", text, sizeof text - 1)] = '\0';
    double bytes = 0;
    int symbol = 0;
    for (const char *c = text; *c; c++) { /* symbols 1 to 200 are targets */
        symbol += (*c & 0xc0) != 0x80;
        bytes += symbol > 1 && symbol <= 201;
    }
    assert_true(bytes > 200 && bytes < 400);
    snprintf(more, sizeof more, "val_data=%s", path);
    trainer *t = ignorant(repeat("trained.txt", symbols, 2, 2000), more);
    assert_int_equal(trainer_validation_samples(t, true), 25);
    near("a validation", measure(t).validation, 200 / bytes, rounding);
    trainer_free(t);
}

/* Nothing is claimed where the bytes are not known, or the loss is not the cost of the text. */
static void unknown_bytes_give_none(void **state)
{
    static const char *const symbols[] = {"a", "b", "c", "d"};
    (void)state;
    trainer *t = ignorant(repeat("text.txt", symbols, 4, 2000), "smoothing=0.1");
    bits b = measure(t);
    assert_true(isnan(b.validation) && isnan(b.training));
    trainer_free(t);
    t = ignorant("", "data_kind=synthetic vocab=16");
    b = measure(t);
    assert_true(isnan(b.validation) && isnan(b.training));
    trainer_free(t);
}

/* vocab=N makes the model larger than the text has symbols: more bits, the same bytes. */
static void a_larger_vocabulary_costs_more(void **state)
{
    static const char *const symbols[] = {"\u00e4", "\u00e9"};
    (void)state;
    trainer *t = ignorant(repeat("text.txt", symbols, 2, 2000), "vocab=16");
    near("a validation", measure(t).validation, 2, rounding);
    trainer_free(t);
}

static bool stop_soon(void *ctx)
{
    (void)ctx;
    return true;
}

/* A step that was stopped between its micro-batches has the bytes of all of them. */
static void a_light_step_goes_on_with_its_bytes(void **state)
{
    static const char *const symbols[] = {"a", "\u00e9", "\u4e00", "b"};
    const char *path = repeat("text.txt", symbols, 4, 2000), *half = files_path("half.safetensors");
    const trainer_watch watch = {.stop = stop_soon};
    step_report stopped, whole;
    scion_error err = {0};
    (void)state;
    trainer *t = ignorant(path, "light=1"), *then = NULL, *other = ignorant(path, "light=1");
    assert_int_equal(trainer_step(t, &watch, &stopped, &err), SCION_ESTOPPED);
    OK(tiny_save(t, half, &err));
    OK(tiny_resume(&then, half, NULL, 0, &err));
    OK(trainer_step(then, NULL, &stopped, &err));
    OK(trainer_step(other, NULL, &whole, &err));
    assert_true(isfinite(whole.bits_per_byte) && stopped.bits_per_byte == whole.bits_per_byte);
    trainer_free(t);
    trainer_free(then);
    trainer_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_of_256_costs_8_bits),     cmocka_unit_test(characters_count_their_bytes),
        cmocka_unit_test(padding_counts_nothing),         cmocka_unit_test(unknown_bytes_give_none),
        cmocka_unit_test(a_larger_vocabulary_costs_more), cmocka_unit_test(a_light_step_goes_on_with_its_bytes),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
