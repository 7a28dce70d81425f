/* See bpe_learn.h. Texts are split by GPT-2's pattern, equal words are counted, and then, again and again, the
 * pair of neighbouring tokens that occurs most often becomes a token.
 *
 * Among pairs that occur equally often, the one whose left token has the lower number comes first, then the one whose
 * right token has. Bytes are numbered as GPT-2 does it, later tokens in the order in which they are learned. So
 * the result depends on nothing but the words and their counts; it is also the rule of Hugging Face's BpeTrainer,
 * whose merges are the same. In "aaa" the pair "aa" occurs twice.
 *
 * Counts of pairs are kept up to date for the words that a merge changes. The heap is not: a pair whose count has
 * fallen goes back into it when it is met. Pairs are new, or become more frequent, only with the token of the
 * merge at hand. */
#include "text/bpe_learn.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/arith.h"
#include "base/thread.h"
#include "util/array.h"
#include "util/fail.h"

static scion_status no_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory for learning a vocabulary");
}

static void report(const tokenizer_options *o, const char *what, double share)
{
    if (o->progress)
        o->progress(o->ctx, what, share);
}

/* ---- Counting words ------------------------------------------------------------------------------------ */

/* A word: bytes of a text that outlives it. */
typedef struct word {
    const char *bytes;
    uint64_t hash;
    int64_t count;
    uint32_t length;
} word;

/* Words by their bytes. */
typedef struct words {
    word *of;
    int64_t count;
    uint32_t *slots; /* index + 1; 0: free */
    uint64_t mask;
    bool failed; /* out of memory */
} words;

static bool grow_slots(words *w)
{
    const uint64_t slots = w->slots ? 2 * (w->mask + 1) : 1 << 12;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    for (int64_t i = 0; i < w->count; i++) {
        uint64_t h = w->of[i].hash;
        while (table[h & (slots - 1)] != 0)
            h++;
        table[h & (slots - 1)] = (uint32_t)i + 1;
    }
    free(w->slots);
    w->slots = table;
    w->mask = slots - 1;
    return true;
}

static bool add_word(words *w, const char *bytes, uint32_t length, uint64_t hash, int64_t count)
{
    if (2 * (uint64_t)w->count >= w->mask && (w->count >= INT32_MAX || !grow_slots(w)))
        return false;
    uint64_t h = hash;
    for (; w->slots[h & w->mask] != 0; h++) {
        word *there = &w->of[w->slots[h & w->mask] - 1];
        if (there->hash == hash && there->length == length && memcmp(there->bytes, bytes, length) == 0) {
            there->count += count;
            return true;
        }
    }
    word *new = array_append(&w->of, &w->count, sizeof *new);
    if (!new)
        return false;
    *new = (word){bytes, hash, count, length};
    w->slots[h & w->mask] = (uint32_t)w->count;
    return true;
}

static void free_words(words *w)
{
    free(w->of);
    free(w->slots);
    *w = (words){0};
}

/* Text is counted in pieces of this size. The border of two is moved to a place at which a word begins in any case: a
 * newline or a blank behind a letter. */
enum { PIECE = 1 << 22, SLACK = 1 << 16 };

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The first border at or after byte i; n if there is none near. */
static size_t border(const tokenizer_text *t, size_t i)
{
    const size_t end = (size_t)scn_min((int64_t)t->count, (int64_t)(i + SLACK));
    if (i == 0 || i >= t->count)
        return (size_t)scn_min((int64_t)i, (int64_t)t->count);
    for (; i < end; i++)
        if ((t->bytes[i] == '\n' || t->bytes[i] == ' ') && is_letter(t->bytes[i - 1]))
            return i;
    return SIZE_MAX;
}

static void count_words(words *w, const char *text, size_t n)
{
    for (size_t at = 0; at < n && !w->failed;) {
        size_t length = bpe_gpt2_word((const uint8_t *)text + at, n - at);
        if (length > UINT32_MAX) /* no pair needs a word whole that has 4 GB */
            length = UINT32_MAX;
        w->failed = !add_word(w, text + at, (uint32_t)length, XXH3_64bits(text + at, length), 1);
        at += length;
    }
}

/* Counts the words of piece i of a text: from one border to the next. Where there is none near, the piece before has
 * taken the text further. */
static void count_piece(words *w, const tokenizer_text *t, int64_t i)
{
    const size_t from = border(t, (size_t)i * PIECE);
    size_t to = SIZE_MAX;
    if (from == SIZE_MAX)
        return;
    for (int64_t next = i + 1; to == SIZE_MAX; next++)
        to = border(t, (size_t)scn_min((int64_t)t->count, next * PIECE));
    count_words(w, t->bytes + from, to - from);
}

typedef struct piece {
    int64_t text, number;
} piece;

