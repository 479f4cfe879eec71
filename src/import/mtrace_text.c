/* mtrace_text.c - reading what mtrace(3) of glibc writes:
 *
 *     @ FILE:(SYMBOL+OFFSET)[CALLER] + BLOCK SIZE        allocated
 *     @ ... - BLOCK                                      freed
 *     @ ... < BLOCK, and a line behind it > BLOCK SIZE   reallocated
 *     @ ... ! BLOCK SIZE                                 not reallocated
 *
 * SYMBOL is the exported one before the caller, where there is one. Since glibc 2.34 CALLER is an
 * offset from where the file was mapped. Threads and times are not in it. */
#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/strings.h"
#include "import/readers.h"
#include "import/source.h"
#include "trust/file.h"

/* As in perf.c: addresses of a program are above, offsets in a file below. */
#define OFFSETS_BELOW ((uint64_t)1 << 44)

struct named { /* a caller, as the file calls it */
    uint64_t pc;
    char *function;
};

struct reader {
    struct source *source;
    struct rows *rows;
    struct import_result *result;
    struct strings files, callers; /* paths; pc and module */
    struct named *named;
    size_t named_count, named_room;
    uint64_t time_ns, old; /* old: of a realloc whose other half is the next line; 0: none */
    uint32_t thread;
    bool is_missing; /* some caller cannot be looked up by its file */
    bool any;
};

bool import_is_mtrace_text(const char *line)
{
    return !strcmp(line, "= Start") || (!strncmp(line, "@ ", 2) && strstr(line, "] "));
}

static int mtrace_bad_line(struct reader *r, struct error *err, const char *what)
{
    return source_error(r->source, err, "%s", what);
}

static bool mtrace_hex(char **p, uint64_t *v)
{
    char *end;
    *p += strspn(*p, " ");
    if (!strncmp(*p, "(nil)", 5)) {
        *p += 5;
        *v = 0;
        return true;
    }
    if (!isxdigit((unsigned char)**p))
        return false;
    *v = strtoull(*p, &end, 16);
    *p = end;
    return true;
}

/* True: the file is there, and *first is the address of its first byte by its own headers, which
 * is not 0 in a program that cannot be moved. */
static bool module_is_there(const char *path, uint64_t *first)
{
    struct error ignored;
    Elf64_Ehdr head;
    Elf64_Phdr part;
    const int fd = trust_open_any(path, &ignored);
    *first = 0;
    if (fd < 0)
        return false;
    bool is_elf = trust_read(fd, &head, sizeof head, 0) == (ssize_t)sizeof head &&
                  !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_ident[EI_CLASS] == ELFCLASS64 &&
                  head.e_phentsize == sizeof part && head.e_phoff < OFFSETS_BELOW;
    bool found = false;
    for (unsigned i = 0; is_elf && !found && i < head.e_phnum; i++) {
        is_elf = trust_read(fd, &part, sizeof part, (off_t)(head.e_phoff + i * sizeof part)) ==
                 (ssize_t)sizeof part;
        found = is_elf && part.p_type == PT_LOAD;
    }
    if (found)
        *first = part.p_vaddr - part.p_offset;
    close(fd);
    return found;
}

/* Where the call came from: the text between "@ " and "] ". *stack: its node. */
static int mtrace_read_caller(struct reader *r, char *where, uint32_t *stack, struct error *err)
{
    struct {
        uint64_t pc, module;
    } key = {0};
    char *open = strrchr(where, '['), *symbol = NULL, *p = open ? open + 1 : where;
    bool fresh;
    if (!open || !mtrace_hex(&p, &key.pc) || *p)
        return mtrace_bad_line(r, err, "a caller without its address");
    *open = 0;
    if (open > where && open[-1] == ')' && (symbol = strrchr(where, '('))) {
        open[-1] = *symbol++ = 0;
        char *plus = strpbrk(symbol, "+-");
        if (plus)
            *plus = 0;
    }
    size_t n = strlen(where);
    if (n && where[n - 1] == ':')
        where[--n] = 0;
    const bool is_offset = n && key.pc < OFFSETS_BELOW;
    if (n) {
        key.module = strings_id(&r->files, where, n, &fresh);
        if (!key.module)
            return error_memory(err);
        if (fresh) {
            uint64_t first;
            r->is_missing |= !module_is_there(where, &first);
            if (is_offset && key.pc >= first) /* an address, of older versions */
                first = 0;
            rows_module(r->rows, r->thread, (uint32_t)key.module, where,
                        is_offset ? key.module * OFFSETS_BELOW - first : 0);
        }
        if (is_offset)
            key.pc += key.module * OFFSETS_BELOW;
        else if (!symbol)
            key.module = 0; /* the address alone says more than the file and a wrong offset */
    }
    r->is_missing |= !is_offset;
    if (!(*stack = strings_id(&r->callers, &key, sizeof key, &fresh)))
        return error_memory(err);
    if (fresh)
        rows_frame(r->rows, r->thread, *stack, 0, key.pc, (uint32_t)key.module);
    if (fresh && symbol && *symbol) {
        struct named *k = ARRAY_ADD(r->named, r->named_count, r->named_room);
        if (!k || !(k->function = strdup(symbol)))
            return error_memory(err);
        k->pc = key.pc;
    }
    return 0;
}

