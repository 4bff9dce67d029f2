/* The runtime library without Python, to be run under sanitizers: many callers, forks, interrupts, arenas, bad images.
 * Ends with status 0 or says what went wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "legato_rt.h"

#define CALLERS 8
#define ROWS 13
#define LAUNCHES 200
#define ROUNDS 101
#define MEETINGS 3000
#define SHARES 128 /* of a launch on four threads, at most */
#define ELEMENTS 64

static void require(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "failed: %s\n", what);
    _exit(1);
}

static lg_status add_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    int64_t *y = args[0].p;
    for (int64_t i = tid * ROWS / nt; i < (tid + 1) * ROWS / nt; i++)
        y[i] += args[1].i;
    return LG_OK;
}

/* y[ROWS] += 1, LAUNCHES times, with nested frames in between */
static lg_status program(lg_call *call, const lg_word *args) {
    for (int64_t i = 0; i < LAUNCHES; i++) {
        int64_t *outer = call->services->push(call, 8 * ROWS);
        int64_t *inner = outer ? call->services->push(call, (i % 7) * 100000) : NULL;
        if (!inner)
            return LG_MEMORY;
        memset(outer, 0, 8 * ROWS);
        lg_word words[2] = {{.p = outer}, {.i = 1}};
        lg_status status = call->services->launch(call, add_kernel, words, i % 3 == 0 ? LG_SHARES : i % 3 == 1 ? LG_PIECES : LG_PARTS);
        if (status)
            return status;
        for (int64_t row = 0; row < ROWS; row++)
            ((int64_t *)args[0].p)[row] += outer[row];
        call->services->pop(call, inner);
        call->services->pop(call, outer);
    }
    return LG_OK;
}

/* `y[i] += y'[i + 1]` between two copies, ROUNDS times, the threads meeting in between; words: y[2][ROWS], the call */
static lg_status together_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    lg_call *call = args[1].p;
    for (int64_t round = 0; round < ROUNDS; round++) {
        int64_t *from = (int64_t *)args[0].p + (round & 1) * ROWS, *to = (int64_t *)args[0].p + (1 - (round & 1)) * ROWS;
        for (int64_t i = tid * ROWS / nt; i < (tid + 1) * ROWS / nt; i++)
            to[i] = from[(i + 1) % ROWS] + 1;
        if (nt > 1)
            call->services->barrier(call, nt);
    }
    return LG_OK;
}

static lg_status together(lg_call *call, const lg_word *args) {
    lg_word words[2] = {args[0], {.p = call}};
    return call->services->launch(call, together_kernel, words, LG_GANG);
}

static void meet_once(lg_workspace *workspace, int32_t threads) {
    int64_t y[2 * ROWS] = {0};
    lg_word words[1] = {{.p = y}};
    require(lg_run(workspace, together, words, 0, threads, 0) == LG_OK, "status of a kernel with barriers");
    for (int i = 0; i < ROWS; i++)
        require(y[(ROUNDS & 1) * ROWS + i] == ROUNDS, "threads waited for each other");
}

static lg_status endless(lg_call *call, const lg_word *args) {
    (void)args;
    for (;;) {
        lg_status status = call->services->poll(call);
        if (status)
            return status;
    }
}

static void call_once(lg_workspace *workspace, int32_t threads) {
    int64_t y[ROWS] = {0};
    lg_word words[1] = {{.p = y}};
    require(lg_run(workspace, program, words, 4096, threads, 0) == LG_OK, "status of the program");
    for (int i = 0; i < ROWS; i++)
        require(y[i] == LAUNCHES, "every share ran once per launch");
}

static void *caller(void *argument) {
    lg_workspace *workspace = lg_workspace_new(NULL, 0, NULL, NULL);
    for (int32_t i = 0; i < 20; i++) {
        call_once(workspace, 1 + (i + *(int *)argument) % 5);
        meet_once(workspace, 1 + (i + *(int *)argument) % 5);
    }
    require(lg_workspace_peak(workspace) >= 600000, "peak");
    require(lg_workspace_held(workspace) == 4096, "only what was reserved is held");
    lg_workspace_free(workspace);
    return NULL;
}

