/* See watchdog.h. */
#include "comm/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

/* The clock is read in rounds, so many of them in a limit, none longer than a second. */
static const double rounds = 8, longest_round = 1;

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool running, stop;
    double limit;
    void (*expired)(void *ctx);
    void *ctx;
} dog = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *watch(void *unused)
{
    const double round = fmin(dog.limit / rounds, longest_round);
    double waited = 0, checked = clock_now();
    (void)unused;
    pthread_mutex_lock(&dog.lock);
    while (!dog.stop && waited < dog.limit) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        const double at = (double)until.tv_nsec * 1e-9 + round;
        until.tv_sec += (time_t)at;
        until.tv_nsec = (long)((at - floor(at)) * 1e9);
        pthread_cond_timedwait(&dog.stopped, &dog.lock, &until);
        const double now = clock_now();
        waited += fmin(now - checked, 2 * round); /* a longer one: this process was stopped, or had no core */
        checked = now;
    }
    if (!dog.stop) {
        dog.expired(dog.ctx);
        _exit(1);
    }
    pthread_mutex_unlock(&dog.lock);
    return NULL;
}

void watchdog_start(double seconds, void (*expired)(void *ctx), void *ctx)
{
    pthread_condattr_t attributes;
    if (seconds <= 0 || dog.running)
        return;
    dog.stop = false;
    dog.limit = seconds;
    dog.expired = expired;
    dog.ctx = ctx;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&dog.stopped, &attributes);
    pthread_condattr_destroy(&attributes);
    dog.running = pthread_create(&dog.thread, NULL, watch, NULL) == 0;
}

void watchdog_stop(void)
{
    if (!dog.running)
        return;
    pthread_mutex_lock(&dog.lock);
    dog.stop = true;
    pthread_cond_signal(&dog.stopped);
    pthread_mutex_unlock(&dog.lock);
    pthread_join(dog.thread, NULL);
    pthread_cond_destroy(&dog.stopped);
    dog.running = false;
}
