/* Folders of idx files, gzipped or not (zlib looks at the bytes, not at the name): four files, each behind two
 * bytes of its length, the images and labels for training, and those for validation; an empty one is not there. */
#include <string.h>

#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    fuzz_input in = {data, size};
    for (int i = 0; i < 4; i++) {
        const size_t low = fuzz_byte(&in), length = low + 256 * (size_t)fuzz_byte(&in);
        const size_t taken = length < in.left ? length : in.left;
        fuzz_put(names[i], taken > 0 ? in.at : NULL, taken);
        in.at = taken > 0 ? in.at + taken : in.at;
        in.left -= taken;
    }
    const data_options o = fuzz_data_options("idx", fuzz_folder());
    data_set *d = fuzz_data_open(&o, (data_vocabulary){.kind = NULL});
    if (d)
        fuzz_data_read(d);
    data_close(d);
    return 0;
}
