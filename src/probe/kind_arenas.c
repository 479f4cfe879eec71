/* kind_arenas.c - `probe arenas`: glibc's allocator from inside, by its own static probes, else by
 * the functions that its debug symbols name, else by a library in the program, else by system
 * calls.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/present.h"
#include "bpf/arenas.h"
#include "glibc/versions.h"
#include "probe/arenas.h"
#include "probe/arenas_now.h"
#include "probe/argument.h"
#include "probe/caps.h"
#include "probe/family.h"
#include "probe/inside.h"
#include "remote/handle.h"
#include "symbol/functions.h"
#include "symbol/notes.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/arenas.skel.h>

/* Places in the library, found before anything is loaded. */
struct found {
    struct arenas arenas; /* first: the result points here */
    char path[PATH_MAX];
    struct static_probes notes;
    struct functions symbols;
    enum probe_source source;
    uint64_t parameters; /* the address of mp_; 0: not known */
    /* By the notes: names of probes that are lost, of settings whose former value is, and of the
     * symbols that are missing; and what that amounts to. */
    char lost[512], lost_old[512], missing[128];
    char unseen[2][768];
    const char *not_seen[ARENAS_NOT_SEEN_MAX];
};

/* ---- by the notes ---- */

/* Looks symbols up, and keeps the name of one that there is not. */
struct lookup {
    const struct found *found;
    const char *missing; /* NULL: none */
    char name[64];
};

static bool symbol_address(void *arg, const char *name, uint64_t *address)
{
    struct lookup *l = arg;
    const struct function *f = functions_find(&l->found->symbols, name);
    *address = f ? f->address : !strcmp(name, "mp_") ? l->found->parameters : 0;
    if (!*address) {
        snprintf(l->name, sizeof l->name, "%s", name);
        l->missing = l->name;
    }
    return true;
}

/* Adds a name to a list with commas, unless it is there. */
static void add_name(char *list, size_t room, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + n, name))
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return;
    const size_t length = strlen(list);
    snprintf(list + length, room - length, "%s%s", length ? ", " : "", name);
}

/* Reads the meaning of its arguments. For a setting its value has to be known, and the value before
 * may be unknown; of all others, every argument. False: the note is of no use. */
static bool read_arguments(struct found *f, const struct static_probe *note,
                           struct arenas_site *site)
{
    struct lookup l = {.found = f};
    const char *text = note->arguments + strspn(note->arguments, " ");
    while (text && *text && site->arguments < ARENAS_ARGUMENTS) {
        struct arenas_argument *a = &site->argument[site->arguments];
        l.missing = NULL;
        text = argument_parse(text, note->address, symbol_address, &l, a);
        if (text && l.missing) {
            a->kind = ARENAS_UNKNOWN;
            add_name(f->missing, sizeof f->missing, l.missing);
        }
        site->arguments += text != NULL;
        if (site->known + 1 == site->arguments && a->kind != ARENAS_UNKNOWN)
            site->known++;
    }
    if (site->known == site->arguments)
        site->known = ARENAS_ARGUMENTS; /* those that it does not have are zeros */
    return text &&
           (site->known == ARENAS_ARGUMENTS || (site->known && arenas_is_setting(site->probe)));
}

/* Names the losses, where symbols are missing or a form of arguments is not understood. */
static void say_lost(struct probe_engine *e, struct found *f)
{
    size_t n = 0;
    if (*f->lost) {
        snprintf(f->unseen[n], sizeof f->unseen[n], "%s", f->lost);
        f->not_seen[n] = f->unseen[n];
        n++;
    }
    if (*f->lost_old) {
        snprintf(f->unseen[n], sizeof f->unseen[n], "former values of %s", f->lost_old);
        f->not_seen[n] = f->unseen[n];
        n++;
    }
    if (!n)
        return;
    f->arenas.not_seen = f->not_seen;
    if (*f->missing)
        engine_say(e,
                   "%.160s has no symbol %s, at which some of its static probes have arguments; "
                   "to fix it: apt-get install libc6-dbg (the report names the losses)",
                   f->path, f->missing);
    else
        engine_say(e, "the arguments of some static probes of %.160s are not understood: %s",
                   f->path, f->lost);
}

