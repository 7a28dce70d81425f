/* Judges the paper's claims by the runs of a figure, part by part. Each part names its deciding numbers, and each
 * judgement its margin. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "reproduce/reproduce.h"
#include "tune/transfer.h"
#include "util/utf8.h"

/* Exponents that count as a square root: norms begin at the boundary, not at zero. */
static const double root_low = 0.3, root_high = 0.7;

/* Norms are sums of float32, good to about 1e-4. */
static const double rounding = 1e-3;

#define ERRORS "+- is half of a 95% interval over the seeds"

/* ---- Judgements ----------------------------------------------------------------------------------------------- */

const char *reproduce_verdict_name(const reproduce_figure *f, reproduce_verdict v)
{
    static const char *const names[2][4] = {{"reproduced", "partly reproduced", "not reproduced", "undecided"},
                                            {"answered yes", "answered in part", "answered no", "undecided"}};
    return names[f->own][v];
}

reproduce_verdict reproduce_verdict_of(const reproduce_judgement *j)
{
    int found[3] = {0};
    for (int i = 0; i < j->count; i++)
        found[j->parts[i].finding]++;
    if (j->incomplete || j->count == 0 || (found[STAT_FAILED] == 0 && found[STAT_UNDECIDED] > 0))
        return REPRODUCE_OPEN;
    if (found[STAT_FAILED] == 0)
        return REPRODUCE_YES;
    return found[STAT_KEPT] > 0 ? REPRODUCE_PARTLY : REPRODUCE_NO;
}

reproduce_part *reproduce_add(reproduce_judgement *j, stat_finding finding, const char *format, ...)
{
    reproduce_part *p = &j->parts[j->count < REPRODUCE_PARTS ? j->count++ : REPRODUCE_PARTS - 1];
    va_list arguments;
    *p = (reproduce_part){.finding = finding};
    va_start(arguments, format);
    vsnprintf(p->claim, sizeof p->claim, format, arguments);
    va_end(arguments);
    return p;
}

/* Adds to the numbers that decide a part; to those that the claim says nothing about. */
#define EVIDENCE(p, ...) utf8_append((p)->evidence, REPRODUCE_TEXT, __VA_ARGS__)
#define ASIDE(j, ...) utf8_append((j)->aside, REPRODUCE_TEXT, __VA_ARGS__)

static bool has_rule(const char *const *rules, const config *c)
{
    for (; *rules; rules++)
        if (strcmp(*rules, c->optimizer.rule) == 0)
            return true;
    return false;
}

static bool has_ended(const ledger_run *r)
{
    return r->result.state == RUN_DONE || r->result.state == RUN_DIVERGED;
}

/* Seeds of all runs, or of those that have ended. */
static int64_t count_seeds(const ledger_run *runs, int64_t count, bool ended)
{
    int64_t seeds = 0;
    for (int64_t i = 0; i < count; i++) {
        bool known = ended && !has_ended(&runs[i]);
        for (int64_t k = 0; k < i && !known; k++)
            known = (!ended || has_ended(&runs[k])) && runs[k].c.training.seed == runs[i].c.training.seed;
        seeds += !known;
    }
    return seeds;
}

/* "3", or "1 of 3" where not all are there. */
static void count_text(int64_t there, int64_t all, const char *what, char *text, size_t bytes)
{
    utf8_append(text, bytes, "%lld", (long long)there);
    if (there < all)
        utf8_append(text, bytes, " of %lld", (long long)all);
    utf8_append(text, bytes, " %s%s", what, all == 1 ? "" : "s");
}

/* Writes how many runs, seeds and steps the judgement rests on. */
static void count_runs(const ledger_run *runs, int64_t count, char *text, size_t bytes)
{
    int64_t ended = 0, low = INT64_MAX, high = 0;
    for (int64_t i = 0; i < count; i++) {
        const run_result *r = &runs[i].result;
        ended += has_ended(&runs[i]);
        if (r->state == RUN_DONE && r->steps > 0) {
            low = r->steps < low ? r->steps : low;
            high = r->steps > high ? r->steps : high;
        }
    }
    text[0] = '\0';
    count_text(ended, count, "run", text, bytes);
    utf8_append(text, bytes, ", ");
    count_text(count_seeds(runs, count, true), count_seeds(runs, count, false), "seed", text, bytes);
    if (low < high)
        utf8_append(text, bytes, ", %lld to %lld steps", (long long)low, (long long)high);
    else if (high > 0)
        utf8_append(text, bytes, ", %lld steps each", (long long)high);
}

