/* calling.c - calls made with what hands-on code leaves in the processor: stack pointers that are
 * not aligned, stacks that are small or end at a guard page, the registers of floating point in
 * use. `calling MODE [BYTES]`; each mode prints the same every time. Alone all of them work, since
 * glibc's allocator is as careful as it has to be. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apart.h"

/* No vector registers: the compiler, too, would count on an aligned stack. */
#define PLAIN __attribute__((target("general-regs-only"))) APART

enum { PAGE = 4096, ROOM = 1 << 20 };

static _Noreturn void broken(const char *what)
{
    fprintf(stderr, "broken: %s (%s)\n", what, strerror(errno));
    _exit(1);
}

/* Calls f on the stack that ends at top, with that base pointer. There is no unwind information:
 * such code has none. */
__attribute__((visibility("hidden"))) void on_stack(void *top, void (*f)(void), uint64_t base);
__asm__(".text\n.globl on_stack\n.type on_stack, @function\non_stack:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n"
        "  mov %rsp, %rbx\n  mov %rdi, %rsp\n  mov %rdx, %rbp\n"
        "  call *%rsi\n"
        "  mov %rbx, %rsp\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n"
        ".size on_stack, .-on_stack\n");

/* Memory with a page that may not be touched at each end; what lies at its top. */
static char *stack_of(size_t bytes)
{
    size_t all = (bytes + PAGE - 1) / PAGE * PAGE;
    char *p = mmap(0, all + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + PAGE, all, PROT_READ | PROT_WRITE))
        broken("mmap");
    return p + PAGE + all;
}

/* ---- what is called there ---- */

static unsigned failures;

static PLAIN void check(const void *p) { failures += !p; }

static PLAIN void blocks(size_t n)
{
    void *p = malloc(n), *q = calloc(n, 3), *r = 0, *s = aligned_alloc(64, 640);
    check(p);
    check(q);
    p = realloc(p, 2 * n + 1);
    check(p);
    failures += posix_memalign(&r, 256, n) != 0;
    check(s);
    free(q);
    free(p);
    free(r);
    free(s);
}

static PLAIN void deeper(unsigned depth, size_t n)
{
    if (depth)
        deeper(depth - 1, n);
    blocks(n);
    __asm__ volatile("" ::: "memory");
}

static PLAIN void everything(void)
{
    for (unsigned i = 0; i < 60; i++) {
        deeper(i, 16 * i + 1);
        blocks(200000 + 4096 * i);
    }
    void *m = mmap(0, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m = mremap(m, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE);
    check(m == MAP_FAILED ? 0 : m);
    munmap(m, 16 * PAGE);
    struct sigaction a = {.sa_handler = SIG_DFL};
    failures += sigaction(SIGSEGV, &a, 0) != 0;
    signal(SIGUSR1, SIG_IGN);
}

static PLAIN void one_pair(void)
{
    for (unsigned i = 0; i < 200; i++) {
        void *p = malloc(i + 1);
        check(p);
        free(p);
    }
}

/* ---- modes ---- */

static void *off_in_thread(void *top)
{
    on_stack(top, everything, 0);
    return 0;
}

/* 8 off: in the first thread, in one that has not called the allocator before, and in the child of
 * a fork. One arena: glibc's beginning of another one wants an aligned stack. */
static int off(void)
{
    mallopt(M_ARENA_MAX, 1);
    char *top = stack_of(ROOM) - 8;
    pthread_t t;
    on_stack(top, everything, 0);
    on_stack(top + 8, everything, 0);
    if (pthread_create(&t, 0, off_in_thread, stack_of(ROOM) - 24) || pthread_join(t, 0))
        broken("a thread");
    pid_t p = fork();
    on_stack(top, everything, 0);
    if (!p)
        _exit(failures != 0);
    return 0;
}

/* The base pointer is just another register: it may hold anything. */
static int bases(void)
{
    char *top = stack_of(ROOM);
    const uint64_t t = (uint64_t)top, base[] = {0,
                                                1,
                                                t - 8,
                                                t - 7,
                                                t - 16,
                                                t,
                                                t + 8,
                                                t + PAGE - 8,
                                                t + PAGE,
                                                t - ROOM,
                                                t - ROOM - 8,
                                                t - ROOM - PAGE,
                                                ~0ull,
                                                ~0ull - 15,
                                                1ull << 47,
                                                (1ull << 47) - 8,
                                                0xdeadbeefdeadbee8,
                                                (uint64_t)&top,
                                                (uint64_t)base};
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
        for (int k = 8; k <= 64; k += 8)
            on_stack(top - k, one_pair, base[i]);
    return 0;
}

static size_t asked = 16384;

/* Calls on a stack of so many bytes, below which a page may not be touched. */
static int small(void)
{
    char *top = stack_of(asked) - (PAGE - asked % PAGE) % PAGE;
    on_stack(top, one_pair, 0);
    on_stack(top, everything, 0);
    return 0;
}

static PLAIN void many(void)
{
    for (unsigned i = 0; i < 300000; i++)
        free(malloc(i % 3000));
}

/* How many bytes of a stack f has used: it is painted before. */
static size_t used(void (*f)(void))
{
    unsigned char *top = (unsigned char *)stack_of(ROOM), *at = top - ROOM;
    memset(at, 0xa5, ROOM);
    on_stack(top, f, 0);
    while (*at == 0xa5)
        at++;
    return (size_t)(top - at);
}

static void *used_in_thread(void *most)
{
    *(size_t *)most = used(one_pair);
    return 0;
}

/* On standard error: how much of a stack is used by the first calls of the process, by calls of all
 * kinds, by so many that buffers are full, by the first of a thread, and by the first after a fork.
 */
static int paint(void)
{
    size_t n[5];
    pthread_t t;
    mallopt(M_ARENA_MAX, 1);
    n[0] = used(one_pair);
    n[1] = used(everything);
    n[2] = used(many);
    if (pthread_create(&t, 0, used_in_thread, &n[3]) || pthread_join(t, 0))
        broken("a thread");
    int way[2];
    if (pipe(way))
        broken("pipe");
    pid_t p = (pid_t)syscall(SYS_fork);
    if (!p) {
        n[4] = used(one_pair);
        (void)!write(way[1], &n[4], sizeof n[4]);
        _exit(0);
    }
    if (p < 0 || read(way[0], &n[4], sizeof n[4]) != sizeof n[4])
        broken("a fork");
    fprintf(stderr, "used: first %zu, all %zu, many %zu, thread %zu, fork %zu\n", n[0], n[1], n[2],
            n[3], n[4]);
    return 0;
}

static volatile sig_atomic_t handled;

static void on_signal(int n)
{
    (void)n;
    free(malloc(100 + (size_t)handled * 5000));
    handled++;
}

/* A handler on an alternate stack: what the kernel needs there, and the bytes that were asked for.
 */
static int altstack(void)
{
    const size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) + asked,
                 pages = (bytes + PAGE - 1) / PAGE;
    stack_t s = {.ss_sp = stack_of(bytes) - pages * PAGE, .ss_size = bytes};
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&s, 0) || sigaction(SIGUSR1, &a, 0))
        broken("sigaltstack");
    for (int i = 0; i < 40; i++)
        raise(SIGUSR1);
    printf("%d\n", (int)handled);
    return 0;
}