/* Returns how many of the probes it attached to; -1 with *err. */
static long attach_notes(struct probe_engine *e, struct found *f, struct error *err)
{
    struct place places[ARENAS_SITES_MAX] = {{0}};
    uint32_t n = 0;
    for (size_t i = 0; i < f->notes.count && n < ARENAS_SITES_MAX; i++) {
        const struct static_probe *note = &f->notes.at[i];
        struct arenas_site site = {.probe = arenas_number(note->name)};
        if (strcmp(note->provider, "libc") != 0 || site.probe >= ARENAS_PROBES)
            continue;
        if (!read_arguments(f, note, &site)) {
            add_name(f->lost, sizeof f->lost, arenas_name(site.probe));
            continue;
        }
        if (site.known < ARENAS_ARGUMENTS)
            add_name(f->lost_old, sizeof f->lost_old, arenas_name(site.probe));
        if (bpf_map_update_elem(engine_map(e, "sites"), &n, &site, BPF_ANY))
            return error_system(err, "cannot describe the probes to the kernel");
        places[n] = (struct place){
            .offset = note->offset, .cookie = n, .semaphore = note->semaphore_offset};
        n++;
    }
    say_lost(e, f);
    if (!n)
        return error_set(err, ERROR_UNSUPPORTED,
                         "no static probe of %.200s has arguments that are understood", f->path);
    long done = engine_attach_places(e, "at_site", f->path, places, n, false, err);
    if (done >= 0) {
        engine_source(e, "%ld static probes of %s", done, f->path);
        if (engine_say_refused(e, f->path, places, n, err))
            return -1;
    }
    return done;
}

/* ---- by the symbols ---- */

static const struct by_symbol {
    const char *program, *function;
    bool on_return;
} by_symbol[] = {
    {"sbrk_enter", "sbrk", false},
    {"sbrk_leave", "sbrk", true},
    {"heap_made", "alloc_new_heap", true},
    {"sysmalloc_enter", "sysmalloc", false},
    {"sysmalloc_leave", "sysmalloc", true},
    {"get_enter", "arena_get2", false},
    {"get_leave", "arena_get2", true},
    {"retry", "arena_get_retry", false},
    {"lock_wait", "__lll_lock_wait_private", false},
    {"chunk_unmapped", "munmap_chunk", false},
    {"option_set", "mallopt", false},
    {"complaint", "malloc_printerr", false},
};
enum { BY_SYMBOL = sizeof by_symbol / sizeof *by_symbol };

static uint64_t found_address(const struct found *f, const char *name)
{
    const struct function *at = functions_find(&f->symbols, name);
    return at ? at->address : 0;
}

static bool has_symbols(const struct found *f)
{
    static const char *const needed[] = {"sysmalloc", "arena_get2", "munmap_chunk",
                                         "mp_",       "main_arena", "free_list"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!found_address(f, needed[i]))
            return false;
    return found_address(f, "alloc_new_heap") || found_address(f, "new_heap");
}

static int attach_symbols(struct probe_engine *e, struct found *f, struct error *err)
{
    unsigned missing = 0;
    for (size_t i = 0; i < BY_SYMBOL; i++) {
        const char *name = by_symbol[i].function;
        if (!strcmp(name, "alloc_new_heap") && !found_address(f, name))
            name = "new_heap"; /* before glibc 2.35 */
        const struct function *at = functions_find(&f->symbols, name);
        struct place place = {.name = name, .offset = at ? at->offset : 0};
        if (!at) {
            missing++;
            engine_say(e, "%s has no function %s: its events are missing", f->path, name);
        } else if (engine_attach_places(e, by_symbol[i].program, f->path, &place, 1,
                                        by_symbol[i].on_return, err) < 0)
            return -1;
    }
    engine_source(e, "%u functions of %s named by its debug symbols, the tracepoint sys_enter",
                  BY_SYMBOL - missing, f->path);
    return 0;
}

