/* The arguments of commands: any number of settings, switches and words; numbers as in settings; system calls that a
 * signal interrupts. */
#include "cli.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { many = 24 };

static char names[many][16];
static cli_argument rows[many + 1];

/* f0=VALUE, --f1, f2=VALUE, ... */
static int make_rows(void **state)
{
    (void)state;
    for (int i = 0; i < many; i++) {
        snprintf(names[i], sizeof names[i], i % 2 == 0 ? "f%d" : "--f%d", i);
        rows[i] = (cli_argument){.name = names[i], .help = ""};
        if (i % 2 == 0)
            rows[i].value = "N";
    }
    rows[6].bare = "-";
    rows[8].name = "top_k";
    return 0;
}

static bool parse(cli_arguments *a, int count, const char *const *list)
{
    static char text[64][32];
    static char *argv[64];
    for (int i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "%s", list[i]);
        argv[i] = text[i];
    }
    static const cli_command command = {.name = "test", .arguments = rows, .options = CLI_ALL_OPTIONS};
    return cli_parse(a, &command, count, argv);
}

#define PARSE(a, ...) \
    parse(a, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), (const char *const[]){__VA_ARGS__})

/* As many arguments as a command lists: the last one has its place like the first. */
static void arguments_have_no_limit(void **state)
{
    cli_arguments a;
    (void)state;
    assert_true(PARSE(&a, "f22=x", "--f23", "f0=y"));
    for (int i = 0; i < many; i++)
        if (i == 0 || i == 22)
            assert_string_equal(a.values[i], i == 0 ? "y" : "x");
        else if (i == 23)
            assert_string_equal(a.values[i], "");
        else
            assert_null(a.values[i]);
    assert_int_equal(a.word_count, 0);
    cli_parse_free(&a);
}

/* A pair is an argument of the command if that has one of the name, else an option of the run. The last counts. */
static void words_pairs_and_arguments(void **state)
{
    cli_arguments a;
    int64_t jobs = 1;
    (void)state;
    assert_true(PARSE(&a, "a", "b", "f0=2", "c", "lr=2^-5", "d", "e", "-", "f0=3", "f2=a=b", "f"));
    assert_int_equal(a.word_count, 7);
    assert_string_equal(a.words[6], "f");
    assert_string_equal(a.values[2], "a=b");
    assert_true(cli_get_int(&a, 0, 1, 64, &jobs));
    assert_int_equal(jobs, 3);
    assert_int_equal(a.pair_count, 1);
    assert_string_equal(a.pairs[0], "lr=2^-5");
    cli_parse_free(&a);
}

/* A setting that has a value of its own for --name takes another one too, in three spellings. */
static void values_may_be_left_out(void **state)
{
    static const char *const spellings[][2] = {{"f6=FILE", "lr=1"}, {"--f6=FILE", "lr=1"}, {"--f6", "FILE"}};
    cli_arguments a;
    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        assert_true(PARSE(&a, spellings[i][0], spellings[i][1]));
        assert_string_equal(a.values[6], "FILE");
        assert_int_equal(a.word_count, 0);
        cli_parse_free(&a);
    }
    assert_true(PARSE(&a, "--f6", "--f1"));
    assert_string_equal(a.values[6], "-");
    assert_non_null(a.values[1]);
    cli_parse_free(&a);
}