void reproduce_judge(const reproduce_figure *f, ledger *l, const ledger_run *runs, int64_t count, int64_t left,
                     reproduce_judgement *j)
{
    *j = (reproduce_judgement){.incomplete = left > 0};
    count_runs(runs, count, j->runs, sizeof j->runs);
    f->judge(&(reproduce_runs){f, l, runs, count}, j);
}

void reproduce_opening(page *p, const reproduce_figure *f, bool full, const reproduce_judgement *j)
{
    page_paragraph(p, "Claim: %s.", f->claim);
    page_paragraph(p, "Here: %s%s.", reproduce_verdict_name(f, reproduce_verdict_of(j)),
                   j->incomplete ? ", because runs are left" : "");
    page_table(p, NULL, "part of the claim|verdict|measured", "wlw");
    for (int i = 0; i < j->count; i++) {
        page_cell(p, "%s", j->parts[i].claim);
        page_cell(p, "%s", stat_name(j->parts[i].finding));
        page_cell(p, "%s", j->parts[i].evidence);
    }
    page_table_end(p);
    page_paragraph(p, "Margin: %s.", j->margin);
    if (j->aside[0])
        page_paragraph(p, "Not part of the claim: %s.", j->aside);
    page_paragraph(p, "Size: %s%s%s.", f->size[full], j->runs[0] ? "; " : "", j->runs);
}

typedef struct opening {
    const reproduce_figure *f;
    bool full;
    const reproduce_judgement *j;
} opening;

static void write_opening(void *context, page *p)
{
    const opening *o = context;
    reproduce_opening(p, o->f, o->full, o->j);
}

scion_status reproduce_page(const reproduce_figure *f, bool full, const reproduce_judgement *j,
                            const char *ledger_path, const char *out_html, scion_error *err)
{
    opening head = {f, full, j};
    const report_options o = {.title = f->title, .opening = write_opening, .opening_context = &head};
    return report_write(&ledger_path, 1, out_html, &o, err);
}

/* Without memory there are no groups, and everything is undecided. */
static transfer transfer_of(const reproduce_runs *r)
{
    transfer t;
    if (transfer_make(&t, r->runs, r->count, NULL) == SCION_OK)
        return t;
    transfer_free(&t);
    return (transfer){NULL, 0};
}

/* ---- The best step size against width -------------------------------------------------------------------------- */

/* A rule transfers if it moves little and costs little; one that does not, does either. */
static void judge_group(const reproduce_figure *f, const transfer_group *g, reproduce_judgement *j)
{
    const char *name = g->label[0] ? g->label : g->c.optimizer.rule;
    const transfer_judgement found = transfer_judge(g);
    char move[TRANSFER_PART], cost[TRANSFER_PART], sentence[TRANSFER_TEXT];
    transfer_move_text(g, move);
    transfer_cost_text(g, cost);
    if (has_rule(f->subjects, &g->c)) {
        EVIDENCE(reproduce_add(j, found.move, "%s: the best lr does not depend on the width", name), "%s", move);
        reproduce_part *p = reproduce_add(j, found.cost, "%s: the lr of the smallest width costs", name);
        const size_t used = strlen(p->claim);
        if (isnan(found.margin))
            snprintf(p->claim + used, sizeof p->claim - used, " little at the others");
        else
            snprintf(p->claim + used, sizeof p->claim - used, " at most %.4f in loss at the others", found.margin);
        EVIDENCE(p, "%s%s", cost[0] ? cost : move, isnan(found.margin) ? "; one seed has no spread" : "");
    } else if (has_rule(f->rivals, &g->c)) {
        EVIDENCE(reproduce_add(j, stat_opposite(found.transfer), "%s: the best lr depends on the width", name),
                 "%s%s%s", move, cost[0] ? "; " : "", cost);
    } else {
        transfer_sentence(g, sentence);
        ASIDE(j, "%s%s: %s", j->aside[0] ? ". " : "", name, sentence);
    }
}

