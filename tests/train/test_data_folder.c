/* Folders of images: which files are what, what becomes of images of any size, samples that depend on seed and number
 * alone, and files that cannot be read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <png.h>

#include "config/config.h"
#include "data/data_kind.h"
#include "data/resample.h"
#include "data_files.h"
#include "image_files.h"

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static data_set *must_open_folder(const char *name, const data_context *context, const char *const pairs[])
{
    data_set *d = NULL;
    scion_error err = {0};
    if (open_pairs(&d, files_path(name), context, pairs, &err) != SCION_OK)
        fail_msg("%s", err.message);
    assert_string_equal(data_about(d)->kind, "folder");
    return d;
}

static void must_refuse_folder(const char *name, const char *const pairs[], const char *words)
{
    const data_context context = {.seed = 1};
    data_set *d = NULL;
    scion_error err = {0};
    assert_int_not_equal(open_pairs(&d, files_path(name), &context, pairs, &err), SCION_OK);
    assert_null(d);
    if (!strstr(err.message, words))
        fail_msg("\"%s\" does not say \"%s\"", err.message, words);
}

/* `count` images of a class, of sizes that differ; image i of it is number first + i of image_pixel. */
static void class_folder(const char *folder, const char *class, int count, int first)
{
    for (int i = 0; i < count; i++) {
        char name[FILES_PATH / 4];
        snprintf(name, sizeof name, "%s/%s/%03d.png", folder, class, i);
        image_file(name, 12 + (first + i) % 5, 10 + (first + i) % 4, first + i);
    }
}

/* ---- Resampling ---------------------------------------------------------------------------------------- */