/* ---- which source ---- */

static bool has_notes(const struct found *f)
{
    for (size_t i = 0; i < f->notes.count; i++)
        if (!strcmp(f->notes.at[i].provider, "libc") &&
            arenas_number(f->notes.at[i].name) < ARENAS_PROBES)
            return true;
    return false;
}

/* The library and the facts that it states itself. Where its symbols do not name mp_, in which
 * glibc keeps its parameters, the values that it starts with do. */
static int look_into(struct probe_engine *e, struct found *f, struct error *err)
{
    static const uint64_t usual[] = GLIBC_PARAMETERS;
    if (engine_find_files(e, err) ||
        files_find_library(&e->files, e->options->library, f->path, sizeof f->path, err) ||
        static_probes_read(f->path, &f->notes, err) ||
        functions_read(f->path, FUNCTIONS_EXPORTED | FUNCTIONS_LOCAL | FUNCTIONS_DATA, &f->symbols,
                       err))
        return -1;
    f->parameters = found_address(f, "mp_");
    if (!f->parameters && has_notes(f))
        f->parameters = functions_variable(f->path, usual, sizeof usual);
    return 0;
}

static const char no_symbols[] =
    "%.200s has neither glibc's static probes nor debug symbols; to fix it: "
    "apt-get install libc6-dbg, or export DEBUGINFOD_URLS=https://debuginfod.debian.net";

static int no_notes(const struct found *f, struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED,
                     "%.200s has no static probes of glibc's: it was built without "
                     "--enable-systemtap",
                     f->path);
}

static int no_preload(const struct probe_options *o, struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED, "no library can be preloaded: %s",
                     o->argv ? o->no_preload : "the process runs already");
}

/* The requested source, or -1 with *err when it is not available. */
static int choose_this(struct probe_engine *e, struct found *f, struct error *err)
{
    const struct probe_options *o = e->options;
    f->source = o->source;
    if (o->source == PROBE_SOURCE_PRELOAD)
        return o->argv && o->preload ? 0 : no_preload(o, err);
    if (caps_require(err) || look_into(e, f, err))
        return -1;
    if (o->source == PROBE_SOURCE_STATIC && !has_notes(f))
        return no_notes(f, err);
    if (o->source == PROBE_SOURCE_SYMBOLS && !has_symbols(f))
        return error_set(err, ERROR_UNSUPPORTED, no_symbols, f->path);
    return 0;
}

/* The best that there is; why it is not a better one is said. */
static int choose_best(struct probe_engine *e, struct found *f, struct error *err)
{
    const struct probe_options *o = e->options;
    bool may_preload = o->argv && o->preload;
    if (caps_require(err)) {
        if (!may_preload)
            return -1;
        engine_say(e, "seen from a library inside the program, because %s", err->text);
        f->source = PROBE_SOURCE_PRELOAD;
        return 0;
    }
    if (look_into(e, f, err))
        return -1;
    if (has_notes(f)) {
        f->source = PROBE_SOURCE_STATIC;
        return 0;
    }
    if (has_symbols(f)) {
        f->source = PROBE_SOURCE_SYMBOLS;
        return 0;
    }
    error_set(err, ERROR_UNSUPPORTED, no_symbols, f->path);
    f->source = may_preload ? PROBE_SOURCE_PRELOAD : PROBE_SOURCE_CALLS;
    engine_say(e, "seen %s, because %s",
               may_preload ? "from a library inside the program" : "by system calls alone",
               err->text);
    return 0;
}

/* Events of the static probes alone, by source. */
static const char *const never_seen[][ARENAS_NOT_SEEN_MAX] = {
    [PROBE_SOURCE_STATIC] = {NULL},
    [PROBE_SOURCE_SYMBOLS] = {"the settings arena_max, arena_test and tcache_* of GLIBC_TUNABLES",
                              "realloc_retry"},
    [PROBE_SOURCE_PRELOAD] = {"double frees that a thread's cache notices", "waits and retries",
                              "the settings arena_max, arena_test and tcache_* of GLIBC_TUNABLES"},
    [PROBE_SOURCE_CALLS] = {"double frees that a thread's cache notices",
                            "thresholds and other settings by mallopt or GLIBC_TUNABLES",
                            "reuse of arenas"},
};

