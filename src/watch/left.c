#include "watch/left.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "format/watch.h"
#include "watch/follow.h"
#include "watch/held.h"
#include "watch/segment.h"

#define SHARED "/dev/shm"

static bool is_gone(pid_t pid) { return kill(pid, 0) && errno == ESRCH; }

/* Whether a process that lives has the file mapped: it may have the id of the one that died. */
static bool is_mapped(pid_t pid, const char *path)
{
    char name[64], line[PATH_MAX + 256];
    bool mapped = false;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    if (!maps)
        return true; /* it cannot be known: hands off */
    while (!mapped && fgets(line, sizeof line, maps)) {
        line[strcspn(line, "\n")] = 0;
        const char *file = strchr(line, '/');
        mapped = file && !strcmp(file, path);
    }
    fclose(maps);
    return mapped;
}

/* The file may be about to become somebody's: it is held only once it is made. */
#define MAKING_SECONDS 2

/* Whether nobody uses the segment any more, for sure. */
static bool is_left(const char *path, pid_t pid, const struct stat *st, bool in_session)
{
    struct segment s;
    struct error ignored;
    bool gone, was_held = false, elsewhere = false;
    if (held_is(path))
        return false;
    int status = segment_open(&s, path, &ignored);
    if (!status) {
        was_held = s.head->held;
        elsewhere = held_elsewhere(s.head);
        segment_close(&s);
    }
    gone = is_gone(pid) || !is_mapped(pid, path);
    if (status) /* never finished */
        return gone && (in_session || time(NULL) - st->st_ctime > MAKING_SECONDS);
    return was_held || (gone && !elsewhere);
}

static void describe(struct left_item *item)
{
    struct segment s;
    struct error ignored;
    if (segment_open(&s, item->path, &ignored))
        return;
    item->realtime_ns = s.head->start_realtime_ns;
    snprintf(item->exe, sizeof item->exe, "%.255s", s.head->exe);
    segment_close(&s);
}

static int add(struct left *l, const char *path, pid_t pid, const struct stat *st,
               struct error *err)
{
    struct left_item *more = realloc(l->items, (l->count + 1) * sizeof *more);
    if (!more)
        return error_set(err, ERROR_MEMORY, "out of memory");
    l->items = more;
    struct left_item *item = &more[l->count++];
    *item = (struct left_item){.pid = pid, .bytes = (uint64_t)st->st_blocks * 512};
    snprintf(item->path, sizeof item->path, "%s", path);
    describe(item);
    l->bytes += item->bytes;
    return 0;
}

/* The segments in a directory, with that prefix; those of sessions whose maker is gone. */
static int scan(struct left *l, const char *directory, const char *prefix, struct error *err)
{
    DIR *d = opendir(directory);
    int bad = 0;
    if (!d)
        return error_system(err, "cannot read %s", directory);
    for (const struct dirent *e; !bad && (e = readdir(d));) {
        char path[PATH_MAX];
        struct stat st;
        pid_t pid;
        uint64_t clock;
        if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, e->d_name) >= sizeof path ||
            lstat(path, &st) || (st.st_uid != geteuid() && geteuid() != 0))
            continue;
        if (*prefix && S_ISDIR(st.st_mode) && follow_session_maker(e->d_name, &pid)) {
            struct error ignored;
            if (is_gone(pid) && !held_is(path))
                (void)scan(l, path, "", &ignored); /* it may just have been removed */
        } else if (S_ISREG(st.st_mode) && follow_name(prefix, e->d_name, &pid, &clock) &&
                   is_left(path, pid, &st, !*prefix)) {
            bad = add(l, path, pid, &st, err);
        }
    }
    closedir(d);
    return bad;
}

static int by_time(const void *a, const void *b)
{
    const struct left_item *x = a, *y = b;
    return (x->realtime_ns > y->realtime_ns) - (x->realtime_ns < y->realtime_ns);
}

int left_find(struct left *l, struct error *err)
{
    *l = (struct left){0};
    if (scan(l, SHARED, FOLLOW_FILE_NAME, err)) {
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

size_t left_clear(const struct left *l, struct error *err)
{
    size_t done = 0;
    for (size_t i = 0; i < l->count; i++) {
        char directory[PATH_MAX];
        if (unlink(l->items[i].path) && errno != ENOENT) {
            error_system(err, "cannot remove %s", l->items[i].path);
            continue;
        }
        done++;
        snprintf(directory, sizeof directory, "%s", l->items[i].path);
        *strrchr(directory, '/') = 0;
        if (strcmp(directory, SHARED) != 0)
            rmdir(directory); /* stays while something is in it */
    }
    return done;
}
