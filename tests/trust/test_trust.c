/* The decisions of src/trust: which files, places and processes are believed. What needs two users
 * runs when the caller is root, in children that are uid 65534. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "trust/file.h"
#include "trust/place.h"
#include "trust/process.h"
#include "trust/secret.h"

#define OTHER 65534

static char base[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/mallow-trust-XXXXXX");
    return mkdtemp(base) && !chmod(base, 0755) ? chdir(base) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return chdir("/") ? -1 : system(command);
}

static void make(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static int opened(const char *name, const struct trust_rule *rule, struct error *err)
{
    *err = (struct error){0};
    int fd = trust_open(AT_FDCWD, name, TRUST_READ, rule, err);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static void test_only_regular_files_are_opened(void **state)
{
    (void)state;
    struct error err;
    const struct trust_rule own = {.what = "the recording"}, followed = {.follow = true};
    make("plain", "text");
    assert_int_equal(opened("plain", &own, &err), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(opened("fifo", &own, &err), -1); /* an open would wait for a writer */
    assert_string_equal(err.text, "the recording fifo is not a regular file");
    assert_int_equal(err.kind, ERROR_USAGE);
    assert_int_equal(opened(".", &own, &err), -1);
    assert_int_equal(symlink("plain", "link"), 0);
    assert_int_equal(opened("link", &own, &err), -1);
    assert_int_equal(err.number, ELOOP);
    assert_int_equal(opened("link", &followed, &err), 0);
    assert_int_equal(opened("gone", &own, &err), -1);
    assert_int_equal(err.number, ENOENT);
    const struct trust_rule anybody = {.owners = TRUST_ANYBODY, .follow = true};
    assert_int_equal(opened("/dev/zero", &anybody, &err), -1);
}

static void test_names_stay_below_a_directory(void **state)
{
    (void)state;
    struct error err;
    const struct trust_rule any = {.owners = TRUST_ANYBODY, .follow = true};
    make("secret", "text");
    assert_int_equal(mkdir("root", 0755), 0);
    assert_int_equal(mkdir("root/sub", 0755), 0);
    make("root/sub/file", "text");
    assert_int_equal(symlink("sub/file", "root/inside"), 0);
    assert_int_equal(symlink("../secret", "root/outside"), 0);
    assert_int_equal(symlink("..", "root/up"), 0);
    assert_int_equal(mkfifo("root/fifo", 0600), 0);
    const char *good[] = {"sub/file", "inside", "sub/../sub/file"};
    const char *bad[] = {"../secret", "outside", "up/secret", "/etc/passwd", "sub", "fifo", "gone"};
    const int root = open("root", O_PATH | O_DIRECTORY);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const int fd = trust_open_below(root, good[i], &any, &err);
        assert_true(fd >= 0);
        close(fd);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(trust_open_below(root, bad[i], &any, &err), -1);
    close(root);
}

static void test_links_and_sizes_are_bounded(void **state)
{
    (void)state;
    struct error err;
    const struct trust_rule single = {.one_name = true}, small = {.most_bytes = 4};
    make("one", "text");
    assert_int_equal(opened("one", &single, &err), 0);
    assert_int_equal(opened("one", &small, &err), 0);
    assert_int_equal(truncate("one", 5), 0);
    assert_int_equal(opened("one", &small, &err), -1);
    assert_int_equal(link("one", "two"), 0);
    assert_int_equal(opened("one", &single, &err), -1);
}

static void test_owners(void **state)
{
    (void)state;
    struct error err;
    if (geteuid() != 0)
        skip();
    const struct trust_rule own = {0}, other = {.owners = TRUST_USER, .user = OTHER},
                            both = {.owners = TRUST_CALLER | TRUST_USER, .user = OTHER};
    make("mine", "");
    make("theirs", "");
    assert_int_equal(chown("theirs", OTHER, OTHER), 0);
    assert_int_equal(opened("mine", &own, &err), 0);
    assert_int_equal(opened("theirs", &own, &err), -1);
    assert_non_null(strstr(err.text, "another user (uid 65534)"));
    assert_int_equal(opened("mine", &other, &err), -1);
    assert_int_equal(opened("theirs", &other, &err), 0);
    assert_int_equal(opened("mine", &both, &err), 0);
}

