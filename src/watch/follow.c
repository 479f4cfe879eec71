/* follow.c - Finds the processes to watch: in a session's directory, by their memory maps, among
 * children and in containers. A segment is believed only after its owner, process and start time
 * were checked. A segment that its user's account cannot pay for is remembered and not opened
 * again. */
#include "watch/follow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/proc.h"
#include "launch/launch.h"
#include "watch/held.h"
#include "watch/maps.h"

#define EXEC_GRACE_NS 2000000000ull /* from an exec to the first sign of the next image */

/* ---- the list ---- */

static struct watch_process *find(const struct follow *f, pid_t pid, uint64_t start_ns)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->items[i]->pid == pid && f->items[i]->start_ns == start_ns)
            return f->items[i];
    return NULL;
}

/* ---- what other users' processes may cost ---- */

static struct follow_refused *find_refused(const struct follow *f,
                                           const struct trust_identity *file)
{
    for (uint32_t i = 0; i < f->refused_count; i++)
        if (trust_same(&f->refused[i].file, file))
            return &f->refused[i];
    return NULL;
}

/* True if a look at this file would be in vain, as the one before. */
static bool has_no_room(const struct follow *f, const struct trust_identity *file)
{
    const struct follow_refused *r = find_refused(f, file);
    return r && !account_has(r->account, r->needed);
}

/* Those that ended are forgotten: another file may get that inode. */
static void forget_refused(struct follow *f)
{
    for (uint32_t i = f->refused_count; i-- > 0;)
        if (trust_process_has_ended(&f->refused[i].who)) {
            f->refused[i].account->bytes -= sizeof *f->refused;
            f->refused[i] = f->refused[--f->refused_count];
        }
}

/* Remembers it while it runs, so that it is not looked at again and again. */
static void refuse(struct follow *f, const struct watch_process *p)
{
    struct follow_refused *r = find_refused(f, &p->segment.identity);
    const bool again = r != NULL;
    if (!r && p->who.pid && p->life == WATCH_RUNNING && account_has(p->charge.account, sizeof *r) &&
        ARRAY_ROOM(f->refused, f->refused_count + 1, f->refused_room)) {
        r = &f->refused[f->refused_count++];
        *r = (struct follow_refused){p->who, p->segment.identity, p->charge.account, 0};
        r->account->bytes += sizeof *r;
    }
    if (r)
        r->needed = p->charge.needed;
    f->listener.refused(f->listener.arg, p, again);
}

/* Takes for the process what every one costs. Of those that have no room for that, one is named. */
static int open_account(struct follow *f, struct watch_process *p, struct error *err)
{
    uid_t user;
    if (!f->listener.refused || !process_is_bounded(p, &user))
        return 0;
    struct account *a = accounts_of(&f->accounts, user);
    if (!a)
        return error_memory(err);
    p->charge.account = a;
    if (charge_take(&p->charge, ACCOUNT_PROCESS_BYTES))
        return 0;
    if (!a->said)
        f->listener.refused(f->listener.arg, p, false);
    a->said = true;
    return error_set(err, ERROR_UNSUPPORTED, "too much memory goes to the processes of user %u",
                     (unsigned)user);
}

static int add(struct follow *f, struct watch_process *p, struct error *err)
{
    if (open_account(f, p, err)) {
        process_close(p);
        return -1;
    }
    if (!ARRAY_ROOM(f->items, f->count + 1, f->room)) {
        process_close(p);
        return error_memory(err);
    }
    f->items[f->count++] = p;
    p->outside = f->outside;
    if (f->listener.joined)
        f->listener.joined(f->listener.arg, p);
    return 0;
}

bool follow_session_maker(const char *name, pid_t *maker)
{
    size_t n = sizeof MLW_WATCH_SESSION_PREFIX - 1;
    *maker = strncmp(name, MLW_WATCH_SESSION_PREFIX, n) ? 0 : (pid_t)strtol(name + n, NULL, 10);
    return *maker > 0;
}

int follow_shared(struct error *err)
{
    const struct trust_rule rule = {
        .what = "the directory", .owners = TRUST_ROOT | TRUST_CALLER, .follow = true};
    return trust_directory(AT_FDCWD, "/dev/shm", &rule, err);
}

