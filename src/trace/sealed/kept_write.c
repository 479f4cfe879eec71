/* kept_write.c - parts of an index into a file that others may be reading. */
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/chunk.h"
#include "kept.h"
#include "trust/file.h"

/* The recording once more, to be written to and locked; -1 when it must not be. */
static int open_own(const struct store *s)
{
    const struct trust_rule own = {.owners = TRUST_CALLER};
    struct error ignored;
    struct stat st;
    if (trust_check(s->fd, &own, &ignored) || fstat(s->fd, &st) || !(st.st_mode & S_IWUSR) ||
        !st.st_nlink)
        return -1;
    const int fd = trust_again(s->fd, TRUST_WRITE);
    if (fd < 0)
        return -1;
    /* Another reader may have put an index there since this one looked. */
    if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && (uint64_t)st.st_size == s->file_bytes)
        return fd;
    close(fd);
    return -1;
}

static bool replaces(const struct kept_making *p, const struct store_kept *k)
{
    const struct seal_header *h = &p->section.header;
    return h->image == k->image && h->number == k->kind && h->key == k->key;
}

/* Sections of the file that stay; the others go. */
struct staying {
    bool *stays; /* [kept_count] */
    uint64_t bytes;
    bool all;
};

static bool find_staying(const struct store *s, struct kept_making *const *parts, size_t count,
                         struct staying *x)
{
    x->stays = calloc(s->kept_count + 1, sizeof *x->stays);
    x->all = x->stays && !s->kept_torn;
    for (size_t i = 0; x->stays && i < s->kept_count; i++) {
        const struct store_kept *k = &s->kept[i];
        bool stays = k->made_of == s->made_of && k->made_by == kept_made_by();
        for (size_t n = 0; n < count; n++)
            stays = stays && !replaces(parts[n], k);
        x->stays[i] = stays;
        x->bytes += stays ? k->bytes : 0;
        x->all = x->all && stays;
    }
    return x->stays != NULL;
}

/* Moves what stays to the place behind the recording. Writing goes on at *to; -1: it failed, and
 * nothing is behind *to. */
static int move_staying(const struct store *s, const struct staying *x, int fd, uint64_t *to)
{
    struct bytes *held = calloc(s->kept_count + 1, sizeof *held);
    int status = held ? 0 : -1;
    *to = s->recorded_bytes;
    for (size_t i = 0; !status && i < s->kept_count; i++) {
        const struct store_kept *k = &s->kept[i];
        if (!x->stays[i])
            continue;
        if (!bytes_reserve(&held[i], (size_t)k->bytes) ||
            trust_read(fd, held[i].data, (size_t)k->bytes, k->offset) != k->bytes)
            status = -1;
        held[i].n = (size_t)k->bytes;
    }
    if (!status)
        status = ftruncate(fd, (off_t)s->recorded_bytes);
    for (size_t i = 0; held && i < s->kept_count; i++) {
        if (!status && held[i].n) {
            status = pwrite(fd, held[i].data, held[i].n, (off_t)*to) == (ssize_t)held[i].n ? 0 : -1;
            *to += status ? 0 : held[i].n;
        }
        bytes_free(&held[i]);
    }
    free(held);
    return status;
}

bool kept_write(const struct store *s, struct kept_making *const *parts, size_t count)
{
    const uint64_t most = s->recorded_bytes / 4 + KEPT_BYTES;
    struct staying x = {0};
    struct error ignored;
    uint64_t bytes = 0, to = s->file_bytes;
    for (size_t i = 0; i < count; i++)
        bytes += sizeof(struct seal_header) + sizeof parts[i]->section.streams +
                 parts[i]->section.data.n;
    const int fd = s->may_keep && count && bytes <= most ? open_own(s) : -1;
    if (fd < 0)
        return false;
    int status = find_staying(s, parts, count, &x) ? 0 : -1;
    if (!status && x.bytes + bytes > most) { /* the older ones have had their time */
        memset(x.stays, 0, s->kept_count * sizeof *x.stays);
        x.all = !s->kept_count && !s->kept_torn;
    }
    if (!status && !x.all)
        status = move_staying(s, &x, fd, &to);
    struct seal_writer w = {.fd = fd, .offset = to};
    for (size_t i = 0; i < count && !status; i++)
        status = section_write(&w, &parts[i]->section, &ignored);
    if (status) /* a full disk: nothing half done stays, as far as that can be */
        (void)!ftruncate(fd, (off_t)w.offset);
    close(fd);
    free(x.stays);
    return !status;
}
