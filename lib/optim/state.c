/* Saving and loading. One walk over the optimizer serves counting, writing, checking and reading, so that
 * the four cannot disagree:
 *     magic, version, bytes, checksum of what follows
 *     record: rule, light, count, steps, swapped, arrays present
 *     for each parameter
 *         record: name, shape, rule; settings; counters of the bound
 *         number of arrays, and for each: name (version 2: its number), type, first entry, entries, data
 * A record begins with its length, so that members can be added at its end: values that a shorter (older) one lacks
 * stay as they are, those that a longer (newer) one has beyond ours must be zero. Loading checks everything before it
 * changes anything, values too: the checksum finds damage, not hostile writers. */
#include <float.h>
#include <string.h>

#include "base/arith.h"
#include "linalg/vector.h"
#include "optim/optimizer.h"

static const char magic[8] = "SCIONST";
enum { version = 3, oldest_version = 2, header_bytes = 8 + 8 + 8 + 8 };

typedef enum mode { COUNT, WRITE, CHECK, READ } mode;

typedef struct cursor {
    mode mode;
    unsigned char *to;         /* WRITE */
    const unsigned char *from; /* CHECK, READ */
    size_t at, size;
    uint64_t version;  /* of the state that is read */
    size_t record;     /* where the record began, or its end when reading */
    bool in_record;    /* between begin and end */
    bool optional;     /* values that older records lack */
    bool skip_arrays;  /* SCION_WITHOUT_ARRAYS */
    const char *error; /* what does not fit; NULL: all does so far */
    bool value;        /* `error` names the values that were expected */
    const char *array; /* that `error` is about, or NULL */
} cursor;

/* ---- Values ---- */

/* True if there are `bytes` more. An optional value stays as it is if its record ends before. */
static bool has(cursor *c, size_t bytes)
{
    if (c->mode == COUNT)
        return true;
    if (c->error)
        return false;
    if (c->mode != WRITE && c->in_record && bytes > c->record - c->at) {
        c->at = c->record;
        c->error = c->optional ? NULL : "it ends too early";
        return false;
    }
    if (bytes > c->size - c->at) {
        c->error = "it ends too early";
        return false;
    }
    return true;
}

/* Goes past the next `bytes`: writes them, or returns where they are to be read; NULL: nothing is read. */
static const unsigned char *pass(cursor *c, const void *value, size_t bytes)
{
    if (!has(c, bytes))
        return NULL;
    if (c->mode == WRITE)
        memcpy(c->to + c->at, value, bytes);
    c->at += bytes;
    return c->mode == CHECK || c->mode == READ ? c->from + c->at - bytes : NULL;
}

/* A value that must be the same here and there. */
static void same(cursor *c, const void *value, size_t bytes, const char *what)
{
    const unsigned char *from = pass(c, value, bytes);
    if (from && memcmp(from, value, bytes) != 0)
        c->error = what;
}

static void same_int(cursor *c, int64_t value, const char *what)
{
    same(c, &value, sizeof value, what);
}

/* A value that is saved and loaded. */
static void data(cursor *c, void *value, size_t bytes)
{
    const unsigned char *from = pass(c, value, bytes);
    if (from && c->mode == READ)
        memcpy(value, from, bytes);
}

static void out_of_range(cursor *c, const char *expected)
{
    c->error = expected;
    c->value = true;
}

/* Copies the value that comes next, without taking it; false where values are not checked. */
static bool peek(cursor *c, void *copy, size_t bytes)
{
    if (c->mode != CHECK || !has(c, bytes))
        return false;
    memcpy(copy, c->from + c->at, bytes);
    return true;
}

/* A setting, which must be one that scion_optimizer_set takes. */
static void setting(cursor *c, const scn_tensor *t, int32_t what, double *value)
{
    double seen;
    if (peek(c, &seen, sizeof seen)) {
        const char *expected = scn_setting_expected(t, what, seen);
        if (expected)
            out_of_range(c, expected);
    }
    data(c, value, sizeof *value);
}

/* A momentum that a step was given, or 0. */
static void given_momentum(cursor *c, double *value)
{
    double seen;
    if (peek(c, &seen, sizeof seen) && !(seen >= 0 && seen <= 1))
        out_of_range(c, "a momentum of the next step from 0 to 1");
    data(c, value, sizeof *value);
}

