/* bench_elementwise.c - the lmos without matrix products and the fused updates, against a copy.
 *
 * They are bound by memory: the measure is the number of bytes that must move, over time, against the
 * bandwidth of a copy of one such matrix. Bytes for each element (float32), of a matrix larger than the cache:
 *
 *     lmo/sign, lmo/rownorm, lmo/colnorm-transposed   read s, write z                            4 + 4 =  8
 *     lmo/colnorm, lmo/rms     a pass for the norms reads s, a pass reads s and writes z   4 + 4 + 4 = 12
 *     update/sign, /rownorm    the check reads g; the update reads g, d, w, writes d, w  4 + 12 +  8 = 24
 *     update/colnorm           as above, and the norms of d are a pass more: d is read again       28
 *     update/scion-light-sign  the check reads G; the update reads G, w, writes G, w     4 +  8 +  8 = 20
 *     update/adamw             the check reads g; the update reads g, m, v, w, writes m, v, w        32
 *
 * The check cannot join the update: a step with a NaN must change nothing. Rows are short enough to stay in
 * the cache between their norm and their scaling; columns, and the matrix as a whole, are not. */
#define _DEFAULT_SOURCE
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The vocabulary of GPT-2, padded; where the last-level cache holds such a matrix, that of Llama 3. */
static const int64_t VOCABULARY = 50304, VOCABULARY_LARGE = 128256, DIM = 768;
static const double CACHES_EXCEEDED = 1.25; /* the matrix is at least so many times the cache */
static const double ARRAYS = 10;            /* the memory must hold so many */

static const double SHARE_BAR = 0.8;
static const double LR = 1e-3;
/* float32, the same formula in another order of operations: a few units in the last place of the largest. */
static const double AGREE = 1e-5;
static const int64_t VERIFY_ROWS = 1031, VERIFY_COLS = 257;

typedef void plain_lmo(const plain_param *p, const float *s, float *z);

typedef struct memory_case {
    const char *name;
    int update; /* an optimizer step, else a call of scion_lmo */
    int light;
    scion_rule rule;
    scion_norm norm;
    scion_role role;
    int transposed;
    double bytes; /* for each element */
    plain_lmo *lmo;
} memory_case;

static const memory_case CASES[] = {
    {"lmo/sign", 0, 0, SCION_RULE_SCION, SCION_NORM_SIGN, SCION_ROLE_OUTPUT, 0, 8, plain_lmo_sign},
    {"lmo/colnorm", 0, 0, SCION_RULE_SCION, SCION_NORM_COL, SCION_ROLE_OUTPUT, 0, 12, plain_lmo_cols},
    {"lmo/colnorm-transposed", 0, 0, SCION_RULE_SCION, SCION_NORM_COL, SCION_ROLE_ONEHOT, 1, 8, plain_lmo_rows},
    {"lmo/rownorm", 0, 0, SCION_RULE_SCION, SCION_NORM_ROW, SCION_ROLE_OUTPUT, 0, 8, plain_lmo_rows},
    {"lmo/rms", 0, 0, SCION_RULE_SCION, SCION_NORM_RMS, SCION_ROLE_VECTOR, 0, 12, plain_lmo_rms},
    {"update/sign", 1, 0, SCION_RULE_SCION, SCION_NORM_SIGN, SCION_ROLE_OUTPUT, 0, 24, plain_lmo_sign},
    {"update/colnorm", 1, 0, SCION_RULE_SCION, SCION_NORM_COL, SCION_ROLE_OUTPUT, 0, 28, plain_lmo_cols},
    {"update/rownorm", 1, 0, SCION_RULE_SCION, SCION_NORM_ROW, SCION_ROLE_OUTPUT, 0, 24, plain_lmo_rows},
    {"update/scion-light-sign", 1, 1, SCION_RULE_SCION, SCION_NORM_SIGN, SCION_ROLE_OUTPUT, 0, 20, plain_lmo_sign},
    {"update/adamw", 1, 0, SCION_RULE_ADAMW, SCION_NORM_AUTO, SCION_ROLE_OUTPUT, 0, 32, NULL},
};
enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

