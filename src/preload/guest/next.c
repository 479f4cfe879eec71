/* next.c - the allocator behind us, and what must work before it is known.
 *
 * dlsym may itself allocate (it reports a missing symbol in allocated text), so until the functions
 * behind us are known a small allocator serves from a static buffer and never takes anything back.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "arch/page.h"
#include "arch/system.h"
#include "glibc/versions.h"
#include "preload/guest.h"
#include "preload/guest/module.h"
#include "preload/sys.h"

#define BOOT_BYTES 65536u

static uint8_t boot_memory[BOOT_BYTES] __attribute__((aligned(16)));
static volatile uint32_t boot_used;

static void *boot_take(size_t align, size_t size)
{
    if (align < 16)
        align = 16;
    if (size > BOOT_BYTES || align > ARCH_PAGE_BYTES)
        return 0;
    uint32_t need = (uint32_t)(size + 16 + align) & ~15u;
    uint32_t at = __atomic_fetch_add(&boot_used, need, __ATOMIC_RELAXED);
    if (at > BOOT_BYTES || need > BOOT_BYTES - at)
        return 0;
    uintptr_t p = ((uintptr_t)boot_memory + at + 16 + align - 1) & ~(uintptr_t)(align - 1);
    ((size_t *)p)[-1] = size;
    return (void *)p;
}

static bool boot_owns(const void *p) { return (uintptr_t)p - (uintptr_t)boot_memory < BOOT_BYTES; }

bool next_is_early(const void *p) { return boot_owns(p); }

static void *boot_malloc(size_t size) { return boot_take(16, size); }

static void *boot_calloc(size_t n, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(n, size, &total) ? 0 : boot_take(16, total);
}

static void *boot_realloc(void *old, size_t size)
{
    void *p = boot_take(16, size);
    if (p && old) {
        size_t have = ((size_t *)old)[-1];
        memcpy(p, old, have < size ? have : size);
    }
    return p;
}

static void *boot_reallocarray(void *old, size_t n, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(n, size, &total) ? 0 : boot_realloc(old, total);
}

static void boot_free(void *p) { (void)p; }
static void *boot_aligned(size_t align, size_t size) { return boot_take(align, size); }

static int boot_posix_memalign(void **to, size_t align, size_t size)
{
    void *p = boot_take(align, size);
    if (!p)
        return 12; /* ENOMEM */
    *to = p;
    return 0;
}

static void *boot_valloc(size_t size) { return boot_take(ARCH_PAGE_BYTES, size); }
static void boot_free_sized(void *p, size_t size) { (void)p, (void)size; }
static void boot_free_aligned(void *p, size_t a, size_t s) { (void)p, (void)a, (void)s; }
static size_t boot_usable(void *p) { return p ? ((size_t *)p)[-1] : 0; }

/* The program's own calls, where no function behind us makes them. */
static void *raw_mmap(void *at, size_t n, int prot, int flags, int fd, off_t from)
{
    long r = sys_decided(SYS_mmap, (long)at, (long)n, prot, flags, fd, from);
    return sys_is_error(r) ? MAP_FAILED : (void *)r;
}

static int raw_munmap(void *p, size_t n)
{
    return sys_decided(SYS_munmap, (long)p, (long)n, 0, 0, 0, 0) ? -1 : 0;
}

static void *raw_mremap(void *p, size_t old, size_t n, int flags, void *to)
{
    long r = sys_decided(SYS_mremap, (long)p, (long)old, (long)n, flags, (long)to, 0);
    return sys_is_error(r) ? MAP_FAILED : (void *)r;
}

static int no_brk(void *p)
{
    (void)p;
    return -1;
}

static void *no_sbrk(intptr_t n)
{
    (void)n;
    return (void *)-1;
}

#define BOOT(result, name, parameters, arguments, kind, found, boot, missing) .name = (boot),
struct next_functions next = {NEXT_EXPORTED(BOOT) NEXT_MAPPINGS(BOOT)}; /* jemalloc's own: none */
#undef BOOT

struct next_facts next_facts;