static void test_what_may_shrink_is_copied(void **state)
{
    (void)state;
    struct error err = {0};
    if (geteuid() != 0)
        skip();
    make("theirs", "some text");
    int own = trust_stable(open("theirs", O_RDONLY), 100, &err);
    assert_true(own >= 0);
    struct stat opened_file, named_file;
    assert_int_equal(fstat(own, &opened_file), 0);
    assert_int_equal(stat("theirs", &named_file), 0);
    assert_int_equal(opened_file.st_ino, named_file.st_ino); /* no copy of one's own */
    close(own);
    assert_int_equal(chown("theirs", OTHER, OTHER), 0);
    assert_int_equal(trust_stable(open("theirs", O_RDONLY), 8, &err), -1);
    int fd = trust_stable(open("theirs", O_RDONLY), 9, &err);
    assert_true(fd >= 0 && trust_may_map(fd));
    assert_int_equal(truncate("theirs", 0), 0);
    char text[16] = "";
    assert_int_equal(trust_read(fd, text, sizeof text, 0), 9);
    assert_string_equal(text, "some text");
    close(fd);
    assert_int_equal(truncate("theirs", 1ll << 40), 0); /* sparse */
    assert_int_equal(trust_stable(open("theirs", O_RDONLY), 1 << 20, &err), -1);
    /* Memory that cannot shrink, but be rewritten, while a library works through it. */
    int memory = memfd_create("theirs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(write(memory, "some text", 9), 9);
    assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) | fchown(memory, OTHER, OTHER), 0);
    fd = trust_stable(dup(memory), 9, &err);
    assert_true(fd >= 0 && fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE);
    close(fd);
    close(memory);
}

static void test_reading_whole_is_bounded(void **state)
{
    (void)state;
    struct error err;
    size_t n = 0;
    make("file", "0123456789");
    int fd = open("file", O_RDONLY);
    char *text = trust_read_whole(fd, 10, &n, &err);
    assert_string_equal(text, "0123456789");
    assert_int_equal(n, 10);
    free(text);
    assert_null(trust_read_whole(fd, 9, &n, &err));
    close(fd);
}

