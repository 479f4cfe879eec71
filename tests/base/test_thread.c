/* test_thread.c - a thread has the stack that what it runs was bounded for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"

static void *stack_of(void *arg)
{
    pthread_attr_t attributes;
    void *start;
    size_t *const bytes = arg;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return NULL;
    (void)pthread_attr_getstack(&attributes, &start, bytes);
    pthread_attr_destroy(&attributes);
    return NULL;
}

/* As with `ulimit -s unlimited`, or a limit that is smaller, or larger. */
static void test_stack(void **state)
{
    static const size_t defaults[] = {2u << 20, 256u << 10, 64u << 20};
    (void)state;
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        size_t bytes = 0;
        assert_int_equal(pthread_attr_init(&attributes), 0);
        assert_int_equal(pthread_attr_setstacksize(&attributes, defaults[i]), 0);
        assert_int_equal(pthread_setattr_default_np(&attributes), 0);
        assert_int_equal(thread_start(&thread, stack_of, &bytes), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(bytes >= THREAD_STACK_BYTES);
        assert_true(bytes >= defaults[i]);
        pthread_attr_destroy(&attributes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
