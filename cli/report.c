/* scion report: a page with the figures of runs and sweeps. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "report/report.h"

typedef struct report_arguments {
    const char **sources;
    int count;
    const char *out, *title;
} report_arguments;

/* An option that takes a value, which may follow directly, behind a '=' or as the next argument. 1: it was this
 * one, 0: it was not, -1: the value is missing. */
static int take_value(const char *name, int argc, char **argv, int *i, const char **value)
{
    const size_t length = strlen(name);
    const bool word = name[1] == '-'; /* --out=FILE, and -oFILE */
    const char *rest = argv[*i] + length;
    if (strncmp(argv[*i], name, length) != 0 || (word && *rest != '\0' && *rest != '='))
        return 0;
    if (*rest != '\0')
        *value = rest + word;
    else if (*i + 1 < argc)
        *value = argv[++*i];
    else
        *value = "";
    return (*value)[0] ? 1 : -1;
}

/* cli_parse takes what has a '=' for a setting; here it is the name of a folder (runs/lr=0.1). */
static bool parse(report_arguments *a, int argc, char **argv)
{
    static const char *const names[] = {"-o", "--out", "--title", NULL};
    const char **values[] = {&a->out, &a->out, &a->title};
    for (int i = 0; i < argc; i++) {
        int taken = 0;
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            a->sources[a->count++] = argv[i];
            continue;
        }
        for (int k = 0; names[k] && taken == 0; k++) {
            taken = take_value(names[k], argc, argv, &i, values[k]);
            if (taken < 0)
                cli_error(CLI_USAGE, "%s needs a value behind it", names[k]);
        }
        if (taken == 0)
            cli_error(CLI_USAGE, "there is no option %s here; did you mean %s?", argv[i],
                      cli_nearest(argv[i], names));
        if (taken <= 0)
            return false;
    }
    return true;
}

static void list_figure(void *context, const char *id, const char *title, const char *folder)
{
    cli_progress_clear(context);
    printf("  %s/%s.svg  %s\n", folder, id, title);
}

static int run_report(int argc, char **argv)
{
    report_arguments a = {.sources = calloc((size_t)argc + 1, sizeof *a.sources), .out = "report.html"};
    scion_error err;
    int status = CLI_USAGE;
    if (!a.sources || !parse(&a, argc, argv))
        goto done;
    if (a.count == 0) {
        cli_error(CLI_USAGE, "give the folder of a run, or the ledger of a sweep: scion report runs/shakespeare");
        goto done;
    }
    cli_progress progress = cli_progress_start(); /* a slow disk takes its time to keep a hundred files */
    cli_progress_show(&progress, false, "writing %s and its figures ...", a.out);
    const report_options o = {.title = a.title, .wrote = list_figure, .context = &progress};
    const scion_status written = report_write(a.sources, a.count, a.out, &o, &err);
    cli_progress_clear(&progress);
    status = CLI_OK;
    if (written != SCION_OK)
        status = cli_error(CLI_FAILED, "%s", err.message);
    else
        printf("%s\n", a.out);
done:
    free(a.sources);
    return status;
}

const cli_command cli_report = {
    "report",
    "RUN|LEDGER ... [-o FILE] [--title TEXT]",
    "draw the figures of runs and sweeps, on one page",
    "RUN is the folder of a run, ended or not; LEDGER the file of a sweep. All that is given goes on one page, "
    "several\n"
    "runs are compared. The page needs nothing else and can be sent as it is; beside it, in a folder of its name, "
    "every\n"
    "figure is an SVG file and a CSV file with its numbers.\n\n"
    "  -o FILE, --out FILE   the page (report.html)\n"
    "  --title TEXT          its title\n\n"
    "  scion report runs/shakespeare\n"
    "  scion report runs/a runs/b -o compared.html\n"
    "  scion report sweep.db -o sweep.html\n",
    run_report,
};
