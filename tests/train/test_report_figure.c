/* Figures: where points land, what is drawn for gaps, minima and divergence, the numbers as CSV, and that the
 * result is XML whatever the names are. */
#include "test_report_markup.h"

#include <math.h>

#include "draw/figure.h"
#include "draw/markup.h"

static char *text_of(const figure *f, void (*write)(const figure *, FILE *))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    check(!f->failed);
    write(f, to);
    fclose(to);
    char *copy = room(bytes + 1);
    memcpy(copy, text, bytes + 1);
    free(text);
    return copy;
}

static void alone(const figure *f, FILE *to)
{
    figure_svg(f, to, true);
}

static void inside(const figure *f, FILE *to)
{
    figure_html(f, to, "folder");
}

static figure *new_figure(const char *id, const char *title, const char *caption)
{
    figure *f = room(sizeof *f);
    *f = figure_make(id, title, caption);
    return f;
}

static const char nasty[] = "a<b> & \"c\" 'd' ]]> \x01 \xff \xc3\xa9";

static figure *three(axis_scale x, axis_scale y)
{
    figure *f = new_figure("three", "Three points", "A caption.");
    figure_axes(f, "x", x, "y", y);
    const int s = figure_series(f, "a", FIGURE_LINE);
    for (int i = 0; i < 3; i++)
        figure_point(f, s, exp2(i - 4), exp2(2 * i));
    return f;
}

/* ---- Well-formed ------------------------------------------------------------------------------------------- */

static void whatever_the_names_it_is_xml(void **state)
{
    (void)state;
    figure *f = new_figure("nasty", nasty, nasty);
    figure_axes(f, nasty, AXIS_LOG2, nasty, AXIS_LINEAR);
    figure_mark_label(f, nasty);
    for (int i = 0; i < FIGURE_MAX_SERIES; i++) {
        char name[400];
        snprintf(name, sizeof name, "%d %s and a name that is too long for one line %s%s", i, nasty, nasty, nasty);
        const int s = figure_series(f, name, FIGURE_LINE);
        for (int k = 0; k < 5; k++)
            figure_range(f, s, exp2(-k),
                         k == i % 5 ? NAN
                         : k == 4   ? INFINITY
                                    : 1.0 * (i + k),
                         i + k - 0.5, i + k + 0.5);
        figure_mark(f, s);
    }
    figure_point(f, figure_series(f, nasty, FIGURE_BOUND), 0.5, 1);
    markup_check(text_of(f, alone));
    const char *html = text_of(f, inside);
    markup_check(html);
    check(strstr(html, "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39; ]]&gt; \xef\xbf\xbd \xef\xbf\xbd \xc3\xa9"));
    figure_free(f);
}

static void an_svg_stands_alone(void **state)
{
    (void)state;
    figure *f = three(AXIS_LINEAR, AXIS_LINEAR);
    const char *svg = text_of(f, alone);
    static const char *const parts[] = {"xmlns=\"http://www.w3.org/2000/svg\"",
                                        "viewBox=\"0 0 400 ",
                                        "role=\"img\"",
                                        "<title id=\"three-t\">Three points</title>",
                                        "<desc id=\"three-d\">A caption.",
                                        "prefers-color-scheme:dark"};
    for (int64_t i = 0; i < COUNT_OF(parts); i++) {
        at("%s", parts[i]);
        check(strstr(svg, parts[i]) != NULL);
    }
    check(markup_count_of(svg, "http") == 1); /* the name of the format: nothing is loaded */
    check(strcmp(svg, text_of(f, alone)) == 0);
    figure_free(f);
}

/* ---- Places ------------------------------------------------------------------------------------------------ */

/* The points of a series that has circles, in order. */
static int circles(const char *svg, double x[], double y[], int most)
{
    int count = 0;
    for (const char *c = svg; (c = strstr(c, "<g class=\"p\">")) != NULL && count < most; c++) {
        x[count] = markup_value(c, "cx=\"");
        y[count++] = markup_value(c, "cy=\"");
    }
    return count;
}

