/* key=value as on the command line, one pair per line. */
#include <string.h>

#include "fuzz_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    config c, again;
    scion_error err = {0};
    bool set = true;
    config_init(&c);
    for (char *pair; set && (pair = fuzz_line(&in)) != NULL;) {
        /* A preset would read a file of this machine. */
        set = strncmp(pair, "preset=", 7) != 0 && config_set_pair(&c, pair, &err) == SCION_OK;
        free(pair);
    }
    fuzz_check_config(&c);
    if (!set)
        return 0;
    char *json = config_to_json(&c);
    if (json) { /* a value may be invalid UTF-8 */
        fuzz_require(config_from_json(&again, json, &err) == SCION_OK);
        fuzz_require_same(&c, &again);
    }
    free(json);
    return 0;
}
