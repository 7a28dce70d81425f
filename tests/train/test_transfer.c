/* Transfer, on losses that are synthetic: (log2 lr - optimum(width))^2 + 1, so that what comes out is known. */
#include "scratch.h"
#include "tiny.h"

#include "support.h"

#include "tune/transfer.h"

enum { MOST = 400 };

typedef struct table {
    ledger_run runs[MOST];
    int64_t count;
} table;

static ledger_run *add(table *t, const config *c, run_state state, double loss)
{
    ledger_run *r = &t->runs[t->count++];
    check(t->count <= MOST);
    *r = (ledger_run){.id = t->count, .kind = LEDGER_TRAINING, .result.state = state, .c = *c};
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
            add(t, &c, RUN_DONE, (k - best[i]) * (k - best[i]) + 1);
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
    char text[TRANSFER_TEXT];
    transfer_sentence(g, text);
    at("%s", text);
    return strstr(text, what) != NULL;
}

/* ---- The formulas -------------------------------------------------------------------------------------- */

/* The largest move between any two widths, wherever the optima lie between the points of the grid; the cost of the
 * smallest width's value at each. */
static void moved_and_cost_are_what_the_formulas_say(void **state)
{
    static const int widths[] = {512, 64, 256}; /* in any order */
    static const struct {
        double best[3]; /* of 512, 64, 256 */
        int by;
        double moved;
        int from, to;
        double cost[2]; /* at 256 and 512 */
        bool at_edge;
        const char *says;
    } cases[] = {
        {{-5, -5, -5},
         1,
         0,
         64,
         512,
         {0, 0},
         false,
         "2^-5.00 at width 64, 2^-5.00 at width 256, 2^-5.00 at width 512; it moves most from width 64 to 512: by "
         "2^0.00"},
        {{-6, -5, -5},
         1,
         -1,
         64,
         512,
         {0, 1},
         false,
         "from width 64 to 512: by 2^-1.00; using width 64's lr (2^-5) costs 0.0000 in loss at width 256, 1.0000 at "
         "width 512"},
        {{-5.4, -5, -5.25}, 1, -0.4, 64, 512, {0, 0}, false, "to 512: by 2^-0.40"},
        {{-3, -6, -4}, 1, 3, 64, 512, {4, 9}, false, "costs 4.0000 in loss at width 256, 9.0000 at width 512"},
        {{-3.9, -4, -6}, 1, 2.1, 256, 512, {4, 0}, false, "from width 256 to 512: by 2^2.10"}, /* and back */
        {{-5, -4, -6}, 1, -2, 64, 256, {4, 1}, false, "from width 64 to 256: by 2^-2.00"},
        {{-4, -6, -20}, 1, 6, 256, 512, {96, 4}, true, "2^-10.00 or less at width 256"},
        {{-6, -4, -4}, 2, -2, 64, 512, {0, 4}, false, "by 2^-2.00"}, /* a grid of factor 4 */
        {{-5, -4, -4}, 2, -1, 64, 512, {0, 0}, false, "by 2^-1.00"}, /* between its points */
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
        at("case %lld: moved %g from %lld to %lld, cost %g, %g", (long long)i, g->moved.value,
           (long long)g->widths[g->from].width, (long long)g->widths[g->to].width, g->widths[1].cost.value,
           g->widths[2].cost.value);
        check(fabs(g->moved.value - cases[i].moved) < 1e-9 && isnan(g->moved.error)); /* one seed */
        check(g->widths[g->from].width == cases[i].from && g->widths[g->to].width == cases[i].to);
        for (int k = 0; k < 2; k++)
            check(fabs(g->widths[k + 1].cost.value - cases[i].cost[k]) < 1e-9);
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
        add(t, &c, RUN_DONE, seed * seed)->result.accuracy = 0.1 * seed;
    }
    transfer made = make(t);
    check(made.count == 1 && made.groups[0].count == 1 && made.groups[0].widths[0].count == 1);
    const transfer_point *p = &made.groups[0].widths[0].points[0];
    near("loss", p->loss, 14.0 / 3, 1e-12);
    near("accuracy", p->accuracy, 0.2, 1e-12);
    check(p->done.low == 1 && p->done.high == 9 && p->done.count == 3 && p->diverged == 0 && p->failed == 0);
    near("deviation", stat_deviation(&p->done), sqrt(49.0 / 3), 1e-12);
    char text[32];
    check(strcmp(transfer_loss_text(p, text), "4.6667(40415)") == 0);
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
            add(t, &c, !odd ? RUN_DONE : power == -3 ? RUN_DIVERGED : RUN_FAILED, odd ? NAN : (double)-power);
        }
    transfer made = make(t);
    const transfer_width *w = &made.groups[0].widths[0];
    check(w->count == 3 && w->best == 1 && w->points[1].loss == 4);
    check(w->points[0].loss == 5 && w->points[0].done.count == 2 && w->points[0].failed == 1);
    check(isinf(w->points[2].loss) && w->points[2].done.count == 2 && w->points[2].diverged == 1);
    transfer_free(&made);
}

