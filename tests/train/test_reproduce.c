/* The paper's figures: every grid can be made and is what the figure promises; shorter runs keep their shares; the
 * judges, on ledgers that are synthetic. */
#include "ledger_cases.h"

#include "config/config.h"
#include "reproduce/reproduce.h"
#include "tune/transfer.h"

static config *points_of(const reproduce_figure *f, bool full, int64_t *count)
{
    config *points;
    scion_error err;
    at("%s, full %d", f->name, full);
    check_ok(reproduce_points(f, full, "x.txt", 1, &points, count, &err), &err);
    config *copy = room((size_t)(*count + 1) * sizeof *copy);
    if (*count > 0) /* a figure that is no sweep has none */
        memcpy(copy, points, (size_t)*count * sizeof *copy);
    free(points);
    return copy;
}

/* Distinct values of a number among those runs of `points` that have this rule and these norms. */
static int64_t distinct(const config *points, int64_t count, const config *like, size_t offset, double *low,
                        double *high)
{
    double seen[64];
    int64_t found = 0;
    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(points[i].optimizer.rule, like->optimizer.rule) != 0 ||
            strcmp(points[i].optimizer.norms, like->optimizer.norms) != 0)
            continue;
        const char *from = (const char *)&points[i] + offset;
        const double value = offset == offsetof(config, training.lr) ? *(const double *)(const void *)from
                                                                     : (double)*(const int64_t *)(const void *)from;
        int64_t k = 0;
        while (k < found && seen[k] != value)
            k++;
        if (k == found)
            seen[found++] = value;
        check(found < 64);
        *low = fmin(*low, value);
        *high = fmax(*high, value);
    }
    return found;
}

/* ---- The table ----------------------------------------------------------------------------------------- */

static void every_figure_can_be_made(void **state)
{
    const reproduce_figure *f;
    scion_error err;
    int figures = 0;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++, figures++) {
        at("%s", f->name);
        check(reproduce_find(f->name) == f);
        check(f->title[0] && f->claim[0] && (f->judge != NULL) != (f->make != NULL));
        check(f->size[0] && f->size[1] && (f->make || f->subjects[0]));
        for (int full = 0; full < 2 && f->judge; full++) {
            int64_t count;
            config *points = points_of(f, full, &count);
            check(count > 0);
            for (int64_t k = 0; k < count; k++) {
                check(strcmp(points[k].data.path, "x.txt") == 0);
                check_ok(config_check(&points[k], &err), &err);
            }
        }
    }
    check(figures == 11);
    check(reproduce_find("nonsense") == NULL && reproduce_at(-1) == NULL);
}

/* No configuration twice, or the ledger would have fewer runs than were promised. */
static void no_run_is_there_twice(void **state)
{
    const reproduce_figure *f;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++) {
        ledger *l = open_new(scratch("figure.db"));
        int64_t count, added;
        scion_error err;
        config *points = points_of(f, false, &count);
        check_ok(ledger_add(l, LEDGER_TRAINING, points, count, &added, &err), &err);
        check(added == count);
        ledger_close(l);
    }
}

static void transfer_figures_have_widths_and_rates(void **state)
{
    const reproduce_figure *f;
    int figures = 0;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++) {
        if (f->judge != reproduce_judge_transfer)
            continue;
        figures++;
        for (int full = 0; full < 2; full++) {
            int64_t count, like = 0;
            double low, high;
            config *points = points_of(f, full, &count);
            for (like = 0; like < count; like += 1 + count / 50) {
                at("%s, full %d: %s %s", f->name, full, points[like].optimizer.rule, points[like].optimizer.norms);
                const int64_t widths =
                    distinct(points, count, &points[like], config_find("width")->offset, &low, &high);
                check(widths >= 4 && high >= (full ? 5 : 8) * low); /* NanoGPT: 512 to 2560 */
                const int64_t rates =
                    distinct(points, count, &points[like], offsetof(config, training.lr), &low, &high);
                check(rates >= 7 && high >= 64 * low); /* around a best value that is known roughly */
            }
        }
    }
    check(figures == 5);
}

/* The paper names 64M to 1B parameters and no widths: --full has those of our presets of 64M, 124M, 300M and 1B. */
static void the_full_nanogpt_has_the_widths_of_our_presets(void **state)
{
    static const char *const sizes[] = {"nanogpt-64m", "nanogpt-124m", "nanogpt-300m", "nanogpt-1b"};
    int64_t count;
    config *points = points_of(reproduce_find("gpt-transfer"), true, &count);
    (void)state;
    for (int i = 0; i < 4; i++) {
        config preset;
        scion_error err;
        int64_t with = 0;
        config_init(&preset);
        check_ok(config_preset(&preset, sizes[i], &err), &err);
        for (int64_t k = 0; k < count; k++)
            with += config_int(&points[k], "width") == config_int(&preset, "width");
        at("%s", sizes[i]);
        check(4 * with == count);
    }
}