static void test_a_place_is_held(void **state)
{
    (void)state;
    struct error err = {0};
    struct trust_place p;
    assert_int_equal(mkdir("a", 0755) | mkdir("b", 0755), 0);
    make("b/file", "other");
    assert_int_equal(trust_place_open(&p, "a/file", &err), 0);
    assert_int_equal(rename("a", "a.away") | symlink("b", "a"), 0);
    struct trust_draft d;
    assert_int_equal(trust_draft_open(&d, &p, ".draft-", &err), 0);
    assert_int_equal(write(d.fd, "new", 3), 3);
    assert_int_equal(trust_draft_publish(&d, &p, 0640, &err), 0);
    close(d.fd);
    trust_place_close(&p);
    struct stat st;
    assert_int_equal(stat("a.away/file", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_size, 3);
    assert_int_equal(stat("b/file", &st), 0);
    assert_int_equal(st.st_size, 5);
}

static void test_the_way_to_a_place(void **state)
{
    (void)state;
    struct error err = {0};
    struct trust_place p;
    assert_int_equal(mkdir("d", 0755), 0);
    assert_int_equal(symlink("d", "own") | symlink("../x", "d/up") | symlink("loop", "loop"), 0);
    assert_int_equal(trust_place_open(&p, "own/./../own//up", &err), 0);
    assert_string_equal(p.name, "x");
    trust_place_close(&p);
    for (const char *const *bad = (const char *const[]){"", "/", "d", "d/", "d/new/", "no/file",
                                                        "loop", "/proc/self/cwd/x", NULL};
         *bad; bad++)
        assert_int_equal(trust_place_open(&p, *bad, &err), -1);
    if (geteuid() != 0)
        return;
    assert_int_equal(lchown("own", OTHER, OTHER), 0);
    assert_int_equal(trust_place_open(&p, "own/x", &err), -1);
    assert_int_equal(err.number, ELOOP);
    assert_non_null(strstr(err.text, "belongs to another user"));
    assert_int_equal(trust_place_open(&p, "own", &err), -1);
}

static int output(const char *path, struct error *err)
{
    struct trust_place p;
    assert_int_equal(trust_place_open(&p, path, err), 0);
    int fd = trust_output(&p, 0600, err);
    trust_place_close(&p);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

static void test_outputs_in_directories_of_others(void **state)
{
    (void)state;
    struct error err = {0};
    make("file", "");
    assert_int_equal(link("file", "second"), 0);
    assert_int_equal(output("file", &err), 0);
    assert_int_equal(mkdir("shared", 0700) | chmod("shared", 01777), 0);
    assert_int_equal(output("shared/new", &err), 0);
    assert_int_equal(output("shared/new", &err), 0);
    assert_int_equal(link("file", "shared/linked"), 0);
    assert_int_equal(output("shared/linked", &err), -1);
    assert_int_equal(mkfifo("shared/fifo", 0600), 0);
    assert_int_equal(output("shared/fifo", &err), -1);
    if (geteuid() != 0)
        return;
    make("shared/theirs", "");
    assert_int_equal(chown("shared/theirs", OTHER, OTHER), 0);
    assert_int_equal(output("shared/theirs", &err), -1);
    assert_int_equal(mkdir("home", 0755) | chown("home", OTHER, OTHER), 0);
    make("home/theirs", "");
    assert_int_equal(chown("home/theirs", OTHER, OTHER), 0);
    assert_int_equal(output("home/theirs", &err), -1);
    assert_int_equal(output("home/new", &err), 0);
}

/* As trust_place_of_own decides. */
static int own(const char *path)
{
    struct error err = {0};
    struct trust_place p;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    int status = trust_place_of_own(&p, path, fd, &err);
    assert_true(status ? p.dir == -1 : p.dir >= 0);
    trust_place_close(&p);
    close(fd);
    return status;
}

static void test_own_files_may_be_changed(void **state)
{
    (void)state;
    make("file", "");
    assert_int_equal(symlink("file", "way"), 0);
    assert_int_equal(own("file"), 0);
    assert_int_equal(own("way"), 0);
    assert_int_equal(link("file", "second"), 0);
    assert_int_equal(own("file"), 0);
    assert_int_equal(mkdir("shared", 0700) | chmod("shared", 01777), 0);
    assert_int_equal(link("file", "shared/linked"), 0);
    assert_int_equal(own("shared/linked"), -1);
    make("shared/file", "");
    assert_int_equal(own("shared/file"), 0);
    if (geteuid() != 0)
        return;
    assert_int_equal(lchown("way", OTHER, OTHER), 0);
    assert_int_equal(own("way"), -1);
    assert_int_equal(chown("shared/file", OTHER, OTHER), 0);
    assert_int_equal(own("shared/file"), -1);
}

static void test_only_what_was_seen_is_removed(void **state)
{
    (void)state;
    struct error err = {0};
    struct trust_identity id;
    make("first", "");
    int fd = open("first", O_RDONLY);
    assert_true(trust_identify(fd, &id));
    assert_int_equal(rename("first", "away"), 0);
    make("first", "another");
    assert_int_equal(trust_remove(AT_FDCWD, "first", &id, &err), 1);
    assert_int_equal(access("first", F_OK), 0);
    assert_int_equal(unlink("first") | symlink("away", "first"), 0);
    assert_int_equal(trust_remove(AT_FDCWD, "first", &id, &err), 1);
    assert_int_equal(trust_remove(AT_FDCWD, "away", &id, &err), 0);
    assert_int_equal(access("away", F_OK), -1);
    close(fd);
}

static void test_processes(void **state)
{
    (void)state;
    struct error err = {0};
    struct trust_process p, q;
    struct trust_identity id;
    assert_int_equal(trust_process(getpid(), &p, &err), 0);
    assert_int_equal(p.ppid, getppid());
    assert_int_equal(p.inner_pid, getpid());
    assert_int_equal(p.uid[1], geteuid());
    assert_true(trust_process_is_of(&p, geteuid()) && !trust_process_is_of(&p, 4242));
    assert_true(trust_process_lives(&p));
    p.start_ticks++;
    assert_false(trust_process_lives(&p)); /* one that got the number later */
    int fd = open("out", O_WRONLY | O_CREAT, 0600), reading = open("out", O_RDONLY);
    assert_true(trust_identify(fd, &id));
    assert_true(trust_process_writes(getpid(), &id));
    close(fd);
    assert_false(trust_process_writes(getpid(), &id));
    close(reading);
    pid_t child = fork();
    if (!child)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_int_equal(trust_process(child, &q, &err), 0);
    assert_int_equal(q.ppid, getpid());
    waitpid(child, NULL, 0);
    assert_false(trust_process_lives(&q));
    assert_int_equal(trust_process(child, &q, &err), -1);
    assert_int_equal(err.number, ESRCH);
}

#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)

/* The secret in a file of this content and mode is `wanted`; NULL: refused. */
static void check_secret(const char *text, size_t bytes, mode_t mode, const char *wanted)
{
    struct error err = {0};
    int fd = open("secret", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    char *secret = trust_secret("secret", "the token file", &err);
    if (wanted)
        assert_string_equal(secret, wanted);
    else
        assert_null(secret);
    if (!wanted) {
        assert_non_null(strstr(err.text, "the token file"));
        assert_null(strstr(err.text, "hidden"));
    }
    trust_secret_free(secret);
}

static void test_secrets(void **state)
{
    static char large[TRUST_SECRET_BYTES + 1];
    static const mode_t open_to_others[] = {0644, 0604, 0602, 0601, 0620};
    struct error err = {0};
    (void)state;
    memset(large, 'x', sizeof large);
    check_secret("hidden\nmore", 11, 0600, "hidden");
    check_secret("hidden", 6, 0440, "hidden");
    check_secret("hidden\r\n", 8, 0400, "hidden");
    check_secret("", 0, 0600, NULL);
    check_secret("\nhidden", 7, 0600, NULL);
    check_secret("hidden\x1b[m", 9, 0600, NULL);
    check_secret("hidden\0there\n", 13, 0600, "hidden");
    check_secret(large, sizeof large, 0600, NULL);
    for (size_t i = 0; i < sizeof open_to_others / sizeof *open_to_others; i++)
        check_secret("hidden", 6, open_to_others[i], NULL);
    assert_null(trust_secret("not-there", "the token file", &err));
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_null(trust_secret("fifo", "the token file", &err));
    if (geteuid() == 0) {
        check_secret("hidden", 6, 0600, "hidden");
        assert_int_equal(chown("secret", OTHER, (gid_t)-1), 0);
        assert_null(trust_secret("secret", "the token file", &err));
        assert_int_equal(unlink("secret"), 0);
    }
    trust_secret_free(NULL);
}

/* Without a descriptor left, nothing is known of a process: least of all that it has ended. */
static void test_a_process_that_cannot_be_looked_at(void **state)
{
    (void)state;
    struct trust_process who;
    struct error err;
    struct rlimit before;
    assert_int_equal(trust_process(getpid(), &who, &err), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t more = 0; more < 2; more++) { /* none, and one for its directory */
        const int lowest = dup(0);
        close(lowest);
        const struct rlimit few = {(rlim_t)lowest + more, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        struct trust_process now;
        const int failed = trust_process(getpid(), &now, &err);
        const bool lives = trust_process_lives(&who), ended = trust_process_has_ended(&who);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(failed, -1);
        assert_int_equal(err.number, EMFILE);
        assert_false(lives);
        assert_false(ended);
    }
    assert_true(trust_process_lives(&who));
    assert_false(trust_process_has_ended(&who));
    who.start_ticks--;
    assert_true(trust_process_has_ended(&who));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_only_regular_files_are_opened),
        EACH(test_names_stay_below_a_directory),
        EACH(test_links_and_sizes_are_bounded),
        EACH(test_owners),
        EACH(test_what_may_shrink_is_copied),
        EACH(test_reading_whole_is_bounded),
        EACH(test_a_place_is_held),
        EACH(test_the_way_to_a_place),
        EACH(test_outputs_in_directories_of_others),
        EACH(test_own_files_may_be_changed),
        EACH(test_only_what_was_seen_is_removed),
        EACH(test_processes),
        EACH(test_a_process_that_cannot_be_looked_at),
        EACH(test_secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
