/* A single rank: there is no one to send messages to. */
#include "comm/comm_self.h"

#include <stdlib.h>

static int no_message(comm *c, int to, comm_use use, int tag, const void *data, size_t bytes)
{
    (void)c, (void)to, (void)use, (void)tag, (void)data, (void)bytes;
    abort(); /* no loop over other ranks has one */
}

static int no_receive(comm *c, int from, comm_use use, int tag, void *data, size_t bytes)
{
    return no_message(c, from, use, tag, data, bytes);
}

static bool done(comm *c, int request)
{
    (void)c, (void)request;
    return true;
}

static int no_heartbeat(comm *c)
{
    (void)c;
    return -1;
}

static void stay(comm *c)
{
    (void)c;
}

static const comm_kind kind = {
    .name = "self",
    .send = no_message,
    .receive = no_receive,
    .done = done,
    .heartbeat = no_heartbeat,
    .abort = stay,
    .free = stay,
};

comm *comm_self(void)
{
    static comm self = {.kind = &kind, .size = 1, .local_size = 1, .beat_request = -1};
    return &self;
}
