/* spool.c - Keeps letters as files of a directory, or in memory without one, oldest first. A
 * file gets its name after it reached the disk, so a crash leaves no partial letter. The oldest
 * letters are dropped and counted when the spool exceeds its bound. */
#include "push/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/write.h"

#define FILE_UNIT    (4u << 10) /* the least that a file takes on usual file systems */
#define DIGITS       20u
#define LETTER_MOST  (1ull << 30) /* bytes of a file that is believed to be one */
#define DRAFT_SUFFIX ".part-"

/* ---- names ---- */

static void name_entry(struct spool *s, uint64_t number)
{
    snprintf(s->place.name, sizeof s->place.name, "%020llu.%s", (unsigned long long)number,
             s->kind);
}

/* NUMBER.KIND, of which *kind is the last part. */
static bool parse_name(const char *name, uint64_t *number, const char **kind)
{
    char *end = NULL;
    if (strspn(name, "0123456789") != DIGITS || name[DIGITS] != '.')
        return false;
    errno = 0;
    *number = strtoull(name, &end, 10);
    *kind = name + DIGITS + 1;
    return !errno && *number < UINT64_MAX && **kind;
}

static uint64_t disk_bytes(uint64_t bytes)
{
    return (bytes + FILE_UNIT - 1) / FILE_UNIT * FILE_UNIT;
}

/* ---- the list ---- */

static void forget_entry(struct spool *s, size_t index)
{
    struct spool_entry *e = &s->items[index];
    if (!e->data) {
        name_entry(s, e->number);
        (void)unlinkat(s->place.dir, s->place.name, 0);
    }
    s->bytes -= e->bytes;
    free(e->data);
    s->count--;
    memmove(e, e + 1, (s->count - index) * sizeof *e);
}

/* Makes room for `bytes` more. */
static void give_way(struct spool *s, uint64_t bytes)
{
    while (s->count && s->bytes + bytes > s->most_bytes) {
        forget_entry(s, 0);
        s->dropped++;
    }
}

static int add_entry(struct spool *s, const struct spool_entry *entry, struct error *err)
{
    struct spool_entry *e = ARRAY_ADD(s->items, s->count, s->room);
    if (!e)
        return error_memory(err);
    *e = *entry;
    s->bytes += e->bytes;
    return 0;
}

static int compare_entry_numbers(const void *a, const void *b)
{
    const struct spool_entry *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* ---- the directory ---- */

/* It survives the machine's end once this has returned 0. */
static int store_entry(struct spool *s, struct spool_entry *e, struct error *err)
{
    struct trust_draft draft;
    name_entry(s, e->number);
    if (trust_draft_open(&draft, &s->place, DRAFT_SUFFIX, err))
        return -1;
    int status = 0;
    if (write_all(draft.fd, e->data, e->size) || fsync(draft.fd))
        status = error_system(err, "cannot write to %s", s->path);
    if (!status)
        status = trust_draft_publish(&draft, &s->place, 0600, err);
    trust_draft_drop(&draft, &s->place);
    if (status)
        return -1;
    (void)fsync(s->place.dir); /* not all file systems can */
    free(e->data);
    e->data = NULL;
    return 0;
}

static int store_all(struct spool *s, struct error *err)
{
    for (size_t i = 0; i < s->count && s->place.dir >= 0; i++)
        if (s->items[i].data && store_entry(s, &s->items[i], err))
            return -1;
    return 0;
}

/* The way to the directory, which is made when only it is missing. */
static int open_place(struct spool *s, const char *directory, struct error *err)
{
    struct trust_place above;
    char *inside = NULL;
    if (asprintf(&inside, "%s/.", directory) < 0)
        return error_memory(err);
    inside[strlen(inside) - 1] = 'x'; /* a name in it, whichever */
    int status = trust_place_open(&s->place, inside, err);
    if (status && err->number == ENOENT && !trust_place_open(&above, directory, err)) {
        if (mkdirat(above.dir, above.name, 0700) && errno != EEXIST)
            error_system(err, "cannot make %s", directory);
        else
            status = trust_place_open(&s->place, inside, err);
        trust_place_close(&above);
    }
    free(inside);
    s->place.path = s->path;
    if (status)
        return -1;
    if (trust_place_is_shared(&s->place))
        return error_set(err, ERROR_UNSUPPORTED,
                         "other users can write in %s, so it is no place for a spool", directory);
    if (!flock(s->place.dir, LOCK_EX | LOCK_NB))
        return 0;
    if (errno == EWOULDBLOCK)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s is in use by another 'mallow watch'; each needs a spool of its own",
                         directory);
    return error_system(err, "cannot lock %s", directory);
}

