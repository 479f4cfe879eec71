/* shifty.c - a process that changes what it is, at random, while others look at it.
 *
 * Usage: shifty SEED sound|wild SETUID. Makes blocks, says "ready", and from then on takes one step
 * after another: mappings, files in its working directory that it maps, threads, children, signals,
 * names, other programs in its place (itself, SETUID or a program that ends at once). `wild` also
 * overwrites what describes it: ELF headers, dynamic tables, the dynamic linker's lists, unwind
 * tables, arenas and chunks. The steps follow from SEED alone, their moments do not. A `sound` one
 * never dies by a signal of its own making. Ends after half a minute. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { MAPPINGS = 64, BLOCKS = 2000, FILES = 12, COMMON = 8, LIFE_SECONDS = 30, WORDS = 32 };

struct chance {
    uint64_t state;
};

static struct mapping {
    char *at;
    uint64_t bytes;
} mappings[MAPPINGS];

static void *kept[BLOCKS];
static volatile int threads, over;
static int wild;
static const char LIBC[] = "/lib/x86_64-linux-gnu/libc.so.6";
static const char LIBM[] = "/lib/x86_64-linux-gnu/libm.so.6";
static const char *seed_text, *setuid_program;
static char **arguments;
static struct chance dice;

static uint64_t draw(struct chance *c)
{
    c->state ^= c->state << 13;
    c->state ^= c->state >> 7;
    c->state ^= c->state << 17;
    return c->state * 2685821657736338717ULL;
}

static uint64_t below(struct chance *c, uint64_t n) { return (draw(c) >> 11) % n; }

static void sleep_us(uint64_t us)
{
    const struct timespec t = {.tv_sec = (time_t)(us / 1000000),
                               .tv_nsec = (long)(us % 1000000 * 1000)};
    nanosleep(&t, NULL);
}

/* ---- mappings ---- */

static uint64_t some_bytes(struct chance *c)
{
    static const unsigned most[] = {13, 16, 20, 24, 31, 38, 43};
    const uint64_t bits = most[below(c, sizeof most / sizeof *most)];
    return ((draw(c) & (((uint64_t)1 << bits) - 1)) + 4096) & ~(uint64_t)4095;
}

static int some_protection(struct chance *c)
{
    static const int all[] = {PROT_NONE,
                              PROT_READ,
                              PROT_READ | PROT_WRITE,
                              PROT_READ | PROT_WRITE,
                              PROT_READ | PROT_EXEC,
                              PROT_READ | PROT_WRITE | PROT_EXEC};
    return all[below(c, sizeof all / sizeof *all)];
}

/* Of a file: what is called libc and can be executed is a lie, which a sound one does not tell. */
static int file_protection(struct chance *c)
{
    const int protection = some_protection(c);
    return wild ? protection : protection & ~PROT_EXEC;
}

/* In place of what stood in the slot. */
static void keep_mapping(struct chance *c, void *at, uint64_t bytes)
{
    struct mapping *m = &mappings[below(c, MAPPINGS)];
    if (at == MAP_FAILED)
        return;
    if (m->at)
        munmap(m->at, m->bytes);
    *m = (struct mapping){at, bytes};
}

static void map_memory(struct chance *c)
{
    const uint64_t bytes = some_bytes(c);
    const int protection = some_protection(c);
    char *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED && protection & PROT_WRITE)
        for (uint64_t i = below(c, 8); i; i--) {
            uint64_t *word = (uint64_t *)(at + below(c, bytes / 4096) * 4096 + below(c, 500) * 8);
            *word = below(c, 2) ? (uintptr_t)kept[below(c, BLOCKS)] : draw(c);
        }
    keep_mapping(c, at, bytes);
}

static void map_many(struct chance *c)
{
    const uint64_t count = below(c, 3000);
    const uint64_t bytes = count * 8192 + 4096;
    char *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (uint64_t i = 0; at != MAP_FAILED && i < count; i++)
        mprotect(at + i * 8192, 4096, PROT_READ | PROT_WRITE);
    keep_mapping(c, at, bytes);
}

