/* The thread pool: one per process, used by one call at a time as a gang.
 *
 * The caller hands each worker its share through the worker's mailbox, one cache line: the job's fields, then `go`, a
 * count of jobs. The worker claims the share by raising `claimed` to that count, runs it, and sets `done` to it. When
 * the caller has done its own share it claims those that no worker has begun, so a call never waits for a thread that
 * the system does not run; shares and their results are the same whoever computes them. Whoever waits spins a while,
 * then yields, then sleeps on a futex, and says so first: a store of go or done is followed by a look at `asleep`.
 *
 * A kernel that is launched in pieces has its iterations divided into LG_CELLS equal shares for each thread. A thread
 * takes its own from the first on, several at once while many are left, and then those of others from the last on, so
 * that all end at about the same time even where one runs slower or is interrupted. Between pieces it looks whether the
 * call is to end early; so that this is soon, a thread begins with a small piece, and goes on with small ones where that
 * took long.
 *
 * A kernel with barriers needs all its threads at once. Its workers claim their shares and wait for `begin`. Before
 * shares are counted, those are left out that have not come when the caller stops waiting, and those that run on a CPU
 * of another one: the two would only wait for each other. Nobody takes over anything.
 */
#include "internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 128 /* two cache lines: processors fetch them in pairs */
#define STACK (8ul << 20)

/* How long to spin, in nanoseconds. */
#define SPIN_CALL 300000 /* for the next kernel of a call, or for the end of this one */
#define SPIN_IDLE 50000  /* for the next call */
#define SPIN_CROWDED 2000 /* where more threads run than there are CPUs */
#define SPIN_BARRIER 10000 /* threads come there at about the same time, unless one is not running */
#define SPIN_MUSTER 20000 /* for the workers of a kernel with barriers; then yields */
#define MUSTER 300000     /* longer than a sleeping thread takes to wake up */
#define YIELDS 50

#define FIRST_PIECE 4       /* cells that a thread begins with */
#define LONG_PIECE 50000000 /* nanoseconds that no piece but the first shall take, unless it is one cell */

typedef struct {
    _Alignas(LINE) _Atomic uint32_t go;
    _Atomic uint32_t claimed;
    _Atomic uint32_t asleep; /* the worker, until go changes */
    _Atomic uint32_t begin;  /* changes when a job may be run together with others; odd: without this worker */
    _Atomic uint32_t begin_asleep;
    _Atomic int32_t cpu;     /* on which the last share was claimed */
    _Atomic int32_t how;     /* the kernel is launched */
    _Atomic uint64_t cells;  /* of its share that nobody has taken: from the upper half up to the lower half */
    int32_t tid, nt;
    lg_fp fp;                /* what the call computes in */
    lg_kernel kernel;
    const lg_word *args;
    const lg_workspace *call;
    _Alignas(LINE) _Atomic uint32_t done;
    _Atomic uint32_t caller_asleep;
    lg_status status;
} lg_worker;

_Atomic int32_t lg_calls;
uint32_t lg_generation;

static _Atomic int32_t gang_taken;
static _Atomic int32_t gang_threads;            /* of the launch in progress or the last one */
static _Atomic int32_t worker_count;            /* changed by the gang's holder only */
static lg_worker *workers[LG_MAX_THREADS - 1];  /* the same */
static int32_t most_workers;                    /* the same: what the system grants, as far as this call knows */
static int64_t pauses_per_us = 50;

/* ---- waiting ---- */