static int arenas_choose(struct probe_engine *e, struct error *err)
{
    const struct probe_options *o = e->options;
    struct found *f = calloc(1, sizeof *f);
    if (!f)
        return error_memory(err);
    e->own = f;
    e->result->arenas = &f->arenas;
    if (o->source ? choose_this(e, f, err) : choose_best(e, f, err))
        return -1;
    static const enum arenas_waits waits[] = {
        [PROBE_SOURCE_STATIC] = ARENAS_WAITS_REUSE,
        [PROBE_SOURCE_SYMBOLS] = ARENAS_WAITS_LOCK,
        [PROBE_SOURCE_PRELOAD] = ARENAS_WAITS_NONE,
        [PROBE_SOURCE_CALLS] = ARENAS_WAITS_OTHER,
    };
    f->arenas.waits = waits[f->source];
    f->arenas.not_seen = never_seen[f->source];
    e->result->counts_requests = o->sizes;
    if (f->source != PROBE_SOURCE_PRELOAD)
        return 0;
    engine_source(e, "%s in the program", o->preload);
    return inside_make(&e->inside, o->preload, o->no_follow, o->sizes, err);
}

/* ---- loading and attaching ---- */

/* Where the thresholds' being fixed stands in mp_, which grew by three fields with glibc 2.35. */
static uint64_t found_bytes(const struct found *f, const char *name)
{
    const struct function *at = functions_find(&f->symbols, name);
    return at ? at->bytes : 0;
}

/* Bytes that this version's arenas have less in front of their tops, by the size of one. */
static uint64_t arenas_lack(const struct found *f)
{
    const uint64_t bytes = found_bytes(f, "main_arena");
    return bytes && bytes <= GLIBC_ARENA_BYTES && GLIBC_ARENA_BYTES - bytes < GLIBC_ARENA_TOP
               ? GLIBC_ARENA_BYTES - bytes
               : 0;
}

static int64_t fixed_at(const struct found *f)
{
    const uint64_t bytes = found_bytes(f, "mp_");
    if (!found_address(f, "alloc_new_heap"))
        return 52; /* before 2.35 */
    return (int64_t)(GLIBC_LIMITS_FIXED +
                     (bytes > GLIBC_LIMITS_BYTES ? bytes - GLIBC_LIMITS_BYTES : 0));
}

/* A function of this name, or a part that a compiler split off from it (NAME.part.0, NAME.cold). */
static bool is_function_or_part(const struct function *at, const char *name)
{
    const size_t n = strlen(name);
    return !at->data && !strncmp(at->name, name, n) && (!at->name[n] || at->name[n] == '.');
}

/* The functions that call arena_get_retry. Where a retry returns to says whose it is. */
static void find_retriers(const struct found *f, struct arenas_places *p)
{
    static const struct {
        const char *function;
        uint32_t probe;
    } known[] = {{"__libc_malloc", ARENAS_MALLOC_RETRY},
                 {"__libc_malloc2", ARENAS_MALLOC_RETRY}, /* from glibc 2.42 on */
                 {"__libc_calloc", ARENAS_CALLOC_RETRY},
                 {"__libc_calloc2", ARENAS_CALLOC_RETRY},
                 {"_mid_memalign", ARENAS_MEMALIGN_RETRY}};
    const uint64_t retry = found_address(f, "arena_get_retry");
    size_t n = 0;
    for (size_t i = 0; i < f->symbols.count && retry; i++) {
        const struct function *at = &f->symbols.at[i];
        for (size_t k = 0; k < sizeof known / sizeof *known && n < ARENAS_RETRIERS; k++)
            if (at->bytes && is_function_or_part(at, known[k].function))
                p->retriers[n++] =
                    (struct arenas_retrier){.from = (int64_t)(at->address - retry),
                                            .to = (int64_t)(at->address + at->bytes - retry),
                                            .probe = known[k].probe};
    }
}

