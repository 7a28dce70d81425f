/* mlp_fashion.c - train a small network on Fashion-MNIST with Scion, written out in plain C.
 *
 *     mlp_fashion [--data DIR] [--epochs N] [--rule NAME] ...        (mlp_fashion --help lists all options)
 *
 * The network has three layers, 784 -> width -> width -> 10. For a batch of B images, one per row of x_0:
 *
 *     x_1 = act(x_0 W_1' + b_1)      x_2 = act(x_1 W_2' + b_2)      x_3 = x_2 W_3' + b_3, the logits
 *     act(z) = sqrt(2) max(z, 0)     which keeps the mean square of a centred z
 *     loss   = mean over the batch of -log softmax(logits)[label]
 *
 * Scion gives every layer the norm that suits what goes in and out of it (the configuration "image"): the
 * spectral norm for W_1 and W_2, the largest entry for W_3, the root mean square for the biases. A step is
 *
 *     d = 0.9 d + 0.1 gradient,      W = (1 - lr) W + lr rho lmo(d),      lr falling linearly to 0
 *
 * so every weight stays in the ball of radius rho in its norm, on whose boundary it starts.
 *
 * Read from the top: forward and backward, the training loop, main. (fashion_data.h reads the files,
 * mlp_options.h the command line; plain_product.h multiplies matrices.) Radii, step sizes and batch were
 * chosen on 10,000 images held out of the training set; the test set is for reporting only. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#include <scion_advanced.h>

#include "fashion_data.h"
#include "mlp_options.h"
#include "plain_product.h"

/* ---- The network ------------------------------------------------------------------------------------- */

enum { LAYERS = 3, TENSORS = 2 * LAYERS };

struct network {
    int64_t batch, dim[LAYERS + 1];
    float *x[LAYERS + 1];     /* batch x dim: x[0] the images, x[LAYERS] the logits */
    float *dx[LAYERS + 1];    /* gradient of the loss in x */
    float *weight[TENSORS];   /* W_1, b_1, W_2, b_2, W_3, b_3; W is out x in */
    float *grad[TENSORS];     /* gradient of the loss in weight */
    float *previous[TENSORS]; /* the same at the weights before the last step: for rule MARS, else NULL */
    float *strips[2];         /* scratch of the matrix product */
};

static const float ACT_SCALE = 1.41421356f;

static int64_t elements(const struct network *net, int tensor)
{
    int64_t out = net->dim[tensor / 2 + 1];
    return tensor % 2 ? out : out * net->dim[tensor / 2];
}

static struct network network_create(int64_t width, int64_t batch, int with_previous)
{
    struct network net = {.batch = batch, .dim = {PIXELS, width, width, CLASSES}};
    int64_t largest = batch;
    for (int l = 0; l <= LAYERS; l++) {
        net.x[l] = floats(batch * net.dim[l]);
        net.dx[l] = floats(batch * net.dim[l]);
        largest = net.dim[l] > largest ? net.dim[l] : largest;
    }
    for (int t = 0; t < TENSORS; t++) {
        net.weight[t] = floats(elements(&net, t));
        net.grad[t] = floats(elements(&net, t));
        net.previous[t] = with_previous ? floats(elements(&net, t)) : NULL;
    }
    for (int i = 0; i < 2; i++)
        net.strips[i] = floats(largest * (largest + STRIP_N));
    return net;
}

static void network_free(struct network *net)
{
    for (int l = 0; l <= LAYERS; l++) {
        free(net->x[l]);
        free(net->dx[l]);
    }
    for (int t = 0; t < TENSORS; t++) {
        free(net->weight[t]);
        free(net->grad[t]);
        free(net->previous[t]);
    }
    free(net->strips[0]);
    free(net->strips[1]);
}

/* From the images in x[0] to the logits in x[LAYERS]. */
static void forward(struct network *net, int64_t batch)
{
    for (int l = 0; l < LAYERS; l++) {
        int64_t in = net->dim[l], out = net->dim[l + 1];
        struct view x = {net->x[l], in, 1}, w_transposed = {net->weight[2 * l], 1, in};
        float *z = net->x[l + 1];
        for (int64_t i = 0; i < batch; i++)
            memcpy(z + i * out, net->weight[2 * l + 1], (size_t)out * sizeof *z);
        product(batch, out, in, x, w_transposed, z, net->strips);
        if (l + 1 < LAYERS)
            for (int64_t i = 0; i < batch * out; i++)
                z[i] = z[i] > 0 ? ACT_SCALE * z[i] : 0;
    }
}