/* AdamW's best lr is 2^-7.4 at width 32 and 2^-9.7 at 256 of the small form; in larger batches it is near 2^-8.5 at
 * 256, and nearly halves with every doubling up to 4096. Its grid reaches an octave beyond on both sides. */
static void the_grid_of_adamw_holds_its_best_value(void **state)
{
    static const double best[2][2] = {{-9.7, -7.4}, {-12.5, -8.5}};
    (void)state;
    for (int full = 0; full < 2; full++) {
        int64_t count;
        double low = INFINITY, high = 0;
        config *points = points_of(reproduce_find("shallow-gpt-transfer"), full, &count);
        for (int64_t i = 0; i < count; i++)
            if (strcmp(points[i].optimizer.rule, "adamw") == 0) {
                low = fmin(low, points[i].training.lr);
                high = fmax(high, points[i].training.lr);
            }
        at("full %d: 2^%g to 2^%g", full, log2(low), log2(high));
        check(log2(low) <= best[full][0] - 1 && log2(high) >= best[full][1] + 1);
    }
}

static void batches_have_the_same_tokens(void **state)
{
    const reproduce_figure *f = reproduce_find("batch-size");
    (void)state;
    for (int full = 0; full < 2; full++) {
        int64_t count;
        double low = INFINITY, high = 0, tokens = 0;
        config *points = points_of(f, full, &count);
        for (int64_t i = 0; i < count; i++) {
            const double batch = (double)(points[i].training.batch * points[i].training.accum);
            const double all = batch * (double)(points[i].data.block * points[i].training.steps);
            low = fmin(low, batch);
            high = fmax(high, batch);
            tokens = i == 0 ? all : tokens;
            at("full %d, run %lld: batch %g, %g tokens", full, (long long)i, batch, all);
            check(all == tokens);
            if (strcmp(points[i].training.schedule, "constant_linear") != 0)
                continue;
            /* The decay is 2/7 of the steps in all of them, a warm-up 1/20. */
            const scion_schedule s = training_schedule(&points[i].training, points[i].training.steps);
            check(fabs((double)s.decay / (double)s.n - 2.0 / 7) < 0.01);
            if (strcmp(points[i].optimizer.rule, "adamw") == 0)
                check(fabs((double)s.warmup / (double)s.n - 0.05) < 0.02);
            else
                check(s.warmup == 0);
        }
        check(high >= (full ? 12 : 16) * low); /* the paper's own: 512 to 6144 */
    }
}

/* ---- Shorter runs -------------------------------------------------------------------------------------- */

static void shorter_runs_keep_their_shares(void **state)
{
    config c[3] = {tiny(TINY_GPT "schedule=constant_linear steps=1000 warmup=100 decay=300"),
                   tiny(TINY_MLP "steps=0 epochs=20"), tiny(TINY_MLP "steps=3")};
    (void)state;
    reproduce_shorten(c, 3, 0.25);
    check(c[0].training.steps == 250 && c[0].training.warmup.value == 25 && c[0].training.decay.value == 75);
    check(c[1].training.steps == 0 && c[1].training.epochs == 5);
    check(c[2].training.steps == 1); /* no fewer */
}

/* Down to the least share that scion reproduce takes, what is left can be run; a warm-up has one step or more. */
static void shortened_figures_can_be_run(void **state)
{
    const reproduce_figure *f;
    (void)state;
    for (int i = 0; (f = reproduce_at(i)) != NULL; i++)
        for (double factor = 1; factor > 0.05; factor *= 0.7) {
            int64_t count;
            config *points = points_of(f, false, &count);
            reproduce_shorten(points, count, fmax(factor, 0.05));
            for (int64_t k = 0; k < count; k++) {
                scion_error err;
                at("%s, %.3f: %lld steps", f->name, factor, (long long)points[k].training.steps);
                check_ok(config_check(&points[k], &err), &err);
                const int64_t steps = points[k].training.steps > 0 ? points[k].training.steps : 5;
                if (points[k].training.warmup.value > 0)
                    check(training_schedule(&points[k].training, steps).warmup >= 1);
            }
        }
}

/* Seeds follow one another, each with all the runs of the first. */
static void seeds_repeat_the_runs(void **state)
{
    const reproduce_figure *f = reproduce_find("spectral-norms");
    config *points;
    int64_t count, once;
    scion_error err;
    (void)state;
    points_of(f, false, &once);
    check_ok(reproduce_points(f, false, "x.txt", 3, &points, &count, &err), &err);
    check(count == 3 * once);
    for (int64_t i = 0; i < count; i++) {
        config c = points[i];
        check(c.training.seed == points[0].training.seed + (uint64_t)(i / once));
        c.training.seed = points[i % once].training.seed;
        check(memcmp(&c, &points[i % once], sizeof c) == 0);
    }
    free(points);
}