static void mtrace_text_call(struct reader *r, const struct rows_call *c)
{
    struct rows_call timed = *c;
    timed.time_ns = r->time_ns += 1000;
    rows_call(r->rows, r->thread, &timed);
}

static int read_call(struct reader *r, char *p, uint32_t stack, struct error *err)
{
    const char kind = *p++;
    uint64_t block, size = 0;
    if (kind != '>' && r->old)
        return mtrace_bad_line(r, err, "a reallocation without its second line");
    if (!strchr("+-<>!", kind) || !mtrace_hex(&p, &block) ||
        (strchr("+>!", kind) && !mtrace_hex(&p, &size)) || *p)
        return mtrace_bad_line(r, err, "not a line of mtrace(3)");
    switch (kind) {
    case '+':
        mtrace_text_call(r, &(struct rows_call){.op = MLW_OP_MALLOC,
                                                .address = block,
                                                .size = size,
                                                .stack = stack,
                                                .path = block ? 0 : MLW_PATH_FAILED});
        break;
    case '-': mtrace_text_call(r, &(struct rows_call){.op = MLW_OP_FREE, .address = block}); break;
    case '<': r->old = block; break;
    default:
        if (kind == '>' && !r->old)
            return mtrace_bad_line(r, err, "the second line of a reallocation without its first");
        mtrace_text_call(r, &(struct rows_call){.op = MLW_OP_REALLOC_OLD,
                                                .address = kind == '>' ? r->old : block});
        mtrace_text_call(r, &(struct rows_call){.op = MLW_OP_REALLOC,
                                                .address = kind == '>' ? block : 0,
                                                .size = size,
                                                .stack = stack,
                                                .path = kind == '>' ? 0 : MLW_PATH_FAILED});
        r->old = 0;
    }
    r->any = true;
    return 0;
}

static int mtrace_read_line(void *arg, char *line, size_t n, struct error *err)
{
    struct reader *r = arg;
    (void)n;
    uint32_t stack = 0;
    char *p = line;
    if (!*line)
        return 0;
    if (*line == '=') {
        r->result->skipped++;
        return 0;
    }
    if (!strncmp(line, "@ ", 2)) {
        char *end = NULL;
        for (char *next = strstr(line, "] "); next; next = strstr(next + 1, "] "))
            end = next;
        if (!end)
            return mtrace_bad_line(r, err, "a line without its caller");
        *end = 0;
        p = end + 2;
        if (mtrace_read_caller(r, line + 2, &stack, err))
            return -1;
    }
    return read_call(r, p, stack, err);
}

static void mtrace_describe(const struct reader *r)
{
    rows_process(r->rows,
                 &(struct rows_process){
                     .tool = "mtrace(3)",
                     .pid = 1,
                     .stack_mode = MLW_STACKS_CALLER,
                     .note = r->is_missing
                                 ? "imported from a trace of mtrace(3): it has neither times nor "
                                   "threads, and of stacks the caller only, by the exported "
                                   "function before it; every allocation counts as malloc"
                                 : "imported from a trace of mtrace(3): it has neither times nor "
                                   "threads, and of stacks the caller only, whose name is that of "
                                   "the file as it is now; every allocation counts as malloc"});
}

int import_mtrace_text(const char *path, struct rows *rows, struct import_result *result,
                       uint64_t *end_ns, struct error *err)
{
    struct reader r = {.rows = rows, .result = result};
    int more = -1;
    r.source = source_open(path, err);
    if (r.source) {
        r.thread = rows_thread(rows, 1, "");
        more = source_each(r.source, mtrace_read_line, &r, err);
        result->cut = !more && source_is_cut(r.source);
        if (!more && !r.any)
            more = mtrace_bad_line(&r, err, "the trace has no call");
        if (!more)
            mtrace_describe(&r);
    }
    /* Where all files are there, a report has better names. */
    for (size_t i = 0; i < r.named_count; i++) {
        if (r.is_missing && r.named[i].function)
            rows_name(rows,
                      &(struct rows_name){.pc = r.named[i].pc, .function = r.named[i].function});
        free(r.named[i].function);
    }
    free(r.named);
    *end_ns = r.time_ns;
    result->calls = rows_calls(rows);
    source_close(r.source);
    strings_release(&r.files);
    strings_release(&r.callers);
    return more;
}
