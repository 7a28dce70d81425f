/* scion predict: the classes of image files, by a trained model. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "data/paths.h"
#include "record/run_dir.h"
#include "util/array.h"
#include "util/file.h"
#include "util/utf8.h"

enum { TOP, JSON, QUIET };

static const cli_argument arguments[] = {
    [TOP] = {"top", "N", "classes to print, the likeliest first (5)", .also = "top_k topk k n num_classes"},
    [JSON] = CLI_SWITCH("--json", "print one JSON object per image"),
    [QUIET] = CLI_SWITCH("--quiet", "print the likeliest class alone"),
    {0},
};

enum { max_batch = 32 };

/* ---- Files --------------------------------------------------------------------------------------------------- */

typedef struct input {
    char *path;
    bool in_folder; /* found in a folder, whose name may be its class */
} input;

typedef struct inputs {
    input *files;
    int64_t count;
    bool folders; /* some of the words are folders */
} inputs;

static void free_inputs(inputs *in)
{
    for (int64_t i = 0; i < in->count; i++)
        free(in->files[i].path);
    free(in->files);
}

static int add_input(inputs *in, const char *path, bool in_folder)
{
    char *copy = strdup(path);
    input *to = copy ? array_append(&in->files, &in->count, sizeof *to) : NULL;
    if (!to) {
        free(copy);
        return cli_error(CLI_FAILED, "out of memory");
    }
    to->path = copy;
    to->in_folder = in_folder;
    return CLI_OK;
}

/* Adds all images in a folder and its folders, in the order of their paths. */
static int add_folder(inputs *in, const char *folder)
{
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/", *end = "", *other = "";
    data_names files = {NULL, 0};
    scion_error err;
    int64_t images = 0, unread = 0;
    int status = cli_end(data_list(folder, "", NULL, &files, NULL, &err), &err);
    data_sort_names(&files);
    for (int64_t i = 0; status == CLI_OK && i < files.count; i++) {
        char path[data_path_bytes];
        const data_file_kind kind = data_kind_of_file(files.name[i], &end);
        images += kind == DATA_IMAGE;
        unread += kind == DATA_OTHER_IMAGE;
        other = kind == DATA_OTHER_IMAGE ? end : other;
        if (kind == DATA_IMAGE)
            status = data_path(path, "%s%s%s", folder, slash, files.name[i])
                         ? add_input(in, path, true)
                         : cli_error(CLI_FAILED, "%s: the path of a file in it is too long", folder);
    }
    if (status == CLI_OK && images == 0)
        status = cli_error(CLI_FAILED, "%s: no PNG or JPEG images in it", folder);
    if (status == CLI_OK && unread > 0) {
        data_fail(&err, SCION_EINVAL, folder, "%lld image%s in formats that are not read, such as %s",
                  (long long)unread, cli_plural(unread), other);
        cli_warning(err.message);
    }
    data_free_names(&files);
    in->folders = true;
    return status;
}

static int add_words(inputs *in, const cli_arguments *a)
{
    int status = CLI_OK;
    for (int i = 1; status == CLI_OK && i < a->word_count; i++)
        status = file_is_folder(a->words[i]) ? add_folder(in, a->words[i]) : add_input(in, a->words[i], false);
    return status;
}

/* Class that the innermost folder of this kind names; -1: none. */
static int64_t class_of_folder(const data_image_info *m, const input *f)
{
    for (const char *end = f->in_folder ? strrchr(f->path, '/') : NULL; end && end > f->path;) {
        const char *start = end;
        while (start > f->path && start[-1] != '/')
            start--;
        for (int64_t k = 0; k < m->classes; k++)
            if (strlen(m->names[k]) == (size_t)(end - start) &&
                strncmp(m->names[k], start, (size_t)(end - start)) == 0)
                return k;
        end = start > f->path ? start - 1 : NULL;
    }
    return -1;
}

/* ---- Printing ------------------------------------------------------------------------------------------------ */

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
typedef void printer(const data_image_info *m, const input *f, float *p, int64_t top);

static void print_json(const data_image_info *m, const input *f, float *p, int64_t top)
{
    if (!p)
        return;
    json_t *list = json_array();
    for (int64_t i = 0; i < top; i++) {
        const int64_t k = likeliest(p, m->classes);
        json_array_append_new(list, json_pack("{s:s,s:f}", "name", m->names[k], "probability", (double)p[k]));
        p[k] = -1;
    }
    const int64_t class = class_of_folder(m, f);
    json_t *object = json_pack("{s:o, s:s*, s:o}", "file", json_text(f->path), "folder_class",
                               class >= 0 ? m->names[class] : NULL, "classes", list);
    json_dumpf(object, stdout, JSON_REAL_PRECISION(7));
    putchar('\n');
    json_decref(object);
}

static void print_text(const data_image_info *m, const input *f, float *p, int64_t top)
{
    if (!p)
        return;
    cli_print(stdout, "%s\n", f->path);
    for (int64_t i = 0; i < top; i++) {
        const int64_t k = likeliest(p, m->classes);
        cli_print(stdout, "  %6.2f%%  %s\n", 100 * (double)p[k], m->names[k]);
        p[k] = -1;
    }
}

/* One line per file, empty if unreadable: line i belongs to file i. */
static void print_name(const data_image_info *m, const input *f, float *p, int64_t top)
{
    (void)f;
    (void)top;
    cli_print(stdout, "%s\n", p ? m->names[likeliest(p, m->classes)] : "");
}