/* Seeds are dropped before runs get shorter than a quarter; what was asked for is kept. */
static void the_budget_decides_on_seeds_and_steps(void **state)
{
    static const struct {
        double seconds, budget;
        int64_t least, most, seeds;
        double share;
    } cases[] = {
        {100, 0, 1, 3, 3, 1},    {100, 300, 1, 3, 3, 1},  {100, 150, 1, 3, 3, 0.5}, {100, 75, 1, 3, 3, 0.25},
        {100, 60, 1, 3, 2, 0.3}, {100, 30, 1, 3, 1, 0.3}, {100, 10, 1, 3, 1, 0.1},  {100, 1, 1, 3, 1, 0.05},
        {100, 30, 3, 3, 3, 0.1}, {100, 1000, 5, 5, 5, 1}, {100, 1, 5, 5, 5, 0.05},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        double share;
        const int64_t seeds =
            reproduce_afford(cases[i].seconds, cases[i].budget, cases[i].least, cases[i].most, &share);
        at("case %lld: %lld seeds, share %g", (long long)i, (long long)seeds, share);
        check(seeds == cases[i].seeds && fabs(share - cases[i].share) < 1e-12);
    }
}

/* ---- Judges -------------------------------------------------------------------------------------------- */

typedef struct table {
    ledger_run runs[1000];
    int64_t count;
} table;

static ledger_run *add(table *t, const char *pairs, double loss)
{
    ledger_run *r = &t->runs[t->count++];
    check(t->count <= COUNT_OF(t->runs));
    *r = (ledger_run){.id = t->count, .result.state = RUN_DONE, .c = tiny(pairs)};
    r->result.loss = r->result.val_loss = loss;
    r->result.accuracy = NAN;
    return r;
}

/* Three seeds, and widths 64, 128 and 512; the optimum of the small ones is 2^-5, that of the large one moved, give
 * or take `spread` between seeds. */
static void add_transfer(table *t, const char *rule, double moved, double spread)
{
    for (int i = 0; i < 9; i++)
        for (int k = -10; k <= 0; k++) {
            const int width = i / 3 == 0 ? 64 : i / 3 == 1 ? 128 : 512;
            const double best = -5 + (width == 512 ? moved : 0) + spread * ((i + i / 3) % 3 - 1);
            ledger_run *r = add(t, TINY_MLP, (k - best) * (k - best));
            config_set_int(&r->c, "width", width);
            r->c.training.lr = ldexp(1, k);
            r->c.training.seed = (uint64_t)(i % 3) + 1;
            strcpy(r->c.optimizer.rule, rule);
        }
}

static reproduce_judgement judged(const table *t, const char *name)
{
    reproduce_judgement j;
    char text[4096] = "";
    reproduce_judge(reproduce_find(name), NULL, t->runs, t->count, 0, &j);
    for (int i = 0; i < j.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s: %s: %.300s | ", stat_name(j.parts[i].finding),
                 j.parts[i].claim, j.parts[i].evidence);
    at("%s: %s", reproduce_verdict_name(reproduce_find(name), reproduce_verdict_of(&j)), text);
    check(j.count > 0 && (t->count == 0 || j.margin[0] != '\0'));
    for (int i = 0; i < j.count; i++)
        check(j.parts[i].claim[0] && j.parts[i].evidence[0]);
    return j;
}

/* The part whose claim begins so. */
static const reproduce_part *part(const reproduce_judgement *j, const char *claim)
{
    for (int i = 0; i < j->count; i++)
        if (strstr(j->parts[i].claim, claim))
            return &j->parts[i];
    fail_msg("no part on %s", claim);
    return NULL;
}

/* Both halves of the claim count: that Scion stays, with a part on the move and one on the cost; and that Muon and
 * AdamW move or cost. Losses are (log2 lr - best)^2: a move by an octave of the grid costs far more than the seeds
 * differ. */
static void transfer_is_judged_part_by_part(void **state)
{
    enum { K = STAT_KEPT, F = STAT_FAILED, U = STAT_UNDECIDED };
    static const struct {
        double scion, uscion, muon, adamw, spread;
        reproduce_verdict verdict;
        int finding[6];
    } cases[] = {
        {0, 0.3, -2, -3, 0.05, REPRODUCE_YES, {K, K, K, K, K, K}},
        {0, 0, -2, 0, 0.05, REPRODUCE_PARTLY, {K, K, K, K, K, F}},
        {2, 0, -2, -3, 0.05, REPRODUCE_PARTLY, {F, F, K, K, K, K}},
        {-2, 2, 0, 0.1, 0.05, REPRODUCE_NO, {F, F, F, F, F, F}},
        {0, 0.6, -2, -3, 0.02, REPRODUCE_PARTLY, {K, K, K, F, K, K}}, /* moves little, and costs 0.2 */
        {0, 0.9, -2, -3, 0.2, REPRODUCE_OPEN, {K, K, U, U, K, K}},
        {0, 0, -0.6, -3, 0.02, REPRODUCE_YES, {K, K, K, K, K, K}}, /* the cost alone shows that it depends */
        {0, 0, -2, -9, 0.05, REPRODUCE_YES, {K, K, K, K, K, K}},   /* beyond the edge */
        {6, 0, -2, -3, 0.05, REPRODUCE_PARTLY, {F, F, K, K, K, K}},
    };
    static const char *const names[] = {"rule=scion: the best lr does not",
                                        "rule=scion: the lr of the smallest width",
                                        "rule=uscion: the best lr does not",
                                        "rule=uscion: the lr of the smallest width",
                                        "rule=muon",
                                        "rule=adamw"};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        add_transfer(t, "scion", cases[i].scion, cases[i].spread);
        add_transfer(t, "uscion", cases[i].uscion, cases[i].spread);
        add_transfer(t, "muon", cases[i].muon, cases[i].spread);
        add_transfer(t, "adamw", cases[i].adamw, cases[i].spread);
        const reproduce_judgement j = judged(t, "gpt-transfer");
        check(reproduce_verdict_of(&j) == cases[i].verdict && j.count == 6);
        for (int k = 0; k < 6; k++)
            check((int)part(&j, names[k])->finding == cases[i].finding[k]);
        check(strstr(j.runs, "396 runs, 3 seeds") == j.runs && strstr(j.margin, "factor of two") != NULL);
        check(strstr(j.margin, "two standard deviations") != NULL);
        check(strstr(part(&j, "rule=adamw")->claim, "depends on the width") != NULL);
    }
}

