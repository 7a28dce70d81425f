/* Ledgers with strange values, and the report on them. A line changes a column of all rows of a table or of one:
 *     coords.step -1          points.val_loss@3 1e-300        runs.config '{"width":"7"}'
 * The value is a number, NULL, or a text in quotes. */
#include <ctype.h>
#include <string.h>

#include <sqlite3.h>

#include "fuzz_ledger.h"
#include "fuzz_report.h"

static bool is_name(const char *s)
{
    size_t n = 0;
    while (isalpha((unsigned char)s[n]) || s[n] == '_')
        n++;
    return n > 0 && s[n] == '\0';
}

static void bind(sqlite3_stmt *s, const char *value)
{
    char *end;
    const double number = strtod(value, &end);
    const long long whole = strtoll(value, NULL, 10);
    if (strcmp(value, "NULL") == 0)
        sqlite3_bind_null(s, 1);
    else if (value[0] == '\'' || *end != '\0' || end == value)
        sqlite3_bind_text(s, 1, value + (value[0] == '\''), -1, SQLITE_TRANSIENT);
    else if (strpbrk(value, ".eEnN"))
        sqlite3_bind_double(s, 1, number);
    else
        sqlite3_bind_int64(s, 1, whole);
}

/* Lines that say nothing are passed over. */
static void change(sqlite3 *db, char *line)
{
    char *column = strchr(line, '.'), *value = strchr(line, ' '), sql[256];
    sqlite3_stmt *s;
    if (!column || !value || value < column)
        return;
    *column++ = *value++ = '\0';
    char *row = strchr(column, '@');
    if (row)
        *row++ = '\0';
    if (!is_name(line) || !is_name(column) || strlen(line) + strlen(column) > 60)
        return;
    snprintf(sql, sizeof sql, "UPDATE %s SET %s = ?1%s", line, column, row ? " WHERE rowid = ?2" : "");
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        return;
    bind(s, value);
    if (row)
        sqlite3_bind_int(s, 2, atoi(row));
    sqlite3_step(s);
    sqlite3_finalize(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    size_t bytes;
    sqlite3 *db;
    scion_error err = {0};
    const uint8_t *good = fuzz_ledger_good(&bytes);
    const char *path = fuzz_ledger_set(good, bytes);
    fuzz_require(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    for (char *line; (line = fuzz_line(&in)) != NULL; free(line))
        change(db, line);
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    page *p = page_create("page.html", "fuzz");
    fuzz_require(p);
    if (report_ledger(p, path, "", "", &err) == SCION_OK)
        fuzz_draw(p);
    else
        fuzz_require_sentence(&err);
    page_free(p);
    return 0;
}
