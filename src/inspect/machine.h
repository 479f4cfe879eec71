/* machine.h - what of this machine recording and reading depend on, and how it is here.
 *
 * Owns: the list of facts that `mallow doctor` prints. Asks the kernel, the C library and the file
 * system; changes nothing that outlives the call. Not thread-safe (it asks dlopen). */
#ifndef MALLOW_INSPECT_MACHINE_H
#define MALLOW_INSPECT_MACHINE_H

#include <stddef.h>

enum machine_status {
    MACHINE_OK,      /* works */
    MACHINE_LIMITED, /* works, but less well; `why` names the loss */
    MACHINE_MISSING  /* does not work; `why` says what cannot be done */
};

enum machine_weight {
    MACHINE_ESSENTIAL, /* without it nothing can be recorded */
    MACHINE_USEFUL,    /* without it something is worse */
    MACHINE_OPTIONAL   /* good to know; nothing of this version needs it */
};

struct machine_fact {
    const char *name; /* short and stable, for scripts: "clock", "memfd", "debuginfod" */
    enum machine_status status;
    enum machine_weight weight;
    char detail[512]; /* the part found: "glibc 2.36, _dl_find_object present" */
    char why[512];    /* the features that do not work because of it; "" when all is well */
    char remedy[512]; /* the command that fixes it; "" when there is none or no need */
};

/* Fills up to `max` facts and returns how many; MACHINE_FACTS_MAX are enough for all. */
enum { MACHINE_FACTS_MAX = 24 };
size_t machine_facts(struct machine_fact *facts, size_t max);

#endif
