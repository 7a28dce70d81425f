/* scion train, scion resume: sets a run up, shows what it is, runs it. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli.h"
#include "run_loop.h"
#include "run/run_dir.h"

static const char *shape_text(const tape_value *v, char text[48])
{
    int at = 0;
    for (int i = 0; i < v->ndim; i++)
        at += snprintf(text + at, 48 - (size_t)at, "%s%lld", i > 0 ? " x " : "", (long long)v->shape[i]);
    return text;
}

static void print_routing(const trainer *t)
{
    printf("%-22s %-15s %-8s %-9s %9s %9s %11s\n", "parameter", "shape", "role", "norm", "scale", "radius",
           "elements");
    for (int64_t i = 0; i < tape_param_count(t->train.tape); i++) {
        char shape[48];
        scion_info info = {.size = sizeof info};
        scion_optimizer_inspect(t->optimizer, i, 0, &info, NULL);
        const bool lmo = info.rule != SCION_RULE_ADAMW && info.rule != SCION_RULE_SGD;
        printf("%-22s %-15s %-8s %-9s ", info.name, shape_text(tape_param_at(t->train.tape, i), shape),
               scion_enum_name(SCION_ENUM_ROLE, (int)info.role),
               lmo ? scion_enum_name(SCION_ENUM_NORM, (int)info.norm)
                   : scion_enum_name(SCION_ENUM_RULE, (int)info.rule));
        if (lmo)
            printf("%9.4g %9.4g %11lld\n", info.scale, info.radius, (long long)info.elements);
        else
            printf("%9s %9s %11lld\n", "-", "-", (long long)info.elements);
    }
    printf("%-22s %66lld\n", "in all", (long long)t->elements);
}

static void print_memory(const trainer_memory *m)
{
    char text[7][16];
    printf("memory: weights %s, gradients %s, optimizer state %s and workspace %s,\n"
           "        activations %s, evaluation %s, in all %s\n",
           cli_bytes((double)m->weights, text[0]), cli_bytes((double)m->gradients, text[1]),
           cli_bytes((double)m->state, text[2]), cli_bytes((double)m->workspace, text[3]),
           cli_bytes((double)m->activations, text[4]), cli_bytes((double)m->evaluation, text[5]),
           cli_bytes((double)m->total, text[6]));
}

static void print_run(const trainer *t)
{
    printf("data: %s\n", data_about(t->data)->description);
    printf("run: %s %s, lr %g %s, %lld steps of %lld %s, %d threads, into %s\n", t->c.optimizer.rule,
           t->c.optimizer.norms, t->c.training.lr, t->c.training.schedule, (long long)t->steps,
           (long long)trainer_samples(t), trainer_unit(t), t->threads, t->c.run.out);
    fflush(stdout);
}

/* Name of a run that was given none: runs/ and its preset. */
static void name_run(config *c)
{
    char name[CONFIG_TEXT - 32], base[CONFIG_TEXT];
    file_name(c->preset[0] ? c->preset : c->model, ".ini", name, sizeof name);
    snprintf(base, sizeof base, "runs/%s", name);
    run_dir_free_name(base, c->run.out);
}

/* For who does not yet know how to begin. */
static const char first_steps[] =
    "usage: scion train [PRESET] [key=value ...]\n\n"
    "Any text file will do to begin with; the usual one is a megabyte of Shakespeare:\n\n"
    "  curl -O https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt\n"
    "  scion train shakespeare data=input.txt      two minutes on two cores\n"
    "  scion sample runs/shakespeare               what it writes then\n\n"
    "No text at hand: scion train shakespeare data_kind=synthetic learns from made-up data.\n"
    "scion presets lists what else can be trained, scion train --help tells more.\n";

