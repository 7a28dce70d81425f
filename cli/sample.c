/* scion sample: lets a trained GPT write. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cli.h"
#include "models/gpt_decode.h"
#include "run/run_dir.h"

enum { stream_sample = 0x5000 };

typedef struct sampling {
    double temperature, top_p;
    long top_k, tokens;
    uint64_t seed;
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

/* A token from softmax(logits / temperature), out of the top_k likeliest, and of as many as make up top_p. */
static int32_t draw(const sampling *s, const float *logits, int64_t vocab, choice *choices, uint64_t number)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        most = fmax(most, (double)logits[i]);
    for (int64_t i = 0; i < vocab; i++)
        choices[i] = (choice){s->temperature > 0 ? exp(((double)logits[i] - most) / s->temperature)
                                                 : (double)logits[i] == most,
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
    double at = scn_uniform(s->seed, stream_sample, number) * sum;
    for (int64_t i = 0; i < kept; i++) {
        at -= choices[i].weight;
        if (at < 0)
            return choices[i].token;
    }
    return choices[kept - 1].token;
}

static int write_text(const trainer *t, gpt_decoder *d, const sampling *s, const int32_t *prompt, int64_t count)
{
    const int64_t vocab = data_about(t->data)->vocab;
    choice *choices = calloc((size_t)vocab, sizeof *choices);
    const float *logits = NULL;
    char text[5];
    if (!choices)
        return cli_error(CLI_FAILED, "out of memory");
    for (int64_t i = 0; i < count; i++)
        logits = gpt_decoder_step(d, prompt[i]);
    for (long i = 0; i < s->tokens && !cli_interrupted(); i++) {
        int32_t token = draw(s, logits, vocab, choices, (uint64_t)i);
        fwrite(text, 1, (size_t)data_decode(t->data, token, text), stdout);
        fflush(stdout);
        logits = gpt_decoder_step(d, token);
    }
    putchar('\n');
    free(choices);
    return CLI_OK;
}

/* A number behind a flag; false: it is none, or out of its range. */
static bool number(const char *flag, const char *text, double least, double most, double *value)
{
    char *end;
    if (!text)
        return true;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= least && v <= most)) {
        cli_error(CLI_USAGE, "%s %s: expected a number from %g to %g", flag, text, least, most);
        return false;
    }
    *value = v;
    return true;
}

static int run_sample(int argc, char **argv)
{
    static const char *const flags[] = {
        "--prompt=", "--tokens=", "--temperature=", "--top-k=", "--top-p=", "--seed=", NULL};
    cli_arguments a;
    char path[RUN_PATH];
    trainer *t = NULL;
    gpt_decoder *d = NULL;
    int32_t *prompt = NULL;
    scion_error err;
    double tokens = 500, temperature = 0.8, top_k = 0, top_p = 1, seed = 1;
    int status = CLI_USAGE;
    if (!cli_parse_run(&a, argc, argv, flags) || !number("--tokens", a.values[1], 1, 1e9, &tokens) ||
        !number("--temperature", a.values[2], 0, 100, &temperature) ||
        !number("--top-k", a.values[3], 0, 1e9, &top_k) || !number("--top-p", a.values[4], 0, 1, &top_p) ||
        !number("--seed", a.values[5], 0, 9e15, &seed))
        goto done;
    status = cli_open_run(&t, &a, run_dir_best, trainer_open_model, path);
    if (status != CLI_OK)
        goto done;
    status = CLI_FAILED;
    const char *text = a.values[0] ? a.values[0] : "\n";
    const size_t most = strlen(text) + 1;
    prompt = calloc(most, sizeof *prompt);
    int64_t count = prompt ? data_encode(t->data, text, prompt, (int64_t)most, &err) : -1;
    if (count < 0 && !a.values[0]) { /* a text without line breaks: begin with its first symbol */
        prompt[0] = 0;
        count = 1;
    }
    d = gpt_decoder_create(config_model_options(&t->c), t->eval.tape, t->c.data.block, data_about(t->data)->vocab);
    if (count < 1 || !d) {
        cli_error(status, "%s", d ? (count == 0 ? "the prompt is empty" : err.message) : "out of memory");
        goto done;
    }
    cli_catch_signals();
    if (a.values[0])
        fputs(text, stdout);
    const sampling s = {temperature, top_p, (long)top_k, (long)tokens, (uint64_t)seed};
    status = write_text(t, d, &s, prompt, count);
done:
    gpt_decoder_free(d);
    free(prompt);
    trainer_free(t);
    cli_parse_free(&a);
    return status;
}

const cli_command cli_sample = {
    "sample",
    "RUN [--prompt TEXT] [--tokens N] [--temperature X] [--top-k N] [--top-p X] [--seed N]",
    "let a trained model write",
    "The text streams as it comes. RUN is a folder (its best checkpoint is taken, else the newest) or a checkpoint; "
    "the\n"
    "training text is not needed. Defaults: 500 tokens, temperature 0.8 (0: always the likeliest), all tokens, seed "
    "1.\n\n"
    "  scion sample runs/shakespeare --prompt \"ROMEO:\" --tokens 1000\n"
    "  scion sample runs/shakespeare --temperature 0.5 --top-k 10 --seed 7\n",
    run_sample,
};
