/* The generator against the tape's forward pass: the same logits at every position, however the prompt is cut, with
 * any number of sequences; and what happens when a context is full. */
#include "tiny.h"

#include "base/random.h"
#include "generate/generator.h"
#include "tensor/plan.h"

enum { vocab = 24, block = 40, most = 9, stream_weights = 1, stream_tokens = 2 };

static const uint64_t seed = 20250608;

typedef struct bench {
    data_info data;
    config c;
    model m;
    tape_plan *p;
    void *weights;
    scion_dtype compute; /* of generators */
} bench;

static bench *start_on(const char *pairs, scion_dtype type)
{
    static bench b;
    scion_error err;
    b = (bench){.data = tiny_text(block, vocab), .c = tiny(pairs)};
    OK(model_record(&b.m, config_model(&b.c), config_model_options(&b.c), &b.data, 1, &err));
    tape_store(b.m.tape, type, SCION_F32);
    OK(plan_make(&b.p, b.m.tape, b.m.logits, &(plan_options){.mode = PLAN_INFERENCE, .threads = 2}, &err));
    OK(plan_commit(b.p, NULL, &err));
    b.weights = calloc(1, tape_weight_bytes(b.m.tape));
    assert_non_null(b.weights);
    tape_bind(b.m.tape, b.weights, NULL, NULL);
    for (int64_t i = 0; i < tape_param_count(b.m.tape); i++) {
        const tape_value *v = tape_param_at(b.m.tape, i);
        float *x = calloc((size_t)v->count + 1, sizeof *x);
        assert_non_null(x);
        scn_normals(seed + (uint64_t)i, stream_weights, 0, v->count + v->count % 2, x);
        for (int64_t k = 0; k < v->count; k++)
            x[k] *= 2 / sqrtf((float)v->shape[1]);
        if (v->half)
            scn_to_bf16(v->count, x, v->half);
        else
            memcpy(v->data, x, (size_t)v->count * sizeof *x);
        free(x);
    }
    return &b;
}

static bench *start(const char *pairs)
{
    return start_on(pairs, SCION_F32);
}

static generator *create(const bench *b, int64_t context, int64_t sequences, int threads)
{
    scion_error err = {0};
    generator *g = NULL;
    OK(generator_create(&g, &b->m, b->compute, context, sequences, threads, &err));
    return g;
}

static void stop(bench *b)
{
    plan_free(b->p);
    model_free(&b->m);
    free(b->weights);
}

/* Token i of text t. */
static int32_t token_of(int64_t t, int64_t i)
{
    return (int32_t)(scn_uniform(seed + (uint64_t)t, stream_tokens, (uint64_t)i) * vocab);
}

/* The tape's logits of all positions of text t. */
static const float *uncached(bench *b, int64_t t)
{
    const tape_run run = {.threads = 2};
    for (int64_t i = 0; i < block; i++)
        plan_value(b->p, b->m.inputs[0])->ints[i] = token_of(t, i);
    plan_forward(b->p, &run);
    return plan_value(b->p, b->m.logits)->data;
}

/* Sums of at most 128 terms in another order, through a few layers: some 1e-6 of logits of a few units. */
static const double tolerance = 2e-5;

static void compare(const char *name, const float *got, const float *want, int64_t at)
{
    for (int i = 0; i < vocab; i++) {
        char what[160];
        snprintf(what, sizeof what, "%s: logit %d at %d", name, i, (int)at);
        near(what, (double)got[i], (double)want[i], tolerance);
    }
}

static const char *const cases[] = {
    "layers=2 width=32 head_size=16",
    "layers=2 width=32 head_size=8 tied=1 activation=scaled_relu2",
    "layers=1 width=32 head_size=32 qk_norm=no activation=gelu rotary_base=100",
    "layers=3 width=36 head_size=12 activation=relu",
    "layers=2 width=20 head_size=2 activation=scaled_relu tied=1 qk_norm=no",
    "layers=1 width=22 head_size=22 activation=relu2",
    "layers=2 width=32 head_size=4 activation=tanh tied=1",
    "layers=2 width=130 head_size=26 activation=sqrt2_gelu",
};
enum { case_count = sizeof cases / sizeof *cases };

