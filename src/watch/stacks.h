/* stacks.h - the call stacks and modules of one watched process, as frames/names.h wants them.
 *
 * Owns: a struct trace_image that only grows: a stack is a node of a trie of (caller, address,
 * module), so that equal stacks are one node, whichever entry of the shared memory they came from.
 * Node and module numbers stay what they are. One thread. */
#ifndef MALLOW_WATCH_STACKS_H
#define MALLOW_WATCH_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/index.h"
#include "trace/trace.h"
#include "watch/account.h"
#include "watch/segment.h"

/* More nodes than any program needs. Stacks beyond the bound are dropped, because a hostile
 * process can make up new stacks without end. */
#define STACKS_NODES_MAX (1u << 20)

struct stacks {
    struct trace_image image; /* pid, exe, command, nodes, modules; names refer to it */
    struct trace_frame_node *nodes;
    uint32_t node_room;
    struct index index; /* places of nodes */
    struct trace_module *modules;
    uint32_t
        *module_version; /* the module version of the entry when it was read; 0: not read yet */
    uint32_t module_room;
    const char **command;
    struct charge *charge; /* pays for nodes and modules; refused ones are missing */
    bool failed;           /* memory ran out: some stacks are missing */
};

/* Copies the head's description of the program. Returns -1 with *err without memory. */
int stacks_begin(struct stacks *t, const struct segment *s, struct charge *charge,
                 struct error *err);
void stacks_release(struct stacks *t);
/* Frees all nodes, but keeps the image and modules, to which names refer. */
void stacks_drop_nodes(struct stacks *t);

/* Returns the node of the innermost frame; 0: no frames, or no memory. It reads modules from the
 * segment when a frame first names them. */
uint32_t stacks_node(struct stacks *t, const struct segment *s,
                     const struct mlw_watch_stack *stack);

#endif
