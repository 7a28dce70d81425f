/* Judges the paper's claims by the runs of a figure. Each judgement names the deciding number. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reproduce/reproduce.h"
#include "tune/transfer.h"

const double reproduce_overshoot = 1.21;

/* In factors of two, the step of the grid: the loss is flat around its minimum, and a neighbour is as good. */
static const double same_step = 1;

const char *reproduce_verdict_name(reproduce_verdict v)
{
    static const char *const names[] = {"reproduced", "partly reproduced", "not reproduced", "undecided"};
    return names[v];
}

static bool is_scion(const config *c)
{
    return strcmp(c->optimizer.rule, "scion") == 0 || strcmp(c->optimizer.rule, "uscion") == 0;
}

static void open_question(reproduce_judgement *j, const char *why)
{
    j->verdict = REPRODUCE_OPEN;
    snprintf(j->sentence, sizeof j->sentence, "%s", why);
}

void reproduce_judge_transfer(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j)
{
    transfer t;
    int64_t groups = 0, holding = 0, others = 0, unknown = 0;
    double largest = 0, cost = 0;
    char others_text[160] = "";
    (void)l;
    if (transfer_make(&t, runs, count, NULL) != SCION_OK) {
        open_question(j, "out of memory");
        transfer_free(&t);
        return;
    }
    for (int64_t i = 0; i < t.count; i++) {
        const transfer_group *g = &t.groups[i];
        const size_t at = strlen(others_text);
        if (is_scion(&g->c)) {
            groups++;
            unknown += isnan(g->moved);
            holding += fabs(g->moved) <= same_step;
            largest = fmax(largest, fabs(g->moved));
            cost = isfinite(g->cost) ? fmax(cost, g->cost) : cost;
        } else {
            others++;
            snprintf(others_text + at, sizeof others_text - at, "%s%.16s by %+.3g", at ? ", " : "",
                     g->c.optimizer.rule, g->moved);
        }
    }
    transfer_free(&t);
    if (groups == 0) {
        open_question(j, "no run has finished");
        return;
    }
    if (unknown > 0) {
        snprintf(j->sentence, sizeof j->sentence,
                 "%lld of %lld Scion variants have a best step size at fewer than two widths", (long long)unknown,
                 (long long)groups);
        j->verdict = REPRODUCE_OPEN;
        return;
    }
    j->verdict = holding == groups ? REPRODUCE_YES : 2 * holding >= groups ? REPRODUCE_PARTLY : REPRODUCE_NO;
    snprintf(
        j->sentence, sizeof j->sentence,
        "from the smallest to the largest width the best step size of %lld of %lld Scion variants moves by at most "
        "one factor of two (the largest move is %.3g; using the small model's value costs at most %.4f in loss)%s%s",
        (long long)holding, (long long)groups, largest, cost, others ? "; in contrast: " : "", others_text);
}

/* The lowest loss of a rule at a batch size; NAN: none. */
static double best_at(const ledger_run *runs, int64_t count, const char *rule, int64_t batch)
{
    double best = NAN;
    for (int64_t i = 0; i < count; i++)
        if (runs[i].state == LEDGER_DONE && strcmp(runs[i].c.optimizer.rule, rule) == 0 &&
            runs[i].c.training.batch * runs[i].c.training.accum == batch)
            best = fmin(best, runs[i].result.val_loss);
    return best;
}

void reproduce_judge_batch(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j)
{
    static const char *const rules[] = {"scion", "uscion", "muon", "adamw"};
    int64_t small = INT64_MAX, large = 0;
    double rise[4];
    char text[256] = "";
    (void)l;
    for (int64_t i = 0; i < count; i++) {
        const int64_t batch = runs[i].c.training.batch * runs[i].c.training.accum;
        small = batch < small ? batch : small;
        large = batch > large ? batch : large;
    }
    for (int i = 0; i < 4; i++) {
        const size_t at = strlen(text);
        const double from = best_at(runs, count, rules[i], small), to = best_at(runs, count, rules[i], large);
        rise[i] = to - from;
        if (!isnan(rise[i]))
            snprintf(text + at, sizeof text - at, "%s%s %.3f to %.3f (%+.3f)", at ? ", " : "", rules[i], from, to,
                     rise[i]);
    }
    if (isnan(rise[0]) || isnan(rise[2]) || isnan(rise[3])) {
        open_question(j, "the runs to compare have not finished");
        return;
    }
    const int beaten = (rise[0] < rise[2]) + (rise[0] < rise[3]);
    j->verdict = beaten == 2 ? REPRODUCE_YES : beaten == 1 ? REPRODUCE_PARTLY : REPRODUCE_NO;
    snprintf(j->sentence, sizeof j->sentence, "from batches of %lld to %lld the loss goes: %s", (long long)small,
             (long long)large, text);
}

