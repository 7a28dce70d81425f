/* scion bench train: time of a training step and its parts; scion bench sample: time of a generated token. Both
 * beside what the machine can do in the same run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "util/array.h"
#include "util/json.h"
#include "bench_cores.h"
#include "cli.h"
#include "record/run_tokenizer.h"
#include "run/run.h"
#include "base/thread.h"
#include "product/cpu.h"
#include "product/gemm.h"
#include "config/network.h"
#include "util/clock.h"
#include "util/fail.h"
#include "util/threads.h"

enum { max_steps = 64, peak_size = 1536, peak_runs = 7 };

/* A run stops after this many seconds, but not before `min_steps` steps, or one if they are long. */
static const double budget_s = 30, long_s = 60;
enum { min_steps = 3 };

/* Steps whose loops are watched come after the timed ones: one, and more within this many seconds. */
static const double watch_budget_s = 5;
enum { max_watched = 8, max_cores = 8, most_cores = 4096 };

typedef struct timings {
    double forward[max_steps], backward[max_steps], optimizer[max_steps], step[max_steps];
    int count;
    double begin; /* clock */
    cli_progress progress;
    bool watch_only;    /* after the warm-up */
    int cores, threads; /* of the plan; that run it */
    regions *watched;   /* NULL: not yet */
    int watched_count;  /* steps */
} timings;

static double median(const double *values, int count)
{
    double sorted[max_steps];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, array_ascending);
    return count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

/* Speeds of the machine, measured in the same run. */
typedef struct rulers {
    double limit; /* GFLOP/s of multiply-adds on registers alone */
    double peak;  /* of a large square product; NAN: out of memory */
} rulers;

static double register_rate(const scn_kernel *k, int threads)
{
    enum { pieces = 16, rounds = 100000 }; /* several for each thread, some milliseconds in all */
    double done[pieces], all = 0;
    const double begin = clock_now();
    SCN_PARALLEL(threads, i, pieces, done[i] = k->limit(rounds));
    const double seconds = clock_now() - begin;
    for (int i = 0; i < pieces; i++)
        all += done[i];
    return all / seconds * 1e-9;
}

static double product_rate(const scn_gemm *g, float *m)
{
    const int64_t n = peak_size;
    const double begin = clock_now();
    scn_gemm_run(g, m, n, m + n * n, n, 1, false, m + 2 * n * n, n, NULL, m + 3 * n * n);
    return 2.0 * (double)(n * n * n) / (clock_now() - begin) * 1e-9;
}

/* The best of both so far, each a median of a few. */
static void measure_rulers(rulers *r, int threads)
{
    const int64_t n = peak_size;
    const scn_gemm_shape shape = {.m = n, .n = n, .k = n, .transpose_b = true};
    const scn_gemm g = scn_gemm_plan(&shape, threads);
    double limit[peak_runs], peak[peak_runs];
    float *m = aligned_alloc(64, (3 * (size_t)(n * n) + scn_gemm_floats(&g) + 15) / 16 * 64);
    for (int64_t i = 0; m && i < 2 * n * n; i++)
        m[i] = (float)(i % 7) - 3;
    if (m)
        product_rate(&g, m);
    for (int i = 0; i < peak_runs; i++) {
        limit[i] = register_rate(scn_kernel_for(SCION_F32), threads);
        peak[i] = m ? product_rate(&g, m) : NAN;
    }
    free(m);
    r->limit = fmax(r->limit, median(limit, peak_runs));
    r->peak = fmax(r->peak, median(peak, peak_runs));
}

/* On a CPU with instructions for pairs of bfloat16: are they as fast as the table of CPUs says? */
static void judge_table(int threads)
{
    const scn_cpu cpu = scn_cpu_here();
    const bool fast = scn_cpu_fast_pairs(&cpu);
    const scn_isa *isa;
    for (int i = 0; (isa = scn_isa_at(i)) != NULL; i++) {
        double pairs[peak_runs], floats[peak_runs];
        if (isa->chosen != SCN_ISA_BY_TABLE)
            continue;
        for (int r = 0; r < peak_runs; r++) {
            pairs[r] = register_rate(isa->bf16, threads);
            floats[r] = register_rate(isa->f32, threads);
        }
        const double rate = median(pairs, peak_runs), base = median(floats, peak_runs);
        cli_fill(stdout, 0, "bfloat16 in pairs (%s): %.1f GFLOP/s on registers, %.2f times float32; %s by default",
                 isa->name, rate, rate / base, fast ? "used" : "not used");
        if (scn_cpu_table_wrong(fast, rate, base))
            cli_fill(
                stdout, 0,
                "the default is wrong for this CPU (%s, family %d, model %d): please report this line; SCION_ISA=%s "
                "chooses the other one",
                cpu.vendor, cpu.family, cpu.model, fast ? isa->f32->name : isa->name);
    }
}

