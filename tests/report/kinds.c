/* kinds.c - memory of one kind, in known amounts: `kinds KIND FILE`. It says "ready", and ends with
 * its standard input. test_kinds.py says how much of it is in memory. FILE: one that may be made.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "../victims/apart.h"

#define MB   ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define OWN  (MAP_PRIVATE | MAP_ANONYMOUS)

static const char *place;
static char *volatile kept;

static char *check(void *p)
{
    if (p == MAP_FAILED || !p) {
        perror("kinds");
        exit(3);
    }
    return p;
}

static char *map(size_t bytes, int flags, int fd)
{
    return check(mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0));
}

static void touch(char *p, size_t bytes) { memset(p, 1, bytes); }

static void succeed(int status)
{
    if (status)
        check(NULL);
}

/* ---- what the program maps ---- */

static void lazy(void)
{
    char *p = map(40 * MB, OWN, -1);
    touch(p, 40 * MB);
    succeed(madvise(p, 30 * MB, MADV_FREE));
}

static void hole(void)
{
    char *p = map(40 * MB, OWN, -1);
    touch(p, 40 * MB);
    succeed(munmap(p + 15 * MB, 10 * MB));
}

static void barred(void)
{
    char *p = map(40 * MB, OWN, -1);
    touch(p, 40 * MB);
    succeed(mprotect(p + 20 * MB, 20 * MB, PROT_NONE));
}

static void moved(void)
{
    char *p = map(20 * MB, OWN, -1);
    touch(p, 20 * MB);
    touch(check(mremap(p, 20 * MB, 40 * MB, MREMAP_MAYMOVE)), 30 * MB);
}

static void by_syscall(void)
{
    char *p = (char *)syscall(SYS_mmap, NULL, 40 * MB, PROT_READ | PROT_WRITE, OWN, -1, 0L);
    touch(check(p), 30 * MB);
    p = (char *)syscall(SYS_mremap, p, 40 * MB, 60 * MB, MREMAP_MAYMOVE);
    touch(check(p) + 40 * MB, 15 * MB);
    succeed((int)syscall(SYS_munmap, p + 50 * MB, 10 * MB));
}

static void reserve(void)
{
    char *p = map((size_t)1 << 40, OWN | MAP_NORESERVE, -1);
    for (size_t i = 0; i < 20 * MB; i += PAGE)
        p[i * 1000] = 1;
}

/* Without reservation, and in no core: as the recorder's own memory is. */
static void unsaved(void)
{
    char *p = map(64 * MB, OWN | MAP_NORESERVE, -1);
    succeed(madvise(p, 64 * MB, MADV_DONTDUMP));
    touch(p, 20 * MB);
}

static void device(void)
{
    const int fd = open("/dev/zero", O_RDWR);
    touch(map(40 * MB, MAP_PRIVATE, fd), 30 * MB);
}

/* ---- files and shared memory ---- */

static void file(void)
{
    const int fd = open(place, O_RDWR | O_CREAT | O_EXCL, 0600);
    succeed(ftruncate(fd, (off_t)(40 * MB)));
    touch(map(40 * MB, MAP_SHARED, fd), 30 * MB);
    touch(map(40 * MB, MAP_PRIVATE, fd), 20 * MB); /* of which the file knows nothing */
}

static void memory_file(void)
{
    const int fd = memfd_create("kinds", 0);
    succeed(ftruncate(fd, (off_t)(40 * MB)));
    touch(map(40 * MB, MAP_SHARED, fd), 30 * MB);
    touch(map(40 * MB, MAP_PRIVATE, fd), 20 * MB);
}

static void segment(void)
{
    const int id = shmget(IPC_PRIVATE, 40 * MB, IPC_CREAT | 0600);
    char *p = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    touch(check(p), 40 * MB);
}

static void shared(void) { touch(map(40 * MB, MAP_SHARED | MAP_ANONYMOUS, -1), 30 * MB); }

/* ---- stacks ---- */

static APART void deep(void)
{
    volatile char bytes[5 * MB];
    for (size_t i = 0; i < sizeof bytes; i += PAGE)
        bytes[i] = 1;
}

static pthread_barrier_t is_deep;

static void *run(void *arg)
{
    deep();
    pthread_barrier_wait(&is_deep);
    for (;;)
        pause();
    return arg;
}

static void thread(void)
{
    pthread_attr_t a;
    pthread_t t;
    pthread_barrier_init(&is_deep, NULL, 2);
    pthread_attr_init(&a);
    succeed(pthread_attr_setstack(&a, map(8 * MB, OWN | MAP_STACK, -1), 8 * MB));
    succeed(pthread_create(&t, &a, run, NULL));
    pthread_barrier_wait(&is_deep);
}

