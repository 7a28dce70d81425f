/* scion version: the build and the machine. */
#include "base/thread.h"
#include "cli.h"
#include "comm/comm.h"
#include "product/kernel.h"

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER __VERSION__
#endif

/* Products in bfloat16. */
static const char *bf16_text(const scn_isa *isa)
{
    if (isa->bf16->kr == 1)
        return "rounded, then multiplied in float32";
    return isa->chosen == SCN_ISA_BY_NAME ? "multiplied in pairs, emulated" : "multiplied in pairs";
}

static int run_version(cli_arguments *a)
{
    if (!cli_words(a, 0, "no arguments"))
        return CLI_USAGE;
    printf("scion %s\ncompiler %s\nkernels  %s\nbf16     %s\nthreads  %d\nmpi      %s\n", scion_version(), COMPILER,
           scn_isa_used()->name, bf16_text(scn_isa_used()), scn_threads(0), comm_build());
    return CLI_OK;
}

const cli_command cli_version = {
    .name = "version",
    .usage = "",
    .summary = "print version, compiler, instruction set, threads, MPI",
    .help = "",
    .run = run_version,
};
