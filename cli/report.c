/* scion report: a page with the figures of runs and sweeps. */
#include "cli.h"
#include "report/report.h"

static void list_figure(void *context, const char *id, const char *title, const char *folder)
{
    cli_progress_clear(context);
    cli_print(stdout, "  %s/%s.svg  %s\n", folder, id, title);
}

enum { OUT, TITLE };

static const cli_argument arguments[] = {
    [OUT] = CLI_SETTING("out", "FILE", "the page (report.html)"),
    [TITLE] = CLI_SETTING("title", "TEXT", "title of the page"),
    {0},
};

static int run_report(cli_arguments *a)
{
    char out[4096] = "report.html", title[256] = "";
    scion_error err;
    if (!cli_get_text(a, OUT, out, sizeof out) || !cli_get_text(a, TITLE, title, sizeof title))
        return CLI_USAGE;
    if (a->word_count == 0)
        return cli_error(CLI_USAGE,
                         "give the folder of a run, or the ledger of a sweep: scion report runs/shakespeare");
    cli_progress progress = cli_progress_start(stderr); /* a hundred files take a while on a slow disk */
    cli_progress_show(&progress, CLI_STATUS, "writing %s and its figures ...", out);
    const report_options o = {.title = title[0] ? title : NULL, .wrote = list_figure, .context = &progress};
    const scion_status status = report_write(a->words, a->word_count, out, &o, &err);
    cli_progress_clear(&progress);
    if (status != SCION_OK)
        return cli_error(CLI_FAILED, "%s", err.message);
    cli_print(stdout, "%s\n", out);
    return CLI_OK;
}

const cli_command cli_report = {
    .name = "report",
    .usage = "RUN|LEDGER ... [out=FILE] [title=TEXT]",
    .summary = "write one HTML page with the figures of runs and sweeps",
    .help = "RUN is the folder of a run, finished or not; LEDGER is the file of a sweep. Several runs are "
            "compared. The page is self-contained; a folder of the same name holds each figure as an SVG file, "
            "and its numbers as a CSV file.\n\n"
            "  scion report runs/shakespeare\n"
            "  scion report runs/a runs/b out=compared.html\n"
            "  scion report sweep.db out=sweep.html\n",
    .run = run_report,
    .arguments = arguments,
    .words = CLI_FILES,
};
