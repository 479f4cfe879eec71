/* stacks.c - Keeps the stacks and modules of a watched process as a trace image that only grows.
 * Equal stacks become one node. Memory is charged to the process's user. */
#include "watch/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cmdline.h"
#include "format/file_id.h"

/* The arguments of the head. Of a library that does not say how many bytes they are, those that
 * follow the last one which is not empty are not known. */
static const char **split_command(const struct mlw_watch *head)
{
    size_t bytes = sizeof head->command - 1;
    if (head->command_bytes && head->command_bytes < bytes)
        bytes = head->command_bytes;
    else
        while (bytes && !head->command[bytes - 1])
            bytes--;
    return cmdline_split(head->command, bytes);
}

int stacks_begin(struct stacks *t, const struct segment *s, struct charge *charge,
                 struct error *err)
{
    *t = (struct stacks){.charge = charge};
    t->image.pid = s->head.pid;
    t->image.start_ns = s->head.start_ns;
    t->image.exe = strdup(s->head.exe);
    t->command = split_command(&s->head);
    t->image.command = t->command;
    if (t->image.exe && t->command)
        return 0;
    stacks_release(t);
    return error_memory(err);
}

void stacks_release(struct stacks *t)
{
    free(t->command);
    free((void *)(uintptr_t)t->image.exe);
    for (uint32_t i = 0; i < t->image.module_count; i++) {
        free((void *)(uintptr_t)t->modules[i].path);
        free((void *)(uintptr_t)t->modules[i].build_id);
    }
    free(t->modules);
    free(t->module_version);
    stacks_drop_nodes(t);
    *t = (struct stacks){0};
}

void stacks_drop_nodes(struct stacks *t)
{
    free(t->nodes);
    index_release(&t->index);
    t->nodes = NULL;
    t->image.nodes = NULL;
    t->node_room = t->image.stacks = 0;
}

static bool room_for_modules(struct stacks *t, uint32_t count)
{
    if (count > t->module_room) {
        uint32_t room = count + 64;
        struct trace_module *modules = realloc(t->modules, room * sizeof *modules);
        if (modules)
            t->modules = modules;
        uint32_t *versions = realloc(t->module_version, room * sizeof *versions);
        if (versions)
            t->module_version = versions;
        if (!modules || !versions)
            return false;
        t->module_room = room;
        t->image.modules = modules;
    }
    for (uint32_t i = t->image.module_count; i < count; i++) {
        t->modules[i] = (struct trace_module){.gone_ns = UINT64_MAX};
        t->module_version[i] = 0;
    }
    if (count > t->image.module_count)
        t->image.module_count = count;
    return true;
}

/* The module that frames call `number`; 0 when nothing is known of it. */
static uint32_t module_of(struct stacks *t, const struct segment *s, uint32_t number)
{
    struct mlw_watch_module m;
    if (!number || number > s->table[SEGMENT_MODULES].count)
        return 0;
    if (number <= t->image.module_count && t->module_version[number - 1])
        return number;
    if (segment_module(s, number - 1, &m) != SEGMENT_WHOLE || !charge_take(t->charge, sizeof m) ||
        !room_for_modules(t, number))
        return 0;
    uint8_t *id = NULL;
    char *path = strdup(m.path);
    struct mlw_file_id_summed file = {0};
    if (mlw_file_id_read(m.build_id, m.build_id_bytes, &file))
        m.build_id_bytes = 0;
    if (m.build_id_bytes && (id = malloc(m.build_id_bytes)))
        memcpy(id, m.build_id, m.build_id_bytes);
    if (!path || (m.build_id_bytes && !id)) {
        free(path);
        free(id);
        t->failed = true;
        return 0;
    }
    t->modules[number - 1] = (struct trace_module){.path = path,
                                                   .build_id = id,
                                                   .build_id_bytes = m.build_id_bytes,
                                                   .file_bytes = file.id.size_bytes,
                                                   .file_mtime_ns = file.id.mtime_ns,
                                                   .start = m.start,
                                                   .end = m.end,
                                                   .bias = m.bias,
                                                   .loaded_ns = m.since_ns,
                                                   .gone_ns = UINT64_MAX};
    t->module_version[number - 1] = m.version;
    return number;
}

static uint64_t hash_node(const struct trace_frame_node *n)
{
    return n->pc ^ (uint64_t)n->parent << 40 ^ (uint64_t)n->module << 20 ^ n->flags;
}

static uint32_t node_of(struct stacks *t, struct trace_frame_node n)
{
    const uint64_t hash = hash_node(&n);
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&t->index, hash, &at)) != INDEX_NONE;) {
        const struct trace_frame_node *o = &t->nodes[i];
        if (o->pc == n.pc && o->parent == n.parent && o->module == n.module && o->flags == n.flags)
            return i;
    }
    if (t->image.stacks == STACKS_NODES_MAX || !charge_take(t->charge, ACCOUNT_NODE_BYTES))
        return 0;
    i = t->image.stacks + 1;
    if (!ARRAY_ROOM(t->nodes, (size_t)i + 1, t->node_room) || !index_add(&t->index, hash, i)) {
        t->failed = true;
        return 0;
    }
    t->image.nodes = t->nodes;
    t->nodes[i] = n;
    t->image.stacks = i;
    return i;
}

uint32_t stacks_node(struct stacks *t, const struct segment *s, const struct mlw_watch_stack *stack)
{
    uint32_t node = 0;
    if (stack->frames &&
        stack->flags & (MLW_WATCH_STACK_CUT | MLW_WATCH_STACK_TRUNCATED | MLW_WATCH_STACK_CALLER))
        node = node_of(t, (struct trace_frame_node){.flags = MLW_NODE_TRUNCATED});
    for (uint32_t i = stack->frames; i-- > 0;) {
        uint64_t f = stack->frame[i];
        uint32_t flags = f & MLW_WATCH_FRAME_EXACT ? MLW_NODE_EXACT : 0;
        node = node_of(
            t, (struct trace_frame_node){.parent = node,
                                         .module = module_of(t, s, MLW_WATCH_FRAME_MODULE(f)),
                                         .pc = MLW_WATCH_FRAME_PC(f),
                                         .flags = flags});
        if (!node)
            break;
    }
    return node;
}
