/* See crc32c.h. */
#include "util/crc32c.h"

uint32_t crc32c(const void *bytes, size_t count)
{
    static const uint32_t polynomial = 0x82f63b78; /* of Castagnoli, its bits reversed */
    const uint8_t *b = bytes;
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < count; i++) {
        crc ^= b[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}
