/* Images as training sees them. The images of a set are told by their labels, one class each, and compared with
 * the same image as a plain sequence (data_sequence) gives it, changed by plain loops here. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "config/config.h"
#include "data/augment.h"
#include "data_files.h"

enum { H = 6, W = 5, AREA = H * W, N = 64, EPOCHS = 6 };

static const char *const wants_image[] = {"image", "targets", NULL};

/* Images of H x W, each with a class of its own, with options "key=value ..." (ended by NULL); image: channels
 * last. */
static data_set *open_small(const char *const pairs[], bool image)
{
    const data_context context = {.seed = 5, .wants = image ? wants_image : NULL};
    data_set *d;
    scion_error err = {0};
    idx_folder("small", N, 8, H, W, N, 0);
    if (open_pairs(&d, files_path("small"), &context, pairs, &err) != SCION_OK)
        fail_msg("%s", err.message);
    return d;
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static float plain[N][AREA], seen[EPOCHS][N][AREA]; /* by image */
static float weights[EPOCHS * N][N];

/* Fills plain, and seen by the labels; every image is there once in an epoch. */
static void look(const data_set *d)
{
    static float all[EPOCHS * N][AREA];
    static int32_t labels[EPOCHS * N];
    void *const arrays[DATA_ARRAYS] = {all, labels};
    void *const first[DATA_ARRAYS] = {plain, labels};
    scion_error err = {0};
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, N, first, &err), SCION_OK);
    for (int i = 0; i < N; i++)
        assert_int_equal(labels[i], i);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 0, (int64_t)EPOCHS * N, arrays, &err),
                     SCION_OK);
    for (int i = 0; i < EPOCHS * N; i++)
        memcpy(seen[i / N][labels[i]], all[i], sizeof all[i]);
}

static void mirror(const float *x, float *y)
{
    for (int i = 0; i < AREA; i++)
        y[i] = x[i / W * W + (W - 1 - i % W)];
}

/* 1: mirrored, 0: as it is; anything else fails. */
static int mirrored(const float *x, const float *of)
{
    float other[AREA];
    mirror(of, other);
    if (memcmp(x, of, sizeof other) == 0)
        return 0;
    assert_memory_equal(x, other, sizeof other);
    return 1;
}

/* ---- Flip ---------------------------------------------------------------------------------------------- */

/* 64 coins: 32 heads, deviation 4; 14 to 50 are more than four deviations. */
static void alternate_flips_show_each_image_both_ways(void **state)
{
    int flipped = 0;
    (void)state;
    data_set *d = open_small(OPTIONS("flip=alternate"), false);
    look(d);
    for (int i = 0; i < N; i++) {
        const int first = mirrored(seen[0][i], plain[i]);
        flipped += first;
        for (int e = 1; e < EPOCHS; e++)
            assert_int_equal(mirrored(seen[e][i], plain[i]), first ^ (e & 1));
    }
    assert_in_range(flipped, 14, 50);
    data_close(d);
}

/* 384 coins: deviation 10. */
static void random_flips_are_drawn_anew(void **state)
{
    int flipped = 0, changed = 0;
    (void)state;
    data_set *d = open_small(OPTIONS("flip=random"), false);
    look(d);
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < N; i++) {
            flipped += mirrored(seen[e][i], plain[i]);
            changed += e > 0 && mirrored(seen[e][i], plain[i]) != mirrored(seen[e - 1][i], plain[i]);
        }
    assert_in_range(flipped, EPOCHS * N / 2 - 45, EPOCHS * N / 2 + 45);
    assert_in_range(changed, (EPOCHS - 1) * N / 2 - 45, (EPOCHS - 1) * N / 2 + 45);
    data_close(d);
}

/* ---- Translation --------------------------------------------------------------------------------------- */

/* -1 is 1 and n is n - 2, as PyTorch's "reflect". */
static int reflected(int i, int n)
{
    return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
}

static bool is_shifted(const float *x, const float *of, int dy, int dx, bool flip)
{
    float before[AREA];
    if (flip)
        mirror(of, before);
    else
        memcpy(before, of, sizeof before);
    for (int i = 0; i < AREA; i++)
        if (x[i] != before[reflected(i / W + dy, H) * W + reflected(i % W + dx, W)])
            return false;
    return true;
}

