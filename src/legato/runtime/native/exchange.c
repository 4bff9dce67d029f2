/* Objects from and to data of the embedder's: one array of words for a whole graph. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_BYTES 64 /* payloads up to here are written out even if they hold no handles */
#define UNDER_WAY INT32_MIN

static lg_header *header_of(int64_t handle) {
    return (lg_header *)(uintptr_t)handle - 1;
}

static int64_t words_of(int64_t bytes) {
    return (bytes + 7) / 8;
}

/* ---- in ---- */

/* The handle for a reference, with one reference more; 0: there is no such record. */
static int64_t resolve(int64_t reference, const int64_t *handles, int64_t count) {
    if (reference & 1)
        return reference;
    int64_t at = reference < 0 ? count + reference / 2 : reference / 2;
    if (at < 0 || at >= count)
        return 0;
    if (!(handles[at] & 1))
        header_of(handles[at])->refs++;
    return handles[at];
}

/* Makes the object of the record at script[at], its handles still references, and returns where the next record begins;
 * -1: malformed, -2: no memory. */
static int64_t build_one(lg_heap *heap, const int64_t *script, int64_t at, int64_t words, int64_t *handle) {
    if (words - at < 2)
        return -1;
    int64_t tag = script[at] & 0xFFFF, pointers = script[at] >> 16 & 0xFFFF, bytes = script[at + 1];
    bool is_elsewhere = script[at] >> 32 & 1;
    at += 2;
    int64_t inside = is_elsewhere ? 1 : words_of(bytes);
    if (bytes < 0 || bytes < 8 * pointers || inside > words - at || (is_elsewhere && pointers))
        return -1;
    if (!inside) {
        *handle = tag << 1 | 1;
        return at;
    }
    void *payload = lg_heap_object(heap, bytes, tag, pointers);
    if (!payload)
        return -2;
    header_of((int64_t)(uintptr_t)payload)->refs = 0; /* those that refer to it count */
    memcpy(payload, is_elsewhere ? (const void *)(uintptr_t)script[at] : script + at, (size_t)bytes);
    *handle = (int64_t)(uintptr_t)payload;
    return at + inside;
}

/* Makes handles of the references in an object; false: malformed. */
static bool connect(int64_t handle, const int64_t *handles, int64_t count) {
    int64_t *payload = (int64_t *)(uintptr_t)handle;
    int32_t pointers = handle & 1 ? 0 : header_of(handle)->pointers;
    for (int32_t i = 0; i < pointers; i++)
        if (!(payload[i] = resolve(payload[i], handles, count)))
            return false;
    return true;
}

lg_status lg_heap_build(lg_heap *heap, const int64_t *script, int64_t words, int64_t objects, int64_t *roots,
                        int64_t count) {
    int64_t *handles = malloc((size_t)(objects > 0 ? objects : 1) * sizeof *handles);
    int64_t at = handles ? 0 : -2;
    for (int64_t i = 0; at >= 0 && i < objects; i++)
        at = build_one(heap, script, at, words, &handles[i]);
    bool is_whole = at == words;
    for (int64_t i = 0; is_whole && i < objects; i++)
        is_whole = connect(handles[i], handles, objects);
    for (int64_t i = 0; is_whole && i < count; i++)
        is_whole = (roots[i] = resolve(roots[i], handles, objects)) != 0;
    free(handles);
    if (is_whole)
        return LG_OK;
    lg_heap_reset(heap);
    return at == -2 ? LG_MEMORY : LG_MALFORMED;
}

/* ---- out ---- */

typedef struct {
    lg_header *object;
    int32_t next; /* of its handles */
    int32_t refs; /* its count, in whose place the number of its record is kept meanwhile */
} visit;

typedef struct {
    visit *stack;
    int64_t depth, stack_room;
    int64_t *out;
    int64_t words, room;
    int32_t objects;
} walk;