/* Each seed has its own optimum: best +- spread; the mean of the vertices counts, and the errors are those of two
 * widths with three seeds each. */
static void the_spread_of_the_best_lr_is_that_of_the_seeds(void **state)
{
    static const int widths[] = {64, 512};
    table *t = room(sizeof *t);
    config base = tiny(TINY_MLP);
    (void)state;
    for (int seed = 0; seed < 3; seed++) {
        const double best[] = {-5 + 0.2 * (seed - 1), -5.5 + 0.1 * (seed - 1)};
        base.training.seed = (uint64_t)seed + 1;
        add_grid(t, &base, widths, best, 2, -10, -2, 1);
    }
    transfer made = make(t);
    const transfer_group *g = &made.groups[0];
    near("best lr", g->widths[0].log2_best.mean, -5, 1e-9);
    near("its deviation", stat_deviation(&g->widths[0].log2_best), 0.2, 1e-9);
    near("its error", transfer_best(g, &g->widths[0]).error, 2.776 * sqrt((0.04 + 0.01) / 2 / 3), 1e-9);
    near("moved", g->moved.value, -0.5, 1e-9);
    near("its error", g->moved.error, 2.776 * sqrt((0.04 + 0.01) / 2 * 2 / 3), 1e-9);
    check(says(g, "by 2^(-0.50 +- 0.36)"));
    transfer_free(&made);
}

/* Kept, failed, undecided: by seeds that agree, seeds that overlap, one seed, and a best value at an edge. */
static void the_move_is_judged_by_its_intervals(void **state)
{
    static const int widths[] = {64, 128, 256};
    static const struct {
        double best[3], spread; /* optimum of each width, and of seeds around it */
        int seeds;
        stat_finding finding;
    } cases[] = {
        {{-5, -5, -5}, 0.05, 3, STAT_KEPT},
        {{-5, -5.5, -5.2}, 0.1, 3, STAT_KEPT},
        {{-5, -5, -7}, 0.1, 3, STAT_FAILED},
        {{-5, -7, -5}, 0.1, 3, STAT_FAILED},      /* the ends agree, the middle does not */
        {{-5, -5.9, -5}, 0.2, 3, STAT_UNDECIDED}, /* seeds overlap the margin, */
        {{-5, -6.2, -5}, 0.4, 3, STAT_UNDECIDED}, /* from both sides */
        {{-5, -5, -5}, 0, 1, STAT_UNDECIDED},     /* one seed */
        {{-5, -5, -8}, 0, 1, STAT_UNDECIDED},
        {{-9.5, -9.6, -9.9}, 0.05, 3, STAT_UNDECIDED}, /* the last lies at the edge: how far beyond? */
        {{-5, -5, -12}, 0.05, 3, STAT_FAILED},         /* beyond the edge is further still */
        {{-12, -12, -12}, 0.05, 3, STAT_UNDECIDED},
        {{-8.5, -8.5, -1}, 0.05, 3, STAT_FAILED},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        config base = tiny(TINY_MLP);
        for (int seed = 0; seed < cases[i].seeds; seed++) {
            double best[3];
            for (int k = 0; k < 3; k++)
                best[k] = cases[i].best[k] + cases[i].spread * ((seed + k) % 3 - 1);
            base.training.seed = (uint64_t)seed + 1;
            add_grid(t, &base, widths, best, 3, -10, -2, 1);
        }
        transfer made = make(t);
        char text[TRANSFER_TEXT];
        transfer_sentence(&made.groups[0], text);
        at("case %lld: %s", (long long)i, text);
        check(transfer_judge(&made.groups[0]).move == cases[i].finding);
        transfer_free(&made);
    }
}

/* Losses of two widths with three seeds: 1 at the best lr, `cost` more at the small width's in the large one, give or
 * take `spread` between seeds and `own` between the costs of seeds. */
typedef struct cost_case {
    double cost, spread, own;
    bool edge_small, edge_large; /* without the runs beyond the best value */
    stat_finding cost_finding, transfer;
} cost_case;

