/* The table of kinds of data, in the order in which "auto" asks them. A file of its own, so that
 * tests can link another table. */
#include "data/data_kind.h"

extern const data_kind data_kind_synthetic, data_kind_idx, data_kind_cifar10, data_kind_folder, data_kind_tokens,
    data_kind_text;

const data_kind *const data_kinds[] = {&data_kind_idx,
                                       &data_kind_cifar10,
                                       &data_kind_folder,
                                       &data_kind_tokens,
                                       &data_kind_text,
                                       &data_kind_synthetic,
                                       NULL};
