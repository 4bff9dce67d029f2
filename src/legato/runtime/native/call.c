/* One run of a program: its services, its workspace, and how it is interrupted. */
#include "internal.h"

#include <signal.h>
#include <stdlib.h>

#define KEEP (8ll << 20) /* bytes of frames that stay for the next call of a recursive program, beside those reserved */

struct lg_workspace {
    lg_call call; /* first: generated code and services see a pointer to this */
    lg_budget budget;
    lg_arena arena;
    lg_heap heap;
    lg_stack stack;   /* of programs that recurse deeply */
    bool is_deep;     /* this call may recurse deeply */
    bool is_aside;    /* it runs on that stack, for this or because the thread's own is small */
    int64_t leaked;   /* objects that calls have left behind */
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
    lg_fp fp, caller_fp;
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

bool lg_is_interrupted(const lg_workspace *ws) {
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
    if (lg_is_interrupted(ws))
        return LG_INTERRUPT;
    if (how == LG_ALONE || ws->threads == 1 || !has_gang(ws))
        return how >= LG_PIECES ? lg_parts_run(kernel, args, 0, 1, ws) : kernel(args, 0, 1);
    if (how == LG_GANG)
        return lg_gang_run_together(kernel, args, ws->threads);
    return lg_gang_run(kernel, args, ws->threads, (int32_t)how, ws);
}

/* Whether calls may nest one deeper on the stack of our own, which counts as memory. */
static bool may_nest_aside(lg_workspace *ws) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    int64_t used = (int64_t)(ws->stack.top - here);
    ws->stack.lowest = here < ws->stack.lowest ? here : ws->stack.lowest;
    return (ws->is_deep || ws->arena.depth < LG_MAX_DEPTH) && here >= ws->stack.floor + STACK_RESERVE &&
           (!ws->budget.limit || used <= ws->budget.limit - ws->budget.in_use);
}

static void *push(lg_call *call, int64_t bytes) {
    lg_workspace *ws = (lg_workspace *)call;
    void *frame = NULL;
    if (lg_is_interrupted(ws))
        ws->push_failed = LG_INTERRUPT;
    else if (!(ws->is_aside ? may_nest_aside(ws) : lg_arena_may_nest(&ws->arena)))
        ws->push_failed = LG_DEPTH;
    else if (!(frame = lg_arena_push(&ws->arena, bytes)))
        ws->push_failed = LG_MEMORY;
    return frame;
}

static void pop(lg_call *call, void *frame) {
    lg_arena_pop(&((lg_workspace *)call)->arena, frame);
}

typedef struct {
    lg_workspace *ws;
    int64_t op;
    const lg_word *args;
} host_op_call;

static lg_status call_back(void *argument) {
    const host_op_call *request = argument;
    lg_workspace *ws = request->ws;
    /* The callback is the embedder's code: it gets the embedder's floating-point state and signal handling. */
    lg_fp_set(ws->caller_fp);
    if (ws->on_main)
        give_sigint_back(ws);
    lg_status status = ws->host_op(ws->user, request->op, request->args);
    ws->on_main = ws->on_main && take_sigint(ws);
    ws->caller_fp = lg_fp_set(ws->fp);
    return status;
}

static lg_status host_op(lg_call *call, int64_t op, const lg_word *args) {
    lg_workspace *ws = (lg_workspace *)call;
    if (lg_is_interrupted(ws))
        return LG_INTERRUPT;
    if (!ws->host_op)
        return LG_HOST_OP;
    host_op_call request = {.ws = ws, .op = op, .args = args};
    return ws->is_aside ? lg_stack_leave(&ws->stack, call_back, &request) : call_back(&request);
}

static lg_status poll(lg_call *call) {
    return lg_is_interrupted((const lg_workspace *)call) ? LG_INTERRUPT : LG_OK;
}

static void barrier(lg_call *call, int64_t nt) {
    (void)call; /* one gang at a time */
    lg_gang_barrier(nt);
}

static void *object(lg_call *call, int64_t bytes, int64_t kind) {
    return lg_heap_object(&((lg_workspace *)call)->heap, bytes, kind & 0xFFFF, kind >> 16 & 0xFFFF);
}

static void end(lg_call *call, void *payload) {
    lg_heap_end(&((lg_workspace *)call)->heap, payload);
}

static void *resize(lg_call *call, void *payload, int64_t bytes) {
    return lg_heap_resize(&((lg_workspace *)call)->heap, payload, bytes);
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
    .object = object,
    .end = end,
    .resize = resize,
};

/* ---- services of a profiled workspace ---- */

static lg_status timed_launch(lg_call *call, lg_kernel kernel, const lg_word *args, int64_t how) {
    lg_workspace *ws = (lg_workspace *)call;
    _Atomic int64_t shares = 0;
    lg_timed timed = {.kernel = kernel, .args = args, .count = &shares};
    lg_launch *record = lg_profile_launch(ws->profile, &timed, ws->threads * (how >= LG_PIECES ? LG_CELLS : 1));
    if (!record)
        return launch(call, kernel, args, how);
    lg_status status = launch(call, lg_timed_share, (const lg_word *)&timed, how);
    lg_profile_end(ws->profile, record, shares);
    return status;
}