static void add_costs(table *t, const cost_case *k)
{
    config c = tiny(TINY_MLP);
    for (int i = 0; i < 18; i++) {
        const int seed = i % 3, power = i / 3 % 3, large = i / 9;
        const double differs = k->own * (seed - 1);
        /* The parabolas have their vertex near the middle (large: also a little above), so that the move is kept. */
        const double loss[2][3] = {{2, 1, 2}, {3, 1.0 + k->cost + differs, 1}};
        config_set_int(&c, "width", large ? 512 : 64);
        c.training.lr = ldexp(1, power - 5);
        c.training.seed = (uint64_t)seed + 1;
        if (!(power == 2 && !large && k->edge_small))
            add(t, &c, RUN_DONE, loss[large][power] + k->spread * (seed - 1));
        if (large && power == 2 && !k->edge_large) { /* one more, above the best of the large width */
            c.training.lr = ldexp(1, -2);
            add(t, &c, RUN_DONE, 3 + k->spread * (seed - 1));
        }
    }
}

/* The margin is two standard deviations of a loss over the seeds. The best lr moves by less than an octave in all of
 * these: without the cost, all but those at an edge would be kept. */
static void the_cost_decides_too(void **state)
{
    static const cost_case cases[] = {
        {0.02, 0.05, 0.001, false, false, STAT_KEPT, STAT_KEPT},
        {0.19, 0.05, 0.001, false, false, STAT_FAILED, STAT_FAILED},
        {0.09, 0.05, 0.02, false, false, STAT_UNDECIDED, STAT_UNDECIDED},
        {0.19, 0.05, 0.2, false, false, STAT_UNDECIDED, STAT_UNDECIDED},
        {0.02, 0.005, 0.0001, false, false, STAT_FAILED, STAT_FAILED}, /* seeds that agree show a small cost */
        {0.02, 0.05, 0.001, true, false, STAT_UNDECIDED, STAT_UNDECIDED},
        {0.19, 0.05, 0.001, true, false, STAT_UNDECIDED, STAT_UNDECIDED}, /* the small width's lr is not known */
        {0.02, 0.05, 0.001, false, true, STAT_UNDECIDED, STAT_UNDECIDED},
        {0.19, 0.05, 0.001, false, true, STAT_FAILED, STAT_FAILED}, /* beyond the edge it costs more still */
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        add_costs(t, &cases[i]);
        transfer made = make(t);
        const transfer_group *g = &made.groups[0];
        const transfer_judgement j = transfer_judge(g);
        char text[TRANSFER_TEXT], margin[64];
        transfer_sentence(g, text);
        at("case %lld: %s", (long long)i, text);
        near("cost", g->widths[1].cost.value, cases[i].cost, 1e-9);
        near("margin", j.margin, 2 * cases[i].spread, 1e-9);
        check(j.move == (cases[i].edge_small || cases[i].edge_large ? STAT_UNDECIDED : STAT_KEPT));
        check(j.cost == cases[i].cost_finding && j.transfer == cases[i].transfer);
        snprintf(margin, sizeof margin, "transfer: %s (", stat_name(j.transfer));
        check(says(g, margin));
        snprintf(margin, sizeof margin, "cost of at most %.4f in loss: %s)", j.margin, stat_name(j.cost));
        check(says(g, margin));
        transfer_free(&made);
    }
}

/* Losses that fall up to the end of the grid at all widths: nothing moves, nothing costs, and nothing is known. */
static void an_edge_is_open_in_words_json_and_csv(void **state)
{
    static const int widths[] = {32, 64};
    static const double best[] = {0, 0};
    table *t = room(sizeof *t);
    config base = tiny(TINY_MLP);
    scion_error err;
    (void)state;
    for (int seed = 1; seed <= 2; seed++) {
        base.training.seed = (uint64_t)seed;
        add_grid(t, &base, widths, best, 2, -8, -2, 2);
    }
    transfer made = make(t);
    const transfer_group *g = &made.groups[0];
    check(g->moved.value == 0 && g->widths[1].cost.value == 0);
    check(transfer_judge(g).transfer == STAT_UNDECIDED && transfer_move_sign(g) == NULL);
    check(transfer_open(&g->widths[0]) == 2 && strcmp(transfer_open_name(&g->widths[0]), "above") == 0);
    check(says(g,
               "2^-2.00 or more at width 32, 2^-2.00 or more at width 64; a best value lies on the edge of its grid; "
               "how far it moves is not known"));
    check(says(g, "costs at least 0.0000 +- 0.0000 in loss at width 64"));
    check_ok(transfer_save(&made, scratch("edge.json"), &err), &err);
    const char *json = scratch_get(scratch("edge.json"), NULL);
    check(strstr(json, "\"open\": \"above\"") && strstr(json, "\"transfer\": \"undecided\""));
    check_ok(transfer_save_csv(&made, scratch("edge.csv"), &err), &err);
    const char *csv = scratch_get(scratch("edge.csv"), NULL);
    at("%s", csv);
    check(strstr(csv, "group,width,lr,loss,deviation,accuracy,seeds,diverged,failed,best,open\n,32,0.00390625,65,") ==
          csv);
    check(strstr(csv, "\n,32,0.25,5,0,,2,0,0,1,above\n") && strstr(csv, "\n,64,0.25,5,0,,2,0,0,1,above\n"));
    transfer_free(&made);
}

