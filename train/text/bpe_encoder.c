/* See bpe_encoder.h. The tokens of a word are defined by merging: the pair of neighbours whose merge comes first
 * in the list, the leftmost of several, becomes one token, until no pair has a merge. Done so, a word of n bytes
 * takes time n log n at best, and n^2 if it is done naively. Here it takes time n:
 *
 * If every merge comes later in the list than those that make its two tokens, then merging is done in the order of
 * the list, and bytes between two borders that no merge has crossed were merged as if they were alone. Hence
 * tokens t1 t2 ... are the result exactly if each of them alone is merged to itself, and each pair of neighbours,
 * alone, to just this pair. Pairs are judged one by one, and a word is covered from the left by the longest tokens
 * that fit to their left neighbours; where none does, the last token is replaced by a shorter one. A text up to
 * some place has only one result, so a place from which there was no way on never needs to be tried again: each is
 * tried once. (van Antwerpen and Neubeck, "So many tokens, so little time", 2024, have the algorithm.)
 *
 * Where a list of merges is in another order, merging is done as defined, with a heap. */
#define _GNU_SOURCE 1 /* qsort_r */
#include "text/bpe_encoder.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "util/fail.h"

enum { NO_MERGE = INT32_MAX, NOT_REACHED = -2, OF_BYTE = -1 };

/* The last merge that makes a token of its bytes; rank: its place in the list, or OF_BYTE, or NOT_REACHED if its
 * bytes are never merged to it. */
typedef struct parts {
    int32_t left, right, rank;
    uint32_t length; /* bytes of the token */
} parts;

/* A pair of tokens that has a merge, in a table with open addressing. */
typedef struct pair {
    uint64_t key; /* left << 32 | right; no_key: free */
    int32_t rank, result;
} pair;

/* A node of the trie of all tokens that are reached, as a double array: the child by byte c of node i is
 * base[i] ^ c, if its parent is i. */
typedef struct node {
    int32_t base, parent;
    int32_t token; /* that ends here, -1: none */
} node;

/* A word of up to 15 bytes and its length, and its token. */
typedef struct word {
    uint64_t low, high;
} word;

typedef struct whole {
    word key; /* high is 0: free */
    int32_t token;
} whole;

struct bpe_encoder {
    const bpe_vocabulary *v;
    bpe_split *split;
    int32_t byte_token[256];
    parts *parts;     /* of each token */
    int32_t *shorter; /* the longest token that begins it and is reached, -1: none */
    pair *pairs;
    uint64_t pair_mask;
    uint64_t *may_merge; /* a bit for each hash of a pair: most pairs have no merge, and need no more than this */
    uint64_t bit_mask;
    node *nodes;
    whole *wholes; /* words that are one token */
    int whole_shift;
    bool ordered; /* every merge comes later than those of its tokens */
};

/* ---- Pairs --------------------------------------------------------------------------------------------- */

static const uint64_t no_key = UINT64_MAX;

static inline uint64_t mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 32;
}

static inline uint64_t key_of_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Slot of a pair, or the free one in which it belongs. */
static inline pair *slot_of_pair(const bpe_encoder *e, uint64_t key)
{
    for (uint64_t h = mix(key);; h++) {
        pair *p = &e->pairs[h & e->pair_mask];
        if (p->key == key || p->key == no_key)
            return p;
    }
}

/* Place of the merge of a pair in the list, or NO_MERGE. */
static inline int32_t rank_of(const bpe_encoder *e, int32_t left, int32_t right)
{
    const uint64_t key = key_of_pair(left, right), bit = mix(key) >> 7 & e->bit_mask;
    return e->may_merge[bit / 64] >> bit % 64 & 1 ? slot_of_pair(e, key)->rank : NO_MERGE;
}

/* True if the bytes of left and right, which are reached, are merged to just these two by the merges before
 * `limit`. Goes back in time: undoes the later one of the merges that made the two neighbours at the border. Each
 * pair was there until one of them was merged away from the border, at `limit`; a merge of the pair before that
 * would have crossed it. Equal merges are done from left to right, so a merge across the border comes before an
 * equal one to its right. */
