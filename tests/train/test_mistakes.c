/* What a validation gets wrong: counts and images against logits computed by hand, the file and its damages. */
#include "scratch.h"

#include <math.h>
#include <unistd.h>

#include "util/base64.h"
#include "record/mistakes.h"
#include "trainer_tests.h"
#include "tiny.h"

/* A few steps of a network on synthetic images, validated as at the end; the caller frees *wrong. */
static trainer *validated(const char *more, trainer_scores *scores, mistakes **wrong)
{
    char pairs[512];
    trainer *t = NULL;
    scion_error err = {0};
    double loss;
    snprintf(pairs, sizeof pairs, "model=mlp data_kind=synthetic width=16 batch=32 eval_batches=5 seed=3 lr=0.1 %s",
             more);
    const config c = tiny(pairs);
    OK(tiny_create(&t, &c, &err));
    for (int i = 0; i < 4; i++)
        OK(tiny_step(t, &loss, &err));
    OK(trainer_validate(t, true, NULL, scores, wrong, &err));
    return t;
}

static const char small[] = "image_size=6 steps=4";

/* Rows sum to the images of a class, the diagonal over all is the accuracy, and so for every way to look. */
static void counts_add_up(void **state)
{
    static const char *const ways[] = {"tta=none", "tta=mirror", "tta=translate"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char pairs[128];
        trainer_scores scores;
        snprintf(pairs, sizeof pairs, "%s %s", small, ways[i]);
        mistakes *m;
        trainer *t = validated(pairs, &scores, &m);
        check(m != NULL && m->class_count == 10 && m->step == 4 && strcmp(m->tta, ways[i] + 4) == 0);
        check(mistakes_total(m).images == 5 * 32 && m->pair_count == m->pairs_found);
        check((double)mistakes_total(m).right / (double)mistakes_total(m).images == scores.accuracy);
        int64_t row[10] = {0}, wrong = 0;
        for (int64_t k = 0; k < m->pair_count; k++) {
            check(m->pairs[k].target != m->pairs[k].answer && m->pairs[k].images > 0);
            check(k == 0 || m->pairs[k].images <= m->pairs[k - 1].images);
            row[m->pairs[k].target] += m->pairs[k].images;
            wrong += m->pairs[k].images;
        }
        for (int k = 0; k < 10; k++)
            check(row[k] + m->classes[k].right == m->classes[k].images);
        check(wrong > MISTAKES_WORST && m->worst_count == MISTAKES_WORST); /* enough to choose among */
        mistakes_free(m);
        trainer_free(t);
    }
}

/* Classes, answers and losses of the first batches, by the plan of the logits. */
typedef struct answer {
    int64_t target, answer;
    double loss;
} answer;

static void answers_by_hand(trainer *t, answer *a, float *x, int64_t each)
{
    enum { batch = 32, classes = 10 };
    int32_t labels[batch];
    scion_error err = {0};
    for (int64_t b = 0; b < 5; b++) {
        void *const arrays[DATA_ARRAYS] = {x + b * batch * each, labels};
        OK(data_fill(t->data, (data_sequence){.part = DATA_VAL}, b * batch, batch, arrays, &err));
        memcpy(plan_value(t->logits, t->model.inputs[0])->data, arrays[0], (size_t)(batch * each) * sizeof *x);
        plan_forward(t->logits, &(tape_run){.threads = t->threads, .loss_scale = 1});
        for (int i = 0; i < batch; i++) {
            const float *z = plan_value(t->logits, t->model.logits)->data + i * classes;
            double sum = 0;
            answer *to = &a[b * batch + i];
            *to = (answer){.target = labels[i]};
            for (int k = 0; k < classes; k++) {
                to->answer = z[k] > z[to->answer] ? k : to->answer;
                sum += exp((double)z[k]);
            }
            to->loss = log(sum) - (double)z[labels[i]];
        }
    }
}

static void the_worst_images_are_the_worst(void **state)
{
    enum { all = 160, each = 3 * 6 * 6 };
    static answer a[all];
    static float x[all * each];
    trainer_scores scores;
    mistakes *m;
    (void)state;
    trainer *t = validated(small, &scores, &m);
    const data_image_info *image = data_about(t->data)->image;
    answers_by_hand(t, a, x, each);
    check(m->height == 6 && m->width == 6 && m->channels == 3);
    for (int i = 0; i < m->worst_count; i++) {
        const mistakes_image *w = &m->worst[i];
        check(i == 0 || w->loss <= m->worst[i - 1].loss);
        check(w->target == a[w->sample].target && w->answer == a[w->sample].answer && w->answer != w->target);
        near("loss", w->loss, a[w->sample].loss, 1e-5);
        check(w->probability >= 0.1 && w->probability < 1); /* no class is likelier */
        for (int k = 0; k < each; k++) {                    /* pixels (y, x, c) are the bytes that became (c, y, x) */
            const int c = k % 3, place = c * 36 + k / 3;
            const float back = ((float)w->pixels[k] - image->mean[c]) * image->scale[c];
            near("pixel", (double)back, (double)x[w->sample * each + place], 1e-5);
        }
    }
    int worse = 0; /* wrong answers with a higher loss than the last that was kept */
    for (int i = 0; i < all; i++)
        worse += a[i].answer != a[i].target && a[i].loss > m->worst[m->worst_count - 1].loss + 1e-6;
    check(worse <= MISTAKES_WORST - 1);
    mistakes_free(m);
    trainer_free(t);
}

