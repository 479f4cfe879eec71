/* smaps.c - see smaps.h. Reads one text; asks the kernel for nothing but that text. */
#include "base/proc.h"
#include "smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "glibc/versions.h"
#include "trust/process.h"

#define MOST_BYTES ((size_t)64 << 20)
#define READ_BYTES ((size_t)16 << 10) /* room for a read */

struct mapping {
    uint64_t start, end, offset, device, inode;
    char perms[4];
    const char *name; /* not terminated */
    size_t name_bytes;
    uint64_t rss, swapped, huge, lazy;
    uint64_t hugetlb; /* not in rss */
    uint64_t pss, shared, merged /* by KSM */;
    uint64_t copied; /* pages of a private mapping of a file that were written to */
    bool no_reserve; /* MAP_NORESERVE */
    bool no_dump;    /* MADV_DONTDUMP */
};

static bool name_begins(const struct mapping *m, const char *prefix)
{
    size_t n = strlen(prefix);
    return m->name_bytes >= n && !memcmp(m->name, prefix, n);
}

static bool name_is(const struct mapping *m, const char *name)
{
    return m->name_bytes == strlen(name) && !memcmp(m->name, name, m->name_bytes);
}

static bool name_has(const struct mapping *m, const char *part)
{
    return memmem(m->name, m->name_bytes, part, strlen(part)) != NULL;
}

static bool is_anonymous(const struct mapping *m)
{
    return !m->name_bytes || name_begins(m, "[anon:") ||
           (m->perms[3] != 's' && name_begins(m, PROC_HUGE_PAGES));
}

/* flag: " xy", as in a line of VmFlags. */
static bool has_flag(const char *line, const char *end, const char *flag)
{
    for (const char *p = line; end - p >= 3; p++)
        if (p[0] == flag[0] && p[1] == flag[1] && p[2] == flag[2])
            return true;
    return false;
}

/* Hexadecimal digits up to the first other character; false when there are none or too many. */
static bool parse_smaps_hex(const char **p, const char *end, uint64_t *v)
{
    const char *q = *p;
    *v = 0;
    for (; q < end; q++) {
        unsigned d;
        if (*q >= '0' && *q <= '9')
            d = (unsigned)(*q - '0');
        else if (*q >= 'a' && *q <= 'f')
            d = (unsigned)(*q - 'a') + 10;
        else
            break;
        if (q - *p >= 16)
            return false;
        *v = *v << 4 | d;
    }
    bool any = q > *p;
    *p = q;
    return any;
}

static bool parse_decimal(const char **p, const char *end, uint64_t *v)
{
    const char *q = *p;
    *v = 0;
    for (; q < end && *q >= '0' && *q <= '9'; q++) {
        if (q - *p >= 19)
            return false;
        *v = *v * 10 + (uint64_t)(*q - '0');
    }
    bool any = q > *p;
    *p = q;
    return any;
}

static bool skip_char(const char **p, const char *end, char c)
{
    if (*p >= end || **p != c)
        return false;
    (*p)++;
    return true;
}

/* "start-end perms offset major:minor inode   name": the first line of a mapping. */
static bool parse_mapping_head(const char *p, const char *end, struct mapping *m)
{
    uint64_t minor;
    *m = (struct mapping){0};
    if (!parse_smaps_hex(&p, end, &m->start) || !skip_char(&p, end, '-') ||
        !parse_smaps_hex(&p, end, &m->end) || !skip_char(&p, end, ' ') || end - p < 4)
        return false;
    memcpy(m->perms, p, 4);
    p += 4;
    if (!skip_char(&p, end, ' ') || !parse_smaps_hex(&p, end, &m->offset) ||
        !skip_char(&p, end, ' ') || !parse_smaps_hex(&p, end, &m->device) ||
        !skip_char(&p, end, ':') || !parse_smaps_hex(&p, end, &minor) || !skip_char(&p, end, ' ') ||
        !parse_decimal(&p, end, &m->inode))
        return false;
    m->device = m->device << 32 | minor;
    while (p < end && *p == ' ')
        p++;
    m->name = p;
    m->name_bytes = (size_t)(end - p);
    return m->start < m->end;
}