static bool timed_enough(const timings *times)
{
    const double spent = clock_now() - times->begin;
    return times->count >= max_steps || spent > long_s || (times->count >= min_steps && spent > budget_s);
}

static scion_status watch(timings *times, scion_error *err)
{
    /* two threads at least: tasks of a loop find out that they are in one by the threads that share it */
    times->watched = regions_start(times->cores, times->threads > 2 ? times->threads : 2);
    times->begin = clock_now();
    return times->watched ? SCION_OK : train_fail(err, SCION_ENOMEM, "out of memory for a record of loops");
}

static scion_status time_step(void *ctx, const run_event *e, scion_error *err)
{
    timings *times = ctx;
    if (times->watched) {
        times->watched_count++;
        return SCION_OK;
    }
    if (e->point->step == 1) /* warm-up */
        return times->watch_only ? watch(times, err) : SCION_OK;
    const int i = times->count++;
    times->step[i] = e->point->seconds;
    times->forward[i] = e->step->forward_s;
    times->backward[i] = e->step->backward_s;
    times->optimizer[i] = e->step->optimizer_s;
    cli_progress_show(&times->progress, CLI_STATUS, "step %d  %.0f ms", i + 1, 1e3 * e->point->seconds);
    return timed_enough(times) ? watch(times, err) : SCION_OK;
}

static bool enough(void *ctx)
{
    const timings *times = ctx;
    return cli_interrupted() || times->watched_count >= max_watched ||
           (times->watched_count >= 1 && clock_now() - times->begin > watch_budget_s);
}

static scion_status measure(trainer *t, timings *times, scion_error *err)
{
    const run_sink sink = {.on = {[RUN_STEPPED] = time_step}, .ctx = times}, *const sinks[] = {&sink};
    const run_policy policy = {.steps = 1 + max_steps + max_watched, .stop = enough, .stop_ctx = times};
    run_result r;
    times->progress = cli_progress_start(stderr);
    if (times->watch_only)
        cli_progress_show(&times->progress, CLI_STATUS, "planned for %d cores", times->cores);
    else
        cli_progress_show(&times->progress, CLI_STATUS, "step 0, to warm up");
    times->begin = clock_now();
    const scion_status status = run_train(t, &policy, sinks, 1, &r, NULL, err);
    regions_stop(times->watched);
    cli_progress_clear(&times->progress);
    return status;
}

static void print_report(const trainer *t, const timings *times, const rulers *r, double rate, double bytes)
{
    const double step = median(times->step, times->count), samples = (double)trainer_samples(t) / step;
    const int threads = trainer_about(t).threads;
    char text[16], peak[80] = "; no memory for a large product";
    if (!isnan(r->peak))
        snprintf(peak, sizeof peak, ", %.1f%% of a large product's %.1f", 100 * rate / r->peak, r->peak);
    cli_fill(stdout, 0, "forward %.1f ms, backward %.1f ms, optimizer %.1f ms, step %.1f ms (medians of %d)",
             1e3 * median(times->forward, times->count), 1e3 * median(times->backward, times->count),
             1e3 * median(times->optimizer, times->count), 1e3 * step, times->count);
    cli_fill(stdout, 0,
             "%.*f %s/s; forward and backward %.1f GFLOP/s, %.1f%% of the %.1f that multiply-adds on registers "
             "reach%s",
             samples < 10 ? 2 : 0, samples, trainer_about(t).unit, rate, 100 * rate / r->limit, r->limit, peak);
    cli_fill(stdout, 0, "%s kernels, %d thread%s, %lld parameters, peak memory %s; %s", scn_isa_used()->name, threads,
             cli_plural(threads), (long long)trainer_about(t).parameters, cli_bytes(bytes, text),
             data_about(trainer_about(t).data)->description);
    judge_table(threads);
    if (times->watched_count > 0 && threads > 1)
        bench_cores_print(times->watched, times->watched_count);
}

