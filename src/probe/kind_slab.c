/* kind_slab.c - `probe slab`: what the kernel allocates for itself on behalf of programs. */
#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
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
        return engine_resize(e, "live", SLAB_LIVE_MAX, err) ||
                       engine_resize(e, "caches", SLAB_CACHES_MAX, err) ||
                       engine_resize(e, "unseen", SLAB_ORIGINS_MAX, err)
                   ? -1
                   : 0;
    engine_skip(e, "cache_free");
    engine_skip(e, "kmalloc_free");
    return 0;
}

static int slab_attach(struct probe_engine *e, struct error *err)
{
    engine_source(e, "the tracepoints kmem_cache_alloc and kmalloc%s",
                  e->options->live
                      ? ", kmem_cache_free and kfree, which do not report what kfree_rcu() releases"
                      : "");
    return engine_attach_tracepoints(e, err);
}

/* ---- --live: the callers of whose blocks the kernel reports every release ---- */

struct unseen {
    struct slab_origin origin;
    uint64_t blocks;
};

struct slab {
    struct probe_not_known *list;
    size_t count, room;
    /* As read at this look; sorted. */
    struct unseen *unseen;
    size_t unseen_count, unseen_room;
    /* Caches of which no release was reported, and that have a way without a report. */
    char (*silent)[PROBE_NAME_BYTES];
    size_t silent_count, silent_room;
};

static int by_origin(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct slab_origin));
}

static int read_unseen(const struct probe_engine *e, struct slab *s, struct error *err)
{
    const int fd = engine_map(e, "unseen");
    struct slab_origin *last = NULL, at;
    struct unseen one;
    for (; bpf_map_get_next_key(fd, last, &one.origin) == 0; last = &at) {
        at = one.origin;
        if (bpf_map_lookup_elem(fd, &at, &one.blocks))
            continue;
        if (!ARRAY_ROOM(s->unseen, s->unseen_count + 1, s->unseen_room))
            return error_memory(err);
        s->unseen[s->unseen_count++] = one;
    }
    if (s->unseen_count)
        qsort(s->unseen, s->unseen_count, sizeof *s->unseen, by_origin);
    return 0;
}

static int read_caches(const struct probe_engine *e, struct slab *s, struct error *err)
{
    const int fd = engine_map(e, "caches");
    uint64_t *last = NULL, at, next;
    struct slab_cache c;
    for (; bpf_map_get_next_key(fd, last, &next) == 0; last = &at) {
        at = next;
        if (bpf_map_lookup_elem(fd, &at, &c) || !c.has_sheaves || c.released)
            continue;
        if (!ARRAY_ROOM(s->silent, s->silent_count + 1, s->silent_room))
            return error_memory(err);
        memcpy(s->silent[s->silent_count++], c.name, sizeof c.name);
    }
    return 0;
}

static bool is_silent(const struct slab *s, const struct probe_key *k)
{
    for (size_t i = 0; i < s->silent_count; i++)
        if (!memcmp(s->silent[i], k->name, sizeof k->name))
            return true;
    return false;
}

/* True: both read the same. They may be two places in one function. */
static bool reads_same(const struct probe_engine *e, const struct probe_key *a,
                       const struct probe_key *b)
{
    return a->what == b->what && !memcmp(a->name, b->name, sizeof a->name) &&
           (a->site == b->site ||
            probe_kernel_name(e->result, a->site) == probe_kernel_name(e->result, b->site));
}

static int leave_out(const struct probe_engine *e, struct slab *s, const struct probe_row *row,
                     struct error *err)
{
    struct probe_not_known n = {.key = {.site = row->key.site, .what = row->key.what},
                                .value = row->value};
    memcpy(n.key.name, row->key.name, sizeof n.key.name);
    for (size_t i = 0; i < s->count; i++)
        if (reads_same(e, &s->list[i].key, &n.key)) {
            probe_value_add(&s->list[i].value, &n.value);
            return 0;
        }
    if (!ARRAY_ROOM(s->list, s->count + 1, s->room))
        return error_memory(err);
    s->list[s->count++] = n;
    return 0;
}