/* A number of steps, to which more can be added. */
static void counter(cursor *c, int64_t *value)
{
    int64_t seen;
    if (peek(c, &seen, sizeof seen) && (seen < 0 || seen > INT64_MAX / 2))
        out_of_range(c, "a number of steps from 0 to 2^62");
    data(c, value, sizeof *value);
}

static void flag(cursor *c, bool *value)
{
    int64_t wide = *value, seen;
    if (peek(c, &seen, sizeof seen) && seen != 0 && seen != 1)
        out_of_range(c, "a flag of 0 or 1");
    data(c, &wide, sizeof wide);
    *value = wide != 0;
}

/* A number that steers the walk: written from value, read into it in both passes. */
static void number(cursor *c, int64_t *value)
{
    const unsigned char *from = pass(c, value, sizeof *value);
    if (from)
        memcpy(value, from, sizeof *value);
}

/* ---- Records ---- */

static void begin_record(cursor *c)
{
    int64_t length = 0;
    c->record = c->at;
    number(c, &length);
    if (c->mode == COUNT || c->mode == WRITE || c->error)
        return;
    if (length < 0 || (uint64_t)length > c->size - c->at) {
        c->error = "it ends too early";
        return;
    }
    c->record = c->at + (size_t)length;
    c->in_record = true;
    c->optional = false;
}

static void end_record(cursor *c)
{
    if (c->mode == WRITE) {
        const int64_t length = (int64_t)(c->at - c->record - sizeof length);
        memcpy(c->to + c->record, &length, sizeof length);
    }
    c->in_record = false;
    if (c->mode == COUNT || c->mode == WRITE || c->error)
        return;
    for (; c->at < c->record; c->at++)
        if (c->from[c->at] != 0)
            c->error = "a newer version saved more than this one knows";
}

/* ---- Arrays ---- */

/* True if n entries that may lie at any address are finite. */
static bool all_finite(const unsigned char *from, int type, int64_t n)
{
    uint16_t halves[512];
    float values[512];
    for (int64_t first = 0; first < n; first += 512) {
        const int64_t count = scn_min(n - first, 512);
        const unsigned char *at = from + scn_stored_bytes(type, first);
        memcpy(type == SCION_BF16 ? (void *)halves : (void *)values, at, scn_stored_bytes(type, count));
        if (type == SCION_BF16 ? !scn_all_finite_bf16(count, halves) : !(scn_largest(count, values) <= FLT_MAX))
            return false;
    }
    return true;
}

/* Entries first to first + count of array a, of which this caller owns a part. */
static void array_data(cursor *c, const scion_array *a, int64_t first, int64_t count)
{
    const unsigned char *from = pass(c, a->data, scn_stored_bytes(a->type, count));
    if (!from || !a->data || c->skip_arrays)
        return;
    if (a->first < first || a->first + a->count > first + count) {
        c->error = "entries that are owned here are missing";
        return;
    }
    from += scn_stored_bytes(a->type, a->first - first);
    if (c->mode == READ) {
        memcpy(a->data, from, scn_stored_bytes(a->type, a->count));
    } else if (!all_finite(from, a->type, a->count)) {
        c->array = a->name;
        c->error = " holds NaN or Inf";
    }
}

static void write_name(cursor *c, const char *name)
{
    int64_t length = (int64_t)strlen(name);
    number(c, &length);
    pass(c, name, (size_t)length);
}

/* Reads an array's name; the state of the rule that it means, or -1. */
static int read_name(cursor *c, const scn_tensor *t)
{
    static const char *const numbered[] = {"average", "second", "previous"}; /* in version 2 */
    int64_t length = 0;
    const char *name;
    number(c, &length);
    if (c->error || length < 0)
        return -1;
    if (c->version > 2) {
        name = (const char *)pass(c, NULL, (size_t)length);
    } else {
        name = length < (int64_t)(sizeof numbered / sizeof *numbered) ? numbered[length] : "";
        length = (int64_t)strlen(name);
    }
    for (int k = 0; name && k < SCN_STATES_MAX && t->rule->states[k].name; k++)
        if ((size_t)length == strlen(t->rule->states[k].name) &&
            memcmp(name, t->rule->states[k].name, (size_t)length) == 0)
            return k;
    return -1;
}

