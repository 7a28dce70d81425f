/* See text_files.h. The texts of a folder and its folders are put together in the order of their paths, as cat does.
 * gzip and zstd, recognised by the first bytes of a file and not by its name, are unpacked; UTF-16 with a byte order
 * mark becomes UTF-8, and the mark of a UTF-8 text is dropped. In a folder a text is a file without a zero in its
 * first 8000 bytes, as for git, or with the mark of UTF-16; hidden files and folders are left out.
 *
 * Files are read and not mapped: a file that shrinks meanwhile is a shorter text, not a signal. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "util/array.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/utf8.h"
#include "data/paths.h"
#include "data/text_files.h"

enum { chunk = 1 << 20 };

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* Makes capacity for n more bytes. */
static scion_status reserve(data_texts *t, size_t n, const char *path, scion_error *err)
{
    if (t->capacity - t->count >= n)
        return SCION_OK;
    const size_t capacity = t->count + n > 2 * t->capacity ? t->count + n : 2 * t->capacity;
    uint8_t *bytes = realloc(t->bytes, capacity);
    if (!bytes)
        return data_fail(err, SCION_ENOMEM, path, "out of memory for the text: %zu bytes", capacity);
    t->bytes = bytes;
    t->capacity = capacity;
    return SCION_OK;
}

