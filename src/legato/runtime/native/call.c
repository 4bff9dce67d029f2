/* One run of a program: its services, its workspace, and how it is interrupted. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>

struct lg_workspace {
    lg_call call; /* first: generated code and services see a pointer to this */
    lg_arena arena;
    lg_host_op host_op;
    void *user;
    int32_t threads;
    bool has_gang;
    bool on_main;          /* SIGINT concerns this call */
    uint32_t generation;   /* lg_generation when has_gang was last right */
    uint32_t sigints;      /* sigint_count when the call began */
    struct sigaction theirs; /* the program's own action on SIGINT, while ours is in place */
    lg_profile *profile;   /* what this call is recorded in, or NULL */
    lg_status push_failed; /* why push returned NULL */
    lg_fp caller_fp;
    _Atomic int32_t interrupted;
};

/* ---- interrupts ---- */

static _Atomic uint32_t sigint_count; /* SIGINTs received while a call had taken the signal over */

static void on_sigint(int signal) {
    (void)signal;
    atomic_fetch_add_explicit(&sigint_count, 1, memory_order_relaxed);
}

static void give_sigint_back(const lg_workspace *ws) {
    sigaction(SIGINT, &ws->theirs, NULL);
}

/* Takes SIGINT over, unless the process ignores it. */
static bool take_sigint(lg_workspace *ws) {
    struct sigaction ours = {.sa_handler = on_sigint, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGINT, &ours, &ws->theirs))
        return false;
    bool ignored = !(ws->theirs.sa_flags & SA_SIGINFO) && ws->theirs.sa_handler == SIG_IGN;
    if (ignored)
        give_sigint_back(ws);
    return !ignored;
}

static bool is_interrupted(const lg_workspace *ws) {
    return atomic_load_explicit(&ws->interrupted, memory_order_relaxed) ||
           (ws->on_main && atomic_load_explicit(&sigint_count, memory_order_relaxed) != ws->sigints);
}

void lg_interrupt(lg_workspace *ws) {
    atomic_store_explicit(&ws->interrupted, 1, memory_order_relaxed);
}

/* ---- services ---- */

/* Whether this call has the pool: asked for at each parallel launch, kept until the call ends. */
static bool has_gang(lg_workspace *ws) {
    if (ws->generation != lg_generation) { /* forked inside a host operator: the child's pool is another */
        ws->generation = lg_generation;
        ws->has_gang = false;
        atomic_fetch_add_explicit(&lg_calls, 1, memory_order_relaxed);
    }
    if (!ws->has_gang)
        ws->has_gang = lg_gang_take();
    return ws->has_gang;
}

static lg_status launch(lg_call *call, lg_kernel kernel, const lg_word *args, int64_t how) {
    lg_workspace *ws = (lg_workspace *)call;
    if (is_interrupted(ws))
        return LG_INTERRUPT;
    if (how == LG_ALONE || ws->threads == 1 || !has_gang(ws))
        return kernel(args, 0, 1);
    return how == LG_GANG ? lg_gang_run_together(kernel, args, ws->threads) : lg_gang_run(kernel, args, ws->threads);
}

static void *push(lg_call *call, int64_t bytes) {
    lg_workspace *ws = (lg_workspace *)call;
    lg_status why;
    void *frame = lg_arena_push(&ws->arena, bytes, &why);
    if (!frame)
        ws->push_failed = why;
    return frame;
}

static void pop(lg_call *call, void *frame) {
    lg_arena_pop(&((lg_workspace *)call)->arena, frame);
}

static lg_status host_op(lg_call *call, int64_t op, const lg_word *args) {
    lg_workspace *ws = (lg_workspace *)call;
    if (is_interrupted(ws))
        return LG_INTERRUPT;
    if (!ws->host_op)
        return LG_HOST_OP;
    /* The callback is the embedder's code: it gets the embedder's floating-point state and signal handling. */
    lg_fp_leave(ws->caller_fp);
    if (ws->on_main)
        give_sigint_back(ws);
    lg_status status = ws->host_op(ws->user, op, args);
    ws->on_main = ws->on_main && take_sigint(ws);
    ws->caller_fp = lg_fp_enter();
    return status;
}

static lg_status poll(lg_call *call) {
    return is_interrupted((const lg_workspace *)call) ? LG_INTERRUPT : LG_OK;
}

