/* A parser of its own for what a report writes: are tags balanced and texts escaped, and what stands where? */
#ifndef SCION_TESTS_REPORT_MARKUP_H
#define SCION_TESTS_REPORT_MARKUP_H

#include "scratch.h"

#include <ctype.h>
#include <stdbool.h>

/* HTML's elements without an end. */
static inline bool markup_void(const char *name)
{
    return strcmp(name, "meta") == 0 || strcmp(name, "link") == 0 || strcmp(name, "br") == 0 ||
           strcmp(name, "img") == 0;
}

static inline void markup_fault(const char *text, const char *at, const char *what)
{
    int line = 1;
    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    print_message("line %d: %s: %.60s\n", line, what, at);
    fail();
}

/* An ampersand begins an entity that XML knows. */
static inline bool markup_entity(const char *at)
{
    static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    for (int i = 0; i < 5; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

/* Reads a tag; returns what follows it. name: of the element; *closed: it has no content. */
static inline const char *markup_tag(const char *text, const char *at, char name[32], bool *closed)
{
    const char *begin = at;
    size_t n = 0;
    for (at++; isalnum((unsigned char)*at) && n < 31; at++)
        name[n++] = *at;
    name[n] = '\0';
    if (n == 0)
        markup_fault(text, begin, "no name of an element");
    for (;;) {
        while (isspace((unsigned char)*at))
            at++;
        *closed = *at == '/';
        at += *closed;
        if (*at == '>')
            return at + 1;
        const char *key = at;
        while (isalnum((unsigned char)*at) || *at == '-' || *at == ':')
            at++;
        if (at == key)
            markup_fault(text, begin, "a tag that does not end");
        if (*at != '=') /* HTML: an attribute without value */
            continue;
        if (*++at != '"')
            markup_fault(text, at, "a value without quotation marks");
        for (at++; *at != '"'; at++)
            if (*at == '\0' || *at == '<' || (*at == '&' && !markup_entity(at)))
                markup_fault(text, at, "a value that is not escaped");
        at++;
    }
}

/* Every element ends, in order; texts hold no <, and & only in entities. Style and script are skipped. */
static inline void markup_check(const char *text)
{
    char stack[64][32];
    int depth = 0, elements_seen = 0;
    const char *at = text;
    if (strncmp(at, "<?xml", 5) == 0 || strncmp(at, "<!DOCTYPE", 9) == 0)
        at = strchr(at, '>') + 1;
    while (*at) {
        char name[32];
        bool closed;
        if (*at == '&' && !markup_entity(at))
            markup_fault(text, at, "an ampersand that is not escaped");
        if ((unsigned char)*at < 0x20 && *at != '\n' && *at != '\t')
            markup_fault(text, at, "a control character");
        if (*at != '<') {
            at++;
            continue;
        }
        if (at[1] == '/') {
            const size_t n = depth > 0 ? strlen(stack[depth - 1]) : 0;
            if (depth == 0 || strncmp(at + 2, stack[depth - 1], n) != 0 || at[2 + n] != '>')
                markup_fault(text, at, depth > 0 ? stack[depth - 1] : "an end without a beginning");
            depth--;
            at += n + 3;
            continue;
        }
        at = markup_tag(text, at, name, &closed);
        elements_seen++;
        if (closed || markup_void(name))
            continue;
        if (depth == 64)
            markup_fault(text, at, "too deep");
        memcpy(stack[depth++], name, sizeof name);
        if (strcmp(name, "style") == 0 || strcmp(name, "script") == 0)
            at = strstr(at, strcmp(name, "style") == 0 ? "</style>" : "</script>");
    }
    if (depth != 0)
        markup_fault(text, at, stack[depth - 1]);
    check(elements_seen > 0);
}

static inline int markup_count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

/* The number that follows `key` behind `at`. */
static inline double markup_value(const char *at, const char *key)
{
    const char *found = strstr(at, key);
    check(found != NULL);
    return strtod(found + strlen(key), NULL);
}

#endif