/* scion sweep show, reports and scion reproduce: one judgement of one group. */
static void a_sweep_is_judged_as_a_figure_is(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        table *t = room(sizeof *t);
        transfer made;
        scion_error err;
        add_transfer(t, "scion", 0.3 * i - 1, 0.05);
        const reproduce_judgement j = judged(t, "cnn-transfer");
        check_ok(transfer_make(&made, t->runs, t->count, &err), &err);
        const transfer_judgement found = transfer_judge(&made.groups[0]);
        check(j.count == 2 && j.parts[0].finding == found.move && j.parts[1].finding == found.cost);
        check((reproduce_verdict_of(&j) == REPRODUCE_YES) == (found.transfer == STAT_KEPT));
        char sentence[TRANSFER_TEXT];
        transfer_sentence(&made.groups[0], sentence);
        check(strstr(sentence, j.parts[0].evidence) == sentence && strstr(sentence, j.parts[1].evidence));
        transfer_free(&made);
    }
}

/* A half-done grid: what is there, of what was planned. A width that was not trained above some lr is open; it has
 * not moved. */
static void what_has_not_run_is_open(void **state)
{
    table *t = room(sizeof *t);
    (void)state;
    add_transfer(t, "scion", 0, 0.05);
    for (int64_t i = 0; i < t->count; i++) {
        const config *c = &t->runs[i].c;
        if (c->training.seed == 3 || (config_int(c, "width") == 512 && c->training.lr > 0x1p-7))
            t->runs[i].result.state = RUN_WAITING;
        t->runs[i].result.steps = 12;
    }
    const reproduce_judgement j = judged(t, "mlp-transfer");
    check(strcmp(j.runs, "52 of 99 runs, 2 of 3 seeds, 12 steps each") == 0);
    check(j.parts[0].finding == STAT_UNDECIDED && j.parts[1].finding == STAT_UNDECIDED);
    check(strstr(j.parts[0].evidence, "2^-7.00 or more at width 512") != NULL);
    check(strstr(j.parts[0].evidence, "how far it moves is not known") != NULL);
}

/* Rules outside a figure's claim are mentioned and not judged; missing ones are undecided. */
static void transfer_judges_what_is_claimed(void **state)
{
    table *t = room(sizeof *t);
    (void)state;
    check(reproduce_verdict_of(&(reproduce_judgement){.count = 0}) == REPRODUCE_OPEN);
    reproduce_judgement j = judged(t, "gpt-transfer");
    check(j.count == 4 && reproduce_verdict_of(&j) == REPRODUCE_OPEN);
    add_transfer(t, "scion", 0, 0.05);
    j = judged(t, "shallow-gpt-transfer");
    check(j.count == 3 && reproduce_verdict_of(&j) == REPRODUCE_OPEN &&
          part(&j, "uscion")->finding == STAT_UNDECIDED);
    add_transfer(t, "uscion", 0, 0.05);
    add_transfer(t, "adamw", -3, 0.05);
    j = judged(t, "shallow-gpt-transfer");
    check(j.count == 4 && reproduce_verdict_of(&j) == REPRODUCE_YES && strstr(j.aside, "rule=adamw") != NULL);
    reproduce_judge(reproduce_find("shallow-gpt-transfer"), NULL, t->runs, t->count, 1, &j); /* a run is left */
    check(reproduce_verdict_of(&j) == REPRODUCE_OPEN);
    t->count = 11; /* one seed, one width: neither for nor against */
    j = judged(t, "mlp-transfer");
    check(j.count == 2 && reproduce_verdict_of(&j) == REPRODUCE_OPEN);
}

/* Three seeds at each of two batches and three step sizes, the middle one the best; the loss at batch 4 is 1, that at
 * 64 is 1 + rise, give or take `spread` between seeds. */
