/* roots.c - Scans the memory outside the heap for pointers into it: variables, thread-local
 * variables, stacks, registers, shared and other memory. Roots are sorted by kind, so that a
 * weaker kind counts only where no stronger one reaches. The bytes to read are bounded, because
 * a process may map any amount. */
#include "heap/roots.h"

#include "base/array.h"
#include "heap/frames.h"
#include "heap/sampled.h"
#include "heap/spill.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_BYTES = 1 << 18,
    TLS_BYTES = 8192,         /* below fs: initial thread-local variables */
    DESCRIPTOR_BYTES = 0x940, /* from fs on: glibc's struct pthread */
    RED_ZONE = 128,
    BYTES_LEAST = 1 << 30, /* that are looked at, and twice what the process has */
    UNNAMED_MAX = 1000     /* words of a module that are roots of their own */
};

struct finding {
    struct roots *r;
    struct target *t;
    const struct modules *modules;
    const struct glibc *g;
    const struct walk *w;
    const struct heap_sampled *sampled;
    struct variables *variables;
    struct frames *frames;
    uint64_t *window;            /* WINDOW_BYTES */
    const struct module *module; /* the module of the data at hand */
    uint32_t unnamed;
    struct span {
        uint64_t start, end;
    } * taken; /* memory that is looked at as another kind of root */
    size_t taken_count, taken_room;
    uint64_t left;        /* bytes that may be read still */
    uint64_t shared_left; /* shared memory that is left to copy */
    bool failed;
};

static void take(struct finding *f, uint64_t start, uint64_t end)
{
    if (start >= end)
        return;
    if (!ARRAY_ROOM(f->taken, f->taken_count + 1, f->taken_room)) {
        f->failed = true;
        return;
    }
    f->taken[f->taken_count++] = (struct span){start, end};
}

/* Begins a root; its references are those added next. */
static struct root *add_root(struct finding *f, const struct root *like)
{
    struct roots *r = f->r;
    if (r->count >= UINT32_MAX / 2 || !ARRAY_ROOM(r->at, r->count + (size_t)2, r->room)) {
        f->failed = true;
        return NULL;
    }
    struct root *root = &r->at[r->count++];
    *root = *like;
    if (!root->file)
        root->file = root->type = "";
    root->first = (uint32_t)r->references;
    r->at[r->count].first = root->first; /* the sentinel */
    return root;
}

static void add_reference(struct finding *f, uint32_t block)
{
    struct roots *r = f->r;
    if (r->references >= UINT32_MAX / 2 ||
        !SPILL_ROOM(r->target, r->references + 1, r->target_room)) {
        f->failed = true;
        return;
    }
    r->target[r->references++] = block;
    r->at[r->count].first = (uint32_t)r->references;
}

static const char *name_of(struct finding *f, const char *text)
{
    const char *kept = intern_string(&f->r->names, text);
    if (!kept)
        f->failed = true;
    return kept ? kept : "";
}

/* --- what a word's root is --- */

typedef void word_root(struct finding *f, uint64_t address, const struct root *base);

/* All words of the memory at hand are one root's. */
static void same_root(struct finding *f, uint64_t address, const struct root *base)
{
    const struct root *last = f->r->count ? &f->r->at[f->r->count - 1] : NULL;
    if (last && last->kind == base->kind && last->tid == base->tid && last->name == base->name &&
        last->module == base->module)
        return;
    struct root *root = add_root(f, base);
    if (root)
        root->address = address;
}

/* A module's data: a root for each variable; where there is no name, one for each word, as a
 * stripped program's variables are mostly words, up to a bound. */
static void data_root(struct finding *f, uint64_t address, const struct root *base)
{
    char text[64];
    struct root root = *base;
    const struct variable *v = variables_find(f->variables, f->module, address);
    const struct root *last = f->r->count ? &f->r->at[f->r->count - 1] : NULL;
    root.address = v ? v->start : address;
    root.kind = v ? ROOT_VARIABLE : ROOT_DATA;
    if (v)
        root.name = v->shown;
    else if (f->unnamed++ < UNNAMED_MAX) {
        snprintf(text, sizeof text, "data+0x%" PRIx64, address - f->module->bias);
        root.name = text;
    } else {
        root.name = "other data";
        root.address = 0;
    }
    if (last && last->kind == root.kind && last->module == root.module &&
        last->address == root.address)
        return;
    root.name = name_of(f, root.name);
    add_root(f, &root);
}