/* Prints the numbers, unless JSON alone is wanted, and returns them. */
static json_t *report(const trainer *t, const timings *times, const rulers *r, bool print)
{
    struct rusage usage;
    const double forward = median(times->forward, times->count), backward = median(times->backward, times->count);
    const double optimizer = median(times->optimizer, times->count), step = median(times->step, times->count);
    const double rate = trainer_flops(t) / (forward + backward) * 1e-9;
    getrusage(RUSAGE_SELF, &usage);
    const double bytes = 1024.0 * (double)usage.ru_maxrss;
    char per_second[32];
    if (print)
        print_report(t, times, r, rate, bytes);
    snprintf(per_second, sizeof per_second, "%s_per_s", trainer_about(t).unit);
    json_t *out =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:f, s:i, s:s, s:I, s:i}", "forward_ms",
                  1e3 * forward, "backward_ms", 1e3 * backward, "optimizer_ms", 1e3 * optimizer, "step_ms",
                  1e3 * step, per_second, (double)trainer_samples(t) / step, "share_of_limit", rate / r->limit,
                  "limit_gflops", r->limit, "share_of_peak", json_number(rate / r->peak), "peak_gflops",
                  json_number(r->peak), "peak_bytes", bytes, "threads", trainer_about(t).threads, "kernels",
                  scn_isa_used()->name, "parameters", (json_int_t)trainer_about(t).parameters, "steps", times->count);
    if (times->watched_count > 0)
        json_object_set_new(out, "watched", bench_cores_json(times->watched, times->watched_count));
    return out;
}

/* Watches steps that are planned for so many cores, by the threads that there are. one_core: seconds of a step. */
static scion_status forecast(const config *c, int cores, int threads, double one_core, bool print, json_t *into,
                             scion_error *err)
{
    config planned = *c;
    trainer *t = NULL;
    timings times = {.watch_only = true, .cores = cores, .threads = threads};
    scion_status status = SCION_OK;
    planned.training.threads = cores;
    TRY(trainer_create(&t, &planned, NULL, NULL, err));
    TRY(measure(t, &times, err));
    if (times.watched_count < 1)
        goto done;
    if (print)
        bench_forecast_print(times.watched, times.watched_count, cores, one_core);
    json_array_append_new(into, bench_forecast_json(times.watched, times.watched_count, cores, one_core));
done:
    trainer_free(t);
    regions_free(times.watched);
    return status;
}

/* ---- Generating ----------------------------------------------------------------------------------------------- */

/* Bytes a second that all threads read of an array far larger than the caches: the best of a few. */
static double read_rate(int threads)
{
    enum { bytes = 1 << 28, pieces = 64, floats = bytes / 4 / pieces, lanes = 16 };
    float *x = aligned_alloc(64, bytes), sums[pieces];
    double best = 0;
    if (!x)
        return NAN;
    memset(x, 0, bytes);
    for (int run = 0; run < peak_runs; run++) {
        const double begin = clock_now();
        SCN_PARALLEL_FOR(threads, i, pieces) {
            float part[lanes] = {0};
            for (const float *p = x + (size_t)i * floats, *end = p + floats; p < end; p += lanes) {
                SCN_SIMD
                for (int k = 0; k < lanes; k++)
                    part[k] += p[k];
            }
            sums[i] = part[0] + part[lanes - 1];
        }
        best = fmax(best, (bytes + (double)sums[run] * 0) / (clock_now() - begin)); /* sums are zero, and needed */
    }
    free(x);
    return best;
}

/* A model with weights, and nothing else. */
typedef struct bench_model {
    data_set *data;
    model model;
    void *weights;
    int threads;
} bench_model;

static void free_model(bench_model *b)
{
    model_free(&b->model);
    data_close(b->data);
    free(b->weights);
}

