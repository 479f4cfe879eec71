/* symbols.c - the border of symbol.h: modules, caches, and which source of names is asked first.
 *
 * Owns: one struct module for each (path, build-id), opened when first needed, and one answer for
 * each (module, address of the ELF file). For code of a module DWARF is asked first, then its
 * symbol tables; for code outside all modules the process's perf map.
 */
#include "base/array.h"
#include "symbol/symbol.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <elfutils/libdwelf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/dwarfindex.h"
#include "symbol/elfnames.h"
#include "symbol/intern.h"
#include "symbol/locate.h"
#include "symbol/perfmap.h"
#include "symbol/program.h"
#include "symbol/script.h"

/* How much of decoded DWARF all modules may hold at once; past it all are closed, to be opened
 * again when needed. */
#ifndef SYMBOL_SESSION_BYTES_MAX
#define SYMBOL_SESSION_BYTES_MAX ((size_t)512 << 20)
#endif

struct module {
    struct symbols *owner;
    uint64_t key;            /* hash of path and build-id */
    const char *path, *name; /* interned; name is what answers show */
    uint8_t id[LOCATE_ID_BYTES_MAX];
    size_t id_bytes;
    uint64_t file_bytes, file_mtime_ns, file_sum; /* without a build-id */
    uint32_t pid;                                 /* a process that had it mapped, */
    uint64_t start;                               /* from here on */
    bool opened;                                  /* tried once; dwfl says how that went */
    bool debug_tried;
    bool named; /* the index of symbols is there */
    bool dwarf_tried;
    bool packed;         /* the debug file, by zstd */
    bool is_of_another;  /* the file or its debug information is (program.h) */
    struct located file; /* the descriptor is handed on to libdwfl */
    Dwfl *dwfl;
    Dwfl_Module *mod;
    struct elf_names names;
    struct dwarf_index *dwarf;
    struct locate_notes notes;
    uint64_t nameless;   /* places that were asked for and have no name */
    const char *problem; /* the line for the user, made when asked */
};

/* A cached answer. */
struct answer {
    uint64_t address; /* the address of the ELF file; in the process for JIT code */
    uint32_t module;  /* index; for JIT code the process id with JIT set */
    uint32_t count;   /* 0: the slot is empty */
    struct symbol_frame *frame;
    uint64_t
        start; /* the start of the outermost function, in the same space; UINT64_MAX: unknown */
};

#define JIT (1u << 31)

struct jit {
    uint32_t pid;
    struct perfmap map;
    uint64_t nameless; /* answers that it had no name for */
};

struct symbols {
    pthread_mutex_t lock; /* guards all that follows */
    struct locate locate;
    bool no_inline;
    struct intern strings;
    struct module **module;
    size_t modules, module_room;
    struct scripts scripts;
    struct jit *jit;
    size_t jits, jit_room;
    struct answer *slot; /* open addressing, a power of two */
    size_t slots, used;
    const char **problem;
    struct dwarf_answer *scratch;
    size_t last_module; /* where the search for a module begins */
};

/* ------------------------------------------------------------------ life */

struct symbols *symbols_new(const struct symbol_options *options, struct error *err)
{
    struct symbols *s = calloc(1, sizeof *s);
    if (s && (s->scratch = calloc(1, sizeof *s->scratch)) &&
        locate_init(&s->locate, options) == 0) {
        s->no_inline = options && options->no_inline;
        pthread_mutex_init(&s->lock, NULL);
        elf_version(EV_CURRENT);
        return s;
    }
    if (s)
        free(s->scratch);
    free(s);
    error_memory_for(err, "the table of symbols");
    return NULL;
}

static void close_module(struct module *m)
{
    elf_names_free(&m->names);
    dwarf_index_free(m->dwarf);
    m->dwarf = NULL;
    if (m->dwfl)
        dwfl_end(m->dwfl);
    m->dwfl = NULL;
    m->mod = NULL;
    m->opened = m->named = m->dwarf_tried = m->debug_tried = false;
    free(m->file.path);
    m->file = (struct located){.fd = -1};
}

