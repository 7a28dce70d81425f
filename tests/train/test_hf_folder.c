/* Folders of transformers as the start of a run. Law: a run that is exported in float32 and taken in again has the
 * same weights bit for bit, where the factor of its activation is a power of two, and the same loss. Everything that
 * this network cannot express is refused, with a sentence that names it. */
#include "scratch.h"
#include "tiny.h"

#include <jansson.h>

#include "record/export.h"
#include "record/hf_folder.h"
#include "trainer_tests.h"
#include "util/fail.h"

#define NETWORK "layers=2 width=32 head_size=16 block=16 batch=4 steps=20 threads=1 lr=2^-5 "

/* A text to learn from. */
static const char *text_file(void)
{
    const char *path = scratch("text.txt");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 200; i++)
        fprintf(f, "%d the quick brown f\xc3\xb6x jumps\n", i);
    fclose(f);
    return path;
}

static config settings(const char *more)
{
    char pairs[1024];
    snprintf(pairs, sizeof pairs, NETWORK "data=%s %s", text_file(), more);
    return tiny(pairs);
}

/* A run after a few steps. */
static trainer *trained(const char *more)
{
    const config c = settings(more);
    trainer *t = NULL;
    double loss;
    scion_error err;
    OK(tiny_create(&t, &c, &err));
    for (int i = 0; i < 5; i++)
        OK(tiny_step(t, &loss, &err));
    return t;
}

/* Exports it, in place of an earlier export. */
static const char *exported(const trainer *t, const char *type)
{
    const char *out = scratch("model");
    const trainer_info about = trainer_about(t);
    scion_error err;
    scratch_remove_tree(out);
    const export_source source = {.model = about.model,
                                  .config = about.config,
                                  .data = data_about(about.data),
                                  .name = "model",
                                  .step = about.step,
                                  .parameters = about.parameters};
    OK(export_model(out, "hf", type, &source, &err));
    return out;
}

/* As scion train does: the folder's network, then these settings. */
static scion_status start(trainer **out, const char *folder, const char *more, scion_error *err)
{
    config c = settings(""), from;
    bool of_ours;
    char pairs[600];
    snprintf(c.training.init, sizeof c.training.init, "%s", folder);
    RETURN_IF_FAILED(trainer_model_of(&c, folder, &from, &of_ours, err));
    assert_false(of_ours);
    snprintf(pairs, sizeof pairs, "%s", more);
    for (char *pair = strtok(pairs, " "); pair; pair = strtok(NULL, " "))
        RETURN_IF_FAILED(config_set_pair(&c, pair, err));
    return tiny_create(out, &c, err);
}

static double validation(trainer *t)
{
    double loss, accuracy;
    scion_error err;
    OK(trainer_evaluate(t, 0, &loss, &accuracy, &err));
    return loss;
}

static void check_same(const trainer *t, const trainer *then)
{
    assert_int_equal(t->elements, then->elements);
    assert_memory_equal(tiny_weights(t), tiny_weights(then), (size_t)t->elements * sizeof(float));
}

/* ---- The law ------------------------------------------------------------------------------------------ */

static void an_exported_run_comes_back(void **state)
{
    static const char *const runs[] = {"activation=relu2",
                                       "activation=scaled_relu2",
                                       "activation=gelu",
                                       "activation=relu",
                                       "activation=tanh",
                                       "activation=scaled_relu2 tied=yes norms=shared rotary_base=500",
                                       "activation=scaled_relu2 tokenizer=bpe vocab=300",
                                       "activation=relu2 tokenizer=bytes",
                                       "activation=relu2 vocab=80"};
    scion_error err;
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        trainer *t = trained(runs[i]), *then = NULL;
        const char *folder = exported(t, "float32");
        OK(start(&then, folder, "", &err));
        check_same(t, then);
        assert_true(validation(t) == validation(then));
        assert_string_equal(t->model.row->name, then->model.row->name);
        trainer_free(then);
        trainer_free(t);
    }
}

