/* edges.c - stacks that are no plain nest of calls, compared with backtrace() or with known truth:
 * signals on this and on another stack, coroutines, very deep recursion, code without tables,
 * generated code, libraries that come and go, forbidden system calls. Built without frame
 * pointers. Takes the directory of the plugins. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../victims/apart.h"
#include "calls.h"
#include "format/row.h"
#include "host.h"

static int failures;
static volatile unsigned long sink;

#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                     \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

/* ---- signals ---- */

static volatile sig_atomic_t handled, nest;

static void on_signal(int number)
{
    handled++;
    probe();
    random_calls(5, 10);
    probe();
    if (nest) {
        nest = 0;
        raise(number == SIGUSR1 ? SIGUSR2 : SIGUSR1);
    }
    probe();
}

/* Divides by zero at a known instruction: the interrupted frame's address is exact. */
static volatile int zero;
static sigjmp_buf out_of_fault;
static void on_fault(int number)
{
    (void)number;
    probe();
    EXPECT(probe_depth > 3);
    int exact = 0;
    for (uint32_t id = probe_node; id; id = host_node(id).parent)
        exact += (host_node(id).flags & MLW_NODE_EXACT) != 0;
    EXPECT(exact == 1);
    handled++;
    siglongjmp(out_of_fault, 1);
}
APART static int divide(int by) { return 7 / by; }

static void signals(int flags)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = flags};
    struct sigaction fault = {.sa_handler = on_fault, .sa_flags = flags};
    if (flags & SA_ONSTACK)
        sigaltstack(&alternate, 0);
    sigaction(SIGUSR1, &act, 0);
    sigaction(SIGUSR2, &act, 0);
    sigaction(SIGFPE, &fault, 0);
    handled = 0;
    for (volatile int i = 0; i < 20; i++) {
        nest = i & 1;
        raise(i & 2 ? SIGUSR1 : SIGUSR2);
        probe();
        if (sigsetjmp(out_of_fault, 1) == 0)
            sink += (unsigned long)divide(zero);
        probe();
    }
    EXPECT(handled == 50);
}

/* Interrupts computation at arbitrary instructions: prologues, epilogues, PLT, libc. */
static void on_timer(int number)
{
    (void)number;
    handled++;
    int known = probe_may_be_cut;
    probe();
    probe_may_be_cut = known;
}
APART static unsigned long busy(unsigned n)
{
    char a[64], b[64];
    unsigned long sum = 0;
    for (unsigned i = 0; i < n; i++) {
        snprintf(a, sizeof a, "%u", i);
        strncpy(b, a, sizeof b);
        sum += strlen(b) + (unsigned long)atoi(a);
    }
    return sum;
}
static void timer(void)
{
    struct sigaction act = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &act, 0);
    timer_t id;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec every = {{0, 200000}, {0, 200000}};
    handled = 0;
    if (timer_create(CLOCK_MONOTONIC, &event, &id) != 0)
        abort();
    timer_settime(id, 0, &every, 0);
    while (handled < 1500)
        sink += busy(1000);
    timer_delete(id);
}

/* ---- coroutines ---- */

static ucontext_t main_context, context[2];
static void coroutine(int self)
{
    for (int i = 0; i < 30; i++) {
        probe();
        random_calls((uint64_t)i, 12);
        swapcontext(&context[self], self == 0 ? &context[1] : &main_context);
    }
}
static void coroutines(void)
{
    char *stack[2];
    for (volatile int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            stack[i] =
                mmap(0, 256 * 1024, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            getcontext(&context[i]);
            context[i].uc_stack.ss_sp = stack[i];
            context[i].uc_stack.ss_size = (size_t)(round == 1 ? 128 : 256) * 1024;
            context[i].uc_link = &main_context;
            makecontext(&context[i], (void (*)(void))coroutine, 1, i);
        }
        for (int i = 0; i < 30; i++) {
            swapcontext(&main_context, &context[0]);
            probe();
        }
        for (int i = 0; i < 2; i++) {
            munmap(stack[i], 256 * 1024);
            unwind_unmapped((uint64_t)stack[i], (uint64_t)stack[i] + 256 * 1024, 0);
        }
    }
}

