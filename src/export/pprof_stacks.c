/* pprof_stacks.c - Writes each address of a process as one location of a pprof profile, with its
 * inlined functions as lines. Functions inside call sites go into drop_frames unless another
 * stack needs them. Hidden frames are left out, except for the call site itself. */
#include "export/pprof_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "export/job.h"

static uint64_t pprof_mapping_of(struct pprof_stacks *p, const struct trace_image *image,
                                 uint32_t module)
{
    if (!module || module > image->module_count)
        return 0;
    const struct trace_module *m = &image->modules[module - 1];
    if (!p->mappings[module])
        p->mappings[module] = p->sink.mapping(
            p->sink.arg, &(struct pprof_mapping){.start = m->start,
                                                 .limit = m->end,
                                                 .path = m->path,
                                                 .build_id = m->build_id,
                                                 .build_id_bytes = m->build_id_bytes,
                                                 .has_names = true,
                                                 .has_files = true,
                                                 .has_lines = true,
                                                 .has_inlined = true});
    return p->mappings[module];
}

static int location_of(struct pprof_stacks *p, struct names *names, uint32_t node,
                       uint64_t *location, struct error *err)
{
    const struct trace_image *image = names_image(names);
    const struct job_place at = job_place(image, node);
    bool fresh;
    uint32_t id = strings_id(&p->places, &at, sizeof at, &fresh);
    if (!id || !ARRAY_ROOM(p->locations, id, p->location_room))
        return error_memory_for(err, "the places of a profile");
    if (fresh) {
        struct pprof_line lines[64];
        const uint32_t *ids;
        size_t count = names_of(names, node, &ids);
        if (count > sizeof lines / sizeof *lines)
            count = sizeof lines / sizeof *lines;
        for (size_t i = 0; i < count; i++) {
            const struct name_frame *f = names_frame(names, ids[i]);
            lines[i] =
                (struct pprof_line){.function = f->function, .file = f->file, .line = f->line};
        }
        uint64_t call = at.pc - (at.pc && !(at.flags & MLW_NODE_EXACT));
        p->locations[id - 1] = p->sink.location(p->sink.arg, pprof_mapping_of(p, image, at.module),
                                                call, lines, count);
    }
    *location = p->locations[id - 1];
    return 0;
}

static uint64_t mapping_into_pprof(void *out, const struct pprof_mapping *m)
{
    return pprof_mapping(out, m);
}

static uint64_t location_into_pprof(void *out, uint64_t mapping, uint64_t address,
                                    const struct pprof_line *lines, size_t line_count)
{
    return pprof_location(out, mapping, address, lines, line_count);
}

static void inward_into_pprof(void *out, const char *function) { pprof_drop(out, function); }
static void outward_into_pprof(void *out, const char *function) { pprof_keep(out, function); }

int pprof_stacks_begin(struct pprof_stacks *p, struct pprof *out, const struct trace_image *image,
                       struct error *err)
{
    const struct pprof_sink sink = {out, mapping_into_pprof, location_into_pprof, inward_into_pprof,
                                    outward_into_pprof};
    return pprof_stacks_begin_into(p, &sink, image, err);
}

int pprof_stacks_begin_into(struct pprof_stacks *p, const struct pprof_sink *sink,
                            const struct trace_image *image, struct error *err)
{
    *p = (struct pprof_stacks){.sink = *sink};
    p->mappings = calloc((size_t)image->module_count + 1, sizeof *p->mappings);
    p->outward = calloc((size_t)image->stacks + 1, 1);
    if (!p->mappings || !p->outward)
        return error_memory_for(err, "mappings");
    for (uint32_t i = 0; i < image->module_count; i++) /* the program itself comes first */
        if (image->exe && image->modules[i].path && !strcmp(image->modules[i].path, image->exe))
            pprof_mapping_of(p, image, i + 1);
    return 0;
}

enum { INWARD = 1, OUTWARD = 2 };

/* False without memory. */
static bool tell_side(struct pprof_stacks *p, struct names *names, uint32_t id, uint8_t side)
{
    const size_t known = p->side_room;
    if (id >= known) {
        if (!ARRAY_ROOM(p->sides, (size_t)id + 1, p->side_room))
            return false;
        memset(p->sides + known, 0, p->side_room - known);
    }
    if (p->sides[id] & side)
        return true;
    p->sides[id] |= side;
    (side == INWARD ? p->sink.inward : p->sink.outward)(p->sink.arg,
                                                        names_frame(names, id)->function);
    return true;
}

/* Which functions stand inward of call sites, and which do not. */
static bool tell_sides(struct pprof_stacks *p, struct names *names, uint32_t stack, uint32_t site,
                       uint32_t position)
{
    uint32_t last = 0;
    uint8_t side = INWARD;
    for (struct names_walk w = {.node = stack}; names_next(names, &w);) {
        if (w.node == site && w.position == position)
            side = OUTWARD;
        else if (side == OUTWARD && w.node != last && w.node != site) {
            if (p->outward[w.node])
                break;
            p->outward[w.node] = 1;
        }
        last = w.node;
        const bool allocates = names_frame(names, w.id)->role == ROLE_ALLOCATOR;
        if (!tell_side(p, names, w.id, allocates ? INWARD : side))
            return false;
    }
    return true;
}

/* All of its frames are. Not the call site, which may be an interpreter's own. */
static bool node_is_left_out(struct names *names, uint32_t node, uint32_t site)
{
    const uint32_t *ids;
    const size_t count = names_of(names, node, &ids);
    size_t i = 0;
    while (i < count && names_leaves_out(names, ids[i]))
        i++;
    return count && i == count && node != site;
}

int pprof_stacks_of(struct pprof_stacks *p, struct names *names, uint32_t stack,
                    const uint64_t **locations, size_t *count, struct error *err)
{
    const struct trace_image *image = names_image(names);
    *count = 0;
    uint32_t site = 0, position;
    if (names_site(names, stack, &site, &position) != NO_NAME && p->sink.inward &&
        !tell_sides(p, names, stack, site, position))
        return error_memory_for(err, "a profile");
    for (uint32_t node = stack; node; node = trace_caller(image, node)) {
        if (node_is_left_out(names, node, site))
            continue;
        if (!ARRAY_ROOM(p->stack, *count + 1, p->stack_room))
            return error_memory_for(err, "a stack");
        if (location_of(p, names, node, &p->stack[*count], err))
            return -1;
        ++*count;
    }
    *locations = p->stack;
    if (*count)
        return 0;
    if (!p->nowhere)
        p->nowhere = p->sink.location(p->sink.arg, 0, 0,
                                      &(struct pprof_line){.function = "[no stack recorded]"}, 1);
    *locations = &p->nowhere;
    *count = 1;
    return 0;
}

void pprof_stacks_end(struct pprof_stacks *p)
{
    free(p->mappings);
    free(p->locations);
    strings_release(&p->places);
    free(p->stack);
    free(p->sides);
    free(p->outward);
    *p = (struct pprof_stacks){0};
}
