/* test_smaps.c - the split of the resident size: every rule on text that the kernel could have
 * made, and any text without a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "record/smaps.h"

#define KIB 1024u

/* One mapping as the kernel writes it. */
static void add(char *text, const char *range, const char *perms, const char *name, unsigned rss_kb,
                unsigned swap_kb, const char *flags)
{
    size_t n = strlen(text);
    sprintf(text + n,
            "%s %s 00000000 00:00 0 %s%s\nSize:   4 kB\nRss:    %u kB\nPss:  1 kB\nSwap:   %u kB\n"
            "VmFlags: rd wr mr mw me %s\n",
            range, perms, *name ? "                  " : "", name, rss_kb, swap_kb, flags);
}

static struct mlw_split split_of(const char *text, const struct smaps_hints *hints, uint64_t *rss)
{
    struct mlw_split s = {.clock = 77};
    struct error err = {0};
    assert_int_equal(smaps_split(text, strlen(text), hints, &s, rss, &err), 0);
    assert_int_equal(s.clock, 77);
    return s;
}

static void test_kinds(void **state)
{
    (void)state;
    char text[16384] = "";
    add(text, "555500000000-555500021000", "r-xp", "/usr/bin/cat", 100, 0, "");
    add(text, "555500100000-555500200000", "rw-p", "[heap]", 200, 7, "ac");
    add(text, "7f0000000000-7f0000100000", "rw-p", "", 300, 0, "ac");
    add(text, "7f0000200000-7f0000300000", "rw-s", "/dev/zero (deleted)", 40, 0, "");
    add(text, "7f0000300000-7f0000400000", "rw-s", "/SYSV00000000 (deleted)", 50, 0, "");
    add(text, "7f0000400000-7f0000500000", "rw-s", "/memfd:other (deleted)", 60, 0, "");
    add(text, "7f0000500000-7f0000600000", "rw-s", "/memfd:mallow-session (deleted)", 70, 0, "");
    add(text, "7f0000600000-7f0000700000", "rw-s", "/home/me/data", 80, 0, "");
    add(text, "7f0000700000-7f0000800000", "rw-s", "/dev/dri/card0", 90, 0, "");
    add(text, "7f0000800000-7f0000900000", "r-xp", "/opt/lib/libmallow-record.so", 10, 0, "");
    add(text, "7ffd00000000-7ffd00021000", "rw-p", "[stack]", 20, 1, "gd ac");
    add(text, "7ffd00030000-7ffd00032000", "r-xp", "[vdso]", 8, 0, "");
    strcat(text,
           "7fff00000000-7fff00100000 rw-s 00000000 00:01 4711 /dev/zero (deleted)\nRss: 5 kB\n");
    uint64_t rss;
    struct smaps_hints none = {.session_inode = 4711};
    struct mlw_split s = split_of(text, &none, &rss);
    assert_int_equal(s.files, (100 + 80) * KIB);
    assert_int_equal(s.heap, 200 * KIB);
    assert_int_equal(s.anonymous, 300 * KIB);
    assert_int_equal(s.shared, (40 + 50 + 60) * KIB);
    assert_int_equal(s.recorder, (70 + 10 + 5) * KIB);
    assert_int_equal(s.other, (90 + 8) * KIB);
    assert_int_equal(s.stacks, 20 * KIB);
    assert_int_equal(s.swapped, 8 * KIB);
    assert_int_equal(rss, 1033 * KIB);
}