/* Arrays that all rows share. */
typedef struct arena {
    int64_t rows, cols;
    float *w, *g, *z; /* weight, gradient, result */
    float *d, *v;     /* the plain version's state */
} arena;

typedef struct contest {
    const memory_case *c;
    scion_param param;
    scion_options options;
    scion_optimizer *opt;
    bench_recycler recycler;
    scion_allocator allocator;
    plain_param plain;
} contest;

static void arena_create(arena *a, int64_t rows, int64_t cols)
{
    *a = (arena){rows,
                 cols,
                 bench_floats(rows * cols),
                 bench_floats(rows * cols),
                 bench_floats(rows * cols),
                 bench_floats(rows * cols),
                 bench_floats(rows * cols)};
    bench_fill(a->w, rows * cols, 3);
    bench_fill(a->g, rows * cols, 4);
    bench_fill(a->z, rows * cols, 5);
}

static void arena_free(arena *a)
{
    free(a->w);
    free(a->g);
    free(a->z);
    free(a->d);
    free(a->v);
}

/* The factor c of the lmo, by the table in scion.h. */
static double factor_of(const memory_case *c, int64_t rows, int64_t cols)
{
    double out = (double)(c->transposed ? cols : rows), in = (double)(c->transposed ? rows : cols);
    switch (c->norm) {
    case SCION_NORM_SIGN: return 1 / in;
    case SCION_NORM_COL: return c->role == SCION_ROLE_ONEHOT ? sqrt(out) : sqrt(out) / in;
    case SCION_NORM_ROW: return 1 / sqrt(in);
    default: return sqrt(out * in);
    }
}

static void contest_create(contest *t, const bench_options *o, const memory_case *c, const arena *a)
{
    memset(t, 0, sizeof *t);
    t->c = c;
    scion_param *p = &t->param;
    scion_param_init(p);
    p->ndim = 2;
    p->shape[0] = a->rows;
    p->shape[1] = a->cols;
    p->weight = a->w;
    p->grad = a->g;
    p->norm = c->norm;
    p->role = c->role;
    p->transposed = c->transposed;
    scion_options_init(&t->options, c->rule);
    t->options.light = c->light;
    t->options.threads = o->threads;
    t->options.weight_decay = 0;
    if (c->update) {
        scion_error err;
        bench_check(scion_optimizer_create(&t->opt, &t->options, p, 1, &err), &err);
    } else {
        t->allocator = bench_recycler_allocator(&t->recycler);
        t->options.allocator = &t->allocator;
    }
    const scion_options *s = &t->options;
    t->plain = (plain_param){.rows = a->rows,
                             .cols = a->cols,
                             .threads = o->threads,
                             .factor = factor_of(c, a->rows, a->cols),
                             .lr = LR,
                             .alpha = s->momentum,
                             .beta1 = s->beta1,
                             .beta2 = s->beta2,
                             .eps = s->adam_eps,
                             .w = a->w,
                             .g = a->g,
                             .d = a->d,
                             .v = a->v,
                             .z = a->z};
    memset(a->d, 0, (size_t)(a->rows * a->cols) * sizeof(float));
    memset(a->v, 0, (size_t)(a->rows * a->cols) * sizeof(float));
}

static void contest_free(contest *t)
{
    scion_optimizer_free(t->opt);
    bench_recycler_free(&t->recycler);
}

static void run_ours(void *ctx)
{
    contest *t = ctx;
    scion_error err;
    if (t->c->update)
        bench_check(scion_optimizer_step(t->opt, LR, &err), &err);
    else
        bench_check(scion_lmo(&t->param, &t->options, t->plain.g, t->plain.z, &err), &err);
}

static void run_plain(void *ctx)
{
    contest *t = ctx;
    if (!t->c->update)
        t->c->lmo(&t->plain, t->plain.g, t->plain.z);
    else if (!t->c->lmo)
        plain_adamw(&t->plain);
    else if (t->c->light)
        plain_light(&t->plain, t->c->lmo);
    else
        plain_scion(&t->plain, t->c->lmo);
}

