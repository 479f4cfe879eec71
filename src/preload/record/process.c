/* process.c - joining the session, fork, and the end of the process.
 *
 * A process joins at its first call (or in our constructor): it maps the shared memory of `mallow
 * record`, or makes its own in /dev/shm when it was preloaded by hand, and says in a PROCESS chunk
 * who it is. The child of a fork finds the wiped page empty and joins as a new image that inherits
 * from the old one. */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#include "arch/clock.h"
#include "arch/page.h"
#include "arch/stack.h"
#include "describe.h"
#include "recorder.h"
#include "routes.h"
#include "preload/guest/bindings.h"

struct recorder recorder = {.output = {-1, 0, 0},
                            .memory = {-1, 0, 0},
                            .terminal = {-1, 0, 0},
                            .break_at = &recorder.last_break};
TLS uint64_t process_fork_clock;

volatile uint32_t process_no_control; /* always 0: recording is off */

/* ---- small things ---- */

uint64_t clock_monotonic_ns(void)
{
    struct timespec ts = {0, 0};
    if (recorder.clock_kind == CLOCK_FROZEN)
        sys_clock_gettime(CLOCK_MONOTONIC, &ts); /* the vdso reads the time stamp counter */
    else
        guest_gettime(CLOCK_MONOTONIC, &ts); /* through the vdso: no system call */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void clock_freeze(bool this_thread_only)
{
    if (!recorder.process || recorder.clock_kind == CLOCK_FROZEN)
        return;
    recorder.frozen_clock = clock_now(recorder.clock_kind);
    if (this_thread_only && thread_self) {
        thread_self->clock_kind = CLOCK_FROZEN;
        if (thread_self->nested)
            thread_self->nested->clock_kind = CLOCK_FROZEN;
        return;
    }
    recorder.clock_kind = CLOCK_FROZEN;
    for (struct thread *t = recorder.threads; t; t = t->next)
        t->clock_kind = CLOCK_FROZEN;
}

static uint64_t clock_realtime_ns(void)
{
    struct timespec ts = {0, 0};
    if (recorder.clock_kind == CLOCK_FROZEN)
        sys_clock_gettime(CLOCK_REALTIME, &ts);
    else
        guest_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void *own_map(size_t bytes)
{
    long p = sys_mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);
    if (sys_is_error(p))
        return 0;
    /* Useless in a core. And the kernel would else merge it with an arena of glibc's that begins
     * where it ends (record/smaps.c). */
    sys_madvise((void *)p, bytes, MADV_DONTDUMP);
    if (recorder.process)
        __atomic_fetch_add(&recorder.process->private_bytes, bytes, __ATOMIC_RELAXED);
    return (void *)p;
}

void *unwind_host_map(size_t bytes) { return own_map(bytes); }

void own_unmap(void *p, size_t bytes)
{
    sys_munmap(p, bytes);
    if (recorder.process)
        __atomic_fetch_sub(&recorder.process->private_bytes, bytes, __ATOMIC_RELAXED);
}

void unwind_host_unmap(void *p, size_t bytes) { own_unmap(p, bytes); }

static bool tsc_is_sound(void)
{
    int mode = 0;
    if (!arch_clock_is_invariant())
        return false;
    return !sys_prctl(PR_GET_TSC, (unsigned long)&mode, 0, 0, 0) ? mode == PR_TSC_ENABLE : true;
}

void process_say(const char *text)
{
    struct stat st;
    if (sys_fstat(2, &st) || st.st_dev != recorder.terminal.dev ||
        st.st_ino != recorder.terminal.ino)
        return;
    guest_say(text, strlen(text));
}

static void stay_off(const char *why)
{
    recorder.off = true;
    if (why)
        process_say(why);
}

/* ---- the PROCESS chunk ---- */

/* 0, or -errno. */
static int chunk_of_tlvs(unsigned type, const uint8_t *payload, size_t n)
{
    struct mlw_chunk c;
    memset(&c, 0, sizeof c);
    c.magic = MLW_CHUNK_MAGIC;
    c.type = (uint16_t)type;
    c.header_bytes = sizeof c;
    c.payload_bytes = (uint32_t)n;
    c.image = type == MLW_CHUNK_FILE ? 0 : recorder.image;
    c.pid = recorder.pid;
    c.tid = recorder.pid;
    const int failed = stream_write_chunk(&c, payload);
    return failed && type == MLW_CHUNK_PROCESS && stream_give_chunk(&c, payload) ? 0 : failed;
}

static void put_unseen(struct tlvs *t)
{
    char note[UNSEEN_NOTE_BYTES];
    for (unsigned i = 0; i < MLW_UNSEEN_COUNT; i++)
        if (unseen_note(i, note))
            describe_put(t, MLW_TLV_NOTE, note, strlen(note));
}

/* False: the recording does not know us; of `mallow record` it learns by that. */
static bool say_who(uint64_t start_clock)
{
    size_t room = 8192 + recorder.description_bytes;
    uint8_t *p = (uint8_t *)own_map(room);
    if (!p)
        return !recorder.lone;
    struct tlvs t = {p, p + room};
    uint32_t v;
    uint64_t start[3] = {start_clock, clock_monotonic_ns(), clock_realtime_ns()};
    describe_put(&t, MLW_TLV_VERSION, (v = mlw_session_format(recorder.session->options), &v), 4);
    describe_put(&t, MLW_TLV_CLOCK_KIND, (v = recorder.session->clock_kind, &v), 4);
    describe_put(&t, MLW_TLV_START, start, sizeof start);
    describe_put(&t, MLW_TLV_PPID, (v = (uint32_t)sys_getppid(), &v), 4);
    describe_put(&t, MLW_TLV_STACKS, (v = recorder.stack_mode, &v), 4);
    if (recorder.lone)
        describe_put(&t, MLW_TLV_SESSION, recorder.session_path, strlen(recorder.session_path));
    if (recorder.forked_from)
        describe_put(&t, MLW_TLV_FORKED_FROM, &recorder.forked_from, 8);
    if (recorder.attached)
        describe_put(&t, MLW_TLV_ATTACHED, recorder.before, sizeof recorder.before);
    put_unseen(&t);
    if (recorder.description && (size_t)(t.end - t.at) >= recorder.description_bytes) {
        memcpy(t.at, recorder.description, recorder.description_bytes);
        t.at += recorder.description_bytes;
    }
    int failed = chunk_of_tlvs(MLW_CHUNK_PROCESS, p, (size_t)(t.at - p));
    unwind_host_unmap(p, room);
    recorder.process->undescribed = failed && !recorder.lone;
    return !failed || !recorder.lone;
}

/* Nothing can lead to the shared memory of a process of which the recording does not know. */
static void stay_unknown(void)
{
    sys_unlinkat(AT_FDCWD, recorder.session_path, 0);
    stay_off("mallow: the recording cannot be written: this process is not recorded\n");
}

static void say_file(void)
{
    uint8_t buffer[1024];
    struct tlvs t = {buffer, buffer + sizeof buffer};
    struct utsname u;
    uint32_t v;
    uint64_t start[3] = {clock_now(recorder.clock_kind), clock_monotonic_ns(), clock_realtime_ns()};
    describe_put(&t, MLW_TLV_VERSION, (v = mlw_session_format(recorder.session->options), &v), 4);
    describe_put(&t, MLW_TLV_CLOCK_KIND, (v = recorder.clock_kind, &v), 4);
    describe_put(&t, MLW_TLV_START, start, sizeof start);
    describe_put(&t, MLW_TLV_TOOL, "libmallow-record " MALLOW_VERSION,
                 sizeof "libmallow-record " MALLOW_VERSION - 1);
    if (!sys_call(SYS_uname, (long)&u, 0, 0, 0, 0, 0)) {
        char host[256];
        size_t n = 0;
        const char *part[3] = {u.sysname, u.release, u.machine};
        for (unsigned i = 0; i < 3; i++) {
            size_t m = strnlen(part[i], 64);
            memcpy(host + n, part[i], m);
            n += m;
            host[n++] = ' ';
        }
        describe_put(&t, MLW_TLV_HOST, host, n - 1);
    }
    chunk_of_tlvs(MLW_CHUNK_FILE, buffer, (size_t)(t.at - buffer));
}

/* ---- joining ---- */

char *put_number(char *to, uint64_t v)
{
    char digits[20];
    unsigned n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n)
        *to++ = digits[--n];
    return to;
}