/* Data without a validation part: the training loss stands in. Runs that have not ended are not looked at. */
static void only_what_has_ended_counts(void **state)
{
    table *t = room(sizeof *t);
    config c = tiny(TINY_MLP "lr=0.5");
    (void)state;
    add(t, &c, RUN_WAITING, 1);
    c.training.seed = 2;
    add(t, &c, RUN_RUNNING, 1);
    c.training.seed = 3;
    add(t, &c, RUN_DONE, 1)->kind = LEDGER_COORD;
    transfer made = make(t);
    check(made.count == 0);
    transfer_free(&made);
    c.training.seed = 4;
    add(t, &c, RUN_DONE, NAN);
    made = make(t);
    check(made.count == 1 && made.groups[0].widths[0].points[0].loss == 100);
    check(made.groups[0].widths[0].points[0].done.count == 1 && isnan(made.groups[0].widths[0].points[0].accuracy));
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
    check(isnan(made.groups[0].moved.value) && made.groups[0].widths[0].cost.value == 0 && !made.groups[0].at_edge);
    check(says(&made.groups[0], "2^-4.00 at width 64; one width shows no transfer"));
    check(transfer_judge(&made.groups[0]).transfer == STAT_UNDECIDED);
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
        add(t, &c, i % 2 ? RUN_DIVERGED : RUN_FAILED, NAN);
    }
    transfer made = make(t);
    check(made.count == 1 && made.groups[0].count == 2);
    check(made.groups[0].widths[0].best == -1 && isnan(made.groups[0].moved.value));
    check(isnan(made.groups[0].widths[1].cost.value));
    check(says(&made.groups[0], "no run has finished"));
    transfer_free(&made);
}

/* The large model diverges at the small one's best value, failed there, or was not trained there. */
static void the_price_may_be_infinite_or_unknown(void **state)
{
    static const struct {
        run_state there; /* WAITING: no run */
        const char *says;
    } cases[] = {{RUN_DIVERGED, "using width 64's lr (2^-2) diverges at width 128"},
                 {RUN_FAILED, "using width 64's lr (2^-2) has an unknown cost at width 128"},
                 {RUN_WAITING, "using width 64's lr (2^-2) has an unknown cost at width 128"}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        config c = tiny(TINY_MLP);
        for (int width = 64; width <= 128; width += 64)
            for (int power = -4; power <= -2; power++) {
                config_set_int(&c, "width", width);
                c.training.lr = ldexp(1, power);
                const bool there = width == 128 && power == -2;
                if (!there || cases[i].there != RUN_WAITING)
                    add(t, &c, there ? cases[i].there : RUN_DONE, there ? NAN : (double)-power);
            }
        transfer made = make(t);
        const transfer_group *g = &made.groups[0];
        const double cost = g->widths[1].cost.value;
        check(fabs(g->moved.value + 1) < 1e-12);
        check(i == 0 ? isinf(cost) && cost > 0 : isnan(cost));
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
                add(t, &c, RUN_DONE, 1);
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
        add(t, &c, RUN_DONE, 1);
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
        LAW(the_spread_of_the_best_lr_is_that_of_the_seeds),
        LAW(the_move_is_judged_by_its_intervals),
        LAW(the_cost_decides_too),
        LAW(an_edge_is_open_in_words_json_and_csv),
        LAW(only_what_has_ended_counts),
        LAW(one_width_shows_no_transfer),
        LAW(nothing_done_has_no_best),
        LAW(the_price_may_be_infinite_or_unknown),
        LAW(labels_tell_groups_apart_and_no_more),
        LAW(long_values_do_not_break_labels),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
