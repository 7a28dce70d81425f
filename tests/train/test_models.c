/* Laws of models: names, shapes, roles and numbers of parameters; the loss of a model that knows
 * nothing is ln V; the gradient is the derivative of the loss; recomputation changes no bit. */
#include "tiny.h"

#include "base/random.h"
#include "models/model.h"
#include "tensor/plan.h"

enum { stream_weights = 1, stream_tokens = 2, stream_direction = 3 };

static const uint64_t seed = 20250607;

typedef struct expected {
    const char *name;
    scion_role role;
    bool transposed;
    int ndim;
    int64_t shape[4];
} expected;

static model record(const config *c, const data_info *data, int64_t batch)
{
    model m;
    scion_error err;
    OK(model_record(&m, config_model(c), config_model_options(c), data, batch, &err));
    return m;
}

static void check_params(const model *m, const expected *want, int64_t count)
{
    int64_t elements = 0;
    assert_int_equal(tape_param_count(m->tape), count);
    for (int64_t i = 0; i < count; i++) {
        const tape_value *v = tape_param_at(m->tape, i);
        assert_string_equal(v->name, want[i].name);
        assert_int_equal(v->role, want[i].role);
        assert_int_equal(v->transposed, want[i].transposed);
        assert_int_equal(v->ndim, want[i].ndim);
        assert_int_equal(v->offset, elements);
        for (int k = 0; k < v->ndim; k++)
            assert_int_equal(v->shape[k], want[i].shape[k]);
        elements += v->count;
    }
    assert_int_equal(tape_param_elements(m->tape), elements);
}

static void gpt_declares_its_parameters(void **state)
{
    const expected want[] = {
        {"embedding", SCION_ROLE_ONEHOT, true, 2, {24, 32}},
        {"blocks.0.attn.q", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.k", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.v", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.o", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.mlp.up", SCION_ROLE_HIDDEN, false, 2, {128, 32}},
        {"blocks.0.mlp.down", SCION_ROLE_HIDDEN, false, 2, {32, 128}},
        {"head", SCION_ROLE_OUTPUT, false, 2, {24, 32}},
    };
    const data_info s = tiny_text(4, 24);
    config c = tiny("layers=1 width=32 head_size=16");
    model m = record(&c, &s, 3);
    (void)state;
    check_params(&m, want, 8);
    model_free(&m);
    c = tiny("layers=1 width=32 head_size=16 tied=1 zero_init=1");
    m = record(&c, &s, 3); /* the table is then the head: not transposed, an output */
    const tape_value *table = tape_param_at(m.tape, 0);
    assert_int_equal(tape_param_count(m.tape), 7);
    assert_int_equal(table->role, SCION_ROLE_OUTPUT);
    assert_false(table->transposed);
    for (int64_t i = 0; i < 7; i++) {
        const tape_value *v = tape_param_at(m.tape, i);
        assert_int_equal(v->zero_start, strstr(v->name, "attn.o") || strstr(v->name, "mlp.down"));
    }
    model_free(&m);
}

static void mlp_declares_its_parameters(void **state)
{
    const expected want[] = {
        {"layers.0.weight", SCION_ROLE_INPUT, false, 2, {24, 50}},
        {"layers.0.bias", SCION_ROLE_VECTOR, false, 1, {24, 0}},
        {"layers.1.weight", SCION_ROLE_HIDDEN, false, 2, {24, 24}},
        {"layers.1.bias", SCION_ROLE_VECTOR, false, 1, {24, 0}},
        {"layers.2.weight", SCION_ROLE_OUTPUT, false, 2, {7, 24}},
    };
    const data_info s = tiny_images(50, 7);
    config c = tiny("model=mlp layers=3 width=24");
    model m = record(&c, &s, 3);
    (void)state;
    check_params(&m, want, 5);
    model_free(&m);
    c = tiny("model=mlp layers=3 width=24 bias=no");
    m = record(&c, &s, 3);
    assert_int_equal(tape_param_count(m.tape), 3);
    model_free(&m);
}

