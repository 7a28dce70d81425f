/* scion sample: generates text with a trained GPT. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/json.h"
#include "util/utf8.h"
#include "base/random.h"
#include "cli.h"
#include "record/run_dir.h"

typedef struct sampling {
    double temperature, top_p;
    int64_t top_k, tokens, seed;
    const char *stop; /* NULL: none */
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

/* ---- Text that is generated ------------------------------------------------------------------------------------ */

typedef enum sample_end { AT_TOKENS, AT_STOP, AT_DOCUMENT, AT_SIGNAL } sample_end;

typedef struct sample_text {
    FILE *to;    /* takes what is generated; flushed, it is in `bytes` */
    char *bytes; /* ended by a zero byte */
    size_t length, printed;
    int64_t tokens;
    sample_end end;
} sample_text;

/* Bytes of whole characters: a token may end inside of one. */
static size_t whole_characters(const char *bytes, size_t length)
{
    for (size_t n = 1; n <= 3 && n <= length; n++) {
        const unsigned char c = (unsigned char)bytes[length - n];
        const size_t wanted = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (c >= 0xc0)
            return wanted > n ? length - n : length;
        if (c < 0x80)
            break;
    }
    return length;
}

/* Bytes that can be printed: up to the stop text, or up to an ending that may still become it or is no whole
 * character. *found: the stop text is complete. */
static size_t settled(const sample_text *x, const char *stop, bool *found)
{
    const size_t length = stop ? strlen(stop) : 0, kept = length < x->length ? length : x->length;
    *found = false;
    for (size_t at = x->printed; length > 0 && at + length <= x->length; at++)
        if (memcmp(x->bytes + at, stop, length) == 0) {
            *found = true;
            return at;
        }
    for (size_t n = kept; n > 0; n--)
        if (memcmp(x->bytes + x->length - n, stop, n) == 0)
            return x->length - n;
    return whole_characters(x->bytes, x->length);
}

/* Prints what is settled, and flushes. */
static void print_until(sample_text *x, size_t end, bool print)
{
    if (print && end > x->printed) {
        fwrite(x->bytes + x->printed, 1, end - x->printed, stdout);
        fflush(stdout);
    }
    if (end > x->printed)
        x->printed = end;
}

/* Appends a token to the text: its bytes, or its number where the tokenizer is not known. */
static bool put_token(const data_info *d, int32_t token, sample_text *x)
{
    size_t n = 0;
    if (!d->tokenizer)
        return fprintf(x->to, "%s%d", x->tokens > 0 ? " " : "", (int)token) > 0 && fflush(x->to) == 0;
    const char *bytes = tokenizer_decode(d->tokenizer, token, &n);
    return fwrite(bytes, 1, n, x->to) == n && fflush(x->to) == 0;
}

/* One sample: continues the prompt, printing it as it comes if `print`. */
static int generate(const trainer *t, void *decoder, const sampling *s, const int32_t *prompt, int64_t count,
                    bool print, sample_text *x)
{
    const model_decode *decode = trainer_about(t).model->row->decode;
    const data_info *d = data_about(trainer_about(t).data);
    const int64_t vocab = d->tokenizer ? d->symbols : d->arrays[d->input].range;
    const int32_t separator = d->tokenizer ? tokenizer_separator(d->tokenizer) : -1;
    choice *choices = calloc((size_t)vocab, sizeof *choices);
    const float *logits = NULL;
    x->to = open_memstream(&x->bytes, &x->length);
    bool found = false, ended = false, memory = choices && x->to, finite = true;
    for (int64_t i = 0; memory && i < count && !cli_interrupted(); i++)
        logits = decode->step(decoder, prompt[i]);
    for (; memory && !found && !ended && x->tokens < s->tokens && !cli_interrupted(); x->tokens++) {
        for (int64_t i = 0; i < vocab; i++)
            finite = finite && isfinite(logits[i]);
        if (!finite)
            break;
        const int32_t token = draw(s, logits, vocab, choices, (uint64_t)x->tokens);
        ended = separator >= 0 && token == separator;
        memory = ended || put_token(d, token, x);
        print_until(x, settled(x, s->stop, &found), print);
        if (!found && !ended)
            logits = decode->step(decoder, token);
    }
    x->end = found ? AT_STOP : ended ? AT_DOCUMENT : cli_interrupted() ? AT_SIGNAL : AT_TOKENS;
    memory = x->to && fclose(x->to) == 0 && memory;
    if (!found)
        print_until(x, x->length, print);
    else if (memory)
        x->bytes[x->length = x->printed] = '\0';
    free(choices);
    if (!finite)
        return cli_error(CLI_FAILED, "the model's output is not finite after %lld tokens: it is of no use",
                         (long long)(count + x->tokens));
    return memory ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
}

