/* attached.c - the recorder begins in a process that runs, and ends there.
 *
 * Loading libmallow-attach-record.so does nothing. mallow_attach_begin and mallow_attach_end are
 * called by a thread that src/inject has borrowed (../attach/redirect.h). Between them the process
 * is one of the recording, as if the library had been preloaded. Afterwards the entries pass calls
 * on, since threads may be inside them.
 *
 * Threads may also be in the middle of a recording call at the end: memory stands where the
 * recording's was, and the files stay open until none is. A new beginning waits for them, too. Each
 * thread then finds by the control word, which was never the same before, that its buffer is of an
 * earlier round. */
#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>
#include <string.h>

#include "recorder.h"

#include "arch/page.h"
#include "preload/attach/redirect.h"

#define MAPPING_FUNCTIONS(X) X(mmap) X(mmap64) X(munmap) X(mremap) X(brk) X(sbrk) X(fork)
NEXT_EXPORTED(ENTRY_ADDRESS_OF)
ENTRY_ADDRESS(cfree)
MAPPING_FUNCTIONS(ENTRY_ADDRESS)
GUEST_FUNCTIONS(ENTRY_ADDRESS)

const struct binding *entry_bindings(unsigned *count)
{
    static const struct binding list[] = {NEXT_EXPORTED(BINDING_OF) BINDING_OTHER(
        cfree) MAPPING_FUNCTIONS(BINDING_OTHER) GUEST_FUNCTIONS(BINDING_OTHER)};
    *count = sizeof list / sizeof *list;
    return list;
}

bool entry_jemalloc(void) { return true; } /* refused: the allocator is glibc's */

static struct {
    bool known;   /* the functions behind the calls were found */
    bool leading; /* the bindings lead to ours */
    bool joined;  /* at least once */
    bool ending;  /* the bindings lead back; the rest of this round is to be put away */
    char assignment[3][MLW_PATH_BYTES + 32];
} attached;

/* ---- what a round leaves ---- */

