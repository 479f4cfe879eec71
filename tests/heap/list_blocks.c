/* list_blocks.c - what the walk finds, a line "ADDRESS USABLE" each block of the program; then
 * "free", "mapped" and "verified". Usage: list_blocks PID|CORE */
#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "heap/sampled.h"
#include "heap/walk.h"

int main(int argc, char **argv)
{
    struct error err = {.kind = ERROR_NONE};
    if (argc < 2)
        return 2;
    struct target *t = isdigit((unsigned char)argv[1][0])
                           ? target_stop((uint32_t)strtoul(argv[1], NULL, 10), &err)
                           : target_core(open(argv[1], O_RDONLY | O_CLOEXEC), argv[1], &err);
    struct modules modules = {0};
    struct glibc glibc = {0};
    struct walk w = {0};
    const struct heap_sampled none = {.image = NULL};
    int status = t && !modules_read(&modules, t) && !glibc_find(&glibc, t, &modules, &err) &&
                         !walk_heap(&w, t, &glibc, &modules, &none, 2, &err)
                     ? 0
                     : 1;
    if (status) {
        fprintf(stderr, "list_blocks: %s\n", err.text);
    } else {
        uint64_t free_bytes = 0;
        for (uint32_t i = 0; i < w.blocks.count; i++)
            if (blocks_is_used(&w.blocks, i) && w.blocks.kind[i] != BLOCK_OWN)
                printf("0x%" PRIx64 " %" PRIu64 "\n", w.blocks.address[i],
                       blocks_bytes(&w.blocks, i));
        for (size_t i = 0; i < w.arena_count; i++)
            free_bytes += w.arenas[i].free_bytes;
        printf("free %" PRIu64 "\nmapped %" PRIu64 " %" PRIu64 "\nverified %d %s\n", free_bytes,
               w.mapped_blocks, w.mapped_system_bytes, w.verified, w.reason);
    }
    walk_release(&w);
    glibc_release(&glibc);
    modules_release(&modules);
    target_close(t);
    return status;
}
