/* frames.c - Follows the callers of a stopped thread by unwind rules of the mapped files, and
 * reports which function's frame covers which part of the stack. Rules of a module are read when
 * its first frame appears. A frame that does not rise, or that leaves the stack, ends the walk. */
#include "heap/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "remote/unwind.h"
#include "symbol/functions.h"

enum { SEGMENTS_MAX = 8 };

struct frames {
    struct target *t;
    const struct modules *modules;
    struct variables *variables;
    struct tables {
        bool read;
        struct unwind_row *rows;
        size_t count;
        struct elf_segment segment[SEGMENTS_MAX];
        size_t segments;
    } * of; /* by module */
};

struct frames *frames_new(struct target *t, const struct modules *modules,
                          struct variables *variables)
{
    struct frames *f = calloc(1, sizeof *f);
    if (f)
        f->of = calloc(modules->count ? modules->count : 1, sizeof *f->of);
    if (!f || !f->of) {
        free(f);
        return NULL;
    }
    f->t = t;
    f->modules = modules;
    f->variables = variables;
    return f;
}

void frames_free(struct frames *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->modules->count; i++)
        free(f->of[i].rows);
    free(f->of);
    free(f);
}

static const struct tables *tables_of(struct frames *f, const struct module *m)
{
    struct tables *of = &f->of[m - f->modules->at];
    if (of->read)
        return of;
    of->read = true;
    int fd = variables_open(f->variables, m);
    if (fd < 0)
        return of;
    char opened[64];
    struct error ignored;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    of->segments = functions_segments(opened, of->segment, SEGMENTS_MAX);
    if (unwind_rows_read(opened, &of->rows, &of->count, &ignored)) {
        of->rows = NULL;
        of->count = 0;
    }
    close(fd);
    return of;
}

static const struct unwind_row *row_at(struct frames *f, const struct module *m, uint64_t address)
{
    const struct tables *of = tables_of(f, m);
    uint64_t in_file = address - m->bias, offset = UINT64_MAX;
    for (size_t i = 0; i < of->segments; i++)
        if (in_file - of->segment[i].address < of->segment[i].bytes)
            offset = in_file - of->segment[i].address + of->segment[i].offset;
    return offset == UINT64_MAX ? NULL : unwind_row_at(of->rows, of->count, offset);
}

size_t frames_of(struct frames *f, const struct target_thread *thread, uint64_t end,
                 struct stack_frame frame[FRAMES_MAX])
{
    struct unwind_place p = {thread->registers.ip, thread->registers.sp, thread->registers.bp};
    bool called = false; /* p.pc is a return address */
    size_t n = 0;
    while (n < FRAMES_MAX) {
        const struct module *m = modules_at(f->modules, p.pc - called);
        const struct unwind_row *row = m ? row_at(f, m, p.pc - called) : NULL;
        if (!row)
            break;
        struct stack_frame *at = &frame[n];
        *at = (struct stack_frame){.start = p.sp,
                                   .function = variables_function(f->variables, m, p.pc - called),
                                   .module = m->name};
        called = row->rule != UNWIND_SIGNAL;
        const bool found = unwind_step(f->t, row, &p);
        at->end = p.sp;
        if (!found) {
            at->end = end; /* the outermost, or what it is cannot be known */
            n += row->rule == UNWIND_END;
            break;
        }
        if (at->end <= at->start || at->end > end || at->end & 7)
            break;
        n++;
    }
    return n;
}
