/* Token shards. First byte: 0, the rest is a file; 1, the 1020 bytes of a header that say nothing are left out: 12
 * bytes of it, then tokens; 2, the same twice, with half of the rest each, for training and for validation. */
#include <string.h>

#include "fuzz_data.h"

enum { header = 1024, said = 12 };

static const char *shard(int slot, const uint8_t *data, size_t size)
{
    const size_t head = size < said ? size : said;
    uint8_t *file = calloc(1, header + size);
    fuzz_require(file);
    if (size > 0) {
        memcpy(file, data, head);
        memcpy(file + header, data + head, size - head);
    }
    const char *path = fuzz_file(slot, file, header + (size - head));
    free(file);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const int form = fuzz_byte(&in) % 3;
    const size_t half = form == 2 ? in.left / 2 : in.left;
    data_options o = fuzz_data_options("tokens", form == 0 ? fuzz_file(0, in.at, in.left) : shard(0, in.at, half));
    if (form == 2)
        snprintf(o.val, sizeof o.val, "%s", shard(1, in.at + half, in.left - half));
    o.vocab = size % 2 ? 300 : 0;
    data_set *d = fuzz_data_open(&o, (data_vocabulary){.kind = NULL});
    if (d)
        fuzz_data_read(d);
    data_close(d);
    return 0;
}
