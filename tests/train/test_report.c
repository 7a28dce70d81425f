/* Reports: the page and its files, what is read of run folders, and known numbers of ledgers in the figures. */
#include "test_report_markup.h"

#include <math.h>

#include "draw/page.h"
#include "report/report.h"
#include "record/run_record.h"
#include "sweep/ledger.h"

static void holds(const char *text, const char *part)
{
    at("should hold %s", part);
    check(strstr(text, part) != NULL);
}

/* ---- Pages ------------------------------------------------------------------------------------------------- */

static figure line(const char *id)
{
    figure f = figure_make(id, "A line", "Straight.");
    const int s = figure_series(&f, "a", FIGURE_LINE);
    figure_point(&f, s, 0, 0);
    figure_point(&f, s, 1, 1);
    return f;
}

static void a_page_needs_nothing_else(void **state)
{
    const char *path = scratch("page.html");
    scion_error err;
    (void)state;
    for (int again = 0; again < 2; again++) { /* the second one replaces the first */
        page *p = page_create(path, "Title <b> & \"more\"");
        page_card(p, "label", "<1>", NULL);
        page_card(p, "label", "2", "note");
        page_section(p, "One & only");
        page_paragraph(p, "%d < %s", 3, "4");
        page_figure(p, line("first"));
        page_figure(p, line("second"));
        page_figure(p, figure_make("empty", "Empty", "")); /* is left out */
        page_table(p, "fold & open", "a & b|<i>", "lr");
        for (int i = 0; i < 3; i++)
            page_cell(p, "<%d>", i); /* the last row is not full */
        page_table_end(p);
        check(page_figures(p) == 2);
        check_ok(page_write(p, &err), &err);
        page_free(p);
    }
    const char *html = scratch_get(path, NULL);
    markup_check(html);
    holds(html, "<html lang=\"en\">");
    holds(html, "<title>Title &lt;b&gt; &amp; &quot;more&quot;</title>");
    holds(html, "<meta name=\"viewport\"");
    holds(html, "default-src 'none'");
    holds(html, "@media print");
    holds(html, "<p>3 &lt; 4</p>");
    holds(html, "<figure id=\"second\">");
    /* Nothing is loaded: no address but the name of the format, no file but the links to the figures. */
    check(markup_count_of(html, "http:") + markup_count_of(html, "https:") == markup_count_of(html, "<svg"));
    check(strstr(html, "src=") == NULL && strstr(html, "url(http") == NULL && strstr(html, "<link") == NULL);
    check(markup_count_of(html, "<td") == 4 + 4);
    const char *dir = scratch("page");
    check(scratch_count(dir) == 4);
    markup_check(scratch_get(scratch_in(dir, "first.svg"), NULL));
    check(strcmp(scratch_get(scratch_in(dir, "second.csv"), NULL),
                 "series,x,y,low,high,marked,open\na,0,0,,,0,\na,1,1,,,0,\n") == 0);
}

static void a_page_that_cannot_be_written(void **state)
{
    scion_error err = {0};
    (void)state;
    page *p = page_create(scratch("nowhere/page.html"), "Title");
    page_figure(p, line("first"));
    check_status(page_write(p, &err), SCION_EINVAL, &err);
    holds(err.message, "nowhere/page: cannot make this folder");
    page_free(p);
    scratch_text(scratch("taken"), "a file");
    p = page_create(scratch("taken.html"), "Title");
    page_figure(p, line("first"));
    check_status(page_write(p, &err), SCION_EINVAL, &err);
    holds(err.message, "taken: is there and is not a folder");
    page_free(p);
    check(access(scratch("taken.html"), F_OK) != 0);
}

/* ---- Runs -------------------------------------------------------------------------------------------------- */

static const char some_lines[] = "{\"step\":1,\"loss\":4,\"lr\":0.5,\"tokens_per_s\":100,\"optimizer_share\":0.1}\n"
                                 "{\"step\":10,\"loss\":2,\"lr\":0.25,\"tokens_per_s\":110,\"optimizer_share\":0.2}\n"
                                 "{\"step\":10,\"val_loss\":2.5,\"accuracy\":0.25}\n"
                                 "{\"step\":10,\"name\":\"head\",\"norm\":9,\"bound\":10,\"ratio\":0.9}\n"
                                 "{\"step\":20,\"loss\":null,\"lr\":0,\"tokens_per_s\":120,\"optimizer_share\":0.3}\n"
                                 "{\"step\":20,\"val_loss\":3,\"accuracy\":null}\n"
                                 "{\"step\":20,\"name\":\"head\",\"norm\":11,\"bound\":null,\"ratio\":null}\n";

