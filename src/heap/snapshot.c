/* snapshot.c - a copy of a stopped process, made by a fork that is injected into one of its
 * threads; see target.h. The process goes on while the copy is read.
 *
 * The copy is a child that never runs. It shares the table of files, so that a descriptor that the
 * process closes is closed; it raises no signal when it ends, and no ordinary wait sees it; when
 * all is read it is killed, and the process is made to reap it.
 *
 * The thread makes system calls that it did not ask for, so everything is prepared for our sudden
 * end: the call is made from libc's own "syscall; ret", on the thread's stack below what it uses,
 * and returns into libc's signal return with a frame that holds all of its registers; and the
 * child's stack leads to libc's exit. While we live, the registers are put back by us. */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/sigframe.h"
#include "base/clock.h"
#include "base/proc.h"
#include "heap/live.h"
#include "heap/module.h"

enum {
    RED_ZONE = 128,
    STACK_LEFT = 64 << 10,
    XSTATE_MAX = 16 << 10,
    CODE_WINDOW = 1 << 16,
    CODE_MOST = 1 << 26, /* that is looked through: a mapping may be terabytes of nothing */
    CALL_STOP = SIGTRAP | 0x80,
    RSEQ_CS_OFFSET = 8,
};

struct injection {
    struct target *t;
    struct tracee *tracee;
    struct live_pieces pieces;
    uint64_t mask;  /* the thread's own */
    uint64_t stack; /* where the thread's calls are made: the return address lies there */
    uint64_t child_stack;
    pid_t made; /* the last child that a call made */
};

/* --- finding code --- */

static void look_for(const uint8_t *code, size_t n, uint64_t at, struct live_pieces *p)
{
    static const uint8_t call[] = {0x0f, 0x05, 0xc3};
    static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const uint8_t ends[2][7] = {{0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05},
                                       {0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05}};
    const uint8_t *found;
    if (!p->call && (found = memmem(code, n, call, sizeof call)))
        p->call = at + (uint64_t)(found - code);
    if (!p->sigreturn && (found = memmem(code, n, sigreturn, sizeof sigreturn)))
        p->sigreturn = at + (uint64_t)(found - code);
    for (int i = 0; i < 2; i++)
        if (!p->exit && (found = memmem(code, n, ends[i], sizeof ends[i])))
            p->exit = at + (uint64_t)(found - code);
}

static bool has_all(const struct live_pieces *p) { return p->call && p->sigreturn && p->exit; }

/* In one mapping. */
static bool find_in(struct target *t, const struct target_region *r, uint8_t *code, uint64_t *left,
                    struct live_pieces *p)
{
    struct live_pieces here = {0};
    for (uint64_t at = r->start; at < r->end && *left && !has_all(&here); at += CODE_WINDOW) {
        *left -= CODE_WINDOW;
        uint64_t want = r->end - at < CODE_WINDOW + 16 ? r->end - at : CODE_WINDOW + 16;
        const size_t have = target_read(t, at, code, want);
        if (have && (*code || memcmp(code, code + 1, have - 1) != 0)) /* memmem is slow on zeros */
            look_for(code, have, at, &here);
    }
    if (has_all(&here))
        *p = here;
    return has_all(&here);
}

/* In libc; else in a program that has it inside. Libraries are not looked into one by one: the
 * process stands still meanwhile, and a program can have 100 MB of code. */
static bool find_pieces(struct target *t, struct live_pieces *p)
{
    uint8_t *code = has_all(p) ? NULL : malloc(CODE_WINDOW + 16);
    uint64_t left = CODE_MOST;
    for (int pass = 0; code && pass < 2 && !has_all(p); pass++)
        for (size_t i = 0; i < t->region_count && !has_all(p); i++) {
            const struct target_region *r = &t->regions[i];
            const char *slash = r->file ? strrchr(r->file, '/') : NULL;
            const bool libc =
                slash && (!strncmp(slash, "/libc.", 6) || !strncmp(slash, "/libc-", 6));
            if (r->flags & REGION_EXEC && slash && libc == !pass && !strstr(slash, "ld-linux"))
                find_in(t, r, code, &left, p);
        }
    free(code);
    return has_all(p);
}

/* --- whether it may be --- */

