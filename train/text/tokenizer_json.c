/* See tokenizer_json.h. Anything that would change the text or the tokens in a way that is not ours is refused, not
 * ignored. Tokens that a post processor would add (the start of a text, say) are not ours to add. */
#include "text/tokenizer_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/utf8.h"

/* Splits a text into its characters. */
static const char each_character[] = "[\\s\\S]";

/* ---- Reading: tokens ----------------------------------------------------------------------------------- */

/* A token by its number. */
typedef struct entry {
    const char *text; /* NULL: not met yet */
    bool added;
} entry;

typedef struct entries {
    entry *of;
    int32_t size, most; /* 1 + the largest number; tokens that the file has, added ones twice perhaps */
} entries;

static scion_status no_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
}

/* Enters a token by its number. An added one may be in the vocabulary too. */
static scion_status enter(entries *all, const char *text, const json_t *number, bool added, scion_error *err)
{
    if (!json_is_integer(number))
        return train_fail(err, SCION_EINVAL, "the token \"%.40s\" has no number", text);
    const json_int_t id = json_integer_value(number);
    if (id < 0)
        return train_fail(err, SCION_EINVAL, "the token \"%.40s\" has the number %lld", text, (long long)id);
    if (id >= BPE_MAX_TOKENS)
        return train_fail(err, SCION_EINVAL,
                          "the token \"%.40s\" has the number %lld; at most %d tokens are possible", text,
                          (long long)id, (int)BPE_MAX_TOKENS);
    if (id >= all->most)
        return train_fail(err, SCION_EINVAL, "the token \"%.40s\" has the number %lld, but there are only %d tokens",
                          text, (long long)id, (int)all->most);
    entry *e = &all->of[id];
    if (e->text && !(added && strcmp(e->text, text) == 0))
        return train_fail(err, SCION_EINVAL, "the tokens \"%.40s\" and \"%.40s\" have the same number, %lld", e->text,
                          text, (long long)id);
    *e = (entry){text, added};
    all->size = id >= all->size ? (int32_t)id + 1 : all->size;
    return SCION_OK;
}

static scion_status enter_added(entries *all, const json_t *list, scion_error *err)
{
    size_t i;
    const json_t *item;
    if (list && !json_is_null(list) && !json_is_array(list))
        return train_fail(err, SCION_EINVAL, "added_tokens is not a list");
    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "content"));
        if (!text)
            return train_fail(err, SCION_EINVAL, "added token %zu has no content", i + 1);
        if (!json_is_true(json_object_get(item, "special")))
            return train_fail(
                err, SCION_EINVAL,
                "the added token \"%.40s\" is not special: it would be searched for in every text, which "
                "is not possible here",
                text);
        RETURN_IF_FAILED(enter(all, text, json_object_get(item, "id"), true, err));
    }
    return SCION_OK;
}

/* Adds all tokens in the order of their numbers. */
static scion_status add_tokens(bpe_vocabulary *v, const entries *all, scion_error *err)
{
    for (int32_t i = 0; i < all->size; i++) {
        const entry *e = &all->of[i];
        if (!e->text)
            return train_fail(err, SCION_EINVAL, "no token has the number %d, but the largest number is %d", (int)i,
                              (int)all->size - 1);
        size_t n = strlen(e->text);
        char *bytes = e->added ? NULL : malloc(n + 1);
        scion_status status = SCION_OK;
        if (!e->added && !bytes)
            return no_memory(err);
        if (!e->added && !bpe_from_characters(e->text, n, bytes, &n))
            status = train_fail(err, SCION_EINVAL,
                                "the token \"%.40s\" is not made of bytes as GPT-2 writes them: this is not a "
                                "byte-level tokenizer",
                                e->text);
        else
            status = bpe_add_token(v, e->added ? e->text : bytes, n, e->added, err);
        free(bytes);
        RETURN_IF_FAILED(status);
    }
    return SCION_OK;
}