/* Pages that were given back by MADV_FREE are of no kind; the recorder's own are its own. */
static void test_given_back(void **state)
{
    (void)state;
    char text[16384] = "";
    struct smaps_hints none = {0};
    uint64_t rss;
    add(text, "555500100000-555500200000", "rw-p", "[heap]", 200, 0, "ac");
    strcat(text, "LazyFree: 150 kB\n");
    add(text, "7f0000000000-7f0000100000", "rw-p", "", 300, 0, "ac");
    strcat(text, "LazyFree: 300 kB\n");
    add(text, "7f0000200000-7f0000300000", "rw-p", "", 30, 0, "ac");
    strcat(text, "LazyFree: 40 kB\n"); /* no kernel says so */
    add(text, "7f0001000000-7f0001100000", "rw-p", "[anon:mallow]", 10, 0, "ac");
    strcat(text, "LazyFree: 10 kB\n");
    struct mlw_split s = split_of(text, &none, &rss);
    assert_int_equal(s.heap, 50 * KIB);
    assert_int_equal(s.anonymous, 0);
    assert_int_equal(s.lazy, (150 + 300 + 30) * KIB);
    assert_int_equal(s.recorder, 10 * KIB);
    assert_int_equal(rss, (200 + 300 + 30 + 10) * KIB);
}

static void test_arenas(void **state)
{
    (void)state;
    char text[16384] = "";
    struct smaps_hints none = {0};
    /* a young heap: the rest of its 64 MiB is inaccessible */
    add(text, "7f1000000000-7f1000021000", "rw-p", "", 100, 0, "ac nr");
    add(text, "7f1000021000-7f1004000000", "---p", "", 0, 0, "nr");
    /* a full one, and what is as large by chance */
    add(text, "7f1008000000-7f100c000000", "rw-p", "", 200, 0, "nr");
    add(text, "7f1010000000-7f1014000000", "rw-p", "", 400, 0, "ac");
    /* aligned, but nothing reserved behind it */
    add(text, "7f1020000000-7f1020021000", "rw-p", "", 800, 0, "ac");
    add(text, "7f1030000000-7f1030021000", "rw-p", "", 1600, 0, "ac");
    add(text, "7f1030021000-7f1030022000", "---p", "", 0, 0, "");
    /* not aligned */
    add(text, "7f1040001000-7f1040021000", "rw-p", "", 3200, 0, "ac");
    add(text, "7f1040021000-7f1044000000", "---p", "", 0, 0, "");
    struct mlw_split s = split_of(text, &none, NULL);
    assert_int_equal(s.arenas, (100 + 200) * KIB);
    assert_int_equal(s.anonymous, (400 + 800 + 1600 + 3200) * KIB);
}

/* They are of 8 MiB where they may be of huge pages, whether there are such or not. */
static void test_arenas_of_huge_pages(void **state)
{
    (void)state;
    char text[16384] = "";
    struct smaps_hints none = {0};
    add(text, "7f1000800000-7f1000a00000", "rw-p", "", 100, 0, "ac nr");
    add(text, "7f1000a00000-7f1001000000", "---p", "", 0, 0, "nr");
    add(text, "7f1001800000-7f1001a00000", "rw-p", "/anon_hugepage (deleted)", 200, 0, "ht nr");
    add(text, "7f1001a00000-7f1002000000", "---p", "/anon_hugepage (deleted)", 0, 0, "ht nr");
    /* not mapped as glibc does it; not aligned */
    add(text, "7f1002800000-7f1002a00000", "rw-p", "", 400, 0, "ac");
    add(text, "7f1002a00000-7f1003000000", "---p", "", 0, 0, "");
    add(text, "7f1003a00000-7f1003c00000", "rw-p", "", 800, 0, "ac nr");
    add(text, "7f1003c00000-7f1004000000", "---p", "", 0, 0, "nr");
    struct mlw_split s = split_of(text, &none, NULL);
    assert_int_equal(s.arenas, (100 + 200) * KIB);
    assert_int_equal(s.anonymous, (400 + 800) * KIB);
}

