/* Damaged and foreign checkpoints: every one is refused with a sentence that names the file, none crashes. */
#include "checkpoint_cases.h"

/* It is refused, and the sentence holds the file's name and `says`. */
static void refused(const char *path, const char *says)
{
    checkpoint *c = NULL;
    scion_error err = {0};
    check_status(checkpoint_open(&c, path, &err), SCION_ESTATE, &err);
    check(c == NULL && strstr(err.message, strrchr(path, '/') + 1) != NULL);
    if (!strstr(err.message, says))
        print_error("\"%s\" does not say \"%s\"\n", err.message, says);
    check(strstr(err.message, says) != NULL);
    check(checkpoint_open(&c, path, NULL) == SCION_ESTATE);
}

static void truncation_is_found_at_every_offset(void **state)
{
    rng r = rng_of(31);
    const char *path = scratch("cut.safetensors");
    size_t bytes;
    (void)state;
    sample_write(sample_make(&r), path);
    const char *file = scratch_get(path, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        at("cut to %zu of %zu bytes", n, bytes);
        scratch_put(path, file, n);
        refused(path, "");
    }
    char *longer = room(bytes + 1);
    memcpy(longer, file, bytes);
    scratch_put(path, longer, bytes + 1);
    refused(path, "bytes behind the last tensor");
}

/* Every byte counts, in the tensors, in the header and in its padding. */
static void every_changed_byte_is_found(void **state)
{
    rng r = rng_of(32);
    const char *path = scratch("flip.safetensors");
    size_t bytes;
    (void)state;
    sample_write(sample_make(&r), path);
    char *file = scratch_get(path, &bytes);
    uint64_t length;
    memcpy(&length, file, 8);
    for (int i = 0; i < 2000; i++) {
        const size_t place = (size_t)(rng_uniform(&r) * (double)bytes);
        const char before = file[place];
        file[place] = (char)(before ^ (1 << (int)(rng_uniform(&r) * 8)));
        at("byte %zu from %d to %d", place, before, file[place]);
        scratch_put(path, file, bytes);
        refused(path, place >= length + 8 ? "the checksum of its tensors is wrong" : "");
        file[place] = before;
    }
}

/* Bytes at random, several at once, over the header. */
static void noise_never_crashes(void **state)
{
    rng r = rng_of(33);
    const char *path = scratch("noise.safetensors");
    size_t bytes;
    (void)state;
    sample_write(sample_make(&r), path);
    const char *file = scratch_get(path, &bytes);
    for (int i = 0; i < 2000; i++) {
        char *bad = room(bytes);
        checkpoint *c = NULL;
        scion_error err = {0};
        memcpy(bad, file, bytes);
        for (int k = 0; k < 1 + i % 20; k++)
            bad[(size_t)(rng_uniform(&r) * (double)bytes)] = "\"{}[]:,0123456789-\\\xff"[(int)(rng_uniform(&r) * 20)];
        if (memcmp(bad, file, bytes) == 0)
            continue;
        scratch_put(path, bad, bytes);
        at("round %d", i);
        if (checkpoint_open(&c, path, &err) == SCION_OK)
            check(!checkpoint_verified(c)); /* both checksums were hit: a file like any other program's */
        else
            check(err.status == SCION_ESTATE && strstr(err.message, "noise.safetensors: ") != NULL);
        checkpoint_close(c);
    }
}

/* ---- Files of other programs --------------------------------------------------------------------------- */

/* A file of this header and so many bytes of data. */
static const char *foreign(const char *header, size_t data)
{
    const char *path = scratch("foreign.safetensors");
    const uint64_t length = strlen(header);
    char *bytes = room(8 + length + data);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    scratch_put(path, bytes, 8 + length + data);
    return path;
}

#define ENTRY(dtype, shape, begin, end) \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void files_without_a_checksum_are_read(void **state)
{
    static const char *const headers[] = {
        "{\"a\":" ENTRY("F32", "2", 0, 8) "}",
        "{\"b\":" ENTRY("F16", "2,1", 4, 8) ", \"a\":" ENTRY("U8", "4", 0, 4) "}   ",
        "{\"__metadata__\":{\"checksum\":\"sha256 of something\"},\"a\":" ENTRY("F64", "", 0, 8) "}",
        "{\"__metadata__\":{\"x.hex\":\"no digits\"},\"a\":" ENTRY("I64", "1,1,1,1", 0, 8) "}",
        "{\"e\":" ENTRY("F32", "0", 8, 8) ",\"a\":" ENTRY("F32", "2", 0, 8) ",\"f\":" ENTRY("F32", "0,9", 0, 0) "}",
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(headers); i++) {
        checkpoint *c = NULL;
        scion_error err;
        at("%s", headers[i]);
        check_ok(checkpoint_open(&c, foreign(headers[i], 8), &err), &err);
        check(checkpoint_find(c, "a") != NULL && !checkpoint_verified(c));
        checkpoint_close(c);
    }
}