static double weight(const char *filter, double x)
{
    x = fabs(x);
    if (strcmp(filter, "bilinear") == 0)
        return x < 1 ? 1 - x : 0;
    return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

/* Result (y, x) by the definition, both directions at once, in double. */
static double sampled(const image *m, data_box b, const char *filter, int h, int w, int y, int x, int c)
{
    const double sy = (double)(b.y1 - b.y0) / h, sx = (double)(b.x1 - b.x0) / w;
    const double ty = sy > 1 ? sy : 1, tx = sx > 1 ? sx : 1;
    double sum = 0, all = 0;
    for (int64_t i = b.y0; i < b.y1; i++)
        for (int64_t k = b.x0; k < b.x1; k++) {
            const double u = weight(filter, ((double)(i - b.y0) + 0.5 - (y + 0.5) * sy) / ty) *
                             weight(filter, ((double)(k - b.x0) + 0.5 - (x + 0.5) * sx) / tx);
            sum += u * m->pixels[(i * m->width + k) * 3 + c];
            all += u;
        }
    return fmin(255, fmax(0, sum / all));
}

/* Rounded twice, the first time with weights of the second pass whose absolute values sum to at most 1.5. Pixels are
 * such that nothing is cut off at 0 or 255 between the passes. */
static void resampling_follows_its_definition(void **state)
{
    enum { W = 23, H = 17 };
    static const double tolerance = 0.5 + 1.5 * 0.5 + 0.01;
    static const int sizes[][2] = {{5, 7}, {17, 23}, {40, 31}, {1, 1}, {9, 50}};
    static const data_box boxes[] = {{0, 0, H, W}, {3, 2, 14, 20}, {16, 22, 17, 23}};
    uint8_t pixels[W * H * 3], to[50 * 50 * 3];
    const image m = {.width = W, .height = H, .pixels = pixels};
    uint64_t random = files_seed();
    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(64 + files_random(&random) % 128);
    for (int f = 0; f < 2; f++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t b = 0; b < sizeof boxes / sizeof *boxes; b++) {
                const int h = sizes[s][0], w = sizes[s][1];
                assert_true(resample(&m, boxes[b], f, h, w, to));
                for (int i = 0; i < h * w * 3; i++)
                    assert_true(fabs(to[i] - sampled(&m, boxes[b], resample_names[f], h, w, i / 3 / w, i / 3 % w,
                                                     i % 3)) <= tolerance);
                if (b == 0 && h == H && w == W)
                    assert_memory_equal(to, pixels, sizeof pixels); /* nothing changes */
            }
}

/* Inside the image, of the area and ratio that were asked for but for the rounding of sides; all parts of it are
 * seen. */
static void crops_are_drawn_as_said(void **state)
{
    enum { H = 90, W = 120, draws = 4000 };
    double least = 1, most = 0, left = 0, right = 0;
    (void)state;
    for (int64_t i = 0; i < draws; i++) {
        const data_box b = data_draw_crop(0.25, 7, H, W, i);
        const double h = (double)(b.y1 - b.y0), w = (double)(b.x1 - b.x0), area = h * w / (H * W);
        assert_true(b.y0 >= 0 && b.x0 >= 0 && b.y1 <= H && b.x1 <= W);
        assert_true((w + 0.5) / (h - 0.5) >= 0.75 && (w - 0.5) / (h + 0.5) <= 4.0 / 3);
        assert_true(area > 0.24 && area <= 1);
        least = fmin(least, area);
        most = fmax(most, area);
        left += b.x0 == 0;
        right += b.x1 == W;
    }
    assert_true(least < 0.27 && most > 0.95 && left > 50 && right > 50);
    const data_box thin = data_draw_crop(0.9, 7, 10, 1000, 3); /* nothing fits: the middle */
    assert_true(thin.y0 == 0 && thin.y1 == 10 && thin.x1 - thin.x0 == 13 && thin.x0 == (1000 - 13) / 2);
}

/* ---- Classes and parts --------------------------------------------------------------------------------- */

static void labels_of(const data_set *d, data_part part, int32_t *labels)
{
    void *const arrays[DATA_ARRAYS] = {NULL, labels};
    scion_error err = {0};
    assert_int_equal(
        data_fill(d, (data_sequence){.part = part, .plain = true}, 0, data_about(d)->samples[part], arrays, &err),
        SCION_OK);
}

/* More classes than a byte has, in the order of their names; a class that validation has not; folders in classes;
 * files that are no images. */
static void imagenet_layout(void **state)
{
    enum { classes = 300 };
    int32_t labels[classes + 1];
    const data_context context = {.seed = 1};
    char name[FILES_PATH / 4];
    (void)state;
    for (int i = 0; i < classes; i++) {
        snprintf(name, sizeof name, "net/train/n%05d/a.JPEG", i);
        image_file(name, 4, 4, i);
        snprintf(name, sizeof name, "net/val/n%05d/b.png", i);
        if (i != 7)
            image_file(name, 4, 4, i);
    }
    image_file("net/train/n00003/images/deep.jpg", 4, 4, 1);
    files_text("net/train/n00003/boxes.txt", "none");
    files_text("net/words.txt", "none");
    data_set *d = must_open_folder("net", &context, OPTIONS("image_size=4"));
    const data_info *info = data_about(d);
    assert_int_equal(info->samples[DATA_TRAIN], classes + 1);
    assert_int_equal(info->samples[DATA_VAL], classes - 1);
    assert_int_equal(info->image->classes, classes);
    assert_int_equal(info->arrays[1].range, classes);
    assert_string_equal(info->image->names[299], "n00299");
    assert_non_null(strstr(info->note, "left out: 1 other file"));
    labels_of(d, DATA_TRAIN, labels);
    for (int i = 0; i <= classes; i++)
        assert_int_equal(labels[i], i <= 3 ? i : i - 1);
    labels_of(d, DATA_VAL, labels);
    for (int i = 0; i < classes - 1; i++)
        assert_int_equal(labels[i], i < 7 ? i : i + 1);
    data_close(d);
}

/* The file of a sample, in each order of samples: in the folder of its class, and with its pixels. */
static void samples_know_their_files(void **state)
{
    enum { each = 5, side = 8 };
    static const char *const names[] = {"ant", "bee"};
    (void)state;
    for (int c = 0; c < 2; c++) {
        class_folder("known/train", names[c], each, 10 * c);
        class_folder("known/val", names[c], each, 20 + 10 * c);
    }
    for (int way = 0; way < 4; way++) {
        const data_context context = {.seed = 1, .whole = way == 3};
        const data_sequence s = {.part = way == 0 ? DATA_TRAIN : DATA_VAL, .even = way == 2 ? 3 : 0};
        data_set *d = must_open_folder("known", &context, OPTIONS("image_size=8", "crop_min=1"));
        const int64_t count = way == 2 ? 3 : data_about(d)->samples[s.part];
        assert_int_equal(count, way == 2 ? 3 : way == 3 ? 4 * each : 2 * each);
        for (int64_t i = 0; i < count; i++) {
            float pixels[3 * side * side], file[3 * side * side];
            int32_t label;
            void *const arrays[DATA_ARRAYS] = {pixels, &label};
            char path[FILES_PATH], start[64];
            scion_error err = {0};
            assert_int_equal(data_fill(d, s, i, 1, arrays, &err), SCION_OK);
            const char *name = data_file_of(d, s, i);
            snprintf(start, sizeof start, "%s/%s/", way == 0 || (way == 3 && i < 2 * each) ? "train" : "val",
                     names[label]);
            assert_int_equal(strncmp(name, start, strlen(start)), 0);
            snprintf(path, sizeof path, "%s/%s", files_path("known"), name);
            assert_int_equal(data_put_file(d, path, file, &err), SCION_OK);
            assert_memory_equal(pixels, file, sizeof pixels);
        }
        data_close(d);
    }
}

/* Without val/, the last fifth of each class: a model never sees them. */
static void classes_alone_are_split(void **state)
{
    int32_t labels[20];
    const data_context context = {.seed = 1};
    (void)state;
    class_folder("split", "ant", 10, 0);
    class_folder("split", "bee", 5, 10);
    data_set *d = must_open_folder("split", &context, OPTIONS("image_size=8", "val_fraction=0.2"));
    assert_int_equal(data_about(d)->samples[DATA_TRAIN], 12);
    assert_int_equal(data_about(d)->samples[DATA_VAL], 3);
    labels_of(d, DATA_VAL, labels);
    assert_int_equal(labels[0] * 100 + labels[1] * 10 + labels[2], 1);
    assert_non_null(strstr(data_about(d)->held_out, "split, the last 20 % of each class"));
    data_close(d);
    /* a share of a file is not taken: 1 of 10 and 0 of 5 by 0.19, 1 of 5 by 0.39 */
    static const struct {
        const char *share;
        int64_t val;
    } cuts[] = {{"val_fraction=0.19", 1}, {"val_fraction=0.39", 3 + 1}, {"val_fraction=0.5", 5 + 2}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        d = must_open_folder("split", &context, OPTIONS("image_size=8", cuts[i].share));
        assert_int_equal(data_about(d)->samples[DATA_VAL], cuts[i].val);
        assert_int_equal(data_about(d)->samples[DATA_TRAIN], 15 - cuts[i].val);
        data_close(d);
    }
    d = must_open_folder("split", &context, OPTIONS("image_size=8", "val_fraction=0"));
    assert_int_equal(data_about(d)->samples[DATA_VAL], 0);
    data_close(d);
    class_folder("trains", "train", 3, 0); /* a class of this name, not a part */
    class_folder("trains", "ship", 3, 3);
    d = must_open_folder("trains", &context, OPTIONS("image_size=8", "val_fraction=0"));
    assert_int_equal(data_about(d)->image->classes, 2);
    data_close(d);
}

static void wrong_folders_are_refused(void **state)
{
    (void)state;
    mkdir(files_path("empty"), 0700);
    must_refuse_folder("empty", OPTIONS("data_kind=folder"), "no folder in it has PNG or JPEG images");
    class_folder("one", "cat", 2, 0);
    must_refuse_folder("one", OPTIONS("data_kind=auto"),
                       "all images are of one class, cat: there is nothing to learn");
    class_folder("beyond/train", "cat", 2, 0);
    class_folder("beyond/train", "dog", 2, 0);
    class_folder("beyond/val", "cat", 2, 0);
    class_folder("beyond/val", "zebra", 2, 0);
    must_refuse_folder("beyond", OPTIONS("data_kind=auto"),
                       "beyond/val/zebra: images of a class that train/ does not have");
    class_folder("flat/train", "cat", 2, 0);
    class_folder("flat/train", "dog", 2, 0);
    image_file("flat/val/1.png", 8, 8, 0);
    must_refuse_folder("flat", OPTIONS("data_kind=auto"), "flat/val: no folder in it has PNG or JPEG images");
    class_folder("untrained/val", "cat", 2, 0);
    class_folder("untrained/val", "dog", 2, 0);
    mkdir(files_path("untrained/train"), 0700);
    must_refuse_folder("untrained", OPTIONS("data_kind=folder"), "untrained/train: no folder in it has PNG or JPEG");
    class_folder("latin", "caf\xe9", 2, 0); /* no checkpoint could keep it */
    class_folder("latin", "tea", 2, 0);
    must_refuse_folder("latin", OPTIONS("data_kind=auto"), "the name of this class is not UTF-8");
    must_refuse_folder("nowhere", OPTIONS("data_kind=folder"), "nowhere/: cannot open");
    must_refuse_folder("beyond/val", OPTIONS("translate=300", "image_size=300"), "translate is 300");
}

/* A model of images is told what its folder lacks, whatever else the folder could be. */
static void images_are_expected_where_a_model_wants_them(void **state)
{
    static const char *const wants[] = {"image", NULL};
    const data_context context = {.seed = 1, .wants = wants};
    data_set *d = NULL;
    scion_error err = {0};
    (void)state;
    image_file("stray/1.png", 8, 8, 0);
    files_text("stray/readme.txt", "none");
    assert_int_equal(open_pairs(&d, files_path("stray"), &context, OPTIONS("data_kind=auto"), &err), SCION_EINVAL);
    assert_non_null(strstr(err.message, "no folder in it has PNG or JPEG images, expected one for each class"));
    class_folder("noted/train", "cat", 3, 0);
    class_folder("noted/train", "dog", 3, 0);
    class_folder("noted/val", "cat", 2, 0);
    class_folder("noted/test", "cat", 2, 0);
    files_text("noted/train/boxes/1.txt", "none");
    files_text("noted/val/words.txt", "none");
    image_file("noted/val/1.png", 8, 8, 0);
    d = must_open_folder("noted", &context, OPTIONS("image_size=8"));
    assert_string_equal(data_about(d)->note,
                        "left out: 1 folder without images, 1 image in no folder of a class, 2 other "
                        "files, 1 folder beside train/ and val/");
    data_close(d);
}

/* Options without effect are refused, unless a model was trained with them. */
static void options_of_other_kinds_are_refused(void **state)
{
    const data_context context = {.seed = 1};
    data_context known = context;
    data_set *d = NULL, *again = NULL;
    scion_error err = {0};
    (void)state;
    cifar_folder("cifar", 4);
    assert_int_equal(open_pairs(&d, files_path("cifar"), &context, OPTIONS("crop_min=0.5"), &err), SCION_EINVAL);
    assert_string_equal(err.message, "crop_min is for data of kind folder; these are of kind cifar10");
    assert_int_equal(open_pairs(&d, files_path("cifar"), &context, OPTIONS("flip=random"), &err), SCION_OK);
    known.stored = true;
    assert_int_equal(open_pairs(&again, files_path("cifar"), &known, OPTIONS("crop_min=0.5"), &err), SCION_OK);
    data_close(again);
    data_close(d);
}

/* Other images get the size of those that the model learned from, and are seen as those were. */
static void other_images_get_the_size_of_the_model(void **state)
{
    data_context context = {.seed = 1};
    (void)state;
    class_folder("first", "cat", 2, 0);
    class_folder("first", "dog", 2, 0);
    data_set *d = must_open_folder("first", &context, OPTIONS("image_size=9", "eval_crop=0.5", "val_fraction=0"));
    context.images = data_about(d)->images;
    data_set *other = must_open_folder("first", &context, OPTIONS("val_fraction=0"));
    const data_image_info *m = data_about(other)->image;
    assert_true(m->height == 9 && m->width == 9 && m->crop == 0.5);
    context.images = "{\"size\":[9,9,1],\"mean\":[1],\"scale\":[1],\"classes\":[\"cat\",\"dog\"]}"; /* grey */
    data_set *grey = must_open_folder("first", &context, OPTIONS("val_fraction=0"));
    assert_int_equal(data_about(grey)->arrays[0].count, 9 * 9);
    data_close(grey);
    data_close(other);
    data_close(d);
}

/* A text with figures stays a text. */
static void a_text_with_figures_is_a_text(void **state)
{
    const data_context context = {.seed = 1};
    data_set *d;
    scion_error err = {0};
    (void)state;
    files_text("book/chapter.txt", "It was the best of times, it was the worst of times.");
    image_file("book/figures/map.png", 8, 8, 0);
    assert_int_equal(open_pairs(&d, files_path("book"), &context, OPTIONS("block=2"), &err), SCION_OK);
    assert_string_equal(data_about(d)->kind, "text");
    data_close(d);
}

/* ---- Pixels -------------------------------------------------------------------------------------------- */

/* An image of the right size is given as it is, by the constants of ImageNet; a larger one by its middle. */
static void evaluation_sees_the_middle(void **state)
{
    enum { side = 6 };
    static const double mean[] = {123.675, 116.28, 103.53}, deviation[] = {58.395, 57.12, 57.375};
    float x[2][side][side][3];
    static const char *const wants[] = {"image", "targets", NULL};
    const data_context context = {.seed = 1, .wants = wants};
    void *const arrays[DATA_ARRAYS] = {x};
    scion_error err = {0};
    (void)state;
    image_file("middle/a/exact.png", side, side, 2);
    image_file("middle/b/larger.png", side + 5, side, 3);
    data_set *d = must_open_folder("middle", &context, OPTIONS("image_size=6", "eval_crop=1", "val_fraction=0"));
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, 2, arrays, &err), SCION_OK);
    for (int i = 0; i < 2 * side * side * 3; i++) {
        const int which = i / (side * side * 3), y = i / (side * 3) % side, column = i / 3 % side, c = i % 3;
        const double byte = image_pixel(2 + which, y, column + 2 * which, c);
        assert_true(fabs((double)x[which][y][column][c] - (byte - mean[c]) / deviation[c]) < 1e-5);
    }
    float file[side][side][3];
    assert_int_equal(data_put_file(d, files_path("middle/b/larger.png"), file, &err), SCION_OK);
    assert_memory_equal(file, x[1], sizeof file);
    data_close(d);
    image_file("middle/a/exact.png", 2 * side, 2 * side, 2); /* now the middle half of it */
    d = must_open_folder("middle", &context, OPTIONS("image_size=6", "eval_crop=0.5", "val_fraction=0"));
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, 1, arrays, &err), SCION_OK);
    for (int i = 0; i < side * side * 3; i++) {
        const double byte = image_pixel(2, i / (side * 3) + side / 2, i / 3 % side + side / 2, i % 3);
        assert_true(
            fabs((double)x[0][i / (side * 3)][i / 3 % side][i % 3] - (byte - mean[i % 3]) / deviation[i % 3]) < 1e-5);
    }
    data_close(d);
}