static scion_status read_tokens(bpe_vocabulary *v, const json_t *vocab, const json_t *added, scion_error *err)
{
    const size_t most = json_object_size(vocab) + json_array_size(added);
    entries all = {.most = most < BPE_MAX_TOKENS ? (int32_t)most : BPE_MAX_TOKENS};
    const char *text;
    json_t *number;
    scion_status status = SCION_OK;
    if (!json_is_object(vocab))
        TRY(train_fail(err, SCION_EINVAL, "the model has no vocab"));
    if (!(all.of = calloc(most + 1, sizeof *all.of)))
        TRY(no_memory(err));
    json_object_foreach((json_t *)(size_t)vocab, text, number) TRY(enter(&all, text, number, false, err));
    TRY(enter_added(&all, added, err));
    TRY(add_tokens(v, &all, err));
done:
    free(all.of);
    return status;
}

/* ---- Reading: merges ----------------------------------------------------------------------------------- */

/* Finds one of the two tokens of a merge. */
static scion_status find_part(const bpe_vocabulary *v, const char *text, size_t n, size_t number, int32_t *token,
                              scion_error *err)
{
    char small[256], *bytes = n > sizeof small ? malloc(n) : small;
    size_t count;
    if (!bytes)
        return no_memory(err);
    *token = bpe_from_characters(text, n, bytes, &count) ? bpe_find(v, bytes, count) : -1;
    if (bytes != small)
        free(bytes);
    if (*token < 0)
        return train_fail(err, SCION_EINVAL, "merge %zu refers to \"%.*s\", which is not in the vocabulary", number,
                          (int)(n < 40 ? n : 40), text);
    return SCION_OK;
}

/* Adds a merge of two texts. */
static scion_status read_merge(bpe_vocabulary *v, const char *left, size_t n, const char *right, size_t m,
                               size_t number, scion_error *err)
{
    int32_t a, b;
    RETURN_IF_FAILED(find_part(v, left, n, number, &a, err));
    RETURN_IF_FAILED(find_part(v, right, m, number, &b, err));
    return bpe_add_merge(v, a, b, err);
}

/* Adds all merges, each "a b" or ["a", "b"]. */
static scion_status read_merges(bpe_vocabulary *v, const json_t *merges, scion_error *err)
{
    size_t i;
    const json_t *item;
    if (!json_is_array(merges))
        return train_fail(err, SCION_EINVAL, "the model has no merges");
    json_array_foreach(merges, i, item)
    {
        const char *text = json_string_value(item), *space = text ? strchr(text, ' ') : NULL;
        const char *left = json_string_value(json_array_get(item, 0));
        const char *right = json_string_value(json_array_get(item, 1));
        if (space)
            RETURN_IF_FAILED(read_merge(v, text, (size_t)(space - text), space + 1, strlen(space + 1), i + 1, err));
        else if (left && right && json_array_size(item) == 2)
            RETURN_IF_FAILED(read_merge(v, left, strlen(left), right, strlen(right), i + 1, err));
        else
            return train_fail(err, SCION_EINVAL, "merge %zu is not a pair of tokens", i + 1);
    }
    return SCION_OK;
}

/* ---- Reading: the steps before and after ----------------------------------------------------------------- */

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "of no type";
}

