/* Options that were renamed. An entry stays for ever, since files do. A test may bring a table of its own. */
#include "config/config.h"

const config_alias config_aliases[] = {
    {NULL, NULL},
};
