/* See text_files.h. The texts of a folder and its folders are put together in the order of their paths, as cat does.
 * gzip and zstd, recognised by the first bytes of a file and not by its name, are unpacked; UTF-16 with a byte order
 * mark becomes UTF-8, and the mark of a UTF-8 text is dropped. In a folder a text is a file without a zero in its
 * first 8000 bytes, as for git, or with the mark of UTF-16; hidden files and folders are left out.
 *
 * A file named *.jsonl or *.ndjson, packed or not, has a JSON object on each line, of which one field is a text;
 * empty lines and empty texts are left out. Records are replaced by their texts in place, since a text is never
 * longer than its record.
 *
 * Files are read and not mapped: a file that shrinks meanwhile is a shorter text, not a signal. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/arith.h"
#include "util/array.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/number.h"
#include "util/utf8.h"
#include "data/paths.h"
#include "data/text_files.h"

enum { chunk = 1 << 20 };

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* Makes capacity for n more bytes. */
static scion_status reserve(data_texts *t, size_t n, const char *path, scion_error *err)
{
    char text[NUMBER_BYTES_TEXT];
    if (t->capacity - t->count >= n)
        return SCION_OK;
    const size_t capacity = t->count + n > 2 * t->capacity ? t->count + n : 2 * t->capacity;
    uint8_t *bytes = realloc(t->bytes, capacity);
    if (!bytes)
        return data_fail(err, SCION_ENOMEM, path, "out of memory for %s of text",
                         number_bytes((double)capacity, text));
    t->bytes = bytes;
    t->capacity = capacity;
    return SCION_OK;
}

/* Unpacks the zstd data in t from `first` on. */
static scion_status unpack_zstd(data_texts *t, size_t first, const char *path, scion_error *err)
{
    const size_t n = t->count - first;
    ZSTD_DStream *z = ZSTD_createDStream();
    uint8_t *packed = malloc(n);
    ZSTD_inBuffer in = {packed, n, 0};
    ZSTD_outBuffer out;
    size_t left; /* 0: a frame has ended, and all of it was written */
    scion_status status = SCION_OK;
    if (!z || !packed)
        TRY(data_fail(err, SCION_ENOMEM, path, "out of memory for the text"));
    memcpy(packed, t->bytes + first, n);
    t->count = first;
    do {
        TRY(reserve(t, chunk, path, err));
        out = (ZSTD_outBuffer){t->bytes + t->count, chunk, 0};
        left = ZSTD_decompressStream(z, &out, &in);
        t->count += out.pos;
        if (ZSTD_isError(left))
            TRY(data_fail(err, SCION_EINVAL, path, "damaged zstd data: %s", ZSTD_getErrorName(left)));
    } while (in.pos < in.size || (left != 0 && out.pos == out.size));
    if (left != 0)
        TRY(data_fail(err, SCION_EINVAL, path, "cut off: the zstd data end too early"));
done:
    free(packed);
    ZSTD_freeDStream(z);
    return status;
}

static bool starts(const uint8_t *bytes, size_t n, const char *mark, size_t length)
{
    return n >= length && memcmp(bytes, mark, length) == 0;
}

/* Appends the bytes of a file, unpacked. */
static scion_status read_bytes(data_texts *t, const char *path, scion_error *err)
{
    const size_t first = t->count;
    int64_t size;
    int got, code;
    scion_status status;
    gzFile f;
    RETURN_IF_FAILED(data_open_gzip(path, &f, &size, err));
    size_t more = (size_t)size + 1; /* for all of a plain file, and its end */
    do {
        status = reserve(t, more, path, err);
        got = status == SCION_OK ? gzread(f, t->bytes + t->count, (unsigned)scn_min((int64_t)more, INT_MAX)) : 0;
        t->count += got > 0 ? (size_t)got : 0;
        more = chunk;
    } while (got > 0);
    const bool direct = gzdirect(f);
    gzerror(f, &code);
    if (code == Z_ERRNO)
        status = data_fail(err, SCION_EINVAL, path, "cannot read: %s", strerror(errno));
    if ((gzclose(f) != Z_OK || got < 0) && status == SCION_OK)
        status = data_fail(err, SCION_EINVAL, path, "cut off or damaged: the gzip data end too early or are wrong");
    if (status == SCION_OK && direct && starts(t->bytes + first, t->count - first, "\x28\xb5\x2f\xfd", 4))
        status = unpack_zstd(t, first, path, err);
    return status;
}

/* ---- Byte order marks ---------------------------------------------------------------------------------- */