static void cnn_declares_its_parameters(void **state)
{
    const expected want[] = {
        {"whiten.bias", SCION_ROLE_VECTOR, false, 1, {24}},
        {"groups.0.conv1", SCION_ROLE_HIDDEN, false, 4, {16, 24, 3, 3}},
        {"groups.0.norm1.shift", SCION_ROLE_VECTOR, false, 1, {16}},
        {"groups.0.conv2", SCION_ROLE_HIDDEN, false, 4, {16, 16, 3, 3}},
        {"groups.0.norm2.shift", SCION_ROLE_VECTOR, false, 1, {16}},
        {"groups.1.conv1", SCION_ROLE_HIDDEN, false, 4, {64, 16, 3, 3}},
        {"groups.1.norm1.shift", SCION_ROLE_VECTOR, false, 1, {64}},
        {"groups.1.conv2", SCION_ROLE_HIDDEN, false, 4, {64, 64, 3, 3}},
        {"groups.1.norm2.shift", SCION_ROLE_VECTOR, false, 1, {64}},
        {"groups.2.conv1", SCION_ROLE_HIDDEN, false, 4, {64, 64, 3, 3}},
        {"groups.2.norm1.shift", SCION_ROLE_VECTOR, false, 1, {64}},
        {"groups.2.conv2", SCION_ROLE_HIDDEN, false, 4, {64, 64, 3, 3}},
        {"groups.2.norm2.shift", SCION_ROLE_VECTOR, false, 1, {64}},
        {"head", SCION_ROLE_OUTPUT, false, 2, {10, 64}},
    };
    const data_info s = tiny_pictures(3, 32, 10);
    config c = tiny("model=cnn width=16 whiten_bias=yes");
    model m = record(&c, &s, 3);
    (void)state;
    check_params(&m, want, 14);
    assert_int_equal(tape_param_at(m.tape, 0)->layer, SCION_ROLE_INPUT);
    assert_int_equal(tape_buffer_count(m.tape), 1 + 2 * 6);
    assert_int_equal(tape_buffer_at(m.tape, 0)->count, 24 * 12);
    model_free(&m);
    c = tiny("model=cnn width=64 shift_norm=euclid");
    m = record(&c, &s, 3); /* airbench: 1.97 million without the whitening layer's 288 */
    assert_int_equal(tape_param_elements(m.tape),
                     9 * (24 * 64 + 64 * 64 + 64 * 256 + 3 * 256 * 256) + 2 * 64 + 4 * 256 + 10 * 256);
    assert_int_equal(tape_param_at(m.tape, 1)->role, SCION_ROLE_NORMALIZATION);
    model_free(&m);
}

