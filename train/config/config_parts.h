/* What the files of the configuration share. */
#ifndef TRAIN_CONFIG_CONFIG_PARTS_H
#define TRAIN_CONFIG_CONFIG_PARTS_H

#include "config/config.h"

/* Row of a key, or NULL. */
const config_option *config_find(const char *key);

/* Whether an option has the same value in both. */
bool config_same(const config *a, const config *b, const config_option *o);

/* Letters that must be put in, left out, changed or exchanged with their neighbour to make b of a, whatever their
 * case. */
int config_distance(const char *a, const char *b);

/* `depth` counts the presets that led here: a circle of them ends in an error. */
scion_status config_load_at(config *c, const char *path, int depth, scion_error *err);
/* `beside`: the file that names the preset, whose folder is looked in first, or NULL. */
scion_status config_preset_at(config *c, const char *name, const char *beside, int depth, scion_error *err);

#endif