static void add_batches(table *t, const char *rule, double rise, double spread)
{
    for (int i = 0; i < 18; i++) {
        const int seed = i % 3, lr = i / 3 % 3 - 1, large = i / 9;
        ledger_run *r = add(t, TINY_MLP, 1 + large * rise + lr * lr + spread * ((seed + large) % 3 - 1));
        r->c.training.batch = large ? 8 : 4;
        r->c.training.accum = large ? 8 : 1;
        r->c.training.lr = ldexp(1, lr);
        r->c.training.seed = (uint64_t)seed + 1;
        strcpy(r->c.optimizer.rule, rule);
    }
}

static void batches_are_judged_by_the_rise(void **state)
{
    static const struct {
        double muon, adamw, spread;
        reproduce_verdict verdict;
    } cases[] = {{0.3, 0.4, 0.005, REPRODUCE_YES},    {0.1, 0.4, 0.005, REPRODUCE_PARTLY},
                 {0.3, 0.1, 0.005, REPRODUCE_PARTLY}, {0.1, 0.1, 0.005, REPRODUCE_NO},
                 {0.21, 0.4, 0.05, REPRODUCE_OPEN},   {0.19, 0.4, 0.05, REPRODUCE_OPEN},
                 {0.19, 0.18, 0.05, REPRODUCE_OPEN}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        add_batches(t, "scion", 0.2, cases[i].spread);
        reproduce_judgement j = judged(t, "batch-size");
        check(reproduce_verdict_of(&j) == REPRODUCE_OPEN);
        add_batches(t, "muon", cases[i].muon, cases[i].spread);
        add_batches(t, "adamw", cases[i].adamw, cases[i].spread);
        j = judged(t, "batch-size");
        check(reproduce_verdict_of(&j) == cases[i].verdict && j.count == 2);
        check(strstr(j.margin, "from batches of 4 to 64") != NULL);
        check(strstr(part(&j, "muon")->evidence, "scion 1.0000 to 1.2000 (+0.2000)") != NULL);
        for (int64_t k = 0; k < t->count; k++) /* a rival that has not come to an end decides nothing */
            if (strcmp(t->runs[k].c.optimizer.rule, "adamw") == 0)
                t->runs[k].result.state = RUN_WAITING;
        j = judged(t, "batch-size");
        check(part(&j, "adamw")->finding == STAT_UNDECIDED && reproduce_verdict_of(&j) != REPRODUCE_YES);
    }
    table *t = room(sizeof *t);
    const reproduce_judgement j = judged(t, "batch-size");
    check(reproduce_verdict_of(&j) == REPRODUCE_OPEN);
}

/* A best value at the edge of its grid may hide a lower loss: that can only help the side on which it lies. */
static void an_edge_leaves_the_rise_open(void **state)
{
    static const struct {
        const char *rule;
        int large;
        stat_finding finding; /* of the claim against Muon */
    } cases[] = {
        {"scion", 1, STAT_KEPT}, {"scion", 0, STAT_UNDECIDED}, {"muon", 0, STAT_KEPT}, {"muon", 1, STAT_UNDECIDED}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        table *t = room(sizeof *t);
        add_batches(t, "scion", 0.2, 0.005);
        add_batches(t, "muon", 0.4, 0.005);
        add_batches(t, "adamw", 0.4, 0.005);
        for (int64_t k = 0; k < t->count; k++) { /* without the runs of the smallest lr, the best is at the edge */
            const config *c = &t->runs[k].c;
            if (strcmp(c->optimizer.rule, cases[i].rule) == 0 && (c->training.accum == 8) == cases[i].large &&
                c->training.lr == 0.5)
                t->runs[k].result.state = RUN_WAITING;
        }
        const reproduce_judgement j = judged(t, "batch-size");
        check(part(&j, "muon")->finding == cases[i].finding);
        check(strstr(part(&j, "muon")->evidence, "edge") != NULL);
    }
}

/* Overshoot of the norms that add_norms adds, and the first norm of a third parameter over its bound. */
static double overshoot = 1.21, early = 0.9;

/* A run in a ledger, with two parameters whose last norms are `norm` and whose bounds are `bound`. */
static void add_norms(ledger *l, const char *rule, int64_t steps, int seed, double norm, double bound)
{
    run_norm norms[] = {{1, "a", 0.01, bound, overshoot, NAN},
                        {1, "c", early * bound, bound, overshoot, NAN},
                        {steps, "a", norm, bound, overshoot, NAN},
                        {steps, "b", norm / 2, bound, overshoot, NAN}};
    const run_curves curves = {.norms = norms, .norm_count = 4};
    config c = tiny(TINY_MLP);
    ledger_run run;
    bool found, lost;
    scion_error err;
    c.training.steps = steps;
    c.training.seed = (uint64_t)seed;
    strcpy(c.optimizer.rule, rule);
    check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
    check_ok(ledger_take(l, &run, &found, &err), &err);
    check(found);
    run.result.state = RUN_DONE;
    run.result.steps = steps;
    run.result.loss = run.result.val_loss = 1;
    check_ok(ledger_finish(l, &run, &curves, &lost, &err), &err);
    check(!lost);
}

