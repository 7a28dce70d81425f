/* Processes that train one model together, the ranks of a run, and what they send each other.
 *
 * A communicator is a descriptor: who we are among how many, and the functions of a kind (comm_kind) that carry bytes
 * from one rank to another. There are two kinds: comm_self.c, a rank alone, and comm_mpi.c, the only file that knows
 * MPI. What several ranks do together (broadcast, gather, agree) is written here once, on top of messages between
 * two, so that the order of every sum is ours.
 *
 * Liveness. A rank that waits says so to rank 0 from time to time. Rank 0, when it has waited for `timeout` seconds,
 * knows who was silent, says who it was and ends all ranks; the others do that after twice the time, when it must be
 * rank 0 that is silent. Who computes for longer than that is taken for dead. */
#ifndef TRAIN_COMM_COMM_H
#define TRAIN_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

/* What a message is for. Each has its own messages, and its own count of bytes. */
typedef enum comm_use { COMM_GRADIENTS, COMM_WEIGHTS, COMM_CONTROL, COMM_HEARTBEAT, COMM_USES } comm_use;

/* Between two ranks messages of one use and tag arrive in the order in which they were sent. */
enum { COMM_TAGS = 4096, COMM_HOST = 64 };

typedef struct comm comm;

typedef struct comm_kind {
    const char *name;
    /* Begin to send or to receive; `data` stays where it is until `done` says so. A request, >= 0. */
    int (*send)(comm *c, int to, comm_use use, int tag, const void *data, size_t bytes);
    int (*receive)(comm *c, int from, comm_use use, int tag, void *data, size_t bytes);
    /* Whether a request is finished; it is then free. */
    bool (*done)(comm *c, int request);
    /* Takes the next heartbeat that has arrived; -1: none has, else the rank that sent it. */
    int (*heartbeat)(comm *c);
    /* Ends every rank at once. Does not return. */
    void (*abort)(comm *c);
    void (*free)(comm *c);
} comm_kind;

struct comm {
    const comm_kind *kind;
    int rank, size;
    int local_rank, local_size;                   /* on this host */
    double timeout;                               /* seconds; 0: wait for ever */
    int64_t sent[COMM_USES], received[COMM_USES]; /* bytes */
    /* Told once, before the ranks are ended because one of them is lost; may be NULL. */
    void (*lost)(void *ctx, const char *message);
    void *lost_ctx;
    /* Of each rank: where it runs, and when it was last heard (clock_now). */
    struct comm_peer {
        char host[COMM_HOST];
        int64_t process;
        double heard;
    } * peers;
    double beat; /* when this rank last said that it waits */
    int beat_request;
    void *own; /* of the kind */
};

/* The communicator of this process: a rank alone, until comm_join. */
comm *comm_world(void);
/* Joins the ranks that mpirun or srun started with this one; nothing happens if nobody did. EINVAL: they cannot be
 * joined (the program was built without MPI, or srun was not told to speak to it). */
scion_status comm_join(scion_error *err);
/* Waits for the others and parts from them. */
void comm_leave(void);
/* Ends every rank at once with exit status 1, if there are others; else returns. */
void comm_abort(void);
/* "Open MPI 4.1.4", or "none". */
const char *comm_build(void);

/* ---- Messages ---------------------------------------------------------------------------------------------- */

int comm_send(comm *c, int to, comm_use use, int tag, const void *data, size_t bytes);
int comm_receive(comm *c, int from, comm_use use, int tag, void *data, size_t bytes);
bool comm_done(comm *c, int request);

/* Waiting, for whoever polls: begin, then once in each round of the loop. `whom`: the rank that something is expected
 * of, for the message. */
typedef struct comm_waiting {
    double waited; /* seconds; those in which this rank itself did not run count little */
    double looked; /* clock */
    int rounds;
} comm_waiting;

comm_waiting comm_wait_begin(void);
void comm_wait_more(comm *c, comm_waiting *w, int whom);
/* Until a request with `whom` is finished. */
void comm_wait(comm *c, int request, int whom);

/* ---- All ranks together ------------------------------------------------------------------------------------- */

/* Trees. Seen from `root`, a rank's number v is (rank - root) mod size, or rank xor root where the size is a power of
 * two: then the ranks of a subtree are the same whatever the root, and a sum along the tree has the same bits. At
 * level l = 0, 1, ... v with v mod 2^(l+1) = 2^l sends its part of a sum to v - 2^l. */
int comm_tree_parent(const comm *c, int root); /* -1: the root itself */
/* The rank that sends to this one at `level`, -1: none does. *more: whether there may be others above. */
int comm_tree_child(const comm *c, int root, int level, bool *more);
/* The first rank of the later of the two parts that meet where `child` sends its own to this rank. Parts that meet on
 * the way to a root have different ones, and none has 0; where the size is a power of two the root does not matter.
 * */
int comm_tree_meeting(const comm *c, int root, int child);

void comm_broadcast(comm *c, int root, void *data, size_t bytes);
/* all: size x bytes; part r becomes rank r's `mine`, on every rank. */
void comm_gather(comm *c, const void *mine, size_t bytes, void *all);
/* Adds arrays of doubles in the order of the ranks. */
scion_status comm_sum(comm *c, double *values, int64_t count, scion_error *err);
/* All ranks return the status of the lowest rank whose status is not SCION_OK, with its message; `err` may not be
 * NULL. *who, if not NULL: that rank, or -1. */
scion_status comm_agree(comm *c, scion_status status, scion_error *err, int *who);

/* ---- For kinds ---- */

/* Fills in the peers and becomes comm_world's. */
scion_status comm_install(comm *c, scion_error *err);
/* Says that a rank is lost, and ends all. */
void comm_fail(comm *c, int whom, const char *why);
/* comm_mpi.c, or comm_no_mpi.c in its place. */
scion_status comm_mpi_join(scion_error *err);
const char *comm_mpi_build(void);

#endif
