/* control.c - the beginning of a preloaded library, and the control functions of mallow.h. From
 * outside, `mallow control` changes the same word. */
#include <string.h>

#include "recorder.h"

static struct thread *enter_any(uint64_t sp)
{
    struct thread *t = thread_self;
    if (!t || t->busy)
        t = thread_enter_slow(sp);
    if (t)
        t->busy = sp;
    return t;
}

/* Sets and clears bits of the control word, with a row that says so. */
static void change_control_word(uint32_t set, uint32_t clear, unsigned row, bool flush)
{
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    if (!wiped.control)
        process_wake();
    if (!wiped.control || recorder.off || !recorder.process)
        return;
    uint32_t old = recorder.process->control, word;
    if (old & MLW_CTL_DEAD)
        return;
    struct thread *t = enter_any(sp);
    do {
        word = (old | set) & ~clear & ~(uint32_t)MLW_CTL_ACTIVE;
        if (word & MLW_CTL_STARTED && !(word & MLW_CTL_PAUSED))
            word |= MLW_CTL_ACTIVE;
        if (flush)
            word += MLW_CTL_EPOCH;
    } while (!__atomic_compare_exchange_n(&recorder.process->control, &old, word, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    if (t) {
        bool changed = ((old ^ word) & (MLW_CTL_STARTED | MLW_CTL_PAUSED)) != 0;
        if (changed || row == MLW_CONTROL_SYNC || row == MLW_CONTROL_RESET)
            stream_control_row(t, row);
        if (flush)
            stream_flush(t);
        t->seen = word;
        thread_leave(t);
    }
}

#define API EXPORT __attribute__((used))

API void mallow_init(void);
API void mallow_start(void);
API void mallow_stop(void);
API void mallow_pause(void);
API void mallow_unpause(void);
API void mallow_sync(void);
API void mallow_reset(void);
API void mallow_mark(const char *label);

/* The constructor has no name that a program could define. */
__attribute__((constructor(101))) static void begin(void)
{
    if (!wiped.control)
        process_wake();
}

void mallow_init(void) { begin(); }

void mallow_start(void) { change_control_word(MLW_CTL_STARTED, 0, MLW_CONTROL_START, false); }
void mallow_stop(void) { change_control_word(0, MLW_CTL_STARTED, MLW_CONTROL_STOP, true); }
void mallow_pause(void) { change_control_word(MLW_CTL_PAUSED, 0, MLW_CONTROL_PAUSE, false); }
void mallow_unpause(void) { change_control_word(0, MLW_CTL_PAUSED, MLW_CONTROL_UNPAUSE, false); }
void mallow_sync(void) { change_control_word(0, 0, MLW_CONTROL_SYNC, true); }
void mallow_reset(void) { change_control_word(0, 0, MLW_CONTROL_RESET, false); }

void mallow_mark(const char *label)
{
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    if (!wiped.control)
        process_wake();
    if (!wiped.control || recorder.off || !recorder.process || !label)
        return;
    if (!(recorder.process->control & MLW_CTL_STARTED))
        return;
    struct thread *t = enter_any(sp);
    if (!t)
        return;
    uint8_t head[10];
    uint64_t clock = clock_now(t->clock_kind);
    uint16_t n = (uint16_t)strnlen(label, 1023);
    memcpy(head, &clock, 8);
    memcpy(head + 8, &n, 2);
    stream_meta(t, MLW_META_MARK, head, sizeof head, label, n);
    __atomic_fetch_add(&recorder.process->marks, 1, __ATOMIC_RELEASE);
    thread_leave(t);
}
