/* See token_cache.h. */
#include "data/token_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include "util/atomic_file.h"
#include "util/fail.h"
#include "util/file.h"
#include "data/paths.h"
#include "data/shard_file.h"

enum { place = 8 /* of key and checksum in the header, in ints */ };

uint64_t token_cache_key(const data_texts *texts, const tokenizer *t)
{
    uint64_t key = XXH3_64bits_withSeed(texts->bytes, texts->count, tokenizer_hash(t));
    for (int64_t i = 0; i < texts->document_count; i++) {
        const uint64_t bounds[2] = {texts->documents[i].start, texts->documents[i].count};
        key = XXH3_64bits_withSeed(bounds, sizeof bounds, key);
    }
    return key;
}

/* Path of a file of the cache with that ending. False: there is no place for it. */
static bool path_of(uint64_t key, const char *ending, char path[data_path_bytes])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool standard = cache && cache[0] == '/'; /* the XDG standard ignores relative paths */
    return (standard || (home && home[0])) && data_path(path, "%s%s/scion/tokens/%016llx%s", standard ? cache : home,
                                                        standard ? "" : "/.cache", (unsigned long long)key, ending);
}

/* The header of a file. The checksum covers the tokens. */
static void make_header(int32_t head[SHARD_INTS], uint64_t key, int width, const void *tokens, int64_t count)
{
    const uint64_t said[2] = {key, XXH3_64bits(tokens, (size_t)(count * width))};
    shard_header(head, width, count);
    memcpy(head + place, said, sizeof said);
}

bool token_cache_read(uint64_t key, int width, void **tokens, int64_t *count)
{
    char path[data_path_bytes];
    int32_t head[SHARD_INTS], expected[SHARD_INTS];
    int64_t size;
    int file;
    *tokens = NULL;
    if (!path_of(key, ".bin", path) || data_open_file(path, &file, &size, NULL) != SCION_OK)
        return false;
    bool whole = size > SHARD_HEADER && (size - SHARD_HEADER) % width == 0;
    const size_t bytes = whole ? (size_t)(size - SHARD_HEADER) : 0;
    whole = whole && (*tokens = malloc(bytes)) != NULL &&
            data_read_at(file, path, 0, head, sizeof head, NULL) == SCION_OK &&
            data_read_at(file, path, SHARD_HEADER, *tokens, bytes, NULL) == SCION_OK;
    close(file);
    if (whole) {
        make_header(expected, key, width, *tokens, (int64_t)bytes / width);
        whole = memcmp(head, expected, sizeof head) == 0;
    }
    if (whole) {
        *count = (int64_t)bytes / width;
    } else {
        free(*tokens);
        *tokens = NULL;
    }
    return whole;
}

/* Makes the folder of a file of the cache. */
static bool make_place(const char *path, char folder[data_path_bytes])
{
    snprintf(folder, data_path_bytes, "%.*s", (int)(strrchr(path, '/') - path), path);
    return file_make_folder(folder, NULL) == SCION_OK;
}

/* A lock ends with its process. Its file stays, since a process that waits for it has it open; all keys share 256
 * of them. A signal, or a file system without locks, ends the waiting: the text is then tokenised twice. */
int token_cache_claim(uint64_t key)
{
    char path[data_path_bytes], folder[data_path_bytes];
    if (!path_of(key & 0xff, ".lock", path) || !make_place(path, folder))
        return -1;
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0 && flock(file, LOCK_EX) == 0)
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

void token_cache_release(int claim)
{
    if (claim >= 0)
        close(claim);
}

void token_cache_write(uint64_t key, int width, const void *tokens, int64_t count)
{
    char path[data_path_bytes], folder[data_path_bytes];
    int32_t head[SHARD_INTS];
    atomic_file f;
    if (count > INT32_MAX || !path_of(key, ".bin", path) || !make_place(path, folder))
        return;
    atomic_remove_stale(-1, folder);
    make_header(head, key, width, tokens, count);
    scion_status status = atomic_begin(&f, -1, path, NULL);
    if (status == SCION_OK)
        status = atomic_write(&f, head, sizeof head, NULL);
    if (status == SCION_OK)
        status = atomic_write(&f, tokens, (size_t)(count * width), NULL);
    if (status == SCION_OK)
        atomic_commit(&f, NULL);
}
