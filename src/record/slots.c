/* slots.c - see slots.h. Refuses to write a row that it could not decode. */
#include "slots.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "format/row.h"

#define PAYLOAD_ROOM (MLW_SLOT_BYTES - (uint32_t)sizeof(struct mlw_chunk))

void slots_refresh(struct slots *s, const struct shm *shm, const struct mlw_process *entry)
{
    uint32_t n = __atomic_load_n(&entry->windows, __ATOMIC_ACQUIRE);
    if (n > MLW_PROCESS_WINDOWS)
        n = MLW_PROCESS_WINDOWS;
    for (; s->windows < n; s->windows++) {
        uint32_t number = __atomic_load_n(&entry->window[s->windows], __ATOMIC_RELAXED);
        s->number[s->windows] = number;
        s->window[s->windows] = shm_map_window(shm, number);
        s->taken[s->windows] = true;
    }
}

static uint64_t read_slot_state(const struct mlw_chunk *slot)
{
    return __atomic_load_n(&slot->slot_state, __ATOMIC_ACQUIRE);
}

static bool is_used(uint64_t state) { return state == MLW_SLOT_USED || state == MLW_SLOT_COPIED; }

/* A buffer must not be put together anew and copied at one time: each side announces itself first,
 * and then looks for the other (bound.c of the recorder). False: the buffer is not in use. */