/* A pattern that isolates its matches, and keeps the text between them. */
static scion_status read_split(bpe_vocabulary *v, const json_t *o, scion_error *err)
{
    const char *pattern = json_string_value(json_object_get(json_object_get(o, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(o, "behavior"));
    const bool invert = json_is_true(json_object_get(o, "invert"));
    if (!pattern)
        return train_fail(err, SCION_EINVAL, "its pre_tokenizer splits by something that is not a Regex");
    if (!behavior || strcmp(behavior, invert ? "Removed" : "Isolated") != 0)
        return train_fail(
            err, SCION_EINVAL,
            "its pre_tokenizer splits with behavior %.20s%s; expected Isolated, or Removed and inverted",
            behavior ? behavior : "unknown", invert ? " and inverted" : "");
    return bpe_add_pattern(v, pattern, err);
}

static scion_status read_digits(bpe_vocabulary *v, const json_t *o, scion_error *err)
{
    return bpe_add_pattern(v, json_is_true(json_object_get(o, "individual_digits")) ? "\\p{N}" : "\\p{N}+", err);
}

static scion_status read_byte_level(bpe_vocabulary *v, const json_t *o, scion_error *err)
{
    if (json_is_true(json_object_get(o, "add_prefix_space")))
        return train_fail(err, SCION_EINVAL, "its pre_tokenizer has add_prefix_space: it would change texts");
    return json_is_false(json_object_get(o, "use_regex")) ? SCION_OK : bpe_add_pattern(v, bpe_gpt2_pattern, err);
}

static const struct {
    const char *type;
    scion_status (*read)(bpe_vocabulary *v, const json_t *o, scion_error *err);
} splitters[] = {{"ByteLevel", read_byte_level}, {"Split", read_split}, {"Digits", read_digits}};

static scion_status read_splitter(bpe_vocabulary *v, const json_t *o, scion_error *err)
{
    for (size_t i = 0; i < sizeof splitters / sizeof *splitters; i++)
        if (strcmp(type_of(o), splitters[i].type) == 0)
            return splitters[i].read(v, o, err);
    return train_fail(err, SCION_EINVAL, "its pre_tokenizer is %.40s; expected ByteLevel, Split or Digits",
                      type_of(o));
}

/* The last step must be ByteLevel: merges are of bytes then. */
static scion_status read_pre_tokenizer(bpe_vocabulary *v, const json_t *o, scion_error *err)
{
    const json_t *list = strcmp(type_of(o), "Sequence") == 0 ? json_object_get(o, "pretokenizers") : NULL;
    const size_t count = json_array_size(list);
    const json_t *last = count > 0 ? json_array_get(list, count - 1) : o;
    for (size_t i = 0; i < count; i++)
        RETURN_IF_FAILED(read_splitter(v, json_array_get(list, i), err));
    if (strcmp(type_of(last), "ByteLevel") != 0)
        return train_fail(err, SCION_EINVAL,
                          "its pre_tokenizer does not end with ByteLevel: this is not a byte-level "
                          "tokenizer");
    return count > 0 ? SCION_OK : read_splitter(v, o, err);
}

/* True if a step is absent, or a Sequence of none. */
static bool is_nothing(const json_t *o, const char *list)
{
    return !o || json_is_null(o) ||
           (strcmp(type_of(o), "Sequence") == 0 && json_array_size(json_object_get(o, list)) == 0);
}

static bool is_text(const json_t *o)
{
    return json_is_string(o) && json_string_length(o) > 0;
}

static scion_status check_model(const json_t *model, scion_error *err)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    if (!json_is_object(model))
        return train_fail(err, SCION_EINVAL, "it has no model: expected the tokenizer.json of a byte-level BPE");
    if (json_object_get(model, "type") && strcmp(type_of(model), "BPE") != 0)
        return train_fail(err, SCION_EINVAL, "its model is %.40s; expected BPE", type_of(model));
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return train_fail(err, SCION_EINVAL, "its model has byte_fallback: expected a byte-level BPE");
    for (int i = 0; i < 2; i++)
        if (is_text(json_object_get(model, affixes[i])))
            return train_fail(err, SCION_EINVAL, "its model has %s: expected a byte-level BPE", affixes[i]);
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return train_fail(err, SCION_EINVAL, "its model has dropout: the same text would get different tokens");
    return SCION_OK;
}

static scion_status check_steps(const json_t *o, scion_error *err)
{
    const json_t *normalizer = json_object_get(o, "normalizer"), *decoder = json_object_get(o, "decoder");
    if (!is_nothing(normalizer, "normalizers"))
        return train_fail(err, SCION_EINVAL, "it has the normalizer %.40s, which changes texts", type_of(normalizer));
    if (!is_nothing(decoder, "decoders") && strcmp(type_of(decoder), "ByteLevel") != 0)
        return train_fail(err, SCION_EINVAL, "its decoder is %.40s; expected ByteLevel", type_of(decoder));
    return SCION_OK;
}

scion_status tokenizer_json_read(bpe_vocabulary *v, const void *bytes, size_t size, scion_error *err)
{
    json_error_t at;
    json_t *o = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &at);
    const json_t *model = json_object_get(o, "model");
    scion_status status = SCION_OK;
    if (!o)
        TRY(train_fail(err, SCION_EINVAL, "damaged or cut off: line %d: %.100s", at.line, at.text));
    TRY(check_model(model, err));
    TRY(check_steps(o, err));
    TRY(read_pre_tokenizer(v, json_object_get(o, "pre_tokenizer"), err));
    TRY(read_tokens(v, json_object_get(model, "vocab"), json_object_get(o, "added_tokens"), err));
    TRY(read_merges(v, json_object_get(model, "merges"), err));
    v->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    bpe_choose_separator(v);
done:
    json_decref(o);
    return status;
}

