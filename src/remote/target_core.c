/* target_core.c - core files, of the kernel and of gdb's gcore; see target.h. All that a core says
 * is checked against its size and against what addresses can be. */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <unistd.h>

#include "arch/system.h"
#include "arch/page.h"
#include "remote/live.h"
#include "remote/target.h"
#include "trust/file.h"

enum { NOTES_BYTES_MAX = 256 << 20, SEGMENTS_MAX = 1 << 20, FILES_OPEN_MAX = 1024 };

struct segment { /* bytes of the core */
    uint64_t start, bytes, offset;
};

struct core_file { /* a mapped file, for what the core leaves out */
    uint64_t start, end, offset;
    uint32_t path; /* in the target's list */
};

struct core {
    int fd;
    uint64_t size;
    struct segment *segments; /* sorted */
    size_t segment_count;
    struct core_file *files; /* sorted */
    size_t file_count;
    int *fds; /* that were given, once each */
    size_t fd_count;
    int *fd_of; /* by path; -1: none */
    size_t fd_of_count;
    uint64_t segments_bytes, notes_bytes;
    bool truncated, notes_cut, files_cut;
};

static size_t read_at(int fd, void *into, size_t bytes, uint64_t offset)
{
    return offset > INT64_MAX - bytes ? 0 : trust_read(fd, into, bytes, offset);
}