static void change_mapping(struct chance *c)
{
    static const int advice[] = {MADV_DONTNEED, MADV_FREE, MADV_DONTFORK, MADV_DOFORK, MADV_REMOVE};
    struct mapping *m = &mappings[below(c, MAPPINGS)];
    if (!m->at)
        return;
    const uint64_t at = below(c, m->bytes / 4096) * 4096;
    const uint64_t bytes = (1 + below(c, (m->bytes - at) / 4096)) * 4096;
    switch (below(c, 5)) {
    case 0: mprotect(m->at + at, bytes, file_protection(c)); break;
    case 1: madvise(m->at + at, bytes, advice[below(c, sizeof advice / sizeof *advice)]); break;
    case 2: /* a part; what another mapping may take is no longer this one's */
        munmap(m->at + at, m->bytes - at);
        m->bytes = at;
        if (!at)
            m->at = NULL;
        break;
    case 3: {
        void *moved = mremap(m->at, m->bytes, m->bytes * 2, MREMAP_MAYMOVE);
        if (moved != MAP_FAILED)
            *m = (struct mapping){moved, m->bytes * 2};
        break;
    }
    default: munmap(m->at, m->bytes); m->at = NULL;
    }
}

/* ---- files ---- */

static const char *const names[FILES] = {
    "libc.so.6",        "libpthread.so.0",    "ld-linux-x86-64.so.2",     "libstdc++.so.6",
    "python3.11",       "a\033[31mred\nname", "libcrypto.so.3 (deleted)", "\xff\xfe\xc2\x9b\x31m",
    "libjemalloc.so.2", "libtcmalloc.so.4",   "libmallow-watch.so",       "libmallow-attach.so"};

/* Those of allocators, with which nothing is attached to, seldom. */
static const char *some_name(struct chance *c)
{
    return names[below(c, below(c, 30) ? COMMON : FILES)];
}

static void copy(const char *from, int out)
{
    static char bytes[1 << 16];
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    while (in >= 0 && (n = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)n) != n)
            break;
    if (in >= 0)
        close(in);
}

/* The program's own file, or libc's, with damage. */
static void copy_elf(struct chance *c, int out)
{
    struct stat st;
    copy(below(c, 2) ? "/proc/self/exe" : LIBC, out);
    fstat(out, &st);
    const uint64_t size = st.st_size > 0 ? (uint64_t)st.st_size : 1;
    for (uint64_t i = below(c, 40); i; i--) {
        const uint64_t word = below(c, 3) ? below(c, 300) : below(c, UINT64_MAX) | 0xffff;
        const uint64_t at = below(c, 2) ? below(c, 1024) : below(c, size);
        const size_t wide = (size_t)1 << below(c, 4);
        if (pwrite(out, &word, wide, (off_t)at) < 0)
            return;
    }
}

static int make_file(struct chance *c, const char *name, uint64_t *bytes)
{
    struct stat st;
    const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (fd < 0)
        return -1;
    if (below(c, 2))
        copy_elf(c, fd);
    else if (ftruncate(fd, (off_t)some_bytes(c)) == 0)
        for (uint64_t i = below(c, 4); i; i--)
            pwrite(fd, kept, 4096, (off_t)(below(c, 1 << 20) * 512));
    if (below(c, 4) == 0 && !fstat(fd, &st))
        ftruncate(fd, st.st_size + (off_t)below(c, (uint64_t)1 << 42));
    *bytes = fstat(fd, &st) || st.st_size <= 0 ? 4096 : ((uint64_t)st.st_size + 4095) & ~4095ULL;
    return fd;
}

static void map_file(struct chance *c)
{
    uint64_t bytes = 0;
    const uint64_t kind = below(c, 4);
    int fd;
    if (kind == 0) {
        fd = (int)syscall(SYS_memfd_create, some_name(c), 1u);
        bytes = some_bytes(c);
        if (fd >= 0)
            ftruncate(fd, (off_t)bytes);
    } else {
        char fresh[128];
        snprintf(fresh, sizeof fresh, "%s", some_name(c));
        unlink(fresh); /* what is mapped of the old one stays */
        fd = make_file(c, fresh, &bytes);
    }
    if (fd < 0)
        return;
    keep_mapping(c,
                 mmap(NULL, bytes, file_protection(c),
                      (below(c, 2) ? MAP_SHARED : MAP_PRIVATE) | MAP_NORESERVE, fd, 0),
                 bytes);
    close(fd);
}

