/* sink.c - see sink.h. The writes of mallow record, and the clock that stamps them. */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "arch/clock.h"
#include "base/clock.h"
#include "format/settings.h"
#include "trust/file.h"

/* An iovec is for reading and writing; ours are only read from. */
static void *unconst(const void *p)
{
    void *q;
    memcpy(&q, &p, sizeof q);
    return q;
}

int sink_write(struct sink *s, struct mlw_chunk *c, const void *payload, size_t payload_bytes)
{
    c->magic = MLW_CHUNK_MAGIC;
    c->header_bytes = sizeof *c;
    c->payload_bytes = (uint32_t)payload_bytes;
    memset(c->reserved, 0, sizeof c->reserved);
    c->checksum = mlw_chunk_checksum(c, payload);

    struct iovec parts[2] = {{c, sizeof *c}, {unconst(payload), payload_bytes}};
    size_t whole = sizeof *c + payload_bytes;
    ssize_t n;
    if (s->fd < 0) {
        n = -1;
        errno = EBADF;
    } else {
        do
            n = writev(s->fd, parts, payload_bytes ? 2 : 1);
        while (n < 0 && errno == EINTR);
    }
    if (n > 0)
        s->bytes += (uint64_t)n;
    if (n >= 0 && (size_t)n == whole) {
        s->chunks++;
        return 0;
    }
    s->failed++;
    if (c->type == MLW_CHUNK_EVENTS && !(c->flags & MLW_CHUNK_INTERIM))
        s->failed_calls += c->calls;
    s->last_errno =
        n < 0 ? errno : ENOSPC; /* a short write to a file: the disk or a limit is full */
    return -1;
}

/* A SPACE chunk over `bytes` of the file at `at`. */
static int write_space(int fd, uint64_t at, size_t bytes)
{
    static const uint8_t zeros[16384];
    if (bytes < sizeof(struct mlw_chunk) || bytes - sizeof(struct mlw_chunk) > sizeof zeros)
        return -1;
    struct mlw_chunk c = {.magic = MLW_CHUNK_MAGIC,
                          .type = MLW_CHUNK_SPACE,
                          .header_bytes = sizeof c,
                          .payload_bytes = (uint32_t)(bytes - sizeof c)};
    c.checksum = mlw_chunk_checksum(&c, zeros);
    struct iovec parts[2] = {{&c, sizeof c}, {unconst(zeros), c.payload_bytes}};
    return pwritev(fd, parts, 2, (off_t)at) == (ssize_t)bytes ? 0 : -1;
}

int sink_reserve(struct sink *s, int fd, size_t bytes)
{
    off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    s->reserve_fd = -1;
    if (end < 0 || write_space(fd, (uint64_t)end, bytes)) {
        if (end >= 0)
            (void)!ftruncate(fd, end);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    s->reserve_fd = fd;
    s->reserve_at = (uint64_t)end;
    s->reserve_end = (uint64_t)end + bytes;
    s->bytes += bytes;
    return 0;
}

int sink_write_surely(struct sink *s, struct mlw_chunk *c, const void *payload,
                      size_t payload_bytes)
{
    if (!sink_write(s, c, payload, payload_bytes))
        return 0;
    uint64_t whole = sizeof *c + payload_bytes, left = s->reserve_end - s->reserve_at;
    if (s->reserve_fd < 0 || whole + sizeof *c > left)
        return -1;
    struct iovec parts[2] = {{c, sizeof *c}, {unconst(payload), payload_bytes}};
    /* The rest becomes a SPACE chunk of its own first, so that no moment leaves more than the one
     * chunk unreadable. */
    if (write_space(s->reserve_fd, s->reserve_at + whole, left - whole) ||
        pwritev(s->reserve_fd, parts, 2, (off_t)s->reserve_at) != (ssize_t)whole)
        return -1;
    s->reserve_at += whole;
    s->chunks++;
    return 0;
}

void tlv_put(struct tlv *t, enum mlw_tlv tag, const void *data, size_t n)
{
    size_t padded = (n + 7) & ~(size_t)7;
    if (t->full || n > UINT32_MAX - 8 || padded < n || t->room - t->n < 8 ||
        t->room - t->n - 8 < padded) {
        t->full = true;
        return;
    }
    uint8_t *p = t->bytes + t->n;
    uint16_t tag16 = (uint16_t)tag;
    uint32_t length = (uint32_t)n;
    memset(p, 0, 8 + padded);
    memcpy(p, &tag16, 2);
    memcpy(p + 4, &length, 4);
    if (n)
        memcpy(p + 8, data, n);
    t->n += 8 + padded;
}

void tlv_put_u32(struct tlv *t, enum mlw_tlv tag, uint32_t v) { tlv_put(t, tag, &v, sizeof v); }

void tlv_put_text(struct tlv *t, enum mlw_tlv tag, const char *text)
{
    tlv_put(t, tag, text, strlen(text));
}

void tlv_put_settings(struct tlv *t, int fd)
{
    struct error ignored;
    size_t bytes, n = 0;
    char *all = fd < 0 ? NULL : trust_read_whole(fd, 4u << 20, &bytes, &ignored);
    for (size_t at = 0; all && at < bytes;) {
        const size_t length = strlen(all + at) + 1;
        if (mlw_is_setting(all + at)) {
            memmove(all + n, all + at, length);
            n += length;
        }
        at += length;
    }
    if (all)
        tlv_put(t, MLW_TLV_SETTINGS, all, n);
    free(all);
}

enum mlw_clock_kind clock_choose(void)
{
    if (!arch_clock_is_invariant())
        return MLW_CLOCK_MONOTONIC_NS;
    /* The kernel marks a TSC unstable by leaving it for hpet or acpi_pm. */
    char name[64] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, name, sizeof name - 1);
        close(fd);
        name[n > 0 ? n : 0] = 0;
    }
    if (!strncmp(name, "hpet", 4) || !strncmp(name, "acpi_pm", 7) || !strncmp(name, "jiffies", 7))
        return MLW_CLOCK_MONOTONIC_NS;
    return MLW_CLOCK_TSC;
}

uint64_t clock_realtime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_read(enum mlw_clock_kind kind)
{
    return kind == MLW_CLOCK_TSC ? arch_clock() : clock_monotonic_ns();
}

struct mlw_clock_pair clock_pair(enum mlw_clock_kind kind)
{
    struct mlw_clock_pair best = {0, 0};
    uint64_t best_width = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = clock_read(kind);
        uint64_t ns = clock_monotonic_ns();
        uint64_t after = clock_read(kind);
        if (after - before < best_width) {
            best_width = after - before;
            best.clock = before + (after - before) / 2;
            best.monotonic_ns = kind == MLW_CLOCK_TSC ? ns : best.clock;
        }
    }
    return best;
}