/* Blocks of the small allocator may come back later: these stand before the real functions when any
 * was handed out. */
static struct next_functions real;

static void mixed_free(void *p)
{
    if (!boot_owns(p))
        real.free(p);
}

static void mixed_free_sized(void *p, size_t size)
{
    if (!boot_owns(p))
        real.free_sized(p, size);
}

static void mixed_free_aligned(void *p, size_t align, size_t size)
{
    if (!boot_owns(p))
        real.free_aligned_sized(p, align, size);
}

static void *mixed_realloc(void *old, size_t size)
{
    if (!boot_owns(old))
        return real.realloc(old, size);
    void *p = real.malloc(size);
    if (p) {
        size_t have = boot_usable(old);
        memcpy(p, old, have < size ? have : size);
    }
    return p;
}

static void *mixed_reallocarray(void *old, size_t n, size_t size)
{
    size_t total;
    if (!boot_owns(old))
        return real.reallocarray(old, n, size);
    return __builtin_mul_overflow(n, size, &total) ? 0 : mixed_realloc(old, total);
}

static size_t mixed_usable(void *p)
{
    return boot_owns(p) ? boot_usable(p) : real.malloc_usable_size(p);
}

/* Functions that an older C library lacks; reallocarray always, and free_sized with glibc's malloc,
 * because glibc's call realloc and free by their public names and so would be recorded twice. */
static void missing_free_sized(void *p, size_t size)
{
    (void)size;
    real.free(p);
}

static void missing_free_aligned(void *p, size_t align, size_t size)
{
    (void)align, (void)size;
    real.free(p);
}

static void *missing_reallocarray(void *old, size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        total = SIZE_MAX; /* which no realloc can serve: it fails and sets errno as it should */
    return real.realloc(old, total);
}

static size_t missing_usable(void *p)
{
    (void)p;
    return 0;
}

static void *missing_aligned(size_t align, size_t size)
{
    void *p = 0;
    return real.posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, size) ? 0 : p;
}

static void *missing_valloc(size_t size) { return missing_aligned(ARCH_PAGE_BYTES, size); }
static void *missing_pvalloc(size_t size)
{
    return missing_aligned(ARCH_PAGE_BYTES,
                           (size + (ARCH_PAGE_BYTES - 1)) & ~(ARCH_PAGE_BYTES - 1));
}

void *next_behind(void **member)
{
    void *found;
    memcpy(&found, (const char *)&real + ((const char *)member - (const char *)&next),
           sizeof found);
    return found;
}

/* ---- functions that are needed later ---- */

/* In the child of a fork a thread that is not there may hold the dynamic linker's lock for good, so
 * nothing may be searched for there: these are found at the beginning. They are what our entries
 * forward to, between fork and exec too. */
static struct module_wanted later[] = {
    {"dlclose", 0}, {"execve", 0},      {"execveat", 0},     {"execvpe", 0},    {"fexecve", 0},
    {"fork", 0},    {"malloc_trim", 0}, {"mallopt", 0},      {"mlockall", 0},   {"posix_spawn", 0},
    {"prctl", 0},   {"prlimit", 0},     {"posix_spawnp", 0}, {"quick_exit", 0}, {"setrlimit", 0},
    {"signal", 0},  {"sigaction", 0},   {"syscall", 0},      {"sysv_signal", 0}};

static void find_later(void) { module_behind_all(later, sizeof later / sizeof *later); }

void *next_later(const char *name)
{
    for (unsigned i = 0; i < sizeof later / sizeof *later; i++)
        if (!strcmp(later[i].name, name))
            return later[i].found;
    return 0;
}

/* bindings.c has its own: RTLD_NEXT would find ours. */
__attribute__((weak)) void *next_symbol(const char *name)
{
    void *f = next_later(name);
    if (!f)
        f = module_behind(name);
    return f ? f : dlsym(RTLD_NEXT, name);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct loaded {
    const char *library, *path;
};

static int visit_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct loaded *l = (struct loaded *)arg;
    (void)size;
    if (strcmp(base_name(info->dlpi_name), l->library) != 0)
        return 0;
    l->path = info->dlpi_name;
    return 1;
}

