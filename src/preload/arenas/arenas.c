/* arenas.c - libmallow-arenas.so: what glibc's allocator does, seen from beside it.
 *
 * Each call is forwarded. After it, two words of the arena that was used (where its top is, how
 * many bytes it has) and the end of the main heap are compared with their last values; changes are
 * reported through shared memory (src/format/arenas.h). Heaps, which glibc may unmap at any moment
 * in another thread, are looked into only while a block of theirs is live; arenas themselves are
 * never unmapped. The rules of the recorder hold (../recorder.h): no malloc, stdio, lock shared
 * with the program, thread; errno is left alone; whatever fails lets the program's call through.
 *
 * Threads share the last known values of an arena. A thread that finds a change stores the new
 * values, reports them, and compares again: so the last report about an arena is current. A change
 * that cannot be reported, because the reader is slow, stays pending and is reported with the next
 * one. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "arch/page.h"
#include "arch/stack.h"
#include "format/arenas.h"
#include "glibc/versions.h"
#include "preload/guest.h"
#include "preload/sys.h"

#define MMAPPED  2u
#define NON_MAIN 4u
#define FLAGS    7u

enum {
    ARENAS_MAX = 4096,
    CACHED_MAX = 1040, /* larger chunks never come from a thread's cache */
    DYNAMIC_MAX = 32 << 20,
    STANDARD_THRESHOLD = 128 << 10,
    OPTION_TRIM_THRESHOLD = -1,
    OPTION_TOP_PAD = -2,
    OPTION_MMAP_THRESHOLD = -3,
    OPTION_MMAP_MAX = -4,
};

/* The last values seen of an arena; arena 0: a free entry. */
struct known {
    volatile uint64_t arena, heap, bytes;
};
static struct known known[ARENAS_MAX];
static struct known main_known; /* stands for the main arena, whose address need not be known */

/* In a page of its own that the kernel wipes in the child of a fork. */
static union {
    struct {
        volatile uint32_t pid; /* 0: this process has not joined yet */
        volatile uint32_t waking;
    } is;
    uint8_t page[ARCH_PAGE_BYTES];
} wiped __attribute__((aligned(ARCH_PAGE_BYTES)));

static struct {
    struct mlw_arenas *shared;
    volatile bool off;
    bool sizes;
    uint64_t top_at, bytes_at, next_at; /* in an arena */
    uint64_t heap_mask;                 /* keeps the address of a heap of what lies in it */
    volatile uint64_t last_break, threshold;
    volatile bool fixed; /* thresholds do not move any more */
    volatile bool main_reported;
    struct mlw_arenas_regime *volatile regime;
    pthread_key_t end_key;
    bool end_key_made;
} guest = {.off = true, .threshold = STANDARD_THRESHOLD};

static TLS struct {
    struct known *mine; /* the arena that the thread uses */
    uint32_t tid, pid;
    bool freed; /* its cache may hold blocks of other arenas */
} self;

static uint64_t read_arena_word(uint64_t address) { return *(const volatile uint64_t *)address; }

static inline __attribute__((always_inline)) uint64_t heap_of(uint64_t address)
{
    return address & guest.heap_mask;
}

/* ---- reporting ---- */

static void thread_end(void *arg);

/* False: it cannot be known any more. */
static ARCH_ALIGNS_STACK bool know_self(void)
{
    if (self.pid == wiped.is.pid)
        return true;
    if (sys_closed)
        return false;
    self.tid = (uint32_t)sys_gettid();
    self.pid = wiped.is.pid;
    if (guest.end_key_made)
        pthread_setspecific(guest.end_key, &self);
    return true;
}

