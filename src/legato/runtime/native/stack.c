/* A stack of one's own, for programs that recurse deeply: large, and only what is used of it is memory. */
#include "internal.h"

#include <sys/mman.h>
#include <unistd.h>

#define LARGEST (1ll << 30)    /* or a quarter of the machine's memory: recursion without end takes all of it */
#define SMALLEST (16ll << 20)
#define GUARD (64ll << 10)     /* at the low end: a way of noticing what no check has */
#define KEEP (256ll << 10)     /* at the high end: stays memory between calls */

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

static int64_t largest(void) {
    int64_t memory = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), size = LARGEST;
    while (size > SMALLEST && size > memory / 4)
        size /= 2;
    return size;
}

bool lg_stack_map(lg_stack *stack) {
    if (stack->base)
        return true;
    for (int64_t size = largest(); size >= SMALLEST; size /= 2) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
        uint8_t *base = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (base == MAP_FAILED)
            continue;
        madvise(base, (size_t)size, MADV_NOHUGEPAGE);
        mprotect(base, GUARD, PROT_NONE);
        stack->base = base;
        stack->size = size;
        stack->floor = (uintptr_t)base + GUARD;
        stack->top = stack->lowest = (uintptr_t)base + (uintptr_t)size;
        return true;
    }
    return false;
}

void lg_stack_trim(lg_stack *stack) {
    if (!stack->base || stack->top - stack->lowest <= KEEP)
        return;
    madvise((void *)stack->floor, (size_t)(stack->top - stack->floor - KEEP), MADV_DONTNEED);
    stack->lowest = stack->top;
}

void lg_stack_free(lg_stack *stack) {
    if (stack->base)
        munmap(stack->base, (size_t)stack->size);
    stack->base = NULL;
}

/* ---- switching ---- */

/* What the sanitizers are told: which stack runs from now on. They follow it by these calls alone. */
static void announce(lg_stack *stack, bool inwards, bool forever) {
#if defined(__SANITIZE_ADDRESS__)
    void **keep = forever ? NULL : inwards ? &stack->fake_outside : &stack->fake_inside;
    if (inwards)
        __sanitizer_start_switch_fiber(keep, stack->base, (size_t)stack->size);
    else
        __sanitizer_start_switch_fiber(keep, stack->outside_bottom, stack->outside_size);
#endif
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(inwards ? stack->fiber_inside : stack->fiber_outside, 0);
#endif
    (void)stack, (void)inwards, (void)forever;
}

static void arrived(lg_stack *stack, bool inwards, bool first) {
#if defined(__SANITIZE_ADDRESS__)
    if (inwards)
        __sanitizer_finish_switch_fiber(first ? NULL : stack->fake_inside, &stack->outside_bottom,
                                        &stack->outside_size);
    else
        __sanitizer_finish_switch_fiber(stack->fake_outside, NULL, NULL);
#endif
    (void)stack, (void)inwards, (void)first;
}

static void begin(unsigned high, unsigned low) {
    lg_stack *stack = (lg_stack *)((uintptr_t)high << 32 | low);
    arrived(stack, true, true);
    stack->status = stack->job(stack->argument);
    stack->job = NULL;
    announce(stack, false, true);
    setcontext(&stack->outside);
}

lg_status lg_stack_run(lg_stack *stack, lg_job *job, void *argument) {
    uintptr_t self = (uintptr_t)stack;
    stack->job = job;
    stack->argument = argument;
    stack->errand = NULL;
    getcontext(&stack->inside);
    stack->inside.uc_stack.ss_sp = stack->base;
    stack->inside.uc_stack.ss_size = (size_t)stack->size;
    stack->inside.uc_link = NULL;
    makecontext(&stack->inside, (void (*)(void))begin, 2, (unsigned)(self >> 32), (unsigned)self);
#if defined(__SANITIZE_THREAD__)
    stack->fiber_outside = __tsan_get_current_fiber();
    stack->fiber_inside = __tsan_create_fiber(0);
#endif
    while (stack->job) {
        announce(stack, true, false);
        swapcontext(&stack->outside, &stack->inside);
        arrived(stack, false, false);
        if (stack->errand)
            stack->status = stack->errand(stack->argument);
        stack->errand = NULL;
    }
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(stack->fiber_inside);
#endif
    return stack->status;
}

lg_status lg_stack_leave(lg_stack *stack, lg_job *errand, void *argument) {
    stack->errand = errand;
    stack->argument = argument;
    announce(stack, false, false);
    swapcontext(&stack->inside, &stack->outside);
    arrived(stack, true, false);
    return stack->status;
}
