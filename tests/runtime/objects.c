/* Objects and deep stacks of the runtime library without Python, to be run under sanitizers: chains, random graphs,
 * growth, limits, graphs built from words and described in words, recursion with callbacks. Ends with status 0 or says
 * what went wrong. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "legato_rt.h"

#define CHAIN 1000000
#define SLOTS 64
#define STEPS 5000
#if defined(__SANITIZE_THREAD__)
#define DEEP 20000 /* its own stack holds 65536 frames */
#else
#define DEEP 100000
#endif
#define CALLERS 4

static void require(int condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "failed: %s\n", what);
    _exit(1);
}

static lg_header *header_of(int64_t handle) {
    return (lg_header *)(uintptr_t)handle - 1;
}

static int64_t *fields_of(int64_t handle) {
    return (int64_t *)(uintptr_t)handle;
}

static int64_t object(lg_call *call, int64_t bytes, int64_t tag, int64_t pointers) {
    return (int64_t)(uintptr_t)call->services->object(call, bytes, tag | pointers << 16);
}

static void release(lg_call *call, int64_t handle) {
    if (handle && !(handle & 1) && !--header_of(handle)->refs)
        call->services->end(call, (void *)(uintptr_t)handle);
}

/* ---- chains and graphs ---- */

/* A chain of args[0] cells; it ends at once, unless args[1] says where to put it. */
static lg_status chain(lg_call *call, const lg_word *args) {
    int64_t list = 1;
    for (int64_t i = 0; i < args[0].i; i++) {
        int64_t cell = object(call, 16, 1, 1);
        if (!cell)
            return LG_MEMORY;
        fields_of(cell)[0] = list;
        fields_of(cell)[1] = i;
        list = cell;
    }
    if (args[1].p)
        *(int64_t *)args[1].p = list;
    else
        release(call, list);
    return LG_OK;
}

/* Bytes of payloads: around the borders of size classes, and large. */
static int64_t some_size(uint64_t random) {
    static const int64_t sizes[] = {0, 1, 8, 16, 40, 63, 64, 65, 112, 480, 496, 497, 1008, 1009, 5000, 70000, 262000, 300000};
    return sizes[random % (sizeof sizes / sizeof *sizes)];
}

