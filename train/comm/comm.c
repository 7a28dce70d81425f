/* See comm.h. */
#define _GNU_SOURCE 1 /* gethostname */
#include "comm/comm.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/fail.h"
#include "comm/launcher.h"
#include "comm/watchdog.h"

static comm *world; /* NULL: comm_self's */

/* No loop over other ranks has one, so that a single rank sends no message and needs no kind. */
comm *comm_self(void)
{
    static comm self = {.size = 1, .local_size = 1, .beat_request = -1};
    return &self;
}

comm *comm_world(void)
{
    return world ? world : comm_self();
}

scion_status comm_join(double timeout, void (*lost)(const comm *c, const char *message), scion_error *err)
{
    const launcher l = launcher_find();
    if (!l.name || (l.size == 1 && !l.mpi))
        return SCION_OK;
    if (!l.mpi)
        return train_fail(err, SCION_EINVAL,
                          "srun started %d processes that cannot find each other: give it --mpi=pmix or --mpi=pmi2 "
                          "(srun --mpi=list), or use mpirun",
                          l.size);
    comm *c = calloc(1, sizeof *c);
    if (!c)
        return train_fail(err, SCION_ENOMEM, "out of memory for %d ranks", l.size);
    *c = (comm){.rank = l.rank, .size = l.size, .timeout = timeout, .lost = lost, .beat_request = -1};
    return comm_mpi_join(c, err);
}

/* ---- Messages ---------------------------------------------------------------------------------------------- */

int comm_send(comm *c, int to, comm_use use, int tag, const void *data, size_t bytes)
{
    c->sent[use] += (int64_t)bytes;
    return c->kind->send(c, to, use, tag, data, bytes);
}

int comm_receive(comm *c, int from, comm_use use, int tag, void *data, size_t bytes)
{
    return c->kind->receive(c, from, use, tag, data, bytes);
}

bool comm_done(comm *c, int request)
{
    return c->kind->done(c, request);
}

/* ---- Waiting and liveness ---------------------------------------------------------------------------------- */

/* A waiting rank polls: it yields for the first rounds, which costs a microsecond each, then sleeps, so that ranks
 * which share a core do not take it from each other. Clocks are read every few rounds. */
enum { yield_rounds = 200, check_rounds = 64 };
static const long sleep_ns = 50000;
/* Heartbeats per timeout, and the part of it after which a rank counts as silent. */
static const double heartbeats = 8, silence = 0.5;

static const char heartbeat_byte = 1;

void comm_fail(comm *c, int peer, const char *why)
{
    char name[COMM_HOST + 64] = "a rank", message[512];
    if (peer >= 0 && peer < c->size)
        snprintf(name, sizeof name, "rank %d", peer);
    if (peer >= 0 && peer < c->size && c->peers[peer].process > 0)
        snprintf(name, sizeof name, "rank %d (process %lld on %s)", peer, (long long)c->peers[peer].process,
                 c->peers[peer].host);
    snprintf(message, sizeof message, "%s %s; all ranks end", name, why);
    c->lost(c, message);
    c->kind->abort(c);
}

/* Ends all ranks; names the first that rank 0 has not heard from, or `peer`. */
static void give_up(comm *c, double waited, int peer)
{
    char why[96];
    const double now = clock_now();
    snprintf(why, sizeof why, "has not answered for %.0f s (comm_timeout=%g)", waited, c->timeout);
    for (int r = 1; c->rank == 0 && r < c->size; r++) {
        if (now - c->peers[r].heard < silence * c->timeout)
            continue;
        comm_fail(c, r, why);
        return;
    }
    comm_fail(c, c->rank == 0 ? peer : 0, why);
}

static void take_heartbeats(comm *c, double now)
{
    for (int r; (r = c->kind->heartbeat(c)) >= 0;)
        c->peers[r].heard = now;
}

/* Seconds after which a rank gives up. */
static double limit_of(const comm *c)
{
    return c->rank == 0 ? c->timeout : 2 * c->timeout;
}