static bool fits(const bpe_encoder *e, int32_t left, int32_t right, int32_t limit, int64_t *steps)
{
    for (;;) {
        const parts *l = &e->parts[left], *r = &e->parts[right];
        ++*steps;
        if (rank_of(e, left, right) < limit)
            return false;
        if (l->rank > r->rank) {
            limit = l->rank;
            left = l->right;
        } else if (r->rank >= 0) {
            limit = r->rank + 1;
            right = r->left;
        } else {
            return true;
        }
    }
}

/* ---- Words that are one token -------------------------------------------------------------------------- */

enum { WORD_BYTES = 15 };

/* The key of a word of 1 to WORD_BYTES bytes, of which `readable` may be read. */
static inline word key_of_word(const uint8_t *s, size_t n, size_t readable)
{
    word k;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static const uint64_t ones[] = {
        0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff, UINT64_MAX};
    if (readable >= sizeof k) {
        memcpy(&k, s, sizeof k);
        k.low &= ones[n < 8 ? n : 8];
        k.high = (k.high & ones[n < 8 ? 0 : n - 8]) | (uint64_t)n << 56;
        return k;
    }
#else
    (void)readable;
#endif
    uint8_t bytes[sizeof k] = {0};
    memcpy(bytes, s, n);
    bytes[WORD_BYTES] = (uint8_t)n;
    memcpy(&k, bytes, sizeof k);
    return k;
}

static inline uint64_t hash_of_word(word k)
{
    const uint64_t h = (k.low ^ k.high * 0xff51afd7ed558ccdu) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static inline whole *slot_of_word(const bpe_encoder *e, word k, uint64_t hash)
{
    const uint64_t mask = UINT64_MAX >> e->whole_shift;
    for (uint64_t h = hash;; h++) {
        whole *w = &e->wholes[h & mask];
        if ((w->key.low == k.low && w->key.high == k.high) || w->key.high == 0)
            return w;
    }
}

/* ---- Building ------------------------------------------------------------------------------------------ */

static scion_status no_memory(scion_error *err)
{
    return train_fail(err, SCION_ENOMEM, "out of memory for the tokenizer");
}

/* Fills the table of pairs. Of equal merges the last counts. */
static scion_status build_pairs(bpe_encoder *e, scion_error *err)
{
    const bpe_vocabulary *v = e->v;
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)v->merge_count)
        slots *= 2;
    e->pairs = malloc(slots * sizeof *e->pairs);
    e->may_merge = calloc(slots * 8 / 64, sizeof *e->may_merge);
    if (!e->pairs || !e->may_merge)
        return no_memory(err);
    e->pair_mask = slots - 1;
    e->bit_mask = slots * 8 - 1;
    for (uint64_t i = 0; i < slots; i++)
        e->pairs[i] = (pair){no_key, NO_MERGE, -1};
    for (int64_t i = 0; i < v->merge_count; i++) {
        const bpe_merge *m = &v->merges[i];
        const uint64_t key = key_of_pair(m->left, m->right), bit = mix(key) >> 7 & e->bit_mask;
        e->may_merge[bit / 64] |= (uint64_t)1 << bit % 64;
        *slot_of_pair(e, key) = (pair){key, (int32_t)i, m->result};
    }
    return SCION_OK;
}

/* Finds the merges that make each token: those whose tokens are reached and fit. Finds as well whether the list is in
 * order. */
static scion_status build_parts(bpe_encoder *e, scion_error *err)
{
    const bpe_vocabulary *v = e->v;
    const size_t size = (size_t)v->size;
    int32_t *last = malloc(size * sizeof *last); /* merge that makes the token */
    int64_t steps = 0;
    e->parts = malloc(size * sizeof *e->parts);
    if (!last || !e->parts) {
        free(last);
        return no_memory(err);
    }
    for (int32_t i = 0; i < v->size; i++) {
        last[i] = -1;
        e->parts[i] = (parts){i, i, NOT_REACHED, (uint32_t)(v->starts[i + 1] - v->starts[i])};
    }
    for (int byte = 0; byte < 256; byte++)
        e->parts[e->byte_token[byte]].rank = OF_BYTE;
    for (int64_t i = 0; i < v->merge_count; i++)
        last[v->merges[i].result] = (int32_t)i;
    e->ordered = true;
    for (int64_t i = 0; i < v->merge_count; i++) {
        const bpe_merge m = v->merges[i];
        e->ordered &= last[m.left] < i && last[m.right] < i;
        parts *p = &e->parts[m.result];
        if (e->ordered && p->rank == NOT_REACHED && rank_of(e, m.left, m.right) == i &&
            e->parts[m.left].rank != NOT_REACHED && e->parts[m.right].rank != NOT_REACHED &&
            fits(e, m.left, m.right, (int32_t)i, &steps))
            *p = (parts){m.left, m.right, (int32_t)i, p->length};
    }
    free(last);
    return SCION_OK;
}

