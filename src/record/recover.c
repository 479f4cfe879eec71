/* recover.c - see recover.h. */
#include "record/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/image.h"
#include "trust/place.h"
#include "trust/process.h"

#define SESSION_DIRECTORY "/dev/shm/"
#define SESSION_PREFIX    SESSION_DIRECTORY "mallow-"

struct named_session { /* of a PROCESS chunk */
    uint64_t image;
    uint32_t pid;
    char path[128];
};

/* The session that a PROCESS chunk names; false when it names none of ours. */
static bool session_of(const uint8_t *p, size_t n, char path[128])
{
    for (size_t at = 0; at + 8 <= n;) {
        uint16_t tag;
        uint32_t length;
        memcpy(&tag, p + at, 2);
        memcpy(&length, p + at + 4, 4);
        if (length > n - at - 8)
            return false;
        if (tag == MLW_TLV_SESSION && length > strlen(SESSION_PREFIX) && length < 128 &&
            !memcmp(p + at + 8, SESSION_PREFIX, strlen(SESSION_PREFIX))) {
            memcpy(path, p + at + 8, length);
            path[length] = 0;
            return strlen(path) == length && !strchr(path + strlen("/dev/shm/"), '/');
        }
        at += 8 + (((size_t)length + 7) & ~(size_t)7);
    }
    return false;
}

#define BLOCK_BYTES 65536u

/* Where the next chunk may begin at or after `at`, behind damage; the end of the file when nowhere.
 * block: BLOCK_BYTES to work in. */
static off_t next_magic(int fd, off_t at, uint8_t *block)
{
    const uint32_t magic = MLW_CHUNK_MAGIC;
    ssize_t n;
    while ((n = pread(fd, block, BLOCK_BYTES, at)) >= (ssize_t)sizeof magic) {
        const uint8_t *found = memmem(block, (size_t)n, &magic, sizeof magic);
        if (found)
            return at + (found - block);
        at += n - (ssize_t)sizeof magic + 1;
    }
    return at + (n > 0 ? n : 0);
}

/* The sessions that the sound part of the file names. *count of them; NULL when there are none. */
static struct named_session *find_sessions(int fd, size_t *count)
{
    struct named_session *all = NULL;
    uint8_t *payload = malloc(BLOCK_BYTES);
    size_t capacity = 0;
    off_t at = 0;
    struct mlw_chunk c;
    *count = 0;
    while (payload && pread(fd, &c, sizeof c, at) == (ssize_t)sizeof c) {
        if (c.magic != MLW_CHUNK_MAGIC || c.header_bytes < sizeof c || c.header_bytes > 4096 ||
            c.payload_bytes > MLW_CHUNK_MAX) {
            at = next_magic(fd, at + 1, payload);
            continue;
        }
        struct named_session s = {.image = c.image, .pid = c.pid};
        size_t n = c.payload_bytes < BLOCK_BYTES ? c.payload_bytes : BLOCK_BYTES;
        if (c.type == MLW_CHUNK_PROCESS &&
            pread(fd, payload, n, at + c.header_bytes) == (ssize_t)n &&
            session_of(payload, n, s.path)) {
            if (*count == capacity) {
                capacity = capacity ? capacity * 2 : 16;
                struct named_session *more = realloc(all, capacity * sizeof *all);
                if (!more)
                    break;
                all = more;
            }
            all[(*count)++] = s;
        }
        at += (off_t)c.header_bytes + (off_t)c.payload_bytes;
    }
    free(payload);
    return all;
}

/* Whether a process still uses it. */
static bool is_in_use(const struct shm *s)
{
    struct trust_identity id;
    uint32_t entries = shm_entries(s);
    bool used = !trust_identify(s->fd, &id) || trust_mapped_anywhere(&id);
    for (uint32_t i = 0; i < entries && !used; i++) /* maps that may not be read */
        used = s->table[i].state != MLW_PROC_FREE && s->table[i].pid &&
               trust_process_maps((pid_t)s->table[i].pid, &id);
    return used;
}

/* Opens the session if it is the caller's own, was written for the recording that is open as the
 * sink, and no process uses it any more. */
static bool open_session(struct recording *r, const struct named_session *s)
{
    struct error ignored;
    struct trust_identity recording;
    if (shm_open_named(&r->shm, s->path, &ignored))
        return false;
    if (trust_identify(r->sink.fd, &recording) && !shm_map(&r->shm, &ignored) &&
        !r->shm.session->parent_pid && r->shm.session->output_device == recording.device &&
        r->shm.session->output_inode == recording.inode && !is_in_use(&r->shm))
        return true;
    shm_close(&r->shm);
    return false;
}

/* Appends what the image left in its session, and removes the session. */
static bool save(struct recording *r, const struct named_session *s)
{
    if (!open_session(r, s))
        return false;
    bool saved = false;
    struct trust_identity id;
    struct error ignored;
    uint32_t entries = shm_entries(&r->shm);
    for (uint32_t i = 0; i < entries; i++) {
        const struct mlw_process *e = &r->shm.table[i];
        if (e->image != s->image || e->state == MLW_PROC_FREE)
            continue;
        struct image *m = image_adopt(r, i, clock_monotonic_ns());
        if (!m)
            break;
        image_end(r, m, -1, false);
        saved = true;
    }
    if (saved && trust_identify(r->shm.fd, &id)) {
        int directory = trust_directory(AT_FDCWD, SESSION_DIRECTORY,
                                        &(struct trust_rule){.owners = TRUST_ANYBODY}, &ignored);
        if (directory >= 0) {
            (void)trust_remove(directory, s->path + strlen(SESSION_DIRECTORY), &id, &ignored);
            close(directory);
        }
    }
    shm_close(&r->shm);
    return saved;
}

unsigned record_recover_into(int fd)
{
    size_t count = 0;
    unsigned saved = 0;
    struct named_session *sessions = find_sessions(fd, &count);
    struct recording *r = count ? calloc(1, sizeof *r) : NULL;
    if (r) {
        r->sink = (struct sink){.fd = fd, .reserve_fd = -1};
        r->all_ended = true;
        r->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        r->clock_kind = clock_choose();
        for (size_t i = 0; i < count; i++)
            saved += save(r, &sessions[i]);
    }
    free(r);
    free(sessions);
    return saved;
}

unsigned record_recover(const char *path)
{
    const struct trust_rule own = {.owners = TRUST_CALLER, .follow = true};
    struct error ignored;
    uint32_t magic = 0;
    unsigned saved = 0;
    int fd = trust_open(AT_FDCWD, path, TRUST_APPEND, &own, &ignored);
    if (fd < 0)
        return 0;
    /* `mallow record` holds a shared lock on what it writes; another reader an exclusive one. */
    if (trust_read(fd, &magic, sizeof magic, 0) != sizeof magic || magic != MLW_CHUNK_MAGIC ||
        (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)) {
        close(fd);
        return 0;
    }
    saved = record_recover_into(fd);
    close(fd);
    return saved;
}
