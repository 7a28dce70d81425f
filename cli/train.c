/* scion train, scion resume: sets a run up, describes it, runs it. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "comm/comm.h"
#include "describe.h"
#include "ranks/start_check.h"
#include "record/run_record.h"
#include "report/live_report.h"
#include "run/metrics_sink.h"
#include "run/sinks.h"
#include "run_view.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/utf8.h"

/* ---- Ranks ---------------------------------------------------------------------------------------------------- */

/* Says that a rank is lost, and where the run can be resumed. */
static void tell_lost(const comm *c, const char *message)
{
    const char *out = c->lost_ctx; /* the folder of the run; NULL: not known yet */
    char latest[RUN_PATH];
    cli_print(stderr, "scion: rank %d: %s\n", c->rank, message);
    if (c->rank == 0 && out && out[0] && run_dir_latest(out, latest, NULL) == SCION_OK)
        cli_print(stderr, "scion: the last checkpoint is %s\n", latest);
}

/* Joins the other ranks, of which only the first prints errors that all share. NULL after printing an error. */
static comm *join_ranks(const config *settings)
{
    scion_error err;
    if (comm_join(settings->training.comm_timeout, tell_lost, &err) != SCION_OK) {
        cli_error(CLI_FAILED, "%s", err.message);
        return NULL;
    }
    comm *c = comm_world();
    if (c->rank != 0)
        cli_mute_errors();
    return c;
}

static void watch_ranks(comm *c, const config *settings)
{
    c->timeout = settings->training.comm_timeout;
    c->lost_ctx = settings->run.out;
}

/* All ranks agree on a status, that of the lowest which failed; its message is printed with its number. Returns the
 * exit status of the command: `otherwise`, or CLI_OK. */
static int agree(comm *c, scion_status status, scion_error *err, int otherwise)
{
    int who;
    status = comm_agree(c, status, err, &who);
    if (status == SCION_OK)
        return CLI_OK;
    if (who > 0)
        return cli_error(otherwise, "rank %d on %s: %s", who, c->peers[who].host, err->message);
    return cli_error(otherwise, "%s", err->message);
}

/* Adds up bytes that all ranks sent and the share of time that they waited for each other; rank 0 prints them. */
static void print_totals(comm *c, const run_result *r, bool print)
{
    double n[] = {(double)c->sent[COMM_GRADIENTS], (double)c->sent[COMM_WEIGHTS],
                  r->comm_s / (r->forward_s + r->backward_s + r->optimizer_s + r->comm_s)};
    comm_sum(c, n, 3, NULL);
    if (print && c->size > 1 && r->taken > 0)
        cli_fill(
            stdout, 4,
            "ranks sent %.0f bytes of gradients and %.0f of weights in a step; they waited for each other %.0f%% "
            "of the time",
            n[0] / (double)r->taken, n[1] / (double)r->taken, 100 * n[2] / c->size);
}

/* ---- The run -------------------------------------------------------------------------------------------------- */

/* Trains, shows it, and says how it ended. elapsed: seconds of the run before it was resumed. Returns the exit
 * status. */
