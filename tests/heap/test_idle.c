/* test_idle.c - idle page tracking against a bitmap that is a file of ours: this kernel may have
 * none. Where pages lie is the real kernel's word. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/page.h"
#include "heap/cold.h"
#include "heap/idle.h"

enum { PAGES = 300 };
#define FRAME (((uint64_t)1 << 55) - 1) /* of an entry of pagemap */

static char root[] = "/tmp/mallow-idle-XXXXXX";
static uint8_t *pages;
static uint64_t frame[PAGES];

static void path_of(char path[4096], const char *name) { snprintf(path, 4096, "%s%s", root, name); }

static int open_file(const char *name, int how)
{
    char path[4096];
    path_of(path, name);
    int fd = open(path, how, 0600);
    assert_true(fd >= 0);
    return fd;
}

static bool bit(uint64_t of)
{
    uint64_t word = 0;
    int fd = open_file("/sys/kernel/mm/page_idle/bitmap", O_RDONLY);
    assert_true(pread(fd, &word, sizeof word, (off_t)(of / 64 * 8)) >= 0);
    close(fd);
    return word >> of % 64 & 1;
}

/* As the kernel does when a page is touched. */
static void clear_bit(uint64_t of)
{
    uint64_t word = 0;
    int fd = open_file("/sys/kernel/mm/page_idle/bitmap", O_RDWR);
    assert_int_equal(pread(fd, &word, sizeof word, (off_t)(of / 64 * 8)), 8);
    word &= ~((uint64_t)1 << of % 64);
    assert_int_equal(pwrite(fd, &word, sizeof word, (off_t)(of / 64 * 8)), 8);
    close(fd);
}

static int make_root(void **state)
{
    (void)state;
    static const char *const dirs[] = {"/sys", "/sys/kernel", "/sys/kernel/mm",
                                       "/sys/kernel/mm/page_idle", "/proc"};
    char path[4096];
    if (!mkdtemp(root))
        return -1;
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        path_of(path, dirs[i]);
        if (mkdir(path, 0700))
            return -1;
    }
    close(open_file("/sys/kernel/mm/page_idle/bitmap", O_RDWR | O_CREAT));
    pages = mmap(NULL, PAGES * ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (pages == MAP_FAILED || madvise(pages, PAGES * ARCH_PAGE_BYTES, MADV_NOHUGEPAGE))
        return -1;
    memset(pages, 1, PAGES * ARCH_PAGE_BYTES);
    int fd = open("/proc/self/pagemap", O_RDONLY);
    for (size_t i = 0; i < PAGES; i++) {
        uint64_t entry = 0;
        if (pread(fd, &entry, 8, (off_t)(((uintptr_t)pages / ARCH_PAGE_BYTES + i) * 8)) != 8)
            return -1;
        frame[i] = entry & FRAME;
    }
    close(fd);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    static const char *const names[] = {"/sys/kernel/mm/page_idle/bitmap",
                                        "/proc/kpageflags",
                                        "/sys/kernel/mm/page_idle",
                                        "/sys/kernel/mm",
                                        "/sys/kernel",
                                        "/sys",
                                        "/proc",
                                        ""};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(path, names[i]);
        (void)remove(path);
    }
    return 0;
}

static struct idle *open_or_skip(pid_t pid)
{
    char reason[200];
    struct idle *i = idle_open(pid, root, reason, sizeof reason);
    if (!i && strstr(reason, "CAP_SYS_ADMIN"))
        skip();
    assert_non_null(i);
    return i;
}

struct seen {
    bool page[PAGES];
    size_t count;
    uint64_t last;
};

static int note(void *arg, uint64_t start, uint64_t end)
{
    struct seen *s = arg;
    size_t i = (size_t)(start - (uintptr_t)pages) / ARCH_PAGE_BYTES;
    assert_true(i < PAGES && start >= s->last && end == start + ARCH_PAGE_BYTES);
    s->page[i] = true;
    s->count++;
    s->last = end;
    return 0;
}

static void test_pages(void **state)
{
    (void)state;
    static const size_t touched[] = {0, 3, 64, 65, 66, 128, PAGES - 1};
    const uint64_t start = (uintptr_t)pages, end = start + PAGES * ARCH_PAGE_BYTES;
    struct idle *i = open_or_skip(getpid());
    assert_int_equal(idle_mark(i, start, end), 0);
    for (size_t k = 0; k < PAGES; k++)
        assert_true(bit(frame[k]));
    struct seen seen = {.count = 0};
    assert_int_equal(idle_touched(i, start, end, note, &seen), 0);
    assert_int_equal(seen.count, 0);
    for (size_t k = 0; k < sizeof touched / sizeof *touched; k++)
        clear_bit(frame[touched[k]]);
    assert_int_equal(idle_touched(i, start, end, note, &seen), 0);
    assert_int_equal(seen.count, sizeof touched / sizeof *touched);
    for (size_t k = 0; k < sizeof touched / sizeof *touched; k++)
        assert_true(seen.page[touched[k]]);
    idle_close(i);
}