static void *run_endless(void *workspace) {
    require(lg_run(workspace, endless, NULL, 0, 1, 0) == LG_INTERRUPT, "lg_interrupt ends a call");
    return NULL;
}

static void test_callers(void) {
    pthread_t threads[CALLERS];
    int numbers[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, caller, &numbers[i]);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

/* Both kinds of launches, one hard behind the other: a worker may miss no call to begin. */
static void test_meetings(lg_workspace *workspace) {
    alarm(100);
    for (int i = 0; i < MEETINGS; i++) {
        meet_once(workspace, 2 + i % 3);
        if (i % 5 == 0)
            call_once(workspace, 2 + i % 3);
    }
    alarm(0);
}

/* Who computes element 0 waits, a while at most, for most of the others. words: y[ELEMENTS] and how many are done */
static lg_status slow_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    int64_t *y = args[0].p;
    _Atomic int64_t *done = args[1].p;
    for (int64_t i = tid * ELEMENTS / nt; i < (tid + 1) * ELEMENTS / nt; i++) {
        for (int wait = 0; !i && *done < ELEMENTS * 3 / 4 && wait < 50000; wait++)
            usleep(100);
        y[i] += !i && *done < ELEMENTS * 3 / 4 ? 2 : 1;
        ++*done;
    }
    return LG_OK;
}

static lg_status slow(lg_call *call, const lg_word *args) {
    return call->services->launch(call, slow_kernel, args, LG_PIECES);
}

/* What a thread that is held up has not begun is done by the other. */
static void test_pieces(lg_workspace *workspace) {
    for (int n = 0; n < 20; n++) {
        int64_t y[ELEMENTS] = {0};
        _Atomic int64_t done = 0;
        lg_word words[2] = {{.p = y}, {.p = (void *)&done}};
        require(lg_run(workspace, slow, words, 0, 2, 0) == LG_OK, "status of a kernel in pieces");
        for (int i = 0; i < ELEMENTS; i++)
            require(y[i] == 1, "every element once, most of them by the thread that is not held up");
    }
}

/* Element 0 ends the call; words: y[ELEMENTS], the workspace, how it is launched */
static lg_status stopping_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    _Atomic int64_t *y = args[0].p;
    for (int64_t i = tid * ELEMENTS / nt; i < (tid + 1) * ELEMENTS / nt; i++) {
        if (!i)
            lg_interrupt(args[1].p);
        for (int wait = 0; i == ELEMENTS / 2 && !y[0] && wait < 50000; wait++)
            usleep(100); /* where another thread begins, it waits for that */
        y[i]++;
    }
    return LG_OK;
}

static lg_status stopping(lg_call *call, const lg_word *args) {
    return call->services->launch(call, stopping_kernel, args, args[2].i);
}

/* A kernel in pieces ends with the piece in which the call is interrupted. */
static void test_stopped_pieces(lg_workspace *workspace) {
    for (int32_t n = 0; n < 4; n++) {
        int32_t threads = 1 + n % 2;
        _Atomic int64_t y[ELEMENTS] = {0};
        lg_word words[3] = {{.p = (void *)y}, {.p = workspace}, {.i = n / 2 ? LG_PARTS : LG_PIECES}};
        require(lg_run(workspace, stopping, words, 0, threads, 0) == LG_INTERRUPT, "an interrupt between pieces");
        int64_t done = 0;
        for (int i = 0; i < ELEMENTS; i++)
            done += y[i];
        require(y[0] == 1 && done <= ELEMENTS / 4, "the pieces that had begun, and no others");
        call_once(workspace, threads);
    }
}

/* The first thread waits at a barrier, the second does not come before it is told; words: state, the call */
enum { HELD = 1, GO_ON = 2, ALONE = 3 };

static lg_status held_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    _Atomic int64_t *state = args[0].p;
    lg_call *call = args[1].p;
    if (nt == 1)
        return LG_OK;
    while (tid && *state != GO_ON)
        usleep(100);
    if (!tid)
        *state = HELD;
    call->services->barrier(call, nt);
    return LG_OK;
}

