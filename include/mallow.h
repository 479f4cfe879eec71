/* mallow.h - control of a recording from inside the program.
 *
 * A program that calls these links without any library of mallow and runs without it: each call is
 * then nothing. Under `mallow record`, or with libmallow-record.so preloaded, they act on the
 * recording of the calling process. All may be called from any thread, and from signal handlers. */
#ifndef MALLOW_H
#define MALLOW_H

#ifdef __cplusplus
extern "C" {
#endif

/* MALLOW_CALL_: NAME calls the preloaded library's function of that name, if there is one. */
#define MALLOW_CALL_(name, declared, passed)                                                       \
    extern void name##_loaded declared __asm__(#name) __attribute__((weak));                       \
    static __inline__ void name declared __asm__(#name "_if_loaded");                              \
    static __inline__ __attribute__((unused)) void name declared                                   \
    {                                                                                              \
        if (name##_loaded)                                                                         \
            name##_loaded passed;                                                                  \
    }

/* Joins the recording now instead of at the first allocation. */
MALLOW_CALL_(mallow_init, (void), ())
/* Begins recording if it was stopped (record --paused, or mallow_stop). Called again: nothing. */
MALLOW_CALL_(mallow_start, (void), ())
/* Ends recording until mallow_start; what the caller has buffered is written out. */
MALLOW_CALL_(mallow_stop, (void), ())
/* Suspends and resumes: calls made between the two are forwarded and not recorded. */
MALLOW_CALL_(mallow_pause, (void), ())
MALLOW_CALL_(mallow_unpause, (void), ())
/* Writes out what the calling thread has buffered; other threads follow at their next call. */
MALLOW_CALL_(mallow_sync, (void), ())
/* Forgets what was recorded so far: reports begin here. Blocks that are live stay unknown. */
MALLOW_CALL_(mallow_reset, (void), ())
/* A named moment in the recording. The label is copied (at most 1023 bytes of it). */
MALLOW_CALL_(mallow_mark, (const char *label), (label))

#undef MALLOW_CALL_

/* The same as macros. */
#define MALLOW_START()     mallow_start()
#define MALLOW_STOP()      mallow_stop()
#define MALLOW_PAUSE()     mallow_pause()
#define MALLOW_UNPAUSE()   mallow_unpause()
#define MALLOW_SYNC()      mallow_sync()
#define MALLOW_RESET()     mallow_reset()
#define MALLOW_MARK(label) mallow_mark(label)

#ifdef __cplusplus
}
#endif
#endif