/* The loss from the logits is that of the plan of the loss, to the bit, for every model and in every layout. */
static void the_loss_of_logits_is_the_loss(void **state)
{
    static const char *const cases[] = {"image_size=6 steps=4", "image_size=6 steps=4 tta=translate",
                                        "image_size=6 steps=4 smoothing=0.2",
                                        "image_size=6 steps=4 batch=33 threads=2",
                                        "image_size=25 steps=4 model=cnn width=8 smoothing=0.2 tta=mirror"};
    (void)state;
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        trainer_scores last, during;
        scion_error err = {0};
        double loss, accuracy;
        mistakes *m;
        trainer *t = validated(cases[i], &last, &m);
        OK(trainer_evaluate(t, 5, &loss, &accuracy, &err));
        at("%s", cases[i]);
        check(last.loss == loss && last.plain_accuracy == accuracy);
        OK(trainer_validate(t, false, NULL, &during, NULL, &err));
        check(during.loss == loss && during.accuracy == accuracy && during.top5 >= during.accuracy);
        check(m != NULL && mistakes_total(m).images == 5 * t->c.training.batch);
        mistakes_free(m);
        trainer_free(t);
    }
}

static void large_images_are_made_smaller(void **state)
{
    trainer_scores scores;
    mistakes *m;
    (void)state;
    trainer *t = validated("image_size=200 steps=4", &scores, &m);
    const data_image_info *image = data_about(t->data)->image;
    check(m->height == 66 && m->width == 66 && m->worst_count > 0);
    enum { each = 3 * 200 * 200 };
    float *x = malloc(sizeof *x * each);
    int32_t label;
    scion_error err = {0};
    OK(data_fill(t->data, (data_sequence){.part = DATA_VAL}, m->worst[0].sample, 1,
                 (void *const[DATA_ARRAYS]){x, &label}, &err));
    for (int c = 0; c < 3; c++) { /* pixel (10, 20) is the mean of nine */
        double sum = 0;
        for (int i = 0; i < 9; i++)
            sum += (double)(x[(c * 200 + 30 + i / 3) * 200 + 60 + i % 3] / image->scale[c] + image->mean[c]);
        check(fabs(m->worst[0].pixels[(10 * 66 + 20) * 3 + c] - sum / 9) <= 0.501);
    }
    check(label == m->worst[0].target);
    free(x);
    mistakes_free(m);
    trainer_free(t);
}

/* A network that has broken down answers nothing. */
static void no_answers_no_mistakes(void **state)
{
    trainer_scores scores;
    mistakes *m;
    scion_error err = {0};
    (void)state;
    trainer *t = validated(small, &scores, &m);
    mistakes_free(m);
    for (int64_t i = 0; i < t->elements; i++)
        tiny_weights(t)[i] = NAN;
    OK(trainer_validate(t, true, NULL, &scores, &m, &err));
    check(isnan(scores.loss) && scores.accuracy == 0 && scores.top5 == 0 && m == NULL);
    trainer_free(t);
}

/* ---- The file ---------------------------------------------------------------------------------------------- */

static void same(const mistakes *a, const mistakes *b)
{
    const size_t bytes = (size_t)(a->height * a->width * a->channels);
    check(a->step == b->step && strcmp(a->tta, b->tta) == 0 && a->class_count == b->class_count);
    for (int64_t i = 0; i < a->class_count; i++)
        check(strcmp(a->classes[i].name, b->classes[i].name) == 0 && a->classes[i].images == b->classes[i].images &&
              a->classes[i].right == b->classes[i].right);
    check(a->pair_count == b->pair_count && a->pairs_found == b->pairs_found &&
          memcmp(a->pairs, b->pairs, (size_t)a->pair_count * sizeof *a->pairs) == 0);
    check(a->worst_count == b->worst_count && b->height == a->height && b->width == a->width);
    for (int i = 0; i < a->worst_count; i++) {
        const mistakes_image *x = &a->worst[i], *y = &b->worst[i];
        check(x->sample == y->sample && x->target == y->target && x->answer == y->answer);
        check(x->file ? y->file && strcmp(x->file, y->file) == 0 : !y->file);
        check(fabs(x->loss - y->loss) < 1e-7 * (1 + x->loss) && memcmp(x->pixels, y->pixels, bytes) == 0);
    }
}