static void barrier(lg_call *call, int64_t nt) {
    (void)call; /* one gang at a time */
    lg_gang_barrier(nt);
}

static const lg_services services = {
    .version = LG_ABI_VERSION,
    .size = sizeof(lg_services),
    .launch = launch,
    .push = push,
    .pop = pop,
    .host_op = host_op,
    .poll = poll,
    .barrier = barrier,
};

/* ---- services of a profiled workspace ---- */

static lg_status timed_launch(lg_call *call, lg_kernel kernel, const lg_word *args, int64_t how) {
    lg_workspace *ws = (lg_workspace *)call;
    lg_timed timed = {.kernel = kernel, .args = args};
    lg_launch *record = lg_profile_launch(ws->profile, &timed, ws->threads);
    if (!record)
        return launch(call, kernel, args, how);
    lg_status status = launch(call, lg_timed_share, (const lg_word *)&timed, how);
    lg_profile_end(record);
    return status;
}

static lg_status timed_host_op(lg_call *call, int64_t op, const lg_word *args) {
    lg_launch *record = lg_profile_host_op(((lg_workspace *)call)->profile, op);
    lg_status status = host_op(call, op, args);
    lg_profile_end(record);
    return status;
}

static const lg_services timed_services = {
    .version = LG_ABI_VERSION,
    .size = sizeof(lg_services),
    .launch = timed_launch,
    .push = push,
    .pop = pop,
    .host_op = timed_host_op,
    .poll = poll,
    .barrier = barrier,
};

/* ---- the embedder's side ---- */

int32_t lg_abi_version(void) {
    return LG_ABI_VERSION;
}

lg_workspace *lg_workspace_new(const uint8_t *constants, int64_t limit, lg_host_op host_op_fn, void *user) {
    lg_workspace *ws = calloc(1, sizeof *ws);
    if (!ws)
        return NULL;
    ws->call = (lg_call){.services = &services, .constants = constants};
    ws->arena.limit = limit;
    ws->host_op = host_op_fn;
    ws->user = user;
    return ws;
}

void lg_workspace_free(lg_workspace *ws) {
    if (!ws)
        return;
    lg_arena_free(&ws->arena);
    free(ws);
}

void lg_workspace_profile(lg_workspace *ws, lg_profile *profile) {
    ws->profile = profile;
    ws->call.services = profile ? &timed_services : &services;
}

int64_t lg_workspace_peak(const lg_workspace *ws) {
    return ws->arena.peak;
}

int64_t lg_workspace_held(const lg_workspace *ws) {
    return ws->arena.first ? ws->arena.first->capacity : 0;
}

static int32_t clamp_threads(int32_t threads) {
    if (threads <= 0)
        return lg_cpu_count();
    return threads < LG_MAX_THREADS ? threads : LG_MAX_THREADS;
}

static lg_status run_entry(lg_workspace *ws, lg_host entry, const lg_word *words) {
    atomic_fetch_add_explicit(&lg_calls, 1, memory_order_relaxed);
    ws->caller_fp = lg_fp_enter();
    lg_status status = entry(&ws->call, words);
    lg_fp_leave(ws->caller_fp);
    if (ws->generation == lg_generation) {
        if (ws->has_gang)
            lg_gang_release();
        atomic_fetch_sub_explicit(&lg_calls, 1, memory_order_relaxed);
    }
    return status == LG_MEMORY && ws->push_failed ? ws->push_failed : status;
}

lg_status lg_run(lg_workspace *ws, lg_host entry, const lg_word *words, int64_t reserve, int32_t threads,
                 int32_t flags) {
    if (!lg_arena_reserve(&ws->arena, reserve))
        return LG_MEMORY;
    ws->threads = clamp_threads(threads);
    ws->has_gang = false;
    ws->generation = lg_generation;
    ws->push_failed = LG_OK;
    atomic_store_explicit(&ws->interrupted, 0, memory_order_relaxed);
    ws->sigints = atomic_load_explicit(&sigint_count, memory_order_relaxed);
    ws->on_main = (flags & LG_RUN_SIGINT) && take_sigint(ws);
    lg_status status = run_entry(ws, entry, words);
    if (ws->on_main)
        give_sigint_back(ws);
    lg_arena_reset(&ws->arena);
    /* A Ctrl-C after the last kernel is not lost either. */
    return status == LG_OK && is_interrupted(ws) ? LG_INTERRUPT : status;
}
