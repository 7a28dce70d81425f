/* conform: runs golden vectors against the library, through its public header alone.
 *
 *     conform FILE.jsonl...
 *
 * A file has one JSON record per line; `kind` says what it holds (docs/testing.md describes the format). Each
 * record passes when every array is within the record's own `tol` of its golden one. Records marked `quirk` or
 * `note` hold behaviour that the paper does not ask for: they are reported apart and never fail. A record
 * that the runner does not know, or cannot read, is a failure, so that none is left out silently. */
#define _POSIX_C_SOURCE 200809L /* getline, open_memstream */

#include "conform.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static const struct {
    const char *name;
    void (*run)(conform_case *c);
} KINDS[] = {
    {"lmo", conform_lmo},
    {"trajectory", conform_trajectory},
    {"norm_dual", conform_norm_dual},
    {"exact_lmo", conform_exact_lmo},
    {"sharp", conform_sharp},
    {"fw_gap", conform_fw_gap},
    {"joint_norm", conform_joint_norm},
    {"paper_trajectory", conform_paper_trajectory},
    {"schedule", conform_schedule},
    {"init_property", conform_init_property},
    {"activation", conform_activation},
};

static const char USAGE[] =
    "Usage: conform [-v] FILE.jsonl...\n"
    "Runs every record of the files against libscion and compares the results with the golden ones.\n"
    "\n"
    "  -v      one line per record, not only per failure\n"
    "  --help  this text\n"
    "\n"
    "Prints a line per failure; then the records marked quirk or note, as agreeing or differing; then the number\n"
    "passed and failed. Exits 0 when all passed; 1 on a failure, on a record that is malformed or not known, and\n"
    "when there is no record; 2 on wrong usage.\n";

typedef struct tally {
    bool verbose;
    int64_t passed, failed, apart;
    FILE *aside; /* the lines that are reported apart, kept until the end */
} tally;

static void run_record(conform_case *c)
{
    const char *kind = conform_string(c, c->record, "kind");
    c->tol = conform_number(c, c->record, "tol");
    if (!(c->tol >= 0))
        conform_fail(c, CONFORM_MALFORMED, "'tol' is %g, expected 0 or more", c->tol);
    c->eps_sensitive = conform_flag_or(c, c->record, "eps_sensitive", false);
    if (!conform_ready(c))
        return;
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(KINDS[i].name, kind) == 0) {
            KINDS[i].run(c);
            return;
        }
    conform_fail(c, CONFORM_UNKNOWN, "kind '%s' is not known", kind);
}

/* Counts and prints one record. A record that is optional may differ or be unknown, but not malformed. */
static void report(tally *t, const conform_case *c, const char *place)
{
    const char *why = json_string_value(json_object_get(c->record, "quirk"));
    if (!why)
        why = json_string_value(json_object_get(c->record, "note"));
    bool optional = conform_has(c->record, "quirk") || conform_has(c->record, "note");
    if (optional && c->verdict != CONFORM_MALFORMED) {
        t->apart++;
        fprintf(t->aside, "%s %s: %s%s[%s]\n", c->verdict == CONFORM_PASS ? "agrees " : "differs", c->name,
                c->message, *c->message ? " " : "", why ? why : "no reason given");
    } else if (c->verdict == CONFORM_PASS) {
        t->passed++;
        if (t->verbose)
            printf("pass %s %s\n", place, c->name);
    } else {
        t->failed++;
        printf("FAIL %s %s: %s\n", place, c->name, c->message);
    }
    if (*c->remark)
        fprintf(t->aside, "differs %s: %s\n", c->name, c->remark);
}

static void run_line(tally *t, const char *line, size_t length, const char *place)
{
    json_error_t problem;
    json_t *record = json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &problem);
    conform_case c = {.record = record, .name = json_string_value(json_object_get(record, "name"))};
    if (!c.name)
        c.name = "(no name)";
    if (!record)
        conform_fail(&c, CONFORM_MALFORMED, "not JSON: %s", problem.text);
    else if (!json_is_object(record))
        conform_fail(&c, CONFORM_MALFORMED, "not a JSON object");
    else
        run_record(&c);
    report(t, &c, place);
    conform_release(&c);
    json_decref(record);
}

static bool is_blank(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isspace((unsigned char)line[i]))
            return false;
    return true;
}

static void run_file(tally *t, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    long number = 0;
    while (file && (length = getline(&line, &capacity, file)) >= 0) {
        char place[512];
        snprintf(place, sizeof place, "%s:%ld", path, ++number);
        if (!is_blank(line, (size_t)length))
            run_line(t, line, (size_t)length, place);
    }
    if (!file || ferror(file)) {
        t->failed++;
        printf("FAIL %s: %s\n", path, strerror(errno));
    }
    free(line);
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    tally t = {0};
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (strcmp(argv[first], "--help") == 0) {
            fputs(USAGE, stdout);
            return 0;
        }
        if (strcmp(argv[first], "-v") != 0) {
            fprintf(stderr, "conform: option '%s' is not known\n%s", argv[first], USAGE);
            return 2;
        }
        t.verbose = true;
    }
    if (first == argc) {
        fputs(USAGE, stderr);
        return 2;
    }
    char *apart = NULL;
    size_t apart_length = 0;
    t.aside = open_memstream(&apart, &apart_length);
    if (!t.aside) {
        fputs("conform: out of memory\n", stderr);
        return 1;
    }
    for (int i = first; i < argc; i++)
        run_file(&t, argv[i]);
    if (t.passed + t.failed + t.apart == 0) {
        t.failed++;
        puts("FAIL no records");
    }
    fclose(t.aside);
    if (apart_length > 0)
        printf("Optional, not counted:\n%s", apart);
    printf("%lld passed, %lld failed\n", (long long)t.passed, (long long)t.failed);
    free(apart);
    return t.failed > 0;
}
