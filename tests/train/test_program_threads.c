/* `threads=N` is the number of threads: of the operators' loops, of the products, of the optimizer; and results are
 * the same bits with any, more than there are cores too. Each run is a process of its own, this program with
 * arguments, since threads that were started stay. */
#include "tiny.h"

#include <dirent.h>
#include <unistd.h>

#include "trainer_tests.h"

/* Tasks of this process. */
static int tasks(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (const struct dirent *e; folder && (e = readdir(folder)) != NULL;)
        count += e->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

/* Models large enough that threads share their products, and that plans for more threads cut them finer. */
static const struct {
    const char *name, *pairs;
} models[] = {
    {"gpt", TINY_GPT "layers=1 width=128 head_size=32 block=64 steps=3"},
    {"cnn", TINY_CNN "steps=3"},
};

/* Trains a few steps with threads=N and writes the weights to a file; returns the number of tasks. */
static int train(const char *kind, const char *threads, const char *path)
{
    char pairs[256];
    const int m = strcmp(kind, models[0].name) == 0 ? 0 : 1;
    trainer *t;
    scion_error err;
    double loss;
    snprintf(pairs, sizeof pairs, "%s threads=%s", models[m].pairs, threads);
    config c = tiny(pairs);
    if (tiny_create(&t, &c, &err) != SCION_OK)
        return 100;
    for (int i = 0; i < 3; i++)
        if (tiny_step(t, &loss, &err) != SCION_OK)
            return 101;
    FILE *f = fopen(path, "wb");
    const bool written = f && fwrite(tiny_weights(t), sizeof(float), (size_t)t->elements, f) == (size_t)t->elements;
    if (!f || fclose(f) != 0 || !written)
        return 102;
    trainer_free(t);
    return tasks();
}

static char self[4096];

/* The same in another process under OMP_NUM_THREADS; the weights come back in *weights (to be freed). */
static int run(const char *omp, const char *kind, const char *threads, char **weights, size_t *bytes)
{
    char path[] = "/tmp/scion-threads-XXXXXX", command[4300];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "OMP_NUM_THREADS=%s '%s' %s %s %s", omp, self, kind, threads, path);
    const int status = system(command);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    *weights = malloc(1 << 24);
    assert_non_null(*weights);
    *bytes = fread(*weights, 1, 1 << 24, f);
    fclose(f);
    unlink(path);
    assert_true(*bytes > 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Without OpenMP there is one thread whatever is asked for. */
#ifdef _OPENMP
enum { CASES = 5 };
#else
enum { CASES = 2 };
#endif

static void the_number_of_threads_is_the_one_asked_for(void **state)
{
    static const struct {
        const char *omp, *threads;
        int tasks;
    } cases[] = {{"1", "0", 1}, {"2", "1", 1}, {"2", "0", 2}, {"1", "2", 2}, {"1", "3", 3}};
    char *weights[CASES];
    size_t bytes[CASES];
    (void)state;
    for (int i = 0; i < CASES; i++)
        assert_int_equal(run(cases[i].omp, "gpt", cases[i].threads, &weights[i], &bytes[i]), cases[i].tasks);
    for (int i = 1; i < CASES; i++) {
        assert_int_equal(bytes[0], bytes[i]);
        assert_memory_equal(weights[0], weights[i], bytes[i]);
    }
    for (int i = 0; i < CASES; i++)
        free(weights[i]);
}

static void many_threads_on_few_cores_change_no_bit(void **state)
{
    static const char *const threads[] = {"1", "2", "16", "61"};
    enum { counts = sizeof threads / sizeof *threads };
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char *weights[counts];
        size_t bytes[counts];
        for (int i = 0; i < counts; i++)
            assert_true(run("2", models[m].name, threads[i], &weights[i], &bytes[i]) < 100);
        for (int i = 1; i < counts; i++) {
            assert_int_equal(bytes[0], bytes[i]);
            assert_memory_equal(weights[0], weights[i], bytes[i]);
        }
        for (int i = 0; i < counts; i++)
            free(weights[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return train(argv[1], argv[2], argv[3]);
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_number_of_threads_is_the_one_asked_for),
                                       cmocka_unit_test(many_threads_on_few_cores_change_no_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
