/* Legato: the ABI between generated code, the runtime library and whoever embeds a compiled program.
 *
 * Generated code is one position-independent image. It calls nothing by name: host functions call the services in the
 * table behind `lg_call.services`, kernels only `poll`, and `barrier` where they are more than one thread. All
 * arguments are 8-byte words: a pointer to a tensor's data (of the layout fixed at compile time), an int64 (a dim), or a
 * handle; a result that is an object is stored in the word that an argument points to.
 */
#ifndef LEGATO_H
#define LEGATO_H

#include <stddef.h>
#include <stdint.h>

#define LG_ABI_VERSION 6

typedef union {
    void *p;
    int64_t i;
} lg_word;

/* What a kernel, host function or service returns. Codes from LG_CHECK on are Check statements of the program:
 * LG_CHECK + n is entry n of the artifact's table of check messages. */
typedef int32_t lg_status;
enum {
    LG_OK = 0,
    LG_MEMORY = 1,    /* the workspace cap, or the system's memory, is exhausted */
    LG_INTERRUPT = 2, /* lg_interrupt was called, or Ctrl-C was pressed */
    LG_HOST_OP = 3,   /* an operator run by its reference failed */
    LG_DEPTH = 4,     /* calls nest too deeply */
    LG_CHECK = 256
};

/* A handle: a word that refers to an object, or to none. 0 is nothing; an odd word is a constructor without fields,
 * `tag << 1 | 1`; an even one is the address of an object's payload. In front of the payload is the object's header; the
 * first `pointers` words of the payload are handles that the object owns. The payload is 16-byte aligned, and 64-byte if
 * it holds no handles and has 64 bytes or more. Counts are not atomic: all objects belong to one call. */
typedef struct {
    int32_t refs; /* references to it; with the last one it ends */
    uint16_t tag;
    uint16_t pointers;
    int64_t bytes; /* of the payload */
} lg_header;

/* A kernel: computes share `tid` of the `nt` equal ones that its iterations are divided into. Runs under
 * round-to-nearest, without traps. Behind the arguments of a kernel is one more word, the lg_call. A kernel with barriers
 * returns LG_OK. */
typedef lg_status (*lg_kernel)(const lg_word *args, int64_t tid, int64_t nt);

/* How a kernel is launched: on this thread only (tid 0 of 1); in one share for each thread of the pool, run whenever a
 * thread has time for it; in shares that all run at the same time, because they meet at barriers; in smaller shares, of
 * which a thread takes more than others if it is faster; or in one share for each thread, which it may run in parts, as
 * smaller shares. Between pieces and parts a call may be interrupted. */
enum { LG_ALONE = 0, LG_SHARES = 1, LG_GANG = 2, LG_PIECES = 3, LG_PARTS = 4 };

typedef struct lg_call lg_call;

/* A host function: control flow, allocation and launches. */
typedef lg_status (*lg_host)(lg_call *call, const lg_word *args);

typedef struct {
    uint32_t version; /* LG_ABI_VERSION */
    uint32_t size;    /* sizeof(lg_services) */
    /* Runs `kernel` and waits. `how` is one of the above. */
    lg_status (*launch)(lg_call *call, lg_kernel kernel, const lg_word *args, int64_t how);
    /* `bytes` of 64-byte aligned memory that lives until the matching pop; frames nest. On NULL return LG_MEMORY: lg_run
     * reports LG_DEPTH in its place where calls nest too deeply, and LG_INTERRUPT where this call is to end early. Every
     * recursive host function pushes a frame (of 0 bytes, if it needs none), because this is where both are checked. A
     * function that fails need not pop. */
    void *(*push)(lg_call *call, int64_t bytes);
    void (*pop)(lg_call *call, void *frame);
    /* Runs operator `op` of the artifact's table through the embedder's callback, on the stack of lg_run's caller. */
    lg_status (*host_op)(lg_call *call, int64_t op, const lg_word *args);
    /* LG_INTERRUPT if this call is to end early; generated loops ask about every 1000 iterations. */
    lg_status (*poll)(lg_call *call);
    /* Called by each of the `nt` > 1 threads of a kernel launched with LG_GANG: returns when all have called it, and
     * what any of them stored before is seen by all. */
    void (*barrier)(lg_call *call, int64_t nt);
    /* The payload of a new object of `bytes` with one reference; its contents are undefined. `kind` is its tag, and its
     * number of pointers << 16. On NULL return LG_MEMORY. A function that fails need not release anything. */
    void *(*object)(lg_call *call, int64_t bytes, int64_t kind);
    /* Ends the object with this payload, whose count the caller has just brought to 0, and releases what its handles
     * refer to. */
    void (*end)(lg_call *call, void *payload);
    /* The payload of an object of `bytes` with one reference that begins with what this payload has, as far as both
     * reach; behind that its contents are undefined. The object with this payload has no pointers, and one reference
     * less: it becomes the new one where that was the last, and its block is long enough. Growing by little, again and
     * again, takes time that is linear in the bytes. On NULL return LG_MEMORY. */
    void *(*resize)(lg_call *call, void *payload, int64_t bytes);
} lg_services;

/* One run of a program; made by the runtime. Generated code reads the first two fields only. */
struct lg_call {
    const lg_services *services;
    const uint8_t *constants; /* base of the constant segment, 64-byte aligned */
};

#endif