static void change_file(struct chance *c)
{
    const char *name = some_name(c), *other = some_name(c);
    const int fd = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat st = {0};
    if (fd >= 0)
        fstat(fd, &st);
    const uint64_t size = st.st_size > 0 ? (uint64_t)st.st_size : 1;
    switch (below(c, 8)) {
    case 0: ftruncate(fd, (off_t)below(c, size)); break;
    case 1: ftruncate(fd, (off_t)some_bytes(c)); break;
    case 2:
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)below(c, size),
                  (off_t)some_bytes(c));
        break;
    case 3: rename(name, other); break;
    case 4: unlink(name); break;
    case 5:
        unlink(name);
        mknod(name, S_IFIFO | 0666, 0);
        break;
    case 6:
        unlink(name);
        symlink(below(c, 2) ? "/dev/zero" : other, name);
        break;
    default:
        for (uint64_t i = below(c, 100); i; i--) {
            const uint64_t word = draw(c) >> below(c, 64);
            pwrite(fd, &word, sizeof word, (off_t)below(c, below(c, 2) ? 1024 : size));
        }
    }
    if (fd >= 0)
        close(fd);
}

/* A module whose file is its own, and changes behind it. */
static void load(struct chance *c)
{
    char path[128];
    snprintf(path, sizeof path, "./%s", some_name(c));
    unlink(path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (fd < 0)
        return;
    copy(LIBM, fd);
    close(fd);
    dlopen(path, RTLD_NOW);
}

static void change_own_files(struct chance *c)
{
    char own[512], map[64];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n <= 0)
        return;
    own[n] = 0;
    if (below(c, 2)) { /* a map of generated code, as Node.js writes it */
        snprintf(map, sizeof map, "/tmp/perf-%d.map", (int)getpid());
        const int fd = open(map, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_TRUNC, 0644);
        dprintf(fd, "%llx %llx \033[2Jname\n%llx 100 %s\n", (unsigned long long)draw(c),
                (unsigned long long)draw(c), (unsigned long long)(uintptr_t)mappings[0].at, own);
        if (below(c, 3) == 0)
            ftruncate(fd, (off_t)((uint64_t)1 << (20 + below(c, 22))));
        close(fd);
        sleep_us(below(c, 20000));
        unlink(map);
    } else if (!strncmp(own, "/", 1) && access(own, W_OK) == 0 && below(c, 2)) {
        uint64_t bytes;
        const int fd = make_file(c, "next", &bytes); /* the program's own file, replaced */
        close(fd);
        rename("next", "replaced");
    }
}

/* ---- threads, children, names ---- */

static void churn(struct chance *c)
{
    for (uint64_t i = below(c, 300); i; i--)
        free(malloc(1 + below(c, below(c, 20) ? 3000 : 300000)));
}

static void *work(void *arg)
{
    struct chance c = {(uintptr_t)arg * 0x9e3779b97f4a7c15ULL | 1};
    for (uint64_t i = below(&c, 40); i && !over; i--) {
        if (wild && below(&c, 2))
            sched_yield();
        else
            churn(&c);
        if (below(&c, 2))
            sleep_us(below(&c, 5000));
    }
    __atomic_sub_fetch(&threads, 1, __ATOMIC_RELAXED);
    if (below(&c, 3) == 0)
        syscall(SYS_exit, 0); /* without a word to libc */
    return NULL;
}

static void add_threads(struct chance *c)
{
    pthread_t t;
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&a, 65536 << below(c, 8));
    for (uint64_t i = below(c, 12); i && threads < 40; i--)
        if (!pthread_create(&t, &a, work, (void *)(uintptr_t)draw(c))) // NOLINT
            __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    pthread_attr_destroy(&a);
}

static void add_child(struct chance *c)
{
    const uint64_t us = below(c, 30000), kind = below(c, 3);
    const pid_t child = kind ? fork() : vfork();
    if (!child) {
        if (kind == 1)
            sleep_us(us);
        if (kind != 2)
            _exit(0);
        execl("/bin/true", "\033[7mtrue", (char *)0);
        _exit(1);
    }
    if (child > 0 && below(c, 2))
        waitpid(child, NULL, 0);
    else
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
}

static void rename_self(struct chance *c)
{
    static const char *const all[] = {"a) R 1 1 (", "\033[31m\n", "shifty", "", "\xff\xc2\x85"};
    prctl(PR_SET_NAME, all[below(c, sizeof all / sizeof *all)]);
    prctl(PR_SET_DUMPABLE, below(c, 4) ? 1 : 0);
}

/* ---- signals ---- */

