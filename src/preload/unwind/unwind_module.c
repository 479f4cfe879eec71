/* unwind_module.c - the files mapped into the process, each with an id that is never given twice.
 *
 * Owns: the table of modules, found through _dl_find_object (no lock, async-signal-safe) when one
 * of their addresses is first unwound; their build-ids, read from the mapped headers; notifying the
 * host of new and vanished ones. A module that comes back just as it was (file, build-id, place)
 * gets its old id back, announced anew. Threads: any, at the same time, and signal handlers; a slot
 * is claimed by a counter and published by its state, so that two threads which meet the same new
 * module may both register it: two ids for one module, which readers treat as one. The reads of a
 * module's headers are safe because one of its addresses is on the caller's own stack. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "format/file_id.h"
#include "preload/sys.h"
#include "unwind_impl.h"

enum {
    M_EMPTY = 0,
    M_QUIET, /* known, not yet announced: only when the loader cannot be asked later */
    M_LIVE,
    M_GONE
};

#define BUILD_ID_MAX   32
#define PATH_MAX_BYTES 4096
#define PER_BLOCK      128u /* modules */

struct module {
    uint32_t state; /* M_*: written last */
    uint32_t id;
    uint32_t checked_generation;
    uint64_t start, end, bias;
    const void *map;  /* link_map */
    const char *name; /* M_QUIET only */
    struct uw_cfi cfi;
    uint64_t path_hash;
    const uint8_t *build_id_at;     /* in the mapped file's first page; NULL: not there */
    uint8_t build_id_bytes;         /* 0: neither known */
    uint8_t build_id[BUILD_ID_MAX]; /* or a mlw_file_id */
};

static struct {
    int (*find_object)(void *, struct dl_find_object *);
    struct module *blocks[(UW_MODULES_MAX + PER_BLOCK - 1) / PER_BLOCK]; /* id i is slot i - 1 */
    uint32_t count; /* slots claimed; may run beyond the last block */
    uint32_t last;  /* slot of the one found last: a guess */
    char exe[PATH_MAX_BYTES];
    bool by_linker;            /* which was started as a program: exe is not that of /proc */
    const Elf64_Phdr *program; /* the program headers of the executable */
    unsigned program_headers;
} modules;

/* The loader's description of one object. */
struct object {
    uint64_t start, end, bias;
    const void *map;
    const uint8_t *hdr;
    const char *name;
};

static uint64_t hash_string(const char *s)
{
    uint64_t h = 0xcbf29ce484222325;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3;
    return h;
}

static bool starts_with(const char *s, const char *prefix)
{
    for (; *prefix; s++, prefix++)
        if (*s != *prefix)
            return false;
    return true;
}

/* The program headers: the kernel's word for the executable (when its segments have gaps between
 * them, the loader reports only the one that holds the code), else what the first mapped page
 * holds, when it begins with an ELF header. */
static const Elf64_Phdr *headers(const struct object *o, unsigned *n)
{
    if (o->map && o->name && !*o->name && modules.program) {
        *n = modules.program_headers;
        return modules.program;
    }
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)o->start;
    if (o->end - o->start < ARCH_PAGE_BYTES || __builtin_memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
        e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_phentsize != sizeof(Elf64_Phdr) ||
        e->e_phoff > ARCH_PAGE_BYTES ||
        e->e_phnum > (ARCH_PAGE_BYTES - e->e_phoff) / sizeof(Elf64_Phdr))
        return 0;
    *n = e->e_phnum;
    return (const Elf64_Phdr *)(o->start + e->e_phoff);
}

/* Finds the readable segment that holds `at`; the whole object when its headers are not there. */
static void find_segment(const struct object *o, const Elf64_Phdr *ph, unsigned n, uint64_t at,
                         struct uw_cfi *cfi)
{
    cfi->lo = (const uint8_t *)o->start;
    cfi->hi = (const uint8_t *)o->end;
    for (unsigned i = 0; i < n; i++) {
        uint64_t lo = o->bias + ph[i].p_vaddr, hi = lo + ph[i].p_filesz;
        if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_R) || at < lo || at >= hi)
            continue;
        if ((lo >= o->start && hi <= o->end) || ph == modules.program) {
            cfi->lo = (const uint8_t *)lo;
            cfi->hi = (const uint8_t *)hi;
        }
        return;
    }
}

