/* scion: the table of commands. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "base/blas.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static const cli_command *const commands[] = {&cli_train,     &cli_resume, &cli_eval,       &cli_sample,
                                              &cli_sweep,     &cli_tune,   &cli_coordcheck, &cli_report,
                                              &cli_reproduce, &cli_bench,  &cli_presets,    &cli_version};

enum { count = sizeof commands / sizeof *commands };

static void print_help(FILE *to)
{
    fputs("scion - train GPT and MLP models with norm-constrained optimizers\n\nusage: scion COMMAND [ARGUMENT "
          "...]\n\n",
          to);
    for (int i = 0; i < count; i++)
        fprintf(to, "  %-11s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nscion COMMAND --help describes a command.\n\n"
          "  scion train shakespeare data=input.txt      train a small GPT on a text\n"
          "  scion sample runs/shakespeare               generate text with it\n",
          to);
}

static void print_command_help(const cli_command *c)
{
    printf("usage: scion %s %s\n\n%s\n\n", c->name, c->usage, c->summary);
    for (const cli_flag *f = c->flags; f && f->name; f++) {
        char name[48], letter[8] = "";
        if (f->letter)
            snprintf(letter, sizeof letter, "-%c, ", f->letter);
        snprintf(name, sizeof name, "%s%s%s%s", letter, f->name, f->value ? " " : "", f->value ? f->value : "");
        printf("  %-22s %s\n", name, f->help);
    }
    if (c->flags)
        printf("\n");
    if (c->list) {
        c->list(stdout);
        printf("\n");
    }
    fputs(c->help, stdout);
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Makes waiting threads yield their core, and OpenBLAS use kernels that fit the CPU. Both are read from the
 * environment while the libraries are loaded: if a variable is missing, the program sets it and executes itself
 * again, once. With spinning threads, a second program on the machine costs a factor of four. */
static void prepare_libraries(char **argv)
{
    const bool missing = !getenv("OMP_WAIT_POLICY");
    if (missing)
        setenv("OMP_WAIT_POLICY", "passive", 1);
    blas_best_core(argv);
    if (missing)
        execv("/proc/self/exe", argv);
}

/* Treats subnormal numbers as zero: the processor needs a hundred times as long for them, and a network that has
 * diverged is full of them (a step of such a GPT took 20 times as long). Threads started later inherit the mode.
 * The library itself does not change it. */
static void flush_subnormals(void)
{
#if defined(__x86_64__)
    enum { flush_results = 0x8000, zero_operands = 0x0040 };
    _mm_setcsr(_mm_getcsr() | flush_results | zero_operands);
#elif defined(__aarch64__)
    unsigned long mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | 1UL << 24));
#endif
}

/* Reports write errors on stdout, such as a full disk. */
static int finish(int status)
{
    if (status == CLI_OK && cli_interrupted())
        status = cli_stopped();
    if ((fflush(stdout) == 0 && !ferror(stdout)) || cli_reader_gone())
        return status;
    return status == CLI_OK ? cli_error(CLI_FAILED, "standard output could not be written") : status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(commands[i]->name, name) != 0)
            continue;
        if (wants_help(argc - 2, argv + 2)) {
            print_command_help(commands[i]);
            return finish(CLI_OK);
        }
        cli_arguments a;
        prepare_libraries(argv);
        flush_subnormals();
        signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is a write that fails, and is told so */
        const int status = cli_parse(&a, commands[i], argc - 2, argv + 2) ? commands[i]->run(&a) : CLI_USAGE;
        cli_parse_free(&a);
        const int end = finish(status);
        cli_end_by_signal(end);
        return end;
    }
    const char *names[count];
    for (int i = 0; i < count; i++)
        names[i] = commands[i]->name;
    return cli_error(CLI_USAGE, "there is no command %s; did you mean scion %s? (scion --help lists them all)", name,
                     cli_nearest(name, names, count, sizeof *names));
}
