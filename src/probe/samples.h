/* samples.h - events of the static probes of libmallow-watch.so, from all processes that carry it.
 *
 * Owns: finding copies of the library on this machine, attaching to the probes `sample`, `free`,
 * `realloc` and `error` of each in every process at once (which raises their semaphores), and the
 * stacks at them. Refuses: to keep events. A copy of the library that no process carries at the
 * start is not found later. One thread. */
#ifndef MALLOW_PROBE_SAMPLES_H
#define MALLOW_PROBE_SAMPLES_H

#include "bpf/samples.h"
#include "probe/probe.h"

struct probe_reported {
    const struct samples_event *event;
    const struct probe_frame *frames; /* innermost first, from the caller of the library on */
    size_t frame_count;               /* 0: the stack is not known */
};

/* Not among probe_kinds: to be given to probe_run with `all`, PROBE_BY_STACK, `reported` and
 * `attached`; `library` is the path of a copy to attach to in any case. */
extern const struct probe_kind probe_kind_samples;

#endif
