/* See sinks.h. */
#include "run/sinks.h"

scion_status sinks_open(run_sink sinks[SINKS_MAX], int *count, const run_dir *dir, const config *c, scion_error *err)
{
    for (*count = 0; *count < SINKS_MAX && sink_rows[*count].name; ++*count) {
        sinks[*count] = (run_sink){.ctx = NULL};
        const scion_status status = sink_rows[*count].open(&sinks[*count], dir, c, err);
        if (status != SCION_OK) {
            sinks_close(sinks, *count);
            *count = 0;
            return status;
        }
    }
    return SCION_OK;
}

void sinks_close(run_sink sinks[SINKS_MAX], int count)
{
    for (int i = 0; i < count; i++)
        if (sinks[i].ctx)
            sink_rows[i].close(&sinks[i]);
}