static bool status_says(const struct target *t, const char *field, const char *value)
{
    char text[8192];
    const char *at = proc_read((pid_t)t->pid, "status", text, sizeof text) > 0
                         ? proc_status_field(text, field)
                         : NULL;
    const size_t n = strlen(value);
    return at && !strncmp(at, value, n) && at[n] == '\n';
}

/* A restartable sequence must not be left and entered again. */
static bool in_sequence(const struct target *t, const struct tracee *tracee)
{
    struct {
        uint64_t pointer;
        uint32_t size, signature, flags, pad;
    } rseq = {0};
    uint64_t section = 0;
    if (ptrace((enum __ptrace_request)0x420f, tracee->tid, sizeof rseq, &rseq) < 0)
        return errno != EIO && errno != EINVAL; /* a kernel that cannot say has none to ask for */
    if (!rseq.pointer)
        return false;
    struct iovec here = {&section, 8},
                 there = {(void *)(rseq.pointer + RSEQ_CS_OFFSET), 8}; // NOLINT
    return process_vm_readv((pid_t)t->pid, &here, 1, &there, 1, 0) != 8 || section;
}

/* A stopped thread that can be borrowed: room on its stack, no signal on its way. */
static struct tracee *choose(const struct target *t, struct heap_live *live)
{
    for (size_t i = 0; i < live->count; i++) {
        struct tracee *k = &live->tracees[i];
        const struct target_region *r = target_region_at(t, k->registers.rsp);
        if (k->gone || !k->stopped || k->signal || !r || r->flags & REGION_BREAK || r->file ||
            k->registers.cs != 0x33 || k->registers.rsp - r->start < STACK_LEFT ||
            in_sequence(t, k))
            continue;
        return k;
    }
    return NULL;
}

/* --- the image --- */

void live_read_image(const struct target *t, pid_t tid, struct live_image *to)
{
    *to = (struct live_image){0};
    const int fd = proc_open((pid_t)t->pid, "auxv");
    const ssize_t n = fd < 0 ? -1 : read(fd, to->vector, sizeof to->vector);
    if (fd >= 0)
        close(fd);
    Elf64_auxv_t a;
    for (size_t at = 0; n > 0 && at + sizeof a <= (size_t)n && !to->random_at; at += sizeof a) {
        memcpy(&a, to->vector + at, sizeof a);
        if (a.a_type == AT_RANDOM)
            to->random_at = a.a_un.a_val;
    }
    if (!to->random_at)
        return;
    for (unsigned i = 0; i < 2; i++) {
        /* the system call: the C library's function gives the word as its result */
        if (syscall(SYS_ptrace, PTRACE_PEEKDATA, tid, to->random_at + 8ull * i, &to->random[i]))
            return;
    }
    to->bytes = (size_t)n;
}

/* True: the process, which stands, has the image that its code and mappings are known of. Between
 * two stops it may have executed another program, also one of another user. */
static bool same_image(const struct target *t, const struct heap_live *live, pid_t tid)
{
    const struct live_image *was = &live->image;
    struct live_image now;
    live_read_image(t, tid, &now);
    return was->bytes && now.bytes == was->bytes && !memcmp(now.vector, was->vector, now.bytes) &&
           !memcmp(now.random, was->random, sizeof now.random);
}

/* --- the thread's stack --- */

