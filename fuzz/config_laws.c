/* See fuzz_config.h. */
#include "fuzz_config.h"

void fuzz_require_same(const config *a, const config *b)
{
    const config_option *o;
    for (int i = 0; (o = config_option_at(i)) != NULL; i++)
        fuzz_require(config_same(a, b, o));
}

void fuzz_check_config(const config *c)
{
    scion_error err = {0};
    scion_options o;
    int32_t norm[3];
    if (config_check(c, &err) != SCION_OK)
        fuzz_require_sentence(&err);
    else
        fuzz_require(config_optimizer(c, &o, &err) == SCION_OK && config_norms(c, norm, &err) == SCION_OK);
}
