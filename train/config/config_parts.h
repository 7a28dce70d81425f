/* What the files of the configuration share. */
#ifndef TRAIN_CONFIG_CONFIG_PARTS_H
#define TRAIN_CONFIG_CONFIG_PARTS_H

#include "config/config.h"

/* `depth` counts the presets that led here: a circle of them ends in an error. */
scion_status config_load_at(config *c, const char *path, int depth, scion_error *err);
/* `beside`: the file that names the preset, whose folder is looked in first, or NULL. */
scion_status config_preset_at(config *c, const char *name, const char *beside, int depth, scion_error *err);
/* All options at their origins. */
void config_init_origins(config *c);
/* The key of an option that the chosen model does not have and that is not at its default, or NULL; `owner`: the models
 * that have it. */
const char *config_foreign_option(const config *c, char *owner, size_t bytes);

#endif