static lg_status timed_host_op(lg_call *call, int64_t op, const lg_word *args) {
    lg_profile *profile = ((lg_workspace *)call)->profile;
    lg_launch *record = lg_profile_host_op(profile, op);
    lg_status status = host_op(call, op, args);
    lg_profile_end(profile, record, 0);
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
    .object = object,
    .end = end,
    .resize = resize,
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
    ws->budget.limit = limit;
    ws->arena.budget = ws->heap.budget = &ws->budget;
    ws->host_op = host_op_fn;
    ws->user = user;
    return ws;
}

void lg_workspace_free(lg_workspace *ws) {
    if (!ws)
        return;
    lg_arena_free(&ws->arena);
    lg_heap_free(&ws->heap);
    lg_stack_free(&ws->stack);
    free(ws);
}

void lg_workspace_profile(lg_workspace *ws, lg_profile *profile) {
    ws->profile = profile;
    ws->call.services = profile ? &timed_services : &services;
}

int64_t lg_workspace_peak(const lg_workspace *ws) {
    return ws->budget.peak;
}

void lg_workspace_refused(const lg_workspace *ws, int64_t *bytes, int64_t *beside) {
    *bytes = ws->budget.refused;
    *beside = ws->budget.beside;
}

int64_t lg_workspace_held(const lg_workspace *ws) {
    return lg_arena_held(&ws->arena) + lg_heap_held(&ws->heap);
}

lg_status lg_objects_new(lg_workspace *ws, const int64_t *script, int64_t words, int64_t objects, int64_t *roots,
                         int64_t count) {
    return lg_heap_build(&ws->heap, script, words, objects, roots, count);
}

lg_status lg_objects_read(lg_workspace *ws, int64_t *roots, int64_t count, const int64_t **records, int64_t *words) {
    return lg_heap_read(&ws->heap, roots, count, records, words);
}

void lg_objects_end(lg_workspace *ws, const int64_t *handles, int64_t count) {
    lg_heap_release(&ws->heap, handles, count);
    ws->leaked += ws->heap.live;
    lg_heap_reset(&ws->heap);
}

int64_t lg_objects_leaked(const lg_workspace *ws) {
    return ws->leaked;
}

static int32_t clamp_threads(int32_t threads) {
    if (threads <= 0)
        return lg_cpu_count();
    return threads < LG_MAX_THREADS ? threads : LG_MAX_THREADS;
}

typedef struct {
    lg_workspace *ws;
    lg_host entry;
    const lg_word *words;
} entry_call;

static lg_status enter(void *argument) {
    const entry_call *request = argument;
    return request->entry(&request->ws->call, request->words);
}

static lg_status run_entry(lg_workspace *ws, lg_host entry, const lg_word *words) {
    entry_call request = {.ws = ws, .entry = entry, .words = words};
    atomic_fetch_add_explicit(&lg_calls, 1, memory_order_relaxed);
    ws->caller_fp = lg_fp_set(ws->fp);
    lg_status status = ws->is_aside ? lg_stack_run(&ws->stack, enter, &request) : enter(&request);
    lg_fp_set(ws->caller_fp);
    if (ws->generation == lg_generation) {
        if (ws->has_gang)
            lg_gang_release();
        atomic_fetch_sub_explicit(&lg_calls, 1, memory_order_relaxed);
    }
    return status == LG_MEMORY && ws->push_failed ? ws->push_failed : status;
}

lg_status lg_run(lg_workspace *ws, lg_host entry, const lg_word *words, int64_t reserve, int32_t threads,
                 int32_t flags) {
    ws->is_deep = flags & LG_RUN_DEEP;
    ws->is_aside = ws->is_deep || !lg_stack_has_room();
    ws->fp = flags & LG_RUN_FLUSH ? LG_FP_FLUSH : LG_FP_KEEP;
    lg_budget_refuse(&ws->budget, STACK_NEEDED); /* should lg_stack_map fail */
    if ((ws->is_aside && !lg_stack_map(&ws->stack)) || !lg_arena_reserve(&ws->arena, reserve)) {
        lg_heap_reset(&ws->heap);
        return LG_MEMORY;
    }
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
    lg_arena_reset(&ws->arena, ws->is_deep ? KEEP : 0);
    lg_stack_trim(&ws->stack);
    /* A Ctrl-C after the last kernel is not lost either. */
    status = status == LG_OK && lg_is_interrupted(ws) ? LG_INTERRUPT : status;
    if (status)
        lg_heap_reset(&ws->heap);
    else if (!(flags & LG_RUN_OBJECTS))
        lg_objects_end(ws, NULL, 0);
    return status;
}

uint32_t lg_floats_enter(int32_t flush) { return lg_fp_set(flush ? LG_FP_FLUSH : LG_FP_KEEP); }

void lg_floats_leave(uint32_t saved) { lg_fp_set(saved); }
