/* scion sample: generates text with a trained GPT. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cli.h"
#include "run/run_dir.h"

typedef struct sampling {
    double temperature, top_p;
    int64_t top_k, tokens, seed;
} sampling;

typedef struct choice {
    double weight;
    int32_t token;
} choice;

static int by_weight(const void *x, const void *y)
{
    const choice *a = x, *b = y;
    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    return (a->token > b->token) - (a->token < b->token);
}

/* A token from softmax(logits / temperature), among the top_k most likely ones, and among as many of these as have
 * the probability top_p together. */
static int32_t draw(const sampling *s, const float *logits, int64_t vocab, choice *choices, uint64_t number)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        max = fmax(max, (double)logits[i]);
    for (int64_t i = 0; i < vocab; i++)
        choices[i] =
            (choice){s->temperature > 0 ? exp(((double)logits[i] - max) / s->temperature) : (double)logits[i] == max,
                     (int32_t)i};
    qsort(choices, (size_t)vocab, sizeof *choices, by_weight);
    int64_t kept = s->top_k > 0 && s->top_k < vocab ? s->top_k : vocab;
    for (int64_t i = 0; i < kept; i++)
        sum += choices[i].weight;
    double within = 0;
    for (int64_t i = 0; i < kept; i++) {
        within += choices[i].weight;
        if (within >= s->top_p * sum) {
            kept = i + 1;
            sum = within;
            break;
        }
    }
    double at = scn_uniform((uint64_t)s->seed, SCN_STREAM_GENERATE, number) * sum;
    for (int64_t i = 0; i < kept; i++) {
        at -= choices[i].weight;
        if (at < 0)
            return choices[i].token;
    }
    return choices[kept - 1].token;
}

static int generate(const trainer *t, void *decoder, const sampling *s, const int32_t *prompt, int64_t count)
{
    const model_decode *decode = config_model(&t->c)->decode;
    const int64_t vocab = data_about(t->data)->symbols;
    choice *choices = calloc((size_t)vocab, sizeof *choices);
    const float *logits = NULL;
    char text[DATA_TOKEN_TEXT];
    if (!choices)
        return cli_error(CLI_FAILED, "out of memory");
    for (int64_t i = 0; i < count; i++)
        logits = decode->step(decoder, prompt[i]);
    for (int64_t i = 0; i < s->tokens && !cli_interrupted(); i++) {
        int32_t token = draw(s, logits, vocab, choices, (uint64_t)i);
        fwrite(text, 1, (size_t)data_decode(t->data, token, text), stdout);
        fflush(stdout);
        logits = decode->step(decoder, token);
    }
    putchar('\n');
    free(choices);
    return CLI_OK;
}

enum { PROMPT, TOKENS, TEMPERATURE, TOP_K, TOP_P, SEED };

static const cli_argument arguments[] = {
    [PROMPT] = CLI_SETTING("prompt", "TEXT", "text to continue (a line break)"),
    [TOKENS] = CLI_SETTING("tokens", "N", "tokens to generate (500)"),
    [TEMPERATURE] = CLI_SETTING("temperature", "X", "0: always the most likely token (0.8)"),
    [TOP_K] = CLI_SETTING("top_k", "N", "sample among the N most likely tokens (0: all)"),
    [TOP_P] = CLI_SETTING("top_p", "X", "sample among the most likely tokens that have probability X together (1)"),
    [SEED] = CLI_SETTING("seed", "N", "the same seed gives the same text (1)"),
    {0},
};

/* The tokens of the prompt; without one a line break, or the first symbol of a vocabulary that has none. The
 * caller frees *tokens. Returns their number, or -1 after an error. */
static int64_t encode(const trainer *t, const char *prompt, int32_t **tokens, scion_error *err)
{
    const char *text = prompt ? prompt : "\n";
    const size_t capacity = strlen(text) + 1;
    *tokens = calloc(capacity, sizeof **tokens);
    if (!*tokens) {
        snprintf(err->message, sizeof err->message, "out of memory");
        return -1;
    }
    int64_t count = data_encode(t->data, text, *tokens, (int64_t)capacity, err);
    if (count < 0 && !prompt) {
        (*tokens)[0] = 0;
        count = 1;
    }
    if (count == 0) {
        snprintf(err->message, sizeof err->message, "the prompt is empty");
        return -1;
    }
    return count;
}

static int run_sample(cli_arguments *a)
{
    char path[RUN_PATH];
    trainer *t = NULL;
    void *decoder = NULL;
    int32_t *prompt = NULL;
    scion_error err;
    sampling s = {.temperature = 0.8, .top_p = 1, .tokens = 500, .seed = 1};
    int status = CLI_USAGE;
    if (!cli_get_int(a, TOKENS, 1, 1000000000, &s.tokens) || !cli_get_real(a, TEMPERATURE, 0, 100, &s.temperature) ||
        !cli_get_int(a, TOP_K, 0, 1000000000, &s.top_k) || !cli_get_real(a, TOP_P, 0, 1, &s.top_p) ||
        !cli_get_int(a, SEED, 0, INT64_MAX, &s.seed))
        goto done;
    status = cli_open_run(&t, a, run_dir_best, trainer_open_model, path);
    if (status != CLI_OK)
        goto done;
    const int64_t count = encode(t, a->values[PROMPT], &prompt, &err);
    if (count < 0) {
        status = cli_error(CLI_FAILED, "%s", err.message);
        goto done;
    }
    decoder = config_model(&t->c)->decode->create(&t->model, config_model_options(&t->c), t->c.data.block, &err);
    if (!decoder) {
        status = cli_error(CLI_FAILED, "%s", err.message);
        goto done;
    }
    cli_catch_signals();
    if (a->values[PROMPT])
        fputs(a->values[PROMPT], stdout);
    status = generate(t, decoder, &s, prompt, count);
done:
    if (decoder)
        config_model(&t->c)->decode->free(decoder);
    free(prompt);
    trainer_free(t);
    return status;
}

const cli_command cli_sample = {
    .name = "sample",
    .usage = "RUN [key=value ...]",
    .summary = "generate text with a trained model",
    .help = "RUN is the folder of a run (its best checkpoint is used, else the newest) or a checkpoint. The\n"
            "training text is not needed. The text is printed as it is generated.\n\n"
            "  scion sample runs/shakespeare prompt=\"ROMEO:\" tokens=1k\n"
            "  scion sample runs/shakespeare temperature=0.5 top_k=10 seed=7\n",
    .run = run_sample,
    .arguments = arguments,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_FILES,
    .rest = "prompt",
};