static bool put(const struct injection *j, uint64_t at, const void *data, size_t bytes)
{
    struct iovec here = {(void *)data, bytes}, there = {(void *)at, bytes}; // NOLINT
    return process_vm_writev((pid_t)j->t->pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* The registers as a signal handler's return would restore them. */
static struct arch_signal_frame frame_of(const struct injection *j, uint64_t fpstate)
{
    const struct user_regs_struct *r = &j->tracee->registers;
    struct arch_signal_frame f = arch_signal_frame_of(r, j->mask, fpstate);
    /* A call that was interrupted begins again. */
    int64_t result = (int64_t)r->rax;
    if ((int64_t)r->orig_rax >= 0 && result <= -512 && result >= -516 && result != -515) {
        f.ip -= 2;
        f.ax = result == -516 ? SYS_restart_syscall : r->orig_rax;
    }
    return f;
}

/* Writes the frame, and what it needs of the floating-point state, below what the thread uses. */
static bool prepare_stack(struct injection *j)
{
    uint8_t *state = calloc(1, XSTATE_MAX + 64);
    struct iovec area = {state, XSTATE_MAX};
    if (!state || ptrace(PTRACE_GETREGSET, j->tracee->tid, NT_X86_XSTATE, &area) ||
        area.iov_len < ARCH_SIGNAL_STATE_LEAST || area.iov_len > XSTATE_MAX) {
        free(state);
        return false;
    }
    arch_signal_state(state, area.iov_len);
    uint64_t top = (j->tracee->registers.rsp - RED_ZONE - area.iov_len - 64) & ~(uint64_t)63;
    struct arch_signal_frame f = frame_of(j, top);
    uint64_t frame_at = (top - sizeof f - 128) & ~(uint64_t)15;
    j->stack = frame_at - 8;
    j->child_stack = (j->stack - TARGET_PAGE_BYTES) & ~(uint64_t)15;
    bool good = put(j, top, state, area.iov_len + ARCH_SIGNAL_STATE_TAIL) &&
                put(j, frame_at, &f, sizeof f) && put(j, j->stack, &j->pieces.sigreturn, 8) &&
                put(j, j->child_stack, &j->pieces.exit, 8);
    free(state);
    return good;
}

/* --- calls --- */

/* Resumes the thread until it enters or leaves a system call. */
static bool to_call_stop(struct injection *j)
{
    for (;;) {
        int status;
        if (ptrace(PTRACE_SYSCALL, j->tracee->tid, NULL, NULL) ||
            waitpid(j->tracee->tid, &status, __WALL) != j->tracee->tid || !WIFSTOPPED(status)) {
            j->tracee->gone = true;
            return false;
        }
        int event = status >> 16;
        if (WSTOPSIG(status) == CALL_STOP)
            return true;
        if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK) {
            unsigned long made = 0;
            ptrace(PTRACE_GETEVENTMSG, j->tracee->tid, NULL, &made);
            j->made = (pid_t)made;
        } else if (event != PTRACE_EVENT_STOP) {
            j->tracee->signal = WSTOPSIG(status); /* to be given when it goes on */
        }
    }
}

static bool call(struct injection *j, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                 int64_t *result)
{
    struct user_regs_struct r = j->tracee->registers;
    r.rip = j->pieces.call;
    r.rsp = j->stack;
    r.rax = (unsigned long long)number;
    r.orig_rax = (unsigned long long)-1;
    r.rdi = a;
    r.rsi = b;
    r.rdx = c;
    r.r10 = d;
    r.r8 = 0;
    /* From the registers on, our end does no harm; a blocked signal would stay blocked before. */
    const uint64_t all = UINT64_MAX;
    if (ptrace(PTRACE_SETREGS, j->tracee->tid, NULL, &r) ||
        ptrace(PTRACE_SETSIGMASK, j->tracee->tid, sizeof all, &all) || !to_call_stop(j) ||
        !to_call_stop(j) || ptrace(PTRACE_GETREGS, j->tracee->tid, NULL, &r))
        return false;
    *result = (int64_t)r.rax;
    return true;
}

/* Puts the thread back: registers where the kernel decides about restarting calls, then signals. */
static void put_back(struct injection *j)
{
    int status;
    pid_t tid = j->tracee->tid;
    if (!j->tracee->gone && !ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) &&
        !ptrace(PTRACE_CONT, tid, NULL, NULL)) {
        while (waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status) &&
               status >> 16 != PTRACE_EVENT_STOP) {
            j->tracee->signal = WSTOPSIG(status);
            ptrace(PTRACE_CONT, tid, NULL, NULL);
        }
        j->tracee->gone = !WIFSTOPPED(status);
    }
    if (j->tracee->gone)
        return;
    ptrace(PTRACE_SETREGS, tid, NULL, &j->tracee->registers);
    ptrace(PTRACE_SETSIGMASK, tid, sizeof j->mask, &j->mask);
    ptrace(PTRACE_SETOPTIONS, tid, NULL, NULL);
}

static bool take_over(struct injection *j)
{
    pid_t tid = j->tracee->tid;
    return same_image(j->t, j->t->impl, tid) &&
           !ptrace(PTRACE_GETSIGMASK, tid, sizeof j->mask, &j->mask) && prepare_stack(j) &&
           !ptrace(PTRACE_SETOPTIONS, tid, NULL,
                   PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK);
}