/* "Key:    N kB": the value in bytes. */
static bool parse_field(const char *p, const char *end, const char *key, uint64_t *bytes)
{
    size_t n = strlen(key);
    if ((size_t)(end - p) < n || memcmp(p, key, n) != 0)
        return false;
    p += n;
    while (p < end && *p == ' ')
        p++;
    uint64_t kb;
    if (!parse_decimal(&p, end, &kb) || kb > UINT64_MAX >> 10)
        return false;
    *bytes = kb << 10;
    return true;
}

/* A heap of a non-main arena begins at a multiple of its size; what it has not grown into yet
 * follows it as inaccessible memory up to the next multiple. A full one has nothing behind it.
 * Other things begin at multiples of small sizes: then it has to be mapped as glibc does it. */
static bool is_heap_of(const struct mapping *m, const struct mapping *next, uint64_t bytes)
{
    if (m->start % bytes || (bytes < GLIBC_HEAP_BYTES && !m->no_reserve))
        return false;
    if (m->end % bytes == 0)
        return m->no_reserve;
    return next && next->start == m->end && !memcmp(next->perms, "---p", 4) &&
           (!next->name_bytes || name_begins(next, PROC_HUGE_PAGES)) &&
           next->end > (m->end | (bytes - 1)); /* more of the kind may follow */
}

static bool is_arena_heap(const struct mapping *m, const struct mapping *next)
{
    static const uint64_t sizes[] = GLIBC_HEAP_SIZE_LIST;
    bool is = false;
    for (size_t i = 0; i < GLIBC_HEAP_SIZES && !memcmp(m->perms, "rw-p", 4); i++)
        is |= is_heap_of(m, next, sizes[i]);
    return is;
}

#define GUARD_MOST  ((uint64_t)64 << 10)
#define STACK_LEAST ((uint64_t)16 << 10)

/* A thread that makes no call is not known by its descriptor; but its stack has the guard before it
 * that pthread_create puts there, and is no heap. */
static bool is_guarded_stack(const struct mapping *m, const struct mapping *before)
{
    return before && before->end == m->start && !memcmp(before->perms, "---p", 4) &&
           !before->name_bytes && before->end - before->start <= GUARD_MOST &&
           !memcmp(m->perms, "rw-p", 4) && m->end - m->start >= STACK_LEAST;
}

/* Where the descriptor itself was not read: glibc puts it at the upper end of its stack. A mapping
 * in which much more lies above it than below is something else that a stack was merged with. */
static bool is_thread_stack(const struct mapping *m, const struct smaps_hints *h)
{
    for (size_t i = 0; i < h->threads; i++) {
        uint64_t tp = h->thread_pointers[i];
        if (tp >= m->start && tp < m->end && tp - m->start >= (m->end - tp) / 2)
            return true;
    }
    return false;
}

/* The files that something is executed from: programs and libraries. */
#define CODE_MOST 4096u
struct code_files {
    struct {
        uint64_t device, inode;
    } at[CODE_MOST]; /* by address: the first is the program, unless it lies elsewhere by itself */
    size_t n;
    bool more; /* than were kept */
};

static bool is_code(const struct code_files *code, const struct mapping *m)
{
    for (size_t i = 0; i < code->n; i++)
        if (code->at[i].inode == m->inode && code->at[i].device == m->device)
            return true;
    return code->more;
}

static void find_code(const char *text, const char *end, struct code_files *code)
{
    struct mapping m;
    code->n = 0;
    code->more = false;
    for (const char *p = text, *stop; p < end; p = stop < end ? stop + 1 : end) {
        stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f')) ||
            !parse_mapping_head(p, stop, &m) || m.perms[2] != 'x' || !m.inode || is_code(code, &m))
            continue;
        if (code->n == CODE_MOST) {
            code->more = true;
        } else {
            code->at[code->n].device = m.device;
            code->at[code->n++].inode = m.inode;
        }
    }
}

/* Data of the program that its file does not hold (.bss): right behind the data that it does. Only
 * of the program itself: what lies behind a library may be anything. */
static bool is_bss(const struct mapping *m, const struct mapping *before,
                   const struct code_files *code)
{
    return before && before->end == m->start && before->perms[3] == 'p' && code->n &&
           before->inode == code->at[0].inode && before->device == code->at[0].device &&
           !memcmp(m->perms, "rw-p", 4) && !m->name_bytes;
}

/* Takes the resident part of the places that are known off the bytes of a mapping; the rest.
 * *stacks: there are stacks in it, so that it is no stack as a whole. */
