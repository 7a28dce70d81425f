/* scion bench train: time of a training step and its parts; scion bench sample: times of tokens that are generated
 * and of a prompt that is read. Both beside what the machine can do in the same run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "util/array.h"
#include "util/json.h"
#include "bench_cores.h"
#include "cli.h"
#include "generate/generator.h"
#include "record/run_tokenizer.h"
#include "run/run.h"
#include "base/thread.h"
#include "product/cpu.h"
#include "product/gemm.h"
#include "config/network.h"
#include "tensor/plan.h"
#include "trainer/flat.h"
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

/* Speeds of the machine, measured in the same run, in the type in which the run's products compute. */
typedef struct rulers {
    scion_dtype compute;
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
    const scn_gemm_shape shape = {.m = n, .n = n, .k = n, .transpose_b = true, .compute = r->compute};
    const scn_gemm g = scn_gemm_plan(&shape, threads);
    double limit[peak_runs], peak[peak_runs];
    float *m = aligned_alloc(64, (3 * (size_t)(n * n) + scn_gemm_floats(&g) + 15) / 16 * 64);
    for (int64_t i = 0; m && i < 2 * n * n; i++)
        m[i] = (float)(i % 7) - 3;
    if (m)
        product_rate(&g, m);
    for (int i = 0; i < peak_runs; i++) {
        limit[i] = register_rate(scn_kernel_for(r->compute), threads);
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
    const char *const type = r->compute == SCION_BF16 ? " in bfloat16" : "";
    if (!isnan(r->peak))
        snprintf(peak, sizeof peak, ", %.1f%% of a large product's %.1f", 100 * rate / r->peak, r->peak);
    cli_fill(stdout, 0, "forward %.1f ms, backward %.1f ms, optimizer %.1f ms, step %.1f ms (medians of %d)",
             1e3 * median(times->forward, times->count), 1e3 * median(times->backward, times->count),
             1e3 * median(times->optimizer, times->count), 1e3 * step, times->count);
    cli_fill(stdout, 0,
             "%.*f %s/s; forward and backward %.1f GFLOP/s, %.1f%% of the %.1f that multiply-adds on registers "
             "reach%s%s",
             samples < 10 ? 2 : 0, samples, trainer_about(t).unit, rate, 100 * rate / r->limit, r->limit, type, peak);
    cli_fill(stdout, 0, "%s kernels, %d thread%s, %lld parameters, peak memory %s; %s", scn_isa_used()->name, threads,
             cli_plural(threads), (long long)trainer_about(t).parameters, cli_bytes(bytes, text),
             data_about(trainer_about(t).data)->description);
    judge_table(threads);
    if (times->watched_count < 1 || threads < 2)
        return;
    const bench_products p = bench_products_of(times->watched, times->watched_count);
    if (p.share > 0)
        cli_fill(
            stdout, 0,
            "products take %.1f%% of forward and backward, at %.1f GFLOP/s, %.1f%% of the limit; the rest, mostly "
            "reading and writing memory, %.1f%%",
            100 * p.share, trainer_flops(t) / p.one_core * threads * 1e-9,
            100 * trainer_flops(t) / p.one_core * threads * 1e-9 / r->limit, 100 * (1 - p.share));
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
    json_object_set_new(out, "compute", json_string(r->compute == SCION_BF16 ? "bf16" : "float32"));
    if (times->watched_count > 0) {
        const bench_products p = bench_products_of(times->watched, times->watched_count);
        if (p.share > 0)
            json_object_set_new(out, "share_of_products", json_real(p.share));
        json_object_set_new(out, "watched", bench_cores_json(times->watched, times->watched_count));
    }
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

/* Bytes a second that all threads read of an array far larger than the caches, each an equal run of it: the best of a
 * few. */
static double read_rate(int threads)
{
    enum { bytes = 1 << 28, pieces = 64, floats = bytes / 4 / pieces, lanes = 16 };
    float *x = flat_allocate(bytes), sums[pieces];
    double best = 0;
    if (!x)
        return NAN;
    for (int run = 0; run < peak_runs; run++) {
        const double begin = clock_now();
        SCN_PARALLEL_FOR_STATIC(threads, i, pieces) {
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
    scion_dtype compute;
    int threads;
    generator *g;
} bench_model;

enum { bench_texts = 8, bench_prompt = 512, bench_tokens = 48 };

static void free_model(bench_model *b)
{
    generator_free(b->g);
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
    if (!config_model(c)->writes)
        return train_fail(err, SCION_EINVAL, "model=%s writes no text", c->model);
    b->threads = threads_set((int)c->training.threads);
    b->compute = (scion_dtype)c->training.compute;
    TRY(data_open(&b->data, &c->data, &context, err));
    TRY(network_record(&b->model, c, data_about(b->data), 1, err));
    b->weights = flat_allocate(tape_weight_bytes(b->model.tape));
    if (!b->weights)
        TRY(train_fail(err, SCION_ENOMEM, "out of memory for the weights"));
    memset(b->weights, small, tape_weight_bytes(b->model.tape));
    tape_bind(b->model.tape, b->weights, NULL, NULL);
    TRY(generator_create(&b->g, &b->model, b->compute, c->data.block, bench_texts, b->threads, err));
done:
    return status;
}

/* Tokens that follow each other with no pattern. */
static void fill_tokens(const bench_model *b, int64_t count, int32_t *tokens)
{
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(i * 7919 % generator_vocab(b->g));
}

/* Writing by `texts` texts at once, from a position on. */
typedef struct writing_time {
    int64_t position, texts;
    int count;      /* tokens of each text */
    double token_s; /* median time of a token of every text */
    double bytes;   /* that it reads */
    double read;    /* bytes a second that memory gives, around it */
} writing_time;

static void time_writing(const bench_model *b, writing_time *w, const int32_t *tokens)
{
    double times[bench_tokens];
    int64_t slots[bench_texts];
    w->read = read_rate(b->threads);
    for (int64_t i = 0; i < w->texts; i++) {
        slots[i] = i;
        generator_clear(b->g, i);
    }
    if (w->position > 0)
        generator_read(b->g, 0, w->position, tokens);
    for (int64_t i = 1; i < w->texts; i++)
        generator_copy(b->g, 0, i);
    for (w->count = 0; w->count < bench_tokens && !cli_interrupted();) {
        const double begin = clock_now();
        generator_write(b->g, w->texts, slots, tokens + w->count);
        times[w->count++] = clock_now() - begin;
    }
    if (w->count > 0)
        w->token_s = median(times, w->count);
    const double weights = generator_bytes(b->g, 0);
    w->bytes = weights + (double)w->texts * (generator_bytes(b->g, w->position + w->count / 2) - weights);
    w->read = fmax(w->read, read_rate(b->threads));
}

/* Tokens a second of a prompt, and of the forward pass of training on as many samples of one context; medians. */
typedef struct prompt_time {
    int64_t tokens;
    double rate, forward;
} prompt_time;

static scion_status time_prompt(const bench_model *b, prompt_time *p, const int32_t *tokens, scion_error *err)
{
    const plan_options how = {.mode = PLAN_INFERENCE, .threads = b->threads, .compute = b->compute};
    const tape_run run = {.threads = b->threads, .loss_scale = 1};
    const double samples = (double)model_array(&b->model, "tokens")->count;
    double prompt[peak_runs], forward[peak_runs];
    tape_plan *plan = NULL;
    int count = 0;
    scion_status status = SCION_OK;
    TRY(plan_make(&plan, b->model.tape, b->model.loss, &how, err));
    TRY(plan_commit(plan, NULL, err));
    plan_forward(plan, &run); /* pages, and what is packed */
    const double begin = clock_now();
    while (count < peak_runs && !cli_interrupted() && (count == 0 || clock_now() - begin < budget_s)) {
        double at = clock_now();
        plan_forward(plan, &run);
        forward[count] = clock_now() - at;
        generator_clear(b->g, 0);
        at = clock_now();
        generator_read(b->g, 0, p->tokens, tokens);
        prompt[count++] = clock_now() - at;
    }
    if (count > 0) {
        p->rate = (double)p->tokens / median(prompt, count);
        p->forward = samples / median(forward, count);
    }
done:
    plan_free(plan);
    return status;
}

static void print_writing(const char *name, const writing_time *w, const writing_time *one)
{
    const double rate = (double)w->texts / w->token_s;
    char times[40] = "";
    if (w->texts > 1)
        snprintf(times, sizeof times, ", %.1f times one text", rate * one->token_s);
    cli_fill(stdout, 0,
             "%s: %.2f ms a token, %.1f tokens/s%s; %.1f GB/s, %.0f%% of the %.1f that reading memory reaches", name,
             1e3 * w->token_s, rate, times, 1e-9 * w->bytes / w->token_s, 100 * w->bytes / w->token_s / w->read,
             1e-9 * w->read);
}

static int report_writing(const bench_model *b, const writing_time w[4], const prompt_time *p, const char *json_path)
{
    const int64_t parameters = tape_param_elements(b->model.tape);
    const double weights = generator_bytes(b->g, 0);
    if (!json_path || strcmp(json_path, "-") != 0) {
        char late[64], several[64], several_late[96];
        snprintf(late, sizeof late, "writing at position %lld", (long long)w[1].position + bench_tokens / 2);
        snprintf(several, sizeof several, "%d texts at once, empty contexts", bench_texts);
        snprintf(several_late, sizeof several_late, "%d texts at once at position %lld", bench_texts,
                 (long long)w[3].position + bench_tokens / 2);
        print_writing("writing in an empty context", &w[0], &w[0]);
        print_writing(late, &w[1], &w[1]);
        print_writing(several, &w[2], &w[0]);
        print_writing(several_late, &w[3], &w[1]);
        cli_fill(stdout, 0, "reading a prompt of %lld tokens: %.0f tokens/s, %.0f%% of the forward pass's %.0f",
                 (long long)p->tokens, p->rate, 100 * p->rate / p->forward, p->forward);
        cli_fill(stdout, 0, "%s kernels, %d thread%s, %lld parameters, %.1f MB of weights", scn_isa_used()->name,
                 b->threads, cli_plural(b->threads), (long long)parameters, 1e-6 * weights);
    }
    if (!json_path)
        return CLI_OK;
    json_t *out = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:i, s:f, s:f, s:f, s:I, s:f, s:f, s:i, s:s, s:I, s:f, s:i}",
        "token_ms", 1e3 * w[0].token_s, "tokens_per_s", 1 / w[0].token_s, "share_of_reading",
        w[0].bytes / w[0].token_s / w[0].read, "read_gbytes_per_s", 1e-9 * w[0].read, "late_token_ms",
        1e3 * w[1].token_s, "late_tokens_per_s", 1 / w[1].token_s, "late_share_of_reading",
        w[1].bytes / w[1].token_s / w[1].read, "late_position", (json_int_t)w[1].position + bench_tokens / 2, "texts",
        bench_texts, "texts_tokens_per_s", bench_texts / w[2].token_s, "texts_speedup",
        bench_texts * w[0].token_s / w[2].token_s, "late_texts_speedup", bench_texts * w[1].token_s / w[3].token_s,
        "prompt_tokens", (json_int_t)p->tokens, "prompt_tokens_per_s", p->rate, "forward_tokens_per_s", p->forward,
        "threads", b->threads, "kernels", scn_isa_used()->name, "parameters", (json_int_t)parameters, "weight_bytes",
        weights, "tokens", w[0].count);
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
    rulers r = {(scion_dtype)c->training.compute, 0, NAN};
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
    const int64_t late = c->data.block > bench_tokens ? c->data.block - bench_tokens : 0;
    writing_time w[] = {{.texts = 1},
                        {.position = late, .texts = 1},
                        {.texts = bench_texts},
                        {.position = late, .texts = bench_texts}};
    prompt_time p = {.tokens = c->data.block < bench_prompt ? c->data.block : bench_prompt};
    int32_t *tokens = calloc((size_t)c->data.block + bench_tokens, sizeof *tokens);
    cli_progress progress = cli_progress_start(stderr);
    scion_error err;
    scion_status status = SCION_OK;
    if (!tokens)
        TRY(train_fail(&err, SCION_ENOMEM, "out of memory"));
    TRY(make_model(&b, c, &err));
    cli_catch_signals();
    fill_tokens(&b, c->data.block + bench_tokens, tokens);
    for (size_t i = 0; i < sizeof w / sizeof *w && !cli_interrupted(); i++) {
        cli_progress_show(&progress, CLI_STATUS, "writing, %d of 4", (int)i + 1);
        time_writing(&b, &w[i], tokens);
    }
    cli_progress_show(&progress, CLI_STATUS, "reading a prompt");
    TRY(time_prompt(&b, &p, tokens, &err));
done:
    cli_progress_clear(&progress);
    const int exit_status = status != SCION_OK ? cli_error(CLI_FAILED, "%s", err.message)
                            : p.rate > 0       ? report_writing(&b, w, &p, json_path)
                                               : stopped_early();
    free_model(&b);
    free(tokens);
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
    .help =
        "Times the forward pass, the backward pass, the optimizer and the whole step (medians), on "
        "synthetic data unless data= is given, and compares forward and backward pass, by the model's "
        "operations, with multiply-adds on registers and with a large product in the same run, in the type of "
        "compute=. A few more steps show how much of both passes is products (with packing and softmax), how much "
        "the rest, and what decides the speed on more cores: the time outside parallel loops, which only "
        "one core can do, and for the large loops how many tasks they have and how many equal ones would "
        "take as long.\n\n"
        "cores=16,64 forecasts the step on so many cores from these, with plans for so many: serial time "
        "and uneven tasks are counted; memory bandwidth is not.\n\n"
        "sample times the tokens that an untrained model generates, in an empty context and in one that is "
        "nearly full, one text and eight at once, and compares the bytes that a token reads (all weights, and "
        "the keys and values of its context) with what reading memory reaches; and a prompt, beside the forward "
        "pass.\n\n"
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