static void find_module_build_id(const struct object *o, const Elf64_Phdr *ph, unsigned n,
                                 struct module *m)
{
    for (unsigned i = 0; i < n; i++) {
        if (ph[i].p_type != PT_NOTE)
            continue;
        uint64_t p = o->bias + ph[i].p_vaddr, end = p + ph[i].p_filesz;
        struct uw_cfi seg;
        find_segment(o, ph, n, p, &seg);
        if (p < (uint64_t)seg.lo || end > (uint64_t)seg.hi || end < p)
            continue;
        uint64_t align = ph[i].p_align == 8 ? 8 : 4;
        while (end - p >= sizeof(Elf64_Nhdr)) {
            Elf64_Nhdr note;
            __builtin_memcpy(&note, (const void *)p, sizeof note);
            uint64_t desc = p + ((sizeof note + note.n_namesz + align - 1) & ~(align - 1));
            uint64_t next = desc + ((note.n_descsz + align - 1) & ~(align - 1));
            if (desc > end || note.n_descsz > end - desc)
                break;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                __builtin_memcmp((const void *)(p + sizeof note), "GNU", 4) == 0 &&
                note.n_descsz <= BUILD_ID_MAX) {
                m->build_id_bytes = (uint8_t)note.n_descsz;
                if (desc >= o->start && desc + note.n_descsz <= o->start + ARCH_PAGE_BYTES)
                    m->build_id_at = (const uint8_t *)desc;
                __builtin_memcpy(m->build_id, (const void *)desc, note.n_descsz);
                return;
            }
            if (next > end)
                break;
            p = next;
        }
    }
}

static const char *module_path(const char *name)
{
    if (!name || !*name)
        return modules.exe;
    return starts_with(name, "linux-vdso.so") ? "[vdso]" : name;
}

/* For a file without a build-id: what a later reader knows it by. The program's own is asked of the
 * kernel, since it may have been removed. */
static void identify_file(const struct object *o, struct module *m)
{
    struct mlw_file_id id = {.magic = MLW_FILE_ID_MAGIC};
    struct stat st;
    const char *path = module_path(o->name);
    if (path == modules.exe && !modules.by_linker)
        path = SELF_EXE;
    if (*path == '[' || !*path)
        return;
    const int fd = (int)sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (!sys_is_error(sys_fstat(fd, &st)) && S_ISREG(st.st_mode)) {
        id.size_bytes = (uint64_t)st.st_size;
        id.mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
        m->build_id_bytes = sizeof id;
        __builtin_memcpy(m->build_id, &id, sizeof id);
    }
    sys_close(fd);
}

static void describe_module(const struct object *o, struct module *m)
{
    unsigned n = 0;
    const Elf64_Phdr *ph = headers(o, &n);
    m->start = o->start;
    m->end = o->end;
    m->bias = o->bias;
    m->map = o->map;
    m->cfi.hdr = o->hdr;
    find_segment(o, ph, n, (uint64_t)o->hdr, &m->cfi);
    m->path_hash = hash_string(module_path(o->name));
    m->build_id_bytes = 0;
    m->build_id_at = 0;
    find_module_build_id(o, ph, n, m);
    if (!m->build_id_bytes)
        identify_file(o, m);
}

/* The slot, or NULL when its block is not there. */
static struct module *slot(uint32_t i)
{
    struct module *b = __atomic_load_n(&modules.blocks[i / PER_BLOCK], __ATOMIC_ACQUIRE);
    return b ? &b[i % PER_BLOCK] : 0;
}

