/* The workspace's memory: a stack of frames in chunks that never move. */
#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ALIGN 64
#define HUGE_PAGE (2ll << 20)
#define MAX_BYTES (1ll << 46)
#define MIN_CHUNK (256ll << 10)
#define MAX_GROWTH (64ll << 20) /* chunks double up to here */

/* ---- blocks from the system ---- */

#if defined(LG_GUARD)
/* For tests: a page that may not be touched lies behind each block (LG_GUARD 1), or in front of it (2). */

#define PAGE 4096

static int64_t pages_of(int64_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Between the front of the pages of a block and its first byte. */
static int64_t gap_of(int64_t bytes) {
    return LG_GUARD == 1 ? (pages_of(bytes) - bytes) / ALIGN * ALIGN : 0;
}

void *lg_alloc(int64_t bytes) {
    if (bytes <= 0 || bytes > MAX_BYTES)
        return NULL;
    int64_t size = pages_of(bytes);
    uint8_t *got = mmap(NULL, (size_t)(size + 2 * PAGE), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED || mprotect(got + PAGE, (size_t)size, PROT_READ | PROT_WRITE))
        return NULL;
    return got + PAGE + gap_of(bytes);
}

void lg_free(void *data, int64_t bytes) {
    if (data)
        munmap((uint8_t *)data - gap_of(bytes) - PAGE, (size_t)(pages_of(bytes) + 2 * PAGE));
}
#else
static int64_t padded(int64_t bytes) {
    return bytes >= 2 * HUGE_PAGE ? (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : bytes;
}

void *lg_alloc(int64_t bytes) {
    if (bytes <= 0 || bytes > MAX_BYTES)
        return NULL;
    int64_t size = padded(bytes), slack = size >= 2 * HUGE_PAGE ? HUGE_PAGE : 0;
    uint8_t *got = mmap(NULL, (size_t)(size + slack), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED)
        return NULL;
    if (!slack)
        return got;
    /* Cut to a multiple of the huge page on both sides. */
    int64_t front = (int64_t)(-(uintptr_t)got & (HUGE_PAGE - 1));
    if (front)
        munmap(got, (size_t)front);
    if (slack - front)
        munmap(got + front + size, (size_t)(slack - front));
    madvise(got + front, (size_t)size, MADV_HUGEPAGE);
    return got + front;
}

void lg_free(void *data, int64_t bytes) {
    if (data)
        munmap(data, (size_t)padded(bytes));
}
#endif

/* ---- chunks ---- */

static lg_chunk *new_chunk(int64_t bytes, lg_chunk *prev) {
    lg_chunk *chunk = malloc(sizeof *chunk);
    uint8_t *data = chunk ? lg_alloc(bytes) : NULL;
    if (!data) {
        free(chunk);
        return NULL;
    }
    *chunk = (lg_chunk){.prev = prev, .data = data, .capacity = bytes};
    if (prev)
        prev->next = chunk;
    return chunk;
}

static void free_chunks(lg_chunk *chunk) {
    while (chunk) {
        lg_chunk *next = chunk->next;
        lg_free(chunk->data, chunk->capacity);
        free(chunk);
        chunk = next;
    }
}

/* The chunk after `current`, empty and with room for `size`. */
static lg_chunk *next_chunk(lg_arena *arena, int64_t size) {
    lg_chunk *current = arena->current, *next = current ? current->next : arena->first;
    if (next && next->capacity >= size)
        return next;
    free_chunks(next);
    if (current)
        current->next = NULL;
    else
        arena->first = NULL;
    int64_t growth = arena->in_use < MAX_GROWTH ? arena->in_use : MAX_GROWTH;
    int64_t bytes = growth < MIN_CHUNK ? MIN_CHUNK : growth;
    next = new_chunk(bytes < size ? size : bytes, current);
    if (!current)
        arena->first = next;
    return next;
}

static void forget_frames(lg_arena *arena) {
    lg_budget_give(arena->budget, arena->in_use);
    arena->in_use = arena->depth = 0;
}

bool lg_arena_reserve(lg_arena *arena, int64_t bytes) {
    if (bytes <= 0)
        return true;
    lg_budget_refuse(arena->budget, bytes); /* should it not succeed */
    if (arena->budget->limit && bytes > arena->budget->limit)
        return false;
    if (arena->first && arena->first->capacity >= bytes)
        return true;
    lg_arena_free(arena);
    arena->first = arena->current = new_chunk(bytes, NULL);
    return arena->first != NULL;
}

/* ---- frames ---- */

typedef struct {
    uintptr_t low, size; /* of the stack of a thread; size 0: not asked yet, 1: the system does not say */
} thread_stack;

static thread_stack own_stack(void) {
    static _Thread_local thread_stack found;
    pthread_attr_t attr;
    void *low;
    size_t size;
    if (found.size)
        return found;
    found.size = 1;
    if (pthread_getattr_np(pthread_self(), &attr))
        return found;
    if (!pthread_attr_getstack(&attr, &low, &size) && size > 1)
        found = (thread_stack){.low = (uintptr_t)low, .size = size};
    pthread_attr_destroy(&attr);
    return found;
}

/* The lowest address that frames of this thread's stack may reach; where the system does not say, depth alone is
 * checked. */
static uintptr_t stack_floor(void) {
    thread_stack stack = own_stack();
    return stack.low + (stack.size / 2 < STACK_RESERVE ? stack.size / 2 : STACK_RESERVE);
}

bool lg_stack_has_room(void) {
    thread_stack stack = own_stack();
    uintptr_t used_from = (uintptr_t)__builtin_frame_address(0) - stack.low;
    return used_from >= stack.size || used_from >= STACK_NEEDED; /* a stack that is not the thread's own is unknown */
}

bool lg_arena_may_nest(const lg_arena *arena) {
    return arena->depth < LG_MAX_DEPTH && (uintptr_t)__builtin_frame_address(0) >= stack_floor();
}

void *lg_arena_push(lg_arena *arena, int64_t bytes) {
    if (bytes < 0 || bytes > MAX_BYTES) {
        lg_budget_refuse(arena->budget, bytes);
        return NULL;
    }
    int64_t size = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if (!lg_budget_take(arena->budget, size))
        return NULL;
    lg_chunk *chunk = arena->current;
    if (!chunk || size > chunk->capacity - chunk->used) {
        chunk = next_chunk(arena, size);
        if (!chunk) {
            lg_budget_give(arena->budget, size);
            lg_budget_refuse(arena->budget, size);
            return NULL;
        }
        arena->current = chunk;
    }
    uint8_t *frame = chunk->data + chunk->used;
    chunk->used += size;
    arena->in_use += size;
    arena->depth++;
    return frame;
}

void lg_arena_pop(lg_arena *arena, void *frame) {
    lg_chunk *chunk = arena->current;
    int64_t used = (uint8_t *)frame - chunk->data;
    arena->in_use -= chunk->used - used;
    lg_budget_give(arena->budget, chunk->used - used);
    arena->depth--;
    chunk->used = used;
    if (!used && chunk->prev)
        arena->current = chunk->prev;
}

void lg_arena_reset(lg_arena *arena, int64_t keep) {
    lg_chunk *last = arena->first;
    if (last) {
        last->used = 0;
        while (last->next && (keep -= last->next->capacity) >= 0) {
            last = last->next;
            last->used = 0;
        }
        free_chunks(last->next);
        last->next = NULL;
    }
    arena->current = arena->first;
    forget_frames(arena);
}

int64_t lg_arena_held(const lg_arena *arena) {
    int64_t held = 0;
    for (const lg_chunk *chunk = arena->first; chunk; chunk = chunk->next)
        held += chunk->capacity;
    return held;
}

void lg_arena_free(lg_arena *arena) {
    free_chunks(arena->first);
    arena->first = arena->current = NULL;
    forget_frames(arena);
}