/* x = 1/16, 1/8, 1/4 and y = 1, 4, 16: by logarithm the second is in the middle, else at a third and at a fifth. */
static void points_land_where_they_should(void **state)
{
    double x[3], y[3];
    (void)state;
    figure *f = three(AXIS_LOG2, AXIS_LOG10);
    check(circles(text_of(f, alone), x, y, 3) == 3);
    check_le(fabs(x[1] - (x[0] + x[2]) / 2), 0.011); /* written with two decimals */
    check_le(fabs(y[1] - (y[0] + y[2]) / 2), 0.011);
    check(x[0] < x[1] && y[0] > y[1]); /* y grows upwards */
    figure_free(f);
    f = three(AXIS_LINEAR, AXIS_LINEAR);
    check(circles(text_of(f, alone), x, y, 3) == 3);
    check_le(fabs((x[1] - x[0]) / (x[2] - x[0]) - 1.0 / 3), 1e-4);
    check_le(fabs((y[1] - y[0]) / (y[2] - y[0]) - 0.2), 1e-4);
    figure_free(f);
}

/* Where the line of a tick of the y axis lies. */
static double tick_height(const char *svg, const char *label)
{
    const char *line = strstr(svg, label);
    at("tick %s", label);
    check(line != NULL);
    while (strncmp(line, "<path class=\"g\"", 15) != 0)
        line--;
    return strtod(strchr(strstr(line, "d=\"M"), ' ') + 1, NULL);
}

/* A point whose y is that of a tick lies on the tick's line. */
static void points_agree_with_the_ticks(void **state)
{
    (void)state;
    figure *f = three(AXIS_LINEAR, AXIS_LINEAR);
    figure_point(f, 0, 0.25, 10);
    const char *svg = text_of(f, alone);
    double x[4], y[4];
    check(circles(svg, x, y, 4) == 4);
    check_le(fabs(y[3] - tick_height(svg, ">10</text>")), 0.011);
    figure_free(f);
}

/* Whatever the data, nothing lies outside of the drawing. */
static void nothing_is_clipped(void **state)
{
    rng r = rng_of(71);
    (void)state;
    for (int trial = 0; trial < 60; trial++) {
        figure *f = new_figure("random", "Random", "");
        const axis_scale scale = (axis_scale)(trial % 3);
        const int lines = 1 + trial % FIGURE_MAX_SERIES;
        figure_axes(f, "x", scale, "y", (axis_scale)(trial / 3 % 3));
        if (trial % 2 == 0)
            f->limit = 1;
        for (int i = 0; i < lines; i++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", 1 + trial,
                     "a series with a name that gets longer and longer, xxxxxxxx");
            const int s = figure_series(f, name, FIGURE_LINE);
            for (int k = 0; k < 9; k++)
                figure_point(f, s, exp(k + rng_normal(&r)), k == 5 ? INFINITY : exp(3 * rng_normal(&r)));
        }
        const char *svg = text_of(f, alone);
        const double high = strtod(strstr(svg, "viewBox=\"0 0 400 ") + 17, NULL);
        at("trial %d", trial);
        for (const char *c = svg; (c = strstr(c, "<text")) != NULL; c++) {
            const double x = markup_value(c, "x=\""), y = markup_value(c, "y=\"");
            char shown[512];
            snprintf(shown, sizeof shown, "%.*s", (int)strcspn(strchr(c, '>') + 1, "<"), strchr(c, '>') + 1);
            const double wide = 13 * markup_width(shown);
            const bool end = strncmp(strstr(c, ">") - 5, "\"end\"", 5) == 0;
            const bool middle = strncmp(strstr(c, ">") - 8, "\"middle\"", 8) == 0;
            check_le(end ? x : middle ? x + wide / 2 : x + wide, 401);
            check_le(0, (end ? x - wide : middle ? x - wide / 2 : x) + 1);
            check_le(y, high);
            check_le(8, y);
        }
        for (const char *c = svg; (c = strstr(c, "cx=\"")) != NULL; c++) {
            check_le(fabs(strtod(c + 4, NULL) - 200), 200);
            check_le(fabs(markup_value(c, "cy=\"") - high / 2), high / 2);
        }
        figure_free(f);
    }
}

