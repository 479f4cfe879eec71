/* unseen.c - Looks into the mapped files of a process for allocators that the recorder cannot
 * see, and finds why a program did not load the recorder. Each file is inspected once in a
 * recording. Looks get rarer as the process runs longer. */
#include "record/unseen.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "base/path.h"
#include "base/proc.h"
#include "inspect/inspect.h"
#include "record/programs.h"
#include "symbol/program.h"

enum { FIRST_LOOK_NS = 20000000, FILES_AT_ONCE = 8, FILES_MOST = 4096 };

struct unseen_file {
    uint64_t device, inode;
    enum inspect_inside inside;
    char allocator[64];
};

/* ---- notes ---- */

void unseen_add(struct unseen_notes *n, const char *note)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (!strcmp(n->note[i], note))
            return;
    if (n->count < UNSEEN_NOTES && (n->note[n->count] = strdup(note)))
        n->count++;
}

void unseen_release(struct unseen_notes *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        free(n->note[i]);
    n->count = 0;
}

/* ---- modules ---- */

void unseen_files_release(struct unseen_files *f)
{
    free(f->at);
    *f = (struct unseen_files){0};
}

static struct unseen_file *find_unseen_file(const struct unseen_files *f, uint64_t device,
                                            uint64_t inode)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->at[i].inode == inode && f->at[i].device == device)
            return &f->at[i];
    return NULL;
}

/* The file of a mapping: what the process sees by that path, if it is still that. */
static struct unseen_file *look_into_file(struct unseen_files *f, const char *path,
                                          const struct proc_mapping *m, bool is_program)
{
    static struct inspect found;
    struct error ignored;
    struct stat st;
    if (!ARRAY_ROOM(f->at, f->count + 1, f->room))
        return NULL;
    struct unseen_file *file = &f->at[f->count++];
    *file = (struct unseen_file){.device = m->device, .inode = m->inode};
    const int fd = program_open(path, &ignored);
    if (fd < 0)
        return file;
    if (!fstat(fd, &st) && st.st_ino == m->inode) {
        programs_hold(f->programs, fd, &st, m->path);
        inspect_open(fd, &found);
        file->inside = inspect_inside(&found, is_program);
        snprintf(file->allocator, sizeof file->allocator, "%s", found.own_allocator);
    }
    close(fd);
    return file;
}

static void say_inside(struct unseen_process *p, const struct unseen_file *file, const char *path)
{
    char note[TRACE_UNSEEN_BYTES];
    if (file->inside == INSPECT_INSIDE_NOTHING)
        return;
    const bool allocator = file->inside == INSPECT_INSIDE_ALLOCATOR;
    trace_unseen_note(allocator ? MLW_UNSEEN_OWN_ALLOCATOR : MLW_UNSEEN_OWN_MALLOC,
                      allocator ? file->allocator : NULL, path, note);
    unseen_add(&p->notes, note);
}

/* Our own, the loader's and the C library's are not asked. */
static bool is_asked(const char *path)
{
    const char *base = path_base_name(path);
    return *path == '/' && strncmp(base, "libmallow-", 10) != 0 &&
           strncmp(base, "ld-linux", 8) != 0 && strncmp(base, "libc.so", 7) != 0;
}

void unseen_look(struct unseen_files *f, struct unseen_process *p, pid_t pid, uint64_t first_ns,
                 uint64_t now_ns)
{
    char exe[PATH_MAX] = "", reach[PATH_MAX + 64];
    struct proc_maps maps;
    struct proc_mapping m;
    uint64_t libc_start = 0, begins = 0;
    unsigned fresh = 0;
    bool more = false;
    if (now_ns < p->next_ns || pid <= 0 || !proc_maps_open(&maps, pid))
        return;
    (void)proc_link(pid, "exe", exe, sizeof exe);
    while (proc_maps_next(&maps, &m)) {
        const char *base = path_base_name(m.path);
        const bool is_libc = !strcmp(base, "libc.so.6") && *m.path == '/';
        if (is_libc && !m.offset)
            begins = m.start;
        if (is_libc && m.mode[2] == 'x') { /* one that is mapped as data is no second one */
            if (libc_start && libc_start != begins) {
                char note[TRACE_UNSEEN_BYTES];
                trace_unseen_note(MLW_UNSEEN_NAMESPACE, NULL, m.path, note);
                unseen_add(&p->notes, note);
            }
            libc_start = begins;
        }
        if (m.mode[2] != 'x' || !m.inode || !is_asked(m.path))
            continue;
        const struct unseen_file *file = find_unseen_file(f, m.device, m.inode);
        if (!file && (fresh == FILES_AT_ONCE || f->count >= FILES_MOST)) {
            more = fresh == FILES_AT_ONCE;
            continue;
        }
        if (!file) {
            const bool is_program = !strcmp(m.path, exe);
            if (is_program)
                snprintf(reach, sizeof reach, "/proc/%d/exe", (int)pid);
            else
                snprintf(reach, sizeof reach, "/proc/%d/root%s", (int)pid, m.path);
            file = look_into_file(f, reach, &m, is_program);
            fresh++;
        }
        if (file)
            say_inside(p, file, m.path);
    }
    proc_maps_close(&maps);
    const uint64_t age = now_ns - first_ns;
    p->next_ns = more ? now_ns + 1 : now_ns + (age < FIRST_LOOK_NS ? FIRST_LOOK_NS : age);
}

