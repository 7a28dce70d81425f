/* Saved optimizers with forged checksums. First byte: the rule; second: 0, the rest is a whole state, as it is and
 * with its length and checksum set right; else the rest is changes of a good state, ten bytes each: where (2) and
 * what (8). What loads can be saved and loaded again, and steps; what is refused changes nothing. */
#include <string.h>

#include "fuzz.h"

enum { params = 4, most = 32, rules = 32, header = 32, state_bytes = 1 << 14 };

typedef struct machine {
    scion_optimizer *opt;
    scion_param p[params];
    float weight[params][most], grad[params][most], previous[params][most];
    uint8_t good[state_bytes];
    size_t bytes;
} machine;

static void reset(machine *m)
{
    for (int i = 0; i < params; i++)
        for (int k = 0; k < most; k++) {
            m->weight[i][k] = 0.01f * (float)(k % 7 - 3);
            m->grad[i][k] = m->previous[i][k] = 0.1f * (float)((k + i) % 5 - 2);
        }
}

static void make(machine *m, int rule)
{
    static const struct {
        const char *name;
        int ndim;
        int64_t shape[4];
        scion_role role;
    } shapes[params] = {
        {"embedding", 2, {4, 3}, SCION_ROLE_ONEHOT},
        {"hidden", 2, {3, 5}, SCION_ROLE_HIDDEN},
        {"conv", 4, {2, 3, 2, 2}, SCION_ROLE_HIDDEN},
        {"bias", 1, {5}, SCION_ROLE_VECTOR},
    };
    scion_options o;
    scion_error err = {0};
    scion_options_init(&o, (scion_rule)rule);
    reset(m);
    for (int i = 0; i < params; i++) {
        scion_param_init(&m->p[i]);
        m->p[i].name = shapes[i].name;
        m->p[i].ndim = shapes[i].ndim;
        memcpy(m->p[i].shape, shapes[i].shape, sizeof shapes[i].shape);
        m->p[i].role = shapes[i].role;
        m->p[i].weight = m->weight[i];
        m->p[i].grad = m->grad[i];
        m->p[i].grad_prev = m->previous[i];
    }
    fuzz_require(scion_optimizer_create(&m->opt, &o, m->p, params, &err) == SCION_OK);
    fuzz_require(scion_optimizer_step(m->opt, 0.01, &err) == SCION_OK);
    m->bytes = scion_optimizer_save_bytes(m->opt, 0);
    fuzz_require(m->bytes <= state_bytes);
    fuzz_require(scion_optimizer_save(m->opt, 0, m->good, m->bytes, &err) == SCION_OK);
}

/* Length and checksum, as docs/file-formats.md has them. */
static void reseal(uint8_t *state, size_t bytes)
{
    const uint64_t length = bytes;
    uint64_t h = 0x9E3779B97F4A7C15u ^ (bytes - header);
    for (size_t i = header; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, state + i, bytes - i < 8 ? bytes - i : 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    memcpy(state + 16, &length, 8);
    memcpy(state + 24, &h, 8);
}

static void load(machine *m, const uint8_t *state, size_t bytes)
{
    static uint8_t before[state_bytes], after[state_bytes];
    scion_error err = {0};
    fuzz_require(scion_optimizer_save(m->opt, 0, before, m->bytes, &err) == SCION_OK);
    if (scion_optimizer_load(m->opt, 0, state, bytes, &err) == SCION_OK) {
        fuzz_require(scion_optimizer_save(m->opt, 0, after, m->bytes, &err) == SCION_OK);
        fuzz_require(scion_optimizer_load(m->opt, 0, after, m->bytes, &err) == SCION_OK);
        if (scion_optimizer_step(m->opt, 0.01, &err) != SCION_OK)
            fuzz_require_sentence(&err);
        for (int i = 0; i < params; i++) {
            scion_info info = {.size = sizeof info};
            scion_optimizer_inspect(m->opt, i, 0, &info, &err);
        }
        reset(m);
        fuzz_require(scion_optimizer_load(m->opt, 0, m->good, m->bytes, &err) == SCION_OK);
    } else {
        fuzz_require_sentence(&err);
        fuzz_require(scion_optimizer_save(m->opt, 0, after, m->bytes, &err) == SCION_OK);
        fuzz_require(memcmp(before, after, m->bytes) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static machine *machines[rules];
    static uint8_t state[state_bytes];
    fuzz_input in = {data, size};
    int count = 0;
    while (scion_enum_name(SCION_ENUM_RULE, count))
        count++;
    const int rule = fuzz_byte(&in) % count;
    if (!machines[rule]) {
        machines[rule] = calloc(1, sizeof **machines);
        fuzz_require(machines[rule]);
        make(machines[rule], rule);
    }
    machine *m = machines[rule];
    size_t bytes = m->bytes;
    if (fuzz_byte(&in) == 0) {
        load(m, in.at, in.left);
        bytes = in.left < state_bytes ? in.left : state_bytes;
        if (bytes < header)
            return 0;
        memcpy(state, in.at, bytes);
    } else {
        memcpy(state, m->good, bytes);
        while (in.left > 0) {
            const size_t low = fuzz_byte(&in), at = (low + 256 * (size_t)fuzz_byte(&in)) % bytes;
            for (size_t k = 0; k < 8 && at + k < bytes && in.left > 0; k++)
                state[at + k] = fuzz_byte(&in);
        }
    }
    reseal(state, bytes);
    load(m, state, bytes);
    return 0;
}