static void put_memory(void *at, size_t bytes)
{
    sys_mmap(at, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static void put_page(const volatile void *inside, void **place)
{
    if (!inside || *place)
        return;
    *place = (void *)((uint64_t)inside & ~(ARCH_PAGE_BYTES - 1));
    put_memory(*place, ARCH_PAGE_BYTES);
}

static void close_file(struct own_file *f)
{
    struct stat st;
    if (f->fd >= 0 && !sys_fstat(f->fd, &st) && st.st_dev == f->dev && st.st_ino == f->ino)
        sys_close(f->fd);
    f->fd = -1;
}

static void close_files(void)
{
    close_file(&recorder.output);
    close_file(&recorder.memory);
}

static bool files_are_open(void) { return recorder.output.fd >= 0 || recorder.memory.fd >= 0; }

/* Nothing is recorded any more; private memory stands where the recording's was. */
static void put_away(void)
{
    recorder.off = true;
    wiped.control = &process_no_control;
    for (unsigned i = 0; i < MLW_PROCESS_WINDOWS; i++)
        if (recorder.windows[i])
            put_memory(recorder.windows[i], MLW_WINDOW_BYTES);
    put_page(recorder.process, &recorder.process_place);
    put_page(recorder.session, &recorder.session_place);
    if (!stream_is_busy())
        close_files();
}

/* ---- begin ---- */

/* The bytes that glibc's arenas have given out, the blocks in its threads' caches included. */
static uint64_t used_bytes(void)
{
    struct mallinfo2 (*ask)(void) = (struct mallinfo2(*)(void))(uintptr_t)next_symbol("mallinfo2");
    if (!ask)
        return UINT64_MAX;
    const struct mallinfo2 now = ask();
    return now.uordblks + now.hblkhd;
}

/* Programs that it starts load libmallow-record.so, into the same recording. */
static void keep_for_successors(const struct mlw_attach *a)
{
    char(*to)[MLW_PATH_BYTES + 32] = attached.assignment;
    to[0][0] = to[1][0] = to[2][0] = 0;
    if (*a->preload) {
        strcpy(to[0], a->preload);
        strcpy(stpcpy(to[1], MLW_ENV_SESSION "="), a->session);
        strcpy(stpcpy(to[2], MLW_ENV_OUTPUT "="), recorder.session->output);
    }
    for (unsigned i = 0; i < 3; i++)
        exec_keep(i, to[i]);
}

/* Forgets the state of an earlier round, which nothing uses now. */
static bool forget_round(void)
{
    if (stream_is_busy())
        return false;
    for (unsigned i = 0; i < MLW_PROCESS_WINDOWS; i++) {
        if (recorder.windows[i])
            sys_munmap(recorder.windows[i], MLW_WINDOW_BYTES);
        recorder.windows[i] = 0;
    }
    if (recorder.description)
        unwind_host_unmap(recorder.description, RECORDER_DESCRIPTION_BYTES);
    close_files();
    recorder.description = 0;
    recorder.description_bytes = 0;
    recorder.forked_from = 0;
    recorder.misses_jemalloc = recorder.ending = recorder.may_not_write = false;
    recorder.output_path[0] = recorder.session_path[0] = 0;
    unwind_forget();
    return true;
}

static enum mlw_attach_result begin_attached(struct mlw_attach *a)
{
    if (a->version != MLW_ATTACH_VERSION)
        return MLW_ATTACH_VERSION_DIFFERS;
    if (sys_closed)
        return MLW_ATTACH_CONFINED;
    if (attached.leading && wiped.control && !recorder.off)
        return MLW_ATTACH_ALREADY;
    if (!attached.known && (!next_resolve() || !next_facts.glibc || !bindings_find(BINDINGS_FIRST)))
        return MLW_ATTACH_NO_ALLOCATOR;
    attached.known = true;
    a->preload[sizeof a->preload - 1] = a->session[sizeof a->session - 1] = 0;
    if (attached.joined && !forget_round())
        return MLW_ATTACH_BUSY;
    memcpy(recorder.given_session, a->session, sizeof recorder.given_session);
    recorder.before[0] = a->blocks;
    recorder.before[1] = a->measure ? used_bytes() : a->bytes;
    recorder.attached = true;
    recorder.off = false;
    recorder.round++;
    recorder.pid = (uint32_t)sys_getpid();
    attached.joined = true;
    process_join_first();
    if (recorder.off) {
        put_away();
        return MLW_ATTACH_NO_SEGMENT;
    }
    if (recorder.session->options & MLW_OPT_NO_FOLLOW)
        a->preload[0] = 0;
    keep_for_successors(a);
    wiped.control = &recorder.process->control;
    const long slots = bindings_change(true);
    if (slots < 0) {
        bindings_change(false);
        put_away();
        return MLW_ATTACH_NO_WRITE;
    }
    attached.leading = true;
    a->slots = (uint32_t)slots;
    return MLW_ATTACH_DONE;
}

static void begin_attached_locked(struct mlw_attach *a) { a->result = begin_attached(a); }

EXPORT int64_t mallow_attach_begin(struct mlw_attach *a);
int64_t mallow_attach_begin(struct mlw_attach *a)
{
    locked_do(begin_attached_locked, a);
    return locked_answer(a);
}

/* ---- end ---- */

static void end_attached_locked(struct mlw_attach *a)
{
    a->result = MLW_ATTACH_ALREADY;
    if (!attached.leading) {
        if (attached.joined && !sys_closed && !stream_is_busy())
            close_files();
        return;
    }
    a->result = MLW_ATTACH_CONFINED;
    if (sys_closed)
        return;
    if (!wiped.control)
        process_wake(); /* a fork that has called nothing yet */
    const bool here = !recorder.off && recorder.process;
    if (here)
        __atomic_and_fetch(&recorder.process->control, ~(uint32_t)MLW_CTL_ACTIVE, __ATOMIC_SEQ_CST);
    const long slots = bindings_change(false);
    a->result = slots < 0 ? MLW_ATTACH_NO_WRITE : MLW_ATTACH_DONE;
    if (slots < 0)
        return;
    attached.leading = false;
    a->slots = (uint32_t)slots;
    for (unsigned i = 0; i < 3; i++)
        exec_keep(i, attached.assignment[i] + strlen(attached.assignment[i]));
    attached.ending = here;
}

/* Threads may be in the middle of recording a call, and without a processor: they are waited for a
 * little. */
static void end_round(void)
{
    enum { LOOKS = 5, LOOK_MS = 1 };
    attached.ending = false;
    for (unsigned i = 0; i < LOOKS && stream_is_busy(); i++)
        locked_wait(LOOK_MS);
    if (!process_has_parent()) { /* it was killed: what it would collect is appended here */
        stream_flush_own(true);
        process_write_interim();
    }
    put_away();
}

EXPORT int64_t mallow_attach_end(struct mlw_attach *a);
int64_t mallow_attach_end(struct mlw_attach *a)
{
    locked_do(end_attached_locked, a);
    if (attached.ending)
        end_round();
    a->busy = attached.joined && !attached.leading && files_are_open();
    return locked_answer(a);
}