static void futex_wait(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* After *word was changed: wakes who waits for that, once. */
static void wake(_Atomic uint32_t *word, _Atomic uint32_t *asleep) {
    if (atomic_load_explicit(asleep, memory_order_relaxed) && atomic_exchange(asleep, 0))
        futex_wake(word);
}

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* A pause takes 10 to 150 cycles, depending on the processor: measured when the pool starts. */
static void measure_pause(void) {
    int64_t best = INT64_MAX;
    for (int attempt = 0; attempt < 3; attempt++) {
        int64_t start = now_ns();
        for (int i = 0; i < 500; i++)
            lg_pause();
        int64_t time = now_ns() - start;
        best = time < best ? time : best;
    }
    int64_t rate = 500 * 1000 / (best < 1 ? 1 : best);
    pauses_per_us = rate < 1 ? 1 : rate;
}

/* How many pauses to spin, for at most `longest` nanoseconds. */
static int64_t spin_pauses(int64_t longest) {
    bool taken = atomic_load_explicit(&gang_taken, memory_order_relaxed);
    int32_t running = atomic_load_explicit(&lg_calls, memory_order_relaxed);
    if (taken)
        running += atomic_load_explicit(&gang_threads, memory_order_relaxed) - 1;
    int64_t time = running > lg_cpu_count() ? SPIN_CROWDED : taken ? SPIN_CALL : SPIN_IDLE;
    return (time < longest ? time : longest) * pauses_per_us / 1000;
}

/* Whether *word is not `old` any more, after spinning for `longest` at most, and yields. */
static bool changes_soon(_Atomic uint32_t *word, uint32_t old, int64_t longest) {
    for (int64_t n = 0; (n & 63) || n < spin_pauses(longest); n++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old)
            return true;
        lg_pause();
    }
    for (int n = 0; n < YIELDS; n++) {
        sched_yield();
        if (atomic_load_explicit(word, memory_order_acquire) != old)
            return true;
    }
    return false;
}

/* Returns once *word is not `old`; `asleep` tells the one who changes it to wake us. Spins for `longest` at most. */
static void wait_for_change(_Atomic uint32_t *word, uint32_t old, _Atomic uint32_t *asleep, int64_t longest) {
    if (changes_soon(word, old, longest))
        return;
    for (atomic_store(asleep, 1); atomic_load(word) == old; atomic_store(asleep, 1))
        futex_wait(word, old);
    atomic_store_explicit(asleep, 0, memory_order_relaxed);
}

/* ---- workers ---- */

/* Whether the share of `job` is the one's who asks: worker and caller may, and one of them gets it. */
static bool claim(lg_worker *worker, uint32_t job) {
    uint32_t before = job - 1;
    return atomic_compare_exchange_strong(&worker->claimed, &before, job);
}

/* Waits until the caller has decided who runs the job of this worker together. */
static bool may_begin(lg_worker *self, uint32_t begun) {
    wait_for_change(&self->begin, begun, &self->begin_asleep, SPIN_BARRIER);
    return !(atomic_load_explicit(&self->begin, memory_order_relaxed) & 1);
}

/* ---- pieces ---- */

static _Alignas(LINE) _Atomic uint64_t callers_cells; /* as those of a worker */

static uint64_t cells_between(uint32_t first, uint32_t end) {
    return (uint64_t)first << 32 | end;
}

/* How many cells to take at once of `left`, from `place` on or up to it: no more than a third, unless it is one, nor than
 * `most`, and a power of two that divides `place`, so that they are together one of LG_CELLS / size equal shares. */
static uint32_t piece_size(uint32_t left, uint32_t place, uint32_t most) {
    uint32_t size = 1;
    while (6 * size <= left && 2 * size <= most && place % (2 * size) == 0)
        size *= 2;
    return size;
}

