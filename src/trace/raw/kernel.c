/* kernel.c - Decodes the records of KERNEL chunks and assigns each to the program image that ran
 * at its time. The number of records of an image is bounded; the excess counts as lost. */
#include "kernel.h"

/* An image has at most this many of each; the excess counts as lost. A stream of a sealed file
 * holds as many. */
#define EVENTS_MAX ((size_t)8 << 20)

static bool add_fault(struct kernel_events *k, const struct mlw_kernel *r, const uint64_t *v)
{
    if (r->values < 1)
        return true;
    if (k->fault_count >= EVENTS_MAX) {
        k->left_out++;
        return true;
    }
    struct kernel_fault *f = ARRAY_ADD(k->faults, k->fault_count, k->fault_cap);
    if (f)
        *f = (struct kernel_fault){r->clock, v[0], r->pid, r->tid, r->what, r->place};
    return f != NULL;
}

static bool add_level(struct kernel_events *k, const struct mlw_kernel *r, const uint64_t *v)
{
    if (r->values < 4)
        return true;
    if (k->level_count >= EVENTS_MAX) {
        k->left_out++;
        return true;
    }
    struct kernel_level *l = ARRAY_ADD(k->levels, k->level_count, k->level_cap);
    if (l)
        *l = (struct kernel_level){r->clock, v[0], v[1], v[2], v[3], r->pid};
    return l != NULL;
}

static bool add_kernel_moment(struct kernel_events *k, const struct mlw_kernel *r,
                              const uint64_t *v)
{
    if (k->moment_count >= EVENTS_MAX) {
        k->left_out++;
        return true;
    }
    struct kernel_moment *m = ARRAY_ADD(k->moments, k->moment_count, k->moment_cap);
    if (!m)
        return false;
    *m = (struct kernel_moment){.clock = r->clock,
                                .image = r->pid,
                                .tid = r->tid,
                                .kind = r->kind,
                                .what = r->what,
                                .values = r->values};
    for (unsigned i = 0; i < r->values; i++)
        m->value[i] = (int64_t)v[i];
    return true;
}

bool kernel_read(struct kernel_events *k, struct span s)
{
    bool ok = true;
    while (ok && span_left(&s) >= sizeof(struct mlw_kernel)) {
        struct mlw_kernel r;
        uint64_t v[MLW_KERNEL_VALUES] = {0};
        memcpy(&r, span_take(&s, sizeof r), sizeof r);
        const uint8_t *values = r.values <= MLW_KERNEL_VALUES ? span_take(&s, r.values * 8u) : NULL;
        if (!values)
            return true; /* the start of the next record is unknown */
        memcpy(v, values, r.values * 8u);
        switch (r.kind) {
        case MLW_KERNEL_FAULT: ok = add_fault(k, &r, v); break;
        case MLW_KERNEL_LEVEL: ok = add_level(k, &r, v); break;
        case MLW_KERNEL_ARENA:
        case MLW_KERNEL_SWAP:
        case MLW_KERNEL_RECLAIM: ok = add_kernel_moment(k, &r, v); break;
        default: break; /* from a later writer */
        }
    }
    return ok;
}

/* ---- which image ---- */

static int compare_image_starts(const void *a, const void *b)
{
    const struct kernel_image *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The image of a process at a time: the latest that had begun; between an exec and the recorder's
 * first moment in the new program, that one; before all of them, the first. */
static uint32_t kernel_image_at(const struct kernel_image *images, size_t n, uint32_t pid,
                                uint64_t clock)
{
    size_t low = 0, high = n; /* the first that is behind (pid, clock) */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct kernel_image *i = &images[middle];
        if (i->pid < pid || (i->pid == pid && i->start <= clock))
            low = middle + 1;
        else
            high = middle;
    }
    const struct kernel_image *next = low < n && images[low].pid == pid ? &images[low] : NULL;
    const struct kernel_image *now = low && images[low - 1].pid == pid ? &images[low - 1] : NULL;
    if (next && (!now || clock > now->end))
        return next->index;
    return now ? now->index : UINT32_MAX;
}

#define BY_IMAGE(type)                                                                             \
    static int by_image_##type(const void *a, const void *b)                                       \
    {                                                                                              \
        const struct kernel_##type *x = a, *y = b;                                                 \
        if (x->image != y->image)                                                                  \
            return x->image < y->image ? -1 : 1;                                                   \
        return x->clock < y->clock ? -1 : x->clock > y->clock;                                     \
    }
BY_IMAGE(fault)
BY_IMAGE(level)
BY_IMAGE(moment)

#define ASSIGN(type)                                                                               \
    do {                                                                                           \
        size_t kept = 0;                                                                           \
        for (size_t i = 0; i < k->type##_count; i++) {                                             \
            uint32_t at = kernel_image_at(images, n, k->type##s[i].image, k->type##s[i].clock);    \
            if (at == UINT32_MAX)                                                                  \
                continue;                                                                          \
            k->type##s[kept] = k->type##s[i];                                                      \
            k->type##s[kept++].image = at;                                                         \
        }                                                                                          \
        k->type##_count = kept;                                                                    \
        if (kept > 1)                                                                              \
            qsort(k->type##s, kept, sizeof *k->type##s, by_image_##type);                          \
    } while (0)

void kernel_assign(struct kernel_events *k, struct kernel_image *images, size_t n)
{
    if (n > 1)
        qsort(images, n, sizeof *images, compare_image_starts);
    ASSIGN(fault);
    ASSIGN(level);
    ASSIGN(moment);
}

/* The run of elements of one image. */
#define RUN(type)                                                                                  \
    do {                                                                                           \
        size_t low = 0, high = k->type##_count;                                                    \
        while (low < high) {                                                                       \
            size_t middle = low + (high - low) / 2;                                                \
            if (k->type##s[middle].image < image)                                                  \
                low = middle + 1;                                                                  \
            else                                                                                   \
                high = middle;                                                                     \
        }                                                                                          \
        r.type##s = k->type##s + low;                                                              \
        while (low + r.type##_count < k->type##_count && r.type##s[r.type##_count].image == image) \
            r.type##_count++;                                                                      \
    } while (0)

struct kernel_run kernel_run_of(const struct kernel_events *k, uint32_t image)
{
    struct kernel_run r = {0};
    if (k->fault_count)
        RUN(fault);
    if (k->level_count)
        RUN(level);
    if (k->moment_count)
        RUN(moment);
    return r;
}

void kernel_free(struct kernel_events *k)
{
    free(k->faults);
    free(k->levels);
    free(k->moments);
    memset(k, 0, sizeof *k);
}
