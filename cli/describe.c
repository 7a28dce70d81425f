/* Describes a run before it starts: its parameters, memory, data and shares. See describe.h. */
#include "describe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "util/utf8.h"
#include "base/arith.h"
#include "product/kernel.h"

/* ---- Parameters -----------------------------------------------------------------------------------------------
 * A row per parameter; equal ones of repeated blocks share one, "blocks.0-11.attn.q". */

enum { columns = 7, role_column = 2, first_number = 4, cell_bytes = 64 };

typedef struct table_row {
    char cell[columns][cell_bytes]; /* name, shape, role, norm, scale, radius, elements */
    int64_t elements;
    const char *name;          /* as the optimizer knows it */
    size_t number, number_end; /* where its block's number stands; both 0: there is none */
    int64_t first, last;       /* numbers that it stands for */
} table_row;

/* The first part of a name that is a number: 12 of "blocks.12.attn.q". */
static void find_number(table_row *r)
{
    for (const char *part = r->name; part; part = strchr(part, '.') ? strchr(part, '.') + 1 : NULL) {
        const size_t digits = strspn(part, "0123456789");
        if (digits == 0 || digits > 9 || (part[digits] != '.' && part[digits] != '\0'))
            continue;
        r->number = (size_t)(part - r->name);
        r->number_end = r->number + digits;
        r->first = r->last = strtoll(part, NULL, 10);
        return;
    }
}

static table_row table_row_of(const trainer *t, int64_t i)
{
    table_row r = {.elements = 0};
    const tape_value *v = tape_param_at(trainer_about(t).model->tape, i);
    scion_info info = {.size = sizeof info};
    scion_optimizer_inspect(trainer_about(t).optimizer, i, 0, &info, NULL);
    const bool lmo = scion_rule_info(info.rule)->lmo != 0;
    r.name = info.name;
    r.elements = info.elements;
    find_number(&r);
    for (int k = 0; k < v->ndim; k++)
        utf8_append(r.cell[1], cell_bytes, "%s%lld", k > 0 ? " x " : "", (long long)v->shape[k]);
    snprintf(r.cell[2], cell_bytes, "%s", scion_enum_name(SCION_ENUM_ROLE, (int)info.role));
    snprintf(r.cell[3], cell_bytes, "%s",
             lmo ? scion_enum_name(SCION_ENUM_NORM, (int)info.norm)
                 : scion_enum_name(SCION_ENUM_RULE, (int)info.rule));
    snprintf(r.cell[4], cell_bytes, lmo ? "%.4g" : "-", info.scale);
    snprintf(r.cell[5], cell_bytes, lmo ? "%.4g" : "-", info.radius);
    return r;
}

/* True if `r` is the same parameter one block later than the last of `group`. */
static bool continues(const table_row *group, const table_row *r)
{
    if (group->number_end == 0 || r->number != group->number || r->first != group->last + 1 ||
        strncmp(r->name, group->name, r->number) != 0 ||
        strcmp(r->name + r->number_end, group->name + group->number_end) != 0)
        return false;
    for (int c = 1; c < columns; c++)
        if (strcmp(r->cell[c], group->cell[c]) != 0)
            return false;
    return true;
}

/* Makes the head, the rows, equal ones folded, and their sum. Returns the number of lines; 0: out of memory. */
static int64_t make_rows(const trainer *t, table_row **rows)
{
    static const table_row head = {.cell = {"parameter", "shape", "role", "norm", "scale", "radius", "elements"}};
    const int64_t parameters = tape_param_count(trainer_about(t).model->tape);
    int64_t count = 0;
    *rows = calloc((size_t)parameters + 2, sizeof **rows);
    if (!*rows)
        return 0;
    (*rows)[count++] = head;
    for (int64_t i = 0; i < parameters; i++) {
        const table_row r = table_row_of(t, i);
        int64_t k = 1;
        while (k < count && !continues(&(*rows)[k], &r))
            k++;
        if (k == count) {
            (*rows)[count++] = r;
            continue;
        }
        (*rows)[k].last = r.first;
        (*rows)[k].elements += r.elements;
    }
    (*rows)[count++] = (table_row){.name = "in all", .elements = trainer_about(t).parameters};
    for (int64_t k = 1; k < count; k++) {
        table_row *r = &(*rows)[k];
        if (r->last > r->first)
            snprintf(r->cell[0], cell_bytes, "%.*s%lld-%lld%s", (int)r->number, r->name, (long long)r->first,
                     (long long)r->last, r->name + r->number_end);
        else
            snprintf(r->cell[0], cell_bytes, "%s", r->name);
        snprintf(r->cell[columns - 1], cell_bytes, "%lld", (long long)r->elements);
    }
    return count;
}

