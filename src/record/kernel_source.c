/* kernel_source.c - Takes events of probes and appends them as KERNEL chunks, with times
 * converted to the clock of the recording. It reads both clocks at the start and before each
 * batch, and interpolates between the two readings. */
#include "kernel_source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KINDS_MAX = 8, CHUNK_BYTES = 256 << 10 };

struct kernel_source {
    struct recording *r;
    const struct record_options *o;
    struct probe_options options[KINDS_MAX];
    struct probe_result results[KINDS_MAX];
    size_t count;
    struct mlw_clock_pair first, now; /* readings of both clocks: events are in between */
    uint64_t lost, written;
    uint32_t last_entry; /* the place of the latest fault in the table of processes */
    size_t n;
    uint8_t bytes[CHUNK_BYTES];
};

/* The recording's clock at a moment of CLOCK_MONOTONIC. */
static uint64_t kernel_clock_at(const struct kernel_source *k, uint64_t ns)
{
    if (k->r->clock_kind == MLW_CLOCK_MONOTONIC_NS)
        return ns;
    const uint64_t span = k->now.monotonic_ns - k->first.monotonic_ns;
    const __int128 ticks = k->now.clock - k->first.clock;
    const __int128 since = (__int128)ns - (__int128)k->first.monotonic_ns;
    return k->first.clock + (uint64_t)(int64_t)(span ? since * ticks / span : 0);
}

static void flush_kernel_rows(struct kernel_source *k)
{
    if (!k->n)
        return;
    struct mlw_chunk c = {
        .type = MLW_CHUNK_KERNEL, .lost_calls = k->lost, .base_clock = k->now.clock};
    if (sink_write(&k->r->sink, &c, k->bytes, k->n))
        k->lost += k->written;
    k->written = 0;
    k->n = 0;
}

static void take_kernel_event(void *arg, const struct mlw_kernel *event, const uint64_t *values)
{
    struct kernel_source *k = arg;
    struct mlw_kernel e = *event;
    const size_t bytes = e.values * sizeof *values;
    e.clock = kernel_clock_at(k, event->clock);
    if (k->n + sizeof e + bytes > sizeof k->bytes)
        flush_kernel_rows(k);
    memcpy(k->bytes + k->n, &e, sizeof e);
    memcpy(k->bytes + k->n + sizeof e, values, bytes);
    k->n += sizeof e + bytes;
    k->written++;
}

static void say_kernel_line(void *arg, const char *line)
{
    const struct kernel_source *k = arg;
    k->o->say(k->o->arg, false, line);
}

struct kernel_source *kernel_open(struct recording *r, const struct record_options *o,
                                  uint32_t child, struct error *err)
{
    struct kernel_source *k = calloc(1, sizeof *k);
    struct stat st;
    if (!k) {
        error_memory(err);
        return NULL;
    }
    k->r = r;
    k->o = o;
    k->first = k->now = clock_pair(r->clock_kind);
    for (size_t i = 0; i < o->with_count && i < KINDS_MAX; i++) {
        const struct probe_kind *kind = o->with[i];
        k->options[i] = (struct probe_options){.kind = kind,
                                               .program = o->program,
                                               .no_follow = o->no_follow,
                                               .by = probe_kind_stream_by(kind),
                                               .say = say_kernel_line,
                                               .arg = k,
                                               .stream = take_kernel_event,
                                               .waiting = child,
                                               .own_inode = fstat(r->shm.fd, &st) ? 0 : st.st_ino};
        k->count++;
        if (probe_begin(&k->options[i], &k->results[i], err)) {
            for (size_t done = 0; done < k->count; done++)
                probe_release(&k->results[done]);
            free(k);
            error_prefix(err, "--with %s", probe_kind_name(kind));
            return NULL;
        }
    }
    return k;
}

uint32_t kernel_kinds(const struct kernel_source *k)
{
    uint32_t kinds = 0;
    for (size_t i = 0; i < k->count; i++)
        kinds |= 1u << probe_kind_stream(k->options[i].kind);
    return kinds;
}

size_t kernel_descriptors(const struct kernel_source *k) { return k ? k->count : 0; }

int kernel_descriptor(const struct kernel_source *k, size_t i)
{
    return probe_descriptor(&k->results[i]);
}

void kernel_take(struct kernel_source *k)
{
    if (!k)
        return;
    k->now = clock_pair(k->r->clock_kind);
    for (size_t i = 0; i < k->count; i++)
        probe_consume(&k->results[i]);
    flush_kernel_rows(k);
}

uint64_t kernel_close(struct kernel_source *k)
{
    if (!k)
        return 0;
    kernel_take(k);
    for (size_t i = 0; i < k->count; i++)
        probe_end(&k->results[i]);
    flush_kernel_rows(k);
    for (size_t i = 0; i < k->count; i++) {
        k->lost += probe_lost(&k->results[i]);
        probe_release(&k->results[i]);
    }
    if (k->lost) { /* how many, an empty chunk says */
        struct mlw_chunk c = {
            .type = MLW_CHUNK_KERNEL, .lost_calls = k->lost, .base_clock = k->now.clock};
        sink_write(&k->r->sink, &c, NULL, 0);
    }
    uint64_t lost = k->lost;
    free(k);
    return lost;
}