/* One token at a time, for each storage of weights. */
static void cached_logits_are_those_of_the_tape(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * case_count; i++) {
        bench *b = start_on(cases[i / 2], i % 2 ? SCION_BF16 : SCION_F32);
        generator *g = create(b, block, 1, 2);
        const float *want = uncached(b, 0);
        for (int64_t at = 0; at < block; at++)
            compare(cases[i / 2], generator_write(g, 1, &(int64_t){0}, &(int32_t){token_of(0, at)}),
                    want + at * vocab, at);
        generator_free(g);
        stop(b);
    }
}

/* A prompt that is read in two parts, then a token more: any cut, so that parts go by few rows and by many. */
static void a_prompt_can_be_cut_anywhere(void **state)
{
    int32_t tokens[block];
    (void)state;
    for (int i = 0; i < block; i++)
        tokens[i] = token_of(3, i);
    for (int i = 0; i < 2 * case_count; i++) {
        bench *b = start_on(cases[i / 2], i % 2 ? SCION_BF16 : SCION_F32);
        generator *g = create(b, block, 1, 1 + i % 3);
        const float *want = uncached(b, 3);
        for (int64_t cut = 1; cut < block - 1; cut++) {
            generator_clear(g, 0);
            compare(cases[i / 2], generator_read(g, 0, cut, tokens), want + (cut - 1) * vocab, cut - 1);
            compare(cases[i / 2], generator_read(g, 0, block - 1 - cut, tokens + cut), want + (block - 2) * vocab,
                    block - 2);
            assert_int_equal(generator_length(g, 0), block - 1);
            compare(cases[i / 2], generator_write(g, 1, &(int64_t){0}, tokens + block - 1),
                    want + (block - 1) * vocab, block - 1);
        }
        generator_free(g);
        stop(b);
    }
}

/* 1 to 9 texts at once, each at another position: the bits of each are those that it has alone with one thread. */
static void texts_do_not_see_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * case_count; i++) {
        bench *b = start_on(cases[i / 2], i % 2 ? SCION_BF16 : SCION_F32);
        generator *alone = create(b, block, 1, 1);
        float *want = calloc(most * block * vocab, sizeof *want);
        assert_non_null(want);
        for (int64_t t = 0; t < most; t++) {
            generator_clear(alone, 0);
            for (int64_t at = 0; at < block; at++)
                memcpy(want + (t * block + at) * vocab,
                       generator_write(alone, 1, &(int64_t){0}, &(int32_t){token_of(t, at)}), vocab * sizeof *want);
        }
        for (int64_t count = 1; count <= most; count++) {
            generator *g = create(b, block, most, 3);
            int64_t slots[most], at[most] = {0};
            int32_t tokens[most];
            for (int64_t t = 0; t < count; t++) { /* text t begins t tokens later, and has another slot */
                slots[t] = (t * 4 + 1) % most;
                for (; at[t] < count - 1 - t; at[t]++)
                    generator_write(g, 1, &slots[t], &(int32_t){token_of(t, at[t])});
            }
            for (int64_t n = 0; n < block - count; n++) {
                for (int64_t t = 0; t < count; t++)
                    tokens[t] = token_of(t, at[t]);
                const float *got = generator_write(g, count, slots, tokens);
                for (int64_t t = 0; t < count; t++, got += vocab)
                    assert_memory_equal(got, want + (t * block + at[t]++) * vocab, vocab * sizeof *want);
            }
            generator_free(g);
        }
        free(want);
        generator_free(alone);
        stop(b);
    }
}

/* Root mean square of the differences of two arrays. */
static double distance(int64_t n, const float *a, const float *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(sum / (double)n);
}

