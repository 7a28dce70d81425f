/* See bpe_split.h. GPT-2's pattern is a scanner written by hand, with Unicode's categories from utf8proc; others
 * are run by PCRE2.
 *
 * Space is what has Unicode's property White_Space, as in the engines of other tokenizers. PCRE2 takes U+180E for
 * a space too, so \s and \S are replaced by lists. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "util/fail.h"
#include "util/utf8.h"
#include "text/bpe_split.h"

const char bpe_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* ---- Characters ---------------------------------------------------------------------------------------- */

enum { OTHER, LETTER, NUMBER, SPACE, BEYOND };

/* Kinds of bytes; BEYOND: of a character that has more than one. */
static const uint8_t kinds[256] = {
    [9 ... 13] = SPACE,     [' '] = SPACE,          ['0' ... '9'] = NUMBER,
    ['A' ... 'Z'] = LETTER, ['a' ... 'z'] = LETTER, [0x80 ... 0xff] = BEYOND,
};

/* Letters and numbers that Unicode 15.1 and 16 added, and that utf8proc may not know. */
static const struct {
    uint32_t first, last;
    int kind;
} recent[] = {
    {0x1c89, 0x1c8a, LETTER},   {0xa7cb, 0xa7cd, LETTER},   {0xa7da, 0xa7dc, LETTER},   {0x105c0, 0x105f3, LETTER},
    {0x10d40, 0x10d49, NUMBER}, {0x10d4a, 0x10d65, LETTER}, {0x10d6f, 0x10d85, LETTER}, {0x10ec2, 0x10ec4, LETTER},
    {0x11380, 0x11389, LETTER}, {0x1138b, 0x1138b, LETTER}, {0x1138e, 0x1138e, LETTER}, {0x11390, 0x113b5, LETTER},
    {0x113b7, 0x113b7, LETTER}, {0x113d1, 0x113d1, LETTER}, {0x113d3, 0x113d3, LETTER}, {0x116d0, 0x116e3, NUMBER},
    {0x11bc0, 0x11be0, LETTER}, {0x11bf0, 0x11bf9, NUMBER}, {0x13460, 0x143fa, LETTER}, {0x16100, 0x1611d, LETTER},
    {0x16130, 0x16139, NUMBER}, {0x16d40, 0x16d6c, LETTER}, {0x16d70, 0x16d79, NUMBER}, {0x18cff, 0x18cff, LETTER},
    {0x1ccf0, 0x1ccf9, NUMBER}, {0x1e5d0, 0x1e5ed, LETTER}, {0x1e5f0, 0x1e5f0, LETTER}, {0x1e5f1, 0x1e5fa, NUMBER},
    {0x2ebf0, 0x2ee5d, LETTER},
};

static int kind_of_recent(uint32_t code)
{
    for (size_t i = 0; i < sizeof recent / sizeof *recent; i++)
        if (code >= recent[i].first && code <= recent[i].last)
            return recent[i].kind;
    return OTHER;
}

static int kind_of_code(uint32_t code)
{
    static const uint8_t of_category[32] = {
        [UTF8PROC_CATEGORY_LU] = LETTER, [UTF8PROC_CATEGORY_LL] = LETTER, [UTF8PROC_CATEGORY_LT] = LETTER,
        [UTF8PROC_CATEGORY_LM] = LETTER, [UTF8PROC_CATEGORY_LO] = LETTER, [UTF8PROC_CATEGORY_ND] = NUMBER,
        [UTF8PROC_CATEGORY_NL] = NUMBER, [UTF8PROC_CATEGORY_NO] = NUMBER, [UTF8PROC_CATEGORY_ZS] = SPACE,
        [UTF8PROC_CATEGORY_ZL] = SPACE,  [UTF8PROC_CATEGORY_ZP] = SPACE,
    };
    const unsigned category = (unsigned)utf8proc_category((utf8proc_int32_t)code);
    if (category == UTF8PROC_CATEGORY_CN)
        return kind_of_recent(code);
    return code == 0x85 ? SPACE : of_category[category & 31];
}

/* Kind of the character at s, and its bytes. */
static int kind_at(const uint8_t *s, size_t n, size_t *length)
{
    uint32_t code;
    *length = 1;
    if (s[0] < 0x80)
        return kinds[s[0]];
    const int bytes = utf8_decode((const char *)s, n, &code);
    if (bytes == 0)
        return OTHER;
    *length = (size_t)bytes;
    return kind_of_code(code);
}

/* ---- GPT-2's pattern ----------------------------------------------------------------------------------- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* Number of ASCII letters at the start of 8 bytes: the high bit of each byte says whether it is one. */
static inline size_t letters_in_8(const uint8_t *s)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x80 * ones;
    uint64_t x;
    memcpy(&x, s, sizeof x);
    const uint64_t lower = (x | 0x20 * ones) & ~high;
    const uint64_t letters = (lower + (0x80 - 'a') * ones) & ~(lower + (0x80 - 'z' - 1) * ones) & ~x & high;
    return letters == high ? 8 : (size_t)__builtin_ctzll(letters ^ high) / 8;
}
#endif

