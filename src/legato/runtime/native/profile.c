/* Records of what a profiled workspace runs: launches, the shares of threads in them, and their arguments. */
#include "internal.h"

#include <time.h>

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* Its address is another on each thread. */
static _Thread_local char thread_mark;

lg_status lg_timed_share(const lg_word *args, int64_t tid, int64_t nt) {
    const lg_timed *timed = (const lg_timed *)args;
    lg_share *share = &timed->shares[atomic_fetch_add_explicit(timed->count, 1, memory_order_relaxed)];
    share->start = now_ns();
    lg_status status = timed->kernel(timed->args, tid, nt);
    share->end = now_ns();
    share->tid = tid;
    share->nt = nt;
    share->thread = (int64_t)(intptr_t)&thread_mark;
    return status;
}

/* The entry of the table whose address is that of `kernel`; -1: there is none. */
static int64_t find_kernel(const lg_profile *profile, lg_kernel kernel) {
    int64_t wanted = (int64_t)(intptr_t)kernel, low = 0, high = profile->kernel_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (profile->kernels[2 * middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < profile->kernel_count && profile->kernels[2 * low] == wanted ? low : -1;
}

static lg_launch *begin(lg_profile *profile, int64_t kernel, int64_t most, int64_t words) {
    bool fits = profile->launch_count < profile->launch_room && most <= profile->share_room - profile->share_count &&
                words <= profile->word_room - profile->word_count;
    if (!fits) {
        profile->lost++;
        return NULL;
    }
    lg_launch *launch = &profile->launches[profile->launch_count++];
    *launch = (lg_launch){.kernel = kernel, .first_share = profile->share_count, .first_word = profile->word_count};
    profile->word_count += words;
    return launch;
}

lg_launch *lg_profile_launch(lg_profile *profile, lg_timed *timed, int64_t most) {
    int64_t kernel = find_kernel(profile, timed->kernel);
    if (kernel < 0) {
        profile->unknown++;
        return NULL;
    }
    int64_t words = profile->kernels[2 * kernel + 1];
    lg_launch *launch = begin(profile, kernel, most, words);
    if (!launch)
        return NULL;
    for (int64_t i = 0; i < words; i++)
        profile->words[launch->first_word + i] = timed->args[i].i;
    timed->shares = &profile->shares[launch->first_share];
    launch->start = now_ns();
    return launch;
}

lg_launch *lg_profile_host_op(lg_profile *profile, int64_t op) {
    lg_launch *launch = begin(profile, -1 - op, 0, 0);
    if (launch)
        launch->start = now_ns();
    return launch;
}

void lg_profile_end(lg_profile *profile, lg_launch *launch, int64_t shares) {
    if (!launch)
        return;
    launch->end = now_ns();
    launch->shares = shares;
    profile->share_count += shares;
}
