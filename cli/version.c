/* scion version: the build and the machine. */
#include "base/thread.h"
#include "cli.h"
#include "product/kernel.h"
#include "base/blas.h"

static int run_version(cli_arguments *a)
{
    if (!cli_words(a, 0, "no arguments"))
        return CLI_USAGE;
    printf("scion %s\ncompiler %s\nBLAS     %s\nkernels  %s\nthreads  %d\n", scion_version(), __VERSION__,
           blas_library(), scn_kernel_best()->name, scn_threads(0));
    return CLI_OK;
}

const cli_command cli_version = {
    .name = "version",
    .usage = "",
    .summary = "print version, compiler, BLAS, instruction set, threads",
    .help = "",
    .run = run_version,
};
