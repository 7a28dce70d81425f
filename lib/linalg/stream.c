/* See stream.h. Values are computed into a buffer in the first-level cache and stored from there. */
#include "linalg/stream.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <string.h>

#include "base/arith.h"
#include "base/simd.h"
#include "linalg/vector.h"

/* n values from the first-level cache to z: whole cache lines where the CPU can, else vectors of four. */
#ifdef __x86_64__
__attribute__((target("avx512f"))) static int64_t store_lines(int64_t n, const float *from, float *z)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_stream_ps(z + i, _mm512_loadu_ps(from + i));
    return i;
}

static void store_past_cache(int64_t n, const float *from, float *z)
{
    int64_t i = 0;
    for (; i < n && (uintptr_t)(z + i) % 64 != 0; i++)
        z[i] = from[i];
    if (__builtin_cpu_supports("avx512f"))
        i += store_lines(n - i, from + i, z + i);
    for (; i + 4 <= n; i += 4)
        _mm_stream_ps(z + i, _mm_loadu_ps(from + i));
    for (; i < n; i++)
        z[i] = from[i];
}

void scn_stream_end(void)
{
    _mm_sfence();
}
#else
static void store_past_cache(int64_t n, const float *from, float *z)
{
    memcpy(z, from, (size_t)n * sizeof *z);
}

void scn_stream_end(void)
{
}
#endif

void scn_prefetch(int64_t n, const float *x)
{
    for (int64_t i = 0; i < n; i += 16)
        __builtin_prefetch((const char *)x + 4 * i);
}

typedef void run_of(int64_t n, double a, const float *x, double beta, float *z);

static void stream_run(int64_t n, double a, const float *x, float *z, run_of *kernel)
{
    enum { chunk = 1024 };
    float buffer[chunk];
    for (int64_t i = 0; i < n; i += chunk) {
        int64_t m = n - i < chunk ? n - i : chunk;
        scn_prefetch(m, x + i + m);
        kernel(m, a, x + i, 0, buffer);
        store_past_cache(m, buffer, z + i);
    }
}

void scn_stream(int64_t n, double a, const float *x, float *z)
{
    stream_run(n, a, x, z, scn_axpby);
}

void scn_sign_stream(int64_t n, double a, const float *x, float *z)
{
    stream_run(n, a, x, z, scn_sign_axpby);
}

SCN_CLONES static void multiply(int64_t n, const float *f, const float *x, float *z)
{
    for (int64_t j = 0; j < n; j++)
        z[j] = f[j] * x[j];
}

SCN_CLONES static void multiply_add(int64_t n, const float *restrict f, const float *restrict x, float beta,
                                    float *restrict z)
{
    for (int64_t j = 0; j < n; j++)
        z[j] = beta * z[j] + f[j] * x[j];
}

void scn_multiply(int64_t n, const float *f, const float *x, double beta, float *z, bool stream)
{
    enum { chunk = 1024 };
    float buffer[chunk];
    if (beta != 0)
        multiply_add(n, f, x, (float)beta, z);
    else if (!stream || z == x)
        multiply(n, f, x, z);
    else
        for (int64_t i = 0; i < n; i += chunk) {
            const int64_t m = scn_min(n - i, chunk);
            multiply(m, f + i, x + i, buffer);
            store_past_cache(m, buffer, z + i);
        }
}
