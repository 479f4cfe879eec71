/* recover.c - Reads the buffers that a killed recorder left in /dev/shm, and writes them as
 * chunks. A session counts only if the owner of the recording owns it, if it names this very
 * file, and if no process uses it. */
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

static bool read_whole_at(int fd, void *to, size_t n, uint64_t off)
{
    return trust_read(fd, to, n, off) == n;
}

#define DIRECTORY "/dev/shm/"
/* A recorder alone makes no larger one. */
#define MOST_BYTES (mlw_window_offset(MLW_PROCESS_WINDOWS))
/* The most bytes to save: a session that changes while it is read could be read without end. */
#define MOST_CHUNKS ((1u << 30) / MLW_SLOT_BYTES)

/* The session that was opened last: many images name the same. */
struct session {
    const char *path; /* NULL: none yet */
    int fd;           /* -1: it is not to be believed, or in use */
    struct trust_identity id;
};

static void session_close(struct session *s)
{
    if (s->path && s->fd >= 0)
        close(s->fd);
    s->path = NULL;
}

/* A session is of the recording's owner and was written for this very file, and no process that can
 * be looked into has it mapped. */
static void session_open(struct session *s, const char *path, const struct raw *r)
{
    struct trust_identity recording;
    struct error ignored;
    struct mlw_session head;
    session_close(s);
    s->path = path;
    s->fd = -1;
    if (!trust_identify(r->fd, &recording))
        return;
    const struct trust_rule rule = {
        .owners = TRUST_USER, .user = recording.owner, .most_bytes = MOST_BYTES, .one_name = true};
    const int fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, &ignored);
    if (fd < 0)
        return;
    if (trust_identify(fd, &s->id) && !trust_mapped_anywhere(&s->id) &&
        read_whole_at(fd, &head, sizeof head, 0) && head.magic == MLW_SESSION_MAGIC &&
        head.version == MLW_SESSION_VERSION && !head.parent_pid &&
        head.output_device == recording.device && head.output_inode == recording.inode)
        s->fd = fd;
    else
        close(fd);
}

/* Opens the session of an image whose process is gone, where the recording has reason to name it.
 */
static bool session_of(struct session *s, const struct raw *r, const struct raw_image *m)
{
    static const char prefix[] = DIRECTORY "mallow-";
    if (m->ended || !m->session || strncmp(m->session, prefix, sizeof prefix - 1) ||
        strchr(m->session + sizeof prefix - 1, '/') || !m->pid)
        return false;
    /* Before the session is opened: a process that ends meanwhile takes it away. */
    const bool alive = !kill((pid_t)m->pid, 0) || errno != ESRCH;
    if (!s->path || strcmp(s->path, m->session) != 0)
        session_open(s, m->session, r);
    return s->fd >= 0 && !(alive && trust_process_maps((pid_t)m->pid, &s->id));
}

static int put_chunk(int out, struct mlw_chunk *c, uint8_t *buffer, unsigned *chunks,
                     struct error *err)
{
    const size_t n = sizeof *c + c->payload_bytes;
    c->checksum = mlw_chunk_checksum(c, buffer + sizeof *c);
    memcpy(buffer, c, sizeof *c);
    if (write(out, buffer, n) != (ssize_t)n)
        return error_system(err, "cannot write recovered rows");
    (*chunks)++;
    return 0;
}

static int recover_slot(int fd, uint64_t at, const struct raw_image *m, int out, unsigned *chunks,
                        struct error *err)
{
    uint8_t buffer[MLW_SLOT_BYTES];
    struct mlw_chunk c;
    if (!read_whole_at(fd, &c, sizeof c, at) || c.magic != MLW_CHUNK_MAGIC ||
        c.type != MLW_CHUNK_EVENTS || c.header_bytes != sizeof c || c.image != m->id ||
        c.slot_state == MLW_SLOT_FREE || !(c.payload_bytes || c.lost_calls) ||
        c.payload_bytes > sizeof buffer - sizeof c ||
        !read_whole_at(fd, buffer + sizeof c, c.payload_bytes, at + sizeof c))
        return 0;
    const uint32_t claimed = c.calls, published = c.payload_bytes;
    c.payload_bytes =
        mlw_whole_rows(buffer + sizeof c, published,
                       (struct mlw_row_state){c.base_clock, c.base_address, true}, &c.calls);
    /* A call that the head counts and whose row was not published had not come to its end; but rows
     * that were published and cannot be read are a loss. */
    if (c.payload_bytes < published)
        c.lost_calls += claimed > c.calls && claimed <= sizeof buffer / 4 ? claimed - c.calls : 1;
    if (!c.payload_bytes && !c.lost_calls)
        return 0;
    c.flags = MLW_CHUNK_RECOVERED;
    memset(c.reserved, 0, sizeof c.reserved);
    return put_chunk(out, &c, buffer, chunks, err);
}

