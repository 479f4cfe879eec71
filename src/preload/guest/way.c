/* way.c - the way to a file that the environment names (docs/security.md).
 *
 * The rule is that of src/trust/place.h: the directory is held by its descriptor, and no symbolic
 * link of another user leads there. Each component is opened by itself, looked at, and only then
 * the next one is opened in it: what others exchange meanwhile leads nowhere else. openat2 would
 * take one call, but filters that let openat through kill for it.
 *
 * Little stack is used, since a signal handler on a small one may be inside: links, which are rare,
 * are read into memory that is mapped for them. */
#include <limits.h>
#include <string.h>

#include "preload/guest.h"
#include "preload/sys.h"

#define MOST_LINKS 40 /* as the kernel's */
#define TEXT_BYTES ((size_t)PATH_MAX)

struct way {
    long dir;
    uid_t system; /* root, or who owns the root directory: in a user namespace without root */
    unsigned links;
    const char *rest; /* [bytes] */
    size_t bytes;
    char *texts; /* NULL, or of links: the rest, and what the last one said; TEXT_BYTES each */
};

static long step_into(struct way *w, long dir)
{
    if (w->dir >= 0)
        sys_close((int)w->dir);
    w->dir = dir;
    return dir < 0 ? dir : 0;
}

static long begin_way(struct way *w)
{
    struct stat st;
    long status = step_into(w, sys_openat(AT_FDCWD, "/", GUEST_WAY_FLAGS, 0));
    if (!status && !(status = sys_fstat((int)w->dir, &st)))
        w->system = st.st_uid;
    return status;
}

/* Links of /proc lead elsewhere than their text says, but for two. They are known by their size,
 * which is not the text's. */
static bool leads_elsewhere(const struct stat *st, const char *text, size_t n)
{
    return (size_t)st->st_size != n && (!st->st_size || st->st_size == 64) &&
           strspn(text, "0123456789/task") != n;
}

/* Puts what the link open at `link` says in front of the rest. */
static long follow_way_link(struct way *w, int link, const struct stat *st)
{
    if (++w->links > MOST_LINKS ||
        (st->st_uid && st->st_uid != w->system && st->st_uid != (uid_t)sys_geteuid()))
        return -ELOOP;
    if (!w->texts) {
        long p = sys_mmap(0, 2 * TEXT_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (sys_is_error(p))
            return p;
        w->texts = (char *)p;
    }
    char *text = w->texts + TEXT_BYTES;
    long n = sys_readlinkat(link, "", text, TEXT_BYTES - 1);
    if (n <= 0)
        return n ? n : -ENOENT;
    text[n] = 0;
    if (leads_elsewhere(st, text, (size_t)n))
        return -ELOOP;
    if ((size_t)n + 1 + w->bytes > TEXT_BYTES)
        return -ENAMETOOLONG;
    memmove(w->texts + n + 1, w->rest, w->bytes);
    memcpy(w->texts, text, (size_t)n);
    w->texts[n] = '/';
    w->rest = w->texts;
    w->bytes += (size_t)n + 1;
    return *text == '/' ? begin_way(w) : 0;
}

/* The next component. */
static long step_way(struct way *w)
{
    char name[NAME_MAX + 1];
    size_t length = 0;
    struct stat st;
    for (; w->bytes && *w->rest == '/'; w->bytes--)
        w->rest++;
    while (length < w->bytes && w->rest[length] != '/')
        length++;
    if (length > NAME_MAX)
        return -ENAMETOOLONG;
    if (!length)
        return 0;
    memcpy(name, w->rest, length);
    name[length] = 0;
    w->rest += length;
    w->bytes -= length;
    long entry = sys_openat((int)w->dir, name, GUEST_WAY_FLAGS, 0);
    if (entry < 0)
        return entry;
    long status = sys_fstat((int)entry, &st);
    if (!status && S_ISDIR(st.st_mode))
        return step_into(w, entry);
    if (!status)
        status = S_ISLNK(st.st_mode) ? follow_way_link(w, (int)entry, &st) : -ENOTDIR;
    sys_close((int)entry);
    return status;
}

long guest_way(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    struct way w = {.dir = -1, .rest = path};
    if (*path != '/')
        return -ENOENT;
    *name = slash + 1;
    w.bytes = (size_t)(slash - path);
    long status = begin_way(&w);
    while (!status && w.bytes)
        status = step_way(&w);
    if (w.texts)
        sys_munmap(w.texts, 2 * TEXT_BYTES);
    if (!status)
        return w.dir;
    step_into(&w, -1);
    return status;
}