/* Makes a model whose weights are all alike: their values do not change the time. */
static scion_status make_model(bench_model *b, const config *c, scion_error *err)
{
    enum { small = 0x3c }; /* 0.0115 as float32 or bfloat16, if it is in all bytes */
    const data_context context = {
        .seed = c->training.seed, .wants = config_model(c)->inputs, .open_tokenizer = run_tokenizer_open};
    scion_status status = SCION_OK;
    if (!config_model(c)->decode)
        return train_fail(err, SCION_EINVAL, "model=%s writes no text", c->model);
    b->threads = threads_set((int)c->training.threads);
    TRY(data_open(&b->data, &c->data, &context, err));
    TRY(network_record(&b->model, c, data_about(b->data), 1, err));
    const size_t bytes = (tape_weight_bytes(b->model.tape) + 63) / 64 * 64;
    b->weights = aligned_alloc(64, bytes);
    if (!b->weights)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the weights"));
    memset(b->weights, small, bytes);
    tape_bind(b->model.tape, b->weights, NULL, NULL);
done:
    return status;
}

/* Feeds the decoder the tokens it finds most likely, and times each. */
static scion_status time_tokens(const bench_model *b, const config *c, timings *times, scion_error *err)
{
    const model_decode *decode = config_model(c)->decode;
    const int64_t vocab = model_array(&b->model, "tokens")->range;
    void *decoder = decode->create(&b->model, config_model_options(c), c->data.block, err);
    if (!decoder)
        return SCION_ENOMEM;
    int32_t token = 0;
    for (times->begin = clock_now(); !timed_enough(times) && !cli_interrupted();) {
        const double begin = clock_now();
        const float *logits = decode->step(decoder, token);
        times->step[times->count++] = clock_now() - begin;
        for (int64_t i = token = 0; i < vocab; i++)
            token = logits[i] > logits[token] ? (int32_t)i : token;
    }
    decode->free(decoder);
    return SCION_OK;
}

static int report_tokens(const bench_model *b, const timings *times, double rate, const char *json_path)
{
    const int64_t parameters = tape_param_elements(b->model.tape);
    const double step = median(times->step, times->count), bytes = (double)tape_weight_bytes(b->model.tape);
    if (!json_path || strcmp(json_path, "-") != 0) {
        printf("%.1f ms a token, %.1f tokens/s (median of %d)\n", 1e3 * step, 1 / step, times->count);
        printf("%.1f GB/s of weights, %.0f%% of the %.1f that reading memory reaches\n", 1e-9 * bytes / step,
               100 * bytes / step / rate, 1e-9 * rate);
        printf("%s kernels, %d threads, %lld parameters\n", scn_isa_used()->name, b->threads, (long long)parameters);
    }
    if (!json_path)
        return CLI_OK;
    json_t *out =
        json_pack("{s:f, s:f, s:f, s:f, s:i, s:s, s:I, s:i}", "token_ms", 1e3 * step, "tokens_per_s", 1 / step,
                  "share_of_reading", bytes / step / rate, "read_gbytes_per_s", 1e-9 * rate, "threads", b->threads,
                  "kernels", scn_isa_used()->name, "parameters", (json_int_t)parameters, "tokens", times->count);
    scion_error err;
    return cli_end(json_save(out, JSON_INDENT(2), json_path, &err), &err);
}

enum { JSON, CORES };

static const cli_argument arguments[] = {
    [JSON] = CLI_JSON,
    [CORES] = CLI_SETTING("cores", "N,...", "train: forecast the step on so many cores"),
    {0},
};

static const char *bench_word(int i)
{
    return i == 0 ? "train" : i == 1 ? "sample" : NULL;
}

static int stopped_early(void)
{
    return cli_error(cli_stopped(), "stopped before anything was measured");
}

/* Settings: the preset with one micro-batch of synthetic data, then the pairs. */
static scion_status read_settings(config *c, const cli_arguments *a, bool sample, scion_error *err)
{
    scion_status status = SCION_OK;
    config_init(c);
    if (a->word_count == 2)
        TRY(config_preset(c, a->words[1], err));
    c->data.path[0] = '\0';
    c->training.accum = 1;
    if (sample)
        c->training.batch = 1;
    TRY(cli_settings(c, NULL, a, err));
    if (!c->data.path[0])
        TRY(config_set(c, "data_kind", "synthetic", "bench", err));
    if (c->training.steps < 1000) /* more than will be measured, so that no schedule ends */
        c->training.steps = 1000;
    TRY(config_check(c, err));
done:
    return status;
}