/* ---- deep stacks ---- */

APART static unsigned long deep(int n)
{
    unsigned long r;
    if (n == 0) {
        probe();
        probe();
        r = probe_depth;
    } else {
        r = deep(n - 1);
    }
    sink += r;
    return r;
}
static void *deep_stacks(void *argument)
{
    (void)argument;
    EXPECT(deep(100) > 100);
    EXPECT(deep(10000) > 10000);
    EXPECT(deep(10007) > 10007);
    EXPECT(deep(40000) > 40000);
    EXPECT(deep(20) > 20);
    EXPECT(deep(60000) > 60000);
    /* beyond what is walked at once: a mark, and the frames next to the call */
    uint64_t marks = host_truncations();
    probe_may_be_cut = 1;
    deep(90000);
    probe_may_be_cut = 0;
    EXPECT(probe_cut);
    EXPECT(probe_depth > 100);
    EXPECT(host_truncations() > marks);
    EXPECT(deep(30) > 30);
    EXPECT(!probe_cut);
    return 0;
}

/* ---- code that the tables do not describe ---- */

void no_tables(void (*callback)(void));
__asm__(".text\n"
        ".globl no_tables\n"
        ".type no_tables,@function\n"
        "no_tables:\n"
        "sub $24, %rsp\n"
        "call *%rdi\n"
        "add $24, %rsp\n"
        "ret\n"
        ".size no_tables,.-no_tables\n");

/* The same, with a frame pointer. */
void framed_no_tables(void (*callback)(void));
__asm__(".text\n"
        ".globl framed_no_tables\n"
        ".type framed_no_tables,@function\n"
        "framed_no_tables:\n"
        "push %rbp\n"
        "mov %rsp, %rbp\n"
        "sub $48, %rsp\n"
        "call *%rdi\n"
        "leave\n"
        "ret\n"
        ".size framed_no_tables,.-framed_no_tables\n");

/* Calls no_tables(callback) with this rbp. */
void with_rbp(void (*callback)(void), uint64_t rbp);
__asm__(".text\n"
        ".globl with_rbp\n"
        ".type with_rbp,@function\n"
        "with_rbp:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rbp, 0\n"
        "mov %rsi, %rbp\n"
        "call no_tables\n"
        "pop %rbp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size with_rbp,.-with_rbp\n");

/* CFA in a register that we do not follow. */
void strange_tables(void (*callback)(void));
__asm__(".text\n"
        ".globl strange_tables\n"
        ".type strange_tables,@function\n"
        "strange_tables:\n"
        ".cfi_startproc\n"
        "push %r12\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %r12, 0\n"
        "mov %rsp, %r12\n"
        ".cfi_def_cfa_register %r12\n"
        "and $-64, %rsp\n"
        "call *%rdi\n"
        "mov %r12, %rsp\n"
        ".cfi_def_cfa_register %rsp\n"
        "pop %r12\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size strange_tables,.-strange_tables\n");

/* Calls it with 0 in rbp. A libc with frame pointers (Ubuntu's) has one there: it is none of the
 * functions in between, and would be taken for that of code without tables. */
void without_frame_pointer(void (*callback)(void));
__asm__(".text\n"
        ".globl without_frame_pointer\n"
        ".type without_frame_pointer,@function\n"
        "without_frame_pointer:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rbp, 0\n"
        "xor %ebp, %ebp\n"
        "call *%rdi\n"
        "pop %rbp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size without_frame_pointer,.-without_frame_pointer\n");

APART static void probe_once(void)
{
    probe();
    sink++;
}

static uint32_t frames_with(uint32_t id, unsigned flag)
{
    uint32_t n = 0;
    for (; id; id = host_node(id).parent)
        n += (host_node(id).flags & flag) != 0;
    return n;
}

APART static void through_framed(void)
{
    framed_no_tables(probe_once);
    sink++;
}

