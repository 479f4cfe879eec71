/* arenas_now.c - Reads glibc's arenas and heaps out of a running process. It reads only pages
 * that are present, and bounds the lists, which may have cycles while the process changes them.
 * It reports nothing unless the sizes of the heaps add up to those of the arenas. */
#include "probe/arenas_now.h"

#include "base/present.h"
#include "base/proc.h"
#include "glibc/versions.h"
#include "remote/handle.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In struct malloc_state, and in struct malloc_par. */
enum { FLAGS_AT = 4, NOT_CONTIGUOUS = 2, TRIM_AT = 0, MMAP_AT = 16 };
enum { ARENAS_MAX = 4096, HEAPS_MAX = 65536 };

/* Where the file's address 0 lies in the process; 0: nowhere. */
static uint64_t base_of(pid_t pid, const char *library)
{
    struct proc_maps maps;
    struct proc_mapping m;
    struct stat st;
    uint64_t base = 0;
    if (stat(library, &st) || !proc_maps_open(&maps, pid))
        return 0;
    while (!base && proc_maps_next(&maps, &m))
        if (m.inode == st.st_ino && !m.offset)
            base = m.start;
    proc_maps_close(&maps);
    return base;
}

/* Bytes that brk made. */
static uint64_t break_bytes(pid_t pid)
{
    struct proc_maps maps;
    struct proc_mapping m;
    uint64_t bytes = 0;
    if (!proc_maps_open(&maps, pid))
        return 0;
    while (proc_maps_next(&maps, &m))
        if (m.path && !strcmp(m.path, "[heap]"))
            bytes += m.end - m.start;
    proc_maps_close(&maps);
    return bytes;
}

struct memory { /* the process's memory */
    struct handle handle;
    struct present present;
    unsigned heaps; /* that may be looked at still: a list can have circles */
    uint64_t lacks; /* see arenas_now */
};

/* Only where there are pages already: reading a hole would make one. */
static bool peek(struct memory *memory, uint64_t address, void *to, size_t bytes)
{
    return present_all(&memory->present, address, bytes) &&
           handle_read(&memory->handle, address, to, bytes);
}

static bool read_memory_word(struct memory *memory, uint64_t address, uint64_t *word)
{
    return peek(memory, address, word, sizeof *word);
}

static void report_arena_now(struct arenas *a, pid_t pid, uint32_t probe, uint64_t first,
                             uint64_t second, uint64_t third)
{
    const struct arenas_event e = {.pid = (uint32_t)pid,
                                   .tid = (uint32_t)pid,
                                   .probe = probe,
                                   .known = ARENAS_ARGUMENTS,
                                   .argument = {(int64_t)first, (int64_t)second, (int64_t)third}};
    arenas_take(a, &e, 0);
}

/* The most that heaps of arenas grow to: where one of that size would begin that holds the arena's
 * top, it has the arena's address. 0: no size is right. */
static uint64_t heap_bytes(struct memory *memory, uint64_t arena, uint64_t top)
{
    static const uint64_t sizes[] = GLIBC_HEAP_SIZE_LIST;
    for (size_t i = 0; i < GLIBC_HEAP_SIZES; i++) {
        uint64_t word;
        if (read_memory_word(memory, top & -sizes[i], &word) && word == arena)
            return sizes[i];
    }
    return 0;
}

/* The heaps of an arena, from its top on; their bytes are to be the arena's. */
static bool read_heaps(struct memory *memory, struct arenas *a, pid_t pid, uint64_t arena)
{
    struct glibc_heap h;
    uint64_t top, bytes, sum = 0, heap;
    if (!read_memory_word(memory, arena + GLIBC_ARENA_TOP - memory->lacks, &top) ||
        !read_memory_word(memory, arena + GLIBC_ARENA_SUM - memory->lacks, &bytes))
        return false;
    const uint64_t most = heap_bytes(memory, arena, top);
    if (!most)
        return false;
    heap = top & -most;
    while (heap) {
        if (!memory->heaps-- || !peek(memory, heap, &h, sizeof h) || h.arena != arena ||
            h.bytes > most)
            return false;
        report_arena_now(a, pid, ARENAS_HEAP_NEW, heap, h.bytes, arena);
        sum += h.bytes;
        if (h.previous & (most - 1))
            return false;
        heap = h.previous;
    }
    return sum == bytes;
}

static bool read_all_arenas(struct memory *memory, struct arenas *a, pid_t pid, uint64_t main_arena,
                            uint64_t limits)
{
    uint64_t bytes, trim, map, next = main_arena, state;
    if (!read_memory_word(memory, main_arena, &state) ||
        !read_memory_word(memory, main_arena + GLIBC_ARENA_SUM - memory->lacks, &bytes) ||
        bytes & 15 || !read_memory_word(memory, limits + TRIM_AT, &trim) ||
        !read_memory_word(memory, limits + MMAP_AT, &map))
        return false;
    struct arenas_process *p = arenas_process(a, (uint32_t)pid);
    if (!p)
        return false;
    p->main_arena = main_arena;
    const bool apart = state >> FLAGS_AT * 8 & NOT_CONTIGUOUS; /* mappings are among its memory */
    p->sbrk_bytes = (int64_t)(apart ? break_bytes(pid) : bytes);
    p->mmap_threshold_bytes = map;
    p->trim_threshold_bytes = trim;
    for (unsigned n = 0; n < ARENAS_MAX; n++) {
        if (!arenas_enter(a, p, next) ||
            !read_memory_word(memory, next + GLIBC_ARENA_NEXT - memory->lacks, &next))
            return false;
        if (next == main_arena)
            return true;
        if (!read_heaps(memory, a, pid, next))
            return false;
    }
    return false;
}

bool arenas_now(struct arenas *a, pid_t pid, const char *library, uint64_t main_arena,
                uint64_t limits, uint64_t lacks)
{
    struct memory memory = {.heaps = HEAPS_MAX, .lacks = lacks};
    handle_open(&memory.handle, pid); /* before it is asked where its library is */
    const uint64_t base = base_of(pid, library);
    const bool known = base && present_open(&memory.present, pid) &&
                       read_all_arenas(&memory, a, pid, base + main_arena, base + limits);
    if (base)
        present_close(&memory.present);
    handle_close(&memory.handle);
    struct arenas_process *p = arenas_process(a, (uint32_t)pid);
    if (!known)
        arenas_forget(a, (uint32_t)pid);
    else if (p)
        p->moments = 0; /* these did not happen now */
    return known;
}