/* Training, evaluation and single files see a photo with an orientation like one whose pixels are turned. */
static void photos_are_upright_everywhere(void **state)
{
    enum { side = 8, w = 12, h = 9 };
    const data_context context = {.seed = 1};
    uint8_t stored[w * h * 3], upright[w * h * 3], exif[EXIF_BYTES];
    float x[2][3 * side * side], file[2][3 * side * side];
    scion_error err = {0};
    (void)state;
    for (int i = 0; i < w * h * 3; i++)
        stored[i] = (uint8_t)(37 * i + i / 7);
    for (int i = 0; i < w * h; i++) /* a quarter to the right: row y of the file is column h - 1 - y of the picture */
        memcpy(upright + 3 * (i % w * h + h - 1 - i / w), stored + 3 * i, 3);
    image_bytes turned = make_png(w, h, PNG_COLOR_TYPE_RGB, 8, false, stored);
    image_bytes plain = make_png(h, w, PNG_COLOR_TYPE_RGB, 8, false, upright);
    make_exif(exif, true, 6);
    png_add_exif(&turned, false, exif, sizeof exif);
    files_write("phone/a/turned.png", turned.at, turned.count);
    files_write("phone/b/plain.png", plain.at, plain.count);
    free(turned.at);
    free(plain.at);
    for (int way = 0; way < 2; way++) {
        data_set *d = must_open_folder("phone", &context, OPTIONS("image_size=8", "val_fraction=0", "crop_min=1"));
        void *const arrays[DATA_ARRAYS] = {x};
        const data_sequence s = {.part = DATA_TRAIN, .plain = way};
        assert_int_equal(data_fill(d, s, 0, 2, arrays, &err), SCION_OK);
        assert_memory_equal(x[0], x[1], sizeof x[0]);
        assert_int_equal(data_put_file(d, files_path("phone/a/turned.png"), file[0], &err), SCION_OK);
        assert_int_equal(data_put_file(d, files_path("phone/b/plain.png"), file[1], &err), SCION_OK);
        assert_memory_equal(file[0], file[1], sizeof file[0]);
        assert_memory_equal(file[0], x[0], sizeof file[0]);
        data_close(d);
    }
}