/* Reads n bytes, fewer only at the end of the file; -1: an error. */
static ssize_t read_chunk(int file, void *to, size_t n)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t got = read(file, (char *)to + done, n - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -1 : (ssize_t)done;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static scion_status read_failed(const char *path, scion_error *err)
{
    return data_fail(err, SCION_EINVAL, path, "cannot read: %s", strerror(errno));
}

static scion_status read_plain(data_texts *t, int file, const char *path, scion_error *err)
{
    struct stat s;
    size_t expected = fstat(file, &s) == 0 && s.st_size > 0 ? (size_t)s.st_size + 1 : chunk;
    for (;;) {
        if (reserve(t, expected, path, err) != SCION_OK)
            return SCION_ENOMEM;
        const ssize_t got = read_chunk(file, t->bytes + t->count, expected);
        if (got < 0)
            return read_failed(path, err);
        t->count += (size_t)got;
        if ((size_t)got < expected)
            return SCION_OK;
        expected = chunk;
    }
}

static scion_status read_gzip(data_texts *t, int file, const char *path, scion_error *err)
{
    const int own = dup(file); /* gzclose closes it */
    gzFile f = own >= 0 ? gzdopen(own, "rb") : NULL;
    scion_status status = SCION_OK;
    int got = 0;
    if (!f) {
        if (own >= 0)
            close(own);
        return data_fail(err, SCION_ENOMEM, path, "out of memory for the text");
    }
    do {
        status = reserve(t, chunk, path, err);
        got = status == SCION_OK ? gzread(f, t->bytes + t->count, chunk) : 0;
        t->count += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    if ((gzclose(f) != Z_OK || got < 0) && status == SCION_OK)
        status = data_fail(err, SCION_EINVAL, path, "cut off or damaged: the gzip data end too early or are wrong");
    return status;
}

static scion_status read_zstd(data_texts *t, int file, const char *path, scion_error *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    uint8_t *packed = malloc(chunk);
    scion_status status = z && packed ? SCION_OK : data_fail(err, SCION_ENOMEM, path, "out of memory for the text");
    size_t left = 0; /* 0: a frame has ended */
    for (ssize_t got = 1; status == SCION_OK && got > 0;) {
        got = read_chunk(file, packed, chunk);
        if (got < 0)
            status = read_failed(path, err);
        ZSTD_inBuffer in = {packed, got > 0 ? (size_t)got : 0, 0};
        bool full = false; /* the last call filled its buffer: there may be more without input */
        while (status == SCION_OK && (in.pos < in.size || full)) {
            status = reserve(t, chunk, path, err);
            if (status != SCION_OK)
                break;
            ZSTD_outBuffer out = {t->bytes + t->count, chunk, 0};
            left = ZSTD_decompressStream(z, &out, &in);
            t->count += out.pos;
            full = out.pos == out.size;
            if (ZSTD_isError(left))
                status = data_fail(err, SCION_EINVAL, path, "damaged zstd data: %s", ZSTD_getErrorName(left));
        }
    }
    if (status == SCION_OK && left != 0)
        status = data_fail(err, SCION_EINVAL, path, "cut off: the zstd data end too early");
    free(packed);
    ZSTD_freeDStream(z);
    return status;
}

/* Readers by the first bytes of a file; the last takes any. */
static const struct {
    const char *magic;
    scion_status (*read)(data_texts *t, int file, const char *path, scion_error *err);
} readers[] = {{"\x1f\x8b", read_gzip}, {"\x28\xb5\x2f\xfd", read_zstd}, {"", read_plain}};

/* ---- Byte order marks ---------------------------------------------------------------------------------- */

static bool starts(const uint8_t *bytes, size_t n, const char *mark, size_t length)
{
    return n >= length && memcmp(bytes, mark, length) == 0;
}

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

/* ---- Files and folders --------------------------------------------------------------------------------- */

/* Adds a file. A file of a folder that is no text is only counted. */
static scion_status add_file(data_texts *t, const char *path, unsigned how, bool in_folder, scion_error *err)
{
    const size_t first = t->count;
    char magic[4] = "";
    size_t i = 0;
    int64_t size;
    int file;
    scion_status status = data_open_file(path, &file, &size, err);
    if (status != SCION_OK)
        return status;
    const ssize_t got = pread(file, magic, sizeof magic, 0);
    const size_t n = got > 0 ? (size_t)got : 0;
    while (readers[i].magic[0] &&
           ((how & DATA_RAW) || !starts((const uint8_t *)magic, n, readers[i].magic, strlen(readers[i].magic))))
        i++;
    status = readers[i].read(t, file, path, err);
    close(file);
    if (status != SCION_OK)
        return status;
    if (in_folder && !is_text(t->bytes + first, t->count - first)) {
        t->count = first;
        t->others++;
        return SCION_OK;
    }
    data_text_file *f = array_append(&t->files, &t->file_count, sizeof *f);
    if (!f)
        return data_fail(err, SCION_ENOMEM, path, "out of memory for the text");
    *f = (data_text_file){strdup(path), first};
    if (!f->path)
        return data_fail(err, SCION_ENOMEM, path, "out of memory for the text");
    return how & DATA_RAW ? SCION_OK : decode(t, first, how & DATA_KEEP_MARK, path, err);
}

/* Adds up to `max` paths of the files in a folder and in its folders, except the file or folder `except`. Links to
 * folders are not followed: they may lead back. */
static scion_status list_folder(data_names *n, const char *folder, const char *except, int64_t max, scion_error *err)
{
    scion_status status = SCION_OK;
    DIR *d = opendir(folder);
    if (!d)
        return data_fail(err, SCION_EINVAL, folder, "cannot open: %s", strerror(errno));
    for (const struct dirent *e; status == SCION_OK && n->count < max && (e = readdir(d)) != NULL;) {
        char path[data_path_bytes];
        struct stat s;
        if (e->d_name[0] == '.')
            continue;
        if (!data_path(path, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", e->d_name)) {
            status = data_fail(err, SCION_EINVAL, folder, "the path of a file in it is too long");
        } else if (except && except[0] && file_same(path, except)) {
            continue;
        } else if (lstat(path, &s) == 0 && S_ISDIR(s.st_mode)) {
            status = list_folder(n, path, except, max, err);
        } else if (stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0) {
            status = data_add_name(n, path, err);
        }
    }
    closedir(d);
    return status;
}

bool data_has_files(const char *folder)
{
    data_names n = {NULL, 0};
    const bool listed = list_folder(&n, folder, NULL, 1, NULL) == SCION_OK;
    const bool any = listed && n.count > 0;
    data_free_names(&n);
    return any;
}

static scion_status add_folder(data_texts *t, const char *folder, const char *except, unsigned how, scion_error *err)
{
    data_names n = {NULL, 0};
    scion_status status = list_folder(&n, folder, except, INT64_MAX, err);
    data_sort_names(&n);
    for (int64_t i = 0; status == SCION_OK && i < n.count; i++)
        status = add_file(t, n.name[i], how, true, err);
    data_free_names(&n);
    if (status == SCION_OK && t->file_count == 0)
        status =
            data_fail(err, SCION_EINVAL, folder, "a folder without texts (%lld other files)", (long long)t->others);
    return status;
}

scion_status data_read_texts(data_texts *t, const char *path, const char *except, unsigned how, scion_error *err)
{
    *t = (data_texts){.bytes = NULL};
    const scion_status status =
        file_is_folder(path) ? add_folder(t, path, except, how, err) : add_file(t, path, how, false, err);
    if (status == SCION_OK && t->count == 0)
        return data_fail(err, SCION_EINVAL, path, "the text is empty");
    return status;
}

void data_free_texts(data_texts *t)
{
    for (int64_t i = 0; i < t->file_count; i++)
        free(t->files[i].path);
    free(t->files);
    free(t->bytes);
    *t = (data_texts){.bytes = NULL};
}

const char *data_text_place(const data_texts *t, size_t at, int64_t *line, size_t *byte)
{
    int64_t i = 0;
    while (i + 1 < t->file_count && t->files[i + 1].start <= at)
        i++;
    *line = 1;
    for (size_t k = t->files[i].start; k < at; k++)
        *line += t->bytes[k] == '\n';
    *byte = at - t->files[i].start + 1;
    return t->files[i].path;
}
