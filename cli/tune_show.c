/* See tune_show.h. */
#include "tune_show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"

const char *tune_show_point(const tune *t, const tune_point *p, char text[256])
{
    size_t at = 0;
    text[0] = '\0';
    for (int a = 0; a < TUNE_AXES && at < 256; a++) {
        char value[CONFIG_TEXT];
        if (t->space.fixed[a])
            continue;
        tune_value_text(t, p, (tune_axis)a, value);
        at += (size_t)snprintf(text + at, 256 - at, "%s%s %s", at ? ", " : "", tune_option((tune_axis)a)->key, value);
    }
    return text;
}

void tune_show_plan(const tune *t, const config *target, const char *ledger_path)
{
    const int64_t size = tune_space_size(&t->space);
    char took[16];
    printf("tunes %s at width %lld for width %lld:", target->preset, (long long)config_int(&t->base, "width"),
           (long long)config_int(target, "width"));
    for (int a = 0; a < TUNE_AXES; a++)
        if (!t->space.fixed[a])
            printf(" %s", tune_option((tune_axis)a)->key);
    printf("; %lld of %lld points", (long long)(t->candidates < size ? t->candidates : size), (long long)size);
    if (t->budget > 0)
        printf(", at most %s", cli_duration(t->budget, took));
    printf("; ledger %s\n", ledger_path);
    for (int a = 0; a < TUNE_AXES; a++)
        if (t->space.fixed[a])
            printf("%s is not searched: %s\n", tune_option((tune_axis)a)->key, t->space.fixed[a]);
    fflush(stdout);
}

/* The full-length runs, the best first. */
static void show_table(const tune *t)
{
    const tune_trial *winner = &t->trials[t->best];
    int64_t *order = calloc((size_t)t->count, sizeof *order);
    const int64_t count = order ? tune_order(t, winner->rung, order) : 0;
    if (!order)
        return;
    putchar('\n');
    for (int a = 0; a < TUNE_AXES; a++)
        if (!t->space.fixed[a])
            printf("%13s ", tune_option((tune_axis)a)->key);
    printf("%10s\n", "loss");
    for (int64_t i = 0; i < count; i++) {
        char value[CONFIG_TEXT], loss[32];
        for (int a = 0; a < TUNE_AXES; a++)
            if (!t->space.fixed[a]) {
                tune_value_text(t, &t->trials[order[i]].at, (tune_axis)a, value);
                printf("%13s ", value);
            }
        printf("%10s%s%s\n", tune_loss_text(&t->trials[order[i]], loss), order[i] == t->best ? "  found" : "",
               order[i] == t->own ? "  the preset's own" : "");
    }
    free(order);
}

void tune_show_end(const tune *t, const config *target, int64_t asked, int64_t added, const char *out)
{
    const tune_trial *winner = &t->trials[t->best];
    char values[256];
    show_table(t);
    if (t->candidates < asked && t->candidates < tune_space_size(&t->space))
        printf("\nthe budget was enough for %lld of %lld points\n", (long long)t->candidates, (long long)asked);
    if (t->failure[0])
        printf("\nsome runs failed: %s\n", t->failure);
    if (t->time_up)
        printf("\nthe time was up, the values are the best of rung %d of %d; the same command with --force goes on\n",
               winner->rung + 1, t->rungs);
    else if (winner->rung < t->rungs - 1)
        printf("\nno longer run came to a loss: the values are the best of rung %d of %d\n", winner->rung + 1,
               t->rungs);
    else if (!t->settled)
        printf("\nthe search along lr did not come to its end: scion tune %s goes on from there\n", out);
    for (int a = TUNE_FIRST; a < TUNE_AXES; a++)
        if (tune_at_edge(t, (tune_axis)a))
            printf("\n%s lies on the edge of what was searched: scion tune %s goes on from there\n",
                   tune_option((tune_axis)a)->key, out);
    printf("\nfound %s", tune_show_point(t, &winner->at, values));
    if (t->own == t->best)
        printf(": the preset's own values are the best");
    else if (t->own >= 0 && isfinite(t->trials[t->own].loss))
        printf(": loss %.4f at width %lld, the preset's own values give %.4f", winner->loss,
               (long long)config_int(&t->base, "width"), t->trials[t->own].loss);
    printf("\n%lld new runs; the values and how they were found are in %s\n", (long long)added, out);
    if (config_int(target, "width") != config_int(&t->base, "width") && !tune_carries(target))
        printf("rule %s: nothing promises that the best lr stays where it is at width %lld (scion sweep shows it)\n",
               target->optimizer.rule, (long long)config_int(target, "width"));
    printf("scion train %s\n", out);
}
