/* Code images: mapped, relocated, then executable. No page is ever writable and executable at once. */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool relocate(uint8_t *base, int64_t size, const int64_t *relocations, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t word;
        int64_t at = relocations[i];
        if (at < 0 || at > size - (int64_t)sizeof word)
            return false;
        memcpy(&word, base + at, sizeof word);
        if (word > (uint64_t)size)
            return false;
        word += (uint64_t)(uintptr_t)base;
        memcpy(base + at, &word, sizeof word);
    }
    return true;
}

void *lg_image_load(const uint8_t *bytes, int64_t size, int64_t code_size, const int64_t *relocations, int64_t count) {
    if (size <= 0 || code_size <= 0 || code_size > size) {
        errno = EINVAL;
        return NULL;
    }
    uint8_t *base = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    memcpy(base, bytes, (size_t)size);
    int failure = relocate(base, size, relocations, count) ? 0 : EINVAL;
    int64_t page = sysconf(_SC_PAGESIZE), code = (code_size + page - 1) / page * page;
    if (!failure && mprotect(base, (size_t)code, PROT_READ | PROT_EXEC))
        failure = errno;
    if (!failure && code < size && mprotect(base + code, (size_t)(size - code), PROT_READ))
        failure = errno;
    if (!failure)
        return base;
    munmap(base, (size_t)size);
    errno = failure;
    return NULL;
}

void lg_image_unload(void *base, int64_t size) {
    munmap(base, (size_t)size);
}
