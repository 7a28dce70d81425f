/* scion eval: loss and accuracy of a checkpoint. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "util/clock.h"
#include "util/fail.h"
#include "cli.h"
#include "data/tta.h"
#include "record/mistakes.h"
#include "record/run_dir.h"

enum { PART, MISTAKES, JSON, QUIET };

static const cli_argument arguments[] = {
    [PART] = {"part", "val|all", "val: the validation part (default); all: all data", .also = "split subset"},
    [MISTAKES] =
        CLI_SETTING("mistakes", "FILE", "images: write confusion matrix and worst images, like mistakes.json"),
    [JSON] = CLI_SWITCH("--json", "print one JSON object"),
    [QUIET] = CLI_SWITCH("--quiet", "print the loss alone"),
    {0},
};

typedef struct outcome {
    char path[RUN_PATH];
    int64_t all; /* tokens or images of the part */
    trainer_scores scores;
    mistakes *wrong; /* of images; else NULL */
} outcome;

/* Adds the confusion matrix and the worst images, without their pixels. */
static void add_mistakes(json_t *object, const mistakes *m)
{
    static const char *const keys[] = {"classes", "pairs", "confusion", "worst"};
    json_t *all = mistakes_json(m, false);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(object, keys[i], json_object_get(all, keys[i]));
    json_decref(all);
}