void reproduce_judge_transfer(const reproduce_runs *r, reproduce_judgement *j)
{
    const reproduce_figure *f = r->f;
    transfer t = transfer_of(r);
    snprintf(
        j->margin, sizeof j->margin,
        "a best lr that moves by at most a factor of two between any two widths does not depend on the width; a "
        "cost of two standard deviations of a loss over the seeds is little, and more shows that it depends; %s, "
        "open towards an edge of the grid",
        ERRORS);
    for (int64_t i = 0; i < t.count; i++)
        judge_group(f, &t.groups[i], j);
    for (int side = 0; side < 2; side++)
        for (const char *const *rule = side ? f->rivals : f->subjects; *rule; rule++) {
            bool found = false;
            for (int64_t i = 0; i < t.count && !found; i++)
                found = strcmp(t.groups[i].c.optimizer.rule, *rule) == 0;
            if (!found)
                EVIDENCE(reproduce_add(j, STAT_UNDECIDED, "%s", *rule), "no run has finished");
        }
    transfer_free(&t);
}

/* ---- The best loss of a rule ----------------------------------------------------------------------------------*/

/* Quantity that a figure varies beside lr: the batch, or the length of the runs. */
typedef double size_of(const config *c);

static double batch_of(const config *c)
{
    return (double)(c->training.batch * c->training.accum);
}

static double length_of(const config *c)
{
    return c->training.steps > 0 ? (double)c->training.steps : c->training.epochs;
}

/* The smallest and the largest of all runs; INFINITY and -INFINITY: there are none. */
static void size_range(size_of *size, const reproduce_runs *r, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int64_t i = 0; i < r->count; i++) {
        *low = fmin(*low, size(&r->runs[i].c));
        *high = fmax(*high, size(&r->runs[i].c));
    }
}

/* The best loss of a rule at one size. */
typedef struct best_loss {
    stat_sample losses;
    bool at_edge; /* the true one may be lower */
} best_loss;

static best_loss best_at(const transfer *t, const char *rule, size_of *size, double at)
{
    best_loss best = {.at_edge = false};
    for (int64_t i = 0; i < t->count; i++) {
        const transfer_group *g = &t->groups[i];
        const transfer_width *w = &g->widths[0];
        if (strcmp(g->c.optimizer.rule, rule) == 0 && size(&g->c) == at && w->best >= 0) {
            best.losses = w->points[w->best].done;
            best.at_edge = g->at_edge;
        }
    }
    return best;
}

/* Completes a part that is kept if `more` is above 0, and whose evidence are the losses so far. An edge of a grid can
 * hide a lower loss, which leaves this end open. */
static void judge_more(reproduce_part *p, stat_estimate more, bool open_below, bool open_above)
{
    const double low = open_below ? -INFINITY : more.value - more.error;
    const double high = open_above ? INFINITY : more.value + more.error;
    p->finding = isfinite(more.error) ? stat_range_within(low, high, 0, INFINITY) : STAT_UNDECIDED;
    if (isnan(more.value)) {
        snprintf(p->evidence, sizeof p->evidence, "the runs to compare have not finished");
        return;
    }
    EVIDENCE(p, ": %+.4f", more.value);
    if (isfinite(more.error))
        EVIDENCE(p, " +- %.4f", more.error);
    if (open_below || open_above)
        EVIDENCE(p, "; a best lr lies on the edge of its grid");
}

/* Judges if the loss of rule a is below that of b, each at its best lr. */
static void compare_best(const char *a, const char *b, const best_loss *of_a, const best_loss *of_b,
                         const stat_pool *spread, const char *where, reproduce_judgement *j)
{
    char first[32], second[32];
    reproduce_part *p = reproduce_add(j, STAT_UNDECIDED, "%s ends with a lower loss than %s%s", a, b, where);
    EVIDENCE(p, "%s %s, %s %s", a, stat_text(&of_a->losses, first), b, stat_text(&of_b->losses, second));
    judge_more(p, stat_difference(&of_a->losses, &of_b->losses, spread), of_b->at_edge, of_a->at_edge);
}

