/* Records of kind `trajectory`: runs of the reference's Scion and ScionLight.
 *
 * Scion keeps its average inside, ScionLight in the caller's gradient buffer, where `retained_grad` is read. */
#include "conform_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The buffer as the step finds it: with `light`, G before its decay. */
static void replay_buffer(conform_case *c, const conform_run *r, conform_member *m, int64_t k)
{
    (void)c;
    (void)r;
    (void)k;
    for (int64_t i = 0; i < m->n; i++)
        m->average[i] = m->grad[i];
}

/* The rule leaves (1-alpha)G in the buffer, hence zeros at momentum 1. There the reference skips the decay and
 * records G itself, which nobody reads when the caller zeroes the buffer: zeros are right by the format's own
 * recursion, so the recorded G is compared with the G that went into the step, and the difference told apart. */
static void compare_retained(conform_case *c, const conform_run *r, const conform_member *m)
{
    if (!m->golden_retained)
        return;
    double *ours = conform_alloc(c, m->n, sizeof *ours);
    bool zero = true, golden_zero = true;
    for (int64_t i = 0; i < m->n; i++) {
        ours[i] = m->grad[i];
        zero = zero && ours[i] == 0;
        golden_zero = golden_zero && m->golden_retained[i] == 0;
    }
    bool undecayed = r->alpha == 1 && r->caller_zeroes && zero && !golden_zero;
    conform_compare_member(c, m, "retained_grad", undecayed ? m->average : ours, m->golden_retained);
    if (undecayed)
        snprintf(c->remark, sizeof c->remark,
                 "retained_grad: at momentum 1 the reference keeps G, the rule G <- (1-alpha)G leaves zeros");
}

void conform_trajectory(conform_case *c)
{
    const char *optimizer = conform_string(c, c->record, "optimizer");
    bool light = strcmp(optimizer, "ScionLight") == 0;
    if (!light && strcmp(optimizer, "Scion") != 0)
        conform_fail(c, CONFORM_UNKNOWN, "optimizer '%s' is not known", optimizer);
    bool unconstrained = conform_flag_or(c, c->record, "unconstrained", false);
    conform_run r = {.alpha_first = NAN, .replay = light ? replay_buffer : conform_replay_average};
    r.o = conform_options(c, unconstrained ? SCION_RULE_USCION : SCION_RULE_SCION, SCION_POLAR_QUINTIC);
    r.o.light = light;
    r.o.momentum = r.alpha = conform_number(c, c->record, "momentum");
    r.caller_zeroes = conform_flag_or(c, c->record, "caller_zeroes_grad", !light);
    conform_read_steps(c, &r, "lr");
    const json_t *params = conform_read_params(c, &r);
    for (int64_t i = 0; i < r.count; i++) {
        const json_t *object = json_array_get(params, (size_t)i);
        conform_member *m = &r.members[i];
        m->p = conform_shape(c, object, &m->n);
        m->p.radius = conform_number_or(c, object, "scale", 1);
        conform_reference_norm(c, conform_string(c, object, "norm"), json_object_get(object, "options"), &m->p,
                               &m->polar_steps);
        conform_read_member(c, &r, i, object, "w0", "weights");
        m->golden_average = light ? NULL : conform_optional(c, object, "momentum_buffer", m->n);
        m->golden_retained = light ? conform_optional(c, object, "retained_grad", m->n) : NULL;
    }
    if (!conform_ready(c) || !conform_run_all(c, &r))
        return;
    for (int64_t i = 0; i < r.count; i++) {
        conform_compare_member(c, &r.members[i], "momentum_buffer", r.members[i].average,
                               r.members[i].golden_average);
        compare_retained(c, &r, &r.members[i]);
    }
}
