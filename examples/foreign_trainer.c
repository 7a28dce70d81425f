/* foreign_trainer.c - whose memory is whose: Scion inside a trainer that manages its own.
 *
 * A trainer that exists already has its weights and gradients somewhere: in an arena, a mapped file, memory
 * shared with a device. The optimizer borrows them by pointer and takes all else from the trainer's
 * allocator, once, when it is made. This program plays such a trainer and goes through what it will meet:
 *
 *     1. one arena of weights, one of gradients, an allocator that counts: what costs how many bytes
 *     2. `light`: the average lives in the gradient buffer, 8 bytes per parameter and no state
 *     3. the arena moves to another address (scion_optimizer_bind)
 *     4. a checkpoint through a buffer: the resumed run repeats the first one bit for bit
 *     5. what is refused, and how it says so: a damaged checkpoint, a NaN, no memory
 *
 * Each promise is checked; the exit status is 1 if one is broken. The "network" is three matrices whose loss
 * is their squared distance to a target, which is all that the lesson needs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <scion_advanced.h>

/* ---- The trainer's side: memory and gradients -------------------------------------------------------- */

enum { VOCAB = 1000, DIM = 64, TENSORS = 3 };

static const struct tensor {
    const char *name;
    int64_t rows, cols;
    scion_role role;
    int32_t transposed;
    double radius;
} TENSOR[TENSORS] = {
    {"embedding", VOCAB, DIM, SCION_ROLE_ONEHOT, 1, 1}, /* stored vocabulary x dim */
    {"hidden", DIM, DIM, SCION_ROLE_HIDDEN, 0, 3},
    {"head", VOCAB, DIM, SCION_ROLE_OUTPUT, 0, 10},
};

static int64_t elements(int t)
{
    return TENSOR[t].rows * TENSOR[t].cols;
}

/* Weights of all tensors one after the other, and gradients likewise: two blocks, tensors are views. */
struct arena {
    float *weights, *grads;
    int64_t count;
};

static struct arena arena_create(void)
{
    struct arena a = {NULL, NULL, 0};
    for (int t = 0; t < TENSORS; t++)
        a.count += elements(t);
    a.weights = calloc((size_t)a.count, sizeof *a.weights);
    a.grads = calloc((size_t)a.count, sizeof *a.grads);
    if (!a.weights || !a.grads) {
        fputs("foreign_trainer: out of memory for the arena\n", stderr);
        exit(1);
    }
    return a;
}

static void arena_copy(struct arena *to, const struct arena *from)
{
    memcpy(to->weights, from->weights, (size_t)from->count * sizeof *to->weights);
    memcpy(to->grads, from->grads, (size_t)from->count * sizeof *to->grads);
}

static void arena_free(struct arena *a)
{
    free(a->weights);
    free(a->grads);
}

/* Backpropagation as every trainer does it: the gradient is ADDED. Loss: 1/2 sum of (w - target)^2. */
static double backward(struct arena *a, int64_t step)
{
    double loss = 0;
    for (int64_t i = 0; i < a->count; i++) {
        float noise = 0.1f * sinf((float)(i % 977 + 31 * step)), off = a->weights[i] - cosf((float)(i % 1009));
        a->grads[i] += off + noise;
        loss += (double)off * (double)off / 2;
    }
    return loss;
}

/* The allocator that the library is given: counts, and refuses beyond a limit. Each block is preceded by its
 * size, in 64 bytes so that what follows is aligned at least as well as malloc's. */
struct account {
    size_t in_use, limit;
    int calls;
};

static void *counted_alloc(void *ctx, size_t bytes)
{
    struct account *account = ctx;
    if (bytes > account->limit - account->in_use)
        return NULL;
    unsigned char *block = malloc(bytes + 64);
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    account->in_use += bytes;
    account->calls++;
    return block + 64;
}

static void counted_free(void *ctx, void *memory)
{
    struct account *account = ctx;
    size_t bytes;
    if (!memory)
        return;
    memcpy(&bytes, (unsigned char *)memory - 64, sizeof bytes);
    account->in_use -= bytes;
    free((unsigned char *)memory - 64);
}