static int train(trainer *t, run_dir *dir, run_position *position, run_output show, double elapsed)
{
    comm *c = trainer_about(t).comm;
    run_view v = run_view_start(show);
    const run_sink view = run_view_sink(&v), json = metrics_print_sink(stdout), *sinks[SINKS_MAX + 3];
    run_sink files[SINKS_MAX], page = {.ctx = NULL};
    int count = 0, file_count = 0;
    run_policy policy = run_policy_of(trainer_about(t).config);
    run_result r;
    int sinks_failed;
    scion_error err;
    policy.dir = c->rank == 0 ? dir : NULL;
    policy.stop = cli_stop;
    policy.warn = cli_progress_warn;
    policy.warn_ctx = &v;
    policy.elapsed = elapsed;
    policy.position = position;
    scion_status status =
        c->rank == 0 ? sinks_open(files, &file_count, dir, trainer_about(t).config, &err) : SCION_OK;
    if (status == SCION_OK && c->rank == 0)
        status = live_report_open(&page, dir, trainer_about(t).config, &err);
    if (comm_agree(c, status, &err, NULL) != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    if (c->rank == 0) {
        for (; count < file_count; count++)
            sinks[count] = &files[count];
        sinks[count++] = &page;
        sinks[count++] = &view;
        if (show == AS_JSON)
            sinks[count++] = &json;
    }
    status = run_train(t, &policy, sinks, count, &r, &sinks_failed, &err);
    sinks_close(files, file_count);
    live_report_close(&page);
    cli_progress_clear(&v.progress);
    if (c->rank == 0) {
        char before[CONFIG_TEXT], message[2 * CONFIG_TEXT + 64];
        snprintf(before, sizeof before, "%s", dir->path);
        if (run_dir_moved(dir)) {
            snprintf(message, sizeof message, "the folder of this run was moved from %s to %s", before, dir->path);
            cli_progress_warn(&v, message);
            v.saved[0] = '\0';
        }
    }
    if (status == SCION_OK && c->rank == 0 && !v.saved[0])
        run_dir_latest(dir->path, v.saved, NULL);
    if (status == SCION_OK && show == AS_TEXT)
        run_view_end(&v, t, &r, dir->path);
    print_totals(c, &r, status == SCION_OK && show == AS_TEXT);
    if (status == SCION_OK)
        return sinks_failed > 0
                   ? cli_error(CLI_FAILED, "%s: metrics are incomplete; checkpoints are complete", dir->path)
                   : CLI_OK;
    cli_error(CLI_FAILED, "%s", err.message);
    if (c->rank == 0 && !file_folder_gone(dir->fd) && run_dir_latest(dir->path, v.saved, NULL) == SCION_OK)
        cli_error(CLI_FAILED, "the last checkpoint is %s", v.saved);
    return CLI_FAILED;
}

enum { JSON, QUIET, FORCE };

static const cli_argument arguments[] = {
    [JSON] = CLI_SWITCH("--json", "print the lines of metrics.jsonl, and the summary as the last one"),
    [QUIET] = CLI_SWITCH("--quiet", "print errors and warnings alone"),
    {0},
};

static run_output output_of(const cli_arguments *a, const comm *c)
{
    return c->rank != 0 || a->values[QUIET] ? NO_OUTPUT : a->values[JSON] ? AS_JSON : AS_TEXT;
}

/* ---- scion train ---------------------------------------------------------------------------------------------- */

/* Names a run that was given no name: runs/ and its preset. */
static void name_run(config *c)
{
    char name[CONFIG_TEXT - 32], base[CONFIG_TEXT];
    file_name(c->preset[0] ? c->preset : c->model, ".ini", name, sizeof name);
    snprintf(base, sizeof base, "runs/%s", name);
    run_dir_free_name(base, c->run.out);
}

/* Shown to first-time users. */
static const char first_steps[] = "usage: scion train [PRESET] [key=value ...]\n\n"
                                  "Any text file will do. Plays by Shakespeare, about a megabyte, are at hand:\n\n"
                                  "  scion data get shakespeare                     fetch them\n"
                                  "  scion train shakespeare data=shakespeare       two minutes on two cores\n"
                                  "  scion sample runs/shakespeare                  text that it generates\n\n"
                                  "Without a text: scion train shakespeare data_kind=synthetic\n"
                                  "scion presets lists what else can be trained; see also scion train --help.\n";

/* Settings that the command line does not give. */
typedef struct found_settings {
    config init;        /* of the run that init names */
    bool optimizer;     /* the optimizer is that run's too, except for options given */
    bool trained;       /* init names a run of ours, not a folder of transformers */
    int64_t preset_end; /* eval_end of the preset, where the run measures less; else 0 */
} found_settings;

/* Takes model and optimizer of the run that init names, as from a preset. A preset that is named has an optimizer of
 * its own. */
static scion_status read_init(config *c, const char *init, const cli_arguments *a, found_settings *f,
                              scion_error *err)
{
    const char *rule = cli_option(a, "rule");
    const scion_status status = trainer_model_of(c, init, &f->init, &f->trained, err);
    f->optimizer = status == SCION_OK && f->trained && !a->words[0];
    if (!f->optimizer)
        return status;
    if (rule && strcmp(rule, f->init.optimizer.rule) != 0 && !cli_option(a, "lr"))
        return train_fail(err, SCION_EINVAL,
                          "init: %.100s was trained by rule %s, whose lr is not that of rule %.32s: say lr=N as well",
                          init, f->init.optimizer.rule, rule);
    trainer_optimizer_of(c, &f->init);
    return SCION_OK;
}

/* Keeps a trial of a few steps from being measured for hours: the preset's eval_end belongs to a long run. */
static void limit_last_validation(config *c, const cli_arguments *a, found_settings *f)
{
    enum { enough = 1 << 18 };
    const bool images = data_content_of(config_model(c)->inputs[0])->images;
    const double trained = (double)c->training.steps * (double)(c->training.batch * c->training.accum) *
                           (images ? 1 : (double)c->data.block);
    const int64_t limit = trained > enough ? (int64_t)fmin(trained, 0x1p62) : enough;
    if (cli_option(a, "eval_end") || c->training.steps == 0 || c->run.eval_end <= limit)
        return;
    f->preset_end = c->run.eval_end;
    c->run.eval_end = limit;
}

/* Sets the configuration as the arguments say, and checks it. */
static scion_status read_settings(config *c, const cli_arguments *a, found_settings *f, scion_error *err)
{
    const char *init = cli_option(a, "init");
    scion_status status = SCION_OK;
    if (init && init[0])
        TRY(read_init(c, init, a, f, err));
    TRY(cli_settings(c, a->words[0], a, err));
    limit_last_validation(c, a, f);
    if (!c->data.path[0] && data_needs_path(c->data.kind))
        TRY(train_fail(err, SCION_EINVAL,
                       "no data to learn from: say data=FILE (scion data get shakespeare fetches a text, scion "
                       "data get cifar10 images), or data_kind=synthetic for a trial without data"));
    if (!c->run.out[0])
        name_run(c);
    TRY(config_check(c, err));
    TRY(config_check_lr(c, err));
done:
    return status;
}

/* Says where the weights and settings of a run with init come from. */
static void print_init(const config *c, const cli_arguments *a, const found_settings *f, int64_t step)
{
    char given[CONFIG_TEXT] = "";
    const char *run = c->training.init;
    if (f->trained)
        cli_fill(stdout, 6, "init: weights of %s, after its step %lld", run, (long long)step);
    else
        cli_fill(stdout, 6, "init: weights of %s, a folder of transformers", run);
    if (!f->trained && !c->preset[0]) {
        cli_fill(stdout, 6, "init: rule %s, norms %s and lr %g are those of the command line, else the defaults",
                 c->optimizer.rule, c->optimizer.norms, c->training.lr);
        return;
    }
    if (!f->optimizer) {
        cli_fill(stdout, 6, "init: optimizer and lr of preset %s and of the command line, not of %s", c->preset, run);
        return;
    }
    for (const option *o = optimizer_option_rows; o->key; o++)
        if (cli_option(a, o->key))
            utf8_append(given, sizeof given, "%s%s", given[0] ? ", " : "; as given: ", o->key);
    cli_fill(stdout, 6, "init: rule %s, its norms, radii and other settings as in %s%s", f->init.optimizer.rule, run,
             given);
    if (cli_option(a, "lr"))
        cli_fill(stdout, 6, "init: lr %g as given; %s had %g at its peak", c->training.lr, run, f->init.training.lr);
    else
        cli_fill(stdout, 6, "init: lr %g, a tenth of the peak in %s (%g); lr=N changes it", c->training.lr, run,
                 f->init.training.lr);
}

/* Makes the folder, on rank 0; *made: it was not there. */
static scion_status make_folder(const comm *c, const char *path, run_dir *dir, bool *made, scion_error *err)
{
    if (c->rank != 0)
        return SCION_OK;
    *made = !file_exists(path);
    return run_dir_create(dir, path, err);
}

/* Removes the folder of a run that failed before its first step, if nothing is in it. */
static void remove_empty(const run_dir *dir)
{
    struct stat about;
    if (fstatat(dir->fd, "metrics.jsonl", &about, AT_SYMLINK_NOFOLLOW) == 0 && about.st_size == 0)
        unlinkat(dir->fd, "metrics.jsonl", 0);
    rmdir(dir->path);
}

static int train_command(cli_arguments *a)
{
    config c;
    trainer *t = NULL;
    run_dir dir = {.fd = -1};
    run_position position = run_position_start();
    found_settings found = {.optimizer = false};
    int64_t init_step;
    scion_error err;
    bool made = false;
    if (a->word_count + a->pair_count == 0) {
        fputs(first_steps, stderr);
        return CLI_USAGE;
    }
    cli_outlive_reader();
    config_init(&c);
    if (!cli_words(a, 1, "one preset at most, then key=value"))
        return CLI_USAGE;
    const scion_status read = read_settings(&c, a, &found, &err);
    comm *ranks = join_ranks(&c);
    if (!ranks)
        return CLI_FAILED;
    int status;
    TRY(agree(ranks, read, &err, CLI_USAGE));
    watch_ranks(ranks, &c);
    TRY(agree(ranks, start_check_settings(ranks, &c, &err), &err, CLI_FAILED));
    TRY(agree(ranks, trainer_create(&t, &c, ranks, &init_step, &err), &err, CLI_FAILED));
    trainer_share_hashes(t);
    TRY(agree(ranks, start_check_data(ranks, data_about(trainer_about(t).data), &err), &err, CLI_FAILED));
    TRY(agree(ranks, make_folder(ranks, c.run.out, &dir, &made, &err), &err, CLI_FAILED));
    trainer_share_weights(t);
    const run_output show = output_of(a, ranks);
    cli_catch_signals(); /* before anything is printed: Ctrl-C then saves */
    if (show == AS_TEXT) {
        describe_parameters(t);
        describe_memory(t);
        describe_run(t);
        if (init_step >= 0)
            print_init(&c, a, &found, init_step);
        if (found.preset_end > 0)
            cli_fill(stdout, 12,
                     "validation: the preset's %lld %s for the last one are more than this run trains on; "
                     "eval_end=%lld measures them all the same",
                     (long long)found.preset_end, config_unit(&c), (long long)found.preset_end);
        fflush(stdout);
    }
    status = train(t, &dir, &position, show, 0);
    if (made && status == CLI_FAILED && trainer_about(t).step == 0)
        remove_empty(&dir);
done:
    run_dir_close(&dir);
    run_position_free(&position);
    trainer_free(t);
    comm_leave();
    return status;
}

/* ---- scion resume --------------------------------------------------------------------------------------------- */

static const cli_argument resume_arguments[] = {
    [JSON] = CLI_SWITCH("--json", "print the lines of metrics.jsonl, and the summary as the last one"),
    [QUIET] = CLI_SWITCH("--quiet", "print errors and warnings alone"),
    [FORCE] = CLI_SWITCH("--force", "allow changes of lr, schedule, ... (the run is then a different one)"),
    {0},
};

/* A run that is resumed: where it was, where it goes. */
typedef struct resumption {
    char path[RUN_PATH];        /* of the checkpoint */
    char from[CONFIG_TEXT];     /* folder of the checkpoint */
    char pair[CONFIG_TEXT + 4]; /* "out=FOLDER" */
    const char *out;            /* folder of the run from now on */
    run_position position;
    trainer_resumed before;
} resumption;

/* Opens the run named on the command line. It goes on in the folder of its checkpoint, or in another (out=DIR). */
static scion_status open_run(trainer **t, cli_arguments *a, comm *ranks, resumption *r, scion_error *err)
{
    const char *out = cli_option(a, "out");
    const scion_status status = run_dir_latest(a->words[0], r->path, err);
    if (status != SCION_OK)
        return status;
    run_dir_of(r->path, r->from);
    snprintf(r->pair, sizeof r->pair, "out=%s", out && out[0] ? out : r->from);
    r->out = r->pair + 4;
    a->pairs[a->pair_count++] = r->pair;
    return trainer_resume(t, r->path, a->pairs, a->pair_count, a->values[FORCE] != NULL, ranks, &r->position,
                          &r->before, err);
}

/* comm_timeout as given, or of the run; what is wrong is reported when the run is opened. */
static void read_timeout(config *c, const cli_arguments *a)
{
    config run;
    bool trained;
    const char *given = cli_option(a, "comm_timeout");
    scion_error ignored;
    config_init(c);
    if (trainer_model_of(c, a->words[0], &run, &trained, &ignored) == SCION_OK)
        c->training.comm_timeout = run.training.comm_timeout;
    if (given)
        config_set(c, "comm_timeout", given, "", &ignored);
}

/* Opens the folder of the run, on rank 0; a new one may not hold a run. The other ranks have read the checkpoint by
 * now, before the folder changes. */
static scion_status find_folder(const trainer *t, const resumption *r, const cli_arguments *a, run_dir *dir,
                                scion_error *err)
{
    const comm *c = trainer_about(t).comm;
    if (c->rank != 0)
        return SCION_OK;
    if (strcmp(r->out, r->from) != 0)
        return run_dir_create(dir, r->out, err);
    const scion_status status = run_dir_lock(dir, r->out, err);
    if (status != SCION_OK)
        return status;
    if (file_is_folder(a->words[0]) && run_dir_newest(dir) != trainer_about(t).step)
        return train_fail(err, SCION_EINVAL, "%s: another process went on with this run meanwhile; try again",
                          r->out);
    const int later = run_dir_set_aside(dir, trainer_about(t).step);
    if (later > 0 && output_of(a, c) == AS_TEXT)
        printf("set aside (renamed to *.aside): %d checkpoint%s of later steps\n", later, cli_plural(later));
    return SCION_OK;
}

/* Prints how the step sizes differ from those the run began with. */
static void print_course(const trainer *t, const resumption *r)
{
    const int64_t step = trainer_about(t).step, steps = trainer_about(t).steps;
    const bool longer = steps != r->before.steps_before;
    if (longer)
        cli_fill(stdout, 4, "steps: %lld, were %lld; the schedule %s now spans all of them", (long long)steps,
                 (long long)r->before.steps_before, trainer_about(t).config->training.schedule);
    const char *changes = r->position.changes ? r->position.changes : "";
    for (size_t length; (length = strcspn(changes, "\n")) > 0; changes += length + (changes[length] == '\n'))
        cli_fill(stdout, 4, "not the same run any more: %.*s", (int)length, changes);
    if ((longer || r->position.changes) && step < steps)
        cli_fill(stdout, 4, "lr: %.4g in step %lld, %.4g in step %lld", r->before.lr_before, (long long)step,
                 trainer_lr(t), (long long)step + 1);
}

static int resume_command(cli_arguments *a)
{
    resumption r = {.position = run_position_start()};
    run_dir dir = {.fd = -1};
    trainer *t = NULL;
    scion_error err;
    cli_outlive_reader();
    if (!cli_one_run(a))
        return CLI_USAGE;
    config waiting;
    read_timeout(&waiting, a);
    comm *ranks = join_ranks(&waiting);
    if (!ranks)
        return CLI_FAILED;
    int status;
    TRY(agree(ranks, open_run(&t, a, ranks, &r, &err), &err, CLI_FAILED));
    const config *c = trainer_about(t).config;
    watch_ranks(ranks, c);
    TRY(agree(ranks, start_check_settings(ranks, c, &err), &err, CLI_FAILED));
    trainer_share_hashes(t);
    TRY(agree(ranks, start_check_data(ranks, data_about(trainer_about(t).data), &err), &err, CLI_FAILED));
    TRY(agree(ranks, start_check_position(ranks, trainer_about(t).step, trainer_about(t).micro, &err), &err,
              CLI_FAILED));
    TRY(agree(ranks, find_folder(t, &r, a, &dir, &err), &err, CLI_FAILED));
    const run_output show = output_of(a, ranks);
    cli_catch_signals(); /* before anything is printed: Ctrl-C then saves */
    if (show == AS_TEXT) {
        describe_run(t);
        cli_print(stdout, "resuming after step %lld of %lld, from %s\n", (long long)trainer_about(t).step,
                  (long long)trainer_about(t).steps, r.path);
        print_course(t, &r);
        fflush(stdout);
    }
    status =
        train(t, &dir, &r.position, show, ranks->rank == 0 ? run_record_elapsed(r.from, trainer_about(t).step) : 0);
done:
    run_dir_close(&dir);
    run_position_free(&r.position);
    trainer_free(t);
    comm_leave();
    return status;
}

const cli_command cli_train = {
    .name = "train",
    .usage = "[PRESET] [key=value ...] [--json | --quiet]",
    .summary = "train a model",
    .help =
        "PRESET is a name listed by scion presets, or an .ini file. Later settings override earlier ones. "
        "The folder of the run (out=DIR) holds metrics.jsonl, metrics.csv, summary.json and checkpoints; "
        "tensorboard=DIR "
        "writes event files for TensorBoard, report=N draws its page as it goes on. Ctrl-C saves "
        "and prints how to resume. If the reader of the output ends (scion train ... | head), the run goes on "
        "without printing.\n\n"
        "  scion train shakespeare data=input.txt\n"
        "  scion train shakespeare data=input.txt rule=adamw lr=2^-8 out=runs/adamw\n"
        "  scion train mlp data=cifar10\n"
        "  scion train init=runs/shakespeare data=other.txt steps=100     fine-tune it\n"
        "  scion train nanogpt-124m data='fineweb/*.bin' batch=4 accum=128 light=1\n"
        "  mpirun -n 4 scion train nanogpt-124m data='fineweb/*.bin'     on four ranks\n\n"
        "data may be a text, a folder of texts, or packed with gzip or zstd; val_data=FILE is validated on instead "
        "of its last tenth. Token shards for the nanogpt presets are fetched by python data/cached_fineweb10B.py 9 "
        "(modded-nanogpt) or made by python dev/data/fineweb.py (llm.c); docs/file-formats.md has six lines that "
        "write shards of other tokens.\n\n"
        "init=RUN starts from the weights of a run (fine-tuning): model, rule, norms and radii are that run's, and "
        "lr is a tenth of its peak, unless an option or a named preset says otherwise. The first lines of the run "
        "say "
        "where each came from. init=FOLDER takes a folder of Hugging Face's transformers, as scion export writes it: "
        "weights, model and tokenizer; rule, norms and lr are then the preset's or the command line's.\n\n"
        "scion presets lists the presets, scion presets --options all settings.\n",
    .run = train_command,
    .arguments = arguments,
    .options = CLI_ALL_OPTIONS,
    .words = CLI_PRESETS | CLI_FILES,
    .ranks = CLI_ALL_RANKS,
};

const cli_command cli_resume = {
    .name = "resume",
    .usage = "RUN [key=value ...] [--force] [--json | --quiet]",
    .summary = "resume a run that was stopped",
    .help = "RUN is the folder of a run (its newest checkpoint is used) or a checkpoint. Settings that decide "
            "what a run computes cannot be changed; out, steps, threads, data, val_data and the intervals of "
            "logging and saving can; with --force the step sizes too (lr, schedule, warmup, decay, ...). "
            "scion train init=RUN starts a new run from the weights.\n\n"
            "  scion resume runs/shakespeare\n"
            "  scion resume runs/shakespeare/step-00000200.safetensors out=runs/branch\n",
    .run = resume_command,
    .arguments = resume_arguments,
    .options = CLI_RESUME_OPTIONS,
    .words = CLI_RUNS,
    .ranks = CLI_ALL_RANKS,
};
