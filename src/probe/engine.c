/* engine.c - from start to end of a probe: loads, attaches, waits, adds up. See probe.h, kind.h. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/text.h"
#include "launch/launch.h"
#include "probe/caps.h"
#include "probe/inside.h"
#include "probe/kind.h"
#include "probe/run.h"
#include "probe/stacks.h"

struct probe_state {
    struct probe_engine e;
    struct launch launch;
    struct signals_before signals;
    struct limits_before limits;
    struct ring_buffer *ring;
    struct probe_row *before; /* rows at the last interval */
    size_t before_count;
    uint64_t losses_before[PROBE_LOSSES];
    uint64_t interval_ns; /* CLOCK_MONOTONIC of the last interval; 0: none yet */
};

void engine_say(const struct probe_engine *e, const char *format, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
    if (e->options->say)
        e->options->say(e->options->arg, line);
}

void engine_source(struct probe_engine *e, const char *format, ...)
{
    size_t n = strlen(e->result->source);
    va_list ap;
    va_start(ap, format);
    vsnprintf(e->result->source + n, sizeof e->result->source - n, format, ap);
    va_end(ap);
}

/* ---- what libbpf says ---- */

static bool verbose;

/* Max events per wakeup; max wakeups per probe_consume(). */
enum { EVENTS_A_TURN = 4096, TURNS = 64 };

static int print_libbpf_line(enum libbpf_print_level level, const char *format, va_list ap)
{
    (void)level;
    char *text = NULL;
    /* The kernel's reasons are long. Names of files and programs are in it: nothing is printed raw.
     */
    if (verbose && vasprintf(&text, format, ap) >= 0) {
        for (char *at = text, *line; (line = strsep(&at, "\n"));)
            text_printf(stderr, at ? "%s\n" : "%s", line);
        free(text);
    }
    return 0;
}

/* ---- rows and names ---- */

int engine_add_row(struct probe_engine *e, const struct probe_row *row, struct error *err)
{
    if (!ARRAY_ROOM(e->rows, e->row_count + 1, e->row_room))
        return error_memory(err);
    e->rows[e->row_count++] = *row;
    return 0;
}

int engine_add_name(struct probe_engine *e, const char *name, struct error *err)
{
    if (!ARRAY_ROOM(e->names, e->name_count + 1, e->name_room))
        return error_memory(err);
    if (!(e->names[e->name_count] = strdup(name)))
        return error_memory(err);
    e->name_count++;
    return 0;
}

int engine_add_names(struct probe_engine *e, const char *const *names, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (engine_add_name(e, names[i], err))
            return -1;
    return 0;
}

void engine_stream(const struct probe_engine *e, const struct mlw_kernel *event,
                   const uint64_t *values)
{
    struct mlw_kernel copy = *event;
    copy.kind = (uint8_t)e->options->kind->stream;
    e->options->stream(e->options->arg, &copy, values);
}

int engine_map(const struct probe_engine *e, const char *name)
{
    const struct bpf_map *map = bpf_object__find_map_by_name(e->object, name);
    return map ? bpf_map__fd(map) : -1;
}

static int compare_row_keys(const void *a, const void *b)
{
    return memcmp(&((const struct probe_row *)a)->key, &((const struct probe_row *)b)->key,
                  sizeof(struct probe_key));
}

static void collect_losses(struct probe_engine *e)
{
    int cpus = libbpf_num_possible_cpus(), fd = engine_map(e, "losses");
    uint64_t *values = calloc((size_t)(cpus > 0 ? cpus : 1), sizeof *values);
    for (uint32_t what = 0; values && what < PROBE_LOSSES; what++) {
        e->result->losses[what] = 0;
        if (bpf_map_lookup_elem(fd, &what, values))
            continue;
        for (int i = 0; i < cpus; i++)
            e->result->losses[what] += values[i];
    }
    free(values);
    if (e->options->kind->within_each_other)
        e->result->losses[PROBE_LOST_WITHIN] = engine_missed(e);
}