/* Random objects of random sizes that refer to earlier ones. */
static lg_status graphs(lg_call *call, const lg_word *args) {
    int64_t slots[SLOTS] = {0};
    uint64_t random = (uint64_t)args[0].i;
    for (int step = 0; step < STEPS; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t *slot = &slots[random >> 33 & (SLOTS - 1)];
        release(call, *slot);
        int64_t pointers = random >> 40 & 3, bytes = some_size(random >> 48);
        bytes = bytes < 8 * pointers ? 8 * pointers : bytes;
        *slot = object(call, bytes, random >> 20 & 0xFFFF, pointers);
        if (!*slot)
            return LG_MEMORY;
        require(!(*slot & 15) && (pointers || bytes < 64 || !(*slot & 63)), "payloads are aligned");
        memset(fields_of(*slot), 0x5a, (size_t)bytes);
        for (int64_t i = 0; i < pointers; i++) {
            int64_t other = slots[(random >> (3 + 7 * i)) & (SLOTS - 1)];
            other = other == *slot ? 0 : other;
            if (other && !(other & 1))
                header_of(other)->refs++;
            fields_of(*slot)[i] = other;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        release(call, slots[i]);
    return LG_OK;
}

static lg_status forgetful(lg_call *call, const lg_word *args) {
    return object(call, 24, 0, 0) && args[0].i ? LG_CHECK : LG_OK;
}

static void test_heap(lg_workspace *workspace) {
    lg_word words[2] = {{.i = CHAIN}, {.p = NULL}};
    require(!lg_run(workspace, chain, words, 0, 1, 0), "a long chain ends");
    require(!lg_objects_leaked(workspace), "nothing is left of it");
    for (words[0].i = 1; words[0].i < 5; words[0].i++)
        require(!lg_run(workspace, graphs, words, 0, 1, 0), "random graphs");
    require(!lg_objects_leaked(workspace), "nothing is left of them");
    require(lg_workspace_held(workspace) <= 10 << 20, "memory is given back");
    words[0].i = 1;
    require(lg_run(workspace, forgetful, words, 0, 1, 0) == LG_CHECK, "a failing call");
    require(!lg_objects_leaked(workspace), "a failing call need not release");
    words[0].i = 0;
    require(!lg_run(workspace, forgetful, words, 0, 1, 0), "a forgetful call");
    require(lg_objects_leaked(workspace) == 1, "what is forgotten is counted");
}

static lg_status grow(lg_call *call, const lg_word *args) {
    int64_t big = 0, small = 0;
    for (int64_t i = 0; i < args[0].i; i++) {
        release(call, big);
        big = object(call, i % 2 ? 900000 : 700000, 0, 0);
        small = object(call, 100, 0, 0);
        if (!big || !small)
            return LG_MEMORY;
        release(call, small);
    }
    release(call, big);
    return LG_OK;
}

/* ---- objects of another size ---- */

static int64_t resize(lg_call *call, int64_t handle, int64_t bytes) {
    return (int64_t)(uintptr_t)call->services->resize(call, fields_of(handle), bytes);
}

/* The bytes of numbers one after the other. */
static void require_numbers(int64_t handle, int64_t bytes) {
    require(header_of(handle)->bytes == bytes && header_of(handle)->refs == 1, "headers are whole");
    for (int64_t i = 0; i < bytes / 4; i++)
        require(((int32_t *)fields_of(handle))[i] == i, "an object begins with what it held before");
}

/* An object that grows by four bytes until it has args[0]; args[1] is how many were copied in doing so. */
static lg_status grows(lg_call *call, const lg_word *args) {
    int64_t handle = object(call, 0, 0, 0), copied = 0;
    for (int64_t bytes = 0; bytes < args[0].i; bytes += 4) {
        int64_t new = resize(call, handle, bytes + 4);
        if (!new)
            return LG_MEMORY;
        copied += new == handle ? 0 : bytes;
        handle = new;
        ((int32_t *)fields_of(handle))[bytes / 4] = (int32_t)(bytes / 4);
    }
    require_numbers(handle, args[0].i);
    for (int64_t bytes = args[0].i; bytes; bytes /= 2)
        require_numbers(handle = resize(call, handle, bytes & ~3ll), bytes & ~3ll);
    release(call, handle);
    *(int64_t *)args[1].p = copied;
    return LG_OK;
}

/* What others refer to stays as it is. */
static lg_status shared(lg_call *call, const lg_word *args) {
    int64_t handle = object(call, args[0].i, 0, 0);
    for (int64_t i = 0; i < args[0].i / 4; i++)
        ((int32_t *)fields_of(handle))[i] = (int32_t)i;
    header_of(handle)->refs++;
    int64_t other = resize(call, handle, args[0].i + 4);
    if (!other)
        return LG_MEMORY;
    memset((char *)fields_of(other) + args[0].i, 0, 4);
    ((int32_t *)fields_of(other))[args[0].i / 4] = (int32_t)(args[0].i / 4);
    require(other != handle, "it is another object");
    require_numbers(other, args[0].i + 4);
    require_numbers(handle, args[0].i);
    require(!resize(call, other, 1ll << 47) && !resize(call, other, -1), "sizes that no object has");
    release(call, other);
    release(call, handle);
    return LG_OK;
}

static void test_resize(void) {
    int64_t copied;
    lg_workspace *workspace = lg_workspace_new(NULL, 0, NULL, NULL);
    lg_word words[2] = {{.i = 0}, {.p = &copied}};
    for (words[0].i = 1024; words[0].i <= 4 << 20; words[0].i *= 4) {
        require(!lg_run(workspace, grows, words, 0, 1, 0), "an object grows");
        require(copied < 8 * words[0].i + 16384, "and less is copied than eight times its bytes");
        require(lg_workspace_peak(workspace) < 4 * words[0].i + (4 << 20), "blocks that it has outgrown are given back");
    }
    for (words[0].i = 0; words[0].i <= 1 << 20; words[0].i = 4 * words[0].i + 60)
        require(!lg_run(workspace, shared, words, 0, 1, 0), "a shared object");
    require(!lg_objects_leaked(workspace), "nothing is left of them");
    lg_workspace_free(workspace);
    workspace = lg_workspace_new(NULL, 12 << 20, NULL, NULL);
    words[0].i = 4 << 20;
    require(!lg_run(workspace, grows, words, 0, 1, 0), "within the limit");
    words[0].i = 9 << 20;
    require(lg_run(workspace, grows, words, 0, 1, 0) == LG_MEMORY, "up to the limit");
    require(lg_workspace_peak(workspace) <= 12 << 20, "which holds");
    lg_workspace_free(workspace);
}

/* ---- random sequences, where memory is scarce ---- */

typedef struct {
    int64_t handle, bytes, pointers;
    uint8_t mark;
} record;

/* What nobody else may have written to. */
static void check_marks(const record *r) {
    const uint8_t *payload = (const uint8_t *)fields_of(r->handle);
    require(header_of(r->handle)->bytes == r->bytes && header_of(r->handle)->tag == r->mark, "headers are whole");
    for (int64_t i = 8 * r->pointers; i < r->bytes; i++)
        require(payload[i] == r->mark, "objects do not overlap");
}

static void drop(lg_call *call, record *r) {
    if (r->handle)
        check_marks(r), release(call, r->handle);
    r->handle = 0;
}

/* words: where random numbers begin; then how often there was no memory */
static lg_status scarce(lg_call *call, const lg_word *args) {
    record records[SLOTS] = {0};
    uint64_t random = (uint64_t)args[0].i;
    int64_t refused = 0;
    for (int step = 0; step < STEPS / 5; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        record *r = &records[random >> 33 & (SLOTS - 1)];
        drop(call, r);
        if (random >> 60 < 4)
            continue;
        r->pointers = random >> 40 & 3, r->bytes = some_size(random >> 48), r->mark = (uint8_t)(random >> 20);
        r->bytes = r->bytes < 8 * r->pointers ? 8 * r->pointers : r->bytes;
        r->handle = object(call, r->bytes, r->mark, r->pointers);
        if (!r->handle) { /* it goes on with half of them */
            refused++;
            for (int i = 0; i < SLOTS; i += 2)
                drop(call, &records[i]);
            continue;
        }
        memset(fields_of(r->handle), r->mark, (size_t)r->bytes);
        for (int64_t i = 0; i < r->pointers; i++) { /* to one that is kept for this alone, if there is memory for it */
            int64_t part = object(call, some_size(random >> (7 * i + 3)) % 70000, 0, 0);
            fields_of(r->handle)[i] = part ? part : 1;
        }
    }
    for (int i = 0; i < SLOTS; i++)
        drop(call, &records[i]);
    *(int64_t *)args[1].p += refused;
    return LG_OK;
}

static void test_scarce_memory(void) {
    int64_t refused = 0;
    for (int64_t limit = 256 << 10; limit <= 16 << 20; limit *= 4) {
        lg_workspace *workspace = lg_workspace_new(NULL, limit, NULL, NULL);
        lg_word words[2] = {{.i = limit}, {.p = &refused}};
        for (int i = 0; i < 2; i++, words[0].i++)
            require(!lg_run(workspace, scarce, words, 0, 1, 0), "random objects within a limit");
        require(!lg_objects_leaked(workspace), "nothing is left of them");
        require(lg_workspace_peak(workspace) <= limit, "the limit holds");
        require(lg_workspace_held(workspace) <= limit, "also between calls");
        lg_workspace_free(workspace);
    }
    require(refused > 20, "memory was scarce");
}

static void test_limits(void) {
    lg_workspace *workspace = lg_workspace_new(NULL, 3 << 20, NULL, NULL);
    lg_word words[2] = {{.i = 1000}, {.p = NULL}};
    require(!lg_run(workspace, chain, words, 0, 1, 0), "a chain within the limit");
    words[0].i = CHAIN;
    require(lg_run(workspace, chain, words, 0, 1, 0) == LG_MEMORY, "the limit holds for objects");
    require(lg_workspace_peak(workspace) <= 3 << 20, "and for what they lie in");
    words[0].i = 1000;
    require(!lg_run(workspace, chain, words, 0, 1, 0), "a chain after the limit was hit");
    require(!lg_run(workspace, grow, words, 0, 1, 0), "large objects of other sizes make room");
    lg_workspace_free(workspace);
    workspace = lg_workspace_new(NULL, 100000, NULL, NULL);
    words[0].i = 100;
    require(!lg_run(workspace, chain, words, 0, 1, 0), "slabs are smaller where the limit is");
    lg_workspace_free(workspace);
}

/* ---- in and out ---- */

static lg_status same(lg_call *call, const lg_word *args) {
    (void)call;
    *(int64_t *)args[1].p = args[0].i;
    header_of(args[0].i)->refs++;
    return LG_OK;
}

static void test_exchange(lg_workspace *workspace) {
    double tensor[20] = {1, 2, 3};
    /* a tensor; a pair of it and of it again; a cell of the pair, nothing, a constructor and a number */
    int64_t script[] = {7 | 1ll << 32, sizeof tensor, (int64_t)(intptr_t)tensor, 3 | 2 << 16, 16, 0, 0,
                        5 | 2 << 16, 24, 2, 9, 42};
    int64_t words = sizeof script / sizeof *script, root[2] = {4, 3}, result, count;
    const int64_t *records;
    require(!lg_objects_new(workspace, script, words, 3, root, 2), "build");
    require(root[1] == 3, "a root without an object");
    lg_word args[2] = {{.i = root[0]}, {.p = &result}};
    require(!lg_run(workspace, same, args, 0, 1, LG_RUN_OBJECTS), "a call with objects");
    int64_t both[2] = {result, 11};
    require(!lg_objects_read(workspace, both, 2, &records, &count), "read");
    require(both[0] == 4 && both[1] == 11, "the references of what was asked for");
    require(count == 3 + (3 + 2) + (3 + 3), "as many words as records need");
    require(records[1] == sizeof tensor && (records[2] & 0xFFFFFFFF) == 7, "the tensor comes first");
    require(!memcmp((void *)(uintptr_t)records[0], tensor, sizeof tensor), "its data");
    require(records[2] >> 32 == 2, "its references");
    require((records[5] & 0xFFFFFFFF) == (3 | 2 << 16) && records[6] == 0 && records[7] == 0, "the pair");
    require(records[11] == 2 && records[12] == 9 && records[13] == 42, "the cell");
    require(header_of(result)->refs == 2, "counts are as before");
    int64_t mine[2] = {result, root[0]}, before = lg_objects_leaked(workspace);
    lg_objects_end(workspace, mine, 2);
    require(lg_objects_leaked(workspace) == before, "all are released");
    script[11 - 3] = 16; /* one word too many */
    root[0] = 4;
    require(lg_objects_new(workspace, script, words, 3, root, 1) == LG_MALFORMED, "too many words");
    script[11 - 3] = 24;
    root[0] = 6;
    require(lg_objects_new(workspace, script, words, 3, root, 1) == LG_MALFORMED, "no such record");
    root[0] = 4;
    require(lg_objects_new(workspace, script, words - 1, 3, root, 1) == LG_MALFORMED, "too few words");
    script[9] = 6;
    require(lg_objects_new(workspace, script, words, 3, root, 1) == LG_MALFORMED, "a part that no record has");
    script[9] = -8;
    require(lg_objects_new(workspace, script, words, 3, root, 1) == LG_MALFORMED, "none from the end on either");
}

/* The parts of a cell come behind it, and one that it finds from the end on. */
static void test_any_order(lg_workspace *workspace) {
    double tensor[9] = {5};
    int64_t script[] = {1 | 3 << 16, 32, 2, 4, -2, 8, 6, 0, 2 | 1 << 16, 8, -2, 1ll << 32, sizeof tensor,
                        (int64_t)(intptr_t)tensor};
    int64_t root = 0, before = lg_objects_leaked(workspace);
    require(!lg_objects_new(workspace, script, sizeof script / sizeof *script, 4, &root, 1), "build");
    int64_t *cell = fields_of(root), *inner = fields_of(cell[1]);
    require(cell[0] == (6 << 1 | 1) && cell[3] == 8, "a constructor without fields; a number");
    require(inner[0] == cell[2] && header_of(cell[2])->refs == 2, "the tensor is shared");
    require(*(double *)(uintptr_t)cell[2] == 5, "its data");
    lg_objects_end(workspace, &root, 1);
    require(lg_objects_leaked(workspace) == before, "all are released");
}

static void test_chain_out(lg_workspace *workspace) {
    int64_t list, count, before = lg_objects_leaked(workspace);
    const int64_t *records;
    lg_word args[2] = {{.i = CHAIN}, {.p = &list}};
    require(!lg_run(workspace, chain, args, 0, 1, LG_RUN_OBJECTS), "a chain as the result");
    int64_t root = list;
    require(!lg_objects_read(workspace, &root, 1, &records, &count), "read a long chain");
    require(root == 2 * (CHAIN - 1) && count == 5 * CHAIN, "all of it");
    for (int64_t i = 0; i < CHAIN; i++)
        require(records[5 * i + 4] == i && records[5 * i + 3] == (i ? 2 * (i - 1) : 1), "in order");
    /* a cell that contains itself */
    int64_t *cell = fields_of(list), tail = cell[0];
    cell[0] = list;
    root = list;
    require(lg_objects_read(workspace, &root, 1, &records, &count) == LG_MALFORMED, "a cycle");
    cell[0] = tail;
    lg_objects_end(workspace, &list, 1);
    require(lg_objects_leaked(workspace) == before, "it ends");
}

/* ---- deep stacks ---- */

static int calls_back;
static char *outside;

static lg_status note(void *user, int64_t op, const lg_word *args) {
    char here;
    (void)user;
    require(op == 3 && args[0].i == 0, "what the callback gets");
    require(&here < outside && outside - &here < 1 << 20, "callbacks run on the caller's stack");
    calls_back++;
    return LG_OK;
}

/* 1 + 1 + … of args[0], without a loop; the innermost call calls back. */
static lg_status depth(lg_call *call, const lg_word *args) {
    volatile int64_t inner = 0, pad[16] = {0};
    lg_word words[2] = {{.i = args[0].i - 1}, {.p = (void *)&inner}};
    void *frame = call->services->push(call, 0);
    if (!frame)
        return LG_MEMORY;
    lg_status status = args[0].i ? depth(call, words) : call->services->host_op(call, 3, args);
    *(int64_t *)args[1].p = inner + 1 + pad[args[0].i & 15];
    call->services->pop(call, frame);
    return status;
}

static void *deep_calls(void *limit) {
    char here;
    lg_workspace *workspace = lg_workspace_new(NULL, (int64_t)(intptr_t)limit, note, NULL);
    int64_t result = 0;
    lg_word args[2] = {{.i = DEEP}, {.p = &result}};
    outside = &here;
    for (int i = 0; i < 3; i++) {
        require(!lg_run(workspace, depth, args, 0, 2, LG_RUN_DEEP), "deep recursion");
        require(result == DEEP + 1, "its result");
        int64_t held = lg_workspace_held(workspace);
        require(held > 64 << 10 && held <= (8 << 20) + (512 << 10), "some of its frames' memory is held");
    }
    require(calls_back == 3, "its callbacks");
    calls_back = 0;
    args[0].i = INT64_MAX;
    if (DEEP == 100000) {
        require(lg_run(workspace, depth, args, 0, 2, LG_RUN_DEEP) == LG_DEPTH, "endless recursion");
        require(lg_run(workspace, depth, args, 0, 2, 0) == LG_DEPTH, "the same on the thread's stack");
    }
    args[0].i = 1000;
    require(!lg_run(workspace, depth, args, 0, 2, LG_RUN_DEEP) && result == 1001, "a call after that");
    lg_workspace_free(workspace);
    calls_back = 0;
    return NULL;
}

static void *many_calls(void *seed) {
    lg_workspace *workspace = lg_workspace_new(NULL, 0, NULL, NULL);
    lg_word words[2] = {{.i = (int64_t)(intptr_t)seed}, {.p = NULL}};
    for (int i = 0; i < 3; i++)
        require(!lg_run(workspace, graphs, words, 0, 1, LG_RUN_DEEP), "random graphs at the same time");
    require(!lg_objects_leaked(workspace), "nothing is left of any");
    lg_workspace_free(workspace);
    return NULL;
}

int main(void) {
    pthread_t threads[CALLERS];
    lg_workspace *workspace = lg_workspace_new(NULL, 0, NULL, NULL);
    test_heap(workspace);
    test_exchange(workspace);
    test_any_order(workspace);
    test_chain_out(workspace);
    lg_workspace_free(workspace);
    test_limits();
    test_resize();
    test_scarce_memory();
    deep_calls((void *)(96 << 20));
    pthread_create(&threads[0], NULL, deep_calls, (void *)(96 << 20));
    pthread_join(threads[0], NULL);
    for (int64_t i = 0; i < CALLERS; i++)
        pthread_create(&threads[i], NULL, many_calls, (void *)(intptr_t)(i + 7));
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