/* Each of the 25 shifts is expected 15 times in 384 draws. */
static void translation_reflects_at_the_border(void **state)
{
    int count[25] = {0};
    (void)state;
    data_set *d = open_small(OPTIONS("translate=2"), false);
    look(d);
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < N; i++) {
            int found = 0;
            for (int k = 0; k < 25; k++)
                if (is_shifted(seen[e][i], plain[i], k / 5 - 2, k % 5 - 2, false)) {
                    count[k]++;
                    found++;
                }
            assert_int_equal(found, 1);
        }
    for (int k = 0; k < 25; k++)
        assert_in_range(count[k], 1, 40);
    data_close(d);
}

/* A mirrored image is shifted after it was mirrored. */
static void flip_comes_before_translation(void **state)
{
    (void)state;
    data_set *d = open_small(OPTIONS("translate=2", "flip=alternate"), false),
             *flips = open_small(OPTIONS("flip=alternate"), false);
    static float flipped[EPOCHS][N][AREA];
    look(flips);
    memcpy(flipped, seen, sizeof seen);
    look(d);
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < N; i++) {
            bool found = false;
            for (int k = 0; k < 25; k++)
                found = found ||
                        is_shifted(seen[e][i], plain[i], k / 5 - 2, k % 5 - 2, mirrored(flipped[e][i], plain[i]));
            assert_true(found);
        }
    data_close(d);
    data_close(flips);
}

/* ---- Covering ------------------------------------------------------------------------------------------ */

static void cutout_covers_a_square(void **state)
{
    int corners = 0;
    (void)state;
    data_set *d = open_small(OPTIONS("cutout=3"), false);
    look(d);
    for (int i = 0; i < N; i++) {
        int covered = 0, y0 = H, x0 = W, y1 = 0, x1 = 0;
        for (int k = 0; k < AREA; k++) {
            const bool zero = seen[0][i][k] == 0;
            assert_true(zero || seen[0][i][k] == plain[i][k]);
            covered += zero;
            y0 = zero && k / W < y0 ? k / W : y0;
            x0 = zero && k % W < x0 ? k % W : x0;
            y1 = zero && k / W > y1 ? k / W : y1;
            x1 = zero && k % W > x1 ? k % W : x1;
        }
        assert_int_equal(covered, 9);
        assert_true(y1 - y0 == 2 && x1 - x0 == 2);
        corners += y0 == 0 && x0 == 0;
    }
    assert_in_range(corners, 0, 24); /* not always the same */
    data_close(d);
}

/* The erased part is a rectangle of noise: the rest is the image. Its area is 2 % to a third of the image, but for
 * sides that are rounded; the noise has mean 0 and variance 1, to five deviations of some 2000 numbers. */
static void erasing_puts_noise_into_a_rectangle(void **state)
{
    int erased = 0, pixels = 0;
    double sum = 0, squares = 0;
    (void)state;
    data_set *d = open_small(OPTIONS("erase=0.75"), false);
    look(d);
    for (int e = 0; e < EPOCHS; e++)
        for (int i = 0; i < N; i++) {
            int y0 = H, x0 = W, y1 = -1, x1 = -1, n = 0;
            for (int k = 0; k < AREA; k++)
                if (seen[e][i][k] != plain[i][k]) {
                    n++;
                    sum += (double)seen[e][i][k];
                    squares += (double)seen[e][i][k] * (double)seen[e][i][k];
                    y0 = k / W < y0 ? k / W : y0;
                    x0 = k % W < x0 ? k % W : x0;
                    y1 = k / W > y1 ? k / W : y1;
                    x1 = k % W > x1 ? k % W : x1;
                }
            assert_int_equal(n, n > 0 ? (y1 - y0 + 1) * (x1 - x0 + 1) : 0);
            assert_in_range(n, 0, 15);
            erased += n > 0;
            pixels += n;
        }
    assert_in_range(erased, EPOCHS * N * 3 / 4 - 45, EPOCHS * N * 3 / 4 + 45);
    assert_true(fabs(sum / pixels) < 5 / sqrt(pixels));
    assert_true(fabs(squares / pixels - 1) < 5 * sqrt(2.0 / pixels));
    data_close(d);
}

/* ---- Mixing -------------------------------------------------------------------------------------------- */

/* The two classes of a row of weights, which sum to 1: the larger weight is that of the target. */
static void classes_of(const float *w, int32_t target, int *a, int *b)
{
    float sum = 0;
    *a = target;
    *b = target;
    for (int k = 0; k < N; k++) {
        sum += w[k];
        if (w[k] > 0 && k != target)
            *b = k;
    }
    assert_true(fabsf(sum - 1) < 1e-6f);
    assert_true(w[*a] >= w[*b]);
    for (int k = 0; k < N; k++)
        assert_true(w[k] == 0 || k == *a || k == *b);
}

