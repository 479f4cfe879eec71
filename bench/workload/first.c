/* first.c - stacks and return addresses that were not seen before, a malloc and its free each.
 *
 * first stacks N: through 12 calls, each from one of four places, all of which were seen before. Of
 * a stack about half of the frames are new. first addresses N: each through another function, of
 * which there are FUNCTIONS. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../tests/victims/apart.h"

#define LEVELS    12
#define FUNCTIONS "2560"

static volatile unsigned sink;

APART static void *down(unsigned level, uint32_t path)
{
    void *p;
    if (!level)
        return malloc(64);
    switch (path & 3) {
    case 0:
        p = down(level - 1, path >> 2);
        sink = 0;
        break;
    case 1:
        p = down(level - 1, path >> 2);
        sink = 1;
        break;
    case 2:
        p = down(level - 1, path >> 2);
        sink = 2;
        break;
    default: p = down(level - 1, path >> 2); sink = 3;
    }
    sink = level;
    return p;
}

/* Prologues as compilers write them, 64 bytes each. */
extern const char functions[];
__asm__(".pushsection .text\n.p2align 6\nfunctions:\n.rept " FUNCTIONS "\n"
        ".cfi_startproc\n"
        "push %r12\n.cfi_def_cfa_offset 16\n.cfi_offset %r12, -16\n"
        "push %rbp\n.cfi_def_cfa_offset 24\n.cfi_offset %rbp, -24\n"
        "push %rbx\n.cfi_def_cfa_offset 32\n.cfi_offset %rbx, -32\n"
        "sub $32, %rsp\n.cfi_def_cfa_offset 64\n"
        "mov $64, %edi\ncall malloc@plt\n"
        "add $32, %rsp\n.cfi_def_cfa_offset 32\n"
        "pop %rbx\n.cfi_def_cfa_offset 24\n"
        "pop %rbp\n.cfi_def_cfa_offset 16\n"
        "pop %r12\n.cfi_def_cfa_offset 8\n"
        "ret\n.cfi_endproc\n.p2align 6\n.endr\n.popsection\n");

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const uint32_t n = (uint32_t)atoi(argv[2]);
    const int stacks = !strcmp(argv[1], "stacks");
    for (uint32_t i = 0; i < n; i++) {
        void *(*one)(void);
        uintptr_t at = (uintptr_t)functions + (uintptr_t)i * 64;
        memcpy(&one, &at, sizeof one);
        free(stacks ? down(LEVELS, i * 0x9e3779b1u >> 8) : one());
    }
    return 0;
}