/* False: there is no room. */
static bool try_to_report(uint32_t what, uint64_t a, uint64_t b, uint64_t c)
{
    struct mlw_arenas *s = guest.shared;
    uint64_t at = __atomic_load_n(&s->claimed, __ATOMIC_RELAXED);
    bool room;
    if (!know_self())
        return false;
    uint64_t now = guest_clock();
    do
        room = at - __atomic_load_n(&s->taken, __ATOMIC_ACQUIRE) < MLW_ARENAS_SLOTS;
    while (room && !__atomic_compare_exchange_n(&s->claimed, &at, at + 1, false, __ATOMIC_ACQ_REL,
                                                __ATOMIC_RELAXED));
    if (!room)
        return false;
    struct mlw_arenas_event *e = &s->event[at % MLW_ARENAS_SLOTS];
    e->what = what;
    e->pid = self.pid;
    e->tid = self.tid;
    e->time_ns = now;
    e->argument[0] = a;
    e->argument[1] = b;
    e->argument[2] = c;
    __atomic_store_n(&e->ready, at + 1, __ATOMIC_RELEASE);
    return true;
}

static void report_arena(uint32_t what, uint64_t a, uint64_t b, uint64_t c)
{
    if (!try_to_report(what, a, b, c))
        __atomic_fetch_add(&guest.shared->lost, 1, __ATOMIC_RELAXED);
}

static void thread_end(void *arg)
{
    (void)arg;
    int saved = errno;
    if (!guest.off && self.mine)
        report_arena(MLW_ARENAS_THREAD_END, 0, 0, 0);
    self.mine = 0;
    errno = saved;
}

/* ---- requests beside the threshold ---- */

/* The place for this process and threshold; NULL: none is left. */
static struct mlw_arenas_regime *find_regime(void)
{
    for (uint32_t i = 0; i < MLW_ARENAS_REGIMES; i++) {
        struct mlw_arenas_regime *r = &guest.shared->regime[i];
        uint64_t there = 0;
        if (__atomic_compare_exchange_n(&r->pid, &there, wiped.is.pid, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&r->threshold, guest.threshold, __ATOMIC_RELEASE);
            return r;
        }
        if (there == wiped.is.pid && r->threshold == guest.threshold)
            return r;
    }
    return 0;
}

static __attribute__((noinline)) void count_request(uint64_t size)
{
    struct mlw_arenas_regime *r = guest.regime;
    uint64_t chunk = (size + 8 + 15) & ~15ull; /* as glibc compares it */
    if (!r) {
        __atomic_fetch_add(&guest.shared->uncounted, 1, __ATOMIC_RELAXED);
        return;
    }
    unsigned class = size ? 64u - (unsigned)__builtin_clzll(size) : 0;
    unsigned row = (unsigned)(((uint64_t)&self >> ARCH_PAGE_SHIFT) % MLW_ARENAS_ROWS);
    bool above = chunk < size || chunk >= r->threshold;
    __atomic_fetch_add(&r->count[row][above][class], 1, __ATOMIC_RELAXED);
}

static void set_threshold(uint64_t bytes)
{
    guest.threshold = bytes;
    if (guest.sizes)
        guest.regime = find_regime();
}

/* ---- arenas ---- */

/* The place of an arena; one that is not there is entered when is_new is not NULL. */
static struct known *find_known_arena(uint64_t arena, bool *is_new)
{
    uint32_t at = (uint32_t)((arena >> 4) * 0x9e3779b97f4a7c15u >> 40);
    for (uint32_t i = 0; i < 64; i++) {
        struct known *k = &known[(at + i) % ARENAS_MAX];
        uint64_t there = k->arena;
        if (!there) {
            if (!is_new)
                return 0;
            *is_new = __atomic_compare_exchange_n(&k->arena, &there, arena, false, __ATOMIC_ACQ_REL,
                                                  __ATOMIC_ACQUIRE);
            if (*is_new)
                return k;
        }
        if (there == arena)
            return k;
    }
    return 0;
}

/* The first arena's list of arenas leads to the main one, which lies in the library and not at the
 * front of a heap. */
