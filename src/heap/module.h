/* module.h - the program and libraries of a target: where they lie, what of them is data.
 *
 * Owns: what the ELF headers in the target's memory say, checked. */
#ifndef MALLOW_HEAP_MODULE_H
#define MALLOW_HEAP_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/target.h"

enum {
    MODULE_DATA_MAX = 4,
    MODULE_ID_BYTES_MAX = 64,
    MODULES_MAX = 1 << 14,
    MODULES_TRIED_MAX = 1 << 16
};

struct module {
    const char *path;    /* belongs to the target */
    const char *name;    /* last part of the path */
    uint64_t start, end; /* bounds of all its mappings */
    uint64_t first_end;  /* where its first mapping ends, which has the file's header */
    uint64_t bias;       /* address in the target less address in the file */
    struct module_range {
        uint64_t start, end;
    } data[MODULE_DATA_MAX]; /* writable segments, including their zero-initialized part */
    size_t data_count;
    uint64_t tls_bytes; /* the bytes of its thread-local variables; 0: none */
    uint8_t build_id[MODULE_ID_BYTES_MAX];
    size_t build_id_bytes;
};

struct modules {
    struct module *at; /* by start */
    size_t count;
};

/* Lists all mapped ELF files; a file whose header is missing or makes no sense is left out. For
 * a core, it opens the files that the core names if their build-ids match, so that memory
 * missing from the core can be read. Returns 0, or -1 without memory. */
int modules_read(struct modules *m, struct target *t);
void modules_release(struct modules *m);

/* Returns the module whose mappings or data hold the address, or NULL. */
const struct module *modules_at(const struct modules *m, uint64_t address);

#endif
