/* heap.c - from a target to a struct heap; see heap.h. */
#include "heap/heap.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/invariant.h"
#include "heap/cold.h"
#include "heap/containers.h"
#include "heap/heap_impl.h"
#include "heap/saved.h"
#include "heap/scan.h"
#include "heap/spill.h"
#include "trust/file.h"
#include "trust/place.h"

enum { TRIES = 20, SNAPSHOTS = 5, PHASES = 6 };

struct reading {
    const char *name;
    const struct heap_options *options;
    struct heap *h;
    struct target *t;
    struct modules modules;
    struct glibc glibc;
    struct images images;
    struct scan scan;
    struct variables *variables;
    struct trace *trace;
    struct cold *cold; /* NULL: not asked for */
    uint64_t cold_ns;  /* that was waited for it */
    uint64_t moment_ns;
    uint32_t pid;
    uint64_t stopped_ns; /* time that tries took which came to nothing */
    struct heap_sampled sampled;
};

static void progress(const struct reading *r, unsigned phase)
{
    if (r->options->progress)
        r->options->progress(r->options->progress_arg, phase, PHASES);
}

static struct target *open_target(const char *name, struct error *err)
{
    size_t digits = strspn(name, "0123456789");
    if (digits && !name[digits]) {
        unsigned long pid = strtoul(name, NULL, 10);
        if (digits > 9 || !pid) {
            error_set(err, ERROR_SYSTEM, "there is no process %s", name);
            return NULL;
        }
        if (pid == (unsigned long)getpid()) {
            error_set(err, ERROR_USAGE, "mallow cannot stop itself");
            return NULL;
        }
        return target_stop((uint32_t)pid, err);
    }
    static const struct trust_rule core = {
        .what = "the core file", .owners = TRUST_ANYBODY, .follow = true};
    int fd = trust_open(AT_FDCWD, name, TRUST_READ, &core, err);
    return fd < 0 ? NULL : target_core(fd, name, err);
}

static void forget(struct reading *r)
{
    walk_release(&r->h->walk);
    glibc_release(&r->glibc);
    modules_release(&r->modules);
    target_close(r->t);
    r->t = NULL;
}

/* Reads what the recording knows of the moment at which the process stood. */
static int read_recording(struct reading *r, struct error *err)
{
    uint64_t until = r->t ? r->t->moment_ns : r->moment_ns;
    uint32_t pid = r->t ? r->t->pid : r->pid;
    bool live = until != UINT64_MAX;
    if (!r->trace)
        r->trace = r->options->recording(r->options->recording_arg, pid, live, err);
    if (!r->trace)
        return -1;
    uint64_t start = trace_info(r->trace)->start_realtime_ns;
    if (live)
        until = until > start ? until - start : 0;
    recorded_release(&r->h->recorded);
    return recorded_read(&r->h->recorded, r->trace, pid, until, err);
}

/* True if the recording can have missed no block. */
static bool is_whole(const struct trace_image *image)
{
    if (image->lost_calls)
        return false;
    for (uint32_t i = 0; i < image->note_count; i++)
        if (image->event_notes[i].control && image->event_notes[i].control != MLW_CONTROL_SYNC)
            return false;
    return true;
}

/* Another allocator: its blocks are those of the recording. */
static int walk_recorded(struct reading *r, struct error *err)
{
    struct heap *h = r->h;
    if (read_recording(r, err))
        return -1;
    if (walk_recording(&h->walk, &h->recorded))
        return error_memory(err);
    if (!is_whole(h->recorded.image))
        walk_doubt(&h->walk, "the recording was paused, or lost calls: not all blocks are in it");
    return 0;
}

static unsigned threads_of(const struct reading *r)
{
    const long n = r->options->threads ? (long)r->options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 32 ? 32 : (unsigned)n;
}

/* Stops the process. What it wrote is asked before a copy is made: the copy does not know. */
static int stop(struct reading *r, struct error *err)
{
    const struct heap_options *o = r->options;
    r->t = open_target(r->name, err);
    r->sampled = (struct heap_sampled){.image = NULL};
    if (r->t && r->t->source == TARGET_STOPPED && o->sampled && !o->recording &&
        !o->sampled(o->sampled_arg, r->t->pid, &r->sampled))
        r->sampled = (struct heap_sampled){.image = NULL};
    return r->t && (!r->cold || !cold_look(r->cold, r->t, err)) ? 0 : -1;
}

