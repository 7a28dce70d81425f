/* CRC-32C (Castagnoli): the checksum of TFRecord files. */
#ifndef TRAIN_UTIL_CRC32C_H
#define TRAIN_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Bit by bit: for short records. */
uint32_t crc32c(const void *bytes, size_t count);

#endif
