/* kind_slab.c - `probe slab`: what the kernel allocates for itself on behalf of programs. */
#include "bpf/slab.h"
#include "probe/kind.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/slab.skel.h>

static int slab_prepare(struct probe_engine *e, struct error *err)
{
    if (!engine_has_tracepoint(e, "kmem_cache_alloc", 5) || !engine_has_tracepoint(e, "kmalloc", 6))
        return error_set(
            err, ERROR_UNSUPPORTED,
            "the kernel's tracepoints kmalloc and kmem_cache_alloc are of another kind "
            "here: use Linux 6.1 or newer");
    if (e->options->live)
        return engine_resize(e, "live", SLAB_LIVE_MAX, err);
    engine_skip(e, "cache_free");
    engine_skip(e, "kmalloc_free");
    return 0;
}

static int slab_attach(struct probe_engine *e, struct error *err)
{
    engine_source(e, "the tracepoints kmem_cache_alloc and kmalloc%s",
                  e->options->live ? ", kmem_cache_free and kfree" : "");
    if (e->options->by & (PROBE_BY_CALLER | PROBE_BY_KSTACK) && !engine_kernel_named(e))
        engine_say(e,
                   "/proc/kallsyms hides the kernel's addresses from this user, so its functions "
                   "have no names; to fix it: run it as root (sudo)");
    return engine_attach_tracepoints(e, err);
}

const struct probe_kind probe_kind_slab = {
    .name = "slab",
    .summary = "what the kernel allocates for itself: by command, function and cache",
    .by = PROBE_BY_COMMAND | PROBE_BY_CALLER | PROBE_BY_CACHE,
    .may_by = PROBE_BY_PROCESS | PROBE_BY_COMMAND | PROBE_BY_THREAD | PROBE_BY_STACK |
              PROBE_BY_KSTACK | PROBE_BY_CALLER | PROBE_BY_CACHE,
    .has_live = true,
    .layout = {.list = "callers",
               .value = {"calls", "requested_bytes", "allocated_bytes"},
               .title = {"calls", "requested", "allocated"},
               .unit = "nbb",
               .order = 2},
    .no_stream = "the kernel's own memory is not the program's, and its events are too many; "
                 "'mallow probe slab' adds them up",
    .object = slab_bpf__elf_bytes,
    .prepare = slab_prepare,
    .attach = slab_attach,
};
