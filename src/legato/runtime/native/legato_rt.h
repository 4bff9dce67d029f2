/* Legato: the runtime library, as an embedder sees it. Everything is thread-safe except that a workspace serves one call
 * at a time. Sizes are bytes. Linux; no dependencies but libc and pthreads.
 */
#ifndef LEGATO_RT_H
#define LEGATO_RT_H

#include "legato.h"

#define LG_API __attribute__((visibility("default")))

/* LG_ABI_VERSION that the library was built with. */
LG_API int32_t lg_abi_version(void);

/* ---- machine -------------------------------------------------------------------------------------------------- */

enum { LG_MAX_THREADS = 256 };

/* How many threads run at once here: the CPUs of this process's affinity mask, or fewer where a cgroup's CPU quota
 * (rounded up) allows fewer. At least 1. Looked up when the library is loaded, and by a forked child again: the mask of
 * the thread that does so; of all threads together, where OpenMP was told to bind each to a place of its own. */
LG_API int32_t lg_cpu_count(void);

/* The smallest CPU quota of this process's cgroups (version 1 and 2) and all their ancestors, in CPUs; 0 if there is
 * none. `root` is put before every path that is read: "" outside tests. */
LG_API double lg_cgroup_cpus(const char *root);

/* Worker threads that the pool of this process has started so far. */
LG_API int32_t lg_pool_workers(void);

/* ---- code ----------------------------------------------------------------------------------------------------- */

/* Maps a code image of `size` bytes of which the first `code_size` are executable, the rest read-only. Each of the
 * `count` relocations is the offset of an 8-byte word that holds an offset into the image and becomes an address.
 * NULL: a relocation lies outside the image (errno EINVAL) or the system refused (its errno). */
LG_API void *lg_image_load(const uint8_t *bytes, int64_t size, int64_t code_size, const int64_t *relocations,
                           int64_t count);
LG_API void lg_image_unload(void *base, int64_t size);

/* ---- memory --------------------------------------------------------------------------------------------------- */

/* Zeroed memory, 64-byte aligned (large blocks lie on huge pages where the system has them). NULL: out of memory. */
LG_API void *lg_alloc(int64_t bytes);
LG_API void lg_free(void *data, int64_t bytes);

/* CRC32C (Castagnoli; RFC 3720) of `size` bytes, continuing from `crc` (0 to begin). */
LG_API uint32_t lg_crc32c(uint32_t crc, const uint8_t *data, int64_t size);

/* CRC32C of each piece of `chunk` bytes (the last may be shorter) into `sums`, of ceil(size / chunk) entries. */
LG_API void lg_crc32c_chunks(const uint8_t *data, int64_t size, int64_t chunk, uint32_t *sums);

/* ---- calls ---------------------------------------------------------------------------------------------------- */

/* Runs operator `op` of the artifact's table; returns LG_OK or LG_HOST_OP. */
typedef lg_status (*lg_host_op)(void *user, int64_t op, const lg_word *args);

/* What one call at a time works in: an arena of nested frames, and a heap of objects. `limit` bounds their bytes
 * together; 0: memory is the bound. NULL: out of memory. */
typedef struct lg_workspace lg_workspace;
LG_API lg_workspace *lg_workspace_new(const uint8_t *constants, int64_t limit, lg_host_op host_op, void *user);
LG_API void lg_workspace_free(lg_workspace *workspace);

/* The most bytes that frames and objects have occupied at once in any call so far. Objects lie in slabs, which count as
 * a whole. */
LG_API int64_t lg_workspace_peak(const lg_workspace *workspace);

/* What a call had no room for, where lg_run has just returned LG_MEMORY: so many bytes, beside those in use then. */
LG_API void lg_workspace_refused(const lg_workspace *workspace, int64_t *bytes, int64_t *beside);

/* The bytes that the workspace holds between calls. */
LG_API int64_t lg_workspace_held(const lg_workspace *workspace);

/* lg_run takes over SIGINT (Ctrl-C) until it returns, and then returns LG_INTERRUPT if there was one. For the main
 * thread only; calls may nest. */
enum {
    LG_RUN_SIGINT = 1,
    /* On a stack of the workspace's own, of which only what is used is memory and counts to the limit. LG_DEPTH is
     * returned where it or the limit ends; on the thread's stack, which is used otherwise if it has 2 MB left, at 100000
     * frames, or where that stack ends. */
    LG_RUN_DEEP = 2,
    /* Arguments or results are objects: those there are when it succeeds live until lg_objects_end. */
    LG_RUN_OBJECTS = 4,
    /* Subnormal numbers count as 0, as operands and as results. */
    LG_RUN_FLUSH = 8
};