static void find_arena_places(const struct found *f, struct arenas_places *p)
{
    static const char double_free[] = "free(): double free detected in tcache 2";
    const uint64_t text = functions_text(f->path, double_free, sizeof double_free);
    p->main_arena = (int64_t)(found_address(f, "main_arena") - found_address(f, "sysmalloc"));
    p->limits_too = (int64_t)(found_address(f, "mp_") - found_address(f, "sysmalloc"));
    p->free_list = (int64_t)(found_address(f, "free_list") - found_address(f, "arena_get2"));
    p->limits = (int64_t)(found_address(f, "mp_") - found_address(f, "munmap_chunk"));
    p->fixed = fixed_at(f);
    p->top = GLIBC_ARENA_TOP - arenas_lack(f);
    find_retriers(f, p);
    p->double_free = text ? (int64_t)(text - found_address(f, "malloc_printerr")) : 0;
}

static int set_places(struct probe_engine *e, const struct found *f, struct error *err)
{
    struct bpf_map *map = bpf_object__find_map_by_name(e->object, ".rodata.places");
    struct arenas_places places = {.heaps = GLIBC_HEAP_SIZE_LIST};
    _Static_assert(sizeof places.heaps / sizeof *places.heaps == GLIBC_HEAP_SIZES, "sizes");
    if (f->source == PROBE_SOURCE_SYMBOLS)
        find_arena_places(f, &places);
    if (!map || bpf_map__set_initial_value(map, &places, sizeof places))
        return error_system(err, "cannot configure the programs");
    return 0;
}

static int arenas_prepare(struct probe_engine *e, struct error *err)
{
    const struct found *f = e->own;
    if (f->source != PROBE_SOURCE_STATIC)
        engine_skip(e, "at_site");
    for (size_t i = 0; i < BY_SYMBOL && f->source != PROBE_SOURCE_SYMBOLS; i++)
        engine_skip(e, by_symbol[i].program);
    if (f->source == PROBE_SOURCE_STATIC)
        engine_skip(e, "memory_call");
    if (f->source != PROBE_SOURCE_CALLS) {
        engine_skip(e, "call_enter");
        engine_skip(e, "call_leave");
    }
    if (!e->options->sizes)
        engine_skip(e, "request");
    if (set_places(e, f, err))
        return -1;
    return engine_resize(e, "events", 1 << 22, err);
}

static int attach_requests(struct probe_engine *e, const struct found *f, struct error *err)
{
    struct family family;
    int bad =
        family_find(e->options, f->path, &family, err) ||
        engine_attach_places(e, "request", f->path, family.place, family.count, false, err) < 0 ||
        engine_say_refused(e, f->path, family.place, family.count, err);
    family_release(&family);
    return bad ? -1 : 0;
}

/* Reads the arenas that the process has already, where its library's symbols say where they are. */
static int know_past(struct probe_engine *e, struct found *f, struct error *err)
{
    const uint64_t main_arena = found_address(f, "main_arena"), limits = found_address(f, "mp_");
    const uint32_t pid = e->options->pid;
    if (!main_arena || !limits ||
        !arenas_now(&f->arenas, (pid_t)pid, f->path, main_arena, limits, arenas_lack(f))) {
        engine_say(e, "what the allocator did before now is not known: sizes begin at zero and "
                      "thresholds as glibc sets them");
        return 0;
    }
    const struct arenas_process *p = arenas_process(&f->arenas, pid);
    if (bpf_map_update_elem(engine_map(e, "thresholds"), &pid, &p->mmap_threshold_bytes, BPF_ANY))
        return error_system(err, "cannot pass the thresholds to the kernel");
    for (size_t i = 0; i < p->heaps && f->source == PROBE_SOURCE_CALLS; i++) {
        const uint64_t key[2] = {p->heap[i].address, pid};
        if (bpf_map_update_elem(engine_map(e, "heaps"), key, &p->heap[i].bytes, BPF_ANY))
            return error_system(err, "cannot pass the heaps to the kernel");
    }
    return 0;
}