/* ---- Where the two meet ------------------------------------------------------------------------------ */

static scion_status make(scion_optimizer **opt, struct arena *a, int light, struct account *account, scion_error *err)
{
    scion_param p[TENSORS];
    int64_t at = 0;
    for (int t = 0; t < TENSORS; at += elements(t++)) {
        scion_param_init(&p[t]);
        p[t].name = TENSOR[t].name;
        p[t].ndim = 2;
        p[t].shape[0] = TENSOR[t].rows;
        p[t].shape[1] = TENSOR[t].cols;
        p[t].weight = a->weights + at;
        p[t].grad = a->grads + at;
        p[t].role = TENSOR[t].role;
        p[t].transposed = TENSOR[t].transposed;
        p[t].radius = TENSOR[t].radius;
    }
    scion_options o;
    scion_options_init(&o, SCION_RULE_SCION);
    o.routing = SCION_ROUTING_ONEHOT;
    o.light = light;
    const scion_allocator counted = {counted_alloc, counted_free, account};
    o.allocator = &counted; /* copied by create */
    return scion_optimizer_create(opt, &o, p, TENSORS, err);
}

/* Steps first..last-1. Returns the loss before the last one. */
static double run(scion_optimizer *opt, struct arena *a, int64_t first, int64_t last)
{
    double loss = 0;
    scion_error err;
    for (int64_t k = first; k < last; k++) {
        scion_optimizer_begin(opt); /* zeroes the gradients; with `light` they are the average and stay */
        loss = backward(a, k);
        if (scion_optimizer_step(opt, 0.02, &err)) {
            fprintf(stderr, "foreign_trainer: %s\n", err.message);
            exit(1);
        }
    }
    return loss;
}

static int broken;

static void check(int holds, const char *promise)
{
    printf("    %-6s %s\n", holds ? "yes" : "BROKEN", promise);
    broken |= !holds;
}

static void die_unless_ok(scion_status status, const scion_error *err)
{
    if (status) {
        fprintf(stderr, "foreign_trainer: %s\n", err->message);
        exit(1);
    }
}

/* 1 and 2: bytes with and without `light`. */
static void show_bytes(struct arena *a)
{
    scion_error err;
    printf("1. bytes, for %lld parameters\n", (long long)a->count);
    printf("    %-8s%10s%12s%10s%12s%24s\n", "", "weights", "gradients", "state", "workspace", "per parameter");
    for (int light = 0; light < 2; light++) {
        struct account account = {0, SIZE_MAX, 0};
        scion_optimizer *opt = NULL;
        die_unless_ok(make(&opt, a, light, &account, &err), &err);
        size_t arena = (size_t)a->count * sizeof(float), state = scion_optimizer_state_bytes(opt);
        printf("    %-8s%10zu%12zu%10zu%12zu%13.2f + workspace\n", light ? "light" : "scion", arena, arena, state,
               scion_optimizer_workspace_bytes(opt), (double)(2 * arena + state) / (double)a->count);
        size_t held = account.in_use;
        int calls = account.calls;
        die_unless_ok(scion_optimizer_init_weights(opt, 7, &err), &err);
        calls = account.calls;
        run(opt, a, 0, 3);
        check(account.calls == calls && account.in_use == held, "a step allocates nothing");
        check(state + scion_optimizer_workspace_bytes(opt) <= held, "state and workspace came from the trainer");
        if (light)
            check(state == 0, "light has no state: weight and gradient are the 8 bytes");
        scion_optimizer_free(opt);
        check(account.in_use == 0, "all of it is given back");
        memset(a->grads, 0, (size_t)a->count * sizeof *a->grads);
    }
}

/* 3: the trainer compacts its memory; the optimizer follows. */
static void move_arena(scion_optimizer *opt, struct arena *a)
{
    struct arena other = arena_create();
    scion_error err;
    arena_copy(&other, a); /* with `light` the gradients carry the average: they move as well */
    int64_t at = 0;
    for (int t = 0; t < TENSORS; at += elements(t++))
        die_unless_ok(scion_optimizer_bind(opt, t, other.weights + at, other.grads + at, NULL, &err), &err);
    arena_free(a);
    *a = other;
}