uint64_t engine_missed(const struct probe_engine *e)
{
    uint64_t missed = 0;
    struct bpf_program *p;
    bpf_object__for_each_program(p, e->object)
    {
        struct bpf_prog_info info = {0};
        uint32_t bytes = sizeof info;
        if (bpf_program__fd(p) >= 0 && !bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &bytes))
            missed += info.recursion_misses;
    }
    return missed;
}

static int collect_sums(struct probe_engine *e, struct error *err)
{
    struct probe_row row;
    struct probe_key *last = NULL, key;
    int fd = engine_map(e, "sums");
    memset(&row, 0, sizeof row);
    while (bpf_map_get_next_key(fd, last, &row.key) == 0) {
        if (bpf_map_lookup_elem(fd, &row.key, &row.value) == 0 && engine_add_row(e, &row, err))
            return -1;
        key = row.key;
        last = &key;
    }
    return 0;
}

static void add_up_equal(struct probe_engine *e)
{
    size_t kept = 0;
    if (e->row_count)
        qsort(e->rows, e->row_count, sizeof *e->rows, compare_row_keys);
    for (size_t i = 0; i < e->row_count; i++) {
        struct probe_row *last = kept ? &e->rows[kept - 1] : NULL;
        if (!last || compare_row_keys(last, &e->rows[i]))
            e->rows[kept++] = e->rows[i];
        else
            probe_value_add(&last->value, &e->rows[i].value);
    }
    e->row_count = kept;
}

static int collect_rows(struct probe_engine *e, struct error *err)
{
    e->row_count = 0;
    if (e->inside ? inside_requests(e->inside, e, err) : collect_sums(e, err))
        return -1;
    if (e->options->kind->collect && e->options->kind->collect(e, err))
        return -1;
    add_up_equal(e);
    if (e->inside)
        e->result->losses[PROBE_LOST_EVENTS] = inside_lost(e->inside);
    else
        collect_losses(e);
    e->result->rows = e->rows;
    e->result->row_count = e->row_count;
    e->result->names = (const char *const *)e->names;
    e->result->name_count = e->name_count;
    return e->stacks ? stacks_keep(e->stacks, e->rows, e->row_count, err) : 0;
}

/* ---- attaching ---- */

void engine_skip(struct probe_engine *e, const char *program)
{
    struct bpf_program *p = bpf_object__find_program_by_name(e->object, program);
    if (p)
        bpf_program__set_autoload(p, false);
}

static bool is_uprobe(const struct bpf_program *p)
{
    return !strncmp(bpf_program__section_name(p), "uprobe", 6) ||
           !strncmp(bpf_program__section_name(p), "uretprobe", 9);
}

bool engine_has_tracepoint(const struct probe_engine *e, const char *name, unsigned arguments)
{
    char type[128];
    struct btf *btf = btf__load_vmlinux_btf();
    (void)e;
    snprintf(type, sizeof type, "btf_trace_%s", name);
    int id = btf ? btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) : -1;
    bool found = id > 0;
    if (found && arguments) {
        /* typedef of a pointer to a function, whose first argument is not the tracepoint's */
        const struct btf_type *t = btf__type_by_id(btf, btf__type_by_id(btf, (uint32_t)id)->type);
        t = t ? btf__type_by_id(btf, t->type) : NULL;
        found = t && btf_is_func_proto(t) && btf_vlen(t) == arguments + 1;
    }
    btf__free(btf);
    return found;
}

static int attach_tracepoints(struct probe_engine *e, bool follow, struct error *err)
{
    struct bpf_program *p;
    bpf_object__for_each_program(p, e->object)
    {
        bool is_follow = !strncmp(bpf_program__name(p), "follow_", 7);
        if (bpf_program__fd(p) >= 0 && is_follow == follow &&
            !strncmp(bpf_program__section_name(p), "tp_btf/", 7) &&
            attach_program(&e->attachments, p, err))
            return -1;
    }
    return 0;
}

int engine_attach_tracepoints(struct probe_engine *e, struct error *err)
{
    return attach_tracepoints(e, false, err);
}

