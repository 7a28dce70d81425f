/* Replaces comm_mpi.c in a program built without MPI (SCION_MPI=OFF, or MPI was not found). */
#include <stdlib.h>

#include "util/fail.h"
#include "comm/comm.h"

scion_status comm_mpi_join(comm *c, scion_error *err)
{
    free(c);
    return train_fail(err, SCION_EINVAL,
                      "this program was built without MPI and cannot train on several ranks: install libopenmpi-dev "
                      "and build it again (scion version tells)");
}

const char *comm_build(void)
{
    return "none";
}
