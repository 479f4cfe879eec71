/* fuzz_demangle.c - any text as a mangled name: a readable one of bounded length or none.
 *
 * For libFuzzer: clang -fsanitize=fuzzer,address -DFUZZ_LIBRARY. With its own main: replays the
 * names (one a line) of the files given; -m SEED COUNT FILE... makes COUNT damaged copies of each
 * name, the same for the same seed. -v prints each name before it is tried.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/symbol.h"

enum { TEXT_BYTES_MAX = 256 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *name = malloc(size + 1);
    if (!name)
        return 0;
    memcpy(name, data, size);
    name[size] = '\0';
    char *text = symbol_demangle(name);
    if (text && strlen(text) > TEXT_BYTES_MAX)
        abort();
    free(text);
    free(name);
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

/* Changes that keep the text near the grammars: its own characters, repeats, cuts. */
static size_t damage(char *text, size_t size, size_t room)
{
    static const char alphabet[] = "_ZNSTIEJKPRQBLXDCFGHMpstuwidnfacbxv0123456789.$@";
    unsigned n = 1 + (unsigned)(next_random() % 6);
    while (n-- && size > 3) {
        size_t at = 2 + (size_t)(next_random() % (size - 2));
        size_t length = 1 + (size_t)(next_random() % 16);
        switch (next_random() % 6) {
        case 0: text[at] = alphabet[next_random() % (sizeof alphabet - 1)]; break;
        case 1: text[at] = (char)(1 + next_random() % 255); break;
        case 2: size = at; break;
        case 3: /* repeat a stretch of itself */
        case 4:
            if (at + length > size)
                length = size - at;
            if (size + length < room) {
                memmove(text + at + length, text + at, size - at);
                size += length;
            }
            break;
        default: /* drop a stretch */
            if (at + length > size)
                length = size - at;
            memmove(text + at, text + at + length, size - at - length);
            size -= length;
            break;
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    unsigned long count = 0;
    int first = 1, verbose = 0;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    if (argc > first && strcmp(argv[first], "-v") == 0) {
        verbose = 1;
        first++;
    }
    if (argc > first + 2 && strcmp(argv[first], "-m") == 0) {
        state = strtoull(argv[first + 1], NULL, 10) * 2 + 1;
        count = strtoul(argv[first + 2], NULL, 10);
        first += 3;
    }
    for (int i = first; i < argc; i++) {
        FILE *f = fopen(argv[i], "r");
        unsigned long tried = 0;
        if (!f) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 2;
        }
        while ((n = getline(&line, &room, f)) > 0) {
            size_t size = (size_t)n - (line[n - 1] == '\n');
            for (unsigned long k = 0; k < (count ? count : 1); k++) {
                char copy[16384];
                size_t left = size < sizeof copy ? size : sizeof copy - 1;
                memcpy(copy, line, left);
                if (count)
                    left = damage(copy, left, sizeof copy);
                if (verbose) {
                    printf("%.*s\n", (int)left, copy);
                    fflush(stdout);
                }
                LLVMFuzzerTestOneInput((const uint8_t *)copy, left);
                tried++;
            }
        }
        fclose(f);
        fprintf(stderr, "%s: %lu\n", argv[i], tried);
    }
    free(line);
    return 0;
}
#endif