/* Labels of ticks do not touch each other. */
static void ticks_have_room(void **state)
{
    rng r = rng_of(72);
    (void)state;
    for (int trial = 0; trial < 200; trial++) {
        figure *f = new_figure("ticks", "Ticks", "");
        figure_axes(f, "x", (axis_scale)(trial % 3), "y", AXIS_LINEAR);
        const int s = figure_series(f, "a", FIGURE_LINE);
        const double first = exp(6 * rng_normal(&r));
        figure_point(f, s, first, 0);
        figure_point(f, s, first * exp(4 * rng_uniform(&r)), 1);
        double before = -1e9;
        int count = 0;
        const char *svg = text_of(f, alone);
        at("trial %d: from %g", trial, first);
        for (const char *c = svg; (c = strstr(c, "<path class=\"a\" d=")) != NULL; c++) {
            const char *text = strstr(c, "<text");
            char shown[64];
            snprintf(shown, sizeof shown, "%.*s", (int)strcspn(strchr(text, '>') + 1, "<"), strchr(text, '>') + 1);
            const double x = markup_value(text, "x=\""), half = 13 * markup_width(shown) / 2;
            check_le(before, x - half);
            before = x + half;
            count++;
        }
        check(count >= 2);
        figure_free(f);
    }
}

/* ---- What is special --------------------------------------------------------------------------------------- */

static void a_mark_is_a_ring(void **state)
{
    (void)state;
    figure *f = three(AXIS_LOG2, AXIS_LINEAR);
    check(strstr(text_of(f, alone), "class=\"r\"") == NULL && strstr(text_of(f, alone), ">minimum<") == NULL);
    figure_point(f, 0, 0.5, 3);
    figure_mark(f, 0);
    figure_point(f, 0, 1, 5);
    const char *svg = text_of(f, alone), *ring = strstr(svg, "<circle class=\"r\"");
    check(ring != NULL && markup_count_of(svg, "<circle class=\"r\"") == 1 && strstr(svg, ">minimum<") != NULL);
    double x[5], y[5];
    check(circles(svg, x, y, 5) == 5);
    check(markup_value(ring, "cx=\"") == x[3] && markup_value(ring, "cy=\"") == y[3]);
    check(strstr(text_of(f, inside), "<td class=\"r\"><b>3.00</b></td>") != NULL);
    figure_free(f);
}

/* The path of the first line. */
static const char *first_path(const char *svg)
{
    const char *path = strstr(strstr(svg, "data-series=\"0\""), "<path class=\"l");
    check(path != NULL);
    char *copy = room(4096);
    snprintf(copy, 4096, "%.*s", (int)strcspn(path, ">"), path);
    return strstr(copy, " d=\"");
}

static void nan_is_a_gap(void **state)
{
    (void)state;
    figure *f = new_figure("gap", "Gap", "");
    const int s = figure_series(f, "a", FIGURE_LINE);
    for (int i = 0; i < 5; i++)
        figure_point(f, s, i, i == 2 ? NAN : 1.0 * i);
    const char *path = first_path(text_of(f, alone));
    check(markup_count_of(path, "M") == 2 && markup_count_of(path, "L") == 2);
    check(markup_count_of(text_of(f, alone), "<g class=\"p\">") == 4);
    check(strstr(text_of(f, alone), "diverged") == NULL);
    figure_free(f);
    f = new_figure("none", "None", "");
    check(figure_empty(f));
    figure_point(f, figure_series(f, "a", FIGURE_LINE), 1, NAN);
    check(figure_empty(f));
    markup_check(text_of(f, alone));
    figure_free(f);
}

