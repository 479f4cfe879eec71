/* recover.c - see recover.h. */
#include "record/recover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/image.h"

#define SESSION_PREFIX "/dev/shm/mallow-"

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

/* Whether the process that maps the session lives; not one that got its number later. */
static bool lives(const struct named_session *s)
{
    if (kill((pid_t)s->pid, 0) && errno == ESRCH)
        return false;
    char name[64];
    snprintf(name, sizeof name, "/proc/%u/maps", s->pid);
    FILE *f = fopen(name, "re");
    if (!f)
        return access(name, F_OK) == 0;
    char *line = NULL;
    size_t capacity = 0;
    bool found = false;
    while (!found && getline(&line, &capacity, f) > 0)
        found = strstr(line, s->path) != NULL;
    free(line);
    fclose(f);
    return found;
}

/* Appends what the image left in its session, and removes the session. */
static bool save(struct recording *r, const struct named_session *s)
{
    struct error ignored;
    if (shm_open_named(&r->shm, s->path, &ignored))
        return false;
    bool saved = false;
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
    shm_close(&r->shm);
    if (saved)
        unlink(s->path);
    return saved;
}

unsigned record_recover(const char *path)
{
    uint32_t magic = 0;
    size_t count = 0;
    unsigned saved = 0;
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    struct stat st;
    /* `mallow record` holds a shared lock on what it writes; another reader an exclusive one. */
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
        pread(fd, &magic, sizeof magic, 0) != (ssize_t)sizeof magic || magic != MLW_CHUNK_MAGIC ||
        (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)) {
        close(fd);
        return 0;
    }
    struct named_session *sessions = find_sessions(fd, &count);
    struct recording *r = count ? calloc(1, sizeof *r) : NULL;
    if (r) {
        r->sink = (struct sink){.fd = fd, .reserve_fd = -1};
        r->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        r->clock_kind = clock_choose();
        for (size_t i = 0; i < count; i++)
            if (!lives(&sessions[i]) && save(r, &sessions[i]))
                saved++;
    }
    free(r);
    free(sessions);
    close(fd);
    return saved;
}
