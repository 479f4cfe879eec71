/* changed.c - functions whose code in the process is not that of their file: another tool patched
 * it. The kernel runs the first instruction of a probed function as the file has it, and writes the
 * file's first byte back when the probe goes. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/uprobe.h"
#include "base/proc.h"
#include "probe/kind.h"
#include "stop/handle.h"
#include "symbol/program.h"

enum {
    OPCODE_BYTES = 3, /* what follows may be another instruction, which may change */
    MAPPINGS_MAX = 1 << 20
};

/* A breakpoint is mostly another probe's, with which the kernel shares it. */
static bool is_same(const uint8_t *file, const uint8_t *memory)
{
    return !memcmp(file, memory, OPCODE_BYTES) || memory[0] == ARCH_BREAKPOINT;
}

static void compare(const struct handle *h, int file, const struct proc_mapping *m,
                    struct place *place)
{
    uint8_t in_file[OPCODE_BYTES], in_memory[OPCODE_BYTES];
    const uint64_t at = place->offset - m->offset;
    if (place->offset >= m->offset && at < m->end - m->start &&
        pread(file, in_file, sizeof in_file, (off_t)place->offset) == sizeof in_file &&
        handle_read(h, m->start + at, in_memory, sizeof in_memory) && !is_same(in_file, in_memory))
        place->refused = PLACE_CHANGED;
}

int engine_refuse_changed(const struct probe_engine *e, const char *path, struct place *places,
                          size_t n, struct error *err)
{
    struct handle h;
    struct stat st;
    struct proc_maps maps;
    struct proc_mapping m;
    if (!e->pid)
        return 0;
    const int file = program_open(path, err);
    if (file < 0)
        return -1;
    handle_open(&h, (pid_t)e->pid);
    if (h.memory >= 0 && !fstat(file, &st) && proc_maps_open(&maps, (pid_t)e->pid)) {
        for (size_t left = MAPPINGS_MAX; left && proc_maps_next(&maps, &m); left--)
            for (size_t i = 0; i < n && engine_is_code_of(&st, (pid_t)e->pid, &m); i++)
                compare(&h, file, &m, &places[i]);
        proc_maps_close(&maps);
    }
    handle_close(&h);
    close(file);
    return 0;
}
