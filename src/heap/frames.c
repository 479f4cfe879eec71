/* frames.c - see frames.h. */
#include "heap/frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "symbol/functions.h"
#include "symbol/unwindrows.h"

enum {
    SEGMENTS_MAX = 8,
    /* In a signal's frame, behind the return address: of struct ucontext. */
    CONTEXT_BP = 40 + 10 * 8,
    CONTEXT_SP = 40 + 15 * 8,
    CONTEXT_IP = 40 + 16 * 8
};

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
    size_t low = 0, high = offset == UINT64_MAX ? 0 : of->count;
    while (low < high) { /* the first that begins behind it */
        size_t middle = (low + high) / 2;
        if (of->rows[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &of->rows[low - 1] : NULL;
}

struct place { /* of the walk */
    uint64_t ip, sp, bp;
};

/* The frame's end. 0: not known. */
static uint64_t frame_end(struct frames *f, const struct unwind_row *row, const struct place *p)
{
    uint64_t end = 0;
    switch (row->rule) {
    case UNWIND_SP: return p->sp + (uint64_t)(int64_t)row->cfa_offset;
    case UNWIND_BP: return p->bp + (uint64_t)(int64_t)row->cfa_offset;
    case UNWIND_PLT: return p->sp + 8 + ((p->ip & 15) >= 11 ? 8 : 0);
    case UNWIND_REALIGNED:
        return target_peek(f->t, p->bp + (uint64_t)(int64_t)row->cfa_offset, &end) ? end : 0;
    default: return 0;
    }
}

/* Goes to the caller; false when there is none that can be found. *until: the end of the frame. */
static bool step(struct frames *f, const struct unwind_row *row, struct place *p, uint64_t *until)
{
    struct place above = *p;
    if (row->rule == UNWIND_SIGNAL) {
        if (!target_peek(f->t, p->sp + CONTEXT_IP, &above.ip) ||
            !target_peek(f->t, p->sp + CONTEXT_SP, &above.sp) ||
            !target_peek(f->t, p->sp + CONTEXT_BP, &above.bp))
            return false;
        *until = above.sp;
        *p = above;
        return true;
    }
    *until = above.sp = frame_end(f, row, p);
    if (!*until || !target_peek(f->t, *until - 8, &above.ip))
        return false;
    if (row->rule == UNWIND_REALIGNED) {
        if (!target_peek(f->t, p->bp, &above.bp))
            return false;
    } else if (row->bp_offset) {
        if (!target_peek(f->t, *until + (uint64_t)(int64_t)row->bp_offset, &above.bp))
            return false;
    }
    *p = above;
    return true;
}

size_t frames_of(struct frames *f, const struct target_thread *thread, uint64_t end,
                 struct stack_frame frame[FRAMES_MAX])
{
    struct place p = {thread->registers.ip, thread->registers.sp, thread->registers.bp};
    bool called = false; /* p.ip is a return address */
    size_t n = 0;
    while (n < FRAMES_MAX) {
        const struct module *m = modules_at(f->modules, p.ip - called);
        const struct unwind_row *row = m ? row_at(f, m, p.ip - called) : NULL;
        if (!row)
            break;
        struct stack_frame *at = &frame[n];
        *at = (struct stack_frame){.start = p.sp,
                                   .function = variables_function(f->variables, m, p.ip - called),
                                   .module = m->name};
        called = row->rule != UNWIND_SIGNAL;
        if (row->rule == UNWIND_END || !step(f, row, &p, &at->end)) {
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
