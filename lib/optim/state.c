/* Saving and loading. One walk over the optimizer serves counting, writing, checking and reading, so that
 * the four cannot disagree:
 *     magic, version, bytes, checksum of what follows
 *     rule, light, count, steps
 *     for each parameter: name, shape, rule, types; settings; counters of the bound; arrays of state
 * Loading checks all of it before it changes anything. */
#include <string.h>

#include "optim/optimizer.h"

static const char magic[8] = "SCIONST";
enum { version = 1, header_bytes = 8 + 8 + 8 + 8 };

typedef enum mode { COUNT, WRITE, CHECK, READ } mode;

typedef struct cursor {
    mode mode;
    unsigned char *to;         /* WRITE */
    const unsigned char *from; /* CHECK, READ */
    size_t at, size;
    const char *wrong; /* what does not fit, once something does not */
} cursor;

/* Room for `bytes` more? */
static bool room(cursor *c, size_t bytes)
{
    if (c->mode != COUNT && (c->wrong || bytes > c->size - c->at)) {
        if (!c->wrong)
            c->wrong = "it ends too early";
        return false;
    }
    return true;
}

/* A value that must be the same here and there. */
static void same(cursor *c, const void *value, size_t bytes, const char *what)
{
    if (!room(c, bytes))
        return;
    if (c->mode == WRITE)
        memcpy(c->to + c->at, value, bytes);
    else if (c->mode == CHECK && memcmp(c->from + c->at, value, bytes) != 0)
        c->wrong = what;
    c->at += bytes;
}

static void same_int(cursor *c, int64_t value, const char *what)
{
    same(c, &value, sizeof value, what);
}

/* A value that is saved and loaded. */
static void data(cursor *c, void *value, size_t bytes)
{
    if (!room(c, bytes))
        return;
    if (c->mode == WRITE)
        memcpy(c->to + c->at, value, bytes);
    else if (c->mode == READ)
        memcpy(value, c->from + c->at, bytes);
    c->at += bytes;
}

static void flag(cursor *c, bool *value)
{
    int64_t wide = *value;
    data(c, &wide, sizeof wide);
    *value = wide != 0;
}

static void walk_tensor(cursor *c, scn_tensor *t)
{
    size_t length = strlen(t->name);
    same_int(c, (int64_t)length, "the name of a parameter is another");
    same(c, t->name, length, "the name of a parameter is another");
    same_int(c, t->layout.rows, "its shape is another");
    same_int(c, t->layout.cols, "its shape is another");
    same_int(c, t->layout.positions, "its shape is another");
    same_int(c, t->layout.blocks, "it is split otherwise");
    same_int(c, t->id, "its rule is another");
    same_int(c, t->average != NULL, "one of the two is light");
    data(c, &t->radius, sizeof t->radius);
    data(c, &t->lr_scale, sizeof t->lr_scale);
    data(c, &t->decay, sizeof t->decay);
    data(c, &t->momentum, sizeof t->momentum);
    flag(c, &t->frozen);
    flag(c, &t->vanishing);
    data(c, &t->steps, sizeof t->steps);
    data(c, &t->start, sizeof t->start);
    data(c, &t->start_norm, sizeof t->start_norm);
    data(c, &t->pushed, sizeof t->pushed);
    if (t->average)
        data(c, t->average, scn_tensor_bytes(t, SCION_F32));
    if (t->second)
        data(c, t->second, scn_tensor_bytes(t, SCION_F32));
    if (t->before) {
        same_int(c, t->weight_type, "its weight type is another");
        data(c, t->before, scn_tensor_bytes(t, t->weight_type));
    }
}

/* Everything after the header. *tensor follows the walk, for the message. */
static void walk(cursor *c, scion_optimizer *opt, int64_t *tensor)
{
    *tensor = -1;
    same_int(c, opt->o.rule, "it was made by another rule");
    same_int(c, opt->o.light != 0, "one of the two is light");
    same_int(c, opt->count, "it has another number of parameters");
    data(c, &opt->steps, sizeof opt->steps);
    flag(c, &opt->swapped);
    for (int64_t i = 0; i < opt->count && !c->wrong; i++) {
        *tensor = i;
        walk_tensor(c, &opt->tensors[i]);
    }
}

/* Every step is one-to-one in the running value, so that no change of a single word goes unseen. */
static uint64_t checksum(const unsigned char *bytes, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

/* The walk changes nothing in the modes COUNT, WRITE and CHECK. */
static scion_optimizer *writable(const scion_optimizer *opt)
{
    return (scion_optimizer *)(uintptr_t)opt;
}

size_t scion_optimizer_save_bytes(const scion_optimizer *opt)
{
    cursor c = {.mode = COUNT};
    int64_t tensor;
    if (!opt)
        return 0;
    walk(&c, writable(opt), &tensor);
    return header_bytes + c.at;
}

scion_status scion_optimizer_save(const scion_optimizer *opt, void *buffer, size_t bytes, scion_error *err)
{
    if (!opt || !buffer)
        return scn_fail(err, SCION_EINVAL, -1, "opt or buffer is NULL");
    const size_t need = scion_optimizer_save_bytes(opt);
    if (bytes < need)
        return scn_fail(err, SCION_EINVAL, -1, "the buffer has %zu bytes, the state needs %zu", bytes, need);
    unsigned char *out = buffer;
    cursor c = {.mode = WRITE, .to = out + header_bytes, .size = need - header_bytes};
    int64_t tensor;
    walk(&c, writable(opt), &tensor);
    const uint64_t head[3] = {version, need, checksum(out + header_bytes, need - header_bytes)};
    memcpy(out, magic, sizeof magic);
    memcpy(out + sizeof magic, head, sizeof head);
    return scn_ok(err);
}

scion_status scion_optimizer_load(scion_optimizer *opt, const void *buffer, size_t bytes, scion_error *err)
{
    uint64_t head[3];
    int64_t tensor;
    const unsigned char *in = buffer;
    if (!opt || !buffer)
        return scn_fail(err, SCION_EINVAL, -1, "opt or buffer is NULL");
    if (bytes < header_bytes || memcmp(in, magic, sizeof magic) != 0)
        return scn_fail(err, SCION_ESTATE, -1, "this is not a saved optimizer state");
    memcpy(head, in + sizeof magic, sizeof head);
    if (head[0] != version)
        return scn_fail(err, SCION_ESTATE, -1, "the state has version %llu, expected %d", (unsigned long long)head[0],
                        (int)version);
    if (head[1] != bytes)
        return scn_fail(err, SCION_ESTATE, -1, "the state has %zu bytes, but says %llu: it is cut off or padded",
                        bytes, (unsigned long long)head[1]);
    if (head[2] != checksum(in + header_bytes, bytes - header_bytes))
        return scn_fail(err, SCION_ESTATE, -1, "the state is damaged: its checksum does not match");
    cursor c = {.mode = CHECK, .from = in + header_bytes, .size = bytes - header_bytes};
    walk(&c, opt, &tensor);
    if (!c.wrong && c.at != c.size)
        c.wrong = "it is longer than expected";
    if (c.wrong && tensor >= 0)
        return scn_fail(err, SCION_ESTATE, tensor, "the state does not fit at parameter %s: %s",
                        opt->tensors[tensor].name, c.wrong);
    if (c.wrong)
        return scn_fail(err, SCION_ESTATE, -1, "the state does not fit: %s", c.wrong);
    c.mode = READ;
    c.at = 0;
    walk(&c, opt, &tensor);
    return scn_ok(err);
}
