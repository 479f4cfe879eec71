/* image.h - the image of a process, as far as it is known: mappings, modules, memory. One thread.
 */
#ifndef MALLOW_REMOTE_IMAGE_H
#define MALLOW_REMOTE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/index.h"
#include "remote/handle.h"
#include "symbol/unwindrows.h"

enum module_kind {
    MODULE_OTHER,
    MODULE_LIBC,   /* libc.so.6, and on older systems libdl and libpthread */
    MODULE_LINKER, /* ld-linux */
    MODULE_UNSAFE  /* its code may hold a lock that loading needs: libgcc, and our own */
};

/* A file that has mappings. */
struct module {
    char *path;
    uint64_t device, inode;
    uint64_t
        base; /* of the mapping at offset 0 before the first that can be executed; 0: none such */
    uint64_t begins; /* private: of the last mapping at offset 0 so far */
    enum module_kind kind;
    bool looked; /* for rows */
    struct unwind_row *rows;
    size_t row_count;
};

struct region {
    uint64_t start, end, offset;
    bool read, write, execute, shared, stack;
    int module; /* index; -1: none */
};

enum { INJECTED_REGIONS_MOST = 1 << 20 };

struct injected {
    struct handle handle; /* of the image that all of this was learned from */
    struct region *regions;
    size_t region_count, region_room;
    struct module *modules;
    size_t module_count, module_room;
    struct index module_index; /* by device and inode */
    struct asked *asked;       /* private */
    int wanted; /* a module whose unwind table was asked for and not read yet; -1: none */
};

/* Takes hold of the image that the process has now. Facts about it are learned afterwards, and hold
 * as long as handle_same says so. */
void injected_hold(struct injected *t, pid_t pid);

/* Reads the mappings (anew). Unwind tables that were read stay. 0, or why they could not be read,
 * as errno: EACCES and EPERM: it is hidden from us; ESRCH: there are none; E2BIG: there are more
 * than INJECTED_REGIONS_MOST, and no more are looked at. */
int injected_refresh(struct injected *t);
void injected_close(struct injected *t);

const struct region *injected_region(const struct injected *t, uint64_t address);
/* False: not all of it is there, or reading it would make pages of a hole of a file. */
bool injected_read(const struct injected *t, uint64_t at, void *to, size_t bytes);
bool injected_write(const struct injected *t, uint64_t at, const void *from, size_t bytes);

/* The address of a function or variable that the module at `base` defines in its default version;
 * 0: none. */
uint64_t injected_symbol(const struct injected *t, uint64_t base, const char *name,
                         uint64_t *bytes);
/* The same in the first module of that kind that has it. */
uint64_t injected_function(const struct injected *t, enum module_kind kind, const char *name,
                           uint64_t *bytes);
/* Where errno of a thread is, by the code of libc's __errno_location; 0: not known. */
uint64_t injected_errno(const struct injected *t, uint64_t fs_base);
/* Where libc returns from signal handlers (mov $15, %rax; syscall); 0: not found. */
uint64_t injected_sigreturn(const struct injected *t);

/* The module of the file whose name ends so; NULL: none. */
const struct module *injected_module(const struct injected *t, const char *name);

/* The unwind rule at an address; NULL: none is known, or t->wanted says of which module the table
 * is to be read first. */
const struct unwind_row *injected_rule(struct injected *t, uint64_t pc, enum module_kind *kind);
/* Reads the wanted table, which can take long: no thread is to stand still meanwhile. False: none
 * was wanted. */
bool injected_learn(struct injected *t);

#endif
