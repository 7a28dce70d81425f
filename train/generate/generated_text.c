/* See generated_text.h. */
#include "generate/generated_text.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of whole characters of UTF-8: a token may end inside of one. */
static size_t whole_characters(const char *bytes, size_t length)
{
    for (size_t n = 1; n <= 3 && n <= length; n++) {
        const unsigned char c = (unsigned char)bytes[length - n];
        const size_t wanted = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (c >= 0xc0)
            return wanted > n ? length - n : length;
        if (c < 0x80)
            break;
    }
    return length;
}

/* Where the first of the stop texts begins, at `from` or later; length: none is there. */
static size_t find_stop(const generated_text *x, size_t from, const char *const *stops)
{
    size_t first = x->length;
    for (; stops && *stops; stops++) {
        const size_t n = strlen(*stops);
        for (size_t at = from; n > 0 && at + n <= x->length && at < first; at++)
            if (memcmp(x->bytes + at, *stops, n) == 0)
                first = at;
    }
    return first;
}

/* Where an ending begins that may become a stop text. */
static size_t find_beginning(const generated_text *x, const char *const *stops)
{
    size_t first = x->length;
    for (; stops && *stops; stops++) {
        const size_t n = strlen(*stops), room = x->length - x->settled;
        for (size_t k = n < room ? n : room; k > 0; k--)
            if (memcmp(x->bytes + x->length - k, *stops, k) == 0) {
                first = x->length - k < first ? x->length - k : first;
                break;
            }
    }
    return first;
}

bool generated_text_add(generated_text *x, const char *bytes, size_t n, const char *const *stops)
{
    if (x->stopped)
        return true;
    if (x->length + n + 1 > x->capacity) {
        const size_t capacity = 2 * (x->length + n + 1);
        char *more = realloc(x->bytes, capacity);
        if (!more)
            return false;
        x->bytes = more;
        x->capacity = capacity;
    }
    memcpy(x->bytes + x->length, bytes, n);
    x->length += n;
    const size_t stop = find_stop(x, x->settled, stops);
    x->stopped = stop < x->length;
    x->length = stop;
    x->bytes[x->length] = '\0';
    const size_t sure = x->stopped ? stop : find_beginning(x, stops);
    const size_t whole = x->stopped ? stop : whole_characters(x->bytes, x->length);
    const size_t settled = sure < whole ? sure : whole;
    x->settled = settled > x->settled ? settled : x->settled;
    return true;
}

void generated_text_end(generated_text *x)
{
    x->settled = x->length;
}

void generated_text_free(generated_text *x)
{
    free(x->bytes);
    *x = (generated_text){.bytes = NULL};
}
