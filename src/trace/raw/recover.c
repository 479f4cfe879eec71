#include "recover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "format/row.h"
#include "format/session.h"
#include "trust/place.h"
#include "trust/process.h"

static bool read_at(int fd, void *to, size_t n, uint64_t off)
{
    return trust_read(fd, to, n, off) == n;
}

#define DIRECTORY "/dev/shm/"
/* A recorder alone makes no larger one. */
#define MOST_BYTES (mlw_window_offset(MLW_PROCESS_WINDOWS))
/* The most bytes to save: a session that changes while it is read could be read without end. */
#define MOST_CHUNKS ((1u << 30) / MLW_SLOT_BYTES)

/* The session of an image whose process is gone, where the recording has reason to name it: it is
 * of the recording's owner, and was written for this very file. -1 when there is none. */
static int open_session(const struct raw *r, const struct raw_image *m, struct trust_identity *id)
{
    static const char prefix[] = DIRECTORY "mallow-";
    struct trust_identity recording;
    struct error ignored;
    struct mlw_session s;
    if (m->ended || !m->session || strncmp(m->session, prefix, sizeof prefix - 1) ||
        strchr(m->session + sizeof prefix - 1, '/') || !m->pid ||
        !trust_identify(r->fd, &recording))
        return -1;
    /* Before the session is opened: a process that ends meanwhile takes it away. */
    const bool alive = !kill((pid_t)m->pid, 0) || errno != ESRCH;
    const struct trust_rule rule = {
        .owners = TRUST_USER, .user = recording.owner, .most_bytes = MOST_BYTES, .one_name = true};
    int fd = trust_open(AT_FDCWD, m->session, TRUST_READ, &rule, &ignored);
    if (fd < 0)
        return -1;
    if (!trust_identify(fd, id) || (alive && trust_process_maps((pid_t)m->pid, id)) ||
        trust_mapped_anywhere(id) || !read_at(fd, &s, sizeof s, 0) ||
        s.magic != MLW_SESSION_MAGIC || s.version != MLW_FORMAT_VERSION || s.parent_pid ||
        s.output_device != recording.device || s.output_inode != recording.inode) {
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
        c.slot_state == MLW_SLOT_FREE || !(c.payload_bytes || c.lost_calls) ||
        c.payload_bytes > sizeof buffer - sizeof c ||
        !read_at(fd, buffer + sizeof c, c.payload_bytes, at + sizeof c))
        return 0;
    c.payload_bytes = whole_rows(buffer + sizeof c, c.payload_bytes, &c, &c.calls);
    if (!c.payload_bytes && !c.lost_calls)
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
        struct trust_identity id;
        int fd = open_session(r, &r->images[i], &id), status = 0;
        if (fd < 0)
            continue;
        struct mlw_process p = {0};
        uint32_t k = 0;
        while (k < MLW_PROCESSES && read_at(fd, &p, sizeof p, mlw_process_offset(k)) &&
               p.state != MLW_PROC_FREE && p.image != r->images[i].id)
            k++; /* a free entry ends the table */
        if (p.state == MLW_PROC_FREE || p.image != r->images[i].id)
            p.windows = 0;
        for (uint32_t w = 0; w < p.windows && w < MLW_PROCESS_WINDOWS; w++)
            for (uint32_t s = 0; s < MLW_WINDOW_SLOTS && !status && *chunks < MOST_CHUNKS; s++)
                status =
                    recover_slot(fd, mlw_window_offset(p.window[w]) + (uint64_t)s * MLW_SLOT_BYTES,
                                 &r->images[i], out, chunks, err);
        close(fd);
        if (status)
            return -1;
    }
    return 0;
}

void recover_remove(const struct raw *r)
{
    struct error ignored;
    int directory = trust_directory(AT_FDCWD, DIRECTORY,
                                    &(struct trust_rule){.owners = TRUST_ANYBODY}, &ignored);
    for (size_t i = 0; i < r->image_count && directory >= 0; i++) {
        struct trust_identity id;
        int fd = open_session(r, &r->images[i], &id);
        if (fd < 0)
            continue;
        if (id.owner == geteuid())
            (void)trust_remove(directory, r->images[i].session + sizeof DIRECTORY - 1, &id,
                               &ignored);
        close(fd);
    }
    if (directory >= 0)
        close(directory);
}