static int bench_train(const config *c, const char *json_path, const int *cores, int count)
{
    const bool print = !json_path || strcmp(json_path, "-") != 0;
    trainer *t = NULL;
    timings times = {.count = 0};
    rulers r = {0, NAN};
    json_t *out = NULL, *forecasts = json_array();
    scion_error err;
    scion_status status = SCION_OK;
    TRY(trainer_create(&t, c, NULL, NULL, &err));
    times.cores = times.threads = trainer_about(t).threads;
    cli_catch_signals();               /* not earlier: Ctrl-C ends the planning of a large model at once */
    measure_rulers(&r, times.threads); /* before and after: the better ones count */
    TRY(measure(t, &times, &err));
    if (times.count < 1)
        goto done;
    measure_rulers(&r, times.threads);
    out = report(t, &times, &r, print);
    trainer_free(t); /* two of them may not fit */
    t = NULL;
    for (int i = 0; i < count && times.watched_count > 0 && !cli_interrupted(); i++)
        TRY(forecast(c, cores[i], times.threads, regions_work(times.watched, REGIONS_PARTS) / times.watched_count,
                     print, forecasts, &err));
    if (json_array_size(forecasts) > 0) {
        json_object_set(out, "forecast", forecasts);
        if (print)
            bench_forecast_note();
    }
    if (json_path)
        TRY(json_save(json_incref(out), JSON_INDENT(2), json_path, &err));
done:;
    const int exit_status = status != SCION_OK ? cli_error(CLI_FAILED, "%s", err.message)
                            : times.count > 0  ? CLI_OK
                                               : stopped_early();
    regions_free(times.watched);
    json_decref(out);
    json_decref(forecasts);
    trainer_free(t);
    return exit_status;
}

static int bench_sample(const config *c, const char *json_path)
{
    bench_model b = {.data = NULL};
    timings times = {.count = 0};
    double rate = 0;
    scion_error err;
    scion_status status = SCION_OK;
    TRY(make_model(&b, c, &err));
    cli_catch_signals();
    rate = read_rate(b.threads);
    TRY(time_tokens(&b, c, &times, &err));
done:;
    const int exit_status = status != SCION_OK ? cli_error(CLI_FAILED, "%s", err.message)
                            : times.count > 0 ? report_tokens(&b, &times, fmax(rate, read_rate(b.threads)), json_path)
                                              : stopped_early();
    free_model(&b);
    return exit_status;
}

static int run_bench(cli_arguments *a)
{
    config c;
    scion_error err;
    const bool sample = a->word_count > 0 && strcmp(a->words[0], "sample") == 0;
    if (a->word_count < 1 || a->word_count > 2 || (!sample && strcmp(a->words[0], "train") != 0))
        return cli_error(CLI_USAGE,
                         "say what to measure: scion bench train|sample [PRESET] [key=value ...] [json=FILE]");
    if (read_settings(&c, a, sample, &err) != SCION_OK)
        return cli_error(CLI_USAGE, "%s", err.message);
    int cores[max_cores];
    const int count = cli_get_numbers(a, CORES, "", most_cores, cores, max_cores);
    if (count < 0)
        return CLI_USAGE;
    return sample ? bench_sample(&c, a->values[JSON]) : bench_train(&c, a->values[JSON], cores, count);
}

const cli_command cli_bench = {
    .name = "bench",
    .usage = "train|sample [PRESET] [key=value ...] [cores=N,...] [json=FILE]",
    .summary = "measure the speed of training, or of generating",
    .help = "Times the forward pass, the backward pass, the optimizer and the whole step (medians), on "
            "synthetic data unless data= is given, and compares forward and backward pass, by the model's "
            "operations, with multiply-adds on registers and with a large product in the same run. A few more "
            "steps show what decides the speed on more cores: the time outside parallel loops, which only "
            "one core can do, and for the large loops how many tasks they have and how many equal ones would "
            "take as long.\n\n"
            "cores=16,64 forecasts the step on so many cores from these, with plans for so many: serial time "
            "and uneven tasks are counted; memory bandwidth is not.\n\n"
            "sample times the tokens that an untrained model generates, and compares the bytes of its "
            "weights, all of which a token reads, with what reading memory reaches.\n\n"
            "  scion bench train nanogpt-124m batch=4 block=256\n"
            "  scion bench train nanogpt-124m batch=4 cores=16,64\n"
            "  scion bench sample nanogpt-124m\n"
            "  scion bench train shakespeare json=bench.json\n",
    .run = run_bench,
    .arguments = arguments,
    .options = CLI_ALL_OPTIONS,
    .words = CLI_PRESETS | CLI_FILES,
    .word = bench_word,
};