void symbols_free(struct symbols *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->modules; i++) {
        close_module(s->module[i]);
        free(s->module[i]);
    }
    for (size_t i = 0; i < s->jits; i++)
        perfmap_free(&s->jit[i].map);
    free(s->module);
    free(s->jit);
    scripts_free(&s->scripts);
    free(s->slot);
    free(s->problem);
    free(s->scratch);
    intern_free(&s->strings);
    locate_done(&s->locate);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ------------------------------------------------------------------ modules */

static bool is_vdso(const char *path)
{
    return path && (strcmp(path, "[vdso]") == 0 || strcmp(path, "linux-vdso.so.1") == 0 ||
                    strcmp(path, "linux-gate.so.1") == 0);
}

static struct module *module_for(struct symbols *s, const struct symbol_module *given, uint32_t pid,
                                 size_t *index)
{
    const char *path = given->path ? given->path : "";
    size_t id_bytes = given->build_id ? given->build_id_bytes : 0;
    if (id_bytes > LOCATE_ID_BYTES_MAX)
        id_bytes = LOCATE_ID_BYTES_MAX;
    uint64_t key = intern_hash(path, strlen(path), intern_hash(given->build_id, id_bytes, 0));
    size_t i = s->last_module;
    for (size_t n = 0; n < s->modules; n++, i = i + 1 < s->modules ? i + 1 : 0) {
        struct module *m = s->module[i];
        if (m->key == key && m->id_bytes == id_bytes && m->file_bytes == given->file_bytes &&
            m->file_mtime_ns == given->file_mtime_ns && m->file_sum == given->file_sum &&
            (!id_bytes || memcmp(m->id, given->build_id, id_bytes) == 0) &&
            strcmp(m->path, path) == 0) {
            *index = s->last_module = i;
            return m;
        }
    }
    if (!ARRAY_ROOM(s->module, s->modules + 1, s->module_room))
        return NULL;
    struct module *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    const char *slash = strrchr(path, '/');
    m->owner = s;
    m->key = key;
    m->path = intern_string(&s->strings, path);
    m->name = is_vdso(path) ? "[vdso]" : intern_string(&s->strings, slash ? slash + 1 : path);
    m->file.fd = -1;
    m->id_bytes = id_bytes;
    m->file_bytes = given->file_bytes;
    m->file_mtime_ns = given->file_mtime_ns;
    m->file_sum = given->file_sum;
    m->pid = pid;
    m->start = given->start;
    if (id_bytes)
        memcpy(m->id, given->build_id, id_bytes);
    if (!m->path) {
        free(m);
        return NULL;
    }
    s->module[s->modules] = m;
    *index = s->last_module = s->modules++;
    return m;
}

#define COMPRESSED_BY_ZSTD 2 /* older C libraries have no name for it */

/* True: the file has debug information that is packed by zstd. */
static bool has_zstd(Elf *elf)
{
    size_t names = 0;
    if (!elf || elf_getshdrstrndx(elf, &names))
        return false;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));) {
        GElf_Shdr head;
        GElf_Chdr packed;
        const char *name = gelf_getshdr(s, &head) ? elf_strptr(elf, names, head.sh_name) : NULL;
        if (name && !strcmp(name, ".debug_info") && head.sh_flags & SHF_COMPRESSED &&
            gelf_getchdr(s, &packed))
            return packed.ch_type == COMPRESSED_BY_ZSTD;
    }
    return false;
}

/* libdwfl asks for a separate debug file, and later for the dwz file of that. */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                          const char *file_name, const char *link, GElf_Word crc, char **found)
{
    struct module *m = *userdata;
    struct located at = {.fd = -1};
    GElf_Addr bias;
    (void)name, (void)base;

    if (file_name && link && crc == 0 && locate_is_alternate(file_name, link)) {
        if (locate_alternate(&m->owner->locate, file_name, &at, &m->notes) != 0)
            return -1;
    } else {
        if (m->debug_tried || m->file.is_debug || is_vdso(m->path))
            return -1;
        m->debug_tried = true;
        Elf *elf = dwfl_module_getelf(mod, &bias);
        if (!elf || locate_debug(&m->owner->locate, elf, m->file.path, &at, &m->notes) != 0)
            return -1;
    }
    Elf *found_elf = elf_begin(at.fd, ELF_C_READ, NULL);
    m->packed = has_zstd(found_elf);
    elf_end(found_elf);
    m->is_of_another |= program_is_of_another(at.fd);
    *found = at.path;
    return at.fd;
}

