/* See threads.h. */
#include "util/threads.h"

#include <stdlib.h>

#include "base/thread.h"

/* A waiting thread spins for about 10 microseconds, then sleeps. To wake it costs as much (in a virtual
 * machine more), and the loops of a step follow each other faster than that; libgomp's own choice, milliseconds,
 * would take the core from other programs: a second one on the machine cost a factor of four. libgomp reads its
 * variables when the program is loaded. It is linked into the program (cmake/program.cmake), and this runs before it
 * does. A user who sets one of the variables decides for himself. */
__attribute__((constructor(101))) static void choose_waiting(void)
{
    if (!getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT"))
        setenv("GOMP_SPINCOUNT", "1000", 1);
}

static int at_start; /* default number of threads; 0: not known yet */

void threads_share(int n)
{
    if (getenv("OMP_NUM_THREADS"))
        return;
    at_start = n;
    threads_set(n);
}

int threads_set(int n)
{
    if (!at_start)
        at_start = scn_threads(0);
    n = n > 0 ? n : at_start;
#ifdef _OPENMP
    if (omp_get_max_threads() != n)
        omp_set_num_threads(n);
#endif
    return n;
}
