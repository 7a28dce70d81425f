/* A page of figures: a self-contained HTML file, and beside it a folder with each figure as ID.svg and ID.csv, and
 * further files.
 * Works in light and dark mode, on paper and on a telephone, with and without scripts.
 *
 * Parts appear in the order in which they are added. As with figures, adding never fails: page_write reports the
 * first error. */
#ifndef TRAIN_DRAW_PAGE_H
#define TRAIN_DRAW_PAGE_H

#include "draw/figure.h"
#include "scion.h"

typedef struct page page;

/* path: the file that page_write writes. NULL: no memory. */
page *page_create(const char *path, const char *title);
void page_free(page *p);
/* Makes a page that is written again and again: it reloads itself every so many seconds, and its figures have no
 * files. To be called before anything is added. */
void page_reload(page *p, int seconds);

/* A key number, at the top of the page or of a section. Consecutive cards are side by side. */
void page_card(page *p, const char *label, const char *value, const char *note);
void page_section(page *p, const char *title);
void page_paragraph(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes over the contents of the figure. An empty one is not shown. */
void page_figure(page *p, figure f);

/* A heading inside a section, with a sentence below it; NULL: none. */
void page_heading(page *p, const char *title, const char *caption);
/* A square table of integers, cells[row * n + column], shaded by their share of the row's sum, the diagonal in
 * another colour; rows and columns have the same names. corner: label of the names. */
void page_matrix(page *p, int n, const char *const *names, const int64_t *cells, const char *corner);
/* An image, as the bytes of a PNG file (NULL: out of memory), with lines of text below; file may be NULL. Images that
 * follow each other are side by side. */
void page_image(page *p, const uint8_t *png, size_t bytes, int64_t height, int64_t width, const char *label,
                const char *value, const char *note, const char *file);

/* Begins a file in the folder of the figures, and puts a link to it on the page. The caller writes its text to the
 * stream, which the page closes. NULL: out of memory. */
FILE *page_file(page *p, const char *name);

/* A table. names: of the columns, "class|images"; align: a letter each, l, r (numbers) or w (sentences). Then
 * page_cell for each cell, row by row; a table without cells is not shown. fold: a line that opens the table when
 * clicked; NULL: the table is open. All texts are the caller's until page_table_end. */
void page_table(page *p, const char *fold, const char *names, const char *align);
void page_cell(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void page_table_end(page *p);

int page_figures(const page *p);
const figure *page_figure_at(const page *p, int i);

/* Writes the page, and the figures in the folder of the same name without .html (with .files if there is no .html, or
 * if that folder is a run's), each file atomically. Nothing can be added afterwards. */
scion_status page_write(page *p, scion_error *err);
/* That folder. */
const char *page_folder(const page *p);

#endif
