/* A place where the threads of a team (SCN_TEAM) wait for each other on their way through one piece of work. */
#ifndef TRAIN_GENERATE_TEAM_H
#define TRAIN_GENERATE_TEAM_H

#include <sched.h>
#include <stdatomic.h>

/* A place where the threads of a team wait for each other: all zeros at first. OpenMP's own lets threads sleep after
 * a few microseconds, and waking them takes longer than a token's matrices do; here they give way to others, but stay
 * awake. */
typedef struct team_meeting {
    atomic_int arrived, round;
} team_meeting;

static inline void team_meet(team_meeting *m, int threads)
{
    enum { spins = 1000 }; /* some 20 microseconds */
    if (threads < 2)
        return;
    const int round = atomic_load_explicit(&m->round, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&m->arrived, 1, memory_order_acq_rel) == threads - 1) {
        atomic_store_explicit(&m->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&m->round, round + 1, memory_order_release);
        return;
    }
    for (int i = 0; atomic_load_explicit(&m->round, memory_order_acquire) == round; i++) {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
        if (i >= spins)
            sched_yield();
    }
}

#endif
