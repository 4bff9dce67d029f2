/* What the files of the runtime share. Include first: it selects the system's interfaces. */
#ifndef LEGATO_INTERNAL_H
#define LEGATO_INTERNAL_H

#define _GNU_SOURCE

#include <stdatomic.h>
#include <stdbool.h>

#include "legato_rt.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- the floating-point environment of kernels: round to nearest, denormals kept, no traps ---- */

typedef unsigned lg_fp;

static inline lg_fp lg_fp_enter(void) {
#if defined(__x86_64__)
    lg_fp saved = _mm_getcsr();
    _mm_setcsr(0x1F80);
    return saved;
#else
    return 0; /* no other processor is supported yet; theirs starts threads in this state */
#endif
}

static inline void lg_fp_leave(lg_fp saved) {
#if defined(__x86_64__)
    _mm_setcsr(saved);
#else
    (void)saved;
#endif
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

/* Runs `kernel` on the calling thread, which has the gang, and up to threads - 1 workers; waits for all. */
lg_status lg_gang_run(lg_kernel kernel, const lg_word *args, int32_t threads);

/* The same, and all threads of the kernel do run: as many as come soon enough. They may call lg_gang_barrier. */
lg_status lg_gang_run_together(lg_kernel kernel, const lg_word *args, int32_t threads);
void lg_gang_barrier(int64_t threads);

/* ---- profile.c ---- */

/* A kernel that runs another and takes the time of each share. */
typedef struct {
    lg_kernel kernel;
    const lg_word *args;
    lg_share *shares;
} lg_timed;

/* The kernel to launch in place of `timed->kernel`; its arguments are `timed`. */
lg_status lg_timed_share(const lg_word *timed, int64_t tid, int64_t nt);

/* Begins the record of a launch of timed->kernel on up to `threads` threads, whose shares are recorded where
 * `timed->shares` then points. NULL: there is no room for it, or it is a kernel that the table does not have. */
lg_launch *lg_profile_launch(lg_profile *profile, lg_timed *timed, int32_t threads);

/* Begins the record of a call of operator `op`. NULL: there is no room for it. */
lg_launch *lg_profile_host_op(lg_profile *profile, int64_t op);

/* Ends a record, if there is one. */
void lg_profile_end(lg_launch *launch);

/* ---- arena.c ---- */

typedef struct lg_chunk {
    struct lg_chunk *prev, *next;
    uint8_t *data;
    int64_t capacity, used;
} lg_chunk;

/* A stack of frames in chunks that never move. All chunks before `current` are full, all after it are empty. */
typedef struct {
    lg_chunk *first, *current;
    int64_t limit;  /* of in_use; 0: none */
    int64_t in_use; /* bytes of live frames */
    int64_t peak;   /* the most in_use has been */
    int64_t depth;  /* live frames */
} lg_arena;

/* Makes the first chunk at least `bytes` long; no frame may be live. False: over the limit, or out of memory. */
bool lg_arena_reserve(lg_arena *arena, int64_t bytes);

/* A frame, or NULL with the reason in *why. */
void *lg_arena_push(lg_arena *arena, int64_t bytes, lg_status *why);
void lg_arena_pop(lg_arena *arena, void *frame);

/* Ends all frames and keeps the first chunk only. */
void lg_arena_reset(lg_arena *arena);
void lg_arena_free(lg_arena *arena);

#endif
