/* The objects of one call: blocks of a few sizes, cut from slabs, counted, and all gone when the call ends. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define SMALL 512              /* blocks of cells up to here come in steps of 16 bytes */
#define MEDIUM 1024            /* all others up to here in steps of 64; beyond, four sizes for each power of two */
#define LARGE (256ll << 10)    /* blocks from here on are mapped for themselves */
#define SLAB (1ll << 20)       /* the first slab; they double */
#define MAX_SLAB (64ll << 20)
#define KEEP (8ll << 20)       /* bytes of slabs that stay for the next call */
#define MAX_OBJECT (1ll << 46)
#define FRONT 48               /* of a slab, before its first block: the payload there is 64-byte aligned */

#define HEADER ((int64_t)sizeof(lg_header))
#define STEPS_64 (SMALL / 16 + 1)            /* number of the first size class in steps of 64 */
#define BEYOND (STEPS_64 + MEDIUM / 64 + 1)  /* number of the first of the large steps */

_Static_assert(sizeof(lg_header) == 16, "generated code knows the header");
_Static_assert(sizeof(lg_slab) <= FRONT, "the first block lies behind it");

static lg_header *header_of(int64_t handle) {
    return (lg_header *)(uintptr_t)handle - 1;
}

static bool is_object(int64_t handle) {
    return handle && !(handle & 1);
}

/* ---- size classes ---- */

/* Whether its payload lies on a multiple of 64 bytes. */
static bool is_wide(int64_t bytes, int64_t pointers) {
    return !pointers && bytes >= 64;
}

/* The class of a block for such an object, and how long its blocks are. */
static int32_t class_of(int64_t bytes, int64_t pointers, int64_t *size) {
    int64_t total = bytes + HEADER;
    if (total <= SMALL && !is_wide(bytes, pointers)) {
        int64_t steps = total <= 32 ? 2 : (total + 15) / 16;
        *size = steps * 16;
        return (int32_t)steps;
    }
    if (total <= MEDIUM) {
        int64_t steps = (total + 63) / 64;
        *size = steps * 64;
        return (int32_t)(STEPS_64 + steps);
    }
    int32_t power = 63 - __builtin_clzll((unsigned long long)(total - 1)); /* 2^power < total <= 2^(power + 1) */
    int64_t quarter = ((total - 1) >> (power - 2)) & 3;
    *size = (5 + quarter) << (power - 2);
    return (int32_t)(BEYOND + (power - 10) * 4 + quarter);
}

/* The first class whose blocks are LARGE: sizes (5..8) << (power - 2) for each power from 10 on, so 8 << 15. */
#define FIRST_LARGE (BEYOND + (17 - 10) * 4 + 3)

_Static_assert(BEYOND + (46 - 10 + 1) * 4 <= LG_SIZE_CLASSES, "every class has a list");
_Static_assert(8ll << 15 == LARGE, "the first large class is that of LARGE bytes");

/* ---- slabs ---- */

static lg_slab *map_slab(lg_heap *heap, int64_t bytes) {
    if (!lg_budget_take(heap->budget, bytes))
        return NULL;
    lg_slab *slab = lg_alloc(bytes);
    if (!slab) {
        lg_budget_give(heap->budget, bytes);
        lg_budget_refuse(heap->budget, bytes);
        return NULL;
    }
    slab->bytes = bytes;
    heap->mapped += bytes;
    return slab;
}

static void unmap_slab(lg_heap *heap, lg_slab *slab) {
    heap->mapped -= slab->bytes;
    lg_budget_give(heap->budget, slab->bytes);
    lg_free(slab, slab->bytes);
}

/* Gives the mappings of ended large objects back; false if there were none. */
static bool trim(lg_heap *heap) {
    bool any = false;
    for (lg_slab **at = &heap->large; *at;) {
        lg_slab *slab = *at;
        if (slab->is_used) {
            at = &slab->next;
            continue;
        }
        *at = slab->next;
        unmap_slab(heap, slab);
        any = true;
    }
    for (int32_t i = FIRST_LARGE; i < LG_SIZE_CLASSES; i++)
        heap->free[i] = NULL;
    return any;
}

static void free_slabs(lg_slab *slab) {
    while (slab) {
        lg_slab *next = slab->next;
        lg_free(slab, slab->bytes);
        slab = next;
    }
}

/* The slab to go on in, with room for a block of `size`. Those kept from an earlier call count from now on. */
static bool next_slab(lg_heap *heap, int64_t size) {
    lg_slab **at = heap->current ? &heap->current->next : &heap->first, *next = *at;
    if (next && lg_budget_take(heap->budget, next->bytes)) {
        heap->mapped += next->bytes;
    } else {
        free_slabs(next);
        *at = NULL;
        int64_t bytes = heap->mapped < SLAB ? SLAB : heap->mapped < MAX_SLAB ? heap->mapped : MAX_SLAB;
        int64_t needed = size + FRONT + 64;
        next = map_slab(heap, bytes);
        while (!next && bytes / 2 >= needed)
            next = map_slab(heap, bytes /= 2);
        if (!next)
            return false;
        *at = next;
    }
    heap->current = next;
    heap->place = (uint8_t *)next + FRONT;
    heap->end = (uint8_t *)next + next->bytes;
    return true;
}

