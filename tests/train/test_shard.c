/* What ranks share out, without ranks: every entry has one owner; equal ranges, and whole parameters balanced by
 * cost; what travels; the trees; when a gradient is complete; who started us; which ranks do not belong together. And
 * a rank alone with deterministic sums, against the plain order. */
#define _GNU_SOURCE 1
#include "tiny.h"

#include "comm/comm.h"
#include "comm/launcher.h"
#include "config/network.h"
#include "ranks/shard.h"
#include "ranks/start_check.h"
#include "trainer_tests.h"

static const char gpt[] = TINY_GPT "width=160 head_size=32 vocab=700 ";

static trainer *create(const config *c)
{
    trainer *t = NULL;
    scion_error err;
    OK(tiny_create(&t, c, &err));
    return t;
}

/* The GPT with more settings. */
static config gpt_with(const char *more)
{
    char text[512];
    snprintf(text, sizeof text, "%s%s", gpt, more);
    return tiny(text);
}

static scion_status make(shard_plan *s, const trainer *t, int ranks, bool whole, scion_error *err)
{
    scion_options o;
    scion_param *params = NULL;
    scion_status status = network_params(&t->c, t->model.tape, &o, &params, err);
    if (status == SCION_OK)
        status = shard_make(s, t->model.tape, params, &o, ranks, whole, err);
    free(params);
    return status;
}

/* ---- Shares ---------------------------------------------------------------------------------------------------- */

/* Buckets cover the flat arrays in order; what they say is what the table of parameters says. */
static void check_cover(const shard_plan *s, const tape *t)
{
    int64_t at = 0, *entries = calloc((size_t)s->ranks, sizeof *entries);
    for (int64_t i = 0; i < s->count; i++) {
        const shard_bucket *b = &s->buckets[i];
        assert_int_equal(b->first, at);
        assert_true(b->count > 0 && b->count <= SHARD_BUCKET);
        assert_true(b->owner >= 0 && b->owner < s->ranks);
        entries[b->owner] += b->count;
        at += b->count;
    }
    assert_int_equal(at, tape_param_elements(t));
    for (int64_t i = 0; i < s->params; i++) {
        int64_t sum = 0, next = 0;
        for (int r = 0; r < s->ranks; r++) {
            const int64_t own = shard_own(s, r, i);
            sum += own;
            if (own > 0) {
                assert_int_equal(shard_first(s, r, i), next);
                next += own;
            }
        }
        assert_int_equal(sum, tape_param_at(t, i)->count);
    }
    for (int r = 0; r < s->ranks; r++)
        assert_int_equal(entries[r], s->entries[r]);
    free(entries);
}

static void every_entry_has_one_owner(void **state)
{
    static const char *const settings[] = {"", "rule=adamw ", "norms=sign ", "rule=muon ", "rule=ssd ", "tied=yes "};
    (void)state;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
        for (int ranks = 1; ranks <= 9; ranks++) {
            const config c = gpt_with(settings[k]);
            trainer *t = create(&c);
            scion_error err;
            shard_plan s;
            for (int whole = 0; whole < 2; whole++) {
                OK(make(&s, t, ranks, whole, &err));
                check_cover(&s, t->model.tape);
                shard_free(&s);
            }
            trainer_free(t);
        }
}

/* Ranges differ by one unit of SCION_RANGE at most where everything is elementwise (and large enough to be cut). */
static void ranges_are_equal(void **state)
{
    const config c = tiny(TINY_GPT "width=256 head_size=64 vocab=1024 rule=adamw ");
    trainer *t = create(&c);
    scion_error err;
    (void)state;
    for (int ranks = 2; ranks <= 8; ranks++) {
        shard_plan s;
        OK(make(&s, t, ranks, false, &err));
        int64_t least = s.entries[0], most = s.entries[0];
        for (int r = 1; r < ranks; r++) {
            least = s.entries[r] < least ? s.entries[r] : least;
            most = s.entries[r] > most ? s.entries[r] : most;
        }
        assert_true(most - least <= SCION_RANGE);
        shard_free(&s);
    }
    trainer_free(t);
}

/* Largest first, to the rank that has least: no rank has more than 4/3 of the best (Graham), which is at least the
 * mean and at least the costliest oracle. */