/* Lists words that are one token: tokens that are reached, or all if merges are ignored for such words. */
static scion_status build_wholes(bpe_encoder *e, scion_error *err)
{
    const bpe_vocabulary *v = e->v;
    e->whole_shift = 60;
    while ((uint64_t)1 << (64 - e->whole_shift) < 2 * (uint64_t)v->size)
        e->whole_shift--;
    if (!(e->wholes = calloc((size_t)1 << (64 - e->whole_shift), sizeof *e->wholes)))
        return no_memory(err);
    for (int32_t i = 0; i < v->size; i++) {
        if (e->parts[i].length > WORD_BYTES ||
            !(e->parts[i].rank != NOT_REACHED || (v->ignore_merges && !v->added[i])))
            continue;
        size_t n;
        const uint8_t *bytes = (const uint8_t *)bpe_bytes(v, i, &n);
        const word k = key_of_word(bytes, n, 0);
        whole *w = slot_of_word(e, k, hash_of_word(k));
        if (w->key.high == 0)
            *w = (whole){k, i};
    }
    return SCION_OK;
}

/* ---- The trie ------------------------------------------------------------------------------------------ */

enum { BLOCK = 256, TRIES = 16 };

/* Memory of its building. Blocks of 256 nodes fill up; a block that has refused TRIES nodes with several children
 * gets only such with one. */
typedef struct trie {
    bpe_encoder *e;
    int32_t *sorted; /* tokens in the order of their bytes */
    int32_t count;
    int32_t *free;    /* nodes that are free in each block */
    uint8_t *refused; /* nodes with several children that did not fit in it */
    int32_t blocks, first_single, first_open;
} trie;

static bool add_block(trie *t)
{
    bpe_encoder *e = t->e;
    const size_t blocks = (size_t)t->blocks + 1;
    if ((t->blocks & (t->blocks - 1)) == 0) { /* the capacity is a power of two */
        const size_t capacity = t->blocks > 0 ? 2 * (size_t)t->blocks : 1;
        node *nodes = realloc(e->nodes, capacity * BLOCK * sizeof *nodes);
        if (nodes)
            e->nodes = nodes;
        int32_t *left = realloc(t->free, capacity * sizeof *left);
        if (left)
            t->free = left;
        uint8_t *refused = realloc(t->refused, capacity);
        if (refused)
            t->refused = refused;
        if (!nodes || !left || !refused)
            return false;
    }
    for (size_t i = (blocks - 1) * BLOCK; i < blocks * BLOCK; i++)
        e->nodes[i] = (node){.base = 0, .parent = -1, .token = -1};
    t->free[t->blocks] = BLOCK;
    t->refused[t->blocks++] = 0;
    return true;
}

/* A base in block b at which all children find a free node; -1: none. */
static int32_t base_in_block(const trie *t, int32_t b, const uint8_t *children, int count)
{
    const node *nodes = t->e->nodes + (int64_t)b * BLOCK;
    for (int32_t x = 0; x < BLOCK; x++) {
        int i = 0;
        while (i < count && nodes[x ^ children[i]].parent < 0)
            i++;
        if (i == count)
            return b * BLOCK + x;
    }
    return -1;
}

/* Finds a base for children; -1: out of memory. */
static int32_t find_base(trie *t, const uint8_t *children, int count)
{
    while (t->first_single < t->blocks && t->free[t->first_single] == 0)
        t->first_single++;
    while (t->first_open < t->blocks && (t->free[t->first_open] == 0 || t->refused[t->first_open] >= TRIES))
        t->first_open++;
    for (int32_t b = count == 1 ? t->first_single : t->first_open; b < t->blocks; b++) {
        if (t->free[b] < count || (count > 1 && t->refused[b] >= TRIES))
            continue;
        const int32_t base = base_in_block(t, b, children, count);
        if (base >= 0)
            return base;
        t->refused[b]++;
    }
    return add_block(t) ? base_in_block(t, t->blocks - 1, children, count) : -1;
}