static void files_come_back(void **state)
{
    const char *path = scratch("mistakes.json");
    trainer_scores scores;
    mistakes *m, *back = NULL;
    scion_error err = {0};
    (void)state;
    trainer *t = validated(small, &scores, &m);
    free(m->classes[3].name);
    m->classes[3].name = strdup("a <b> \"\\ \xc3\xa9");
    check(m->worst[0].file == NULL); /* these images are no files */
    m->worst[1].file = strdup("cat/\xc3\xa9 <b>\n1.png");
    OK(mistakes_save(m, -1, path, &err));
    OK(mistakes_read(&back, path, &err));
    same(m, back);
    mistakes_free(m);
    mistakes_free(back);
    OK(mistakes_read(&back, scratch("nothing"), &err)); /* most runs have none */
    check(back == NULL);
    check_status(mistakes_read(&back, scratch_folder, &err), SCION_ESTATE, &err);
    trainer_free(t);
}

static void bytes_as_text_come_back(void **state)
{
    uint8_t bytes[20], back[20];
    char text[32];
    (void)state;
    for (int i = 0; i < 20; i++)
        bytes[i] = (uint8_t)(37 * i + 200);
    for (size_t n = 0; n <= 20; n++) {
        memset(back, 0, sizeof back);
        base64_encode(bytes, n, text);
        check(strlen(text) == base64_length(n) && base64_decode(text, strlen(text), back, n));
        check(memcmp(bytes, back, n) == 0);
        check(!base64_decode(text, strlen(text), back, n + 3));
        for (size_t i = 0; i < strlen(text); i++) { /* no character of base64 in its place */
            const char before = text[i];
            text[i] = '*';
            check(!base64_decode(text, strlen(text), back, n));
            text[i] = before;
        }
    }
    base64_encode((const uint8_t *)"light wo", 8, text); /* a known value */
    check(strcmp(text, "bGlnaHQgd28=") == 0 && !base64_decode("bGlnaHQgd===", 12, back, 8));
}

#define HEAD "{\"format\":\"scion-mistakes-1\",\"step\":7,\"tta\":\"none\","
#define CLASSES "\"classes\":[{\"name\":\"a\",\"images\":3,\"right\":1},{\"name\":\"b\",\"images\":2,\"right\":2}],"
#define PAIRS "\"pairs\":1,\"confusion\":[[0,1,2]],"
#define WORST                                                                                              \
    "\"size\":[1,2,1],\"worst\":[{\"sample\":4,\"class\":0,\"answer\":1,\"loss\":2.5,\"probability\":0.9," \
    "\"pixels\":"                                                                                          \
    "\"AP8=\"}]}"