static void runs_are_read(void **state)
{
    const char *dir = scratch_dir("run");
    run_record run;
    scion_error err;
    (void)state;
    scratch_text(scratch_in(dir, "metrics.jsonl"), some_lines);
    check_ok(run_record_read(&run, dir, &err), &err);
    check(run.curves.point_count == 5 && run.curves.norm_count == 2 && !run.ended);
    const run_point *second = NULL, *step = run_record_last(&run, false), *val = run_record_last(&run, true);
    for (int i = 0; i < 5; i++)
        if (run.curves.points[i].loss == 2)
            second = &run.curves.points[i];
    check(second && second->lr == 0.25 && second->samples_per_s == 110 && second->optimizer_share == 0.2);
    check(isnan(second->val_loss) && isinf(step->loss) && isnan(val->accuracy) && isinf(run.curves.norms[1].bound));
    check(run_record_best(&run) == 2.5 && val->val_loss == 3 && strcmp(run.name, "run") == 0);
    run_record_free(&run);
    scratch_text(scratch_in(dir, "summary.json"),
                 "{\"steps\": 20, \"parameters\": 1234, \"seconds\": 1.5, \"peak_bytes\": 1e6,"
                 "\"config\": {\"lr\": \"2^-5\", \"width\": \"77\"}}");
    check_ok(run_record_read(&run, dir, &err), &err);
    check(run.ended && run.configured && config_int(&run.c, "width") == 77 && run.result.parameters == 1234 &&
          run.result.seconds == 1.5);
    run_record_free(&run);
    /* Killed in the middle of a line. */
    const size_t length = strlen(some_lines);
    scratch_put(scratch_in(dir, "metrics.jsonl"), some_lines, length - 30);
    check_ok(run_record_read(&run, dir, &err), &err);
    check(run.curves.norm_count == 1);
    run_record_free(&run);
}

static void strange_sources_are_refused(void **state)
{
    static const struct {
        const char *metrics, *summary, *says;
    } cases[] = {
        {"{\"step\":1,\"loss\":1}\nnonsense\n{\"step\":2,\"loss\":1}\n", NULL,
         "metrics.jsonl:2: not a line of metrics"},
        {"nonsense\n", NULL, "metrics.jsonl:1: not a line of metrics"},
        {"{\"loss\":1}\n", NULL, "metrics.jsonl:1: not a line of metrics"},
        {"{\"step\":1}\n", NULL, "metrics.jsonl:1: not a line of metrics"},
        {"{\"step\":1,\"loss\":\"a\"}\n", NULL, "metrics.jsonl:1: not a line of metrics"},
        {"", NULL, "no step has been logged yet"},
        {"{\"step\":1,\"lo", NULL, "no step has been logged yet"},
        {"{\"step\":1,\"loss\":1}\n", "{\"steps\": 1,", "summary.json: not the summary of a run"},
        {"{\"step\":1,\"loss\":1}\n", "[]", "summary.json: not the summary of a run"},
    };
    scion_error err = {0};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        char name[32];
        snprintf(name, sizeof name, "strange-%d", (int)i);
        const char *dir = scratch_dir(name), *out = scratch("strange.html");
        scratch_text(scratch_in(dir, "metrics.jsonl"), cases[i].metrics);
        if (cases[i].summary)
            scratch_text(scratch_in(dir, "summary.json"), cases[i].summary);
        const scion_status status = report_write(&dir, 1, out, NULL, &err);
        holds(err.message, cases[i].says);
        check(status != SCION_OK && access(out, F_OK) != 0);
    }
    const char *source = scratch("not-there");
    check(report_write(&source, 1, scratch("strange.html"), NULL, &err) == SCION_EINVAL);
    holds(err.message, "not-there");
    source = scratch_dir("bare");
    check(report_write(&source, 1, scratch("strange.html"), NULL, &err) == SCION_EINVAL);
    holds(err.message, "it has no metrics.jsonl");
    source = scratch("text");
    scratch_text(source, "just some text that is no database at all\n");
    check(report_write(&source, 1, scratch("strange.html"), NULL, &err) != SCION_OK);
    holds(err.message, "text");
}

static void lead(void *context, page *p)
{
    page_paragraph(p, "%s", (const char *)context);
}

