/* See memory_limit.h. */
#include "util/memory_limit.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void lower(memory_limit *to, memory_limit by)
{
    if (by.bytes > 0 && (to->bytes == 0 || by.bytes < to->bytes))
        *to = by;
}

/* ---- Control groups ------------------------------------------------------------------------------------------ */

/* Number in a file of the kernel; 0: none ("max" is no limit). */
static size_t limit_in(const char *path)
{
    unsigned long long bytes = 0;
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    if (fscanf(f, "%llu", &bytes) != 1)
        bytes = 0;
    fclose(f);
    return (size_t)bytes;
}

/* Limits of a group and its parents. In a container the group's path may exist only on the host: the root is always
 * read. */
static void lower_by_group(memory_limit *to, const char *root, const char *mount, const char *file, char *group)
{
    for (;;) {
        char path[PATH_MAX];
        const size_t length = strlen(group);
        if (length > 0 && group[length - 1] == '/')
            group[length - 1] = '\0';
        if (snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file) < (int)sizeof path)
            lower(to, (memory_limit){limit_in(path), "its cgroup allows", false});
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/user.slice" (version 2), "9:memory:/docker/1234" (version 1). */
static void lower_by_groups(memory_limit *to, const char *root)
{
    char path[PATH_MAX], line[PATH_MAX], top[2] = "";
    lower_by_group(to, root, "/sys/fs/cgroup", "memory.max", top);
    lower_by_group(to, root, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", top);
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL, controllers[256];
        line[strcspn(line, "\n")] = '\0';
        if (!group)
            continue;
        snprintf(controllers, sizeof controllers, ",%.*s,", (int)(group - list - 1), list + 1);
        if (strcmp(controllers, ",,") == 0)
            lower_by_group(to, root, "/sys/fs/cgroup", "memory.max", group + 1);
        else if (strstr(controllers, ",memory,"))
            lower_by_group(to, root, "/sys/fs/cgroup/memory", "memory.limit_in_bytes", group + 1);
    }
    if (f)
        fclose(f);
}

/* ---- Limits of the process ----------------------------------------------------------------------------------- */

/* Bytes of address space and of data in use; 0: unknown. */
static void used_now(const char *root, size_t page, size_t *space, size_t *data)
{
    char path[PATH_MAX];
    unsigned long long size = 0, writable = 0;
    snprintf(path, sizeof path, "%s/proc/self/statm", root);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%llu %*u %*u %*u %*u %llu", &size, &writable) != 2)
        size = writable = 0;
    if (f)
        fclose(f);
    *space = (size_t)size * page;
    *data = (size_t)writable * page;
}

static void lower_by_rlimit(memory_limit *to, int resource, size_t used, const char *what)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        lower(to, (memory_limit){limit.rlim_cur > used ? (size_t)limit.rlim_cur - used : 1, what, true});
}

memory_limit memory_usable(const char *root, int threads)
{
    const size_t default_stack = (size_t)8 << 20; /* of a thread, if unlimited */
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    struct rlimit stack;
    size_t space, data;
    memory_limit m = {0, "this machine has", false};
    if (pages > 0 && page > 0)
        m.bytes = (size_t)pages * (size_t)page;
    lower_by_groups(&m, root);
    used_now(root, page > 0 ? (size_t)page : 4096, &space, &data);
    const bool known = getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY;
    const size_t stacks = (size_t)(threads - 1) * (known ? (size_t)stack.rlim_cur : default_stack);
    lower_by_rlimit(&m, RLIMIT_AS, space + stacks, "ulimit -v leaves");
    lower_by_rlimit(&m, RLIMIT_DATA, data + stacks, "ulimit -d leaves");
    return m;
}
