/* image.h - the image of a process that runs: its modules, what they define, how its stacks are
 * unwound.
 *
 * Owns: facts about one image, learned from a target, which is opened and closed with it; they hold
 * as long as handle_same says so. Errors are answers without a fact. One thread. */
#ifndef MALLOW_REMOTE_IMAGE_H
#define MALLOW_REMOTE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/index.h"
#include "remote/target.h"
#include "symbol/unwindrows.h"

enum module_kind {
    MODULE_OTHER,
    MODULE_LIBC,   /* libc.so.6, and on older systems libdl and libpthread */
    MODULE_LINKER, /* ld-linux */
    MODULE_UNSAFE  /* its code may hold a lock that loading needs: libgcc, and our own */
};

/* A file that has mappings. */
struct module {
    const char *path; /* belongs to the target */
    uint64_t device, inode;
    uint64_t base; /* the mapping at offset 0 before the first that can be executed; 0: none such */
    uint64_t begins; /* private: of the last mapping at offset 0 so far */
    enum module_kind kind;
    bool looked; /* for rows */
    struct unwind_row *rows;
    size_t row_count;
};

struct injected {
    struct target *target; /* that all of this was learned from */
    struct module *modules;
    size_t module_count, module_room;
    struct index module_index; /* by device and inode */
    int wanted; /* a module whose unwind table was asked for and not read yet; -1: none */
};

/* Takes hold of the image that the process has now; false: out of memory. To be closed in any
 * case. */
bool injected_hold(struct injected *t, pid_t pid);

/* Reads the mappings (anew). Unwind tables that were read stay. 0, or an errno as target_map gives;
 * E2BIG: there are more than TARGET_REGIONS_MAX, and no more are looked at. */
int injected_refresh(struct injected *t);
void injected_close(struct injected *t);

/* The address of a function or variable that the module at `base` defines in its default version;
 * 0: none. */
uint64_t injected_symbol(const struct injected *t, uint64_t base, const char *name,
                         uint64_t *bytes);
/* The same in the first module of that kind that has it. */
uint64_t injected_function(const struct injected *t, enum module_kind kind, const char *name,
                           uint64_t *bytes);
/* How far errno of a thread is from its fs_base, by the code of libc's __errno_location; 0: not
 * known. */
uint64_t injected_errno(const struct injected *t);

/* The module that is mapped in the region; NULL: none. */
struct module *injected_module_of(const struct injected *t, const struct target_region *r);
/* The module of the file whose name ends so; NULL: none. */
const struct module *injected_module(const struct injected *t, const char *name);

/* The unwind rule at an address; NULL: none is known, or t->wanted says of which module the table
 * is to be read first. */
const struct unwind_row *injected_rule(struct injected *t, uint64_t pc, enum module_kind *kind);
/* Reads the wanted table, which can take long: no thread is to stand still meanwhile. False: none
 * was wanted. */
bool injected_learn(struct injected *t);

#endif
