/* Ledgers: a configuration is one row; a run is taken once, by whomever; workers that died, or that lost their
 * run. */
#include "ledger_cases.h"

#include <sys/wait.h>

#include "config/config.h"
#include "sweep/grid.h"
#include "sweep/worker.h"

/* ---- Adding -------------------------------------------------------------------------------------------- */

static void a_configuration_is_one_run(void **state)
{
    ledger *l = open_new(scratch("a.db"));
    config c = with_lr(0.5), other = c;
    ledger_run *runs, run;
    int64_t count;
    bool found;
    int64_t added;
    scion_error err;
    (void)state;
    check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, &added, &err), &err);
    check(added);
    check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, &added, &err), &err);
    check(!added);
    other.training.threads = 7;
    other.run.eval_every = 3;
    strcpy(other.run.out, "elsewhere");
    strcpy(other.preset, "mlp");
    check_ok(ledger_add(l, LEDGER_TRAINING, &other, 1, &added, &err), &err);
    check(!added);
    other.training.lr = 0.25;
    check_ok(ledger_find(l, LEDGER_TRAINING, &other, &run, &found, &err), &err);
    check(!found);
    check_ok(ledger_add(l, LEDGER_TRAINING, &other, 1, NULL, &err), &err);
    check_ok(ledger_add(l, LEDGER_COORD, &c, 1, &added, &err), &err); /* another kind, another run */
    check(added);
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    check(count == 3 && runs[0].c.training.lr == 0.5 && runs[1].c.training.lr == 0.25 &&
          runs[2].kind == LEDGER_COORD);
    check(runs[0].c.training.threads == c.training.threads); /* as it was added first */
    for (int64_t i = 0; i < count; i++)
        check(runs[i].result.state == RUN_WAITING && runs[i].attempts == 0 && isnan(runs[i].result.loss));
    free(runs);
    ledger_close(l);
}

/* All options that decide what a run of this model computes make another run of it, and no other option does. */
static void check_options_of(const char *name)
{
    ledger *l = open_new(scratch(name));
    config base = with_lr(0.5);
    const config_option *o;
    scion_error err;
    check_ok(config_set(&base, "model", name, "test", &err), &err);
    check_ok(ledger_add(l, LEDGER_TRAINING, &base, 1, NULL, &err), &err);
    for (int i = 0; (o = config_option_at(i)) != NULL; i++) {
        config c = base;
        char *to = (char *)&c + o->offset;
        int64_t added;
        char owner[80];
        switch (o->type) {
        case OPTION_BOOL: *(bool *)(void *)to = !*(bool *)(void *)to; break;
        case OPTION_REAL: *(double *)(void *)to = fmax(0, *(double *)(void *)to) + 0.125; break;
        case OPTION_INT: *(int64_t *)(void *)to += 1; break;
        case OPTION_SPAN: ((option_span *)(void *)to)->value += 1; break;
        case OPTION_SEED: *(uint64_t *)(void *)to += 1; break;
        case OPTION_ENUM:
            for (int k = 0; o->choice(k); k++) /* the last one */
                strcpy(to, o->choice(k));
            break;
        case OPTION_CHOICE: *(int *)(void *)to ^= 1; break;
        case OPTION_STRING: strcpy(to, "another"); break;
        }
        at("model %s, %s", name, o->key);
        if (config_same(&base, &c, o) ||
            (strcmp(o->key, "model") != 0 && config_foreign_option(&c, owner, sizeof owner)))
            continue;
        check_ok(ledger_add(l, LEDGER_TRAINING, &c, 1, &added, &err), &err);
        check(added == grid_computes(o));
    }
    ledger_close(l);
}

static void every_option_that_computes_tells_runs_apart(void **state)
{
    (void)state;
    for (int i = 0; model_name(i); i++)
        check_options_of(model_name(i));
}

/* ---- Taking -------------------------------------------------------------------------------------------- */

