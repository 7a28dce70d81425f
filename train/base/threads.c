/* See threads.h. The functions of OpenBLAS and BLIS that are not CBLAS are weak references (under names of our own,
 * since headers differ in their const): with another CBLAS the program links as well, and leaves it alone. */
#include "base/threads.h"

#include <stdint.h>

#include "base/thread.h"

extern void openblas_threads(int threads) __asm__("openblas_set_num_threads") __attribute__((weak));
extern void blis_threads(int64_t threads) __asm__("bli_thread_set_num_threads") __attribute__((weak));

int threads_set(int n)
{
    static int at_start, present; /* to set it again is not free */
    if (!at_start)
        at_start = scn_threads(0);
    n = n > 0 ? n : at_start;
    if (n == present)
        return n;
    present = n;
#ifdef _OPENMP
    omp_set_num_threads(n);
#endif
    if (openblas_threads)
        openblas_threads(n);
    else if (blis_threads)
        blis_threads(n);
    return n;
}