/* Lets the process run for a while in which its writes are seen. */
static int watch_writes(struct reading *r, struct error *err)
{
    const struct heap_options *o = r->options;
    if (!o->cold_ns)
        return 0;
    if (stop(r, err))
        return -1;
    if (r->t->source != TARGET_STOPPED)
        return error_set(err, ERROR_UNSUPPORTED, "%s is a file: writes are seen of a process only",
                         r->name);
    r->cold = cold_begin(r->t, "", err);
    target_finish(r->t);
    r->stopped_ns += r->t->stopped_ns;
    target_close(r->t);
    r->t = NULL;
    return r->cold ? cold_wait(r->cold, o->cold_ns, &r->cold_ns, o->progress, o->progress_arg, err)
                   : -1;
}

/* A core may hold the whole heap, but not all that refers to it. The first word of a thread's
 * control block is its own address. Where it is not, memory of the thread was not saved: gcore
 * gives a mapping up at a page that cannot be read, as of the guards that glibc 2.42 puts into
 * stacks, and leaves zeros from there on. */
static void doubt_core(struct walk *w, struct target *t)
{
    if (t->source != TARGET_CORE)
        return;
    if (t->lacking)
        walk_lacks(w,
                   "the core leaves out %" PRIu64
                   " bytes of writable memory, the first at 0x%" PRIx64
                   ", which may refer to blocks",
                   t->lacking, t->lacking_at);
    for (size_t i = 0; i < t->thread_count; i++) {
        uint64_t fs = t->threads[i].registers.fs_base, own;
        if (!target_peek(t, fs, &own) || own != fs) {
            walk_lacks(w,
                       "the core lacks the memory of thread %" PRIu32
                       ", which may refer to blocks (gcore leaves out stacks with guard pages of "
                       "glibc 2.42; read the process itself, or a core of the kernel)",
                       t->threads[i].tid);
            break;
        }
    }
}

/* One look. Returns 0 with the heap walked, verified or not. */
static int walk_once(struct reading *r, unsigned try, struct error *err)
{
    if (stop(r, err))
        return -1;
    if (r->t->source == TARGET_STOPPED && !r->options->no_snapshot && try < SNAPSHOTS)
        target_snapshot(r->t);
    if (target_copy_lacks(r->t)) { /* once more, without a copy */
        target_finish(r->t);
        r->stopped_ns += r->t->stopped_ns;
        target_close(r->t);
        if (stop(r, err))
            return -1;
        r->t->refused = "parts of its memory are not copied when it forks (MADV_DONTFORK)";
    }
    if (modules_read(&r->modules, r->t))
        return error_memory(err);
    if (glibc_find(&r->glibc, r->t, &r->modules, err)) {
        if (err->kind == ERROR_UNSUPPORTED && r->options->recording)
            return walk_recorded(r, err);
        return error_prefix(err, "%s", r->name);
    }
    return walk_heap(&r->h->walk, r->t, &r->glibc, &r->modules, &r->sampled, threads_of(r), err);
}

/* A thread that was stopped inside malloc leaves the heap in pieces: it is let go and stopped
 * again. A heap that stays so is broken. */
static int walk(struct reading *r, struct error *err)
{
    for (unsigned i = 0;; i++) {
        int status = walk_once(r, i, err);
        if (!status)
            doubt_core(&r->h->walk, r->t);
        /* Where the bounds of reading are the reason, it would not be otherwise. */
        bool live = r->t && r->t->source != TARGET_CORE && !r->t->unasked && !r->t->cut;
        if (!status && (r->h->walk.verified || !live || !r->glibc.arenas || i + 1 >= TRIES))
            return 0;
        if (status &&
            (!live || i + 1 >= TRIES || err->kind != ERROR_UNSUPPORTED || !r->glibc.arenas))
            return status;
        if (r->t) {
            target_finish(r->t);
            r->stopped_ns += r->t->stopped_ns;
        }
        forget(r);
        const struct timespec brief = {.tv_nsec = 1000000};
        nanosleep(&brief, NULL);
    }
}

/* --- the graph --- */

