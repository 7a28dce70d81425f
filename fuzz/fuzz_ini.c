/* Configurations as .ini files. A file that was read, written and read again gives the same; a refused one changes
 * nothing. */
#include <string.h>

#include "fuzz_config.h"

static void write_and_read(const config *c)
{
    char *text = NULL;
    size_t bytes = 0;
    config again;
    scion_error err = {0};
    FILE *to = open_memstream(&text, &bytes);
    fuzz_require(to);
    config_write(c, to, CONFIG_CHANGED);
    fclose(to);
    config_init(&again);
    fuzz_require(config_load(&again, fuzz_file(1, text, bytes), &err) == SCION_OK);
    memcpy(again.preset, c->preset, sizeof again.preset); /* a comment in the file */
    fuzz_require_same(c, &again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    config c, before;
    scion_error err = {0};
    config_init(&c);
    before = c;
    if (config_load(&c, fuzz_file(0, data, size), &err) == SCION_OK) {
        write_and_read(&c);
        fuzz_check_config(&c);
    } else {
        fuzz_require_sentence(&err);
        fuzz_require(memcmp(&c, &before, sizeof c) == 0);
    }
    return 0;
}
