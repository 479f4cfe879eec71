/* import.c - Recognizes the format of a foreign trace by its first lines, runs its reader, and
 * finishes or abandons the recording. A trace that ends early becomes a recording with a note. */
#include "import/import.h"

#include <string.h>

#include "import/readers.h"
#include "import/source.h"
#include "workload/djmalloc_order.h"

const char *const import_names[] = {"(unknown)", "heaptrack", "mtrace", "perf", NULL};

/* By its first line. */
static int guess(const char *path, enum import_format *format, struct error *err)
{
    char *line;
    size_t n;
    *format = IMPORT_UNKNOWN;
    if (djmalloc_kind(path) == DJMALLOC_TRACE) {
        *format = IMPORT_MTRACE;
        return 0;
    }
    struct source *s = source_open(path, err);
    if (!s)
        return -1;
    struct error ignored;
    for (unsigned lines = 0; lines < 100 && source_line(s, &line, &n, &ignored) > 0; lines++) {
        if (!n || *line == '#')
            continue;
        if (lines == 0 && !strncmp(line, "v ", 2))
            *format = IMPORT_HEAPTRACK;
        else if (lines == 0 && import_is_mtrace_text(line))
            *format = IMPORT_MTRACE;
        else if (strstr(line, ": ") && strpbrk(line, "0123456789") && strchr(line, '.'))
            *format = IMPORT_PERF;
        break;
    }
    source_close(s);
    if (*format == IMPORT_UNKNOWN)
        return error_set(err, ERROR_USAGE,
                         "%s is neither a file of heaptrack, nor a trace of dj/malloc or of "
                         "mtrace(3), nor the output of perf script with the time of each event",
                         path);
    return 0;
}

int import_file(const char *path, enum import_format format, const char *out,
                struct import_result *result, struct error *err)
{
    uint64_t end_ns = 0;
    memset(result, 0, sizeof *result);
    if (format == IMPORT_UNKNOWN && guess(path, &format, err))
        return -1;
    result->format = format;
    struct rows *r = rows_new(out, err);
    if (!r)
        return -1;
    int status = format == IMPORT_HEAPTRACK ? import_heaptrack(path, r, result, &end_ns, err)
                 : format == IMPORT_MTRACE  ? import_mtrace(path, r, result, &end_ns, err)
                                            : import_perf(path, r, result, &end_ns, err);
    if (status) {
        rows_abandon(r);
        return -1;
    }
    if (result->cut)
        rows_note(r, 0, "the imported file is truncated; the calls after that are missing");
    return rows_finish(r, end_ns, err);
}
