/* The tables of settings: sound as spaces, and said as the allocators want to hear them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tune/spaces.h"

static void find(struct tune_settings *s, const char *name, const char *path, unsigned threads)
{
    struct error err = {0};
    if (tune_settings_find(s, name, path, threads, NULL, 0, &err))
        fail_msg("%s", err.text);
}

/* A library that knows one setting of mimalloc's. */
static void make_library(char *path, const char *content)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static void test_sound(void **state)
{
    (void)state;
    static const char *const names[] = {"glibc", "jemalloc", "mimalloc", "tcmalloc"};
    for (unsigned i = 0; i < 4; i++) {
        struct tune_settings s;
        find(&s, names[i], "", 8);
        assert_string_equal(s.allocator, names[i]);
        assert_in_range(s.space.dimensions, 4, TUNE_DIMENSIONS);
        for (unsigned d = 0; d < s.space.dimensions; d++) {
            const struct tune_dimension *k = &s.space.dimension[d];
            assert_in_range(k->levels, 2, TUNE_LEVELS);
            unsigned usual = 0;
            for (unsigned v = 0; v < k->levels; v++)
                usual += !s.setting[d].value[v];
            assert_int_equal(usual, 1);
            assert_null(s.setting[d].value[k->usual]);
        }
    }
}

static void level_of(const struct tune_settings *s, const char *name, const char *value,
                     uint8_t *level)
{
    for (unsigned d = 0; d < s->space.dimensions; d++)
        for (unsigned v = 0; v < s->space.dimension[d].levels; v++)
            if (!strcmp(s->setting[d].name, name) && s->setting[d].value[v] &&
                !strcmp(s->setting[d].value[v], value)) {
                level[d] = (uint8_t)v;
                return;
            }
    fail_msg("%s has no value %s", name, value);
}

static void usual(const struct tune_settings *s, uint8_t *level)
{
    for (unsigned d = 0; d < s->space.dimensions; d++)
        level[d] = (uint8_t)s->space.dimension[d].usual;
}

static void collect(void *arg, const char *setting) { buffer_printf(arg, "[%s]", setting); }

static void test_glibc(void **state)
{
    (void)state;
    struct tune_settings s;
    struct buffer b = {0};
    uint8_t level[TUNE_DIMENSIONS];
    const char *fixed = "glibc.malloc.mxfast=0";
    struct error err;
    assert_int_equal(tune_settings_find(&s, "glibc", "", 2, &fixed, 1, &err), 0);
    usual(&s, level);
    tune_settings_say(&s, level, collect, &b);
    assert_string_equal(buffer_text(&b), "");
    level_of(&s, "glibc.malloc.arena_max", "1", level);
    level_of(&s, "glibc.malloc.top_pad", "0", level);
    tune_settings_say(&s, level, collect, &b);
    assert_string_equal(buffer_text(&b), "[glibc.malloc.arena_max=1][glibc.malloc.top_pad=0]");
    buffer_clear(&b);
    tune_settings_line(&s, level, &fixed, 1, &b);
    assert_string_equal(buffer_text(&b),
                        "GLIBC_TUNABLES=glibc.malloc.mxfast=0:glibc.malloc.arena_max=1:"
                        "glibc.malloc.top_pad=0");
    for (unsigned d = 0; d < s.space.dimensions; d++)
        assert_string_not_equal(s.setting[d].name, "glibc.malloc.mxfast");
    find(&s, "glibc", "", 1);
    for (unsigned d = 0; d < s.space.dimensions; d++)
        assert_string_not_equal(s.setting[d].name, "glibc.malloc.arena_max");
    buffer_release(&b);
}

static void test_jemalloc(void **state)
{
    (void)state;
    char path[] = "/tmp/mallow-jemalloc-XXXXXX";
    make_library(path, "background_thread");
    struct tune_settings s;
    struct buffer b = {0}, expected = {0};
    uint8_t level[TUNE_DIMENSIONS];
    find(&s, path, path, 1);
    usual(&s, level);
    tune_settings_line(&s, level, NULL, 0, &b);
    buffer_printf(&expected, "LD_PRELOAD=%s", path);
    assert_string_equal(buffer_text(&b), buffer_text(&expected));
    level_of(&s, "dirty_decay_ms", "0", level);
    level_of(&s, "background_thread", "true", level);
    buffer_clear(&b);
    tune_settings_line(&s, level, NULL, 0, &b);
    buffer_append_text(&expected, " MALLOC_CONF=dirty_decay_ms:0,background_thread:true");
    assert_string_equal(buffer_text(&b), buffer_text(&expected));
    buffer_release(&b);
    buffer_release(&expected);
    unlink(path);
}

static void test_only_what_the_library_knows(void **state)
{
    (void)state;
    char path[] = "/tmp/mallow-mimalloc-XXXXXX";
    make_library(path, "some purge_delay words");
    struct tune_settings s;
    find(&s, path, path, 8);
    assert_int_equal(s.space.dimensions, 1);
    assert_string_equal(s.setting[0].name, "MIMALLOC_PURGE_DELAY");
    unlink(path);
    struct error err;
    assert_int_equal(tune_settings_find(&s, path, path, 8, NULL, 0, &err), -1);
    assert_int_equal(tune_settings_find(&s, "./libother.so", "", 8, NULL, 0, &err), -1);
    assert_non_null(strstr(err.text, "no settings are known"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_glibc),
        cmocka_unit_test(test_jemalloc),
        cmocka_unit_test(test_only_what_the_library_knows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
