/* changed.c - functions whose code in the process is not that of their file: another tool patched
 * it. The kernel runs the first instruction of a probed function as the file has it, and writes the
 * file's first byte back when the probe goes. */
#include <string.h>
#include <unistd.h>

#include "arch/uprobe.h"
#include "probe/attach.h"
#include "probe/code.h"
#include "remote/handle.h"

enum { OPCODE_BYTES = 3 }; /* another instruction may follow, which may change */

/* A breakpoint is mostly another probe's, with which the kernel shares it. */
static bool is_same(const uint8_t *file, const uint8_t *memory)
{
    return !memcmp(file, memory, OPCODE_BYTES) || memory[0] == ARCH_BREAKPOINT;
}

static void compare_with_file(const struct handle *h, int file, const struct proc_mapping *m,
                              struct place *place)
{
    uint8_t in_file[OPCODE_BYTES], in_memory[OPCODE_BYTES];
    const uint64_t at = place->offset - m->offset;
    if (place->offset >= m->offset && at < m->end - m->start &&
        pread(file, in_file, sizeof in_file, (off_t)place->offset) == sizeof in_file &&
        handle_read(h, m->start + at, in_memory, sizeof in_memory) && !is_same(in_file, in_memory))
        place->refused = PLACE_CHANGED;
}

void attach_refuse_changed(const struct attach_how *how, int file, struct place *places, size_t n)
{
    struct handle h;
    struct stat st;
    struct code_walk walk;
    struct proc_mapping m;
    size_t budget = CODE_MAPPINGS_MAX;
    if (!how->process)
        return;
    handle_open(&h, how->process);
    if (h.memory >= 0 && !fstat(file, &st) && code_open(&walk, how->process, &st)) {
        while (code_next(&walk, &budget, &m))
            for (size_t i = 0; i < n; i++)
                compare_with_file(&h, file, &m, &places[i]);
        code_close(&walk);
    }
    handle_close(&h);
}