/* Compares the first subject with each rival, in the longest runs. */
static void judge_best(const reproduce_figure *f, const transfer *t, double length, const char *where,
                       reproduce_judgement *j)
{
    stat_pool spread = {0, 0};
    best_loss best[REPRODUCE_RULES];
    const best_loss own = best_at(t, f->subjects[0], length_of, length);
    stat_pool_add(&spread, &own.losses);
    for (int i = 0; f->rivals[i]; i++) {
        best[i] = best_at(t, f->rivals[i], length_of, length);
        stat_pool_add(&spread, &best[i].losses);
    }
    for (int i = 0; f->rivals[i]; i++)
        compare_best(f->subjects[0], f->rivals[i], &own, &best[i], &spread, where, j);
}

void reproduce_judge_best(const reproduce_runs *r, reproduce_judgement *j)
{
    const reproduce_figure *f = r->f;
    double shortest, longest;
    size_range(length_of, r, &shortest, &longest);
    transfer t = transfer_of(r);
    judge_best(f, &t, longest, "", j);
    snprintf(j->margin, sizeof j->margin, "none: the loss, each at its best lr, must be lower; %s", ERRORS);
    transfer_free(&t);
}

/* ---- Loss against batch size ----------------------------------------------------------------------------------*/

/* Best losses of a rule with the smallest and the largest batch. */
typedef struct batch_rise {
    const char *rule;
    best_loss small, large;
} batch_rise;

static double rise_of(const batch_rise *r)
{
    return r->large.losses.mean - r->small.losses.mean;
}

/* Judges if the losses of a rise less than those of b. */
static void compare_rises(const batch_rise *a, const batch_rise *b, const stat_pool *spread, reproduce_judgement *j)
{
    const stat_sample *all[] = {&a->small.losses, &a->large.losses, &b->small.losses, &b->large.losses};
    double inverse = 0;
    for (int i = 0; i < 4; i++)
        inverse += 1 / (double)all[i]->count; /* INFINITY: not run */
    const bool known = isfinite(inverse);
    const stat_estimate more = {known ? rise_of(b) - rise_of(a) : NAN, known ? stat_error(spread, inverse) : NAN};
    reproduce_part *p = reproduce_add(j, STAT_UNDECIDED, "the loss of %s rises less with the batch than that of %s",
                                      a->rule, b->rule);
    EVIDENCE(p, "%s %.4f to %.4f (%+.4f), %s %.4f to %.4f (%+.4f)", a->rule, all[0]->mean, all[1]->mean, rise_of(a),
             b->rule, all[2]->mean, all[3]->mean, rise_of(b));
    judge_more(p, more, b->large.at_edge || a->small.at_edge, b->small.at_edge || a->large.at_edge);
}

void reproduce_judge_batch(const reproduce_runs *r, reproduce_judgement *j)
{
    const reproduce_figure *f = r->f;
    double small, large;
    batch_rise rises[2 * REPRODUCE_RULES];
    stat_pool spread = {0, 0};
    int rules = 0;
    transfer t = transfer_of(r);
    size_range(batch_of, r, &small, &large);
    for (int side = 0; side < 2; side++)
        for (const char *const *rule = side ? f->rivals : f->subjects; *rule; rule++) {
            rises[rules] = (batch_rise){.rule = *rule,
                                        .small = best_at(&t, *rule, batch_of, small),
                                        .large = best_at(&t, *rule, batch_of, large)};
            stat_pool_add(&spread, &rises[rules].small.losses);
            stat_pool_add(&spread, &rises[rules++].large.losses);
        }
    for (int i = 1; i < rules; i++)
        compare_rises(&rises[0], &rises[i], &spread, j);
    if (r->count > 0)
        snprintf(j->margin, sizeof j->margin,
                 "none: the rise from batches of %.0f to %.0f, each at its best lr, must be smaller; %s", small,
                 large, ERRORS);
    transfer_free(&t);
}

/* ---- Norms of the weights -------------------------------------------------------------------------------------*/

/* Norms of the weights of a run, about ten times from its start to its end. */
typedef struct norms_seen {
    /* At the last measurement, over the figure's weights. */
    double log_mean; /* mean of log(norm) */
    bool known;
    /* At all measurements, over all weights that have bounds. */
    double ratio; /* largest norm / bound; 0: no bounds */
    double low,
        high; /* largest norm / bound / overshoot; a range where a ledger of 0.2 does not know the overshoot */
    double overshoot; /* largest */
} norms_seen;

