/* Legato: the ABI between generated code, the runtime library and whoever embeds a compiled program.
 *
 * Generated code is one position-independent image. It calls nothing by name: kernels call nothing at all, host functions
 * call the services in the table behind `lg_call.services`. All arguments are 8-byte words: a pointer to a tensor's
 * data (of the layout fixed at compile time), or an int64 (a dim).
 */
#ifndef LEGATO_H
#define LEGATO_H

#include <stddef.h>
#include <stdint.h>

#define LG_ABI_VERSION 1

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

/* A kernel: computes its share of the iterations, thread `tid` of `nt`. Runs under round-to-nearest, IEEE denormals. */
typedef lg_status (*lg_kernel)(const lg_word *args, int64_t tid, int64_t nt);

typedef struct lg_call lg_call;

/* A host function: control flow, allocation and launches. */
typedef lg_status (*lg_host)(lg_call *call, const lg_word *args);

typedef struct {
    uint32_t version; /* LG_ABI_VERSION */
    uint32_t size;    /* sizeof(lg_services) */
    /* Runs `kernel` on the thread pool and waits. `parallel` 0: on this thread only (tid 0 of 1). */
    lg_status (*launch)(lg_call *call, lg_kernel kernel, const lg_word *args, int64_t parallel);
    /* `bytes` of 64-byte aligned memory that lives until the matching pop; frames nest. On NULL return LG_MEMORY: lg_run
     * reports LG_DEPTH in its place where calls nest too deeply. Every recursive host function pushes a frame (of 0
     * bytes, if it needs none), because this is where depth is checked. A function that fails need not pop. */
    void *(*push)(lg_call *call, int64_t bytes);
    void (*pop)(lg_call *call, void *frame);
    /* Runs operator `op` of the artifact's table through the embedder's callback. */
    lg_status (*host_op)(lg_call *call, int64_t op, const lg_word *args);
    /* LG_INTERRUPT if this call is to end early; generated loops ask once per iteration. */
    lg_status (*poll)(lg_call *call);
} lg_services;

/* One run of a program; made by the runtime. Generated code reads the first two fields only. */
struct lg_call {
    const lg_services *services;
    const uint8_t *constants; /* base of the constant segment, 64-byte aligned */
};

#endif
