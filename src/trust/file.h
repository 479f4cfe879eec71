/* file.h - may I believe this file; may I open it?
 *
 * Owns: how a file is opened whose name, or whose content, another user can influence. A file is
 * looked at before it is opened (O_PATH, fstat), and then that very inode is opened: no device,
 * FIFO or terminal is ever opened, nothing blocks, and the file cannot be swapped in between. Owns
 * reading without faults, too: a file that another user may truncate is read by pread, never
 * mapped.
 *
 * Descriptors are closed on exec and belong to the caller. A function that returns a descriptor
 * returns -1 with *err set when it fails: ERROR_SYSTEM with the errno in err->number, ERROR_USAGE
 * for a file that is not regular, or ERROR_UNSUPPORTED for one that breaks the rule. Any thread; no
 * state. */
#ifndef MALLOW_TRUST_FILE_H
#define MALLOW_TRUST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

enum trust_owner {                    /* whose a file may be; bits */
                   TRUST_CALLER = 1,  /* the effective user's */
                   TRUST_ROOT = 2,    /* user 0's */
                   TRUST_USER = 4,    /* that of trust_rule.user */
                   TRUST_ANYBODY = 8, /* the reader trusts nothing in it */
};

struct trust_rule {
    const char *what;    /* in messages: "the recording" */
    unsigned owners;     /* enum trust_owner; 0 means TRUST_CALLER */
    uid_t user;          /* the user for TRUST_USER */
    uint64_t most_bytes; /* 0: no bound */
    bool one_name;       /* no hard links: writes through this name reach no other file */
    bool follow;         /* the last component may be a symbolic link: for a path that the caller's
                            user typed, or a link of /proc */
};

enum trust_access {
    TRUST_READ,
    TRUST_WRITE,  /* and read */
    TRUST_APPEND, /* and read */
};

/* Opens a regular file that obeys the rule. dir: a directory's descriptor, or AT_FDCWD. A symbolic
 * link as the last component is ELOOP unless the rule says `follow`. */
int trust_open(int dir, const char *path, enum trust_access access, const struct trust_rule *rule,
               struct error *err);

/* The same for reading a file below the directory `dir`, whatever the path says: no "..", absolute
 * path or symbolic link on the way leads out of it. For names that a file holds. */
int trust_open_below(int dir, const char *path, const struct trust_rule *rule, struct error *err);

/* A regular file of any owner's that the caller named, for reading with pread. */
int trust_open_any(const char *path, struct error *err);

/* The same question about a descriptor. 0, or -1 with *err. */
int trust_check(int fd, const struct trust_rule *rule, struct error *err);

/* The file that fd has open (it may be O_PATH), opened once more. -1 with errno. */
int trust_again(int fd, enum trust_access access);

/* ---- which file ---- */

struct trust_identity {
    uint64_t device, inode;
    uid_t owner;
};

/* Identifies an open file. False: it cannot be asked. */
bool trust_identify(int fd, struct trust_identity *id);
/* True if the entry (not what a link there names) is this file. */
bool trust_is(int dir, const char *name, const struct trust_identity *id);
bool trust_same(const struct trust_identity *a, const struct trust_identity *b);

/* ---- reading what may change meanwhile ---- */

/* Up to `bytes` bytes at `offset`; fewer where the file ends, or ended meanwhile. Never faults. */
size_t trust_read(int fd, void *to, size_t bytes, uint64_t offset);

/* Where there may be data at or after `offset`, at most `bytes` (the size): a file may be terabytes
 * of nothing. Moves the position of the descriptor. */
uint64_t trust_past_hole(int fd, uint64_t offset, uint64_t bytes);

/* The whole of a file of at most most_bytes, with a NUL behind it; to be freed. Reads to the end
 * whatever fstat says (/proc). NULL with *err: too large, unreadable, no memory. */
char *trust_read_whole(int fd, size_t most_bytes, size_t *bytes, struct error *err);
/* The same of a file that trust_open_any opens; *err names it. */
char *trust_read_any(const char *path, size_t most_bytes, size_t *bytes, struct error *err);

/* True if a mapping of the file cannot fault: it is the caller's or root's own, or sealed against
 * shrinking. */
bool trust_may_map(int fd);

/* For a library that maps what it reads (libelf): takes over fd and returns a descriptor of the
 * same bytes whose mapping neither faults nor, in another user's file, changes: fd itself when it
 * is the caller's or root's own or sealed against both, else a sealed copy in memory of a file of
 * at most most_bytes, which costs what the file has of data. -1 with *err, and fd is closed. */
int trust_stable(int fd, uint64_t most_bytes, struct error *err);

/* The largest file of another user that is copied, if the caller has no bound of its own. */
#define TRUST_COPY_BYTES_MAX ((uint64_t)4 << 30)

/* Maps a file of any owner's that the caller named, for reading, so that it cannot fault. NULL with
 * *err, also for an empty file. To be unmapped. */
void *trust_map(const char *path, size_t *bytes, struct error *err);

#endif