static void add_bound(norms_seen *e, const run_norm *n)
{
    if (!isfinite(n->bound) || !(n->bound > 0))
        return;
    const double ratio = n->norm / n->bound;
    e->ratio = fmax(e->ratio, ratio);
    e->low = fmax(e->low, isnan(n->overshoot) ? 0 : ratio / n->overshoot);
    e->high = fmax(e->high, isnan(n->overshoot) ? ratio : ratio / n->overshoot);
    e->overshoot = fmax(e->overshoot, n->overshoot);
}

static norms_seen norms_of(const reproduce_runs *r, const ledger_run *run)
{
    norms_seen e = {.known = false};
    run_curves curves = {.points = NULL};
    int64_t used = 0;
    if (run->result.state == RUN_DONE)
        ledger_curves(r->l, run->id, &curves, NULL);
    const int64_t count = curves.norm_count;
    for (int64_t i = 0; i < count; i++) {
        const run_norm *n = &curves.norms[i];
        if (!(n->norm > 0))
            continue;
        add_bound(&e, n);
        if (n->step != curves.norms[count - 1].step || (r->f->weights && !strstr(n->name, r->f->weights)))
            continue;
        e.log_mean += log(n->norm);
        used++;
    }
    run_curves_free(&curves);
    e.known = used > 0;
    e.log_mean /= used > 0 ? (double)used : 1;
    return e;
}

static void not_finished(reproduce_part *p)
{
    p->finding = STAT_UNDECIDED;
    EVIDENCE(p, "too few runs have finished");
}

/* Judges if the norms of the first subject stay within their bounds, in all layers at all measurements of all of its
 * runs, up to the overshoot of their iteration and rounding. Returns the largest overshoot. */
static double judge_bounds(const reproduce_runs *r, reproduce_judgement *j)
{
    norms_seen all = {.overshoot = 1};
    for (int64_t i = 0; i < r->count; i++) {
        const norms_seen e = has_rule(r->f->subjects, &r->runs[i].c) ? norms_of(r, &r->runs[i]) : all;
        all.ratio = fmax(all.ratio, e.ratio);
        all.low = fmax(all.low, e.low);
        all.high = fmax(all.high, e.high);
        all.overshoot = fmax(all.overshoot, e.overshoot);
    }
    reproduce_part *p = reproduce_add(j, stat_range_within(all.low, all.high, 0, 1 + rounding),
                                      "%s: the norms of the weights stay within their bounds", r->f->subjects[0]);
    if (all.ratio == 0)
        not_finished(p);
    else
        EVIDENCE(
            p,
            "the largest norm of all layers, at any measurement, is %.3f of its bound, which counts the start of "
            "the weights too",
            all.ratio);
    return all.overshoot;
}

void reproduce_judge_norms(const reproduce_runs *r, reproduce_judgement *j)
{
    const reproduce_figure *f = r->f;
    stat_sample factor = {0};
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t k = 0; k < r->count && has_rule(f->subjects, &r->runs[i].c); k++) {
            if (!has_rule(f->rivals, &r->runs[k].c) || r->runs[i].c.training.seed != r->runs[k].c.training.seed)
                continue;
            const norms_seen bounded = norms_of(r, &r->runs[i]), free_ = norms_of(r, &r->runs[k]);
            if (bounded.known && free_.known)
                stat_add(&factor, bounded.log_mean - free_.log_mean);
        }
    const double overshoot = judge_bounds(r, j);
    const stat_estimate e = stat_mean(&factor);
    reproduce_part *p = reproduce_add(j, stat_within(e, -INFINITY, 0), "they end smaller under %s than under %s",
                                      f->subjects[0], f->rivals[0]);
    if (factor.count == 0)
        not_finished(p);
    else if (isnan(e.error))
        EVIDENCE(p, "they are %.3f times as large (geometric mean over the parameters; one seed)", exp(e.value));
    else
        EVIDENCE(p, "they are %.3f times as large (95%% interval %.3f to %.3f; geometric mean over the parameters)",
                 exp(e.value), exp(e.value - e.error), exp(e.value + e.error));
    snprintf(j->margin, sizeof j->margin,
             "norms up to %.2f of their bounds, which their iteration allows; smaller: the 95%% interval over "
             "the seeds is below 1",
             overshoot);
}