/* ---- JSON ------------------------------------------------------------------------------------------------- */

/* A JSON string. In a text of UTF-8, bytes that are none (a token may be half of a character) become U+FFFD; in one
 * without a character beyond ASCII, which is of single bytes, the characters of the same number. */
static json_t *text_json(const char *text, size_t length)
{
    json_t *string = json_stringn(text, length);
    char *wide = string ? NULL : malloc(3 * length + 1);
    bool characters = false;
    uint32_t code;
    size_t at = 0;
    for (size_t i = 0; wide && i < length; i++)
        characters = characters || utf8_decode(text + i, length - i, &code) > 1;
    for (size_t i = 0, n; wide && i < length; i += n) {
        n = (size_t)utf8_decode(text + i, length - i, &code);
        if (n == 0)
            code = characters ? 0xfffd : (unsigned char)text[i];
        n = n > 0 ? n : 1;
        at += (size_t)utf8_encode(code, wide + at);
    }
    if (wide)
        string = json_stringn(wide, at);
    free(wide);
    return string;
}

static int print_json(json_t *object)
{
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!line)
        return cli_error(CLI_FAILED, "out of memory");
    puts(line);
    fflush(stdout);
    free(line);
    return CLI_OK;
}

static int print_sample_json(const sampling *s, const char *prompt, const sample_text *x)
{
    static const char *const ends[] = {
        [AT_TOKENS] = "tokens", [AT_STOP] = "stop", [AT_DOCUMENT] = "document", [AT_SIGNAL] = "signal"};
    return print_json(json_pack("{s:I, s:o, s:o, s:I, s:s}", "seed", (json_int_t)s->seed, "prompt",
                                text_json(prompt, strlen(prompt)), "text", text_json(x->bytes, x->length), "tokens",
                                (json_int_t)x->tokens, "end", ends[x->end]));
}

/* ---- The command ------------------------------------------------------------------------------------------ */

enum { PROMPT, PROMPT_FILE, TOKENS, SAMPLES, STOP, TEMPERATURE, TOP_K, TOP_P, SEED, JSON, QUIET };

static const cli_argument arguments[] = {
    [PROMPT] = {"prompt", "TEXT", "text to continue; -: standard input (a line break)",
                .also = "start text input context"},
    [PROMPT_FILE] = CLI_SETTING("prompt_file", "FILE", "the text to continue, from a file"),
    [TOKENS] = {"tokens", "N", "tokens to generate, at most (500)",
                .also = "max_new_tokens max_tokens num_tokens n_tokens n_predict max_length length"},
    [SAMPLES] = {"samples", "N", "several texts, with the seeds seed, seed + 1, ... (1)",
                 .also = "num_samples n num_return_sequences n_samples count"},
    [STOP] = {"stop", "TEXT", "end a text before this (nothing)", .also = "stop_sequence stop_string eos end"},
    [TEMPERATURE] = {"temperature", "X", "0: always the most likely token (0.8)", .also = "temp"},
    [TOP_K] = {"top_k", "N", "sample among the N most likely tokens (0: all)", .also = "topk k"},
    [TOP_P] = {"top_p", "X", "sample among the most likely tokens that have probability X together (1)",
               .also = "topp nucleus"},
    [SEED] = {"seed", "N", "the same seed gives the same text (1)", .also = "random_seed manual_seed"},
    [JSON] = CLI_SWITCH("--json", "one JSON object per text, then a summary"),
    [QUIET] = CLI_SWITCH("--quiet", "print generated text only"),
    {0},
};