/* ---- Reading: characters ------------------------------------------------------------------------------- */

/* True for a model of words that are single characters, as write_characters makes it. */
static bool is_characters(const json_t *o)
{
    const json_t *split = json_object_get(o, "pre_tokenizer");
    const char *pattern = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    return strcmp(type_of(json_object_get(o, "model")), "WordLevel") == 0 && pattern &&
           strcmp(pattern, each_character) == 0 && is_nothing(json_object_get(o, "normalizer"), "normalizers") &&
           json_array_size(json_object_get(o, "added_tokens")) == 0;
}

/* Puts the characters in the order of their numbers; each has space for 4 bytes and a 0 in `symbols`. */
static scion_status order_characters(const json_t *vocab, size_t count, char (*symbols)[5], scion_error *err)
{
    const char *text;
    json_t *number;
    json_object_foreach((json_t *)(size_t)vocab, text, number)
    {
        const json_int_t id = json_is_integer(number) ? json_integer_value(number) : -1;
        const int length = utf8_length(text);
        if (length == 0 || text[length])
            return train_fail(err, SCION_EINVAL, "the token \"%.40s\" is not one character", text);
        if (id < 0 || id >= (json_int_t)count || symbols[id][0])
            return train_fail(err, SCION_EINVAL,
                              "the character \"%s\" has the number %lld; expected 0 to %zu, each once", text,
                              (long long)id, count - 1);
        memcpy(symbols[id], text, (size_t)length);
    }
    return SCION_OK;
}

scion_status tokenizer_json_read_symbols(const void *bytes, size_t size, char **text, size_t *text_size,
                                         scion_error *err)
{
    json_t *o = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *vocab = json_object_get(json_object_get(o, "model"), "vocab");
    const size_t count = json_object_size(vocab);
    char(*symbols)[5] = NULL;
    scion_status status = SCION_OK;
    *text = NULL;
    *text_size = 0;
    if (!is_characters(o)) /* damage is reported by the reader of byte pairs */
        goto done;
    if (count == 0 || count >= UTF8_CODE_POINTS)
        TRY(train_fail(err, SCION_EINVAL, "its vocabulary of characters has %zu of them", count));
    symbols = calloc(count, sizeof *symbols);
    *text = malloc(4 * count + 1);
    if (!symbols || !*text)
        TRY(no_memory(err));
    TRY(order_characters(vocab, count, symbols, err));
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(symbols[i - 1], symbols[i]) >= 0) /* UTF-8 sorts as its code points do */
            TRY(train_fail(err, SCION_EINVAL, "its characters are not in the order of their code points"));
        memcpy(*text + *text_size, symbols[i], strlen(symbols[i]));
        *text_size += strlen(symbols[i]);
    }
done:
    if (status != SCION_OK) {
        free(*text);
        *text = NULL;
    }
    free(symbols);
    json_decref(o);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------------- */

static json_t *byte_level(bool scanner)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                     "use_regex", scanner);
}