static void oracles_are_balanced(void **state)
{
    const config c = tiny(TINY_GPT "width=128 head_size=64 layers=6 ");
    trainer *t = create(&c);
    scion_error err;
    (void)state;
    for (int ranks = 1; ranks <= 8; ranks++) {
        shard_plan s, alone;
        double sum = 0, most = 0, costliest = 0;
        OK(make(&s, t, ranks, false, &err));
        OK(make(&alone, t, 1000, false, &err));
        for (int r = 0; r < 1000; r++)
            costliest = fmax(costliest, alone.flops[r]);
        for (int r = 0; r < ranks; r++) {
            sum += s.flops[r];
            most = fmax(most, s.flops[r]);
        }
        const double best = fmax(sum / ranks, costliest);
        assert_true(sum > 0);
        assert_true(most <= 4.0 / 3 * best + 0.05 * best); /* beside the oracles entries have a cost, too */
        shard_free(&s);
        shard_free(&alone);
    }
    trainer_free(t);
}

/* Each way (N - 1) times the parameters as they are stored; what is sent is received. Gradients in float32 may travel
 * as bfloat16, those in bfloat16 always do. */
static void as_much_travels_as_in_an_all_reduce(void **state)
{
    static const char *const storages[] = {"", "grads=bf16 ", "weights=bf16 grads=bf16 "};
    (void)state;
    for (int k = 0; k < (int)(sizeof storages / sizeof *storages); k++)
        for (int ranks = 1; ranks <= 17; ranks += ranks < 5 ? 1 : 4)
            for (scion_dtype wire = SCION_F32; wire <= SCION_BF16; wire++) {
                const config c = gpt_with(storages[k]);
                trainer *t = create(&c);
                scion_error err;
                shard_plan s;
                int64_t up = 0, arrived = 0, down = 0, taken = 0;
                OK(make(&s, t, ranks, false, &err));
                for (int r = 0; r < ranks; r++) {
                    const shard_traffic n = shard_traffic_of(&s, r, wire);
                    up += n.gradients_sent;
                    arrived += n.gradients_received;
                    down += n.weights_sent;
                    taken += n.weights_received;
                }
                const size_t grads = wire == SCION_BF16 ? 2 * (size_t)t->elements : tape_grad_bytes(t->model.tape);
                const int64_t gradients = (ranks - 1) * (int64_t)grads,
                              weights = (ranks - 1) * (int64_t)tape_weight_bytes(t->model.tape);
                assert_true(up == gradients && arrived == gradients && down == weights && taken == weights);
                shard_free(&s);
                trainer_free(t);
            }
}

/* ---- Steps ------------------------------------------------------------------------------------------------- */

/* Pieces of the ranks follow each other and are the whole step. Those of a rank differ by one sequence at most and
 * fit into a micro-batch; where these stay whole, they are all alike. Ranks differ by one micro-batch or sequence. */
static void check_share(step_share *s)
{
    int64_t next = 0, before = 0, max_pieces = 0, least = INT64_MAX, most = 0;
    for (s->rank = 0; s->rank < s->ranks; s->rank++) {
        const int64_t first = next, pieces = share_pieces(s, s->rank), size = share_piece(s, s->rank, 0).count;
        assert_int_equal(share_first(s, s->rank), next);
        assert_int_equal(share_pieces_before(s), before);
        assert_true(pieces > 0);
        for (int64_t k = 0; k < pieces; k++) {
            const step_piece p = share_piece(s, s->rank, k);
            assert_int_equal(p.first, next);
            assert_true(p.count > 0 && p.count <= s->batch && llabs(p.count - size) <= 1);
            assert_true(!s->whole || p.count == s->batch);
            next += p.count;
        }
        before += pieces;
        max_pieces = pieces > max_pieces ? pieces : max_pieces;
        least = next - first < least ? next - first : least;
        most = next - first > most ? next - first : most;
    }
    assert_int_equal(next, s->batch * s->accum);
    assert_int_equal(share_first(s, s->ranks), next);
    assert_int_equal(share_max_pieces(s), max_pieces);
    assert_true(most - least <= (s->whole ? s->batch : 1));
}

static void shares_make_up_a_step(void **state)
{
    (void)state;
    for (int64_t batch = 1; batch <= 7; batch++)
        for (int64_t accum = 1; accum <= 9; accum++)
            for (int ranks = 1; ranks <= 12; ranks++)
                for (int indivisible = 0; indivisible < 2; indivisible++) {
                    const bool enough = (indivisible ? accum : batch * accum) >= ranks;
                    step_share s;
                    scion_error err;
                    assert_int_equal(share_make(&s, 0, ranks, batch, accum, indivisible, &err),
                                     enough ? SCION_OK : SCION_EINVAL);
                    if (!enough)
                        continue;
                    assert_true(s.whole == (indivisible || accum % ranks == 0));
                    check_share(&s);
                }
}

