/* left.c - Lists and removes segments in /dev/shm whose processes died. A segment counts as left
 * only if its process is gone, no process holds its lock, and it is older than two seconds. */
#include "watch/left.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "format/watch.h"
#include "trust/process.h"
#include "watch/follow.h"
#include "watch/held.h"
#include "watch/maps.h"
#include "watch/segment.h"

#define SHARED "/dev/shm"

/* It may be about to be taken: a file or a directory is held only once it is made. */
#define MAKING_SECONDS 2

/* A directory of segments. */
struct place {
    int dir;
    const char *session; /* its name in /dev/shm; NULL: that itself */
};

static bool is_gone(pid_t pid) { return kill(pid, 0) && errno == ESRCH; }

static bool is_fresh(const struct stat *st) { return time(NULL) - st->st_ctime <= MAKING_SECONDS; }

static struct trust_identity identity_of(const struct stat *st)
{
    return (struct trust_identity){st->st_dev, st->st_ino, st->st_uid};
}

/* True if no process uses the segment any more, for sure. A process that lives may have the id of
 * the one that died: then it has not mapped it. */
static bool is_left(const struct place *at, const char *name, pid_t pid, const struct stat *st,
                    struct left_item *item)
{
    struct segment s;
    struct error ignored;
    const struct trust_identity file = identity_of(st);
    if (held_entry(at->dir, name))
        return false;
    const bool gone = is_gone(pid) || !maps_has(pid, &file);
    int status = segment_open(&s, at->dir, name, &ignored);
    if (status) /* never finished, or damaged */
        return gone && (at->session || !is_fresh(st));
    const bool was_held = s.head.held, elsewhere = held_elsewhere(&s.head);
    item->realtime_ns = s.head.start_realtime_ns;
    snprintf(item->exe, sizeof item->exe, "%.255s", s.head.exe);
    segment_close(&s);
    return was_held || (gone && !elsewhere);
}

static int add(struct left *l, const struct place *at, const char *name, const struct stat *st,
               struct left_item item, struct error *err)
{
    struct left_item *more = realloc(l->items, (l->count + 1) * sizeof *more);
    if (!more)
        return error_memory(err);
    l->items = more;
    item.bytes = item.is_session ? 0 : (uint64_t)st->st_blocks * 512;
    item.file = identity_of(st);
    snprintf(item.session, sizeof item.session, "%s", at->session ? at->session : "");
    snprintf(item.name, sizeof item.name, "%s", name);
    snprintf(item.path, sizeof item.path, SHARED "%s%s/%s", at->session ? "/" : "", item.session,
             name);
    more[l->count++] = item;
    l->segments += !item.is_session;
    l->bytes += item.bytes;
    return 0;
}

static int scan(struct left *l, const struct place *at, struct error *err);

/* How many entries a directory has. */
static size_t entries_of(int dir)
{
    size_t n = 0;
    DIR *d = trust_list(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

/* The files in the directory of a session whose maker is gone; and the directory itself, if nothing
 * else is in it: programs that it was made for may still run. */
static int scan_session(struct left *l, const struct place *at, const char *name, pid_t maker,
                        const struct stat *st, struct error *err)
{
    const struct trust_rule rule = {.owners = geteuid() ? TRUST_CALLER : TRUST_ANYBODY};
    struct error ignored;
    int bad = 0;
    const size_t before = l->count;
    if (!is_gone(maker))
        return 0;
    const struct place in = {trust_directory(at->dir, name, &rule, &ignored), name};
    if (in.dir < 0)
        return 0; /* it may just have been removed */
    if (!held_by_other(in.dir))
        bad = scan(l, &in, err) ||
              (l->count - before == entries_of(in.dir) && (l->count > before || !is_fresh(st)) &&
               add(l, at, name, st, (struct left_item){.pid = maker, .is_session = true}, err));
    close(in.dir);
    return bad ? -1 : 0;
}

/* The segments in a directory; of /dev/shm also those of its sessions. */
static int scan(struct left *l, const struct place *at, struct error *err)
{
    DIR *d = trust_list(at->dir);
    int bad = 0;
    if (!d)
        return at->session ? 0 : error_system(err, "cannot read " SHARED);
    for (const struct dirent *e; !bad && (e = readdir(d));) {
        struct stat st;
        pid_t pid;
        uint64_t clock;
        struct left_item item = {0};
        if (fstatat(at->dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            (st.st_uid != geteuid() && geteuid() != 0))
            continue;
        if (!at->session && S_ISDIR(st.st_mode) && follow_session_maker(e->d_name, &pid))
            bad = scan_session(l, at, e->d_name, pid, &st, err);
        else if (S_ISREG(st.st_mode) &&
                 follow_name(at->session ? "" : FOLLOW_FILE_NAME, e->d_name, &pid, &clock) &&
                 is_left(at, e->d_name, pid, &st, &item)) {
            item.pid = pid;
            bad = add(l, at, e->d_name, &st, item, err);
        }
    }
    closedir(d);
    return bad;
}

static int by_time(const void *a, const void *b)
{
    const struct left_item *x = a, *y = b;
    if (x->is_session != y->is_session) /* a directory after its content */
        return x->is_session ? 1 : -1;
    return (x->realtime_ns > y->realtime_ns) - (x->realtime_ns < y->realtime_ns);
}

int left_find(struct left *l, struct error *err)
{
    *l = (struct left){0};
    const struct place shared = {follow_shared(err), NULL};
    if (shared.dir < 0)
        return -1;
    int bad = scan(l, &shared, err);
    close(shared.dir);
    if (bad) {
        left_release(l);
        return -1;
    }
    if (l->count)
        qsort(l->items, l->count, sizeof *l->items, by_time);
    return 0;
}

void left_release(struct left *l)
{
    free(l->items);
    *l = (struct left){0};
}

/* 0 when it is gone by now. */
static int clear(const struct left_item *item, int shared, struct error *err)
{
    const struct trust_rule rule = {.owners = TRUST_CALLER | TRUST_USER, .user = item->file.owner};
    if (item->is_session)
        return trust_remove_directory(shared, item->name, &item->file, err) < 0 ? -1 : 0;
    if (!*item->session)
        return trust_remove(shared, item->name, &item->file, err) < 0 ? -1 : 0;
    int session = trust_directory(shared, item->session, &rule, err);
    if (session < 0)
        return err->number == ENOENT ? 0 : -1;
    int status = trust_remove(session, item->name, &item->file, err);
    close(session);
    return status < 0 ? -1 : 0;
}

size_t left_clear(const struct left *l, struct error *err)
{
    size_t done = 0;
    int shared = follow_shared(err);
    for (size_t i = 0; shared >= 0 && i < l->count; i++)
        done += !clear(&l->items[i], shared, err);
    if (shared >= 0)
        close(shared);
    return done;
}