static void a_run_has_its_figures(void **state)
{
    char text[] = "Lead <b>.";
    const report_options o = {.title = "T & T", .opening = lead, .opening_context = text};
    const char *dir = scratch_dir("whole"), *out = scratch("whole.html");
    scion_error err;
    (void)state;
    scratch_text(scratch_in(dir, "metrics.jsonl"), some_lines);
    check_ok(report_write(&dir, 1, out, &o, &err), &err);
    const char *html = scratch_get(out, NULL);
    markup_check(html);
    holds(html, "<h1>T &amp; T</h1>");
    holds(html, "<p>Lead &lt;b&gt;.</p>");
    holds(html, "the run has not ended");
    /* whole/ is the run itself: its figures lie elsewhere. */
    const char *files = scratch("whole.files");
    check(
        strcmp(scratch_get(scratch_in(files, "loss.csv"), NULL),
               "series,step,loss,low,high,marked,open\ntraining,1,4,,,0,\ntraining,10,2,,,0,\ntraining,20,inf,,,0,\n"
               "validation,10,2.5,,,1,\nvalidation,20,3,,,0,\n") == 0);
    check(strcmp(scratch_get(scratch_in(files, "norms.csv"), NULL),
                 "series,step,norm / "
                 "bound,low,high,marked,open\nhead,10,0.9,,,0,\nhead,20,,,,0,\nbound,0,1,,,0,\nbound,20,1,,,0,\n") ==
          0);
    check(strcmp(scratch_get(scratch_in(files, "optimizer.csv"), NULL),
                 "series,step,percent of a step,low,high,marked,open\npercent of a step,1,10,,,0,\npercent of a "
                 "step,10,20,,,0,\n"
                 "percent of a step,20,30,,,0,\n") == 0);
    check(scratch_count(dir) == 1);
    const char *ids[] = {"loss", "accuracy", "lr", "norms", "speed", "optimizer"};
    for (int64_t i = 0; i < COUNT_OF(ids); i++) {
        char mark[64];
        snprintf(mark, sizeof mark, "<figure id=\"%s\">", ids[i]);
        holds(html, mark);
    }
}

/* A run of images whose classes have strange names. */
#define MISTAKES(classes, pairs)                                                                               \
    "{\"format\":\"scion-mistakes-1\",\"step\":20,\"tta\":\"mirror\",\"classes\":[" classes "]," pairs         \
    ",\"size\":[2,1,1],\"worst\":[{\"sample\":4,\"class\":0,\"answer\":1,\"loss\":2.5,\"probability\":0.9,"    \
    "\"pixels\":\"AP8=\"},{\"sample\":2,\"class\":0,\"answer\":1,\"loss\":1.5,\"probability\":0.6,\"pixels\":" \
    "\"/wA=\"}]}"

static void a_run_of_images_shows_its_mistakes(void **state)
{
    const char *dir = scratch_dir("images"), *out = scratch("images.html");
    scion_error err;
    (void)state;
    scratch_text(scratch_in(dir, "metrics.jsonl"), some_lines);
    check_ok(report_write(&dir, 1, out, NULL, &err), &err);
    const char *html = scratch_get(out, NULL); /* nothing is said of images where there are none */
    check(!strstr(html, "img-src") && !strstr(html, "matrix") && !strstr(html, "<img") && !strstr(html, "Images"));
    scratch_text(scratch_in(dir, "mistakes.json"),
                 MISTAKES("{\"name\":\"<b>\",\"images\":50,\"right\":40},"
                          "{\"name\":\"a \\\"cat\\\" & more\",\"images\":30,\"right\":27}",
                          "\"pairs\":2,\"confusion\":[[0,1,10],[1,0,3]]"));
    check_ok(report_write(&dir, 1, out, NULL, &err), &err);
    html = scratch_get(out, NULL);
    markup_check(html);
    holds(html, "<h3>Confusion matrix</h3>");
    holds(html, "<th scope=\"row\" title=\"&lt;b&gt;\">&lt;b&gt;</th>");
    holds(html, "title=\"a &quot;cat&quot; &amp; more\"");
    check(!strstr(html, "<b>\"") && !strstr(html, "\"<b>"));
    holds(html, ">40</td>");
    holds(html, ">10</td>");
    holds(html, "After step 20, with tta=mirror: 67 of 80 images right, 83.75\u00A0%."); /* stay on one line */
    check(markup_count_of(html, "<img ") == 2 && markup_count_of(html, "src=\"data:image/png;base64,") == 2);
    check(strstr(html, "loss 2.50") < strstr(html, "loss 1.50"));
    holds(html, "img-src data:");
    holds(html, "<a href=\"images.files/confusion.csv\">confusion.csv</a>");
    check(strcmp(scratch_get(scratch_in(scratch("images.files"), "confusion.csv"), NULL),
                 "class,answer,images\n<b>,<b>,40\n\"a \"\"cat\"\" & more\",\"a \"\"cat\"\" & more\",27\n"
                 "<b>,\"a \"\"cat\"\" & more\",10\n\"a \"\"cat\"\" & more\",<b>,3\n") == 0);
    scratch_text(scratch_in(dir, "mistakes.json"), "{}");
    check_ok(report_write(&dir, 1, out, NULL, &err), &err); /* all else is shown */
    holds(scratch_get(out, NULL), "Mistakes cannot be shown: ");
    holds(scratch_get(out, NULL), "mistakes.json: not the mistakes of a run");
}