static bool mark_copied(struct mlw_chunk *slot)
{
    uint64_t used = MLW_SLOT_USED;
    return __atomic_compare_exchange_n(&slot->slot_state, &used, MLW_SLOT_COPIED, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
           used == MLW_SLOT_COPIED;
}

static bool is_changing(const struct mlw_chunk *slot)
{
    return __atomic_load_n(&slot->flags, __ATOMIC_SEQ_CST) & MLW_CHUNK_CHANGING;
}

/* A private copy of a slot. */
struct copy {
    struct mlw_chunk head;
    uint8_t payload[PAYLOAD_ROOM];
};

/* Copies the slot with the whole rows that it has; false when there is nothing to write. *torn:
 * published rows cannot be read. */
static bool take_slot(const struct mlw_chunk *slot, struct copy *c, bool *torn)
{
    *torn = false;
    uint32_t bytes = __atomic_load_n(&slot->payload_bytes, __ATOMIC_ACQUIRE);
    if (!bytes)
        return false;
    if (bytes > PAYLOAD_ROOM)
        bytes = PAYLOAD_ROOM;
    memcpy(&c->head, slot, sizeof c->head);
    const bool is_process = c->head.type == MLW_CHUNK_PROCESS;
    if (c->head.magic != MLW_CHUNK_MAGIC || (c->head.type != MLW_CHUNK_EVENTS && !is_process) ||
        c->head.header_bytes != sizeof c->head)
        return false;
    memcpy(c->payload, (const uint8_t *)slot + sizeof c->head, bytes);
    c->head.flags = 0;
    if (is_process) { /* from a process that may not write the file; its readers check it */
        c->head.payload_bytes = bytes;
        return true;
    }
    uint32_t calls, claimed = c->head.calls;
    c->head.payload_bytes = mlw_whole_rows(
        c->payload, bytes, (struct mlw_row_state){c->head.base_clock, c->head.base_address, true},
        &calls);
    c->head.calls = calls;
    /* A call that the head counts and whose row was not published had not come to its end; but rows
     * that were published and cannot be read are a loss. */
    *torn = c->head.payload_bytes < bytes;
    if (*torn)
        c->head.lost_calls += claimed > calls && claimed <= PAYLOAD_ROOM / 4 ? claimed - calls : 1;
    return c->head.payload_bytes != 0;
}

unsigned slots_drain(struct slots *s, const struct shm *shm, struct sink *sink)
{
    static struct copy c;
    bool torn;
    unsigned n = 0;
    for (uint32_t w = 0; w < s->windows; w++) {
        if (!s->window[w])
            continue;
        for (uint32_t i = 0; (i = shm_next_touched(shm, s->number[w], i)) < MLW_WINDOW_SLOTS; i++) {
            struct mlw_chunk *slot = shm_slot(s->window[w], i);
            if (read_slot_state(slot) != MLW_SLOT_FULL)
                continue;
            if (take_slot(slot, &c, &torn))
                sink_write(sink, &c.head, c.payload, c.head.payload_bytes);
            __atomic_store_n(&slot->slot_state, MLW_SLOT_FREE, __ATOMIC_RELEASE);
            n++;
        }
    }
    return n;
}

#define SECOND_NS 1000000000u
#define TRIES     20

/* Copies a slot in use, and appends it; false when it changed meanwhile. *bytes: of its payload,
 * as large as it is now; *written is added to. */
static bool copy_in_use(struct mlw_chunk *slot, uint32_t *bytes, struct sink *sink,
                        uint64_t *written)
{
    static struct copy c;
    bool torn;
    if (!mark_copied(slot))
        return false;
    /* Before anything else: at the bound of a flight recorder the process puts rows together anew,
     * see bound.c of the recorder. */
    const uint64_t lost = __atomic_load_n(&slot->lost_calls, __ATOMIC_SEQ_CST);
    if (is_changing(slot))
        return false;
    *bytes = __atomic_load_n(&slot->payload_bytes, __ATOMIC_ACQUIRE);
    /* The buffer may have left and begun anew meanwhile: then its rows are in the file, and the
     * copy may be of both. Rows torn for another reason are counted at the end. */
    if (!take_slot(slot, &c, &torn) || torn || c.head.type != MLW_CHUNK_EVENTS)
        return false;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (read_slot_state(slot) != MLW_SLOT_COPIED || is_changing(slot) ||
        __atomic_load_n(&slot->lost_calls, __ATOMIC_SEQ_CST) != lost ||
        slot->sequence != c.head.sequence || slot->thread != c.head.thread ||
        slot->lane != c.head.lane || slot->image != c.head.image ||
        __atomic_load_n(&slot->payload_bytes, __ATOMIC_ACQUIRE) < c.head.payload_bytes)
        return false;
    c.head.flags = MLW_CHUNK_INTERIM;
    if (!sink_write(sink, &c.head, c.payload, c.head.payload_bytes))
        *written += sizeof c.head + c.head.payload_bytes;
    return true;
}

/* The same, if it is due. False: it was, and could not be had. */
static bool copy_if_due(struct mlw_chunk *slot, struct slot_copied *was, struct sink *sink,
                        uint64_t now_ns, bool now_all, uint64_t *written)
{
    uint32_t bytes = __atomic_load_n(&slot->payload_bytes, __ATOMIC_ACQUIRE);
    if (read_slot_state(slot) == MLW_SLOT_LEAVING)
        return false;
    if (!is_used(read_slot_state(slot)) || (!bytes && !is_changing(slot)))
        return true;
    const bool same = was->seen && was->thread == slot->thread && was->lane == slot->lane &&
                      was->sequence == slot->sequence;
    if (!same)
        *was = (struct slot_copied){.seen = true,
                                    .thread = slot->thread,
                                    .lane = slot->lane,
                                    .sequence = slot->sequence,
                                    .next_ns = now_ns + SECOND_NS / 2};
    if (!is_changing(slot) && (bytes <= was->bytes || (!now_all && now_ns < was->next_ns)))
        return true;
    if (!copy_in_use(slot, &bytes, sink, written))
        return false;
    /* The next copy after a second when the buffer grows fast, after five when it does not: the
     * copies of one buffer then stay within a few times its size. */
    was->next_ns = now_ns + (bytes - was->bytes > was->bytes / 4 ? 1 : 5) * (uint64_t)SECOND_NS;
    was->bytes = bytes;
    return true;
}

uint64_t slots_interim(struct slots *s, const struct shm *shm, struct sink *sink, uint64_t now_ns,
                       uint64_t *whole_until)
{
    uint64_t written = 0;
    for (uint32_t w = 0; w < s->windows; w++) {
        if (!s->window[w])
            continue;
        if (!s->copied[w] && !(s->copied[w] = calloc(MLW_WINDOW_SLOTS, sizeof *s->copied[w])))
            continue;
        for (uint32_t i = 0; (i = shm_next_touched(shm, s->number[w], i)) < MLW_WINDOW_SLOTS; i++) {
            struct mlw_chunk *slot = shm_slot(s->window[w], i);
            unsigned tries = whole_until ? TRIES : 1;
            bool done;
            while (!(done = copy_if_due(slot, &s->copied[w][i], sink, now_ns, whole_until != NULL,
                                        &written)) &&
                   --tries)
                sched_yield();
            if (!done && whole_until && slot->base_clock < *whole_until)
                *whole_until = slot->base_clock;
        }
    }
    return written;
}

void slots_finish(struct slots *s, const struct shm *shm, struct sink *sink, uint64_t image)
{
    static struct copy c;
    bool torn;
    for (uint32_t w = 0; w < s->windows; w++) {
        if (!s->window[w])
            continue;
        for (uint32_t i = 0; (i = shm_next_touched(shm, s->number[w], i)) < MLW_WINDOW_SLOTS; i++) {
            struct mlw_chunk *slot = shm_slot(s->window[w], i);
            if (read_slot_state(slot) == MLW_SLOT_FREE || !take_slot(slot, &c, &torn) ||
                c.head.image != image)
                continue;
            c.head.flags = c.head.type == MLW_CHUNK_EVENTS ? MLW_CHUNK_RECOVERED : 0;
            sink_write(sink, &c.head, c.payload, c.head.payload_bytes);
            __atomic_store_n(&slot->slot_state, MLW_SLOT_FREE, __ATOMIC_RELEASE);
        }
    }
}

unsigned slots_thread_pointers(struct slots *s, const struct shm *shm, uint32_t pid,
                               uint64_t *pointers, unsigned room, uint64_t *first)
{
    unsigned n = 0;
    *first = 0;
    for (uint32_t w = 0; w < s->windows; w++) {
        if (!s->window[w])
            continue;
        for (uint32_t i = 0; (i = shm_next_touched(shm, s->number[w], i)) < MLW_WINDOW_SLOTS; i++) {
            const struct mlw_chunk *slot = shm_slot(s->window[w], i);
            const uint64_t pointer = slot->thread_pointer;
            if (read_slot_state(slot) == MLW_SLOT_FREE || !pointer)
                continue;
            if (slot->tid == pid)
                *first = pointer;
            else if (n < room)
                pointers[n++] = pointer;
        }
    }
    return n;
}

uint64_t slots_written_until(const struct slots *s, uint32_t buffers, uint64_t clock)
{
    for (uint32_t i = 0; i < buffers; i++) {
        const uint32_t w = i / MLW_WINDOW_SLOTS;
        if (w >= s->windows || !s->window[w])
            return 0;
        const struct mlw_chunk *slot = shm_slot(s->window[w], i % MLW_WINDOW_SLOTS);
        /* A head that is being written may still have the clock of before, which is earlier. */
        const uint64_t base = __atomic_load_n(&slot->base_clock, __ATOMIC_ACQUIRE);
        if (read_slot_state(slot) != MLW_SLOT_FREE && base < clock)
            clock = base;
    }
    return clock;
}

uint64_t slots_live_bytes(const struct slots *s, uint32_t buffers)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < buffers && i / MLW_WINDOW_SLOTS < s->windows; i++) {
        struct mlw_chunk *window = s->window[i / MLW_WINDOW_SLOTS];
        if (!window) {
            i |= MLW_WINDOW_SLOTS - 1;
            continue;
        }
        const struct mlw_chunk *slot = shm_slot(window, i % MLW_WINDOW_SLOTS);
        if (is_used(read_slot_state(slot)))
            sum += __atomic_load_n(&slot->live_bytes, __ATOMIC_RELAXED);
    }
    return sum >> 63 ? 0 : sum;
}

void slots_close(struct slots *s, const struct shm *shm, bool punch)
{
    for (uint32_t w = 0; w < s->windows; w++) {
        shm_unmap_window(s->window[w]);
        free(s->copied[w]);
        if (punch)
            shm_punch_window(shm, s->number[w]);
    }
    *s = (struct slots){0};
}
