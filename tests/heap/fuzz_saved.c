/* fuzz_saved.c - damaged saved heaps: fuzz_saved CORE... ROUNDS SEED.
 *
 * Saves the heap of each core, and reads back ROUNDS copies in whose sections, unpacked, bytes are
 * changed, inserted or cut off; the checksums are right again. Nothing may crash, hang or leak. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap/heap.h"
#include "heap/saved.h"

enum { SECTIONS = 6, MAGIC_BYTES = 8 };

static uint64_t state;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void look_at(struct heap *h)
{
    struct error err;
    size_t count;
    struct heap_step *steps;
    enum heap_found found;
    for (int by = HEAP_BY_TYPE; by <= HEAP_BY_SIZE; by++) {
        const struct heap_row *rows = heap_table(h, (enum heap_by)by, &count, &err);
        for (size_t i = 0; i < count; i++)
            if (!rows[i].name || !rows[i].module)
                abort();
    }
    heap_pins(h, HEAP_BY_TYPE, &count, &err);
    heap_pins(h, HEAP_BY_ROOT, &count, &err);
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
}

static void read_one(const char *path, bool must)
{
    const struct heap_options options = {.threads = 1};
    struct error err;
    struct heap *h = heap_read(path, &options, &err);
    if (h)
        look_at(h);
    else if (must || err.kind == ERROR_NONE || !*err.text)
        abort();
    heap_free(h);
}

static void damage(struct packing *p)
{
    if (!p->n)
        return;
    for (unsigned k = 1 + (unsigned)(draw() % 8); k > 0; k--) {
        size_t at = draw() % 4 ? draw() % p->n : draw() % (p->n < 64 ? p->n : 64);
        switch (draw() % 6) {
        case 0: p->data[at] = (uint8_t)draw(); break;
        case 1: p->data[at] ^= (uint8_t)(1 << draw() % 8); break;
        case 2: p->data[at] = 0; break;
        case 3: memset(p->data + at, 0xff, p->n - at < 9 ? p->n - at : 9); break;
        case 4: memmove(p->data + at, p->data + at + 1, p->n - at - 1); break;
        default:
            if (!(draw() % 8) && at)
                p->n = at;
        }
    }
}

static void one_round(FILE *saved, const char *path)
{
    struct packing p = {0};
    struct error err;
    uint64_t offset = MAGIC_BYTES;
    char magic[MAGIC_BYTES];
    uint64_t changed = 1 + draw() % SECTIONS;
    FILE *f = fopen(path, "wb");
    if (!f || pread(fileno(saved), magic, sizeof magic, 0) != sizeof magic)
        abort();
    fwrite(magic, sizeof magic, 1, f);
    for (uint32_t i = 1; i <= SECTIONS; i++) {
        if (packing_read(fileno(saved), "saved", &offset, i, UINT64_MAX, &p, &err))
            abort();
        if (i == changed)
            damage(&p);
        if (packing_write(f, i, &p, &err))
            abort();
    }
    packing_release(&p);
    if (!(draw() % 10)) /* cut off */
        if (fflush(f) || ftruncate(fileno(f), (off_t)(draw() % (uint64_t)ftell(f))))
            abort();
    fclose(f);
    read_one(path, false);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    unsigned long rounds = strtoul(argv[argc - 2], NULL, 10);
    char path[] = "/tmp/fuzz-saved-XXXXXX";
    int fd = mkstemp(path);
    state = strtoull(argv[argc - 1], NULL, 10) * 2 + 1;
    for (int i = 1; fd >= 0 && i < argc - 2; i++) {
        FILE *saved = tmpfile();
        const struct heap_options options = {.threads = 1, .save = saved};
        struct error err;
        struct heap *h = heap_read(argv[i], &options, &err);
        if (!h || fflush(saved)) {
            fprintf(stderr, "fuzz_saved: %s\n", err.text);
            return 1;
        }
        heap_free(h);
        for (unsigned long k = 0; k < rounds; k++)
            one_round(saved, path);
        fclose(saved);
    }
    unlink(path);
    return fd < 0;
}
