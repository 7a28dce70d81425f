/* The decoder, gpt.c's forward pass for one position, against the tape: the probability of every next token, also
 * after the context is full. */
#include "tiny.h"

#include "base/random.h"
#include "models/model.h"
#include "tensor/plan.h"

enum { vocab = 24, block = 12, stream_weights = 1, stream_tokens = 2 };

static const uint64_t seed = 20250608;

typedef struct bench {
    data_info data;
    config c;
    model m;
    tape_plan *p;
    float *weights;
} bench;

static bench *start(const char *pairs)
{
    static bench b;
    scion_error err;
    b = (bench){.data = tiny_text(block, vocab), .c = tiny(pairs)};
    OK(model_record(&b.m, config_model(&b.c), config_model_options(&b.c), &b.data, 1, &err));
    OK(plan_make(&b.p, b.m.tape, b.m.loss, &(plan_options){.mode = PLAN_INFERENCE, .threads = 2}, &err));
    OK(plan_commit(b.p, NULL, &err));
    const int64_t n = tape_param_elements(b.m.tape);
    b.weights = calloc((size_t)n, sizeof *b.weights);
    assert_non_null(b.weights);
    scn_normals(seed, stream_weights, 0, n, b.weights);
    tape_bind(b.m.tape, b.weights, NULL, NULL);
    for (int64_t i = 0; i < tape_param_count(b.m.tape); i++) {
        const tape_value *v = tape_param_at(b.m.tape, i);
        for (int64_t k = 0; k < v->count; k++)
            v->data[k] *= 2 / sqrtf((float)v->shape[1]);
    }
    return &b;
}

extern const model_row model_gpt;

static void *create(const bench *b, int64_t context)
{
    scion_error err = {0};
    void *d = model_gpt.decode->create(&b->m, config_model_options(&b->c), context, &err);
    if (!d)
        fail_msg("%s", err.message);
    return d;
}

static void stop(bench *b)
{
    plan_free(b->p);
    model_free(&b->m);
    free(b->weights);
}

static int32_t token_at(int64_t i)
{
    return (int32_t)(scn_uniform(seed, stream_tokens, (uint64_t)i) * vocab);
}

/* -log softmax(logits)[target] */
static double cost(const float *logits, int32_t target)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < vocab; i++)
        most = fmax(most, (double)logits[i]);
    for (int i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[target];
}

/* The tape's loss of `target` at position `at`, all other positions masked. */
static double tape_cost(bench *b, int64_t at, int32_t target)
{
    tape_run run = {.threads = 2, .loss_scale = 1};
    for (int64_t i = 0; i < block; i++) {
        plan_value(b->p, b->m.inputs[0])->ints[i] = token_at(i);
        plan_value(b->p, b->m.inputs[1])->ints[i] = i == at ? target : -1;
    }
    return (double)plan_forward(b->p, &run);
}

/* Both sum in float32 over 128 terms at most, in another order: 1e-5 of a cost of a few nats is ten times that. */
static const double tolerance = 1e-5;

static void the_decoder_is_the_model(void **state)
{
    const char *cases[] = {
        "layers=2 width=32 head_size=16",
        "layers=2 width=32 head_size=8 tied=1 activation=scaled_relu2",
        "layers=1 width=32 head_size=32 qk_norm=no activation=gelu rotary_base=100",
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        bench *b = start(cases[i]);
        void *d = create(b, block);
        assert_non_null(d);
        for (int64_t at = 0; at < block; at++) {
            const float *logits = model_gpt.decode->step(d, token_at(at));
            for (int32_t target = 0; target < vocab; target += 5) {
                char what[128];
                snprintf(what, sizeof what, "%s: cost of %d at %d", cases[i], (int)target, (int)at);
                near(what, cost(logits, target), tape_cost(b, at, target), tolerance);
            }
        }
        model_gpt.decode->free(d);
        stop(b);
    }
}

/* A full context goes on with its second half, as a new decoder that was fed only those tokens. */
static void a_full_context_goes_on_with_its_second_half(void **state)
{
    bench *b = start("layers=2 width=32 head_size=16");
    void *d = create(b, block);
    int64_t first = 0; /* of the tokens in the context */
    (void)state;
    assert_non_null(d);
    for (int64_t at = 0; at < 5 * block; at++) {
        const float *logits = model_gpt.decode->step(d, token_at(at)), *want = NULL;
        if (at - first == block)
            first = at - block / 2;
        void *fresh = create(b, block);
        for (int64_t i = first; i <= at; i++)
            want = model_gpt.decode->step(fresh, token_at(i));
        assert_memory_equal(logits, want, vocab * sizeof(float));
        model_gpt.decode->free(fresh);
    }
    model_gpt.decode->free(d);
    stop(b);
}

/* A context of one token has no half to keep. */
static void a_context_of_one_token_works(void **state)
{
    bench *b = start("layers=1 width=32 head_size=16");
    void *d = create(b, 1), *fresh = create(b, 1);
    float first[vocab];
    (void)state;
    assert_true(d && fresh);
    memcpy(first, model_gpt.decode->step(fresh, 7), sizeof first);
    for (int32_t i = 0; i < 4; i++)
        model_gpt.decode->step(d, i);
    assert_memory_equal(model_gpt.decode->step(d, 7), first, sizeof first);
    model_gpt.decode->free(d);
    model_gpt.decode->free(fresh);
    model_gpt.decode->free(NULL);
    stop(b);
}

/* A model whose parameters have other names is refused with a sentence. */
static void a_missing_parameter_is_named(void **state)
{
    bench *b = start("layers=2 width=32 head_size=16");
    scion_error err = {0};
    (void)state;
    strcpy(tape_param_at(b->m.tape, 11)->name, "renamed");
    assert_null(model_gpt.decode->create(&b->m, config_model_options(&b->c), block, &err));
    assert_string_equal(err.message, "model gpt has no parameter blocks.1.mlp.up");
    stop(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_decoder_is_the_model),
        cmocka_unit_test(a_full_context_goes_on_with_its_second_half),
        cmocka_unit_test(a_context_of_one_token_works),
        cmocka_unit_test(a_missing_parameter_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