/* The factor sqrt(2) rounds once when it is multiplied, and once when it is divided out: 2^-23 of the value. */
static void a_factor_of_sqrt_2_comes_back_to_rounding(void **state)
{
    static const char *const runs[][2] = {{"activation=sqrt2_gelu", "activation=gelu"},
                                          {"activation=scaled_relu", "activation=relu"}};
    scion_error err;
    (void)state;
    for (int i = 0; i < 2; i++) {
        trainer *t = trained(runs[i][0]), *then = NULL, *plain = NULL;
        const char *folder = exported(t, "float32");
        OK(start(&then, folder, "", &err));
        for (int64_t k = 0; k < t->elements; k++)
            near("weight", (double)tiny_weights(then)[k], (double)tiny_weights(t)[k],
                 0x1p-23 * fabs((double)tiny_weights(t)[k]));
        near("loss", validation(then), validation(t), 1e-6);
        /* Without the factor the numbers are those of the folder. */
        config c = settings(runs[i][1]);
        snprintf(c.training.init, sizeof c.training.init, "%s", folder);
        OK(tiny_create(&plain, &c, &err));
        const float *down = model_param(&plain->model, "blocks.1.mlp.down")->data;
        const float *ours = model_param(&t->model, "blocks.1.mlp.down")->data;
        for (int k = 0; k < 32; k++)
            assert_true(down[k] == ours[k] * (float)sqrt(2));
        near("loss", validation(plain), validation(t), 1e-6);
        trainer_free(plain);
        trainer_free(then);
        trainer_free(t);
    }
}

/* bfloat16 in the file; bfloat16 in memory. */
static void rounded_weights_are_taken(void **state)
{
    trainer *t = trained("activation=scaled_relu2"), *then = NULL, *half = NULL;
    scion_error err;
    (void)state;
    OK(start(&then, exported(t, "bf16"), "", &err));
    for (int64_t k = 0; k < t->elements; k++)
        near("weight", (double)tiny_weights(then)[k], (double)tiny_weights(t)[k],
             0x1p-8 * fabs((double)tiny_weights(t)[k]));
    OK(start(&half, exported(then, "float32"), "weights=bf16", &err));
    assert_true(half->model.tape != NULL && validation(half) > 0);
    trainer_free(half);
    trainer_free(then);
    trainer_free(t);
}

static void fine_tuning_lowers_the_loss(void **state)
{
    trainer *t = trained("activation=scaled_relu2"), *then = NULL;
    double loss;
    scion_error err;
    (void)state;
    OK(start(&then, exported(t, "float32"), "rule=adamw lr=0.003 schedule=constant", &err));
    const double before = validation(then);
    for (int i = 0; i < 15; i++)
        OK(tiny_step(then, &loss, &err));
    assert_true(validation(then) < before - 0.05);
    trainer_free(then);
    trainer_free(t);
}

/* ---- Several files ------------------------------------------------------------------------------------ */

/* Writes some tensors of the folder: those with (number % of) == rest, `name` instead of the last if it is given. */
static void write_part(const hf_folder *f, const char *path, int of, int rest)
{
    checkpoint_tensor list[64];
    checkpoint_contents all = {.tensors = list};
    const checkpoint_tensor *t;
    scion_error err;
    for (int64_t i = 0; (t = hf_folder_at(f, i)) != NULL; i++)
        if (i % of == rest)
            list[all.count++] = *t;
    OK(checkpoint_write(-1, path, &all, &err));
}