/* The last measurement of a run. */
typedef struct norms_end {
    double log_mean; /* mean over the parameters of log(norm) */
    double ratio;    /* largest norm / bound; 0: no bounds */
    bool known;
} norms_end;

static norms_end last_norms(ledger *l, const ledger_run *run)
{
    norms_end e = {0, 0, false};
    run_curves curves = {.points = NULL};
    int64_t used = 0;
    if (run->state == LEDGER_DONE)
        ledger_curves(l, run->id, &curves, NULL);
    const int64_t count = curves.norm_count;
    const run_norm *norms = curves.norms;
    for (int64_t i = 0; i < count; i++) {
        if (norms[i].step != norms[count - 1].step || !(norms[i].norm > 0))
            continue;
        e.log_mean += log(norms[i].norm);
        if (isfinite(norms[i].bound) && norms[i].bound > 0)
            e.ratio = fmax(e.ratio, norms[i].norm / norms[i].bound);
        used++;
    }
    run_curves_free(&curves);
    e.known = used > 0;
    e.log_mean /= used > 0 ? (double)used : 1;
    return e;
}

void reproduce_judge_norms(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j)
{
    norms_end bounded = {0, 0, false}, free_ = {0, 0, false};
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(runs[i].c.optimizer.rule, "scion") == 0)
            bounded = last_norms(l, &runs[i]);
        else if (strcmp(runs[i].c.optimizer.rule, "uscion") == 0)
            free_ = last_norms(l, &runs[i]);
    }
    if (!bounded.known || !free_.known) {
        open_question(j, "the runs to compare have not finished");
        return;
    }
    const bool within = bounded.ratio <= reproduce_overshoot, smaller = bounded.log_mean < free_.log_mean;
    j->verdict = within && smaller ? REPRODUCE_YES : within || smaller ? REPRODUCE_PARTLY : REPRODUCE_NO;
    snprintf(j->sentence, sizeof j->sentence,
             "under Scion the largest norm is %.3f of its bound at the end (five Newton-Schulz steps allow 1.2), and "
             "norms are %.2f times those under Unconstrained Scion (geometric mean over the parameters)",
             bounded.ratio, exp(bounded.log_mean - free_.log_mean));
}

void reproduce_judge_epochs(ledger *l, const ledger_run *runs, int64_t count, reproduce_judgement *j)
{
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, ratio = 0;
    for (int64_t i = 0; i < count; i++) {
        const norms_end e = last_norms(l, &runs[i]);
        if (!e.known)
            continue;
        if (strcmp(runs[i].c.optimizer.rule, "scion") == 0) {
            ratio = fmax(ratio, e.ratio);
        } else {
            const double log_steps = log((double)runs[i].result.steps);
            n++, x += log_steps, y += e.log_mean, xx += log_steps * log_steps, xy += log_steps * e.log_mean;
        }
    }
    if (n < 3 || ratio == 0) {
        open_question(j, "too few runs have finished");
        return;
    }
    const double slope = (n * xy - x * y) / (n * xx - x * x);
    const bool root = slope > 0.3 && slope < 0.7, within = ratio <= reproduce_overshoot;
    j->verdict = root && within ? REPRODUCE_YES : root || within ? REPRODUCE_PARTLY : REPRODUCE_NO;
    snprintf(j->sentence, sizeof j->sentence,
             "norms grow like steps^%.2f under Unconstrained Scion (claimed: 0.5), and reach at most %.3f of their "
             "bounds under Scion (five Newton-Schulz steps allow 1.2)",
             slope, ratio);
}