static reproduce_judgement judged_by_norms(ledger *l, const reproduce_figure *f)
{
    reproduce_judgement j;
    ledger_run *runs;
    int64_t count;
    scion_error err;
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    reproduce_judge(f, l, runs, count, 0, &j);
    free(runs);
    at("%s: %s: %s | %s: %s", reproduce_verdict_name(f, reproduce_verdict_of(&j)), j.parts[0].claim,
       j.parts[0].evidence, j.parts[1].claim, j.parts[1].evidence);
    check(j.count >= 2 && j.parts[0].evidence[0] && j.parts[1].evidence[0] && j.margin[0]);
    return j;
}

static reproduce_verdict spectral_verdict(ledger *l)
{
    const reproduce_judgement j = judged_by_norms(l, reproduce_find("spectral-norms"));
    return reproduce_verdict_of(&j);
}

static void norms_are_judged_by_bounds_and_size(void **state)
{
    static const struct {
        double scion, uscion, spread; /* the larger seed has uscion times spread */
        reproduce_verdict verdict;
    } cases[] = {{1.0, 2, 1.01, REPRODUCE_YES},      {1.2, 2, 1.01, REPRODUCE_YES},  {1.5, 2, 1.01, REPRODUCE_PARTLY},
                 {1.0, 0.5, 1.01, REPRODUCE_PARTLY}, {1.5, 0.5, 1.01, REPRODUCE_NO}, {1.0, 1.1, 1.2, REPRODUCE_OPEN}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        ledger *l = open_new(scratch("norms.db"));
        check(spectral_verdict(l) == REPRODUCE_OPEN);
        add_norms(l, "scion", 10, 1, cases[i].scion, 1);
        check(spectral_verdict(l) != REPRODUCE_YES);
        add_norms(l, "uscion", 10, 1, cases[i].uscion, NAN);
        add_norms(l, "adamw", 10, 1, 50, NAN);
        check(spectral_verdict(l) != REPRODUCE_YES); /* one seed */
        add_norms(l, "scion", 10, 2, cases[i].scion, 1);
        add_norms(l, "uscion", 10, 2, cases[i].uscion * cases[i].spread, NAN);
        check(spectral_verdict(l) == cases[i].verdict);
        ledger_close(l);
    }
}

/* A bound may be exceeded by the overshoot that the run measured; in a ledger of 0.2, which does not know it, a norm
 * beyond its bound decides nothing. */
static void bounds_are_judged_by_the_overshoot(void **state)
{
    static const struct {
        double norm, overshoot;
        stat_finding finding;
    } cases[] = {{1.2, 1.21, STAT_KEPT}, {1.22, 1.21, STAT_FAILED},  {1.005, 1.01, STAT_KEPT}, {1.0005, 1, STAT_KEPT},
                 {1.2, 1, STAT_FAILED},  {1.2, NAN, STAT_UNDECIDED}, {0.9, NAN, STAT_KEPT}};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        ledger *l = open_new(scratch("bounds.db"));
        overshoot = cases[i].overshoot;
        add_norms(l, "scion", 10, 1, cases[i].norm, 1);
        overshoot = 1.21;
        const reproduce_judgement j = judged_by_norms(l, reproduce_find("spectral-norms"));
        check(part(&j, "stay within")->finding == cases[i].finding);
        ledger_close(l);
    }
}

/* Every layer counts, at every measurement: a norm beyond its bound in the first step, of a layer whose growth the
 * figure does not look at. */
static void bounds_hold_in_all_layers_at_all_measurements(void **state)
{
    static const char *const figures[] = {"spectral-norms", "cnn-epochs"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        ledger *l = open_new(scratch("early.db"));
        early = i % 2 ? 1.5 : 1.1;
        add_norms(l, "scion", 10, 1, 0.5, 1);
        early = 0.9;
        const reproduce_judgement j = judged_by_norms(l, reproduce_find(figures[i / 2]));
        const reproduce_part *p = part(&j, "stay within");
        check(p->finding == (i % 2 ? STAT_FAILED : STAT_KEPT));
        check(strstr(p->evidence, i % 2 ? "is 1.500 of its bound" : "is 1.100 of its bound") != NULL);
        check(strstr(p->evidence, "counts the start") != NULL);
        ledger_close(l);
    }
}

/* cnn-epochs, with the norms of all weights. */
static reproduce_figure epochs_figure(void)
{
    reproduce_figure f = *reproduce_find("cnn-epochs");
    f.weights = NULL;
    return f;
}

