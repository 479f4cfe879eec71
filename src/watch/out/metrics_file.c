/* metrics_file.c - Writes the metrics of watched processes into a file for Prometheus, and
 * removes it at the end if it is still the one that was written. A reader always sees a complete
 * file. */
#include "watch/out/metrics_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "watch/out/metrics.h"
#include "trust/place.h"

#define BETWEEN_NS 10000000000ull /* Prometheus asks every 15 seconds or less often */
#define MODE       0644           /* the exporter is another user */

struct watch_metrics_file {
    struct trust_place place;
    struct trust_identity written; /* the file that is there */
    bool there, failed;
    uint32_t processes; /* in it */
    uint64_t next_ns;
};

bool watch_replaced(const struct watch_run *run, const struct watch_process *p)
{
    for (uint32_t i = 0; i < watch_run_count(run); i++) {
        const struct watch_process *other = watch_run_process(run, i);
        if (other->pid == p->pid && other->start_ns > p->start_ns &&
            other->segment.head.pid_namespace == p->segment.head.pid_namespace)
            return true;
    }
    return p->life == WATCH_REPLACED;
}

int watch_metrics_of(struct buffer *out, const struct watch_run *run, bool open)
{
    struct watch_process **items = calloc(watch_run_count(run) + 1u, sizeof(void *));
    struct error err = {0};
    size_t count = 0;
    for (uint32_t i = 0; items && i < watch_run_count(run); i++) {
        struct watch_process *p = watch_run_process(run, i);
        if (!watch_replaced(run, p) && !process_look(p, &err))
            items[count++] = p;
    }
    const bool whole = items && !err.kind;
    if (whole)
        watch_metrics(out, items, count, open);
    free(items);
    return whole && !buffer_failed(out) ? 0 : -1;
}

/* The file is there with this text, or as it was. */
static int write_metrics_file(struct watch_metrics_file *f, const struct buffer *text,
                              struct error *err)
{
    struct trust_draft draft;
    if (trust_draft_open(&draft, &f->place, ".new-", err))
        return -1;
    int status = 0;
    errno = ENOSPC; /* for less than all */
    if (write(draft.fd, text->data, text->size_bytes) != (ssize_t)text->size_bytes)
        status = error_system(err, "cannot write %s", f->place.path);
    if (!status)
        status = trust_draft_publish(&draft, &f->place, MODE, err);
    if (!status)
        f->there = trust_identify(draft.fd, &f->written);
    trust_draft_drop(&draft, &f->place);
    return status;
}

struct watch_metrics_file *watch_metrics_open_file(const char *path, struct error *err)
{
    struct watch_metrics_file *f = calloc(1, sizeof *f);
    struct buffer none = {0};
    int status = f ? 0 : error_memory(err);
    if (f && !(status = trust_place_open(&f->place, path, err))) {
        watch_metrics(&none, NULL, 0, false);
        status = buffer_failed(&none) ? error_memory(err) : write_metrics_file(f, &none, err);
        buffer_release(&none);
    }
    if (!status)
        return f;
    watch_metrics_close_file(f);
    error_prefix(err, "--metrics-file");
    return NULL;
}

int watch_metrics_tick(struct watch_metrics_file *f, const struct watch_run *run, struct error *err)
{
    const uint64_t now = clock_monotonic_ns();
    struct buffer text = {0};
    if (now < f->next_ns && watch_run_count(run) == f->processes)
        return 0;
    f->next_ns = now + BETWEEN_NS;
    f->processes = watch_run_count(run);
    int status = watch_metrics_of(&text, run, false) ? error_memory(err) : 0;
    if (!status)
        status = write_metrics_file(f, &text, err);
    buffer_release(&text);
    if (status && f->failed)
        status = 0;
    else
        f->failed = status != 0;
    return status;
}

void watch_metrics_close_file(struct watch_metrics_file *f)
{
    struct error ignored;
    if (!f)
        return;
    if (f->there)
        (void)trust_remove(f->place.dir, f->place.name, &f->written, &ignored);
    if (f->place.path && f->place.dir >= 0)
        trust_place_close(&f->place);
    free(f);
}
