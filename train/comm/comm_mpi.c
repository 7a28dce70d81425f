/* Ranks by MPI: the only file that includes mpi.h. It uses only nonblocking messages between two ranks (MPI 1):
 * sums, trees and agreements are comm.c's. MPI_Wait is never called: it takes a whole core while it waits, and does
 * not return if the other rank is gone. */
#define _GNU_SOURCE 1 /* setenv */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/fail.h"
#include "comm/comm.h"
#include "comm/watchdog.h"

typedef struct slot {
    MPI_Request request;
    int next; /* free one, -1: none */
} slot;

typedef struct world {
    MPI_Comm all;
    slot *slots;
    int capacity, first_free;
} world;

enum { initial_capacity = 256 };

/* Makes space for more requests. There is no way to return an error in the middle of a step: out of memory ends the
 * run. */
static void grow(comm *c)
{
    world *w = c->own;
    const int more = w->capacity > 0 ? 2 * w->capacity : initial_capacity;
    slot *slots = realloc(w->slots, (size_t)more * sizeof *slots);
    if (!slots) {
        comm_fail(c, c->rank, "has no memory for its messages");
        abort();
    }
    w->slots = slots;
    for (int i = w->capacity; i < more; i++)
        slots[i] = (slot){MPI_REQUEST_NULL, i + 1 < more ? i + 1 : w->first_free};
    w->first_free = w->capacity;
    w->capacity = more;
}

static int take_request(comm *c)
{
    world *w = c->own;
    if (w->first_free < 0)
        grow(c);
    const int r = w->first_free;
    w->first_free = w->slots[r].next;
    return r;
}

static int tag_of(comm_use use, int tag)
{
    return (int)use * COMM_TAGS + tag % COMM_TAGS;
}

static int send_to(comm *c, int to, comm_use use, int tag, const void *data, size_t bytes)
{
    const int r = take_request(c);
    world *w = c->own;
    if (MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag_of(use, tag), w->all, &w->slots[r].request) != MPI_SUCCESS)
        comm_fail(c, to, "cannot be reached");
    return r;
}

static int receive_from(comm *c, int from, comm_use use, int tag, void *data, size_t bytes)
{
    const int r = take_request(c);
    world *w = c->own;
    if (MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag_of(use, tag), w->all, &w->slots[r].request) != MPI_SUCCESS)
        comm_fail(c, from, "cannot be reached");
    return r;
}

static bool done(comm *c, int request)
{
    world *w = c->own;
    int finished = 0;
    MPI_Status status;
    if (MPI_Test(&w->slots[request].request, &finished, &status) != MPI_SUCCESS)
        comm_fail(c, status.MPI_SOURCE, "is gone");
    if (!finished)
        return false;
    w->slots[request].next = w->first_free;
    w->first_free = request;
    return true;
}

static int heartbeat(comm *c)
{
    world *w = c->own;
    int there = 0;
    char byte;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag_of(COMM_HEARTBEAT, 0), w->all, &there, &status) != MPI_SUCCESS || !there)
        return -1;
    MPI_Recv(&byte, 1, MPI_BYTE, status.MPI_SOURCE, tag_of(COMM_HEARTBEAT, 0), w->all, MPI_STATUS_IGNORE);
    return status.MPI_SOURCE;
}

static void end_all(comm *c)
{
    const world *w = c->own;
    MPI_Abort(w->all, 1);
}

static void leave(comm *c)
{
    world *w = c->own;
    MPI_Comm_free(&w->all);
    MPI_Finalize();
    free(w->slots);
    free(w);
}

static const comm_kind kind = {
    .send = send_to,
    .receive = receive_from,
    .done = done,
    .heartbeat = heartbeat,
    .abort = end_all,
    .free = leave,
};

/* Ranks on this host. */
static void count_local(comm *c)
{
    MPI_Comm local;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &local);
    MPI_Comm_size(local, &c->local_size);
    MPI_Comm_free(&local);
}

/* Lets Open MPI send messages of up to 2 MB over TCP at once. By default it asks the receiver before it sends more
 * than 64 KB. Question and answer queue behind the data that goes the same way: the two directions of a link then
 * take turns, and an exchange takes twice as long (bench/hosts). A user's own setting is kept. */
static void send_at_once(void)
{
    static const char limit[] = "2101248"; /* bytes: 2 MB and a header */
    setenv("OMPI_MCA_btl_tcp_eager_limit", limit, 0);
    setenv("OMPI_MCA_btl_tcp_max_send_size", limit, 0);
}

scion_status comm_mpi_join(comm *c, scion_error *err)
{
    world *w = calloc(1, sizeof *w);
    int level;
    send_at_once();
    comm_watch(c, "MPI_Init");
    if (!w || MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        watchdog_stop();
        free(w);
        free(c);
        return train_fail(err, SCION_ENOMEM, "MPI could not be started");
    }
    c->kind = &kind;
    c->own = w;
    w->first_free = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &w->all);
    MPI_Comm_set_errhandler(w->all, MPI_ERRORS_RETURN);
    MPI_Comm_rank(w->all, &c->rank);
    MPI_Comm_size(w->all, &c->size);
    count_local(c);
    watchdog_stop();
    return comm_install(c, err);
}

/* "Open MPI v4.1.4, package: ..." up to the first comma, or "MPICH Version: 4.0.2" up to its line's end. */
const char *comm_build(void)
{
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = '\0';
    for (char *tab; (tab = strchr(name, '\t')) != NULL;)
        *tab = ' ';
    return name;
}
