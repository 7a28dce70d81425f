/* See cpu.h. */
#include "product/cpu.h"

#include <stddef.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* Families and models as Linux lists them. Measured, or reported: Zen 4 and Zen 5 do twice as many operations in
 * bfloat16 as in float32; Cooper Lake's instruction takes twice as long as a multiply-add, which is a draw; Emerald
 * Rapids reaches about half of float32, and its neighbours have the same cores or newer ones of that line (they are
 * meant to use AMX). */
static const struct row {
    const char *vendor;
    int family, first_model, last_model;
    bool fast_pairs;
} rows[] = {
    {"AuthenticAMD", 0x19, 0x10, 0x1f, true}, /* Zen 4: Genoa, Storm Peak */
    {"AuthenticAMD", 0x19, 0x60, 0xaf, true}, /* Zen 4: Raphael, Phoenix, Bergamo, Siena */
    {"AuthenticAMD", 0x1a, 0x00, 0x2f, true}, /* Zen 5: Turin, Strix */
    {"AuthenticAMD", 0x1a, 0x40, 0x4f, true}, /* Zen 5: Granite Ridge */
    {"AuthenticAMD", 0x1a, 0x60, 0x7f, true}, /* Zen 5: Krackan, Strix Halo */
    {"GenuineIntel", 6, 0x55, 0x55, false},   /* Cooper Lake */
    {"GenuineIntel", 6, 0x8f, 0x8f, false},   /* Sapphire Rapids */
    {"GenuineIntel", 6, 0xcf, 0xcf, false},   /* Emerald Rapids */
    {"GenuineIntel", 6, 0xad, 0xae, false},   /* Granite Rapids */
};

scn_cpu scn_cpu_here(void)
{
    scn_cpu cpu = {.vendor = ""};
#ifdef __x86_64__
    unsigned a, b, c, d;
    if (__get_cpuid(0, &a, &b, &c, &d)) {
        memcpy(cpu.vendor, &b, 4);
        memcpy(cpu.vendor + 4, &d, 4);
        memcpy(cpu.vendor + 8, &c, 4);
    }
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        const int family = a >> 8 & 0xf, model = a >> 4 & 0xf;
        cpu.family = family == 0xf ? family + (int)(a >> 20 & 0xff) : family;
        cpu.model = family == 6 || family == 0xf ? model + (int)(a >> 12 & 0xf0) : model;
    }
#endif
    return cpu;
}

bool scn_cpu_fast_pairs(const scn_cpu *cpu)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].vendor, cpu->vendor) == 0 && rows[i].family == cpu->family &&
            cpu->model >= rows[i].first_model && cpu->model <= rows[i].last_model)
            return rows[i].fast_pairs;
    return false;
}

/* Between these ratios either is right. */
static const double slower = 1.05, faster = 1.3;

bool scn_cpu_table_wrong(bool fast_pairs, double pairs, double floats)
{
    return fast_pairs ? pairs < slower * floats : pairs > faster * floats;
}
