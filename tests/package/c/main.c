/* A foreign C program: one step of Scion on f(w) = <g, w> with the sign norm, where the answer is known:
 * the step of size 1 from anywhere lands on rho lmo(g) = -rho sign(g) / d_in. */
#include <scion.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    float w[6] = {0, 0, 0, 0, 0, 0};
    float g[6] = {1, -2, 3, -4, 5, 0};
    const float expected[6] = {-1, 1, -1, 1, -1, 0}; /* rho = 3, d_in = 3 */
    scion_param p;
    scion_options o;
    scion_optimizer *opt = NULL;
    scion_error err;
    int i;

    if (strcmp(scion_version(), SCION_VERSION) != 0) {
        printf("header %s, library %s\n", SCION_VERSION, scion_version());
        return 1;
    }
    scion_param_init(&p);
    p.ndim = 2;
    p.shape[0] = 2;
    p.shape[1] = 3;
    p.weight = w;
    p.grad = g;
    p.norm = SCION_NORM_SIGN;
    p.radius = 3;
    scion_options_init(&o, SCION_RULE_SCION);
    if (scion_optimizer_create(&opt, &o, &p, 1, &err) || scion_optimizer_step(opt, 1.0, &err)) {
        puts(err.message);
        scion_optimizer_free(opt);
        return 1;
    }
    scion_optimizer_free(opt);
    for (i = 0; i < 6; i++) {
        if (w[i] - expected[i] > 1e-6f || expected[i] - w[i] > 1e-6f) {
            printf("w[%d] is %g, expected %g\n", i, (double)w[i], (double)expected[i]);
            return 1;
        }
    }
    return 0;
}
