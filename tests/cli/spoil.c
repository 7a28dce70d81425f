/* spoil CHECKPOINT PARAMETER OUT: a whole checkpoint like this one, in which every entry of a float32 parameter is
 * the largest number: weights that may be saved, and products that are not finite. */
#include <float.h>
#include <stdio.h>

#include "trainer/trainer_struct.h"

int main(int argc, char **argv)
{
    trainer *t = NULL;
    run_position at;
    trainer_resumed before;
    scion_error err = {0};
    if (argc != 4)
        return 2;
    scion_status status = trainer_resume(&t, argv[1], NULL, 0, false, NULL, &at, &before, &err);
    const tape_value *v = status == SCION_OK ? model_param(&t->model, argv[2]) : NULL;
    for (int64_t i = 0; v && i < v->count; i++)
        v->data[i] = FLT_MAX;
    if (v)
        status = trainer_save(t, &at, -1, argv[3], &err);
    if (!v || status != SCION_OK)
        fprintf(stderr, "%s\n", v || !t ? err.message : "no such parameter");
    if (t)
        run_position_free(&at);
    trainer_free(t);
    return v && status == SCION_OK ? 0 : 1;
}