/* A free slot; NULL when there are too many or no memory. */
static struct module *claim_module(void)
{
    uint32_t i = __atomic_load_n(&modules.count, __ATOMIC_RELAXED);
    if (i >= UW_MODULES_MAX)
        return 0;
    i = __atomic_fetch_add(&modules.count, 1, __ATOMIC_ACQ_REL);
    if (i >= UW_MODULES_MAX)
        return 0;
    if (!slot(i)) {
        struct module *block = unwind_host_map(PER_BLOCK * sizeof *block), *none = 0;
        if (!block)
            return 0;
        if (!__atomic_compare_exchange_n(&modules.blocks[i / PER_BLOCK], &none, block, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            unwind_host_unmap(block, PER_BLOCK * sizeof *block);
    }
    struct module *m = slot(i);
    if (m)
        m->id = i + 1;
    return m;
}

static uint32_t claimed(void)
{
    uint32_t n = __atomic_load_n(&modules.count, __ATOMIC_ACQUIRE);
    return n < UW_MODULES_MAX ? n : UW_MODULES_MAX;
}

static bool same_place(const struct module *m, const struct object *o)
{
    return m->start == o->start && m->end == o->end && m->bias == o->bias && m->cfi.hdr == o->hdr;
}

/* A library that the C library itself has unloaded, behind our back, may have left its place to
 * another one. */
static bool same_build_id(const struct module *m)
{
    return !m->build_id_at || __builtin_memcmp(m->build_id_at, m->build_id, m->build_id_bytes) == 0;
}

static bool same_file(const struct module *m, const struct module *other)
{
    return m->path_hash == other->path_hash && m->build_id_bytes == other->build_id_bytes &&
           __builtin_memcmp(m->build_id, other->build_id, m->build_id_bytes) == 0;
}

static void retire(struct module *m, void *ctx)
{
    uint32_t live = M_LIVE;
    if (__atomic_compare_exchange_n(&m->state, &live, M_GONE, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&uw_generation, 1, __ATOMIC_RELEASE);
        unwind_host_module_gone(ctx, m->id);
    }
}

static void announce(struct module *m, const char *path, void *ctx)
{
    unwind_host_module(ctx, m->id, m->start, m->end, m->bias, m->build_id, m->build_id_bytes, path);
}

/* Gives the object an id: a new one, or the one that it had when it was mapped here before. */
static struct module *enter_module(const struct object *o, void *ctx)
{
    struct module fresh = {0};
    describe_module(o, &fresh);
    uint32_t n = claimed();
    for (uint32_t i = 0; i < n; i++) {
        struct module *m = slot(i);
        uint32_t state = m ? __atomic_load_n(&m->state, __ATOMIC_ACQUIRE) : M_EMPTY;
        if (state == M_EMPTY || m->start >= o->end || m->end <= o->start)
            continue;
        bool same = same_place(m, o) && same_file(m, &fresh);
        if (state == M_LIVE && same) {
            __atomic_store_n(&m->map, o->map, __ATOMIC_RELAXED);
            return m;
        }
        if (state == M_LIVE)
            retire(m, ctx);
        else if (same && m->build_id_bytes) {
            announce(m, module_path(o->name), ctx);
            __atomic_store_n(&m->map, o->map, __ATOMIC_RELAXED);
            __atomic_store_n(&m->state, M_LIVE, __ATOMIC_RELEASE);
            return m;
        }
    }
    struct module *m = claim_module();
    if (!m)
        return 0;
    fresh.id = m->id;
    *m = fresh;
    announce(m, module_path(o->name), ctx);
    __atomic_store_n(&m->state, M_LIVE, __ATOMIC_RELEASE);
    return m;
}

static bool ask_loader(uint64_t address, struct object *o)
{
    struct dl_find_object found;
    if (modules.find_object((void *)address, &found) != 0)
        return false;
    const struct link_map *map = found.dlfo_link_map;
    *o = (struct object){(uint64_t)found.dlfo_map_start,
                         (uint64_t)found.dlfo_map_end,
                         map ? map->l_addr : 0,
                         map,
                         found.dlfo_eh_frame,
                         map ? map->l_name : ""};
    return true;
}

bool uw_module_find(uint64_t address, struct uw_cfi *cfi, uint32_t *id, void *ctx)
{
    struct object o;
    struct module *m = 0;
    uint32_t n = claimed();
    uint32_t generation = __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE);
    uint32_t guess = __atomic_load_n(&modules.last, __ATOMIC_RELAXED);
    if (!modules.find_object) { /* only mappings of the start are known */
        for (uint32_t i = 0; i < n; i++) {
            struct module *c = slot(i);
            if (!c || address < c->start || address >= c->end)
                continue;
            if (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == M_QUIET) {
                announce(c, c->name, ctx); /* twice by two threads is as good as once */
                __atomic_store_n(&c->state, M_LIVE, __ATOMIC_RELEASE);
            }
            *cfi = c->cfi;
            *id = c->id;
            return true;
        }
        return false;
    }
    if (!ask_loader(address, &o))
        return false;
    for (uint32_t i = 0; i <= n; i++) {
        uint32_t at = i == 0 ? guess : i - 1;
        if (at >= n)
            continue;
        struct module *c = slot(at);
        if (c && __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) == M_LIVE && same_place(c, &o) &&
            __atomic_load_n(&c->map, __ATOMIC_RELAXED) == o.map && same_build_id(c) &&
            __atomic_load_n(&c->checked_generation, __ATOMIC_RELAXED) == generation) {
            m = c;
            break;
        }
    }
    if (!m) {
        m = enter_module(&o, ctx);
        if (m)
            __atomic_store_n(&m->checked_generation,
                             __atomic_load_n(&uw_generation, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
    }
    if (!m) { /* more modules than ids: the frames are right, their module is unknown */
        unsigned phs = 0;
        const Elf64_Phdr *ph = headers(&o, &phs);
        cfi->hdr = o.hdr;
        find_segment(&o, ph, phs, (uint64_t)o.hdr, cfi);
        *id = 0;
        return true;
    }
    __atomic_store_n(&modules.last, m->id - 1, __ATOMIC_RELAXED);
    *cfi = m->cfi;
    *id = m->id;
    return true;
}

bool uw_modules_sweep(void *ctx)
{
    bool any = false;
    uint32_t n = claimed();
    if (!modules.find_object)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct module *m = slot(i);
        if (!m || __atomic_load_n(&m->state, __ATOMIC_ACQUIRE) != M_LIVE)
            continue;
        /* Only the loader's own record is compared: another thread may be unmapping it. */
        struct dl_find_object found;
        bool there = modules.find_object((void *)m->start, &found) == 0 &&
                     (uint64_t)found.dlfo_map_start == m->start &&
                     (uint64_t)found.dlfo_map_end == m->end &&
                     found.dlfo_eh_frame == (const void *)m->cfi.hdr &&
                     found.dlfo_link_map == __atomic_load_n(&m->map, __ATOMIC_RELAXED);
        if (!there) {
            retire(m, ctx);
            any = true;
        }
    }
    return any;
}

/* Without _dl_find_object: everything that is mapped at the start. */
static int enter_from_headers(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    (void)data;
    struct object o = {~(uint64_t)0, 0, info->dlpi_addr, 0, 0, info->dlpi_name};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *ph = &info->dlpi_phdr[i];
        uint64_t lo = info->dlpi_addr + ph->p_vaddr, hi = lo + ph->p_memsz;
        if (ph->p_type == PT_LOAD) {
            o.start = lo < o.start ? lo & ~(ARCH_PAGE_BYTES - 1) : o.start;
            o.end = hi > o.end ? hi : o.end;
        } else if (ph->p_type == PT_GNU_EH_FRAME) {
            o.hdr = (const uint8_t *)lo;
        }
    }
    struct module *m = o.start < o.end ? claim_module() : 0;
    if (m) {
        uint32_t id = m->id;
        describe_module(&o, m);
        m->id = id;
        m->name = module_path(o.name);
        m->state = M_QUIET;
    }
    return 0;
}

