/* host.c - see host.h. */
#include "host.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "format/row.h"

volatile uint32_t sys_closed, sys_inside;

#define NODES   (1u << 22)
#define MODULES 4096u
#define FRAMES  120000

static struct host_node *nodes;
static struct host_module modules[MODULES];
static uint32_t last_node, last_module;
static uint64_t truncations;
uint64_t probe_count, probe_wrong;
_Thread_local int probe_may_be_cut, probe_cut;
_Thread_local uint32_t probe_node, probe_depth;
static _Thread_local struct unwind_thread *thread;

extern void *__libc_stack_end;

struct host_node host_node(uint32_t id) { return nodes[id]; }
uint32_t host_nodes(void) { return __atomic_load_n(&last_node, __ATOMIC_RELAXED); }
struct host_module *host_module(uint32_t id) { return &modules[id]; }
uint32_t host_modules(void) { return __atomic_load_n(&last_module, __ATOMIC_RELAXED); }
uint64_t host_truncations(void) { return __atomic_load_n(&truncations, __ATOMIC_RELAXED); }

void *unwind_host_map(size_t bytes)
{
    void *p = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? 0 : p;
}

void unwind_host_unmap(void *p, size_t bytes) { munmap(p, bytes); }

static void raise_to(uint32_t *p, uint32_t v)
{
    uint32_t seen = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v > seen &&
           !__atomic_compare_exchange_n(p, &seen, v, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void unwind_host_node(void *ctx, uint32_t id, uint32_t parent, uint64_t pc, uint32_t module,
                      unsigned flags)
{
    (void)ctx;
    if (id == 0 || id >= NODES || nodes[id].pc || parent >= id) {
        fprintf(stderr, "node %u (parent %u) announced out of order or twice\n", id, parent);
        abort();
    }
    nodes[id] = (struct host_node){pc ? pc : ~(uint64_t)0, parent, module, flags};
    raise_to(&last_node, id);
}

void unwind_host_module(void *ctx, uint32_t id, uint64_t start, uint64_t end, uint64_t bias,
                        const uint8_t *build_id, size_t build_id_bytes, const char *path)
{
    (void)ctx;
    (void)build_id;
    if (id == 0 || id >= MODULES)
        abort();
    int gone = modules[id].gone;
    modules[id] = (struct host_module){start, end, bias, build_id_bytes, gone, ""};
    snprintf(modules[id].path, sizeof modules[id].path, "%s", path);
    raise_to(&last_module, id);
}

void unwind_host_module_gone(void *ctx, uint32_t id)
{
    (void)ctx;
    modules[id].gone++;
}

void unwind_host_truncated(void) { __atomic_add_fetch(&truncations, 1, __ATOMIC_RELAXED); }

void host_init(void)
{
    void *warm[4];
    backtrace(warm, 4); /* loads libgcc_s */
    nodes = mmap(0, NODES * sizeof *nodes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (nodes == MAP_FAILED ||
        unwind_init(dlsym(RTLD_DEFAULT, "_dl_find_object"), __libc_stack_end) != 0)
        abort();
}

struct unwind_thread *host_thread(void)
{
    if (!thread)
        thread = unwind_thread_new();
    if (!thread)
        abort();
    return thread;
}

__asm__(".text\n"
        ".globl probe\n"
        ".type probe,@function\n"
        "probe:\n"
        ".cfi_startproc\n"
        "mov %rsp, %rdi\n"
        "mov %rbp, %rsi\n"
        "sub $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "call probe_at\n"
        "add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size probe,.-probe\n");

void host_adopt(struct unwind_thread *state) { thread = state; }

static void complain(const char *what, uint32_t id, void **bt, int k, int n)
{
    fprintf(stderr, "disagreement: %s at frame %d of %d\n", what, k, n);
    for (int i = 0; i < n && i < 60; i++)
        fprintf(stderr, "  backtrace %2d %p\n", i, bt[i]);
    for (int i = 0; id && i < 60; i++, id = nodes[id].parent)
        fprintf(stderr, "  mallow    %2d %#lx %s+%#lx flags %u\n", i, nodes[id].pc,
                modules[nodes[id].module].path, nodes[id].pc - modules[nodes[id].module].bias,
                nodes[id].flags);
}

void probe_at(uint64_t sp, uint64_t bp)
{
    static _Thread_local void **bt;
    if (!bt)
        bt = mmap(0, FRAMES * sizeof *bt, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint32_t id = unwind_stack(host_thread(), sp, bp, 0);
    int n = backtrace(bt, FRAMES), k = 0;
    uint64_t ra = *(uint64_t *)sp;
    while (k < n && (uint64_t)bt[k] != ra)
        k++;
    probe_node = id;
    probe_depth = 0;
    probe_cut = 0;
    __atomic_add_fetch(&probe_count, 1, __ATOMIC_RELAXED);
    const char *wrong = id ? 0 : "no id";
    uint32_t at = id;
    for (; at && !wrong; at = nodes[at].parent) {
        if (nodes[at].flags & MLW_NODE_TRUNCATED) {
            probe_cut = 1;
            if (!probe_may_be_cut)
                wrong = "truncated";
            break;
        }
        probe_depth++;
        if (k < n && (uint64_t)bt[k] != nodes[at].pc)
            wrong = "another pc";
        else if (k < n)
            k++;
        else if (!probe_may_be_cut)
            wrong = "too long";
    }
    if (!wrong && !at && k != n)
        wrong = "too short";
    if (wrong && __atomic_add_fetch(&probe_wrong, 1, __ATOMIC_RELAXED) < 5)
        complain(wrong, id, bt, k, n);
}

int host_verdict(uint64_t least)
{
    printf("%lu stacks compared, %lu wrong, %u nodes, %u modules, %lu truncated\n", probe_count,
           probe_wrong, host_nodes(), host_modules(), host_truncations());
    return probe_wrong || probe_count < least;
}
