/* GGUF files. What opens is read to its last value and its last byte: names are texts, tensors lie in the file,
 * arrays have as many items as they say. */
#include <string.h>

#include "fuzz.h"
#include "record/gguf.h"

static volatile unsigned sink;

static void read_value(const gguf_value *v)
{
    size_t at = 0;
    fuzz_require(v->type < GGUF_TYPES);
    if (v->type == GGUF_STRING || v->type == GGUF_ARRAY)
        for (size_t i = 0; i < v->bytes; i++)
            sink += (unsigned char)v->text[i];
    for (uint64_t i = 0; v->type == GGUF_ARRAY && i < v->whole; i++) {
        const gguf_value item = gguf_item(v, i, &at);
        fuzz_require(item.type == v->items && item.type != GGUF_ARRAY);
        read_value(&item);
    }
}

static void read_tensor(const gguf *g, const gguf_tensor *t)
{
    fuzz_require(t->name && t->ndim >= 0 && t->ndim <= 4 && t->count >= 0);
    fuzz_require(t->offset <= g->size - g->data && t->bytes <= g->size - g->data - t->offset);
    for (size_t i = 0; i < t->bytes; i++)
        sink += (unsigned char)g->mapped[g->data + t->offset + i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf *g;
    scion_error err = {0};
    if (gguf_open(&g, fuzz_file(0, data, size), &err) != SCION_OK) {
        fuzz_require(!g);
        fuzz_require_sentence(&err);
        for (const char *s = err.message; *s; s++) /* names in the file are printed */
            fuzz_require((unsigned char)*s >= 0x20 && *s != 0x7f);
        return 0;
    }
    for (int64_t i = 0; i < g->pair_count; i++) {
        read_value(&g->pairs[i].value);
        fuzz_require(gguf_find(g, g->pairs[i].key) == &g->pairs[i].value);
    }
    for (int64_t i = 0; i < g->tensor_count; i++)
        read_tensor(g, &g->tensors[i]);
    gguf_close(g);
    return 0;
}