static void end(struct follow *f, uint32_t index)
{
    struct watch_process *p = f->items[index];
    if (!p->charge.refused && f->listener.ended)
        f->listener.ended(f->listener.arg, p);
    if (p->charge.refused) /* or by its last report */
        refuse(f, p);
    /* A process that goes on needs the name, unless another writer has it. */
    p->remove = p->life == WATCH_RUNNING ? p->outside
                                         : !p->keeper || (kill(p->keeper, 0) && errno == ESRCH);
    process_close(p);
    f->items[index] = f->items[--f->count];
}

uint32_t follow_running(const struct follow *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->count; i++)
        n += f->items[i]->life == WATCH_RUNNING;
    return n;
}

/* ---- a directory of segments ---- */

bool follow_name(const char *prefix, const char *name, pid_t *pid, uint64_t *clock)
{
    size_t n = strlen(prefix);
    char *end_of;
    if (strncmp(name, prefix, n) || name[n] < '0' || name[n] > '9')
        return false;
    unsigned long p = strtoul(name + n, &end_of, 10);
    if (*end_of != '-' || p == 0 || p > INT_MAX || end_of[1] < '0' || end_of[1] > '9')
        return false;
    *clock = strtoull(end_of + 1, &end_of, 10);
    *pid = (pid_t)p;
    return *end_of == 0;
}

/* As far as it is known. */
static bool same_namespace(const struct watch_process *a, const struct watch_process *b)
{
    uint64_t x = a->segment.head.pid_namespace, y = b->segment.head.pid_namespace;
    return x == y || !x || !y;
}

/* True if `p` is another image of a process that is watched, or a child of it: by what /proc says;
 * or, when its parent ended before, or is not seen from here, by its own claim, if it belongs to
 * the user who could have put that into the parent's memory as well. */
static bool is_relative(const struct watch_process *of, const struct watch_process *p)
{
    if (of->who.pid && p->who.pid &&
        (p->who.ppid == of->who.pid ||
         (p->who.pid == of->who.pid && p->who.start_ticks == of->who.start_ticks)))
        return true;
    const uid_t owner = p->segment.identity.owner;
    return same_namespace(of, p) &&
           (owner == 0 || owner == geteuid() || owner == of->segment.identity.owner) &&
           (of->segment.head.pid == p->segment.head.ppid || of->pid == p->pid);
}

static bool of_family(const struct follow *f, const struct watch_process *p)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (is_relative(f->items[i], p))
            return true;
    return false;
}

/* Whose entry of a directory this may read. */
static bool own_entry(int dir, const char *name, struct stat *st)
{
    return !fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) &&
           (st->st_uid == geteuid() || geteuid() == 0);
}

/* True if its process died before it had finished it. It may be one in another pid namespace, which
 * holds the file a moment after it is there. */
static bool is_left_unfinished(int dir, const char *name, pid_t pid, const struct stat *st)
{
    return kill(pid, 0) && errno == ESRCH && !held_entry(dir, name) &&
           time(NULL) - st->st_ctime > 2;
}

/* One that runs, or began and ended since the last look: as a child, else it is left from before.
 */
static bool is_wanted(const struct follow *f, const struct watch_process *p)
{
    if (f->own)
        return true;
    if (p->found_dead)
        return p->start_ns >= f->since_ns && of_family(f, p);
    return f->everyone || of_family(f, p);
}

static bool is_chosen(const struct follow *f, const struct watch_process *p)
{
    return !f->select || select_process(f->select, p);
}

static void look_at_file(struct follow *f, const char *name, struct inner *inner)
{
    pid_t pid;
    uint64_t clock;
    struct stat st;
    struct watch_process *p;
    struct error err = {0};
    if (!follow_name(f->prefix, name, &pid, &clock) || find(f, pid, clock) ||
        !own_entry(f->dir, name, &st) || !S_ISREG(st.st_mode))
        return;
    const struct trust_identity id = {st.st_dev, st.st_ino, st.st_uid};
    if (has_no_room(f, &id))
        return;
    int status = process_open(&p, f->dir, name, inner, &err);
    if (status) { /* not finished yet; or never, when it died over it */
        if (f->own && (status < 0 || is_left_unfinished(f->dir, name, pid, &st)))
            (void)trust_remove(f->dir, name, &id, &err);
        return;
    }
    p->keeper = f->keeper;
    /* Its name says the same as it does: else each look would find it again. */
    if (process_is_invented(p) || p->segment.head.pid != (uint32_t)pid || p->start_ns != clock ||
        !is_wanted(f, p) || !is_chosen(f, p)) {
        p->remove = f->outside; /* only its writer, which has it open, needs it */
        process_close(p);
        return;
    }
    add(f, p, &err);
}