static void what_contradicts_itself_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "not the mistakes of a run"},
        {"[]", "it has no format"},
        {"{\"format\":\"scion-mistakes-2\"}", "it has no format"},
        {"{\"format\":\"scion-mistakes-1\",\"step\":-1,\"tta\":\"none\"}", "its step and tta"},
        {"{\"format\":\"scion-mistakes-1\",\"step\":1,\"tta\":\"a name that is far too long for any tta\"}",
         "its step and tta"},
        {HEAD "\"classes\":[]}", "expected classes"},
        {HEAD "\"classes\":[{\"name\":\"a\",\"images\":3,\"right\":4}]}", "expected classes"},
        {HEAD "\"classes\":[{\"name\":1,\"images\":3,\"right\":1}]}", "expected classes"},
        {HEAD CLASSES "\"pairs\":1,\"confusion\":[[0,2,2]]}", "its confusion"},
        {HEAD CLASSES "\"pairs\":1,\"confusion\":[[0,-1,2]]}", "its confusion"},
        {HEAD CLASSES "\"pairs\":1,\"confusion\":[[0,0,2]]}", "its confusion"},
        {HEAD CLASSES "\"pairs\":1,\"confusion\":[[0,1,3]]}", "its confusion"}, /* two are wrong */
        {HEAD CLASSES "\"pairs\":1,\"confusion\":[[0,1,1]]}", "its confusion"}, /* ... not one */
        {HEAD CLASSES "\"pairs\":0,\"confusion\":[[0,1,2]]}", "its confusion"},
        {HEAD CLASSES "\"pairs\":2,\"confusion\":[[0,1,1],[0,1,1]]}", "its confusion"},
        {HEAD CLASSES PAIRS "\"size\":[1,2,2],\"worst\":[]}", "its worst images"},
        {HEAD CLASSES PAIRS "\"size\":[97,2,1],\"worst\":[]}", "its worst images"},
        {HEAD CLASSES PAIRS "\"size\":[1,3,1],\"worst\":[{\"sample\":4,\"class\":0,\"answer\":1,\"loss\":2.5,"
                            "\"probability\":0.9,\"pixels\":\"AP8=\"}]}",
         "its worst images"},
        {HEAD CLASSES PAIRS "\"size\":[1,2,1],\"worst\":[{\"sample\":4,\"class\":0,\"answer\":1,\"loss\":2.5,"
                            "\"probability\":1.5,\"pixels\":\"AP8=\"}]}",
         "its worst images"},
        {HEAD CLASSES PAIRS "\"size\":[1,2,1],\"worst\":[{\"sample\":4,\"file\":7,\"class\":0,\"answer\":1,"
                            "\"loss\":2.5,\"probability\":0.5,\"pixels\":\"AP8=\"}]}",
         "its worst images"},
        {HEAD CLASSES PAIRS "\"size\":[1,2,1],\"worst\":[{\"sample\":4,\"class\":0,\"answer\":9,\"loss\":2.5,"
                            "\"probability\":0.5,\"pixels\":\"AP8=\"}]}",
         "its worst images"},
    };
    const char *path = scratch("strange.json");
    mistakes *m = NULL;
    scion_error err = {0};
    (void)state;
    scratch_text(path, HEAD CLASSES PAIRS WORST);
    OK(mistakes_read(&m, path, &err));
    check(m->worst[0].pixels[0] == 0 && m->worst[0].pixels[1] == 255 && mistakes_total(m).right == 3);
    mistakes_free(m);
    for (int64_t i = 0; i < COUNT_OF(cases); i++) {
        scratch_text(path, cases[i].text);
        check_status(mistakes_read(&m, path, &err), SCION_ESTATE, &err);
        at("%s: %s", cases[i].text, err.message);
        check(m == NULL && strstr(err.message, "strange.json") && strstr(err.message, cases[i].says));
    }
}

/* Cut off anywhere, and with any byte changed: refused with a sentence, or as valid as any. */
static void damaged_files_do_no_harm(void **state)
{
    static const char whole[] = HEAD CLASSES PAIRS WORST;
    const char *path = scratch("damaged.json");
    char text[sizeof whole];
    mistakes *m = NULL;
    scion_error err = {0};
    (void)state;
    for (size_t n = 0; n + 1 < sizeof whole; n++) {
        scratch_put(path, whole, n);
        check_status(mistakes_read(&m, path, &err), SCION_ESTATE, &err);
        check(m == NULL && strstr(err.message, "damaged.json"));
    }
    for (size_t i = 0; i + 1 < sizeof whole; i++)
        for (int change = 0; change < 4; change++) {
            memcpy(text, whole, sizeof whole);
            text[i] = (char)(change == 0 ? '9' : change == 1 ? '-' : change == 2 ? 0xff : text[i] ^ 1);
            scratch_put(path, text, sizeof whole - 1);
            if (mistakes_read(&m, path, &err) == SCION_OK) {
                check(m->class_count == 2 && mistakes_total(m).right <= mistakes_total(m).images &&
                      m->pair_count == 1);
                mistakes_free(m);
            } else {
                check(m == NULL && strstr(err.message, "damaged.json"));
            }
        }
}

/* The largest file that is read has 64 MiB; this one is empty space, which is no JSON. */
static void files_have_a_largest_size(void **state)
{
    const char *path = scratch("huge.json");
    mistakes *m = NULL;
    scion_error err = {0};
    (void)state;
    scratch_put(path, "", 0);
    check(truncate(path, 1 << 26) == 0);
    check_status(mistakes_read(&m, path, &err), SCION_ESTATE, &err);
    check(strstr(err.message, "huge.json: not the mistakes of a run"));
    check(truncate(path, (1 << 26) + 1) == 0);
    check_status(mistakes_read(&m, path, &err), SCION_ESTATE, &err);
    check(strstr(err.message, "huge.json: expected a file of at most 67108864 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(counts_add_up),
        LAW(the_worst_images_are_the_worst),
        LAW(the_loss_of_logits_is_the_loss),
        LAW(large_images_are_made_smaller),
        LAW(no_answers_no_mistakes),
        LAW(files_come_back),
        LAW(bytes_as_text_come_back),
        LAW(what_contradicts_itself_is_refused),
        LAW(damaged_files_do_no_harm),
        LAW(files_have_a_largest_size),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