/* dlopen gets the path of the loaded library: for a name it would search for the file. */
void *next_loaded(const char *library, const char *name)
{
    struct loaded l = {library, 0};
    if (!dl_iterate_phdr(visit_loaded, &l))
        return 0;
    void *handle = dlopen(l.path, RTLD_LAZY | RTLD_NOLOAD);
    return handle ? dlsym(handle, name) : 0;
}

/* True: the environment asks glibc for huge pages of the kernel's pool: glibc.malloc.hugetlb is 2,
 * or the size of one; 1 asks for transparent ones, which change no layout. */
static bool wants_huge_heaps(void)
{
    extern char **environ;
    static const char name[] = "glibc.malloc.hugetlb=";
    bool wants = false;
    for (char **e = environ; e && *e; e++)
        for (const char *at = strncmp(*e, "GLIBC_TUNABLES=", 15) ? 0 : strstr(*e, name); at;
             at = strstr(at, name)) {
            at += sizeof name - 1;
            wants = !(at[0] == '0' || at[0] == '1') || (at[1] && at[1] != ':');
        }
    return wants;
}

static int visit_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *valgrind = strstr(info->dlpi_name, "/vgpreload_");
    uint64_t at = (uint64_t)real.malloc, low = UINT64_MAX, high = 0;
    (void)size;
    /* its tools put their own allocator in the place of whatever is there */
    if (valgrind && strncmp(valgrind, "/vgpreload_core", 15) != 0)
        *(bool *)arg = true;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_LOAD)
            continue;
        uint64_t from = info->dlpi_addr + ph->p_vaddr, to = from + ph->p_memsz;
        if (from < low)
            low = from;
        if (to > high)
            high = to;
    }
    if (at < low || at >= high)
        return 0;
    next_facts.start = low;
    next_facts.end = high;
    const char *name = base_name(info->dlpi_name);
    strncpy(next_facts.name, name, sizeof next_facts.name - 1);
    return 0;
}

static void learn_facts(void)
{
    next_facts.dl_find_object = module_behind("_dl_find_object");
    void **end = (void **)dlsym(RTLD_DEFAULT, "__libc_stack_end");
    next_facts.stack_end = end ? *end : 0;
    bool replaced = false;
    dl_iterate_phdr(visit_module, &replaced);
    if (replaced) {
        strcpy(next_facts.name, "valgrind");
        return;
    }
    const char *(*version)(void) =
        (const char *(*)(void))dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    if (version && !strncmp(next_facts.name, "libc.so.6", 9)) {
        next_facts.glibc = next_facts.glibc_behind = true;
        const char *v = version();
        memcpy(next_facts.name, "glibc ", 6);
        strncpy(next_facts.name + 6, v, sizeof next_facts.name - 7);
        const unsigned minor = glibc_minor(v);
        const struct glibc_version *known = glibc_of(minor);
        next_facts.glibc_minor = minor;
        next_facts.huge_heaps = wants_huge_heaps();
        if (known) /* heaps of the smallest huge pages: others are found out when they are looked at
                    */
            next_facts.heap_bytes =
                glibc_heap_bytes(known, next_facts.huge_heaps ? ARCH_HUGE_BYTES : 0);
        next_facts.curbrk = (void *const *)dlsym(RTLD_DEFAULT, "__curbrk");
        return;
    }
    static const char known[][12] = {"jemalloc", "tcmalloc", "mimalloc"};
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(next_facts.name, known[i]))
            strcpy(next_facts.name, known[i]);
}

/* glibc's libc_malloc_debug.so has its functions in versions that are not the default, which a
 * plain dlsym passes over. The program's calls name a version, and lead there. */
static bool by_version;

static const char *version_of(const char *name)
{
    return strcmp(name, "aligned_alloc") ? ARCH_GLIBC_FIRST : "GLIBC_2.16";
}