static uint64_t bytes_of(const void *arg, uint32_t block)
{
    const struct blocks *b = arg;
    return b->kind[block] == BLOCK_OWN ? 0 : blocks_bytes(b, block);
}

static bool counts(const void *arg, uint32_t block)
{
    const struct blocks *b = arg;
    return blocks_is_used(b, block) && b->kind[block] != BLOCK_OWN;
}

static void expect(const void *arg, uint32_t block)
{
    const struct blocks *b = arg;
    __builtin_prefetch(&b->granules[block]);
    __builtin_prefetch(&b->kind[block]);
}

static void forget_references(void *arg) { scan_release(arg); }

static int make_graph(struct reading *r, struct error *err)
{
    struct heap *h = r->h;
    struct roots *roots = &h->roots;
    uint32_t *first = calloc((size_t)roots->count + 1, sizeof *first);
    uint8_t *kind = calloc((size_t)roots->count + 1, 1);
    int status = -1;
    if (!first || !kind) {
        error_memory(err);
    } else {
        for (uint32_t i = 0; i <= roots->count; i++) {
            first[i] = roots->at[i].first;
            kind[i] = i < roots->count ? (uint8_t)roots->at[i].kind : 0;
        }
        const struct graph_input in = {.blocks = h->walk.blocks.count,
                                       .first = r->scan.first,
                                       .target = r->scan.target,
                                       .weak = r->scan.weak,
                                       .bytes_of = bytes_of,
                                       .unit = 8,
                                       .expect = expect,
                                       .counts = counts,
                                       .arg = &h->walk.blocks,
                                       .done = forget_references,
                                       .done_arg = &r->scan,
                                       .threads = threads_of(r),
                                       .roots = roots->count,
                                       .root_first = first,
                                       .root_target = roots->target,
                                       .root_kind = kind};
        status = graph_make(&h->graph, &in, err);
    }
    free(first);
    free(kind);
    return status;
}

/* Those that were left out may refer to blocks. */
static void doubt_number(struct reading *r, bool cut, unsigned most, const char *what)
{
    if (!cut)
        return;
    target_note(r->t, "it has more %s than the %u that are looked at", what, most);
    walk_lacks(&r->h->walk, "it has more %s than the %u that are looked at", what, most);
}

/* A process may claim more memory than is read of it. */
static void doubt_reading(struct reading *r)
{
    if (r->h->roots.cut)
        walk_lacks(&r->h->walk, "the process maps its memory so many times that not all of its "
                                "mappings were looked at, which may refer to blocks");
    if (r->t->unasked)
        walk_lacks(&r->h->walk, "it reserves more memory than this kernel, older than 6.7, can be "
                                "asked about page by page: not all of it was looked at");
    doubt_number(r, r->t->cut_regions, TARGET_REGIONS_MAX, "mappings");
    doubt_number(r, r->t->cut_threads, TARGET_THREADS_MAX, "threads");
    doubt_number(r, r->t->cut_modules, MODULES_MAX, "programs and libraries");
    if (r->t->unread)
        walk_lacks(&r->h->walk,
                   "%" PRIu64 " bytes of its memory could not be read, at 0x%" PRIx64
                   " and maybe elsewhere, which may refer to blocks",
                   r->t->unread, r->t->unread_at);
    if (r->t->elsewhere)
        walk_lacks(&r->h->walk,
                   "%" PRIu64 " bytes of its memory or more are elsewhere, the first at 0x%" PRIx64
                   ": they come when they are touched (userfaultfd), and may refer to blocks",
                   r->t->elsewhere, r->t->elsewhere_at);
    if (r->t->unshared)
        walk_lacks(&r->h->walk,
                   "it shares %" PRIu64 " bytes more of memory than the %" PRIu64
                   " GiB that are looked at, which may refer to blocks",
                   r->t->unshared, TARGET_SHARED_BYTES_MOST >> 30);
    if (!r->t->cut)
        return;
    target_note(r->t, "not all of its files were read where their pages are not in memory");
    walk_lacks(&r->h->walk,
               "it maps more of files than the %d MiB that are read where their pages are not in "
               "memory",
               TARGET_FILE_BYTES_MOST >> 20);
}

