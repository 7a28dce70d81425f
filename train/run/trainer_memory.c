/* What a run will take, and whether the machine has it. See trainer.h. */
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "run/trainer_parts.h"

/* Share of the machine's memory that a run may plan to use. */
static const double memory_share = 0.95;

/* The number in a file of the kernel's; 0: there is none ("max" is no limit). */
static size_t limit_in(const char *path)
{
    unsigned long long bytes = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    if (fscanf(f, "%llu", &bytes) != 1)
        bytes = 0;
    fclose(f);
    return (size_t)bytes;
}

/* What the machine has, or less, where a container's limit is lower. 0: unknown. */
static size_t usable_memory(void)
{
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    size_t bytes = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
    for (int i = 0; i < 2; i++) {
        const size_t limit = limit_in(limits[i]);
        if (limit > 0 && (bytes == 0 || limit < bytes))
            bytes = limit;
    }
    return bytes;
}

/* What the run will take. The optimizer's share is an upper estimate until it exists. */
static void plan_memory(const trainer *t, trainer_memory *m)
{
    const size_t floats = (size_t)t->elements * sizeof(float);
    const int rule = scion_find(SCION_NAMES_RULE, t->c.optimizer.rule);
    const size_t copies = rule == SCION_RULE_ADAMW || rule == SCION_RULE_MUON || rule == SCION_RULE_MARS ? 2 : 1;
    *m = (trainer_memory){
        .weights = floats,
        .gradients = floats * (rule == SCION_RULE_MARS ? 2 : 1),
        .state = t->c.optimizer.light ? 0 : copies * floats,
        .activations = tape_plan_bytes(t->train.tape, t->train.loss, TAPE_TRAIN, t->threads),
        .evaluation = tape_plan_bytes(t->eval.tape, t->eval.loss, TAPE_INFER, t->threads),
        .machine = usable_memory(),
    };
    m->total = m->weights + m->gradients + m->state + m->activations + m->evaluation;
}

static scion_status check_plan(const trainer_memory *m, scion_error *err)
{
    const double gb = 1e9, activations = (double)m->activations + (double)m->evaluation;
    /* In double: a plan that cannot be made counts as SIZE_MAX bytes. */
    const double total = (double)m->weights + (double)m->gradients + (double)m->state + activations;
    if (m->machine == 0 || total <= memory_share * (double)m->machine)
        return SCION_OK;
    return train_fail(
        err, SCION_ENOMEM,
        "the run needs %.3g GB (weights %.3g, gradients %.3g, optimizer %.3g, activations %.3g) and this "
        "machine has %.3g: take a smaller model or batch, light=1 or recompute=1",
        total / gb, (double)m->weights / gb, (double)m->gradients / gb, (double)m->state / gb, activations / gb,
        (double)m->machine / gb);
}

scion_status trainer_check_memory(const trainer *t, trainer_memory *m, scion_error *err)
{
    plan_memory(t, m);
    return check_plan(m, err);
}
