/* spaces.c - Lists the settings of glibc, jemalloc, mimalloc and tcmalloc with the values to
 * try, and prints a point as settings or as a line of environment. A setting is left out if the
 * machine, the library or the workload makes it useless. */
#include "tune/spaces.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "glibc/versions.h"
#include "trust/file.h"

#define USUAL NULL

enum need {
    ALWAYS = 0,
    THREADS = 1,
    HUGE_PAGES = 2,
    FASTBINS = 4,
    LARGE_CACHES = 8,
    NO_LARGE_CACHES = 16
};

struct entry {
    unsigned values;
    bool ordered;
    enum need need;
    const char *known_by; /* this text must be in the library; NULL: all versions know it */
    struct tune_setting setting;
};

/* Values stand in their order; USUAL stands where the default value lies. */
#define ORDERED(need, known_by, name, ...)                                                         \
    {                                                                                              \
        sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), true, need, known_by,              \
        {                                                                                          \
            name, { __VA_ARGS__ }                                                                  \
        }                                                                                          \
    }
#define EITHER(need, known_by, name, other)                                                        \
    {                                                                                              \
        2, false, need, known_by,                                                                  \
        {                                                                                          \
            name, { USUAL, other }                                                                 \
        }                                                                                          \
    }

/* glibc: usually 8 arenas a processor, a dynamic mmap threshold of 128 KiB to 32 MiB and twice
 * that for trimming (any of the three settings below makes both fixed), tcache of 7 blocks up to
 * 1032 bytes. */
static const struct entry glibc[] = {
    ORDERED(THREADS, NULL, "glibc.malloc.arena_max", "1", "2", "3", "4", "8", USUAL),
    ORDERED(ALWAYS, NULL, "glibc.malloc.mmap_threshold", "8192", "16384", "32768", "65536",
            "131072", USUAL, "262144", "1048576", "4194304", "33554432"),
    ORDERED(ALWAYS, NULL, "glibc.malloc.trim_threshold", "0", "32768", "131072", USUAL, "524288",
            "2097152", "16777216", "268435456"),
    ORDERED(ALWAYS, NULL, "glibc.malloc.top_pad", "0", "16384", "65536", USUAL, "524288", "2097152",
            "16777216"),
    ORDERED(ALWAYS, NULL, "glibc.malloc.tcache_count", "0", "2", USUAL, "16", "32", "64", "127"),
    ORDERED(NO_LARGE_CACHES, NULL, "glibc.malloc.tcache_max", "128", "512", USUAL),
    ORDERED(LARGE_CACHES, NULL, "glibc.malloc.tcache_max", "128", "512", USUAL, "4096", "16384",
            "65536"),
    ORDERED(FASTBINS, NULL, "glibc.malloc.mxfast", "0", "64", USUAL, "160"),
    EITHER(HUGE_PAGES, NULL, "glibc.malloc.hugetlb", "1"),
};

/* jemalloc: words of MALLOC_CONF. */
static const struct entry jemalloc[] = {
    ORDERED(ALWAYS, NULL, "dirty_decay_ms", "0", "100", "1000", USUAL, "60000", "-1"),
    ORDERED(ALWAYS, NULL, "muzzy_decay_ms", USUAL, "100", "1000", "10000", "-1"),
    ORDERED(THREADS, NULL, "narenas", "1", "2", "4", USUAL, "16"),
    EITHER(ALWAYS, "background_thread", "background_thread", "true"),
    ORDERED(ALWAYS, "lg_tcache_max", "lg_tcache_max", "10", "12", "14", USUAL, "18", "20"),
    EITHER(ALWAYS, NULL, "tcache", "false"),
    EITHER(ALWAYS, "oversize_threshold", "oversize_threshold", "0"),
    EITHER(HUGE_PAGES, "metadata_thp", "thp", "always"),
};

