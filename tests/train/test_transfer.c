/* Transfer, on losses that are synthetic: (log2 lr - optimum(width))^2 + 1, so that what comes out is known. */
#include "tiny.h"

#include "support.h"

#include "tune/transfer.h"

enum { MOST = 400 };

typedef struct table {
    ledger_run runs[MOST];
    int64_t count;
} table;

static ledger_run *add(table *t, const config *c, ledger_state state, double loss)
{
    ledger_run *r = &t->runs[t->count++];
    check(t->count <= MOST);
    *r = (ledger_run){.id = t->count, .kind = LEDGER_TRAINING, .state = state, .c = *c};
    r->result.loss = 100;
    r->result.val_loss = loss;
    r->result.accuracy = NAN;
    return r;
}

/* One run per width and power from `low` to `high` in steps of `by`; the optimum of widths[i] is best[i]. */
static void add_grid(table *t, const config *base, const int *widths, const double *best, int count, int low,
                     int high, int by)
{
    for (int i = 0; i < count; i++)
        for (int k = low; k <= high; k += by) {
            config c = *base;
            config_set_int(&c, "width", widths[i]);
            c.training.lr = ldexp(1, k);
            add(t, &c, LEDGER_DONE, (k - best[i]) * (k - best[i]) + 1);
        }
}

static transfer make(const table *t)
{
    transfer made;
    scion_error err;
    check_ok(transfer_make(&made, t->runs, t->count, &err), &err);
    return made;
}

static bool says(const transfer_group *g, const char *what)
{
    char text[256];
    transfer_sentence(g, text);
    at("%s", text);
    return strstr(text, what) != NULL;
}

/* ---- The formulas -------------------------------------------------------------------------------------- */

static void moved_and_cost_are_what_the_formulas_say(void **state)
{
    static const int widths[] = {512, 64, 256}; /* in any order */
    static const struct {
        double best[3]; /* of 512, 64, 256 */
        int by;
        double moved, cost;
        bool at_edge;
        const char *says;
    } cases[] = {
        {{-5, -5, -5}, 1, 0, 0, false, "moves by 0 steps (2^-5 to 2^-5) from width 64 to 512"},
        {{-6, -5, -5}, 1, -1, 1, false, "falls by 1 step (2^-5 to 2^-6) from width 64 to 512"},
        {{-3, -6, -4}, 1, 3, 9, false, "grows by 3 steps (2^-6 to 2^-3)"},
        {{-4, -6, -20}, 1, 2, 4, true, "a best value lies on the edge"}, /* of the width between */
        {{-10, -4, -4}, 1, -6, 36, true, "edge"},
        {{-6, -4, -4}, 2, -1, 4, false, "falls by 1 step (2^-4 to 2^-6)"}, /* of factor 4 */
        {{-4, -8, -6}, 2, 2, 16, false, "costs 16.0000 there"},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        const config base = tiny(TINY_MLP);
        add_grid(t, &base, widths, cases[i].best, 3, -10, -2, cases[i].by);
        transfer made = make(t);
        at("case %lld", (long long)i);
        check(made.count == 1);
        const transfer_group *g = &made.groups[0];
        check(g->count == 3 && g->widths[0].width == 64 && g->widths[1].width == 256 && g->widths[2].width == 512);
        check(g->widths[0].points[0].lr == 0x1p-10 && g->label[0] == '\0');
        at("case %lld: moved %g cost %g", (long long)i, g->moved, g->cost);
        check(fabs(g->moved - cases[i].moved) < 1e-12 && fabs(g->cost - cases[i].cost) < 1e-12);
        check(g->at_edge == cases[i].at_edge);
        check(says(g, cases[i].says));
        transfer_free(&made);
        check(made.count == 0 && made.groups == NULL);
    }
}

/* ---- Seeds --------------------------------------------------------------------------------------------- */

static void seeds_are_averaged(void **state)
{
    table *t = room(sizeof *t);
    config c = tiny(TINY_MLP "lr=0.5");
    (void)state;
    for (int seed = 1; seed <= 3; seed++) {
        c.training.seed = (uint64_t)seed;
        add(t, &c, LEDGER_DONE, seed * seed)->result.accuracy = 0.1 * seed;
    }
    transfer made = make(t);
    check(made.count == 1 && made.groups[0].count == 1 && made.groups[0].widths[0].count == 1);
    const transfer_point *p = &made.groups[0].widths[0].points[0];
    near("loss", p->loss, 14.0 / 3, 1e-12);
    near("accuracy", p->accuracy, 0.2, 1e-12);
    check(p->low == 1 && p->high == 9 && p->seeds == 3 && p->diverged == 0 && p->failed == 0);
    transfer_free(&made);
}

