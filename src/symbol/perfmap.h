/* perfmap.h - the names that a JIT compiler writes down for its code, /tmp/perf-PID.map.
 *
 * Owns: reading that file, from the live process's own root when there is one. Each line is
 * "START SIZE name", numbers in hex. Lines of any other form are skipped and counted; a later
 * line wins over earlier ones that begin at the same address, as code is replaced. Bounded: files
 * over PERFMAP_BYTES_MAX are read up to there, and are `cut`.
 */
#ifndef MALLOW_SYMBOL_PERFMAP_H
#define MALLOW_SYMBOL_PERFMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/interval.h"

enum { PERFMAP_BYTES_MAX = 64 << 20 };

struct perfmap {
    char *text; /* the file, its names ended by zeros */
    size_t text_bytes;
    struct interval_map ranges; /* value: number of the entry */
    struct perfmap_entry {
        uint64_t start, size_bytes;
        size_t name; /* offset in text */
    } * entry;
    size_t entries, room, bad_lines;
    bool cut;
    uint64_t file_bytes, file_mtime_ns; /* the file's when it was read */
    uint64_t read_at_ns, read_ns;       /* when that was, and what it took of a processor */
};

/* Parses bytes, of which it takes ownership (from malloc, size_bytes + 1 of room). Returns 0, or
 * -1 when out of memory. */
int perfmap_parse(struct perfmap *map, char *bytes, size_t size_bytes);

/* Reads the map of a process, if there is one. Returns 0, or -1 when there is none. */
int perfmap_read(struct perfmap *map, uint32_t pid);

/* True: there is another map by now, or a longer one. False where to read it again so soon would
 * take more than a twentieth of the time. */
bool perfmap_changed(const struct perfmap *map, uint32_t pid);

/* The name of the code at address, or NULL. start receives where it begins. */
const char *perfmap_find(const struct perfmap *map, uint64_t address, uint64_t *start);

void perfmap_free(struct perfmap *map);

#endif
