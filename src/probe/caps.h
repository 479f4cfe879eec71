/* caps.h - what this machine lets `mallow probe`, `record --with` and `record -p` do.
 *
 * Owns: trying each thing that the probes stand on, without leaving a trace. Any thread. */
#ifndef MALLOW_PROBE_CAPS_H
#define MALLOW_PROBE_CAPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct probe_cap {
    const char *name;   /* short and stable, for scripts */
    bool works, partly; /* partly: not all of it; why names the rest */
    char detail[256];   /* how it is here */
    char why[320];      /* the features that do not work because of it; "" when all is well */
    char remedy[256];   /* the command that fixes it; "" when there is none */
};

/* Fills up to `max` and returns how many. */
enum { PROBE_CAPS_MAX = 10 };
size_t probe_caps(struct probe_cap *caps, size_t max);
/* The same for the kernel's parts of a recording: each is begun on this very process. */
size_t probe_caps_recording(struct probe_cap *caps, size_t max);

/* Returns 0 when programs can be loaded at all; -1 with *err, one line with the reason and the
 * remedy. */
int caps_require(struct error *err);
bool caps_uprobe_multi(void); /* many probes at once, quick to detach */
bool caps_any_swap(void);     /* without it no anonymous page can come back */
bool caps_user_stacks(void);  /* the helpers that unwinding needs */

#endif