static void vit_declares_its_parameters(void **state)
{
    const expected want[] = {
        {"patch", SCION_ROLE_INPUT, false, 2, {32, 48}},
        {"class_token", SCION_ROLE_VECTOR, false, 1, {32}},
        {"positions", SCION_ROLE_VECTOR, false, 2, {65, 32}},
        {"blocks.0.attn.q", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.k", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.v", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.o", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.mlp.up", SCION_ROLE_HIDDEN, false, 2, {128, 32}},
        {"blocks.0.mlp.down", SCION_ROLE_HIDDEN, false, 2, {32, 128}},
        {"head", SCION_ROLE_OUTPUT, false, 2, {10, 32}},
    };
    const expected full[] = {
        {"patch", SCION_ROLE_INPUT, false, 4, {32, 3, 8, 8}},
        {"patch.bias", SCION_ROLE_VECTOR, false, 1, {32}},
        {"positions", SCION_ROLE_VECTOR, false, 2, {16, 32}},
        {"blocks.0.norm1.gain", SCION_ROLE_NORMALIZATION, false, 1, {32}},
        {"blocks.0.norm1.shift", SCION_ROLE_NORMALIZATION, false, 1, {32}},
        {"blocks.0.attn.q", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.q.bias", SCION_ROLE_VECTOR, false, 1, {32}},
        {"blocks.0.attn.k", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.k.bias", SCION_ROLE_VECTOR, false, 1, {32}},
        {"blocks.0.attn.v", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.v.bias", SCION_ROLE_VECTOR, false, 1, {32}},
        {"blocks.0.attn.o", SCION_ROLE_HIDDEN, false, 2, {32, 32}},
        {"blocks.0.attn.o.bias", SCION_ROLE_VECTOR, false, 1, {32}},
        {"blocks.0.norm2.gain", SCION_ROLE_NORMALIZATION, false, 1, {32}},
        {"blocks.0.norm2.shift", SCION_ROLE_NORMALIZATION, false, 1, {32}},
        {"blocks.0.mlp.up", SCION_ROLE_HIDDEN, false, 2, {64, 32}},
        {"blocks.0.mlp.up.bias", SCION_ROLE_VECTOR, false, 1, {64}},
        {"blocks.0.mlp.down", SCION_ROLE_HIDDEN, false, 2, {32, 64}},
        {"blocks.0.mlp.down.bias", SCION_ROLE_VECTOR, false, 1, {32}},
        {"norm.gain", SCION_ROLE_NORMALIZATION, false, 1, {32}},
        {"norm.shift", SCION_ROLE_NORMALIZATION, false, 1, {32}},
        {"head", SCION_ROLE_OUTPUT, false, 2, {10, 32}},
    };
    const data_info s = tiny_pictures(3, 32, 10);
    config c = tiny("model=vit layers=1 width=32 head_size=16 bias=no");
    model m = record(&c, &s, 3);
    (void)state;
    check_params(&m, want, 10);
    assert_int_equal(tape_param_at(m.tape, 2)->layer, SCION_ROLE_HIDDEN);
    model_free(&m);
    c = tiny("model=vit layers=1 width=32 head_size=16 patch=8 pool=mean norm=layernorm mlp_ratio=2 "
             "patch_factor=convolution");
    m = record(&c, &s, 3);
    check_params(&m, full, 22);
    assert_int_equal(tape_param_at(m.tape, 1)->layer, SCION_ROLE_INPUT);
    model_free(&m);
}

/* DeiT-base has 86,567,656 parameters: 1000 of them are the bias of its last layer, which ours has not, and without
 * gains and shifts of 25 layer normalisations, then without biases, the numbers follow. */
static void deit_has_its_size(void **state)
{
    const struct {
        const char *pairs;
        int64_t count;
    } cases[] = {
        {"norm=layernorm", 86567656 - 1000},
        {"norm=rmsnorm", 86567656 - 1000 - 25 * 2 * 768},
        {"norm=rmsnorm bias=no", 86567656 - 1000 - 25 * 2 * 768 - 768 - 12 * (5 + 4) * 768},
    };
    const data_info s = tiny_pictures(3, 224, 1000);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char pairs[128];
        snprintf(pairs, sizeof pairs, "model=vit patch=16 layers=12 width=768 head_size=64 %s", cases[i].pairs);
        config c = tiny(pairs);
        model m = record(&c, &s, 1);
        assert_int_equal(tape_param_elements(m.tape), cases[i].count);
        model_free(&m);
    }
}

/* 12 width^2 per block and one vocabulary x width, or two: the sizes by which the paper calls its models. */
static void sizes_are_the_papers(void **state)
{
    const struct {
        const char *pairs;
        int64_t count;
    } cases[] = {
        {"layers=12 width=512 head_size=128 tied=1", 63504384},    /* 64M */
        {"layers=12 width=768 head_size=128 tied=1", 123568128},   /* 124M */
        {"layers=12 width=1280 head_size=128 tied=1", 300318720},  /* 300M */
        {"layers=12 width=2560 head_size=128 tied=1", 1072496640}, /* 1B */
        {"layers=36 width=2560 head_size=128 tied=1", 2959933440}, /* 3B */
        {"layers=12 width=768 head_size=128", 162201600},          /* 124M with a head of its own */
    };
    const data_info s = tiny_text(8, 50304);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        config c = tiny(cases[i].pairs);
        model m = record(&c, &s, 3);
        assert_int_equal(tape_param_elements(m.tape), cases[i].count);
        model_free(&m);
    }
}

/* ---- Values and gradients --------------------------------------------------------------------------------- */

typedef struct run {
    model m;
    tape_plan *train, *eval;
    int64_t n;
    float *weights, *grads, *buffers, *spare; /* spare: as grads */
} run;

static tape_plan *planned(const model *m, const tape_value *target, plan_mode mode)
{
    scion_error err;
    tape_plan *p;
    OK(plan_make(&p, m->tape, target, &(plan_options){.mode = mode, .threads = 2}, &err));
    OK(plan_commit(p, NULL, &err));
    return p;
}

/* Fills a random batch; inputs that the plan does not need have no memory. */
static void fill(const model *m, const data_info *data, tape_plan *p)
{
    const double symbols = (double)data->arrays[1].range;
    const tape_value *x = plan_value(p, m->inputs[0]), *targets = plan_value(p, m->inputs[1]);
    for (int64_t i = 0; targets->ints && i < targets->count; i++)
        targets->ints[i] = (int32_t)(scn_uniform(seed, stream_tokens, (uint64_t)i) * symbols);
    for (int64_t i = 0; x->ints && i < x->count; i++)
        x->ints[i] = (int32_t)(scn_uniform(seed, stream_tokens, (uint64_t)i + 999) * symbols);
    if (!x->ints)
        scn_normals(seed, stream_tokens, 5000, x->count, x->data);
}

/* A planned model with random weights of RMS 1/sqrt(columns) and a random batch. */
static run start(const config *c, const data_info *data, int64_t batch)
{
    run r = {.m = record(c, data, batch)};
    r.n = tape_param_elements(r.m.tape);
    r.weights = calloc((size_t)r.n, sizeof *r.weights);
    r.grads = calloc((size_t)r.n, sizeof *r.grads);
    r.spare = calloc((size_t)r.n, sizeof *r.spare);
    r.buffers = calloc((size_t)tape_buffer_elements(r.m.tape) + 1, sizeof *r.buffers);
    assert_true(r.weights && r.grads && r.buffers && r.spare);
    r.train = planned(&r.m, r.m.loss, PLAN_TRAINING);
    r.eval = planned(&r.m, r.m.loss, PLAN_INFERENCE);
    tape_bind(r.m.tape, r.weights, r.grads, r.buffers);
    tape_init_buffers(r.m.tape);
    if (tape_buffer_count(r.m.tape) > 0) /* the first layer, which is not trained */
        scn_normals(seed, stream_weights, 1 << 20, tape_buffer_at(r.m.tape, 0)->count,
                    tape_buffer_at(r.m.tape, 0)->data);
    scn_normals(seed, stream_weights, 0, r.n, r.weights);
    for (int64_t i = 0; i < tape_param_count(r.m.tape); i++) {
        const tape_value *v = tape_param_at(r.m.tape, i);
        const float reach = v->ndim > 1 ? 1 / sqrtf((float)v->shape[1]) : 0.1f;
        for (int64_t k = 0; k < v->count; k++)
            v->data[k] *= reach;
    }
    fill(&r.m, data, r.train);
    fill(&r.m, data, r.eval);
    return r;
}

static void stop(run *r)
{
    plan_free(r->train);
    plan_free(r->eval);
    model_free(&r->m);
    free(r->weights);
    free(r->grads);
    free(r->spare);
    free(r->buffers);
}

static double loss_of(run *r)
{
    tape_run how = {.threads = 2, .loss_scale = 1};
    return (double)plan_forward(r->eval, &how);
}

/* The loss in training, which batch normalisation makes another one; its gradients go elsewhere. */
static double training_loss_of(run *r)
{
    tape_run how = {.threads = 2, .loss_scale = 1};
    tape_bind(r->m.tape, r->weights, r->spare, r->buffers);
    const double loss = (double)plan_forward(r->train, &how);
    tape_bind(r->m.tape, r->weights, r->grads, r->buffers);
    return loss;
}

static void gradient(run *r)
{
    tape_run how = {.threads = 2, .loss_scale = 1};
    memset(r->grads, 0, (size_t)r->n * sizeof *r->grads);
    plan_forward(r->train, &how);
    plan_backward(r->train, &how);
}

/* ---- Soft targets ------------------------------------------------------------------------------------------- */

/* All samples of a batch: `share` of class `first`, the rest of class `second`. */
static void fill_classes(const run *r, tape_plan *p, int32_t first, int32_t second, float share)
{
    const tape_value *targets = plan_value(p, r->m.inputs[1]), *weights = plan_value(p, r->m.inputs[2]);
    const int64_t classes = weights->count / targets->count;
    memset(weights->data, 0, (size_t)weights->count * sizeof *weights->data);
    for (int64_t i = 0; i < targets->count; i++) {
        targets->ints[i] = share >= 0.5f ? first : second;
        weights->data[i * classes + first] += share;
        weights->data[i * classes + second] += 1 - share;
    }
}

/* The loss is linear in the weights of the classes, and so is its gradient; weight 1 for one class is that class. */
static void mixed_classes_mix_the_losses(void **state)
{
    static const char *const cases[] = {"model=mlp layers=3 width=16 smoothing=0.1",
                                        "model=cnn width=4 smoothing=0.1",
                                        "model=vit layers=2 width=16 head_size=8 patch=5 smoothing=0.1"};
    enum { first = 2, second = 5, classes = 7, batch = 6 };
    const float share = 0.75f;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const data_info hard = i == 0 ? tiny_images(20, classes) : tiny_pictures(2, 25, classes);
        const config c = tiny(cases[i]);
        data_info soft = hard;
        soft.arrays[soft.array_count++] =
            (data_array){"target_weights", DATA_FLOAT32, 1, {classes}, classes, 0, 0, false};
        run plain = start(&c, &hard, batch), r = start(&c, &soft, batch);
        double loss[3];
        float *grads[3];
        for (int k = 0; k < 3; k++) {
            const float weight = k == 0 ? 1 : k == 1 ? 0 : share;
            fill_classes(&r, r.eval, first, second, weight);
            fill_classes(&r, r.train, first, second, weight);
            loss[k] = loss_of(&r);
            gradient(&r);
            grads[k] = malloc((size_t)r.n * sizeof **grads);
            memcpy(grads[k], r.grads, (size_t)r.n * sizeof **grads);
        }
        for (int64_t k = 0; k < batch; k++)
            plan_value(plain.eval, plain.m.inputs[1])->ints[k] = first;
        near("the loss of one class", loss[0], loss_of(&plain), 1e-6);
        near("the loss of a mix", loss[2], (double)share * loss[0] + (double)(1 - share) * loss[1], 1e-6);
        assert_true(fabs(loss[0] - loss[1]) > 1e-3);
        for (int64_t k = 0; k < r.n; k++)
            near("a gradient", (double)grads[2][k],
                 (double)share * (double)grads[0][k] + (double)(1 - share) * (double)grads[1][k], 1e-5);
        for (int k = 0; k < 3; k++)
            free(grads[k]);
        stop(&plain);
        stop(&r);
    }
}