static void infinite_is_a_cross_at_the_edge(void **state)
{
    double x[3], y[3];
    (void)state;
    figure *f = three(AXIS_LOG2, AXIS_LINEAR);
    figure_point(f, 0, 0.5, INFINITY);
    const char *svg = text_of(f, alone), *mark = strstr(svg, "<path class=\"x\" d=\"M");
    check(mark != NULL && markup_count_of(svg, "<path class=\"x\"") == 1);
    check(strstr(svg, ">diverged</text>") != NULL);
    check(strstr(svg, "x 0.5\ndiverged</title>") != NULL || strstr(svg, "2\u207B\u00B9\ndiverged</title>") != NULL);
    check(circles(svg, x, y, 3) == 3);
    check(strtod(strchr(mark + 20, ' ') + 1, NULL) < y[2] - 10); /* above the highest point */
    check(!figure_empty(f));
    figure_free(f);
}

static void what_is_above_the_limit_is_an_arrow(void **state)
{
    (void)state;
    figure *f = three(AXIS_LOG2, AXIS_LINEAR);
    figure_point(f, 0, 0.5, 1e6);
    f->limit = 20;
    const char *svg = text_of(f, alone);
    check(strstr(svg, ">20</text>") != NULL && strstr(svg, "M</text>") == NULL);
    check(strstr(svg, "y 1000000.00</title><path class=\"x\"") != NULL);
    check(strstr(svg, ">above the axis<") != NULL && strstr(svg, ">1000000<") != NULL); /* legend, and its value */
    figure_free(f);
    f = three(AXIS_LOG2, AXIS_LINEAR);
    check(strstr(text_of(f, alone), "above the axis") == NULL);
    figure_free(f);
    /* A curve leaves the figure instead. */
    f = new_figure("curve", "Curve", "");
    const int s = figure_series(f, "a", FIGURE_LINE);
    for (int i = 0; i < 10; i++)
        figure_point(f, s, i, i == 0 ? 1e6 : 1);
    f->limit = 2;
    f->cropped = true;
    svg = text_of(f, alone);
    check(strstr(svg, "<path class=\"x\"") == NULL && strstr(svg, "above the axis") == NULL);
    figure_free(f);
}

static void axes_show_what_they_are_told(void **state)
{
    (void)state;
    figure *f = new_figure("span", "Span", "");
    figure_axes(f, "step", AXIS_LINEAR, "loss", AXIS_LOG10);
    figure_point(f, figure_series(f, "a", FIGURE_LINE), 90, 3);
    f->first = 0;
    f->last = 200;
    const char *svg = text_of(f, alone);
    check(strstr(svg, ">0</text>") != NULL && strstr(svg, ">200</text>") != NULL);
    check(strstr(svg, ">loss (log scale)</text>") != NULL && strstr(svg, ">step</text>") != NULL);
    figure_free(f);
}

static void a_pale_series_lies_behind_its_mean(void **state)
{
    (void)state;
    figure *f = new_figure("pale", "Pale", "");
    const int mean = figure_series(f, "mean", FIGURE_LINE), single = figure_series(f, "single", FIGURE_FAINT);
    for (int i = 0; i < 3; i++) {
        figure_point(f, mean, i, 1);
        figure_point(f, single, i, i);
    }
    const char *svg = text_of(f, alone), *pale = strstr(svg, "data-series=\"1\""),
               *line = strstr(svg, "data-series=\"0\"");
    check(pale != NULL && line != NULL && pale < line);
    check(strncmp(pale - 11, "class=\"s0\"", 10) == 0 && strstr(pale, "<path class=\"l faint\"") < line);
    figure_free(f);
}

