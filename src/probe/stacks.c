/* stacks.c - Loads unwind tables of files into the kernel's maps, and translates the stacks that
 * the kernel kept into files and offsets. A mapping's pages are entered when a process first
 * runs code of it. Tables and stacks have fixed bounds; frames beyond them stay unknown. */
#include "probe/stacks.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "arch/page.h"
#include "base/array.h"
#include "base/proc.h"
#include "symbol/functions.h"
#include "symbol/unwindrows.h"

enum {
    ROWS_SPARE = 1 << 20,   /* for libraries that are loaded later: 8 MB */
    BLOCKS_SPARE = 1 << 18, /* the same: 128 MB of code */
    STACKS_MAX = 16384,
    FILES_MAX = 4096,
    PAGES_MAX = 16384,
    ROOMS_A_PROCESSOR = 4,
    RECENT_A_PROCESSOR = 256,
    BUILD_ID_BYTES_MAX = 32
};

/* A file whose frames can be sent to the kernel. */
struct known_file {
    char *path;
    struct probe_file_id id;
    struct probe_unwind_row *rows; /* until they are handed over */
    size_t row_count;
    struct elf_segment segment[8];
    size_t segments;
    uint8_t build_id[BUILD_ID_BYTES_MAX];
    size_t build_id_bytes;
};

struct kept {
    uint64_t id;
    struct probe_stack stack;
};

struct kernel_name {
    uint64_t address;
    const char *name;
};

struct stacks {
    struct bpf_object *object;
    struct known_file *file; /* number 1 is the first */
    size_t files, room;
    struct probe_unwind_row *mapped; /* the kernel's array of rows */
    size_t rows, rows_max;
    uint64_t *mapped_blocks; /* the kernel's array of blocks */
    size_t blocks, blocks_max;
    struct kept *kept;
    size_t kept_count;
    struct kept_kernel {
        uint64_t id;
        uint64_t frame[PROBE_DEPTH_MAX];
    } * kernel;
    size_t kernel_count;
    char *kernel_text;
    struct kernel_name *kernel_names;
    size_t kernel_name_count;
    struct probe_frame located; /* by stacks_locate */
};

/* ---- files ---- */

static struct probe_unwind_row reduce(const struct unwind_row *from)
{
    static const uint8_t rules[] = {[UNWIND_NONE] = PROBE_CFA_NONE,
                                    [UNWIND_SP] = PROBE_CFA_SP,
                                    [UNWIND_BP] = PROBE_CFA_BP,
                                    [UNWIND_PLT] = PROBE_CFA_PLT,
                                    [UNWIND_END] = PROBE_CFA_END,
                                    [UNWIND_SIGNAL] = PROBE_CFA_SIGNAL,
                                    [UNWIND_REALIGNED] = PROBE_CFA_REALIGNED};
    struct probe_unwind_row row = {.offset = (uint32_t)from->offset, .cfa = rules[from->rule]};
    long bp = from->bp_offset / 8;
    if (from->cfa_offset < INT16_MIN || from->cfa_offset > INT16_MAX || bp < INT8_MIN)
        return (struct probe_unwind_row){.offset = row.offset}; /* a frame of over 32 KB */
    row.cfa_offset = (int16_t)from->cfa_offset;
    row.bp_offset = (int8_t)bp;
    return row;
}

