/* mlp_options.h - the command line of mlp_fashion.c: one row per option, which parses it and describes it. */
#ifndef MLP_OPTIONS_H
#define MLP_OPTIONS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <scion_advanced.h>

#include "fashion_data.h" /* fail */

struct settings {
    const char *data, *rule;
    double epochs, batch, lr, width, seed, threads;
};

static struct settings settings = {.data = "/usr/share/datasets/fashion-mnist",
                                   .rule = "scion",
                                   .epochs = 12,
                                   .batch = 500,
                                   .lr = 0,
                                   .width = 256,
                                   .seed = 1,
                                   .threads = 0};

static const struct option {
    const char *name, *help;
    const char **text; /* the option takes a word, */
    double *number;    /* or a number from `low` to `high` */
    double low, high;
} OPTIONS[] = {
    {"--data", "directory of the four idx files", &settings.data, NULL, 0, 0},
    {"--rule", "optimizer: scion, uscion, muon, adamw, ...", &settings.rule, NULL, 0, 0},
    {"--epochs", "passes over the training set", NULL, &settings.epochs, 1, 1e6},
    {"--batch", "images per step", NULL, &settings.batch, 1, 10000},
    {"--lr", "step size at the start; 0: the rule's own", NULL, &settings.lr, 0, 1e6},
    {"--width", "neurons of each hidden layer", NULL, &settings.width, 1, 8192},
    {"--seed", "of weights and order", NULL, &settings.seed, 0, 1e9},
    {"--threads", "0: all cores", NULL, &settings.threads, 0, 1024},
};

static void print_help(void)
{
    puts("mlp_fashion: train a 3-layer network on Fashion-MNIST with Scion\n\noptions:");
    for (size_t i = 0; i < sizeof OPTIONS / sizeof *OPTIONS; i++) {
        const struct option *o = &OPTIONS[i];
        printf("  %-10s %-4s %s", o->name, o->text ? "WORD" : "N", o->help);
        if (o->text)
            printf(" (default %s)\n", *o->text);
        else
            printf(" (default %g)\n", *o->number);
    }
    puts("  --help          this text\n\nrules:");
    for (int i = 0; scion_enum_name(SCION_ENUM_RULE, i); i++)
        printf(" %s", scion_enum_name(SCION_ENUM_RULE, i));
    puts("\n\nCtrl-C ends the training and prints the accuracy so far.");
}

static void parse(int argc, char **argv)
{
    for (int a = 1; a < argc; a++) {
        const struct option *o = OPTIONS, *end = OPTIONS + sizeof OPTIONS / sizeof *OPTIONS;
        char *rest = NULL;
        if (!strcmp(argv[a], "--help")) {
            print_help();
            exit(0);
        }
        while (o < end && strcmp(argv[a], o->name) != 0)
            o++;
        if (o == end)
            fail(EXIT_USAGE, "no option %s; --help lists them", argv[a]);
        if (++a == argc)
            fail(EXIT_USAGE, "%s needs a value", o->name);
        if (o->text) {
            *o->text = argv[a];
            continue;
        }
        double value = strtod(argv[a], &rest);
        int whole = o->number == &settings.lr || value == floor(value);
        if (rest == argv[a] || *rest || !(value >= o->low && value <= o->high) || !whole)
            fail(EXIT_USAGE, "%s %s: expected a %snumber from %g to %g", o->name, argv[a],
                 o->number == &settings.lr ? "" : "whole ", o->low, o->high);
        *o->number = value;
    }
}

#endif
