/* Which pages of a process there are: by the kernel's own search, and by every page's entry where
 * the kernel has none. */
#include "base/present.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES = 20000, PAGE_BYTES = 4096 };

static uint8_t *memory; /* PAGES; those that there() names are written */

/* Single pages, neighbors, and a hole longer than what is asked for at once. */
static bool there(size_t page)
{
    return page == 0 || (page > 3 && page < 70) || page == 200 || page == 202 || page == 15000 ||
           page == PAGES - 1;
}

static int make(void **state)
{
    memory = mmap(NULL, (size_t)PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)state;
    if (memory == MAP_FAILED)
        return -1;
    madvise(memory, (size_t)PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++)
        if (there(i))
            memory[i * PAGE_BYTES] = 1;
    return 0;
}

/* 0: all that is there was found, and nothing else. */
static int compare(struct present *p)
{
    const uint64_t begin = (uintptr_t)memory, end = begin + (uint64_t)PAGES * PAGE_BYTES;
    static bool found[PAGES];
    memset(found, 0, sizeof found);
    uint64_t from, to;
    for (uint64_t at = begin; at < end; at = to) {
        const enum present_found what = present_next(p, at, end, &from, &to);
        if (what == PRESENT_NONE)
            break;
        if (what != PRESENT_SOME || from < at || to <= from || to > end)
            return 1;
        for (uint64_t page = from; page < to; page += PAGE_BYTES)
            found[(page - begin) / PAGE_BYTES] = true;
    }
    for (size_t i = 0; i < PAGES; i++)
        if (found[i] != there(i))
            return 2;
    return present_all(p, begin, 1) && !present_all(p, begin, PAGE_BYTES + 1) &&
                   present_all(p, begin + 4 * PAGE_BYTES + 5, 60 * PAGE_BYTES)
               ? 0
               : 3;
}

static void test_as_the_kernel_has_it(void **state)
{
    struct present p;
    (void)state;
    assert_true(present_open(&p, getpid()));
    assert_int_equal(compare(&p), 0);
    present_close(&p);
}

/* From here on the request is unknown, as in kernels before 6.7. */
static bool refuse_scans(void)
{
    const uint32_t request = _IOWR('f', 16, struct present_scan);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, request, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int compare_without_scans(void)
{
    struct present p;
    if (!refuse_scans() || !present_open(&p, getpid()) || p.scans)
        return 10;
    return compare(&p);
}

/* What may be asked for is spent once for all questions. */
static int spend_without_scans(void)
{
    const uint64_t begin = (uintptr_t)memory + (uint64_t)300 * PAGE_BYTES,
                   end = (uintptr_t)memory + (uint64_t)15000 * PAGE_BYTES;
    uint64_t from = 0, to = 0;
    struct present p;
    if (!refuse_scans() || !present_open(&p, getpid()) || p.left != PRESENT_PAGES_MOST)
        return 10;
    p.left = 9000;
    if (present_next(&p, begin, end, &from, &to) != PRESENT_UNKNOWN || from <= begin || from >= end)
        return 1;
    const uint64_t before = from;
    if (present_next(&p, before, end, &from, &to) != PRESENT_UNKNOWN || from != before)
        return 2;
    p.left = PRESENT_PAGES_MOST;
    return present_next(&p, before, end, &from, &to) == PRESENT_NONE ? 0 : 3;
}

static int in_child(int (*work)(void))
{
    int status = -1;
    const pid_t child = fork();
    if (!child)
        _exit(work());
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_without_scans(void **state)
{
    (void)state;
    assert_int_equal(in_child(compare_without_scans), 0);
}

static void test_spent_without_scans(void **state)
{
    (void)state;
    assert_int_equal(in_child(spend_without_scans), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_kernel_has_it),
        cmocka_unit_test(test_without_scans),
        cmocka_unit_test(test_spent_without_scans),
    };
    return cmocka_run_group_tests(tests, make, NULL);
}