static json_t *splitting(const bpe_vocabulary *v)
{
    if (v->pattern_count == 0 || (v->pattern_count == 1 && strcmp(v->patterns[0], bpe_gpt2_pattern) == 0))
        return byte_level(v->pattern_count == 1);
    json_t *list = json_array();
    for (int i = 0; i < v->pattern_count; i++)
        json_array_append_new(list, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                              v->patterns[i], "behavior", "Isolated", "invert", 0));
    json_array_append_new(list, byte_level(false));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

/* The text of a token in the vocabulary, in a buffer that is large enough. */
static const char *text_of(const bpe_vocabulary *v, int32_t token, char *text)
{
    size_t n;
    const char *bytes = bpe_bytes(v, token, &n);
    if (v->added[token])
        snprintf(text, n + 1, "%.*s", (int)n, bytes);
    else
        bpe_to_characters(bytes, n, text);
    return text;
}

static json_t *added_token(const char *text, int32_t number)
{
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (int)number, "content", text, "single_word", 0,
                     "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1);
}

/* Writes a whole file of its parts, to which it takes the references. */
static scion_status dump_parts(json_t *added, json_t *pre_tokenizer, json_t *decoder, json_t *model, void **bytes,
                               size_t *size, scion_error *err)
{
    json_t *o = json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:n, s:o}", "version", "1.0", "truncation", "padding",
                          "added_tokens", added, "normalizer", "pre_tokenizer", pre_tokenizer, "post_processor",
                          "decoder", decoder);
    *bytes = NULL;
    if (o && json_object_set_new(o, "model", model) == 0)
        *bytes = json_dumps(o, JSON_INDENT(1));
    *size = *bytes ? strlen(*bytes) : 0;
    json_decref(o);
    return *bytes ? SCION_OK : no_memory(err);
}

/* The same for byte pairs. */
static scion_status dump(json_t *added, json_t *pre_tokenizer, json_t *vocab, json_t *merges, bool ignore_merges,
                         void **bytes, size_t *size, scion_error *err)
{
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                              "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                              "byte_fallback", 0, "ignore_merges", ignore_merges, "vocab", vocab, "merges", merges);
    return dump_parts(added, pre_tokenizer, byte_level(true), model, bytes, size, err);
}

/* Fills the lists of tokens and merges; text has space for two tokens. */
static bool fill(const bpe_vocabulary *v, json_t *added, json_t *vocab, json_t *merges, char *text)
{
    bool fine = true;
    for (int32_t i = 0; i < v->size && fine; i++) {
        fine = json_object_set_new(vocab, text_of(v, i, text), json_integer(i)) == 0;
        if (v->added[i])
            fine &= json_array_append_new(added, added_token(text, i)) == 0;
    }
    for (int64_t i = 0; i < v->merge_count && fine; i++) {
        char *end = text + strlen(text_of(v, v->merges[i].left, text));
        *end = ' ';
        text_of(v, v->merges[i].right, end + 1);
        fine = json_array_append_new(merges, json_string(text)) == 0;
    }
    return fine;
}

scion_status tokenizer_json_write(const bpe_vocabulary *v, void **bytes, size_t *size, scion_error *err)
{
    json_t *added = json_array(), *vocab = json_object(), *merges = json_array();
    size_t longest = 0;
    for (int32_t i = 0; i < v->size; i++)
        longest = v->starts[i + 1] - v->starts[i] > longest ? v->starts[i + 1] - v->starts[i] : longest;
    char *text = malloc(4 * longest + 2);
    const bool fine = text && fill(v, added, vocab, merges, text);
    free(text);
    if (fine)
        return dump(added, splitting(v), vocab, merges, v->ignore_merges, bytes, size, err);
    json_decref(added);
    json_decref(vocab);
    json_decref(merges);
    *bytes = NULL;
    return no_memory(err);
}

