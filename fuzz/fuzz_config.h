/* Laws of configurations that the harnesses of .ini files, pairs and JSON share. */
#ifndef FUZZ_FUZZ_CONFIG_H
#define FUZZ_FUZZ_CONFIG_H

#include "config/config.h"
#include "fuzz.h"

/* Every option is the same in both. */
void fuzz_require_same(const config *a, const config *b);
/* What was read can be checked, which may refuse it with a sentence, and given to the library. */
void fuzz_check_config(const config *c);

#endif