/* The heap itself is no root, wherever an allocator has its memory from. */
static bool in_heap(const struct walk *w, uint64_t address)
{
    size_t low = 0, high = w->segment_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (w->segments[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->segment_count && w->segments[low].base <= address;
}

static void sight(struct finding *f, uint64_t at, uint32_t block, const uint64_t *words, size_t n)
{
    struct roots *r = f->r;
    enum sighting_kind kind = sighting_of(&f->w->blocks, block, words, n);
    if (!kind)
        return;
    if (ARRAY_ROOM(r->seen, r->seen_count + 1, r->seen_room))
        r->seen[r->seen_count++] = (struct sighting){at, block, kind};
    else
        f->failed = true;
}

static void spend(struct finding *f, uint64_t bytes)
{
    if (f->left != UINT64_MAX)
        f->left -= bytes < f->left ? bytes : f->left;
}

static void scan_range(struct finding *f, uint64_t start, uint64_t end, const struct root *base,
                       word_root *root_of)
{
    const struct blocks *b = &f->w->blocks;
    start = (start + 7) & ~7ULL;
    while ((start = target_next(f->t, start, end)) < end && end - start >= 8 && !f->failed) {
        uint64_t want = end - start < WINDOW_BYTES ? (end - start) & ~7ULL : WINDOW_BYTES;
        if (want > f->left) {
            f->r->cut = true;
            return;
        }
        size_t have = target_read_past(f->t, start, f->window, want);
        spend(f, want + TARGET_PAGE_BYTES);
        for (size_t i = 0; i < have / 8 && !f->failed; i++) {
            uint64_t v = f->window[i];
            if (v - b->low >= b->high - b->low)
                continue;
            uint32_t block = blocks_pointed(b, v);
            uint64_t at = start + i * 8;
            if (block == BLOCK_NONE || glibc_owns(f->g, at) || in_heap(f->w, at))
                continue;
            root_of(f, at, base);
            if (!f->failed)
                add_reference(f, block);
            sight(f, at, block, f->window + i, have / 8 - i);
        }
        start += want;
    }
}

/* --- the kinds of memory --- */

static void scan_modules(struct finding *f)
{
    for (size_t i = 0; i < f->modules->count; i++) {
        f->module = &f->modules->at[i];
        f->unnamed = 0;
        struct root base = {.kind = ROOT_DATA, .module = name_of(f, f->module->name), .name = ""};
        for (size_t k = 0; k < f->module->data_count; k++) {
            scan_range(f, f->module->data[k].start, f->module->data[k].end, &base, data_root);
            take(f, f->module->data[k].start & ~(uint64_t)(TARGET_PAGE_BYTES - 1),
                 (f->module->data[k].end + TARGET_PAGE_BYTES - 1) &
                     ~(uint64_t)(TARGET_PAGE_BYTES - 1));
        }
    }
}

/* Below this address a thread's memory is stack, from it on its thread-local variables: as far
 * down from fs as the modules' variables reach. */
static uint64_t tls_start(const struct finding *f, uint64_t fs)
{
    uint64_t bytes = 64 + 1664; /* room that the dynamic linker keeps for libraries loaded later */
    for (size_t i = 0; i < f->modules->count; i++)
        if (f->modules->at[i].tls_bytes < TLS_BYTES * 16)
            bytes += (f->modules->at[i].tls_bytes + 63) & ~(uint64_t)63;
    if (bytes > TLS_BYTES * 16)
        bytes = TLS_BYTES * 16;
    return fs > bytes ? fs - bytes : fs;
}

static void scan_thread_locals(struct finding *f)
{
    for (size_t i = 0; i < f->t->thread_count; i++) {
        const struct target_thread *thread = &f->t->threads[i];
        uint64_t fs = thread->registers.fs_base;
        const struct target_region *r = fs && !(fs & 7) ? target_region_at(f->t, fs) : NULL;
        if (!r)
            continue;
        uint64_t start = tls_start(f, fs), end = fs + DESCRIPTOR_BYTES;
        if (start < r->start)
            start = r->start;
        if (end > r->end)
            end = r->end;
        struct root base = {.kind = ROOT_THREAD,
                            .name = name_of(f, *thread->name ? thread->name : "thread"),
                            .module = "",
                            .tid = thread->tid};
        scan_range(f, start, end, &base, same_root);
        take(f, start, end);
    }
}

/* A root for each function on the stack; where its callers cannot be followed, one for the rest. */
static void scan_frames(struct finding *f, const struct target_thread *thread, uint64_t start,
                        uint64_t end, const struct root *base)
{
    struct stack_frame frame[FRAMES_MAX];
    char text[512];
    size_t n = frames_of(f->frames, thread, end, frame);
    for (size_t i = 0; i < n; i++) {
        struct root root = *base;
        if (frame[i].function) {
            snprintf(text, sizeof text, "%s in %s", base->name, frame[i].function);
            root.name = name_of(f, text);
            root.module = name_of(f, frame[i].module);
        }
        scan_range(f, start, frame[i].end, &root, same_root);
        start = frame[i].end;
    }
    scan_range(f, start, end, base, same_root);
}

static void scan_stacks(struct finding *f)
{
    for (size_t i = 0; i < f->t->thread_count; i++) {
        const struct target_thread *thread = &f->t->threads[i];
        uint64_t sp = thread->registers.sp & ~7ULL, fs = thread->registers.fs_base;
        const struct target_region *r = target_region_at(f->t, sp);
        if (!r)
            continue;
        uint64_t end = r->end;
        if (fs > sp && fs < r->end) /* its thread-local variables lie above its stack */
            end = tls_start(f, fs) > sp ? tls_start(f, fs) : sp;
        struct root base = {.kind = ROOT_STACK,
                            .name = name_of(f, *thread->name ? thread->name : "thread"),
                            .module = "",
                            .tid = thread->tid};
        uint32_t within = blocks_covering(&f->w->blocks, sp); /* a program's own kind of thread */
        if (within != BLOCK_NONE)
            end = f->w->blocks.address[within] + blocks_bytes(&f->w->blocks, within);
        scan_frames(f, thread, sp - RED_ZONE, end, &base);
        if (within == BLOCK_NONE) /* the frames below were left */
            take(f, r->start, end);
    }
}

static void scan_registers(struct finding *f)
{
    for (size_t i = 0; i < f->t->thread_count; i++) {
        const struct target_thread *thread = &f->t->threads[i];
        struct root base = {.kind = ROOT_REGISTERS,
                            .name = name_of(f, *thread->name ? thread->name : "thread"),
                            .module = "",
                            .tid = thread->tid};
        for (size_t k = 0; k < sizeof thread->registers.general / 8; k++) {
            uint32_t block = blocks_pointed(&f->w->blocks, thread->registers.general[k]);
            if (block == BLOCK_NONE)
                continue;
            same_root(f, 0, &base);
            if (!f->failed)
                add_reference(f, block);
        }
    }
}

/* Memory that is shared may be large: it is looked at up to a bound of its own. */
static void scan_shared(struct finding *f, uint64_t start, uint64_t end, const struct root *base)
{
    const uint64_t left = f->left, most = left < f->shared_left ? left : f->shared_left;
    const bool cut = f->r->cut;
    f->left = most;
    f->r->cut = false;
    scan_range(f, start, end, base, same_root);
    if (f->r->cut)
        f->t->unshared += end - start;
    const uint64_t spent = most - f->left;
    f->shared_left -= spent;
    f->left = left == UINT64_MAX ? left : left - spent;
    f->r->cut = cut;
}

static void scan_mapping(struct finding *f, const struct target_region *r, uint64_t start,
                         uint64_t end, const struct root *base)
{
    if (r->flags & REGION_SHARED)
        scan_shared(f, start, end, base);
    else
        scan_range(f, start, end, base, same_root);
}

static int by_start(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static void scan_memory(struct finding *f)
{
    char text[64];
    for (size_t i = 0; i < f->w->segment_count; i++)
        take(f, f->w->segments[i].base, f->w->segments[i].end);
    for (unsigned i = 0; i < 2; i++)
        take(f, f->sampled->kept[i].start, f->sampled->kept[i].end);
    if (f->taken_count > 1)
        qsort(f->taken, f->taken_count, sizeof *f->taken, by_start);
    size_t from = 0;
    for (size_t i = 0; i < f->t->region_count && !f->failed; i++) {
        const struct target_region *r = &f->t->regions[i];
        if (!target_refers(r))
            continue;
        uint64_t at = r->start;
        snprintf(text, sizeof text, "%s at 0x%" PRIx64,
                 r->flags & REGION_SHARED ? "shared memory" : "mapping", r->start);
        struct root base = {.kind = ROOT_MEMORY, .name = name_of(f, text), .module = ""};
        while (from < f->taken_count && f->taken[from].end <= r->start)
            from++;
        for (size_t k = from; k < f->taken_count && f->taken[k].start < r->end && at < r->end;
             k++) {
            if (f->taken[k].start > at)
                scan_mapping(f, r, at, f->taken[k].start, &base);
            if (f->taken[k].end > at)
                at = f->taken[k].end;
        }
        if (at < r->end)
            scan_mapping(f, r, at, r->end, &base);
    }
}

/* By kind, with their references: of modules' data named and unnamed ones come mixed. */
static int sort_roots(struct roots *r)
{
    struct root *at = reallocarray(NULL, r->room, sizeof *at);
    uint32_t *target = spill_zeros(r->references + 1, sizeof *target);
    uint32_t count = 0, n = 0;
    if (!at || !target) {
        free(at);
        spill_free(target);
        return -1;
    }
    for (int kind = 0; kind < ROOT_KINDS; kind++)
        for (uint32_t i = 0; i < r->count; i++) {
            if ((int)r->at[i].kind != kind)
                continue;
            at[count] = r->at[i];
            at[count++].first = n;
            for (uint32_t k = r->at[i].first; k < r->at[i + 1].first; k++)
                target[n++] = r->target[k];
        }
    at[count].first = n;
    free(r->at);
    spill_free(r->target);
    r->at = at;
    r->target = target;
    r->target_room = r->references + 1;
    return 0;
}

int roots_find(struct roots *r, struct target *t, const struct modules *modules,
               const struct glibc *g, const struct walk *w, struct variables *variables,
               const struct heap_sampled *sampled, struct error *err)
{
    *r = (struct roots){0};
    struct finding f = {.r = r,
                        .t = t,
                        .modules = modules,
                        .g = g,
                        .w = w,
                        .sampled = sampled,
                        .variables = variables,
                        .shared_left = TARGET_SHARED_BYTES_MOST,
                        .left = t->own_bytes < UINT64_MAX / 4 ? 2 * t->own_bytes + BYTES_LEAST
                                                              : UINT64_MAX};
    r->room = 64;
    r->at = calloc(r->room, sizeof *r->at);
    f.window = malloc(WINDOW_BYTES);
    f.frames = frames_new(t, modules, variables);
    f.failed = !r->at || !f.window || !f.frames;
    if (!f.failed) {
        scan_modules(&f);
        scan_thread_locals(&f);
        scan_stacks(&f);
        scan_registers(&f);
        scan_memory(&f);
    }
    frames_free(f.frames);
    free(f.window);
    free(f.taken);
    if (f.failed || sort_roots(r)) {
        roots_release(r);
        return error_memory(err);
    }
    return 0;
}

int roots_declare(struct roots *r, const struct modules *modules, struct variables *variables)
{
    for (uint32_t i = 0; i < r->count && r->at[i].kind == ROOT_VARIABLE; i++) {
        struct root *root = &r->at[i];
        const struct module *m = modules_at(modules, root->address);
        const struct variable *v = m ? variables_find(variables, m, root->address) : NULL;
        const struct declared *d = v ? variables_declared(variables, m, v) : NULL;
        if (!d)
            continue;
        root->file = intern_string(&r->names, d->file);
        root->type = intern_string(&r->names, d->type);
        root->line = d->line;
        if (!root->file || !root->type)
            return -1;
    }
    return 0;
}

void roots_release(struct roots *r)
{
    free(r->seen);
    free(r->at);
    spill_free(r->target);
    intern_free(&r->names);
    *r = (struct roots){0};
}
