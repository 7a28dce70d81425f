/* See fuzz_report.h. */
#include "fuzz_report.h"

#include <string.h>

#include "util/utf8.h"

/* Text that a browser or a spreadsheet takes as it stands. */
static void require_text(const char *text, size_t bytes)
{
    uint32_t code;
    for (size_t i = 0; i < bytes;) {
        const int length = utf8_decode(text + i, bytes - i, &code);
        fuzz_require(length > 0 && (code >= 0x20 || code == '\n' || code == '\t' || code == '\r') && code != 0x7f);
        i += (size_t)length;
    }
}

/* As many elements begin as end, and no name breaks out of one. */
static void require_markup(const char *text, size_t bytes)
{
    int64_t open = 0, inside = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '<') {
            fuzz_require(inside == 0);
            inside = 1;
            open += i + 1 < bytes && text[i + 1] == '/' ? -1 : i + 1 < bytes && strchr("?!", text[i + 1]) ? 0 : 1;
        } else if (text[i] == '>' && inside) {
            inside = 0;
            open -= text[i - 1] == '/';
        }
    }
    fuzz_require(inside == 0 && open == 0);
}

void fuzz_draw(const page *p)
{
    for (int i = 0; i < page_figures(p); i++)
        for (int form = 0; form < 2; form++) {
            char *text = NULL;
            size_t bytes = 0;
            FILE *to = open_memstream(&text, &bytes);
            fuzz_require(to);
            const figure *f = page_figure_at(p, i);
            if (form == 0)
                figure_svg(f, to, true);
            else
                figure_csv(f, to);
            fclose(to);
            require_text(text, bytes);
            if (form == 0)
                require_markup(text, bytes);
            free(text);
        }
}
