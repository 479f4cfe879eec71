/* judge.c - what the findings about a program mean for recording it. See inspect.h. */
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/system.h"
#include "inspect/inspect.h"

struct verdicts {
    struct inspect_reason *reasons;
    size_t max, count;
    enum inspect_verdict worst;
};

static void add_verdict(struct verdicts *v, enum inspect_verdict verdict, const char *remedy,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

static void add_verdict(struct verdicts *v, enum inspect_verdict verdict, const char *remedy,
                        const char *format, ...)
{
    if (verdict > v->worst)
        v->worst = verdict;
    if (v->count == v->max)
        return;
    struct inspect_reason *r = &v->reasons[v->count++];
    va_list ap;
    va_start(ap, format);
    vsnprintf(r->what, sizeof r->what, format, ap);
    va_end(ap);
    snprintf(r->remedy, sizeof r->remedy, "%s", remedy);
    r->verdict = verdict;
}

bool inspect_must_be_first(const struct inspect *result)
{
    static const char option[] = "verify_asan_link_order=";
    const char *set = getenv("ASAN_OPTIONS");
    bool verifies = true; /* the last of several counts */
    if (strncmp(result->linked_sanitizer, "libasan.", 8) != 0 &&
        strncmp(result->linked_sanitizer, "libclang_rt.asan", 16) != 0)
        return false;
    while (set && (set = strstr(set, option))) {
        set += sizeof option - 1;
        verifies = *set != '0' && *set != 'n' && *set != 'f'; /* 0, no, false */
    }
    return verifies;
}

static void judge_loading(const struct inspect *r, struct verdicts *v)
{
    if (r->bits == 32)
        add_verdict(v, INSPECT_IMPOSSIBLE, "build it for x86-64",
                    "it is a 32-bit program, and the recording library is 64-bit");
    else if (r->machine != ARCH_ELF_MACHINE)
        add_verdict(v, INSPECT_IMPOSSIBLE, "build it for x86-64",
                    "it is built for another processor (ELF machine %u)", r->machine);
    if (r->is_static)
        add_verdict(
            v, INSPECT_IMPOSSIBLE,
            "link it dynamically (without -static), or record it while it runs, from outside: "
            "'mallow record -p PID' (as root)",
            "it is statically linked, so no library can be preloaded into it");
    if (r->is_secure)
        add_verdict(
            v, INSPECT_IMPOSSIBLE,
            "run it as the user who owns it, record a copy without the privileges, or record it "
            "while it runs, from outside: 'mallow record -p PID' (as root)",
            "it is setuid, setgid or has file capabilities, so the loader ignores LD_PRELOAD");
    if (r->is_musl)
        add_verdict(v, INSPECT_IMPOSSIBLE, "build it against glibc",
                    "it runs on musl (%s), and the recording library needs glibc", r->interpreter);
    if (inspect_must_be_first(r))
        add_verdict(
            v, INSPECT_IMPOSSIBLE,
            "start it with ASAN_OPTIONS=verify_asan_link_order=0, or build it without "
            "-fsanitize=address",
            "it is built with AddressSanitizer, whose runtime (%s) ends a program into which a "
            "library is preloaded",
            r->linked_sanitizer);
}

static void judge_allocators(const struct inspect *r, struct verdicts *v)
{
    if (r->is_go)
        add_verdict(
            v, INSPECT_LIMITED,
            "use Go's own profiler for the Go heap, 'mallow probe rss' and 'faults' for its pages",
            "it is a Go program, whose own heap does not come from malloc%s",
            r->is_static ? "" : "; only C code is seen");
    if (r->is_static ||
        r->is_loader) /* a loader's malloc is for itself, until it has loaded another */
        return;
    if (r->exports_malloc)
        add_verdict(
            v, INSPECT_LIMITED,
            "build it without its own malloc, and preload that one instead, or record it while it "
            "runs, from outside: 'mallow record -p PID' (as root)",
            "it brings its own malloc inside the executable, which wins over a preloaded one; only "
            "its mappings and its children are seen");
    else if (r->defines_malloc)
        add_verdict(
            v, INSPECT_LIMITED, "build it without its own malloc, and preload that one instead",
            "it brings its own malloc inside the executable; only calls from libraries are seen");
    else if (*r->own_allocator)
        add_verdict(v, INSPECT_LIMITED, "switch it to the system allocator when building it",
                    "it brings %s; what goes through those names is not seen", r->own_allocator);
}

enum inspect_inside inspect_inside(const struct inspect *r, bool is_program)
{
    if (r->is_loader)
        return INSPECT_INSIDE_NOTHING;
    if (r->defines_malloc && (is_program || !r->exports_malloc || r->is_symbolic))
        return INSPECT_INSIDE_MALLOC;
    return *r->own_allocator && !r->exports_malloc ? INSPECT_INSIDE_ALLOCATOR
                                                   : INSPECT_INSIDE_NOTHING;
}

enum inspect_verdict inspect_judge(const struct inspect *result, struct inspect_reason *reasons,
                                   size_t max, size_t *count)
{
    struct verdicts v = {.reasons = reasons, .max = max};
    if (result->is_elf) {
        judge_loading(result, &v);
        judge_allocators(result, &v);
    }
    if (count)
        *count = v.count;
    return v.worst;
}
