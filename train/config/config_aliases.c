/* Options that were renamed or removed. A row stays for ever, since files do. A test may bring its own table. */
#include "config/config.h"

const config_alias config_aliases[] = {
    {"baseline", NULL}, /* 0.2: a recorded loss to compare with; scion report compares runs */
    {"baseline_of", NULL},
    {NULL, NULL},
};
