/* Memory, random numbers, checks, bfloat16 and the counting allocator of the tests. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory -------------------------------------------------------------------------------------------- */

typedef struct chunk {
    struct chunk *next;
    void *memory;
} chunk;

static chunk *chunks;

void *room(size_t bytes)
{
    chunk *c = malloc(sizeof *c);
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!c || !memory)
        abort();
    *c = (chunk){chunks, memory};
    chunks = c;
    return memory;
}

int release(void **state)
{
    (void)state;
    while (chunks) {
        chunk *next = chunks->next;
        free(chunks->memory);
        free(chunks);
        chunks = next;
    }
    return 0;
}

float *floats(int64_t n)
{
    return room((size_t)n * sizeof(float));
}

double *doubles(int64_t n)
{
    return room((size_t)n * sizeof(double));
}

float *copy_floats(int64_t n, const float *x)
{
    float *y = floats(n);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

double *widen(int64_t n, const float *x)
{
    double *y = doubles(n);
    for (int64_t i = 0; i < n; i++)
        y[i] = (double)x[i];
    return y;
}

/* ---- Random numbers: splitmix64, Box-Muller ------------------------------------------------------------ */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t run_seed(void)
{
    static uint64_t seed;
    static int known;
    if (!known) {
        const char *text = getenv("SCION_TEST_SEED");
        seed = text ? strtoull(text, NULL, 0) : 20250211;
        known = 1;
        print_message("seed %llu (SCION_TEST_SEED replaces it)\n", (unsigned long long)seed);
    }
    return seed;
}

rng rng_of(uint64_t stream)
{
    return (rng){.state = mix(run_seed() + UINT64_C(0x9E3779B97F4A7C15) * (stream + 1))};
}

double rng_uniform(rng *r)
{
    r->state += UINT64_C(0x9E3779B97F4A7C15);
    return ((double)(mix(r->state) >> 11) + 0.5) * 0x1p-53;
}

double rng_normal(rng *r)
{
    if (r->has_spare) {
        r->has_spare = 0;
        return r->spare;
    }
    double length = sqrt(-2 * log(rng_uniform(r))), angle = 2 * 3.14159265358979323846 * rng_uniform(r);
    r->spare = length * sin(angle);
    r->has_spare = 1;
    return length * cos(angle);
}

void rng_gaussian(rng *r, int64_t n, float *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)rng_normal(r);
}

float *gaussian(rng *r, int64_t n)
{
    float *x = floats(n);
    rng_gaussian(r, n, x);
    return x;
}

/* ---- Checks -------------------------------------------------------------------------------------------- */

static char current[256];

void at(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(current, sizeof current, format, args);
    va_end(args);
}

static void fail_at(const char *file, int line)
{
    print_error("in the case: %s (seed %llu)\n", current[0] ? current : "-", (unsigned long long)run_seed());
    _fail(file, line);
}

void check_true_at(int ok, const char *what, const char *file, int line)
{
    if (!ok) {
        print_error("not true: %s\n", what);
        fail_at(file, line);
    }
}

void check_rel_at(double got, double want, double tol, const char *what, const char *file, int line)
{
    if (!(fabs(got - want) <= tol * fabs(want))) {
        print_error("%s = %.9g, expected %.9g within %.2g of it; it is off by %.3g\n", what, got, want, tol,
                    fabs(got - want) / fabs(want));
        fail_at(file, line);
    }
}

void check_le_at(double a, double b, const char *what, const char *file, int line)
{
    if (!(a <= b)) {
        print_error("%s = %.9g, expected at most %.9g\n", what, a, b);
        fail_at(file, line);
    }
}

void check_status_at(scion_status got, scion_status want, const scion_error *err, const char *what, const char *file,
                     int line)
{
    if (got != want) {
        print_error("%s: status %d, expected %d; message: %s\n", what, (int)got, (int)want, err ? err->message : "-");
        fail_at(file, line);
    }
    if (got != SCION_OK && err && err->param < -1) {
        print_error("%s: parameter %lld, expected -1 or more\n", what, (long long)err->param);
        fail_at(file, line);
    }
}

double array_error(int64_t n, const float *got, const double *want)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = fabs((double)got[i] - want[i]);
        error = e <= error ? error : e; /* a NaN sticks */
        size = fmax(size, fabs(want[i]));
    }
    return size > 0 ? error / size : error > 0 || isnan(error) ? INFINITY : 0;
}

void check_array_at(int64_t n, const float *got, const double *want, double tol, const char *what, const char *file,
                    int line)
{
    double error = array_error(n, got, want);
    if (!(error <= tol)) {
        print_error("%s is off by %.3g of the largest entry expected, %.2g allowed\n", what, error, tol);
        for (int64_t i = 0; i < n && i < 6; i++)
            print_error("    [%lld] %.9g, expected %.9g\n", (long long)i, (double)got[i], want[i]);
        fail_at(file, line);
    }
}

double frobenius_error(int64_t n, const float *got, const double *want)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += want[i] * want[i];
    }
    return size > 0 ? sqrt(error / size) : sqrt(error);
}

void check_bits_at(size_t bytes, const void *a, const void *b, const char *what, const char *file, int line)
{
    if (memcmp(a, b, bytes) != 0) {
        size_t i = 0;
        while (((const unsigned char *)a)[i] == ((const unsigned char *)b)[i])
            i++;
        print_error("%s differs from byte %zu of %zu on\n", what, i, bytes);
        fail_at(file, line);
    }
}

void check_finite_at(int64_t n, const float *x, const char *what, const char *file, int line)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) {
            print_error("%s[%lld] = %g is not finite\n", what, (long long)i, (double)x[i]);
            fail_at(file, line);
        }
}

double dot(int64_t n, const float *a, const float *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* ---- bfloat16: the upper half of a float32 ------------------------------------------------------------- */

float bf16_value(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint16_t bf16_nearest(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rest = bits & 0xFFFF, kept = bits >> 16;
    if (rest > 0x8000 || (rest == 0x8000 && (kept & 1)))
        kept++;
    return (uint16_t)kept;
}

uint16_t *bf16_copy(int64_t n, const float *x)
{
    uint16_t *h = room((size_t)n * sizeof *h);
    for (int64_t i = 0; i < n; i++)
        h[i] = bf16_nearest(x[i]);
    return h;
}

/* ---- The allocator ------------------------------------------------------------------------------------- */

/* In front of each block, so that `bytes` can be counted down; as large as malloc's alignment. */
typedef union header {
    size_t bytes;
    max_align_t align;
} header;

static void *meter_alloc(void *ctx, size_t bytes)
{
    meter *m = ctx;
    m->calls++;
    if (m->calls == m->fail_at)
        return NULL;
    header *h = malloc(sizeof *h + bytes);
    if (!h)
        return NULL;
    h->bytes = bytes;
    memset(h + 1, 0xFF, bytes);
    m->live++;
    m->bytes += (int64_t)bytes;
    return h + 1;
}

static void meter_free(void *ctx, void *memory)
{
    meter *m = ctx;
    if (!memory)
        return;
    header *h = (header *)memory - 1;
    m->live--;
    m->bytes -= (int64_t)h->bytes;
    free(h);
}

scion_allocator meter_allocator(meter *m)
{
    return (scion_allocator){meter_alloc, meter_free, m};
}