static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                    char **file_name, Elf **elf)
{
    (void)mod, (void)userdata, (void)name, (void)base, (void)file_name, (void)elf;
    return -1; /* each module is reported with its file */
}

/* The vdso is in no file: this process has one, and it serves when it is of the same build. */
static int vdso_file(struct module *m)
{
    const unsigned char *image = (const unsigned char *)getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *header = (const void *)image;
    const void *id;
    size_t id_bytes = 0;

    if (!image || memcmp(image, ELFMAG, SELFMAG) != 0)
        return -1;
    size_t size = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
    int fd = size < (1 << 20) ? memfd_create("vdso", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return -1;
    Elf *elf = NULL;
    if (write(fd, image, size) == (ssize_t)size && (elf = elf_begin(fd, ELF_C_READ, NULL))) {
        ssize_t n = dwelf_elf_gnu_build_id(elf, &id);
        id_bytes = n > 0 ? (size_t)n : 0;
    }
    bool same =
        elf && (m->id_bytes == 0 || (id_bytes == m->id_bytes && memcmp(id, m->id, id_bytes) == 0));
    if (elf)
        elf_end(elf);
    if (same)
        return fd;
    locate_note(&m->notes, "this kernel's vdso is another build");
    close(fd);
    return -1;
}

static bool open_symbol_module(struct symbols *s, struct module *m)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = find_elf,
                                             .find_debuginfo = find_debuginfo,
                                             .section_address = dwfl_offline_section_address};
    struct symbol_module given = {.path = m->path,
                                  .build_id = m->id_bytes ? m->id : NULL,
                                  .build_id_bytes = m->id_bytes,
                                  .file_bytes = m->file_bytes,
                                  .file_mtime_ns = m->file_mtime_ns,
                                  .file_sum = m->file_sum,
                                  .start = m->start};
    if (m->opened)
        return m->mod != NULL;
    m->opened = true;
    if (is_vdso(m->path)) {
        m->file.fd = vdso_file(m);
        m->file.path = strdup(m->path);
        if (m->file.fd < 0)
            return false;
    } else if (locate_module(&s->locate, &given, m->pid, &m->file, &m->notes) != 0) {
        return false;
    }
    m->is_of_another = program_is_of_another(m->file.fd);
    m->dwfl = dwfl_begin(&callbacks);
    if (!m->dwfl) {
        close(m->file.fd);
        return false;
    }
    dwfl_report_begin(m->dwfl);
    m->mod = dwfl_report_elf(m->dwfl, m->name, m->file.path, m->file.fd, 0, true);
    if (!m->mod) {
        locate_note(&m->notes, "%s cannot be read: %s", m->file.path, dwfl_errmsg(-1));
        close(m->file.fd);
    } else {
        void **userdata;
        dwfl_module_info(m->mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
        *userdata = m;
    }
    m->file.fd = -1; /* libdwfl's now */
    dwfl_report_end(m->dwfl, NULL, NULL);
    return m->mod != NULL;
}

/* elfutils before 0.189, or built without zstd, finds nothing there and says so in no way. */
static bool dwarf_is_packed(struct module *m, Dwarf *dwarf)
{
    Dwarf_Off next;
    size_t head_bytes;
    GElf_Addr bias;
    if (dwarf && !dwarf_nextcu(dwarf, 0, &next, &head_bytes, NULL, NULL, NULL))
        return false;
    return m->packed || has_zstd(dwarf ? dwarf_getelf(dwarf) : dwfl_module_getelf(m->mod, &bias));
}

static struct dwarf_index *dwarf_of(struct module *m)
{
    Dwarf_Addr bias = 0;
    if (m->dwarf_tried)
        return m->dwarf;
    m->dwarf_tried = true;
    Dwarf *dwarf = dwfl_module_getdwarf(m->mod, &bias);
    if (dwarf_is_packed(m, dwarf))
        locate_note(&m->notes,
                    "its debug sections are compressed with zstd, which this libdw (elfutils %s) "
                    "cannot read, so no inlined functions and no lines",
                    dwfl_version(NULL));
    else if (dwarf && m->is_of_another && program_leads_elsewhere(dwarf))
        locate_note(&m->notes, "its debug information is another user's and names a shared file "
                               "(dwz), so it is not used");
    else if (dwarf)
        m->dwarf = dwarf_index_new(dwarf, bias, !m->is_of_another);
    else if (!is_vdso(m->path))
        locate_note(&m->notes,
                    "no debug information (%s), so no inlined functions and no lines; install its "
                    "debug package, or set DEBUGINFOD_URLS to a server that has it",
                    dwfl_errmsg(-1));
    return m->dwarf;
}