static void epochs_are_judged_by_the_slope(void **state)
{
    static const struct {
        double scion, slope, spread; /* of the slopes of two seeds */
        stat_finding growth, bounds;
    } cases[] = {{1.0, 0.5, 0.01, STAT_KEPT, STAT_KEPT},       {1.0, 0.6, 0.01, STAT_KEPT, STAT_KEPT},
                 {1.0, 1, 0.01, STAT_FAILED, STAT_KEPT},       {1.0, 0.1, 0.01, STAT_FAILED, STAT_KEPT},
                 {2.0, 0.5, 0.01, STAT_KEPT, STAT_FAILED},     {2.0, 1, 0.01, STAT_FAILED, STAT_FAILED},
                 {1.0, 0.65, 0.05, STAT_UNDECIDED, STAT_KEPT}, {1.0, 0.75, 0.05, STAT_UNDECIDED, STAT_KEPT}};
    const reproduce_figure f = epochs_figure();
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        ledger *l = open_new(scratch("epochs.db"));
        for (int k = 0; k < 8; k++) {
            const int seed = k / 4, steps = 10 << k % 4;
            const reproduce_judgement before = judged_by_norms(l, &f);
            check(k > 6 || part(&before, "square root")->finding == STAT_UNDECIDED); /* three points of two seeds */
            /* the worst of them decides */
            add_norms(l, "scion", steps, seed, k == 2 ? cases[i].scion : 1, 1);
            add_norms(l, "uscion", steps, seed, 7 * pow(steps, cases[i].slope + (seed - 0.5) * cases[i].spread), NAN);
        }
        const reproduce_judgement j = judged_by_norms(l, &f);
        check(part(&j, "square root")->finding == cases[i].growth);
        check(part(&j, "stay within")->finding == cases[i].bounds);
        ledger_close(l);
    }
}

/* The growth is that at one step size, the best one of the longest runs, of the weights that the figure names: other
 * step sizes, and "b", have norms that do not grow. */
static void growth_is_that_of_one_step_size(void **state)
{
    const reproduce_figure all = epochs_figure();
    reproduce_figure only = all;
    ledger *l = open_new(scratch("growth.db"));
    reproduce_judgement j;
    ledger_run *runs;
    int64_t count;
    scion_error err;
    (void)state;
    for (int k = 0; k < 2 * 2 * 3; k++) {
        const int seed = k / 6, second = k / 3 % 2, steps = (10 << k % 3) + second;
        add_norms(l, "uscion", steps, seed, second ? 1 : pow(steps, 0.5 + (seed - 0.5) * 0.01), NAN);
    }
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    for (int64_t i = 0; i < count; i++) { /* the better step size has the root, and its longest runs are longer */
        runs[i].c.training.lr = runs[i].result.steps % 2 ? 0.5 : 0.25;
        runs[i].c.training.steps = runs[i].result.steps / 2 * 2;
        runs[i].result.val_loss = runs[i].c.training.lr;
    }
    reproduce_judge(&all, l, runs, count, 0, &j);
    at("%s", part(&j, "square root")->evidence);
    check(part(&j, "square root")->finding == STAT_KEPT);
    check(strstr(part(&j, "square root")->evidence, "at lr 2^-2") != NULL);
    for (int64_t i = 0; i < count; i++)
        runs[i].result.val_loss = -runs[i].c.training.lr;
    reproduce_judge(&all, l, runs, count, 0, &j);
    check(part(&j, "square root")->finding == STAT_FAILED);
    only.weights = "no such weight";
    reproduce_judge(&only, l, runs, count, 0, &j);
    check(part(&j, "square root")->finding == STAT_UNDECIDED);
    free(runs);
    ledger_close(l);
}

/* Three seeds of a rule at three step sizes, for one and for two epochs; the middle step size is the best, with this
 * loss in the longer runs, give or take `spread`. */
static void add_lengths(table *t, const char *rule, double loss, double spread)
{
    for (int i = 0; i < 18; i++) {
        const int seed = i % 3, lr = i / 3 % 3 - 1, longer = i / 9;
        ledger_run *r = add(t, TINY_MLP "epochs=1 steps=0", (longer ? loss : 9) + lr * lr + spread * (seed - 1));
        r->c.training.epochs = 1 + longer;
        r->c.training.lr = ldexp(1, lr);
        r->c.training.seed = (uint64_t)seed + 1;
        strcpy(r->c.optimizer.rule, rule);
    }
}

