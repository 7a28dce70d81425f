/* See step_share.h. */
#include "ranks/step_share.h"

#include "util/fail.h"

scion_status share_make(step_share *out, int rank, int ranks, int64_t batch, int64_t accum, bool indivisible,
                        scion_error *err)
{
    *out = (step_share){rank, ranks, batch, accum, accum % ranks == 0 || indivisible};
    if (indivisible && accum < ranks)
        return train_fail(err, SCION_EINVAL,
                          "a step has %lld micro-batches (accum) for %d ranks, and batch normalisation cannot divide "
                          "them: take a larger accum and a smaller batch",
                          (long long)accum, ranks);
    if (accum * batch < ranks)
        return train_fail(err, SCION_EINVAL, "a step has %lld sequences (batch times accum) for %d ranks",
                          (long long)(accum * batch), ranks);
    return SCION_OK;
}

int64_t share_first(const step_share *s, int rank)
{
    return s->whole ? s->accum * rank / s->ranks * s->batch : s->batch * s->accum * rank / s->ranks;
}

static int64_t sequences_of(const step_share *s, int rank)
{
    return share_first(s, rank + 1) - share_first(s, rank);
}

int64_t share_pieces(const step_share *s, int rank)
{
    return (sequences_of(s, rank) + s->batch - 1) / s->batch;
}

step_piece share_piece(const step_share *s, int rank, int64_t k)
{
    const int64_t n = sequences_of(s, rank), pieces = share_pieces(s, rank), begin = n * k / pieces;
    return (step_piece){share_first(s, rank) + begin, n * (k + 1) / pieces - begin};
}

int64_t share_pieces_before(const step_share *s)
{
    int64_t sum = 0;
    for (int rank = 0; rank < s->rank; rank++)
        sum += share_pieces(s, rank);
    return sum;
}

int64_t share_max_pieces(const step_share *s)
{
    int64_t max = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        max = share_pieces(s, rank) > max ? share_pieces(s, rank) : max;
    return max;
}