/* The logits of text 3, token by token. */
static void write_all(const bench *b, float *logits)
{
    generator *g = create(b, block, 1, 2);
    for (int64_t at = 0; at < block; at++)
        memcpy(logits + at * vocab, generator_write(g, 1, &(int64_t){0}, &(int32_t){token_of(3, at)}),
               vocab * sizeof *logits);
    generator_free(g);
}

/* compute = SCION_BF16 rounds as the tape's pass in mixed precision does, except in attention: logits are about as
 * far from the float32 ones as the tape's are. A prompt of many rows is rounded as its tokens one by one. */
static void products_in_mixed_precision(void **state)
{
    int32_t tokens[block];
    (void)state;
    for (int i = 0; i < block; i++)
        tokens[i] = token_of(3, i);
    for (int i = 0; i < case_count; i++) {
        const plan_options how = {.mode = PLAN_INFERENCE, .threads = 2, .compute = SCION_BF16};
        float exact[block * vocab], written[block * vocab];
        scion_error err;
        bench *b = start(cases[i]);
        memcpy(exact, uncached(b, 3), sizeof exact);
        plan_free(b->p);
        OK(plan_make(&b->p, b->m.tape, b->m.logits, &how, &err));
        OK(plan_commit(b->p, NULL, &err));
        b->compute = SCION_BF16;
        write_all(b, written);
        generator *g = create(b, block, 1, 2);
        const double prompt = distance(vocab, generator_read(g, 0, block, tokens), written + (block - 1) * vocab);
        const float *mixed = uncached(b, 3);
        const double far = distance(block * vocab, written, exact), tape_far = distance(block * vocab, mixed, exact);
        const double apart = distance(block * vocab, written, mixed);
        if (far < 0.5 * tape_far || far > 1.25 * tape_far || tape_far < 1e-3 || apart > 1.25 * tape_far ||
            prompt > far)
            fail_msg("%s: %g from float32, the tape %g; %g apart; a prompt differs by %g", cases[i], far, tape_far,
                     apart, prompt);
        generator_free(g);
        stop(b);
    }
}

/* compute = SCION_BF16 rounds float32 weights to nearest: the bits are those of weights that were rounded before,
 * stored as float32 or as bfloat16. */
static void weights_are_rounded_once(void **state)
{
    (void)state;
    for (int i = 0; i < case_count; i++) {
        float stored[block * vocab], rounded[block * vocab];
        bench *b = start_on(cases[i], SCION_BF16);
        b->compute = SCION_BF16;
        write_all(b, stored);
        stop(b);
        b = start(cases[i]);
        b->compute = SCION_BF16;
        write_all(b, rounded);
        /* An embedding is read as it is stored: only a model whose embedding is rounded has the same logits. */
        assert_true(distance(block * vocab, stored, rounded) > 0);
        for (int64_t k = 0; k < tape_param_count(b->m.tape); k++) {
            const tape_value *v = tape_param_at(b->m.tape, k);
            uint16_t *half = calloc((size_t)v->count, sizeof *half);
            assert_non_null(half);
            scn_to_bf16(v->count, v->data, half);
            scn_from_bf16(v->count, half, v->data);
            free(half);
        }
        write_all(b, rounded);
        assert_memory_equal(stored, rounded, sizeof stored);
        stop(b);
    }
}

/* A copy goes on as its original does. */
static void a_copy_goes_on_as_its_original(void **state)
{
    bench *b = start(cases[0]);
    generator *g = create(b, block, 3, 2);
    int32_t tokens[20];
    float want[vocab];
    (void)state;
    for (int i = 0; i < 20; i++)
        tokens[i] = token_of(1, i);
    generator_read(g, 2, 20, tokens);
    generator_read(g, 0, 5, tokens + 7);
    generator_copy(g, 2, 0);
    generator_copy(g, 0, 0);
    memcpy(want, generator_write(g, 1, &(int64_t){2}, &(int32_t){5}), sizeof want);
    assert_memory_equal(generator_write(g, 1, &(int64_t){0}, &(int32_t){5}), want, sizeof want);
    assert_int_equal(generator_length(g, 0), 21);
    assert_int_equal(generator_length(g, 1), 0);
    generator_free(g);
    stop(b);
}

