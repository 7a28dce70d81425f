/* Lists and ranges of a sweep, one pair per line. Every point of a grid is a configuration that can be checked. */
#include <string.h>

#include "fuzz_config.h"
#include "sweep/grid.h"

enum { max_pairs = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    char *pairs[max_pairs];
    int count = 0;
    config base;
    grid g;
    scion_error err = {0};
    while (count < max_pairs && (pairs[count] = fuzz_line(&in)) != NULL)
        count++;
    config_init(&base);
    if (grid_make(&g, &base, (const char *const *)pairs, count, &err) == SCION_OK) {
        fuzz_require(g.count >= 1 && g.count <= GRID_MAX);
        const config_option *naming[8];
        char label[200];
        const int named = grid_naming(g.points, sizeof *g.points, g.count, NULL, naming, 8);
        grid_label(&g.points[g.count - 1], naming, named, label, sizeof label);
        fuzz_check_config(&g.points[g.count - 1]);
    } else {
        fuzz_require_sentence(&err);
    }
    grid_free(&g);
    for (int i = 0; i < count; i++)
        free(pairs[i]);
    return 0;
}
