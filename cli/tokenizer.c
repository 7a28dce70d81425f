/* scion tokenizer: learns a vocabulary of byte pairs, encodes texts, decodes tokens, describes a tokenizer. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/atomic_file.h"
#include "util/clock.h"
#include "util/fail.h"
#include "util/utf8.h"
#include "cli.h"
#include "record/run_tokenizer.h"
#include "data/text_files.h"
#include "text/tokenizer.h"

enum { VOCAB, LONGEST, OUT, TOKENIZER, FIELD, THREADS, TIME };

static const cli_argument arguments[] = {
    [VOCAB] = {"vocab", "N", "train: number of tokens, 512 to 65536 (4096)", .also = "vocab_size"},
    [LONGEST] = CLI_SETTING("max_token_length", "N", "train: bytes of the longest token; 0: no limit (0)"),
    [OUT] = CLI_SETTING("out", "FILE", "train: file to write, a tokenizer.json"),
    [TOKENIZER] = CLI_SETTING("tokenizer", "FILE", "encode, decode, info: gpt2, bytes, a file, a folder or a run"),
    [FIELD] = CLI_SETTING("field", "TEXT", "field of JSON Lines that holds the text (text)"),
    [THREADS] = CLI_SETTING("threads", "N", "train: threads; 0: all cores (0)"),
    [TIME] = CLI_SWITCH("--time", "encode: print the time it took in place of the tokens"),
    {0},
};

static const char *const verbs[] = {"train", "encode", "decode", "info"};

static const char *word(int i)
{
    return i < 4 ? verbs[i] : NULL;
}

/* ---- Opening ------------------------------------------------------------------------------------------------- */

/* Opens the tokenizer that the setting names; NULL after printing an error, and *status. */
static tokenizer *open_tokenizer(const cli_arguments *a, const char *name, int *status)
{
    tokenizer *t = NULL;
    scion_error err;
    if (!name)
        name = a->values[TOKENIZER];
    if (!name) {
        *status =
            cli_error(CLI_USAGE, "scion tokenizer %s: name the tokenizer, tokenizer=gpt2|FILE|RUN", a->words[0]);
        return NULL;
    }
    *status = cli_end(run_tokenizer_open(&t, name, &err), &err);
    return t;
}

/* ---- train --------------------------------------------------------------------------------------------------- */

/* Texts of all words of the command line. */
typedef struct corpus {
    data_texts *texts;
    int count;
    tokenizer_text *list;
    int64_t documents;
    size_t bytes;
} corpus;

static void free_corpus(corpus *c)
{
    for (int i = 0; c->texts && i < c->count; i++)
        data_free_texts(&c->texts[i]);
    free(c->texts);
    free(c->list);
}

static data_reading reading(const cli_arguments *a, bool keep_mark)
{
    return (data_reading){.field = a->values[FIELD] ? a->values[FIELD] : "text", .keep_mark = keep_mark};
}

static scion_status read_corpus(corpus *c, const cli_arguments *a, scion_error *err)
{
    const data_reading how = reading(a, false);
    c->texts = calloc((size_t)a->word_count, sizeof *c->texts);
    if (!c->texts)
        return train_fail(err, SCION_ENOMEM, "out of memory for the texts");
    for (int i = 1; i < a->word_count; i++) {
        data_texts *t = &c->texts[c->count++];
        RETURN_IF_FAILED(data_read_texts(t, a->words[i], &how, err));
        c->documents += t->document_count;
    }
    c->list = malloc((size_t)c->documents * sizeof *c->list + 1);
    if (!c->list)
        return train_fail(err, SCION_ENOMEM, "out of memory for the texts");
    int64_t to = 0;
    for (int i = 0; i < c->count; i++)
        for (int64_t k = 0; k < c->texts[i].document_count; k++) {
            const data_document *d = &c->texts[i].documents[k];
            c->list[to++] = (tokenizer_text){(const char *)c->texts[i].bytes + d->start, d->count};
            c->bytes += d->count;
        }
    return SCION_OK;
}

/* Shows the progress of work that takes more than two seconds. */
typedef struct view {
    cli_progress progress;
    double start;
} view;