static void print_json(const trainer *t, const outcome *o)
{
    const data_info *d = data_about(trainer_about(t).data);
    char of_part[32];
    snprintf(of_part, sizeof of_part, "%s_of_part", d->unit);
    json_t *object =
        json_pack("{s:o*, s:I, s:s, s:s, s:I, s:I, s:I, s:o*, s:o*, s:o*, s:o*}", "checkpoint", json_string(o->path),
                  "step", (json_int_t)trainer_about(t).step, "data", trainer_about(t).config->data.path, "part",
                  d->held_out, d->unit, (json_int_t)o->scores.measured, of_part, (json_int_t)o->all, "skipped",
                  (json_int_t)data_skipped(trainer_about(t).data), "loss", json_real(o->scores.loss), "bits_per_byte",
                  json_real(o->scores.bits_per_byte), "accuracy", json_real(o->scores.accuracy), "top5",
                  json_real(o->scores.top5)); /* NULL, left out: NAN, or a path that is not UTF-8 */
    if (d->classes > 0) {
        json_object_set_new(object, "plain_accuracy", json_real(o->scores.plain_accuracy));
        json_object_set_new(object, "tta", json_string(trainer_about(t).config->run.tta));
    }
    if (o->wrong)
        add_mistakes(object, o->wrong);
    json_dumpf(object, stdout, JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(object);
}

static void print_text(const trainer *t, const outcome *o)
{
    const data_info *d = data_about(trainer_about(t).data);
    const trainer_scores *s = &o->scores;
    cli_print(stdout, "%s\n", o->path);
    cli_fill(stdout, 6, "data: %s; %lld of its %lld %s", d->held_out, (long long)s->measured, (long long)o->all,
             d->unit);
    if (d->note[0])
        cli_fill(stdout, 6, "note: %s", d->note);
    if (data_files(trainer_about(t).data) > 0 && data_skipped(trainer_about(t).data) > 0)
        printf("left out: %lld image%s that cannot be read\n", (long long)data_skipped(trainer_about(t).data),
               cli_plural(data_skipped(trainer_about(t).data)));
    printf("step %lld  validation loss %.4f", (long long)trainer_about(t).step, s->loss);
    if (!isnan(s->bits_per_byte))
        printf("  %.4f bits per byte", s->bits_per_byte);
    printf("  accuracy %.2f%%", 100 * s->accuracy);
    if (!isnan(s->top5))
        printf("  top-5 %.2f%%", 100 * s->top5);
    printf("\n");
    const char *views = trainer_about(t).config->run.tta;
    if (tta_find(views)->count > 1)
        printf("tta=%s  accuracy without it %.2f%%\n", views, 100 * s->plain_accuracy);
}

/* ---- Progress ----------------------------------------------------------------------------------------------- */

typedef struct view {
    cli_progress progress;
    double begin; /* clock */
} view;

static void show(void *ctx, int64_t done, int64_t count)
{
    static const double quiet_s = 2; /* as in training */
    view *v = ctx;
    const double spent = clock_now() - v->begin;
    char left[16];
    if (spent > quiet_s)
        cli_progress_show(&v->progress, CLI_WAITING, "measured %.0f %%  %s left", 100 * (double)done / (double)count,
                          cli_duration(spent / (double)done * (double)(count - done), left));
}

/* ---- The command -------------------------------------------------------------------------------------------- */

static int evaluate(trainer *t, outcome *o)
{
    const data_info *d = data_about(trainer_about(t).data);
    view v = {.progress = cli_progress_start(stderr), .begin = clock_now()};
    scion_error err;
    o->all = d->units[DATA_VAL];
    const data_options *options = &trainer_about(t).config->data;
    if (d->samples[DATA_VAL] < 1 && !options->val[0] && d->units[DATA_TRAIN] > 0)
        return cli_error(CLI_FAILED,
                         "%s: the validation part is too small to be measured; part=all measures all data",
                         options->path);
    const trainer_watch watch = {.stop = cli_stop, .evaluated = show, .ctx = &v};
    cli_catch_signals();
    const scion_status status = trainer_validate(t, true, &watch, &o->scores, &o->wrong, &err);
    cli_progress_clear(&v.progress);
    for (scion_error why; data_next_warning(trainer_about(t).data, &why);)
        cli_warning(why.message);
    if (status == SCION_ESTOPPED)
        return CLI_OK; /* main sets the signal's exit status */
    if (status == SCION_OK && !isfinite(o->scores.loss))
        return cli_error(CLI_FAILED, "%s: the loss is %s: the model is of no use", o->path,
                         isnan(o->scores.loss) ? "not a number" : "infinite");
    return cli_end(status, &err);
}

static int save_mistakes(const outcome *o, const char *file)
{
    scion_error err;
    return cli_end(mistakes_save(o->wrong, -1, file, &err), &err);
}

static int run_eval(cli_arguments *a)
{
    char part[8] = "val", file[RUN_PATH] = "";
    trainer *t = NULL;
    outcome o = {.wrong = NULL};
    if (!cli_get_text(a, PART, part, sizeof part) || !cli_get_text(a, MISTAKES, file, sizeof file))
        return CLI_USAGE;
    if (!cli_one_run(a))
        return CLI_USAGE;
    const bool whole = strcmp(part, "all") == 0;
    if (!whole && strcmp(part, "val") != 0)
        return cli_error(CLI_USAGE, "part=%s: expected val or all", part);
    int status;
    TRY(cli_open_run(&t, a, whole ? TRAINER_EVALUATE_WHOLE : TRAINER_EVALUATE, o.path));
    if (file[0] && !trainer_about(t).reports_mistakes)
        TRY(cli_error(CLI_FAILED, "mistakes=%s: model %s does not classify images", file,
                      trainer_about(t).config->model));
    TRY(evaluate(t, &o));
    if (cli_interrupted())
        goto done;
    if (file[0])
        TRY(save_mistakes(&o, file));
    if (a->values[JSON])
        print_json(t, &o);
    else if (a->values[QUIET])
        printf("%.6f\n", o.scores.loss);
    else
        print_text(t, &o);
done:
    mistakes_free(o.wrong);
    trainer_free(t);
    return status;
}

const cli_command cli_eval = {
    .name = "eval",
    .usage = "RUN [key=value ...]",
    .summary = "measure a trained model",
    .help = "RUN is the folder of a run (its best checkpoint is used, else the newest) or a checkpoint. Measures "
            "the validation part: the last val_fraction of a text, or val_data. part=all measures all "
            "data. data, data_kind, val_data, val_fraction, skip_unknown, batch, block, threads, eval_tokens, "
            "eval_batches, eval_end and tta may be changed. Bits per byte are the loss "
            "of all measured tokens in bits, divided by the bytes of their text: models with other tokens compare by "
            "them. The accuracy is the fraction of tokens or images that "
            "are predicted correctly; of images also that whose class is among the five likeliest. tta=mirror and "
            "tta=translate look at each image in two and in six ways. --json has also how often each class is taken "
            "for another one; mistakes=RUN/mistakes.json makes scion report draw it, and the worst images.\n\n"
            "  scion eval runs/shakespeare\n"
            "  scion eval runs/shakespeare data=test.txt part=all\n"
            "  scion eval runs/shakespeare data=other.txt skip_unknown=yes --json\n"
            "  scion eval runs/cifar10 tta=translate\n",
    .run = run_eval,
    .arguments = arguments,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_RUNS,
};