long engine_attach_places(struct probe_engine *e, const char *program, const char *path,
                          struct place *places, size_t n, bool on_return, struct error *err)
{
    struct bpf_program *p = bpf_object__find_program_by_name(e->object, program);
    struct attach_how how = {.multi = e->multi, .on_return = on_return, .process = (pid_t)e->pid};
    if (e->reaches_one)
        how.pid = (pid_t)e->pid;
    else if (engine_say_bystanders(e, path, err))
        return -1;
    return attach_places(&e->attachments, p, path, places, n, &how, err);
}

int engine_attach_perf(struct probe_engine *e, const char *program, uint64_t event,
                       struct error *err)
{
    struct bpf_program *p = bpf_object__find_program_by_name(e->object, program);
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = event, .sample_period = 1};
    int cpus = libbpf_num_possible_cpus(), done = 0;
    for (int cpu = 0; cpu < cpus; cpu++) {
        int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
        if (fd < 0 && errno == ENODEV)
            continue; /* not online */
        if (fd < 0)
            return error_system(err, "cannot open a perf event for processor %d", cpu);
        if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, bpf_program__fd(p)) ||
            ioctl(fd, PERF_EVENT_IOC_ENABLE, 0)) {
            error_system(err, "cannot attach to a perf event");
            close(fd);
            return -1;
        }
        if (attach_keep(&e->attachments, fd))
            return error_memory(err);
        done++;
    }
    return done ? 0 : error_set(err, ERROR_UNSUPPORTED, "no processor has perf events");
}

/* ---- which processes ---- */

static int target(struct probe_engine *e, uint32_t pid, uint32_t state)
{
    return bpf_map_update_elem(engine_map(e, "targets"), &pid, &state, BPF_ANY);
}

/* The parent of a process, 0 when it is gone. */
static uint32_t parent_of(pid_t pid)
{
    struct proc_stat s;
    return proc_stat(pid, &s) ? (uint32_t)s.ppid : 0;
}

/* Sends the places of a process's code to the kernel in advance, for when it cannot look them up:
 * within a fault, and while another thread changes the memory map. */
static void send_code(const struct probe_engine *e, uint32_t pid)
{
    if (e->stacks && (e->options->kind->within_faults || e->options->by & PROBE_BY_STACK))
        stacks_fill(e->stacks, pid);
}

/* The children that a running process has already, and theirs. */
static void target_children(struct probe_engine *e)
{
    bool more = true;
    int fd = engine_map(e, "targets");
    for (int round = 0; more && round < 64; round++) {
        DIR *proc = opendir("/proc");
        const struct dirent *d;
        more = false;
        while (proc && (d = readdir(proc))) {
            uint32_t pid = (uint32_t)strtoul(d->d_name, NULL, 10), parent, state;
            if (!pid || !(parent = parent_of((pid_t)pid)) ||
                bpf_map_lookup_elem(fd, &parent, &state) ||
                bpf_map_lookup_elem(fd, &pid, &state) == 0)
                continue;
            more = target(e, pid, PROBE_TARGET_RUNS) == 0;
            if (more && e->stacks)
                stacks_learn_all(e->stacks, pid);
            if (more)
                send_code(e, pid);
            const struct probe_call found = {.pid = pid, .what = PROBE_FOUND};
            if (more && e->options->call)
                e->options->call(e->options->arg, &found);
        }
        if (proc)
            closedir(proc);
    }
}

/* ---- start ---- */

bool engine_asks(const struct probe_engine *e, uint32_t part)
{
    return (e->options->by | e->options->where.keys) & part;
}

static bool keeps_stacks(const struct probe_options *o)
{
    return o->by & (PROBE_BY_STACK | PROBE_BY_KSTACK | PROBE_BY_CALLER);
}

int engine_find_files(struct probe_engine *e, struct error *err)
{
    const struct probe_options *o = e->options;
    if (e->files.count)
        return 0; /* the kind wanted to know early */
    if (o->argv || o->waiting)
        return files_of_program(&e->files, o->program, err);
    if (o->pid)
        return files_of_process(&e->files, (pid_t)o->pid, err);
    return o->kind->files ? o->kind->files(e, err) : files_of_machine(&e->files, err);
}