/* Lists the pieces of all texts. Many small texts are pieces of their own. */
static piece *list_pieces(const tokenizer_text *texts, int64_t count, int64_t *pieces)
{
    piece *list = NULL;
    *pieces = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < scn_pieces((int64_t)texts[i].count, PIECE); k++) {
            piece *p = array_append(&list, pieces, sizeof *p);
            if (!p) {
                free(list);
                return NULL;
            }
            *p = (piece){i, k};
        }
    return list;
}

static int by_bytes(const void *a, const void *b)
{
    const word *x = a, *y = b;
    const int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

/* Counts the words of all texts, on several threads; in the order of their bytes, so that nothing depends on
 * threads. */
static scion_status count_all(words *all, const tokenizer_text *texts, int64_t count, const tokenizer_options *o,
                              scion_error *err)
{
    const int threads = scn_threads(o->threads);
    int64_t pieces;
    piece *list = list_pieces(texts, count, &pieces);
    words *parts = calloc((size_t)threads, sizeof *parts);
    scion_status status = SCION_OK;
    if (!parts || (!list && count > 0 && pieces > 0))
        TRY(no_memory(err));
    const int64_t round = scn_max(64, 8 * threads); /* progress is reported between rounds */
    for (int64_t first = 0; first < pieces; first += round) {
        const int64_t end = scn_min(first + round, pieces);
        report(o, "counting words", (double)first / (double)pieces);
        SCN_PARALLEL(threads, i, end - first,
                     count_piece(&parts[threads > 1 ? scn_thread_index() : 0], &texts[list[first + i].text],
                                 list[first + i].number));
    }
    *all = parts[0];
    parts[0] = (words){0};
    for (int k = 1; k < threads; k++) {
        all->failed |= parts[k].failed;
        for (int64_t i = 0; i < parts[k].count && !all->failed; i++) {
            const word *w = &parts[k].of[i];
            all->failed = !add_word(all, w->bytes, w->length, w->hash, w->count);
        }
    }
    if (all->failed)
        TRY(no_memory(err));
    if (all->count > 0)
        qsort(all->of, (size_t)all->count, sizeof *all->of, by_bytes);
done:
    for (int k = 0; parts && k < threads; k++)
        free_words(&parts[k]);
    free(parts);
    free(list);
    return status;
}

/* ---- Pairs --------------------------------------------------------------------------------------------- */

/* A pair of tokens, how often it occurs, and the words in which it did when they were last changed: some more than
 * once, and some in which it no longer does. */
typedef struct pair {
    uint64_t key; /* left << 32 | right */
    int64_t count;
    uint32_t *words;
    int64_t word_count;
    int32_t raised; /* token, plus 2, of the merge that raised the count last; 0: none */
} pair;

typedef struct candidate {
    int64_t count;
    uint64_t key;
    uint32_t pair;
} candidate;

/* All that learning knows. A word is the tokens from start[i] on, length[i] of them. */
typedef struct learner {
    bpe_vocabulary *v;
    int32_t *tokens;
    size_t *start;
    uint32_t *length;
    const word *words;
    int64_t word_count;
    pair *pairs;
    int64_t pair_count;
    uint32_t *slots; /* index + 1; 0: free */
    uint64_t mask;
    candidate *heap;
    int64_t heap_count, heap_capacity;
    uint32_t *raised; /* pairs whose count the merge at hand has raised */
    int64_t raised_count, raised_capacity;
    int32_t token; /* that the merge at hand makes */
    bool failed;
} learner;

static uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static uint64_t mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
}

static bool grow_pairs(learner *l)
{
    const uint64_t slots = l->slots ? 2 * (l->mask + 1) : 1 << 16;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table)
        return false;
    for (int64_t i = 0; i < l->pair_count; i++) {
        uint64_t h = mix(l->pairs[i].key);
        while (table[h & (slots - 1)] != 0)
            h++;
        table[h & (slots - 1)] = (uint32_t)i + 1;
    }
    free(l->slots);
    l->slots = table;
    l->mask = slots - 1;
    return true;
}

/* The pair, which is made if it is new; NULL: out of memory. */
static pair *pair_of(learner *l, int32_t left, int32_t right)
{
    const uint64_t key = key_of(left, right);
    if (2 * (uint64_t)l->pair_count >= l->mask && (l->pair_count >= INT32_MAX || !grow_pairs(l)))
        return NULL;
    uint64_t h = mix(key);
    for (; l->slots[h & l->mask] != 0; h++)
        if (l->pairs[l->slots[h & l->mask] - 1].key == key)
            return &l->pairs[l->slots[h & l->mask] - 1];
    pair *p = array_append(&l->pairs, &l->pair_count, sizeof *p);
    if (!p)
        return NULL;
    *p = (pair){.key = key};
    l->slots[h & l->mask] = (uint32_t)l->pair_count;
    return p;
}