/* One entry of the directory. */
static int read_spool_entry(struct spool *s, const char *name, struct error *err)
{
    struct stat st;
    struct spool_entry e = {0};
    const char *kind;
    if (!parse_name(name, &e.number, &kind) ||
        fstatat(s->place.dir, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
        return 0;
    if (strstr(kind,
               DRAFT_SUFFIX)) { /* left by a process that was killed, for no other writes here */
        (void)unlinkat(s->place.dir, name, 0);
        return 0;
    }
    if (strcmp(kind, s->kind) != 0)
        return error_set(
            err, ERROR_UNSUPPORTED,
            "%s holds profiles for %.32s (%s): push these first, or use another --spool", s->path,
            kind, name);
    e.bytes = disk_bytes((uint64_t)st.st_size);
    if (e.number >= s->next)
        s->next = e.number + 1;
    return add_entry(s, &e, err);
}

static int read_spool(struct spool *s, struct error *err)
{
    int status = 0;
    DIR *list = trust_list(s->place.dir);
    if (!list)
        return error_system(err, "cannot list %s", s->path);
    for (const struct dirent *d = readdir(list); d && !status; d = readdir(list))
        status = read_spool_entry(s, d->d_name, err);
    closedir(list);
    if (s->count)
        qsort(s->items, s->count, sizeof *s->items, compare_entry_numbers);
    give_way(s, 0);
    return status;
}

/* ---- */

int spool_open(struct spool *s, const char *directory, const char *kind, uint64_t most_bytes,
               struct error *err)
{
    *s = (struct spool){.place = {.dir = -1}, .most_bytes = most_bytes, .next = 1};
    snprintf(s->kind, sizeof s->kind, "%s", kind);
    if (!directory)
        return 0;
    s->path = strdup(directory);
    if (s->path ? open_place(s, directory, err) || read_spool(s, err) : error_memory(err)) {
        spool_close(s);
        return -1;
    }
    return 0;
}

int spool_add(struct spool *s, char *data, size_t size, struct error *err)
{
    const struct spool_entry e = {s->next, disk_bytes(size), data, size};
    if (e.bytes > s->most_bytes) {
        s->dropped++;
        free(data);
        return 0;
    }
    give_way(s, e.bytes);
    if (add_entry(s, &e, err)) {
        s->dropped++;
        free(data);
        return -1;
    }
    s->next++;
    return store_all(s, err);
}

static char *read_entry(struct spool *s, const struct spool_entry *e, size_t *size,
                        struct error *err)
{
    static const struct trust_rule rule = {
        .what = "the file", .owners = TRUST_CALLER | TRUST_ROOT, .most_bytes = LETTER_MOST};
    if (e->data) {
        char *copy = malloc(e->size + 1);
        *size = e->size;
        if (!copy)
            error_memory(err);
        return copy ? memcpy(copy, e->data, e->size) : NULL;
    }
    name_entry(s, e->number);
    const int fd = trust_open(s->place.dir, s->place.name, TRUST_READ, &rule, err);
    if (fd < 0)
        return NULL;
    char *data = trust_read_whole(fd, LETTER_MOST, size, err);
    close(fd);
    return data;
}

/* A file that is gone, or is none of ours, does not become a letter again; all else that the system
 * refuses may pass: memory, descriptors, a disk, permissions. */
static bool may_pass(const struct error *why)
{
    return why->kind == ERROR_MEMORY ||
           (why->kind == ERROR_SYSTEM && why->number != ENOENT && why->number != ELOOP);
}

int spool_first(struct spool *s, char **letter, uint64_t *number, size_t *size, struct error *err)
{
    struct error why;
    size_t i = 0;
    *letter = NULL;
    *err = (struct error){.kind = ERROR_NONE};
    while (i < s->count && !(*letter = read_entry(s, &s->items[i], size, &why))) {
        if (may_pass(&why)) {
            if (!i++)
                *err = why;
            continue;
        }
        forget_entry(s, i);
        s->damaged++;
    }
    if (*letter)
        *number = s->items[i].number;
    return !*letter && err->kind ? -1 : 0;
}

void spool_remove(struct spool *s, uint64_t number)
{
    size_t i = 0;
    while (i < s->count && s->items[i].number < number)
        i++;
    if (i < s->count && s->items[i].number == number)
        forget_entry(s, i);
    else if (s->dropped)
        s->dropped--; /* it gave way while it was on its way */
}

uint64_t spool_stored(struct spool *s)
{
    struct error ignored = {0};
    uint64_t n = 0;
    (void)store_all(s, &ignored);
    for (size_t i = 0; i < s->count; i++)
        n += !s->items[i].data;
    return n;
}

void spool_close(struct spool *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i].data);
    free(s->items);
    trust_place_close(&s->place);
    free(s->path);
    *s = (struct spool){.place = {.dir = -1}};
}