static void wrong_arguments_are_refused(void **state)
{
    static const char *const wrong[][2] = {{"--g0", "x"}, {"--f1=x", "x"}, {"f1=yes", "x"},  {"x", "--f0"},
                                           {"-x", "x"},   {"-f1", "x"},    {"widht=3", "x"}, {"--lr", "3"},
                                           {"--f2", "3"}, {"--f2=3", "x"}, {"top-k=3", "x"}, {"x", "--top_k=3"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cli_arguments a;
        assert_false(PARSE(&a, wrong[i][0], wrong[i][1]));
        cli_parse_free(&a);
    }
}

static void numbers_are_those_of_settings(void **state)
{
    cli_arguments a;
    int64_t whole = 7;
    double real = 7, seconds = 7;
    (void)state;
    assert_true(PARSE(&a, "f0=1k", "f4=2^-5", "f6=1h30m", "top_k=1.5", "f10=-1", "f12="));
    assert_true(cli_get_int(&a, 0, 1, 1000000, &whole) && whole == 1000);
    assert_true(cli_get_real(&a, 4, 0, 1, &real) && real == 0.03125);
    assert_true(cli_get_seconds(&a, 6, &seconds) && seconds == 5400);
    assert_false(cli_get_int(&a, 8, 0, 10, &whole));
    assert_false(cli_get_int(&a, 10, 0, 10, &whole));
    assert_false(cli_get_real(&a, 10, 0, 10, &real));
    assert_false(cli_get_seconds(&a, 10, &seconds));
    assert_false(cli_get_real(&a, 12, 0, 10, &real));
    whole = 7;
    assert_true(cli_get_int(&a, 14, 0, 1, &whole) && whole == 7); /* not given */
    cli_parse_free(&a);
}

/* A process that is interrupted while its output waits for a reader loses none of it. */
static void an_interrupted_write_is_resumed(void **state)
{
    enum { bytes = 4096, parts = 256 }; /* more than a pipe holds, in parts: one of them is blocked as a whole */
    static char text[bytes];
    int ends[2], status;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        cli_catch_signals();
        close(ends[0]);
        FILE *to = fdopen(ends[1], "w");
        bool written = true;
        for (int i = 0; written && i < parts; i++)
            written = fwrite(text, 1, bytes, to) == bytes && fflush(to) == 0;
        _exit(written && cli_interrupted() ? 0 : 1);
    }
    close(ends[1]);
    const struct timespec pause = {0, 200000000};
    assert_int_equal(read(ends[0], text, 1), 1); /* it writes: the handler is there */
    nanosleep(&pause, NULL);
    kill(pid, SIGINT);
    nanosleep(&pause, NULL);
    while (read(ends[0], text, bytes) > 0)
        ;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What is printed through cli_fill, cli_entry and cli_paragraphs: all words, in order, within 80 columns. */
static void texts_are_filled(void **state)
{
    static const char text[] =
        "Every word of a paragraph that is longer than a line of the terminal, with umlauts "
        "(\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f), is there, and in its place.\n\n  scion stays  as it is\n\nThe end.\n";
    static const char *const lines[] = {
        "Every word of a paragraph that is longer than a line of the terminal, with",
        "umlauts (\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f), is there, and in its place.",
        "",
        "  scion stays  as it is",
        "",
        "The end.",
        "run: seventy-five letters make a word that does not fit beside what is before",
        "     it  and the next",
        "  name   what it is, at some length, so that it does not end in the line that it",
        "         begins in",
        "  a-longer-name",
        "         text",
        "",
        "1e+07h? 1m01s",
    };
    char *got = NULL, took[16];
    size_t bytes;
    (void)state;
    FILE *to = open_memstream(&got, &bytes);
    cli_paragraphs(to, text);
    cli_fill(to, 5, "run: seventy-five letters make a word that does not fit beside what is before  it%s",
             "  and the next");
    cli_entry(to, 9, "name", "what it is, at some length, so that it does not end in the line that it begins in");
    cli_entry(to, 9, "a-longer-name", "text");
    fprintf(to, "\n%s", cli_duration(3.6e10, took));
    fprintf(to, "%s ", cli_duration(NAN, took));
    fprintf(to, "%s\n", cli_duration(61, took));
    fclose(to);
    char *line = got;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const size_t length = strcspn(line, "\n");
        assert_true(line[length] == '\n');
        line[length] = '\0';
        assert_string_equal(line, lines[i]);
        line += length + 1;
    }
    assert_string_equal(line, "");
    free(got);
}

__attribute__((format(printf, 2, 3))) static void check_printable(const char *expected, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = cli_printable(format, args);
    va_end(args);
    assert_string_equal(text, expected);
    free(text);
}

/* Line breaks of the format stay; nothing in an argument acts on a terminal, and UTF-8 stays as it is. */
static void foreign_text_is_harmless(void **state)
{
    (void)state;
    check_printable("", "%s", "");
    check_printable("a\nb\n", "%s\n%s\n", "a", "b");
    check_printable("\n\nx\n", "\n\n%c\n", 'x');
    check_printable("a?b?\n?c", "%s\n%s", "a\nb\r", "\nc");
    check_printable("?[31m ?]0;T? ??2J ? \xc3\xa9", "%s %s %s %s %s", "\033[31m", "\033]0;T\a",
                    "\xc2\x9b"
                    "2J",
                    "\xff", "\xc3\xa9");
    check_printable("3 7.50%\n", "%d %.2f%%\n", 3, 7.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_have_no_limit),         cmocka_unit_test(foreign_text_is_harmless),
        cmocka_unit_test(words_pairs_and_arguments),       cmocka_unit_test(values_may_be_left_out),
        cmocka_unit_test(wrong_arguments_are_refused),     cmocka_unit_test(numbers_are_those_of_settings),
        cmocka_unit_test(an_interrupted_write_is_resumed), cmocka_unit_test(texts_are_filled),
    };
    return cmocka_run_group_tests(tests, make_rows, NULL);
}