/* End of the characters of a kind from i on. */
static inline size_t run_of(int kind, const uint8_t *s, size_t i, size_t n)
{
    for (;;) {
        size_t length;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        for (length = 8; kind == LETTER && length == 8 && n - i >= 8; i += length)
            length = letters_in_8(s + i);
#endif
        while (i < n && kinds[s[i]] == kind)
            i++;
        if (i == n || s[i] < 0x80 || kind_at(s + i, n - i, &length) != kind)
            return i;
        i += length;
    }
}

/* Length of 's, 't, 'm, 'd, 're, 've or 'll, behind whose apostrophe n bytes follow; 0: none of them. */
static size_t contraction(const uint8_t *s, size_t n)
{
    if (n >= 1 && (s[1] == 's' || s[1] == 't' || s[1] == 'm' || s[1] == 'd'))
        return 2;
    if (n >= 2 && ((s[1] == 'r' && s[2] == 'e') || (s[1] == 'v' && s[2] == 'e') || (s[1] == 'l' && s[2] == 'l')))
        return 3;
    return 0;
}

/* Spaces before a word leave their last character to it, or as a word of its own if it is not ' '. */
static size_t spaces(const uint8_t *s, size_t n)
{
    const size_t end = run_of(SPACE, s, 0, n);
    if (end == n)
        return n;
    size_t last = end - 1;
    while ((s[last] & 0xc0) == 0x80)
        last--;
    return last > 0 ? last : end;
}

static inline size_t gpt2_word(const uint8_t *s, size_t n)
{
    const size_t blank = s[0] == ' ' && n > 1;
    size_t length;
    if (s[0] == '\'') {
        length = contraction(s, n - 1);
        if (length > 0)
            return length;
    }
    const int kind = kind_at(s + blank, n - blank, &length);
    if (kind == SPACE)
        return spaces(s, n);
    return kind == LETTER ? run_of(LETTER, s, blank + length, n) : run_of(kind, s, blank + length, n);
}

size_t bpe_gpt2_word(const uint8_t *text, size_t n)
{
    return gpt2_word(text, n);
}

/* ---- Other patterns ------------------------------------------------------------------------------------ */

typedef struct stage {
    char *pattern;
    pcre2_code *code; /* NULL: GPT-2's pattern */
    bool compiled;    /* to machine code */
} stage;

struct bpe_split {
    stage stages[BPE_STAGES];
    int count;
    bool scanner; /* GPT-2's pattern is the only one */
};

#define WHITE \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

/* Replaces \s and \S by lists of characters. In brackets \S stays, where a list cannot be excluded. The caller frees
 * it; NULL: out of memory. */
static char *spell_spaces(const char *pattern)
{
    static const char in[] = WHITE, out[] = "[" WHITE "]", not [] = "[^" WHITE "]";
    char *text = malloc(strlen(pattern) * sizeof not / 2 + sizeof not ), *to = text;
    bool brackets = false;
    if (!text)
        return NULL;
    for (const char *p = pattern; *p; p++) {
        const bool escaped = p[0] == '\\' && p[1];
        if (escaped && p[1] == 's')
            to = stpcpy(to, brackets ? in : out);
        else if (escaped && p[1] == 'S' && !brackets)
            to = stpcpy(to, not );
        else {
            brackets = !escaped && p[0] == '[' ? true : !escaped && p[0] == ']' ? false : brackets;
            *to++ = p[0];
            if (escaped)
                *to++ = p[1];
        }
        p += escaped;
    }
    *to = '\0';
    return text;
}

static scion_status compile(stage *s, scion_error *err)
{
    char *text = spell_spaces(s->pattern), why[120] = "";
    int code;
    PCRE2_SIZE at;
    if (!text)
        return train_fail(err, SCION_ENOMEM, "out of memory for a pattern");
    s->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    free(text);
    if (!s->code) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return train_fail(err, SCION_EINVAL, "the pattern %.80s is not a regular expression: %s", s->pattern, why);
    }
    s->compiled = pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE) == 0;
    return SCION_OK;
}

scion_status bpe_split_create(bpe_split **out, const char *const *patterns, int count, scion_error *err)
{
    bpe_split *s = calloc(1, sizeof *s);
    scion_status status = SCION_OK;
    *out = NULL;
    if (!s)
        return train_fail(err, SCION_ENOMEM, "out of memory for the patterns");
    for (int i = 0; i < count; i++) {
        stage *g = &s->stages[s->count++];
        g->pattern = strdup(patterns[i]);
        if (!g->pattern)
            TRY(train_fail(err, SCION_ENOMEM, "out of memory for the patterns"));
        if (strcmp(g->pattern, bpe_gpt2_pattern) != 0)
            TRY(compile(g, err));
    }
    s->scanner = count == 1 && !s->stages[0].code;
    *out = s;
done:
    if (status != SCION_OK)
        bpe_split_free(s);
    return status;
}