static void no_rules(void)
{
    uint64_t marks = host_truncations();
    probe_may_be_cut = 1;
    no_tables(probe_once);
    EXPECT(probe_cut && probe_depth == 2);
    no_tables(probe_once);
    EXPECT(probe_cut && probe_depth == 2);
    strange_tables(probe_once);
    EXPECT(probe_cut && probe_depth == 2);
    EXPECT(host_truncations() > marks);
    /* What is in rbp is no frame pointer: nothing, a number, a word among data, an odd one. */
    uint64_t data[6] = {(uint64_t)&data[4], 5, (uint64_t)&data[0], (uint64_t)&data[5], 0, ~0ul};
    uint64_t in_rbp[] = {0,
                         1,
                         (uint64_t)&data[0],
                         (uint64_t)&data[2],
                         (uint64_t)&data[4],
                         (uint64_t)data + 1,
                         (uint64_t)&sink,
                         ~7ul};
    for (size_t i = 0; i < sizeof in_rbp / sizeof *in_rbp; i++) {
        with_rbp(probe_once, in_rbp[i]);
        EXPECT(probe_cut && probe_depth == 2);
    }
    probe_once();
    uint32_t here = probe_depth;
    for (int i = 0; i < 3; i++) {
        framed_no_tables(probe_once);
        EXPECT(!probe_cut && probe_depth == here + 1);
        EXPECT(frames_with(probe_node, MLW_NODE_FP) == 1);
        framed_no_tables(through_framed);
        EXPECT(!probe_cut && probe_depth == here + 3);
        EXPECT(frames_with(probe_node, MLW_NODE_FP) == 2);
    }
    probe_may_be_cut = 0;
    probe_once();
    EXPECT(!probe_cut);
}

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret - and without the frame pointer. */
static const unsigned char with_frame[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
static const unsigned char without_frame[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
                                              0x48, 0x83, 0xc4, 0x08, 0xc3};
/* sub $24,%rsp; call *%rdi; add $24,%rsp; ret */
static const unsigned char unknown[] = {0x48, 0x83, 0xec, 0x18, 0xff, 0xd7,
                                        0x48, 0x83, 0xc4, 0x18, 0xc3};
typedef void (*generated)(void (*)(void));
static generated inner_code;
APART static void call_inner(void)
{
    inner_code(probe_once);
    sink++;
}

static void generated_code(void)
{
    unsigned char *page =
        mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        abort();
    memcpy(page, with_frame, sizeof with_frame);
    memcpy(page + 64, without_frame, sizeof without_frame);
    memcpy(page + 128, unknown, sizeof unknown);
    generated framed, bare, odd;
    void *at = page + 64;
    memcpy(&bare, &at, sizeof at);
    at = page + 128;
    memcpy(&odd, &at, sizeof at);
    at = page;
    memcpy(&framed, &at, sizeof at);
    probe_once();
    uint32_t here = probe_depth;
    probe_may_be_cut = 1;
    for (int i = 0; i < 3; i++) {
        framed(probe_once);
        EXPECT(!probe_cut);
        EXPECT(probe_depth == here + 1);
        EXPECT(frames_with(probe_node, MLW_NODE_FP) == 1);
        inner_code = framed;
        framed(call_inner);
        EXPECT(!probe_cut);
        EXPECT(probe_depth == here + 3);
        EXPECT(frames_with(probe_node, MLW_NODE_FP) == 2);
    }
    EXPECT(!frames_with(probe_node, MLW_NODE_TRUNCATED));
    for (int i = 0; i < 3; i++) { /* known by its instructions: rbp may hold anything */
        bare(probe_once);
        EXPECT(!probe_cut);
        EXPECT(probe_depth == here + 1);
        EXPECT(frames_with(probe_node, MLW_NODE_FP) == 0);
        inner_code = bare;
        bare(call_inner);
        EXPECT(!probe_cut);
        EXPECT(probe_depth == here + 3);
        EXPECT(frames_with(probe_node, MLW_NODE_FP) == 0);
        inner_code = odd;
        bare(call_inner);
        EXPECT(probe_depth >= 2); /* the frames up to the odd one are right */
    }
    probe_may_be_cut = 0;
    munmap(page, 4096);
    unwind_unmapped((uint64_t)page, (uint64_t)page + 4096, 0);
    probe_once();
    EXPECT(probe_depth == here);
}

/* ---- libraries that come and go ---- */

typedef int (*plugin_fn)(void (*)(void), int);

static uint32_t module_of_plugin(void)
{
    for (uint32_t id = probe_node; id; id = host_node(id).parent) {
        uint32_t m = host_node(id).module;
        if (m && strstr(host_module(m)->path, "plugin"))
            return m;
    }
    return 0;
}

/* Runs the plugin; returns its module's id and where it was mapped. */
static uint32_t with_plugin(const char *dir, const char *name, bool tell, uint64_t *start)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/lib%s.so", dir, name);
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    void *symbol = dlsym(handle, "plugin_run");
    plugin_fn run;
    memcpy(&run, &symbol, sizeof run);
    probe_once(); /* after this stack came one of the other library's before, of the same addresses
                   */
    run(probe_once, 5);
    run(probe_once, 6);
    uint32_t id = module_of_plugin();
    EXPECT(id != 0);
    EXPECT(host_module(id)->build_id_bytes == 20);
    EXPECT(strstr(host_module(id)->path, name) != 0);
    *start = host_module(id)->start;
    dlclose(handle);
    if (tell) {
        int gone = host_module(id)->gone;
        unwind_unmapped(0, 0, 0);
        EXPECT(host_module(id)->gone == gone + 1);
    }
    return id;
}