/* The first that ends behind the address, or NULL. */
static const struct segment *segment_from(const struct core *c, uint64_t address)
{
    size_t low = 0, high = c->segment_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->segments[middle].start + c->segments[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->segment_count ? &c->segments[low] : NULL;
}

static const struct core_file *file_at(const struct core *c, uint64_t address)
{
    size_t low = 0, high = c->file_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->files[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->file_count && c->files[low].start <= address ? &c->files[low] : NULL;
}

static int fd_of(const struct core *c, const struct core_file *f)
{
    return f && f->path < c->fd_of_count ? c->fd_of[f->path] : -1;
}

static size_t core_read(struct target *t, uint64_t address, void *into, size_t bytes)
{
    const struct core *c = t->impl;
    size_t done = 0;
    while (done < bytes) {
        uint64_t at = address + done;
        size_t want = bytes - done, got = 0;
        const struct segment *next = segment_from(c, at); /* where the core has bytes of its own */
        const struct segment *s = next && next->start <= at ? next : NULL;
        const struct core_file *f = s ? NULL : file_at(c, at);
        if (s) {
            uint64_t left = s->start + s->bytes - at;
            want = left < want ? (size_t)left : want;
            got = read_at(c->fd, (uint8_t *)into + done, want, s->offset + (at - s->start));
        } else if (fd_of(c, f) >= 0) {
            uint64_t end = next && next->start < f->end ? next->start : f->end;
            want = end - at < want ? (size_t)(end - at) : want;
            got = read_at(fd_of(c, f), (uint8_t *)into + done, want, f->offset + (at - f->start));
        }
        done += got;
        if (!got || got < want)
            break;
    }
    return done;
}

/* Addresses that no segment holds, and the holes of the file, are passed: a core may claim any
 * size. */
static uint64_t core_next(struct target *t, uint64_t at, uint64_t end)
{
    const struct core *c = t->impl;
    const struct segment *s = segment_from(c, at), *behind = c->segments + c->segment_count;
    for (; s && s < behind && s->start < end; s++) {
        at = s->start > at ? s->start : at;
        const uint64_t offset = s->offset + (at - s->start), last = s->offset + s->bytes;
        const uint64_t data = trust_past_hole(c->fd, offset, last);
        if (data < last) {
            const uint64_t found = at + (data - offset);
            return found < end ? found : end;
        }
    }
    return end;
}

static void core_close(struct target *t)
{
    struct core *c = t->impl;
    for (size_t i = 0; i < c->fd_count; i++)
        close(c->fds[i]);
    free(c->fds);
    free(c->fd_of);
    free(c->files);
    free(c->segments);
    if (c->fd >= 0)
        close(c->fd);
    free(c);
}

static const struct target_ops core_ops = {
    .read = core_read, .next = core_next, .close = core_close};

/* --- notes --- */

static int note_prstatus(struct target *t, const uint8_t *data, size_t bytes)
{
    struct elf_prstatus status;
    if (bytes < sizeof status)
        return 0;
    memcpy(&status, data, sizeof status);
    struct user_regs_struct r;
    memcpy(&r, status.pr_reg, sizeof r);
    struct target_thread *thread = target_add_thread(t, (uint32_t)status.pr_pid);
    if (!thread)
        return t->cut_threads ? 0 : -1;
    live_registers(&r, &thread->registers);
    if (!t->pid)
        t->pid = (uint32_t)status.pr_pid;
    return 0;
}

static int by_file_start(const void *a, const void *b)
{
    const struct core_file *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* NT_FILE: count, page size, count times {start, end, page offset}, then the names. */
static int note_files(struct target *t, struct core *c, const uint8_t *data, size_t bytes)
{
    uint64_t head[2];
    if (c->files || bytes < sizeof head)
        return 0;
    memcpy(head, data, sizeof head);
    uint64_t count = head[0], page = head[1];
    if (!count || count > (bytes - sizeof head) / 24 || !page || page > 1 << 30)
        return 0;
    const char *name = (const char *)data + sizeof head + count * 24,
               *end = (const char *)data + bytes;
    c->files_cut = count > TARGET_REGIONS_MAX;
    if (c->files_cut)
        count = TARGET_REGIONS_MAX;
    c->files = calloc(count, sizeof *c->files);
    if (!c->files)
        return -1;
    uint64_t until = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t entry[3];
        memcpy(entry, data + sizeof head + i * 24, sizeof entry);
        size_t length = name < end ? strnlen(name, (size_t)(end - name)) : 0;
        if (name + length >= end)
            break;
        /* Sorted and without overlap, as the kernel writes them; others are left out. */
        if (entry[0] >= until && entry[1] > entry[0] && entry[1] < ARCH_ADDRESS_END &&
            entry[2] < ((uint64_t)1 << 62) / page) {
            const uint32_t path = target_file(t, name);
            if (path == TARGET_NO_FILE)
                return -1;
            c->files[c->file_count++] =
                (struct core_file){entry[0], entry[1], entry[2] * page, path};
            until = entry[1];
        }
        name += length + 1;
    }
    qsort(c->files, c->file_count, sizeof *c->files, by_file_start);
    return 0;
}

static int read_notes(struct target *t, struct core *c, uint64_t offset, uint64_t bytes)
{
    const uint64_t there = offset < c->size ? c->size - offset : 0;
    const uint64_t room = NOTES_BYTES_MAX - c->notes_bytes; /* for all together */
    bytes = bytes < there ? bytes : there;
    if (bytes > room) {
        bytes = room;
        c->notes_cut = true;
    }
    c->notes_bytes += bytes;
    if (!bytes)
        return 0;
    uint8_t *data = malloc(bytes);
    if (!data)
        return -1;
    bytes = read_at(c->fd, data, bytes, offset);
    int status = 0;
    for (uint64_t at = 0; !status && at + sizeof(Elf64_Nhdr) <= bytes;) {
        Elf64_Nhdr n;
        memcpy(&n, data + at, sizeof n);
        uint64_t name = at + sizeof n, desc = name + (((uint64_t)n.n_namesz + 3) & ~3ULL);
        uint64_t next = desc + (((uint64_t)n.n_descsz + 3) & ~3ULL);
        if (desc > bytes || desc + n.n_descsz > bytes)
            break;
        bool core = n.n_namesz >= 4 && !memcmp(data + name, "CORE", 4);
        if (core && n.n_type == NT_PRSTATUS)
            status = note_prstatus(t, data + desc, n.n_descsz);
        else if (core && n.n_type == NT_FILE)
            status = note_files(t, c, data + desc, n.n_descsz);
        else if (core && n.n_type == NT_PRPSINFO && n.n_descsz >= sizeof(struct elf_prpsinfo)) {
            struct elf_prpsinfo info;
            memcpy(&info, data + desc, sizeof info);
            if (info.pr_pid > 0)
                t->pid = (uint32_t)info.pr_pid;
        }
        at = next;
    }
    free(data);
    return status;
}

/* --- segments --- */

static int by_segment_start(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* The bytes of a segment that are in the file. Writable memory of no file that is not there may
 * have held pointers. Of a mapped file, the kernel leaves out unwritten pages. */
static void add_segment(struct target *t, struct core *c, const Elf64_Phdr *p)
{
    uint64_t bytes = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz, wanted = bytes;
    if (p->p_offset >= c->size || bytes > c->size - p->p_offset) {
        c->truncated = true;
        bytes = p->p_offset >= c->size ? 0 : c->size - p->p_offset;
    }
    const struct core_file *f = file_at(c, p->p_vaddr);
    if (!f || !strncmp(t->files[f->path], "/anon_hugepage", 14)) /* MAP_HUGETLB */
        wanted = p->p_memsz;
    if (p->p_flags & PF_W && bytes < wanted) {
        if (!t->lacking)
            t->lacking_at = p->p_vaddr + bytes;
        t->lacking += wanted - bytes;
    }
    if (bytes && p->p_vaddr < ARCH_ADDRESS_END && bytes <= ARCH_ADDRESS_END - p->p_vaddr) {
        c->segments[c->segment_count++] = (struct segment){p->p_vaddr, bytes, p->p_offset};
        c->segments_bytes += bytes < UINT64_MAX - c->segments_bytes ? bytes : 0;
    }
}

static int add_regions(struct target *t, const struct core *c, const Elf64_Phdr *p)
{
    uint32_t flags = (p->p_flags & PF_R ? REGION_READ : 0) |
                     (p->p_flags & PF_W ? REGION_WRITE : 0) | (p->p_flags & PF_X ? REGION_EXEC : 0);
    if (p->p_vaddr >= ARCH_ADDRESS_END || p->p_memsz > ARCH_ADDRESS_END)
        return 0;
    uint64_t at = p->p_vaddr, end = p->p_vaddr + p->p_memsz;
    const struct core_file *f = file_at(c, at);
    if (f && f->start <= at) /* one that begins inside belongs to a mapping of its own */
        return target_add_region(t, (struct target_region){at, end, f->offset + (at - f->start),
                                                           flags, t->files[f->path]});
    return target_add_region(t, (struct target_region){at, end, .flags = flags});
}

/* Mapped files that the core has no segment of: gcore leaves them out. */
static int add_left_out(struct target *t, const struct core *c)
{
    int status = 0;
    for (size_t i = 0; !status && i < c->file_count; i++) {
        const struct core_file *f = &c->files[i];
        if (!target_region_at(t, f->start))
            status = target_add_region(t, (struct target_region){f->start, f->end, f->offset,
                                                                 REGION_READ, t->files[f->path]});
    }
    target_regions_done(t);
    return status;
}

static void find_stack(struct target *t)
{
    if (!t->thread_count)
        return;
    for (size_t i = 0; i < t->thread_count; i++)
        if (t->threads[i].tid == t->pid || i == 0) {
            const struct target_region *r = target_region_at(t, t->threads[i].registers.sp);
            if (r)
                ((struct target_region *)r)->flags |= REGION_STACK; // NOLINT: of a list of our own
        }
}

/* The files are opened by those who need them (module.c proves that they are the same). */
void target_core_file(struct target *t, const char *path, int fd)
{
    if (t->ops != &core_ops)
        return;
    struct core *c = t->impl;
    int *more = fd < 0 || c->fd_count >= FILES_OPEN_MAX
                    ? NULL
                    : reallocarray(c->fds, c->fd_count + 1, sizeof *more);
    if (more) {
        c->fds = more;
        c->fds[c->fd_count++] = fd;
    } else if (fd >= 0) {
        close(fd);
        fd = -1;
    }
    const uint32_t number = fd < 0 ? TARGET_NO_FILE : target_file(t, path);
    if (number >= c->fd_of_count || c->fd_of[number] >= 0)
        return;
    c->fd_of[number] = fd;
}

/* The form in which systemd-coredump and others store a core; NULL: not compressed. */
static const char *unpacker(const uint8_t *head)
{
    static const struct {
        uint8_t magic[6], bytes;
        const char *command;
    } known[] = {{{0x28, 0xb5, 0x2f, 0xfd}, 4, "zstd -d"},
                 {{0x04, 0x22, 0x4d, 0x18}, 4, "lz4 -d"},
                 {{0xfd, '7', 'z', 'X', 'Z', 0}, 6, "xz -d"},
                 {{0x1f, 0x8b}, 2, "gzip -d"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!memcmp(head, known[i].magic, known[i].bytes))
            return known[i].command;
    return NULL;
}

static int read_core(struct target *t, struct core *c, const char *name, struct error *err)
{
    Elf64_Ehdr e = {0};
    const size_t there = read_at(c->fd, &e, sizeof e, 0);
    const char *command = unpacker((const uint8_t *)&e);
    if (command)
        return error_set(
            err, ERROR_USAGE,
            "%s is compressed and cannot be read as it is: unpack it with '%s', or, if "
            "systemd-coredump took it, with 'coredumpctl dump -o FILE'",
            name, command);
    if (there < sizeof e || memcmp(e.e_ident, ELFMAG, SELFMAG))
        return error_set(err, ERROR_USAGE,
                         "%s is neither a process id, a core file nor a saved heap", name);
    if (e.e_type != ET_CORE)
        return error_set(err, ERROR_USAGE, "%s is an ELF file, but not a core file", name);
    if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != ARCH_ELF_MACHINE)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s is a core of another kind of machine; x86-64 is supported", name);
    uint64_t count = e.e_phnum;
    if (count == PN_XNUM) {
        Elf64_Shdr first;
        count = read_at(c->fd, &first, sizeof first, e.e_shoff) == sizeof first ? first.sh_info : 0;
    }
    if (!count || e.e_phentsize != sizeof(Elf64_Phdr) || count > SEGMENTS_MAX ||
        e.e_phoff > c->size || count > (c->size - e.e_phoff) / sizeof(Elf64_Phdr))
        return error_set(err, ERROR_FORMAT, "%s: its table of segments is damaged or cut off",
                         name);
    Elf64_Phdr *p = calloc(count, sizeof *p);
    c->segments = calloc(count, sizeof *c->segments);
    int status = p && c->segments ? 0 : -1;
    if (!status && read_at(c->fd, p, count * sizeof *p, e.e_phoff) < count * sizeof *p)
        status = -1;
    for (uint64_t i = 0; !status && i < count; i++)
        if (p[i].p_type == PT_NOTE)
            status = read_notes(t, c, p[i].p_offset, p[i].p_filesz);
    for (uint64_t i = 0; !status && i < count; i++)
        if (p[i].p_type == PT_LOAD) {
            add_segment(t, c, &p[i]);
            status = add_regions(t, c, &p[i]);
        }
    free(p);
    if (status)
        return error_memory_for(err, "reading %s", name);
    if (c->segments_bytes > c->size)
        return error_set(err, ERROR_FORMAT,
                         "%s: its segments are damaged: several of them claim the same bytes of "
                         "the file",
                         name);
    qsort(c->segments, c->segment_count, sizeof *c->segments, by_segment_start);
    size_t kept = 0; /* overlapping ones cannot be of the kernel */
    for (size_t i = 0; i < c->segment_count; i++)
        if (!kept ||
            c->segments[kept - 1].start + c->segments[kept - 1].bytes <= c->segments[i].start)
            c->segments[kept++] = c->segments[i];
    c->segment_count = kept;
    target_regions_done(t);
    if (add_left_out(t, c) || !(c->fd_of = malloc((t->file_count + 1) * sizeof *c->fd_of)))
        return error_memory_for(err, "reading %s", name);
    c->fd_of_count = t->file_count;
    for (size_t i = 0; i < c->fd_of_count; i++)
        c->fd_of[i] = -1;
    find_stack(t);
    return 0;
}

/* Bytes of the file, without its holes. */
static uint64_t data_bytes(int fd, uint64_t size)
{
    uint64_t bytes = 0;
    for (uint64_t at = 0; (at = trust_past_hole(fd, at, size)) < size;) {
        const off_t hole = lseek(fd, (off_t)at, SEEK_HOLE);
        const uint64_t end = hole > (off_t)at && (uint64_t)hole < size ? (uint64_t)hole : size;
        bytes += end - at;
        at = end;
    }
    return bytes;
}

static void say_what_was_cut(struct target *t, const struct core *c)
{
    if (c->truncated)
        target_note(t, "the core file is cut off: not all of its memory is there");
    if (c->notes_cut)
        target_note(t, "the core's notes have more than %u MiB: the rest was not read",
                    NOTES_BYTES_MAX >> 20);
    if (c->files_cut)
        target_note(t, "the core names more than %u mapped files: the rest was not read",
                    TARGET_REGIONS_MAX);
}

struct target *target_core(int fd, const char *name, struct error *err)
{
    struct target *t = target_new();
    struct core *c = calloc(1, sizeof *c);
    struct stat st;
    if (!t || !c || fstat(fd, &st)) {
        free(t);
        free(c);
        close(fd);
        error_memory(err);
        return NULL;
    }
    *c = (struct core){.fd = fd, .size = st.st_size > 0 ? (uint64_t)st.st_size : 0};
    t->ops = &core_ops;
    t->impl = c;
    t->source = TARGET_CORE;
    t->moment_ns = UINT64_MAX;
    if (read_core(t, c, name, err)) {
        target_close(t);
        return NULL;
    }
    t->cut_off = c->truncated;
    t->own_bytes = data_bytes(c->fd, c->size);
    say_what_was_cut(t, c);
    return t;
}