void bpe_split_free(bpe_split *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->count; i++) {
        free(s->stages[i].pattern);
        pcre2_code_free(s->stages[i].code);
    }
    free(s);
}

const char *bpe_split_pattern(const bpe_split *s, int i)
{
    return i < s->count ? s->stages[i].pattern : NULL;
}

/* ---- Walks --------------------------------------------------------------------------------------------- */

scion_status bpe_walk_begin(bpe_walk *w, const bpe_split *s, const char *text, size_t n, scion_error *err)
{
    *w = (bpe_walk){.split = s, .text = (const uint8_t *)text, .n = n, .valid = true};
    if (!s->scanner && !(w->match = pcre2_match_data_create(1, NULL)))
        return train_fail(err, SCION_ENOMEM, "out of memory for a pattern");
    return SCION_OK;
}

void bpe_walk_end(bpe_walk *w)
{
    pcre2_match_data_free(w->match);
    w->match = NULL;
}

/* End of the piece at w->at of a pattern, between `begin` and `end`: a match, or the text before it. */
static scion_status find_match(bpe_walk *w, const stage *g, size_t begin, size_t end, size_t *piece, scion_error *err)
{
    char why[120] = "";
    const uint8_t *text = w->text + begin;
    const size_t n = end - begin, at = w->at - begin;
    const int found = g->compiled
                          ? pcre2_jit_match(g->code, text, n, at, PCRE2_NOTEMPTY, w->match, NULL)
                          : pcre2_match(g->code, text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, w->match, NULL);
    *piece = end;
    if (found == PCRE2_ERROR_NOMATCH)
        return SCION_OK;
    if (found < 0) {
        pcre2_get_error_message(found, (PCRE2_UCHAR *)why, sizeof why);
        return train_fail(err, SCION_EINVAL, "the pattern %.80s cannot split the text: %s", g->pattern, why);
    }
    const PCRE2_SIZE *match = pcre2_get_ovector_pointer(w->match);
    const size_t from = begin + match[0], to = begin + match[1];
    if (from > w->at)
        *piece = from;
    else if (to > w->at)
        *piece = to;
    return SCION_OK;
}

/* Finds the run of UTF-8, or of bytes that are not, at w->at. */
static void find_valid(bpe_walk *w)
{
    const char *s = (const char *)w->text + w->at;
    const size_t n = w->n - w->at;
    size_t length = utf8_bytes(s, n);
    uint32_t code;
    w->valid = length > 0;
    if (!w->valid)
        for (length = 1; length < n && utf8_decode(s + length, n - length, &code) == 0;)
            length++;
    w->valid_begin = w->at;
    w->valid_end = w->at + length;
}

/* Finds the piece at w->at of stage k, in the piece of the stage before. */
static scion_status find_piece(bpe_walk *w, int k, scion_error *err)
{
    const stage *g = &w->split->stages[k];
    const size_t begin = k > 0 ? w->begins[k - 1] : w->valid_begin, end = k > 0 ? w->ends[k - 1] : w->valid_end;
    w->begins[k] = w->at;
    w->ends[k] = end;
    if (!g->code)
        w->ends[k] = w->at + gpt2_word(w->text + w->at, end - w->at);
    else if (w->valid)
        return find_match(w, g, begin, end, &w->ends[k], err);
    return SCION_OK;
}

/* Finds the next word. */
static scion_status next_word(bpe_walk *w, scion_error *err)
{
    const bpe_split *s = w->split;
    const size_t begin = w->at;
    if (begin == w->valid_end)
        find_valid(w);
    for (int k = 0; k < s->count; k++)
        if (begin == w->ends[k])
            RETURN_IF_FAILED(find_piece(w, k, err));
    w->at = w->ends[s->count - 1];
    return SCION_OK;
}

scion_status bpe_walk_next(bpe_walk *w, size_t *lengths, int max, int *count, scion_error *err)
{
    *count = 0;
    if (w->split->scanner) {
        for (; *count < max && w->at < w->n; w->at += lengths[(*count)++])
            lengths[*count] = gpt2_word(w->text + w->at, w->n - w->at);
        return SCION_OK;
    }
    if (w->split->count == 0 && w->n > 0 && w->at == 0) {
        lengths[(*count)++] = w->at = w->n;
        return SCION_OK;
    }
    while (*count < max && w->at < w->n) {
        const size_t begin = w->at;
        RETURN_IF_FAILED(next_word(w, err));
        lengths[(*count)++] = w->at - begin;
    }
    return SCION_OK;
}