enum { N = 24, SIDE = 8, EACH = 3 * SIDE * SIDE, EPOCHS = 3 };

static void fill_numbers(const char *name, int workers, const char *const pairs[], float (*x)[EACH], int32_t *labels)
{
    enum { batch = 6 };
    const data_context context = {.seed = 9, .ahead = batch, .workers = workers};
    scion_error err = {0};
    data_set *d = must_open_folder(name, &context, pairs),
             *alone = must_open_folder(name, &(data_context){.seed = 9}, pairs);
    /* two batches, of images in float32 and labels */
    assert_int_equal(data_bytes(d) - data_bytes(alone), workers > 0 ? 2 * batch * (EACH * 4 + 4) : 0);
    data_close(alone);
    for (int i = 0; i < EPOCHS * N; i += batch) {
        void *const arrays[DATA_ARRAYS] = {x[i], labels + i};
        data_prefetch(d, (data_sequence){.part = DATA_TRAIN}, i, batch);
        data_prefetch(d, (data_sequence){.part = DATA_TRAIN}, i + batch, batch);
        if (data_fill(d, (data_sequence){.part = DATA_TRAIN}, i, batch, arrays, &err) != SCION_OK)
            fail_msg("%s", err.message);
    }
    data_close(d);
}

static void samples_do_not_depend_on_threads(void **state)
{
    static float x[EPOCHS * N][EACH], y[EPOCHS * N][EACH];
    int32_t labels[EPOCHS * N], again[EPOCHS * N];
    int same = 0;
    const char *const *pairs =
        OPTIONS("image_size=8", "val_fraction=0", "flip=random", "resample=bicubic", "erase=0.25");
    (void)state;
    class_folder("many", "a", N / 2, 0);
    class_folder("many", "b", N / 2, 30);
    fill_numbers("many", 0, pairs, x, labels);
    for (int workers = 1; workers <= 3; workers++) {
        memset(y, 0, sizeof y);
        fill_numbers("many", workers, pairs, y, again);
        assert_memory_equal(x, y, sizeof x);
        assert_memory_equal(labels, again, sizeof labels);
    }
    for (int i = 1; i < EPOCHS * N; i++)
        for (int k = 0; k < i; k++)
            same += memcmp(x[i], x[k], sizeof x[i]) == 0;
    assert_int_equal(same, 0); /* every sample is drawn anew */
}