static void powers_of_two_are_raised(void **state)
{
    (void)state;
    figure *f = new_figure("powers", "lr=2^-12 and 2^5, but 12^5, 2^-0.5 and 2^x, 2^3.", "");
    figure_point(f, figure_series(f, "a", FIGURE_LINE), 1, 1);
    check(strstr(text_of(f, inside), "lr=2\u207B\u00B9\u00B2 and 2\u2075, but 12^5, 2^-0.5 and 2^x, 2\u00B3.") !=
          NULL);
    figure_free(f);
}

static void series_differ_in_more_than_colour(void **state)
{
    (void)state;
    for (int a = 0; a < FIGURE_MAX_SERIES; a++) {
        for (int b = 0; b < a; b++) {
            char *shape[2];
            for (int k = 0; k < 2; k++) {
                figure *f = new_figure("looks", "Looks", "");
                for (int i = 0; i <= (k > 0 ? a : b); i++) {
                    const int s = figure_series(f, "same", FIGURE_LINE);
                    figure_point(f, s, 1, 1);
                    figure_point(f, s, 2, 2);
                }
                char mark[32];
                snprintf(mark, sizeof mark, "data-series=\"%d\"", k > 0 ? a : b);
                const char *svg = strstr(text_of(f, alone), mark), *point = strstr(svg, "</title>");
                const char *dashes = strstr(svg, "stroke-dasharray");
                shape[k] = room(600);
                snprintf(shape[k], 600, "%.*s %.*s", (int)strcspn(point + 8, "\n"), point + 8,
                         dashes && dashes < point ? 24 : 0, dashes ? dashes : "");
                figure_free(f);
            }
            at("series %d and %d: %s", b, a, shape[0]);
            check(strcmp(shape[0], shape[1]) != 0);
        }
    }
}

/* A long series is thinned out where nobody sees it: extremes stay. */
static void a_long_series_is_a_small_file(void **state)
{
    rng r = rng_of(73);
    (void)state;
    figure *f = new_figure("long", "Long", "");
    const int s = figure_series(f, "a", FIGURE_LINE);
    for (int i = 0; i < 100000; i++)
        figure_point(f, s, i, i == 77777 ? 1000 : rng_uniform(&r));
    const char *svg = text_of(f, alone);
    check_le((double)strlen(svg), 60000);
    char *path = strstr(svg, "<path class=\"l thin\"");
    double top = 1e9;
    for (char *c = strstr(path, " d=\"") + 4; *c != '"';) {
        strtod(c + 1, &c);
        top = fmin(top, strtod(c, &c));
    }
    check_le(fabs(top - tick_height(svg, ">1000</text>")), 0.011);
    check_le((double)strlen(text_of(f, inside)), 80000);
    figure_free(f);
}

/* A point at the edge of its grid is hollow, with an arrow and no whisker to the open side; its text says so. */
static void an_open_point_is_hollow_with_an_arrow(void **state)
{
    (void)state;
    for (int open = 0; open < 4; open++) {
        figure *f = new_figure("open", "Open", "Caption.");
        figure_axes(f, "x", AXIS_LINEAR, "y", AXIS_LINEAR);
        const int s = figure_series(f, "a", FIGURE_LINE);
        figure_point(f, s, 1, 1);
        figure_range(f, s, 2, 2, open & FIGURE_OPEN_BELOW ? -INFINITY : 1.5,
                     open & FIGURE_OPEN_ABOVE ? INFINITY : 2.5);
        figure_open(f, s, open);
        figure_note(f, " More.");
        const char *svg = text_of(f, alone);
        at("open %d: %s", open, svg);
        check((strstr(svg, "<circle class=\"o\"") != NULL) == (open != 0));
        check((strstr(svg, "v10m-3 -4l3 4l3 -4") != NULL) == ((open & FIGURE_OPEN_BELOW) != 0));
        check((strstr(svg, "v-10m-3 4l3 -4l3 4") != NULL) == ((open & FIGURE_OPEN_ABOVE) != 0));
        check((strstr(svg, "h6\"/>") != NULL) == (open != 3)); /* the whisker */
        check((strstr(svg, "on the edge of its grid") != NULL) == (open != 0));
        check(strstr(svg, "Caption. More.") != NULL);
        figure_free(f);
    }
}

