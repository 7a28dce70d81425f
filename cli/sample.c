/* scion sample: generates text with a trained GPT. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "cli.h"
#include "generate/generated_text.h"
#include "generate/generator.h"
#include "generate/sampler.h"
#include "record/run_dir.h"
#include "util/clock.h"
#include "util/json.h"
#include "util/utf8.h"

typedef enum text_end { AT_TOKENS, AT_STOP, AT_DOCUMENT, AT_SIGNAL } text_end;

typedef struct text_prompt {
    char *text;
    int32_t *tokens;
    int64_t count;
} text_prompt;

/* A text to write. */
typedef struct text_job {
    const text_prompt *from;
    int64_t seed;
    generated_text text;
    int64_t tokens;
    int32_t next; /* the token that was drawn last */
    bool ended;
    text_end end;
} text_job;

/* Everything that one command writes. */
typedef struct writing {
    const trainer *trainer;
    const data_info *data;
    generator *g;
    sampler **samplers; /* one for each text at a time */
    sampler_options how;
    const char **stops; /* ended by NULL; NULL: none */
    int64_t tokens, seed, samples, batch;
    text_prompt *prompts;
    int64_t prompt_count;
    text_job *jobs;      /* all texts, in order */
    int64_t count, done; /* of them; those that are printed to their end */
    size_t printed;      /* bytes of the present one */
    bool json, quiet;
    float *logits; /* after the prompt that was read last */
} writing;