/* A node whose children are to be made: tokens `first` to `end` of the sorted ones begin as it does. */
typedef struct branch {
    int32_t node, first, end, shorter;
    uint32_t depth;
} branch;

static int by_bytes(const void *a, const void *b, void *context)
{
    const bpe_vocabulary *v = context;
    size_t n, m;
    const char *x = bpe_bytes(v, *(const int32_t *)a, &n), *y = bpe_bytes(v, *(const int32_t *)b, &m);
    const int order = memcmp(x, y, n < m ? n : m);
    return order != 0 ? order : (n > m) - (n < m);
}

static uint8_t byte_of(const trie *t, int32_t i, uint32_t depth)
{
    return (uint8_t)t->e->v->bytes[t->e->v->starts[t->sorted[i]] + depth];
}

/* Makes the children of a node, and appends them to the list of branches. */
static bool grow(trie *t, branch from, branch *branches, int64_t *count)
{
    bpe_encoder *e = t->e;
    uint8_t children[BLOCK];
    int kinds = 0;
    for (int32_t i = from.first; i < from.end; i++)
        if (kinds == 0 || children[kinds - 1] != byte_of(t, i, from.depth))
            children[kinds++] = byte_of(t, i, from.depth);
    const int32_t base = find_base(t, children, kinds);
    if (base < 0)
        return false;
    e->nodes[from.node].base = base;
    t->free[base / BLOCK] -= kinds;
    int32_t i = from.first;
    for (int k = 0; k < kinds; k++) {
        branch b = {.node = base ^ children[k], .first = i, .shorter = from.shorter, .depth = from.depth + 1};
        while (i < from.end && byte_of(t, i, from.depth) == children[k])
            i++;
        b.end = i;
        e->nodes[b.node] = (node){.parent = from.node, .token = -1};
        const int32_t token = t->sorted[b.first];
        if (e->parts[token].length == b.depth) { /* the shortest one comes first */
            e->nodes[b.node].token = token;
            e->shorter[token] = from.shorter;
            b.shorter = token;
            b.first++;
        }
        if (b.first < b.end)
            branches[(*count)++] = b;
    }
    return true;
}

static scion_status build_trie(bpe_encoder *e, scion_error *err)
{
    const bpe_vocabulary *v = e->v;
    trie t = {.e = e, .sorted = malloc((size_t)v->size * sizeof *t.sorted)};
    branch *branches = malloc((size_t)v->size * sizeof *branches); /* waiting ones share no token */
    scion_status status = SCION_OK;
    int64_t waiting = 0;
    e->shorter = malloc((size_t)v->size * sizeof *e->shorter);
    if (!t.sorted || !branches || !e->shorter || !add_block(&t))
        TRY(no_memory(err));
    for (int32_t i = 0; i < v->size; i++) {
        e->shorter[i] = -1;
        if (e->parts[i].rank != NOT_REACHED)
            t.sorted[t.count++] = i;
    }
    qsort_r(t.sorted, (size_t)t.count, sizeof *t.sorted, by_bytes, (void *)(size_t)v);
    e->nodes[0].parent = 0; /* the root is no child: base ^ byte is never 0 in its own block */
    t.free[0]--;
    branches[waiting++] = (branch){.node = 0, .first = 0, .end = t.count, .shorter = -1};
    while (waiting > 0) {
        const branch next = branches[--waiting];
        if (!grow(&t, next, branches, &waiting))
            TRY(no_memory(err));
    }
done:
    free(t.sorted);
    free(t.free);
    free(t.refused);
    free(branches);
    return status;
}

/* The longest token at the start of a text. */
static inline int32_t longest_at(const bpe_encoder *e, const uint8_t *s, size_t n, int64_t *steps)
{
    int32_t at = 0, token = -1;
    size_t i = 0;
    for (; i < n; i++) {
        const int32_t next = e->nodes[at].base ^ s[i];
        if (e->nodes[next].parent != at)
            break;
        at = next;
        token = e->nodes[at].token >= 0 ? e->nodes[at].token : token;
    }
    *steps += (int64_t)i + 1;
    return token;
}

