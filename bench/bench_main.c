/* bench_main.c - how fast the library is: `make bench`.
 *
 * Prints a table on standard output, progress on standard error, and writes JSON. The bars beside the figures
 * are what the project asks of itself with two threads; missing one is reported and is not an error, for
 * timings depend on the machine. Disagreement between ours and the plain version is one: status 1. */
#define _DEFAULT_SOURCE
#include "bench.h"
#include "bench_blas.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char USAGE[] =
    "usage: bench_scion [options]\n"
    "  --quick           few rounds: does it run, roughly how fast\n"
    "  --only SUBSTRING  only the rows whose name contains it, such as lmo/768 or update/\n"
    "  --runs N          rounds of every race (default: by time, 5 to 201)\n"
    "  --threads N       threads of ours and of the plain version (default: 2, or 1 on a single core)\n"
    "  --json FILE       where the JSON goes (default: build/bench.json, or bench.json without build/)\n"
    "  --help            this\n";

int bench_wanted(const bench_options *o, const char *name)
{
    return !o->only || strstr(name, o->only) != NULL;
}

static int positive(const char *option, const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < 1 || value > 4096) {
        fprintf(stderr, "bench_scion: --%s: \"%s\" is not a number from 1 to 4096\n", option, text);
        exit(2);
    }
    return (int)value;
}

static const char *default_json(void)
{
    struct stat s;
    return stat("build", &s) == 0 && S_ISDIR(s.st_mode) ? "build/bench.json" : "bench.json";
}

static bench_options parse(int argc, char **argv)
{
    static const struct option LONG[] = {
        {"quick", no_argument, NULL, 'q'},
        {"only", required_argument, NULL, 'o'},
        {"runs", required_argument, NULL, 'r'},
        {"threads", required_argument, NULL, 't'},
        {"json", required_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    bench_options o = {.threads = omp_get_num_procs() < 2 ? 1 : 2, .json = default_json()};
    for (int c; (c = getopt_long(argc, argv, "", LONG, NULL)) != -1;) {
        switch (c) {
        case 'q': o.quick = 1; break;
        case 'o': o.only = optarg; break;
        case 'r': o.runs = positive("runs", optarg); break;
        case 't': o.threads = positive("threads", optarg); break;
        case 'j': o.json = optarg; break;
        case 'h': fputs(USAGE, stdout); exit(0);
        default: fputs(USAGE, stderr); exit(2);
        }
    }
    if (optind < argc) {
        fputs(USAGE, stderr);
        exit(2);
    }
    return o;
}

int main(int argc, char **argv)
{
    static bench_report report;
    bench_options o = parse(argc, argv);
#ifndef _OPENMP
    o.threads = 1;
#endif
    blas_best_core(argv);
    omp_set_num_threads(o.threads);
    blas_threads(o.threads);
    report.options = &o;
    if (getloadavg(&report.load, 1) != 1)
        report.load = 0;
    fprintf(stderr, "BLAS: %s\n", blas_library());
    bench_spectral(&o, &report);
    bench_elementwise(&o, &report);
    if (!report.count) {
        fprintf(stderr, "bench_scion: no row's name contains \"%s\"\n", o.only);
        return 2;
    }
    bench_report_print(&report);
    bench_report_json(&report);
    return 0;
}