/* Loss summed over the batch, count of right answers, and the gradient of the mean loss in the logits,
 * (softmax - onehot) / batch. */
static double softmax_loss(struct network *net, int64_t batch, const unsigned char *labels, int64_t *right)
{
    double loss = 0;
    for (int64_t i = 0; i < batch; i++) {
        const float *z = net->x[LAYERS] + i * CLASSES;
        float *dz = net->dx[LAYERS] + i * CLASSES;
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            best = z[c] > z[best] ? c : best;
        double e[CLASSES], sum = 0; /* with the largest logit taken off, so that exp cannot overflow */
        for (int c = 0; c < CLASSES; c++)
            sum += e[c] = exp((double)(z[c] - z[best]));
        for (int c = 0; c < CLASSES; c++)
            dz[c] = (float)((e[c] / sum - (c == labels[i])) / (double)batch);
        loss += log(sum) - (double)(z[labels[i]] - z[best]);
        *right += best == labels[i];
    }
    return loss;
}

/* From dx[LAYERS] back to the gradients in the weights, which are added to `grad`. */
static void backward(struct network *net, int64_t batch, float *const grad[TENSORS])
{
    for (int l = LAYERS - 1; l >= 0; l--) {
        int64_t in = net->dim[l], out = net->dim[l + 1];
        const float *dz = net->dx[l + 1], *x = net->x[l];
        struct view dz_transposed = {dz, 1, out}, x_view = {x, in, 1};
        product(out, in, batch, dz_transposed, x_view, grad[2 * l], net->strips);
        for (int64_t i = 0; i < batch; i++)
            for (int64_t j = 0; j < out; j++)
                grad[2 * l + 1][j] += dz[i * out + j];
        if (l == 0)
            break; /* nobody asks for the gradient in the pixels */
        struct view dz_view = {dz, out, 1}, w = {net->weight[2 * l], in, 1};
        float *dx = net->dx[l];
        memset(dx, 0, (size_t)(batch * in) * sizeof *dx);
        product(batch, in, out, dz_view, w, dx, net->strips);
        for (int64_t i = 0; i < batch * in; i++)
            dx[i] = x[i] > 0 ? ACT_SCALE * dx[i] : 0;
    }
}

/* Share of right answers on a whole set. */
static double accuracy(struct network *net, const struct dataset *set)
{
    int64_t right = 0;
    for (int64_t at = 0; at < set->count; at += net->batch) {
        int64_t batch = set->count - at < net->batch ? set->count - at : net->batch;
        memcpy(net->x[0], set->pixels + at * PIXELS, (size_t)(batch * PIXELS) * sizeof(float));
        forward(net, batch);
        softmax_loss(net, batch, set->labels + at, &right);
    }
    return (double)right / (double)set->count;
}

/* ---- Training ---------------------------------------------------------------------------------------- */

/* The step size where --lr gives none. A `layered` rule steps in the norm and radius of each layer; the
 * others know no layers, and the radii below would only distort them. */
static const struct rule_row {
    scion_rule rule;
    int layered;
    double lr;
} RULES[] = {
    {SCION_RULE_SCION, 1, 0.01},   {SCION_RULE_USCION, 1, 0.02}, {SCION_RULE_ALMOND, 1, 0.05},
    {SCION_RULE_MARS, 1, 0.01},    {SCION_RULE_SSD, 0, 0.01},    {SCION_RULE_MUON, 0, 0.003},
    {SCION_RULE_SIGNSGD, 0, 5e-4}, {SCION_RULE_SIGNUM, 0, 5e-4}, {SCION_RULE_NSGD, 0, 0.1},
    {SCION_RULE_MNSGD, 0, 0.2},    {SCION_RULE_ADAMW, 0, 0.002}, {SCION_RULE_SGD, 0, 0.1},
};

/* rho of W_1, W_2, W_3 (the paper's MLP, on CIFAR-10, has 1, 1, 1024) and of the biases. */
static const double RADIUS[LAYERS] = {1, 1, 256}, BIAS_RADIUS = 1;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* The six tensors as the optimizer sees them, and their starting values: on the boundary of the balls of
 * the configuration "image", whatever rule will step them; biases 0. Without layers, the last ball is one whose
 * points have entries of the usual size, 1/sqrt(width). */