static const struct elf_name *elf_name_at(struct module *m, uint64_t address)
{
    if (!m->named) {
        m->named = true;
        if (elf_names_build(&m->names, m->mod) == 0 && m->names.count == 0)
            locate_note(&m->notes, "no symbols");
    }
    return elf_names_find(&m->names, address);
}

/* ------------------------------------------------------------------ names */

/* How much of a symbol's name is the function's: without a version (name@VERSION, name@@VERSION),
 * and without what a compiler adds to its copies and parts of a function, which DWARF does not
 * have. */
static size_t name_length(const char *name)
{
    static const char *const added[] = {".cold", ".constprop.", ".isra.", ".part.", ".lto_priv."};
    size_t n = strcspn(name, "@");
    n = n ? n : strlen(name);
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        const char *at = strstr(name, added[i]);
        if (at && at > name && (size_t)(at - name) < n)
            n = (size_t)(at - name);
    }
    return n;
}

/* The readable form of a name from a symbol table or from DWARF, interned. */
static const char *readable_name(struct symbols *s, const char *name, bool is_plt)
{
    char *plain = NULL, *text, *with_plt = NULL;
    const char *result;
    size_t length = name_length(name);
    if (name[length]) {
        plain = strndup(name, length);
        if (plain)
            name = plain;
    }
    text = symbol_demangle(name);
    if (text)
        name = text;
    if (is_plt && asprintf(&with_plt, "%s@plt", name) >= 0)
        name = with_plt;
    result = intern_string(&s->strings, name);
    free(plain);
    free(text);
    free(with_plt);
    return result;
}

static const char *frame_name(struct symbols *s, const struct dwarf_frame *frame)
{
    if (frame->linkage_name)
        return readable_name(s, frame->linkage_name, false);
    return intern_string(&s->strings, frame->name);
}

/* A source path as the compiler wrote it, from its directory on, without "./" inside. */
static const char *source_path(struct symbols *s, const char *directory, const char *file)
{
    char *path = NULL;
    const char *result;
    if (!file)
        return NULL;
    while (file[0] == '.' && file[1] == '/' && file[2])
        file += 2;
    if (*file == '/' || !directory || !*directory || strcmp(directory, ".") == 0 ||
        asprintf(&path, "%s/%s", directory, file) < 0)
        path = strdup(file);
    if (!path)
        return NULL;
    char *to = path;
    for (const char *from = path; *from;) {
        if (from[0] == '/' && from[1] == '.' && from[2] == '/')
            from += 2;
        else if (from[0] == '/' && from[1] == '/')
            from++;
        else
            *to++ = *from++;
    }
    *to = '\0';
    result = intern_string(&s->strings, path);
    free(path);
    return result;
}

static void keep_within_bounds(struct symbols *s)
{
    size_t held = 0;
    for (size_t i = 0; i < s->modules; i++)
        held += s->module[i]->dwarf ? dwarf_index_size_bytes(s->module[i]->dwarf) : 0;
    for (size_t i = 0; held > SYMBOL_SESSION_BYTES_MAX && i < s->modules; i++)
        close_module(s->module[i]);
}