/* Symbols that can be drawn. */
static int64_t symbols_of(const data_info *d)
{
    return d->tokenizer ? d->symbols : d->arrays[d->input].range;
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

static int print_job_json(const text_job *j)
{
    static const char *const ends[] = {
        [AT_TOKENS] = "tokens", [AT_STOP] = "stop", [AT_DOCUMENT] = "document", [AT_SIGNAL] = "signal"};
    const char *text = j->text.bytes ? j->text.bytes : "";
    return print_json(json_pack("{s:I, s:o, s:o, s:I, s:s}", "seed", (json_int_t)j->seed, "prompt",
                                text_json(j->from->text, strlen(j->from->text)), "text",
                                text_json(text, j->text.length), "tokens", (json_int_t)j->tokens, "end",
                                ends[j->end]));
}

/* ---- Writing ---------------------------------------------------------------------------------------------- */

/* The line before a text, and its prompt. */
static void print_head(const writing *w, const text_job *j)
{
    const char *between = j > w->jobs ? "\n" : "";
    if (w->prompt_count > 1)
        printf("%s--- prompt %lld, seed %lld\n", between, (long long)(j->from - w->prompts + 1), (long long)j->seed);
    else if (w->samples > 1)
        printf("%s--- seed %lld\n", between, (long long)j->seed);
    printf("%s%s", j->from->text, j->from->text[0] && !w->data->tokenizer ? " " : "");
}

/* Prints what is settled of the present text, and of those after it as far as they have ended. begun: the index of
 * the first text that was not begun. */
static int print_settled(writing *w, int64_t begun)
{
    int status = CLI_OK;
    for (; status == CLI_OK && w->done < begun; w->done++, w->printed = 0) {
        text_job *j = &w->jobs[w->done];
        if (j->ended)
            generated_text_end(&j->text);
        if (!w->json && w->printed < j->text.settled) {
            fwrite(j->text.bytes + w->printed, 1, j->text.settled - w->printed, stdout);
            fflush(stdout);
            w->printed = j->text.settled;
        }
        if (!j->ended)
            break;
        if (w->json)
            status = print_job_json(j);
        else
            putchar('\n');
        generated_text_free(&j->text);
        if (!w->json && !w->quiet && w->done + 1 < begun)
            print_head(w, j + 1);
    }
    fflush(stdout);
    return status;
}

/* Appends a token to the text: its bytes, or its number where the tokenizer is not known. */
static bool put_token(const writing *w, text_job *j)
{
    size_t n = 0;
    char number[16];
    const char *bytes = number;
    if (w->data->tokenizer)
        bytes = tokenizer_decode(w->data->tokenizer, j->next, &n);
    else
        n = (size_t)snprintf(number, sizeof number, "%s%d", j->tokens > 0 ? " " : "", (int)j->next);
    return generated_text_add(&j->text, bytes, n, w->stops);
}

/* Takes the token that was drawn for a text; false: out of memory. */
static bool take_token(const writing *w, text_job *j, sampler *s)
{
    const int32_t separator = w->data->tokenizer ? tokenizer_separator(w->data->tokenizer) : -1;
    const bool document = separator >= 0 && j->next == separator;
    if (!document && !put_token(w, j))
        return false;
    j->tokens++;
    sampler_saw(s, 1, &j->next);
    j->ended = document || j->text.stopped || j->tokens == w->tokens || cli_interrupted();
    j->end = document ? AT_DOCUMENT : j->text.stopped ? AT_STOP : cli_interrupted() ? AT_SIGNAL : AT_TOKENS;
    return true;
}

static int not_finite(const text_job *j)
{
    return cli_error(CLI_FAILED, "the model's output is not finite after %lld tokens: it is of no use",
                     (long long)(j->from->count + j->tokens));
}

/* Reads the prompts of texts `first` to first + count - 1 into sequences 0 to count - 1. With several texts, the
 * prompt that was read last is kept in a sequence of its own, behind those of the texts. */
static void read_prompts(writing *w, int64_t first, int64_t count, float *logits)
{
    const int64_t vocab = generator_vocab(w->g), home = w->count > 1 ? w->batch : 0;
    for (int64_t i = 0; i < count && !cli_interrupted(); i++) {
        const text_job *j = &w->jobs[first + i];
        if (j == w->jobs || j->from != j[-1].from) {
            generator_clear(w->g, home);
            memcpy(w->logits, generator_read(w->g, home, j->from->count, j->from->tokens),
                   (size_t)vocab * sizeof *logits);
        }
        generator_copy(w->g, home, i);
        memcpy(logits + i * vocab, w->logits, (size_t)vocab * sizeof *logits);
        sampler_forget(w->samplers[i]);
        sampler_saw(w->samplers[i], j->from->count, j->from->tokens);
    }
}

/* The texts from `first` on, `count` at a time, until all have ended. */
static int write_group(writing *w, int64_t first, int64_t count)
{
    const int64_t vocab = generator_vocab(w->g);
    const int threads = trainer_about(w->trainer).threads;
    int64_t *slots = calloc((size_t)count, sizeof *slots), running = count;
    int32_t *tokens = calloc((size_t)count, sizeof *tokens);
    float *own = calloc((size_t)(count * vocab), sizeof *own);
    const float *logits = own;
    int status = slots && tokens && own ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
    if (status == CLI_OK && !w->json && !w->quiet && w->done == first)
        print_head(w, &w->jobs[first]);
    fflush(stdout);
    if (status == CLI_OK)
        read_prompts(w, first, count, own);
    for (int64_t i = 0; status == CLI_OK && i < count; i++)
        slots[i] = i;
    while (status == CLI_OK && running > 0 && !cli_interrupted()) {
        SCN_PARALLEL(running > 1 ? threads : 1, i, running,
                     w->jobs[first + slots[i]].next = sampler_draw(w->samplers[slots[i]], logits + i * vocab,
                                                                   (uint64_t)w->jobs[first + slots[i]].seed,
                                                                   (uint64_t)w->jobs[first + slots[i]].tokens));
        int64_t left = 0;
        for (int64_t i = 0; status == CLI_OK && i < running; i++) {
            text_job *j = &w->jobs[first + slots[i]];
            if (j->next < 0)
                status = not_finite(j);
            else if (!take_token(w, j, w->samplers[slots[i]]))
                status = cli_error(CLI_FAILED, "out of memory");
            else if (!j->ended) {
                tokens[left] = j->next;
                slots[left++] = slots[i];
            }
        }
        running = left;
        if (status == CLI_OK)
            status = print_settled(w, first + count);
        if (status == CLI_OK && running > 0)
            logits = generator_write(w->g, running, slots, tokens);
    }
    for (int64_t i = 0; i < count; i++)
        if (!w->jobs[first + i].ended) {
            w->jobs[first + i].ended = true;
            w->jobs[first + i].end = AT_SIGNAL;
        }
    if (status == CLI_OK)
        status = print_settled(w, first + count);
    free(slots);
    free(tokens);
    free(own);
    return status;
}

/* Lists the texts, and makes what writes them. */
static int start_writing(writing *w)
{
    scion_error err;
    const trainer_info about = trainer_about(w->trainer);
    w->count = w->prompt_count * w->samples;
    w->batch = w->count < w->batch ? w->count : w->batch;
    w->jobs = calloc((size_t)w->count, sizeof *w->jobs);
    w->samplers = calloc((size_t)w->batch, sizeof(sampler *));
    if (generator_create(&w->g, about.model, (scion_dtype)about.config->training.compute, about.config->data.block,
                         w->batch + (w->count > 1), about.threads, &err) != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    w->logits = calloc((size_t)generator_vocab(w->g), sizeof *w->logits);
    bool made = w->jobs && w->samplers && w->logits;
    for (int64_t i = 0; made && i < w->batch; i++)
        made = (w->samplers[i] = sampler_create(&w->how, symbols_of(w->data))) != NULL;
    for (int64_t i = 0; made && i < w->count; i++)
        w->jobs[i] = (text_job){.from = &w->prompts[i / w->samples], .seed = w->seed + i % w->samples};
    return made ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
}

static void end_writing(writing *w)
{
    for (int64_t i = 0; w->jobs && i < w->count; i++)
        generated_text_free(&w->jobs[i].text);
    for (int64_t i = 0; w->samplers && i < w->batch; i++)
        sampler_free(w->samplers[i]);
    for (int64_t i = 0; w->prompts && i < w->prompt_count; i++) {
        free(w->prompts[i].text);
        free(w->prompts[i].tokens);
    }
    generator_free(w->g);
    free(w->samplers);
    free(w->jobs);
    free(w->logits);
    free(w->prompts);
    free(w->stops);
}

static int write_texts(writing *w, const char *path)
{
    const double begin = clock_now();
    int64_t sum = 0, first = 0;
    int status = start_writing(w);
    while (status == CLI_OK && first < w->count && !cli_interrupted()) {
        const int64_t n = w->count - first < w->batch ? w->count - first : w->batch;
        status = write_group(w, first, n);
        first += n;
    }
    for (int64_t i = 0; status == CLI_OK && i < first; i++)
        sum += w->jobs[i].tokens;
    if (status == CLI_OK && w->json) {
        const double seconds = clock_now() - begin;
        status = print_json(json_pack("{s:I, s:I, s:o, s:o, s:I, s:s}", "samples", (json_int_t)first, "tokens",
                                      (json_int_t)sum, "seconds", json_number(seconds), "tokens_per_s",
                                      json_number((double)sum / seconds), "step",
                                      (json_int_t)trainer_about(w->trainer).step, "checkpoint", path));
    }
    return status;
}

/* ---- The command ------------------------------------------------------------------------------------------ */

enum {
    PROMPT,
    PROMPT_FILE,
    PROMPTS,
    TOKENS,
    SAMPLES,
    BATCH,
    STOP,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    MIN_P,
    REPETITION,
    SEED,
    JSON,
    QUIET
};

static const cli_argument arguments[] = {
    [PROMPT] = {"prompt", "TEXT", "text to continue; -: standard input (a line break)",
                .also = "start text input context"},
    [PROMPT_FILE] = CLI_SETTING("prompt_file", "FILE", "the text to continue, from a file"),
    [PROMPTS] = CLI_SETTING("prompts", "FILE", "several prompts, one per line; -: standard input"),
    [TOKENS] = {"tokens", "N", "tokens to generate, at most (500)",
                .also = "max_new_tokens max_tokens num_tokens n_tokens n_predict max_length length"},
    [SAMPLES] = {"samples", "N", "several texts, with the seeds seed, seed + 1, ... (1)",
                 .also = "num_samples n num_return_sequences n_samples count"},
    [BATCH] = {"texts_at_once", "N", "texts that are written together, faster than one by one (8)",
               .also = "batch_size parallel"},
    [STOP] = {"stop", "TEXT", "end a text before this; several as a JSON list: [\"A\", \"B\"] (nothing)",
              .also = "stop_sequence stop_string eos end"},
    [TEMPERATURE] = {"temperature", "X", "0: always the most likely token (0.8)", .also = "temp"},
    [TOP_K] = {"top_k", "N", "sample among the N most likely tokens (0: all)", .also = "topk k"},
    [TOP_P] = {"top_p", "X", "sample among the most likely tokens that have probability X together (1)",
               .also = "topp nucleus"},
    [MIN_P] = {"min_p", "X", "sample among tokens at least X times as likely as the most likely one (0)",
               .also = "minp"},
    [REPETITION] = {"repetition_penalty", "X", "divides the logits of tokens that were there already (1)",
                    .also = "repeat_penalty penalty"},
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

/* Cuts a text into lines, which become prompts. */
static bool split_prompts(writing *w, char *text)
{
    int64_t lines = 1;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    w->prompts = calloc((size_t)lines, sizeof *w->prompts);
    bool memory = w->prompts != NULL;
    for (char *line = strtok(text, "\n"); memory && line; line = strtok(NULL, "\n"))
        memory = (w->prompts[w->prompt_count++].text = strdup(line)) != NULL;
    return memory;
}

/* The prompts and their tokens. */
static int read_all_prompts(writing *w, const cli_arguments *a)
{
    const char *given = a->values[PROMPT], *file = a->values[PROMPT_FILE], *list = a->values[PROMPTS];
    if (given && strcmp(given, "-") == 0)
        file = given;
    char *text = list ? read_prompt(list) : file ? read_prompt(file) : strdup(given ? given : "");
    if (!text)
        return CLI_FAILED;
    if (list) {
        const bool memory = split_prompts(w, text);
        free(text);
        if (!memory)
            return cli_error(CLI_FAILED, "out of memory");
        if (w->prompt_count == 0)
            return cli_error(CLI_FAILED, "%s: holds no prompt", strcmp(list, "-") == 0 ? "standard input" : list);
    } else {
        w->prompts = calloc(1, sizeof *w->prompts);
        if (!w->prompts) {
            free(text);
            return cli_error(CLI_FAILED, "out of memory");
        }
        w->prompts[w->prompt_count++].text = text;
    }
    for (int64_t i = 0; i < w->prompt_count; i++) {
        text_prompt *p = &w->prompts[i];
        p->count = encode(w->data, given || file || list ? p->text : NULL, &p->tokens);
        if (p->count < 1)
            return CLI_FAILED;
    }
    return CLI_OK;
}

/* The stop texts: one, or a JSON list of some; *json: owns them. */
static int read_stops(writing *w, const char *text, json_t **json)
{
    *json = text && text[0] == '[' ? json_loads(text, 0, NULL) : NULL;
    if (!text)
        return CLI_OK;
    const size_t count = *json ? json_array_size(*json) : 1;
    w->stops = calloc(count + 1, sizeof *w->stops);
    if (!w->stops)
        return cli_error(CLI_FAILED, "out of memory");
    for (size_t i = 0; i < count; i++) {
        w->stops[i] = *json ? json_string_value(json_array_get(*json, i)) : text;
        if (!w->stops[i])
            return cli_error(CLI_USAGE, "stop=%s: expected a list of texts", text);
        if (!w->stops[i][0])
            return cli_error(CLI_USAGE, "stop is empty, expected the text to stop at");
    }
    return CLI_OK;
}

static int run_sample(cli_arguments *a)
{
    char path[RUN_PATH];
    trainer *t = NULL;
    json_t *stops = NULL;
    writing w = {.how = {.temperature = 0.8, .top_p = 1, .repetition = 1},
                 .tokens = 500,
                 .seed = 1,
                 .samples = 1,
                 .batch = 8,
                 .json = a->values[JSON] != NULL,
                 .quiet = a->values[QUIET] != NULL};
    cli_progress progress = cli_progress_start(stderr);
    if (!cli_get_int(a, TOKENS, 1, 1000000000, &w.tokens) ||
        !cli_get_real(a, TEMPERATURE, 0, 100, &w.how.temperature) ||
        !cli_get_int(a, TOP_K, 0, 1000000000, &w.how.top_k) || !cli_get_real(a, TOP_P, 0, 1, &w.how.top_p) ||
        !cli_get_real(a, MIN_P, 0, 1, &w.how.min_p) || !cli_get_real(a, REPETITION, 0.01, 100, &w.how.repetition) ||
        !cli_get_int(a, SEED, 0, INT64_MAX / 2, &w.seed) || !cli_get_int(a, SAMPLES, 1, 1000000, &w.samples) ||
        !cli_get_int(a, BATCH, 1, 4096, &w.batch) || !cli_one_run(a))
        return CLI_USAGE;
    if ((a->values[PROMPT] != NULL) + (a->values[PROMPT_FILE] != NULL) + (a->values[PROMPTS] != NULL) > 1)
        return cli_error(CLI_USAGE, "give one of prompt, prompt_file and prompts, not both");
    int status = read_stops(&w, a->values[STOP], &stops);
    if (status == CLI_OK) { /* a large checkpoint takes a while */
        cli_progress_show(&progress, CLI_STATUS, "reading %s ...", a->words[0]);
        status = cli_open_run(&t, a, TRAINER_GENERATE, path);
        cli_progress_clear(&progress);
        fflush(stderr);
    }
    if (status == CLI_OK) {
        w.trainer = t;
        w.data = data_about(trainer_about(t).data);
        status = read_all_prompts(&w, a);
    }
    if (status == CLI_OK) {
        cli_catch_signals();
        status = write_texts(&w, path);
    }
    end_writing(&w);
    json_decref(stops);
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
        "tokens are numbers. compute=bf16 rounds the operands of products with weights to bfloat16, and reads half "
        "as much memory for each token of a model with float32 weights.\n\n"
        "  scion sample runs/shakespeare prompt=\"ROMEO:\" tokens=1k\n"
        "  scion sample runs/shakespeare temperature=0.5 top_k=10 seed=7\n"
        "  scion sample runs/shakespeare prompt_file=scene.txt samples=3 stop=\"JULIET:\"\n"
        "  scion sample runs/shakespeare prompts=lines.txt min_p=0.05 --json\n"
        "  fortune | scion sample runs/shakespeare prompt=- --json\n",
    .run = run_sample,
    .arguments = arguments,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_RUNS,
    .rest = "prompt",
};
