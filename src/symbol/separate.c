/* separate.c - Finds and opens the separate debug file of a stripped file, by build-id or by
 * .gnu_debuglink. A candidate counts only with the same build-id, and only if the caller, root
 * or the owner of the stripped file owns it. */
#include "symbol/separate.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "symbol/functions.h"
#include "symbol/program.h"
#include "trust/file.h"

enum { ID_BYTES_MAX = 64 };

struct search {
    struct trust_rule rule;
    const uint8_t *id;
    size_t id_bytes;
    struct trust_identity self; /* a link can name the stripped file itself */
};

static int try_file(const struct search *s, const char *path)
{
    struct error ignored;
    struct trust_identity is;
    uint8_t id[ID_BYTES_MAX];
    char opened[64];
    int fd = trust_open(AT_FDCWD, path, TRUST_READ, &s->rule, &ignored);
    if (fd >= 0 && (!trust_identify(fd, &is) || trust_same(&is, &s->self))) {
        close(fd);
        return -1;
    }
    if (fd >= 0)
        fd = program_to_map(fd, &ignored);
    if (fd < 0)
        return -1;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    size_t n = functions_build_id(opened, id, sizeof id);
    if (n == s->id_bytes && !memcmp(id, s->id, n))
        return fd;
    close(fd);
    return -1;
}

/* DIR/.build-id/xx/yyyy.debug. */
static int search_by_id(const struct search *s, const char *dir)
{
    char text[2 * ID_BYTES_MAX + 1], path[PATH_MAX];
    for (size_t i = 0; i < s->id_bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", s->id[i]);
    int n = snprintf(path, sizeof path, "%s/.build-id/%.2s/%s.debug", dir, text, text + 2);
    return n > 0 && (size_t)n < sizeof path ? try_file(s, path) : -1;
}

/* PARENT/directory/of/the/file + between + name. */
static int beside(const struct search *s, const char *parent, const char *path, const char *between,
                  const char *name)
{
    char at[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 0;
    int n = snprintf(at, sizeof at, "%s%.*s%s%s", parent, length, path, between, name);
    return slash && n > 0 && (size_t)n < sizeof at ? try_file(s, at) : -1;
}

int separate_open(int fd, const char *path, const uint8_t *id, size_t id_bytes,
                  const char *const *dirs, size_t count)
{
    static const char system_dir[] = "/usr/lib/debug";
    struct search s = {.rule = {.what = "the debug file",
                                .owners = TRUST_CALLER | TRUST_ROOT | TRUST_USER,
                                .follow = true},
                       .id = id,
                       .id_bytes = id_bytes};
    struct trust_identity original;
    struct error ignored;
    char name[NAME_MAX + 1], opened[64];
    int found = -1;
    if (id_bytes < 2 || id_bytes > ID_BYTES_MAX)
        return -1;
    s.rule.user = geteuid();
    /* For a copy in memory the owner is ours: ask the file at its place. */
    const struct trust_rule anyone = {
        .what = "the stripped file", .owners = TRUST_ANYBODY, .follow = true};
    int place = trust_open(AT_FDCWD, path, TRUST_READ, &anyone, &ignored);
    if (place >= 0 && trust_identify(place, &original)) {
        s.rule.user = original.owner;
        s.self = original;
    }
    if (place >= 0)
        close(place);
    for (size_t i = 0; found < 0 && i <= count; i++)
        found = search_by_id(&s, i < count ? dirs[i] : system_dir);
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
    if (found >= 0 || !functions_debug_link(opened, name, sizeof name))
        return found;
    found = beside(&s, "", path, "/", name);
    if (found < 0)
        found = beside(&s, "", path, "/.debug/", name);
    for (size_t i = 0; found < 0 && i <= count; i++)
        found = beside(&s, i < count ? dirs[i] : system_dir, path, "/", name);
    return found;
}