/* A matrix of many classes could not be read: the pairs that are confused most take its place. */
static void of_many_classes_the_most_confused(void **state)
{
    enum { n = 100 };
    const char *dir = scratch_dir("many"), *out = scratch("many.html");
    char classes[64 * n], *text;
    size_t at_byte = 0;
    scion_error err;
    (void)state;
    for (int i = 0; i < n; i++)
        at_byte += (size_t)snprintf(classes + at_byte, sizeof classes - at_byte,
                                    "%s{\"name\":\"class-%d\",\"images\":50,\"right\":%d}", i > 0 ? "," : "", i,
                                    i == 77 ? 20 : 50);
    check(asprintf(&text, MISTAKES("%s", "\"pairs\":2,\"confusion\":[[77,5,25],[77,99,5]]"), classes) > 0);
    scratch_text(scratch_in(dir, "metrics.jsonl"), some_lines);
    scratch_text(scratch_in(dir, "mistakes.json"), text);
    free(text);
    check_ok(report_write(&dir, 1, out, NULL, &err), &err);
    const char *html = scratch_get(out, NULL);
    markup_check(html);
    check(!strstr(html, "Confusion matrix") && !strstr(html, "<table class=\"matrix\""));
    holds(html, "<tr><td>class-77</td><td>class-5</td><td class=\"r\">25</td><td class=\"r\">50.0\u00A0%</td></tr>");
    holds(html, "<td>class-77</td><td class=\"r\">20</td><td class=\"r\">50</td><td class=\"r\">40.0\u00A0%</td>");
    check(markup_count_of(html, "<td>class-") == 2 * 2 + 20);
    const char *csv = scratch_get(scratch_in(scratch("many.files"), "confusion.csv"), NULL);
    holds(csv, "\nclass-77,class-77,20\n");
    holds(csv, "\nclass-77,class-99,5\n");
    check(markup_count_of(csv, "\n") == 1 + n + 2);
}

static void runs_are_compared_best_first(void **state)
{
    const char *sources[2] = {scratch_dir("worse"), scratch_dir("better")};
    scion_error err;
    (void)state;
    scratch_text(scratch_in(sources[0], "metrics.jsonl"),
                 "{\"step\":1,\"loss\":2}\n{\"step\":1,\"val_loss\":2.25}\n");
    scratch_text(scratch_in(sources[1], "metrics.jsonl"),
                 "{\"step\":1,\"loss\":3}\n{\"step\":1,\"val_loss\":1.25}\n");
    check_ok(report_write(sources, 2, scratch("both.html"), NULL, &err), &err);
    const char *html = scratch_get(scratch("both.html"), NULL);
    markup_check(html);
    holds(html, "Report on worse and better");
    check(strcmp(scratch_get(scratch_in(scratch("both"), "compare-validation.csv"), NULL),
                 "series,step,validation loss,low,high,marked,open\nbetter,1,1.25,,,0,\nworse,1,2.25,,,0,\n") == 0);
    check(strstr(html, "<td>better (not ended)</td>") < strstr(html, "<td>worse (not ended)</td>"));
    holds(html, "<p>Best first, by the lowest validation loss.</p>");
    check(!strstr(html, "accuracy") && !strstr(html, "smoothing"));
}

/* Tokens of several characters have the higher loss, however good the model: bits per byte decide, if all runs have
 * them. */
static void runs_of_other_tokens_are_compared_by_bits(void **state)
{
    const char *sources[2] = {scratch_dir("letters"), scratch_dir("words")};
    scion_error err;
    (void)state;
    for (int i = 0; i < 2; i++) {
        scratch_text(scratch_in(sources[0], "metrics.jsonl"),
                     "{\"step\":1,\"loss\":1.5,\"bits_per_byte\":2.25}\n"
                     "{\"step\":1,\"val_loss\":1.25,\"val_bits_per_byte\":1.875,\"accuracy\":0.5}\n");
        scratch_text(scratch_in(sources[1], "metrics.jsonl"),
                     i == 0 ? "{\"step\":1,\"val_loss\":4.5,\"val_bits_per_byte\":1.5,\"accuracy\":0.25}\n"
                            : "{\"step\":1,\"val_loss\":4.5,\"accuracy\":0.25}\n");
        check_ok(report_write(sources, 2, scratch("tokens.html"), NULL, &err), &err);
        const char *html = scratch_get(scratch("tokens.html"), NULL);
        markup_check(html);
        holds(html, i == 0 ? "<p>Best first, by the fewest bits per byte in a validation.</p>"
                           : "<p>Best first, by the accuracy at the end.</p>");
        check((strstr(html, "<td>words (not ended)</td>") < strstr(html, "<td>letters (not ended)</td>")) ==
              (i == 0));
        holds(html, "<td class=\"r\">1.8750</td>");
        if (i == 0)
            check(strcmp(scratch_get(scratch_in(scratch("tokens"), "compare-bits.csv"), NULL),
                         "series,step,\"bits per byte, validation\",low,high,marked,open\nwords,1,1.5,,,0,\n"
                         "letters,1,1.875,,,0,\n") == 0);
    }
    check(strcmp(scratch_get(scratch_in(scratch("tokens"), "run1-bits.csv"), NULL),
                 "series,step,bits per byte,low,high,marked,open\ntraining,1,2.25,,,0,\n"
                 "validation,1,1.875,,,1,\n") == 0);
}

