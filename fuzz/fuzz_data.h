/* Opens and reads data sets, for the harnesses of data. */
#ifndef FUZZ_FUZZ_DATA_H
#define FUZZ_FUZZ_DATA_H

#include "data/data.h"
#include "fuzz.h"

/* Options of a kind with small blocks. */
data_options fuzz_data_options(const char *kind, const char *path);
/* NULL: it was refused, with a sentence. */
data_set *fuzz_data_open(const data_options *o, data_vocabulary vocabulary);
/* Reads a few batches of both parts: tokens are in their range, pixels are finite. */
void fuzz_data_read(const data_set *d);

#endif
