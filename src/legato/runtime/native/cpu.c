/* How many threads this process may run at once: CPU affinity and cgroup quotas. */
#include "internal.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_CPUS 8192 /* that Linux can be built for; the system refuses a mask shorter than its own */

typedef union {
    cpu_set_t set; /* the first of the CPUs */
    uint64_t words[MOST_CPUS / 64];
} cpu_mask;

/* The mask of thread `tid` of this process (0: the calling one), added to `mask`. */
static void add_mask(pid_t tid, cpu_mask *mask) {
    cpu_mask own = {.words = {0}};
    if (sched_getaffinity(tid, sizeof own, &own.set))
        return;
    for (int i = 0; i < MOST_CPUS / 64; i++)
        mask->words[i] |= own.words[i];
}

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value && strcasecmp(value, "false") && strcasecmp(value, "disabled");
}

/* Whether OpenMP binds each of its threads, of which this may be one, to a place of its own. */
static bool has_bound_threads(void) {
    return is_set("OMP_PROC_BIND") || is_set("GOMP_CPU_AFFINITY") || is_set("KMP_AFFINITY");
}

static void add_masks_of_all_threads(cpu_mask *mask) {
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return;
    for (struct dirent *entry; (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            add_mask((pid_t)atoi(entry->d_name), mask);
    closedir(tasks);
}

/* Reads up to one word and one number from a file; returns how many there were. */
static int read_words(const char *directory, const char *name, char word[32], long long *number) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int found = fscanf(file, "%31s %lld", word, number);
    fclose(file);
    return found;
}

/* The quota of one folder: "quota period" in one file (version 2) or one file each (version 1). 0: none. */
static double read_quota(const char *directory, bool v2) {
    char quota[32], period[32];
    long long length = 0;
    if (v2) {
        if (read_words(directory, "cpu.max", quota, &length) != 2)
            return 0;
    } else {
        if (!read_words(directory, "cpu.cfs_quota_us", quota, &length) ||
            !read_words(directory, "cpu.cfs_period_us", period, &length))
            return 0;
        length = strtoll(period, NULL, 10);
    }
    long long time = strtoll(quota, NULL, 10); /* "max" and -1 stand for no quota */
    return time > 0 && length > 0 ? (double)time / (double)length : 0;
}

static double smaller(double a, double b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The smallest quota of `path` below `mount` and of each folder above it, the mount included. */
static double climb(const char *mount, const char *path, bool v2) {
    char directory[PATH_MAX];
    size_t base = strlen(mount);
    if (snprintf(directory, sizeof directory, "%s%s", mount, path) >= (int)sizeof directory)
        return read_quota(mount, v2);
    double quota = 0;
    for (;;) {
        quota = smaller(quota, read_quota(directory, v2));
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < base)
            return quota;
        *slash = 0;
    }
}

/* This process's folder in one hierarchy, from /proc/self/cgroup: lines "id:controllers:path". */
static bool cgroup_path(const char *root, bool v2, char *path, size_t size) {
    char name[PATH_MAX], line[PATH_MAX + 256];
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "re");
    if (!file)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':');
        char *folder = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!folder)
            continue;
        *controllers++ = 0;
        *folder++ = 0;
        if (v2)
            found = !strcmp(line, "0") && !*controllers;
        else
            for (char *save, *word = strtok_r(controllers, ",", &save); word; word = strtok_r(NULL, ",", &save))
                found = found || !strcmp(word, "cpu");
        if (found)
            snprintf(path, size, "%s", strcmp(folder, "/") ? folder : "");
    }
    fclose(file);
    return found;
}

static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == 0 || at[length] == '\n'))
            return true;
    return false;
}

/* Quotas of the hierarchy of one line of /proc/self/mountinfo ("… root mount options … - type source options"). */
static double mount_quota(const char *root, char *line) {
    char inside[PATH_MAX], mount[PATH_MAX], type[32], options[1024], path[PATH_MAX], full[PATH_MAX];
    char *tail = strstr(line, " - ");
    if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", inside, mount) != 2)
        return 0;
    if (sscanf(tail + 3, "%31s %*s %1023s", type, options) != 2)
        return 0;
    bool v2 = !strcmp(type, "cgroup2");
    if (!v2 && (strcmp(type, "cgroup") || !has_word(options, "cpu")))
        return 0;
    if (!cgroup_path(root, v2, path, sizeof path))
        return 0;
    /* In a container the mount may show a folder of the host's tree as its root: paths are relative to that. */
    size_t skip = strcmp(inside, "/") ? strlen(inside) : 0;
    const char *below = !strncmp(path, inside, skip) ? path + skip : "";
    if (snprintf(full, sizeof full, "%s%s", root, mount) >= (int)sizeof full)
        return 0;
    return climb(full, below, v2);
}

double lg_cgroup_cpus(const char *root) {
    char name[PATH_MAX], line[3 * PATH_MAX];
    snprintf(name, sizeof name, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(name, "re");
    if (!file)
        return 0;
    double quota = 0;
    while (fgets(line, sizeof line, file))
        quota = smaller(quota, mount_quota(root, line));
    fclose(file);
    return quota;
}

/* ---- this process ---- */

static cpu_mask process_mask; /* none: not known */
static double process_quota;
static int32_t cpu_count = 1;

static void count_cpus(void) {
    int count = CPU_COUNT_S(sizeof process_mask, &process_mask.set);
    if (process_quota > 0 && process_quota < count)
        count = (int)process_quota + (process_quota > (int)process_quota);
    cpu_count = count < 1 ? 1 : count > LG_MAX_THREADS ? LG_MAX_THREADS : count;
}

static void look_again(void) {
    if (has_bound_threads())
        return; /* of what the parent knows the child has one thread */
    process_mask = (cpu_mask){.words = {0}};
    add_mask(0, &process_mask);
    count_cpus();
}

__attribute__((constructor)) static void look(void) {
    process_quota = lg_cgroup_cpus("");
    add_mask(0, &process_mask);
    if (has_bound_threads())
        add_masks_of_all_threads(&process_mask);
    count_cpus();
    pthread_atfork(NULL, NULL, look_again);
}

int32_t lg_cpu_count(void) {
    return cpu_count;
}

void lg_cpu_unbind(pthread_t thread) {
    if (CPU_COUNT_S(sizeof process_mask, &process_mask.set)) /* refused where all of these CPUs have gone since */
        pthread_setaffinity_np(thread, sizeof process_mask, &process_mask.set);
}