/* Takes up to `most` cells, `size` of them from `first` on; false: there are none left. */
static bool take(_Atomic uint64_t *cells, bool from_the_front, uint32_t most, uint32_t *first, uint32_t *size) {
    uint64_t before = atomic_load_explicit(cells, memory_order_relaxed), after;
    do {
        uint32_t low = (uint32_t)(before >> 32), high = (uint32_t)before;
        if (low >= high)
            return false;
        *size = piece_size(high - low, from_the_front ? low : high, most);
        *first = from_the_front ? low : high - *size;
        after = from_the_front ? cells_between(low + *size, high) : cells_between(low, high - *size);
    } while (!atomic_compare_exchange_weak_explicit(cells, &before, after, memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* How many cells to take at once after `size` of them took the time since `start`. */
static uint32_t most_after(uint32_t size, int64_t start) {
    int64_t each = (now_ns() - start) / size;
    return each > LONG_PIECE / LG_CELLS ? (uint32_t)(LONG_PIECE / each) : LG_CELLS;
}

/* What a thread has done of a kernel, and how many cells it takes at once. */
typedef struct {
    lg_kernel kernel;
    const lg_word *args;
    int32_t nt;
    const lg_workspace *call;
    uint32_t most;
    lg_status status;
} lg_work;

/* Runs `size` cells from `place` on, which it divides; false: the call is to end early. */
static bool run_piece(lg_work *work, uint32_t place, uint32_t size) {
    int64_t start = work->most < LG_CELLS ? now_ns() : 0;
    lg_status its = work->kernel(work->args, (int32_t)(place / size), work->nt * (int32_t)(LG_CELLS / size));
    work->status = work->status ? work->status : its;
    if (lg_is_interrupted(work->call)) {
        work->status = LG_INTERRUPT;
        return false;
    }
    if (start)
        work->most = most_after(size, start);
    return true;
}

/* What thread `tid` of `nt` does of a kernel that is launched in pieces. */
static lg_status run_pieces(lg_kernel kernel, const lg_word *args, int32_t tid, int32_t nt, const lg_workspace *call) {
    lg_work work = {kernel, args, nt, call, FIRST_PIECE, LG_OK};
    for (int32_t n = 0; n < nt; n++) {
        int32_t whose = (tid + n) % nt;
        _Atomic uint64_t *cells = whose ? &workers[whose - 1]->cells : &callers_cells;
        for (uint32_t first, size; take(cells, n == 0, work.most, &first, &size);)
            if (!run_piece(&work, whose * LG_CELLS + first, size))
                return work.status;
    }
    return work.status;
}

lg_status lg_parts_run(lg_kernel kernel, const lg_word *args, int32_t tid, int32_t nt, const lg_workspace *call) {
    lg_work work = {kernel, args, nt, call, FIRST_PIECE, LG_OK};
    for (uint32_t first = 0, size; first < LG_CELLS; first += size) {
        for (size = 1; 2 * size <= work.most && first % (2 * size) == 0 && first + 2 * size <= LG_CELLS;)
            size *= 2;
        if (!run_piece(&work, tid * LG_CELLS + first, size))
            break;
    }
    return work.status;
}

static lg_status run_shares(lg_kernel kernel, const lg_word *args, int32_t tid, int32_t nt, int32_t how,
                            const lg_workspace *call) {
    if (how == LG_PIECES)
        return run_pieces(kernel, args, tid, nt, call);
    return how == LG_PARTS ? lg_parts_run(kernel, args, tid, nt, call) : kernel(args, tid, nt);
}

static lg_status run_share(const lg_worker *w) {
    return run_shares(w->kernel, w->args, w->tid, w->nt, atomic_load_explicit(&w->how, memory_order_relaxed), w->call);
}

static void *work(void *argument) {
    lg_worker *self = argument;
    for (uint32_t job = 0;;) {
        wait_for_change(&self->go, job, &self->asleep, SPIN_CALL);
        job = atomic_load_explicit(&self->go, memory_order_acquire);
        /* What is read here is of this job, if the claim succeeds; a worker that is left out has read all it needs. */
        uint32_t begun = atomic_load_explicit(&self->begin, memory_order_relaxed);
        bool together = atomic_load_explicit(&self->how, memory_order_relaxed) == LG_GANG;
        atomic_store_explicit(&self->cpu, sched_getcpu(), memory_order_relaxed);
        if (!claim(self, job) || (together && !may_begin(self, begun)))
            continue;
        lg_fp_set(self->fp);
        self->status = run_share(self);
        atomic_store_explicit(&self->done, job, memory_order_release);
        atomic_thread_fence(memory_order_seq_cst); /* done is seen before we look whether the caller sleeps */
        wake(&self->done, &self->caller_asleep);
    }
    return NULL;
}

static bool start_thread(lg_worker *worker) {
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, saved;
    if (pthread_attr_init(&attr))
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK);
    /* Signals are for the program's own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    bool started = !pthread_create(&thread, &attr, work, worker);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&attr);
    if (started) {
        pthread_setname_np(thread, "legato");
        lg_cpu_unbind(thread);
    }
    return started;
}

/* Starts workers up to `wanted`; fewer where the system refuses. Returns how many there are. */
static int32_t grow(int32_t wanted) {
    int32_t count = atomic_load_explicit(&worker_count, memory_order_relaxed);
    wanted = wanted < most_workers ? wanted : most_workers;
    if (!count)
        measure_pause();
    for (; count < wanted; count++) {
        lg_worker *worker = aligned_alloc(LINE, sizeof *worker);
        if (worker)
            *worker = (lg_worker){.tid = count + 1};
        if (!worker || !start_thread(worker)) {
            free(worker);
            most_workers = count; /* asked again by the next call */
            break;
        }
        workers[count] = worker;
    }
    atomic_store_explicit(&worker_count, count, memory_order_relaxed);
    return count;
}

int32_t lg_pool_workers(void) {
    return atomic_load_explicit(&worker_count, memory_order_relaxed);
}

/* ---- the gang ---- */

bool lg_gang_take(void) {
    int32_t nobody = 0;
    if (atomic_load_explicit(&gang_taken, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&gang_taken, &nobody, 1))
        return false;
    most_workers = LG_MAX_THREADS - 1;
    return true;
}

void lg_gang_release(void) {
    atomic_store_explicit(&gang_taken, 0, memory_order_release);
}

/* Runs the shares that their workers have not begun. */
static void take_over(int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        lg_worker *worker = workers[i];
        uint32_t job = atomic_load_explicit(&worker->go, memory_order_relaxed);
        if (atomic_load_explicit(&worker->claimed, memory_order_relaxed) == job || !claim(worker, job))
            continue;
        worker->status = run_share(worker);
        atomic_store_explicit(&worker->done, job, memory_order_relaxed);
    }
}

static lg_status join(lg_worker *worker) {
    uint32_t job = atomic_load_explicit(&worker->go, memory_order_relaxed);
    if (atomic_load_explicit(&worker->done, memory_order_acquire) != job)
        wait_for_change(&worker->done, job - 1, &worker->caller_asleep, SPIN_CALL);
    return worker->status;
}

/* Gives a job to up to threads - 1 workers, and returns to how many. */
static int32_t hand_out(lg_kernel kernel, const lg_word *args, int32_t threads, int32_t how, const lg_workspace *call) {
    int32_t count = atomic_load_explicit(&worker_count, memory_order_relaxed);
    if (count < threads - 1)
        count = grow(threads - 1);
    count = count < threads - 1 ? count : threads - 1;
    atomic_store_explicit(&gang_threads, count + 1, memory_order_relaxed);
    /* Of other kernels all are taken: a worker may look at another's before that one gets its share. */
    uint64_t cells = how == LG_PIECES ? cells_between(0, LG_CELLS) : 0;
    lg_fp fp = lg_fp_get();
    atomic_store_explicit(&callers_cells, cells, memory_order_relaxed);
    for (int32_t i = 0; i < count; i++) {
        lg_worker *worker = workers[i];
        worker->kernel = kernel;
        worker->args = args;
        worker->call = call;
        worker->tid = i + 1;
        worker->nt = count + 1;
        worker->fp = fp;
        atomic_store_explicit(&worker->how, how, memory_order_relaxed);
        atomic_store_explicit(&worker->cells, cells, memory_order_relaxed);
        uint32_t job = atomic_load_explicit(&worker->go, memory_order_relaxed) + 1;
        atomic_store_explicit(&worker->go, job, memory_order_release);
    }
    atomic_thread_fence(memory_order_seq_cst); /* the same for go */
    for (int32_t i = 0; i < count; i++)
        wake(&workers[i]->go, &workers[i]->asleep);
    return count;
}

lg_status lg_gang_run(lg_kernel kernel, const lg_word *args, int32_t threads, int32_t how, const lg_workspace *call) {
    int32_t count = hand_out(kernel, args, threads, how, call);
    lg_status status = run_shares(kernel, args, 0, count + 1, how, call);
    take_over(count);
    for (int32_t i = 0; i < count; i++) {
        lg_status its = join(workers[i]);
        status = status ? status : its;
    }
    return status;
}

/* ---- kernels with barriers ---- */

static struct {
    _Alignas(LINE) _Atomic uint32_t arrived;
    _Alignas(LINE) _Atomic uint32_t phase; /* how often all have arrived */
    _Atomic uint32_t sleepers;
} meeting;

void lg_gang_barrier(int64_t threads) {
    uint32_t phase = atomic_load_explicit(&meeting.phase, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&meeting.arrived, 1, memory_order_acq_rel) + 1 == (uint32_t)threads) {
        atomic_store_explicit(&meeting.arrived, 0, memory_order_relaxed);
        atomic_store(&meeting.phase, phase + 1);
        if (atomic_load(&meeting.sleepers))
            futex_wake(&meeting.phase);
        return;
    }
    if (changes_soon(&meeting.phase, phase, SPIN_BARRIER))
        return;
    /* There may be several sleepers, and one of them may be slow to leave when others sleep again: they are counted. */
    atomic_fetch_add(&meeting.sleepers, 1);
    while (atomic_load(&meeting.phase) == phase)
        futex_wait(&meeting.phase, phase);
    atomic_fetch_sub(&meeting.sleepers, 1);
}

/* Whether the worker takes its job within MUSTER of `start`; if not, it will not get it any more. */
static bool comes(lg_worker *worker, int64_t start) {
    uint32_t job = atomic_load_explicit(&worker->go, memory_order_relaxed);
    for (int64_t n = 0; atomic_load_explicit(&worker->claimed, memory_order_acquire) != job; n++) {
        int64_t waited = (n & 15) == 15 ? now_ns() - start : 0;
        if (waited > MUSTER && claim(worker, job)) {
            atomic_store_explicit(&worker->done, job, memory_order_relaxed);
            return false;
        }
        if (waited > SPIN_MUSTER)
            sched_yield();
        else
            lg_pause();
    }
    return true;
}

/* Tells a worker that has come whether its job begins. */
static void decide(lg_worker *worker, bool begins) {
    uint32_t begun = atomic_load_explicit(&worker->begin, memory_order_relaxed);
    if (!begins) { /* it will touch nothing of this job any more */
        uint32_t job = atomic_load_explicit(&worker->go, memory_order_relaxed);
        atomic_store_explicit(&worker->done, job, memory_order_relaxed);
    }
    atomic_store_explicit(&worker->begin, (begun & ~1u) + (begins ? 2 : 3), memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    wake(&worker->begin, &worker->begin_asleep);
}

/* Those of the first `count` workers that have come, each on a CPU of its own, into `team`; returns how many. */
static int32_t muster(lg_worker **team, int32_t count) {
    int32_t size = 0, cpus[LG_MAX_THREADS] = {sched_getcpu()};
    int64_t start = now_ns();
    for (int32_t i = 0; i < count; i++) {
        if (!comes(workers[i], start))
            continue;
        int32_t cpu = atomic_load_explicit(&workers[i]->cpu, memory_order_relaxed);
        bool alone = true;
        for (int32_t k = 0; k <= size && cpu >= 0; k++)
            alone = alone && cpus[k] != cpu;
        if (alone) {
            team[size++] = workers[i];
            cpus[size] = cpu;
        } else {
            decide(workers[i], false);
        }
    }
    return size;
}

lg_status lg_gang_run_together(lg_kernel kernel, const lg_word *args, int32_t threads) {
    lg_worker *team[LG_MAX_THREADS - 1];
    int32_t count = hand_out(kernel, args, threads, LG_GANG, NULL), size = muster(team, count);
    for (int32_t i = 0; i < size; i++) {
        team[i]->tid = i + 1;
        team[i]->nt = size + 1;
        decide(team[i], true);
    }
    lg_status status = kernel(args, 0, size + 1);
    for (int32_t i = 0; i < size; i++)
        join(team[i]);
    return status;
}

/* ---- fork ---- */

/* The child has one thread. The workers it sees are the parent's: forgotten here, started anew on demand. */
static void forget_workers(void) {
    atomic_store(&worker_count, 0);
    atomic_store(&gang_taken, 0);
    atomic_store(&lg_calls, 0);
    atomic_store(&meeting.arrived, 0); /* some had arrived, who do not live on */
    atomic_store(&meeting.sleepers, 0);
    lg_generation++;
}

__attribute__((constructor)) static void watch_fork(void) {
    pthread_atfork(NULL, NULL, forget_workers);
}