static uint64_t take_known_places(const struct mapping *m, const struct smaps_hints *h,
                                  uint64_t rss, struct mlw_split *s, bool *stacks)
{
    size_t from = 0, to = h->place_count;
    *stacks = false;
    while (from < to) {
        const size_t middle = (from + to) / 2;
        if (h->places[middle].end > m->start)
            to = middle;
        else
            from = middle + 1;
    }
    for (; rss && from < h->place_count && h->places[from].start < m->end; from++) {
        const struct smaps_place *const place = &h->places[from];
        const uint64_t start = place->start > m->start ? place->start : m->start,
                       end = place->end < m->end ? place->end : m->end;
        uint64_t bytes = rss;
        if (start > m->start || end < m->end)
            bytes = h->present ? h->present(h->present_arg, start, end) : 0;
        bytes = bytes < rss ? bytes : rss;
        *(place->kind == SMAPS_STACK   ? &s->stacks
          : place->kind == SMAPS_MAIN  ? &s->heap
          : place->kind == SMAPS_BLOCK ? &s->anonymous
          : place->kind == SMAPS_DATA  ? &s->files
                                       : &s->arenas) += bytes;
        *stacks |=
            (place->kind == SMAPS_STACK || place->kind == SMAPS_BLOCK) && (h->present || bytes);
        rss -= bytes;
    }
    return rss;
}

static bool is_shared_memory(const struct mapping *m)
{
    return !m->name_bytes || name_begins(m, "/memfd:") || name_begins(m, "/dev/shm/") ||
           name_begins(m, "/SYSV") || name_begins(m, PROC_HUGE_PAGES) ||
           name_begins(m, "/dev/zero") || name_begins(m, "[anon_shmem:");
}

/* Data of programs and libraries is theirs, written to or not. Of another file a page that was
 * written to, in a private mapping, is the program's own: the file does not have it. */
static void add_file_bytes(const struct mapping *m, uint64_t rss, const struct code_files *code,
                           struct mlw_split *s)
{
    if (is_code(code, m)) {
        s->files += rss;
        return;
    }
    const uint64_t own = m->perms[3] == 's' ? 0 : m->copied < rss ? m->copied : rss;
    s->anonymous += own;
    if (is_shared_memory(m)) {
        s->shared += rss - own;
        return;
    }
    s->files += rss - own;
    s->mapped += rss - own;
}

/* Adds the mapping to the kind that it is of. before, next: the mappings before and behind it, or
 * NULL. *private_left: bytes of the recorder's scattered mappings that were not found yet; a longer
 * one is the program's. */
static void classify_mapping(const struct mapping *m, const struct mapping *before,
                             const struct mapping *next, const struct smaps_hints *h,
                             const struct code_files *code, struct mlw_split *s,
                             uint64_t *private_left)
{
    s->swapped += m->swapped;
    s->huge += m->huge;
    s->hugetlb += m->hugetlb;
    uint64_t rss = m->rss + m->hugetlb;
    bool shared = m->perms[3] == 's';
    bool anonymous = is_anonymous(m);
    s->proportional += m->pss;
    /* Nothing but a fork makes such pages shared, and KSM. Of private mappings of a file the kernel
     * does not say which of the shared pages are the file's. */
    if (!shared && m->shared > m->merged &&
        (anonymous || name_is(m, "[heap]") || name_begins(m, "[stack")))
        s->forked += m->shared - m->merged;

    if (name_has(m, "mallow-session") || name_begins(m, "/dev/shm/mallow-") ||
        (shared && h->session_inode && m->inode == h->session_inode &&
         name_begins(m, "/dev/zero")) ||
        name_has(m, "/libmallow-record.so") || name_begins(m, "[anon:mallow")) {
        s->recorder += rss;
        return;
    }
    /* Pages that were given back are no part of it; the kernel takes them when it needs them. */
    const uint64_t lazy = m->lazy < rss ? m->lazy : rss;
    s->lazy += lazy;
    rss -= lazy;
    if (name_is(m, "[heap]"))
        s->heap += rss;
    else if (name_begins(m, "[stack"))
        s->stacks += rss;
    else if (shared) {
        if (is_shared_memory(m))
            s->shared += rss;
        else if (name_begins(m, "/dev/") || m->name[0] != '/')
            s->other += rss;
        else
            add_file_bytes(m, rss, code, s);
    } else if (anonymous) {
        bool stacks;
        rss = take_known_places(m, h, rss, s, &stacks);
        if (is_bss(m, before, code))
            s->files += rss;
        else if (name_has(m, "glibc: malloc arena") || (!h->knows_heaps && is_arena_heap(m, next)))
            s->arenas += rss;
        else if (name_has(m, "glibc: pthread stack") ||
                 (!stacks && (is_thread_stack(m, h) || is_guarded_stack(m, before))))
            s->stacks += rss;
        else {
            const bool ours = m->no_reserve && m->no_dump && m->end - m->start <= *private_left;
            *private_left -= ours ? m->end - m->start : 0;
            *(ours ? &s->recorder : &s->anonymous) += rss;
        }
    } else if (m->name[0] == '/')
        add_file_bytes(m, rss, code, s);
    else
        s->other += rss;
}

