/* recorded.c - Turns one process of a recording into a workload for replay, compare and tune. It
 * chooses the process or lists the candidates, and prints the limits of the conversion. */
#include "cli/recorded.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "trust/file.h"
#include "workload/gather.h"

/* The image to take: the only one with calls, or the one of --pid (its last, after its execs).
 * Returns its index; -1 when there is none, which was reported: *status. */
static int64_t choose_image(const struct command *self, const struct trace_info *info, uint64_t pid,
                            int *status)
{
    int64_t found = -1;
    unsigned several = 0;
    for (uint32_t i = 0; i < info->image_count; i++) {
        const struct trace_image *m = &info->images[i];
        if (!m->calls || (pid && m->pid != pid))
            continue;
        if (found >= 0)
            several++;
        /* the image that called most, where a process has several */
        if (found < 0 || m->calls > info->images[found].calls)
            found = i;
    }
    if (found < 0) {
        if (pid)
            *status = command_usage(
                self, "no process %" PRIu64 " that allocated is in this recording", pid);
        else {
            struct error none = {0};
            error_set(&none, ERROR_UNSUPPORTED, "no process in this recording allocated anything");
            *status = command_fail(self, &none);
        }
        return -1;
    }
    if (!several)
        return found;
    if (pid) {
        command_warn(self, "process %" PRIu64 " ran %u programs; taking %s (%" PRIu64 " calls)",
                     pid, several + 1, info->images[found].exe, info->images[found].calls);
        return found;
    }
    *status = command_usage(self, "the recording has several processes; choose one with --pid:");
    for (uint32_t i = 0; i < info->image_count; i++) {
        const struct trace_image *m = &info->images[i];
        if (m->calls)
            text_printf(stderr, "  %7u  %s, %s calls\n", m->pid, m->exe, COUNT(m->calls));
    }
    return -1;
}

static void report_limits(const struct command *self, const struct workload_written *w,
                          bool synthesised, const struct trace_image *image)
{
    if (w->facts[WORKLOAD_FACT_UNKNOWN_FREES])
        command_warn(self, "%s frees were of blocks from before the recording: %s",
                     COUNT(w->facts[WORKLOAD_FACT_UNKNOWN_FREES]),
                     synthesised ? "each got a block made just before it"
                                 : "left out (mallow workload --unknown=synthesise keeps them)");
    if (w->facts[WORKLOAD_FACT_PRESENT] && !synthesised)
        command_warn(self,
                     "%s %s "
                     "made before the replay, uncounted",
                     COUNT(w->facts[WORKLOAD_FACT_PRESENT]),
                     plural(w->facts[WORKLOAD_FACT_PRESENT],
                            "block was there before it began (inherited at a fork); it is",
                            "blocks were there before it began (inherited at a fork); they are"));
    if (w->facts[WORKLOAD_FACT_NOT_REPLAYED])
        command_warn(self,
                     "%s calls do not concern the allocator and are left out (mmap, munmap, "
                     "mremap, brk, sbrk, malloc_usable_size)",
                     COUNT(w->facts[WORKLOAD_FACT_NOT_REPLAYED]));
    if (w->facts[WORKLOAD_FACT_LOST_CALLS])
        command_warn(self, "%s %s missing: the recording lost them",
                     COUNT(w->facts[WORKLOAD_FACT_LOST_CALLS]),
                     plural(w->facts[WORKLOAD_FACT_LOST_CALLS], "call is", "calls are"));
    if (!image->complete)
        command_warn(self, "process %u did not end by itself; the workload ends with the recording",
                     image->pid);
}

int recorded_workload(const struct command *self, const struct recorded *how, const char *path,
                      const char *target, struct workload_written *written)
{
    struct error err = {0};
    struct progress bar = {0};
    progress_begin(&bar, "reading");
    const struct trace_open_options open = {.columns = WORKLOAD_COLUMNS,
                                            .threads = (unsigned)how->threads,
                                            .progress = how->quiet ? NULL : progress_update,
                                            .progress_arg = &bar};
    struct trace *t = trace_open(path, &open, &err);
    progress_end(&bar);
    if (!t)
        return command_fail(self, &err);
    int status = 0;
    const int64_t image = choose_image(self, trace_info(t), how->pid, &status);
    if (image < 0) {
        trace_close(t);
        return status;
    }
    progress_begin(&bar, "converting");
    status = workload_convert(t, (uint32_t)image, target, &how->workload, written,
                              how->quiet ? NULL : progress_update, &bar, &err);
    progress_end(&bar);
    if (status)
        status = command_fail(self, &err);
    else
        report_limits(self, written, how->workload.synthesise, &trace_info(t)->images[image]);
    trace_close(t);
    return status;
}

bool recorded_is(const char *path)
{
    char magic[4] = "";
    struct error ignored;
    const int fd = trust_open_any(path, &ignored);
    const bool is = fd >= 0 && trust_read(fd, magic, sizeof magic, 0) == sizeof magic &&
                    (!memcmp(magic, "MLC1", 4) || !memcmp(magic, "MLS1", 4));
    if (fd >= 0)
        close(fd);
    return is;
}

int recorded_unnamed(const struct command *self, const struct recorded *how, const char *path,
                     int *fd)
{
    struct workload_written written;
    struct error err;
    char name[32];
    *fd = workload_unnamed_inherited(&err);
    if (*fd < 0)
        return command_fail(self, &err);
    snprintf(name, sizeof name, "/proc/self/fd/%d", *fd);
    const int status = recorded_workload(self, how, path, name, &written);
    if (status)
        close(*fd);
    return status;
}