/* A run with label smoothing has the higher loss, however good it is: accuracies decide. */
static void runs_of_images_are_compared_by_accuracy(void **state)
{
    static const struct {
        const char *name, *val_loss, *accuracy, *config;
    } runs[] = {
        {"plain", "0.5", "0.75", "\"model\":\"vit\",\"pool\":\"mean\""},
        {"smooth", "1.5", "0.875", "\"model\":\"cnn\",\"dirac_init\":\"yes\",\"smoothing\":\"0.2\""},
    };
    const char *sources[2];
    scion_error err;
    (void)state;
    for (int i = 0; i < 2; i++) {
        char text[512];
        sources[i] = scratch_dir(runs[i].name);
        snprintf(text, sizeof text, "{\"step\":1,\"val_loss\":%s,\"accuracy\":%s,\"elapsed\":60,\"images\":8}\n",
                 runs[i].val_loss, runs[i].accuracy);
        scratch_text(scratch_in(sources[i], "metrics.jsonl"), text);
        snprintf(text, sizeof text, "{\"steps\":1,\"config\":{%s}}", runs[i].config);
        scratch_text(scratch_in(sources[i], "summary.json"), text);
    }
    check_ok(report_write(sources, 2, scratch("classes.html"), NULL, &err), &err);
    const char *html = scratch_get(scratch("classes.html"), NULL);
    markup_check(html);
    holds(html, "Best first, by the accuracy at the end. The runs differ in label smoothing");
    holds(html, "<td>smooth</td><td class=\"r\">87.50\u00A0%</td><td class=\"r\">1.5000</td>");
    holds(html, "<td>plain</td><td class=\"r\">75.00\u00A0%</td><td class=\"r\">0.5000</td>");
    check(strstr(html, "<td>smooth</td>") < strstr(html, "<td>plain</td>"));
    for (int i = 0; i < 3; i++) {
        static const char *const files[] = {"compare-accuracy.csv", "compare-accuracy-time.csv",
                                            "compare-accuracy-samples.csv"};
        static const struct {
            const char *name;
            int x;
        } along[] = {{"step", 1}, {"minutes", 1}, {"images", 8}};
        char csv[128];
        snprintf(csv, sizeof csv,
                 "series,%s,\"accuracy, percent\",low,high,marked,open\nsmooth,%d,87.5,,,0,\nplain,%d,75,,,0,\n",
                 along[i].name, along[i].x, along[i].x);
        at("%s", files[i]);
        holds(scratch_get(scratch_in(scratch("classes"), files[i]), NULL), csv);
    }
    /* Each has the settings of its own model: dirac_init is the cnn's alone, pool the vit's. */
    const char *first = strstr(html, "<td class=\"long\">model=cnn"),
               *second = strstr(html, "<td class=\"long\">model=vit");
    check(first && second);
    check(strstr(first, "dirac_init=yes") && strstr(first, "dirac_init=yes") < strstr(first, "</td>"));
    check(strstr(second, "pool=mean") && strstr(second, "pool=mean") < strstr(second, "</td>"));
    check(markup_count_of(html, "dirac_init=") == 1 && markup_count_of(html, "pool=") == 1);
    /* So have the lists of all settings. */
    check(markup_count_of(html, "<td class=\"r\">dirac_init</td>") == 1);
}

/* ---- Ledgers ----------------------------------------------------------------------------------------------- */