static void show(void *ctx, const char *what, double share)
{
    view *v = ctx;
    if (clock_now() - v->start > 2)
        cli_progress_show(&v->progress, CLI_WAITING, "%s: %.0f %%", what, 100 * share);
}

static size_t longest_token(const tokenizer *t, int32_t *which)
{
    size_t longest = 0, n;
    for (int32_t i = 0; i < tokenizer_size(t); i++)
        if (tokenizer_decode(t, i, &n) && n > longest && i != tokenizer_separator(t)) {
            longest = n;
            *which = i;
        }
    return longest;
}

static scion_status save(const tokenizer *t, const char *path, scion_error *err)
{
    void *bytes;
    size_t size;
    RETURN_IF_FAILED(tokenizer_save(t, &bytes, &size, err));
    const scion_status status = atomic_save(-1, path, bytes, size, err);
    free(bytes);
    return status;
}

static scion_status learn(const cli_arguments *a, tokenizer_options o, scion_error *err)
{
    view v = {cli_progress_start(stderr), clock_now()};
    corpus c = {0};
    tokenizer *t = NULL;
    scion_status status;
    char size[16], time[16];
    int32_t which = 0;
    o.progress = show;
    o.ctx = &v;
    show(&v, "reading", 0);
    TRY(read_corpus(&c, a, err));
    TRY(tokenizer_learn(&t, "bpe", c.list, c.documents, &o, err));
    TRY(save(t, a->values[OUT], err));
    cli_progress_clear(&v.progress);
    cli_print(stdout, "%s: %lld tokens, the longest has %zu bytes\n", a->values[OUT], (long long)tokenizer_size(t),
              longest_token(t, &which));
    cli_print(stdout, "learned from %lld text%s, %s, in %s\n", (long long)c.documents, cli_plural(c.documents),
              cli_bytes((double)c.bytes, size), cli_duration(clock_now() - v.start, time));
    if (tokenizer_size(t) < o.vocab)
        cli_print(stdout, "fewer than %lld tokens: no other pair occurs twice\n", (long long)o.vocab);
done:
    cli_progress_clear(&v.progress);
    tokenizer_free(t);
    free_corpus(&c);
    return status;
}

static int run_train(const cli_arguments *a)
{
    tokenizer_options o = {.vocab = 4096};
    scion_error err;
    int64_t threads = 0;
    if (!cli_get_int(a, VOCAB, 512, 65536, &o.vocab) || !cli_get_int(a, LONGEST, 0, 1 << 20, &o.max_token_length) ||
        !cli_get_int(a, THREADS, 0, 4096, &threads))
        return CLI_USAGE;
    if (a->word_count < 2)
        return cli_error(CLI_USAGE, "name the texts: scion tokenizer train TEXT ... out=FILE");
    if (!a->values[OUT])
        return cli_error(CLI_USAGE, "name the file to write: out=tokenizer.json");
    o.threads = (int)threads;
    return cli_end(learn(a, o, &err), &err);
}

/* ---- encode -------------------------------------------------------------------------------------------------- */

/* Writes tokens on a line. */
static void print_tokens(const int32_t *tokens, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        char text[16], *at = text + sizeof text;
        uint32_t left = (uint32_t)tokens[i];
        do {
            *--at = (char)('0' + left % 10);
            left /= 10;
        } while (left > 0);
        if (i > 0)
            putchar(' ');
        fwrite(at, 1, (size_t)(text + sizeof text - at), stdout);
    }
    putchar('\n');
}

/* Texts that were encoded so far, and the time that this took. */
typedef struct encoding {
    const tokenizer *t;
    bool quiet; /* prints no tokens */
    size_t bytes;
    int64_t tokens;
    double seconds, cpu; /* on the clock, and of the processor */
} encoding;