int engine_resize(struct probe_engine *e, const char *name, size_t entries, struct error *err)
{
    struct bpf_map *map = bpf_object__find_map_by_name(e->object, name);
    if (map && bpf_map__set_max_entries(map, (uint32_t)entries))
        return error_system(err, "cannot size the map '%s'", name);
    return 0;
}

static int configure(struct probe_engine *e, struct error *err)
{
    const struct probe_options *o = e->options;
    struct bpf_map *map = bpf_object__find_map_by_name(e->object, ".rodata.config");
    struct probe_config config = {.by = o->by,
                                  .filter = !o->all,
                                  .follow = !o->no_follow,
                                  .own_pid = (uint32_t)getpid(),
                                  .cpus = (uint32_t)libbpf_num_possible_cpus(),
                                  .max_depth = o->frames ? o->frames : PROBE_DEPTH_MAX,
                                  .detail = o->mmap,
                                  .live = o->live,
                                  .pages = o->kind->within_faults,
                                  .stream = o->stream || o->call,
                                  .own_inode = o->own_inode,
                                  .histogram = o->histogram,
                                  .where = o->where};
    /* as the kernel keeps it: cut, and with a NUL */
    if (o->command)
        memcpy(config.command, o->command, strnlen(o->command, PROBE_COMMAND_BYTES - 1));
    if (!map || bpf_map__set_initial_value(map, &config, sizeof config))
        return error_system(err, "cannot configure the programs");
    if (o->all || o->no_follow)
        engine_skip(e, "follow_fork");
    if (o->all) {
        engine_skip(e, "follow_exit");
        engine_skip(e, "follow_exec");
    }
    if (!o->kind->within_faults || !(o->by & PROBE_BY_STACK)) {
        engine_skip(e, "code_mapped");
        engine_skip(e, "code_executed");
    }
    struct bpf_program *p;
    bpf_object__for_each_program(p, e->object) if (is_uprobe(p) && e->multi)
        bpf_program__set_expected_attach_type(p, (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
    if (!keeps_stacks(o))
        return engine_resize(e, "events", o->call ? 1 << 24 : o->stream ? 1 << 23 : 1 << 18, err);
    if (o->by & PROBE_BY_STACK && !caps_user_stacks())
        return error_set(
            err, ERROR_UNSUPPORTED,
            "this kernel cannot unwind user stacks (bpf_find_vma, bpf_loop): use Linux "
            "5.17 or newer, or --by without 'stack'");
    static const struct files none;
    e->stacks = stacks_new(e->object, o->by & PROBE_BY_STACK ? &e->files : &none, err);
    if (!e->stacks || engine_resize(e, "events", o->call ? 1 << 24 : 1 << 20, err) ||
        (o->call && engine_resize(e, "stacks", 1 << 16, err)))
        return -1;
    return engine_resize(e, "kstacks", o->by & PROBE_BY_KSTACK ? 16384 : 1, err);
}

static int load_objects(struct probe_engine *e, struct error *err)
{
    const struct probe_kind *kind = e->options->kind;
    size_t bytes = 0;
    const void *image = kind->object(&bytes);
    LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = kind->name);
    verbose = e->options->verbose;
    libbpf_set_print(print_libbpf_line);
    if (caps_require(err))
        return -1;
    e->multi = caps_uprobe_multi();
    e->object = bpf_object__open_mem(image, bytes, &options);
    if (!e->object)
        return error_system(err, "cannot open the programs of '%s'", kind->name);
    if (engine_find_files(e, err) || configure(e, err))
        return -1;
    if (kind->prepare && kind->prepare(e, err))
        return -1;
    int bad = bpf_object__load(e->object);
    if (bad) {
        errno = -bad;
        return error_system(err, "the kernel refuses the programs of '%s' (--verbose shows more)",
                            kind->name);
    }
    return e->stacks ? stacks_install(e->stacks, err) : 0;
}

static void stream_pages(const struct probe_engine *e, const struct probe_event_pages *p)
{
    _Static_assert((int)PROBE_PAGES_IN == MLW_PAGES_IN &&
                       (int)PROBE_PAGES_KILLED == MLW_PAGES_KILLED,
                   "what happens to pages has the same numbers in both");
    const struct mlw_kernel event = {
        .clock = p->time_ns, .pid = p->pid, .tid = p->tid, .what = (uint8_t)p->what, .values = 2};
    engine_stream(e, &event, (const uint64_t[]){p->pages, p->ns});
}

static int on_event(void *arg, void *data, size_t size)
{
    struct probe_engine *e = arg;
    uint32_t type;
    if (size < sizeof type)
        return 0;
    memcpy(&type, data, sizeof type);
    if ((type == PROBE_EVENT_FILE || type == PROBE_EVENT_PAGE) &&
        size >= sizeof(struct probe_event_file)) {
        /* A large file takes a while: the caller regains control after each. */
        if (e->stacks && !e->over) {
            stacks_learn(e->stacks, data);
            return -EAGAIN;
        }
    } else if (type == PROBE_EVENT_PAGES && size >= sizeof(struct probe_event_pages)) {
        stream_pages(e, data);
    } else if (e->options->kind->event)
        e->options->kind->event(e, data, size);
    /* When events come faster than they are taken, the caller must regain control now and then. */
    return !e->draining && ++e->taken % EVENTS_A_TURN == 0 ? -EAGAIN : 0;
}

static int attach_kind(struct probe_state *s, struct error *err)
{
    struct probe_engine *e = &s->e;
    const struct probe_options *o = e->options;
    s->ring = ring_buffer__new(engine_map(e, "events"), on_event, e, NULL);
    if (!s->ring)
        return error_system(err, "cannot read the ring buffer");
    if (attach_tracepoints(e, true, err))
        return -1;
    if (e->pid && target(e, e->pid, o->argv || o->waiting ? PROBE_TARGET_WAITS : PROBE_TARGET_RUNS))
        return error_system(err, "cannot name the process to the kernel");
    if (o->pid && !o->no_follow)
        target_children(e);
    if (o->pid)
        send_code(e, o->pid);
    e->reaches_one = o->kind->uses_library && engine_reaches_one(e);
    if (o->by & (PROBE_BY_CALLER | PROBE_BY_KSTACK) && !engine_kernel_named(e))
        engine_say(e,
                   "/proc/kallsyms hides the kernel's addresses from this user, so its functions "
                   "have no names; to fix it: run it as root (sudo)");
    if (o->kind->names && engine_add_names(e, o->kind->names, o->kind->name_count, err))
        return -1;
    return o->kind->attach(e, err);
}

/* ---- the end ---- */

static int subtract_earlier(struct probe_state *s, struct error *err)
{
    struct probe_engine *e = &s->e;
    struct probe_row *copy = calloc(e->row_count + 1, sizeof *copy);
    if (!copy)
        return error_memory(err);
    if (e->row_count)
        memcpy(copy, e->rows, e->row_count * sizeof *copy);
    size_t kept = 0, count = e->row_count;
    for (size_t i = 0; i < count; i++) {
        struct probe_row row = e->rows[i];
        const struct probe_row *old = s->before_count ? bsearch(&row, s->before, s->before_count,
                                                                sizeof *s->before, compare_row_keys)
                                                      : NULL;
        bool is_news = false;
        for (int k = 0; k < PROBE_VALUES; k++) {
            row.value.at[k] -= old ? old->value.at[k] : 0;
            is_news = is_news || row.value.at[k];
        }
        if (is_news)
            e->rows[kept++] = row;
    }
    free(s->before);
    s->before = copy;
    s->before_count = count;
    e->row_count = kept;
    return 0;
}

static int end_interval(void *arg, struct error *err)
{
    struct probe_state *s = arg;
    struct probe_engine *e = &s->e;
    const bool levels = e->options->kind->gauge || e->options->live;
    if (collect_rows(e, err) || (!levels && subtract_earlier(s, err)))
        return -1;
    e->result->row_count = e->row_count;
    uint64_t losses[PROBE_LOSSES];
    memcpy(losses, e->result->losses, sizeof losses);
    for (int i = 0; i < PROBE_LOSSES; i++)
        e->result->losses[i] -= s->losses_before[i];
    memcpy(s->losses_before, losses, sizeof losses);
    const bool apart = !levels && !e->result->arenas;
    const uint64_t now = clock_monotonic_ns();
    const uint64_t since = apart && s->interval_ns ? s->interval_ns : e->result->start_ns;
    e->result->duration_ns = now - since;
    e->result->interval++;
    s->interval_ns = now;
    if (e->options->interval)
        e->options->interval(e->options->arg, e->result);
    return 0;
}

/* Events of the library inside. */
static void tick_inside(void *arg)
{
    struct probe_state *s = arg;
    s->e.options->kind->event(&s->e, NULL, 0);
}

/* Many blocks of the kernel are released once no processor can look at them any more: waits for
 * that. */
static void wait_for_kernel(void)
{
    for (int i = 0; i < 2; i++)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

static int run_all(struct probe_state *s, struct error *err)
{
    struct probe_engine *e = &s->e;
    const struct probe_options *o = e->options;
    struct run_plan plan = {.ring = s->ring,
                            .tick = tick_inside,
                            .pid = e->pid,
                            .is_child = o->argv != NULL,
                            .duration_ns = o->duration_ns,
                            .interval_ns = o->interval ? o->interval_ns : 0,
                            .interval = end_interval,
                            .arg = s};
    e->result->start_ns = clock_monotonic_ns();
    if (o->argv) {
        e->result->has_program = true;
        e->result->exec_errno = launch_go(&s->launch);
        s->launch.pid = 0;
        if (e->result->exec_errno)
            return 0;
    }
    int bad = run_wait(&plan, err);
    e->over = e->draining = true;
    e->result->interval = 0;
    e->result->duration_ns = clock_monotonic_ns() - e->result->start_ns;
    e->result->interrupted = plan.interrupted;
    e->result->wait_status = plan.wait_status;
    if (o->live)
        wait_for_kernel();
    attach_release(&e->attachments); /* before the sums are read: they stand still */
    if (s->ring)
        ring_buffer__consume(s->ring);
    if (o->kind->finish)
        o->kind->finish(e);
    return bad || collect_rows(e, err) ? -1 : 0;
}

int probe_begin(const struct probe_options *o, struct probe_result *result, struct error *err)
{
    *result = (struct probe_result){.kind = o->kind,
                                    .by = o->by,
                                    .order = o->order,
                                    .histogram = o->histogram,
                                    .live = o->live};
    struct probe_state *s = calloc(1, sizeof *s);
    if (!s)
        return error_memory(err);
    result->state = s;
    s->e = (struct probe_engine){
        .options = o, .result = result, .pid = o->waiting ? o->waiting : o->pid};
    result->start_ns = clock_monotonic_ns();
    if ((o->kind->choose && o->kind->choose(&s->e, err)) || load_objects(&s->e, err) ||
        attach_kind(s, err)) {
        attach_release(&s->e.attachments);
        return -1;
    }
    return 0;
}

int probe_descriptor(const struct probe_result *r) { return ring_buffer__epoll_fd(r->state->ring); }

void probe_consume(struct probe_result *r)
{
    struct probe_state *s = r->state;
    for (int i = 0; i < TURNS || s->e.draining; i++)
        if (ring_buffer__consume(s->ring) != -EAGAIN) /* a file was learnt, or a turn is over */
            break;
}

void probe_end(struct probe_result *r)
{
    struct probe_engine *e = &r->state->e;
    attach_release(&e->attachments);
    e->draining = true;
    probe_consume(r);
    collect_losses(e);
    if (e->options->call && e->options->kind->finish)
        e->options->kind->finish(e);
    r->duration_ns = clock_monotonic_ns() - r->start_ns;
}

int probe_run(const struct probe_options *o, struct probe_result *result, struct error *err)
{
    *result = (struct probe_result){.kind = o->kind,
                                    .by = o->by,
                                    .order = o->order,
                                    .histogram = o->histogram,
                                    .live = o->live};
    struct probe_state *s = calloc(1, sizeof *s);
    if (!s)
        return error_memory(err);
    result->state = s;
    s->e = (struct probe_engine){.options = o, .result = result, .pid = o->pid};
    signals_take(&s->signals);
    limits_lift(&s->limits);
    int bad = o->kind->choose ? o->kind->choose(&s->e, err) : 0;
    if (!bad && o->argv) {
        bad = launch_fork(&s->launch, err);
        if (!bad && s->launch.pid == 0) {
            static const char *const nothing[] = {NULL};
            const struct launch_plan plan = {o->argv, &s->signals, &s->limits};
            launch_child_wait(&s->launch);
            launch_child_exec(&s->launch, &plan,
                              s->e.inside ? inside_environment(s->e.inside) : nothing);
        }
        s->e.pid = (uint32_t)s->launch.pid;
        if (s->e.inside)
            inside_begin(s->e.inside, s->launch.pid);
    }
    /* The kernel may take seconds to check the programs. The end of this process takes them away,
     * and a program that waits for its probes ends, too. */
    signals_pass(&s->signals);
    if (!bad && !s->e.inside)
        bad = load_objects(&s->e, err) || attach_kind(s, err);
    signals_block();
    bad = bad || run_all(s, err);
    if (s->launch.pid > 0)
        launch_cancel(&s->launch);
    attach_release(&s->e.attachments);
    limits_restore(&s->limits);
    signals_restore(&s->signals);
    return bad ? -1 : 0;
}

void probe_release(struct probe_result *result)
{
    struct probe_state *s = result->state;
    if (!s)
        return;
    attach_release(&s->e.attachments); /* it may have begun and not been ended */
    ring_buffer__free(s->ring);
    stacks_free(s->e.stacks);
    bpf_object__close(s->e.object);
    files_release(&s->e.files);
    for (size_t i = 0; i < s->e.name_count; i++)
        free(s->e.names[i]);
    free(s->e.names);
    engine_release_unplaced(&s->e);
    engine_release_bystanders(&s->e);
    free(s->e.rows);
    if (s->e.own && s->e.options->kind->release)
        s->e.options->kind->release(&s->e);
    free(s->e.own);
    inside_free(s->e.inside);
    free(result->samples);
    free(s->before);
    free(s);
    *result = (struct probe_result){0};
}

uint64_t probe_lost(const struct probe_result *r)
{
    uint64_t lost = 0;
    for (int i = 0; i < PROBE_LOSSES; i++)
        if (i != PROBE_CUT_STACKS && i != PROBE_LOST_STACKS)
            lost += r->losses[i];
    return lost;
}

size_t probe_stack_frames(const struct probe_result *r, uint64_t stack, struct probe_frame *frames,
                          size_t max)
{
    struct stacks *s = r->state ? r->state->e.stacks : NULL;
    return s ? stacks_frames(s, stack, frames, max) : 0;
}

size_t probe_stack_now(const struct probe_result *r, uint64_t stack, struct probe_frame *frames,
                       size_t max)
{
    struct stacks *s = r->state ? r->state->e.stacks : NULL;
    return s ? stacks_look(s, stack, frames, max) : 0;
}

size_t probe_kernel_frames(const struct probe_result *r, uint64_t kstack, const char **names,
                           size_t max)
{
    struct stacks *s = r->state ? r->state->e.stacks : NULL;
    return s ? stacks_kernel(s, kstack, names, max) : 0;
}

bool engine_kernel_named(const struct probe_engine *e)
{
    return e->stacks && stacks_kernel_name(e->stacks, UINT64_MAX) != NULL;
}

const char *probe_kernel_name(const struct probe_result *r, uint64_t address)
{
    struct stacks *s = r->state ? r->state->e.stacks : NULL;
    return s ? stacks_kernel_name(s, address) : NULL;
}