static lg_status held(lg_call *call, const lg_word *args) {
    lg_word words[2] = {args[0], {.p = call}};
    return call->services->launch(call, held_kernel, words, LG_GANG);
}

static void *hold(void *argument) {
    _Atomic int64_t *state = argument;
    lg_workspace *workspace = lg_workspace_new(NULL, 0, NULL, NULL);
    lg_word words[1] = {{.p = argument}};
    for (int i = 0; i < 1000 && !*state; i++) /* a second thread may not come in time */
        require(lg_run(workspace, held, words, 0, 2, 0) == LG_OK, "a kernel that is held up"), usleep(10 * i);
    if (!*state)
        *state = ALONE;
    lg_workspace_free(workspace);
    return NULL;
}

/* A fork while some threads have arrived at a barrier, and others have not. */
static void test_fork_at_a_barrier(lg_workspace *workspace) {
    _Atomic int64_t state = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, hold, (void *)&state);
    while (!state)
        usleep(100);
    usleep(20000); /* it sleeps at the barrier */
    pid_t child = fork();
    if (!child) {
        alarm(60);
        for (int32_t i = 0; i < 5000; i++) /* in some of them both threads come in time */
            meet_once(workspace, 2);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    require(WIFEXITED(status) && !WEXITSTATUS(status), "barriers in a child that was forked at one");
    state = GO_ON;
    pthread_join(thread, NULL);
    meet_once(workspace, 2);
}

/* Needs more stack than its thread has; words: y */
static lg_status wide_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    volatile char local[600000];
    (void)tid, (void)nt;
    for (size_t i = 0; i < sizeof local; i++)
        local[i] = (char)i;
    *(int64_t *)args[0].p = local[sizeof local - 1] == (char)(sizeof local - 1);
    return LG_OK;
}

static lg_status wide(lg_call *call, const lg_word *args) {
    return call->services->launch(call, wide_kernel, args, LG_ALONE);
}

static void *call_wide(void *workspace) {
    int64_t y = 0;
    lg_word words[1] = {{.p = &y}};
    require(lg_run(workspace, wide, words, 0, 1, 0) == LG_OK && y, "a kernel on a small stack");
    call_once(workspace, 2);
    return NULL;
}

static void test_small_stack(lg_workspace *workspace) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    require(!pthread_attr_setstacksize(&attr, 128 << 10), "stack size");
    require(!pthread_create(&thread, &attr, call_wide, workspace), "a thread with a small stack");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}

static void test_fork(lg_workspace *workspace) {
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (!child) {
            call_once(workspace, 3);
            meet_once(workspace, 3);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        require(WIFEXITED(status) && !WEXITSTATUS(status), "a forked child calls");
        call_once(workspace, 3);
    }
}

static void test_interrupt(lg_workspace *workspace) {
    pthread_t thread;
    pthread_create(&thread, NULL, run_endless, workspace);
    usleep(10000);
    lg_interrupt(workspace);
    pthread_join(thread, NULL);
    call_once(workspace, 2);
}

static void test_image(void) {
    uint8_t image[8192] = {0};
    int64_t inside = 4096, outside = 8192 - 7, negative = -8;
    uint64_t target = 16;
    memcpy(image + inside, &target, sizeof target);
    uint8_t *base = lg_image_load(image, sizeof image, 100, &inside, 1);
    require(base && *(uint8_t **)(base + inside) == base + 16, "relocation");
    lg_image_unload(base, sizeof image);
    require(!lg_image_load(image, sizeof image, 100, &outside, 1) && errno == EINVAL, "relocation behind the image");
    require(!lg_image_load(image, sizeof image, 100, &negative, 1) && errno == EINVAL, "relocation before it");
    require(!lg_image_load(image, sizeof image, sizeof image + 1, NULL, 0) && errno == EINVAL, "too much code");
}