static int arenas_attach(struct probe_engine *e, struct error *err)
{
    struct found *f = e->own;
    if (e->options->pid && know_past(e, f, err))
        return -1;
    if (f->source == PROBE_SOURCE_STATIC && attach_notes(e, f, err) < 0)
        return -1;
    if (f->source == PROBE_SOURCE_SYMBOLS && attach_symbols(e, f, err))
        return -1;
    if (f->source == PROBE_SOURCE_CALLS)
        engine_source(e, "the system calls brk, mprotect, madvise, munmap, futex (tracepoints "
                         "sys_enter, sys_exit), and the headers of heaps");
    if (e->options->sizes && attach_requests(e, f, err))
        return -1;
    return engine_attach_tracepoints(e, err);
}

static void arenas_event(struct probe_engine *e, const void *data, size_t size)
{
    struct found *f = e->own;
    struct arenas_event event;
    if (e->inside) {
        inside_drain(e->inside, e, &f->arenas, false);
        return;
    }
    if (size < sizeof event)
        return;
    memcpy(&event, data, sizeof event);
    const struct arena_moment *m = arenas_take(&f->arenas, &event, e->result->start_ns);
    if (m && e->options->stream) {
        const struct mlw_kernel k = {.clock = event.time_ns,
                                     .pid = event.pid,
                                     .tid = m->tid,
                                     .what = (uint8_t)m->probe,
                                     .values = (uint8_t)m->known};
        uint64_t values[ARENAS_ARGUMENTS];
        memcpy(values, m->argument, sizeof values);
        engine_stream(e, &k, values);
    } else if (m && e->options->moment)
        e->options->moment(e->options->arg, event.pid, m);
}

/* Sizes that changed without a system call, of a process that lives on. */
static void look_at_heaps(struct arenas_process *p)
{
    struct handle h;
    struct present present;
    handle_open(&h, (pid_t)p->pid);
    present_open(&present, h.pid);
    for (size_t i = 0; i < p->heaps; i++) {
        struct glibc_heap head;
        if (present_all(&present, p->heap[i].address, sizeof head) &&
            handle_read(&h, p->heap[i].address, &head, sizeof head) &&
            head.arena == p->heap[i].arena)
            p->heap[i].bytes = head.bytes;
    }
    present_close(&present);
    handle_close(&h);
}

static void arenas_finish(struct probe_engine *e)
{
    struct found *f = e->own;
    if (e->inside) {
        inside_drain(e->inside, e, &f->arenas, true);
        const char *trouble = e->result->exec_errno ? NULL : inside_trouble(e->inside);
        if (trouble)
            engine_say(e, "%s", trouble);
    }
    for (size_t i = 0; i < f->arenas.processes && f->source == PROBE_SOURCE_CALLS; i++)
        look_at_heaps(&f->arenas.process[i]);
}

static void arenas_free(struct probe_engine *e)
{
    struct found *f = e->own;
    if (!f)
        return;
    arenas_release(&f->arenas);
    static_probes_release(&f->notes);
    functions_release(&f->symbols);
}

const struct probe_kind probe_kind_arenas = {
    .name = "arenas",
    .summary = "glibc's allocator from inside: arenas, heaps, lock waits, thresholds",
    .uses_library = true,
    .stream = MLW_KERNEL_ARENA,
    .layout = {.list = "groups",
               .value = {"calls", "bytes"},
               .title = {"calls", "asked for"},
               .unit = "nb",
               .histogram = 'b'},
    .object = arenas_bpf__elf_bytes,
    .has_sizes = true,
    .choose = arenas_choose,
    .prepare = arenas_prepare,
    .attach = arenas_attach,
    .finish = arenas_finish,
    .event = arenas_event,
    .release = arenas_free,
};