/* Encodes a document. */
static scion_status encode_text(encoding *e, const data_texts *texts, const data_document *d, scion_error *err)
{
    int32_t *tokens = malloc(d->count * sizeof *tokens);
    scion_error why;
    size_t bad, byte;
    int64_t line;
    scion_status status = SCION_OK;
    if (!tokens)
        return train_fail(err, SCION_ENOMEM, "out of memory for the tokens");
    const double start = clock_now();
    const clock_t cpu = clock();
    const int64_t count = tokenizer_encode(e->t, (const char *)texts->bytes + d->start, d->count, tokens, &bad, &why);
    e->seconds += clock_now() - start;
    e->cpu += (double)(clock() - cpu) / CLOCKS_PER_SEC;
    e->bytes += d->count;
    e->tokens += count;
    if (bad < d->count) {
        const char *path = data_text_place(texts, d->start + bad, &line, &byte);
        status = train_fail(err, (scion_status)why.status, "%.120s: line %lld: %.120s", path, (long long)line,
                            why.message);
    } else if (!e->quiet) {
        print_tokens(tokens, count);
    }
    free(tokens);
    return status;
}

static int encode_path(encoding *e, const cli_arguments *a, const char *path, view *v)
{
    const data_reading how = reading(a, true);
    data_texts texts;
    scion_error err;
    scion_status status = data_read_texts(&texts, path, &how, &err);
    for (int64_t k = 0; status == SCION_OK && k < texts.document_count; k++) {
        show(v, path, (double)texts.documents[k].start / (double)texts.count);
        status = encode_text(e, &texts, &texts.documents[k], &err);
    }
    cli_progress_clear(&v->progress);
    data_free_texts(&texts);
    return cli_end(status, &err);
}

static int run_encode(const cli_arguments *a)
{
    view v = {cli_progress_start(stderr), clock_now()};
    int end;
    if (a->word_count < 2)
        return cli_error(CLI_USAGE, "name the texts: scion tokenizer encode tokenizer=T FILE ...");
    tokenizer *t = open_tokenizer(a, NULL, &end);
    encoding e = {.t = t, .quiet = a->values[TIME] != NULL};
    for (int i = 1; end == CLI_OK && i < a->word_count; i++)
        end = encode_path(&e, a, a->words[i], &v);
    if (end == CLI_OK && e.quiet)
        printf("%zu bytes, %lld tokens, %.4f s, %.4f s of the processor, %.1f MB/s\n", e.bytes, (long long)e.tokens,
               e.seconds, e.cpu, 1e-6 * (double)e.bytes / (e.seconds > 0 ? e.seconds : 1e-9));
    tokenizer_free(t);
    return end;
}

/* ---- decode -------------------------------------------------------------------------------------------------- */

/* Writes the bytes of the tokens on a line. False after printing an error. */
static bool decode_line(const tokenizer *t, const char *path, int64_t line, const char *text)
{
    for (const char *at = text + strspn(text, " \t\r\n"); *at; at += strspn(at, " \t\r\n")) {
        char *end;
        size_t n;
        const size_t length = strcspn(at, " \t\r\n");
        errno = 0;
        const long long token = strtoll(at, &end, 10);
        const bool fine = end == at + length && errno == 0 && token >= 0 && token < tokenizer_size(t);
        const char *bytes = fine ? tokenizer_decode(t, (int32_t)token, &n) : NULL;
        if (!bytes)
            return cli_error(CLI_FAILED, "%s: line %lld: found %.*s; expected tokens, 0 to %lld", path,
                             (long long)line, (int)(length < 40 ? length : 40), at,
                             (long long)tokenizer_size(t) - 1) == CLI_OK;
        fwrite(bytes, 1, n, stdout);
        at = end;
    }
    return true;
}

static int decode_file(const tokenizer *t, const char *path, FILE *from)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t number = 0;
    bool fine = true;
    for (ssize_t n; fine && (n = getline(&line, &capacity, from)) >= 0;) {
        fine = strlen(line) == (size_t)n ? decode_line(t, path, ++number, line)
                                         : cli_error(CLI_FAILED, "%s: line %lld has a zero byte; expected tokens",
                                                     path, (long long)number + 1) == CLI_OK;
    }
    free(line);
    return fine ? CLI_OK : CLI_FAILED;
}

