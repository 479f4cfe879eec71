/* mtrace.c - reading a raw trace of dj/malloc (for the text of glibc's mtrace(3), see
 * mtrace_text.c). It has neither times nor stacks: a call takes place
 * a microsecond after the one before. The order is that in which the calls can have happened, see
 * workload/djmalloc_order.h. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/readers.h"
#include "import/source.h"
#include "trust/file.h"
#include "workload/djmalloc_order.h"
#include "workload/djmalloc_record.h"

struct reader {
    struct rows *rows;
    uint64_t time_ns;
};

static uint32_t thread(void *arg, int32_t id, bool first)
{
    struct reader *r = arg;
    (void)first;
    return rows_thread(r->rows, (uint32_t)id, "");
}

static void row(struct reader *r, uint32_t thread, struct rows_call c)
{
    r->time_ns += 1000;
    c.time_ns = r->time_ns;
    rows_call(r->rows, thread, &c);
}

static uint32_t mtrace_add_call(void *arg, uint32_t thread, const struct djmalloc_record *k,
                                uint32_t slot, uint32_t vanished)
{
    static const uint8_t ops[] = {
        [DJ_MALLOC] = MLW_OP_MALLOC,     [DJ_CALLOC] = MLW_OP_CALLOC,
        [DJ_FREE] = MLW_OP_FREE,         [DJ_REALLOC] = MLW_OP_REALLOC,
        [DJ_MEMALIGN] = MLW_OP_MEMALIGN, [DJ_VALLOC] = MLW_OP_VALLOC,
        [DJ_PVALLOC] = MLW_OP_PVALLOC,   [DJ_POSIX_MEMALIGN] = MLW_OP_POSIX_MEMALIGN};
    struct reader *r = arg;
    const unsigned type = k->type_path & 255;
    const bool failed = djmalloc_failed(k);
    (void)vanished; /* the sealer sees that the address comes back */
    if (type == DJ_FREE) {
        row(r, thread, (struct rows_call){.op = MLW_OP_FREE, .address = k->ptr1});
        return 0;
    }
    if (type == DJ_REALLOC && k->ptr1)
        row(r, thread, (struct rows_call){.op = MLW_OP_REALLOC_OLD, .address = k->ptr1});
    const bool frees = type == DJ_REALLOC && k->ptr1 && !k->size && slot != DJ_NO_SLOT;
    const bool aligned = type == DJ_MEMALIGN || type == DJ_POSIX_MEMALIGN;
    row(r, thread,
        (struct rows_call){.op = ops[type],
                           .address = failed ? 0 : k->ptr2,
                           .size = k->size,
                           .argument = aligned ? k->size2 : 0,
                           .usable = k->size3,
                           .has_usable = k->size3 >= k->size && !failed,
                           .path = (uint8_t)((failed && !frees ? MLW_PATH_FAILED : 0) |
                                             (k->type_path & DJ_PATH_MMAP ? MLW_PATH_MMAPPED : 0) |
                                             (k->type_path & DJ_PATH_SBRK ? MLW_PATH_SBRK : 0))});
    return 0;
}

static bool is_mtrace_text(const char *path)
{
    struct error ignored;
    char *line;
    size_t n;
    struct source *s = source_open(path, &ignored);
    const bool is = s && source_line(s, &line, &n, &ignored) > 0 && import_is_mtrace_text(line);
    source_close(s);
    return is;
}

int import_mtrace(const char *path, struct rows *rows, struct import_result *result,
                  uint64_t *end_ns, struct error *err)
{
    struct reader r = {.rows = rows};
    const struct djmalloc_sink sink = {&r, thread, mtrace_add_call};
    struct djmalloc_result records = {0};
    size_t bytes = 0;
    if (is_mtrace_text(path))
        return import_mtrace_text(path, rows, result, end_ns, err);
    uint8_t *data = trust_map(path, &bytes, err);
    if (!data)
        return -1;
    rows_process(rows,
                 &(struct rows_process){
                     .tool = "dj/malloc",
                     .pid = 1,
                     .stack_mode = MLW_STACKS_NONE,
                     .allocator = "glibc, dj/malloc",
                     .note = "imported from a trace of dj/malloc: times and stacks are not in "
                             "it; each call takes place a microsecond after the one before"});
    int status = 0;
    const size_t size = sizeof(struct djmalloc_record);
    if (bytes % size)
        status = error_set(err, ERROR_FORMAT,
                           "%s, offset %zu: the file ends within a record of %zu bytes", path,
                           bytes / size * size, size);
    else
        status = djmalloc_read_records(data, bytes, &sink, &records, err);
    if (status)
        error_prefix(err, "%s", path);
    munmap(data, bytes);
    *end_ns = r.time_ns;
    result->calls = rows_calls(rows);
    result->unsure = records.forced;
    return status;
}