/* Parts of all micro-batches in their order; a step that is continued after `skip` of them ends alike. Other buffers
 * are as before. */
static void running_statistics_follow_the_micro_batches(void **state)
{
    enum { pieces = 5 };
    static const float start[] = {3, -1, 7};
    const int64_t two = 2;
    float flat[3], before[3], want[3];
    step_share s;
    running_buffers m;
    scion_error err;
    tape *t = tape_create();
    tape_value *running = tape_buffer(t, "running", 0, 1, &two);
    (void)state;
    tape_buffer(t, "fixed", 0, 0, NULL);
    running->running = true;
    running->decay = 0.75;
    tape_bind(t, NULL, NULL, flat);
    OK(share_make(&s, 0, 1, 4, pieces, true, &err));
    OK(running_make(&m, t, &s, &err));
    memcpy(before, start, sizeof before);
    for (int64_t skip = 0; skip <= pieces; skip++) {
        for (int64_t k = 0; k < pieces; k++) { /* each leaves its part where it found zeros */
            running_clear(&m);
            for (int e = 0; e < 2; e++) {
                assert_true(flat[e] == 0);
                flat[e] = (float)(10 * e + k);
            }
            running_keep(&m, k);
        }
        flat[2] = 0;
        running_apply(&m, comm_self(), before, skip);
        if (skip == 0)
            memcpy(want, flat, sizeof want);
        assert_memory_equal(flat, want, sizeof want);
        for (int e = 0; e < 2; e++) /* as after one micro-batch more */
            before[e] = (float)(0.75 * (double)before[e] + 10 * e + (double)skip);
    }
    assert_true(want[2] == start[2] && want[0] != start[0]);
    running_free(&m);
    tape_free(t);
}

/* ---- Trees ----------------------------------------------------------------------------------------------------- */

/* Everybody but the root has a parent, who has it as a child at one level; and where the size is a power of two, the
 * ranks whose sums are added before level l are those that agree above bit l, whatever the root. */
static void trees_reach_all(void **state)
{
    (void)state;
    for (int size = 1; size <= 20; size++)
        for (int root = 0; root < size; root++)
            for (int rank = 0; rank < size; rank++) {
                const comm c = {.rank = rank, .size = size};
                const int parent = comm_tree_parent(&c, root);
                assert_int_equal(parent < 0, rank == root);
                if (parent < 0)
                    continue;
                const comm up = {.rank = parent, .size = size};
                int found = 0, at = -1;
                bool more = true;
                for (int level = 0; more; level++)
                    if (comm_tree_child(&up, root, level, &more) == rank) {
                        found++;
                        at = level;
                    }
                assert_int_equal(found, 1);
                if ((size & (size - 1)) == 0)
                    assert_int_equal(parent ^ rank, 1 << at);
            }
}

/* Where parts meet: on the way to a root every meeting has another first rank of its later part, never 0; and where
 * the size is a power of two, the same parts meet under the same number whatever the root. */
static void meetings_have_numbers(void **state)
{
    (void)state;
    for (int size = 2; size <= 20; size++)
        for (int root = 0; root < size; root++) {
            unsigned met = 0;
            for (int rank = 0; rank < size; rank++) {
                const comm c = {.rank = rank, .size = size};
                if (rank == root)
                    continue;
                const comm up = {.rank = comm_tree_parent(&c, root), .size = size};
                const int number = comm_tree_merge(&up, root, rank), between = up.rank ^ rank;
                assert_true(number > 0 && number < size && !(met >> number & 1));
                met |= 1u << number;
                if ((size & (size - 1)) == 0) /* the half that has the bit in which they differ, from its beginning */
                    assert_true(number == ((rank | up.rank) / between) * between);
            }
        }
}

/* ---- Complete gradients ---------------------------------------------------------------------------------------- */

typedef struct watched {
    const trainer *t;
    float *seen; /* flat, as they were when they were said to be complete */
    int64_t count;
} watched;

static void take_copy(void *context, const tape_value *param)
{
    watched *w = context;
    memcpy(w->seen + param->offset, param->grad, (size_t)param->count * sizeof *w->seen);
    w->count++;
}