/* Reads a file's tables. Returns its index, or -1. */
static long add_file(struct stacks *s, const char *path)
{
    struct unwind_row *rows = NULL;
    size_t count = 0;
    struct error ignored;
    struct stat st;
    if (stat(path, &st) || unwind_rows_read(path, &rows, &count, &ignored))
        return -1;
    if (!ARRAY_ROOM(s->file, s->files + 1, s->room)) {
        free(rows);
        return -1;
    }
    struct known_file *k = &s->file[s->files];
    *k = (struct known_file){
        .path = strdup(path),
        .rows = calloc(count + 1, sizeof *k->rows),
        .row_count = count,
        .id = {st.st_ino, (uint32_t)(major(st.st_dev) << 20 | minor(st.st_dev)), 0}};
    if (!k->path || !k->rows) {
        free(k->path);
        free(k->rows);
        free(rows);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        k->rows[i] = reduce(&rows[i]);
    free(rows);
    k->segments = functions_segments(path, k->segment, 8);
    k->build_id_bytes = functions_build_id(path, k->build_id, sizeof k->build_id);
    return (long)s->files++;
}

/* How many blocks a file's rows need. */
static size_t blocks_of(const struct known_file *k)
{
    return k->row_count ? (k->rows[k->row_count - 1].offset >> PROBE_BLOCK_SHIFT) + 2 : 0;
}

static int resize_map(struct bpf_object *object, const char *name, size_t entries,
                      struct error *err)
{
    struct bpf_map *map = bpf_object__find_map_by_name(object, name);
    if (!map || bpf_map__set_max_entries(map, (uint32_t)entries))
        return error_system(err, "cannot size the map '%s'", name);
    return 0;
}

struct stacks *stacks_new(struct bpf_object *object, const struct files *files, struct error *err)
{
    struct stacks *s = calloc(1, sizeof *s);
    if (!s) {
        error_memory(err);
        return NULL;
    }
    s->object = object;
    for (size_t i = 0; i < files->count; i++) {
        long index = add_file(s, files->path[i]);
        if (index < 0)
            continue;
        s->rows_max += s->file[index].row_count;
        s->blocks_max += blocks_of(&s->file[index]);
    }
    s->blocks_max += files->count ? BLOCKS_SPARE : 512;
    s->rows_max += files->count ? ROWS_SPARE : 512;
    if (resize_map(object, "rows", s->rows_max, err) ||
        resize_map(object, "blocks", s->blocks_max, err) ||
        resize_map(object, "stacks", STACKS_MAX, err) ||
        resize_map(object, "files", FILES_MAX, err) ||
        resize_map(object, "pages", PAGES_MAX, err) ||
        resize_map(object, "walks", (size_t)libbpf_num_possible_cpus() * ROOMS_A_PROCESSOR, err) ||
        resize_map(object, "recent", (size_t)libbpf_num_possible_cpus() * RECENT_A_PROCESSOR,
                   err)) {
        stacks_free(s);
        return NULL;
    }
    return s;
}

void stacks_free(struct stacks *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->files; i++) {
        free(s->file[i].path);
        free(s->file[i].rows);
    }
    if (s->mapped)
        munmap(s->mapped, s->rows_max * sizeof *s->mapped);
    if (s->mapped_blocks)
        munmap(s->mapped_blocks, s->blocks_max * sizeof *s->mapped_blocks);
    free(s->file);
    free(s->kept);
    free(s->kernel);
    free(s->kernel_text);
    free(s->kernel_names);
    free(s);
}

static int map_fd(const struct stacks *s, const char *name)
{
    return bpf_map__fd(bpf_object__find_map_by_name(s->object, name));
}

/* For each block the rows from the one that holds at its beginning to the last that begins in it.
 */
static void fill_blocks(struct stacks *s, const struct known_file *k, size_t first_row,
                        size_t count)
{
    size_t low = 0;
    for (size_t block = 0; block < count; block++) {
        uint64_t start = (uint64_t)block << PROBE_BLOCK_SHIFT;
        uint64_t end = start + (1u << PROBE_BLOCK_SHIFT);
        while (low + 1 < k->row_count && k->rows[low + 1].offset <= start)
            low++;
        size_t high = low;
        while (high < k->row_count && k->rows[high].offset < end)
            high++;
        s->mapped_blocks[s->blocks + block] = (first_row + low) | (uint64_t)(high - low) << 32;
    }
}

/* Where an offset in the file is in its headers. */
static uint64_t known_file_address(const struct known_file *k, uint64_t offset)
{
    for (size_t i = 0; i < k->segments; i++)
        if (offset - k->segment[i].offset < k->segment[i].bytes)
            return offset - k->segment[i].offset + k->segment[i].address;
    return offset;
}