static void finish_with_bits(ledger *l, run_state state, double loss, double bits, const char *message)
{
    ledger_run run;
    bool found = false, lost = true;
    scion_error err;
    check_ok(ledger_take(l, &run, &found, &err), &err);
    check(found);
    run.result = (run_result){.state = state,
                              .step = 10,
                              .steps = 10,
                              .parameters = 100,
                              .seconds = 1,
                              .loss = NAN,
                              .val_loss = loss,
                              .val_bits_per_byte = bits,
                              .accuracy = NAN,
                              .forward_s = 0.1,
                              .backward_s = 0.2,
                              .optimizer_s = 0.05,
                              .state_bytes = 1e6,
                              .peak_bytes = 2e6};
    snprintf(run.result.message, sizeof run.result.message, "%s", message);
    run_point points[] = {{.step = 5, .loss = 3, .lr = 0.1, .val_loss = NAN, .accuracy = NAN},
                          {.step = 10, .loss = NAN, .lr = NAN, .val_loss = 2, .accuracy = NAN}};
    run_norm norms[] = {{.step = 10, .name = "head", .norm = 5, .bound = 10}};
    const run_curves curves = {points, norms, 2, 1};
    check_ok(ledger_finish(l, &run, &curves, &lost, &err), &err);
    check(!lost);
}

static void finish(ledger *l, run_state state, double loss, const char *message)
{
    finish_with_bits(l, state, loss, NAN, message);
}

/* Two widths, three learning rates; the loss of the wider one has its minimum one step lower. */
static const char *make_ledger(const char *name)
{
    static const double loss[2][3] = {{2.5, 2, 2.5}, {2, 2.25, INFINITY}};
    const char *path = scratch(name);
    ledger *l = NULL;
    scion_error err;
    check_ok(ledger_open(&l, path, true, &err), &err);
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < 3; i++) {
            config c;
            config_init(&c);
            config_set_int(&c, "width", w > 0 ? 128 : 64);
            c.training.lr = ldexp(1, i - 6);
            c.training.steps = 10;
            check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
            finish(l, isinf(loss[w][i]) ? RUN_DIVERGED : RUN_DONE, isinf(loss[w][i]) ? NAN : loss[w][i],
                   isinf(loss[w][i]) ? "step 3: the loss <was> & is lost" : "");
        }
    }
    for (int w = 0; w < 2; w++) {
        ledger_run run = {.kind = LEDGER_COORD, .result.state = RUN_DONE};
        const ledger_coord coords[] = {{0, 0, "embedding", 1, NAN}, {0, 1, "logits", w > 0 ? 4 : 1, NAN}};
        config_init(&run.c);
        config_set_int(&run.c, "width", w > 0 ? 128 : 64);
        run.c.training.steps = 10;
        run.c.training.batch = 3; /* of its own, as coordinate checks have */
        check_ok(ledger_put_coords(l, &run, coords, 2, &err), &err);
    }
    ledger_close(l);
    return path;
}

/* Losses against time and tokens, where the run recorded them. */
static void losses_against_time_and_tokens(void **state)
{
    const char *dir = scratch_dir("timed"), *out = scratch("timed.html"), *files = scratch("timed.files");
    scion_error err;
    (void)state;
    scratch_text(scratch_in(dir, "metrics.jsonl"), "{\"step\":1,\"loss\":4,\"elapsed\":30,\"tokens\":100}\n"
                                                   "{\"step\":2,\"loss\":3,\"elapsed\":90,\"tokens\":200}\n"
                                                   "{\"step\":2,\"val_loss\":3.5,\"elapsed\":120,\"tokens\":200}\n");
    check_ok(report_write(&dir, 1, out, NULL, &err), &err);
    check(strcmp(scratch_get(scratch_in(files, "loss-time.csv"), NULL),
                 "series,minutes,loss,low,high,marked,open\ntraining,0.5,4,,,0,\ntraining,1.5,3,,,0,\nvalidation,2,3."
                 "5,,,1,\n") == 0);
    check(strcmp(scratch_get(scratch_in(files, "loss-samples.csv"), NULL),
                 "series,samples,loss,low,high,marked,open\ntraining,100,4,,,0,\ntraining,200,3,,,0,\nvalidation,200,"
                 "3.5,,,1,\n") == 0);
    holds(scratch_get(out, NULL), "<h3>Loss against time</h3>");
}

/* The axis has the unit of which there are a few; the CSV file has minutes in any case. */
static void time_has_a_unit_for_people(void **state)
{
    static const struct {
        int seconds;
        const char *unit, *says, *last;
    } cases[] = {
        {3, "seconds", ", x in minutes", "training,0.05,"},
        {119, "seconds", ", x in minutes", NULL},
        {120, "minutes", NULL, "training,2,"},
        {7199, "minutes", NULL, NULL},
        {7200, "hours", ", x in minutes", "training,120,"},
        {360000, "hours", ", x in minutes", "training,6000,"},
    };
    scion_error err;
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        char text[256], name[32];
        snprintf(name, sizeof name, "lasts-%d", cases[i].seconds);
        const char *dir = scratch_dir(name), *out = scratch("lasts.html"), *files = scratch("lasts");
        snprintf(text, sizeof text, "{\"step\":1,\"loss\":4,\"elapsed\":1}\n{\"step\":2,\"loss\":3,\"elapsed\":%d}\n",
                 cases[i].seconds);
        scratch_text(scratch_in(dir, "metrics.jsonl"), text);
        check_ok(report_write(&dir, 1, out, NULL, &err), &err);
        char *html = scratch_get(out, NULL), label[64];
        at("%s: %s", name, cases[i].unit);
        snprintf(label, sizeof label, ">%s</text>", cases[i].unit);
        check(markup_count_of(html, label) == 1);
        check(markup_count_of(html, ", x in ") == (cases[i].says != NULL));
        if (cases[i].says)
            holds(html, cases[i].says);
        if (cases[i].last)
            holds(scratch_get(scratch_in(files, "loss-time.csv"), NULL), cases[i].last);
    }
}

