/* Small programs for the runtime's tests, in the shape that code generation gives them. */
#include "legato.h"

static void share(int64_t n, int64_t tid, int64_t nt, int64_t *begin, int64_t *end) {
    *begin = tid * n / nt;
    *end = (tid + 1) * n / nt;
}

/* y[n] = w * x[n], w the first constant; words: x, y, n */
static lg_status scale_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    const float *x = args[0].p, *w = args[3].p;
    float *y = args[1].p;
    int64_t begin, end;
    share(args[2].i, tid, nt, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        y[i] = *w * x[i];
    return LG_OK;
}

lg_status scale(lg_call *call, const lg_word *args) {
    lg_word words[4] = {args[0], args[1], args[2], {.p = (void *)call->constants}};
    return call->services->launch(call, scale_kernel, words, 1);
}

/* y[n] = sum over x[n, m] in an order that no thread count changes; words: x, y, n, m, repeats */
static lg_status row_sum_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    const float *x = args[0].p;
    float *y = args[1].p;
    int64_t m = args[3].i, begin, end;
    share(args[2].i, tid, nt, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        float sum = 0;
        for (int64_t j = 0; j < m; j++)
            sum += x[i * m + j];
        y[i] = sum;
    }
    return LG_OK;
}

lg_status row_sum(lg_call *call, const lg_word *args) {
    return call->services->launch(call, row_sum_kernel, args, 1);
}

/* Many launches; y[n] counts them per element; words: x, y, n, launches */
static lg_status count_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    int64_t *y = args[0].p, begin, end;
    share(args[1].i, tid, nt, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        y[i]++;
    return LG_OK;
}

lg_status count(lg_call *call, const lg_word *args) {
    int64_t *y = args[1].p;
    lg_word words[2] = {args[1], args[2]};
    for (int64_t i = 0; i < args[2].i; i++)
        y[i] = 0;
    for (int64_t i = 0; i < args[3].i; i++) {
        lg_status status = call->services->launch(call, count_kernel, words, i % 3 == 0 ? LG_SHARES : i % 3 == 1 ? LG_PIECES : LG_PARTS);
        if (status)
            return status;
    }
    return LG_OK;
}

static int64_t fp_control(void) {
    return __builtin_ia32_stmxcsr() & 0xFFC0;
}

/* y[3] = (threads of a parallel launch, of one that is not, the MXCSR control word, or -1 if a thread has another one);
 * words: x, y */
static lg_status team_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    int64_t *y = args[0].p;
    if (tid == 0)
        y[args[1].i] = nt;
    if (fp_control() != args[2].i)
        y[2] = -1;
    return LG_OK;
}

lg_status team(lg_call *call, const lg_word *args) {
    int64_t *y = args[1].p, control = fp_control();
    lg_word first[3] = {args[1], {.i = 0}, {.i = control}}, second[3] = {args[1], {.i = 1}, {.i = control}};
    y[2] = control;
    lg_status status = call->services->launch(call, team_kernel, first, 1);
    return status ? status : call->services->launch(call, team_kernel, second, 0);
}

/* `steps` times every element takes the sum of its neighbours' values of the step before, of which there are two copies
 * of n; words: cells, threads, n, steps, call */
static lg_status meet_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    uint32_t *cells = args[0].p;
    int64_t *threads = args[1].p, n = args[2].i, begin, end;
    lg_call *call = args[4].p;
    share(n, tid, nt, &begin, &end);
    if (!tid)
        *threads = nt;
    for (int64_t step = 0; step < args[3].i; step++) {
        const uint32_t *from = cells + (step & 1) * n;
        uint32_t *to = cells + (1 - (step & 1)) * n;
        for (int64_t i = begin; i < end; i++)
            to[i] = from[(i + n - 1) % n] + from[(i + 1) % n];
        if (nt > 1)
            call->services->barrier(call, nt);
    }
    return LG_OK;
}