static const struct entry mimalloc[] = {
    EITHER(ALWAYS, "eager_commit", "MIMALLOC_EAGER_COMMIT", "0"),
    ORDERED(ALWAYS, "eager_commit_delay", "MIMALLOC_EAGER_COMMIT_DELAY", "0", USUAL, "4", "16"),
    EITHER(ALWAYS, "page_reset", "MIMALLOC_PAGE_RESET", "1"),
    ORDERED(ALWAYS, "decommit_delay", "MIMALLOC_DECOMMIT_DELAY", "0", "5", USUAL, "100", "1000"),
    ORDERED(ALWAYS, "segment_decommit_delay", "MIMALLOC_SEGMENT_DECOMMIT_DELAY", "0", "50", USUAL,
            "5000"),
    EITHER(ALWAYS, "allow_decommit", "MIMALLOC_ALLOW_DECOMMIT", "0"),
    EITHER(THREADS, "abandoned_page_decommit", "MIMALLOC_ABANDONED_PAGE_DECOMMIT", "1"),
    ORDERED(ALWAYS, "purge_delay", "MIMALLOC_PURGE_DELAY", "0", "1", USUAL, "100", "1000", "-1"),
    EITHER(ALWAYS, "purge_decommits", "MIMALLOC_PURGE_DECOMMITS", "0"),
    ORDERED(ALWAYS, "arena_eager_commit", "MIMALLOC_ARENA_EAGER_COMMIT", "0", "1", USUAL),
};

static const struct entry tcmalloc[] = {
    ORDERED(ALWAYS, "TCMALLOC_RELEASE_RATE", "TCMALLOC_RELEASE_RATE", "0", USUAL, "3", "10", "100"),
    EITHER(ALWAYS, "TCMALLOC_AGGRESSIVE_DECOMMIT", "TCMALLOC_AGGRESSIVE_DECOMMIT", "1"),
    ORDERED(ALWAYS, "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
            "TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "524288", "2097152", "8388608", USUAL,
            "134217728"),
    ORDERED(ALWAYS, "TCMALLOC_TRANSFER_NUM_OBJ", "TCMALLOC_TRANSFER_NUM_OBJ", "4", "16", USUAL,
            "128", "1024"),
    EITHER(ALWAYS, "TCMALLOC_SKIP_SBRK", "TCMALLOC_SKIP_SBRK", "1"),
};

#define FAMILY(name)                                                                               \
    {                                                                                              \
#name, name, sizeof name / sizeof *(name)                                                  \
    }

static const struct family {
    const char *name;
    const struct entry *entries;
    size_t count;
} families[] = {FAMILY(jemalloc), FAMILY(tcmalloc), FAMILY(mimalloc), FAMILY(glibc)};

static const struct family *family_of(const char *name)
{
    const char *file = strrchr(name, '/');
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (file ? strstr(file, families[i].name) != NULL : !strcmp(name, families[i].name))
            return &families[i];
    return NULL;
}

/* True if madvise or a setting can get transparent huge pages here. */
static bool huge_pages(void)
{
    char text[128];
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0 && !strstr(text, "[never]");
}

/* The needs that this machine, its libc and the workload meet: enum need. */
static unsigned machine_has(unsigned threads)
{
    const struct glibc_version *known = glibc_of(glibc_minor(gnu_get_libc_version()));
    unsigned needs = (threads < 2 ? 0 : THREADS) | (huge_pages() ? HUGE_PAGES : 0);
    if (known)
        needs |= (known->fastbins ? FASTBINS : 0) |
                 (known->large_caches ? LARGE_CACHES : NO_LARGE_CACHES);
    return needs;
}

static bool is_fixed(const char *name, const char *const *fixed, size_t count)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < count; i++)
        if (!strncmp(fixed[i], name, n) && fixed[i][n] == '=')
            return true;
    return false;
}

static void take_setting(struct tune_settings *s, const struct entry *e)
{
    unsigned d = s->space.dimensions++;
    s->setting[d] = e->setting;
    struct tune_dimension *dimension = &s->space.dimension[d];
    *dimension = (struct tune_dimension){.levels = e->values, .ordered = e->ordered};
    for (unsigned v = 0; v < e->values; v++)
        if (!e->setting.value[v])
            dimension->usual = v;
}

