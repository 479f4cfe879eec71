/* oracle.c - a preload library that unwinds at every malloc, calloc and realloc of a real program,
 * and compares every ORACLE_EVERY-th stack with glibc's backtrace().
 *
 * At exit it appends one line to the file ORACLE_OUT: program, calls, compared, disagreements,
 * truncated, nodes. ORACLE_EVERY=0: only unwinds. Linked against the unwinder and host.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);

static _Thread_local int busy;
static _Thread_local unsigned turn;
static int ready;
static unsigned every = 16;
static uint64_t calls;

static void at_call(uint64_t sp, uint64_t bp)
{
    if (!ready || busy)
        return;
    busy = 1;
    calls++;
    if (every && ++turn % every == 0)
        probe_at(sp, bp);
    else
        unwind_stack(host_thread(), sp, bp, 0);
    busy = 0;
}

void oracle_malloc_at(uint64_t sp, uint64_t bp);
void oracle_malloc_at(uint64_t sp, uint64_t bp) { at_call(sp, bp); }

/* name: saves the arguments, hands rsp and rbp over, and goes on to the real function. */
#define ENTRY(name)                                                                                \
    __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n"                     \
            ".cfi_startproc\n"                                                                     \
            "push %rdi\n.cfi_adjust_cfa_offset 8\n"                                                \
            "push %rsi\n.cfi_adjust_cfa_offset 8\n"                                                \
            "lea 16(%rsp), %rdi\n"                                                                 \
            "mov %rbp, %rsi\n"                                                                     \
            "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"                                             \
            "call oracle_malloc_at\n"                                                              \
            "add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"                                            \
            "pop %rsi\n.cfi_adjust_cfa_offset -8\n"                                                \
            "pop %rdi\n.cfi_adjust_cfa_offset -8\n"                                                \
            "jmp __libc_" #name "@PLT\n"                                                           \
            ".cfi_endproc\n.size " #name ",.-" #name "\n")
ENTRY(malloc);
ENTRY(calloc);
ENTRY(realloc);

__attribute__((constructor)) static void start(void)
{
    const char *e = getenv("ORACLE_EVERY");
    busy = 1;
    if (e)
        every = (unsigned)atoi(e);
    probe_may_be_cut = 1;
    host_init();
    busy = 0;
    ready = 1;
}

__attribute__((destructor)) static void stop(void)
{
    const char *to = getenv("ORACLE_OUT");
    char line[512];
    busy = 1;
    ready = 0;
    if (!to)
        return;
    int n = snprintf(line, sizeof line, "%s %lu %lu %lu %lu %u\n", program_invocation_short_name,
                     calls, probe_count, probe_wrong, host_truncations(), host_nodes());
    int fd = open(to, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (fd >= 0 && write(fd, line, (size_t)n) != n)
        fprintf(stderr, "cannot write %s\n", to);
}
