/* See fuzz.h. */
#define _GNU_SOURCE 1 /* memfd_create */
#include "fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Leaks are looked for by LeakSanitizer; freed memory is kept for a while, but not as much as is the default, which
 * makes processes of gigabytes. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=16:allocator_may_return_null=1";
}

void fuzz_require_sentence(const scion_error *err)
{
    fuzz_require(memchr(err->message, '\0', sizeof err->message) != NULL);
    fuzz_require(strlen(err->message) > 8);
}

/* ---- Files in memory ------------------------------------------------------------------------------------------- */

static void write_all(int fd, const void *bytes, size_t size)
{
    fuzz_require(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    fuzz_require(size == 0 || pwrite(fd, bytes, size, 0) == (ssize_t)size);
}

const char *fuzz_file(int slot, const void *bytes, size_t size)
{
    static struct {
        bool open;
        int fd;
        char path[32];
    } files[FUZZ_FILES];
    if (!files[slot].open) {
        files[slot].fd = memfd_create("fuzz", MFD_CLOEXEC);
        files[slot].open = true;
        snprintf(files[slot].path, sizeof files[slot].path, "/proc/self/fd/%d", files[slot].fd);
    }
    write_all(files[slot].fd, bytes, size);
    return files[slot].path;
}

/* ---- A folder ---------------------------------------------------------------------- */

enum { max_names = 16 };

static char folder[64];
static char names[max_names][64];

static void remove_folder(void)
{
    for (int i = 0; i < max_names && names[i][0]; i++)
        fuzz_put(names[i], NULL, 0);
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/dev/shm/scion-fuzz-XXXXXX");
        if (!mkdtemp(folder)) {
            snprintf(folder, sizeof folder, "/tmp/scion-fuzz-XXXXXX");
            fuzz_require(mkdtemp(folder));
        }
        atexit(remove_folder);
    }
    return folder;
}

static void remember(const char *name)
{
    int i = 0;
    while (i < max_names - 1 && names[i][0] && strcmp(names[i], name) != 0)
        i++;
    snprintf(names[i], sizeof names[i], "%s", name);
}

void fuzz_put(const char *name, const void *bytes, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    if (!bytes) {
        unlink(path);
        return;
    }
    remember(name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    write_all(fd, bytes, size);
    close(fd);
}

/* ---- The input ---------------------------------------------------------------------- */

uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

fuzz_input fuzz_part(fuzz_input *in, uint8_t end)
{
    const uint8_t *found = in->left > 0 ? memchr(in->at, end, in->left) : NULL;
    const fuzz_input part = {in->at, found ? (size_t)(found - in->at) : in->left};
    const size_t taken = part.left + (found != NULL);
    in->at = taken > 0 ? in->at + taken : in->at;
    in->left -= taken;
    return part;
}

char *fuzz_line(fuzz_input *in)
{
    if (in->left == 0)
        return NULL;
    const fuzz_input part = fuzz_part(in, '\n');
    char *line = malloc(part.left + 1);
    fuzz_require(line);
    if (part.left > 0)
        memcpy(line, part.at, part.left);
    line[part.left] = '\0';
    return line;
}