/* By the difference in the longest runs, each at its best lr; an edge may hide a lower loss of its own rule. */
static void the_better_rule_is_judged_by_its_best_loss(void **state)
{
    static const struct {
        double rival, spread;
        const char *edge; /* the rule without the smallest step size */
        stat_finding finding;
    } cases[] = {
        {1.3, 0.01, "", STAT_KEPT},
        {0.7, 0.01, "", STAT_FAILED},
        {1.05, 0.1, "", STAT_UNDECIDED},
        {0.95, 0.1, "", STAT_UNDECIDED},
        {1.3, 0.01, "scion", STAT_KEPT},
        {0.7, 0.01, "scion", STAT_UNDECIDED},
        {1.3, 0.01, "uscion", STAT_UNDECIDED},
        {0.7, 0.01, "uscion", STAT_FAILED},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        ledger *l = open_new(scratch("lengths.db"));
        table *t = room(sizeof *t);
        reproduce_judgement j;
        add_lengths(t, "scion", 1, cases[i].spread);
        reproduce_judge(reproduce_find("cnn-epochs"), l, t->runs, t->count, 0, &j);
        check(part(&j, "lower loss")->finding == STAT_UNDECIDED); /* nobody to compare with */
        add_lengths(t, "uscion", cases[i].rival, cases[i].spread);
        for (int64_t k = 0; k < t->count; k++)
            if (strcmp(t->runs[k].c.optimizer.rule, cases[i].edge) == 0 && t->runs[k].c.training.lr == 0.5)
                t->runs[k].result.state = RUN_WAITING;
        reproduce_judge(reproduce_find("cnn-epochs"), l, t->runs, t->count, 0, &j);
        const reproduce_part *p = part(&j, "scion ends with a lower loss than uscion in the longest runs");
        at("case %lld: %s: %s", (long long)i, stat_name(p->finding), p->evidence);
        check(j.count == 3 && p->finding == cases[i].finding);
        check((strstr(p->evidence, "edge") != NULL) == (cases[i].edge[0] != '\0'));
        check(strstr(p->evidence, "scion 1.00") != NULL);
        check(cases[i].edge[0] || strstr(j.aside, "scion: best lr 2^0.00 for 1 epochs, 2^0.00 for 2 epochs") != NULL);
        ledger_close(l);
    }
}

/* vit asks a question that the paper does not: its answer is not called a reproduction. */
static void the_better_rule_is_the_question_of_vit(void **state)
{
    const reproduce_figure *f = reproduce_find("vit");
    (void)state;
    check(strstr(f->claim, "our own question, not the paper's claim: ") == f->claim);
    check(strstr(f->size[0], "stand-in: ") == f->size[0] && strstr(f->size[1], "stand-in: ") == f->size[1]);
    for (int kept = 0; kept < 2; kept++) {
        ledger *l = open_new(scratch("vit.db"));
        table *t = room(sizeof *t);
        reproduce_judgement j;
        add_lengths(t, "scion", 1, 0.01);
        add_lengths(t, "adamw", kept ? 1.3 : 0.7, 0.01);
        reproduce_judge(f, l, t->runs, t->count, 0, &j);
        at("%s", j.parts[0].evidence);
        check(j.count == 1 && j.parts[0].finding == (kept ? STAT_KEPT : STAT_FAILED));
        check(!strstr(reproduce_verdict_name(f, reproduce_verdict_of(&j)), "reproduced"));
        ledger_close(l);
    }
}

static void verdicts_have_names(void **state)
{
    static const char *const names[2][4] = {{"reproduced", "partly reproduced", "not reproduced", "undecided"},
                                            {"answered yes", "answered in part", "answered no", "undecided"}};
    static const reproduce_verdict verdicts[] = {REPRODUCE_YES, REPRODUCE_PARTLY, REPRODUCE_NO, REPRODUCE_OPEN};
    (void)state;
    for (int own = 0; own < 2; own++)
        for (int i = 0; i < 4; i++)
            check(strcmp(reproduce_verdict_name(&(reproduce_figure){.own = own}, verdicts[i]), names[own][i]) == 0);
}

/* The presets of the repository, two folders above this file. */
static int find_presets(void **state)
{
    char path[sizeof __FILE__ + 16];
    (void)state;
    snprintf(path, sizeof path, "%s", __FILE__);
    char *end = strstr(path, "tests/train/test_reproduce.c");
    if (!end)
        return -1;
    strcpy(end, "presets");
    return setenv("SCION_PRESETS", path, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(every_figure_can_be_made),
        LAW(no_run_is_there_twice),
        LAW(transfer_figures_have_widths_and_rates),
        LAW(the_full_nanogpt_has_the_widths_of_our_presets),
        LAW(the_grid_of_adamw_holds_its_best_value),
        LAW(batches_have_the_same_tokens),
        LAW(shorter_runs_keep_their_shares),
        LAW(shortened_figures_can_be_run),
        LAW(seeds_repeat_the_runs),
        LAW(the_budget_decides_on_seeds_and_steps),
        LAW(transfer_is_judged_part_by_part),
        LAW(a_sweep_is_judged_as_a_figure_is),
        LAW(what_has_not_run_is_open),
        LAW(transfer_judges_what_is_claimed),
        LAW(an_edge_leaves_the_rise_open),
        LAW(batches_are_judged_by_the_rise),
        LAW(norms_are_judged_by_bounds_and_size),
        LAW(bounds_are_judged_by_the_overshoot),
        LAW(bounds_hold_in_all_layers_at_all_measurements),
        LAW(epochs_are_judged_by_the_slope),
        LAW(growth_is_that_of_one_step_size),
        LAW(the_better_rule_is_judged_by_its_best_loss),
        LAW(the_better_rule_is_the_question_of_vit),
        LAW(verdicts_have_names),
    };
    return cmocka_run_group_tests(tests, find_presets, scratch_remove);
}