static void print_row(const table_row *r, const int width[columns])
{
    const char *gap = "";
    for (int c = 0; c < columns; c++) {
        if (width[c] == 0)
            continue;
        printf(c < first_number ? "%s%-*s" : "%s%*s", gap, width[c], r->cell[c]);
        gap = "  ";
    }
    putchar('\n');
}

/* The role is left out where the table would be too wide. */
void describe_parameters(const trainer *t)
{
    table_row *rows;
    const int64_t count = make_rows(t, &rows);
    int width[columns] = {0}, all = -2;
    for (int c = 0; c < columns; c++) {
        for (int64_t i = 0; i < count; i++)
            width[c] = (int)scn_max(width[c], (int64_t)strlen(rows[i].cell[c]));
        all += width[c] + 2;
    }
    if (all > CLI_COLUMNS)
        width[role_column] = 0;
    for (int64_t i = 0; i < count; i++)
        print_row(&rows[i], width);
    free(rows);
}

void describe_memory(const trainer *t)
{
    const trainer_memory *m = trainer_about(t).memory;
    static const double worth_a_line = 0.01;
    char text[7][16];
    printf("memory: weights %s, gradients %s, optimizer %s,\n"
           "        activations %s, evaluation %s; in all %s\n",
           cli_bytes((double)m->weights, text[0]), cli_bytes((double)m->gradients, text[1]),
           cli_bytes((double)m->state + (double)m->workspace, text[2]), cli_bytes((double)m->activations, text[3]),
           cli_bytes((double)m->evaluation, text[4]), cli_bytes((double)m->total, text[5]));
    if (m->per_parameter > 0)
        printf("        %.3g bytes a parameter for weights, gradients and the optimizer's state\n", m->per_parameter);
    if (m->sharing > 0)
        printf("        including %s for gradient sums and messages of ranks\n",
               cli_bytes((double)m->sharing, text[6]));
    if (m->packed > 0)
        printf("        including %s for weights packed once a step\n", cli_bytes((double)m->packed, text[6]));
    if ((double)m->data > worth_a_line * (double)m->total)
        printf("        including %s for the data\n", cli_bytes((double)m->data, text[6]));
    if (m->decoding > 0)
        printf("        and up to %s more while very large images are decoded\n",
               cli_bytes((double)m->decoding, text[6]));
}

/* ---- The run -------------------------------------------------------------------------------------------------- */

/* Says which part of the validation data is measured, and warns of a validation that is larger than the training
 * before it, which is seldom meant. */
static void print_validation(const trainer *t)
{
    enum { large = 1 << 20 };
    const data_info *d = data_about(trainer_about(t).data);
    const run_options *o = &trainer_about(t).config->run;
    const int64_t every = o->eval_every > 0 ? o->eval_every : trainer_about(t).steps;
    const int64_t units = trainer_validation_samples(t, false) * d->sample_units;
    const int64_t end = trainer_validation_samples(t, true) * d->sample_units;
    if (units < d->samples[DATA_VAL] * d->sample_units)
        cli_fill(stdout, 12, "validation: measures %lld of %lld %s%s; %s=0 measures all", (long long)units,
                 (long long)(d->samples[DATA_VAL] * d->sample_units), d->unit,
                 o->eval_batches > 0 ? "" : ", spread over them",
                 o->eval_batches > 0 ? "eval_batches" : "eval_tokens");
    if (end != units)
        cli_fill(stdout, 12, "validation: the last one measures %lld %s", (long long)end, d->unit);
    if (units > large && (double)units > (double)every * (double)trainer_samples(t))
        cli_fill(stdout, 12,
                 "validation: on %lld %s each time, more than are trained on between two validations; eval_tokens=N "
                 "takes fewer",
                 (long long)units, d->unit);
}