static int run_train(int argc, char **argv)
{
    cli_arguments a;
    config c;
    trainer *t = NULL;
    trainer_memory memory;
    scion_error err;
    int status = CLI_USAGE, lock = -1;
    if (argc == 0) {
        fputs(first_steps, stderr);
        return CLI_USAGE;
    }
    if (!cli_parse(&a, argc, argv, NULL))
        goto done;
    config_init(&c);
    if (a.word_count > 1) {
        cli_error(CLI_USAGE, "one preset at most, then key=value: %s", a.words[1]);
        goto done;
    }
    if (a.word_count == 1 && config_preset(&c, a.words[0], &err) != SCION_OK)
        goto wrong;
    for (int i = 0; i < a.pair_count; i++)
        if (config_set_pair(&c, a.pairs[i], &err) != SCION_OK)
            goto wrong;
    if (!c.data.path[0] && data_needs_path(c.data.kind)) {
        cli_error(CLI_USAGE, "nothing to learn from: give data=FILE, or data_kind=synthetic for made-up data "
                             "(scion train alone tells where to get a text)");
        goto done;
    }
    if (!c.run.out[0])
        name_run(&c);
    if (config_check(&c, &err) != SCION_OK)
        goto wrong;
    status = CLI_FAILED;
    if (trainer_create(&t, &c, &memory, &err) != SCION_OK || run_dir_create(c.run.out, &err) != SCION_OK ||
        run_dir_lock(c.run.out, &lock, &err) != SCION_OK)
        goto wrong;
    print_routing(t);
    print_memory(&memory);
    print_run(t);
    status = run_loop(t);
    goto done;
wrong:
    cli_error(status, "%s", err.message);
done:
    if (lock >= 0)
        close(lock);
    trainer_free(t);
    cli_parse_free(&a);
    return status;
}

/* Goes on in the folder of the checkpoint, or in another (out=DIR), which may not hold a run. */
static scion_status resume_folder(trainer *t, const char *path, const cli_arguments *a, int *lock, scion_error *err)
{
    char elsewhere[CONFIG_TEXT] = "";
    for (int i = 0; i < a->pair_count; i++)
        if (strncmp(a->pairs[i], "out=", 4) == 0)
            snprintf(elsewhere, sizeof elsewhere, "%s", a->pairs[i] + 4);
    run_dir_of(path, t->c.run.out);
    if (elsewhere[0] && strcmp(elsewhere, t->c.run.out) != 0) {
        snprintf(t->c.run.out, sizeof t->c.run.out, "%s", elsewhere);
        const scion_status status = run_dir_create(t->c.run.out, err);
        return status == SCION_OK ? run_dir_lock(t->c.run.out, lock, err) : status;
    }
    const scion_status status = run_dir_lock(t->c.run.out, lock, err);
    if (status != SCION_OK)
        return status;
    const int later = run_dir_set_aside(t->c.run.out, t->step);
    if (later > 0)
        printf("set aside (renamed to *.aside): %d checkpoint%s of later steps\n", later, later > 1 ? "s" : "");
    return SCION_OK;
}

static int run_resume(int argc, char **argv)
{
    cli_arguments a;
    char path[RUN_PATH];
    trainer *t = NULL;
    scion_error err;
    int status = CLI_USAGE, lock = -1;
    if (!cli_parse_run(&a, argc, argv, NULL))
        goto done;
    status = cli_open_run(&t, &a, run_dir_latest, trainer_resume, path);
    if (status != CLI_OK)
        goto done;
    if (resume_folder(t, path, &a, &lock, &err) != SCION_OK) {
        status = cli_error(CLI_FAILED, "%s", err.message);
        goto done;
    }
    print_run(t);
    printf("goes on after step %lld of %lld, from %s\n", (long long)t->step, (long long)t->steps, path);
    fflush(stdout);
    status = run_loop(t);
done:
    if (lock >= 0)
        close(lock);
    trainer_free(t);
    cli_parse_free(&a);
    return status;
}

const cli_command cli_train = {
    "train",
    "[PRESET] [key=value ...]",
    "train a model",
    "PRESET is a name that `scion presets` lists, or an .ini file. Later settings win. The run's folder (out=DIR)\n"
    "holds metrics.jsonl, summary.json and checkpoints; Ctrl-C saves and says how to go on.\n\n"
    "  scion train shakespeare data=input.txt\n"
    "  scion train shakespeare data=input.txt rule=adamw lr=2^-8 out=runs/adamw\n"
    "  scion train mlp data=fashion-mnist/\n"
    "  scion train nanogpt-124m data='fineweb/*.bin' batch=4 accum=128 light=1\n\n"
    "scion presets lists the presets, scion presets --options every key.\n",
    run_train,
    NULL,
};

const cli_command cli_resume = {
    "resume",
    "RUN [key=value ...]",
    "go on with a run that was stopped",
    "RUN is its folder (the newest checkpoint is taken) or a checkpoint. What a run computes cannot be changed; "
    "out,\n"
    "steps, threads, the data's place and the intervals of logging and saving can.\n\n"
    "  scion resume runs/shakespeare\n"
    "  scion resume runs/shakespeare/step-00000200.safetensors out=runs/branch\n",
    run_resume,
    NULL,
};
