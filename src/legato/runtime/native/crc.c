/* CRC32C: by the processor's instruction where there is one, else (and under LG_PORTABLE, for tests) by table. */
#include "internal.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__) && !defined(LG_PORTABLE)
#include <cpuid.h>
#endif

#define POLYNOMIAL 0x82F63B78u /* Castagnoli's, bits reversed */

static uint32_t table[256];

static void fill_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
        table[i] = crc;
    }
}

static uint32_t by_table(uint32_t crc, const uint8_t *data, int64_t size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_table);
    for (int64_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ table[(crc ^ data[i]) & 255];
    return crc;
}

#if defined(__x86_64__) && !defined(LG_PORTABLE)
#if defined(__clang__) && __clang_major__ >= 14
#define CRC_TARGET "sse4.2,crc32" /* Clang has the instruction as a feature of its own */
#else
#define CRC_TARGET "sse4.2"
#endif
__attribute__((target(CRC_TARGET))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data, int64_t size) {
    uint64_t sum = crc, word;
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        sum = _mm_crc32_u64(sum, word);
    }
    for (; size > 0; size--)
        sum = _mm_crc32_u8((uint32_t)sum, *data++);
    return (uint32_t)sum;
}

static int is_there;

static void ask(void) { /* by hand: the compiler's own __builtin_cpu_supports needs a library of its own */
    unsigned a, b, c = 0, d;
    is_there = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}

static int has_instruction(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask);
    return is_there;
}
#endif

uint32_t lg_crc32c(uint32_t crc, const uint8_t *data, int64_t size) {
#if defined(__x86_64__) && !defined(LG_PORTABLE)
    if (has_instruction())
        return ~by_instruction(~crc, data, size);
#endif
    return ~by_table(~crc, data, size);
}

void lg_crc32c_chunks(const uint8_t *data, int64_t size, int64_t chunk, uint32_t *sums) {
    for (int64_t at = 0; at < size; at += chunk)
        *sums++ = lg_crc32c(0, data + at, size - at < chunk ? size - at : chunk);
}