static void tell_expired(void *ctx)
{
    const comm *c = ctx;
    c->lost(c, c->expired);
}

void comm_watch(comm *c, const char *inside)
{
    snprintf(c->expired, sizeof c->expired,
             "%s has not returned for %g s (comm_timeout=%g): another rank is stopped, or its host does not answer; "
             "all ranks end",
             inside, limit_of(c), c->timeout);
    watchdog_start(limit_of(c), tell_expired, c);
}

static void watch(comm *c, comm_waiting *w, int peer)
{
    const double now = clock_now();
    if (c->timeout <= 0)
        return;
    /* Time in which this process itself did not run is not counted. */
    w->waited += fmin(now - w->checked, c->timeout / heartbeats);
    w->checked = now;
    if (c->rank == 0)
        take_heartbeats(c, now);
    if (c->beat_request >= 0 && c->kind->done(c, c->beat_request))
        c->beat_request = -1;
    if (c->rank != 0 && c->beat_request < 0 && now - c->beat > c->timeout / heartbeats) {
        c->beat_request = c->kind->send(c, 0, COMM_HEARTBEAT, 0, &heartbeat_byte, 1);
        c->beat = now;
    }
    if (w->waited > limit_of(c))
        give_up(c, w->waited, peer);
}

comm_waiting comm_wait_begin(void)
{
    return (comm_waiting){.checked = clock_now()};
}

void comm_wait_more(comm *c, comm_waiting *w, int peer)
{
    w->rounds++;
    if (w->rounds < yield_rounds) {
        sched_yield();
        return;
    }
    if (w->rounds % check_rounds == 0)
        watch(c, w, peer);
    nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
}

void comm_wait(comm *c, int request, int peer)
{
    comm_waiting w = comm_wait_begin();
    while (!comm_done(c, request))
        comm_wait_more(c, &w, peer);
}

/* ---- Trees ------------------------------------------------------------------------------------------------- */

static bool power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* Number of a rank relative to the root, and back. */
static int seen(const comm *c, int root, int rank)
{
    return power_of_two(c->size) ? rank ^ root : (rank - root + c->size) % c->size;
}

static int rank_of(const comm *c, int root, int v)
{
    return power_of_two(c->size) ? v ^ root : (v + root) % c->size;
}

int comm_tree_parent(const comm *c, int root)
{
    const int v = seen(c, root, c->rank);
    return v == 0 ? -1 : rank_of(c, root, v & (v - 1));
}

int comm_tree_child(const comm *c, int root, int level, bool *more)
{
    const int v = seen(c, root, c->rank), step = level < 30 ? 1 << level : 0;
    *more = step > 0 && step < c->size && (v & step) == 0;
    return *more && v + step < c->size ? rank_of(c, root, v + step) : -1;
}

int comm_tree_merge(const comm *c, int root, int child)
{
    const int later = child > c->rank ? child : c->rank;
    return power_of_two(c->size) ? later & ~((child ^ c->rank) - 1) : seen(c, root, child);
}

/* ---- All ranks together ------------------------------------------------------------------------------------- */

/* MPI counts bytes in an int. */
enum { piece_bytes = 1 << 30 };

static void pass(comm *c, int to, int from, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += piece_bytes) {
        const size_t n = bytes - at < piece_bytes ? bytes - at : piece_bytes;
        if (to >= 0)
            comm_wait(c, comm_send(c, to, COMM_CONTROL, 0, (char *)data + at, n), to);
        else
            comm_wait(c, comm_receive(c, from, COMM_CONTROL, 0, (char *)data + at, n), from);
    }
}

void comm_broadcast(comm *c, int root, void *data, size_t bytes)
{
    bool more = true;
    int levels = 0;
    if (comm_tree_parent(c, root) >= 0)
        pass(c, -1, comm_tree_parent(c, root), data, bytes);
    for (comm_tree_child(c, root, 0, &more); more; comm_tree_child(c, root, levels, &more))
        levels++;
    while (levels-- > 0) {
        const int child = comm_tree_child(c, root, levels, &more);
        if (child >= 0)
            pass(c, child, -1, data, bytes);
    }
}