/* Two steps (or two calls) of either, from the same start, on a small matrix of awkward size. */
static void verify(const bench_options *o, const memory_case *c)
{
    arena mine, theirs;
    contest *ours = calloc(1, sizeof *ours), *plain = calloc(1, sizeof *plain);
    if (!ours || !plain)
        bench_die("out of memory");
    arena_create(&mine, VERIFY_ROWS, VERIFY_COLS);
    arena_create(&theirs, VERIFY_ROWS, VERIFY_COLS);
    contest_create(ours, o, c, &mine);
    contest_create(plain, o, c, &theirs);
    for (int i = 0; i < 2; i++) {
        run_ours(ours);
        run_plain(plain);
    }
    const float *x = c->update ? mine.w : mine.z, *y = c->update ? theirs.w : theirs.z;
    int64_t count = VERIFY_ROWS * VERIFY_COLS;
    double gap = bench_distance(x, y, 1, count) / bench_max_abs(y, count);
    if (!(gap <= AGREE))
        bench_die("%s: ours and the plain version differ by %.3g of the largest entry, more than %.0e", c->name, gap,
                  AGREE);
    contest_free(ours);
    contest_free(plain);
    arena_free(&mine);
    arena_free(&theirs);
    free(ours);
    free(plain);
}

static void run_case(const bench_options *o, bench_report *r, bench_copy *copy, const memory_case *c, const arena *a)
{
    contest *t = calloc(1, sizeof *t);
    bench_entry *race = calloc(3, sizeof *race);
    if (!t || !race)
        bench_die("out of memory");
    fprintf(stderr, "%s\n", c->name);
    verify(o, c);
    bench_fill(a->w, a->rows * a->cols, 3); /* the last row has changed them */
    bench_fill(a->g, a->rows * a->cols, 4);
    contest_create(t, o, c, a);
    race[0] = (bench_entry){.run = run_ours, .ctx = t};
    race[1] = (bench_entry){.run = bench_copy_run, .ctx = copy};
    race[2] = (bench_entry){.run = run_plain, .ctx = t};
    for (int i = 0; i < 3; i++)
        race[i].run(race[i].ctx); /* first touch of the state: page faults are no guide to the number of rounds */
    bench_race(o, race, 3);
    bench_copy_add(copy, &race[1]);
    bench_row *row = bench_report_add(r, c->name, &race[0], &race[2]);
    row->ruler = BENCH_BY_COPY;
    row->work = 1e-9 * c->bytes * (double)a->rows * (double)a->cols;
    row->share_bar = SHARE_BAR;
    snprintf(row->note, sizeof row->note, "%dx%d, %g bytes per element", (int)a->rows, (int)a->cols, c->bytes);
    contest_free(t);
    free(race);
    free(t);
}

static int64_t choose_vocabulary(void)
{
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = (double)sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    double bytes = 4 * (double)DIM;
    int small_fits = (double)VOCABULARY * bytes < CACHES_EXCEEDED * cache;
    return small_fits && ARRAYS * (double)VOCABULARY_LARGE * bytes < memory ? VOCABULARY_LARGE : VOCABULARY;
}

void bench_elementwise(const bench_options *o, bench_report *r)
{
    int wanted = 0;
    for (int i = 0; i < CASE_COUNT; i++)
        wanted += bench_wanted(o, CASES[i].name);
    if (!wanted)
        return;
    arena a;
    arena_create(&a, choose_vocabulary(), DIM);
    bench_copy *copy = bench_copy_create(o, a.g, a.z, a.rows * a.cols);
    for (int i = 0; i < CASE_COUNT; i++) {
        if (bench_wanted(o, CASES[i].name))
            run_case(o, r, copy, &CASES[i], &a);
    }
    r->copy_gbytes = bench_copy_gbytes(copy);
    bench_copy_free(copy);
    arena_free(&a);
}
