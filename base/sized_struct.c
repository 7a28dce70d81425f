/* See sized_struct.h. */
#include "base/sized_struct.h"

#include <string.h>

scion_status scn_struct_take(void *ours, size_t our_size, const void *theirs, size_t min, const char *what,
                             int64_t param, scion_error *err)
{
    size_t size;
    memcpy(&size, theirs, sizeof size);
    if (size < min)
        return scn_fail(err, SCION_EINVAL, param, "%s: size is %zu, expected %zu (its _init macro sets it)", what,
                        size, our_size);
    memcpy(ours, theirs, size < our_size ? size : our_size);
    memcpy(ours, &our_size, sizeof our_size);
    for (size_t i = our_size; i < size; i++)
        if (((const unsigned char *)theirs)[i] != 0)
            return scn_fail(err, SCION_EINVAL, param,
                            "%s: a member is set that version %s of the library does not know (byte %zu of %zu)",
                            what, scion_version(), i, size);
    return SCION_OK;
}

void scn_struct_give(void *theirs, size_t size, const void *ours, size_t our_size)
{
    if (!theirs || size < sizeof size)
        return;
    memset(theirs, 0, size);
    memcpy(theirs, ours, size < our_size ? size : our_size);
    memcpy(theirs, &size, sizeof size);
}
