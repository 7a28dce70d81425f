/* bench_ops - time of each operator, forward and backward, at the sizes of GPT-2 with 124M parameters and 4 x 256
 * tokens: the table of cases of tests/train/op_cases.c, whose results test_ops checks.
 *     bench_ops [--threads N] [--seconds S] [CASE ...]
 * A row is the median over S seconds (0.5) of calls. Forward and backward of a loss that has only forward_backward
 * are one number, in the last column. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/clock.h"
#include "util/threads.h"
#include "op_cases.h"

enum { max_rounds = 1000, min_rounds = 3 };

static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Median time of one call in milliseconds; NAN: the operator has no such function. */
static double measure(void (*call)(const tape_node *n, const tape_run *run), const op_fixture *f, double seconds)
{
    static double ms[max_rounds];
    int rounds = 0;
    if (!call)
        return NAN;
    call(&f->node, &f->run);
    for (double begin = clock_now(); rounds < max_rounds && (rounds < min_rounds || clock_now() - begin < seconds);) {
        const double start = clock_now();
        call(&f->node, &f->run);
        ms[rounds++] = 1e3 * (clock_now() - start);
    }
    qsort(ms, (size_t)rounds, sizeof *ms, compare);
    return ms[rounds / 2];
}

static void print_ms(double ms)
{
    if (isnan(ms))
        printf(" %9s", "");
    else
        printf(" %9.3f", ms);
}

static bool bench(const op_case *c, int threads, double seconds)
{
    op_fixture *f = op_fixture_create(c, &c->timing, threads, 1);
    if (!f) {
        fprintf(stderr, "bench_ops: no memory for %s\n", c->name);
        return false;
    }
    const tape_op *op = f->node.op;
    const double forward = measure(op->forward, f, seconds), backward = measure(op->backward, f, seconds);
    const double both = measure(op->forward_backward, f, seconds);
    const double gflop = op->flops ? op->flops(&f->node) * 1e-9 : NAN;
    printf("%-26s", c->name);
    print_ms(forward);
    print_ms(backward);
    print_ms(both);
    if (!isnan(gflop))
        printf(" %9.1f", 3 * gflop / (1e-3 * (isnan(both) ? forward + backward : both)));
    printf("\n");
    op_fixture_free(f);
    return true;
}

static bool wanted(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"threads", required_argument, NULL, 't'}, {"seconds", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
    int threads = 0;
    double seconds = 0.5;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == '?') {
            fprintf(stderr, "usage: bench_ops [--threads N] [--seconds S] [CASE ...]\n");
            return 2;
        }
        if (o == 't')
            threads = atoi(optarg);
        else
            seconds = atof(optarg);
    }
    threads = threads_set(threads);
    printf("%d threads; milliseconds, and GFLOP/s of both passes (backward counts twice)\n", threads);
    printf("%-26s %9s %9s %9s %9s\n", "", "forward", "backward", "fused", "GFLOP/s");
    for (int i = 0; op_case_at(i); i++)
        if (wanted(op_case_at(i)->name, argv + optind, argc - optind) && !bench(op_case_at(i), threads, seconds))
            return 1;
    return 0;
}