/* Counts over all images. */
typedef struct tally {
    int64_t *answers;     /* of each class */
    int64_t named, right; /* images whose folder names a class, and those with that answer */
    int64_t images;
} tally;

/* Prints "12 images: 7 cat, 5 dog", and how many answers the names of the folders agree with. */
static void print_tally(const data_image_info *m, const tally *n)
{
    enum { listed = 10 };
    char line[1024] = "";
    int64_t rest = n->images;
    for (int i = 0; i < listed && rest > 0; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < m->classes; k++)
            best = n->answers[k] > n->answers[best] ? k : best;
        utf8_append(line, sizeof line, "%s %lld %.60s", i > 0 ? "," : "", (long long)n->answers[best],
                    m->names[best]);
        rest -= n->answers[best];
        n->answers[best] = 0;
    }
    if (rest > 0)
        utf8_append(line, sizeof line, ", %lld of other classes", (long long)rest);
    cli_fill(stdout, 2, "%lld image%s:%s", (long long)n->images, cli_plural(n->images), line);
    if (n->named > 0)
        printf("%lld of %lld have the class that their folder names: %.2f%%\n", (long long)n->right,
               (long long)n->named, 100 * (double)n->right / (double)n->named);
}

/* Classifies up to a batch of files; reports unreadable ones and continues. */
static int classify(trainer *t, const input *files, int64_t count, int64_t top, printer *print, float *p, tally *n)
{
    const data_image_info *m = data_about(trainer_about(t).data)->image;
    int64_t row[max_batch], rows = 0;
    int status = CLI_OK;
    for (int64_t i = 0; i < count; i++) {
        scion_error err;
        const bool fine = trainer_put_file(t, rows, files[i].path, &err) == SCION_OK;
        row[i] = fine ? rows++ : -1;
        if (!fine)
            status = cli_error(CLI_FAILED, "%s", err.message);
    }
    if (rows > 0)
        trainer_classify(t, p);
    for (int64_t i = 0; i < count; i++)
        if (row[i] >= 0 && isnan(p[row[i] * m->classes])) {
            status = cli_error(CLI_FAILED, "%s: the model's output is not finite: it is of no use", files[i].path);
            row[i] = -1;
        }
    for (int64_t i = 0; i < count; i++) {
        float *own = row[i] >= 0 ? p + row[i] * m->classes : NULL;
        const int64_t class = class_of_folder(m, &files[i]), answer = own ? likeliest(own, m->classes) : -1;
        if (own) {
            n->images++;
            n->answers[answer]++;
            n->named += class >= 0;
            n->right += class == answer;
        }
        print(m, &files[i], own, top < m->classes ? top : m->classes);
    }
    fflush(stdout);
    return status;
}

static int predict(cli_arguments *a, const inputs *in, int64_t top)
{
    const int64_t batch = in->count < max_batch ? in->count : max_batch;
    trainer *t = NULL;
    char path[RUN_PATH], size[32];
    snprintf(size, sizeof size, "batch=%d", (int)batch);
    a->pairs[a->pair_count++] = size;
    int status = cli_open_run(&t, a, TRAINER_CLASSIFY, path);
    if (status != CLI_OK)
        return status;
    const int64_t classes = data_about(trainer_about(t).data)->classes;
    tally n = {.answers = calloc((size_t)classes, sizeof *n.answers)};
    float *p = malloc((size_t)(batch * classes) * sizeof *p);
    printer *print = a->values[JSON] ? print_json : a->values[QUIET] ? print_name : print_text;
    const bool fine = p && n.answers;
    if (!fine)
        status = cli_error(CLI_FAILED, "out of memory");
    for (int64_t i = 0; fine && i < in->count; i += batch) {
        const int64_t some = in->count - i < batch ? in->count - i : batch;
        const int done = classify(t, in->files + i, some, top, print, p, &n);
        status = status == CLI_OK ? done : status;
    }
    if (fine && in->folders && print == print_text)
        print_tally(data_about(trainer_about(t).data)->image, &n);
    free(p);
    free(n.answers);
    trainer_free(t);
    return status;
}

static int run_predict(cli_arguments *a)
{
    int64_t top = 5;
    inputs in = {.count = 0};
    if (!cli_get_int(a, TOP, 1, INT32_MAX, &top))
        return CLI_USAGE;
    if (a->word_count < 2)
        return cli_error(CLI_USAGE, "give the folder of a run, or a checkpoint, and image files");
    int status = add_words(&in, a);
    if (status == CLI_OK)
        status = predict(a, &in, top);
    free_inputs(&in);
    return status;
}

const cli_command cli_predict = {
    .name = "predict",
    .usage = "RUN IMAGE|FOLDER ... [key=value ...]",
    .summary = "classify image files with a trained model",
    .help =
        "RUN is the folder of a run (its best checkpoint is used, else the newest) or a checkpoint. Images are PNG "
        "or JPEG of any size, turned upright as their EXIF data say; the model sees the middle of each, as in "
        "evaluation. A folder stands for all images in it and in its folders, and a summary follows: how many images "
        "of each class, and, where a folder has the name of a class, how many have that class. The training images "
        "are not needed. threads and tta may be changed.\n\n"
        "  scion predict runs/cifar10 cat.jpg dog.png\n"
        "  scion predict runs/cifar10 photos top=1\n"
        "  scion predict runs/cifar10 *.jpg top=1 tta=translate --json\n"
        "  scion predict runs/cifar10 -- a=b.jpg           a file whose name could be a setting\n",
    .run = run_predict,
    .arguments = arguments,
    .options = CLI_EVAL_OPTIONS,
    .words = CLI_FILES,
};