static void nothing(int number) { (void)number; }

static void change_signals(struct chance *c)
{
    static char small[16384];
    struct sigaction a = {.sa_handler = nothing};
    const stack_t other = {.ss_sp = small, .ss_size = sizeof small};
    const struct itimerval often = {.it_value = {0, 1000},
                                    .it_interval = {0, 1 + (long)below(c, 5000)}},
                           never = {0};
    sigset_t all;
    sigfillset(&all);
    switch (below(c, 6)) {
    case 0:
        if (!wild) /* which takes its own faults */
            sigprocmask(SIG_BLOCK, &all, NULL);
        break;
    case 1: sigprocmask(SIG_UNBLOCK, &all, NULL); break;
    case 2: sigaltstack(&other, NULL); break;
    case 3: setitimer(ITIMER_REAL, &often, NULL); break;
    case 4: setitimer(ITIMER_REAL, &never, NULL); break;
    default: { /* stopped, and let go by a child */
        a.sa_flags = below(c, 2) ? SA_RESTART | SA_ONSTACK : 0;
        sigaction(SIGALRM, &a, NULL);
        const pid_t self = getpid(), child = fork();
        const uint64_t us = below(c, 20000);
        if (!child) {
            for (int i = 0; i < 10; i++) {
                sleep_us(2000 + us);
                kill(self, SIGCONT);
            }
            _exit(0);
        }
        if (child > 0)
            raise(SIGSTOP);
    }
    }
}

/* ---- other programs ---- */

static void become_next(struct chance *c, int setuid_too)
{
    char next[32];
    const struct itimerval never = {0};
    sigset_t all;
    sigfillset(&all);
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN); /* one that is on its way */
    snprintf(next, sizeof next, "%llu", (unsigned long long)(draw(c) >> 16));
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    if (setuid_too && *setuid_program && below(c, 6) == 0)
        execl(setuid_program, setuid_program, "shifted", (char *)0);
    if (setuid_too && below(c, 30) == 0)
        execl("/bin/sleep", "sleep", "0.05", (char *)0);
    execl("/proc/self/exe", arguments[0], next, wild ? "wild" : "sound", setuid_program, (char *)0);
    _exit(98);
}

static void *become_in_thread(void *arg)
{
    become_next(arg, 1);
    return NULL;
}

static void become(struct chance *c)
{
    pthread_t t;
    if (below(c, 2) || pthread_create(&t, NULL, become_in_thread, c))
        become_next(c, 1);
    else
        pthread_join(t, NULL);
}

/* What has broken itself begins again. */
static void broken(int number)
{
    struct chance c = dice;
    (void)number;
    become_next(&c, 0);
}

/* A sound one never gets here; who reads its output sees where. */
static void crashed(int number, siginfo_t *info, void *context)
{
    const ucontext_t *u = context;
    char line[512];
    const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t n;
    dprintf(1, "crash: signal %d, code %d, address %p, thread %d of %d, registers", number,
            info->si_code, info->si_addr, (int)syscall(SYS_gettid), (int)getpid());
    for (int i = 0; i < NGREG; i++)
        dprintf(1, " %llx", (unsigned long long)u->uc_mcontext.gregs[i]);
    write(1, "\n", 1);
    while (maps >= 0 && (n = read(maps, line, sizeof line)) > 0)
        write(1, line, (size_t)n);
    signal(number, SIG_DFL);
}

/* ---- what describes it ---- */

static struct {
    uint64_t *at;
    uint64_t bytes;
} described[WORDS];
static size_t descriptions;

static void describe(const void *at, uint64_t bytes)
{
    if (descriptions < WORDS) {
        described[descriptions].at = (uint64_t *)(uintptr_t)((uintptr_t)at & ~(uintptr_t)7);
        described[descriptions++].bytes = bytes;
    }
}

static int add_module(struct dl_phdr_info *m, size_t bytes, void *arg)
{
    (void)bytes;
    (void)arg;
    if (!m->dlpi_addr)
        return 0;
    for (int i = 0; i < m->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &m->dlpi_phdr[i];
        const char *at = (const char *)(m->dlpi_addr + p->p_vaddr); // NOLINT
        if (p->p_type == PT_PHDR || (p->p_type == PT_LOAD && !p->p_offset))
            describe((const char *)m->dlpi_addr, 64 + 56 * (uint64_t)m->dlpi_phnum); // NOLINT
        if (p->p_type == PT_DYNAMIC || p->p_type == PT_GNU_EH_FRAME)
            describe(at, p->p_memsz);
    }
    return 0;
}