/* Converts UTF-16 to UTF-8, which takes at most 3 bytes for 2. Returns its bytes; 0: it is not UTF-16. */
static size_t from_utf16(const uint8_t *from, size_t n, bool big, char *to)
{
    size_t done = 0;
    for (size_t i = 2; i < n; i += 2) {
        if (i + 1 >= n)
            return 0;
        uint32_t code = (uint32_t)from[i + !big] << 8 | from[i + big];
        if (code >= 0xd800 && code < 0xe000) { /* a pair */
            const uint32_t low = i + 3 < n ? (uint32_t)from[i + 2 + !big] << 8 | from[i + 2 + big] : 0;
            if (code >= 0xdc00 || low < 0xdc00 || low >= 0xe000)
                return 0;
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            i += 2;
        }
        done += (size_t)utf8_encode(code, to + done);
    }
    return done;
}

/* Converts t from `first` on to UTF-8, as its byte order mark says; text that contradicts its mark is left alone. */
static scion_status decode(data_texts *t, size_t first, bool keep_mark, const char *path, scion_error *err)
{
    const uint8_t *from = t->bytes + first;
    const size_t n = t->count - first;
    if (!keep_mark && starts(from, n, "\xef\xbb\xbf", 3)) {
        memmove(t->bytes + first, from + 3, n - 3);
        t->count -= 3;
        return SCION_OK;
    }
    const bool big = starts(from, n, "\xfe\xff", 2);
    if ((!big && !starts(from, n, "\xff\xfe", 2)) || starts(from, n, "\xff\xfe\0\0", 4)) /* the last: UTF-32 */
        return SCION_OK;
    char *text = malloc(n / 2 * 3 + 4);
    if (!text)
        return data_fail(err, SCION_ENOMEM, path, "out of memory for the text");
    const size_t bytes = from_utf16(from, n, big, text);
    scion_status status = SCION_OK;
    if (bytes > 0) {
        t->count = first;
        status = reserve(t, bytes, path, err);
        if (status == SCION_OK) {
            memcpy(t->bytes + first, text, bytes);
            t->count += bytes;
            t->utf16++;
        }
    }
    free(text);
    return status;
}

static bool is_text(const uint8_t *bytes, size_t n)
{
    enum { examined = 8000 };
    return starts(bytes, n, "\xff\xfe", 2) || starts(bytes, n, "\xfe\xff", 2) ||
           !memchr(bytes, 0, n < examined ? n : examined);
}

/* ---- JSON Lines ---------------------------------------------------------------------------------------- */

/* True for NAME.jsonl and NAME.ndjson, also with the ending of a packed file. */
static bool has_json_name(const char *path)
{
    static const char *const ends[] = {".jsonl", ".ndjson"}, *const packed[] = {"", ".gz", ".zst", ".zstd"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            const size_t end = strlen(ends[k]), rest = strlen(packed[i]);
            if (length > end + rest && strcasecmp(path + (length - rest), packed[i]) == 0 &&
                strncasecmp(path + (length - rest - end), ends[k], end) == 0)
                return true;
        }
    return false;
}

/* True if the first two lines are a JSON object each. A longer line than a book is not looked at. */
static bool has_json_lines(const char *text, size_t n)
{
    enum { wanted = 2, longest = 1 << 22 };
    int found = 0;
    while (found < wanted && n > 0 && text[0] == '{') {
        const char *end = memchr(text, '\n', n < longest ? n : longest);
        const size_t length = end ? (size_t)(end - text) : n < longest ? n : 0;
        json_t *object = json_loadb(text, length, JSON_DISABLE_EOF_CHECK, NULL);
        const bool fine = json_is_object(object);
        json_decref(object);
        if (!fine)
            return false;
        found++;
        n -= length + (end ? 1 : 0);
        text += length + (end ? 1 : 0);
    }
    return found == wanted;
}

/* Reads the text of a record. Release *record, which holds it. */
static scion_status read_record(const char *line, size_t n, int64_t number, const char *field, const char *path,
                                json_t **record, const json_t **text, scion_error *err)
{
    json_error_t why;
    *record = json_loadb(line, n, JSON_ALLOW_NUL, &why);
    if (!*record)
        return data_fail(err, SCION_EINVAL, path, "line %lld is no record of JSON Lines: %.60s", (long long)number,
                         why.text);
    if (!json_is_object(*record))
        return data_fail(err, SCION_EINVAL, path, "line %lld is JSON, but not an object", (long long)number);
    *text = json_object_get(*record, field);
    if (!*text)
        return data_fail(err, SCION_EINVAL, path, "line %lld has no field \"%.30s\"; field=NAME reads another",
                         (long long)number, field);
    if (!json_is_string(*text))
        return data_fail(err, SCION_EINVAL, path, "line %lld: the field \"%.30s\" is not a string", (long long)number,
                         field);
    return SCION_OK;
}

static bool is_blank(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r'))
        i++;
    return i == n;
}

