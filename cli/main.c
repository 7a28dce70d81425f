/* scion: the table of commands. */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/path.h"
#include "util/threads.h"
#include "cli.h"
#include "comm/launcher.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static const cli_command *const commands[] = {
    &cli_train,     &cli_resume,     &cli_eval,    &cli_predict,    &cli_sample, &cli_export, &cli_sweep,
    &cli_tune,      &cli_coordcheck, &cli_report,  &cli_reproduce,  &cli_bench,  &cli_info,   &cli_data,
    &cli_tokenizer, &cli_plan,       &cli_presets, &cli_completion, &cli_version};

enum { count = sizeof commands / sizeof *commands };

const cli_command *cli_command_at(int i)
{
    return i >= 0 && i < count ? commands[i] : NULL;
}

const cli_command *cli_find_command(const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

/* Commands of other programs, and what does the same here. */
static const struct {
    const char *names, *answer;
} elsewhere[] = {
    {"finetune fine-tune fine_tune tune-model", "scion train init=RUN data=FILE fine-tunes a run"},
    {"convert save quantize", "scion export RUN writes a trained model for transformers or llama.cpp"},
    {"encode decode", "scion tokenizer encodes and decodes texts, and learns tokenizers"},
    {"tokenize prepare", "scion data tokenize makes token shards of texts, scion tokenizer encodes them"},
    {"generate inference infer complete chat", "scion sample RUN generates text, scion predict RUN IMAGE classifies"},
    {"evaluate validate test", "scion eval RUN measures a trained model"},
    {"continue restart", "scion resume RUN resumes a run that was stopped"},
    {"inspect show describe dump", "scion info FILE says what a file or folder holds"},
    {"download fetch", "scion data get NAME fetches a data set"},
};

static int unknown_command(const char *name)
{
    char best[CONFIG_TEXT] = "";
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (config_in_list(elsewhere[i].names, name))
            return cli_error(CLI_USAGE, "there is no command %s; %s", name, elsewhere[i].answer);
    for (int i = 0; i < count; i++)
        config_nearer(name, commands[i]->name, best);
    if (best[0])
        return cli_error(CLI_USAGE, "there is no command %s; did you mean scion %s? (scion --help lists them all)",
                         name, best);
    return cli_error(CLI_USAGE, "there is no command %s; scion --help lists them all", name);
}

static void print_help(FILE *to)
{
    fputs("scion - train GPT, MLP, CNN and ViT models with norm-constrained optimizers\n\n"
          "usage: scion COMMAND [ARGUMENT ...]\n\n",
          to);
    for (int i = 0; i < count; i++)
        fprintf(to, "  %-11s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\nscion help COMMAND describes a command. Settings are key=value, switches --word.\n\n"
          "  scion train shakespeare data=input.txt      train a small GPT on a text\n"
          "  scion sample runs/shakespeare               generate text with it\n",
          to);
}

/* Says where the documents that a help text names are, once they are installed. */
static void print_docs_folder(const char *text)
{
    char path[PATH_MAX], real[PATH_MAX];
    if (strstr(text, "docs/") && path_beside_program("../share/doc/scion/docs", path, sizeof path) &&
        realpath(path, real))
        printf("\ndocs/ is %s\n", real);
}

static void print_command_help(const cli_command *c)
{
    cli_fill(stdout, 7, "usage: scion %s%s%s", c->name, c->usage[0] ? " " : "", c->usage);
    printf("\n%s\n\n", c->summary);
    for (const cli_argument *r = c->arguments; r && r->name; r++) {
        char name[48];
        snprintf(name, sizeof name, "%s%s%s", r->name, r->value ? "=" : "", r->value ? r->value : "");
        cli_entry(stdout, 21, name, r->help);
    }
    if (c->arguments)
        printf("\n");
    if (c->list) {
        c->list(stdout);
        printf("\n");
    }
    cli_paragraphs(stdout, c->help);
    print_docs_folder(c->help);
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Treats subnormal numbers as zero: the processor takes a hundred times as long for them, and a diverged network is
 * full of them (a step of such a GPT took 20 times as long). Threads started later inherit the mode. The library
 * itself does not change it. */
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

/* scion help [COMMAND], scion --help, scion COMMAND --help. */
static int help(const char *name)
{
    const cli_command *c = name ? cli_find_command(name) : NULL;
    if (name && !c)
        return unknown_command(name);
    if (c)
        print_command_help(c);
    else
        print_help(stdout);
    return finish(CLI_OK);
}

/* Prepares a process that a launcher started with others; false: it has nothing to do. */
static bool take_part(const cli_command *c)
{
    const launcher l = launcher_find();
    if (l.size == 1)
        return true;
    if (c->ranks == CLI_ONE_RANK)
        return l.rank == 0;
    threads_share(launcher_share_cores());
    setenv("TERM", "dumb", 1); /* mpirun gives a terminal to a process whose output goes to a file */
    return c->ranks != CLI_ALL_WORKERS || l.rank == 0 || freopen("/dev/null", "w", stdout);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return help(argv[2]);
    if (strcmp(name, "--complete") == 0)
        return cli_complete(argc - 2, argv + 2);
    const cli_command *c = cli_find_command(name);
    if (!c)
        return unknown_command(name);
    if (wants_help(argc - 2, argv + 2))
        return help(name);
    if (!take_part(c))
        return CLI_OK;
    cli_arguments a;
    flush_subnormals();
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is a failed write, which is reported */
    data_on_progress(cli_show_work, NULL);
    const int status = cli_parse(&a, c, argc - 2, argv + 2) ? c->run(&a) : CLI_USAGE;
    cli_parse_free(&a);
    const int end = finish(status);
    cli_end_by_signal(end);
    return end;
}