static void fill_mixed(const data_set *d, float (*x)[AREA], int32_t *labels)
{
    void *const first[DATA_ARRAYS] = {plain}, *const arrays[DATA_ARRAYS] = {x, labels, weights};
    scion_error err = {0};
    assert_int_equal(data_about(d)->array_count, 3);
    assert_string_equal(data_about(d)->arrays[2].name, "target_weights");
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, N, first, &err), SCION_OK);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 0, (int64_t)EPOCHS * N, arrays, &err),
                     SCION_OK);
}

/* The sample is the weighted sum of the images of its two classes, to rounding. */
static void mixup_blends_images_as_their_classes(void **state)
{
    static float x[EPOCHS * N][AREA];
    int32_t labels[EPOCHS * N];
    double mean = 0;
    (void)state;
    data_set *d = open_small(OPTIONS("mixup=0.8"), false);
    fill_mixed(d, x, labels);
    for (int i = 0; i < EPOCHS * N; i++) {
        int a, b;
        classes_of(weights[i], labels[i], &a, &b);
        for (int k = 0; k < AREA; k++)
            assert_true(
                fabsf(x[i][k] - (a == b ? plain[a][k] : weights[i][a] * plain[a][k] + weights[i][b] * plain[b][k])) <
                4e-6f);
        mean += (double)weights[i][labels[i]] / (EPOCHS * N);
    }
    assert_true(mean > 0.6 && mean < 0.95); /* the larger of two weights */
    data_close(d);
}

/* Every pixel is one of the two images', in the share that the weights say. */
static void cutmix_pastes_images_as_their_classes(void **state)
{
    static float x[EPOCHS * N][AREA];
    int32_t labels[EPOCHS * N];
    int mixed = 0;
    (void)state;
    data_set *d = open_small(OPTIONS("cutmix=1"), false);
    fill_mixed(d, x, labels);
    for (int i = 0; i < EPOCHS * N; i++) {
        int a, b, of_a = 0;
        classes_of(weights[i], labels[i], &a, &b);
        for (int k = 0; k < AREA; k++) {
            assert_true(x[i][k] == plain[a][k] || x[i][k] == plain[b][k]);
            of_a += x[i][k] == plain[a][k];
        }
        if (a != b)
            assert_int_equal(of_a, lround((double)weights[i][a] * AREA));
        mixed += a != b;
    }
    assert_true(mixed > EPOCHS * N / 2);
    data_close(d);
}

/* Validation is not mixed: its weights are those of the class alone. */
static void validation_is_left_alone(void **state)
{
    float x[8][AREA], y[8][AREA];
    int32_t labels[8];
    void *const a[DATA_ARRAYS] = {x, labels, weights}, *const b[DATA_ARRAYS] = {y};
    scion_error err = {0};
    (void)state;
    data_set *d =
        open_small(OPTIONS("mixup=1", "cutmix=1", "flip=random", "translate=2", "erase=1", "cutout=2"), false);
    data_set *plainly = open_small(OPTIONS("flip=none"), false);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_VAL}, 0, 8, a, &err), SCION_OK);
    assert_int_equal(data_fill(plainly, (data_sequence){.part = DATA_VAL}, 0, 8, b, &err), SCION_OK);
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < N; k++)
            assert_true(weights[i][k] == (k == labels[i] ? 1 : 0));
    data_close(d);
    data_close(plainly);
}

/* Mean 1/2 and variance 1/(4 (2a + 1)), to five deviations of 20000 draws (the fourth moment is below 1/16). */
static void beta_has_its_moments(void **state)
{
    static const double as[] = {1e-7, 0.2, 0.8, 1};
    enum { draws = 20000 };
    (void)state;
    for (int i = 0; i < 4; i++) {
        double sum = 0, squares = 0;
        for (uint64_t k = 0; k < draws; k++) {
            const double x = data_draw_beta(as[i], 3, SCN_STREAM_MIX, k * 128);
            assert_true(x >= 0 && x <= 1);
            sum += x;
            squares += (x - 0.5) * (x - 0.5);
        }
        const double variance = 1 / (4 * (2 * as[i] + 1));
        assert_true(fabs(sum / draws - 0.5) < 5 * sqrt(variance / draws));
        assert_true(fabs(squares / draws - variance) < 5 * 0.25 / sqrt(draws));
    }
}

/* ---- Order and layout ---------------------------------------------------------------------------------- */