static void scan(struct follow *f)
{
    DIR *d = f->dir >= 0 ? trust_list(f->dir) : NULL;
    struct inner inner = {0};
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        look_at_file(f, e->d_name, &inner);
    inner_release(&inner);
    closedir(d);
}

void follow_begin(struct follow *f, struct follow_listener listener)
{
    *f = (struct follow){
        .listener = listener, .since_ns = clock_monotonic_ns(), .dir = -1, .prefix = ""};
}

void follow_session(struct follow *f, int directory)
{
    f->dir = fcntl(directory, F_DUPFD_CLOEXEC, 3);
    f->own = true;
}

int follow_everyone(struct follow *f, struct error *err)
{
    f->everyone = true;
    f->prefix = FOLLOW_FILE_NAME;
    f->dir = follow_shared(err);
    return f->dir < 0 ? -1 : 0;
}

/* ---- a process that runs already ---- */

static void command_line(pid_t pid, char *out, size_t room)
{
    ssize_t n = proc_read(pid, "cmdline", out, room);
    n = n > 0 ? n : 0;
    while (n && !out[n - 1])
        n--;
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)out[i] < 0x20)
            out[i] = ' ';
}

/* Its children's memory will be in the same directory. */
static void look_beside(struct follow *f, int dir, const char *name, pid_t keeper)
{
    if (f->dir >= 0)
        return;
    f->dir = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    f->keeper = keeper;
    f->prefix =
        strncmp(name, FOLLOW_FILE_NAME, sizeof FOLLOW_FILE_NAME - 1) ? "" : FOLLOW_FILE_NAME;
}

/* Segments that a dead process left behind. Returns how many. *held: one of that number is not
 * dead, but somewhere else. */
static unsigned adopt_left(struct follow *f, pid_t pid, int dir, const char *prefix, pid_t keeper,
                           struct inner *inner, bool *held, struct error *err)
{
    unsigned found = 0;
    DIR *d = trust_list(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        const struct trust_rule own = {.owners = geteuid() ? TRUST_CALLER : TRUST_ANYBODY};
        pid_t owner, maker;
        uint64_t clock;
        struct stat st;
        struct watch_process *p;
        if (!own_entry(dir, e->d_name, &st))
            continue;
        if (*prefix && S_ISDIR(st.st_mode) && follow_session_maker(e->d_name, &maker)) {
            int session = trust_directory(dir, e->d_name, &own, err);
            if (session >= 0) {
                found += adopt_left(f, pid, session, "", maker, inner, held, err);
                close(session);
            }
            continue;
        }
        if (!S_ISREG(st.st_mode) || !follow_name(prefix, e->d_name, &owner, &clock) ||
            owner != pid || process_open(&p, dir, e->d_name, inner, err))
            continue;
        *held |= (p->elsewhere || p->unseen) && !p->found_dead && !process_is_invented(p);
        if (!p->found_dead || p->segment.head.pid != (uint32_t)pid) {
            process_close(p);
            continue;
        }
        p->asked = true;
        p->keeper = keeper;
        look_beside(f, dir, e->d_name, keeper);
        found += !add(f, p, err);
    }
    if (d)
        closedir(d);
    return found;
}

static int not_there(struct follow *f, pid_t pid, struct error *err)
{
    struct error ignored = {0};
    struct inner inner = {0};
    bool held = false;
    int shared = follow_shared(err);
    if (shared < 0)
        return -1;
    const unsigned found = adopt_left(f, pid, shared, FOLLOW_FILE_NAME, 0, &inner, &held, &ignored);
    inner_release(&inner);
    close(shared);
    if (found)
        return 0;
    if (held)
        return error_set(err, ERROR_USAGE,
                         "there is no process %d here, but a watched one is called so in another "
                         "pid namespace: give its process id in this namespace",
                         (int)pid);
    if (proc_is_zombie(pid))
        return error_set(err, ERROR_USAGE,
                         "process %d has ended (it is a zombie) and left no memory behind; 'mallow "
                         "watch -- PROGRAM' watches its next run",
                         (int)pid);
    return error_set(err, ERROR_USAGE,
                     "there is no process %d, and none left its memory behind under that number",
                     (int)pid);
}