/* Mappings that the text repeats: those that grew, or were merged with others, while the kernel
 * wrote it. A line that begins below the end of earlier ones stands for them. */
#define REPEATED_MOST 64u
struct repeated {
    const char *line[REPEATED_MOST]; /* where it is written */
    uint64_t start[REPEATED_MOST];
    size_t n;
};

static void find_repeated(const char *text, const char *end, struct repeated *r)
{
    struct mapping m;
    uint64_t before = 0;
    r->n = 0;
    for (const char *p = text, *stop; p < end && r->n < REPEATED_MOST;
         p = stop < end ? stop + 1 : end) {
        stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f')) ||
            !parse_mapping_head(p, stop, &m))
            continue;
        if (m.start < before) {
            r->line[r->n] = p;
            r->start[r->n++] = m.start;
        }
        before = m.end;
    }
}

/* True where a later line has what this mapping, whose line is there, had. */
static bool is_repeated(const struct repeated *r, const char *line, const struct mapping *m)
{
    for (size_t i = r->n; i-- > 0 && r->line[i] > line;)
        if (r->start[i] < m->end)
            return true;
    return false;
}

int smaps_split(const char *text, size_t n, const struct smaps_hints *hints,
                struct mlw_split *split, uint64_t *rss, struct error *err)
{
    const char *p = text, *end = text + n;
    struct mapping before = {0}, current = {0}, next;
    bool any = false;
    uint64_t private_left = hints->private_bytes;
    struct code_files code;
    find_code(text, end, &code);
    struct repeated repeated;
    find_repeated(text, end, &repeated);
    const char *at = text; /* the line of `current` */
    uint64_t clock = split->clock;
    *split = (struct mlw_split){.clock = clock};
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *line = p, *line_end = stop ? stop : end;
        p = stop ? stop + 1 : end;
        uint64_t bytes;
        if (line < line_end && ((*line >= '0' && *line <= '9') || (*line >= 'a' && *line <= 'f'))) {
            if (!parse_mapping_head(line, line_end, &next))
                return error_set(err, ERROR_FORMAT, "smaps: a line is not a mapping: %.*s",
                                 (int)(line_end - line > 60 ? 60 : line_end - line), line);
            /* The kernel writes the text in pieces. A mapping that grew between two of them, or was
             * merged with those before, is in both: the later one holds. */
            if (any && !is_repeated(&repeated, at, &current)) {
                classify_mapping(&current, &before, &next, hints, &code, split, &private_left);
                before = current;
            }
            current = next;
            at = line;
            any = true;
        } else if (!any)
            return error_set(err, ERROR_FORMAT, "smaps: it does not begin with a mapping");
        else if (parse_field(line, line_end, "Rss:", &bytes))
            current.rss = bytes;
        else if (parse_field(line, line_end, "Swap:", &bytes))
            current.swapped = bytes;
        else if (parse_field(line, line_end, "AnonHugePages:", &bytes))
            current.huge = bytes;
        else if (parse_field(line, line_end, "Anonymous:", &bytes))
            current.copied = bytes;
        else if (parse_field(line, line_end, "LazyFree:", &bytes))
            current.lazy = bytes;
        else if (parse_field(line, line_end, "Pss:", &bytes))
            current.pss = bytes;
        else if (parse_field(line, line_end, "Shared_Clean:", &bytes) ||
                 parse_field(line, line_end, "Shared_Dirty:", &bytes))
            current.shared += bytes;
        else if (parse_field(line, line_end, "KSM:", &bytes))
            current.merged = bytes;
        else if (parse_field(line, line_end, "Private_Hugetlb:", &bytes) ||
                 parse_field(line, line_end, "Shared_Hugetlb:", &bytes))
            current.hugetlb += bytes;
        else if (line_end - line > 8 && !memcmp(line, "VmFlags:", 8)) {
            current.no_reserve = has_flag(line, line_end, " nr");
            current.no_dump = has_flag(line, line_end, " dd");
        }
    }
    if (any)
        classify_mapping(&current, &before, NULL, hints, &code, split, &private_left);
    if (rss)
        *rss = split->heap + split->arenas + split->anonymous + split->stacks + split->files +
               split->shared + split->recorder + split->other + split->lazy;
    return any ? 0 : error_set(err, ERROR_FORMAT, "smaps: empty");
}