/* Every parameter is told of once, and its gradient does not change afterwards. */
static void complete_is_complete(void **state)
{
    static const char *const models[] = {TINY_GPT, TINY_GPT "tied=yes recompute=yes ", TINY_CNN, TINY_MLP};
    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        const config c = tiny(models[k]);
        trainer *t = create(&c);
        watched w = {t, calloc((size_t)t->elements, sizeof *w.seen), 0};
        const tape_run run = {
            .threads = 1, .loss_scale = 1, .seed = 1, .complete = take_copy, .complete_context = &w};
        memset(t->flats[FLAT_GRADS], 0, (size_t)t->elements * sizeof *t->flats[FLAT_GRADS]);
        plan_forward(t->sizes[0].plan, &run);
        plan_backward(t->sizes[0].plan, &run);
        assert_int_equal(w.count, tape_param_count(t->model.tape));
        assert_memory_equal(w.seen, t->flats[FLAT_GRADS], (size_t)t->elements * sizeof *t->flats[FLAT_GRADS]);
        free(w.seen);
        trainer_free(t);
    }
}

/* ---- One rank -------------------------------------------------------------------------------------------------- */

/* The tree is another order of the same sum: the loss is the same up to rounding, and not in all its bits. */
static void deterministic_is_another_order(void **state)
{
    static const char *const settings[] = {"accum=8 ", "accum=6 ", "accum=8 light=yes ", "accum=1 light=yes "};
    (void)state;
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++) {
        double loss[2] = {0, 0};
        for (int tree = 0; tree < 2; tree++) {
            char text[512];
            snprintf(text, sizeof text, TINY_GPT "batch=2 %s deterministic=%d", settings[k], tree);
            const config c = tiny(text);
            trainer *t = create(&c);
            scion_error err;
            for (int i = 0; i < 5; i++)
                OK(tiny_step(t, &loss[tree], &err));
            trainer_free(t);
        }
        near(settings[k], loss[0], loss[1], 1e-4);
    }
}

/* ---- Who started us, and who belongs together ------------------------------------------------------------------ */

static void launchers_are_found(void **state)
{
    static const char *const all[] = {"OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "PMI_SIZE",
                                      "PMI_RANK",
                                      "PMIX_RANK",
                                      "SLURM_STEP_NUM_TASKS",
                                      "SLURM_PROCID",
                                      "SLURM_STEP_TASKS_PER_NODE"};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unsetenv(all[i]);
    launcher l = launcher_find();
    assert_true(!l.name && l.size == 1 && l.rank == 0 && l.local_size == 1);
    setenv("SLURM_PROCID", "0", 1); /* a batch script: no step */
    assert_null(launcher_find().name);
    setenv("SLURM_STEP_NUM_TASKS", "6", 1);
    setenv("SLURM_PROCID", "4", 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", "2(x3)", 1);
    l = launcher_find();
    assert_true(l.size == 6 && l.rank == 4 && l.local_size == 2 && !l.mpi);
    setenv("PMIX_RANK", "4", 1);
    assert_true(launcher_find().mpi);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    l = launcher_find();
    assert_true(l.size == 3 && l.rank == 2 && l.local_size == 1 && l.mpi);
    setenv("OMPI_COMM_WORLD_RANK", "3", 1); /* nonsense: not Open MPI */
    assert_int_equal(launcher_find().size, 6);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unsetenv(all[i]);
}

static void another_mind_is_named(void **state)
{
    const config a = tiny(TINY_GPT), b = tiny(TINY_GPT "lr=0.5"), c = tiny(TINY_GPT "out=elsewhere threads=7");
    char *first = start_text("0.2.0", "avx2", &a), *other = start_text("0.2.0", "avx2", &b);
    char *same = start_text("0.2.0", "avx2", &c), *newer = start_text("0.3.0", "avx2", &a);
    char *wider = start_text("0.2.0", "avx512", &a);
    scion_error err;
    (void)state;
    OK(start_compare(first, first, &err));
    OK(start_compare(first, same, &err));
    assert_int_equal(start_compare(first, other, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "this rank has lr=0.5, rank 0 has lr=0.03125"));
    assert_int_equal(start_compare(first, newer, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "this rank has version=0.3.0, rank 0 has version=0.2.0"));
    assert_int_equal(start_compare(first, wider, &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "this rank has avx512 kernels (SCION_ISA chooses others), rank 0 has avx2"));
    free(first);
    free(other);
    free(same);
    free(newer);
    free(wider);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_has_one_owner), cmocka_unit_test(ranges_are_equal),
        cmocka_unit_test(oracles_are_balanced),      cmocka_unit_test(as_much_travels_as_in_an_all_reduce),
        cmocka_unit_test(shares_make_up_a_step),     cmocka_unit_test(running_statistics_follow_the_micro_batches),
        cmocka_unit_test(trees_reach_all),           cmocka_unit_test(meetings_have_numbers),
        cmocka_unit_test(complete_is_complete),      cmocka_unit_test(deterministic_is_another_order),
        cmocka_unit_test(launchers_are_found),       cmocka_unit_test(another_mind_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
