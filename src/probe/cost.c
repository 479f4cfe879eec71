/* cost.c - Measures how long a probe stops a thread, on two functions of this program. One
 * begins with an instruction that the kernel emulates, the other with one that it executes out
 * of line. The minimum of several rounds counts, because other load is not part of the cost. */
#include "probe/cost.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "arch/uprobe.h"
#include "base/clock.h"
#include "base/proc.h"
#include "probe/attach.h"
#include "symbol/program.h"

enum { CALLS = 32, ROUNDS = 16 };

/* One begins with push, the other with an instruction that is executed aside. */
ARCH_UPROBE_FUNCTIONS(cost_pushes, cost_moves);
void cost_pushes(void *);
void cost_moves(void *);

bool cost_is_aside(const char *path, uint64_t offset)
{
    uint8_t code[3] = {0};
    struct error ignored;
    int fd = program_open(path, &ignored);
    const bool is_read =
        fd >= 0 && pread(fd, code, sizeof code, (off_t)offset) == (ssize_t)sizeof code;
    if (fd >= 0)
        close(fd);
    const uint8_t op = code[0] == 0x41 ? code[1] : code[0]; /* push of r8 to r15 */
    const bool jumps = code[0] == 0xe8 || code[0] == 0xe9 || code[0] == 0xeb ||
                       (code[0] & 0xf0) == 0x70 || (code[0] == 0x0f && (code[1] & 0xf0) == 0x80);
    const bool nothing = code[0] == 0x90 || (code[0] == 0x0f && code[1] == 0x1f) ||
                         (code[0] == 0x66 && code[1] == 0x90);
    return is_read && (op & 0xf8) != 0x50 && !jumps && !nothing;
}

/* Where a function of this program stands in its file. */
static bool function_file_offset(void (*function)(void *), uint64_t *offset)
{
    const uint64_t address = (uint64_t)(uintptr_t)function;
    struct proc_maps maps;
    struct proc_mapping m;
    bool found = false;
    if (!proc_maps_open(&maps, 0))
        return false;
    while (!found && proc_maps_next(&maps, &m)) {
        found = address >= m.start && address < m.end;
        *offset = m.offset + (address - m.start);
    }
    proc_maps_close(&maps);
    return found;
}

/* The least of several rounds, for one call: what else runs here is not the probe's. */
static uint64_t time_of(void (*function)(void *))
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t start = clock_monotonic_ns();
        for (int k = 0; k < CALLS; k++)
            function(NULL);
        const uint64_t ns = (clock_monotonic_ns() - start) / CALLS;
        least = ns < least ? ns : least;
    }
    return least;
}

bool cost_measure(struct bpf_program *entry, struct bpf_program *on_return, struct cost *cost)
{
    static const char self[] = "/proc/self/exe";
    uint64_t offsets[2];
    if (!function_file_offset(cost_pushes, &offsets[0]) ||
        !function_file_offset(cost_moves, &offsets[1]))
        return false;
    const int enters =
        attach_link(bpf_program__fd(entry), self, offsets, NULL, NULL, 2, false, getpid());
    if (enters < 0)
        return false;
    cost->entry_ns = time_of(cost_pushes);
    cost->entry_aside_ns = time_of(cost_moves);
    const int leaves =
        attach_link(bpf_program__fd(on_return), self, offsets, NULL, NULL, 1, true, getpid());
    const uint64_t both = leaves < 0 ? 0 : time_of(cost_pushes);
    cost->return_ns = both > cost->entry_ns ? both - cost->entry_ns : 0;
    if (leaves >= 0)
        close(leaves);
    close(enters);
    return leaves >= 0;
}

/* ---- the filter by process ---- */

/* A program that adds one to the word of a map. Returns its descriptor, or -1. */
static int counting_program(int map)
{
    const struct bpf_insn code[] = {
        {.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = BPF_REG_10, .off = -4},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10},
        {.code = BPF_ALU64 | BPF_ADD, .dst_reg = BPF_REG_2, .imm = -4},
        {.code = BPF_LD | BPF_DW, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {.code = 0},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
        {.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = BPF_REG_0, .off = 2},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_1, .imm = 1},
        {.code = BPF_STX | BPF_ATOMIC | BPF_DW,
         .dst_reg = BPF_REG_0,
         .src_reg = BPF_REG_1,
         .imm = BPF_ADD},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    LIBBPF_OPTS(bpf_prog_load_opts, options,
                .expected_attach_type = (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
    return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "mallow_reach", "GPL", code,
                         sizeof code / sizeof *code, &options);
}

static void *push_once(void *arg)
{
    cost_pushes(NULL);
    return arg;
}

bool cost_threads_meet_probes(void)
{
    uint64_t offset, met = 0;
    uint32_t first = 0;
    pthread_t thread;
    const int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "mallow_reach", 4, 8, 1, NULL);
    const int program = map < 0 ? -1 : counting_program(map);
    const int link =
        program < 0 || !function_file_offset(cost_pushes, &offset)
            ? -1
            : attach_link(program, "/proc/self/exe", &offset, NULL, NULL, 1, false, getpid());
    if (link >= 0 && !pthread_create(&thread, NULL, push_once, NULL)) {
        pthread_join(thread, NULL);
        bpf_map_lookup_elem(map, &first, &met);
    }
    if (link >= 0)
        close(link);
    if (program >= 0)
        close(program);
    if (map >= 0)
        close(map);
    return met != 0;
}
