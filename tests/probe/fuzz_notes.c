/* fuzz_notes.c - any bytes as the notes of static probes, as the text of their arguments, and as
 * the file that has them: what can be understood, never harm.
 *
 * For libFuzzer: -DFUZZ_LIBRARY. With its own main: fuzz-notes SEED COUNT FILE reads COUNT damaged
 * copies of FILE's notes and of its first bytes, the same for the same seed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/argument.h"
#include "symbol/notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool known_symbol(void *arg, const char *name, uint64_t *address)
{
    if (arg || !*name)
        abort();
    *address = strlen(name) * 0x1001;
    return name[0] != 'x';
}

/* What must hold of an argument that was understood. */
static void check(const struct arenas_argument *a)
{
    int bytes = a->size < 0 ? -a->size : a->size;
    bool register_ok = a->base < 21 || a->base == ARENAS_NO_REGISTER,
         index_ok = a->index < 21 || a->index == ARENAS_NO_REGISTER;
    if (a->kind > ARENAS_ADDRESS || !register_ok || !index_ok ||
        (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) ||
        (a->scale != 1 && a->scale != 2 && a->scale != 4 && a->scale != 8))
        abort();
}

static void check_text(const char *text, uint64_t address)
{
    struct arenas_argument a;
    const char *end = text + strlen(text);
    for (const char *at = text + strspn(text, " "); at && *at;) {
        const char *next = argument_parse(at, address, known_symbol, NULL, &a);
        if (next && (next <= at || next > end))
            abort();
        if (next)
            check(&a);
        at = next;
    }
}

static void check_probes(const struct static_probes *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strlen(p->at[i].provider) + strlen(p->at[i].name) == SIZE_MAX)
            abort();
        check_text(p->at[i].arguments, p->at[i].address);
    }
}

static void read_file(const uint8_t *data, size_t size)
{
    char path[64];
    struct static_probes p;
    struct error err;
    int fd = memfd_create("fuzz-notes", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!static_probes_read(path, &p, &err)) {
        check_probes(&p);
        static_probes_release(&p);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct static_probes p;
    uint64_t *bases = NULL;
    if (!static_probes_parse(data, size, &p, &bases)) {
        check_probes(&p);
        static_probes_release(&p);
        free(bases);
    }
    char *text = malloc(size + 1); /* with an end that the sanitizer guards */
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    check_text(text, 0x1000);
    free(text);
    read_file(data, size);
    return 0;
}

#ifndef FUZZ_LIBRARY
static uint64_t state;

static uint64_t draw(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* Where the notes of the file begin: at the first name "stapsdt", behind its header. */
static size_t find_notes(const uint8_t *data, size_t size)
{
    const uint8_t *name = memmem(data, size, "\3\0\0\0stapsdt", 12);
    return name ? (size_t)(name - data) - 8 : 0;
}

int main(int argc, char **argv)
{
    static uint8_t whole[1 << 20], copy[1 << 20];
    FILE *f = argc == 4 ? fopen(argv[3], "rb") : NULL;
    if (!f) {
        fprintf(stderr, "usage: fuzz-notes SEED COUNT FILE\n");
        return 2;
    }
    size_t size = fread(whole, 1, sizeof whole, f), notes = find_notes(whole, size), known = 0;
    fclose(f);
    struct static_probes p;
    uint64_t *bases;
    if (!notes || static_probes_parse(whole + notes, size - notes, &p, &bases))
        return 1;
    known = p.count;
    static_probes_release(&p);
    free(bases);
    state = strtoull(argv[1], NULL, 0) * 2 + 1;
    for (unsigned long i = strtoul(argv[2], NULL, 0); i > 0; i--) {
        size_t from = i % 8 ? notes : 0, n = i % 8 ? 1 + draw(4096) : size - draw(size / 2);
        if (n > size - from)
            n = size - from;
        memcpy(copy, whole + from, n);
        for (uint64_t k = draw(8); k-- > 0;)
            copy[draw(n)] = (uint8_t)draw(256);
        LLVMFuzzerTestOneInput(copy, n);
    }
    printf("%zu probes in the file that was damaged\n", known);
    return known < 29;
}
#endif