/* 4: go on from a checkpoint in a fresh optimizer on a fresh arena. `a` is 40 steps old. */
static void checkpoint(scion_optimizer *opt, struct arena *a, struct account *account)
{
    struct arena saved = arena_create();
    scion_optimizer *resumed = NULL;
    scion_error err;
    size_t bytes = scion_optimizer_save_bytes(opt, 0);
    unsigned char *buffer = malloc(bytes);
    if (!buffer)
        exit(1);
    arena_copy(&saved, a); /* weights and, with `light`, gradients are the trainer's to save */
    die_unless_ok(scion_optimizer_save(opt, 0, buffer, bytes, &err), &err);
    printf("4. checkpoint of %zu bytes beside weights and gradients\n", bytes);

    run(opt, a, 40, 60);
    die_unless_ok(make(&resumed, &saved, 1, account, &err), &err);
    buffer[bytes / 2] ^= 1;
    check(scion_optimizer_load(resumed, 0, buffer, bytes, &err) == SCION_ESTATE, "a flipped bit is refused:");
    printf("           \"%s\"\n", err.message);
    buffer[bytes / 2] ^= 1;
    die_unless_ok(scion_optimizer_load(resumed, 0, buffer, bytes, &err), &err);
    check(scion_optimizer_steps(resumed) == 40, "the step count came back");
    run(resumed, &saved, 40, 60);
    check(!memcmp(saved.weights, a->weights, (size_t)a->count * sizeof(float)), "20 steps later, the same bits");
    scion_optimizer_free(resumed);
    arena_free(&saved);
    free(buffer);
}

/* 5: what is refused. */
static void refusals(scion_optimizer *opt, struct arena *a, struct account *account)
{
    scion_error err;
    scion_optimizer *none = NULL;
    size_t bytes = (size_t)a->count * sizeof(float);
    float *before = malloc(bytes);
    if (!before)
        exit(1);
    memcpy(before, a->weights, bytes);
    puts("5. refusals");
    float *bad = a->grads + elements(0) + 5, keep = *bad; /* in "hidden", the second tensor */
    *bad = NAN;
    check(scion_optimizer_step(opt, 0.02, &err) == SCION_ENONFINITE && err.param == 1, "a NaN in a gradient:");
    printf("           \"%s\"\n", err.message);
    check(!memcmp(before, a->weights, bytes) && scion_optimizer_steps(opt) == 60, "nothing was changed");
    *bad = keep;
    check(scion_optimizer_step(opt, 0.02, &err) == SCION_OK, "with the number put right the run goes on");
    account->limit = account->in_use + 1000;
    check(make(&none, a, 0, account, &err) == SCION_ENOMEM && !none, "no memory left:");
    printf("           \"%s\"\n", err.message);
    free(before);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int help = !strcmp(argv[1], "--help");
        fputs("foreign_trainer: Scion in a trainer that owns all memory; takes no arguments\n",
              help ? stdout : stderr);
        return help ? 0 : 2;
    }
    struct arena arena = arena_create();
    struct account account = {0, SIZE_MAX, 0};
    scion_optimizer *opt = NULL;
    scion_error err;
    show_bytes(&arena);

    puts("2. training with light");
    die_unless_ok(make(&opt, &arena, 1, &account, &err), &err);
    die_unless_ok(scion_optimizer_init_weights(opt, 7, &err), &err);
    double first = run(opt, &arena, 0, 1), last = run(opt, &arena, 1, 20);
    printf("    loss %.0f at the first step, %.0f at the 20th\n", first, last);
    check(last < first, "it went down");

    puts("3. the arena moves");
    move_arena(opt, &arena);
    double after = run(opt, &arena, 20, 40);
    printf("    loss %.0f at the 40th\n", after);
    check(after < last, "training went on at the new address");

    checkpoint(opt, &arena, &account);
    refusals(opt, &arena, &account);
    scion_optimizer_free(opt);
    check(account.in_use == 0, "the account is closed at 0 bytes");
    arena_free(&arena);
    return broken;
}