static struct probe_frame frame_in(const struct known_file *k, uint64_t offset)
{
    return (struct probe_frame){.path = k->path,
                                .address = known_file_address(k, offset),
                                .build_id = k->build_id_bytes ? k->build_id : NULL,
                                .build_id_bytes = k->build_id_bytes};
}

/* Hands a file's rows to the kernel, under the id that the kernel knows it by. */
static int hand_over(struct stacks *s, size_t index, const struct probe_file_id *id)
{
    struct known_file *k = &s->file[index];
    size_t blocks = blocks_of(k);
    struct probe_file value = {.number = (uint32_t)index + 1, .first_block = (uint32_t)s->blocks};
    if (k->row_count <= s->rows_max - s->rows && blocks <= s->blocks_max - s->blocks) {
        memcpy(s->mapped + s->rows, k->rows, k->row_count * sizeof *k->rows);
        fill_blocks(s, k, s->rows, blocks);
        value.blocks = (uint32_t)blocks;
        s->rows += k->row_count;
        s->blocks += blocks;
    }
    free(k->rows);
    k->rows = NULL;
    return bpf_map_update_elem(map_fd(s, "files"), id, &value, BPF_ANY);
}

static void *map_array(const struct stacks *s, const char *name, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd(s, name), 0);
    return p == MAP_FAILED ? NULL : p;
}

int stacks_install(struct stacks *s, struct error *err)
{
    s->mapped = map_array(s, "rows", s->rows_max * sizeof *s->mapped);
    s->mapped_blocks = map_array(s, "blocks", s->blocks_max * sizeof *s->mapped_blocks);
    if (!s->mapped || !s->mapped_blocks)
        return error_system(err, "cannot map the unwind tables");
    for (size_t i = 0; i < s->files; i++)
        if (hand_over(s, i, &s->file[i].id))
            return error_system(err, "cannot hand over the unwind tables of %s", s->file[i].path);
    return 0;
}

/* The pages of a mapping, up to 16 MB of it. */
static void fill_pages(const struct stacks *s, uint32_t pid, const struct probe_place *place)
{
    enum { PAGE_SHIFT = ARCH_PAGE_SHIFT, PAGES_AT_ONCE = 4096 };
    int fd = map_fd(s, "pages");
    struct probe_page key = {.pid = pid, .page = place->start >> PAGE_SHIFT};
    for (int i = 0; i < PAGES_AT_ONCE && key.page << PAGE_SHIFT < place->end; i++, key.page++)
        bpf_map_update_elem(fd, &key, place, BPF_ANY);
}

/* The id of a file among those that are known, or its bytes as the kernel would name it. */
static long index_of(struct stacks *s, const char *path)
{
    for (size_t i = 0; i < s->files; i++)
        if (!strcmp(s->file[i].path, path))
            return (long)i;
    long index = add_file(s, path);
    if (index >= 0)
        hand_over(s, (size_t)index, &s->file[index].id);
    return index;
}

/* Calls `each` for the mappings of files of a process, until it returns true. */
static void each_mapping(struct stacks *s, uint32_t pid, const struct probe_event_file *e,
                         bool (*each)(struct stacks *s, uint32_t pid, const char *path,
                                      struct probe_place *m, const struct probe_event_file *e))
{
    char path[PATH_MAX + 64];
    struct proc_maps maps;
    struct proc_mapping m;
    bool done = false;
    if (!proc_maps_open(&maps, (pid_t)pid))
        return;
    while (!done && proc_maps_next(&maps, &m)) {
        if (*m.path != '/' || m.mode[2] != 'x')
            continue;
        struct probe_place place = {.start = m.start, .end = m.end, .shift = m.offset};
        files_reach((pid_t)pid, m.path, path, sizeof path);
        done = each(s, pid, path, &place, e);
    }
    proc_maps_close(&maps);
}