static void test_thread_stacks(void **state)
{
    (void)state;
    char text[16384] = "";
    add(text, "7f2000000000-7f2000001000", "---p", "", 0, 0, "");
    add(text, "7f2000001000-7f2000801000", "rw-p", "", 100, 0, "ac");
    add(text, "7f2001000000-7f2009000000", "rw-p", "", 500, 0, "ac"); /* mostly something else */
    const uint64_t pointers[] = {0x7f20007ff700, 0x7f2001100000, 0x1234};
    struct smaps_hints hints = {.thread_pointers = pointers, .threads = 3};
    struct mlw_split s = split_of(text, &hints, NULL);
    assert_int_equal(s.stacks, 100 * KIB);
    assert_int_equal(s.anonymous, 500 * KIB);
    /* of a thread that was never seen to call: by the guard before it */
    add(text, "7f3000000000-7f3000001000", "rw-p", "", 7, 0, "ac"); /* nothing before it */
    add(text, "7f3000001000-7f3001000000", "---p", "", 0, 0, "");
    add(text, "7f3001000000-7f3001800000", "rw-p", "", 20, 0, "ac"); /* too much before it */
    add(text, "7f3001801000-7f3001802000", "---p", "", 0, 0, "");
    add(text, "7f3001802000-7f3001804000", "rw-p", "", 3, 0, "ac"); /* too small for a stack */
    hints.threads = 0;
    s = split_of(text, &hints, NULL);
    assert_int_equal(s.stacks, 100 * KIB);
    assert_int_equal(s.anonymous, (500 + 7 + 20 + 3) * KIB);
}

static void test_own_memory(void **state)
{
    (void)state;
    char text[16384] = "";
    add(text, "7f3000000000-7f3000100000", "rw-p", "", 1000, 0, "nr dd");
    add(text, "7f3000200000-7f3000300000", "rw-p", "", 100, 0, "ac");
    struct smaps_hints hints = {.private_bytes = 300 * KIB};
    struct mlw_split s = split_of(text, &hints, NULL);
    assert_int_equal(s.recorder, 0); /* it has less */
    assert_int_equal(s.anonymous, 1100 * KIB);
    hints.private_bytes = 1 << 20;
    s = split_of(text, &hints, NULL);
    assert_int_equal(s.recorder, 1000 * KIB);
    assert_int_equal(s.anonymous, 100 * KIB);
    /* the program's own, without reservation; an arena that the recorder's memory lies below */
    *text = 0;
    add(text, "7f3000000000-7f3000100000", "rw-p", "", 1000, 0, "nr");
    add(text, "7f3003f00000-7f3004000000", "rw-p", "", 40, 0, "nr dd");
    add(text, "7f3004000000-7f3004400000", "rw-p", "", 4000, 0, "nr");
    add(text, "7f3004400000-7f3008000000", "---p", "", 0, 0, "nr");
    s = split_of(text, &hints, NULL);
    assert_int_equal(s.recorder, 40 * KIB);
    assert_int_equal(s.anonymous, 1000 * KIB);
    assert_int_equal(s.arenas, 4000 * KIB);
}

/* What grew while the kernel wrote the text is in it twice. */
static void test_twice(void **state)
{
    (void)state;
    char text[16384] = "";
    struct smaps_hints none = {0};
    uint64_t rss;
    add(text, "555500100000-555500200000", "rw-p", "[heap]", 200, 7, "ac");
    add(text, "555500100000-555500300000", "rw-p", "[heap]", 250, 8, "ac");
    add(text, "7f0000000000-7f0000100000", "rw-p", "", 300, 0, "ac");
    add(text, "7f0000100000-7f0000200000", "rw-p", "", 20, 0, "ac");
    struct mlw_split s = split_of(text, &none, &rss);
    assert_int_equal(s.heap, 250 * KIB);
    assert_int_equal(s.swapped, 8 * KIB);
    assert_int_equal(s.anonymous, 320 * KIB);
    assert_int_equal(rss, 570 * KIB);
}

/* What was merged with mappings that are written already: each byte counts once, as the last line
 * has it. */
