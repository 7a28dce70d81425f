/* CIFAR-10. */
#ifndef TRAIN_DATA_CIFAR10_H
#define TRAIN_DATA_CIFAR10_H

#include "scion.h"

/* Writes data_batch_1.bin to data_batch_5.bin and test_batch.bin to the folder `to`, from data_batch_1.png ...,
 * test_batch.png, train_lables.json and test_lables.json in the folder `from`. */
scion_status cifar10_from_png(const char *from, const char *to, scion_error *err);

#endif