static bool learn_one(struct stacks *s, uint32_t pid, const char *path, struct probe_place *m,
                      const struct probe_event_file *e)
{
    if (e && (e->address < m->start || e->address >= m->end))
        return false;
    long index;
    if (e && e->type == PROBE_EVENT_FILE) {
        if ((index = add_file(s, path)) >= 0)
            hand_over(s, (size_t)index, &e->id);
    } else if ((index = index_of(s, path)) >= 0) {
        m->id = s->file[index].id;
        fill_pages(s, pid, m);
    }
    return e != NULL;
}

void stacks_learn(struct stacks *s, const struct probe_event_file *e)
{
    each_mapping(s, e->pid, e, learn_one);
}

static bool learn_file(struct stacks *s, uint32_t pid, const char *path, struct probe_place *m,
                       const struct probe_event_file *e)
{
    (void)pid, (void)m, (void)e;
    index_of(s, path);
    return false;
}

void stacks_learn_all(struct stacks *s, uint32_t pid) { each_mapping(s, pid, NULL, learn_file); }

static bool locate_one(struct stacks *s, uint32_t pid, const char *path, struct probe_place *m,
                       const struct probe_event_file *e)
{
    (void)pid;
    if (e->address < m->start || e->address >= m->end)
        return false;
    long index = index_of(s, path);
    if (index >= 0)
        s->located = frame_in(&s->file[index], e->address - m->start + m->shift);
    return true;
}

void stacks_locate(struct stacks *s, uint32_t pid, struct probe_frame *frame)
{
    const struct probe_event_file e = {.pid = pid, .address = frame->address};
    s->located = *frame;
    each_mapping(s, pid, &e, locate_one);
    *frame = s->located;
}

void stacks_fill(struct stacks *s, uint32_t pid) { each_mapping(s, pid, NULL, learn_one); }

/* ---- stacks ---- */

