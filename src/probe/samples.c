/* samples.c - Attaches to the static probes of every copy of libmallow-watch.so that a process
 * carries, and delivers their events. A file is added once, whichever path leads to it. */
#include "probe/samples.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/proc.h"
#include "probe/argument.h"
#include "probe/kind.h"
#include "probe/stacks.h"
#include "symbol/notes.h"

/* Made from the program when it is built; wants the types above. */
#include <probe/samples.skel.h>

#define LIBRARY "libmallow-watch"

enum { COPIES_MAX = 32, SEEN = 1024 };

struct copies {          /* copies of the library */
    uint64_t seen[SEEN]; /* start of the process by its id: its files have been looked at */
    struct copy {
        char path[PATH_MAX];
        dev_t device;
        ino_t inode;
    } at[COPIES_MAX];
    size_t count;
    bool more; /* than there is room for */
};

static const char *const names[SAMPLES_PROBES] = {"sample", "free", "realloc", "error"};

/* ---- where the library is ---- */

static void add_copy(struct copies *c, const char *path)
{
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode))
        return;
    for (size_t i = 0; i < c->count; i++)
        if (c->at[i].device == st.st_dev && c->at[i].inode == st.st_ino)
            return;
    c->more |= c->count == COPIES_MAX;
    if (c->more)
        return;
    struct copy *new = &c->at[c->count];
    if ((size_t)snprintf(new->path, sizeof new->path, "%s", path) >= sizeof new->path)
        return;
    new->device = st.st_dev;
    new->inode = st.st_ino;
    c->count++;
}

/* True if the process carries the library; its copy is added. */
static bool look_at_process(struct copies *c, pid_t pid)
{
    char path[PATH_MAX + 64];
    struct proc_maps maps;
    struct proc_mapping m;
    bool carries = false;
    if (!proc_maps_open(&maps, pid))
        return false;
    while (proc_maps_next(&maps, &m)) {
        if (m.mode[2] != 'x' || !strstr(m.path, "/" LIBRARY))
            continue;
        files_reach(pid, m.path, path, sizeof path);
        add_copy(c, path);
        carries = true;
    }
    proc_maps_close(&maps);
    return carries;
}

static int samples_files(struct probe_engine *e, struct error *err)
{
    struct copies *c = calloc(1, sizeof *c);
    e->own = c;
    if (!c)
        return error_memory(err);
    if (files_of_machine(&e->files, err))
        return -1;
    add_copy(c, e->options->library);
    DIR *proc = opendir("/proc");
    for (const struct dirent *d; proc && (d = readdir(proc));) {
        pid_t pid = isdigit((unsigned char)*d->d_name) ? (pid_t)strtol(d->d_name, NULL, 10) : 0;
        struct error ignored; /* it may have ended */
        if (pid && look_at_process(c, pid))
            (void)files_of_process(&e->files, pid, &ignored);
    }
    if (proc)
        closedir(proc);
    if (c->more)
        engine_say(e,
                   "processes have more than %d copies of the library: the others are not probed",
                   COPIES_MAX);
    for (size_t i = 0; i < c->count; i++)
        if (files_add(&e->files, c->at[i].path, err))
            return -1;
    return 0;
}

/* ---- attaching ---- */

/* Reads the note; false when it is none of ours, or its arguments are not in registers. */
static bool describe_site(const struct static_probe *note, struct samples_site *site)
{
    *site = (struct samples_site){.what = SAMPLES_PROBES};
    for (uint32_t i = 0; i < SAMPLES_PROBES; i++)
        if (!strcmp(note->name, names[i]))
            site->what = i;
    const char *text = note->arguments;
    while (text && *text && site->arguments < SAMPLES_ARGUMENTS) {
        struct arenas_argument a;
        text = argument_parse(text, note->address, NULL, NULL, &a);
        if (!text || a.kind != ARENAS_REGISTER)
            return false;
        site->word[site->arguments++] = a.base;
    }
    /* the other provider's `alloc` and `free` have fewer arguments */
    return site->what < SAMPLES_PROBES && site->arguments >= 3;
}