static void runs_are_taken_once_in_order(void **state)
{
    char *path = scratch("take.db");
    ledger *l[2] = {open_new(path), NULL};
    ledger_run run;
    scion_error err;
    (void)state;
    check_ok(ledger_open(&l[1], path, false, &err), &err);
    add_runs(l[0], 9);
    for (int i = 0; i < 9; i++) {
        at("run %d", i + 1);
        check(take(l[i % 2], &run) == i + 1);
        check(run.result.state == RUN_RUNNING && run.attempts == 1 && run.c.training.seed == (uint64_t)i + 1);
    }
    check(take(l[0], &run) == 0 && take(l[1], &run) == 0);
    ledger_close(l[0]);
    ledger_close(l[1]);
}

static void coordinate_checks_are_not_taken(void **state)
{
    ledger *l = open_new(scratch("coord.db"));
    const config c = with_lr(0.5);
    ledger_run run;
    scion_error err;
    (void)state;
    check_ok(ledger_add(l, LEDGER_COORD, &c, 1, NULL, &err), &err);
    check(take(l, &run) == 0);
    ledger_close(l);
}

/* Four processes take runs until none is left; a pipe hears of each. */
static void processes_share_a_ledger(void **state)
{
    enum { all = 60, processes = 4 };
    char *path = scratch("fork.db");
    int ends[2], times[all + 1] = {0}, status;
    (void)state;
    ledger *l = open_new(path);
    add_runs(l, all);
    ledger_close(l);
    check(pipe(ends) == 0);
    for (int i = 0; i < processes; i++) {
        const pid_t pid = fork();
        check(pid >= 0);
        if (pid > 0)
            continue;
        ledger_run run;
        bool found = true, lost;
        if (ledger_open(&l, path, false, NULL) != SCION_OK)
            _exit(1);
        while (found) {
            if (ledger_take(l, &run, &found, NULL) != SCION_OK)
                _exit(2);
            run.result.state = RUN_DONE;
            run.result.loss = (double)run.id;
            const char id = (char)run.id;
            if (found &&
                (ledger_finish(l, &run, NULL, &lost, NULL) != SCION_OK || lost || write(ends[1], &id, 1) != 1))
                _exit(3);
        }
        _exit(0);
    }
    close(ends[1]);
    for (char id; read(ends[0], &id, 1) == 1;)
        times[(int)id]++;
    close(ends[0]);
    for (int i = 0; i < processes; i++) {
        check(wait(&status) > 0);
        check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int i = 1; i <= all; i++) {
        at("run %d", i);
        check(times[i] == 1);
    }
    check(sql(path, "SELECT count(*) FROM runs WHERE state = 'done' AND attempts = 1 AND loss = id") == all);
}

/* ---- Workers ------------------------------------------------------------------------------------------- */

