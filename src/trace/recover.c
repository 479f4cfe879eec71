#include "recover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/row.h"
#include "format/session.h"

static bool read_at(int fd, void *to, size_t n, uint64_t off)
{
    return pread(fd, to, n, (off_t)off) == (ssize_t)n;
}

/* Opens the session of an image whose process is gone; -1 when there is nothing to recover. */
static int open_session(const struct raw_image *m)
{
    static const char prefix[] = "/dev/shm/mallow-";
    if (m->ended || !m->session || strncmp(m->session, prefix, sizeof prefix - 1) ||
        strchr(m->session + sizeof prefix - 1, '/') || !m->pid)
        return -1;
    if (!kill((pid_t)m->pid, 0) || errno != ESRCH)
        return -1;
    int fd = open(m->session, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    struct mlw_session s;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        !read_at(fd, &s, sizeof s, 0) || s.magic != MLW_SESSION_MAGIC ||
        s.version != MLW_FORMAT_VERSION || s.parent_pid) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The rows at p that are whole; *calls of them are calls. */
static uint32_t whole_rows(const uint8_t *p, uint32_t n, const struct mlw_chunk *c, uint32_t *calls)
{
    const uint8_t *at = p, *end = p + n;
    struct mlw_row_state state = {c->base_clock, c->base_address};
    struct mlw_row row;
    *calls = 0;
    while (at < end) {
        const uint8_t *next = mlw_row_decode(at, end, &state, &row);
        if (!next)
            break;
        *calls += row.op != MLW_OP_META;
        at = next;
    }
    return (uint32_t)(at - p);
}

static int recover_slot(int fd, uint64_t at, const struct raw_image *m, int out, unsigned *chunks,
                        struct error *err)
{
    uint8_t buffer[MLW_SLOT_BYTES];
    struct mlw_chunk c;
    if (!read_at(fd, &c, sizeof c, at) || c.magic != MLW_CHUNK_MAGIC ||
        c.type != MLW_CHUNK_EVENTS || c.header_bytes != sizeof c || c.image != m->id ||
        c.reserved[0] == MLW_SLOT_FREE || !c.payload_bytes ||
        c.payload_bytes > sizeof buffer - sizeof c ||
        !read_at(fd, buffer + sizeof c, c.payload_bytes, at + sizeof c))
        return 0;
    c.payload_bytes = whole_rows(buffer + sizeof c, c.payload_bytes, &c, &c.calls);
    if (!c.payload_bytes)
        return 0;
    c.flags = MLW_CHUNK_RECOVERED;
    memset(c.reserved, 0, sizeof c.reserved);
    c.checksum = mlw_chunk_checksum(&c, buffer + sizeof c);
    memcpy(buffer, &c, sizeof c);
    size_t n = sizeof c + c.payload_bytes;
    if (write(out, buffer, n) != (ssize_t)n)
        return error_system(err, "cannot write recovered rows");
    (*chunks)++;
    return 0;
}

int recover_rows(const struct raw *r, int out, unsigned *chunks, struct error *err)
{
    *chunks = 0;
    for (size_t i = 0; i < r->image_count; i++) {
        int fd = open_session(&r->images[i]);
        if (fd < 0)
            continue;
        int status = 0;
        for (uint32_t k = 0; k < MLW_PROCESSES && !status; k++) {
            struct mlw_process p;
            if (!read_at(fd, &p, sizeof p, mlw_process_offset(k)) || p.state == MLW_PROC_FREE)
                break;
            for (uint32_t w = 0; w < p.windows && w < MLW_PROCESS_WINDOWS && !status; w++)
                for (uint32_t s = 0; s < MLW_WINDOW_SLOTS && !status; s++)
                    status = recover_slot(
                        fd, mlw_window_offset(p.window[w]) + (uint64_t)s * MLW_SLOT_BYTES,
                        &r->images[i], out, chunks, err);
        }
        close(fd);
        if (status)
            return -1;
    }
    return 0;
}

void recover_remove(const struct raw *r)
{
    for (size_t i = 0; i < r->image_count; i++) {
        int fd = open_session(&r->images[i]);
        if (fd < 0)
            continue;
        unlink(r->images[i].session);
        close(fd);
    }
}