static data_info text_data, image_data, picture_data;

static int describe(void **state)
{
    (void)state;
    text_data = tiny_text(10, 24);
    image_data = tiny_images(20, 7);
    picture_data = tiny_pictures(2, 25, 7);
    return 0;
}

/* A head of zeros gives every symbol the same probability. Float32 sums of 24 equal terms are good to 1e-6. */
static void knowing_nothing_costs_ln_v(void **state)
{
    const char *pairs[] = {"layers=2 width=32 head_size=16", "model=mlp layers=3 width=16",
                           "layers=2 width=32 head_size=16 smoothing=0.1", "model=cnn width=4",
                           "model=vit layers=2 width=16 head_size=8 patch=5"};
    const data_info *data[] = {&text_data, &image_data, &text_data, &picture_data, &picture_data};
    (void)state;
    for (int i = 0; i < 5; i++) {
        config c = tiny(pairs[i]);
        run r = start(&c, data[i], i == 1 ? 6 : 3);
        const tape_value *head = tape_param_at(r.m.tape, tape_param_count(r.m.tape) - 1);
        memset(head->data, 0, (size_t)head->count * sizeof(float));
        near(pairs[i], loss_of(&r), log((double)data[i]->arrays[1].range), 1e-6);
        stop(&r);
    }
}

