/* Configurations as JSON, from checkpoints, summaries and ledgers. */
#include <string.h>

#include "fuzz_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    config c, again, before;
    scion_error err = {0};
    char *text = malloc(size + 1);
    fuzz_require(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    config_init(&c);
    before = c;
    if (config_from_json(&c, text, &err) == SCION_OK) {
        char *json = config_to_json(&c);
        fuzz_require(json); /* jansson lets only UTF-8 in */
        fuzz_require(config_from_json(&again, json, &err) == SCION_OK);
        fuzz_require_same(&c, &again);
        free(json);
        fuzz_check_config(&c);
    } else {
        fuzz_require_sentence(&err);
        fuzz_require(memcmp(&c, &before, sizeof c) == 0);
    }
    free(text);
    return 0;
}