static bool is_private_anonymous(const struct mapping *m)
{
    return !memcmp(m->perms, "rw-p", 4) && is_anonymous(m);
}

void smaps_places(const char *text, size_t n, uint64_t step, size_t most,
                  void (*visit)(void *arg, uint64_t at), void *arg)
{
    const char *const end = text + n;
    struct mapping m = {0}, next;
    uint64_t bytes;
    bool fits = false;
    for (const char *p = text, *stop; p < end; p = stop < end ? stop + 1 : end) {
        stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        if (((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f')) &&
            parse_mapping_head(p, stop, &next)) {
            m = next;
            fits = is_private_anonymous(&m);
            continue;
        }
        if (!fits ||
            (!parse_field(p, stop, "Rss:", &bytes) &&
             !parse_field(p, stop, "Private_Hugetlb:", &bytes)) ||
            !bytes)
            continue;
        fits = false;
        for (uint64_t at = (m.start + step - 1) & ~(step - 1); at >= m.start && at < m.end && most;
             at += step, most--)
            visit(arg, at);
    }
}

void smaps_data(const char *text, size_t n,
                void (*visit)(void *arg, uint64_t base, uint64_t start, uint64_t end), void *arg)
{
    const char *const end = text + n;
    struct mapping m, before = {0}, first = {0};
    for (const char *p = text, *stop; p < end; p = stop < end ? stop + 1 : end) {
        stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        if (!((*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f')) ||
            !parse_mapping_head(p, stop, &m))
            continue;
        if (m.inode && !m.offset)
            first = m;
        if (!m.name_bytes && !memcmp(m.perms, "rw-p", 4) && before.inode &&
            before.perms[3] == 'p' && before.end == m.start && before.inode == first.inode &&
            before.device == first.device)
            visit(arg, first.start, m.start, m.end);
        before = m;
    }
}

int smaps_read(pid_t pid, struct smaps_buffer *b, struct error *err)
{
    int fd = proc_open_memory(pid, "smaps");
    if (fd < 0)
        return error_system(err, "cannot read /proc/%d/smaps", (int)pid);
    b->n = 0;
    for (;;) {
        char *bytes = array_room(b->bytes, b->n + READ_BYTES, &b->room, MOST_BYTES, 1);
        if (!bytes) {
            close(fd);
            return error_set(err, ERROR_MEMORY, "/proc/%d/smaps is too large", (int)pid);
        }
        b->bytes = bytes;
        ssize_t got = read(fd, b->bytes + b->n, b->room - b->n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            error_system(err, "cannot read /proc/%d/smaps", (int)pid);
            close(fd);
            return -1;
        }
        if (!got)
            break;
        b->n += (size_t)got;
    }
    /* The kernel writes the text in pieces. When the process ends, or executes another program,
     * between two of them, the text ends there; from then on there is none at all. */
    char first;
    const bool whole = pread(fd, &first, 1, 0) == 1;
    close(fd);
    return whole ? 0
                 : error_set(err, ERROR_SYSTEM, "process %d ended while /proc/%d/smaps was read",
                             (int)pid, (int)pid);
}

bool statm_read(int fd, uint64_t page_bytes, struct mlw_resident *now)
{
    char text[160];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return false;
    text[n] = 0;
    uint64_t pages[3];
    char *at = text, *end;
    for (int i = 0; i < 3; i++, at = end) {
        pages[i] = strtoull(at, &end, 10);
        if (end == at)
            return false;
    }
    *now = (struct mlw_resident){0, pages[0] * page_bytes, pages[1] * page_bytes,
                                 pages[2] * page_bytes};
    return now->rss != 0;
}
