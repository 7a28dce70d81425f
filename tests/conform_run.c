/* Optimizer runs of conformance records: reading the members, stepping, comparing. See conform_run.h. */
#include "conform_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Steps that a record may have: from one, and a bound against a mistyped number, far above any real run. */
#define MOST_STEPS 1000000

double conform_alpha_at(const conform_run *r, int64_t k)
{
    if (k == 0 && !isnan(r->alpha_first))
        return r->alpha_first;
    return r->o.vanishing ? 1 / sqrt((double)(k + 1)) : r->alpha;
}

void conform_replay_average(conform_case *c, const conform_run *r, conform_member *m, int64_t k)
{
    (void)c;
    double alpha = conform_alpha_at(r, k);
    for (int64_t i = 0; i < m->n; i++)
        m->average[i] = (1 - alpha) * m->average[i] + alpha * m->grad[i];
}

void conform_read_steps(conform_case *c, conform_run *r, const char *key)
{
    r->steps = conform_integer(c, c->record, "steps");
    if (r->steps < 1 || r->steps > MOST_STEPS)
        conform_fail(c, CONFORM_MALFORMED, "'steps' is %lld, expected 1 to %d", (long long)r->steps, MOST_STEPS);
    if (!conform_ready(c)) {
        r->steps = 0;
    } else if (json_is_array(json_object_get(c->record, key))) {
        r->lr = conform_doubles(c, c->record, key, r->steps);
    } else {
        r->lr = conform_alloc(c, r->steps, sizeof *r->lr);
        for (int64_t k = 0; k < r->steps; k++)
            r->lr[k] = conform_number(c, c->record, key);
    }
}

const json_t *conform_read_params(conform_case *c, conform_run *r)
{
    const json_t *params = conform_list(c, c->record, "params", 1, &r->count);
    r->members = conform_alloc(c, r->count, sizeof *r->members);
    return params;
}

void conform_read_member(conform_case *c, conform_run *r, int64_t i, const json_t *object, const char *start,
                         const char *weights)
{
    conform_member *m = &r->members[i];
    int64_t grads_given = 0, weights_given = 0;
    conform_list(c, object, "grads", 1, &grads_given);
    conform_list(c, object, weights, 1, &weights_given);
    if (grads_given != r->steps || weights_given != r->steps)
        conform_fail(c, CONFORM_MALFORMED, "%lld 'grads' and %lld '%s' for %lld steps", (long long)grads_given,
                     (long long)weights_given, weights, (long long)r->steps);
    m->weight = conform_floats(c, object, start, m->n);
    if (!conform_ready(c))
        return;
    m->grad = conform_alloc(c, m->n, sizeof *m->grad);
    m->average = conform_alloc(c, m->n, sizeof *m->average);
    m->square = conform_alloc(c, m->n, sizeof *m->square);
    m->grads = conform_alloc(c, r->steps, sizeof *m->grads);
    m->golden = conform_alloc(c, r->steps, sizeof *m->golden);
    for (int64_t k = 0; k < r->steps && conform_ready(c); k++) {
        m->grads[k] = conform_floats_at(c, object, "grads", k, m->n);
        m->golden[k] = conform_doubles_at(c, object, weights, k, m->n);
        if (!m->golden[k])
            conform_fail(c, CONFORM_MALFORMED, "'%s' has no weights for step %lld", weights, (long long)k);
    }
    m->p.weight = m->weight;
    m->p.grad = m->grad;
    m->p.name = json_string_value(json_object_get(object, "name"));
    char *label = conform_alloc(c, 64, 1);
    if (m->p.name)
        snprintf(label, 64, "%.60s ", m->p.name);
    else
        snprintf(label, 64, "params[%lld] ", (long long)i);
    m->label = label;
}

const double *conform_optional(conform_case *c, const json_t *object, const char *key, int64_t n)
{
    return conform_has(object, key) ? conform_doubles(c, object, key, n) : NULL;
}

void conform_compare_member(conform_case *c, const conform_member *m, const char *array, const double *ours,
                            const double *golden)
{
    char label[160];
    snprintf(label, sizeof label, "%s%s", m->label, array);
    if (golden)
        conform_compare(c, label, m->n, ours, golden);
}

/* Writes the step's gradients where the optimizer reads them, as a backward pass would: they are added. */
static void write_gradient(conform_case *c, const conform_run *r, conform_member *m, int64_t k)
{
    if (r->o.light && r->caller_zeroes)
        memset(m->grad, 0, (size_t)m->n * sizeof *m->grad);
    for (int64_t i = 0; i < m->n; i++)
        m->grad[i] += m->grads[k][i];
    if (r->replay)
        r->replay(c, r, m, k);
}

static bool take_step(conform_case *c, const conform_run *r, scion_optimizer *opt, conform_member **group,
                      int64_t size, int64_t k)
{
    scion_error err;
    for (int64_t j = 0; j < size; j++) {
        float *grad = group[j]->grads[k] ? group[j]->grad : NULL;
        if (!conform_call(c, "scion_optimizer_bind", scion_optimizer_bind(opt, j, group[j]->weight, grad, NULL, &err),
                          &err))
            return false;
    }
    if (r->caller_zeroes)
        scion_optimizer_begin(opt);
    for (int64_t j = 0; j < size; j++)
        if (group[j]->grads[k])
            write_gradient(c, r, group[j], k);
    if (r->set_alpha &&
        !conform_call(c, "scion_optimizer_set",
                      scion_optimizer_set(opt, SCION_ALL, SCION_SET_MOMENTUM, conform_alpha_at(r, k), &err), &err))
        return false;
    if (!conform_call(c, "scion_optimizer_step", scion_optimizer_step(opt, r->lr[k], &err), &err))
        return false;
    for (int64_t j = 0; j < size; j++) {
        char label[160];
        snprintf(label, sizeof label, "%sweights[%lld]", group[j]->label, (long long)k);
        conform_compare_floats(c, label, group[j]->n, group[j]->weight, group[j]->golden[k]);
    }
    return true;
}

/* All members with this number of Newton-Schulz rounds, which is one per optimizer, as one optimizer. */
static bool run_group(conform_case *c, conform_run *r, int32_t polar_steps)
{
    conform_member **group = conform_alloc(c, r->count, sizeof *group);
    scion_param *params = conform_alloc(c, r->count, sizeof *params);
    int64_t size = 0;
    for (int64_t i = 0; i < r->count; i++)
        if (r->members[i].polar_steps == polar_steps) {
            group[size] = &r->members[i];
            params[size++] = r->members[i].p;
        }
    r->o.polar_steps = polar_steps;
    scion_optimizer *opt = NULL;
    scion_error err;
    bool good =
        conform_call(c, "scion_optimizer_create", scion_optimizer_create(&opt, &r->o, params, size, &err), &err);
    for (int64_t k = 0; k < r->steps && good; k++)
        good = take_step(c, r, opt, group, size, k);
    scion_optimizer_free(opt);
    return good;
}

bool conform_run_all(conform_case *c, conform_run *r)
{
    for (int64_t i = 0; i < r->count; i++) {
        bool done = false;
        for (int64_t j = 0; j < i; j++)
            done = done || r->members[j].polar_steps == r->members[i].polar_steps;
        if (!done && !run_group(c, r, r->members[i].polar_steps))
            return false;
    }
    return true;
}