/* Gathers up the tree of rank 0, where a subtree is a range of ranks that begins with its root. */
void comm_gather(comm *c, const void *mine, size_t bytes, void *all)
{
    char *to = all;
    memcpy(to + (size_t)c->rank * bytes, mine, bytes);
    for (int step = 1; step < c->size; step *= 2) {
        const int first = c->rank & step ? c->rank : c->rank + step;
        const int count = c->size - first < step ? c->size - first : step;
        if (c->rank & step) {
            pass(c, c->rank - step, -1, to + (size_t)first * bytes, (size_t)count * bytes);
            break;
        }
        if (first < c->size)
            pass(c, -1, first, to + (size_t)first * bytes, (size_t)count * bytes);
    }
    comm_broadcast(c, 0, all, (size_t)c->size * bytes);
}

scion_status comm_sum(comm *c, double *values, int64_t count, scion_error *err)
{
    if (c->size == 1 || count == 0)
        return SCION_OK;
    double *all = malloc((size_t)count * (size_t)c->size * sizeof *all);
    if (!all)
        return train_fail(err, SCION_ENOMEM, "out of memory for sums over %d ranks", c->size);
    comm_gather(c, values, (size_t)count * sizeof *all, all);
    memset(values, 0, (size_t)count * sizeof *values);
    for (int64_t r = 0; r < c->size; r++)
        for (int64_t i = 0; i < count; i++)
            values[i] += all[r * count + i];
    free(all);
    return SCION_OK;
}

scion_status comm_agree(comm *c, scion_status status, scion_error *err, int *who)
{
    const char failed = status != SCION_OK;
    int first = failed ? 0 : 1;
    scion_error own = {.message = ""};
    err = err ? err : &own;
    if (c->size > 1) {
        comm_gather(c, &failed, 1, c->failed);
        for (first = 0; first < c->size && !c->failed[first];)
            first++;
    }
    if (who)
        *who = first < c->size ? first : -1;
    if (c->size == 1 || first == c->size)
        return status;
    if (first == c->rank)
        err->status = (int32_t)status;
    comm_broadcast(c, first, err, sizeof *err);
    return (scion_status)err->status;
}

/* ---- Beginning and end -------------------------------------------------------------------------------------- */

scion_status comm_install(comm *c, scion_error *err)
{
    struct comm_peer own = {.process = (int64_t)getpid()};
    gethostname(own.host, sizeof own.host - 1);
    c->peers = calloc((size_t)c->size, sizeof *c->peers);
    c->failed = calloc((size_t)c->size, 1);
    world = c;
    if (!c->peers || !c->failed)
        return train_fail(err, SCION_ENOMEM, "out of memory for %d ranks", c->size);
    for (int r = 0; r < c->size; r++)
        c->peers[r].heard = clock_now();
    comm_gather(c, &own, sizeof own, c->peers);
    for (int r = 0; r < c->size; r++)
        c->peers[r].heard = clock_now();
    return SCION_OK;
}

void comm_leave(void)
{
    comm *c = world;
    const char none = 0;
    if (!c)
        return;
    /* After two barriers no message is under way, not even a heartbeat. */
    if (c->beat_request >= 0)
        comm_wait(c, c->beat_request, 0);
    c->beat_request = -1;
    const double timeout = c->timeout;
    comm_gather(c, &none, 1, c->failed);
    comm_watch(c, "MPI_Finalize");
    c->timeout = 0;
    comm_broadcast(c, 0, c->failed, 1);
    if (timeout > 0 && c->rank == 0)
        take_heartbeats(c, clock_now());
    world = NULL;
    c->kind->free(c);
    watchdog_stop();
    free(c->peers);
    free(c->failed);
    free(c);
}
