/* See sampler.h. */
#include "generate/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "ops/vectorise.h"

/* A token and its weight as one number, so that order is that of numbers: the weight's bits, then the token,
 * inverted. */
typedef uint64_t choice;

struct sampler {
    sampler_options o;
    int64_t vocab, count; /* of choices */
    float *logits;        /* changed by repetition, then the weights */
    choice *choices;
    int32_t *kept;
    bool *seen;
};

sampler *sampler_create(const sampler_options *o, int64_t vocab)
{
    sampler *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->o = *o;
    s->vocab = vocab;
    s->logits = calloc((size_t)vocab, sizeof *s->logits);
    s->choices = calloc((size_t)vocab, sizeof *s->choices);
    s->kept = calloc((size_t)vocab, sizeof *s->kept);
    s->seen = calloc((size_t)vocab, sizeof *s->seen);
    if (s->logits && s->choices && s->kept && s->seen)
        return s;
    sampler_free(s);
    return NULL;
}

void sampler_free(sampler *s)
{
    if (!s)
        return;
    free(s->logits);
    free(s->choices);
    free(s->kept);
    free(s->seen);
    free(s);
}

void sampler_saw(sampler *s, int64_t count, const int32_t *tokens)
{
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] >= 0 && tokens[i] < s->vocab)
            s->seen[tokens[i]] = true;
}

void sampler_forget(sampler *s)
{
    memset(s->seen, 0, (size_t)s->vocab * sizeof *s->seen);
}

/* ---- Choices ------------------------------------------------------------------------------------------------- */

static choice choice_of(float weight, int64_t token)
{
    return (choice)op_bits_of(weight) << 32 | (uint32_t)~token;
}

static int32_t token_of(choice c)
{
    return (int32_t) ~(uint32_t)c;
}

static double weight_of(choice c)
{
    return (double)op_float_of((uint32_t)(c >> 32));
}

/* Moves those of n choices that are at least `pivot` to the front; returns how many they are, and their weight. */
static int64_t part_choices(choice *c, int64_t n, choice pivot, double *weight)
{
    int64_t front = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const choice x = c[i], y = c[front];
        const bool large = x >= pivot;
        c[front] = large ? x : y;
        c[i] = large ? y : x;
        front += large;
        sum += large ? weight_of(x) : 0;
    }
    *weight = sum;
    return front;
}

static choice middle(choice a, choice b, choice c)
{
    return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
}

/* Moves to the front the first choices, as few as are `count` in number or `weight` in sum, whichever comes first,
 * but at least one; the last of them is the last in the front. Returns their number (n: all
 * do not suffice). */
static int64_t select_first(choice *c, int64_t n, int64_t count, double weight)
{
    int64_t begin = 0, end = n; /* those before begin belong to the front, those from end on do not */
    double before = 0;
    while (end - begin > 1) {
        const choice pivot = middle(c[begin], c[begin + (end - begin) / 2], c[end - 1]);
        double sum;
        int64_t front = part_choices(c + begin, end - begin, pivot, &sum);
        const bool enough = begin + front >= count || before + sum >= weight;
        if (!enough) {
            begin += front;
            before += sum;
        } else if (front < end - begin)
            end = begin + front;
        else { /* the pivot is the least of these: put it last, and look at the others */
            int64_t at = begin;
            while (c[at] != pivot)
                at++;
            c[at] = c[end - 1];
            c[end - 1] = pivot;
            const double others = sum - weight_of(pivot);
            if (begin + front - 1 >= count || (front > 1 && before + others >= weight))
                end--;
            else
                return end;
        }
    }
    return end;
}

/* ---- Weights ------------------------------------------------------------------------------------------------- */

SCN_CLONES static bool all_finite_logits(int64_t n, const float *x)
{
    float sum = 0;
    SCN_SIMD_SUM(sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * 0; /* NaN for an infinity too */
    return sum == 0;
}

/* x = e^((x - largest) / temperature). */
SCN_CLONES static void weigh_logits(int64_t n, float inverse, float *x)
{
    const float top = op_row_max(n, x);
    SCN_SIMD
    for (int64_t i = 0; i < n; i++)
        x[i] = op_exp((x[i] - top) * inverse);
}

static void penalise(sampler *s)
{
    const float factor = (float)s->o.repetition;
    for (int64_t i = 0; i < s->vocab; i++)
        if (s->seen[i])
            s->logits[i] = s->logits[i] > 0 ? s->logits[i] / factor : s->logits[i] * factor;
}

/* Weights below this part of the largest are set aside at first: with a model that knows something nearly all are. */
static const float small = 0x1p-14f;

/* All tokens as choices, those with a weight of at least `small` in front; returns the number of these. */
static int64_t list_choices(sampler *s)
{
    int64_t front = 0, back = s->vocab;
    for (int64_t i = 0; i < s->vocab; i++) {
        const choice c = choice_of(s->logits[i], i);
        const bool large = s->logits[i] >= small;
        s->choices[large ? front : back - 1] = c;
        front += large;
        back -= !large;
    }
    return front;
}

static double sum_of(const choice *c, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight_of(c[i]);
    return sum;
}

/* select_first of all choices, of which the first `large` come before the others. */
static int64_t select_parted(sampler *s, int64_t large, int64_t count, double weight)
{
    const double sum = sum_of(s->choices, large);
    if (large >= count || sum >= weight)
        return select_first(s->choices, large, count, weight);
    return large + select_first(s->choices + large, s->count - large, count - large, weight - sum);
}

static int32_t first_token(const float *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return (int32_t)best;
}

int32_t sampler_draw(sampler *s, const float *logits, uint64_t seed, uint64_t number)
{
    const int64_t all = s->vocab;
    if (!all_finite_logits(all, logits))
        return -1;
    memcpy(s->logits, logits, (size_t)all * sizeof *logits);
    if (s->o.repetition != 1)
        penalise(s);
    s->count = 1;
    s->choices[0] = choice_of(1, first_token(s->logits, all));
    if (s->o.temperature <= 0)
        return token_of(s->choices[0]);
    weigh_logits(all, (float)fmin(1 / s->o.temperature, 1e30), s->logits);
    s->count = all;
    int64_t large = list_choices(s);
    if (s->o.top_k > 0 && s->o.top_k < all) {
        s->count = select_parted(s, large, s->o.top_k, INFINITY);
        large = large < s->count ? large : s->count;
    }
    if (s->o.top_p < 1) {
        s->count = select_parted(s, large, all, s->o.top_p * sum_of(s->choices, s->count));
        large = large < s->count ? large : s->count;
    }
    if (s->o.min_p > 0) {
        double sum;
        s->count = part_choices(s->choices, s->count, choice_of((float)s->o.min_p, UINT32_MAX), &sum);
        large = s->count;
    }
    const double at = scn_uniform(seed, SCN_STREAM_GENERATE, number) * sum_of(s->choices, s->count);
    /* more than `at`, so that a weight of zero is never drawn */
    const int64_t drawn = select_parted(s, large, all, nextafter(at, INFINITY));
    return token_of(s->choices[drawn - 1]);
}

const int32_t *sampler_kept(sampler *s, int64_t *kept)
{
    for (int64_t i = 0; i < s->count; i++)
        s->kept[i] = token_of(s->choices[i]);
    *kept = s->count;
    return s->kept;
}
