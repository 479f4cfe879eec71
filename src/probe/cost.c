/* cost.c - see cost.h. */
#include "probe/cost.h"

#include <bpf/libbpf.h>
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
static bool offset_of(void (*function)(void *), uint64_t *offset)
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
    if (!offset_of(cost_pushes, &offsets[0]) || !offset_of(cost_moves, &offsets[1]))
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
