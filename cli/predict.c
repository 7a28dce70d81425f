/* scion predict: the classes of image files, by a trained model. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "util/utf8.h"
#include "record/run_dir.h"

enum { TOP, JSON, QUIET };

static const cli_argument arguments[] = {
    [TOP] = CLI_SETTING("top", "N", "classes to print, the likeliest first (5)"),
    [JSON] = CLI_SWITCH("--json", "print one JSON object per image"),
    [QUIET] = CLI_SWITCH("--quiet", "print the likeliest class alone"),
    {0},
};

enum { max_batch = 32 };

/* Most likely class, ignoring those already printed (p < 0). */
static int64_t likeliest(const float *p, int64_t classes)
{
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++)
        if (p[k] > p[best])
            best = k;
    return best;
}

/* Prints the classes of one file. p NULL: it could not be read; the error was printed. */
typedef void printer(const data_image_info *m, const char *file, float *p, int64_t top);

static void print_json(const data_image_info *m, const char *file, float *p, int64_t top)
{
    if (!p)
        return;
    json_t *list = json_array();
    for (int64_t i = 0; i < top; i++) {
        const int64_t k = likeliest(p, m->classes);
        json_array_append_new(list, json_pack("{s:s,s:f}", "name", m->names[k], "probability", (double)p[k]));
        p[k] = -1;
    }
    json_t *object = json_pack("{s:o, s:o}", "file", json_text(file), "classes", list);
    json_dumpf(object, stdout, JSON_REAL_PRECISION(7));
    putchar('\n');
    json_decref(object);
}

/* A name on one line, whatever is in it. */
static const char *printable(const char *name, char text[RUN_PATH])
{
    snprintf(text, RUN_PATH, "%s", name);
    utf8_make_printable(text);
    return text;
}

static void print_text(const data_image_info *m, const char *file, float *p, int64_t top)
{
    char text[RUN_PATH];
    if (!p)
        return;
    printf("%s\n", printable(file, text));
    for (int64_t i = 0; i < top; i++) {
        const int64_t k = likeliest(p, m->classes);
        printf("  %6.2f%%  %s\n", 100 * (double)p[k], printable(m->names[k], text));
        p[k] = -1;
    }
}

/* One line per file, empty if unreadable: line i belongs to file i. */
static void print_name(const data_image_info *m, const char *file, float *p, int64_t top)
{
    (void)file;
    (void)top;
    char text[RUN_PATH];
    printf("%s\n", p ? printable(m->names[likeliest(p, m->classes)], text) : "");
}

/* Classifies up to a batch of files; reports unreadable ones and continues. */
static int classify(trainer *t, const char *const *files, int64_t count, int64_t top, printer *print, float *p)
{
    const data_image_info *m = data_about(trainer_about(t).data)->image;
    int64_t row[max_batch], rows = 0;
    int status = CLI_OK;
    for (int64_t i = 0; i < count; i++) {
        scion_error err;
        const bool fine = trainer_put_file(t, rows, files[i], &err) == SCION_OK;
        row[i] = fine ? rows++ : -1;
        if (!fine)
            status = cli_error(CLI_FAILED, "%s", err.message);
    }
    if (rows > 0)
        trainer_classify(t, p);
    for (int64_t i = 0; i < count; i++)
        print(m, files[i], row[i] >= 0 ? p + row[i] * m->classes : NULL, top < m->classes ? top : m->classes);
    fflush(stdout);
    return status;
}

static int run_predict(cli_arguments *a)
{
    int64_t top = 5;
    trainer *t = NULL;
    char path[RUN_PATH], size[32];
    if (!cli_get_int(a, TOP, 1, INT32_MAX, &top))
        return CLI_USAGE;
    if (a->word_count < 2)
        return cli_error(CLI_USAGE, "give the folder of a run, or a checkpoint, and image files");
    const int64_t count = a->word_count - 1, batch = count < max_batch ? count : max_batch;
    snprintf(size, sizeof size, "batch=%d", (int)batch);
    a->pairs[a->pair_count++] = size;
    int status = cli_open_run(&t, a, TRAINER_CLASSIFY, path);
    if (status != CLI_OK)
        return status;
    float *p = malloc((size_t)(batch * data_about(trainer_about(t).data)->classes) * sizeof *p);
    printer *print = a->values[JSON] ? print_json : a->values[QUIET] ? print_name : print_text;
    if (!p)
        status = cli_error(CLI_FAILED, "out of memory");
    for (int64_t i = 0; p && i < count; i += batch) {
        const int64_t some = count - i < batch ? count - i : batch;
        const int done = classify(t, a->words + 1 + i, some, top, print, p);
        status = status == CLI_OK ? done : status;
    }
    free(p);
    trainer_free(t);
    return status;
}

const cli_command cli_predict = {
    .name = "predict",
    .usage = "RUN IMAGE ... [key=value ...]",
    .summary = "classify image files with a trained model",
    .help =
        "RUN is the folder of a run (its best checkpoint is used, else the newest) or a checkpoint. Images are PNG "
        "or JPEG of any size; the model sees the middle of each, as in evaluation. The training images are not "
        "needed. threads and tta may be changed.\n\n"
        "  scion predict runs/cifar10 cat.jpg dog.png\n"
        "  scion predict runs/cifar10 *.jpg top=1 tta=translate --json\n"
        "  scion predict runs/cifar10 -- a=b.jpg           a file whose name could be a setting\n",
    .run = run_predict,
    .arguments = arguments,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_FILES,
};
