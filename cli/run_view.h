/* A run on the terminal: the sink that shows its progress, and the lines that say how it ended. */
#ifndef CLI_RUN_VIEW_H
#define CLI_RUN_VIEW_H

#include "run/run.h"
#include "screen.h"

typedef enum run_output { AS_TEXT, AS_JSON, NO_OUTPUT } run_output;

typedef struct run_view {
    cli_progress progress;
    run_output show;
    double begin;        /* clock */
    int64_t first;       /* step that this process began with */
    double rate, share;  /* samples per second, part of the time in the optimizer: running means */
    double forward_s;    /* of the last step */
    double stepped;      /* clock when the last step ended */
    double since;        /* clock when micro-batch `from` of the present step was done */
    int64_t from, done;  /* the first micro-batch that was timed (0: none yet), and the last one done */
    double validating_s; /* in validations of this process */
    int64_t validations;
    char saved[RUN_PATH]; /* the last checkpoint */
    char line[160];       /* of the last step; "" if it was printed and stays */
} run_view;

run_view run_view_start(run_output show);
/* AS_TEXT: shows all; else only warnings about norms, and keeps the path of the last checkpoint. */
run_sink run_view_sink(run_view *v);

/* Says how a run ended, or where it was stopped. out: its folder. */
void run_view_end(run_view *v, const trainer *t, const run_result *r, const char *out);

#endif
