#include "watch/stacks.h"

#include <stdlib.h>
#include <string.h>

/* The arguments of the head as an array; their number is bounded by the room that they have. */
static const char **split_command(const char *text, size_t bytes)
{
    size_t count = 0, at = 0;
    while (at < bytes && text[at] && count < bytes / 2) {
        at += strnlen(text + at, bytes - at) + 1;
        count++;
    }
    const char **list = calloc(count + 1, sizeof *list);
    at = 0;
    for (size_t i = 0; list && i < count; i++) {
        size_t n = strnlen(text + at, bytes - at);
        list[i] = strndup(text + at, n);
        at += n + 1;
    }
    return list;
}

int stacks_begin(struct stacks *t, const struct segment *s, struct error *err)
{
    *t = (struct stacks){0};
    t->image.pid = s->head.pid;
    t->image.ppid = s->head.ppid;
    t->image.start_ns = s->head.start_ns;
    t->image.exe = strdup(s->head.exe);
    t->command = split_command(s->head.command, sizeof s->head.command);
    t->image.command = t->command;
    if (t->image.exe && t->command)
        return 0;
    stacks_release(t);
    return error_memory(err);
}

void stacks_release(struct stacks *t)
{
    for (const char **c = t->command; c && *c; c++)
        free((void *)(uintptr_t)*c);
    free(t->command);
    free((void *)(uintptr_t)t->image.exe);
    for (uint32_t i = 0; i < t->image.module_count; i++) {
        free((void *)(uintptr_t)t->modules[i].path);
        free((void *)(uintptr_t)t->modules[i].build_id);
    }
    free(t->modules);
    free(t->module_version);
    free(t->nodes);
    free(t->table);
    *t = (struct stacks){0};
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
    if (segment_module(s, number - 1, &m) != SEGMENT_WHOLE || !room_for_modules(t, number))
        return 0;
    uint8_t *id = NULL;
    char *path = strdup(m.path);
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
                                                   .start = m.start,
                                                   .end = m.end,
                                                   .bias = m.bias,
                                                   .loaded_ns = m.since_ns,
                                                   .gone_ns = UINT64_MAX};
    t->module_version[number - 1] = m.version;
    return number;
}

static uint32_t place(const struct stacks *t, const struct trace_frame_node *n)
{
    uint64_t h = (n->pc ^ (uint64_t)n->parent << 40 ^ (uint64_t)n->module << 20 ^ n->flags) *
                 0x9e3779b97f4a7c15u;
    uint32_t k = (uint32_t)(h ^ h >> 32) & (t->table_room - 1);
    for (; t->table[k]; k = (k + 1) & (t->table_room - 1)) {
        const struct trace_frame_node *o = &t->nodes[t->table[k]];
        if (o->pc == n->pc && o->parent == n->parent && o->module == n->module &&
            o->flags == n->flags)
            break;
    }
    return k;
}

static bool room_for_node(struct stacks *t)
{
    if (t->image.stacks + 1 >= t->node_room) {
        uint32_t room = t->node_room ? t->node_room * 2 : 1024;
        struct trace_frame_node *nodes = realloc(t->nodes, room * sizeof *nodes);
        if (!nodes)
            return false;
        t->nodes = nodes;
        t->image.nodes = nodes;
        t->node_room = room;
    }
    if ((t->image.stacks + 1) * 2 >= t->table_room) {
        uint32_t room = t->table_room ? t->table_room * 2 : 4096, *old = t->table;
        uint32_t *table = calloc(room, sizeof *table);
        if (!table)
            return false;
        t->table = table;
        t->table_room = room;
        for (uint32_t i = 1; i <= t->image.stacks; i++)
            t->table[place(t, &t->nodes[i])] = i;
        free(old);
    }
    return true;
}

static uint32_t node_of(struct stacks *t, struct trace_frame_node n)
{
    if (!room_for_node(t)) {
        t->failed = true;
        return 0;
    }
    uint32_t k = place(t, &n);
    if (!t->table[k] && t->image.stacks == STACKS_NODES_MAX)
        return 0;
    if (!t->table[k]) {
        t->nodes[++t->image.stacks] = n;
        t->table[k] = t->image.stacks;
    }
    return t->table[k];
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