/* The array with capacity for one more element than `count`; NULL: out of memory, it is as it was. */
static void *grown(void *items, int64_t count, int64_t *capacity, size_t bytes)
{
    if (count < *capacity)
        return items;
    const int64_t more = *capacity > 0 ? 2 * *capacity : 1024;
    void *larger = realloc(items, (size_t)more * bytes);
    if (larger)
        *capacity = more;
    return larger;
}

/* Adds to the count of a pair in word i. */
static void add_to_pair(learner *l, int32_t left, int32_t right, uint32_t i, int64_t count)
{
    pair *p = pair_of(l, left, right);
    if (!p) {
        l->failed = true;
        return;
    }
    p->count += count;
    if (count < 0)
        return;
    if (p->raised != l->token + 2) {
        p->raised = l->token + 2;
        uint32_t *raised = grown(l->raised, l->raised_count, &l->raised_capacity, sizeof *raised);
        if (!raised) {
            l->failed = true;
            return;
        }
        l->raised = raised;
        raised[l->raised_count++] = (uint32_t)(p - l->pairs);
    }
    if (p->word_count > 0 && p->words[p->word_count - 1] == i)
        return;
    uint32_t *place = array_append(&p->words, &p->word_count, sizeof *place);
    if (place)
        *place = i;
    else
        l->failed = true;
}

/* ---- The heap: the most frequent pair, then that with the lower tokens -------------------------------- */

static bool before(candidate a, candidate b)
{
    return a.count != b.count ? a.count > b.count : a.key < b.key;
}

static void push(learner *l, uint32_t index)
{
    const candidate c = {l->pairs[index].count, l->pairs[index].key, index};
    candidate *heap = grown(l->heap, l->heap_count, &l->heap_capacity, sizeof *heap);
    if (!heap) {
        l->failed = true;
        return;
    }
    l->heap = heap;
    int64_t i = l->heap_count++;
    for (; i > 0 && before(c, l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = c;
}

/* Puts c where the first one was, and then in order. */
static void replace_first(learner *l, candidate c)
{
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child + 1 < l->heap_count && before(l->heap[child + 1], l->heap[child]))
            child++;
        if (child >= l->heap_count || !before(l->heap[child], c))
            break;
        l->heap[i] = l->heap[child];
        i = child;
    }
    l->heap[i] = c;
}

/* Takes the most frequent pair; false: none occurs twice. */
static bool take_first(learner *l, uint32_t *index)
{
    while (l->heap_count > 0) {
        const candidate top = l->heap[0];
        pair *p = &l->pairs[top.pair];
        if (p->count >= 2 && p->count < top.count) { /* has fallen meanwhile */
            replace_first(l, (candidate){p->count, p->key, top.pair});
            continue;
        }
        const candidate last = l->heap[--l->heap_count];
        if (l->heap_count > 0)
            replace_first(l, last);
        if (p->count >= 2) {
            *index = top.pair;
            return true;
        }
    }
    return false;
}

/* ---- Merging ------------------------------------------------------------------------------------------- */

/* Replaces left, right by l->token in word i, and counts the pairs that come and go. */
static void merge_in_word(learner *l, uint32_t i, int32_t left, int32_t right)
{
    int32_t *t = l->tokens + l->start[i];
    const uint32_t n = l->length[i];
    const int64_t count = l->words[i].count;
    uint32_t to = 0;
    for (uint32_t k = 0; k < n;) {
        if (k + 1 == n || t[k] != left || t[k + 1] != right) {
            t[to++] = t[k++];
            continue;
        }
        if (to > 0) {
            add_to_pair(l, t[to - 1], left, i, -count);
            add_to_pair(l, t[to - 1], l->token, i, count);
        }
        if (k + 2 < n) {
            add_to_pair(l, right, t[k + 2], i, -count);
            add_to_pair(l, l->token, t[k + 2], i, count);
        }
        t[to++] = l->token;
        k += 2;
    }
    l->length[i] = to;
}

/* Makes a token of a pair. */
static scion_status make_token(learner *l, uint32_t index, scion_error *err)
{
    bpe_vocabulary *v = l->v;
    const int32_t left = (int32_t)(l->pairs[index].key >> 32), right = (int32_t)(l->pairs[index].key & UINT32_MAX);
    size_t n, m;
    const char *a = bpe_bytes(v, left, &n), *b = bpe_bytes(v, right, &m);
    char *both = malloc(n + m);
    if (!both)
        return no_memory(err);
    memcpy(both, a, n);
    memcpy(both + n, b, m);
    l->token = v->size;
    const scion_status status = bpe_add_token(v, both, n + m, false, err);
    free(both);
    RETURN_IF_FAILED(status);
    RETURN_IF_FAILED(bpe_add_merge(v, left, right, err));
    uint32_t *places = l->pairs[index].words; /* pairs move when new ones come */
    const int64_t count = l->pairs[index].word_count;
    l->pairs[index] = (pair){.key = l->pairs[index].key};
    l->raised_count = 0;
    for (int64_t i = 0; i < count; i++)
        merge_in_word(l, places[i], left, right);
    free(places);
    for (int64_t i = 0; i < l->raised_count; i++)
        if (l->pairs[l->raised[i]].count >= 2)
            push(l, l->raised[i]);
    return l->failed ? no_memory(err) : SCION_OK;
}