static void print_ranks(const trainer *t)
{
    const shard_plan *s = trainer_about(t).shards;
    char mean[16], max[16];
    double largest = 0, sum = 0;
    if (!s)
        return;
    for (int r = 0; r < s->ranks; r++) {
        const double bytes = trainer_wire_bytes(t, r);
        sum += bytes;
        largest = fmax(largest, bytes);
    }
    cli_bytes(sum / s->ranks, mean);
    cli_bytes(largest, max);
    if (strcmp(mean, max) == 0)
        cli_fill(stdout, 7, "ranks: %d, %d on this host; communication: %s per step and rank", s->ranks,
                 trainer_about(t).comm->local_size, mean);
    else
        cli_fill(stdout, 7, "ranks: %d, %d on this host; communication: %s per step and rank, %s at most", s->ranks,
                 trainer_about(t).comm->local_size, mean, max);
}

/* Hints at smaller images if most weights are a layer with a weight for each of their numbers. */
static void print_first_layer(const trainer *t)
{
    enum { smaller = 32 };
    const tape *weights = trainer_about(t).model->tape;
    const data_image_info *m = data_about(trainer_about(t).data)->image;
    int64_t most = 0;
    if (!m || data_files(trainer_about(t).data) == 0 || m->height < 2 * smaller)
        return;
    for (int64_t i = 0; i < tape_param_count(weights); i++) {
        const tape_value *w = tape_param_at(weights, i);
        if (w->ndim == 2 && w->shape[1] == m->height * m->width * m->channels)
            most = scn_max(most, w->count);
    }
    if (2 * most > trainer_about(t).parameters)
        cli_fill(stdout, 6,
                 "note: %.1f of %.1f million weights are the first layer's, for images of %lld x %lld; image_size=%d "
                 "makes it %.0f times smaller",
                 (double)most / 1e6, (double)trainer_about(t).parameters / 1e6, (long long)m->height,
                 (long long)m->width, smaller, (double)(m->height * m->width) / (smaller * smaller));
}

/* Says that a run of minutes would be faster in bfloat16, or that this CPU does not make it so. By operations, not by
 * a measurement: some 50 Gflop/s a thread. */
static void print_compute(const trainer *t)
{
    static const double slow = 120, speed = 50e9; /* seconds; operations per second and thread */
    const trainer_info about = trainer_about(t);
    const bool pairs = scn_kernel_for(SCION_BF16)->kr > 1;
    const bool bf16 = (scion_dtype)about.config->training.compute == SCION_BF16;
    const double flops = trainer_flops(t) * (double)about.steps / about.comm->size;
    if (bf16 && !pairs)
        cli_fill(stdout, 6,
                 "note: compute=bf16 is not faster here: the %s kernels multiply the rounded numbers in float32",
                 scn_isa_used()->name);
    if (!bf16 && pairs && about.step == 0 && flops > slow * speed * about.threads)
        cli_fill(stdout, 6, "note: compute=bf16 would be faster on this CPU, with products in mixed precision");
}

void describe_run(const trainer *t)
{
    const config *c = trainer_about(t).config;
    const data_info *d = data_about(trainer_about(t).data);
    const int threads = trainer_about(t).threads;
    cli_fill(stdout, 6, "data: %s", d->description);
    if (d->note[0])
        cli_fill(stdout, 6, "note: %s", d->note);
    print_first_layer(t);
    cli_fill(stdout, 5, "run: %s %s, lr %g %s, %lld step%s of %lld %s, %d thread%s, into %s", c->optimizer.rule,
             config_norms_text(c), c->training.lr, c->training.schedule, (long long)trainer_about(t).steps,
             cli_plural(trainer_about(t).steps), (long long)trainer_samples(t), d->unit, threads, cli_plural(threads),
             c->run.out);
    print_compute(t);
    print_ranks(t);
    print_validation(t);
    if (c->run.report > 0)
        cli_fill(stdout, 6, "page: %s/report.html, drawn every %lld step%s", c->run.out, (long long)c->run.report,
                 cli_plural(c->run.report));
    fflush(stdout);
}
