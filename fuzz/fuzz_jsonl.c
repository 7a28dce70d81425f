/* JSON Lines: the input is a file of records. Documents follow each other, are UTF-8 and not empty, and are found
 * again by their places; written as records of their own they are read back as they are. */
#include <jansson.h>
#include <string.h>

#include "data/text_files.h"
#include "fuzz.h"
#include "util/utf8.h"

static bool read_texts(data_texts *t, const void *bytes, size_t size)
{
    static const data_reading how = {.field = "text"};
    char path[512];
    scion_error err = {0};
    fuzz_put("a.jsonl", bytes, size);
    snprintf(path, sizeof path, "%s/a.jsonl", fuzz_folder());
    const bool fine = data_read_texts(t, path, &how, &err) == SCION_OK;
    if (!fine)
        fuzz_require_sentence(&err);
    return fine;
}

static void check_documents(const data_texts *t)
{
    size_t end = 0;
    int64_t last = 0, line;
    size_t byte;
    fuzz_require(t->file_count == 1 && t->document_count > 0);
    for (int64_t i = 0; i < t->document_count; i++) {
        const data_document *d = &t->documents[i];
        fuzz_require(d->count > 0 && d->start == end && d->start + d->count <= t->count && d->line > last);
        fuzz_require(utf8_bytes((const char *)t->bytes + d->start, d->count) == d->count);
        last = d->line;
        end = d->start + d->count;
        end += t->bytes[end - 1] != '\n';
        data_text_place(t, d->start + d->count - 1, &line, &byte);
        fuzz_require(line == d->line && byte == d->count);
    }
    fuzz_require(end == t->count);
}

static void read_back(const data_texts *t)
{
    char *text = NULL;
    size_t size = 0;
    data_texts again;
    FILE *to = open_memstream(&text, &size);
    fuzz_require(to);
    for (int64_t i = 0; i < t->document_count; i++) {
        const data_document *d = &t->documents[i];
        json_t *record = json_object();
        json_object_set_new(record, "text", json_stringn((const char *)t->bytes + d->start, d->count));
        fuzz_require(json_dumpf(record, to, JSON_COMPACT) == 0 && fputc('\n', to) == '\n');
        json_decref(record);
    }
    fuzz_require(fclose(to) == 0 && read_texts(&again, text, size));
    fuzz_require(again.count == t->count && memcmp(again.bytes, t->bytes, t->count) == 0);
    fuzz_require(again.document_count == t->document_count);
    data_free_texts(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    data_texts t;
    if (read_texts(&t, data, size)) {
        check_documents(&t);
        read_back(&t);
    }
    data_free_texts(&t);
    return 0;
}
