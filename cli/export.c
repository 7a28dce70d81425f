/* scion export: a trained model in the files of other programs. */
#include <string.h>

#include "cli.h"
#include "record/export.h"
#include "record/run_record.h"
#include "util/fail.h"
#include "util/file.h"

enum { OUT, FORMAT, TYPE };

static const cli_argument arguments[] = {
    [OUT] = {"out", "PATH", "folder (hf) or file (gguf) to write; must not exist",
             .also = "output outfile output_dir"},
    [FORMAT] = CLI_SETTING("format", "hf|gguf", "hf: a folder for transformers; gguf: a file for llama.cpp"),
    [TYPE] = {"type", "float32|bf16|q8_0", "type of the weights (hf: float32; gguf: bf16); q8_0 for gguf alone",
              .also = "dtype outtype"},
    {0},
};

static int export_run(const trainer *t, const cli_arguments *a, const char *checkpoint)
{
    const trainer_info about = trainer_about(t);
    const char *out = a->values[OUT];
    char dir[CONFIG_TEXT], name[128];
    run_record record;
    scion_error err;
    run_dir_of(checkpoint, dir);
    file_name(file_is_folder(a->words[0]) ? a->words[0] : dir, NULL, name, sizeof name);
    const bool known = run_record_read(&record, dir, NULL) == SCION_OK;
    const export_source source = {.model = about.model,
                                  .config = about.config,
                                  .data = data_about(about.data),
                                  .name = name[0] && strcmp(name, ".") != 0 ? name : "scion",
                                  .step = about.step,
                                  .parameters = about.parameters,
                                  .record = known ? &record : NULL,
                                  .stop = cli_stop};
    cli_catch_signals();
    const scion_status status = export_model(out, a->values[FORMAT], a->values[TYPE], &source, &err);
    run_record_free(&record);
    if (status == SCION_ESTOPPED)
        return CLI_OK; /* main sets the signal's exit status */
    if (status != SCION_OK)
        return cli_end(status, &err);
    cli_print(stdout, "%s: %lld parameters, of %s at step %lld\n", out, (long long)about.parameters, checkpoint,
              (long long)about.step);
    return CLI_OK;
}

static int run_export(cli_arguments *a)
{
    char path[RUN_PATH];
    trainer *t = NULL;
    if (!cli_one_run(a))
        return CLI_USAGE;
    if (!a->values[OUT] || !a->values[OUT][0])
        return cli_error(CLI_USAGE, "name the folder or file to write: out=PATH");
    if (!a->values[FORMAT])
        return cli_error(CLI_USAGE, "name the format: format=hf for transformers, format=gguf for llama.cpp");
    int status = cli_open_run(&t, a, TRAINER_EXPORT, path);
    if (status == CLI_OK)
        status = export_run(t, a, path);
    trainer_free(t);
    return status;
}

const cli_command cli_export = {
    .name = "export",
    .usage = "RUN out=PATH format=hf|gguf [type=float32|bf16|q8_0]",
    .summary = "write a trained model for transformers or llama.cpp",
    .help = "RUN is the folder of a run (its best checkpoint is used, else the newest) or a checkpoint of a GPT. The "
            "exported model gives the same tokens and, in float32, the same logits to rounding. format=hf writes a "
            "folder "
            "that transformers opens with from_pretrained. format=gguf writes a file for llama.cpp, for models with "
            "activation=relu2 or scaled_relu2. A model of token shards whose tokenizer is not known needs "
            "tokenizer=gpt2|FILE. Nothing that exists is overwritten. docs/export.md has the details.\n\n"
            "  scion export runs/shakespeare out=shakespeare-hf format=hf\n"
            "  scion export runs/shakespeare out=shakespeare-hf format=hf type=bf16\n"
            "  scion export runs/gutenberg out=gutenberg.gguf format=gguf type=q8_0\n",
    .run = run_export,
    .arguments = arguments,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_RUNS,
};