/* ---- Files that cannot be read ------------------------------------------------------------------------- */

static void bad_images_are_replaced_in_training(void **state)
{
    static float x[EPOCHS * N][EACH], y[EPOCHS * N][EACH], good[N][EACH];
    int32_t labels[EPOCHS * N], again[EPOCHS * N], plain[N];
    const char *const *pairs = OPTIONS("image_size=8", "val_fraction=0", "crop_min=1");
    const data_context context = {.seed = 9, .ahead = 4, .workers = 2};
    void *const all[DATA_ARRAYS] = {good, plain}, *const arrays[DATA_ARRAYS] = {x, labels};
    scion_error err = {0};
    (void)state;
    class_folder("bad", "a", N / 2, 0);
    class_folder("bad", "b", N / 2, 30);
    files_text("bad/a/003.png", "no image");
    files_text("bad/b/001.png", "\x89PNG\r\n\x1a\n and no more");
    fill_numbers("bad", 0, pairs, x, labels);
    fill_numbers("bad", 3, pairs, y, again);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(labels, again, sizeof labels);
    data_set *d = must_open_folder("bad", &context, pairs);
    assert_int_equal(data_skipped(d), 0);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, N, all, &err), SCION_OK);
    for (int i = 0; i < N; i++) /* left out where nothing may count twice */
        assert_int_equal(plain[i], i == 3 || i == N / 2 + 1 ? -1 : i / (N / 2));
    assert_int_equal(data_skipped(d), 2);
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 0, (int64_t)EPOCHS * N, arrays, &err),
                     SCION_OK);
    assert_int_equal(data_skipped(d), 2); /* each once */
    assert_true(data_next_warning(d, &err));
    assert_non_null(strstr(err.message, "bad/a/003.png: neither a PNG nor a JPEG image"));
    assert_true(data_next_warning(d, &err));
    assert_non_null(strstr(err.message, "bad/b/001.png: a PNG that is cut off or damaged"));
    assert_false(data_next_warning(d, &err));
    assert_memory_equal(x, y, sizeof x);
    for (int i = 0; i < EPOCHS * N; i++) { /* an image of the folder, with its own class */
        int found = 0;
        for (int k = 0; k < N; k++)
            found += plain[k] == labels[i] && memcmp(good[k], x[i], sizeof x[i]) == 0;
        assert_in_range(found, 1, N);
    }
    data_close(d);
    for (int i = 0; i < N / 2; i++) {
        char name[FILES_PATH / 4];
        for (int class = 0; class < 2; class ++) {
            snprintf(name, sizeof name, "bad/%c/%03d.png", 'a' + class, i);
            files_text(name, "no image");
        }
    }
    d = must_open_folder("bad", &context, pairs);
    assert_int_not_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN}, 0, 1, arrays, &err), SCION_OK);
    assert_non_null(strstr(err.message, "none of 16 images can be read; the last: "));
    data_close(d);
}

