/* See forecast.h. */
#include "ranks/forecast.h"

#include <math.h>
#include <stdlib.h>

#include "base/arith.h"
#include "config/network.h"
#include "ranks/shard.h"
#include "record/run_tokenizer.h"
#include "util/fail.h"
#include "util/threads.h"

/* Messages of the agreements in a step: gather and broadcast, up and down the tree. */
static const double agreements = 2;

struct forecaster {
    config c;
    data_set *data;
    model model;
    tape_plan *train; /* of micro-batches of `batch`; not committed */
    const scion_rule_properties *rule;
};

scion_status forecaster_create(forecaster **out, const config *c, scion_error *err)
{
    forecaster *f = *out = calloc(1, sizeof *f);
    scion_status status = SCION_OK;
    if (!f)
        return train_fail(err, SCION_ENOMEM, "out of memory");
    f->c = *c;
    f->c.training.deterministic = false;
    f->rule = scion_rule_info(scion_enum_value(SCION_ENUM_RULE, c->optimizer.rule));
    TRY(config_check(&f->c, err));
    const data_context context = {
        .seed = c->training.seed, .wants = config_model(c)->inputs, .open_tokenizer = run_tokenizer_open};
    const plan_options o = network_plan_options(c, threads_set((int)c->training.threads), false);
    TRY(data_open(&f->data, &f->c.data, &context, err));
    TRY(network_record(&f->model, &f->c, data_about(f->data), c->training.batch, err));
    TRY(plan_make(&f->train, f->model.tape, f->model.loss, &o, err));
done:
    if (status != SCION_OK) {
        forecaster_free(f);
        *out = NULL;
    }
    return status;
}

void forecaster_free(forecaster *f)
{
    if (!f)
        return;
    plan_free(f->train);
    model_free(&f->model);
    data_close(f->data);
    free(f);
}

/* Bytes of activations of micro-batches of `batch`: those of a plan of that size. */
static scion_status activation_bytes(const forecaster *f, int64_t batch, double *bytes, scion_error *err)
{
    const plan_options o = network_plan_options(&f->c, threads_set((int)f->c.training.threads), false);
    model m = {.tape = NULL};
    tape_plan *p = NULL;
    scion_status status = SCION_OK;
    if (batch != f->c.training.batch) {
        TRY(network_record(&m, &f->c, data_about(f->data), batch, err));
        TRY(plan_make(&p, m.tape, m.loss, &o, err));
    }
    *bytes = (double)plan_bytes(p ? p : f->train);
done:
    plan_free(p);
    model_free(&m);
    return status;
}

static void count_traffic(const forecaster *f, const shard_plan *s, const forecast_machine *m, forecast *out)
{
    const scion_dtype wire = (scion_dtype)f->c.training.wire;
    const double passes = shard_gradient_passes(f->rule->needs_prev),
                 shared = shard_weight_passes(f->rule->needs_prev);
    double gradients = 0, weights = 0;
    for (int r = 0; r < m->ranks; r++) {
        const shard_traffic n = shard_traffic_of(s, r, wire);
        const double up = passes * (double)n.gradients_sent, down = passes * (double)n.gradients_received;
        const double out_w = shared * (double)n.weights_sent, in_w = shared * (double)n.weights_received;
        out->gradient_bytes += up;
        out->weight_bytes += out_w;
        out->largest_bytes = fmax(out->largest_bytes, up + down + out_w + in_w);
        out->mean_bytes += (up + down + out_w + in_w) / m->ranks;
        gradients = fmax(gradients, fmax(up, down));
        weights = fmax(weights, fmax(out_w, in_w));
    }
    /* Each bucket is a message of a rank each way, a few of them at the same time. */
    const double buckets = m->ranks > 1 ? (double)s->count : 0, levels = ceil(log2((double)m->ranks));
    out->gradients_s = gradients / m->bandwidth + passes * m->latency * (buckets + levels);
    out->weights_s =
        weights / m->bandwidth + shared * m->latency * (buckets + levels) + agreements * 2 * levels * m->latency;
}

static void count_memory(const forecaster *f, int ranks, double entries, forecast *out)
{
    const scion_rule_properties *rule = f->rule;
    out->weights = (double)tape_weight_bytes(f->model.tape) + 8 * (double)tape_buffer_elements(f->model.tape);
    out->gradients = (double)tape_grad_bytes(f->model.tape) * shard_gradient_passes(rule->needs_prev);
    out->state = f->c.optimizer.light ? 0 : 4 * (double)rule->states * entries;
    out->sharing = ranks > 1 ? SHARD_WINDOW * 4.0 * SHARD_BUCKET : 0;
    out->total = out->weights + out->gradients + out->state + out->activations + out->sharing;
}

scion_status forecaster_ask(const forecaster *f, const forecast_machine *m, forecast *out, scion_error *err)
{
    const int64_t batch = f->c.training.batch, all = batch * f->c.training.accum;
    const int64_t sequences = scn_pieces(all, m->ranks), size = scn_pieces(sequences, scn_pieces(sequences, batch));
    const double sequence = plan_training_flops(f->train) / (double)batch; /* operations */
    shard_plan s = {.ranks = 0};
    scion_options o;
    scion_param *params = NULL;
    double entries = 0;
    scion_status status = SCION_OK;
    *out = (forecast){.parameters = tape_param_elements(f->model.tape),
                      .sequences = all,
                      .most_sequences = sequences,
                      .data = data_about(f->data)->description,
                      .flops = sequence * (double)sequences};
    if (m->ranks > all)
        return train_fail(err, SCION_EINVAL, "a step has %lld sequences (batch times accum) for %d ranks",
                          (long long)all, m->ranks);
    TRY(network_params(&f->c, f->model.tape, &o, &params, err));
    TRY(shard_make(&s, f->model.tape, params, &o, m->ranks, false, err));
    TRY(activation_bytes(f, size, &out->activations, err));
    for (int r = 0; r < m->ranks; r++) {
        out->oracle_flops = fmax(out->oracle_flops, s.flops[r]);
        entries = fmax(entries, (double)s.entries[r]);
    }
    out->compute_s = out->flops / m->speed;
    out->oracle_s = out->oracle_flops / m->speed;
    out->entries_s = SHARD_ENTRY_COST * entries / m->speed;
    count_traffic(f, &s, m, out);
    /* The last backward pass is two thirds of the last micro-batch. */
    out->exposed_s = fmax(0, out->gradients_s - 2.0 / 3 * sequence * (double)size / m->speed);
    if (m->ranks == 1)
        out->gradients_s = out->weights_s = out->exposed_s = 0;
    out->step_s = out->compute_s + out->oracle_s + out->entries_s + out->exposed_s + out->weights_s;
    count_memory(f, m->ranks, entries, out);
done:
    shard_free(&s);
    free(params);
    return status;
}