/* The file that is mapped at the address, as the kernel says it. */
static size_t mapped_file(uint64_t address, char *to, size_t room)
{
    enum { FROM, TO, FIELDS, FILE_NAME } part = FROM;
    char text[512];
    uint64_t from = 0, n = 0;
    size_t length = 0;
    bool found = false;
    long got = 0;
    const int fd = (int)sys_openat(AT_FDCWD, SELF_MAPS, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    while (!found && (got = sys_read(fd, text, sizeof text)) > 0)
        for (long i = 0; i < got && !found; i++) {
            const char c = text[i];
            if (c == '\n') {
                found = length != 0;
                part = FROM;
                n = 0;
            } else if (part == FROM && c == '-') {
                part = TO;
                from = n;
                n = 0;
            } else if (part == TO && c == ' ') {
                part = FIELDS;
            } else if (part == FROM || part == TO) {
                n = n << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
            } else if (part == FIELDS && c == '/') {
                part = FILE_NAME;
            }
            if (part == FILE_NAME && address >= from && address < n && length + 1 < room)
                to[length++] = c;
        }
    sys_close(fd);
    to[length] = 0;
    return found ? length : 0;
}

/* The kernel maps a linker beside the program, unless the linker is what it was asked to run. */
static size_t find_program(char *to, size_t room)
{
    size_t length = 0;
    if (!getauxval(AT_BASE))
        length = mapped_file(getauxval(AT_PHDR), to, room);
    if (!length) {
        const long n = sys_readlinkat(AT_FDCWD, SELF_EXE, to, room - 1);
        length = sys_is_error(n) ? 0 : (size_t)n;
    }
    to[length] = 0;
    return length;
}

size_t unwind_program_path(char *to, size_t room)
{
    if (!*modules.exe)
        (void)find_program(modules.exe, sizeof modules.exe);
    size_t n = __builtin_strlen(modules.exe);
    n = n < room ? n : room - 1;
    __builtin_memcpy(to, modules.exe, n);
    to[n] = 0;
    return n;
}

int uw_modules_init(void *dl_find_object)
{
    if (!*modules.exe)
        (void)find_program(modules.exe, sizeof modules.exe);
    modules.by_linker = !getauxval(AT_BASE);
    __builtin_memcpy(&modules.find_object, &dl_find_object, sizeof dl_find_object);
    modules.program = (const Elf64_Phdr *)getauxval(AT_PHDR);
    modules.program_headers = (unsigned)getauxval(AT_PHNUM);
    if (!dl_find_object)
        dl_iterate_phdr(enter_from_headers, 0);
    return 0;
}

void uw_modules_forget(void)
{
    const uint32_t n = claimed();
    for (uint32_t i = 0; i < n; i++)
        if (slot(i))
            slot(i)->state = M_EMPTY;
    modules.count = modules.last = 0;
}