static int wait_for(struct follow *f, pid_t pid, struct error *err)
{
    pid_t *more = realloc(f->waited, (f->waited_count + 1) * sizeof *more);
    if (!more)
        return error_memory(err);
    f->waited = more;
    f->waited[f->waited_count++] = pid;
    return 0;
}

/* The segment that the maps name. 1: it is its parent's, from before the fork, or not finished. */
static int open_mapped(struct follow *f, const struct trust_process *who, const struct maps *m,
                       struct watch_process **p, struct error *err)
{
    struct segment s;
    struct maps_place place;
    *p = NULL;
    int status = maps_open(who, m, &s, &place, err);
    if (status)
        return status;
    if ((pid_t)s.head.pid != who->inner_pid) {
        segment_close(&s);
        status = 1;
    } else {
        status = process_adopt(p, &s, place.ours ? place.dir : -1, place.name, who, err);
    }
    if (!status && *place.directory && place.ours)
        (void)follow_session_maker(place.directory, &(*p)->keeper);
    if (!status && place.dir >= 0)
        look_beside(f, place.dir, place.name, (*p)->keeper);
    if (place.dir >= 0)
        close(place.dir);
    return status;
}

/* 1: it runs, and nothing of ours is in it. */
static int follow_running_pid(struct follow *f, pid_t pid, struct error *err)
{
    struct maps m;
    struct watch_process *p;
    struct trust_process who;
    if (trust_process(pid, &who, err) || maps_read(pid, &m, err))
        return -1;
    int status = *m.path ? open_mapped(f, &who, &m, &p, err) : 1;
    if (status < 0)
        return -1;
    if (status && !m.library)
        return 1;
    if (status) /* it has not sampled anything yet */
        return wait_for(f, pid, err);
    if (find(f, pid, p->start_ns)) {
        process_close(p);
        return 0;
    }
    p->asked = true;
    return add(f, p, err);
}

/* A process that ends has given its memory back before it has ended. Waits for that, a little: one
 * of the kernel's never has memory. */
static bool has_ended(pid_t pid)
{
    enum { LOOKS = 100 };
    const struct timespec brief = {.tv_nsec = 10000000};
    char size[128];
    for (unsigned i = 0; i < LOOKS; i++) {
        if (proc_has_ended(pid))
            return true;
        if (proc_read(pid, "statm", size, sizeof size) <= 0 || strtoull(size, NULL, 10))
            return false;
        nanosleep(&brief, NULL);
    }
    return false;
}

int follow_pid(struct follow *f, pid_t pid, struct error *err)
{
    char command[256];
    const int status = proc_has_ended(pid) ? -1 : follow_running_pid(f, pid, err);
    if (!status)
        return 0;
    if (has_ended(pid)) /* maybe during the look */
        return not_there(f, pid, err);
    if (status < 0)
        return -1;
    command_line(pid, command, sizeof command);
    return error_set(
        err, ERROR_UNSUPPORTED,
        "process %d (%.60s) runs without libmallow-watch.so, which has to be there from its "
        "start; as it runs, 'mallow record -p %d' records each of its calls, and 'mallow probe "
        "calls -p %d' counts them by call stack; or start it again as 'mallow watch -- "
        "%.120s', "
        "or with the library in LD_PRELOAD",
        (int)pid, command, (int)pid, (int)pid, command);
}

/* ---- out of sight ---- */

static bool is_known(const struct follow *f, const struct trust_identity *file)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (trust_same(&f->items[i]->segment.identity, file))
            return true;
    return has_no_room(f, file);
}

static void look_at(struct follow *f, pid_t pid)
{
    struct maps m;
    struct trust_process who;
    struct watch_process *p;
    struct error err = {0};
    if (trust_process(pid, &who, &err) || maps_read(pid, &m, &err) || !*m.path ||
        is_known(f, &m.file) || open_mapped(f, &who, &m, &p, &err))
        return;
    if (p->dir >= 0 || find(f, p->pid, p->start_ns) || !is_chosen(f, p))
        /* its file is seen from here: by others */
        process_close(p);
    else
        (void)add(f, p, &err);
}

enum { DEEPEST = 16 };

static void look_below(struct follow *f, pid_t pid, unsigned depth);

