/* scion eval: validation loss and accuracy of a checkpoint. */
#include "cli.h"
#include "run/run_dir.h"

static int run_eval(cli_arguments *a)
{
    char path[RUN_PATH];
    trainer *t = NULL;
    scion_error err;
    double loss, accuracy;
    int status = cli_open_run(&t, a, run_dir_best, trainer_open, path);
    if (status == CLI_OK && trainer_evaluate(t, t->c.run.eval_batches, &loss, &accuracy, &err) != SCION_OK)
        status = cli_error(CLI_FAILED, "%s", err.message);
    if (status == CLI_OK)
        printf("%s\nstep %lld  validation loss %.4f  accuracy %.2f%%\n", path, (long long)t->step, loss,
               100 * accuracy);
    trainer_free(t);
    return status;
}

const cli_command cli_eval = {
    .name = "eval",
    .usage = "RUN [key=value ...]",
    .summary = "measure a trained model",
    .help = "RUN is the folder of a run (its best checkpoint is used, else the newest) or a checkpoint. data,\n"
            "data_kind, val_data, val_fraction, batch, block, threads and eval_batches may be changed. The\n"
            "accuracy is the fraction of tokens or images that are predicted correctly.\n\n"
            "  scion eval runs/shakespeare\n"
            "  scion eval runs/shakespeare data=other.txt val_fraction=0.9\n",
    .run = run_eval,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_FILES,
};