static void libraries(const char *dir)
{
    for (int tell = 1; tell >= 0; tell--) { /* 0: unloaded by libc itself, behind our back */
        uint64_t a_at, b_at, again_at;
        uint32_t a = with_plugin(dir, "plugin_a", tell, &a_at);
        uint32_t b = with_plugin(dir, "plugin_b", tell, &b_at);
        EXPECT(a_at == b_at); /* else this shows nothing */
        EXPECT(a != b);
        static const char *const alike[] = {"plugin_c", "plugin_b"};
        static volatile int often =
            4; /* from one place, so that the stacks differ in the library alone */
        for (int i = 0; i < often && tell;
             i++) { /* else one with the same addresses is not noticed */
            uint32_t c = with_plugin(dir, alike[i & 1], tell, &again_at);
            EXPECT(b_at == again_at);
            EXPECT(i & 1 ? c == b : c != b && c != a);
        }
        EXPECT(host_module(a)->gone > 0);
        uint32_t nodes = host_nodes(), mods = host_modules();
        for (int i = 0; i < 10; i++) {
            uint32_t again = with_plugin(dir, i & 1 ? "plugin_b" : "plugin_a", tell, &again_at);
            EXPECT(again == (i & 1 ? b : a)); /* a file that comes back is who it was */
        }
        EXPECT(host_modules() == mods);
        EXPECT(host_nodes() < nodes + 100);
    }
}

/* ---- confinement: memory that is not known is not read ---- */

static void *confined(void *argument)
{
    probe_once();   /* the stack up to here becomes known */
    sys_closed = 1; /* until the end: nothing opens it again */
    probe_once();
    EXPECT(!probe_cut);
    probe_may_be_cut = 1;
    uint64_t wrong = probe_wrong;
    deep(20000); /* far below what was known */
    EXPECT(probe_cut);
    EXPECT(probe_wrong == wrong);
    probe_may_be_cut = 0;
    probe_once();
    EXPECT(!probe_cut);
    return argument;
}

static void in_thread(void *(*what)(void *), size_t stack_bytes)
{
    pthread_t t;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, stack_bytes);
    if (pthread_create(&t, &attr, what, 0) != 0)
        abort();
    pthread_join(t, 0);
}

static void *signals_in_thread(void *argument)
{
    signals(SA_ONSTACK);
    coroutines();
    return argument;
}

int main(int argc, char **argv)
{
    host_init();
    probe();
    uint32_t main_module = host_node(probe_node).module;
    EXPECT(main_module && host_module(main_module)->path[0] == '/');
    probe_may_be_cut = 0;
    signals(0);
    signals(SA_ONSTACK);
    in_thread(signals_in_thread, 1 << 20);
    timer();
    coroutines();
    EXPECT(host_truncations() == 0);
    in_thread(deep_stacks, 64 << 20);
    without_frame_pointer(no_rules);
    generated_code();
    if (argc > 1)
        libraries(argv[1]);
    else
        failures++;
    in_thread(confined, 16 << 20);
    return host_verdict(3000) || failures;
}