static bool grow(void **data, int64_t *room, int64_t needed, size_t size) {
    if (needed <= *room)
        return true;
    int64_t larger = *room ? *room : 256;
    while (larger < needed)
        larger *= 2;
    void *moved = realloc(*data, (size_t)larger * size);
    if (!moved)
        return false;
    *data = moved;
    *room = larger;
    return true;
}

/* Begins with an object, unless that was done; false: out of memory. */
static bool enter(walk *w, int64_t handle) {
    if (!handle || handle & 1 || header_of(handle)->refs < 0)
        return true;
    if (!grow((void **)&w->stack, &w->stack_room, w->depth + 1, sizeof *w->stack))
        return false;
    lg_header *object = header_of(handle);
    w->stack[w->depth++] = (visit){.object = object, .refs = object->refs};
    object->refs = UNDER_WAY;
    return true;
}

static int64_t reference_to(int64_t handle) {
    return handle && !(handle & 1) ? 2 * (int64_t)(-1 - header_of(handle)->refs) : handle;
}

/* Writes the record of the object on top, all of whose parts have one. */
static bool leave(walk *w) {
    visit *top = &w->stack[w->depth - 1];
    lg_header *object = top->object;
    int64_t *payload = (int64_t *)(object + 1);
    bool inside = object->pointers || object->bytes <= INLINE_BYTES;
    int64_t inner = inside ? words_of(object->bytes) : 0;
    if (w->objects == INT32_MAX || !grow((void **)&w->out, &w->room, w->words + 3 + inner, sizeof *w->out))
        return false;
    int64_t *record = w->out + w->words;
    record[0] = (int64_t)(uintptr_t)payload;
    record[1] = object->bytes;
    record[2] = object->tag | (int64_t)object->pointers << 16 | (int64_t)top->refs << 32;
    if (inner)
        record[2 + inner] = 0;
    if (inside)
        memcpy(record + 3, payload, (size_t)object->bytes);
    for (int32_t i = 0; i < object->pointers; i++)
        record[3 + i] = reference_to(payload[i]);
    object->refs = -1 - w->objects++;
    w->words += 3 + inner;
    w->depth--;
    return true;
}

static lg_status visit_all(walk *w, int64_t root) {
    if (!enter(w, root))
        return LG_MEMORY;
    while (w->depth) {
        visit *top = &w->stack[w->depth - 1];
        if (top->next == top->object->pointers) {
            if (!leave(w))
                return LG_MEMORY;
            continue;
        }
        int64_t field = ((const int64_t *)(top->object + 1))[top->next++];
        if (field && !(field & 1) && header_of(field)->refs == UNDER_WAY)
            return LG_MALFORMED;
        if (!enter(w, field))
            return LG_MEMORY;
    }
    return LG_OK;
}

static void restore_counts(const walk *w) {
    for (int64_t i = 0; i < w->depth; i++)
        w->stack[i].object->refs = w->stack[i].refs;
    for (int64_t at = 0; at < w->words;) {
        const int64_t *record = w->out + at;
        int64_t pointers = record[2] >> 16 & 0xFFFF;
        header_of(record[0])->refs = (int32_t)(record[2] >> 32);
        at += 3 + (pointers || record[1] <= INLINE_BYTES ? words_of(record[1]) : 0);
    }
}

lg_status lg_heap_read(lg_heap *heap, int64_t *roots, int64_t count, const int64_t **records, int64_t *words) {
    walk w = {0};
    lg_status status = LG_OK;
    for (int64_t i = 0; i < count && !status; i++)
        status = visit_all(&w, roots[i]);
    for (int64_t i = 0; i < count && !status; i++)
        roots[i] = reference_to(roots[i]);
    restore_counts(&w);
    free(w.stack);
    free(heap->records);
    heap->records = status ? NULL : w.out;
    if (status)
        free(w.out);
    *records = heap->records;
    *words = status ? 0 : w.words;
    return status;
}