static void a_ledger_has_its_figures(void **state)
{
    const char *source = make_ledger("sweep.db"), *out = scratch("swept.html"), *dir = scratch("swept");
    scion_error err;
    (void)state;
    check_ok(report_write(&source, 1, out, NULL, &err), &err);
    const char *html = scratch_get(out, NULL);
    markup_check(html);
    check(strcmp(scratch_get(scratch_in(dir, "lr.csv"), NULL),
                 "series,learning rate,validation loss,low,high,marked,open\nwidth 64,0.015625,2.5,,,0,\nwidth "
                 "64,0.03125,2,,,1,\nwidth 64,0.0625,2.5,,,0,\n"
                 "width 128,0.015625,2,,,1,\nwidth 128,0.03125,2.25,,,0,\nwidth 128,0.0625,inf,,,0,\n") == 0);
    check(strcmp(scratch_get(scratch_in(dir, "best-lr.csv"), NULL),
                 "series,width,best learning rate,low,high,marked,open\nbest learning rate,64,0.03125,,,0,\nbest "
                 "learning rate,128,0.015625,0,,0,below\n") == 0);
    check(strcmp(
              scratch_get(scratch_in(dir, "norms.csv"), NULL),
              "series,step,norm / bound,low,high,marked,open\nhead,10,0.5,,,0,\nbound,0,1,,,0,\nbound,10,1,,,0,\n") ==
          0);
    /* RMS of the logits grows by 4 as the width doubles: slope 2. */
    holds(scratch_get(scratch_in(dir, "coords-step0.csv"), NULL), "embedding +0.00,64,1,,,0,\n");
    holds(scratch_get(scratch_in(dir, "coords-step0.csv"), NULL), "logits +2.00,128,4,,,0,\n");
    holds(scratch_get(scratch_in(dir, "time.csv"), NULL), "backward pass,64,20,,,0,\n"); /* ms of one of ten steps */
    holds(scratch_get(scratch_in(dir, "memory.csv"), NULL), "process at its peak,128,2,,,0,\n");
    holds(html, "step 3: the loss &lt;was&gt; &amp; is lost");
    /* Moved by a step, which costs a quarter; or further: the best of width 128 lies on the edge of its grid. */
    holds(html, "<td class=\"r\">\u2264 -1.00</td><td class=\"r\">\u2265 0.2500</td><td>undecided</td>");
    holds(html,
          "Hollow points with an arrow lie on the edge of their grid: the best lies at or beyond 2\u207B\u2076.");
    check(access(scratch_in(dir, "batch.csv"), F_OK) != 0); /* was not swept */
    holds(html, "<td>width</td>");
    check(!strstr(html, "<td>batch</td>"));
}

static void the_same_ledger_gives_the_same_page(void **state)
{
    const char *source = make_ledger("again.db");
    scion_error err;
    (void)state;
    check_ok(report_write(&source, 1, scratch("x.html"), NULL, &err), &err);
    char *first = scratch_get(scratch("x.html"), NULL);
    check_ok(report_write(&source, 1, scratch("x.html"), NULL, &err), &err);
    check(strcmp(first, scratch_get(scratch("x.html"), NULL)) == 0);
}

/* The table of runs is ordered by loss; finished runs without a loss come after those that have one. */
static void runs_of_a_ledger_are_listed_best_first(void **state)
{
    static const double loss[] = {3, NAN, 1, NAN, 2}, order[] = {1, 2, 3};
    const char *path = scratch("order.db");
    ledger *l = NULL;
    scion_error err;
    (void)state;
    check_ok(ledger_open(&l, path, true, &err), &err);
    for (int i = 0; i < 5; i++) {
        config c;
        config_init(&c);
        c.training.seed = (uint64_t)i + 1;
        check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
        finish(l, RUN_DONE, loss[i], "");
    }
    ledger_close(l);
    check_ok(report_write(&path, 1, scratch("order.html"), NULL, &err), &err);
    const char *row = strstr(scratch_get(scratch("order.html"), NULL), "All runs</h2>");
    check(row != NULL);
    for (int i = 0; i < 3; i++) {
        char cell[64];
        snprintf(cell, sizeof cell, "<td class=\"r\">%.4f</td><td class=\"r\">\u2013</td>", order[i]);
        at("%s", cell);
        row = strstr(row, cell);
        check(row != NULL);
    }
}

