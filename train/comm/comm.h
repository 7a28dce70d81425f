/* The ranks of a run, processes that train one model together, and their messages.
 *
 * A communicator has this process's rank, the number of ranks, and the functions of a kind (comm_kind) that carry
 * bytes from one rank to another: MPI's (comm_mpi.c, the only file that uses it). A single rank has none. Collective
 * operations (broadcast, gather, agree) are written here once, on top of messages between two ranks, which fixes the
 * order of every sum.
 *
 * Liveness. A waiting rank sends heartbeats to rank 0. When rank 0 has waited for `timeout` seconds, it names the
 * silent rank and ends all ranks; the others do so after twice that time, when only rank 0 can be silent. A rank that
 * computes for longer than that without waiting is taken for dead. While ranks join and leave each other, inside MPI,
 * a watchdog of each has the same times, and cannot name the silent rank. */
#ifndef TRAIN_COMM_COMM_H
#define TRAIN_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scion.h"

/* Purpose of a message. Messages of different uses do not mix, and their bytes are counted apart. */
typedef enum comm_use { COMM_GRADIENTS, COMM_WEIGHTS, COMM_CONTROL, COMM_HEARTBEAT, COMM_USES } comm_use;

/* Messages of one use and tag between two ranks arrive in the order in which they were sent. */
enum { COMM_TAGS = 4096, COMM_HOST = 64 };

typedef struct comm comm;

typedef struct comm_kind {
    /* Begin to send or to receive; return a request, >= 0. `data` must stay valid until it is done. */
    int (*send)(comm *c, int to, comm_use use, int tag, const void *data, size_t bytes);
    int (*receive)(comm *c, int from, comm_use use, int tag, void *data, size_t bytes);
    /* True if a request is finished; it is then free. */
    bool (*done)(comm *c, int request);
    /* Takes the next heartbeat that has arrived and returns its sender; -1: none. */
    int (*heartbeat)(comm *c);
    /* Ends every rank at once. Does not return. */
    void (*abort)(comm *c);
    /* Waits for the other ranks and frees what the kind has. */
    void (*free)(comm *c);
} comm_kind;

struct comm {
    const comm_kind *kind;
    int rank, size;
    int local_size;          /* on this host */
    double timeout;          /* seconds; 0: wait for ever */
    int64_t sent[COMM_USES]; /* bytes */
    /* Called once before all ranks are ended because one of them is lost. */
    void (*lost)(const comm *c, const char *message);
    const void *lost_ctx; /* for it; NULL: not known yet */
    /* Host and process of each rank, and the time of its last heartbeat (clock_now). */
    struct comm_peer {
        char host[COMM_HOST];
        int64_t process;
        double heard;
    } * peers;
    double beat;       /* time of this rank's last heartbeat */
    char expired[256]; /* message of the watchdog */
    int beat_request;
    char *failed; /* comm_agree's space: one byte of each rank */
    void *own;    /* the kind's data */
};

/* A single rank. */
comm *comm_self(void);
/* The communicator of this process: a single rank until comm_join. */
comm *comm_world(void);
/* Joins the ranks that mpirun or srun started with this one; does nothing without them. timeout and lost: see struct
 * comm; they hold while ranks join, too. EINVAL: they cannot be joined (the program was built without MPI, or srun
 * without --mpi). */
scion_status comm_join(double timeout, void (*lost)(const comm *c, const char *message), scion_error *err);
/* Waits for the other ranks, then leaves them. */
void comm_leave(void);
/* "Open MPI 4.1.4", or "none" (comm_no_mpi.c). */
const char *comm_build(void);

/* ---- Messages ---------------------------------------------------------------------------------------------- */

int comm_send(comm *c, int to, comm_use use, int tag, const void *data, size_t bytes);
int comm_receive(comm *c, int from, comm_use use, int tag, void *data, size_t bytes);
bool comm_done(comm *c, int request);

/* For loops that poll: begin, then call comm_wait_more once per round. `peer`: the rank that a message is expected
 * from, for the error. */
typedef struct comm_waiting {
    double waited;  /* seconds; time in which this rank itself did not run counts little */
    double checked; /* clock */
    int rounds;
} comm_waiting;

comm_waiting comm_wait_begin(void);
void comm_wait_more(comm *c, comm_waiting *w, int peer);
/* Waits until a request with `peer` is finished. */
void comm_wait(comm *c, int request, int peer);

/* ---- All ranks together ------------------------------------------------------------------------------------- */

/* Trees. Relative to `root`, a rank's number v is (rank - root) mod size, or rank xor root where the size is a power
 * of two: subtrees then have the same ranks for every root, and a sum along the tree has the same bits. At level l =
 * 0, 1, ... v with v mod 2^(l+1) = 2^l sends its part of a sum to v - 2^l. */
int comm_tree_parent(const comm *c, int root); /* -1: the root itself */
/* The rank that sends to this one at `level`, -1: none. *more: true if there may be others at higher levels. */
int comm_tree_child(const comm *c, int root, int level, bool *more);
/* First rank of the later of the two parts that meet where `child` sends its part to this rank. It identifies the
 * meeting: all meetings on the way to a root differ, and none is 0. It does not depend on the root where the size is
 * a power of two. */
int comm_tree_merge(const comm *c, int root, int child);

void comm_broadcast(comm *c, int root, void *data, size_t bytes);
/* all: size x bytes; part r becomes rank r's `mine`, on every rank. */
void comm_gather(comm *c, const void *mine, size_t bytes, void *all);
/* Adds arrays of doubles in the order of the ranks. */
scion_status comm_sum(comm *c, double *values, int64_t count, scion_error *err);
/* All ranks return the status of the lowest rank whose status is not SCION_OK, with its message. *who, if not NULL:
 * that rank, or -1. */
scion_status comm_agree(comm *c, scion_status status, scion_error *err, int *who);

/* ---- For kinds ---- */

/* Fills in the peers and makes c the communicator of comm_world. It takes c, whose memory is malloc's. */
scion_status comm_install(comm *c, scion_error *err);
/* Watches over calls in which this process waits for others and can send nothing, up to watchdog_stop. `inside` names
 * them in the message. */
void comm_watch(comm *c, const char *inside);
/* Reports a lost rank and ends all ranks. */
void comm_fail(comm *c, int peer, const char *why);
/* comm_mpi.c, or comm_no_mpi.c in its place. */
scion_status comm_mpi_join(comm *c, scion_error *err);

#endif