static void test_crc(void) {
    uint8_t zeros[32] = {0}, ones[32], ramp[32];
    for (int i = 0; i < 32; i++) {
        ones[i] = 255;
        ramp[i] = (uint8_t)i;
    }
    require(lg_crc32c(0, zeros, 32) == 0x8A9136AA, "CRC32C of zeros (RFC 3720, B.4)");
    require(lg_crc32c(0, ones, 32) == 0x62A8AB43, "CRC32C of ones");
    require(lg_crc32c(0, ramp, 32) == 0x46DD794E, "CRC32C of 0 to 31");
    require(lg_crc32c(lg_crc32c(0, ramp, 5), ramp + 5, 27) == 0x46DD794E, "CRC32C in two parts");
    require(lg_crc32c(0, (const uint8_t *)"123456789", 9) == 0xE3069283, "CRC32C of the check string");
}

static void test_limits(void) {
    int64_t y[ROWS] = {0};
    lg_word words[1] = {{.p = y}};
    lg_workspace *workspace = lg_workspace_new(NULL, 100000, NULL, NULL);
    int64_t refused, beside;
    require(lg_run(workspace, program, words, 0, 1, 0) == LG_MEMORY, "the limit holds for frames");
    lg_workspace_refused(workspace, &refused, &beside);
    require(refused == 100032 && beside == 128, "what there was no room for");
    require(lg_run(workspace, program, words, 100001, 1, 0) == LG_MEMORY, "the limit holds for the reserve");
    lg_workspace_free(workspace);
    uint8_t *block = lg_alloc(5 << 20);
    require(block && ((uintptr_t)block & 63) == 0 && block[(5 << 20) - 1] == 0, "lg_alloc");
    lg_free(block, 5 << 20);
}

/* A profiled workspace records every launch as long as there is room, and what it runs does not change. */
static void test_profile(lg_workspace *workspace) {
    static lg_launch launches[LAUNCHES];
    static lg_share shares[SHARES * LAUNCHES];
    static int64_t words[2 * LAUNCHES];
    int64_t kernels[2] = {(int64_t)(intptr_t)add_kernel, 2};
    lg_profile profile = {.kernel_count = 1, .kernels = kernels,
                          .launch_room = LAUNCHES, .launches = launches,
                          .share_room = SHARES * LAUNCHES, .shares = shares,
                          .word_room = 2 * LAUNCHES, .words = words};
    lg_workspace_profile(workspace, &profile);
    call_once(workspace, 4);
    require(profile.launch_count == LAUNCHES && !profile.lost && !profile.unknown, "launches recorded");
    for (int i = 0; i < LAUNCHES; i++) {
        const lg_launch *launch = &launches[i];
        int64_t ran = 0, all = 3 << 20; /* nt divides it: 1 to 4, times a power of two */
        for (int64_t j = 0; j < launch->shares; j++) {
            const lg_share *share = &shares[launch->first_share + j];
            ran += all / share->nt;
            require(launch->start <= share->start && share->end <= launch->end, "times of shares");
        }
        require(ran == all, "shares recorded");
        require(words[launch->first_word + 1] == 1, "words recorded");
    }
    call_once(workspace, 4);
    require(profile.lost == LAUNCHES, "no more room");
    profile.kernel_count = 0;
    call_once(workspace, 1);
    require(profile.unknown == LAUNCHES, "unknown kernels");
    lg_workspace_profile(workspace, NULL);
    call_once(workspace, 4);
    require(profile.lost == LAUNCHES && profile.unknown == LAUNCHES, "not profiled any more");
}

int main(int argc, char **argv) {
    lg_workspace *workspace = lg_workspace_new(NULL, 0, NULL, NULL);
    test_crc();
    test_image();
    test_limits();
    call_once(workspace, 4);
    test_profile(workspace);
    if (argc < 2 || strcmp(argv[1], "no-fork"))
        test_fork(workspace), test_fork_at_a_barrier(workspace);
    test_interrupt(workspace);
    test_meetings(workspace);
    test_pieces(workspace);
    test_stopped_pieces(workspace);
    test_small_stack(workspace);
    test_callers();
    lg_workspace_free(workspace);
    return 0;
}