/* All of a file, "-": standard input; the caller frees. NULL after printing an error. */
static char *read_prompt(const char *path)
{
    const bool input = strcmp(path, "-") == 0;
    const char *name = input ? "standard input" : path;
    FILE *from = input ? stdin : fopen(path, "re");
    char *text = NULL;
    size_t capacity = 0;
    if (!from) {
        cli_error(CLI_FAILED, "%s: cannot open: %s", path, strerror(errno));
        return NULL;
    }
    const ssize_t length = getdelim(&text, &capacity, '\0', from);
    const bool zero = length > 0 && text[length - 1] == '\0', empty = length < 0 && feof(from);
    if (zero)
        cli_error(CLI_FAILED, "%s: holds a zero byte, and is not a text", name);
    else if (length < 0 && !empty)
        cli_error(CLI_FAILED, "%s: cannot be read: %s", name, strerror(errno));
    if (zero || length < 0) {
        free(text);
        text = empty ? strdup("") : NULL;
    }
    if (!input)
        fclose(from);
    return text;
}

/* Tokens that are given by their numbers, between blanks or commas. Returns how many; -1: these are none. */
static int64_t read_ids(const char *text, int64_t range, int32_t *tokens)
{
    int64_t count = 0;
    char *end;
    for (text += strspn(text, " ,\n"); *text; text = end + strspn(end, " ,\n")) {
        const long id = strtol(text, &end, 10);
        if (end == text || id < 0 || id >= range || !strchr(" ,\n", *end))
            return -1;
        tokens[count++] = (int32_t)id;
    }
    return count;
}

/* The tokens of the prompt; without one (NULL) the separator, a line break, or the first token of a vocabulary that
 * has neither. The caller frees *tokens. Returns their number, or 0 after printing an error. */
static int64_t encode(const data_info *d, const char *prompt, int32_t **tokens)
{
    const char *text = prompt ? prompt : "\n";
    const size_t length = strlen(text);
    const tokenizer *known = d->tokenizer;
    const int64_t range = d->arrays[d->input].range;
    size_t bad = length;
    scion_error err = {.message = ""};
    *tokens = calloc(length + 1, sizeof **tokens);
    if (!*tokens) {
        cli_error(CLI_FAILED, "out of memory");
        return 0;
    }
    if (!prompt && known && (**tokens = tokenizer_separator(known)) >= 0)
        return 1;
    const int64_t count = known ? tokenizer_encode(known, text, length, *tokens, &bad, &err)
                                : (prompt ? read_ids(text, range, *tokens) : 0);
    if (count > 0 && bad == length)
        return count;
    if (!prompt) {
        **tokens = 0;
        return 1;
    }
    if (count < 0)
        cli_error(CLI_FAILED,
                  "the tokenizer of the model is not known: expected a prompt of tokens below %lld, such as "
                  "\"15496 995\", or tokenizer=gpt2|FILE",
                  (long long)range);
    else if (bad < length)
        cli_error(CLI_FAILED, "%s (byte %zu of the prompt)", err.message, bad + 1);
    else
        cli_error(CLI_FAILED, "the prompt is empty");
    return 0;
}