static void make_params(struct network *net, int layered, uint64_t seed, scion_param p[TENSORS])
{
    static const char *names[TENSORS] = {"W_1", "b_1", "W_2", "b_2", "W_3", "b_3"};
    static const int32_t roles[LAYERS] = {SCION_ROLE_INPUT, SCION_ROLE_HIDDEN, SCION_ROLE_OUTPUT};
    for (int t = 0; t < TENSORS; t++) {
        int bias = t % 2;
        scion_error err;
        scion_param_init(&p[t]);
        p[t].name = names[t];
        p[t].ndim = bias ? 1 : 2;
        p[t].shape[0] = net->dim[t / 2 + 1];
        p[t].shape[1] = bias ? 0 : net->dim[t / 2];
        p[t].weight = net->weight[t];
        p[t].grad = net->grad[t];
        p[t].grad_prev = net->previous[t];
        p[t].role = bias ? SCION_ROLE_VECTOR : roles[t / 2];
        p[t].radius = bias ? BIAS_RADIUS : RADIUS[t / 2];
        if (!layered && t == TENSORS - 2)
            p[t].radius = sqrt((double)net->dim[LAYERS - 1]);
        if (scion_boundary_init(&p[t], NULL, seed + (uint64_t)t, net->weight[t], &err))
            fail(EXIT_FAILED, "%s", err.message);
        if (!layered)
            p[t].radius = 1;
    }
}