static int by_blocks(const void *a, const void *b)
{
    const struct probe_not_known *x = a, *y = b;
    return (x->value.calls < y->value.calls) - (x->value.calls > y->value.calls);
}

/* How often blocks of each were given out again. */
static void count_again(const struct probe_engine *e, struct slab *s)
{
    for (size_t i = 0; i < s->unseen_count; i++) {
        struct probe_key k = {.site = s->unseen[i].origin.site, .what = s->unseen[i].origin.what};
        memcpy(k.name, s->unseen[i].origin.name, sizeof k.name);
        for (size_t n = 0; n < s->count; n++)
            if (reads_same(e, &s->list[n].key, &k)) {
                s->list[n].given_out_again += s->unseen[i].blocks;
                break;
            }
    }
}

/* Takes out the rows whose blocks may be gone, and what the keys of the others have too much. */
static int sort_out(struct probe_engine *e, struct slab *s, struct error *err)
{
    const uint64_t missed = engine_missed(e);
    size_t kept = 0;
    for (size_t i = 0; i < e->row_count; i++) {
        struct probe_row row = e->rows[i];
        struct slab_origin origin = {.site = row.key.site, .what = row.key.what};
        memcpy(origin.name, row.key.name, sizeof origin.name);
        const struct unseen *u = s->unseen_count ? bsearch(&origin, s->unseen, s->unseen_count,
                                                           sizeof *s->unseen, by_origin)
                                                 : NULL;
        if (!row.value.calls && !row.value.bytes && !row.value.more)
            continue;
        if ((u && u->blocks > missed) || is_silent(s, &row.key)) {
            if (leave_out(e, s, &row, err))
                return -1;
            continue;
        }
        if (!(e->options->by & PROBE_BY_CALLER))
            row.key.site = 0;
        if (!(e->options->by & PROBE_BY_CACHE)) {
            row.key.what = 0;
            memset(row.key.name, 0, sizeof row.key.name);
        }
        e->rows[kept++] = row;
    }
    e->row_count = kept;
    count_again(e, s);
    if (s->count)
        qsort(s->list, s->count, sizeof *s->list, by_blocks);
    e->result->not_known = s->list;
    e->result->not_known_count = s->count;
    return 0;
}

static int slab_collect(struct probe_engine *e, struct error *err)
{
    if (!e->options->live)
        return 0;
    if (!e->own && !(e->own = calloc(1, sizeof(struct slab))))
        return error_memory(err);
    struct slab *s = e->own;
    s->count = s->unseen_count = s->silent_count = 0;
    return read_unseen(e, s, err) || read_caches(e, s, err) || sort_out(e, s, err) ? -1 : 0;
}

static void slab_release(struct probe_engine *e)
{
    struct slab *s = e->own;
    free(s->list);
    free(s->unseen);
    free(s->silent);
}

const struct probe_kind probe_kind_slab = {
    .name = "slab",
    .summary = "what the kernel allocates for itself: by command, function and cache",
    .by = PROBE_BY_COMMAND | PROBE_BY_CALLER | PROBE_BY_CACHE,
    .may_by = PROBE_BY_WHO | PROBE_BY_STACK | PROBE_BY_KSTACK | PROBE_BY_CALLER | PROBE_BY_CACHE,
    .has_live = true,
    .within_each_other = true,
    .layout = {.may_histogram = 1 << 1 | 1 << 2,
               .list = "callers",
               .value = {"calls", "requested_bytes", "allocated_bytes"},
               .title = {"calls", "requested", "allocated"},
               .unit = "nbb",
               .order = 2},
    .no_stream = "the kernel's own memory is not the program's, and its events are too many; "
                 "'mallow probe slab' adds them up",
    .object = slab_bpf__elf_bytes,
    .prepare = slab_prepare,
    .attach = slab_attach,
    .collect = slab_collect,
    .release = slab_release,
};