/* Fills a->frame, in the memory of s. */
static int resolve(struct symbols *s, struct module *m, uint64_t address, struct answer *a)
{
    struct dwarf_answer *d = s->scratch;
    const struct elf_name *symbol = NULL;
    size_t count = 1;

    memset(d, 0, sizeof *d);
    a->start = UINT64_MAX;
    if (open_symbol_module(s, m)) {
        struct dwarf_index *dwarf = s->no_inline ? NULL : dwarf_of(m);
        if (dwarf)
            dwarf_index_find(dwarf, address, d);
        symbol = elf_name_at(m, address);
        if (d->frames)
            count = d->frames;
    }
    a->frame = intern_memory(&s->strings, count * sizeof *a->frame);
    if (!a->frame)
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct symbol_frame *f = &a->frame[i];
        f->module = m->name && *m->name ? m->name : NULL;
        f->file = source_path(s, d->directory, d->frame[i].file);
        f->line = d->frame[i].line;
        f->inlined = i + 1 < count;
        f->function = frame_name(s, &d->frame[i]);
    }
    struct symbol_frame *outer = &a->frame[count - 1];
    if (d->frames)
        a->start = d->start;
    /* One name, with and without DWARF: of those that begin where the function does, the symbol
     * table's choice. DWARF has that of the definition (__libc_start_main_impl, _IO_puts), whatever
     * name it is known by. Behind that, the symbol counts when DWARF does not name the function, or
     * not with its scope. */
    const struct dwarf_frame *last = d->frames ? &d->frame[d->frames - 1] : NULL;
    bool same = symbol && !symbol->is_plt && symbol->start == d->start;
    bool unsure = !last || (!last->linkage_name && (d->scoped || !last->name));
    if (symbol && !same && !unsure)
        symbol = NULL;
    if (symbol && (same || !outer->function || strncmp(symbol->text, "_Z", 2) == 0 ||
                   strncmp(symbol->text, "_R", 2) == 0 || strncmp(symbol->text, "_D", 2) == 0))
        outer->function = readable_name(s, symbol->text, symbol->is_plt);
    if (symbol && a->start == UINT64_MAX)
        a->start = symbol->start;
    a->count = (uint32_t)count;
    keep_within_bounds(s);
    return 0;
}

/* ------------------------------------------------------------------ JIT code */

static struct jit *find_jit(struct symbols *s, uint32_t pid)
{
    for (size_t i = 0; i < s->jits; i++)
        if (s->jit[i].pid == pid)
            return &s->jit[i];
    return NULL;
}

static struct jit *jit_for(struct symbols *s, uint32_t pid)
{
    struct jit *j = find_jit(s, pid);
    if (j || !ARRAY_ROOM(s->jit, s->jits + 1, s->jit_room))
        return j;
    j = &s->jit[s->jits++];
    j->pid = pid;
    perfmap_read(&j->map, pid); /* none: an empty map */
    return j;
}

/* Names the one frame of an answer that has no name, where the map has one. */
static void name_jit(struct symbols *s, struct jit *j, struct answer *a)
{
    uint64_t start = 0;
    const char *name = perfmap_find(&j->map, a->address, &start);
    if (!name)
        return;
    j->nameless--;
    a->start = start;
    if (script_frame(&s->scripts, &s->strings, name, a->frame))
        return;
    a->frame->function = readable_name(s, name, false);
    a->frame->module = "[jit]";
}

static int resolve_jit(struct symbols *s, uint32_t pid, struct answer *a)
{
    struct jit *j = jit_for(s, pid);
    a->frame = intern_memory(&s->strings, sizeof *a->frame);
    if (!a->frame)
        return -1;
    a->count = 1;
    a->start = UINT64_MAX;
    if (j) {
        j->nameless++;
        name_jit(s, j, a);
    }
    return 0;
}

bool symbols_renew(struct symbols *s, uint32_t pid)
{
    struct perfmap again;
    pthread_mutex_lock(&s->lock);
    struct jit *const j = find_jit(s, pid);
    const bool renewed =
        j && j->nameless && perfmap_changed(&j->map, pid) && !perfmap_read(&again, pid);
    if (renewed) {
        perfmap_free(&j->map);
        j->map = again;
    }
    for (size_t i = 0; renewed && i < s->slots; i++)
        if (s->slot[i].count && s->slot[i].module == (JIT | pid) && !s->slot[i].frame->function)
            name_jit(s, j, &s->slot[i]);
    pthread_mutex_unlock(&s->lock);
    return renewed;
}

/* ------------------------------------------------------------------ looking up */

static size_t slot_of(const struct symbols *s, uint32_t module, uint64_t address)
{
    uint64_t key = (address ^ (uint64_t)module << 48) * 0x9e3779b97f4a7c15u;
    return (key ^ key >> 31) & (s->slots - 1);
}