/* A random order (Fisher and Yates), from a generator of three lines (splitmix64). */
static void shuffle(int64_t count, int64_t *order, uint64_t *state)
{
    for (int64_t i = count - 1; i > 0; i--) {
        uint64_t z = *state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        int64_t j = (int64_t)((z ^ z >> 31) % (uint64_t)(i + 1)), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
}

/* Progress of the training. The sums are over the epoch so far. */
struct progress {
    int64_t step, steps, per_epoch, images, right;
    double loss, start, last;
    int terminal;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* On a terminal one line, written over ten times a second; elsewhere a line per epoch. test < 0: not known. */
static void show(struct progress *p, double test)
{
    double time = now(), spent = time - p->start, n = (double)p->images, speed = (double)p->step / spent;
    if (test < 0 && (!p->terminal || time - p->last < 0.1))
        return;
    p->last = time;
    printf("%sepoch %4.1f/%lld   loss %.4f   train %5.2f %%", p->terminal ? "\r" : "",
           (double)p->step / (double)p->per_epoch, (long long)(p->steps / p->per_epoch), p->loss / n,
           100 * (double)p->right / n);
    if (test >= 0)
        printf("   test %5.2f %%", 100 * test);
    printf("   %6.0f images/s   %3.0f s left%s%s", n / (double)((p->step - 1) % p->per_epoch + 1) * speed,
           (double)(p->steps - p->step) / speed, p->terminal ? "\033[K" : "", test >= 0 ? "\n" : "");
    fflush(stdout);
}

/* One batch: the gradient, and the step. */
static void step(struct network *net, scion_optimizer *opt, const unsigned char *labels, double lr,
                 struct progress *p)
{
    scion_error err;
    scion_optimizer_begin(opt); /* zeroes the gradients */
    forward(net, net->batch);
    p->loss += softmax_loss(net, net->batch, labels, &p->right);
    backward(net, net->batch, net->grad);
    if (net->previous[0]) { /* MARS: the same batch at the weights before the last step */
        int64_t ignored = 0;
        for (int t = 0; t < TENSORS; t++)
            memset(net->previous[t], 0, (size_t)elements(net, t) * sizeof(float));
        if (scion_optimizer_previous(opt, &err))
            fail(EXIT_FAILED, "%s", err.message);
        forward(net, net->batch);
        softmax_loss(net, net->batch, labels, &ignored);
        backward(net, net->batch, net->previous);
        if (scion_optimizer_previous(opt, &err))
            fail(EXIT_FAILED, "%s", err.message);
    }
    if (scion_optimizer_step(opt, lr, &err))
        fail(EXIT_FAILED, "step %lld: %s", (long long)p->step + 1, err.message);
    p->step++;
    p->images += net->batch;
}

/* Returns when all steps are taken or Ctrl-C was pressed. */
static void train(struct network *net, scion_optimizer *opt, const struct settings *set,
                  const struct dataset *train_set, const struct dataset *test_set)
{
    int64_t batch = net->batch, count = train_set->count;
    struct progress p = {.terminal = isatty(STDOUT_FILENO), .start = now(), .per_epoch = count / batch};
    p.steps = p.per_epoch * (int64_t)set->epochs;
    scion_schedule decay = {.size = sizeof decay, .kind = SCION_SCHEDULE_LINEAR, .n = p.steps, .peak = set->lr};
    uint64_t random = (uint64_t)set->seed;
    int64_t *order = malloc((size_t)count * sizeof *order);
    unsigned char *labels = malloc((size_t)batch);
    if (!order || !labels)
        fail(EXIT_FAILED, "out of memory for the order of %lld images", (long long)count);
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    while (p.step < p.steps && !interrupted) {
        int64_t at = p.step % p.per_epoch * batch;
        if (at == 0) {
            shuffle(count, order, &random);
            p.images = p.right = 0;
            p.loss = 0;
        }
        for (int64_t i = 0; i < batch; i++) {
            memcpy(net->x[0] + i * PIXELS, train_set->pixels + order[at + i] * PIXELS, PIXELS * sizeof(float));
            labels[i] = train_set->labels[order[at + i]];
        }
        step(net, opt, labels, scion_schedule_value(&decay, p.step), &p);
        show(&p, p.step % p.per_epoch == 0 ? accuracy(net, test_set) : -1);
    }
    if (interrupted)
        printf("%sstopped by Ctrl-C in epoch %.1f of %.0f\n", p.terminal ? "\r\033[K" : "",
               (double)p.step / (double)p.per_epoch, set->epochs);
    free(order);
    free(labels);
}

/* The bound that the rule promised for each weight, and its norm. */
static void print_bounds(scion_optimizer *opt)
{
    printf("\n%-8s%-10s%-22s%10s%10s\n", "weight", "rule", "norm, role", "norm", "bound");
    for (int t = 0; t < TENSORS; t++) {
        scion_info i = {.size = sizeof i};
        scion_error err;
        char route[64];
        if (scion_optimizer_inspect(opt, t, SCION_INSPECT_NORM, &i, &err))
            fail(EXIT_FAILED, "%s", err.message);
        snprintf(route, sizeof route, "%s, %s", scion_enum_name(SCION_ENUM_NORM, (int)i.norm),
                 scion_enum_name(SCION_ENUM_ROLE, (int)i.role));
        printf("%-8s%-10s%-22s%10.4g", i.name, scion_enum_name(SCION_ENUM_RULE, (int)i.rule), route, i.weight_norm);
        if (isinf(i.bound))
            printf("      none");
        else
            printf("%10.4g", i.bound);
        if (i.overshoot > 1 && !isinf(i.bound))
            printf("   (x %.2f: the spectral iteration may overshoot)", i.overshoot);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    struct settings *set = &settings;
    int rule = scion_enum_value(SCION_ENUM_RULE, set->rule);
    if (rule < 0)
        fail(EXIT_USAGE, "--rule %s: no such rule; --help lists them", set->rule);
    const struct rule_row *row = RULES;
    while ((int)row->rule != rule)
        row++;
    if (set->lr <= 0)
        set->lr = row->lr;
#ifdef _OPENMP
    if (set->threads > 0)
        omp_set_num_threads((int)set->threads);
#endif
    float scale[2] = {0, 0};
    struct dataset train_set = read_dataset(set->data, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", scale);
    struct dataset test_set = read_dataset(set->data, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", scale);
    if ((int64_t)set->batch > train_set.count)
        fail(EXIT_USAGE, "--batch %.0f: there are only %lld images", set->batch, (long long)train_set.count);

    struct network net = network_create((int64_t)set->width, (int64_t)set->batch, rule == SCION_RULE_MARS);
    scion_param params[TENSORS];
    make_params(&net, row->layered, (uint64_t)set->seed, params);
    scion_options options;
    scion_options_init(&options, (scion_rule)rule);
    options.routing = SCION_ROUTING_IMAGE;
    options.threads = (int32_t)set->threads;
    options.seed = (uint64_t)set->seed;
    scion_optimizer *opt = NULL;
    scion_error err;
    if (scion_optimizer_create(&opt, &options, params, TENSORS, &err) || scion_optimizer_mark_start(opt, &err))
        fail(EXIT_FAILED, "%s", err.message);

    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}; /* the second kills */
    sigaction(SIGINT, &action, NULL);
    printf("Fashion-MNIST, %lld images to train on, %lld to test: 784 -> %.0f -> %.0f -> 10, rule %s, lr %g\n",
           (long long)train_set.count, (long long)test_set.count, set->width, set->width, set->rule, set->lr);
    double start = now();
    train(&net, opt, set, &train_set, &test_set);
    double spent = now() - start;
    print_bounds(opt);
    printf("\ntest accuracy %.2f %% after %.1f s\n", 100 * accuracy(&net, &test_set), spent);

    scion_optimizer_free(opt);
    network_free(&net);
    free(train_set.pixels);
    free(train_set.labels);
    free(test_set.pixels);
    free(test_set.labels);
    return 0;
}