/* The logits, planned on their own, cost what the loss says; neither plan computes the other's target. */
static void logits_are_those_of_the_loss(void **state)
{
    const char *pairs[] = {"layers=2 width=32 head_size=16", "model=mlp layers=3 width=16", "model=cnn width=4",
                           "model=vit layers=2 width=16 head_size=8 patch=5",
                           "model=vit layers=2 width=16 head_size=8 patch=5 pool=mean dropout=0.5"};
    const data_info *sets[] = {&text_data, &image_data, &picture_data, &picture_data, &picture_data};
    (void)state;
    for (int i = 0; i < 5; i++) {
        config c = tiny(pairs[i]);
        const data_info *data = sets[i];
        const int64_t classes = data->arrays[1].range;
        run r = start(&c, data, 3);
        tape_plan *p = planned(&r.m, r.m.logits, PLAN_INFERENCE);
        fill(&r.m, data, p);
        assert_null(plan_value(p, r.m.inputs[1])->ints);
        assert_null(plan_value(r.eval, r.m.logits)->data);
        plan_forward(p, &(tape_run){.threads = 2});
        const tape_value *z = plan_value(p, r.m.logits);
        const int64_t rows = z->count / classes;
        double sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            double total = 0;
            for (int64_t k = 0; k < classes; k++)
                total += exp((double)z->data[n * classes + k]);
            sum += log(total) - (double)z->data[n * classes + plan_value(r.eval, r.m.inputs[1])->ints[n]];
        }
        near(pairs[i], loss_of(&r), sum / (double)rows, 1e-6);
        plan_free(p);
        stop(&r);
    }
}

/* Activations stored as bfloat16: the same loss, gradients within a few roundings of 2^-9, less memory. */
static void stored_activations_halve_the_memory(void **state)
{
    (void)state;
    config c = tiny("layers=4 width=64 head_size=16");
    const data_info data = tiny_text(64, 24);
    const tape_run how = {.threads = 2, .loss_scale = 1};
    run r = start(&c, &data, 4);
    gradient(&r);
    const float loss = (float)loss_of(&r);
    float *exact = malloc((size_t)r.n * sizeof *exact);
    memcpy(exact, r.grads, (size_t)r.n * sizeof *exact);
    memset(r.grads, 0, (size_t)r.n * sizeof *r.grads);
    scion_error err;
    tape_plan *p;
    OK(plan_make(&p, r.m.tape, r.m.loss, &(plan_options){.mode = PLAN_TRAINING, .threads = 2, .bf16 = true}, &err));
    assert_true(plan_bytes(p) < plan_bytes(r.train) * 2 / 3);
    OK(plan_commit(p, NULL, &err));
    fill(&r.m, &data, p);
    assert_true(plan_forward(p, &how) == loss);
    plan_backward(p, &how);
    double error = 0, size = 0;
    for (int64_t i = 0; i < r.n; i++) {
        error += ((double)r.grads[i] - (double)exact[i]) * ((double)r.grads[i] - (double)exact[i]);
        size += (double)exact[i] * (double)exact[i];
    }
    assert_true(error > 0 && sqrt(error) < 0x1p-7 * sqrt(size));
    plan_free(p);
    free(exact);
    stop(&r);
}