/* The mark of a large page is that of its first frame. */
static void test_large(void **state)
{
    (void)state;
    const uint64_t tail = (uint64_t)1 << 16, none = 0;
    const uint64_t start = (uintptr_t)pages, end = start + PAGES * ARCH_PAGE_BYTES;
    size_t k = 0;
    while (k < PAGES && frame[k] % 512 < 3)
        k++;
    assert_true(k < PAGES);
    int fd = open_file("/proc/kpageflags", O_RDWR | O_CREAT);
    for (uint64_t f = frame[k] - 2; f <= frame[k]; f++)
        assert_int_equal(pwrite(fd, f == frame[k] - 2 ? &none : &tail, 8, (off_t)(f * 8)), 8);
    close(fd);
    fd = open_file("/sys/kernel/mm/page_idle/bitmap", O_RDWR | O_TRUNC);
    close(fd);
    struct idle *i = open_or_skip(getpid());
    assert_int_equal(idle_mark(i, start, end), 0);
    assert_true(bit(frame[k] - 2));
    clear_bit(frame[k] - 2);
    struct seen seen = {.count = 0};
    assert_int_equal(idle_touched(i, start, end, note, &seen), 0);
    assert_true(seen.page[k]);
    idle_close(i);
    char path[4096];
    path_of(path, "/proc/kpageflags");
    unlink(path);
}

/* Where the pages of a process lie: the kernel may move them, or swap them out, at any moment. */
static void read_places(pid_t pid, uint64_t place[PAGES])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    int fd = open(path, O_RDONLY);
    const off_t at = (off_t)((uintptr_t)pages / ARCH_PAGE_BYTES * 8);
    assert_int_equal(pread(fd, place, PAGES * sizeof *place, at), PAGES * sizeof *place);
    close(fd);
}

/* As `mallow heap --cold` does: of a process that stands, goes on, and stands again. */
static void test_process(void **state)
{
    (void)state;
    struct error err;
    uint64_t waited, before[PAGES], after[PAGES];
    idle_close(open_or_skip(getpid()));
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* when a check fails */
        for (size_t i = 0; i < PAGES; i++)
            pages[i * ARCH_PAGE_BYTES] = 2; /* frames of its own */
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    waitpid(child, NULL, WUNTRACED);
    kill(child, SIGCONT);
    struct target *t = target_stop((uint32_t)child, &err);
    assert_non_null(t);
    read_places(child, before);
    struct cold *c = cold_begin(t, root, &err);
    assert_non_null(c);
    assert_string_equal(cold_source(c), "idle");
    assert_true(cold_sees_reads(c));
    target_close(t);
    assert_int_equal(cold_wait(c, 1, &waited, NULL, NULL, &err), 0);
    clear_bit(before[7] & FRAME);
    t = target_stop((uint32_t)child, &err);
    assert_non_null(t);
    assert_int_equal(cold_look(c, t, &err), 0);
    read_places(child, after);
    size_t idle = 0;
    for (size_t i = 0; i < PAGES; i++) {
        const uint64_t at = (uintptr_t)pages + i * ARCH_PAGE_BYTES;
        if (before[i] != after[i])
            continue;
        /* The kernel's bitmap keeps the marks of frames that a write does not name. Our file loses
         * those in the same word: of a mapping that was marked before. */
        const bool marked = bit(before[i] & FRAME);
        assert_int_equal(cold_touched(c, at, at + ARCH_PAGE_BYTES), !marked);
        assert_true(i != 7 || !marked);
        idle += marked;
    }
    assert_true(idle > 0);
    target_close(t);
    cold_end(c);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void test_without(void **state)
{
    (void)state;
    char reason[200] = "";
    assert_null(idle_open(getpid(), "/nowhere", reason, sizeof reason));
    assert_string_equal(reason, "the kernel was built without (CONFIG_IDLE_PAGE_TRACKING)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages), cmocka_unit_test(test_large),
                                       cmocka_unit_test(test_process),
                                       cmocka_unit_test(test_without)};
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
