/* fuzz_elf.c - any bytes as a module, as a debug file, as a perf map: names or none, never harm.
 *
 * For libFuzzer: clang -fsanitize=fuzzer,address -DFUZZ_LIBRARY. With its own main: replays the
 * files named, or with -m SEED COUNT FILE... makes COUNT damaged copies of each file (bytes
 * flipped, stretches overwritten, cut short), the same for the same seed, and replays these. -k
 * keeps the one being replayed as PATH, to look at after a crash.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/perfmap.h"
#include "symbol/symbol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay_perfmap(const uint8_t *data, size_t size)
{
    struct perfmap map;
    uint64_t start;
    char *copy = malloc(size + 1);
    if (!copy)
        return;
    memcpy(copy, data, size);
    if (perfmap_parse(&map, copy, size) != 0)
        return;
    for (size_t i = 0; i < map.entries; i++) {
        const char *name = perfmap_find(&map, map.entry[i].start, &start);
        if (name && strlen(name) > size)
            abort();
    }
    perfmap_free(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const no_dirs[] = {NULL};
    char path[64];
    struct error err;
    struct symbol_frame frame[32];
    const char *const *problem;

    if (size > 0 && data[0] != 0x7f) {
        replay_perfmap(data, size);
        return 0;
    }
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int no_inline = 0; no_inline < 2; no_inline++) {
        struct symbol_options options = {
            .search_paths = no_dirs, .no_debuginfod = true, .no_inline = no_inline};
        struct symbols *s = symbols_new(&options, &err);
        if (!s)
            abort();
        struct symbol_module module = {.path = path, .end = UINT64_MAX};
        for (uint64_t at = 0; at < 0x4000; at += 61) {
            size_t n = symbols_lookup(s, &module, 0, at, at & 1, frame, 32);
            if (n == 0 || n > 32)
                abort();
            for (size_t i = 0; i < n; i++)
                if (frame[i].function && strlen(frame[i].function) > 1 << 20)
                    abort();
        }
        symbols_problems(s, &problem);
        symbols_free(s);
    }
    close(fd);
    return 0;
}

#ifndef FUZZ_LIBRARY
static uint64_t state;

static uint64_t next_random(void) /* xorshift64* (Vigna) */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long n = ftell(f);
        rewind(f);
        bytes = n >= 0 ? malloc((size_t)n + 1) : NULL;
        if (bytes && fread(bytes, 1, (size_t)n, f) != (size_t)n) {
            free(bytes);
            bytes = NULL;
        }
        *size = (size_t)n;
    }
    if (f)
        fclose(f);
    return bytes;
}

static size_t damage(uint8_t *bytes, size_t size)
{
    unsigned kind = (unsigned)(next_random() % 8);
    if (kind == 0)
        return (size_t)(next_random() % (size + 1));
    if (kind <= 5) { /* a few bytes, of which some in the first or the last 4 KB: the tables */
        unsigned n = 1 + (unsigned)(next_random() % 24);
        while (n--) {
            size_t window = size < 4096 || kind < 3 ? size : 4096;
            size_t at = (size_t)(next_random() % window);
            if (kind == 5)
                at += size - window;
            switch (next_random() % 4) {
            case 0: bytes[at] ^= (uint8_t)(1u << (next_random() % 8)); break;
            case 1: bytes[at] = 0xff; break;
            case 2: bytes[at] = 0; break;
            default: bytes[at] = (uint8_t)next_random(); break;
            }
        }
    } else {
        size_t at = (size_t)(next_random() % size), n = (size_t)(next_random() % 256);
        for (; n && at < size; n--, at++)
            bytes[at] = kind == 6 ? 0xff : (uint8_t)next_random();
    }
    return size;
}

int main(int argc, char **argv)
{
    unsigned long count = 0;
    const char *keep = NULL;
    int first = 1;
    if (argc > first + 1 && strcmp(argv[first], "-k") == 0) {
        keep = argv[first + 1];
        first += 2;
    }
    if (argc > first + 2 && strcmp(argv[first], "-m") == 0) {
        state = strtoull(argv[first + 1], NULL, 10) * 2 + 1;
        count = strtoul(argv[first + 2], NULL, 10);
        first += 3;
    }
    for (int i = first; i < argc; i++) {
        size_t size = 0;
        uint8_t *bytes = read_file(argv[i], &size);
        if (!bytes || size == 0) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 2;
        }
        if (count == 0)
            LLVMFuzzerTestOneInput(bytes, size);
        for (unsigned long n = 0; n < count; n++) {
            uint8_t *copy = malloc(size + 1);
            if (!copy)
                return 2;
            memcpy(copy, bytes, size);
            size_t left = damage(copy, size);
            FILE *f = keep ? fopen(keep, "wb") : NULL;
            if (f) {
                fwrite(copy, 1, left, f);
                fclose(f);
            }
            LLVMFuzzerTestOneInput(copy, left);
            free(copy);
        }
        printf("%s: %lu\n", argv[i], count ? count : 1);
        free(bytes);
    }
    return 0;
}
#endif