static void test_merged(void **state)
{
    (void)state;
    char text[16384] = "";
    struct smaps_hints none = {0};
    uint64_t rss;
    add(text, "7f0000000000-7f0000100000", "rw-p", "", 300, 3, "ac");
    add(text, "7f0000100000-7f0000200000", "rw-p", "", 20, 0, "ac");
    add(text, "7f0000200000-7f0000300000", "rw-p", "", 50, 0, "ac");
    add(text, "7f0000100000-7f0000400000", "rw-p", "", 90, 0, "ac");
    add(text, "7f0000000000-7f0000500000", "rw-p", "", 500, 4, "ac");
    add(text, "7f0000500000-7f0000600000", "r--p", "", 8, 0, "ac");
    struct mlw_split s = split_of(text, &none, &rss);
    assert_int_equal(s.anonymous, 508 * KIB);
    assert_int_equal(s.swapped, 4 * KIB);
    assert_int_equal(rss, 508 * KIB);
}

static void test_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "hello\n",
                                      "Rss: 4 kB\n",
                                      "7f00-\n",
                                      "7f00-8f00 rw\n",
                                      "8f00-7f00 rw-p 0 00:00 0\n",
                                      "7f00-8f00 rw-p 0 00:00 x\n",
                                      "11112222333344445-8f00 rw-p 0 00:00 0\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mlw_split s = {0};
        struct error err = {0};
        struct smaps_hints none = {0};
        assert_int_equal(smaps_split(bad[i], strlen(bad[i]), &none, &s, NULL, &err), -1);
        assert_int_equal(err.kind, ERROR_FORMAT);
    }
}

/* Whatever is cut off or changed: an answer or an error. The text lies at the end of a block of its
 * own, so that a sanitizer sees a read beyond it. */
static void test_any_text(void **state)
{
    (void)state;
    struct smaps_buffer b = {0};
    struct error err = {0};
    const uint64_t pointers[] = {(uint64_t)(uintptr_t)&b};
    struct smaps_hints hints = {
        .thread_pointers = pointers, .threads = 1, .private_bytes = 1 << 20};
    assert_int_equal(smaps_read(getpid(), &b, &err), 0);
    struct mlw_split s = {0};
    uint64_t rss = 0;
    assert_int_equal(smaps_split(b.bytes, b.n, &hints, &s, &rss, &err), 0);
    assert_true(rss > 500 * KIB && s.files && s.stacks);
    uint32_t x = 12345;
    unsigned answers = 0;
    for (int i = 0; i < 3000; i++) {
        x = x * 1664525 + 1013904223;
        size_t n = (x >> 8) % (b.n + 1);
        char *copy = malloc(n ? n : 1);
        memcpy(copy, b.bytes, n);
        for (unsigned k = 0; n && k < 3; k++) {
            x = x * 1664525 + 1013904223;
            copy[(x >> 4) % n] = (char)(x >> 24);
        }
        answers += !smaps_split(copy, n, &hints, &s, &rss, &err);
        free(copy);
    }
    assert_true(answers > 0 && answers < 3000);
    free(b.bytes);
}

/* The process that ends when the first piece of its smaps has been read; 0: none does. */
static pid_t ends;

ssize_t __real_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n)
{
    const ssize_t got = __real_read(fd, to, n);
    if (ends > 0 && got > 1000) {
        kill(ends, SIGKILL); /* it stays a zombie: of one that is gone, reading says so */
        waitid(P_PID, (id_t)ends, &(siginfo_t){0}, WEXITED | WNOWAIT);
        ends = 0;
    }
    return got;
}

