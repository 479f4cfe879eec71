/* dump_events.c - every event of a recording as the C reader gives it, in the lines of
 * read_mallow.py.
 *   dump_events FILE                 to stdout
 *   dump_events --kernel FILE        what the kernel told
 *   dump_events --limits FILE        what bounded the program's memory
 *   dump_events --seal FILE          seals in place
 *   dump_events --stored RAW SEALED  seals without compression, for golden files */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "every.h"
#include "trace/raw/raw.h"
#include "trace/seal/seal.h"
#include "trace/trace.h"
#include "trust/place.h"

static int seal_stored(const char *raw, const char *out)
{
    struct error err;
    struct raw r;
    struct trace_seal_result result;
    struct trust_place place;
    const struct seal_how how = {.stored = true};
    int fd = open(raw, O_RDONLY), sealed = -1;
    if (fd < 0 || raw_open(&r, fd, NULL, NULL, &err) || raw_finish(&r, &err) ||
        trust_place_open(&place, out, &err) ||
        (sealed = seal_beside(&r, &place, &how, &result, &err)) < 0) {
        fprintf(stderr, "%s\n", fd < 0 ? "cannot open" : err.text);
        return 1;
    }
    raw_close(&r);
    trust_place_close(&place);
    close(sealed);
    close(fd);
    return 0;
}

static int dump_kernel(const char *path, const struct trace_open_options *o)
{
    struct error err;
    struct trace *t = trace_open(path, o, &err);
    if (!t) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct trace_info *info = trace_info(t);
    printf("%" PRIu32 " %" PRIu64 "\n", info->kernel_kinds, info->lost_kernel_events);
    for (uint32_t i = 0; i < info->image_count; i++) {
        const struct trace_image *m = &info->images[i];
        for (uint32_t k = 0; k < m->fault_count; k++) {
            const struct trace_fault *f = &m->faults[k];
            printf("%" PRIu64 " fault %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu32 " %d %d\n",
                   m->id, f->time_ns, f->tid, f->address, f->stack, f->what, f->place);
        }
        for (uint32_t k = 0; k < m->level_count; k++) {
            const struct trace_level *l = &m->levels[k];
            printf("%" PRIu64 " level %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                   "\n",
                   m->id, l->time_ns, l->file, l->anonymous, l->swapped, l->shared);
        }
        for (uint32_t k = 0; k < m->moment_count; k++) {
            const struct trace_moment *e = &m->moments[k];
            printf("%" PRIu64 " moment %" PRIu64 " %" PRIu32 " %d %d", m->id, e->time_ns, e->tid,
                   e->kind, e->what);
            for (unsigned v = 0; v < e->values; v++)
                printf(" %" PRId64, e->value[v]);
            printf("\n");
        }
    }
    trace_close(t);
    return 0;
}

static int dump_limits(const char *path, const struct trace_open_options *o)
{
    struct error err;
    struct trace *t = trace_open(path, o, &err);
    if (!t) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct mlw_limits *l = &trace_info(t)->limits;
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", l->memory, l->address, l->data);
    trace_close(t);
    return 0;
}

int main(int argc, char **argv)
{
    struct error err;
    struct trace_batch b;
    struct trace_open_options o = {.no_seal_in_place = true};
    if (argc == 4 && !strcmp(argv[1], "--stored"))
        return seal_stored(argv[2], argv[3]);
    if (argc == 3 && !strcmp(argv[1], "--seal")) {
        struct trace_seal_result result;
        struct trust_place place;
        int fd = open(argv[2], O_RDONLY);
        if (!trust_place_open(&place, argv[2], &err) &&
            !trace_seal(fd, &place, 0, NULL, &result, NULL, NULL, &err))
            return 0;
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (argc == 3 && !strcmp(argv[1], "--kernel"))
        return dump_kernel(argv[2], &o);
    if (argc == 3 && !strcmp(argv[1], "--limits"))
        return dump_limits(argv[2], &o);
    if (argc != 2)
        return 2;
    struct trace *t = trace_open(argv[1], &o, &err);
    if (!t) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int k;
    struct every all = {.trace = t};
    while ((k = every_next(&all, &b, &err)) > 0)
        for (size_t i = 0; i < b.n; i++) {
            printf("%" PRIu64 " %d %d ", trace_info(t)->images[b.image].id, b.kind[i], b.op[i]);
            if (b.slot[i] == TRACE_NO_SLOT)
                printf("-");
            else
                printf("%" PRIu32, b.slot[i]);
            printf(" %" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64
                   " %d %" PRIu64 "\n",
                   b.thread[i], b.size[i], b.stack[i], b.time_ns[i], b.address[i], b.usable[i],
                   b.path[i] | b.route[i] << 8, b.argument[i]);
        }
    if (k < 0)
        fprintf(stderr, "%s\n", err.text);
    trace_close(t);
    return k < 0;
}
