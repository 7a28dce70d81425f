/* bench_report.c - the table for people and the JSON for programs. */
#include "bench.h"
#include "bench_blas.h"

#include <stdio.h>
#include <string.h>

/* A load average (of the last minute) above this is more than a build that has just ended. */
static const double BUSY = 1.5;

bench_row *bench_report_add(bench_report *r, const char *name, const bench_entry *ours, const bench_entry *plain)
{
    if (r->count == BENCH_ROWS_MAX)
        bench_die("more than %d rows", BENCH_ROWS_MAX);
    bench_row *row = &r->row[r->count++];
    *row = (bench_row){
        .name = name, .ms = bench_entry_median(ours), .plain_ms = bench_entry_median(plain), .rounds = ours->count};
    return row;
}

static double ratio_of(const bench_row *row)
{
    return row->plain_ms / row->ms;
}

static double share_of(const bench_report *r, const bench_row *row)
{
    const double rulers[] = {
        [BENCH_BY_PEAK] = r->peak_gflops, [BENCH_BY_BF16] = r->bf16_limit_gflops, [BENCH_BY_COPY] = r->copy_gbytes};
    return row->work / (1e-3 * row->ms) / rulers[row->ruler];
}

static double share_of_limit(const bench_report *r, const bench_row *row)
{
    return row->work / (1e-3 * row->ms) / r->limit_gflops;
}

static int reaches(double value, double bar)
{
    return !(bar > 0) || value >= bar;
}

/* "1.23" and the bar with its verdict, in a column of fixed width. */
static void print_against(double value, double bar)
{
    if (bar > 0)
        printf("  %6.2f  %4.2f %-5s", value, bar, reaches(value, bar) ? "ok" : "short");
    else
        printf("  %6.2f  %4s %-5s", value, "-", "");
}

void bench_report_print(const bench_report *r)
{
    printf("CPU     %s\nBLAS    %s\nthreads %d\n", bench_cpu_name(), blas_library(), r->options->threads);
    if (r->limit_gflops > 0)
        printf("limit   %.1f Gflop/s by multiply-adds on registers, %.1f in bfloat16\n", r->limit_gflops,
               r->bf16_limit_gflops);
    if (r->peak_gflops > 0)
        printf("peak    %.1f Gflop/s by sgemm\n", r->peak_gflops);
    if (r->copy_gbytes > 0)
        printf("copy    %.1f GB/s, read and written\n", r->copy_gbytes);
    if (r->load > BUSY)
        printf("load    %.1f at the start: if other programs were running, these timings are not to be trusted\n",
               r->load);
    printf("\n%-24s %10s %10s  %6s  %-10s  %6s  %-10s %s\n", "name", "ms", "plain ms", "ratio", " bar", "share",
           " bar", "of");
    for (int i = 0; i < r->count; i++) {
        const bench_row *row = &r->row[i];
        printf("%-24s %10.3f %10.3f", row->name, row->ms, row->plain_ms);
        print_against(ratio_of(row), row->ratio_bar);
        print_against(share_of(r, row), row->share_bar);
        static const char *const names[] = {
            [BENCH_BY_PEAK] = "peak", [BENCH_BY_BF16] = "limit in bfloat16", [BENCH_BY_COPY] = "copy"};
        printf(" %s", names[row->ruler]);
        if (row->ruler == BENCH_BY_PEAK)
            printf(", %.2f of limit", share_of_limit(r, row));
        printf("%s%s\n", row->note[0] ? "; " : "", row->note);
    }
    printf("\nms: median of interleaved runs. ratio: plain / ours; of lmo-bf16, ours in\n"
           "float32 / ours. share: of the peak, of the limit or of the copy's bandwidth.\n");
}

static void json_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);
        if ((unsigned char)*s >= 0x20)
            fputc(*s, f);
    }
    fputc('"', f);
}

static void json_row(FILE *f, const bench_report *r, const bench_row *row)
{
    static const char *const keys[] = {
        [BENCH_BY_PEAK] = "share_of_peak", [BENCH_BY_BF16] = "share_of_limit", [BENCH_BY_COPY] = "share_of_copy"};
    fputs("    {\"name\": ", f);
    json_string(f, row->name);
    fprintf(f, ", \"ms\": %.6g, \"plain_ms\": %.6g, \"ratio_plain\": %.4f, \"%s\": %.4f", row->ms, row->plain_ms,
            ratio_of(row), keys[row->ruler], share_of(r, row));
    if (row->ruler == BENCH_BY_PEAK)
        fprintf(f, ", \"share_of_limit\": %.4f", share_of_limit(r, row));
    fprintf(f, ", \"%s\": %.6g", row->ruler == BENCH_BY_COPY ? "gbytes" : "gflop", row->work);
    if (row->ratio_bar > 0)
        fprintf(f, ", \"ratio_bar\": %.2f", row->ratio_bar);
    if (row->share_bar > 0)
        fprintf(f, ", \"share_bar\": %.2f", row->share_bar);
    int ok = reaches(ratio_of(row), row->ratio_bar) && reaches(share_of(r, row), row->share_bar);
    fprintf(f, ", \"ok\": %s, \"rounds\": %d, \"note\": ", ok ? "true" : "false", row->rounds);
    json_string(f, row->note);
    fputc('}', f);
}

static void json_ruler(FILE *f, const char *key, double value)
{
    if (value > 0)
        fprintf(f, "  \"%s\": %.2f,\n", key, value);
    else
        fprintf(f, "  \"%s\": null,\n", key);
}

void bench_report_json(const bench_report *r)
{
    const char *path = r->options->json;
    FILE *f = fopen(path, "w");
    if (!f)
        bench_die("cannot write %s", path);
    fprintf(f, "{\n  \"version\": \"%s\",\n  \"threads\": %d,\n  \"quick\": %s,\n  \"blas\": ", scion_version(),
            r->options->threads, r->options->quick ? "true" : "false");
    json_string(f, blas_library());
    fputs(",\n  \"cpu\": ", f);
    json_string(f, bench_cpu_name());
    fputs(",\n", f);
    json_ruler(f, "limit_gflops", r->limit_gflops);
    json_ruler(f, "bf16_limit_gflops", r->bf16_limit_gflops);
    json_ruler(f, "peak_gflops", r->peak_gflops);
    json_ruler(f, "copy_gbytes_per_s", r->copy_gbytes);
    fprintf(f, "  \"load\": %.2f,\n", r->load);
    fputs("  \"results\": [\n", f);
    for (int i = 0; i < r->count; i++) {
        json_row(f, r, &r->row[i]);
        fputs(i + 1 < r->count ? ",\n" : "\n", f);
    }
    fputs("  ]\n}\n", f);
    if (fclose(f))
        bench_die("cannot write %s", path);
    fprintf(stderr, "written: %s\n", path);
}