static const char *why_not(struct target *t, struct heap_live *live, struct injection *j)
{
    for (size_t i = 0; i < live->count; i++)
        if (live->tracees[i].group_stop)
            return "the process is stopped by a signal";
    if (!status_says(t, "Seccomp:", "0"))
        return "a seccomp filter might kill it for a fork";
    if (!find_pieces(t, &live->pieces))
        return "its libc has not the code that a fork needs";
    j->pieces = live->pieces;
    if (!(j->tracee = choose(t, live)))
        return "no thread of it can be borrowed now";
    return NULL;
}

/* Signals to us wait meanwhile: a terminal's interrupt must not end us in the middle. */
static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
}

const char *live_call(struct target *t, long number, const uint64_t a[4], int64_t *result)
{
    struct heap_live *live = t->impl;
    struct injection j = {.t = t};
    sigset_t before;
    const char *refused = why_not(t, live, &j);
    if (refused)
        return refused;
    hold_signals(&before);
    if (!take_over(&j))
        refused = "its thread could not be prepared";
    else if (!call(&j, number, a[0], a[1], a[2], a[3], result))
        refused = "its thread could not be borrowed";
    if (j.mask || j.stack)
        put_back(&j);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return refused;
}

void target_snapshot(struct target *t)
{
    struct heap_live *live = t->impl;
    struct injection j = {.t = t};
    int64_t result = -1;
    int status;
    sigset_t before;
    t->refused = why_not(t, live, &j);
    if (t->refused)
        return;
    hold_signals(&before);
    if (!take_over(&j)) {
        t->refused = "its thread could not be prepared";
    } else if (!call(&j, SYS_clone, CLONE_FILES | CLONE_FS, j.child_stack, 0, 0, &result) ||
               result <= 0 || !j.made) {
        t->refused = "the kernel refused to fork it (limits of processes or memory)";
    }
    if (j.made && (waitpid(j.made, &status, __WALL) != j.made || !WIFSTOPPED(status) ||
                   ptrace(PTRACE_SETOPTIONS, j.made, NULL, PTRACE_O_EXITKILL))) {
        t->refused = "its copy ended";
        kill(j.made, SIGKILL);
    }
    if (j.mask || j.stack)
        put_back(&j);
    if (!t->refused)
        live_keep_lacking(t, live, j.made);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (t->refused)
        return;
    target_let_go(t);
    live->copy = live->memory_pid = j.made;
    t->memory_pid = (uint32_t)j.made;
    t->source = TARGET_SNAPSHOT;
    if (live->memory_fd >= 0)
        close(live->memory_fd);
    live->memory_fd = live_open_memory(j.made);
    resident_free(live->resident);
    live->resident = resident_new(j.made);
    t->knows_pages = live->resident != NULL;
}

/* Any thread of the process may reap the copy. */
static bool reap(struct target *t, struct heap_live *live, pid_t copy)
{
    struct injection j = {.t = t};
    int64_t result = -1;
    struct error err;
    bool good = false;
    if (live_stop(t, live, &err) == 0 && !why_not(t, live, &j) && take_over(&j)) {
        enum { WAIT_ALL = 0x40000000 };
        good = call(&j, SYS_wait4, (uint64_t)copy, 0, WAIT_ALL | WNOHANG, 0, &result) &&
               result == copy;
        put_back(&j);
    }
    target_let_go(t);
    return good;
}

void live_end_copy(struct target *t, struct heap_live *live)
{
    int status;
    sigset_t before;
    pid_t copy = live->copy;
    if (!copy)
        return;
    live->copy = 0;
    live->memory_pid = (pid_t)t->pid;
    if (live->memory_fd >= 0)
        close(live->memory_fd);
    live->memory_fd = live_open_memory((pid_t)t->pid);
    hold_signals(&before);
    kill(copy, SIGKILL);
    while (waitpid(copy, &status, __WALL) == copy && !WIFEXITED(status) && !WIFSIGNALED(status))
        ;
    for (unsigned tries = 0; tries < 10 && !kill((pid_t)t->pid, 0) && !reap(t, live, copy); tries++)
        usleep(1000);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