static int attach_copy(struct probe_engine *e, const char *path, uint32_t *next, struct error *err)
{
    struct static_probes notes = {0};
    struct place places[SAMPLES_SITES_MAX] = {{0}};
    size_t n = 0;
    if (static_probes_read(path, &notes, err))
        return -1;
    for (size_t i = 0; i < notes.count && *next < SAMPLES_SITES_MAX; i++) {
        struct samples_site site;
        if (!describe_site(&notes.at[i], &site))
            continue;
        if (bpf_map_update_elem(engine_map(e, "sites"), next, &site, BPF_ANY)) {
            static_probes_release(&notes);
            return error_system(err, "cannot describe the probes to the kernel");
        }
        places[n++] = (struct place){.offset = notes.at[i].offset,
                                     .cookie = (*next)++,
                                     .semaphore = notes.at[i].semaphore_offset};
    }
    static_probes_release(&notes);
    if (!n)
        return error_set(err, ERROR_UNSUPPORTED, "%s has none of the probes", path);
    if (engine_attach_places(e, "at_site", path, places, n, false, err) < 0)
        return -1;
    return engine_say_refused(e, path, places, n, err);
}

static int samples_attach(struct probe_engine *e, struct error *err)
{
    struct copies *c = e->own;
    uint32_t next = 0;
    for (size_t i = 0; i < c->count; i++) {
        int bad = attach_copy(e, c->at[i].path, &next, err);
        if (bad && i == 0)
            return -1;
        if (bad) /* the note is of another build: the others are still worth it */
            engine_say(e, "%s", err->text);
    }
    if (engine_attach_tracepoints(e, err))
        return -1;
    if (e->options->attached)
        e->options->attached(e->options->arg);
    return 0;
}

static int samples_prepare(struct probe_engine *e, struct error *err)
{
    return engine_resize(e, "events", 1 << 23, err);
}

/* ---- events ---- */

/* True if the program that the process has just become is going to carry the library. */
static bool will_carry(uint32_t pid)
{
    char buffer[65536];
    const ssize_t n = proc_read((pid_t)pid, "environ", buffer, sizeof buffer);
    return n > 0 && memmem(buffer, (size_t)n, LIBRARY, strlen(LIBRARY));
}

static bool is_ours(const struct probe_frame *f) { return f->path && strstr(f->path, "/" LIBRARY); }

static void samples_event(struct probe_engine *e, const void *data, size_t size)
{
    struct samples_event event;
    struct probe_frame frames[PROBE_DEPTH_MAX];
    if (size < sizeof event)
        return;
    memcpy(&event, data, sizeof event);
    /* Its files: the program when it begins, the libraries at its first event. */
    uint64_t *seen = &((struct copies *)e->own)->seen[event.pid % SEEN];
    if (event.what == SAMPLES_EXEC) {
        *seen = 0;
        if (will_carry(event.pid))
            stacks_learn_all(e->stacks, event.pid);
    } else if (event.what < SAMPLES_PROBES && *seen != event.start_ns) {
        *seen = event.start_ns;
        stacks_learn_all(e->stacks, event.pid);
    }
    size_t n = event.stack ? stacks_look(e->stacks, event.stack, frames, PROBE_DEPTH_MAX) : 0;
    size_t first = 0;
    for (size_t i = 0; i < n; i++)
        if (!frames[i].path)
            stacks_locate(e->stacks, event.pid, &frames[i]);
    while (first < n && is_ours(&frames[first]))
        first++;
    const struct probe_reported reported = {&event, frames + first, n - first};
    e->options->reported(e->options->arg, &reported);
}

const struct probe_kind probe_kind_samples = {
    .name = "samples",
    .summary = "what libmallow-watch.so samples, in all processes",
    .by = PROBE_BY_STACK,
    .may_by = PROBE_BY_STACK,
    .object = samples_bpf__elf_bytes,
    .files = samples_files,
    .prepare = samples_prepare,
    .attach = samples_attach,
    .event = samples_event,
};