static size_t length_of(const learner *l, uint32_t index)
{
    size_t n, m;
    bpe_bytes(l->v, (int32_t)(l->pairs[index].key >> 32), &n);
    bpe_bytes(l->v, (int32_t)(l->pairs[index].key & UINT32_MAX), &m);
    return n + m;
}

static scion_status merge_all(learner *l, const tokenizer_options *o, scion_error *err)
{
    const size_t longest = o->max_token_length > 0 ? (size_t)o->max_token_length : SIZE_MAX;
    const int64_t first = l->v->size, end = o->vocab - 1; /* the last one is the separator */
    uint32_t index;
    while (l->v->size < end && take_first(l, &index)) {
        if (length_of(l, index) > longest) {
            free(l->pairs[index].words);
            l->pairs[index] = (pair){.key = l->pairs[index].key};
            continue;
        }
        RETURN_IF_FAILED(make_token(l, index, err));
        if (l->v->size % 16 == 0)
            report(o, "merging pairs", (double)(l->v->size - first) / (double)(end - first));
    }
    return SCION_OK;
}

/* Makes tokens of the bytes of all words, and counts their pairs. */
static scion_status begin(learner *l, const words *all, const tokenizer_options *o, scion_error *err)
{
    int32_t token_of[256];
    size_t total = 0;
    for (int i = 0; i < 256; i++)
        token_of[bpe_byte_at(i)] = i;
    for (int64_t i = 0; i < all->count; i++)
        total += all->of[i].length;
    l->words = all->of;
    l->word_count = all->count;
    l->tokens = malloc(total * sizeof *l->tokens + 1);
    l->start = malloc((size_t)all->count * sizeof *l->start + 1);
    l->length = malloc((size_t)all->count * sizeof *l->length + 1);
    if (!l->tokens || !l->start || !l->length)
        return no_memory(err);
    total = 0;
    for (int64_t i = 0; i < all->count && !l->failed; i++) {
        const word *w = &all->of[i];
        int32_t *t = l->tokens + total;
        l->start[i] = total;
        l->length[i] = w->length;
        total += w->length;
        for (uint32_t k = 0; k < w->length; k++)
            t[k] = token_of[(uint8_t)w->bytes[k]];
        for (uint32_t k = 0; k + 1 < w->length; k++)
            add_to_pair(l, t[k], t[k + 1], (uint32_t)i, w->count);
        if (i % (1 << 16) == 0)
            report(o, "counting pairs", (double)i / (double)all->count);
    }
    for (int64_t i = 0; i < l->raised_count && !l->failed; i++)
        push(l, l->raised[i]);
    return l->failed ? no_memory(err) : SCION_OK;
}

static void free_learner(learner *l)
{
    for (int64_t i = 0; i < l->pair_count; i++)
        free(l->pairs[i].words);
    free(l->pairs);
    free(l->slots);
    free(l->heap);
    free(l->raised);
    free(l->tokens);
    free(l->start);
    free(l->length);
}

scion_status bpe_learn(bpe_vocabulary *v, const tokenizer_text *texts, int64_t count, const tokenizer_options *o,
                       scion_error *err)
{
    static const char separator[] = "<|endoftext|>";
    words all = {0};
    learner l = {.v = v, .token = -1};
    scion_status status;
    if (o->vocab < BPE_LEAST_TOKENS || o->vocab > BPE_MAX_TOKENS)
        return train_fail(err, SCION_EINVAL, "a vocabulary of %lld tokens; expected %d to %d", (long long)o->vocab,
                          (int)BPE_LEAST_TOKENS, (int)BPE_MAX_TOKENS);
    TRY(bpe_add_pattern(v, bpe_gpt2_pattern, err));
    for (int i = 0; i < 256; i++) {
        const char byte = (char)bpe_byte_at(i);
        TRY(bpe_add_token(v, &byte, 1, false, err));
    }
    TRY(count_all(&all, texts, count, o, err));
    TRY(begin(&l, &all, o, err));
    TRY(merge_all(&l, o, err));
    TRY(bpe_add_token(v, separator, sizeof separator - 1, true, err));
    bpe_choose_separator(v);
    report(o, "merging pairs", 1);
done:
    free_learner(&l);
    free_words(&all);
    return status;
}