static int grow_slots(struct symbols *s)
{
    struct answer *old = s->slot;
    size_t n = s->slots;
    size_t slots = n ? n * 2 : 1024;
    struct answer *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return -1;
    s->slot = slot;
    s->slots = slots;
    for (size_t i = 0; i < n; i++) {
        if (!old[i].count)
            continue;
        size_t j = slot_of(s, old[i].module, old[i].address);
        while (slot[j].count)
            j = (j + 1) & (slots - 1);
        slot[j] = old[i];
    }
    free(old);
    return 0;
}

static size_t copy_out(const struct answer *a, uint64_t address, struct symbol_frame *frames,
                       size_t max)
{
    size_t n = a->count < max ? a->count : max;
    memcpy(frames, a->frame, n * sizeof *frames);
    if (n == a->count && a->start != UINT64_MAX)
        frames[n - 1].offset = address - a->start;
    return n;
}

/* With the lock held; max: 1 at least. */
static size_t look_up_address(struct symbols *s, const struct symbol_module *module, uint32_t pid,
                              uint64_t address, bool is_return, struct symbol_frame *frames,
                              size_t max)
{
    struct answer found = {0};
    size_t index = 0;
    struct module *m = NULL;
    uint64_t shown, at;

    frames[0] = (struct symbol_frame){0};
    shown = module ? address - module->bias : address;
    at = is_return && address ? shown - 1 : shown;
    found.address = at;
    if (module) {
        m = module_for(s, module, pid, &index);
        if (!m)
            return 1;
        found.module = (uint32_t)index;
    } else {
        found.module = JIT | pid;
    }
    if (s->used * 4 >= s->slots * 3 && grow_slots(s) != 0)
        return 1;
    size_t i = slot_of(s, found.module, at);
    for (; s->slot[i].count; i = (i + 1) & (s->slots - 1))
        if (s->slot[i].address == at && s->slot[i].module == found.module)
            return copy_out(&s->slot[i], shown, frames, max);
    if ((m ? resolve(s, m, at, &found) : resolve_jit(s, pid, &found)) != 0)
        return 1;
    if (m && !found.frame[found.count - 1].function)
        m->nameless++;
    s->slot[i] = found;
    s->used++;
    return copy_out(&found, shown, frames, max);
}

size_t symbols_lookup(struct symbols *s, const struct symbol_module *module, uint32_t pid,
                      uint64_t address, bool is_return, struct symbol_frame *frames, size_t max)
{
    if (max == 0)
        return 0;
    pthread_mutex_lock(&s->lock);
    const size_t n = look_up_address(s, module, pid, address, is_return, frames, max);
    pthread_mutex_unlock(&s->lock);
    return n;
}

static int compare_frame_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In the order of their texts: in which order modules were first met depends on threads. */
size_t symbols_problems(struct symbols *s, const char *const **text)
{
    size_t count = 0;
    const char **problem = calloc(s->modules + s->jits + 1, sizeof *problem);
    *text = NULL;
    if (!problem)
        return 0;
    for (size_t i = 0; i < s->modules; i++) {
        struct module *m = s->module[i];
        char *line = NULL;
        if (!m->notes.text[0])
            continue;
        char nameless[80] = "";
        if (m->nameless)
            snprintf(nameless, sizeof nameless, "%" PRIu64 " place%s ha%s no name; ", m->nameless,
                     m->nameless == 1 ? "" : "s", m->nameless == 1 ? "s" : "ve");
        if (asprintf(&line, "%s: %s%s", *m->path ? m->path : "(no path)", nameless, m->notes.text) <
            0)
            continue;
        problem[count] = intern_string(&s->strings, line);
        count += problem[count] != NULL;
        free(line);
    }
    for (size_t i = 0; i < s->jits; i++) {
        char line[96];
        if (!s->jit[i].map.cut)
            continue;
        snprintf(line, sizeof line, "/tmp/perf-%" PRIu32 ".map: longer than %d MiB: read to there",
                 s->jit[i].pid, PERFMAP_BYTES_MAX >> 20);
        problem[count] = intern_string(&s->strings, line);
        count += problem[count] != NULL;
    }
    qsort(problem, count, sizeof *problem, compare_frame_texts);
    free(s->problem);
    s->problem = problem;
    *text = problem;
    return count;
}