static void several_files_are_one_model(void **state)
{
    static const char *const names[] = {"model-1.safetensors", "model-2.safetensors"};
    trainer *t = trained("activation=scaled_relu2"), *then = NULL;
    const char *folder = exported(t, "float32"), *index = scratch_in(folder, "model.safetensors.index.json");
    const checkpoint_tensor *one;
    hf_folder *f;
    scion_error err;
    json_t *map = json_object();
    (void)state;
    OK(hf_folder_open(&f, folder, true, &err));
    for (int k = 0; k < 2; k++)
        write_part(f, scratch_in(folder, names[k]), 2, k);
    for (int64_t i = 0; (one = hf_folder_at(f, i)) != NULL; i++)
        json_object_set_new(map, one->name, json_string(names[i % 2]));
    hf_folder_close(f);
    remove(scratch_in(folder, "model.safetensors"));
    json_t *o = json_pack("{s:{}, s:O}", "metadata", "weight_map", map);
    assert_int_equal(json_dump_file(o, index, 0), 0);
    OK(start(&then, folder, "activation=scaled_relu2", &err)); /* the new files do not say which activation it was */
    check_same(t, then);
    trainer_free(then);
    json_object_set_new(map, "lm_head.weight", json_string("../other.safetensors"));
    assert_int_equal(json_dump_file(o, index, 0), 0);
    assert_int_not_equal(start(&then, folder, "", &err), SCION_OK);
    assert_non_null(strstr(err.message, "is not in a .safetensors file of this folder"));
    json_object_set_new(map, "lm_head.weight", json_string(names[0]));
    json_object_set_new(map, "more.weight", json_string(names[1]));
    assert_int_equal(json_dump_file(o, index, 0), 0);
    assert_int_not_equal(start(&then, folder, "", &err), SCION_OK);
    assert_non_null(strstr(err.message, "\"more.weight\" should be in model-2.safetensors, which does not have it"));
    json_decref(o);
    json_decref(map);
    trainer_free(t);
}

/* ---- Refusals ----------------------------------------------------------------------------------------- */

/* Sets a key of config.json to a JSON text; NULL: removes it. */
static void change(const char *folder, const char *key, const char *value)
{
    const char *path = scratch_in(folder, "config.json");
    json_t *o = json_load_file(path, 0, NULL);
    assert_non_null(o);
    if (value)
        json_object_set_new(o, key, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(o, key);
    assert_int_equal(json_dump_file(o, path, 0), 0);
    json_decref(o);
}

static void other_networks_are_refused(void **state)
{
    static const struct {
        const char *key, *value, *sentence;
    } cases[] = {
        {"architectures", "[\"LlamaForCausalLM\"]", "architecture LlamaForCausalLM is not one of this program"},
        {"architectures", NULL, "architecture unknown is not one of this program"},
        {"hidden_act", "\"xielu\"", "hidden_act is \"xielu\"; expected relu2, gelu, relu or tanh"},
        {"num_key_value_heads", "1", "num_key_value_heads is 1; expected num_attention_heads"},
        {"num_attention_heads", "3", "num_attention_heads is 3; expected a number that divides hidden_size"},
        {"intermediate_size", "100", "intermediate_size is 100; expected 4 times hidden_size"},
        {"hidden_size", "-4", "hidden_size is -4"},
        {"hidden_size", "\"32\"", "hidden_size is \"32\""},
        {"num_hidden_layers", "1000000", "num_hidden_layers is 1000000"},
        {"max_position_embeddings", "null", "max_position_embeddings is null"},
        {"rms_norm_eps", "1e-5", "rms_norm_eps is "},
        {"attention_bias", "true", "attention_bias is true; expected none"},
        {"quantization_config", "{\"bits\": 4}", "quantization_config is {\"bits\":4}; expected none"},
        {"head_dim", "8", "head_dim is 8; expected hidden_size / num_attention_heads, 16"},
        {"rope_parameters", "{\"rope_type\": \"llama3\", \"rope_theta\": 10000.0}", "rope_parameters is "},
        {"rope_parameters", NULL, "rope_parameters is missing"},
        {"vocab_size", "0", "vocab_size is not a number of tokens"},
        {"vocab_size", "5", "its tokenizer has 32 tokens, but config.json says 5"},
        {"vocab_size", "50", "has another shape than config.json says"},
        {"num_hidden_layers", "3", "model.layers.2.attention_layernorm.weight is missing"},
        {"num_hidden_layers", "1", "model.layers.1.attention_layernorm.weight is not one of this network"},
        {"tie_word_embeddings", "true", "tensor lm_head.weight is not one of this network"},
        {"tie_word_embeddings", "\"no\"", "tie_word_embeddings is \"no\""},
    };
    trainer *t = trained("activation=scaled_relu2"), *then = NULL;
    scion_error err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *folder = exported(t, "float32");
        change(folder, cases[i].key, cases[i].value);
        assert_int_not_equal(start(&then, folder, "", &err), SCION_OK);
        if (!strstr(err.message, cases[i].sentence))
            fail_msg("%s %s: %s", cases[i].key, cases[i].value, err.message);
        assert_null(then);
    }
    trainer_free(t);
}