/* ---- the registers of floating point, and the direction of string instructions ---- */

struct state { /* as fxsave writes it */
    uint16_t control, status;
    uint8_t tags, reserved;
    uint16_t opcode;
    uint64_t instruction, operand;
    uint32_t mxcsr, mask;
    struct {
        uint8_t value[10], reserved[6];
    } st[8];
    uint8_t rest[512 - 32 - 128];
} __attribute__((aligned(16)));

static PLAIN void pairs(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        void *p = malloc(i % 500 + 1), *q = calloc(3, i % 100 + 1);
        check(p);
        q = realloc(q, 600);
        check(q);
        free(p);
        free(q);
    }
}

/* All eight registers of the x87 hold a value, it and SSE round upwards, and each exception is a
 * signal. A program may keep all of that across a call: an instruction of floating point in it
 * would end the program. */
static PLAIN void floats_kept(struct state *before, struct state *after)
{
    const uint16_t control = 0x0840; /* single precision, upwards, nothing masked */
    const uint32_t mxcsr = 0x4000;
    __asm__ volatile(
        "fninit\n fldcw %0\n fld1\n fldpi\n fldl2e\n fldl2t\n fldlg2\n fldln2\n fldz\n fld1\n"
        "ldmxcsr %1"
        :
        : "m"(control), "m"(mxcsr));
    __asm__ volatile("fxsave64 %0" : "=m"(*before));
    pairs(40000);
    deeper(40, 700);
    __asm__ volatile("fxsave64 %0" : "=m"(*after));
    const uint32_t usual = 0x1f80;
    __asm__ volatile("fninit\n ldmxcsr %0" : : "m"(usual));
}

static int floats(void)
{
    static struct state before, after;
    floats_kept(&before, &after);
    if (before.tags != 0xff || before.mxcsr != 0x4000)
        broken("the registers could not be filled");
    printf("control %x status %x tags %x mxcsr %x\n", after.control, after.status, after.tags,
           after.mxcsr);
    return memcmp(before.st, after.st, sizeof before.st) || before.control != after.control ||
           before.status != after.status || before.tags != after.tags ||
           before.mxcsr != after.mxcsr;
}

/* The ABI has string instructions go upwards at each call. Where they do not, malloc and free of
 * small blocks work all the same, and leave it so. */
static PLAIN uint64_t backwards_kept(void)
{
    uint64_t flags;
    __asm__ volatile("std");
    pairs(40000);
    one_pair();
    __asm__ volatile("pushfq\n pop %0\n cld" : "=r"(flags)::"memory");
    return flags >> 10 & 1;
}

static void *backwards_in_thread(void *kept)
{
    pairs(1); /* glibc's beginning of a thread does not work backwards */
    *(uint64_t *)kept = backwards_kept();
    return 0;
}

static int backwards(void)
{
    uint64_t kept[2];
    pthread_t t;
    mallopt(M_ARENA_MAX, 1);
    pairs(1000);
    if (pthread_create(&t, 0, backwards_in_thread, &kept[0]) || pthread_join(t, 0))
        broken("a thread");
    kept[1] = backwards_kept();
    printf("%d %d\n", (int)kept[0], (int)kept[1]);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"off", off},           {"bases", bases},   {"small", small},        {"paint", paint},
        {"altstack", altstack}, {"floats", floats}, {"backwards", backwards}};
    if (argc > 2)
        asked = strtoul(argv[2], 0, 0);
    if (argc > 3) { /* attached to meanwhile */
        puts("ready");
        fflush(stdout);
        getchar();
    }
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, argv[1])) {
            int r = modes[i].run();
            printf("%s: %u failures\n", argv[1], failures);
            return r | (failures != 0);
        }
    return 2;
}