/* Adds a document that begins at `start` and has `count` bytes. */
static scion_status add_document(data_texts *t, size_t start, size_t count, int64_t line, scion_error *err)
{
    data_document *d = array_append(&t->documents, &t->document_count, sizeof *d);
    if (!d)
        return data_fail(err, SCION_ENOMEM, t->files[t->file_count - 1].path, "out of memory for the text");
    *d = (data_document){start, count, t->file_count - 1, line};
    return SCION_OK;
}

/* Replaces the records from `first` on by their texts, each a document. */
static scion_status take_records(data_texts *t, size_t first, const char *field, const char *path, scion_error *err)
{
    const char *bytes = (const char *)t->bytes;
    const size_t end = t->count;
    scion_status status = SCION_OK;
    int64_t line = 0;
    t->count = first;
    for (size_t at = first, next; status == SCION_OK && at < end; at = next) {
        const char *stop = memchr(bytes + at, '\n', end - at);
        const size_t n = stop ? (size_t)(stop - bytes) - at : end - at;
        json_t *record = NULL;
        const json_t *text;
        next = at + n + 1;
        line++;
        if (is_blank(bytes + at, n))
            continue;
        status = read_record(bytes + at, n, line, field, path, &record, &text, err);
        const size_t length = status == SCION_OK ? json_string_length(text) : 0;
        if (length > 0) {
            status = add_document(t, t->count, length, line, err);
            memcpy(t->bytes + t->count, json_string_value(text), length);
            t->count += length;
            if (t->bytes[t->count - 1] != '\n')
                t->bytes[t->count++] = '\n';
        }
        json_decref(record);
    }
    return status;
}

/* ---- Files and folders --------------------------------------------------------------------------------- */

/* Adds a file. A file of a folder that is no text is only counted. */
static scion_status add_file(data_texts *t, const char *path, const data_reading *how, bool in_folder,
                             scion_error *err)
{
    const size_t first = t->count;
    RETURN_IF_FAILED(read_bytes(t, path, err));
    if (in_folder && !is_text(t->bytes + first, t->count - first)) {
        t->count = first;
        t->others++;
        return SCION_OK;
    }
    data_text_file *f = array_append(&t->files, &t->file_count, sizeof *f);
    if (f)
        *f = (data_text_file){strdup(path), first};
    if (!f || !f->path)
        return data_fail(err, SCION_ENOMEM, path, "out of memory for the text");
    RETURN_IF_FAILED(decode(t, first, how->keep_mark, path, err));
    if (how->field && how->field[0] && has_json_name(path))
        return take_records(t, first, how->field, path, err);
    t->json += has_json_lines((const char *)t->bytes + first, t->count - first);
    return t->count > first ? add_document(t, first, t->count - first, 0, err) : SCION_OK;
}

/* Adds the files of a folder that are regular and not empty, in the order of their paths. */
static scion_status add_folder(data_texts *t, const char *folder, const data_reading *how, scion_error *err)
{
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    data_names files = {NULL, 0};
    scion_status status;
    TRY(data_list(folder, "", how->except, &files, NULL, err));
    data_sort_names(&files);
    for (int64_t i = 0; i < files.count; i++) {
        char path[data_path_bytes];
        struct stat s;
        if (!data_path(path, "%s%s%s", folder, slash, files.name[i]))
            TRY(data_fail(err, SCION_EINVAL, folder, "the path of a file in it is too long"));
        if (stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0)
            TRY(add_file(t, path, how, true, err));
    }
    if (t->file_count == 0)
        TRY(data_fail(err, SCION_EINVAL, folder, "a folder without texts (%lld other files)", (long long)t->others));
done:
    data_free_names(&files);
    return status;
}

scion_status data_read_texts(data_texts *t, const char *path, const data_reading *how, scion_error *err)
{
    *t = (data_texts){.bytes = NULL};
    const scion_status status =
        file_is_folder(path) ? add_folder(t, path, how, err) : add_file(t, path, how, how->skip_others, err);
    if (status == SCION_OK && t->count == 0 && !how->skip_others)
        return data_fail(err, SCION_EINVAL, path, "the text is empty");
    return status;
}

void data_free_texts(data_texts *t)
{
    for (int64_t i = 0; i < t->file_count; i++)
        free(t->files[i].path);
    free(t->files);
    free(t->documents);
    free(t->bytes);
    *t = (data_texts){.bytes = NULL};
}

const char *data_text_place(const data_texts *t, size_t at, int64_t *line, size_t *byte)
{
    int64_t i = 0, end = t->document_count;
    while (end - i > 1) { /* the last document that starts at or before the place */
        const int64_t middle = (i + end) / 2;
        *(t->documents[middle].start <= at ? &i : &end) = middle;
    }
    const data_document *d = &t->documents[i];
    *line = d->line > 0 ? d->line : 1;
    for (size_t k = d->start; d->line == 0 && k < at; k++)
        *line += t->bytes[k] == '\n';
    *byte = at - d->start + 1;
    return t->files[d->file].path;
}