/* At the processes that one thread made. */
static void look_at_children(struct follow *f, pid_t pid, const char *task, unsigned depth)
{
    char name[64], *word = NULL;
    size_t room = 0;
    snprintf(name, sizeof name, "task/%.20s/children", task);
    FILE *in = proc_stream(pid, name);
    while (in && getdelim(&word, &room, ' ', in) > 0) {
        const pid_t child = (pid_t)strtol(word, NULL, 10);
        if (child <= 0)
            break;
        look_at(f, child);
        look_below(f, child, depth + 1);
    }
    free(word);
    if (in)
        fclose(in);
}

static void look_below(struct follow *f, pid_t pid, unsigned depth)
{
    const int fd = depth < DEEPEST ? proc_open(pid, "task") : -1;
    DIR *tasks = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *e; tasks && (e = readdir(tasks));)
        if (e->d_name[0] != '.')
            look_at_children(f, pid, e->d_name, depth);
    if (tasks)
        closedir(tasks);
    else if (fd >= 0)
        close(fd);
}

void follow_below(struct follow *f, pid_t pid)
{
    look_at(f, pid);
    look_below(f, pid, 0);
}

void follow_containers(struct follow *f)
{
    char ours[64], its[64];
    DIR *d =
        geteuid() == 0 && proc_link(0, "ns/mnt", ours, sizeof ours) > 0 ? opendir("/proc") : NULL;
    for (const struct dirent *e; d && (e = readdir(d));) {
        const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && proc_link(pid, "ns/mnt", its, sizeof its) > 0 && strcmp(ours, its) != 0)
            look_at(f, pid);
    }
    if (d)
        closedir(d);
}

/* ---- rounds ---- */

static void look_at_waited(struct follow *f)
{
    size_t n = f->waited_count;
    pid_t *pids = f->waited;
    f->waited = NULL;
    f->waited_count = 0;
    for (size_t i = 0; i < n; i++) {
        struct error err = {0};
        (void)follow_pid(f, pids[i], &err); /* it is put on the list again, or is gone */
    }
    free(pids);
}

/* An image is over when its process ended, or runs a newer one. */
static void check(struct follow *f, struct watch_process *p, uint64_t now)
{
    const pid_t number = p->who.pid ? p->who.pid : p->pid;
    process_check(p);
    if (p->life != WATCH_RUNNING)
        return;
    for (uint32_t i = 0; i < f->count; i++)
        if (f->items[i]->pid == p->pid && same_namespace(f->items[i], p) &&
            f->items[i]->start_ns > p->start_ns)
            p->life = WATCH_REPLACED;
    if (p->segment.head.state != MLW_WATCH_EXEC)
        p->exec_seen_ns = 0;
    else if (!p->exec_seen_ns) {
        p->exec_seen_ns = now;
        p->exec_cpu_ns = launch_cpu_ns(number);
    } else if (now - p->exec_seen_ns > LAUNCH_LATEST_NS ||
               (now - p->exec_seen_ns > EXEC_GRACE_NS &&
                !launch_is_starting(number, p->exec_cpu_ns)))
        p->life = WATCH_REPLACED;
}

/* Returns how many are over that were not when this was called. */
static uint32_t check_all(struct follow *f, uint64_t now)
{
    uint32_t over = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const bool ran = f->items[i]->life == WATCH_RUNNING;
        check(f, f->items[i], now);
        over += ran && f->items[i]->life != WATCH_RUNNING;
    }
    return over;
}

void follow_round(struct follow *f, bool find_new)
{
    uint64_t now = clock_monotonic_ns();
    if (find_new) {
        forget_refused(f);
        scan(f);
        if (f->waited_count)
            look_at_waited(f);
    }
    if (check_all(f, now)) {
        uint32_t known;
        do { /* children of children that are found */
            known = f->count;
            scan(f);
        } while (f->count > known);
        (void)check_all(f, now);
    }
    for (uint32_t i = f->count; i-- > 0;)
        if (f->items[i]->charge.refused || f->items[i]->life == WATCH_REPLACED ||
            (f->items[i]->life == WATCH_ENDED && !f->items[i]->hold))
            end(f, i);
}

void follow_release(struct follow *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        process_close(f->items[i]);
    }
    accounts_release(&f->accounts);
    free(f->items);
    free(f->refused);
    free(f->waited);
    if (f->dir >= 0)
        close(f->dir);
    f->dir = -1;
    f->items = NULL;
    f->waited = NULL;
    f->refused = NULL;
    f->refused_count = f->refused_room = 0;
    f->count = f->room = 0;
    f->waited_count = 0;
}