int tune_settings_find(struct tune_settings *s, const char *name, const char *path,
                       unsigned threads, const char *const *fixed, size_t count, struct error *err)
{
    const struct family *family = family_of(name);
    if (!family)
        return error_set(err, ERROR_USAGE,
                         "no settings are known for %s; glibc, jemalloc, tcmalloc and mimalloc "
                         "have some, and libraries with these in their names",
                         name);
    const void *library = NULL;
    size_t bytes = 0;
    if (*path && !(library = trust_map(path, &bytes, err)))
        return -1;
    *s = (struct tune_settings){.allocator = family->name, .preload = path};
    const unsigned there = machine_has(threads);
    for (size_t i = 0; i < family->count; i++) {
        const struct entry *e = &family->entries[i];
        if ((e->need & ~there) || is_fixed(e->setting.name, fixed, count) ||
            (e->known_by && library && !memmem(library, bytes, e->known_by, strlen(e->known_by))))
            continue;
        take_setting(s, e);
    }
    if (library)
        munmap((void *)library, bytes);
    if (!s->space.dimensions)
        return error_set(err, ERROR_UNSUPPORTED, "%s knows none of the settings that are tried",
                         path);
    return 0;
}

/* --- saying a point --- */

static const char *value_at(const struct tune_settings *s, const uint8_t *level, unsigned d)
{
    return s->setting[d].value[level[d]];
}

/* The settings that share one variable: NAME=value joined. Empty when all are usual. */
static void join_settings(const struct tune_settings *s, const uint8_t *level, const char *between,
                          const char *equals, struct buffer *out)
{
    for (unsigned d = 0; d < s->space.dimensions; d++)
        if (value_at(s, level, d))
            buffer_printf(out, "%s%s%s%s", out->size_bytes ? between : "", s->setting[d].name,
                          equals, value_at(s, level, d));
}

void tune_settings_say(const struct tune_settings *s, const uint8_t *level,
                       void (*each)(void *arg, const char *setting), void *arg)
{
    struct buffer text = {0};
    if (!strcmp(s->allocator, "jemalloc")) {
        join_settings(s, level, ",", ":", &text);
        if (text.size_bytes) {
            struct buffer whole = {0};
            buffer_printf(&whole, "MALLOC_CONF=%s", buffer_text(&text));
            each(arg, buffer_text(&whole));
            buffer_release(&whole);
        }
    } else {
        for (unsigned d = 0; d < s->space.dimensions; d++) {
            if (!value_at(s, level, d))
                continue;
            buffer_clear(&text);
            buffer_printf(&text, "%s=%s", s->setting[d].name, value_at(s, level, d));
            each(arg, buffer_text(&text));
        }
    }
    buffer_release(&text);
}

struct line {
    struct buffer tunables, others;
};

static void add_to_line(void *arg, const char *setting)
{
    struct line *l = arg;
    if (!strncmp(setting, "glibc.", 6))
        buffer_printf(&l->tunables, "%s%s", l->tunables.size_bytes ? ":" : "", setting);
    else
        buffer_printf(&l->others, "%s%s", l->others.size_bytes ? " " : "", setting);
}

void tune_settings_line(const struct tune_settings *s, const uint8_t *level,
                        const char *const *fixed, size_t count, struct buffer *out)
{
    struct line line = {{0}, {0}};
    for (size_t i = 0; i < count; i++)
        add_to_line(&line, fixed[i]);
    tune_settings_say(s, level, add_to_line, &line);
    const char *space = "";
    if (*s->preload) {
        buffer_printf(out, "LD_PRELOAD=%s", s->preload);
        space = " ";
    }
    if (line.tunables.size_bytes) {
        buffer_printf(out, "%sGLIBC_TUNABLES=%s", space, buffer_text(&line.tunables));
        space = " ";
    }
    if (line.others.size_bytes)
        buffer_printf(out, "%s%s", space, buffer_text(&line.others));
    buffer_release(&line.tunables);
    buffer_release(&line.others);
}
