/* See network.h. */
#include "config/network.h"

scion_status network_record(model *m, const config *c, const data_info *d, int64_t batch, scion_error *err)
{
    const scion_status status = model_record(m, config_model(c), config_model_options(c), d, batch, err);
    if (status == SCION_OK)
        tape_store(m->tape, training_storage(c->training.weights), training_storage(c->training.grads));
    return status;
}

plan_options network_plan_options(const config *c, int threads, bool pack)
{
    return (plan_options){.mode = PLAN_TRAINING,
                          .threads = threads,
                          .pack = pack,
                          .bf16 = training_storage(c->training.activations) == SCION_BF16};
}