/* Exponent of the growth with the steps, in the runs of the first rival with one seed and one step size. */
static bool growth(const reproduce_runs *r, uint64_t seed, double lr, double *slope)
{
    double x[64], y[64];
    int64_t n = 0;
    for (int64_t i = 0; i < r->count && n < 64; i++) {
        const config *c = &r->runs[i].c;
        if (!has_rule(r->f->rivals, c) || c->training.seed != seed || c->training.lr != lr)
            continue;
        const norms_seen e = norms_of(r, &r->runs[i]);
        if (!e.known)
            continue;
        x[n] = log((double)r->runs[i].result.steps);
        y[n++] = e.log_mean;
    }
    *slope = stat_slope(x, y, n);
    return n >= 3;
}

/* The step size of the first rival that is best in its longest runs; NAN: there is none. */
static double best_rate(const reproduce_figure *f, const transfer *t)
{
    double lr = NAN, longest = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const transfer_group *g = &t->groups[i];
        const transfer_width *w = &g->widths[0];
        if (!has_rule(f->rivals, &g->c) || w->best < 0 || !(length_of(&g->c) > longest))
            continue;
        longest = length_of(&g->c);
        lr = w->points[w->best].lr;
    }
    return lr;
}

static void judge_growth(const reproduce_runs *r, double lr, reproduce_judgement *j)
{
    stat_sample slopes = {0};
    for (int64_t i = 0; i < r->count; i++) {
        const uint64_t seed = r->runs[i].c.training.seed;
        bool known = false;
        double slope;
        for (int64_t k = 0; k < i && !known; k++)
            known = r->runs[k].c.training.seed == seed;
        if (!known && growth(r, seed, lr, &slope))
            stat_add(&slopes, slope);
    }
    const stat_estimate e = stat_mean(&slopes);
    reproduce_part *p = reproduce_add(j, stat_within(e, root_low, root_high),
                                      "%s: the norms grow like the square root of the steps", r->f->rivals[0]);
    if (slopes.count == 0) {
        not_finished(p);
        return;
    }
    if (isnan(e.error))
        EVIDENCE(p, "they grow like steps^%.2f (one seed)", e.value);
    else
        EVIDENCE(p, "they grow like steps^(%.2f +- %.2f)", e.value, e.error);
    EVIDENCE(p, " at lr 2^%.4g", log2(lr));
}

/* "scion: best lr 2^-3.12 at 1, 2^-3.40 at 2 epochs". */
static void tell_best_rates(const transfer *t, const char *rule, reproduce_judgement *j)
{
    bool first = true;
    for (int64_t i = 0; i < t->count; i++) {
        const transfer_group *g = &t->groups[i];
        const stat_estimate best = transfer_best(g, &g->widths[0]);
        if (strcmp(g->c.optimizer.rule, rule) != 0 || isnan(best.value))
            continue;
        if (first)
            ASIDE(j, "%s%s: best lr ", j->aside[0] ? ". " : "", rule);
        ASIDE(j, "%s2^%.2f for %g %s", first ? "" : ", ", best.value, length_of(&g->c),
              g->c.training.steps > 0 ? "steps" : "epochs");
        first = false;
    }
}

void reproduce_judge_lengths(const reproduce_runs *r, reproduce_judgement *j)
{
    const reproduce_figure *f = r->f;
    double shortest, longest;
    transfer t = transfer_of(r);
    judge_growth(r, best_rate(f, &t), j);
    const double overshoot = judge_bounds(r, j);
    snprintf(j->margin, sizeof j->margin,
             "exponents from %.1f to %.1f; norms up to %.2f of their bounds, which their iteration allows; %s",
             root_low, root_high, overshoot, ERRORS);
    size_range(length_of, r, &shortest, &longest);
    judge_best(f, &t, longest, " in the longest runs, each at its best lr", j);
    for (int side = 0; side < 2; side++)
        for (const char *const *rule = side ? f->rivals : f->subjects; *rule; rule++)
            tell_best_rates(&t, *rule, j);
    transfer_free(&t);
}