static int64_t entries_of(const scion_array *a)
{
    int64_t n = 1;
    for (int i = 0; i < a->ndim; i++)
        n *= a->shape[i];
    return n;
}

static void write_arrays(cursor *c, const scn_tensor *t)
{
    int64_t present = 0;
    for (int k = 0; k < SCN_STATES_MAX; k++)
        present += t->state[k] != NULL;
    number(c, &present);
    for (int k = 0; k < SCN_STATES_MAX; k++) {
        scion_array a = scn_state_array(t, k);
        int64_t type = a.type;
        if (!a.data)
            continue;
        write_name(c, a.name);
        number(c, &type);
        number(c, &a.first);
        number(c, &a.count);
        array_data(c, &a, a.first, a.count);
    }
}

static void read_arrays(cursor *c, const scn_tensor *t)
{
    bool found[SCN_STATES_MAX] = {false};
    int64_t present = 0;
    number(c, &present);
    for (int64_t n = 0; n < present && !c->error; n++) {
        const int index = read_name(c, t);
        int64_t type = 0, first = 0, count = 0;
        number(c, &type);
        number(c, &first);
        number(c, &count);
        if (c->error)
            return;
        const scion_array a = scn_state_array(t, index < 0 ? 0 : index);
        const int64_t all = entries_of(&a);
        if (index < 0 || first < 0 || count < 0 || first > all || count > all - first ||
            (type != SCION_F32 && type != SCION_BF16))
            c->error = "it has an unexpected array";
        else if (type != a.type)
            c->error = "its weight type differs";
        else
            array_data(c, &a, first, count);
        found[index < 0 ? 0 : index] = true;
    }
    for (int k = 0; k < SCN_STATES_MAX && !c->skip_arrays && !c->error; k++)
        if (t->state[k] && !found[k])
            c->error = "a state array is missing";
}

/* ---- The walk ---- */

static void same_shape(cursor *c, const scn_tensor *t)
{
    const size_t length = strlen(t->name);
    same_int(c, (int64_t)length, "the name of a parameter differs");
    same(c, t->name, length, "the name of a parameter differs");
    same_int(c, t->layout.rows, "its shape differs");
    same_int(c, t->layout.cols, "its shape differs");
    same_int(c, t->layout.positions, "its shape differs");
    same_int(c, t->layout.blocks, "it is split differently");
    same_int(c, t->rule_id, "its rule differs");
}

static void settings(cursor *c, scn_tensor *t)
{
    setting(c, t, SCION_SET_RADIUS, &t->radius);
    setting(c, t, SCION_SET_LR_SCALE, &t->lr_scale);
    setting(c, t, SCION_SET_WEIGHT_DECAY, &t->decay);
    setting(c, t, SCION_SET_MOMENTUM, &t->momentum);
    flag(c, &t->frozen);
    flag(c, &t->vanishing);
    counter(c, &t->steps);
    data(c, &t->start, sizeof t->start); /* these three are for the bound alone: any value will do */
    data(c, &t->start_norm, sizeof t->start_norm);
    data(c, &t->pushed, sizeof t->pushed);
}

static void walk_tensor(cursor *c, scn_tensor *t, bool arrays)
{
    begin_record(c);
    same_shape(c, t);
    settings(c, t);
    given_momentum(c, &t->next_alpha);
    c->optional = true; /* members that later versions add go here */
    end_record(c);
    if (arrays && (c->mode == COUNT || c->mode == WRITE))
        write_arrays(c, t);
    else if (arrays)
        read_arrays(c, t);
}

/* Everything after the header. *tensor follows the walk, for the message. */
static void walk(cursor *c, scion_optimizer *opt, int64_t *tensor)
{
    int64_t present = !c->skip_arrays, seen;
    *tensor = -1;
    begin_record(c);
    same_int(c, opt->o.rule, "it was made by a different rule");
    same_int(c, opt->o.light != 0, "light differs");
    same_int(c, opt->count, "the number of parameters differs");
    counter(c, &opt->steps);
    if (peek(c, &seen, sizeof seen) && seen != 0 && !scn_rule_at(opt->o.rule)->about.needs_prev)
        out_of_range(c, "no exchange of weights, since the rule keeps no previous ones");
    flag(c, &opt->swapped);
    number(c, &present);
    end_record(c);
    if (!present && !c->skip_arrays && !c->error)
        c->error = "it was saved without its arrays (SCION_WITHOUT_ARRAYS)";
    for (int64_t i = 0; i < opt->count && !c->error; i++) {
        *tensor = i;
        walk_tensor(c, &opt->tensors[i], present != 0);
    }
}