/* The stack is a block of the program's. */
static void stack_in_block(void)
{
    pthread_attr_t a;
    pthread_t t;
    pthread_barrier_init(&is_deep, NULL, 2);
    pthread_attr_init(&a);
    succeed(pthread_attr_setstack(&a, check(malloc(8 * MB)), 8 * MB));
    succeed(pthread_create(&t, &a, run, NULL));
    pthread_barrier_wait(&is_deep);
}

/* The same, at a page within it. */
static void stack_within_block(void)
{
    pthread_attr_t a;
    pthread_t t;
    char *p = check(malloc(8 * MB));
    pthread_barrier_init(&is_deep, NULL, 2);
    pthread_attr_init(&a);
    succeed(pthread_attr_setstack(&a, p + PAGE - (uintptr_t)p % PAGE, 7 * MB));
    succeed(pthread_create(&t, &a, run, NULL));
    pthread_barrier_wait(&is_deep);
}

void *kinds_library_data(size_t *bytes); /* kinds_library.c */

static void library_data(void)
{
    size_t bytes;
    char *p = kinds_library_data(&bytes);
    touch(p, bytes);
}

static void context(void)
{
    static ucontext_t here, there;
    getcontext(&there);
    there.uc_stack.ss_sp = map(8 * MB, OWN | MAP_NORESERVE, -1);
    there.uc_stack.ss_size = 8 * MB;
    there.uc_link = &here;
    makecontext(&there, deep, 0);
    swapcontext(&here, &there);
}

/* ---- the break, blocks, processes, the program itself ---- */

static void own_break(void)
{
    char *p = check(sbrk(30 * (intptr_t)MB));
    touch(p, 30 * MB);
    succeed(brk(p + 10 * MB));
}

static void break_by_syscall(void)
{
    char *p = (char *)syscall(SYS_brk, NULL);
    if ((char *)syscall(SYS_brk, p + 30 * MB) != p + 30 * MB)
        check(NULL);
    touch(p, 30 * MB);
}

static void not_needed(void)
{
    char *p = check(malloc(40 * MB));
    touch(p, 40 * MB);
    succeed(madvise((char *)(((uintptr_t)p + PAGE) & ~(PAGE - 1)), 30 * MB, MADV_DONTNEED));
}

static void before_fork(void)
{
    kept = check(malloc(40 * MB));
    int ready[2], over[2];
    char c;
    succeed(pipe(ready) | pipe(over));
    if (!fork()) {
        close(over[1]);
        touch(kept, 20 * MB);
        succeed(write(ready[1], "", 1) != 1);
        _exit(read(over[0], &c, 1) != 0);
    }
    touch(kept, 10 * MB);
    succeed(read(ready[0], &c, 1) != 1);
}

static void executes(void)
{
    touch(kept = check(malloc(20 * MB)), 20 * MB);
    const pid_t pid = vfork();
    if (!pid) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(pid, NULL, 0);
}

static void library(void)
{
    for (int i = 0; i < 20; i++) {
        void *handle = dlopen("libm.so.6", RTLD_NOW);
        if (!handle || dlclose(handle))
            check(NULL);
    }
}

static void table(void)
{
    static char bytes[30 * MB];
    touch(bytes, sizeof bytes);
    kept = bytes;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*make)(void);
    } kinds[] = {{"lazy", lazy},
                 {"hole", hole},
                 {"barred", barred},
                 {"moved", moved},
                 {"syscall", by_syscall},
                 {"reserve", reserve},
                 {"device", device},
                 {"file", file},
                 {"memfd", memory_file},
                 {"segment", segment},
                 {"shared", shared},
                 {"deep", deep},
                 {"thread", thread},
                 {"context", context},
                 {"break", own_break},
                 {"break-syscall", break_by_syscall},
                 {"needless", not_needed},
                 {"fork", before_fork},
                 {"exec", executes},
                 {"library", library},
                 {"table", table},
                 {"unsaved", unsaved},
                 {"block-stack", stack_in_block},
                 {"block-stack-within", stack_within_block},
                 {"library-data", library_data}};
    if (argc < 3)
        return 2;
    place = argv[2];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, argv[1])) {
            kinds[i].make();
            free(malloc(100)); /* by which the recorder knows the program */
            puts("ready");
            fflush(stdout);
            return getchar() == 0;
        }
    return 2;
}