/* Weights that are packed once for several passes change no bit, and follow the weights when they change. */
static void packed_weights_change_no_bit(void **state)
{
    (void)state;
    config c = tiny("layers=2 width=64 head_size=16 recompute=yes");
    const data_info data = tiny_text(64, 24);
    run r = start(&c, &data, 4);
    float *grads = malloc((size_t)r.n * sizeof *grads);
    scion_error err;
    tape_plan *p;
    OK(plan_make(&p, r.m.tape, r.m.loss, &(plan_options){.mode = PLAN_TRAINING, .threads = 2, .pack = true}, &err));
    /* twelve times the square of the width in each block, for y and for dx */
    assert_true(plan_packed_bytes(p) >= 2 * 2 * 12 * 64 * 64 * sizeof(float));
    assert_int_equal(plan_packed_bytes(r.train), 0);
    OK(plan_commit(p, NULL, &err));
    fill(&r.m, &data, p);
    for (int pass = 0; pass < 6; pass++) {
        const tape_run how = {.threads = 2, .loss_scale = 1, .same_weights = pass % 2 == 1};
        if (pass % 2 == 0)
            for (int64_t i = 0; i < r.n; i++)
                r.weights[i] *= 1.5f;
        gradient(&r);
        const float loss = (float)loss_of(&r);
        memcpy(grads, r.grads, (size_t)r.n * sizeof *grads);
        memset(r.grads, 0, (size_t)r.n * sizeof *r.grads);
        assert_true(plan_forward(p, &how) == loss);
        plan_backward(p, &how);
        assert_memory_equal(grads, r.grads, (size_t)r.n * sizeof *grads);
    }
    plan_free(p);
    free(grads);
    stop(&r);
}

/* Steps of gradient descent from where r's weights are, and their losses. */
static void descend(run *r, tape_plan *p, double *losses, int steps)
{
    const tape_run how = {.threads = 2, .loss_scale = 1};
    for (int step = 0; step < steps; step++) {
        memset(r->grads, 0, (size_t)r->n * sizeof *r->grads);
        losses[step] = (double)plan_forward(p, &how);
        plan_backward(p, &how);
        for (int64_t i = 0; i < r->n; i++)
            r->weights[i] -= 0.1f * r->grads[i];
    }
}

/* Rounding of what backward reads moves the curve by far less than a step does. Further on the descent oscillates,
 * and any rounding shows. */
static void stored_activations_learn_alike(void **state)
{
    enum { steps = 15 };
    (void)state;
    config c = tiny("layers=2 width=32 head_size=16");
    run r = start(&c, &text_data, 3);
    double exact[steps], stored[steps];
    scion_error err;
    tape_plan *p;
    float *begin = malloc((size_t)r.n * sizeof *begin);
    memcpy(begin, r.weights, (size_t)r.n * sizeof *begin);
    OK(plan_make(&p, r.m.tape, r.m.loss, &(plan_options){.mode = PLAN_TRAINING, .threads = 2, .bf16 = true}, &err));
    OK(plan_commit(p, NULL, &err));
    fill(&r.m, &text_data, p);
    descend(&r, r.train, exact, steps);
    memcpy(r.weights, begin, (size_t)r.n * sizeof *begin);
    descend(&r, p, stored, steps);
    assert_true(exact[steps - 1] < 0.5 * exact[0]);
    for (int i = 0; i < steps; i++)
        assert_true(fabs(stored[i] - exact[i]) < 0.01 * exact[0]);
    plan_free(p);
    free(begin);
    stop(&r);
}