/* ---- What a model keeps of its images ------------------------------------------------------------------ */

/* Classes are found by their names; a set without samples reads files as the model saw them. */
static void a_model_brings_its_classes(void **state)
{
    const data_context context = {.seed = 1};
    float x[EACH], y[EACH];
    int32_t label;
    void *const arrays[DATA_ARRAYS] = {x, &label};
    scion_error err = {0};
    data_set *d;
    (void)state;
    class_folder("learned", "ant", 2, 0);
    class_folder("learned", "bee", 2, 2);
    class_folder("learned", "cow", 2, 4);
    data_set *learned = must_open_folder("learned", &context, OPTIONS("image_size=8", "resample=bicubic"));
    const data_context as = {.seed = 1, .images = data_about(learned)->images};
    class_folder("other", "cow", 1, 6);
    d = must_open_folder("other", &as, OPTIONS("image_size=8", "val_fraction=0"));
    assert_int_equal(data_about(d)->image->classes, 3);
    assert_string_equal(resample_names[data_about(d)->image->resample], "bicubic");
    assert_int_equal(data_fill(d, (data_sequence){.part = DATA_TRAIN, .plain = true}, 0, 1, arrays, &err), SCION_OK);
    assert_int_equal(label, 2);
    data_close(d);
    class_folder("other", "dodo", 1, 6);
    assert_int_not_equal(open_pairs(&d, files_path("other"), &as, OPTIONS("image_size=8"), &err), SCION_OK);
    assert_non_null(strstr(err.message, "dodo: images of a class that the model does not have"));
    assert_int_equal(open_pairs(&d, "", &as, OPTIONS("flip=none"), &err), SCION_OK); /* no path */
    assert_int_equal(data_about(d)->samples[DATA_VAL], 0);
    assert_int_equal(data_about(d)->image->height, 8);
    assert_int_equal(data_put_file(d, files_path("other/cow/000.png"), y, &err), SCION_OK);
    assert_memory_equal(x, y, sizeof x);
    data_close(d);
    data_close(learned);
}