scion_status bpe_encoder_create(bpe_encoder **out, const bpe_vocabulary *v, scion_error *err)
{
    bpe_encoder *e = calloc(1, sizeof *e);
    scion_status status = SCION_OK;
    *out = NULL;
    if (!e)
        return no_memory(err);
    e->v = v;
    for (int byte = 0; byte < 256; byte++) {
        const char c = (char)byte;
        if ((e->byte_token[byte] = bpe_find(v, &c, 1)) < 0)
            TRY(train_fail(err, SCION_EINVAL, "the byte 0x%02X has no token: some texts could not be encoded", byte));
    }
    TRY(bpe_split_create(&e->split, (const char *const *)v->patterns, v->pattern_count, err));
    TRY(build_pairs(e, err));
    TRY(build_parts(e, err));
    TRY(build_wholes(e, err));
    TRY(build_trie(e, err));
    *out = e;
done:
    if (status != SCION_OK)
        bpe_encoder_free(e);
    return status;
}

void bpe_encoder_free(bpe_encoder *e)
{
    if (!e)
        return;
    bpe_split_free(e->split);
    free(e->parts);
    free(e->shorter);
    free(e->pairs);
    free(e->may_merge);
    free(e->nodes);
    free(e->wholes);
    free(e);
}

/* ---- Encoding a word ----------------------------------------------------------------------------------- */

enum { DEAD_WORDS = 16, KNOWN_TOKENS = 4 };

/* A word that was met before. Words repeat: of the table of words that are one token, few places are read often. */
typedef struct known {
    word key;                     /* high is 0: free */
    int32_t tokens[KNOWN_TOKENS]; /* -1 past the last */
} known;

/* Memory of one call. */
typedef struct scratch {
    uint64_t small[DEAD_WORDS], *dead; /* places in a word from which there was no way on */
    size_t dead_words;
    known *cache; /* NULL: none */
    uint64_t cache_mask;
    int64_t steps;
} scratch;

/* Marks a place in a word of n bytes as dead; first: the first of this word. */
static bool mark_dead(scratch *w, size_t n, size_t place, bool first)
{
    const size_t words = n / 64 + 1;
    if (first) {
        if (words > w->dead_words) {
            uint64_t *larger = malloc(words * sizeof *larger);
            if (!larger)
                return false;
            if (w->dead != w->small)
                free(w->dead);
            w->dead = larger;
            w->dead_words = words;
        }
        memset(w->dead, 0, words * sizeof *w->dead);
    }
    w->dead[place / 64] |= (uint64_t)1 << place % 64;
    return true;
}

/* ---- Merging as defined -------------------------------------------------------------------------------- */

/* A pair of neighbours that waits to be merged. The one with the lowest rank comes first, then the leftmost. */
typedef struct candidate {
    int32_t rank, place;
} candidate;

/* Bytes of a word as a list of tokens: token[i] < 0 if it was merged to its left. */
typedef struct merging {
    int32_t *tokens, *next, *previous;
    candidate *heap;
    int64_t count;
} merging;

static bool before(candidate a, candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.place < b.place;
}