/* At 2^-3 the loss would be best, but one seed of three diverges there; at 2^-5 one failed, which says nothing. */
static void a_diverged_seed_removes_the_point(void **state)
{
    table *t = room(sizeof *t);
    config c = tiny(TINY_MLP);
    (void)state;
    for (int power = -5; power <= -3; power++)
        for (int seed = 1; seed <= 3; seed++) {
            c.training.lr = ldexp(1, power);
            c.training.seed = (uint64_t)seed;
            const bool odd = seed == 2 && power != -4;
            add(t, &c,
                !odd          ? LEDGER_DONE
                : power == -3 ? LEDGER_DIVERGED
                              : LEDGER_FAILED,
                odd ? NAN : (double)-power);
        }
    transfer made = make(t);
    const transfer_width *w = &made.groups[0].widths[0];
    check(w->count == 3 && w->best == 1 && w->points[1].loss == 4);
    check(w->points[0].loss == 5 && w->points[0].seeds == 2 && w->points[0].failed == 1);
    check(isinf(w->points[2].loss) && w->points[2].seeds == 2 && w->points[2].diverged == 1);
    transfer_free(&made);
}

/* Data without a validation part: the training loss stands in. Runs that have not ended are not looked at. */
static void only_what_has_ended_counts(void **state)
{
    table *t = room(sizeof *t);
    config c = tiny(TINY_MLP "lr=0.5");
    (void)state;
    add(t, &c, LEDGER_WAITING, 1);
    c.training.seed = 2;
    add(t, &c, LEDGER_RUNNING, 1);
    c.training.seed = 3;
    add(t, &c, LEDGER_DONE, 1)->kind = LEDGER_COORD;
    transfer made = make(t);
    check(made.count == 0);
    transfer_free(&made);
    c.training.seed = 4;
    add(t, &c, LEDGER_DONE, NAN);
    made = make(t);
    check(made.count == 1 && made.groups[0].widths[0].points[0].loss == 100);
    check(made.groups[0].widths[0].points[0].seeds == 1 && isnan(made.groups[0].widths[0].points[0].accuracy));
    transfer_free(&made);
    made = (transfer){0};
    check_ok(transfer_make(&made, NULL, 0, NULL), NULL);
    check(made.count == 0);
    transfer_free(&made);
}

/* ---- What cannot be told ------------------------------------------------------------------------------- */

static void one_width_shows_no_transfer(void **state)
{
    static const int widths[] = {64};
    static const double best[] = {-4};
    table *t = room(sizeof *t);
    const config base = tiny(TINY_MLP);
    (void)state;
    add_grid(t, &base, widths, best, 1, -6, -2, 1);
    transfer made = make(t);
    check(isnan(made.groups[0].moved) && isnan(made.groups[0].cost) && !made.groups[0].at_edge);
    check(says(&made.groups[0], "the best lr is 2^-4 at width 64: one width shows no transfer"));
    transfer_free(&made);
}

static void nothing_done_has_no_best(void **state)
{
    table *t = room(sizeof *t);
    config c = tiny(TINY_MLP);
    (void)state;
    for (int i = 0; i < 4; i++) {
        config_set_int(&c, "width", i < 2 ? 64 : 128);
        c.training.lr = ldexp(1, -i % 2);
        add(t, &c, i % 2 ? LEDGER_DIVERGED : LEDGER_FAILED, NAN);
    }
    transfer made = make(t);
    check(made.count == 1 && made.groups[0].count == 2);
    check(made.groups[0].widths[0].best == -1 && isnan(made.groups[0].moved) && isnan(made.groups[0].cost));
    check(says(&made.groups[0], "no run has finished"));
    transfer_free(&made);
}