/* One fact: its tag, the length, and the numbers. */
static uint32_t put_tlv(uint8_t *at, enum mlw_tlv tag, const void *data, uint32_t bytes)
{
    const uint16_t tag16 = (uint16_t)tag;
    memcpy(at, &tag16, sizeof tag16);
    memcpy(at + 4, &bytes, sizeof bytes);
    memcpy(at + 8, data, bytes);
    return 8 + bytes;
}

/* How it ended, as far as its entry says: what announced no end was killed. When is not known. */
static int recover_end(const struct mlw_process *p, const struct raw_image *m, int out,
                       unsigned *chunks, struct error *err)
{
    const struct {
        uint64_t clock;
        uint32_t how, status;
    } end = {0,
             p->end_how == MLW_END_EXIT || p->end_how == MLW_END_EXEC ? p->end_how : MLW_END_KILLED,
             p->end_how == MLW_END_EXIT ? (p->end_status & 0xff) << 8 : 0};
    const uint64_t lost[][2] = {{p->lost_sink, MLW_LOST_SINK},
                                {p->lost_buffer, MLW_LOST_BUFFER},
                                {p->lost_nested, MLW_LOST_NESTED},
                                {p->lost_bound, MLW_LOST_BOUND}};
    uint8_t buffer[512] = {0};
    struct mlw_chunk c = {.magic = MLW_CHUNK_MAGIC,
                          .type = MLW_CHUNK_END,
                          .header_bytes = sizeof c,
                          .image = m->id,
                          .pid = m->pid};
    uint8_t *payload = buffer + sizeof c;
    c.payload_bytes = put_tlv(payload, MLW_TLV_END, &end, sizeof end);
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        if (lost[i][0])
            c.payload_bytes +=
                put_tlv(payload + c.payload_bytes, MLW_TLV_LOST, lost[i], sizeof lost[i]);
    if (p->private_bytes)
        c.payload_bytes +=
            put_tlv(payload + c.payload_bytes, MLW_TLV_OWN, &p->private_bytes, sizeof(uint64_t));
    return put_chunk(out, &c, buffer, chunks, err);
}

/* The image's entry in the session; false when it has none. */
static bool find_entry(int fd, const struct raw_image *m, struct mlw_process *p)
{
    for (uint32_t k = 0;
         k < MLW_PROCESSES && read_whole_at(fd, p, sizeof *p, mlw_process_offset(k)); k++) {
        if (p->state == MLW_PROC_FREE)
            return false; /* a free entry ends the table */
        if (p->image == m->id)
            return true;
    }
    return false;
}

/* All of one image: the buffers of its windows, then its end. */
static int recover_image(int fd, const struct mlw_process *p, const struct raw_image *m, int out,
                         unsigned *chunks, struct error *err)
{
    for (uint32_t w = 0; w < p->windows && w < MLW_PROCESS_WINDOWS; w++)
        for (uint32_t s = 0; s < MLW_WINDOW_SLOTS && *chunks < MOST_CHUNKS; s++)
            if (recover_slot(fd, mlw_window_offset(p->window[w]) + (uint64_t)s * MLW_SLOT_BYTES, m,
                             out, chunks, err))
                return -1;
    return recover_end(p, m, out, chunks, err);
}

int recover_rows(struct raw *r, int out, unsigned *chunks, struct error *err)
{
    struct session s = {.fd = -1};
    int status = 0;
    *chunks = 0;
    for (size_t i = 0; i < r->image_count && !status; i++) {
        struct raw_image *m = &r->images[i];
        struct mlw_process entry;
        if (!session_of(&s, r, m))
            continue;
        m->recovered = true;
        m->session_id = s.id;
        if (find_entry(s.fd, m, &entry))
            status = recover_image(s.fd, &entry, m, out, chunks, err);
    }
    session_close(&s);
    return status;
}

void recover_remove(const struct raw *r)
{
    struct error ignored;
    int directory = trust_directory(AT_FDCWD, DIRECTORY,
                                    &(struct trust_rule){.owners = TRUST_ANYBODY}, &ignored);
    for (size_t i = 0; i < r->image_count && directory >= 0; i++) {
        const struct raw_image *m = &r->images[i];
        if (m->recovered && m->session_id.owner == geteuid())
            (void)trust_remove(directory, m->session + sizeof DIRECTORY - 1, &m->session_id,
                               &ignored);
    }
    if (directory >= 0)
        close(directory);
}