/* For every parameter: <g, u> against (L(w + hu) - L(w - hu)) / 2h, u its gradient's direction plus a random one,
 * each of length 1. The loss, about 4, is rounded to 2.4e-7 and carries a few times that, which the division by 2h
 * turns into 5e-5; the third derivative times h^2/6 adds up to 4e-4 of the gradient's norm, which is 0.1 to 3 here.
 * So 3e-3 of the norm, and at least 3e-4, is six times what is natural, and a wrong factor or sign is far more.
 * Where the largest of some values is taken the loss has kinks, and batch normalisation of few images bends it: the
 * difference nears the gradient as the step does zero, to 1 % at 3e-4, where rounding is 1e-3 already. */
static const double least = 3e-4;

typedef struct accuracy {
    double step, tolerance;
} accuracy;

static const accuracy smooth = {1e-2, 3e-3}, kinked = {3e-4, 2e-2};

static double length(int64_t n, const float *x)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += (double)x[k] * (double)x[k];
    return sqrt(sum);
}

static void check_direction(run *r, const tape_value *v, int64_t index, accuracy a)
{
    const size_t bytes = (size_t)v->count * sizeof(float);
    float *u = malloc(bytes), *kept = malloc(bytes);
    assert_true(u && kept);
    scn_normals(seed, stream_direction + (uint64_t)index, 0, v->count, u);
    memcpy(kept, v->data, bytes);
    const double g_length = length(v->count, v->grad), u_length = length(v->count, u);
    double want = 0, at[2];
    assert_true(g_length > 0);
    for (int64_t k = 0; k < v->count; k++) {
        u[k] = (float)((double)u[k] / u_length + (double)v->grad[k] / g_length);
        want += (double)u[k] * (double)v->grad[k];
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t k = 0; k < v->count; k++)
            v->data[k] = (float)((double)kept[k] + (side == 0 ? a.step : -a.step) * (double)u[k]);
        at[side] = training_loss_of(r);
    }
    memcpy(v->data, kept, bytes);
    const double got = (at[0] - at[1]) / (2 * a.step);
    if (!(fabs(got - want) <= fmax(least, a.tolerance * g_length)))
        fail_msg("%s: the loss changes by %.7g, its gradient says %.7g (of norm %.3g)", v->name, got, want, g_length);
    free(u);
    free(kept);
}

static void gradients_are_derivatives(void **state)
{
    const char *pairs[] = {
        "layers=2 width=32 head_size=16",
        "layers=2 width=32 head_size=16 tied=1 smoothing=0.1 activation=scaled_relu2",
        "layers=1 width=16 head_size=8 qk_norm=no activation=gelu recompute=1",
        "model=mlp layers=3 width=16 activation=tanh",
        "model=cnn width=8 activation=gelu smoothing=0.2 logit_divisor=1 whiten_bias=yes",
        "model=vit layers=2 width=16 head_size=8 patch=5",
        "model=vit layers=2 width=16 head_size=16 patch=5 norm=layernorm pool=mean patch_factor=convolution "
        "mlp_ratio=1.5",
        "model=vit layers=3 width=16 head_size=8 patch=5 bias=no dropout=0.2 stochastic_depth=0.3 recompute=yes",
    };
    const data_info *data[] = {&text_data,    &text_data,    &text_data,    &image_data,
                               &picture_data, &picture_data, &picture_data, &picture_data};
    (void)state;
    for (int i = 0; i < 8; i++) {
        config c = tiny(pairs[i]);
        run r = start(&c, data[i], i < 3 ? 3 : i != 4 ? 6 : 16);
        gradient(&r);
        for (int64_t k = 0; k < tape_param_count(r.m.tape); k++)
            check_direction(&r, tape_param_at(r.m.tape, k), k, i == 4 ? kinked : smooth);
        stop(&r);
    }
}

static void recomputation_changes_no_bit(void **state)
{
    const char *pairs[] = {"layers=3 width=32 head_size=16",
                           "model=vit layers=3 width=16 head_size=8 patch=5 dropout=0.2 stochastic_depth=0.3"};
    const data_info *data[] = {&text_data, &picture_data};
    (void)state;
    for (int i = 0; i < 2; i++) {
        config c = tiny(pairs[i]);
        scion_error err;
        run kept = start(&c, data[i], 3);
        OK(config_set(&c, "recompute", "yes", "test", &err));
        run again = start(&c, data[i], 3);
        gradient(&kept);
        gradient(&again);
        assert_memory_equal(kept.grads, again.grads, (size_t)kept.n * sizeof(float));
        stop(&kept);
        stop(&again);
    }
}

/* Another order of an image's patches, with their positions in that order too, is the same to a class token; the
 * positions alone are what tells them apart. Patch 1 and patch 2 change places; float32 sums in another order. */
