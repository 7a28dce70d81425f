/* logits CHECKPOINT key=value ...: the logits of the first batch of the validation part as float32, on standard
 * output, for load_checkpoint.sh. */
#include <stdio.h>

#include "trainer/trainer_struct.h"

/* The inputs of the first batch into a plan of the logits. */
static scion_status fill(const trainer *t, const tape_plan *p, scion_error *err)
{
    void *arrays[DATA_ARRAYS] = {NULL};
    for (int i = 0; i < DATA_ARRAYS; i++) {
        const tape_value *v = t->model.inputs[i] ? plan_value(p, t->model.inputs[i]) : NULL;
        if (v)
            arrays[i] = v->kind == TAPE_INTS ? (void *)v->ints : v->data;
    }
    return data_fill(t->data, (data_sequence){.part = DATA_VAL}, 0, t->c.training.batch, arrays, err);
}

int main(int argc, char **argv)
{
    const plan_options options = {.mode = PLAN_INFERENCE, .threads = 1};
    const tape_run run = {.threads = 1, .loss_scale = 1};
    trainer *t = NULL;
    tape_plan *p = NULL;
    scion_error err = {0};
    if (argc < 2)
        return 2;
    scion_status status = trainer_open(&t, argv[1], (const char *const *)argv + 2, argc - 2, TRAINER_EVALUATE, &err);
    if (status == SCION_OK)
        status = plan_make(&p, t->model.tape, t->model.logits, &options, &err);
    if (status == SCION_OK)
        status = plan_commit(p, NULL, &err);
    if (status == SCION_OK)
        status = fill(t, p, &err);
    if (status == SCION_OK) {
        plan_forward(p, &run);
        const tape_value *logits = plan_value(p, t->model.logits);
        fwrite(logits->data, sizeof *logits->data, (size_t)logits->count, stdout);
    } else {
        fprintf(stderr, "%s\n", err.message);
    }
    plan_free(p);
    trainer_free(t);
    return status == SCION_OK ? 0 : 1;
}