static void wrong_headers_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } cases[] = {
        {"", 8, "does not start with {"},
        {" {}", 0, "does not start with {"},
        {"[]", 0, "does not start with {"},
        {"{", 0, "not valid JSON"},
        {"{}x", 0, "not valid JSON"},
        {"{\"a\":" ENTRY("F32", "2", 0, 8) ",\"a\":" ENTRY("F32", "2", 0, 8) "}", 8, "duplicate"},
        {"{\"a\":1}", 0, "tensor \"a\": its entry is not"},
        {"{\"a\":{}}", 0, "its entry is not"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "its entry is not"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", 8, "its entry is not"},
        {"{\"a\":" ENTRY("F33", "2", 0, 8) "}", 8, "its dtype is unknown"},
        {"{\"a\":" ENTRY("F32", "1,1,1,1,2", 0, 8) "}", 8, "more than 4 dimensions"},
        {"{\"a\":" ENTRY("F32", "2.0", 0, 8) "}", 8, "its shape holds something else"},
        {"{\"a\":" ENTRY("F32", "-2", 0, 8) "}", 8, "its shape holds something else"},
        {"{\"a\":" ENTRY("F32", "\\\"2\\\"", 0, 8) "}", 8, "not valid JSON"},
        {"{\"a\":" ENTRY("F32", "99999999999999999999", 0, 8) "}", 8, "not valid JSON"},
        {"{\"a\":" ENTRY("F32", "2", -8, 8) "}", 8, "data_offsets are not two sizes"},
        {"{\"a\":" ENTRY("F32", "2", 8, 0) "}", 8, "data_offsets are not two sizes"},
        {"{\"a\":" ENTRY("F32", "4", 0, 16) "}", 8, "beyond the end of the file"},
        {"{\"a\":" ENTRY("F32", "2", 0, 9223372036854775807) "}", 8, "beyond the end of the file"},
        {"{\"a\":" ENTRY("F32", "3", 0, 8) "}", 8, "do not agree with its shape and dtype"},
        {"{\"a\":" ENTRY("F64", "2", 0, 8) "}", 8, "do not agree with its shape and dtype"},
        {"{\"a\":" ENTRY("F32", "4611686018427387906", 0, 8) "}", 8, "do not agree"},
        {"{\"a\":" ENTRY("F32", "9223372036854775807,9223372036854775807,4", 0, 8) "}", 8, "do not agree"},
        {"{\"a\":" ENTRY("U8", "8", 0, 8) ",\"b\":" ENTRY("U8", "4", 4, 8) "}", 8, "overlap"},
        {"{\"a\":" ENTRY("U8", "8", 0, 8) ",\"b\":" ENTRY("U8", "8", 0, 8) "}", 8, "overlap"},
        {"{\"a\":" ENTRY("U8", "4", 4, 8) "}", 8, "there is a gap before"},
        {"{\"a\":" ENTRY("U8", "2", 0, 2) ",\"b\":" ENTRY("U8", "4", 4, 8) "}", 8, "there is a gap before"},
        {"{\"a\":" ENTRY("U8", "4", 0, 4) "}", 8, "bytes behind the last tensor"},
        {"{}", 8, "bytes behind the last tensor"},
        {"{\"__metadata__\":[]}", 0, "its __metadata__ is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "metadata \"a\" is not a string"},
        {"{\"__metadata__\":{\"checksum\":\"xxh3-64:0123456789abcdef\"}}", 0, "one of its two checksums is missing"},
        {"{\"__metadata__\":{\"header_checksum\":\"xxh3-64:\"}}", 0, "one of its two checksums is missing"},
        {"{\"\\u001b[31m\":1}", 0, "tensor \"?[31m\""},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        at("%s", cases[i].header);
        refused(foreign(cases[i].header, cases[i].data), cases[i].says);
    }
}

/* A header's length is believed only up to the size of the file, and nothing is allocated for it. */
static void huge_headers_are_refused(void **state)
{
    static const uint64_t lengths[] = {9, 1000, INT64_MAX, UINT64_MAX, UINT64_MAX - 7, 1ull << 40};
    const char *path = scratch("huge.safetensors");
    char bytes[16] = "        {}      ";
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(lengths); i++) {
        at("length %llu", (unsigned long long)lengths[i]);
        memcpy(bytes, &lengths[i], 8);
        scratch_put(path, bytes, sizeof bytes);
        refused(path, "truncated, or not a safetensors file");
    }
    /* A sparse file that is large enough for the header that it claims. */
    const uint64_t large = 200000000;
    memcpy(bytes, &large, 8);
    scratch_put(path, bytes, sizeof bytes);
    check(truncate(path, 300000000) == 0);
    refused(path, "its header is larger than the format allows");
    unlink(path);
}

/* Nested deeper than any header is. */
static void deep_headers_are_refused(void **state)
{
    char *header = room(100001);
    (void)state;
    memset(header, '[', 100000);
    memcpy(header, "{\"a\":", 5);
    refused(foreign(header, 0), "not valid JSON");
}

static void other_files_are_refused(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        {"", 0},
        {"x", 1},
        {"12345678", 8},
        {"\0\0\0\0\0\0\0\0", 8},
        {"\0\0\0\0\0\0\0\0\0", 9},
        {"\x7f"
         "ELF\2\1\1\0\0\0\0\0\0\0\0\0",
         16},
        {"PK\3\4 a zip file of PyTorch", 26},
        {"First Citizen:\nBefore we proceed any further, hear me speak.\n", 60},
    };
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        at("case %d", (int)i);
        scratch_put(scratch("other.safetensors"), cases[i].text, cases[i].bytes);
        refused(scratch("other.safetensors"), "not a safetensors file");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(truncation_is_found_at_every_offset),
        LAW(every_changed_byte_is_found),
        LAW(noise_never_crashes),
        LAW(files_without_a_checksum_are_read),
        LAW(wrong_headers_are_refused),
        LAW(huge_headers_are_refused),
        LAW(deep_headers_are_refused),
        LAW(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