/* ---- programs that did not load the library ---- */

static bool of_file(int fd, char why[UNSEEN_WHY_BYTES])
{
    static struct inspect found;
    struct inspect_reason reason;
    size_t count = 0;
    inspect_open(fd, &found);
    if (inspect_judge(&found, &reason, 1, &count) == INSPECT_IMPOSSIBLE && count)
        snprintf(why, UNSEEN_WHY_BYTES, "%s", reason.what);
    return *why;
}

void unseen_why_file(const char *path, char why[UNSEEN_WHY_BYTES])
{
    struct error ignored;
    static struct inspect found;
    *why = 0;
    if (inspect_program(path, &found, &ignored))
        return;
    const int fd = program_open(found.path, &ignored);
    if (fd >= 0) {
        (void)of_file(fd, why);
        close(fd);
    }
}

/* The loader was asked to be careful (setuid, setgid, file capabilities): the kernel says so. */
static bool is_secure(pid_t pid)
{
    uint64_t v[64];
    const ssize_t n = proc_read(pid, "auxv", (char *)v, sizeof v);
    for (size_t i = 0; n > 0 && i + 1 < (size_t)n / sizeof *v; i += 2)
        if (v[i] == AT_SECURE)
            return v[i + 1] != 0;
    return false;
}

/* The value of LD_PRELOAD that the program was started with; "": none. False: it cannot be read. */
static bool preload_of(pid_t pid, char *to, size_t room)
{
    static char text[1 << 16];
    static const char name[] = "LD_PRELOAD=";
    const ssize_t n = proc_read(pid, "environ", text, sizeof text - 1);
    *to = 0;
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(text + at) + 1) {
        text[n] = 0;
        if (!strncmp(text + at, name, sizeof name - 1))
            snprintf(to, room, "%s", text + at + sizeof name - 1);
    }
    return n > 0;
}

/* True if that user, who is neither root nor the owner, may read the file by its path. */
static bool user_may_read(const char *path, uid_t user)
{
    char part[PATH_MAX];
    struct stat st;
    for (const char *p = path; (p = strchr(p + 1, '/'));) {
        snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        if (!stat(part, &st) && st.st_uid != user && !(st.st_mode & S_IXOTH))
            return false;
    }
    return stat(path, &st) || st.st_uid == user || st.st_mode & S_IROTH;
}

static bool has_library(pid_t pid, const char *library)
{
    struct proc_maps maps;
    struct proc_mapping m;
    bool has = false;
    if (!proc_maps_open(&maps, pid))
        return false;
    while (!has && proc_maps_next(&maps, &m))
        has = !strcmp(path_base_name(m.path), path_base_name(library));
    proc_maps_close(&maps);
    return has;
}

void unseen_why_process(pid_t pid, const char *library, char why[UNSEEN_WHY_BYTES])
{
    char text[8192], preload[1024];
    unsigned long user[4] = {0};
    struct error ignored;
    *why = 0;
    snprintf(text, sizeof text, "/proc/%d/exe", (int)pid);
    const int fd = program_open(text, &ignored);
    if (fd >= 0) {
        const bool known_why = of_file(fd, why);
        close(fd);
        if (known_why)
            return;
    }
    if (is_secure(pid)) {
        snprintf(
            why, UNSEEN_WHY_BYTES,
            "it gained privileges when it was started (setuid, setgid or file capabilities), so "
            "the loader ignores LD_PRELOAD");
        return;
    }
    if (has_library(pid, library)) {
        snprintf(why, UNSEEN_WHY_BYTES, "it loaded the recorder, which could not begin there");
        return;
    }
    if (!preload_of(pid, preload, sizeof preload))
        return;
    if (!strstr(preload, path_base_name(library))) {
        snprintf(why, UNSEEN_WHY_BYTES,
                 *preload ? "it was started with another LD_PRELOAD, %.200s"
                          : "LD_PRELOAD was taken out of its environment",
                 preload);
        return;
    }
    if (proc_read(pid, "status", text, sizeof text) > 0 &&
        proc_status_numbers(text, "Uid:", user, 4) >= 2 && user[1] &&
        !user_may_read(library, (uid_t)user[1]))
        snprintf(why, UNSEEN_WHY_BYTES,
                 "it runs as user %lu now, who may not read the library (%.200s)", user[1],
                 library);
}
