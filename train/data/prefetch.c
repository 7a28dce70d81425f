/* See prefetch.h. Samples wait in a queue; threads decode them into a ring of slots, in which sample `number` of a
 * sequence has the place number % capacity. A sample is a pure function of its sequence and number: whether it comes
 * from the ring or from the caller's own fetch changes only the time. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "data/prefetch.h"

typedef enum slot_state { EMPTY, QUEUED, BUSY, READY } slot_state;

typedef struct slot {
    slot_state state;
    data_sequence of;
    int64_t number;
    int readers; /* threads that copy from it now; it must not be reused */
    scion_status status;
    scion_error error; /* why the fetch failed */
} slot;

struct data_pool {
    const data_set *d;
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* something was queued; something was decoded */
    bool stop;
    slot *slots;
    int64_t capacity;
    int64_t *queue, head, queued; /* a ring of waiting slots */
    char *memory;
    pthread_t *threads;
    int thread_count;
};

static size_t sample_bytes(const data_set *d)
{
    size_t bytes = 0;
    for (int i = 0; i < d->info.array_count; i++)
        bytes += (size_t)d->info.arrays[i].count * DATA_TYPE_BYTES;
    return bytes;
}

size_t data_pool_bytes(const data_pool *p)
{
    return (size_t)p->capacity * sample_bytes(p->d);
}

/* Points to the arrays in a slot's memory. */
static void arrays_of(const data_pool *p, const slot *s, void *arrays[DATA_ARRAYS])
{
    char *at = p->memory + (size_t)(s - p->slots) * sample_bytes(p->d);
    for (int i = 0; i < p->d->info.array_count; i++) {
        arrays[i] = at;
        at += p->d->info.arrays[i].count * DATA_TYPE_BYTES;
    }
}

static slot *next_in_queue(data_pool *p)
{
    slot *s = &p->slots[p->queue[p->head]];
    p->head = (p->head + 1) % p->capacity;
    p->queued--;
    return s;
}

static void *work(void *context)
{
    data_pool *p = context;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (p->queued == 0) {
            pthread_cond_wait(&p->work, &p->lock);
            continue;
        }
        slot *s = next_in_queue(p);
        if (s->state != QUEUED) /* a caller has fetched it */
            continue;
        s->state = BUSY;
        pthread_mutex_unlock(&p->lock);
        void *arrays[DATA_ARRAYS];
        arrays_of(p, s, arrays);
        s->status = data_fetch_one(p->d, s->of, s->number, arrays, &s->error);
        pthread_mutex_lock(&p->lock);
        s->state = READY;
        pthread_cond_broadcast(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

data_pool *data_pool_create(const data_set *d, int64_t ahead, int workers)
{
    data_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->d = d;
    p->capacity = 2 * ahead; /* samples in use, and the next ones */
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->slots = calloc((size_t)p->capacity, sizeof *p->slots);
    p->queue = calloc((size_t)p->capacity, sizeof *p->queue);
    p->memory = calloc((size_t)p->capacity, sample_bytes(d));
    p->threads = calloc((size_t)workers, sizeof *p->threads);
    const bool made = p->slots && p->queue && p->memory && p->threads;
    while (made && p->thread_count < workers && pthread_create(&p->threads[p->thread_count], NULL, work, p) == 0)
        p->thread_count++;
    if (p->thread_count == 0) {
        data_pool_free(p);
        return NULL;
    }
    return p;
}

void data_pool_free(data_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p->memory);
    free(p->queue);
    free(p->slots);
    free(p);
}

static bool holds(const slot *s, data_sequence of, int64_t number)
{
    return s->state != EMPTY && s->number == number && s->of.part == of.part && s->of.even == of.even &&
           s->of.plain == of.plain;
}

void data_pool_prefetch(data_pool *p, data_sequence of, int64_t first, int64_t count)
{
    pthread_mutex_lock(&p->lock);
    for (int64_t number = first; number < first + count && p->queued < p->capacity; number++) {
        slot *s = &p->slots[number % p->capacity];
        if (holds(s, of, number) || s->state == QUEUED || s->state == BUSY || s->readers > 0)
            continue;
        s->state = QUEUED;
        s->of = of;
        s->number = number;
        p->queue[(p->head + p->queued++) % p->capacity] = number % p->capacity;
    }
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

bool data_pool_take(data_pool *p, data_sequence of, int64_t number, void *const arrays[], scion_status *status,
                    scion_error *err)
{
    slot *s = &p->slots[number % p->capacity];
    bool taken = false;
    pthread_mutex_lock(&p->lock);
    while (s->state == BUSY && holds(s, of, number))
        pthread_cond_wait(&p->done, &p->lock);
    if (holds(s, of, number) && s->state == QUEUED) {
        s->state = EMPTY; /* not begun: the caller is as fast */
        while (p->queued > 0 && p->slots[p->queue[p->head]].state != QUEUED)
            next_in_queue(p);
    } else if (holds(s, of, number)) {
        s->readers++;
        pthread_mutex_unlock(&p->lock);
        void *from[DATA_ARRAYS];
        arrays_of(p, s, from);
        for (int i = 0; s->status == SCION_OK && i < p->d->info.array_count; i++)
            if (arrays[i])
                memcpy(arrays[i], from[i], (size_t)p->d->info.arrays[i].count * DATA_TYPE_BYTES);
        *status = s->status;
        if (s->status != SCION_OK && err)
            *err = s->error;
        taken = true;
        pthread_mutex_lock(&p->lock);
        s->readers--;
    }
    pthread_mutex_unlock(&p->lock);
    return taken;
}
