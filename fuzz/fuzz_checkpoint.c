/* Checkpoints: the input as it is, then with its checksums set right, so that changes behind them are seen. What
 * opens is read to its last byte. */
#define _GNU_SOURCE 1 /* memmem */
#include <string.h>

#include <xxhash.h>

#include "config/config.h"
#include "fuzz.h"
#include "record/checkpoint.h"

static volatile unsigned sink;

static void read_all(const checkpoint *c)
{
    const checkpoint_tensor *t;
    for (int i = 0; (t = checkpoint_at(c, i)) != NULL; i++) {
        for (size_t k = 0; k < t->bytes; k++)
            sink += ((const unsigned char *)t->data)[k];
        fuzz_require(t->ndim >= 0 && t->ndim <= 4);
        fuzz_require(checkpoint_find(c, t->name) == t);
    }
    static const char *const keys[] = {"config", "step", "vocabulary", "checksum", "format"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        sink += checkpoint_get(c, keys[i]) != NULL;
    const char *json = checkpoint_get(c, "config");
    config settings;
    scion_error err;
    if (json && config_from_json(&settings, json, &err) != SCION_OK)
        fuzz_require_sentence(&err);
}

static void open_and_read(const uint8_t *data, size_t size)
{
    checkpoint *c;
    scion_error err = {0};
    if (checkpoint_open(&c, fuzz_file(0, data, size), &err) == SCION_OK) {
        read_all(c);
        checkpoint_close(c);
    } else {
        fuzz_require(c == NULL);
        fuzz_require_sentence(&err);
        for (const char *s = err.message; *s; s++) /* names in the file are printed */
            fuzz_require((unsigned char)*s >= 0x20 && *s != 0x7f);
    }
}

/* The sixteen digits behind a mark, or NULL. */
static char *digits(char *header, size_t length, const char *mark)
{
    char *at = memmem(header, length, mark, strlen(mark));
    at = at ? at + strlen(mark) : NULL;
    return at && (size_t)(at - header) + 16 <= length ? at : NULL;
}

static void put(char *at, uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    memcpy(at, text, 16);
}

/* As checkpoint.h describes the two. */
static bool reseal(uint8_t *file, size_t size)
{
    uint64_t length;
    memcpy(&length, file, 8);
    if (length > size - 8)
        return false;
    char *header = (char *)file + 8, *data = header + length;
    char *of_data = digits(header, (size_t)length, "\"checksum\":\"xxh3-64:");
    char *of_header = digits(header, (size_t)length, "\"header_checksum\":\"xxh3-64:");
    if (!of_data || !of_header)
        return false;
    put(of_data, XXH3_64bits(data, size - 8 - (size_t)length));
    put(of_header, XXH3_64bits_withSeed(of_header + 16, (size_t)(data - of_header) - 16,
                                        XXH3_64bits(header, (size_t)(of_header - header))));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_and_read(data, size);
    uint8_t *copy = size > 8 ? malloc(size) : NULL;
    if (copy) {
        memcpy(copy, data, size);
        if (reseal(copy, size))
            open_and_read(copy, size);
    }
    free(copy);
    return 0;
}