/* ---- Numbers ----------------------------------------------------------------------------------------------- */

static void csv_has_all_bits(void **state)
{
    rng r = rng_of(74);
    double x[50], y[50];
    (void)state;
    figure *f = new_figure("csv", "CSV", "");
    int s = figure_series(f, "a,\"b\"", FIGURE_LINE);
    for (int i = 0; i < 50; i++) {
        x[i] = exp(20 * rng_normal(&r));
        y[i] = i == 7 ? INFINITY : i == 8 ? NAN : rng_normal(&r);
        figure_range(f, s, x[i], y[i], i == 0 ? 0.5 : NAN, i == 0 ? 1.5 : NAN);
        if (i == 3)
            figure_mark(f, s);
        if (i == 4)
            figure_open(f, s, FIGURE_OPEN_BELOW | FIGURE_OPEN_ABOVE);
    }
    char *line = strtok(text_of(f, figure_csv), "\n");
    check(strcmp(line, "series,x,y,low,high,marked,open") == 0);
    for (int i = 0; i < 50; i++) {
        static const char name[] = "\"a,\"\"b\"\"\",";
        char *c = strtok(NULL, "\n");
        at("%s", c);
        check(strncmp(c, name, strlen(name)) == 0);
        const double back = strtod(c + strlen(name), &c);
        check_bits(sizeof back, &back, &x[i]);
        check(*c++ == ',');
        if (i == 8) {
            check(strcmp(c, ",,,0,") == 0);
            continue;
        }
        const double high = strtod(c, &c);
        check_bits(sizeof high, &high, &y[i]);
        check(strcmp(c, i == 0 ? ",0.5,1.5,0," : i == 3 ? ",,,1," : i == 4 ? ",,,0,both" : ",,,0,") == 0);
    }
    check(strtok(NULL, "\n") == NULL);
    figure_free(f);
}

/* No program that opens the table computes a name; all of it is UTF-8. */
static void csv_names_are_texts(void **state)
{
    (void)state;
    figure *f = new_figure("names", "Names", "");
    static const char *const names[] = {"=1+1", "@SUM(a,b)", "-2",
                                        "a\xff"
                                        "b\x1b",
                                        "lr=2"};
    for (int i = 0; i < COUNT_OF(names); i++)
        figure_point(f, figure_series(f, names[i], FIGURE_LINE), 1, 2);
    figure_axes(f, "a, b", AXIS_LINEAR, "=c", AXIS_LINEAR);
    const char *text = text_of(f, figure_csv);
    at("%s", text);
    check(strcmp(text,
                 "series,\"a, b\",'=c,low,high,marked,open\n'=1+1,1,2,,,0,\n\"'@SUM(a,b)\",1,2,,,0,\n'-2,1,2,,,0,\n"
                 "a\xEF\xBF\xBD"
                 "b\xEF\xBF\xBD,1,2,,,0,\nlr=2,1,2,,,0,\n") == 0);
    figure_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(whatever_the_names_it_is_xml),
        LAW(an_svg_stands_alone),
        LAW(points_land_where_they_should),
        LAW(points_agree_with_the_ticks),
        LAW(nothing_is_clipped),
        LAW(ticks_have_room),
        LAW(a_mark_is_a_ring),
        LAW(nan_is_a_gap),
        LAW(infinite_is_a_cross_at_the_edge),
        LAW(what_is_above_the_limit_is_an_arrow),
        LAW(axes_show_what_they_are_told),
        LAW(a_pale_series_lies_behind_its_mean),
        LAW(powers_of_two_are_raised),
        LAW(series_differ_in_more_than_colour),
        LAW(a_long_series_is_a_small_file),
        LAW(an_open_point_is_hollow_with_an_arrow),
        LAW(csv_has_all_bits),
        LAW(csv_names_are_texts),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