/* Characters: a model of whole words, which are the characters of a text. Its unknown word is in no vocabulary. */
static scion_status write_characters(const tokenizer *t, void **bytes, size_t *size, scion_error *err)
{
    json_t *vocab = json_object();
    bool fine = vocab != NULL;
    for (int32_t i = 0; fine && i < tokenizer_size(t); i++) {
        size_t n;
        char text[8] = "";
        const char *symbol = tokenizer_decode(t, i, &n);
        memcpy(text, symbol, n);
        if (!text[0]) {
            json_decref(vocab);
            return train_fail(err, SCION_EINVAL,
                              "the vocabulary has the character U+0000, which a tokenizer.json of characters cannot "
                              "hold; train with tokenizer=bytes or tokenizer=bpe");
        }
        fine = json_object_set_new(vocab, text, json_integer(i)) == 0;
    }
    if (!fine) {
        json_decref(vocab);
        return no_memory(err);
    }
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", each_character,
                              "behavior", "Isolated", "invert", 0);
    json_t *model =
        json_pack("{s:s, s:o, s:s}", "type", "WordLevel", "vocab", vocab, "unk_token", "<|not in the vocabulary|>");
    return dump_parts(json_array(), split, json_pack("{s:s}", "type", "Fuse"), model, bytes, size, err);
}

scion_status tokenizer_json_write_symbols(const tokenizer *t, bool utf8, void **bytes, size_t *size, scion_error *err)
{
    bpe_vocabulary v;
    scion_status status = SCION_OK;
    if (utf8)
        return write_characters(t, bytes, size, err);
    bpe_vocabulary_init(&v);
    for (int32_t i = 0; i < tokenizer_size(t); i++) {
        size_t n;
        const char *symbol = tokenizer_decode(t, i, &n);
        TRY(bpe_add_token(&v, symbol, n, false, err));
    }
    TRY(tokenizer_json_write(&v, bytes, size, err));
done:
    bpe_vocabulary_free(&v);
    return status;
}

/* ---- encoder.json and vocab.bpe -------------------------------------------------------------------------- */

/* True for the names of tokens that no text has: <|endoftext|>, <s>, </s>, <pad>, <unk>, <mask>. */
static bool is_special(const char *text)
{
    static const char *const names[] = {"<s>", "</s>", "<pad>", "<unk>", "<mask>"};
    const size_t n = strlen(text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0)
            return true;
    return n > 4 && strncmp(text, "<|", 2) == 0 && strcmp(text + n - 2, "|>") == 0;
}

static json_t *special_tokens(json_t *vocab)
{
    json_t *added = json_array(), *number;
    const char *text;
    json_object_foreach(vocab, text, number) if (is_special(text) && json_integer_value(number) >= 0 &&
                                                 json_integer_value(number) < BPE_MAX_TOKENS)
        json_array_append_new(added, added_token(text, (int32_t)json_integer_value(number)));
    return added;
}

/* A list of the lines, without the first, if it has the version. */
static json_t *list_lines(const char *text, size_t size)
{
    json_t *list = json_array();
    for (size_t at = 0; at < size;) {
        const char *line = text + at, *end = memchr(line, '\n', size - at);
        size_t n = end ? (size_t)(end - line) : size - at;
        at += n + 1;
        n -= n > 0 && line[n - 1] == '\r';
        if (n == 0 || (n >= 8 && memcmp(line, "#version", 8) == 0))
            continue;
        json_t *merge = json_stringn(line, n); /* NULL: not UTF-8, and no merge then */
        json_array_append_new(list, merge ? merge : json_null());
    }
    return list;
}

scion_status tokenizer_json_join(const char *encoder, size_t encoder_size, const char *merges, size_t merges_size,
                                 void **bytes, size_t *size, scion_error *err)
{
    json_error_t at;
    json_t *vocab = json_loadb(encoder, encoder_size, JSON_REJECT_DUPLICATES, &at);
    *bytes = NULL;
    *size = 0;
    if (!vocab)
        return train_fail(err, SCION_EINVAL, "damaged or cut off: line %d: %.100s", at.line, at.text);
    if (!json_is_object(vocab)) {
        json_decref(vocab);
        return train_fail(err, SCION_EINVAL, "expected an object with the numbers of all tokens");
    }
    return dump(special_tokens(vocab), byte_level(true), vocab, list_lines(merges, merges_size), false, bytes, size,
                err);
}
