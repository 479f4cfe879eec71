/* select.c - Turns the user's filters into the set of stacks, threads and times that the model
 * lets through. A stack passes if it has a matching frame for each pattern that is given. */
#include "select.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

static int no_such_process(const struct trace_info *info, uint32_t pid, struct error *err)
{
    struct buffer known = {0};
    for (uint32_t i = 0; i < info->image_count && i < 12; i++)
        if (i == 0 || info->images[i].pid != info->images[i - 1].pid)
            buffer_printf(&known, "%s%u", known.size_bytes ? ", " : "", info->images[i].pid);
    error_set(err, ERROR_USAGE, "no process %u in this recording; it has %s%s", pid,
              known.size_bytes ? buffer_text(&known) : "none",
              info->image_count > 12 ? ", ..." : "");
    buffer_release(&known);
    return -1;
}

int selection_open(struct selection *s, const struct selection_options *o,
                   const struct trace_info *info, struct error *err)
{
    bool found = !o->pid;
    for (uint32_t i = 0; i < info->image_count && !found; i++)
        found = info->images[i].pid == o->pid;
    if (!found)
        return no_such_process(info, o->pid, err);
    memset(s, 0, sizeof *s);
    s->options = o;
    if (o->thread) {
        char *end;
        unsigned long tid = strtoul(o->thread, &end, 10);
        s->has_thread = true;
        s->thread_is_tid = *o->thread && !*end;
        s->tid = (uint32_t)tid;
        if (!s->thread_is_tid && pattern_compile(&s->thread, o->thread, err))
            return error_prefix(err, "--thread");
    }
    if (o->function) {
        if (pattern_compile(&s->function, o->function, err)) {
            selection_close(s);
            return error_prefix(err, "--function");
        }
        s->has_function = true;
    }
    if (o->module) {
        if (pattern_compile(&s->module, o->module, err)) {
            selection_close(s);
            return error_prefix(err, "--module");
        }
        s->has_module = true;
    }
    if (o->source) {
        if (pattern_compile(&s->source, o->source, err)) {
            selection_close(s);
            return error_prefix(err, "--source-file");
        }
        s->has_source = true;
    }
    return 0;
}

void selection_close(struct selection *s)
{
    if (s->has_thread && !s->thread_is_tid)
        pattern_release(&s->thread);
    if (s->has_function)
        pattern_release(&s->function);
    if (s->has_module)
        pattern_release(&s->module);
    if (s->has_source)
        pattern_release(&s->source);
}

bool selection_has_image(const struct selection *s, const struct trace_image *image)
{
    return !s->options->pid || image->pid == s->options->pid;
}

bool selection_any(const struct selection_options *o, unsigned of)
{
    const bool time = o->from_ns || o->to_ns,
               blocks = o->min_bytes || o->below_bytes || o->min_lifetime_ns || o->only_new ||
                        o->thread || o->function || o->module || o->source;
    return (of & SELECTION_TIME && time) || (of & SELECTION_BLOCKS && blocks);
}

bool selection_has_time(const struct selection_options *o, uint64_t time_ns)
{
    return time_ns >= o->from_ns && (!o->to_ns || time_ns < o->to_ns);
}

bool selection_filters(const struct selection *s)
{
    return selection_any(s->options, SELECTION_TIME | SELECTION_BLOCKS);
}

enum {
    SEEN = 1,
    FUNCTION = 2,
    MODULE = 4,
    SOURCE = 8
}; /* the parts that a stack was found to contain */

static uint8_t frame_bits(const struct selection *s, struct names *names, uint32_t node)
{
    const uint32_t *ids;
    size_t n = names_of(names, node, &ids);
    uint8_t bits = SEEN;
    for (size_t i = 0; i < n; i++) {
        const struct name_frame *f = names_frame(names, ids[i]);
        if (s->has_function && names_frame_matches(f, &s->function))
            bits |= FUNCTION;
        if (s->has_module && pattern_matches(&s->module, f->module))
            bits |= MODULE;
        if (s->has_source &&
            (pattern_matches(&s->source, f->place) || pattern_matches(&s->source, f->file)))
            bits |= SOURCE;
    }
    return bits;
}

/* A stack passes when some frame of it matches each of the patterns given. */
static int pass_stacks(const struct selection *s, const struct trace_image *image,
                       struct names *names, uint8_t *pass, struct error *err)
{
    uint32_t *path = malloc(((size_t)image->stacks + 1) * sizeof *path);
    if (!path)
        return error_memory(err);
    for (uint32_t i = 1; i <= image->stacks; i++) {
        size_t depth = 0;
        uint32_t node = i;
        for (; node && !pass[node]; node = trace_caller(image, node))
            path[depth++] = node;
        uint8_t bits = node ? pass[node] : 0;
        while (depth) {
            node = path[--depth];
            bits |= frame_bits(s, names, node);
            pass[node] = bits;
        }
    }
    const uint8_t wanted =
        (uint8_t)(s->has_function * FUNCTION | s->has_module * MODULE | s->has_source * SOURCE);
    for (uint32_t i = 0; i <= image->stacks; i++)
        pass[i] = (pass[i] & wanted) == wanted;
    free(path);
    return 0;
}

int selection_resolve(const struct selection *s, const struct trace_image *image,
                      struct names *names, struct image_filter *f, struct error *err)
{
    const struct selection_options *o = s->options;
    memset(f, 0, sizeof *f);
    f->filter = (struct model_filter){.from_ns = o->from_ns,
                                      .to_ns = o->to_ns,
                                      .min_bytes = o->min_bytes,
                                      .below_bytes = o->below_bytes,
                                      .min_lifetime_ns = o->min_lifetime_ns,
                                      .only_new = o->only_new};
    if (s->has_thread) {
        f->thread_pass = calloc((size_t)image->thread_count + 1, 1);
        if (!f->thread_pass)
            return error_memory(err);
        for (uint32_t i = 0; i < image->thread_count; i++)
            f->thread_pass[i] = s->thread_is_tid
                                    ? image->threads[i].tid == s->tid
                                    : pattern_matches(&s->thread, image->threads[i].name);
        f->filter.thread_pass = f->thread_pass;
    }
    if (s->has_function || s->has_module || s->has_source) {
        f->stack_pass = calloc((size_t)image->stacks + 1, 1);
        if (!f->stack_pass || pass_stacks(s, image, names, f->stack_pass, err)) {
            selection_release(f);
            return error_memory(err);
        }
        f->filter.stack_pass = f->stack_pass;
    }
    return 0;
}

void selection_release(struct image_filter *f)
{
    free(f->thread_pass);
    free(f->stack_pass);
    memset(f, 0, sizeof *f);
}