static void find_main_arena(uint64_t arena)
{
    uint64_t at = arena;
    for (int i = 0; i < ARENAS_MAX && !guest.main_reported; i++) {
        at = read_arena_word(at + guest.next_at);
        if (!at || at == arena)
            return;
        if (at - heap_of(at) > GLIBC_HEAD_BYTES) {
            guest.main_reported = true;
            report_arena(MLW_ARENAS_MAIN, at, 0, 0);
        }
    }
}

/* An arena that has one heap has that heap's bytes; a heap begins with its arena's address. Asked
 * of new arenas, whose first heap is never unmapped. */
static bool looks_right(uint64_t arena)
{
    uint64_t heap = heap_of(arena);
    for (int i = 0; i < 100; i++) { /* another thread may be making it grow */
        uint64_t bytes = read_arena_word(arena + guest.bytes_at);
        if (read_arena_word(heap) != arena)
            return false;
        if (heap_of(read_arena_word(arena + guest.top_at)) != heap ||
            read_arena_word(heap + 16) == bytes)
            return bytes != 0;
    }
    return false;
}

/* True, where the size of heaps is not sure: one begins there, of that arena. */
static bool is_heap(uint64_t heap, uint64_t arena)
{
    const struct glibc_heap *h = (const struct glibc_heap *)heap;
    const uint64_t head = arena - heap_of(arena);
    return head >= GLIBC_HEAD_LEAST && head <= GLIBC_HEAD_BYTES && !(arena & 7) &&
           h->mapped <= next_facts.heap_bytes && h->bytes <= h->mapped &&
           h->previous == heap_of(h->previous);
}

static inline __attribute__((always_inline)) bool has_changed(const struct known *k)
{
    return read_arena_word(k->arena + guest.bytes_at) != k->bytes ||
           heap_of(read_arena_word(k->arena + guest.top_at)) != k->heap;
}

static __attribute__((noinline)) void report_change(struct known *k)
{
    for (int i = 0; i < 1000 && has_changed(k); i++) {
        uint64_t top = read_arena_word(k->arena + guest.top_at),
                 bytes = read_arena_word(k->arena + guest.bytes_at);
        uint64_t reported = k->bytes;
        k->heap = heap_of(top);
        k->bytes = bytes;
        if (!try_to_report(MLW_ARENAS_LEVEL, k->arena, top, bytes)) {
            k->bytes = reported == bytes ? 0 : reported;
            return;
        }
    }
}

static __attribute__((noinline)) void use(struct known *k)
{
    self.mine = k;
    report_arena(MLW_ARENAS_USES, k->arena, 0, 0);
}

/* A block that is not the thread's usual arena's: from another thread through the cache, or the
 * thread has a new arena. */
static __attribute__((noinline)) void other_arena(uint64_t heap, uint64_t arena, uint64_t chunk)
{
    bool is_new = false;
    const bool bad = next_facts.huge_heaps && !is_heap(heap, arena);
    struct known *k = bad ? 0 : find_known_arena(arena, &is_new);
    if (guest.off || (!k && !bad))
        return;
    if (bad || (is_new && !looks_right(arena))) {
        report_arena(MLW_ARENAS_UNKNOWN, MLW_ARENAS_LAYOUT, 0, 0);
        guest.off = true;
        return;
    }
    if (has_changed(k))
        report_change(k);
    if (is_new || chunk > CACHED_MAX || (!self.mine && !self.freed)) {
        use(k);
        if (!guest.main_reported)
            find_main_arena(arena);
    }
}

