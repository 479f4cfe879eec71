/* A broken invariant ends the program and says which; the build decides whether they are checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MALLOW_INVARIANTS
#define MALLOW_INVARIANTS
#endif
#include "base/invariant.h"

/* The status of a child that meets the condition; what it printed in text. */
static int run_child(int condition, char text[300])
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(ends[1], STDERR_FILENO);
        INVARIANT(condition == 4);
        _exit(7);
    }
    close(ends[1]);
    size_t had = 0; /* stderr has no buffer: the line comes in pieces */
    for (ssize_t n; had < 299 && (n = read(ends[0], text + had, 299 - had)) > 0;)
        had += (size_t)n;
    text[had] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_broken(void **state)
{
    (void)state;
    char text[300];
    const int status = run_child(5, text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "test_invariant.c:"));
    assert_non_null(strstr(text, "condition == 4"));
}

static void test_holds(void **state)
{
    (void)state;
    char text[300];
    const int status = run_child(4, text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_broken), cmocka_unit_test(test_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
