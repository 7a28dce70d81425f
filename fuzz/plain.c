/* Runs a harness on files, and on the files in folders: without a fuzzer, with any compiler. `make test` gives it the
 * seeds and what once failed. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    const long size = ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1); /* no byte more: what is read beyond it is found */
    fuzz_require(bytes && fread(bytes, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    fprintf(stderr, "%s\n", path); /* the last one printed is the one that failed */
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
    return 1;
}

static int run(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        return run_file(path);
    int count = 0;
    DIR *open = opendir(path);
    for (struct dirent *entry; open && (entry = readdir(open)) != NULL;) {
        char file[4096];
        if (entry->d_name[0] != '.' &&
            (size_t)snprintf(file, sizeof file, "%s/%s", path, entry->d_name) < sizeof file)
            count += run(file);
    }
    if (open)
        closedir(open);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += run(argv[i]);
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 1;
}