static void push(merging *m, candidate c)
{
    int64_t i = m->count++;
    for (; i > 0 && before(c, m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = c;
}

static candidate pop(merging *m)
{
    const candidate top = m->heap[0], c = m->heap[--m->count];
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child + 1 < m->count && before(m->heap[child + 1], m->heap[child]))
            child++;
        if (child >= m->count || !before(m->heap[child], c))
            break;
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = c;
    return top;
}

/* Makes the pair that begins at `place` wait, if it has a merge. */
static void consider(const bpe_encoder *e, merging *m, int32_t place, scratch *w)
{
    w->steps++;
    if (place < 0 || m->next[place] < 0)
        return;
    const int32_t rank = rank_of(e, m->tokens[place], m->tokens[m->next[place]]);
    if (rank != NO_MERGE)
        push(m, (candidate){rank, place});
}

static void merge_all(const bpe_encoder *e, merging *m, scratch *w)
{
    while (m->count > 0) {
        const candidate c = pop(m);
        const int32_t left = m->tokens[c.place], next = m->next[c.place];
        w->steps++;
        if (left < 0 || next < 0)
            continue;
        const pair *p = slot_of_pair(e, key_of_pair(left, m->tokens[next]));
        if (p->rank != c.rank) /* the pair has changed since */
            continue;
        m->tokens[c.place] = p->result;
        m->tokens[next] = -1;
        m->next[c.place] = m->next[next];
        if (m->next[next] >= 0)
            m->previous[m->next[next]] = c.place;
        consider(e, m, c.place, w);
        consider(e, m, m->previous[c.place], w);
    }
}

/* Merges the bytes of a word. Returns the number of tokens; -1: out of memory. */
static int64_t merge(const bpe_encoder *e, scratch *w, const uint8_t *s, size_t n, int32_t *tokens)
{
    if (n > INT32_MAX / 4)
        return -1;
    /* Every merge adds at most two candidates and removes one token. */
    int32_t *lists = malloc(3 * n * sizeof *lists);
    candidate *heap = malloc(3 * n * sizeof *heap);
    int64_t count = -1;
    if (lists && heap) {
        merging m = {.tokens = lists, .next = lists + n, .previous = lists + 2 * n, .heap = heap};
        for (size_t i = 0; i < n; i++) {
            m.tokens[i] = e->byte_token[s[i]];
            m.next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
            m.previous[i] = (int32_t)i - 1;
        }
        for (size_t i = 0; i + 1 < n; i++)
            consider(e, &m, (int32_t)i, w);
        merge_all(e, &m, w);
        count = 0;
        for (int32_t i = 0; i >= 0; i = m.next[i])
            tokens[count++] = m.tokens[i];
    }
    free(lists);
    free(heap);
    return count;
}

/* ---- Covering a word ------------------------------------------------------------------------------------ */

/* Covers a word by tokens that fit. Returns their number; -1: out of memory. */
static int64_t cover(const bpe_encoder *e, scratch *w, const uint8_t *s, size_t n, int32_t *tokens)
{
    int64_t count = 0;
    size_t at = 0;
    bool any_dead = false;
    int32_t token = longest_at(e, s, n, &w->steps);
    for (;;) {
        const size_t end = at + e->parts[token].length;
        w->steps++;
        if (!(any_dead && w->dead[end / 64] >> end % 64 & 1) &&
            (count == 0 || fits(e, tokens[count - 1], token, NO_MERGE, &w->steps))) {
            tokens[count++] = token;
            at = end;
            if (at == n)
                return count;
            token = longest_at(e, s + at, n - at, &w->steps);
        } else if (e->shorter[token] >= 0) {
            token = e->shorter[token];
        } else {            /* the last token leads nowhere */
            if (count == 0) /* cannot be: the word has tokens */
                return merge(e, w, s, n, tokens);
            if (!mark_dead(w, n, at, !any_dead))
                return -1;
            any_dead = true;
            token = tokens[--count];
            at -= e->parts[token].length;
        }
    }
}

/* ---- Encoding a text ----------------------------------------------------------------------------------- */

static int64_t encode_long(const bpe_encoder *e, scratch *w, const uint8_t *s, size_t n, int32_t *tokens)
{
    if (e->v->ignore_merges && n > WORD_BYTES) {
        const int32_t token = bpe_find(e->v, (const char *)s, n);
        if (token >= 0) {
            tokens[0] = token;
            return 1;
        }
    }
    return e->ordered ? cover(e, w, s, n, tokens) : merge(e, w, s, n, tokens);
}

/* Encodes a word of up to WORD_BYTES bytes that is not in the cache, and keeps its tokens there if they are few. */
static int64_t encode_new(const bpe_encoder *e, scratch *w, word k, uint64_t hash, const uint8_t *s, size_t n,
                          int32_t *tokens)
{
    const whole *one = slot_of_word(e, k, hash);
    int64_t count = 1;
    if (one->key.high != 0)
        tokens[0] = one->token;
    else
        count = encode_long(e, w, s, n, tokens);
    if (w->cache && count > 0 && count <= KNOWN_TOKENS) {
        known *to = &w->cache[hash & w->cache_mask];
        to->key = k;
        for (int64_t i = 0; i < KNOWN_TOKENS; i++)
            to->tokens[i] = i < count ? tokens[i] : -1;
    }
    return count;
}

/* Encodes a word of up to WORD_BYTES bytes; from its start on `readable` can be read, and as many tokens written. */
static inline int64_t encode_word(const bpe_encoder *e, scratch *w, word k, uint64_t hash, const uint8_t *s, size_t n,
                                  size_t readable, int32_t *tokens)
{
    const known *c = w->cache && readable >= KNOWN_TOKENS ? &w->cache[hash & w->cache_mask] : NULL;
    if (!c || c->key.low != k.low || c->key.high != k.high)
        return encode_new(e, w, k, hash, s, n, tokens);
    memcpy(tokens, c->tokens, sizeof c->tokens);
    int64_t count = 1;
    for (int i = 1; i < KNOWN_TOKENS; i++)
        count += c->tokens[i] >= 0;
    return count;
}

/* Makes a cache whose size is right for n bytes; without memory there is none. */
static void make_cache(scratch *w, size_t n)
{
    enum { worth_it = 1 << 14, largest = 1 << 15 };
    size_t size = 1 << 9;
    if (n < worth_it)
        return;
    while (size < largest && 64 * size < n)
        size *= 2;
    w->cache = calloc(size, sizeof *w->cache);
    w->cache_mask = size - 1;
}

/* Some words of a text, and what was read of them ahead. */
enum { AT_ONCE = 64 };

typedef struct batch {
    size_t lengths[AT_ONCE];
    word keys[AT_ONCE];
    uint64_t hashes[AT_ONCE];
    int count;
} batch;

/* Computes the keys of the words at s, before whose end n bytes can be read, and fetches their places in the tables:
 * these are much larger than the processor's caches. */
static inline void look_ahead(const bpe_encoder *e, const scratch *w, batch *b, const uint8_t *s, size_t n)
{
    const uint64_t mask = UINT64_MAX >> e->whole_shift;
    for (int i = 0; i < b->count; i++) {
        const size_t length = b->lengths[i];
        if (length <= WORD_BYTES) {
            b->keys[i] = key_of_word(s, length, n);
            b->hashes[i] = hash_of_word(b->keys[i]);
            __builtin_prefetch(&e->wholes[b->hashes[i] & mask]);
            if (w->cache)
                __builtin_prefetch(&w->cache[b->hashes[i] & w->cache_mask]);
        }
        s += length;
        n -= length;
    }
}

/* Encodes the words of a batch. *at: their place in the text; the one that cannot be encoded, if there is any. */
static int64_t encode_batch(const bpe_encoder *e, scratch *w, const batch *b, const uint8_t *text, size_t n,
                            size_t *at, int32_t *tokens)
{
    int64_t count = 0;
    for (int i = 0; i < b->count; *at += b->lengths[i++]) {
        const uint8_t *s = text + *at;
        const size_t length = b->lengths[i];
        const int64_t more = length > WORD_BYTES
                                 ? encode_long(e, w, s, length, tokens + count)
                                 : encode_word(e, w, b->keys[i], b->hashes[i], s, length, n - *at, tokens + count);
        if (more < 0)
            return -1;
        count += more;
    }
    return count;
}

int64_t bpe_encode(const bpe_encoder *e, const char *text, size_t n, int32_t *tokens, size_t *bad, int64_t *steps,
                   scion_error *err)
{
    scratch w = {.dead_words = DEAD_WORDS};
    bpe_walk walk;
    batch b;
    int64_t count = 0, more = 0;
    w.dead = w.small;
    *bad = 0;
    if (bpe_walk_begin(&walk, e->split, text, n, err) != SCION_OK)
        return 0;
    make_cache(&w, n);
    while (more >= 0 && *bad < n && bpe_walk_next(&walk, b.lengths, AT_ONCE, &b.count, err) == SCION_OK) {
        look_ahead(e, &w, &b, (const uint8_t *)text + *bad, n - *bad);
        more = encode_batch(e, &w, &b, (const uint8_t *)text, n, bad, tokens + count);
        count += more > 0 ? more : 0;
    }
    if (more < 0)
        train_fail(err, SCION_ENOMEM, "out of memory for a long word");
    if (w.dead != w.small)
        free(w.dead);
    free(w.cache);
    bpe_walk_end(&walk);
    if (steps)
        *steps = w.steps;
    return count;
}
