/* slots.h - the buffers of one recorded process, read and emptied from outside.
 *
 * Owns: mapping a process's windows, writing out buffers that it handed over (FULL), copying those
 * still in use (INTERIM), and saving the rest when it is gone. Rows are decoded before they are
 * written: a chunk ends at its last whole row, and its calls are counted. Nothing in a buffer is
 * trusted: it was written by a foreign program, possibly killed in the middle. One thread. */
#ifndef MALLOW_RECORD_SLOTS_H
#define MALLOW_RECORD_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "record/shm.h"
#include "record/sink.h"

/* The state of a slot at the last interim copy. */
struct slot_copied {
    uint64_t next_ns; /* not copied again before */
    uint32_t thread, lane, sequence;
    uint32_t bytes; /* the bytes of payload, copied then or found when first seen */
    bool seen;
};

struct slots {
    uint32_t windows;
    bool taken[MLW_PROCESS_WINDOWS]; /* seen, and mapped if that was possible */
    uint32_t number[MLW_PROCESS_WINDOWS];
    struct mlw_chunk *window[MLW_PROCESS_WINDOWS];   /* NULL: could not be mapped */
    struct slot_copied *copied[MLW_PROCESS_WINDOWS]; /* NULL until an interim copy */
};

/* Maps the windows that the process claimed since the last call. */
void slots_refresh(struct slots *s, const struct shm *shm, const struct mlw_process *entry);

/* Appends FULL buffers and sets them FREE. It does so even if they could not be written, because
 * the process must get them back; the sink counts the loss. Returns how many. */
unsigned slots_drain(struct slots *s, const struct shm *shm, struct sink *sink);

/* Appends copies of buffers in use as INTERIM chunks: those that grew since the last copy and
 * have held rows for a second or more, or, with `whole_until`, all that grew. If a buffer could
 * not be copied, *whole_until is lowered to the recording's clock from which its rows are
 * missing. Returns the bytes written. */
uint64_t slots_interim(struct slots *s, const struct shm *shm, struct sink *sink, uint64_t now_ns,
                       uint64_t *whole_until);

/* The process `image` is gone or replaced: appends the remaining content of its buffers. */
void slots_finish(struct slots *s, const struct shm *shm, struct sink *sink, uint64_t image);

/* Reads the thread pointers of all threads except the first (tid == pid), whose pointer goes
 * into *first (0: not known). Returns how many, at most room. */
unsigned slots_thread_pointers(struct slots *s, const struct shm *shm, uint32_t pid,
                               uint64_t *pointers, unsigned room, uint64_t *first);

/* Returns the clock before which all rows of the first `buffers` buffers were written, at most
 * `clock`. They are in the file if its size is asked for afterwards. 0: not known. */
uint64_t slots_written_until(const struct slots *s, uint32_t buffers, uint64_t clock);

/* Returns the usable bytes of the live blocks, by the first `buffers` buffers; never below 0. */
uint64_t slots_live_bytes(const struct slots *s, uint32_t buffers);

/* Unmaps the windows; with `punch` it also returns their memory to the system. */
void slots_close(struct slots *s, const struct shm *shm, bool punch);

#endif