#define ALL_CHANGES \
    OPTIONS("mixup=0.5", "cutmix=0.5", "flip=random", "translate=2", "erase=0.5", "cutout=2", "randaugment=9")

typedef struct slice {
    const data_set *d;
    float (*x)[AREA];
    int first, count;
} slice;

static void *fill_slice(void *context)
{
    const slice *s = context;
    for (int i = s->count - 1; i >= 0; i--) { /* one by one, from the end */
        void *const arrays[DATA_ARRAYS] = {s->x[s->first + i], NULL, weights[s->first + i]};
        if (data_fill(s->d, (data_sequence){.part = DATA_TRAIN}, s->first + i, 1, arrays, NULL) != SCION_OK)
            return context;
    }
    return NULL;
}

static void samples_depend_on_seed_and_number_alone(void **state)
{
    static float x[EPOCHS * N][AREA], y[EPOCHS * N][AREA], kept[EPOCHS * N][N];
    enum { threads = 4, each = EPOCHS * N / threads };
    pthread_t thread[threads];
    slice s[threads];
    scion_error err = {0};
    void *const arrays[DATA_ARRAYS] = {x, NULL, weights};
    (void)state;
    data_set *d = open_small(ALL_CHANGES, false), *other = open_small(ALL_CHANGES, false);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 0, (int64_t)EPOCHS * N, arrays, &err),
                     SCION_OK);
    memcpy(kept, weights, sizeof kept);
    memset(weights, 0, sizeof weights);
    for (int i = 0; i < threads; i++) {
        s[i] = (slice){other, y, i * each, each};
        assert_int_equal(pthread_create(&thread[i], NULL, fill_slice, &s[i]), 0);
    }
    for (int i = 0; i < threads; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(weights, kept, sizeof kept);
    data_close(d);
    data_close(other);
}

/* CIFAR-10 in both layouts: the same numbers, transposed. */
static void layouts_have_the_same_pixels(void **state)
{
    enum { records = 2, n = 5 * records, area = 1024 };
    static float x[n][3][area], y[n][area][3];
    void *const planes[DATA_ARRAYS] = {x}, *const pixels[DATA_ARRAYS] = {y};
    const data_context first = {.seed = 5}, last = {.seed = 5, .wants = wants_image};
    data_set *a, *b;
    scion_error err = {0};
    (void)state;
    cifar_folder("cifar", records);
    const char *const *pairs = OPTIONS("flip=random", "translate=3", "randaugment=9", "erase=0.5", "cutout=5");
    assert_int_equal(open_pairs(&a, files_path("cifar"), &first, pairs, &err), SCION_OK);
    assert_int_equal(open_pairs(&b, files_path("cifar"), &last, pairs, &err), SCION_OK);
    assert_string_equal(data_about(a)->arrays[0].name, "pixels");
    assert_string_equal(data_about(b)->arrays[0].name, "image");
    assert_int_equal(data_about(b)->arrays[0].shape[2], 3);
    assert_string_equal(data_about(b)->unit, "images");
    assert_int_equal(data_fill(a, (data_sequence){.part = DATA_TRAIN}, 0, n, planes, &err), SCION_OK);
    assert_int_equal(data_fill(b, (data_sequence){.part = DATA_TRAIN}, 0, n, pixels, &err), SCION_OK);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3 * area; k++)
            assert_true(x[i][k % 3][k / 3] == y[i][k / 3][k % 3]);
    data_close(a);
    data_close(b);
}

/* ---- What a model keeps of its images ------------------------------------------------------------------ */

static void refuse_with(const char *images, const char *path, const char *const pairs[], const char *words)
{
    const data_context context = {.images = images};
    data_set *d;
    scion_error err = {0};
    assert_int_not_equal(open_pairs(&d, path, &context, pairs, &err), SCION_OK);
    if (!strstr(err.message, words))
        fail_msg("%s: no \"%s\"", err.message, words);
}

