/* See baseline.h. */
#include "run/baseline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One word key=value of a record. */
static bool holds(const char *word, const config *c, const data_info *data)
{
    config other = *c;
    char key[OPTION_NAME], hash[32];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(word, "="), word);
    if (strcmp(key, "data") == 0) {
        snprintf(hash, sizeof hash, "data=%016" PRIx64, data->hash);
        return strcmp(hash, word) == 0 && !c->data.val[0];
    }
    const config_option *o = config_find(key);
    if (!o || config_set_pair(&other, word, NULL) != SCION_OK)
        return false;
    return config_same(c, &other, o) == (strcmp(key, "rule") != 0);
}

double baseline_for(const config *c, const data_info *data)
{
    char words[CONFIG_TEXT], *rest = NULL;
    bool same = c->run.baseline > 0 && c->run.baseline_of[0];
    snprintf(words, sizeof words, "%s", c->run.baseline_of);
    for (char *word = strtok_r(words, " ", &rest); same && word; word = strtok_r(NULL, " ", &rest))
        same = holds(word, c, data);
    return same ? c->run.baseline : NAN;
}