static __attribute__((noinline)) void break_moved(void)
{
    uint64_t now;
    while ((now = (uint64_t)*next_facts.curbrk) != guest.last_break) {
        uint64_t reported = __atomic_exchange_n(&guest.last_break, now, __ATOMIC_ACQ_REL),
                 mine = now;
        if (reported == now || try_to_report(MLW_ARENAS_BREAK, now, reported, 0))
            continue;
        if (!__atomic_compare_exchange_n(&guest.last_break, &mine, reported, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            __atomic_fetch_add(&guest.shared->lost, 1, __ATOMIC_RELAXED);
        return;
    }
}

static inline __attribute__((always_inline)) void look_at_main(void)
{
    if (unlikely((uint64_t)*next_facts.curbrk != guest.last_break))
        break_moved();
}

/* The block is live. */
static inline __attribute__((always_inline)) void made(const void *p)
{
    uint64_t chunk = ((const uint64_t *)p)[-1];
    if (unlikely(chunk & MMAPPED))
        return;
    if (chunk & NON_MAIN) {
        uint64_t arena = read_arena_word(heap_of((uint64_t)p));
        if (unlikely(!self.mine || self.mine->arena != arena))
            other_arena(heap_of((uint64_t)p), arena, chunk & ~(uint64_t)FLAGS);
        else if (unlikely(has_changed(self.mine)))
            report_change(self.mine);
        return;
    }
    if (unlikely(self.mine != &main_known) &&
        ((chunk & ~(uint64_t)FLAGS) > CACHED_MAX || (!self.mine && !self.freed)))
        use(&main_known);
    look_at_main();
}

/* Checks after a block was freed. */
struct going {
    uint64_t arena;   /* 0: none but the main one */
    uint64_t mmapped; /* its chunk's bytes; 0: it is not */
};

static inline __attribute__((always_inline)) struct going before(const void *p)
{
    uint64_t chunk = ((const uint64_t *)p)[-1];
    struct going g = {0, 0};
    if (unlikely(chunk & MMAPPED))
        g.mmapped = chunk & ~(uint64_t)FLAGS;
    else if (chunk & NON_MAIN)
        g.arena = read_arena_word(heap_of((uint64_t)p));
    return g;
}

static inline __attribute__((always_inline)) void after(const struct going *g)
{
    if (g->arena) {
        struct known *k =
            self.mine && self.mine->arena == g->arena ? self.mine : find_known_arena(g->arena, 0);
        if (k && unlikely(has_changed(k)))
            report_change(k);
    } else {
        look_at_main();
    }
}

/* glibc's own rule, in free alone. */
static __attribute__((noinline)) void mmapped_freed(uint64_t bytes)
{
    if (guest.fixed || bytes <= guest.threshold || bytes >= DYNAMIC_MAX)
        return;
    set_threshold(bytes);
    report_arena(MLW_ARENAS_LIMITS, bytes, 2 * bytes, 0);
}

static void look_at_all(void)
{
    int saved = errno;
    for (uint32_t i = 0; i < ARENAS_MAX; i++)
        if (known[i].arena && has_changed(&known[i]))
            report_change(&known[i]);
    look_at_main();
    errno = saved;
}

/* ---- joining ---- */

/* A number as glibc reads it: decimal, or hexadecimal behind 0x. */
static bool read_tunable_number(const char *text, uint64_t *value)
{
    unsigned base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;
    const char *at = base == 16 ? text + 2 : text;
    *value = 0;
    for (;; at++) {
        unsigned digit = (unsigned)*at - '0';
        if (base == 16 && (*at | 32) >= 'a' && (*at | 32) <= 'f')
            digit = (unsigned)(*at | 32) - 'a' + 10;
        if (digit >= base)
            break;
        *value = *value * base + digit;
    }
    return at != text && (*at == 0 || *at == ':');
}

/* The value that the environment gives an option, by its own variable or as a tunable. */
static bool setting(const char *variable, const char *tunable, uint64_t *value)
{
    const char *v = guest_setting(variable), *all = guest_setting("GLIBC_TUNABLES");
    size_t n = strlen(tunable);
    bool found = v && read_tunable_number(v, value);
    while (all && *all) {
        if (!strncmp(all, tunable, n) && all[n] == '=')
            found = read_tunable_number(all + n + 1, value) || found;
        while (*all && *all != ':')
            all++;
        all += *all == ':';
    }
    return found;
}

static void begin_with_settings(void)
{
    static const struct {
        const char *variable, *tunable;
        int64_t option;
        uint64_t standard;
    } settings[] = {
        {"MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold", OPTION_MMAP_THRESHOLD,
         STANDARD_THRESHOLD},
        {"MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold", OPTION_TRIM_THRESHOLD,
         STANDARD_THRESHOLD},
        {"MALLOC_TOP_PAD_", "glibc.malloc.top_pad", OPTION_TOP_PAD, STANDARD_THRESHOLD},
        {"MALLOC_MMAP_MAX_", "glibc.malloc.mmap_max", OPTION_MMAP_MAX, 65536},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        uint64_t value;
        if (!setting(settings[i].variable, settings[i].tunable, &value))
            continue;
        guest.fixed = true;
        if (settings[i].option == OPTION_MMAP_THRESHOLD)
            set_threshold(value);
        report_arena(MLW_ARENAS_BEGAN, (uint64_t)settings[i].option, value, settings[i].standard);
    }
}

static struct mlw_arenas *map_shared(void)
{
    const char *path = guest_setting(MLW_ENV_ARENAS);
    struct stat st = {0};
    if (!path)
        return 0;
    long fd = sys_openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (sys_is_error(fd))
        return 0;
    long p = -1;
    /* owned by this user or root: another could shorten it under us */
    if (!sys_fstat((int)fd, &st) && S_ISREG(st.st_mode) &&
        (!st.st_uid || st.st_uid == (uid_t)sys_geteuid()) &&
        (uint64_t)st.st_size >= sizeof(struct mlw_arenas))
        p = sys_mmap(0, sizeof(struct mlw_arenas), PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    sys_close((int)fd);
    if (sys_is_error(p) || ((struct mlw_arenas *)p)->magic != MLW_ARENAS_MAGIC)
        return 0;
    return (struct mlw_arenas *)p;
}

static void say_arenas_line(const char *text) { guest_say(text, strlen(text)); }

static bool is_left_out(const struct mlw_arenas *s)
{
    return s->no_follow && wiped.is.pid != s->program_pid;
}

static void join_session(void)
{
    struct mlw_arenas *s = map_shared();
    guest_clock_begin();
    if (!s) {
        say_arenas_line(
            "mallow: the shared memory for arenas (MALLOW_ARENAS) cannot be opened: nothing is "
            "reported for this process\n");
        return;
    }
    guest.shared = s;
    if (sys_madvise(&wiped, sizeof wiped, MADV_WIPEONFORK)) {
        say_arenas_line(
            "mallow: MADV_WIPEONFORK is refused (Linux 4.14 has it): nothing is reported for this "
            "process\n");
        return;
    }
    wiped.is.pid = (uint32_t)sys_getpid();
    if (is_left_out(s))
        return;
    __atomic_fetch_add(&s->joined, 1, __ATOMIC_RELAXED);
    report_arena(MLW_ARENAS_JOINED, 0, 0, next_facts.heap_bytes);
    if (!next_facts.glibc || !next_facts.heap_bytes || !next_facts.curbrk) {
        report_arena(MLW_ARENAS_UNKNOWN, MLW_ARENAS_NOT_GLIBC, 0, 0);
        return;
    }
    /* an arena of glibc before 2.27 has no have_fastchunks, one since 2.43 no fastbins either */
    const struct glibc_version *known_version = glibc_of(next_facts.glibc_minor);
    const bool fastbins = !known_version || known_version->fastbins;
    uint64_t shift = next_facts.glibc_minor < 27 ? 8 : fastbins ? 0 : 88;
    guest.top_at = GLIBC_ARENA_TOP - shift;
    guest.next_at = GLIBC_ARENA_NEXT - shift;
    guest.bytes_at = GLIBC_ARENA_SUM - shift;
    guest.heap_mask = -next_facts.heap_bytes;
    guest.end_key_made = !pthread_key_create(&guest.end_key, thread_end);
    guest.sizes = s->sizes != 0;
    if (!*next_facts.curbrk)
        next.sbrk(0);
    guest.last_break = (uint64_t)*next_facts.curbrk;
    guest.off = false;
    begin_with_settings();
    set_threshold(guest.threshold);
}

static void arenas_join_after_fork(void)
{
    if (guest.off || sys_closed) {
        guest.off = true;
        return;
    }
    wiped.is.pid = (uint32_t)sys_getpid();
    if (is_left_out(guest.shared)) {
        guest.off = true;
        return;
    }
    __atomic_fetch_add(&guest.shared->joined, 1, __ATOMIC_RELAXED);
    report_arena(MLW_ARENAS_JOINED, (uint64_t)sys_getppid(), 1,
                 self.mine ? self.mine->arena : UINT64_MAX);
    set_threshold(guest.threshold);
}

static ARCH_ALIGNS_STACK bool wake(void)
{
    uint32_t zero = 0;
    int saved = errno;
    if (!__atomic_compare_exchange_n(&wiped.is.waking, &zero, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    if (next_resolve()) {
        if (guest.shared)
            arenas_join_after_fork();
        else if (!sandbox_inherited())
            join_session();
        if (!wiped.is.pid)
            wiped.is.pid = 1; /* tried */
    }
    wiped.is.waking = 0;
    errno = saved;
    return !guest.off;
}

static inline __attribute__((always_inline)) bool watching(void)
{
    return likely(wiped.is.pid) ? !guest.off : wake();
}

__attribute__((constructor(101))) static void begin(void) { (void)watching(); }

__attribute__((destructor)) static void end(void)
{
    if (!watching())
        return;
    look_at_all();
    for (uint32_t i = 0; i < ARENAS_MAX; i++)
        if (known[i].arena && has_changed(&known[i]))
            __atomic_fetch_add(&guest.shared->lost, 1, __ATOMIC_RELAXED);
    if ((uint64_t)*next_facts.curbrk != guest.last_break)
        __atomic_fetch_add(&guest.shared->lost, 1, __ATOMIC_RELAXED);
}

/* Threads that ended freed the contents of their caches after our last check. */
void guest_ending(int status, bool handlers)
{
    (void)status, (void)handlers;
    end();
}

/* ---- the calls ---- */

/* After a call that made p, or failed to; errno is the call's. */
static inline __attribute__((always_inline)) void *came(void *p, uint64_t size)
{
    if (unlikely(guest.sizes))
        count_request(size);
    if (likely(p != 0))
        made(p);
    return p;
}

static uint64_t product(size_t n, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(n, size, &total) ? UINT64_MAX : total;
}

INTERPOSED(void *, malloc, size_t size)
{
    if (unlikely(!watching()))
        return next.malloc(size);
    return came(next.malloc(size), size);
}

INTERPOSED(void *, calloc, size_t n, size_t size)
{
    if (unlikely(!watching()))
        return next.calloc(n, size);
    return came(next.calloc(n, size), product(n, size));
}

INTERPOSED(void *, realloc, void *old, size_t size)
{
    if (unlikely(!watching()))
        return next.realloc(old, size);
    struct going g = {0, 0};
    if (old)
        g = before(old);
    void *p = came(next.realloc(old, size), size);
    if (old) {
        self.freed = true;
        after(&g);
    }
    return p;
}

INTERPOSED(void *, reallocarray, void *old, size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        total = SIZE_MAX; /* which no realloc can serve */
    return entry_realloc(old, total);
}

INTERPOSED(void, free, void *p)
{
    if (unlikely(!watching()) || !p) {
        next.free(p);
        return;
    }
    struct going g = before(p);
    next.free(p);
    self.freed = true;
    if (unlikely(g.mmapped))
        mmapped_freed(g.mmapped);
    else
        after(&g);
}

INTERPOSED(void, cfree, void *p) { entry_free(p); } /* glibc's old name for it */

INTERPOSED(int, posix_memalign, void **to, size_t align, size_t size)
{
    int r = next.posix_memalign(to, align, size);
    if (likely(watching()))
        came(r ? 0 : *to, size);
    return r;
}

INTERPOSED(void *, aligned_alloc, size_t align, size_t size)
{
    void *p = next.aligned_alloc(align, size);
    return likely(watching()) ? came(p, size) : p;
}

INTERPOSED(void *, memalign, size_t align, size_t size)
{
    void *p = next.memalign(align, size);
    return likely(watching()) ? came(p, size) : p;
}

INTERPOSED(void *, valloc, size_t size)
{
    void *p = next.valloc(size);
    return likely(watching()) ? came(p, size) : p;
}

INTERPOSED(void *, pvalloc, size_t size)
{
    void *p = next.pvalloc(size);
    return likely(watching()) ? came(p, size) : p;
}

INTERPOSED(int, mallopt, int option, int value)
{
    static int (*real)(int, int);
    if (!real)
        real = (int (*)(int, int))(uintptr_t)next_symbol("mallopt");
    int r = real ? real(option, value) : 0;
    if (r && watching()) {
        if (option <= OPTION_TRIM_THRESHOLD && option >= OPTION_MMAP_MAX)
            guest.fixed = true;
        if (option == OPTION_MMAP_THRESHOLD)
            set_threshold((uint64_t)value);
        report_arena(MLW_ARENAS_OPTION, (uint64_t)option, (uint64_t)value, 0);
    }
    return r;
}

INTERPOSED(int, malloc_trim, size_t pad)
{
    static int (*real)(size_t);
    if (!real)
        real = (int (*)(size_t))(uintptr_t)next_symbol("malloc_trim");
    int r = real ? real(pad) : 0;
    if (watching())
        look_at_all();
    return r;
}

/* ---- asked by exec.c and sandbox.c ---- */

bool guest_follows(void) { return watching() && !guest.shared->no_follow; }

const char *const *guest_carried(unsigned *count)
{
    static const char *const carried[] = {"LD_PRELOAD=", MLW_ENV_ARENAS "="};
    *count = sizeof carried / sizeof carried[0];
    return carried;
}

const char *guest_library(void) { return "libmallow-arenas"; }

void guest_exec(const char *path)
{
    (void)path;
    if (watching())
        look_at_all();
}

void guest_exec_failed(void) {}
const char *guest_hand_on(void) { return 0; }
void guest_not_handed(void) {}
void guest_spawned(const char *path) { (void)path; }

const struct guest_call *guest_calls(unsigned *count)
{
    static const struct guest_call calls[] = {
        {SYS_clock_gettime, {CLOCK_MONOTONIC}},
        {SYS_close, {0}},
        {SYS_fstat, {0}},
        {SYS_geteuid, {0}},
        {SYS_getpid, {0}},
        {SYS_getppid, {0}},
        {SYS_gettid, {0}},
        {SYS_madvise, {0, ARCH_PAGE_BYTES, MADV_WIPEONFORK}},
        {SYS_mmap, {0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED}},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK}},
        {SYS_poll, {0}},
        {SYS_prctl, {PR_GET_TSC}},
        {SYS_process_vm_writev, {1, 0, 1, 0}},
        {SYS_rt_sigprocmask, {SIG_BLOCK}},
        {SYS_rt_sigtimedwait, {0}},
        {SYS_sched_yield, {0}},
        {SYS_write, {2, 0, ARCH_PAGE_BYTES}},
    };
    *count = sizeof calls / sizeof *calls;
    return calls;
}

/* Children and new threads can no longer be reported; changes of the arenas can. */
void guest_confine(const struct sock_fprog *program)
{
    static const uint64_t monotonic[4] = {CLOCK_MONOTONIC};
    if (!watching())
        return;
    (void)know_self();
    if (!program)
        guest_clock_freeze();
    else if (!sandbox_harmless(program, SYS_clock_gettime, monotonic))
        guest_clock_confine();
}

void guest_not_confined(void) { guest_clock_restore(); }
void guest_clock_withheld(void) { guest_clock_freeze(); }

void guest_asks(long number, long a, long b, long c) { (void)number, (void)a, (void)b, (void)c; }