/* Expands %p, makes the path absolute. */
static bool set_output_path(const char *from)
{
    char *to = recorder.output_path, *end = to + sizeof recorder.output_path - 24;
    if (from[0] != '/') {
        long n = sys_call(SYS_getcwd, (long)to, (long)sizeof recorder.output_path / 2, 0, 0, 0, 0);
        if (n <= 0 || to[0] != '/')
            return false;
        to += n - 1;
        *to++ = '/';
    }
    for (; *from && to < end; from++) {
        if (from[0] == '%' && from[1] == 'p') {
            to = put_number(to, recorder.pid);
            from++;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
    return *from == 0;
}

/* How many windows a file of that size has room for: a store beyond would kill the program. */
static uint32_t room_for_windows(off_t bytes)
{
    uint64_t n = ((uint64_t)bytes - mlw_window_offset(0)) / MLW_WINDOW_BYTES;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

void *process_map_window(uint32_t number)
{
    int fd = process_memory_fd();
    if (fd < 0 || number >= recorder.window_room)
        return 0;
    long p = sys_mmap(0, MLW_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      (off_t)mlw_window_offset(number));
    return sys_is_error(p) ? 0 : (void *)p;
}

/* Where a page of an earlier recording of this process was, which threads may still look at, the
 * page of this one stands. */
static void *to_place(void *page, void **place, int fd, uint64_t offset)
{
    if (!*place)
        return page;
    const long p = sys_mmap(*place, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            fd, (off_t)offset);
    if (sys_is_error(p))
        return page;
    sys_munmap(page, ARCH_PAGE_BYTES);
    *place = 0;
    return (void *)p;
}

/* Maps the first page of the shared memory that is open; NULL when it is not ours. */
static struct mlw_session *map_session(void)
{
    int fd = process_memory_fd();
    if (fd < 0)
        return 0;
    struct stat st;
    if (sys_fstat(fd, &st) || st.st_size < (off_t)mlw_window_offset(1))
        return 0;
    long p = sys_mmap(0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (sys_is_error(p))
        return 0;
    struct mlw_session *s = (struct mlw_session *)p;
    if (s->magic == MLW_SESSION_MAGIC && s->version == MLW_SESSION_VERSION) {
        s = (struct mlw_session *)to_place(s, &recorder.session_place, fd, 0);
        recorder.window_room = room_for_windows(st.st_size);
        return s;
    }
    sys_munmap(s, ARCH_PAGE_BYTES);
    return 0;
}

/* Says in a session of our own which file the recording is, by which what a kill leaves is saved.
 */
static void say_output(struct mlw_session *s)
{
    if (recorder.output.fd < 0)
        return;
    s->output_device = recorder.output.dev;
    s->output_inode = recorder.output.ino;
}

/* Shared memory of our own: no `mallow record` runs beside us. */
static struct mlw_session *make_own_session(void)
{
    char *to = recorder.session_path;
    memcpy(to, "/dev/shm/mallow-", 16);
    to = put_number(to + 16, recorder.pid);
    *to++ = '-';
    to = put_number(to, clock_now(recorder.clock_kind));
    *to = 0;
    long fd =
        sys_openat(AT_FDCWD, recorder.session_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    off_t bytes = (off_t)mlw_window_offset(MLW_PROCESS_WINDOWS);
    uint64_t limit[2];
    if (!sys_getrlimit(RLIMIT_FSIZE, limit)) /* beyond it, ftruncate raises a signal */
        while (bytes > (off_t)mlw_window_offset(0) && (uint64_t)bytes > limit[0])
            bytes -= MLW_WINDOW_BYTES;
    recorder.window_room = room_for_windows(bytes);
    /* the pages that are written before anything else; a buffer's when it is taken */
    if (!recorder.window_room || sys_ftruncate((int)fd, bytes) ||
        sys_fallocate((int)fd, 0, 0, 8192) || !own_take(&recorder.memory, fd)) {
        sys_close((int)fd);
        sys_unlinkat(AT_FDCWD, recorder.session_path, 0);
        return 0;
    }
    long p =
        sys_mmap(0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, recorder.memory.fd, 0);
    if (sys_is_error(p)) {
        sys_unlinkat(AT_FDCWD, recorder.session_path, 0);
        return 0;
    }
    struct mlw_session *s = (struct mlw_session *)p;
    s->magic = MLW_SESSION_MAGIC;
    s->version = MLW_SESSION_VERSION;
    s->clock_kind = tsc_is_sound() ? MLW_CLOCK_TSC : MLW_CLOCK_MONOTONIC_NS;
    s->stack_mode = settings_stacks();
    s->initial_control = setting_on("MALLOW_PAUSED") ? 0 : MLW_CTL_STARTED;
    s->options = (setting_on("MALLOW_ENVIRONMENT") ? MLW_OPT_ENVIRONMENT : 0u) |
                 (setting_on("MALLOW_NO_FOLLOW") ? MLW_OPT_NO_FOLLOW : 0u) |
                 (setting_on("MALLOW_PATHS") ? MLW_OPT_ROUTES : 0u);
    memcpy(s->output, recorder.output_path, sizeof s->output);
    say_output(s); /* a child of fork has it open already */
    return s;
}

/* The session: of the `mallow record` that started us, else our own. */
static bool find_session(const char *output)
{
    const char *path = settings_session();
    recorder.session = 0;
    recorder.memory.fd = -1;
    if (path && strlen(path) < sizeof recorder.session_path) {
        strcpy(recorder.session_path, path);
        recorder.session = map_session();
        if (!recorder.session &&
            recorder.memory.fd >= 0) { /* the path leads to another user's file */
            sys_close(recorder.memory.fd);
            recorder.memory.fd = -1;
        }
        if (!recorder.session && own_take_handed())
            recorder.session = map_session();
    }
    recorder.lone = !recorder.session || !recorder.session->parent_pid;
    if (recorder.session)
        output = recorder.session->output;
    if (!output || !*output || !set_output_path(output))
        return false;
    if (!recorder.session) {
        recorder.session = make_own_session();
        if (!recorder.session)
            return false;
    }
    recorder.clock_kind = recorder.session->clock_kind;
    recorder.stack_mode = recorder.session->stack_mode;
    return true;
}

/* The recording is there to be appended to, or begun. 0, or why it cannot be. */
static const char *open_output(void)
{
    struct stat st;
    const char *why = own_open_output(recorder.lone);
    if (!recorder.lone)
        return 0; /* unwritable for us: the parent writes */
    if (why)
        return why;
    if (sys_fstat(recorder.output.fd, &st))
        return "cannot be opened";
    say_output(recorder.session);
    if (!st.st_size)
        say_file();
    return 0;
}

/* A free entry of the table, marked STARTING; NULL when there is none. Tickets go round: a
 * recording may have any number of processes one after the other. */
static struct mlw_process *claim_entry(struct mlw_session *s, int fd)
{
    uint32_t ticket = __atomic_fetch_add(&s->next_process, 1, __ATOMIC_RELAXED);
    /* an exec of the program itself is no child */
    if (s->options & MLW_OPT_NO_FOLLOW && ticket > 0 && recorder.pid != s->program_pid)
        return 0;
    for (uint32_t i = 0; i < 1024; i++) {
        uint64_t offset = mlw_process_offset((ticket + i) % MLW_PROCESSES);
        long p = sys_mmap(0, ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                          (off_t)(offset & ~(ARCH_PAGE_BYTES - 1)));
        if (sys_is_error(p))
            return 0;
        struct mlw_process *me =
            (struct mlw_process *)((uint8_t *)p + (offset & (ARCH_PAGE_BYTES - 1)));
        uint32_t none = MLW_PROC_FREE;
        if (__atomic_compare_exchange_n(&me->state, &none, MLW_PROC_STARTING, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            p = (long)to_place((void *)p, &recorder.process_place, fd,
                               offset & ~(ARCH_PAGE_BYTES - 1));
            return (struct mlw_process *)((uint8_t *)p + (offset & (ARCH_PAGE_BYTES - 1)));
        }
        sys_munmap((void *)p, ARCH_PAGE_BYTES);
    }
    return 0;
}

/* Our entry in the table, and the first window of buffers. */
static bool claim_process_entry(void)
{
    struct mlw_session *s = recorder.session;
    int fd = process_memory_fd();
    struct mlw_process *me = fd < 0 ? 0 : claim_entry(s, fd);
    if (!me)
        return false;
    uint32_t window = __atomic_fetch_add(&s->next_window, 1, __ATOMIC_RELAXED);
    void *w = process_map_window(window);
    if (!w) {
        __atomic_store_n(&me->state, MLW_PROC_FREE, __ATOMIC_RELEASE);
        sys_munmap((void *)((uint64_t)me & ~(ARCH_PAGE_BYTES - 1)), ARCH_PAGE_BYTES);
        return false;
    }
    uint64_t private_bytes = recorder.process ? recorder.process->private_bytes : 0;
    recorder.process = me;
    recorder.windows[0] = w;
    for (unsigned i = 0; i < MLW_PROCESS_WINDOWS; i++)
        recorder.window_number[i] = i ? 0 : window + 1;
    recorder.slots_used = 0;
    me->pid = recorder.pid;
    me->pid_namespace = guest_pid_namespace();
    me->image = recorder.image;
    me->forked_from = recorder.forked_from;
    me->private_bytes = private_bytes;
    me->window[0] = window;
    me->windows = 1;
    me->heap_bytes = next_facts.glibc ? next_facts.heap_bytes : 0;
    unseen_begin();
    return true;
}

static void go_live(uint64_t start_clock)
{
    struct mlw_process *me = recorder.process;
    uint32_t control = __atomic_load_n(&recorder.session->initial_control, __ATOMIC_ACQUIRE);
    if (control & MLW_CTL_STARTED && !(control & MLW_CTL_PAUSED))
        control |= MLW_CTL_ACTIVE;
    if (recorder.forked_from && me->control)
        control = me->control;
    control += (recorder.round << 20); /* 0 but when attached to */
    me->start_clock = start_clock;
    me->control = control;
    __atomic_store_n(&me->state, MLW_PROC_LIVE, __ATOMIC_RELEASE);
}

/* The file is named as it was given. */
static void say_of_output(const char *what)
{
    static char text[MLW_PATH_BYTES + 256];
    const char *name = guest_setting(MLW_ENV_OUTPUT);
    const char *const parts[] = {"mallow: ", name ? name : "the recording", " ", what,
                                 ": this process is not recorded\n"};
    size_t n = 0;
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t m = strnlen(parts[i], MLW_PATH_BYTES);
        if (n + m >= sizeof text)
            return;
        memcpy(text + n, parts[i], m);
        n += m;
    }
    text[n] = 0;
    process_say(text);
}

static uint64_t draw_image_number(void)
{
    return (uint64_t)recorder.pid << 40 ^ (clock_now(recorder.clock_kind) & ((1ull << 40) - 1));
}

void process_join_first(void)
{
    const char *output = guest_setting(MLW_ENV_OUTPUT);
    struct stat st;
    if (!recorder.attached && !sys_fstat(2, &st)) {
        recorder.terminal.dev = st.st_dev;
        recorder.terminal.ino = st.st_ino;
    }
    if (!(output && *output) && !settings_session()) {
        stay_off("mallow: MALLOW_OUTPUT is not set: nothing is recorded (set it to the file to "
                 "write)\n");
        return;
    }
    /* A page that fork empties shows a child that it is one; without it we must not record at
     * all. */
    if (sys_madvise(&wiped, ARCH_PAGE_BYTES, MADV_WIPEONFORK)) {
        stay_off("mallow: MADV_WIPEONFORK is refused (Linux 4.14 has it): nothing is recorded\n");
        return;
    }
    if (!settings_session() && settings_leave_out()) {
        stay_off(0);
        return;
    }
    const char *why = find_session(output) ? open_output() : "has no shared memory";
    if (why) {
        say_of_output(why);
        stay_off(0);
        const char *given = settings_session();
        if (recorder.lone && recorder.session && !(given && !strcmp(given, recorder.session_path)))
            sys_unlinkat(AT_FDCWD, recorder.session_path, 0);
        if (recorder.session)
            __atomic_fetch_add(&recorder.session->unrecorded, 1, __ATOMIC_RELAXED);
        return;
    }
    recorder.misses_jemalloc = !entry_jemalloc();
    if (!recorder.attached)
        recorder.led = bindings_lead();
    recorder.image = draw_image_number();
    if (!claim_process_entry()) {
        stay_off(recorder.session->options & MLW_OPT_NO_FOLLOW
                     ? 0
                     : "mallow: no room in the recording's shared memory: this process is not "
                       "recorded\n");
        __atomic_fetch_add(&recorder.session->unrecorded, 1, __ATOMIC_RELAXED);
        return;
    }
    if (!strcmp(next_facts.name, "tcmalloc")) {
        /* it allocates when it is first asked for a size: not within the program's first call
         */
        void *p = next.malloc(1);
        if (p)
            next.malloc_usable_size(p);
        next.free(p);
    }
    uint64_t start = clock_now(recorder.clock_kind);
    if (recorder.stack_mode != MLW_STACKS_NONE &&
        unwind_init(next_facts.dl_find_object, next_facts.stack_end))
        recorder.stack_mode = MLW_STACKS_NONE;
    if (next_facts.curbrk)
        recorder.break_at = (const uint64_t *)next_facts.curbrk;
    recorder.last_break = *recorder.break_at;
    routes_begin();
    describe_process(recorder.session->options & MLW_OPT_ENVIRONMENT);
    if (!say_who(start)) {
        stay_unknown();
        return;
    }
    stream_key_init();
    go_live(start);
}

static void record_join_after_fork(void)
{
    uint64_t start = process_fork_clock ? process_fork_clock : clock_now(recorder.clock_kind);
    uint32_t control = recorder.process->control;
    struct mlw_process *old = recorder.process;
    if (sys_closed) { /* nothing of its own can be had */
        stay_off(0);
        __atomic_fetch_add(&recorder.session->unrecorded, 1, __ATOMIC_RELAXED);
        return;
    }
    recorder.pid = (uint32_t)sys_getpid();
    recorder.forked_from = recorder.image;
    recorder.before[0] = recorder.before[1] = UINT64_MAX;
    recorder.image = draw_image_number();
    recorder.ending = false;
    const uint64_t live = stream_live_bytes();
    /* A signal handler may have forked in the midst of one of our calls: its buffer must stay
     * writable for the rest of that call, and must not be the parent's. */
    for (unsigned i = 0; i < MLW_PROCESS_WINDOWS; i++) {
        if (recorder.windows[i])
            sys_mmap(recorder.windows[i], MLW_WINDOW_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        recorder.windows[i] = 0;
    }
    bool ok = !(recorder.session->options & MLW_OPT_NO_FOLLOW);
    if (ok && recorder.lone) {
        recorder.session = make_own_session();
        ok = recorder.session != 0;
        if (ok) { /* by which a reader knows that it is of this recording */
            recorder.session->output_device = recorder.output.dev;
            recorder.session->output_inode = recorder.output.ino;
        }
    }
    if (!ok || !claim_process_entry()) {
        stay_off(0);
        if (recorder.session)
            __atomic_fetch_add(&recorder.session->unrecorded, 1, __ATOMIC_RELAXED);
        return;
    }
    sys_munmap((void *)((uint64_t)old & ~(ARCH_PAGE_BYTES - 1)), ARCH_PAGE_BYTES);
    recorder.process->control = control & ~(uint32_t)MLW_CTL_RESET;
    if (!say_who(start)) {
        stay_unknown();
        return;
    }
    go_live(start);
    wiped.control = &recorder.process->control;
    stream_after_fork(live);
}

static void wake_session(void)
{
    extern char **environ;
    uint32_t zero = 0;
    if (wiped.control || !environ)
        return;
    if (!__atomic_compare_exchange_n(&wiped.waking, &zero, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    if (next_resolve()) {
        if (!recorder.off && !recorder.pid && sandbox_inherited())
            stay_off(0);
        if (recorder.off) {
            wiped.control = &process_no_control;
        } else {
            if (!recorder.pid) {
                recorder.pid = (uint32_t)sys_getpid();
                process_join_first();
            } else {
                record_join_after_fork();
            }
            wiped.control = recorder.off ? &process_no_control : &recorder.process->control;
        }
    }
    wiped.waking = 0;
}

void process_wake(void)
{
    const bool back = arch_forwards();
    wake_session();
    arch_backwards(back);
}

/* ---- the end ---- */

/* Copies the rows that other threads still hold, for a process without `mallow record`. */
void process_write_interim(void)
{
    for (struct thread *t = recorder.threads; t; t = t->next) {
        if (t == thread_self || !t->owner || t->round != recorder.round || !t->chunk)
            continue; /* the buffer of an earlier round is no longer mapped */
        struct mlw_chunk head = *t->chunk;
        if (!head.payload_bytes)
            continue;
        head.flags |= MLW_CHUNK_INTERIM;
        stream_write_chunk(&head, (uint8_t *)t->chunk + sizeof head);
    }
}

bool process_has_parent(void)
{
    const int parent = (int)recorder.session->parent_pid;
    return parent && sys_tgkill(parent, parent, 0) != -ESRCH;
}

void process_ending(unsigned how, uint32_t status)
{
    if (!wiped.control || recorder.off || !recorder.process)
        return;
    /* vfork's child shares our memory: it is not the process that joined */
    if (!sys_closed && (uint32_t)sys_getpid() != recorder.pid)
        return;
    unseen_look();
    if (!sys_closed)
        stream_flush_own(recorder.lone);
    recorder.process->end_status = status;
    recorder.process->end_how = how;
    if (sys_closed || (!recorder.lone && process_has_parent()))
        return; /* the remaining rows are found there */
    process_write_interim();
    if (!recorder.lone)
        return; /* the parent was killed, and its memory goes with us */
    uint8_t buffer[1024];
    struct tlvs t = {buffer, buffer + sizeof buffer};
    uint64_t end[2] = {clock_now(recorder.clock_kind), how | (uint64_t)(status << 8) << 32};
    describe_put(&t, MLW_TLV_END, end, sizeof end);
    put_unseen(&t);
    if (chunk_of_tlvs(MLW_CHUNK_END, buffer, (size_t)(t.at - buffer)))
        /* the first reader finds the rest, and the loss counters, in the shared memory */
        __atomic_store_n(&recorder.process->control, MLW_CTL_DEAD, __ATOMIC_RELEASE);
    else
        sys_unlinkat(AT_FDCWD, recorder.session_path, 0);
}

void process_executing(const char *path)
{
    if (!wiped.control || recorder.off || !recorder.process || sys_closed)
        return process_ending(MLW_END_EXEC, 0);
    if ((uint32_t)sys_getpid() != recorder.pid)
        return joins_note(path); /* vfork's child shares our memory: it did not join */
    size_t n = path ? strnlen(path, MLW_EXEC_BYTES - 1) : 0;
    memcpy(recorder.process->exec_path, path, n);
    recorder.process->exec_path[n] = 0;
    process_ending(MLW_END_EXEC, 0);
}

void process_not_ending(void)
{
    if (wiped.control && recorder.process && !recorder.off)
        recorder.process->end_how = MLW_END_UNKNOWN;
}

__attribute__((destructor)) static void end(void)
{
    if (!wiped.control || recorder.off)
        return;
    recorder.ending = recorder.lone;
    process_ending(MLW_END_EXIT, 0);
    struct thread *t = thread_self;
    if (t && !t->busy && recorder.ending)
        t->limit = t->position + 1;
}