static lg_header *cut(lg_heap *heap, int64_t size, bool wide) {
    for (;;) {
        /* Payloads begin 16 bytes further. */
        int64_t gap = wide ? (int64_t)((FRONT - (uintptr_t)heap->place) & 63) : 0;
        if (heap->place && heap->end - heap->place >= size + gap) {
            lg_header *block = (lg_header *)(heap->place + gap);
            heap->place += gap + size;
            return block;
        }
        if (!next_slab(heap, size) && !(trim(heap) && next_slab(heap, size)))
            return NULL;
    }
}

static lg_header *map_large(lg_heap *heap, int64_t size) {
    lg_slab *slab = map_slab(heap, FRONT + size);
    if (!slab && trim(heap))
        slab = map_slab(heap, FRONT + size);
    if (!slab)
        return NULL;
    slab->next = heap->large;
    heap->large = slab;
    return (lg_header *)((uint8_t *)slab + FRONT);
}

static lg_slab *slab_of_large(lg_header *block) {
    return (lg_slab *)((uint8_t *)block - FRONT);
}

/* ---- objects ---- */

void *lg_heap_object(lg_heap *heap, int64_t bytes, int64_t tag, int64_t pointers) {
    int64_t size;
    if (bytes < 0 || bytes > MAX_OBJECT) {
        lg_budget_refuse(heap->budget, bytes);
        return NULL;
    }
    int32_t class = class_of(bytes, pointers, &size);
    lg_header *object = heap->free[class];
    if (object)
        heap->free[class] = (lg_header *)(uintptr_t)object->bytes;
    else
        object = class < FIRST_LARGE ? cut(heap, size, class >= STEPS_64) : map_large(heap, size);
    if (!object)
        return NULL;
    if (class >= FIRST_LARGE)
        slab_of_large(object)->is_used = true;
    *object = (lg_header){.refs = 1, .tag = (uint16_t)tag, .pointers = (uint16_t)pointers, .bytes = bytes};
    heap->live++;
    return object + 1;
}

/* Puts an object whose count is 0 in front of those that end: the count is its class then, the size the next one. */
static lg_header *ending(lg_header *object, lg_header *list) {
    int64_t size;
    object->refs = class_of(object->bytes, object->pointers, &size);
    object->bytes = (int64_t)(uintptr_t)list;
    return object;
}

void lg_heap_end(lg_heap *heap, void *payload) {
    /* A list, not a recursion: a chain of a million objects ends like any other. */
    lg_header *list = ending((lg_header *)payload - 1, NULL);
    while (list) {
        lg_header *object = list;
        const int64_t *fields = (const int64_t *)(object + 1);
        list = (lg_header *)(uintptr_t)object->bytes;
        for (int32_t i = 0; i < object->pointers; i++)
            if (is_object(fields[i]) && !--header_of(fields[i])->refs)
                list = ending(header_of(fields[i]), list);
        int32_t class = object->refs;
        if (class >= FIRST_LARGE)
            slab_of_large(object)->is_used = false;
        object->bytes = (int64_t)(uintptr_t)heap->free[class];
        heap->free[class] = object;
        heap->live--;
    }
}

static void release(lg_heap *heap, int64_t handle) {
    if (is_object(handle) && !--header_of(handle)->refs)
        lg_heap_end(heap, (void *)(uintptr_t)handle);
}

void lg_heap_release(lg_heap *heap, const int64_t *handles, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        release(heap, handles[i]);
}

/* Sizes of classes grow in proportion, so what is copied here while an object grows bit by bit is linear in its bytes. */
void *lg_heap_resize(lg_heap *heap, void *payload, int64_t bytes) {
    lg_header *object = (lg_header *)payload - 1;
    int64_t old = object->bytes, size;
    bool is_valid = bytes >= 0 && bytes <= MAX_OBJECT, is_last = object->refs == 1;
    if (is_last && is_valid && class_of(bytes, 0, &size) == class_of(old, 0, &size)) {
        object->bytes = bytes;
        return payload;
    }
    void *new = lg_heap_object(heap, bytes, object->tag, 0);
    if (!new)
        return NULL;
    memcpy(new, payload, (size_t)(old < bytes ? old : bytes));
    release(heap, (int64_t)(uintptr_t)payload);
    if (is_last && bytes >= LARGE)
        trim(heap); /* blocks that it has outgrown */
    return new;
}

/* ---- the end of a call ---- */

void lg_heap_reset(lg_heap *heap) {
    free(heap->records);
    heap->records = NULL;
    if (!heap->first && !heap->large)
        return;
    free_slabs(heap->large);
    heap->large = NULL;
    int64_t kept = 0;
    lg_slab **at = &heap->first;
    while (*at && kept + (*at)->bytes <= KEEP) {
        kept += (*at)->bytes;
        at = &(*at)->next;
    }
    free_slabs(*at);
    *at = NULL;
    lg_budget_give(heap->budget, heap->mapped);
    for (int32_t i = 0; i < LG_SIZE_CLASSES; i++)
        heap->free[i] = NULL;
    heap->current = NULL;
    heap->place = heap->end = NULL;
    heap->mapped = heap->live = 0;
}

void lg_heap_free(lg_heap *heap) {
    lg_heap_reset(heap);
    free_slabs(heap->first);
    heap->first = NULL;
}

int64_t lg_heap_held(const lg_heap *heap) {
    int64_t held = 0;
    for (const lg_slab *slab = heap->first; slab; slab = slab->next)
        held += slab->bytes;
    return held;
}