/* The large model diverges at the small one's best value, failed there, or was not trained there. */
static void the_price_may_be_infinite_or_unknown(void **state)
{
    static const struct {
        ledger_state there; /* WAITING: no run */
        const char *says;
    } cases[] = {{LEDGER_DIVERGED, "at 2^-2 width 128 diverges"},
                 {LEDGER_FAILED, "width 128 was not trained at 2^-2"},
                 {LEDGER_WAITING, "width 128 was not trained at 2^-2"}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        config c = tiny(TINY_MLP);
        for (int width = 64; width <= 128; width += 64)
            for (int power = -4; power <= -2; power++) {
                config_set_int(&c, "width", width);
                c.training.lr = ldexp(1, power);
                const bool there = width == 128 && power == -2;
                if (!there || cases[i].there != LEDGER_WAITING)
                    add(t, &c, there ? cases[i].there : LEDGER_DONE, there ? NAN : (double)-power);
            }
        transfer made = make(t);
        const transfer_group *g = &made.groups[0];
        check(fabs(g->moved + 1) < 1e-12);
        check(i == 0 ? isinf(g->cost) && g->cost > 0 : isnan(g->cost));
        check(says(g, cases[i].says));
        transfer_free(&made);
    }
}

/* ---- Groups and their labels --------------------------------------------------------------------------- */

/* Two widths in each group: groups agree in all but lr, width and seed, and in what no run depends on. */
static void labels_tell_groups_apart_and_no_more(void **state)
{
    static const struct {
        const char *groups[4], *labels[4];
    } cases[] = {
        {{"", "threads=1 eval_every=3 out=x seed=4"}, {""}},
        {{"rule=scion", "rule=uscion"}, {"rule=scion", "rule=uscion"}},
        {{"norms=image", "norms=sign"}, {"norms=image", "norms=sign"}},
        {{"rule=scion batch=8", "rule=uscion batch=16"}, {"rule=scion", "rule=uscion"}}, /* one is enough */
        {{"rule=scion batch=8", "rule=scion batch=16", "rule=uscion batch=8"},
         {"rule=scion batch=8", "rule=scion batch=16", "rule=uscion batch=8"}},
        {{"steps=10 batch=8", "steps=20 batch=8"}, {"steps=10", "steps=20"}},
        {{"data=a_b batch=8", "data=a_b batch=16"}, {"batch=8", "batch=16"}}, /* _ stands for a space here */
        {{"data=a_b batch=8", "data=a_c batch=8"}, {"data=a b", "data=a c"}},
        {{"momentum=0.5", "momentum=0.25"}, {"momentum=0.5", "momentum=0.25"}},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        int64_t labels = 0;
        for (int k = 0; k < 4 && cases[i].groups[k]; k++)
            for (int width = 32; width <= 64; width += 32) {
                char pairs[256];
                snprintf(pairs, sizeof pairs, "%s %s", TINY_MLP, cases[i].groups[k]);
                config c = tiny(pairs);
                for (char *s = c.data.path; *s; s++)
                    *s = *s == '_' ? ' ' : *s;
                config_set_int(&c, "width", width);
                add(t, &c, LEDGER_DONE, 1);
            }
        while (labels < 4 && cases[i].labels[labels])
            labels++;
        transfer made = make(t);
        at("case %lld: %lld groups", (long long)i, (long long)made.count);
        check(made.count == labels);
        for (int64_t k = 0; k < made.count; k++) {
            at("case %lld: \"%s\", expected \"%s\"", (long long)i, made.groups[k].label, cases[i].labels[k]);
            check(strcmp(made.groups[k].label, cases[i].labels[k]) == 0);
        }
        transfer_free(&made);
    }
}

/* However long the values are, labels end in time and differ as long as there is room. */
static void long_values_do_not_break_labels(void **state)
{
    table *t = room(sizeof *t);
    config c = tiny(TINY_MLP "lr=0.5");
    (void)state;
    for (int i = 0; i < 2; i++) {
        memset(c.data.path, 'd', CONFIG_TEXT - 1);
        memset(c.data.val, 'v', CONFIG_TEXT - 1);
        c.training.batch = 8 + i;
        add(t, &c, LEDGER_DONE, 1);
    }
    transfer made = make(t);
    check(made.count == 2);
    at("%s", made.groups[0].label);
    check(strcmp(made.groups[0].label, "batch=8") == 0 && strcmp(made.groups[1].label, "batch=9") == 0);
    transfer_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(moved_and_cost_are_what_the_formulas_say),
        LAW(seeds_are_averaged),
        LAW(a_diverged_seed_removes_the_point),
        LAW(only_what_has_ended_counts),
        LAW(one_width_shows_no_transfer),
        LAW(nothing_done_has_no_best),
        LAW(the_price_may_be_infinite_or_unknown),
        LAW(labels_tell_groups_apart_and_no_more),
        LAW(long_values_do_not_break_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