/* The kernel writes the text in pieces: what there was of it is no answer. */
static void test_ends_meanwhile(void **state)
{
    (void)state;
    struct smaps_buffer b = {0}, part = {0}; /* with room for one piece at first */
    struct error err = {0};
    enum { MAPPINGS = 64 }; /* more than a piece */
    char *pages = mmap(NULL, MAPPINGS * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    for (size_t i = 0; i < MAPPINGS; i += 2)
        assert_int_equal(mprotect(pages + i * 4096, 4096, PROT_NONE), 0);
    const pid_t pid = fork();
    if (!pid)
        for (;;)
            pause();
    assert_true(pid > 0);
    assert_int_equal(smaps_read(pid, &b, &err), 0);
    ends = pid;
    assert_int_equal(smaps_read(pid, &part, &err), -1);
    assert_int_equal(ends, 0);
    assert_true(part.n && part.n < b.n);
    assert_non_null(strstr(err.text, "ended while"));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    munmap(pages, MAPPINGS * 4096);
    free(part.bytes);
    free(b.bytes);
}

static uint64_t a_quarter(void *arg, uint64_t start, uint64_t end)
{
    (void)arg;
    return (end - start) / 4;
}

static void note(void *arg, uint64_t at)
{
    uint64_t *const places = arg;
    places[++places[0]] = at;
}

/* Pages of the kernel's pool: resident nowhere but here. */
static void test_hugetlb(void **state)
{
    (void)state;
    char text[16384] = "";
    add(text, "7f0000000000-7f0000800000", "rw-p", "/anon_hugepage (deleted)", 0, 0, "ht");
    strcat(text, "Shared_Hugetlb:       0 kB\nPrivate_Hugetlb:    4096 kB\n");
    add(text, "7f0001000000-7f0001800000", "rw-s", "/anon_hugepage (deleted)", 0, 0, "ht");
    strcat(text, "Shared_Hugetlb:    2048 kB\nPrivate_Hugetlb:       0 kB\n");
    add(text, "7f0002000000-7f0002800000", "rw-p", "/anon_hugepage (deleted)", 0, 0, "ht");
    strcat(text, "Private_Hugetlb:    8192 kB\n");
    const struct smaps_place heap = {0x7f0002000000, 0x7f0002800000, SMAPS_MAIN};
    const struct smaps_hints hints = {.knows_heaps = true, .places = &heap, .place_count = 1};
    uint64_t rss;
    struct mlw_split s = split_of(text, &hints, &rss);
    assert_int_equal(s.anonymous, 4096 * KIB);
    assert_int_equal(s.shared, 2048 * KIB);
    assert_int_equal(s.heap, 8192 * KIB);
    assert_int_equal(s.hugetlb, (4096 + 2048 + 8192) * KIB);
    assert_int_equal(rss, s.hugetlb);
}

/* Pages of a private mapping that were written to are the program's own, but for data of programs
 * and libraries, to which the program's .bss belongs. */
static void test_written(void **state)
{
    (void)state;
    static const char text[] =
        "555500000000-555500001000 r-xp 00000000 08:01 77 /opt/program\nRss: 4 kB\n"
        "555500001000-555500002000 rw-p 00001000 08:01 77 /opt/program\nRss: 8 kB\nAnonymous: 8 "
        "kB\n"
        "555500002000-555500102000 rw-p 00000000 00:00 0\nRss: 16 kB\nAnonymous: 16 kB\n"
        "555500102000-555500202000 rw-p 00000000 00:00 0\nRss: 32 kB\nAnonymous: 32 kB\n"
        "7f0000000000-7f0000001000 r-xp 00000000 08:01 78 /opt/lib.so\nRss: 64 kB\n"
        "7f0000001000-7f0000002000 rw-p 00001000 08:01 78 /opt/lib.so\nRss: 128 kB\nAnonymous: 128 "
        "kB\n"
        "7f0000002000-7f0000102000 rw-p 00000000 00:00 0\nRss: 256 kB\nAnonymous: 256 kB\n"
        "7f0001000000-7f0001100000 rw-p 00000000 08:02 77 /data\nRss: 512 kB\nAnonymous: 500 kB\n"
        "7f0002000000-7f0002100000 rw-s 00000000 08:02 77 /data\nRss: 1024 kB\nAnonymous: 1 kB\n"
        "7f0003000000-7f0003100000 rw-p 00000000 00:05 4 /dev/zero\nRss: 2048 kB\nAnonymous: 2048 "
        "kB\n"
        "7f0004000000-7f0004100000 rw-p 00000000 00:01 9 /memfd:x (deleted)\nRss: 4096 kB\n"
        "Anonymous: 4000 kB\n";
    uint64_t rss;
    const struct mlw_split s = split_of(text, &(struct smaps_hints){0}, &rss);
    assert_int_equal(s.files, (4 + 8 + 16 + 64 + 128 + 12 + 1024) * KIB);
    assert_int_equal(s.mapped, (12 + 1024) * KIB);
    assert_int_equal(s.anonymous, (32 + 256 + 500 + 2048 + 4000) * KIB);
    assert_int_equal(s.shared, 96 * KIB);
    assert_int_equal(rss, 8188 * KIB);
}

/* Pages that a fork left with several processes, and those that are shared for another reason. */
static void test_forked(void **state)
{
    (void)state;
    static const char *const names[] = {
        "[heap]", "", "[anon:mine]", "[stack]", "/lib/x.so", "/dev/shm/all", "[stack:123]"};
    char text[16384] = "", range[64];
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        sprintf(range, "7f%02x00000000-7f%02x00100000", i, i);
        add(text, range, i == 5 ? "rw-s" : "rw-p", names[i], 400, 0, "");
        sprintf(text + strlen(text), "Shared_Clean: 1 kB\nShared_Dirty: %u kB\n", 100u << i);
    }
    strcat(text, "KSM: 400 kB\n"); /* of the last, in part by KSM */
    uint64_t rss;
    const struct mlw_split s = split_of(text, &(struct smaps_hints){0}, &rss);
    assert_int_equal(s.forked, (100 + 200 + 400 + 800 + 6400 - 400 + 5) * KIB);
    assert_int_equal(s.proportional, 7 * KIB);
    assert_int_equal(rss, 7 * 400 * KIB);
}

