/* calls.c - random call paths that end in probes; see calls.h.
 *
 * Built with -O2 -fomit-frame-pointer: plain frames, recursion, alloca, realigned frames, tail
 * calls, many arguments, longjmp, callbacks of libc, rbp that holds data. */
#include <alloca.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "../victims/apart.h"
#include "calls.h"
#include "host.h"

static _Thread_local uint64_t seed;
static unsigned rnd(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static _Thread_local volatile unsigned long sink;
static void step(int depth);
typedef void (*path_fn)(int);

APART static void plain(int depth)
{
    step(depth - 1);
    sink++;
}

APART static void locals(int depth)
{
    volatile char buf[200];
    buf[depth & 127] = 1;
    step(depth - 1);
    sink += (unsigned long)buf[3];
}

APART static void with_alloca(int depth)
{
    size_t n = 16 + rnd(600);
    char *p = alloca(n);
    memset(p, 1, n);
    step(depth - 1);
    sink += (unsigned long)p[n / 2];
}

APART static void realigned(int depth)
{
    __attribute__((aligned(64))) volatile char buf[128];
    buf[depth & 127] = 1;
    step(depth - 1);
    sink += (unsigned long)buf[5] + ((unsigned long)buf & 63);
}

APART static void realigned_alloca(int depth)
{
    __attribute__((aligned(128))) volatile char buf[128];
    size_t n = 16 + rnd(300);
    char *p = alloca(n);
    memset(p, 2, n);
    buf[1] = p[0];
    step(depth - 1);
    sink += (unsigned long)buf[1] + (unsigned long)p[n - 1];
}

APART static void tail(int depth)
{
    sink++;
    step(depth - 1); /* becomes a jump */
}

APART static void saves_all(int depth)
{
    unsigned long a = sink, b = a * 3, c = b ^ 7, d = c + a, e = d * b, f = e - c;
    step(depth - 1);
    sink += a + b * c + d * e + f;
    step(rnd(4) ? 0 : depth / 2);
    sink += a ^ b ^ c ^ d ^ e ^ f;
}

APART static void many(int depth, long a, long b, long c, long d, long e, long f, long g, long h)
{
    sink += (unsigned long)(a + b + c + d + e + f + g + h);
    step(depth - 1);
    sink += (unsigned long)(g * h);
}

APART static void arguments(int depth)
{
    many(depth, 1, 2, 3, 4, 5, 6, 7, 8);
    sink++;
}

static _Thread_local int callback_depth;
static int compare(const void *a, const void *b)
{
    if (callback_depth > 0) {
        int d = callback_depth;
        callback_depth = 0;
        step(d - 1);
    }
    return *(const int *)a - *(const int *)b;
}

APART static void through_qsort(int depth)
{
    int v[5] = {5, 3, 1, 2, 4};
    callback_depth = depth;
    qsort(v, 5, sizeof v[0], compare);
    sink += (unsigned long)v[0];
}

static _Thread_local jmp_buf back;
static _Thread_local volatile int armed;
APART static void jumps(int depth)
{
    if (armed) {
        plain(depth);
        return;
    }
    armed = 1;
    if (setjmp(back) == 0) {
        step(depth - 1);
        if (rnd(2))
            longjmp(back, 1);
    }
    armed = 0;
    step(depth / 2);
}

APART static void long_frame(int depth)
{
    volatile char buf[40000];
    buf[depth] = 1;
    step(depth - 1);
    sink += (unsigned long)buf[9];
}

static const path_fn path[] = {plain, locals,    with_alloca, realigned,     realigned_alloca,
                               tail,  saves_all, arguments,   through_qsort, jumps,
                               plain, plain,     long_frame,  tail};

/* probe with something in rbp that is no frame */
void probe_with_rbp(uint64_t rbp);
__asm__(".text\n"
        ".globl probe_with_rbp\n"
        ".type probe_with_rbp,@function\n"
        "probe_with_rbp:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rbp, 0\n"
        "mov %rdi, %rbp\n"
        "call probe\n"
        "pop %rbp\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore %rbp\n"
        "ret\n"
        ".cfi_endproc\n");

APART static void step(int depth)
{
    if (depth <= 0) {
        switch (rnd(4)) {
        case 0: probe(); break;
        case 1:
            probe();
            sink++;
            probe();
            break;
        case 2: probe_with_rbp(rnd(2) ? (uint64_t)&depth + rnd(64) : seed); break;
        default:
            probe();
            if (armed && rnd(8) == 0)
                longjmp(back, 2);
        }
        sink++;
        return;
    }
    path[rnd(sizeof path / sizeof path[0])](depth);
    sink++;
}

void random_calls(uint64_t start, int depth)
{
    seed = start;
    armed = 0;
    callback_depth = 0;
    rnd(2);
    step(1 + (int)rnd((unsigned)depth));
}