static int visit_either(struct dl_phdr_info *info, size_t size, void *arg)
{
    void *const *const either = arg;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        const uint64_t from = info->dlpi_addr + ph->p_vaddr;
        for (int k = 0; ph->p_type == PT_LOAD && k < 2; k++)
            if ((uint64_t)either[k] - from < ph->p_memsz)
                return 1 + k;
    }
    return 0;
}

/* True if calls that name a version lead elsewhere than those that name none: modules are visited
 * in the order in which names are searched for. */
static bool leads_by_version(void)
{
    void *either[2] = {real.malloc, dlvsym(RTLD_NEXT, "malloc", version_of("malloc"))};
    return either[1] && either[0] != either[1] && dl_iterate_phdr(visit_either, either) == 2;
}

/* dlsym allocates to say that a symbol is missing. The first call of ours may come from within the
 * allocator behind us, while it makes itself ready (mimalloc maps memory then) and cannot serve. */
static void find_next_functions(enum next_found when)
{
#define FIND(result, name, parameters, arguments, kind, found, boot, missing)                      \
    if ((found) == when && (when != NEXT_NEW || module_behind(#name)))                             \
        real.name = (__typeof__(real.name))(uintptr_t)(by_version ? dlvsym(RTLD_NEXT, #name,       \
                                                                           version_of(#name))      \
                                                                  : dlsym(RTLD_NEXT, #name));
    NEXT_EXPORTED(FIND)
#undef FIND
}

/* The C library has free_sized since 2.43, which is found behind an allocator that has none as
 * well: it is free() by its public name, and would be recorded twice. */
static void keep_own(void)
{
    const uint64_t bytes = next_facts.glibc ? 0 : next_facts.end - next_facts.start;
    if ((uint64_t)real.free_sized - next_facts.start >= bytes)
        real.free_sized = 0;
    if ((uint64_t)real.free_aligned_sized - next_facts.start >= bytes)
        real.free_aligned_sized = 0;
}

static void find_mappings(void)
{
#define FIND(result, name, parameters, ...)                                                        \
    real.name = (__typeof__(real.name))(uintptr_t)dlsym(RTLD_NEXT, #name);
    NEXT_MAPPINGS(FIND)
#undef FIND
}

static void find_stand_ins(void)
{
#define STAND_IN(result, name, parameters, arguments, kind, found, boot, missing)                  \
    if (!real.name)                                                                                \
        real.name = (missing);
    NEXT_EXPORTED(STAND_IN)
    NEXT_MAPPINGS(STAND_IN)
#undef STAND_IN
}

bool next_resolve(void)
{
    static volatile uint32_t stage; /* 0 not begun, 1 under way, 2 known */
    uint32_t zero = 0;
    if (stage == 2)
        return true;
    if (!__atomic_compare_exchange_n(&stage, &zero, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return stage == 2;
    find_next_functions(NEXT_FIRST);
    if (!real.malloc || !real.free || !real.calloc || !real.realloc) {
        stage = 0;
        return false;
    }
    by_version = leads_by_version();
    if (by_version)
        find_next_functions(NEXT_FIRST);
    /* from here on what dlsym allocates comes from the real thing */
    next.malloc = real.malloc;
    next.calloc = real.calloc;
    next.realloc = boot_used ? mixed_realloc : real.realloc;
    next.free = boot_used ? mixed_free : real.free;
    find_next_functions(NEXT_LATER);
    find_next_functions(NEXT_NEW);
    find_mappings();
    learn_facts();
    keep_own();
    find_stand_ins();
    find_later();
    struct next_functions chosen = real;
    if (boot_used) {
        chosen.free = mixed_free;
        chosen.free_sized = mixed_free_sized;
        chosen.free_aligned_sized = mixed_free_aligned;
        chosen.realloc = mixed_realloc;
        chosen.reallocarray = mixed_reallocarray;
        chosen.malloc_usable_size = mixed_usable;
        next_facts.glibc = false; /* its blocks have no chunk headers: ask, do not read */
    }
    next = chosen;
    __atomic_store_n(&stage, 2, __ATOMIC_RELEASE);
    return true;
}