/* ... by bits per byte if all finished runs have them. */
static void runs_of_a_ledger_are_listed_by_bits(void **state)
{
    static const double loss[] = {1, 4, 3}, bits[] = {1.8, 1.6, 1.7};
    static const char *const order[] = {"1.6000", "1.7000", "1.8000"};
    const char *path = scratch("bits.db");
    ledger *l = NULL;
    scion_error err;
    (void)state;
    check_ok(ledger_open(&l, path, true, &err), &err);
    for (int i = 0; i < 3; i++) {
        config c;
        config_init(&c);
        c.training.seed = (uint64_t)i + 1;
        check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, NULL, &err), &err);
        finish_with_bits(l, RUN_DONE, loss[i], bits[i], "");
    }
    ledger_close(l);
    check_ok(report_write(&path, 1, scratch("bits.html"), NULL, &err), &err);
    const char *html = scratch_get(scratch("bits.html"), NULL), *row = strstr(html, "All runs</h2>");
    check(row != NULL);
    holds(html, "fewest bits per byte");
    for (int i = 0; i < 3; i++) {
        char cell[64];
        snprintf(cell, sizeof cell, "<td class=\"r\">%s</td>", order[i]);
        at("%s", cell);
        row = strstr(row, cell);
        check(row != NULL);
    }
}

/* The page of a run that goes on reloads itself, and leaves no files beside it. */
static void a_live_page_reloads_itself(void **state)
{
    const char *dir = scratch_dir("going"), *path = scratch("going.html");
    run_record run;
    scion_error err;
    (void)state;
    scratch_text(scratch_in(dir, "metrics.jsonl"), some_lines);
    check_ok(run_record_read(&run, dir, &err), &err);
    run.result.steps = 100;
    check_ok(report_write_live(&run, path, 7, 1794852632, &err), &err);
    const char *html = scratch_get(path, NULL);
    markup_check(html);
    holds(html, "<meta http-equiv=\"refresh\" content=\"7\">");
    holds(html, " of 100, drawn at 2026-11-16 18:10:32 UTC. This page reloads itself every 7 s.");
    holds(html, "<svg");
    check(!strstr(html, ".svg\"") && !strstr(html, ".csv\"") && access(scratch("going.files"), F_OK) != 0);
    scratch_text(path, "not a page");
    check_status(report_write_live(&run, path, 7, 0, &err), SCION_EINVAL, &err);
    check(strcmp(scratch_get(path, NULL), "not a page") == 0);
    run_record_free(&run);
    const char *source = dir;
    scratch_text(path, "");
    check_ok(report_write(&source, 1, path, NULL, &err), &err);
    check(!strstr(scratch_get(path, NULL), "refresh"));
}

/* A run and two ledgers on one page: no id stands there twice. */
static void ids_are_unique(void **state)
{
    const char *sources[] = {scratch_dir("mixed"), make_ledger("one.db"), make_ledger("two.db")};
    scion_error err;
    (void)state;
    scratch_text(scratch_in(sources[0], "metrics.jsonl"), some_lines);
    check_ok(report_write(sources, 3, scratch("all.html"), NULL, &err), &err);
    const char *html = scratch_get(scratch("all.html"), NULL);
    markup_check(html);
    int count = 0;
    for (const char *id = html; (id = strstr(id, " id=\"")) != NULL; id++, count++) {
        char mark[128];
        snprintf(mark, sizeof mark, "%.*s\"", (int)strcspn(id + 5, "\"") + 5, id);
        at("%s", mark);
        check(markup_count_of(html, mark) == 1);
    }
    check(count > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_page_needs_nothing_else),
        LAW(a_page_that_cannot_be_written),
        LAW(runs_are_read),
        LAW(strange_sources_are_refused),
        LAW(a_run_of_images_shows_its_mistakes),
        LAW(of_many_classes_the_most_confused),
        LAW(a_run_has_its_figures),
        LAW(runs_are_compared_best_first),
        LAW(runs_of_other_tokens_are_compared_by_bits),
        LAW(runs_of_images_are_compared_by_accuracy),
        LAW(losses_against_time_and_tokens),
        LAW(time_has_a_unit_for_people),
        LAW(a_ledger_has_its_figures),
        LAW(the_same_ledger_gives_the_same_page),
        LAW(runs_of_a_ledger_are_listed_best_first),
        LAW(runs_of_a_ledger_are_listed_by_bits),
        LAW(a_live_page_reloads_itself),
        LAW(ids_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
