/* watched_load.c - files of `mallow watch --json` into a store, line by line.
 *
 * A report is known by its content, so the same file again adds nothing, and a file that grew adds
 * its new lines. A last line without an end is still being written; the next load takes it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "fleet/store.h"
#include "fleet/watched.h"
#include "trust/file.h"

#define LINE_MOST ((size_t)64 << 20)
#define BATCH     1000u /* reports of a transaction */
#define READ_STEP ((size_t)1 << 18)

struct lines {
    int fd;
    uint64_t offset;
    struct buffer held; /* read, and not given out */
    size_t at;
    uint64_t number;
};

/* 1: *text is the next line, whole, until the next call; 0: no more; -1: too long, or no memory. */
static int next_line(struct lines *l, const char **text, size_t *bytes, struct error *err)
{
    for (;;) {
        const char *from = l->held.data ? l->held.data + l->at : NULL;
        const size_t left = l->held.size_bytes - l->at;
        const char *end = left ? memchr(from, '\n', left) : NULL;
        if (end) {
            *text = from;
            *bytes = (size_t)(end - from);
            l->at += *bytes + 1;
            l->number++;
            return 1;
        }
        if (left > LINE_MOST)
            return error_set(err, ERROR_FORMAT, "line %" PRIu64 " is longer than 64 MiB",
                             l->number + 1);
        if (l->at) {
            memmove(l->held.data, from, left);
            l->held.size_bytes = left;
            l->at = 0;
        }
        char *room = malloc(READ_STEP);
        const size_t n = room ? trust_read(l->fd, room, READ_STEP, l->offset) : 0;
        if (room)
            buffer_append(&l->held, room, n);
        free(room);
        if (!room || buffer_failed(&l->held))
            return error_memory(err);
        if (!n)
            return 0;
        l->offset += n;
    }
}

/* *there: the store has the report, by its key or by the one that it had in mallow 0.1.0. */
static int find_report(struct fleet_store *store, uint64_t key, uint64_t earlier, bool *there,
                       struct error *err)
{
    struct store_found found = {0};
    int status = store->engine->find(store, STORE_WATCHED, key, &found, err);
    if (!status && !found.there)
        status = store->engine->find(store, STORE_WATCHED, earlier, &found, err);
    *there = found.there;
    return status;
}

/* A line; *open: a transaction is. */
static int load_line(struct fleet_store *store, const char *text, size_t bytes,
                     const struct fleet_load_options *options, struct fleet_loaded *loaded,
                     unsigned *open, struct error *err)
{
    struct watched_line line;
    struct store_watched head;
    bool there = false;
    int status = watched_parse(text, bytes, &line, err);
    if (status || !line.report) {
        watched_release(&line);
        return status;
    }
    status = watched_identify(&line.of, options, &head, err);
    if (!status)
        status = find_report(store, head.key, watched_line_key(&head, options, text, bytes), &there,
                             err);
    if (!status && there)
        loaded->present_reports++;
    if (!status && !there && !*open)
        status = store->engine->begin(store, err);
    if (!status && !there) {
        ++*open;
        status = watched_put(store, &line.of, &head, options, err);
        loaded->added_reports++;
    }
    if (!status && *open >= BATCH) {
        status = store->engine->commit(store, err);
        *open = status ? *open : 0;
    }
    watched_release(&line);
    return status;
}

int fleet_load_watched(struct fleet_store *store, const char *path,
                       const struct fleet_load_options *options, struct fleet_loaded *loaded,
                       struct error *err)
{
    static const struct trust_rule rule = {
        .what = "the reports", .owners = TRUST_ANYBODY, .follow = true};
    struct lines l = {.fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, err)};
    const char *text = "";
    size_t bytes = 0;
    unsigned open = 0;
    int status = l.fd < 0 ? -1 : 0, more = 0;
    *loaded = (struct fleet_loaded){0};
    while (!status && (more = next_line(&l, &text, &bytes, err)) > 0) {
        status = bytes ? load_line(store, text, bytes, options, loaded, &open, err) : 0;
        if (status)
            error_prefix(err, "line %" PRIu64, l.number);
    }
    if (more < 0)
        status = -1;
    /* lines before a bad one are good */
    if (open && !fleet_broken(store)) {
        struct error other;
        if (store->engine->commit(store, status ? &other : err))
            status = -1;
    }
    if (status && fleet_broken(store))
        store->engine->rollback(store);
    if (l.fd >= 0)
        close(l.fd);
    buffer_release(&l.held);
    return status;
}

bool fleet_is_watched(const char *path)
{
    static const struct trust_rule rule = {
        .what = "the reports", .owners = TRUST_ANYBODY, .follow = true};
    struct error err;
    char first = 0;
    const int fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, &err);
    if (fd >= 0) {
        trust_read(fd, &first, 1, 0);
        close(fd);
    }
    return first == '{';
}
