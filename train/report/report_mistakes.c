/* Mistakes of a classifier: the confusion matrix, or for many classes the most confused pairs and the worst classes;
 * its numbers as CSV; and the images whose class it thought least likely. */
#include <stdlib.h>
#include <string.h>

#include "data/image_file.h"
#include "report/section.h"

enum {
    max_matrix = 20, /* classes of a matrix that can still be read */
    max_rows = 20    /* rows of the tables in its place */
};

static double share_of(int64_t part, int64_t all)
{
    return all > 0 ? 100 * (double)part / (double)all : 0;
}

static void draw_matrix(page *p, const mistakes *m)
{
    const char *names[max_matrix];
    int64_t cells[max_matrix * max_matrix] = {0};
    const int n = (int)m->class_count;
    for (int i = 0; i < n; i++) {
        names[i] = m->classes[i].name;
        cells[i * n + i] = m->classes[i].right;
    }
    for (int64_t i = 0; i < m->pair_count; i++)
        cells[m->pairs[i].target * n + m->pairs[i].answer] = m->pairs[i].images;
    page_heading(p, "Confusion matrix", "Rows: true class. Columns: predicted class.");
    page_matrix(p, n, names, cells, "class \\ answer");
}

static void draw_pairs(page *p, const mistakes *m)
{
    page_heading(p, "Most confused classes", "How many images of one class were taken for another one.");
    page_table(p, NULL, "class|taken for|images|of its class", "llrr");
    for (int64_t i = 0; i < m->pair_count && i < max_rows; i++) {
        const mistakes_pair *pair = &m->pairs[i];
        page_cell(p, "%s", m->classes[pair->target].name);
        page_cell(p, "%s", m->classes[pair->answer].name);
        page_cell(p, "%lld", (long long)pair->images);
        page_cell(p, "%.1f %%", share_of(pair->images, m->classes[pair->target].images));
    }
    page_table_end(p);
}

static int worse_known(const void *a, const void *b)
{
    const mistakes_class *x = *(const mistakes_class *const *)a, *y = *(const mistakes_class *const *)b;
    const double p = share_of(x->right, x->images), q = share_of(y->right, y->images);
    return p != q ? (p > q) - (p < q) : (x > y) - (x < y);
}

static void draw_classes(page *p, const mistakes *m)
{
    const mistakes_class **order = malloc((size_t)m->class_count * sizeof *order);
    int64_t count = 0;
    for (int64_t i = 0; order && i < m->class_count; i++)
        if (m->classes[i].images > 0)
            order[count++] = &m->classes[i];
    if (order)
        qsort(order, (size_t)count, sizeof *order, worse_known);
    page_heading(p, "Classes known worst", NULL);
    page_table(p, NULL, "class|right|of images|accuracy", "lrrr");
    for (int64_t i = 0; i < count && i < max_rows; i++) {
        page_cell(p, "%s", order[i]->name);
        page_cell(p, "%lld", (long long)order[i]->right);
        page_cell(p, "%lld", (long long)order[i]->images);
        page_cell(p, "%.1f %%", share_of(order[i]->right, order[i]->images));
    }
    page_table_end(p);
    free(order);
}

static void draw_worst(page *p, const mistakes *m)
{
    page_heading(
        p, "Images it gets most wrong",
        "Wrong answers to images whose class was thought least likely, the highest loss first: class, answer and its "
        "probability, and the file, if each image is one, as a path in the folder of the data.");
    for (int i = 0; i < m->worst_count; i++) {
        const mistakes_image *w = &m->worst[i];
        char label[160], answer[160], value[200], note[96], loss[MARKUP_NUMBER];
        markup_shorten(m->classes[w->target].name, 24, label, sizeof label);
        markup_shorten(m->classes[w->answer].name, 24, answer, sizeof answer);
        snprintf(value, sizeof value, "taken for %s, %.1f %%", answer, 100 * w->probability);
        snprintf(note, sizeof note, "loss %s", markup_fixed(w->loss, 2, loss));
        uint8_t *png = NULL;
        size_t bytes = 0;
        image_encode_png(w->pixels, m->height, m->width, m->channels, &png, &bytes, NULL); /* on failure NULL */
        page_image(p, png, bytes, m->height, m->width, label, value, note, w->file);
        free(png);
    }
}

/* All answers that the run kept (mistakes.h) as a file: class,answer,images for each pair of classes that has any. */
static void write_confusion(page *p, const char *prefix, const mistakes *m)
{
    char name[REPORT_ID];
    snprintf(name, sizeof name, "%sconfusion.csv", prefix);
    FILE *to = page_file(p, name);
    if (!to)
        return;
    fputs("class,answer,images\n", to);
    for (int64_t i = 0; i < m->class_count + m->pair_count; i++) {
        const bool right = i < m->class_count;
        const mistakes_pair pair = right ? (mistakes_pair){i, i, m->classes[i].right} : m->pairs[i - m->class_count];
        if (pair.images == 0)
            continue;
        markup_csv(to, m->classes[pair.target].name);
        fputs(",", to);
        markup_csv(to, m->classes[pair.answer].name);
        fprintf(to, ",%lld\n", (long long)pair.images);
    }
}

void report_mistakes(page *p, const char *prefix, const mistakes *m)
{
    const mistakes_class all = m ? mistakes_total(m) : (mistakes_class){.images = 0};
    if (all.images == 0)
        return;
    if (m->class_count <= max_matrix)
        draw_matrix(p, m);
    else if (m->pair_count > 0) {
        draw_pairs(p, m);
        draw_classes(p, m);
    }
    write_confusion(p, prefix, m);
    page_paragraph(p, "After step %lld%s%s%s%s: %lld of %lld images right, %.2f %%.", (long long)m->step,
                   m->part[0] ? ", " : "", m->part, strcmp(m->tta, "none") != 0 ? ", with tta=" : "",
                   strcmp(m->tta, "none") != 0 ? m->tta : "", all.right, all.images, share_of(all.right, all.images));
    if (m->worst_count > 0)
        draw_worst(p, m);
}
