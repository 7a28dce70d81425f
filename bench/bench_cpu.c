/* bench_cpu.c - the name of the CPU, for the report. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

const char *bench_cpu_name(void)
{
    static char name[160] = "unknown";
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(name, sizeof name, "%.150s", strchr(line, ':') + 2);
            name[strcspn(name, "\n")] = 0;
            break;
        }
    }
    if (f)
        fclose(f);
    return name;
}