/* Other images are standardised as those that the model learned from. */
static void images_are_given_as_a_model_learned_them(void **state)
{
    const data_context plainly = {.seed = 5};
    float x[4], y[4];
    void *const a[DATA_ARRAYS] = {x}, *const b[DATA_ARRAYS] = {y};
    data_set *learned, *other, *alone;
    scion_error err = {0};
    uint8_t bytes[64];
    (void)state;
    idx_folder("learned", 9, 2, 2, 2, 3, 0);
    idx_folder("other", 9, 2, 2, 2, 2, 0);
    size_t n = idx_images(bytes, 9, 2, 2);
    for (size_t i = 16; i < n; i++)
        bytes[i] = (uint8_t)(bytes[i] / 2 + 100);
    files_write("other/train-images-idx3-ubyte", bytes, n);
    assert_int_equal(open_pairs(&learned, files_path("learned"), &plainly, OPTIONS("flip=none"), &err), SCION_OK);
    const data_image_info *from = data_about(learned)->image;
    assert_string_equal(from->names[2], "2");
    const data_context as = {.seed = 5, .images = data_about(learned)->images};
    assert_int_equal(open_pairs(&other, files_path("other"), &as, OPTIONS("flip=none"), &err), SCION_OK);
    assert_int_equal(open_pairs(&alone, files_path("other"), &plainly, OPTIONS("flip=none"), &err), SCION_OK);
    assert_true(data_about(other)->image->mean[0] == from->mean[0]);
    assert_true(data_about(other)->image->scale[0] == from->scale[0]);
    assert_true(data_about(alone)->image->mean[0] != from->mean[0]);
    assert_int_equal(data_about(other)->image->classes, 3);
    assert_int_equal(data_about(other)->arrays[1].range, 3);
    assert_string_equal(data_about(other)->images, data_about(learned)->images);
    assert_int_equal(data_fill(other, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, 1, a, &err), SCION_OK);
    assert_int_equal(data_fill(alone, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, 1, b, &err), SCION_OK);
    for (int k = 0; k < 4; k++)
        assert_true(x[k] == ((float)bytes[16 + k] - from->mean[0]) * from->scale[0]);
    assert_memory_not_equal(x, y, sizeof x);
    data_close(alone);
    data_close(other);

    idx_folder("many", 9, 2, 2, 2, 5, 0);
    refuse_with(data_about(learned)->images, files_path("many"), OPTIONS("flip=none"),
                "labels up to 4, but the model knows 3 classes");
    idx_folder("wide", 9, 2, 2, 3, 3, 0);
    refuse_with(data_about(learned)->images, files_path("wide"), OPTIONS("flip=none"),
                "the model learned from 2 x 2");
    static const char *const damaged[] = {"",
                                          "[]",
                                          "{\"size\":[2,2,1],\"mean\":[1],\"scale\":[1],\"classes\":[]}",
                                          "{\"size\":[2,2,9],\"mean\":[1],\"scale\":[1],\"classes\":[\"a\"]}",
                                          "{\"size\":[2,2,1],\"mean\":[1,2],\"scale\":[1],\"classes\":[\"a\"]}",
                                          "{\"size\":[2,2,1],\"mean\":[1],\"scale\":[null],\"classes\":[\"a\"]}",
                                          "{\"size\":[2,2,1],\"mean\":[1],\"scale\":[1],\"classes\":[1]}"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++)
        refuse_with(damaged[i], files_path("learned"), OPTIONS("flip=none"), "cannot be read");
    data_close(learned);
}

static void impossible_options_are_refused(void **state)
{
    (void)state;
    idx_folder("tiny", 4, 2, 3, 4, 2, 0);
    refuse_with(NULL, files_path("tiny"), OPTIONS("translate=3"), "translate is 3, but the images have 3 x 4 pixels");
    refuse_with(NULL, files_path("tiny"), OPTIONS("cutout=4"), "cutout is 4, but the images have 3 x 4 pixels");
    refuse_with(NULL, files_path("tiny"), OPTIONS("image_size=4"), "image_size is 4, but these images have 3 x 4");
    idx_folder("huge", 1, 1, 4096, 4097, 1, 0); /* one pixel in each row too many */
    refuse_with(NULL, files_path("huge"), OPTIONS("erase=0.5"),
                "erase is for images of up to 16777216 pixels, these have 4096 x 4097");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alternate_flips_show_each_image_both_ways),
        cmocka_unit_test(random_flips_are_drawn_anew),
        cmocka_unit_test(translation_reflects_at_the_border),
        cmocka_unit_test(flip_comes_before_translation),
        cmocka_unit_test(cutout_covers_a_square),
        cmocka_unit_test(erasing_puts_noise_into_a_rectangle),
        cmocka_unit_test(mixup_blends_images_as_their_classes),
        cmocka_unit_test(cutmix_pastes_images_as_their_classes),
        cmocka_unit_test(validation_is_left_alone),
        cmocka_unit_test(beta_has_its_moments),
        cmocka_unit_test(samples_depend_on_seed_and_number_alone),
        cmocka_unit_test(layouts_have_the_same_pixels),
        cmocka_unit_test(images_are_given_as_a_model_learned_them),
        cmocka_unit_test(impossible_options_are_refused),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