static void workers_are_known_by_their_process(void **state)
{
    char own[WORKER_TEXT], host[64], name[WORKER_TEXT];
    long pid;
    unsigned long long start;
    (void)state;
    worker_name(own);
    check(sscanf(own, "%63s %ld %llu", host, &pid, &start) == 3 && pid == (long)getpid());
    check(worker_alive(own, 1e9)); /* however long it has said nothing */
    snprintf(name, sizeof name, "%s %ld %llu", host, pid, start + 1);
    check(!worker_alive(name, 0)); /* its number was used again */
    snprintf(name, sizeof name, "%s 999999999 %llu", host, start);
    check(!worker_alive(name, 0));
    snprintf(name, sizeof name, "%s-not 999999999 %llu", host, start);
    check(worker_alive(name, 100) && !worker_alive(name, 130));    /* another machine */
    check(worker_alive(name, -3600) && !worker_alive(name, -1e9)); /* its clock is ahead; there is no such time */
    check(!worker_alive("", 0) && !worker_alive("nonsense", 0));
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    check(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0); /* a zombie from here on */
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)child);
    FILE *f = fopen(path, "r");
    if (f) {
        check(fread(text, 1, sizeof text - 1, f) > 0);
        fclose(f);
        check(sscanf(strrchr(text, ')') + 1,
                     " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                     &start) == 1);
        snprintf(name, sizeof name, "%s %ld %llu", host, (long)child, start);
        check(!worker_alive(name, 0));
    }
    waitpid(child, NULL, 0);
}

/* Gives all runs that are held to a worker of this host that is gone. */
static void kill_worker(const char *path)
{
    char own[WORKER_TEXT], text[256];
    worker_name(own);
    snprintf(text, sizeof text, "UPDATE runs SET worker = '%.*s 999999999 5' WHERE state = 'running'",
             (int)strcspn(own, " "), own);
    sql(path, text);
}

static void a_dead_workers_run_is_taken_again(void **state)
{
    char *path = scratch("dead.db");
    ledger *l = open_new(path);
    ledger_run run, *runs;
    int64_t count;
    scion_error err;
    (void)state;
    add_runs(l, 2);
    for (int attempt = 1; attempt <= 3; attempt++) {
        at("attempt %d", attempt);
        check(take(l, &run) == 1);
        check(run.attempts == attempt);
        kill_worker(path);
    }
    check(take(l, &run) == 2); /* three are enough */
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    check(count == 2 && runs[0].result.state == RUN_FAILED && runs[1].result.state == RUN_RUNNING);
    check(strstr(runs[0].result.message, "died") != NULL);
    free(runs);
    check_ok(ledger_retry(l, false, &count, &err), &err); /* but it can be asked for again */
    check(count == 1 && take(l, &run) == 1 && run.attempts == 1);
    ledger_close(l);
}

/* Another machine counts as gone after two minutes of silence. */
static void a_silent_machine_loses_its_run(void **state)
{
    char *path = scratch("silent.db"), text[256];
    ledger *l = open_new(path);
    ledger_run run;
    (void)state;
    add_runs(l, 1);
    check(take(l, &run) == 1);
    const double now = sql(path, "SELECT beat FROM runs");
    snprintf(text, sizeof text, "UPDATE runs SET worker = 'not-this-host 1 5', beat = %.0f", now - 60);
    sql(path, text);
    check(take(l, &run) == 0);
    snprintf(text, sizeof text, "UPDATE runs SET beat = %.0f", now - 150);
    sql(path, text);
    check(take(l, &run) == 1);
    ledger_close(l);
}

/* ---- Other versions ------------------------------------------------------------------------------------- */

/* A ledger as a version would have written it that hashes in another way: one option fewer (its configurations do not
 * have it), other names of the hashes. Its runs are found, and not trained again. */
static void runs_of_other_versions_are_found(void **state)
{
    char *path = scratch("version.db");
    ledger *l = open_new(path);
    ledger_run run, stored;
    bool lost;
    int64_t added;
    scion_error err;
    (void)state;
    add_runs(l, 3);
    check(take(l, &run) == 1);
    run.result.state = RUN_DONE;
    run.result.loss = 0.75;
    check_ok(ledger_finish(l, &run, NULL, &lost, &err), &err);
    ledger_close(l);
    sql(path, "UPDATE runs SET hash = 'h' || id, config = json_remove(config, '$.polar_steps', '$.eval_batches')");
    sql(path, "DROP TABLE meta");
    check_ok(ledger_open(&l, path, false, &err), &err);
    check_ok(ledger_add(l, LEDGER_TRAINING, &run.c, 1, &added, &err), &err);
    check(!added);
    stored = find(l, LEDGER_TRAINING, &run.c);
    check(stored.id == 1 && stored.result.state == RUN_DONE && stored.result.loss == 0.75);
    check(sql(path, "SELECT count(*) FROM runs") == 3);
    ledger_close(l);
    const double before = sql(path, "SELECT total(length(hash)) FROM runs");
    check_ok(ledger_open(&l, path, false, &err), &err);
    find(l, LEDGER_TRAINING, &run.c);
    ledger_close(l);
    check(sql(path, "SELECT total(length(hash)) FROM runs") == before);
}

/* Runs that were told apart and turn out to be one: what is done counts, what waits is not trained again. */
static void runs_that_are_the_same_collapse(void **state)
{
    char *path = scratch("collapse.db");
    ledger *l = open_new(path);
    ledger_run run, stored;
    bool lost;
    scion_error err;
    (void)state;
    add_runs(l, 4);
    for (int i = 1; i <= 3; i++) {
        check(take(l, &run) == i);
        run.result.state = i == 1 ? RUN_FAILED : RUN_DONE;
        run.result.loss = i;
        check_ok(ledger_finish(l, &run, NULL, &lost, &err), &err);
    }
    ledger_close(l);
    sql(path, "UPDATE runs SET hash = 'h' || id, config = (SELECT config FROM runs WHERE id = 3)");
    sql(path, "DELETE FROM meta");
    check_ok(ledger_open(&l, path, false, &err), &err);
    stored = find(l, LEDGER_TRAINING, &run.c);
    check(stored.id == 2 && stored.result.state == RUN_DONE && stored.result.loss == 2);
    check(take(l, &run) == 0);                          /* the fourth is gone */
    check(sql(path, "SELECT count(*) FROM runs") == 3); /* results are not */
    check(sql(path, "SELECT count(DISTINCT hash) FROM runs") == 3);
    ledger_close(l);
}

static void a_worker_that_lost_its_run_changes_nothing(void **state)
{
    char *path = scratch("lost.db");
    ledger *l = open_new(path);
    run_point point = {.step = 1, .loss = 2, .lr = 3, .val_loss = NAN, .accuracy = NAN};
    const run_curves curves = {.points = &point, .point_count = 1};
    ledger_run run, stored;
    run_curves read;
    bool lost = false;
    scion_error err;
    (void)state;
    add_runs(l, 1);
    check(take(l, &run) == 1);
    run.result.step = 5;
    run.result.loss = 0.5;
    check_ok(ledger_heartbeat(l, &run, &lost, &err), &err);
    check(!lost);
    sql(path, "UPDATE runs SET worker = 'not-this-host 1 5'");
    run.result.state = RUN_DONE;
    run.result.loss = 0.25;
    check_ok(ledger_finish(l, &run, &curves, &lost, &err), &err);
    check(lost);
    run.result.state = RUN_RUNNING;
    lost = false;
    check_ok(ledger_heartbeat(l, &run, &lost, &err), &err);
    check(lost);
    check_ok(ledger_put_back(l, &run, &err), &err);
    stored = find(l, LEDGER_TRAINING, &run.c);
    check(stored.result.state == RUN_RUNNING && stored.result.loss == 0.5 && stored.result.step == 5);
    check_ok(ledger_curves(l, 1, &read, &err), &err);
    check(read.point_count == 0 && read.points == NULL);
    ledger_close(l);
}

static void a_run_ends_once(void **state)
{
    ledger *l = open_new(scratch("once.db"));
    ledger_run run;
    bool lost;
    scion_error err;
    (void)state;
    add_runs(l, 1);
    check(take(l, &run) == 1);
    run.result.state = RUN_DONE;
    run.result.loss = 1;
    check_ok(ledger_finish(l, &run, NULL, &lost, &err), &err);
    check(!lost);
    run.result.loss = 2;
    check_ok(ledger_finish(l, &run, NULL, &lost, &err), &err);
    check(lost && find(l, LEDGER_TRAINING, &run.c).result.loss == 1);
    ledger_close(l);
}

static void runs_are_put_back_and_tried_again(void **state)
{
    ledger *l = open_new(scratch("back.db"));
    ledger_run run;
    int64_t count;
    bool lost;
    scion_error err;
    (void)state;
    add_runs(l, 3);
    for (int i = 0; i < 5; i++) { /* more often than a run may die: putting it back is no death */
        check(take(l, &run) == 1 && run.attempts == 1);
        check_ok(ledger_put_back(l, &run, &err), &err);
    }
    static const run_state ends[] = {RUN_DONE, RUN_DIVERGED, RUN_FAILED};
    for (int i = 0; i < 3; i++) {
        check(take(l, &run) == i + 1);
        run.result.state = ends[i];
        strcpy(run.result.message, ends[i] == RUN_DONE ? "" : "it was not to be");
        check_ok(ledger_finish(l, &run, NULL, &lost, &err), &err);
    }
    check_ok(ledger_retry(l, false, &count, &err), &err);
    check(count == 1 && take(l, &run) == 3 && run.result.message[0] != '\0');
    check_ok(ledger_retry(l, true, &count, &err), &err);
    check(count == 1 && take(l, &run) == 2);
    check(take(l, &run) == 0);
    ledger_close(l);
}

/* A command that names runs takes, retries, reads and spares these alone; the others can be counted and removed. */
static void runs_that_are_named_are_taken_alone(void **state)
{
    ledger *l = open_new(scratch("named.db"));
    config named[2] = {with_lr(0.25), with_lr(0.125)};
    int64_t ids[2], count, added;
    ledger_run run, *runs;
    bool lost;
    scion_error err;
    (void)state;
    add_runs(l, 3);
    check_ok(ledger_add(l, LEDGER_TRAINING, named, 2, &added, &err), &err);
    const config reversed[2] = {named[1], named[0]};
    check_ok(ledger_ids(l, LEDGER_TRAINING, reversed, 2, ids, &err), &err);
    check(ids[0] == 4 && ids[1] == 5);
    check_ok(ledger_others(l, &count, &err), &err);
    check(count == 0); /* none is left out */
    check_ok(ledger_only(l, ids, 2, &err), &err);
    check_ok(ledger_others(l, &count, &err), &err);
    check(count == 3);
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    check(count == 2 && runs[0].id == 4 && runs[1].id == 5);
    free(runs);
    check(take(l, &run) == 4);
    run.result.state = RUN_FAILED;
    check_ok(ledger_finish(l, &run, NULL, &lost, &err), &err);
    check(take(l, &run) == 5 && take(l, &run) == 0);
    check_ok(ledger_only(l, ids + 1, 1, &err), &err);
    check_ok(ledger_retry(l, true, &count, &err), &err);
    check(count == 0); /* what failed is another's */
    check_ok(ledger_drop(l, &count, &err), &err);
    check(count == 3);
    check_ok(ledger_only(l, NULL, 0, &err), &err);
    check_ok(ledger_runs(l, &runs, &count, &err), &err);
    check(count == 2 && runs[0].result.state == RUN_FAILED && runs[1].result.state == RUN_RUNNING);
    free(runs);
    check_ok(ledger_retry(l, false, &count, &err), &err);
    check_ok(ledger_drop(l, &count, &err), &err);
    check(count == 1); /* what runs stays */
    check_status(ledger_ids(l, LEDGER_TRAINING, named, 2, ids, &err), SCION_EINVAL, &err);
    check(strstr(err.message, "has been removed") != NULL);
    ledger_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(runs_of_other_versions_are_found),
        LAW(runs_that_are_the_same_collapse),
        LAW(a_configuration_is_one_run),
        LAW(every_option_that_computes_tells_runs_apart),
        LAW(runs_are_taken_once_in_order),
        LAW(coordinate_checks_are_not_taken),
        LAW(processes_share_a_ledger),
        LAW(workers_are_known_by_their_process),
        LAW(a_dead_workers_run_is_taken_again),
        LAW(a_silent_machine_loses_its_run),
        LAW(a_worker_that_lost_its_run_changes_nothing),
        LAW(a_run_ends_once),
        LAW(runs_are_put_back_and_tried_again),
        LAW(runs_that_are_named_are_taken_alone),
    };
    return cmocka_run_group_tests(tests, NULL, scratch_remove);
}
