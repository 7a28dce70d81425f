/* See sha256.h. The message is padded by a bit 1, zeros, and its length in bits as 64 bits, to whole blocks of 64
 * bytes; each block is stirred into the state of eight words by 64 rounds. */
#include "util/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "util/path.h"

enum { block_bytes = 64, rounds = 64 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[rounds] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

void sha256_begin(sha256 *s)
{
    /* Those of the square roots of the first 8 primes. */
    *s = (sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static uint32_t rotated(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void stir(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[rounds], v[8];
    for (int i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int i = 16; i < rounds; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[i - 7] +
               (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < rounds; i++) {
        const uint32_t a = v[0], e = v[4];
        const uint32_t one = v[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                             constants[i] + w[i];
        const uint32_t two =
            (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_add(sha256 *s, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    while (n > 0) {
        const size_t used = s->bytes % block_bytes, take = n < block_bytes - used ? n : block_bytes - used;
        const bool whole = take == block_bytes;
        if (!whole)
            memcpy(s->block + used, at, take);
        if (used + take == block_bytes)
            stir(s->state, whole ? at : s->block);
        s->bytes += take;
        at += take;
        n -= take;
    }
}

void sha256_end(sha256 *s, char text[SHA256_TEXT])
{
    static const unsigned char padding[block_bytes] = {0x80};
    const uint64_t bits = s->bytes * 8;
    const size_t used = s->bytes % block_bytes;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, padding, (used < 56 ? 56 : 56 + block_bytes) - used);
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < 8; i++)
        snprintf(text + 8 * i, 9, "%08x", (unsigned)s->state[i]);
}

scion_status sha256_file(const char *path, char text[SHA256_TEXT], scion_error *err)
{
    enum { piece = 1 << 20 };
    sha256 s;
    scion_status status = SCION_OK;
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = f ? malloc(piece) : NULL;
    if (!f)
        status = train_fail(err, SCION_EINVAL, "%s: cannot open: %s", path_end(path), strerror(errno));
    else if (!bytes)
        status = train_fail(err, SCION_ENOMEM, "%s: out of memory", path_end(path));
    sha256_begin(&s);
    for (size_t got = 1; bytes && status == SCION_OK && got > 0;) {
        got = fread(bytes, 1, piece, f);
        sha256_add(&s, bytes, got);
        if (ferror(f))
            status = train_fail(err, SCION_EINVAL, "%s: cannot read: %s", path_end(path), strerror(errno));
    }
    sha256_end(&s, text);
    free(bytes);
    if (f)
        fclose(f);
    return status;
}