static void positions_are_all_that_orders_patches(void **state)
{
    (void)state;
    config c = tiny("model=vit layers=2 width=16 head_size=8 patch=5");
    const data_info data = tiny_pictures(2, 25, 7);
    run r = start(&c, &data, 1);
    const tape_value *image = plan_value(r.eval, r.m.inputs[0]);
    const tape_value *positions = tape_param_at(r.m.tape, 3);
    assert_string_equal(positions->name, "positions");
    const double before = loss_of(&r);
    for (int64_t y = 0; y < 5; y++)
        for (int64_t x = 0; x < 5 * 2; x++) {
            float *one = image->data + y * 25 * 2 + x, *two = one + 5 * 2, kept = *one;
            *one = *two;
            *two = kept;
        }
    const double moved = loss_of(&r);
    for (int64_t i = 0; i < 16; i++) {
        float *one = positions->data + 16 + i, *two = one + 16, kept = *one;
        *one = *two;
        *two = kept;
    }
    assert_true(fabs(moved - before) > 1e-4);
    near("the loss", loss_of(&r), before, 2e-6);
    stop(&r);
}

/* Evaluation does not drop; in training every sample draws anew. */
static void only_training_drops(void **state)
{
    (void)state;
    config plain = tiny("model=vit layers=3 width=16 head_size=8 patch=5");
    config drops = tiny("model=vit layers=3 width=16 head_size=8 patch=5 dropout=0.2 stochastic_depth=0.3");
    run a = start(&plain, &picture_data, 6), b = start(&drops, &picture_data, 6);
    assert_true(loss_of(&a) == loss_of(&b));
    assert_true(training_loss_of(&a) == loss_of(&a));
    assert_true(training_loss_of(&b) != loss_of(&b));
    const tape_run later = {.threads = 2, .loss_scale = 1, .sample = 6};
    const double first = training_loss_of(&b);
    assert_true(training_loss_of(&b) == first);
    assert_true((double)plan_forward(b.train, &later) != first);
    stop(&a);
    stop(&b);
}

/* ---- Faults ----------------------------------------------------------------------------------------------- */

static void refuse(const char *pairs, const data_info *data, const char *part)
{
    config c = tiny(pairs);
    model m;
    scion_error err = {0};
    assert_int_equal(model_record(&m, config_model(&c), config_model_options(&c), data, 3, &err), SCION_EINVAL);
    assert_null(m.tape);
    if (!strstr(err.message, part))
        fail_msg("\"%s\" should contain \"%s\"", err.message, part);
}

static void wrong_configurations_get_a_sentence(void **state)
{
    (void)state;
    refuse("width=30 head_size=16", &text_data, "multiple of head_size");
    refuse("width=30 head_size=15", &text_data, "expected an even number");
    refuse("model=mlp layers=1", &image_data, "expected 2 or more");
    refuse("model=mlp", &text_data, "model mlp needs pixels, the data have tokens and targets");
    refuse("model=gpt", &image_data, "model gpt needs tokens, the data have pixels and targets");
    refuse("model=cnn", &(data_info[]){tiny_pictures(3, 24, 10)}[0], "24 x 24 pixels, expected at least 25 x 25");
    refuse("model=cnn", &image_data, "model cnn needs image, the data have pixels and targets");
    assert_string_equal(model_name(1), "mlp");
    refuse("model=vit patch=4", &picture_data, "patches of 4 x 4 pixels do not divide images of 25 x 25");
    refuse("model=vit width=30 head_size=16", &picture_data, "multiple of head_size");
    assert_string_equal(model_name(2), "cnn");
    assert_string_equal(model_name(3), "vit");
    assert_null(model_name(4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_declares_its_parameters),
        cmocka_unit_test(mlp_declares_its_parameters),
        cmocka_unit_test(cnn_declares_its_parameters),
        cmocka_unit_test(sizes_are_the_papers),
        cmocka_unit_test(vit_declares_its_parameters),
        cmocka_unit_test(deit_has_its_size),
        cmocka_unit_test(positions_are_all_that_orders_patches),
        cmocka_unit_test(only_training_drops),
        cmocka_unit_test(mixed_classes_mix_the_losses),
        cmocka_unit_test(knowing_nothing_costs_ln_v),
        cmocka_unit_test(logits_are_those_of_the_loss),
        cmocka_unit_test(stored_activations_halve_the_memory),
        cmocka_unit_test(packed_weights_change_no_bit),
        cmocka_unit_test(stored_activations_learn_alike),
        cmocka_unit_test(gradients_are_derivatives),
        cmocka_unit_test(recomputation_changes_no_bit),
        cmocka_unit_test(wrong_configurations_get_a_sentence),
    };
    return cmocka_run_group_tests(tests, describe, NULL);
}
