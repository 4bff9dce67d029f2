/* What the files of the runtime share. Include first: it selects the system's interfaces. */
#ifndef LEGATO_INTERNAL_H
#define LEGATO_INTERNAL_H

#define _GNU_SOURCE

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <ucontext.h>

#include "legato_rt.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- the floating-point environment of kernels: round to nearest, no traps; subnormal numbers are kept or count as 0 - */

typedef unsigned lg_fp;

#if defined(__x86_64__)
enum { LG_FP_KEEP = 0x1F80, LG_FP_FLUSH = 0x9FC0 }; /* MXCSR; the second with FTZ and DAZ */
#else
enum { LG_FP_KEEP, LG_FP_FLUSH }; /* no other processor is supported yet */
#endif

/* What this thread computes in. */
static inline lg_fp lg_fp_get(void) {
#if defined(__x86_64__)
    return _mm_getcsr();
#else
    return 0;
#endif
}

/* Returns what it was before. */
static inline lg_fp lg_fp_set(lg_fp state) {
    lg_fp saved = lg_fp_get();
#if defined(__x86_64__)
    _mm_setcsr(state);
#else
    (void)state;
#endif
    return saved;
}

static inline void lg_pause(void) {
#if defined(__x86_64__)
    _mm_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* ---- pool.c ---- */

/* Calls in progress in this process: with the gang's threads, how crowded the CPUs are. */
extern _Atomic int32_t lg_calls;

/* Changes in a child of fork, where no worker lives on. */
extern uint32_t lg_generation;

/* Takes the pool for one call, if it is free. */
bool lg_gang_take(void);
void lg_gang_release(void);

/* The shares of each thread that a kernel in pieces or parts is divided into; a power of two. */
enum { LG_CELLS = 32 };

/* Runs `kernel` on the calling thread, which has the gang, and up to threads - 1 workers; waits for all. `how` is
 * LG_SHARES, LG_PIECES or LG_PARTS. LG_INTERRUPT: `call` was to end early, which is asked between pieces and parts. */
lg_status lg_gang_run(lg_kernel kernel, const lg_word *args, int32_t threads, int32_t how, const lg_workspace *call);

/* What thread `tid` of `nt` does of a kernel launched with LG_PARTS; 0 of 1: what one does that has no gang, of one with
 * LG_PIECES too. */
lg_status lg_parts_run(lg_kernel kernel, const lg_word *args, int32_t tid, int32_t nt, const lg_workspace *call);

/* For LG_GANG: all threads of the kernel do run, as many as come soon enough. They may call lg_gang_barrier. */
lg_status lg_gang_run_together(lg_kernel kernel, const lg_word *args, int32_t threads);
void lg_gang_barrier(int64_t threads);

/* ---- call.c ---- */

/* Whether the workspace's call is to end early. From any thread that runs a kernel of it. */
bool lg_is_interrupted(const lg_workspace *workspace);

/* ---- cpu.c ---- */

/* Lets a thread run where this process may, whatever the thread that has made it is bound to. */
void lg_cpu_unbind(pthread_t thread);

/* ---- profile.c ---- */

/* A kernel that runs another and takes the time of each share. */
typedef struct {
    lg_kernel kernel;
    const lg_word *args;
    lg_share *shares;
    _Atomic int64_t *count; /* of shares that have begun */
} lg_timed;

/* The kernel to launch in place of `timed->kernel`; its arguments are `timed`. */
lg_status lg_timed_share(const lg_word *timed, int64_t tid, int64_t nt);

/* Begins the record of a launch of timed->kernel, whose shares, `most` of them at most, are recorded where
 * `timed->shares` then points. NULL: there is no room for it, or it is a kernel that the table does not have. */
lg_launch *lg_profile_launch(lg_profile *profile, lg_timed *timed, int64_t most);

/* Begins the record of a call of operator `op`. NULL: there is no room for it. */
lg_launch *lg_profile_host_op(lg_profile *profile, int64_t op);

/* Ends a record, if there is one, with so many shares. */
void lg_profile_end(lg_profile *profile, lg_launch *launch, int64_t shares);

/* What a kernel and a callback may still need of a stack. */
#define STACK_RESERVE (1ll << 20)

/* What a call needs of the stack of its thread: kernels' local buffers, which are 1 MB at most, and frames. */
#define STACK_NEEDED (2ll << 20)

/* ---- arena.c ---- */

/* Frames that nest in a call that is not to recurse deeply. */
enum { LG_MAX_DEPTH = 100000 };

/* What a workspace may use, and uses: frames and the slabs of objects. */
typedef struct {
    int64_t limit;   /* of in_use; 0: none */
    int64_t in_use;  /* bytes */
    int64_t peak;    /* the most in_use has been */
    int64_t refused; /* bytes for which there was no room, last in this call; and */
    int64_t beside;  /* in_use then */
} lg_budget;

/* Notes that there is no room for so many bytes. */
static inline void lg_budget_refuse(lg_budget *budget, int64_t bytes) {
    budget->refused = bytes;
    budget->beside = budget->in_use;
}

static inline bool lg_budget_take(lg_budget *budget, int64_t bytes) {
    if (budget->limit && bytes > budget->limit - budget->in_use) {
        lg_budget_refuse(budget, bytes);
        return false;
    }
    budget->in_use += bytes;
    budget->peak = budget->in_use > budget->peak ? budget->in_use : budget->peak;
    return true;
}

static inline void lg_budget_give(lg_budget *budget, int64_t bytes) {
    budget->in_use -= bytes;
}

typedef struct lg_chunk {
    struct lg_chunk *prev, *next;
    uint8_t *data;
    int64_t capacity, used;
} lg_chunk;

/* A stack of frames in chunks that never move. All chunks before `current` are full, all after it are empty. */
typedef struct {
    lg_chunk *first, *current;
    lg_budget *budget;
    int64_t in_use; /* bytes of live frames */
    int64_t depth;  /* live frames */
} lg_arena;

/* Makes the first chunk at least `bytes` long; no frame may be live. False: over the limit, or out of memory. */
bool lg_arena_reserve(lg_arena *arena, int64_t bytes);

/* Whether calls may nest one deeper on the stack of this thread. */
bool lg_arena_may_nest(const lg_arena *arena);

/* Whether the stack of this thread has room for STACK_NEEDED bytes; true where the system does not say. */
bool lg_stack_has_room(void);

/* A frame, or NULL: no memory. */
void *lg_arena_push(lg_arena *arena, int64_t bytes);
void lg_arena_pop(lg_arena *arena, void *frame);

/* Ends all frames and keeps the first chunk, and up to `keep` bytes of those after it. */
void lg_arena_reset(lg_arena *arena, int64_t keep);
void lg_arena_free(lg_arena *arena);
int64_t lg_arena_held(const lg_arena *arena);

/* ---- heap.c ---- */

enum { LG_SIZE_CLASSES = 224 };

/* Memory that blocks are cut from; that of a large object holds one. */
typedef struct lg_slab {
    struct lg_slab *next;
    int64_t bytes; /* with this head */
    bool is_used;  /* of a large object: it lives */
} lg_slab;

/* The objects of one call. */
typedef struct {
    lg_budget *budget;
    int64_t live;                      /* objects */
    int64_t mapped;                    /* bytes of the slabs in use */
    lg_slab *first, *current, *large;  /* slabs in order; the one that is being cut up; large objects */
    uint8_t *place, *end;              /* what is left of the current slab */
    lg_header *free[LG_SIZE_CLASSES];  /* ended blocks of a size, linked by `bytes` */
    int64_t *records;                  /* what lg_heap_read has given */
} lg_heap;

/* The payload of a new object with one reference, or NULL: no memory. */
void *lg_heap_object(lg_heap *heap, int64_t bytes, int64_t tag, int64_t pointers);

/* What the object with this payload becomes with so many bytes: see lg_services. NULL: no memory. */
void *lg_heap_resize(lg_heap *heap, void *payload, int64_t bytes);

/* Ends an object whose count has become 0, and what only it refers to. */
void lg_heap_end(lg_heap *heap, void *payload);
void lg_heap_release(lg_heap *heap, const int64_t *handles, int64_t count);

/* Ends all objects, and keeps some memory for the next call. */
void lg_heap_reset(lg_heap *heap);
void lg_heap_free(lg_heap *heap);
int64_t lg_heap_held(const lg_heap *heap);

/* ---- exchange.c ---- */

/* What lg_objects_new and lg_objects_read do. */
lg_status lg_heap_build(lg_heap *heap, const int64_t *script, int64_t words, int64_t objects, int64_t *roots,
                        int64_t count);
lg_status lg_heap_read(lg_heap *heap, int64_t *roots, int64_t count, const int64_t **records, int64_t *words);

/* ---- stack.c ---- */

typedef lg_status lg_job(void *argument);

/* A stack beside that of the thread, and who runs on it. */
typedef struct {
    uint8_t *base;
    int64_t size;
    uintptr_t floor, top; /* the guard ends at the one, the stack begins at the other */
    uintptr_t lowest;     /* that calls are known to have reached */
    lg_job *job;          /* what runs on it; NULL: done */
    lg_job *errand;       /* what it has left it for */
    void *argument;
    lg_status status;
    ucontext_t inside, outside;
#if defined(__SANITIZE_ADDRESS__)
    void *fake_inside, *fake_outside;
    const void *outside_bottom;
    size_t outside_size;
#endif
#if defined(__SANITIZE_THREAD__)
    void *fiber_inside, *fiber_outside;
#endif
} lg_stack;

/* Reserves it, unless that was done; false: the system has no room for it. */
bool lg_stack_map(lg_stack *stack);

/* Gives back what memory a deep call has made it. */
void lg_stack_trim(lg_stack *stack);
void lg_stack_free(lg_stack *stack);

/* Runs `job` on it, to its end. */
lg_status lg_stack_run(lg_stack *stack, lg_job *job, void *argument);

/* From within: runs `errand` on the stack that lg_stack_run was called on. */
lg_status lg_stack_leave(lg_stack *stack, lg_job *errand, void *argument);

#endif