/* Before anything is overwritten. */
static void describe_all(void)
{
    const struct link_map *l = _r_debug.r_map;
    describe(&_r_debug, sizeof _r_debug);
    for (int i = 0; l && i < 4; i++, l = l->l_next)
        describe(l, 1152);
    dl_iterate_phdr(add_module, NULL);
    for (int i = 0; i < 6; i++)
        describe((const char *)kept[(size_t)i * 300] - 16, 512);
    describe((const char *)((uintptr_t)kept[0] & ~(uintptr_t)4095), 0x300); /* the thread's cache */
    const ElfW(Sym) *s = NULL;
    Dl_info info;
    void *libc = dlsym(RTLD_DEFAULT, "_IO_2_1_stdin_"); /* main_arena stands behind it */
    if (libc && dladdr1(libc, &info, (void **)&s, RTLD_DL_SYMENT))
        describe((const char *)libc + s->st_size, 2400);
}

static void overwrite(struct chance *c)
{
    const size_t n = below(c, descriptions);
    uint64_t *at = described[n].at + below(c, described[n].bytes / 8 + 1);
    void *page = (void *)((uintptr_t)at & ~(uintptr_t)4095); // NOLINT
    uint64_t value;
    switch (below(c, 6)) {
    case 0: value = (uintptr_t)at; break;
    case 1: value = 0; break;
    case 2: value = draw(c); break;
    case 3: value = *at + below(c, 4096); break;
    case 4: value = (uintptr_t)kept[below(c, BLOCKS)] - 16; break;
    default: value = (uintptr_t)mappings[below(c, MAPPINGS)].at;
    }
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE | (n % 2 ? PROT_EXEC : 0)))
        return;
    const uint64_t before = *at;
    *(volatile uint64_t *)at = value;
    sleep_us(below(c, 3000));
    if (below(c, 4))
        *(volatile uint64_t *)at = before;
}

/* ---- the steps ---- */

static void step(struct chance *c)
{
    if (wild && below(c, 3)) {
        overwrite(c);
        return;
    }
    switch (below(c, 20)) {
    case 0:
    case 1:
    case 2: map_memory(c); break;
    case 3:
    case 4:
    case 5: change_mapping(c); break;
    case 6:
    case 7:
    case 8: map_file(c); break;
    case 9:
    case 10:
    case 11: change_file(c); break;
    case 12: map_many(c); break;
    case 13: add_threads(c); break;
    case 14: add_child(c); break;
    case 15: change_signals(c); break;
    case 16: rename_self(c); break;
    case 17: change_own_files(c); break;
    case 18:
        if (wild) {
            load(c);
        } else {
            churn(c);
            for (uint64_t i = below(c, 100); i; i--) {
                void **block = &kept[below(c, BLOCKS)];
                free(*block);
                *block = malloc(16 + below(c, 4000));
            }
        }
        break;
    default:
        if (below(c, 12) == 0)
            become(c);
        sleep_us(below(c, 3000));
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    arguments = argv;
    seed_text = argv[1];
    wild = !strcmp(argv[2], "wild");
    setuid_program = argv[3];
    dice.state = strtoull(seed_text, NULL, 10) * 0x9e3779b97f4a7c15ULL | 1;
    for (int i = 0; i < 8; i++)
        draw(&dice);
    for (size_t i = 0; i < BLOCKS; i++) {
        kept[i] = malloc(16 + below(&dice, below(&dice, 50) ? 1000 : 200000));
        if (!kept[i])
            return 1;
        memcpy(kept[i], &kept[i ? i - 1 : 0], sizeof(void *));
    }
    signal(SIGALRM, nothing);
    signal(SIGCHLD, SIG_DFL);
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
    static char stack[65536];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction a = {.sa_sigaction = crashed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (wild)
        a = (struct sigaction){.sa_handler = broken, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaltstack(&other, NULL);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigaction(fatal[i], &a, NULL);
    if (wild)
        describe_all();
    write(1, "ready\n", 6);
    const time_t end = time(NULL) + LIFE_SECONDS;
    while (time(NULL) < end) {
        step(&dice);
        if (getppid() == 1)
            break;
    }
    over = 1;
    _exit(0);
}