/* transformers up to version 4 wrote rope_theta beside rope_scaling. */
static void an_older_config_is_taken(void **state)
{
    trainer *t = trained("activation=scaled_relu2 rotary_base=500"), *then = NULL;
    const char *folder = exported(t, "float32");
    scion_error err;
    (void)state;
    change(folder, "rope_parameters", NULL);
    change(folder, "rope_theta", "500.0");
    change(folder, "rope_scaling", "null");
    change(folder, "head_dim", "16");
    OK(start(&then, folder, "", &err));
    check_same(t, then);
    assert_true(validation(t) == validation(then));
    trainer_free(then);
    trainer_free(t);
}

static void gains_are_refused(void **state)
{
    trainer *t = trained("activation=scaled_relu2"), *then = NULL;
    const char *folder = exported(t, "float32"), *path = scratch_in(folder, "model.safetensors");
    float gains[32];
    checkpoint_tensor list[64];
    checkpoint_contents all = {.tensors = list};
    const checkpoint_tensor *one;
    hf_folder *f;
    scion_error err;
    (void)state;
    for (int i = 0; i < 32; i++)
        gains[i] = i == 7 ? 1.5f : 1;
    OK(hf_folder_open(&f, folder, true, &err));
    for (int64_t i = 0; (one = hf_folder_at(f, i)) != NULL; i++) {
        list[all.count] = *one;
        if (strcmp(one->name, "model.layers.1.feedforward_layernorm.weight") == 0)
            list[all.count].data = gains;
        all.count++;
    }
    OK(checkpoint_write(-1, scratch("gains.safetensors"), &all, &err));
    hf_folder_close(f);
    assert_int_equal(rename(scratch("gains.safetensors"), path), 0);
    assert_int_not_equal(start(&then, folder, "", &err), SCION_OK);
    assert_non_null(strstr(err.message, "feedforward_layernorm.weight has the gain 1.5: norms have no gains here"));
    trainer_free(t);
}

static void another_vocabulary_is_refused(void **state)
{
    trainer *t = trained("activation=scaled_relu2"), *then = NULL;
    const char *folder = exported(t, "float32");
    char pairs[600];
    scion_error err;
    (void)state;
    assert_int_not_equal(start(&then, folder, "tokenizer=bytes", &err), SCION_OK);
    assert_non_null(
        strstr(err.message, "has its own tokenizer, of 32 tokens: leave tokenizer out, or say tokenizer="));
    snprintf(pairs, sizeof pairs, "tokenizer=%s", folder);
    OK(start(&then, folder, pairs, &err));
    check_same(t, then);
    trainer_free(then);
    remove(scratch_in(folder, "tokenizer.json"));
    assert_int_not_equal(start(&then, folder, "", &err), SCION_OK);
    assert_non_null(strstr(err.message, "tokenizer=FILE|FOLDER names one with the same tokens"));
    assert_int_not_equal(start(&then, folder, "tokenizer=bytes", &err), SCION_OK); /* 256 tokens, and 32 rows */
    remove(scratch_in(folder, "model.safetensors"));
    assert_int_not_equal(start(&then, folder, "", &err), SCION_OK);
    assert_non_null(strstr(err.message, "has neither model.safetensors nor model.safetensors.index.json"));
    scratch_text(scratch_in(folder, "config.json"), "{\"architectures\": [");
    assert_int_not_equal(start(&then, folder, "", &err), SCION_OK);
    assert_non_null(strstr(err.message, "config.json: is not valid JSON: line 1"));
    trainer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exported_run_comes_back),    cmocka_unit_test(a_factor_of_sqrt_2_comes_back_to_rounding),
        cmocka_unit_test(rounded_weights_are_taken),     cmocka_unit_test(fine_tuning_lowers_the_loss),
        cmocka_unit_test(several_files_are_one_model),   cmocka_unit_test(other_networks_are_refused),
        cmocka_unit_test(an_older_config_is_taken),      cmocka_unit_test(gains_are_refused),
        cmocka_unit_test(another_vocabulary_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
