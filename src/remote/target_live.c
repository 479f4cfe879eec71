/* target_live.c - a live process: stopping all of its threads by ptrace, its mappings, its memory;
 * see target.h. Reads through /proc/PID/mem, opened while it stands. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/present.h"
#include "base/proc.h"
#include "remote/live.h"
#include "remote/target.h"
#include "symbol/program.h"
#include "trust/file.h"
#include "trust/process.h"

enum { HOLE_PAGES = 16, STOP_LIMIT_MS = 5000, KEPT_MOST = 256 << 20 };

/* A file of the process, of whose pages some are read that are not in its memory. */
struct live_file {
    pthread_mutex_t lock;
    const struct target_region *region; /* that is open; NULL: none */
    int fd;                             /* -1: it is no regular file, or cannot be asked */
    bool unasked;                       /* the kernel does not let its file be opened */
    uint64_t left, unasked_left;        /* bytes that may be read still */
};

enum run { RUN_READ, RUN_ZEROS, RUN_FILE };

/* The first range of shared memory that ends behind the address; NULL. */
static const struct live_range *shared_from(const struct heap_live *live, uint64_t address)
{
    size_t low = 0, high = live->shared_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (live->shared[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < live->shared_count ? &live->shared[low] : NULL;
}

/* How many of the bytes are to be read at once, and how. RUN_ZEROS: they need not be, because no
 * page was ever there. RUN_FILE: of the file, because reading the memory would make the page. */
static size_t next_run(struct target *t, uint64_t address, size_t bytes, enum run *run)
{
    const struct heap_live *live = t->impl;
    const struct target_region *r = target_region_at(t, address);
    *run = RUN_READ;
    if (!r)
        return 0;
    const bool filed = r->file || r->flags & REGION_SHARED;
    if (!live->resident || r->flags & REGION_SPECIAL || (live->runs && !filed)) {
        *run = filed && !live->resident ? RUN_FILE : RUN_READ;
        return r->end - address < bytes ? r->end - address : bytes;
    }
    const struct live_range *const shared =
        r->flags & REGION_SHARED ? shared_from(live, address) : NULL;
    if (shared && shared->start <= address)
        return shared->end - address < bytes ? shared->end - address : bytes;
    if (shared && shared->start - address < bytes)
        bytes = (size_t)(shared->start - address);
    const enum run hole_is = filed ? RUN_FILE : RUN_ZEROS;
    const unsigned hole_pages = hole_is == RUN_FILE ? 1 : HOLE_PAGES;
    uint64_t end = r->end - address < bytes ? r->end : address + bytes, at = address, hole = 0;
    for (; at < end; at = (at | (TARGET_PAGE_BYTES - 1)) + 1) {
        bool missing = resident_page(live->resident, at) == RESIDENT_NOT;
        if (at == address && missing)
            *run = hole_is;
        if (*run != RUN_READ && !missing)
            break;
        hole = missing ? hole + 1 : 0;
        if (*run == RUN_READ && hole == hole_pages) { /* shorter ones are not worth a call */
            at = (at & ~(uint64_t)(TARGET_PAGE_BYTES - 1)) -
                 (uint64_t)(hole_pages - 1) * TARGET_PAGE_BYTES;
            break;
        }
    }
    return (at < end ? at : end) - address;
}

/* The first kept stretch that ends behind the address; NULL. */
static const struct live_kept *kept_from(const struct heap_live *live, uint64_t address)
{
    size_t low = 0, high = live->kept_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (live->kept[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < live->kept_count ? &live->kept[low] : NULL;
}

/* Takes `bytes` from what may be read still, at most as many as are left. */
static size_t take(struct target *t, uint64_t *left, size_t bytes)
{
    if (!*left)
        t->cut = true;
    if (bytes > *left)
        bytes = (size_t)*left;
    *left -= bytes;
    return bytes;
}

int target_open_mapped(const struct target *t, const struct target_region *r, struct error *err)
{
    char path[PATH_MAX + 64];
    struct trust_identity id;
    struct error ignored;
    const int pid = (int)live_memory(t->impl)->pid;
    *err = (struct error){0};
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, pid, r->start, r->end);
    int fd = program_open(path, err);
    if (fd >= 0 || err->kind != ERROR_SYSTEM || !r->file)
        return fd;
    /* Without rights to that: by its name, if it is that file. */
    snprintf(path, sizeof path, "/proc/%d/root%s", pid, r->file);
    fd = program_open(path, &ignored);
    if (fd >= 0 && !(trust_identify(fd, &id) && id.device == r->device && id.inode == r->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void open_file(const struct target *t, const struct target_region *r)
{
    struct error err;
    struct live_file *f = ((const struct heap_live *)t->impl)->file;
    if (f->region == r)
        return;
    if (f->fd >= 0)
        close(f->fd);
    f->region = r;
    f->fd = target_open_mapped(t, r, &err);
    f->unasked = f->fd < 0 && err.kind == ERROR_SYSTEM;
}

/* Bytes of a mapping's file: of what there is of it, and zeros for the rest; < 0: nothing can be
 * read. *memory: where the file cannot be opened, so many bytes are to be read from memory. */
static ssize_t read_file(struct target *t, uint64_t address, uint8_t *to, size_t bytes,
                         size_t *memory)
{
    struct heap_live *live = t->impl;
    const struct target_region *r = target_region_at(t, address);
    struct live_file *f = live->file;
    struct stat st;
    ssize_t got = -1;
    pthread_mutex_lock(&f->lock);
    if (live->resident)
        open_file(t, r);
    if (!live->resident) {
        *memory = take(t, &f->unasked_left, bytes);
    } else if (f->fd < 0) {
        *memory = f->unasked ? take(t, &f->unasked_left, bytes) : 0;
    } else if (!fstat(f->fd, &st)) {
        const uint64_t at = r->offset + (address - r->start), size = (uint64_t)st.st_size,
                       whole = (size + TARGET_PAGE_BYTES - 1) & ~(uint64_t)(TARGET_PAGE_BYTES - 1),
                       data = at < size ? trust_past_hole(f->fd, at, size) : whole;
        if (at < whole && data > at) {
            got = (ssize_t)(data - at < bytes ? data - at : bytes);
            memset(to, 0, (size_t)got);
        } else if (at < size) {
            const off_t hole = lseek(f->fd, (off_t)at, SEEK_HOLE);
            const uint64_t end = hole > (off_t)at ? (uint64_t)hole : size;
            const size_t n = take(t, &f->left, end - at < bytes ? end - at : bytes);
            got = n ? pread(f->fd, to, n, (off_t)at) : -1;
        }
    }
    pthread_mutex_unlock(&f->lock);
    return got;
}

static size_t live_read(struct target *t, uint64_t address, void *into, size_t bytes)
{
    const struct heap_live *live = t->impl;
    uint8_t *to = into;
    size_t done = 0;
    while (done < bytes) {
        enum run how;
        const uint64_t at = address + done;
        size_t run = next_run(t, at, bytes - done, &how), from_memory = 0;
        if (!run)
            break;
        const struct live_kept *kept = kept_from(live, at);
        if (kept && kept->start <= at) {
            run = kept->end - at < bytes - done ? kept->end - at : bytes - done;
            memcpy(to + done, kept->data + (at - kept->start), run);
            done += run;
            continue;
        }
        if (kept && kept->start - at < run)
            run = kept->start - at;
        if (how == RUN_ZEROS) {
            memset(to + done, 0, run);
            done += run;
            continue;
        }
        if (how == RUN_FILE) {
            const ssize_t got = read_file(t, at, to + done, run, &from_memory);
            if (got <= 0 && !from_memory)
                break;
            done += got > 0 ? (size_t)got : 0;
            if (got > 0)
                continue;
            run = from_memory;
        }
        /* process_vm_readv would pin pages. Those that processes share after a fork, the kernel
         * first copies for it: it would double the memory of a snapshot. */
        const ssize_t n = handle_read_some(live_memory(live), at, to + done, run);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

static enum resident_state live_page(struct target *t, uint64_t address)
{
    const struct heap_live *live = t->impl;
    const struct live_kept *kept = kept_from(live, address);
    if (kept && kept->start <= address)
        return RESIDENT_HERE;
    const struct live_range *const shared = shared_from(live, address);
    if (shared && shared->start <= address)
        return RESIDENT_HERE;
    return live->resident ? resident_page(live->resident, address) : RESIDENT_HERE;
}

/* Pages of files that were not written to are as the file: they are passed, too. */
static uint64_t live_next(struct target *t, uint64_t at, uint64_t end)
{
    const struct heap_live *live = t->impl;
    const struct live_kept *kept = kept_from(live, at);
    const uint64_t page = at & ~(uint64_t)(TARGET_PAGE_BYTES - 1);
    uint64_t from, to;
    if (!live->resident || (kept && kept->start <= at))
        return at;
    if (kept && kept->start < end)
        end = kept->start;
    const struct target_region *const r = live->shared_count ? target_region_at(t, at) : NULL;
    if (r && r->flags & REGION_SHARED) {
        const struct live_range *const shared = shared_from(live, at);
        if (!shared || shared->start >= end)
            return end;
        return shared->start > at ? shared->start : at;
    }
    switch (present_next(resident_present(live->resident), page, end, &from, &to)) {
    case PRESENT_NONE: return end;
    case PRESENT_UNKNOWN: t->unasked = true; return end;
    default: break;
    }
    return from > at ? from : at;
}

static void live_close(struct target *t)
{
    struct heap_live *live = t->impl;
    target_finish(t);
    if (live->file) {
        if (live->file->fd >= 0)
            close(live->file->fd);
        pthread_mutex_destroy(&live->file->lock);
        free(live->file);
    }
    handle_close(&live->process);
    handle_close(&live->copy);
    index_release(&live->index);
    resident_free(live->resident);
    for (size_t i = 0; i < live->kept_count; i++)
        free(live->kept[i].data);
    free(live->kept);
    free(live->shared);
    free(live->tracees);
    free(live);
}

void target_finish(struct target *t)
{
    target_let_go(t);
    if (t->source != TARGET_CORE)
        live_end_copy(t, t->impl);
}

static const struct target_ops live_ops = {live_read, live_page, live_next, live_close};

/* --- stopping --- */

static uint64_t hash_of(pid_t tid) { return (uint64_t)tid * 0x9e3779b97f4a7c15u; }

static bool is_held(const struct heap_live *live, pid_t tid)
{
    size_t at = INDEX_START;
    for (uint32_t i; (i = index_next(&live->index, hash_of(tid), &at)) != INDEX_NONE;)
        if (live->tracees[i].tid == tid)
            return true;
    return false;
}

static int why_not(const struct handle *h, int number, struct error *err)
{
    const uint32_t pid = (uint32_t)h->pid;
    struct proc_stat stat;
    if (number == ESRCH && proc_is_hidden(h->pid))
        return error_set(err, ERROR_SYSTEM, PROC_HIDDEN, (int)pid);
    if (number == ESRCH)
        return error_set(err, ERROR_SYSTEM, "there is no process %" PRIu32, pid);
    if (proc_stat((pid_t)pid, &stat) && (stat.state == 'Z' || stat.state == 'X'))
        return error_set(
            err, ERROR_UNSUPPORTED,
            "process %" PRIu32 " has ended (it is a zombie) and has no memory any more", pid);
    if (number == EPERM) {
        char text[8192];
        unsigned long tracer = 0;
        if (proc_read((pid_t)pid, "status", text, sizeof text) > 0)
            proc_status_numbers(text, "TracerPid:", &tracer, 1);
        if (tracer)
            return error_set(err, ERROR_UNSUPPORTED,
                             "process %" PRIu32 " is traced by process %lu already; end that, or "
                             "take a core with it and run 'mallow heap CORE'",
                             pid, tracer);
        return error_set(err, ERROR_UNSUPPORTED,
                         "may not look into process %" PRIu32
                         ": it is another user's, or the kernel forbids it "
                         "(kernel.yama.ptrace_scope); run mallow as root, or on a core file",
                         pid);
    }
    if (number == EBUSY)
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %" PRIu32 " executes a program and is not done with that; try "
                         "again later",
                         pid);
    errno = number;
    return error_system(err, "stop process %" PRIu32, pid);
}

/* Seizes and interrupts the threads that are not yet held; how many, or -1 with *number set. */
static int seize_new(struct heap_live *live, int *number)
{
    pid_t *tids;
    const ssize_t count = thread_list(&live->process, &tids);
    int found = 0;
    *number = count < 0 ? (errno == ENOENT ? ESRCH : errno) : 0;
    for (ssize_t i = 0; i < count && !*number; i++) {
        if (is_held(live, tids[i]))
            continue;
        *number = live->count >= TARGET_THREADS_MAX                         ? E2BIG
                  : !ARRAY_ROOM(live->tracees, live->count + 1, live->room) ? ENOMEM
                                                                            : 0;
        if (!*number)
            *number = thread_seize(&live->tracees[live->count], live->process.pid, tids[i],
                                   live->tracees, live->count);
        if (*number == ESRCH && tids[i] != live->process.pid)
            *number = 0; /* it has just ended */
        else if (!*number && !index_add(&live->index, hash_of(tids[i]), (uint32_t)live->count++))
            *number = ENOMEM;
        else
            found++;
    }
    free(tids);
    return *number ? -1 : found;
}

static int await_stops(struct heap_live *live, struct error *err)
{
    const uint64_t until = clock_monotonic_ns() + (uint64_t)STOP_LIMIT_MS * 1000000;
    const struct thread *runs = thread_await_all(live->tracees, live->count, until);
    return runs ? error_set(err, ERROR_UNSUPPORTED,
                            "thread %d of process %d does not stop (it waits in the kernel); try "
                            "again later",
                            (int)runs->tid, (int)live->process.pid)
                : 0;
}

static int read_threads(struct target *t, struct heap_live *live)
{
    t->thread_count = 0;
    for (size_t i = 0; i < live->count; i++) {
        struct thread *tracee = &live->tracees[i];
        if (!thread_registers(tracee))
            continue;
        struct target_thread *thread = target_add_thread(t, (uint32_t)tracee->tid);
        if (!thread)
            return -1;
        live_registers(&tracee->registers, &thread->registers);
        char file[32];
        snprintf(file, sizeof file, "task/%d/comm", (int)tracee->tid);
        ssize_t n = proc_read((pid_t)t->pid, file, thread->name, sizeof thread->name);
        for (ssize_t k = 0; k < n; k++)
            if (!isprint((unsigned char)thread->name[k]))
                thread->name[k] = thread->name[k] == '\n' ? 0 : '?';
    }
    return 0;
}

void live_registers(const struct user_regs_struct *r, struct target_registers *to)
{
    *to = (struct target_registers){
        .ip = r->rip,
        .sp = r->rsp,
        .bp = r->rbp,
        .fs_base = r->fs_base,
        .general = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->rbp, r->r8, r->r9, r->r10,
                    r->r11, r->r12, r->r13, r->r14, r->r15, r->rsp},
    };
}

/* --- mappings --- */

static uint32_t flags_of(const char *perms, const char *name)
{
    uint32_t flags = 0;
    if (perms[0] == 'r')
        flags |= REGION_READ;
    if (perms[1] == 'w')
        flags |= REGION_WRITE;
    if (perms[2] == 'x')
        flags |= REGION_EXEC;
    if (perms[3] == 's')
        flags |= REGION_SHARED;
    if (!strcmp(name, "[heap]"))
        flags |= REGION_BREAK;
    else if (!strcmp(name, "[stack]")) /* old kernels mark stacks of other threads, too */
        flags |= REGION_STACK;
    else if (!strncmp(name, "[v", 2) || !strncmp(name, "[uprobes", 8))
        flags |= REGION_SPECIAL;
    return flags;
}

static int read_maps(struct target *t, const struct handle *h)
{
    struct proc_maps maps;
    struct proc_mapping m;
    int status = 0;
    t->region_count = 0;
    t->cut_regions = false;
    if (!proc_maps_open(&maps, h->pid))
        return errno;
    while (!status && proc_maps_next(&maps, &m))
        status = target_add_region(
            t, (struct target_region){.start = m.start,
                                      .end = m.end,
                                      .offset = m.offset,
                                      .flags = flags_of(m.mode, m.path),
                                      .file = *m.path && *m.path != '[' ? m.path : NULL,
                                      .device = m.device,
                                      .inode = m.inode});
    const int number = status ? ENOMEM : t->region_count ? 0 : errno ? errno : ESRCH;
    proc_maps_close(&maps);
    target_regions_done(t);
    return number;
}

int target_map(struct target *t)
{
    const struct heap_live *live = t->impl;
    live->file->region = NULL;
    return read_maps(t, &live->process);
}

/* --- what a copy has not --- */

struct keeping {
    struct target *t;
    struct heap_live *live;
    struct present *present;
    uint64_t bytes, shared_bytes;
};

/* Keeps [start, end). False: too much, or no memory. */
static bool keep(struct keeping *k, uint64_t start, uint64_t end)
{
    struct heap_live *live = k->live;
    const uint64_t bytes = end - start;
    uint8_t *data = (k->bytes += bytes) <= KEPT_MOST ? malloc(bytes) : NULL;
    if (data && handle_read(&live->process, start, data, bytes) &&
        ARRAY_ROOM(live->kept, live->kept_count + 1, live->kept_room)) {
        live->kept[live->kept_count++] = (struct live_kept){start, end, data};
        return true;
    }
    free(data);
    return false;
}

/* The pages of one region that there are. */
static bool keep_region(struct keeping *k, const struct target_region *r)
{
    uint64_t from = r->start, to = r->end;
    for (uint64_t at = r->start; at < r->end; at = to) {
        switch (present_next(k->present, at, r->end, &from, &to)) {
        case PRESENT_NONE: return true;
        case PRESENT_UNKNOWN: to = r->end; break;
        default: break;
        }
        if (!keep(k, from, to))
            return false;
    }
    return true;
}

/* Notes the shared memory that there is. It is read of the copy, while the process runs. */
static bool note_shared(struct keeping *k, const struct target_region *r)
{
    struct heap_live *live = k->live;
    uint64_t from = r->start, to = r->end;
    for (uint64_t at = r->start; at < r->end; at = to) {
        if (present_next(k->present, at, r->end, &from, &to) != PRESENT_SOME)
            return true;
        if (k->shared_bytes + (to - from) > TARGET_SHARED_BYTES_MOST) {
            k->t->unshared += to - from;
            continue;
        }
        k->shared_bytes += to - from;
        if (!ARRAY_ROOM(live->shared, live->shared_count + 1, live->shared_room))
            return false;
        live->shared[live->shared_count++] = (struct live_range){from, to};
    }
    return true;
}

/* The kernel leaves memory empty in a child where the program said so (MADV_WIPEONFORK). */
static bool is_wiped(const struct keeping *k, const struct present *copy,
                     const struct target_region *r)
{
    enum { TRIES = 1 << 14 };
    uint64_t at = r->start, from, to;
    for (unsigned i = 0; i < TRIES && !r->file && copy->fd >= 0; i++) {
        if (present_next(k->present, at, r->end, &from, &to) != PRESENT_SOME)
            return false;
        if (present_all(k->present, from, TARGET_PAGE_BYTES)) /* it is no guard */
            return !present_all(copy, from, TARGET_PAGE_BYTES);
        at = from + TARGET_PAGE_BYTES;
    }
    return false;
}

void live_keep_lacking(struct target *t, struct heap_live *live)
{
    struct target *copy = target_new();
    struct present present, there;
    struct keeping k = {.t = t, .live = live, .present = &present};
    live->copy_lacks = !copy || read_maps(copy, &live->copy);
    present_open(&present, live->process.pid);
    present_open(&there, live->copy.pid);
    for (size_t i = 0; i < t->region_count && !live->copy_lacks; i++) {
        const struct target_region *r = &t->regions[i];
        if (!target_refers(r))
            continue;
        if (r->flags & REGION_SHARED)
            live->copy_lacks = !note_shared(&k, r);
        else if (!(target_region_at(copy, r->start) && target_region_at(copy, r->end - 1)) ||
                 is_wiped(&k, &there, r))
            live->copy_lacks = !keep_region(&k, r);
    }
    present_close(&there);
    present_close(&present);
    target_close(copy);
}

void target_find_elsewhere(struct target *t)
{
    const int fd = proc_open((pid_t)t->pid, "smaps");
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    struct proc_mapping m = {0};
    char *line = NULL;
    size_t room = 0;
    int64_t pages = 1 << 20; /* that are asked for */
    if (!in && fd >= 0)
        close(fd);
    while (in && getline(&line, &room, in) > 0) {
        if (isdigit((unsigned char)*line) || (*line >= 'a' && *line <= 'f')) {
            if (!proc_mapping_parse(line, &m))
                m.end = 0;
            continue;
        }
        if (strncmp(line, "VmFlags:", 8) != 0 || !strstr(line, " um"))
            continue;
        for (uint64_t at = m.start; at < m.end && pages-- > 0; at += TARGET_PAGE_BYTES)
            if (target_page(t, at) == RESIDENT_NOT) {
                t->elsewhere_at = t->elsewhere ? t->elsewhere_at : at;
                t->elsewhere += TARGET_PAGE_BYTES;
            }
    }
    if (in)
        fclose(in);
    free(line);
}

bool target_copy_lacks(struct target *t)
{
    return t->source == TARGET_SNAPSHOT && ((const struct heap_live *)t->impl)->copy_lacks;
}

/* --- the target --- */

/* True if the threads that stand are of the image that the memory is read of. Where that image
 * cannot be known again, nothing is written to it. */
static bool has_image(const struct heap_live *live)
{
    if (!live->process.image.bytes)
        return true;
    for (size_t i = 0; i < live->count; i++)
        if (live->tracees[i].stopped && !live->tracees[i].gone)
            return handle_same(&live->process, live->tracees[i].tid);
    return false;
}

int live_stop(struct target *t, struct heap_live *live, bool *changed, struct error *err)
{
    int number = 0, found, status = 0;
    live->since_ns = clock_monotonic_ns();
    *changed = false;
    /* Threads that are made meanwhile are found in the next round; all stand once a round finds
     * none. */
    while (!status && (found = seize_new(live, &number)) != 0)
        status = found < 0 ? why_not(&live->process, number, err) : await_stops(live, err);
    for (size_t i = 0; i < live->count; i++)
        *changed |= live->tracees[i].executed;
    *changed |= !status && !has_image(live);
    if (*changed)
        status =
            error_set(err, ERROR_UNSUPPORTED,
                      "process %" PRIu32 " executed another program meanwhile; try again", t->pid);
    if (!status && read_threads(t, live))
        status = error_memory(err);
    if (status)
        target_let_go(t);
    return status;
}

static uint64_t own_bytes(const struct handle *h)
{
    static const char *const fields[] = {"VmRSS:", "VmSwap:", "HugetlbPages:"};
    char text[8192];
    uint64_t kb = 0;
    if (proc_read(h->pid, "status", text, sizeof text) <= 0)
        return UINT64_MAX;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        unsigned long value = 0;
        proc_status_numbers(text, fields[i], &value, 1);
        kb += value;
    }
    return kb << 10;
}

/* Stops the process with the image of a handle that was opened before. One that becomes another
 * program meanwhile is asked anew, unless that is another user's, who was not asked for. */
static int stop_image(struct target *t, const struct trust_process *first, struct error *err)
{
    enum { TRIES = 4 };
    struct heap_live *live = t->impl;
    struct trust_process now;
    struct error ignored;
    for (unsigned i = 0;; i++) {
        bool changed;
        if (!live_stop(t, live, &changed, err)) {
            if (live->process.memory >= 0)
                return 0;
            target_let_go(t);
            return why_not(&live->process, EPERM, err);
        }
        if (!changed || i + 1 == TRIES || !first || trust_process((pid_t)t->pid, &now, &ignored) ||
            memcmp(first->uid, now.uid, sizeof now.uid) != 0)
            return -1;
        handle_close(&live->process);
        handle_open(&live->process, (pid_t)t->pid);
    }
}

struct target *target_look(pid_t pid)
{
    struct target *t = target_new();
    struct heap_live *live = calloc(1, sizeof *live);
    struct live_file *file = calloc(1, sizeof *file);
    if (!t || !live || !file) {
        free(t);
        free(live);
        free(file);
        return NULL;
    }
    *file = (struct live_file){
        .fd = -1, .left = TARGET_FILE_BYTES_MOST, .unasked_left = TARGET_UNASKED_BYTES_MOST};
    pthread_mutex_init(&file->lock, NULL);
    *live = (struct heap_live){.copy = {.directory = -1, .memory = -1}, .file = file, .runs = true};
    handle_open(&live->process, pid);
    live->resident = resident_new(&live->process, true);
    t->ops = &live_ops;
    t->impl = live;
    t->source = TARGET_STOPPED;
    t->pid = t->memory_pid = (uint32_t)pid;
    return t;
}

const struct handle *target_handle(const struct target *t)
{
    return &((const struct heap_live *)t->impl)->process;
}

/* The mappings of the process that stands. */
static int map_stopped(struct target *t, struct error *err)
{
    const int number = target_map(t);
    if (number == ENOMEM)
        return error_memory(err);
    if (number == ESRCH)
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %" PRIu32 " has no memory: it is the kernel's, or has ended",
                         t->pid);
    errno = number;
    return number ? error_system(err, "read /proc/%" PRIu32 "/maps", t->pid) : 0;
}

struct target *target_stop(uint32_t pid, struct error *err)
{
    struct trust_process first;
    struct error ignored;
    const bool known = !trust_process((pid_t)pid, &first, &ignored);
    struct target *t = target_look((pid_t)pid);
    if (!t) {
        error_memory(err);
        return NULL;
    }
    struct heap_live *live = t->impl;
    if (stop_image(t, known ? &first : NULL, err) || map_stopped(t, err)) {
        target_close(t);
        return NULL;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    t->moment_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    live->runs = false;
    resident_free(live->resident);
    live->resident = resident_new(&live->process, false);
    t->own_bytes = own_bytes(&live->process);
    t->knows_pages = live->resident != NULL;
    return t;
}

void target_let_go(struct target *t)
{
    struct heap_live *live = t->ops == &live_ops ? t->impl : NULL;
    if (!live || !live->count)
        return;
    /* Those that stand first: the others, which wait in the kernel, must stop before they can be
     * let go. One that does not is let go by the kernel at our end. */
    const uint64_t until_ns = thread_let_go_until();
    for (size_t i = 0; i < live->count; i++)
        if (live->tracees[i].stopped)
            thread_let_go(&live->tracees[i], until_ns);
    thread_await_all(live->tracees, live->count, until_ns);
    for (size_t i = 0; i < live->count; i++)
        if (live->tracees[i].stopped)
            thread_let_go(&live->tracees[i], until_ns);
    index_release(&live->index);
    live->index = (struct index){0};
    live->count = 0;
    t->stopped_ns += clock_monotonic_ns() - live->since_ns;
}
