/* Folders of CIFAR-10. Pixels are nothing that a reader looks at, so the input says of each of the six files how many
 * records it has (0 to 3; 7: there is no such file), how many bytes more or less, and the labels. */
#include <string.h>

#include "fuzz_data.h"

enum { record = 3073, max_records = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[max_records * record + 128];
    fuzz_input in = {data, size};
    for (int i = 0; i < 6; i++) {
        char name[32];
        const int said = fuzz_byte(&in) % 8, records = said % (max_records + 1);
        const int more = (int8_t)fuzz_byte(&in);
        const int bytes = records * record + more;
        for (int k = 0; k < records; k++)
            file[k * record] = fuzz_byte(&in);
        snprintf(name, sizeof name, i < 5 ? "data_batch_%d.bin" : "test_batch.bin", i + 1);
        fuzz_put(name, said < 7 ? file : NULL, bytes > 0 ? (size_t)bytes : 0);
    }
    const data_options o = fuzz_data_options("cifar10", fuzz_folder());
    data_set *d = fuzz_data_open(&o, (data_vocabulary){.kind = NULL});
    if (d)
        fuzz_data_read(d);
    data_close(d);
    return 0;
}