/* Runs `entry` and returns its status; where that is not LG_OK, all objects have ended. `reserve` bytes of workspace are
 * made ready before and are what is kept afterwards. Kernels run on up to `threads` threads (0: lg_cpu_count), or on this
 * one while another call has the pool: results do not depend on it. */
LG_API lg_status lg_run(lg_workspace *workspace, lg_host entry, const lg_word *words, int64_t reserve, int32_t threads,
                        int32_t flags);

/* Ends the workspace's current call with LG_INTERRUPT at its next launch, at the next piece of a kernel in pieces, after
 * at most about 1000 more iterations of a loop, or at the next call of a recursive function. From any thread. */
LG_API void lg_interrupt(lg_workspace *workspace);

/* Puts the calling thread into the floating-point environment of kernels, with subnormal numbers kept or, if `flush`,
 * counted as 0, and returns what it was in: for lg_floats_leave. */
LG_API uint32_t lg_floats_enter(int32_t flush);
LG_API void lg_floats_leave(uint32_t saved);

/* ---- objects -------------------------------------------------------------------------------------------------- */

/* Makes the objects of a graph, before lg_run. `script` has a record for each, in any order:
 *     tag | pointers << 16, bytes of the payload, its words;     or, without pointers,
 *     tag | 1 << 32,        bytes of the payload, the address that they are copied from;     or
 *     tag, 0                a constructor without fields: no object, but a handle.
 * The first `pointers` words, and the entries of `roots`, are references: an odd one is a handle, an even one is twice
 * the number of a record, counted from 0, or, below that, from the end on: -2 is the last. roots[i] becomes a handle,
 * which is the caller's to release. LG_MEMORY: no memory; LG_MALFORMED: `script` is not such. All objects of the
 * workspace have ended then. */
enum { LG_MALFORMED = -1 };
LG_API lg_status lg_objects_new(lg_workspace *workspace, const int64_t *script, int64_t words, int64_t objects,
                                int64_t *roots, int64_t count);

/* Describes the objects that the handles `roots` refer to, those that others refer to first, each once:
 *     address of the payload, its bytes, tag | pointers << 16 | references << 32;
 *     where there are pointers or no more than 64 bytes, also the payload's words.
 * The first `pointers` words, and the entries of `roots` then, are references as above. *records lives until the next
 * read or lg_objects_end. LG_MEMORY: no memory; LG_MALFORMED: an object contains itself. */
LG_API lg_status lg_objects_read(lg_workspace *workspace, int64_t *roots, int64_t count, const int64_t **records,
                                 int64_t *words);

/* Releases `handles`, and ends all objects that are left: those in circles, and what the program forgot. */
LG_API void lg_objects_end(lg_workspace *workspace, const int64_t *handles, int64_t count);

/* How many objects were left so when successful calls ended. */
LG_API int64_t lg_objects_leaked(const lg_workspace *workspace);

/* ---- profiling ------------------------------------------------------------------------------------------------ */

/* A launch of a kernel (`kernel` >= 0: of the table), or of operator -1 - kernel run by the embedder. Times are
 * nanoseconds of CLOCK_MONOTONIC, on the thread that launches. */
typedef struct {
    int64_t kernel;
    int64_t start, end;
    int64_t first_share, shares; /* shares[first_share] and the following, in the order in which they began */
    int64_t first_word;          /* where its arguments begin in `words` */
} lg_launch;

/* What one thread did of a launch at a time: share `tid` of `nt`. `thread` tells threads apart. */
typedef struct {
    int64_t tid, nt;
    int64_t thread;
    int64_t start, end;
} lg_share;

/* Where a profiled workspace records. `kernels` holds (address, number of argument words) of every kernel, ascending;
 * the three areas are filled in order, and what does not fit is counted in `lost`, kernels that are not among those in
 * `unknown`. */
typedef struct {
    int64_t kernel_count;
    const int64_t *kernels;
    int64_t launch_room, launch_count;
    lg_launch *launches;
    int64_t share_room, share_count;
    lg_share *shares;
    int64_t word_room, word_count;
    int64_t *words;
    int64_t lost;
    int64_t unknown;
} lg_profile;

/* From the next lg_run on, what the workspace runs is recorded in `profile`; NULL: no longer. Without it nothing is
 * measured and nothing is slower: a profiled workspace has a table of services of its own. */
LG_API void lg_workspace_profile(lg_workspace *workspace, lg_profile *profile);

#endif