/* Does the work that needs the target's memory. */
static int look(struct reading *r, struct error *err)
{
    struct heap *h = r->h;
    progress(r, 1);
    r->variables = variables_new(&r->modules, r->t->source == TARGET_CORE ? 0 : r->t->pid,
                                 r->options->debug_dirs, r->options->debug_dir_count);
    if (!r->variables || images_make(&r->images, r->t, &r->modules, &r->glibc))
        return error_memory(err);
    if (pages_find(&h->pages, r->t, &h->walk, &r->glibc))
        return error_memory(err);
    if (roots_find(&h->roots, r->t, &r->modules, &r->glibc, &h->walk, r->variables, &r->sampled,
                   err))
        return -1;
    progress(r, 2);
    if (scan_heap(&r->scan, r->t, &h->walk, &r->images, containers_possible(&r->modules),
                  threads_of(r), err))
        return -1;
    progress(r, 3);
    if (types_resolve(&h->types, r->scan.mark, r->t, &h->walk, &r->images, &r->modules,
                      r->variables) ||
        types_python_links(&h->types, r->scan.mark, r->t, &h->walk, &r->scan) ||
        containers_find(&h->types, r->scan.mark, r->t, &h->walk, &r->modules, r->variables,
                        &r->scan, &h->roots))
        return error_memory(err);
    if (r->cold && cold_mark(h, r->t, r->cold))
        return error_memory(err);
    if (r->t->source != TARGET_CORE)
        target_find_elsewhere(r->t);
    doubt_reading(r);
    spill_free(r->scan.seen); /* only containers_find uses it */
    r->scan.seen = NULL;
    r->scan.seen_count = 0;
    return 0;
}