/* Every step is one-to-one in the running value, so that no change of a single word goes unseen; nor one of the
 * version, from 3 on. */
static uint64_t checksum(uint64_t of_version, const unsigned char *bytes, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n ^ (of_version > 2 ? of_version << 56 : 0);
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

static bool known_flags(unsigned flags)
{
    return (flags & ~(unsigned)SCION_WITHOUT_ARRAYS) == 0;
}

size_t scion_optimizer_save_bytes(const scion_optimizer *opt, unsigned flags)
{
    cursor c = {.mode = COUNT, .skip_arrays = (flags & SCION_WITHOUT_ARRAYS) != 0};
    int64_t tensor;
    if (!opt || !known_flags(flags))
        return 0;
    walk(&c, writable(opt), &tensor);
    return header_bytes + c.at;
}

scion_status scion_optimizer_save(const scion_optimizer *opt, unsigned flags, void *buffer, size_t bytes,
                                  scion_error *err)
{
    if (!opt || !buffer || !known_flags(flags))
        return scn_fail(err, SCION_EINVAL, -1, "opt or buffer is NULL, or flags is %u", flags);
    const size_t need = scion_optimizer_save_bytes(opt, flags);
    if (bytes < need)
        return scn_fail(err, SCION_EINVAL, -1, "the buffer has %zu bytes, the state needs %zu", bytes, need);
    unsigned char *out = buffer;
    cursor c = {.mode = WRITE,
                .to = out + header_bytes,
                .size = need - header_bytes,
                .skip_arrays = (flags & SCION_WITHOUT_ARRAYS) != 0};
    int64_t tensor;
    walk(&c, writable(opt), &tensor);
    const uint64_t head[3] = {version, need, checksum(version, out + header_bytes, need - header_bytes)};
    memcpy(out, magic, sizeof magic);
    memcpy(out + sizeof magic, head, sizeof head);
    return scn_ok(err);
}

scion_status scion_optimizer_load(scion_optimizer *opt, unsigned flags, const void *buffer, size_t bytes,
                                  scion_error *err)
{
    uint64_t head[3];
    int64_t tensor;
    const unsigned char *in = buffer;
    if (!opt || !buffer || !known_flags(flags))
        return scn_fail(err, SCION_EINVAL, -1, "opt or buffer is NULL, or flags is %u", flags);
    if (bytes < header_bytes || memcmp(in, magic, sizeof magic) != 0)
        return scn_fail(err, SCION_ESTATE, -1, "this is not a saved optimizer state");
    memcpy(head, in + sizeof magic, sizeof head);
    if (head[0] < oldest_version || head[0] > version)
        return scn_fail(err, SCION_ESTATE, -1, "the state has version %llu, expected %d to %d",
                        (unsigned long long)head[0], (int)oldest_version, (int)version);
    if (head[1] != bytes)
        return scn_fail(err, SCION_ESTATE, -1, "the state has %zu bytes, but says %llu: it is cut off or padded",
                        bytes, (unsigned long long)head[1]);
    if (head[2] != checksum(head[0], in + header_bytes, bytes - header_bytes))
        return scn_fail(err, SCION_ESTATE, -1, "the state is damaged: its checksum does not match");
    cursor c = {.mode = CHECK,
                .from = in + header_bytes,
                .size = bytes - header_bytes,
                .version = head[0],
                .skip_arrays = (flags & SCION_WITHOUT_ARRAYS) != 0};
    walk(&c, opt, &tensor);
    if (!c.error && c.at != c.size)
        c.error = "it is longer than expected";
    if (c.error)
        return scn_fail(err, SCION_ESTATE, tensor, "the state does not fit%s%s: %s%s%s",
                        tensor >= 0 ? " at parameter " : "", tensor >= 0 ? opt->tensors[tensor].name : "",
                        c.value   ? "expected "
                        : c.array ? "array "
                                  : "",
                        c.array ? c.array : "", c.error);
    c.mode = READ;
    c.at = 0;
    walk(&c, opt, &tensor);
    for (int64_t i = 0; i < opt->count; i++)
        opt->tensors[i].stepped = false;
    return scn_ok(err);
}