/* A model of grey images sees files in grey: one of them as it is, a coloured one by the weights of its colours. */
static void colours_become_grey(void **state)
{
    enum { side = 4 };
    static const char images[] = "{\"size\":[4,4,1],\"mean\":[100],\"scale\":[0.5],\"classes\":[\"a\",\"b\"]}";
    const data_context as = {.images = images};
    uint8_t samples[side * side];
    float x[side * side];
    data_set *d;
    scion_error err = {0};
    (void)state;
    assert_int_equal(open_pairs(&d, "", &as, OPTIONS("flip=none"), &err), SCION_OK);
    assert_int_equal(data_about(d)->arrays[0].count, side * side);
    image_file("coloured.png", side, side, 3);
    assert_int_equal(data_put_file(d, files_path("coloured.png"), x, &err), SCION_OK);
    for (int i = 0; i < side * side; i++) {
        const int y = i / side, k = i % side;
        const double grey =
            0.299 * image_pixel(3, y, k, 0) + 0.587 * image_pixel(3, y, k, 1) + 0.114 * image_pixel(3, y, k, 2);
        assert_true(fabs((double)x[i] * 2 + 100 - grey) <= 0.5001);
    }
    for (int i = 0; i < side * side; i++)
        samples[i] = (uint8_t)(17 * i);
    const image_bytes file = make_png(side, side, PNG_COLOR_TYPE_GRAY, 8, false, samples);
    assert_int_equal(data_put_file(d, files_write("grey.png", file.at, file.count), x, &err), SCION_OK);
    for (int i = 0; i < side * side; i++)
        assert_true(x[i] == ((float)samples[i] - 100) * 0.5f);
    free(file.at);
    data_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resampling_follows_its_definition),
        cmocka_unit_test(crops_are_drawn_as_said),
        cmocka_unit_test(imagenet_layout),
        cmocka_unit_test(samples_know_their_files),
        cmocka_unit_test(classes_alone_are_split),
        cmocka_unit_test(wrong_folders_are_refused),
        cmocka_unit_test(images_are_expected_where_a_model_wants_them),
        cmocka_unit_test(options_of_other_kinds_are_refused),
        cmocka_unit_test(other_images_get_the_size_of_the_model),
        cmocka_unit_test(a_text_with_figures_is_a_text),
        cmocka_unit_test(evaluation_sees_the_middle),
        cmocka_unit_test(photos_are_upright_everywhere),
        cmocka_unit_test(samples_do_not_depend_on_threads),
        cmocka_unit_test(bad_images_are_replaced_in_training),
        cmocka_unit_test(a_model_brings_its_classes),
        cmocka_unit_test(colours_become_grey),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
