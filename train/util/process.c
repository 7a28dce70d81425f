/* See process.h. */
#include "util/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

bool process_exists(const char *program)
{
    const char *path = getenv("PATH");
    char file[1024];
    for (size_t n; path && *path; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        const int length = snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program);
        if (length > 0 && (size_t)length < sizeof file && access(file, X_OK) == 0)
            return true;
    }
    return false;
}

/* What the child does; it does not return. */
static void become(const char *folder, const char *const argv[], int64_t file_bytes)
{
    const struct rlimit files = {(rlim_t)file_bytes, (rlim_t)file_bytes}, no_core = {0, 0};
    const int null = open("/dev/null", O_RDWR);
    if (null < 0 || (folder && chdir(folder) != 0))
        _exit(127);
    if (file_bytes > 0 && (setrlimit(RLIMIT_FSIZE, &files) != 0 || setrlimit(RLIMIT_CORE, &no_core) != 0))
        _exit(127);
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    execvp(argv[0], (char *const *)(size_t)argv);
    _exit(127);
}

bool process_run(const char *folder, const char *const argv[], process_limits limits)
{
    static const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    const double end = clock_now() + limits.seconds;
    const pid_t child = fork();
    int status = 0;
    if (child < 0)
        return false;
    if (child == 0)
        become(folder, argv, limits.file_bytes);
    for (bool killed = false;;) {
        const pid_t ended = waitpid(child, &status, killed ? 0 : WNOHANG);
        if (ended == child)
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended < 0 && errno != EINTR)
            return false;
        if (!killed && (clock_now() > end || (limits.stopped && limits.stopped())))
            killed = kill(child, SIGKILL) == 0;
        nanosleep(&pause, NULL);
    }
}