/* A full context goes on with its second half, as a generator that was given only those tokens. */
static void a_full_context_goes_on_with_its_second_half(void **state)
{
    (void)state;
    for (int64_t context = 1; context <= 37; context += 12) {
        bench *b = start(cases[0]);
        generator *g = create(b, context, 1, 2), *fresh = create(b, context, 1, 2);
        int64_t first = 0; /* of the tokens in the context */
        for (int64_t at = 0; at < 4 * context; at++) {
            int32_t tokens[64];
            const float *logits = generator_write(g, 1, &(int64_t){0}, &(int32_t){token_of(2, at)});
            if (at - first == context)
                first = at - context / 2;
            assert_int_equal(generator_length(g, 0), at - first + 1);
            generator_clear(fresh, 0);
            for (int64_t i = first; i <= at; i++)
                tokens[i - first] = token_of(2, i);
            compare("after the context was full", logits, generator_read(fresh, 0, at - first + 1, tokens), at);
        }
        generator_free(g);
        generator_free(fresh);
        stop(b);
    }
}

/* A prompt longer than the context leaves what the same tokens one by one leave. */
static void a_long_prompt_is_as_its_tokens_one_by_one(void **state)
{
    enum { context = 24, length = 5 * context };
    bench *b = start(cases[0]);
    generator *g = create(b, context, 2, 2);
    int32_t tokens[length];
    float want[vocab];
    (void)state;
    for (int i = 0; i < length; i++)
        tokens[i] = token_of(4, i);
    for (int64_t count = 1; count <= length; count += 7)
        for (int64_t before = 0; before < count; before += 9) {
            generator_clear(g, 0);
            generator_clear(g, 1);
            for (int64_t i = 0; i < count; i++)
                memcpy(want, generator_write(g, 1, &(int64_t){0}, &tokens[i]), sizeof want);
            if (before > 0)
                generator_read(g, 1, before, tokens);
            compare("a long prompt", generator_read(g, 1, count - before, tokens + before), want, count);
            assert_int_equal(generator_length(g, 1), generator_length(g, 0));
        }
    generator_free(g);
    stop(b);
}

/* Other models are refused with a sentence. */
static void other_models_write_no_text(void **state)
{
    const data_info images = tiny_pictures(1, 14, 10);
    config c = tiny("model=vit layers=1 width=16 head_size=16 patch=7");
    scion_error err = {0};
    model m;
    generator *g = NULL;
    (void)state;
    OK(model_record(&m, config_model(&c), config_model_options(&c), &images, 1, &err));
    assert_int_equal(generator_create(&g, &m, SCION_F32, 8, 1, 1, &err), SCION_EINVAL);
    assert_null(g);
    assert_string_equal(err.message, "model=vit writes no text");
    model_row row = *m.row; /* one that only says so */
    row.writes = true;
    m.row = &row;
    assert_int_equal(generator_create(&g, &m, SCION_F32, 8, 1, 1, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "model=vit writes no text: it has"));
    generator_free(NULL);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_logits_are_those_of_the_tape),
        cmocka_unit_test(a_prompt_can_be_cut_anywhere),
        cmocka_unit_test(texts_do_not_see_each_other),
        cmocka_unit_test(products_in_mixed_precision),
        cmocka_unit_test(weights_are_rounded_once),
        cmocka_unit_test(a_copy_goes_on_as_its_original),
        cmocka_unit_test(a_full_context_goes_on_with_its_second_half),
        cmocka_unit_test(a_long_prompt_is_as_its_tokens_one_by_one),
        cmocka_unit_test(other_models_write_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