static int run_decode(const cli_arguments *a)
{
    int end;
    tokenizer *t = open_tokenizer(a, NULL, &end);
    if (t && a->word_count == 1)
        end = decode_file(t, "standard input", stdin);
    for (int i = 1; end == CLI_OK && i < a->word_count; i++) {
        FILE *from = fopen(a->words[i], "re");
        end = from ? decode_file(t, a->words[i], from)
                   : cli_error(CLI_FAILED, "%s: cannot open: %s", a->words[i], strerror(errno));
        if (from)
            fclose(from);
    }
    tokenizer_free(t);
    return end;
}

/* ---- info ---------------------------------------------------------------------------------------------------- */

/* Prints "token 262, 4 bytes: " and its text. */
static void print_token(const tokenizer *t, const char *what, int32_t token)
{
    size_t n;
    char text[64];
    const char *bytes = tokenizer_decode(t, token, &n);
    snprintf(text, sizeof text, "%.*s", (int)(n < 40 ? n : 40), bytes);
    utf8_make_printable(text);
    cli_print(stdout, "%-10s %d, %zu byte%s: \"%s\"%s\n", what, (int)token, n, cli_plural((long long)n), text,
              n > 40 ? " ..." : "");
}

static int run_info(const cli_arguments *a)
{
    int end;
    int32_t longest = 0;
    if (!cli_words(a, 2, "one tokenizer"))
        return CLI_USAGE;
    tokenizer *t = open_tokenizer(a, a->word_count > 1 ? a->words[1] : NULL, &end);
    if (!t)
        return end;
    cli_print(stdout, "%-10s %s\n%-10s %lld\n", "kind", tokenizer_name(t), "tokens", (long long)tokenizer_size(t));
    if (tokenizer_separator(t) >= 0)
        print_token(t, "separator", tokenizer_separator(t));
    else
        cli_print(stdout, "%-10s none\n", "separator");
    for (int i = 0; tokenizer_pattern(t, i); i++)
        cli_print(stdout, "%-10s %s\n", "pattern", tokenizer_pattern(t, i));
    if (longest_token(t, &longest) > 0)
        print_token(t, "longest", longest);
    cli_print(stdout, "%-10s %016" PRIx64 "\n", "hash", tokenizer_hash(t));
    tokenizer_free(t);
    return CLI_OK;
}

static int run_tokenizer(cli_arguments *a)
{
    static int (*const runs[])(const cli_arguments *a) = {run_train, run_encode, run_decode, run_info};
    for (int i = 0; a->word_count > 0 && i < 4; i++)
        if (strcmp(a->words[0], verbs[i]) == 0)
            return runs[i](a);
    return cli_error(CLI_USAGE, "scion tokenizer %.60s: expected train, encode, decode or info",
                     a->word_count > 0 ? a->words[0] : "");
}

const cli_command cli_tokenizer = {
    .name = "tokenizer",
    .usage = "train TEXT ... out=FILE | encode tokenizer=T FILE ... | decode tokenizer=T [FILE ...] | info T",
    .summary = "learn a tokenizer, encode texts, decode tokens",
    .help =
        "train learns a byte pair encoding from texts (files, folders, gzip, zstd, JSON Lines) and writes a "
        "tokenizer.json, which other programs open as well. The same texts give the same file, on any number of "
        "threads.\n\n"
        "encode prints the tokens of each text on a line, in a .jsonl file of each record. Texts are plain: "
        "<|endoftext|> in a text is encoded as the characters it has. decode reads such lines, from standard input "
        "if no file is named, and writes the bytes. T is gpt2 (scion data get gpt2-bpe), bytes, a tokenizer.json, a "
        "folder with one or with encoder.json and vocab.bpe, a tiktoken file, or a run. docs/tokenizers.md has the "
        "formats.\n\n"
        "  scion tokenizer train books/ vocab=4096 out=books.json\n"
        "  scion tokenizer encode tokenizer=books.json page.txt > page.tokens\n"
        "  scion tokenizer decode tokenizer=books.json page.tokens\n"
        "  scion tokenizer info gpt2\n",
    .run = run_tokenizer,
    .arguments = arguments,
    .words = CLI_FILES,
    .word = word,
};