static int by_id(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_kernel_id(const void *a, const void *b)
{
    const struct kept_kernel *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static int keep_kernel(struct stacks *s, const struct probe_row *rows, size_t n, struct error *err)
{
    int fd = map_fd(s, "kstacks");
    free(s->kernel);
    s->kernel_count = 0;
    if (!(s->kernel = calloc(n + 1, sizeof *s->kernel)))
        return error_memory(err);
    for (size_t i = 0; i < n; i++) {
        struct kept_kernel *k = &s->kernel[s->kernel_count];
        uint32_t id = (uint32_t)(rows[i].key.kstack - 1);
        if (!rows[i].key.kstack || bpf_map_lookup_elem(fd, &id, k->frame))
            continue;
        k->id = rows[i].key.kstack;
        s->kernel_count++;
    }
    qsort(s->kernel, s->kernel_count, sizeof *s->kernel, by_kernel_id);
    return 0;
}

int stacks_keep(struct stacks *s, const struct probe_row *rows, size_t n, struct error *err)
{
    int fd = map_fd(s, "stacks");
    free(s->kept);
    s->kept_count = 0;
    if (!(s->kept = calloc(n + 1, sizeof *s->kept)))
        return error_memory(err);
    for (size_t i = 0; i < n; i++) {
        struct kept *k = &s->kept[s->kept_count];
        if (!rows[i].key.stack || bpf_map_lookup_elem(fd, &rows[i].key.stack, &k->stack))
            continue;
        k->id = rows[i].key.stack;
        s->kept_count++;
    }
    qsort(s->kept, s->kept_count, sizeof *s->kept, by_id);
    return keep_kernel(s, rows, n, err);
}

static size_t take_apart(const struct stacks *s, const struct probe_stack *stack,
                         struct probe_frame *frames, size_t max)
{
    size_t n = stack->depth;
    if (n > PROBE_DEPTH_MAX)
        n = PROBE_DEPTH_MAX;
    for (size_t i = 0; i < n && i < max; i++) {
        _Static_assert(PROBE_FILE_SHIFT >= ARCH_ADDRESS_BITS, "a bare address would name a file");
        uint64_t frame = stack->frame[i], number = frame >> PROBE_FILE_SHIFT;
        if (number == 0 || number > s->files)
            frames[i] = (struct probe_frame){.address = frame};
        else
            frames[i] = frame_in(&s->file[number - 1], frame & ((1ull << PROBE_FILE_SHIFT) - 1));
    }
    return n < max ? n : max;
}

size_t stacks_frames(struct stacks *s, uint64_t id, struct probe_frame *frames, size_t max)
{
    struct kept key = {.id = id};
    const struct kept *k =
        s->kept_count ? bsearch(&key, s->kept, s->kept_count, sizeof *k, by_id) : NULL;
    return k ? take_apart(s, &k->stack, frames, max) : 0;
}

size_t stacks_look(const struct stacks *s, uint64_t id, struct probe_frame *frames, size_t max)
{
    struct probe_stack stack;
    return bpf_map_lookup_elem(map_fd(s, "stacks"), &id, &stack)
               ? 0
               : take_apart(s, &stack, frames, max);
}

/* ---- the kernel's names ---- */

static int compare_known_addresses(const void *a, const void *b)
{
    const struct kernel_name *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* The text of a file, with a NUL behind it that `length` does not count. NULL: no memory. */
static char *read_whole(const char *path, size_t *length)
{
    size_t size = 0, room = 1 << 22;
    char *text = malloc(room);
    FILE *f = fopen(path, "re");
    while (f && text) {
        size_t n = fread(text + size, 1, room - size - 1, f);
        size += n;
        if (n == 0)
            break;
        if (size + 1 == room) {
            char *more = realloc(text, room *= 2);
            if (!more) {
                free(text);
                text = NULL;
                break;
            }
            text = more;
        }
    }
    if (f)
        fclose(f);
    if (text)
        text[size] = 0;
    *length = size;
    return text;
}

/* Lines of "ADDRESS TYPE NAME [MODULE]". Each is cut off before it is read: AddressSanitizer's
 * strict_string_checks reads a string to its end, which would be that of the file, for every line.
 */
static void read_kernel_names(struct stacks *s)
{
    size_t length = 0, room = 0;
    s->kernel_text = read_whole("/proc/kallsyms", &length);
    if (!s->kernel_text)
        return;
    const char *text_end = s->kernel_text + length;
    for (char *p = s->kernel_text, *next; p < text_end; p = next) {
        char *end = memchr(p, '\n', (size_t)(text_end - p)), *rest = NULL;
        next = end ? end + 1 : p + (text_end - p);
        if (end)
            *end = 0;
        uint64_t address = strtoull(p, &rest, 16);
        if (!address || *rest != ' ' || !rest[1] || !strchr("tTwW", rest[1]) || rest[2] != ' ')
            continue;
        if (!ARRAY_ROOM(s->kernel_names, s->kernel_name_count + 1, room))
            break;
        char *name = rest + 3;
        name[strcspn(name, "\t")] = 0; /* before the module's */
        s->kernel_names[s->kernel_name_count++] = (struct kernel_name){address, name};
    }
    if (s->kernel_name_count)
        qsort(s->kernel_names, s->kernel_name_count, sizeof *s->kernel_names,
              compare_known_addresses);
}

const char *stacks_kernel_name(struct stacks *s, uint64_t address)
{
    if (!s->kernel_text)
        read_kernel_names(s);
    size_t low = 0, high = s->kernel_name_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->kernel_names[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? s->kernel_names[low - 1].name : NULL;
}

size_t stacks_kernel(struct stacks *s, uint64_t id, const char **names, size_t max)
{
    struct kept_kernel key = {.id = id};
    const struct kept_kernel *k =
        s->kernel_count ? bsearch(&key, s->kernel, s->kernel_count, sizeof *k, by_kernel_id) : NULL;
    size_t n = 0;
    for (; k && n < max && n < PROBE_DEPTH_MAX && k->frame[n]; n++) {
        const char *name = stacks_kernel_name(s, k->frame[n]);
        names[n] = name ? name : "?";
    }
    return n;
}