static void keep_text(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%s", from);
    for (char *c = to; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
}

static int state_facts(struct reading *r)
{
    struct heap *h = r->h;
    struct heap_facts *f = &h->facts;
    const struct walk *w = &h->walk;
    static const char *const sources[] = {
        [TARGET_CORE] = "core", [TARGET_STOPPED] = "stopped", [TARGET_SNAPSHOT] = "snapshot"};
    h->arenas = calloc(w->arena_count ? w->arena_count : 1, sizeof *h->arenas);
    if (!h->arenas)
        return -1;
    keep_text(h->reason, sizeof h->reason, w->reason);
    if (r->t->refused)
        target_note(r->t, "no snapshot was taken: %s", r->t->refused);
    keep_text(h->note, sizeof h->note, r->t->note ? r->t->note : "");
    keep_text(h->allocator, sizeof h->allocator,
              r->glibc.module     ? r->glibc.module->name
              : h->recorded.image ? h->recorded.image->allocator
                                  : "");
    *f = (struct heap_facts){.pid = r->t->pid,
                             .source = sources[r->t->source],
                             .stopped_ns = r->t->stopped_ns + r->stopped_ns,
                             .verified = w->verified,
                             .read = w->lacks ? HEAP_READ_PART : HEAP_READ_WHOLE,
                             .reason = h->reason,
                             .note = h->note,
                             .allocator = h->allocator,
                             .threads = (uint32_t)r->t->thread_count,
                             .caches = (uint32_t)w->caches,
                             .mapped_blocks = w->mapped_blocks,
                             .mapped_bytes = w->mapped_bytes,
                             .mapped_system_bytes = w->mapped_system_bytes,
                             .references = r->scan.references,
                             .arenas = h->arenas,
                             .arena_count = w->arena_count,
                             .cold_blocks = f->cold_blocks,
                             .cold_bytes = f->cold_bytes,
                             .cold_swapped_bytes = f->cold_swapped_bytes,
                             .cold_source = r->cold ? cold_source(r->cold) : NULL,
                             .cold_reads = r->cold && cold_sees_reads(r->cold),
                             .cold_ns = r->cold_ns};
    f->resident_known = h->pages.resident_known;
    f->trimmable_bytes = h->pages.trimmable_bytes;
    f->pinned_bytes = h->pages.pinned_bytes;
    f->kept_bytes = h->pages.kept_bytes;
    f->pool_blocks = w->pool_bytes && w->exact_blocks > w->sampled_blocks
                         ? w->exact_blocks - w->sampled_blocks
                         : 0;
    f->pool_used_bytes =
        w->pool_bytes && w->exact_bytes > w->sampled_bytes ? w->exact_bytes - w->sampled_bytes : 0;
    f->pool_bytes = w->pool_bytes;
    f->blocks = w->mapped_blocks + w->exact_blocks;
    f->used_bytes = w->mapped_bytes + w->exact_bytes;
    f->own_bytes = w->mapped_system_bytes - w->mapped_bytes;
    for (size_t i = 0; i < w->arena_count; i++) {
        const struct walk_arena *a = &w->arenas[i];
        h->arenas[i] = (struct heap_arena){.address = a->address,
                                           .attached_threads = a->attached_threads,
                                           .main = a->main,
                                           .heaps = a->heaps,
                                           .system_bytes = a->system_bytes,
                                           .used_bytes = a->used_bytes,
                                           .free_bytes = a->free_bytes,
                                           .cached_bytes = a->cached_bytes,
                                           .own_bytes = a->own_bytes,
                                           .used_blocks = a->used_blocks,
                                           .free_blocks = a->free_blocks,
                                           .cached_blocks = a->cached_blocks,
                                           .top_bytes = a->top_bytes};
        f->blocks += a->used_blocks;
        f->used_bytes += a->used_bytes;
        f->free_bytes += a->free_bytes;
        f->cached_bytes += a->cached_bytes;
        f->own_bytes += a->own_bytes;
        INVARIANT(a->used_blocks + a->free_blocks + a->cached_blocks <= w->blocks.count);
    }
    INVARIANT(f->trimmable_bytes + f->pinned_bytes + f->kept_bytes <=
              f->free_bytes + f->cached_bytes);
    return 0;
}

/* Gives every block its call stack, where the recording has a block of a size that fits. */
static int join(struct reading *r, struct error *err)
{
    struct heap *h = r->h;
    const struct blocks *b = &h->walk.blocks;
    h->facts.sampled = !r->options->recording && r->sampled.image;
    if (h->facts.sampled && recorded_sampled(&h->recorded, &r->sampled))
        return error_memory(err);
    if (!h->recorded.image && (!r->options->recording || read_recording(r, err)))
        return r->options->recording ? -1 : 0;
    h->stack = spill_zeros((size_t)b->count + 1, sizeof *h->stack);
    h->age = spill_zeros((size_t)b->count + 1, sizeof *h->age);
    if (!h->stack || !h->age)
        return error_memory(err);
    for (uint32_t i = 0; i < b->count; i++) {
        const struct recorded_block *k =
            counts(b, i) ? recorded_find(&h->recorded, b->address[i]) : NULL;
        if (!k || k->bytes > blocks_bytes(b, i))
            continue;
        const uint64_t age = h->recorded.now_ns > k->born_ns ? h->recorded.now_ns - k->born_ns : 0;
        h->age[i] = age / HEAP_AGE_NS < UINT32_MAX ? (uint32_t)(age / HEAP_AGE_NS) + 1 : UINT32_MAX;
        h->stack[i] = k->stack;
        h->facts.known_blocks++;
        h->facts.known_bytes += blocks_bytes(b, i);
    }
    h->facts.recorded = true;
    h->facts.only_recorded = !r->glibc.arenas;
    h->facts.image = h->recorded.image_number;
    return 0;
}

/* The end of what needs the target: it goes on, and is forgotten. */
static int leave(struct reading *r, struct error *err)
{
    struct heap *h = r->h;
    target_finish(r->t);
    r->moment_ns = r->t->moment_ns;
    r->pid = r->t->pid;
    if (state_facts(r) || roots_declare(&h->roots, &r->modules, r->variables))
        return error_memory(err);
    h->facts.moment_ns = r->moment_ns == UINT64_MAX ? 0 : r->moment_ns;
    target_close(r->t);
    r->t = NULL;
    progress(r, 4);
    return join(r, err);
}

static int finish(struct reading *r, struct error *err)
{
    struct heap *h = r->h;
    if (r->options->save && saved_write(r->options->save, h, &r->scan, r->scan.mark, err))
        return -1;
    h->facts.references = r->scan.references;
    uint32_t *type = r->scan.mark; /* by block */
    r->scan.mark = NULL;
    if (make_graph(r, err)) {
        spill_free(type);
        return -1;
    }
    progress(r, 5);
    scan_release(&r->scan);
    h->type = types_rest(&h->types, type, &h->walk, &h->graph, &h->roots, threads_of(r));
    spill_free(type);
    if (!h->type)
        return error_memory(err);
    if (h->walk.verified) {
        h->facts.unreachable_bytes = h->graph.unreachable_bytes;
        h->facts.unreachable_blocks = h->graph.unreachable_blocks;
        for (uint32_t n = h->graph.held; n < h->graph.reached; n++)
            h->facts.garbage_bytes += bytes_of(&h->walk.blocks, h->graph.order[n]);
        h->facts.garbage_blocks = h->graph.reached - h->graph.held;
    }
    progress(r, 6);
    return 0;
}

/* 1 when the target is a saved heap, which is then read. */
static int load(struct reading *r, struct error *err)
{
    static const struct trust_rule rule = {
        .what = "the saved heap", .owners = TRUST_ANYBODY, .follow = true};
    struct error ignored;
    if (!r->name[strspn(r->name, "0123456789")])
        return 0;
    int fd = trust_open(AT_FDCWD, r->name, TRUST_READ, &rule, &ignored);
    int status = 0;
    if (fd >= 0 && saved_is(fd))
        status = saved_read(fd, r->name, r->h, &r->scan, err) ? -1 : 1;
    if (fd >= 0)
        close(fd);
    if (status == 1 && r->options->recording)
        return error_set(
            err, ERROR_USAGE,
            "a saved heap cannot be joined with a recording; save it with --recording");
    if (status == 1 && r->options->cold_ns)
        return error_set(err, ERROR_UNSUPPORTED, "%s is a file: writes are seen of a process only",
                         r->name);
    r->h->facts.loaded = status == 1;
    return status;
}

/* Why there was no memory, where it is the bound that was reached. */
static void explain(const struct reading *r, struct error *err)
{
    struct spill_use use;
    spill_used(&use);
    if (err->kind == ERROR_MEMORY && r->options->memory_bytes && use.error.kind != ERROR_NONE)
        error_set(err, ERROR_MEMORY,
                  "the tables of this heap need more than %" PRIu64 " MB of memory: %s",
                  r->options->memory_bytes >> 20, use.error.text);
}

struct heap *heap_read(const char *target, const struct heap_options *options, struct error *err)
{
    static const struct heap_options none = {0};
    struct reading r = {.name = target, .options = options ? options : &none};
    *err = (struct error){.kind = ERROR_NONE};
    r.h = calloc(1, sizeof *r.h);
    if (!r.h) {
        error_memory(err);
        return NULL;
    }
    progress(&r, 0);
    spill_bound(r.options->memory_bytes ? r.options->memory_bytes : UINT64_MAX,
                trust_unnamed_on_disk);
    int status = load(&r, err);
    if (!status) {
        status = watch_writes(&r, err);
        if (!status)
            status = walk(&r, err);
        if (!status)
            status = look(&r, err);
        if (!status)
            status = leave(&r, err);
    }
    if (status >= 0)
        status = finish(&r, err);
    scan_release(&r.scan);
    variables_free(r.variables);
    images_release(&r.images);
    glibc_release(&r.glibc);
    modules_release(&r.modules);
    target_close(r.t);
    cold_end(r.cold);
    struct spill_use use;
    spill_used(&use);
    r.h->facts.file_bytes = use.most_file_bytes;
    if (status) {
        explain(&r, err);
        heap_free(r.h);
        return NULL;
    }
    return r.h;
}

void heap_free(struct heap *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < sizeof h->rows / sizeof *h->rows; i++)
        free(h->rows[i]);
    for (size_t i = 0; i < sizeof h->cold_rows / sizeof *h->cold_rows; i++)
        free(h->cold_rows[i]);
    spill_free(h->cold);
    free(h->size_names);
    for (size_t i = 0; i < sizeof h->pins / sizeof *h->pins; i++)
        free(h->pins[i]);
    free(h->sites);
    spill_free(h->stack);
    spill_free(h->age);
    recorded_release(&h->recorded);
    pages_release(&h->pages);
    spill_free(h->type);
    free(h->arenas);
    graph_release(&h->graph);
    types_release(&h->types);
    roots_release(&h->roots);
    walk_release(&h->walk);
    free(h);
}

const char *heap_cold_way(char *reason, size_t room) { return cold_way(reason, room); }

const struct heap_facts *heap_facts(const struct heap *h) { return &h->facts; }