/* Heaps in glibc's own words, wherever they lie and whatever their mappings were merged with. */
static void test_known_heaps(void **state)
{
    (void)state;
    char text[16384] = "";
    add(text, "7f0000000000-7f0000800000", "rw-p", "", 100, 0, "");  /* a heap */
    add(text, "7f0000900000-7f0000a00000", "rw-p", "", 1024, 0, ""); /* in part the main arena's */
    add(text, "7f0004000000-7f0004100000", "rw-p", "", 200, 0, "");  /* looks like a heap */
    add(text, "7f0004100000-7f0008000000", "---p", "", 0, 0, "");
    add(text, "7f0010000000-7f0011000000", "rw-p", "", 0, 0, "");
    const struct smaps_place heaps[] = {{0x7f0000000000, 0x7f0000800000, SMAPS_ARENA},
                                        {0x7f0000980000, 0x7f0000a80000, SMAPS_MAIN}};
    struct smaps_hints hints = {
        .knows_heaps = true, .places = heaps, .place_count = 2, .present = a_quarter};
    uint64_t rss, places[8] = {0};
    struct mlw_split s = split_of(text, &hints, &rss);
    assert_int_equal(s.arenas, 100 * KIB);
    assert_int_equal(s.heap, 128 * KIB);
    assert_int_equal(s.anonymous, (1024 - 128 + 200) * KIB);
    assert_int_equal(rss, 1324 * KIB);
    hints.present = NULL;
    s = split_of(text, &hints, &rss);
    assert_int_equal(s.heap, 0);
    assert_int_equal(s.anonymous, (1024 + 200) * KIB);
    smaps_places(text, strlen(text), 0x400000, 3, note, places);
    assert_int_equal(places[0], 3);
    assert_true(places[1] == 0x7f0000000000 && places[2] == 0x7f0000400000 &&
                places[3] == 0x7f0004000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),          cmocka_unit_test(test_known_heaps),
        cmocka_unit_test(test_hugetlb),        cmocka_unit_test(test_given_back),
        cmocka_unit_test(test_written),        cmocka_unit_test(test_forked),
        cmocka_unit_test(test_arenas),         cmocka_unit_test(test_arenas_of_huge_pages),
        cmocka_unit_test(test_thread_stacks),  cmocka_unit_test(test_own_memory),
        cmocka_unit_test(test_twice),          cmocka_unit_test(test_merged),
        cmocka_unit_test(test_refuses),        cmocka_unit_test(test_any_text),
        cmocka_unit_test(test_ends_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