/* The texts, one after the other, each with a seed of its own. */
static int write_samples(const trainer *t, const cli_arguments *a, sampling s, int64_t samples, const char *prompt,
                         const int32_t *tokens, int64_t count, const char *path)
{
    const model_decode *decode = trainer_about(t).model->row->decode;
    const bool json = a->values[JSON] != NULL, quiet = a->values[QUIET] != NULL;
    const double begin = clock_now();
    int64_t sum = 0, written = 0;
    int status = CLI_OK;
    for (; status == CLI_OK && written < samples && !cli_interrupted(); written++, s.seed++) {
        sample_text x = {.bytes = NULL};
        scion_error err;
        void *decoder = decode->create(trainer_about(t).model, config_model_options(trainer_about(t).config),
                                       trainer_about(t).config->data.block, &err);
        if (!decoder)
            return cli_error(CLI_FAILED, "%s", err.message);
        if (!json && !quiet && samples > 1)
            printf("%s--- seed %lld\n", written > 0 ? "\n" : "", (long long)s.seed);
        if (!json && !quiet)
            printf("%s%s", prompt, prompt[0] && !data_about(trainer_about(t).data)->tokenizer ? " " : "");
        status = generate(t, decoder, &s, tokens, count, !json, &x);
        if (status == CLI_OK && json)
            status = print_sample_json(&s, prompt, &x);
        else if (status == CLI_OK)
            putchar('\n');
        sum += x.tokens;
        free(x.bytes);
        decode->free(decoder);
    }
    if (status == CLI_OK && json) {
        const double seconds = clock_now() - begin;
        status = print_json(json_pack("{s:I, s:I, s:o, s:o, s:I, s:s}", "samples", (json_int_t)written, "tokens",
                                      (json_int_t)sum, "seconds", json_number(seconds), "tokens_per_s",
                                      json_number((double)sum / seconds), "step", (json_int_t)trainer_about(t).step,
                                      "checkpoint", path));
    }
    return status;
}

static int run_sample(cli_arguments *a)
{
    char path[RUN_PATH];
    trainer *t = NULL;
    int32_t *prompt = NULL;
    sampling s = {.temperature = 0.8, .top_p = 1, .tokens = 500, .seed = 1, .stop = a->values[STOP]};
    int64_t samples = 1;
    const char *given = a->values[PROMPT], *file = a->values[PROMPT_FILE];
    cli_progress progress = cli_progress_start(stderr);
    if (!cli_get_int(a, TOKENS, 1, 1000000000, &s.tokens) || !cli_get_real(a, TEMPERATURE, 0, 100, &s.temperature) ||
        !cli_get_int(a, TOP_K, 0, 1000000000, &s.top_k) || !cli_get_real(a, TOP_P, 0, 1, &s.top_p) ||
        !cli_get_int(a, SEED, 0, INT64_MAX / 2, &s.seed) || !cli_get_int(a, SAMPLES, 1, 1000000, &samples) ||
        !cli_one_run(a))
        return CLI_USAGE;
    if (s.stop && !s.stop[0])
        return cli_error(CLI_USAGE, "stop is empty, expected the text to stop at");
    if (given && file)
        return cli_error(CLI_USAGE, "give prompt or prompt_file, not both");
    if (given && strcmp(given, "-") == 0)
        file = given;
    cli_progress_show(&progress, CLI_STATUS, "reading %s ...", a->words[0]); /* a large checkpoint takes a while */
    int status = cli_open_run(&t, a, TRAINER_GENERATE, path);
    cli_progress_clear(&progress);
    fflush(stderr);
    if (status != CLI_OK)
        return status;
    char *text = file ? read_prompt(file) : strdup(given ? given : "");
    const int64_t count = text ? encode(data_about(trainer_about(t).data), given || file ? text : NULL, &prompt) : 0;
    cli_catch_signals();
    status = count > 0 ? write_samples(t, a, s, samples, text, prompt, count, path) : CLI_FAILED;
    free(text);
    free(prompt);
    trainer_free(t);
    return status;
}

const cli_command cli_sample = {
    .name = "sample",
    .usage = "RUN [key=value ...]",
    .summary = "generate text with a trained model",
    .help =
        "RUN is the folder of a run (its best checkpoint is used, else the newest) or a checkpoint. The "
        "training text is not needed. The text is printed as it is generated, up to the end of a document if the "
        "model knows one. A model of token shards needs tokenizer=gpt2|FILE, unless it learned with one: without, "
        "tokens are numbers.\n\n"
        "  scion sample runs/shakespeare prompt=\"ROMEO:\" tokens=1k\n"
        "  scion sample runs/shakespeare temperature=0.5 top_k=10 seed=7\n"
        "  scion sample runs/shakespeare prompt_file=scene.txt samples=3 stop=\"JULIET:\"\n"
        "  fortune | scion sample runs/shakespeare prompt=- --json\n",
    .run = run_sample,
    .arguments = arguments,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_RUNS,
    .rest = "prompt",
};