/* x[2, n] before and y[2, n] after the even number of steps x[0, 0]; threads[1]; words: x, y, threads, n */
lg_status meet(lg_call *call, const lg_word *args) {
    const uint32_t *x = args[0].p;
    uint32_t *y = args[1].p;
    for (int64_t i = 0; i < 2 * args[3].i; i++)
        y[i] = x[i];
    lg_word words[5] = {args[1], args[2], args[3], {.i = x[0]}, {.p = call}};
    return call->services->launch(call, meet_kernel, words, LG_GANG);
}

/* Runs until it is interrupted; words: x, y */
lg_status forever(lg_call *call, const lg_word *args) {
    for (;;) {
        lg_status status = call->services->poll(call);
        if (status)
            return status;
        if (((volatile int64_t *)args[0].p)[0] == 1) {
            lg_word words[2] = {args[1], {.i = 1}};
            status = call->services->launch(call, count_kernel, words, 1);
            if (status)
                return status;
        }
    }
}

/* x[0] = n: frames of x[1] bytes nested n deep, each marked, checked when it ends; words: x, y */
static lg_status nest_frames(lg_call *call, int64_t depth, int64_t bytes) {
    if (!depth)
        return LG_OK;
    int64_t *frame = call->services->push(call, bytes);
    if (!frame)
        return LG_MEMORY;
    if (((uintptr_t)frame & 63) != 0)
        return LG_CHECK + 1;
    if (bytes >= 8)
        *frame = depth;
    lg_status status = nest_frames(call, depth - 1, bytes);
    if (status)
        return status;
    if (bytes >= 8 && *frame != depth)
        return LG_CHECK + 1;
    call->services->pop(call, frame);
    return LG_OK;
}

lg_status nest(lg_call *call, const lg_word *args) {
    const int64_t *x = args[0].p;
    int64_t *y = args[1].p;
    for (int64_t i = 0; i < 3; i++) { /* popped frames are used again */
        lg_status status = nest_frames(call, x[0], x[1]);
        if (status)
            return status;
    }
    y[0] = x[0];
    return LG_OK;
}

/* Fails with check 0 where x < 0, else y = x; words: x, y, n */
static lg_status check_kernel(const lg_word *args, int64_t tid, int64_t nt) {
    const float *x = args[0].p;
    float *y = args[1].p;
    int64_t begin, end;
    share(args[2].i, tid, nt, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        if (!(x[i] >= 0))
            return LG_CHECK;
        y[i] = x[i];
    }
    return LG_OK;
}

lg_status check(lg_call *call, const lg_word *args) {
    return call->services->launch(call, check_kernel, args, 1);
}

/* Operator 0 on x; words: x, y, n */
lg_status by_host(lg_call *call, const lg_word *args) {
    return call->services->host_op(call, 0, args);
}

/* Takes the pool by a launch that does nothing of note, then runs operator 0 on x, then launches again; words: x, y, n */
lg_status launch_then_host(lg_call *call, const lg_word *args) {
    int64_t counters[2] = {0, 0};
    lg_word words[2] = {{.p = counters}, {.i = 2}};
    lg_status status = call->services->launch(call, count_kernel, words, 1);
    if (!status)
        status = call->services->host_op(call, 0, args);
    if (!status)
        status = call->services->launch(call, count_kernel, words, 1);
    return status ? status : counters[0] == 2 && counters[1] == 2 ? LG_OK : LG_CHECK + 1;
}

/* y = names[x % 2] through a table of addresses, which needs relocations; words: x, y */
static const int64_t odd = 1111, even = 2222;
static const int64_t *const volatile names[2] = {&even, &odd};

lg_status table(lg_call *call, const lg_word *args) {
    (void)call;
    *(int64_t *)args[1].p = *names[*(const int64_t *)args[0].p & 1];
    return LG_OK;
}

/* A status that no program has. */
lg_status nonsense(lg_call *call, const lg_word *args) {
    (void)call;
    (void)args;
    return 77;
}
