/* fuzz_core.c - damaged core files through the whole of src/heap.
 *
 * Under libFuzzer: LLVMFuzzerTestOneInput. Without (-DFUZZ_MAIN): "fuzz_core CORE... ROUNDS SEED"
 * reads each core as it is, then ROUNDS copies of it with words overwritten, swapped, or cut off:
 * by pointers to elsewhere in it, sizes, zeros, garbage. "fuzz_core PID" looks at a process, which
 * victim_hostile.c damages itself. Nothing may crash, hang or leak. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/heap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void look(const char *target)
{
    struct error err;
    const struct heap_options options = {.threads = 1};
    struct heap *h = heap_read(target, &options, &err);
    if (h) {
        size_t count;
        for (int by = HEAP_BY_TYPE; by <= HEAP_BY_SIZE; by++) {
            const struct heap_row *rows = heap_table(h, (enum heap_by)by, &count, &err);
            for (size_t i = 0; i < count; i++)
                if (!rows[i].name || !rows[i].module)
                    abort();
        }
        struct heap_step *steps;
        enum heap_found found;
        for (size_t i = 0; i < heap_leaks(h) && i < 10; i++) {
            struct heap_leak leak;
            heap_leak(h, i, &leak);
            if (heap_why(h, leak.address, &steps, &count, &found))
                abort();
            free(steps);
            if (heap_who(h, leak.address, &steps, &count, &found))
                abort();
            free(steps);
        }
        heap_free(h);
    } else if (err.kind == ERROR_NONE || !*err.text) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char path[64];
    int fd = memfd_create("core", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    look(path);
    close(fd);
    return 0;
}

#ifdef FUZZ_MAIN
static uint64_t state;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void damage(uint8_t *data, size_t *n, const uint8_t *whole, size_t whole_bytes)
{
    for (unsigned k = 1 + (unsigned)(draw() % 40); k > 0 && *n > 64; k--) {
        /* Where words are not zero, mostly: there is what is read. */
        size_t at = 0;
        for (int tries = 0; tries < 50; tries++) {
            uint64_t word;
            at = draw() % (*n / 8 - 1) * 8;
            memcpy(&word, data + at, 8);
            if (word)
                break;
        }
        uint64_t value = draw(), other;
        memcpy(&other, whole + draw() % (whole_bytes / 8) * 8, 8);
        switch (draw() % 8) {
        case 0: value = 0; break;
        case 1: value = UINT64_MAX; break;
        case 2: value = other; break;
        case 3: memcpy(&value, data + at, 8), value ^= (uint64_t)1 << draw() % 64; break;
        case 4: memcpy(&value, data + at, 8), value += 16; break;
        case 5: value = draw() % 4096 * 16 | 1; break;
        case 6:
            if (!(draw() % 8))
                *n = draw() % *n;
            continue;
        default: break;
        }
        if (at + 8 <= *n)
            memcpy(data + at, &value, 8);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        look(argv[1]);
        return 0;
    }
    if (argc < 4)
        return 2;
    unsigned long rounds = strtoul(argv[argc - 2], NULL, 10);
    state = strtoull(argv[argc - 1], NULL, 10) * 2 + 1;
    for (int i = 1; i < argc - 2; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f || fseek(f, 0, SEEK_END))
            return 1;
        size_t whole_bytes = (size_t)ftell(f);
        uint8_t *whole = malloc(whole_bytes), *copy = malloc(whole_bytes);
        rewind(f);
        if (!whole || !copy || fread(whole, 1, whole_bytes, f) != whole_bytes)
            return 1;
        fclose(f);
        LLVMFuzzerTestOneInput(whole, whole_bytes);
        for (unsigned long k = 0; k < rounds; k++) {
            size_t n = whole_bytes;
            memcpy(copy, whole, n);
            damage(copy, &n, whole, whole_bytes);
            LLVMFuzzerTestOneInput(copy, n);
        }
        free(whole);
        free(copy);
    }
    return 0;
}
#endif
