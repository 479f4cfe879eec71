/* place.h - may I create, replace or remove this path?
 *
 * Owns: names in directories that another user can change. A place is a directory, held by its
 * descriptor, and a name in it: once it is open, moving the directory or putting a link in its
 * stead changes nothing. The way to it goes through no symbolic link of another user (root's and
 * the caller's own are followed), so another user cannot redirect an output. Replaced or removed is
 * an entry of that directory, never what a link there names, and only while it is still the file
 * that was looked at.
 *
 * Conventions are those of file.h. Any thread; no state. */
#ifndef MALLOW_TRUST_PLACE_H
#define MALLOW_TRUST_PLACE_H

#include <dirent.h>

#include "trust/file.h"

struct trust_place {
    int dir;          /* its descriptor; -1: closed */
    const char *path; /* as it was given, for messages: the caller's, and stays */
    char name[NAME_MAX + 1];
};

/* Where a path leads. The file need not be there; symbolic links of the caller's or root's are
 * followed, the last one included. 0, or -1 with *err (ELOOP: a link of another user on the way).
 */
int trust_place_open(struct trust_place *p, const char *path, struct error *err);

/* Where the file open at fd, which was opened as `path`, stands, when trust_place_open(path) leads
 * to that very file. 0, or -1 with *err. */
int trust_place_of(struct trust_place *p, const char *path, int fd, struct error *err);

/* The same of a file that may be changed there, or replaced, by a command that was asked to read
 * it: the caller's own, and in a directory that others can write in it has no other name. */
int trust_place_of_own(struct trust_place *p, const char *path, int fd, struct error *err);

void trust_place_close(struct trust_place *p);

/* True if another user can put entries there: the directory is not the caller's or root's own, or
 * group or others may write in it. */
bool trust_place_is_shared(const struct trust_place *p);

/* A new file, open for reading and writing; EEXIST when there is one. */
int trust_create(const struct trust_place *p, mode_t mode, struct error *err);

/* The file to be written at a place, open for reading and appending: created, or, when there is
 * one, a regular file. In a directory that others can write in it must be the caller's own and have
 * no other name. It is not truncated: the caller locks it first. */
int trust_output(const struct trust_place *p, mode_t mode, struct error *err);
/* The same at a path, which stays. doing: what trust_unreachable says. */
int trust_output_at(const char *path, const char *doing, mode_t mode, struct error *err);

/* ---- a file that takes the place of another when it is whole ---- */

/* It has no name before it is whole, so nothing is left of a process that is killed. In a file
 * system that has no files without a name, it has one from the start: then the next draft of the
 * same entry and suffix removes what dead processes left. Which are dead, the lock of the file
 * (flock) says, which a draft holds until it is published or dropped. */
struct trust_draft {
    int fd;                  /* to be written; open for reading as well */
    const char *suffix;      /* the suffix of its name while it has one: ".sealing-" */
    char name[NAME_MAX + 1]; /* "": it has none yet */
};

/* In the directory of p. */
int trust_draft_open(struct trust_draft *d, const struct trust_place *p, const char *suffix,
                     struct error *err);
/* The draft becomes the entry p->name. d->fd stays open and is the caller's. 0, or -1 with *err;
 * then the entry is as it was. */
int trust_draft_publish(struct trust_draft *d, const struct trust_place *p, mode_t mode,
                        struct error *err);
/* Closes a draft that is not to be published, and removes what it left. */
void trust_draft_drop(struct trust_draft *d, const struct trust_place *p);

/* A place and a draft for it, of a path. */
struct trust_whole {
    struct trust_place place;
    struct trust_draft draft;
};

/* The descriptor of this process that the path names: /dev/stdout, /dev/stderr, /dev/fd/N,
 * /proc/self/fd/N. -1: none, and then links of /proc lead nowhere. */
int trust_descriptor(const char *path);

/* Where trust_place_open or another function here failed: `doing` ("cannot write"), the path, the
 * system's reason; a link of another user stays in the text as it is. -1. */
int trust_unreachable(struct error *err, const char *doing, const char *path);

/* True if the path leads to no new file: to a descriptor that trust_descriptor knows, a pipe or a
 * device, which are written directly. *fd is then open for writing and the caller's, or -1 with
 * *err. */
bool trust_direct(const char *path, int *fd, struct error *err);

/* The draft is at w->draft.fd, or what trust_direct opened. path stays. */
int trust_whole_open(struct trust_whole *w, const char *path, struct error *err);
/* Where a library that writes to a path finds the draft; the link leads to the open file, so the
 * library has to follow it. */
#define TRUST_WHOLE_PATH_BYTES 32
void trust_whole_path(const struct trust_whole *w, char path[TRUST_WHOLE_PATH_BYTES]);
/* A stream of its own for the draft; closed by fclose(). NULL with errno. */
FILE *trust_whole_stream(const struct trust_whole *w);
/* Publishes it when `keep`, with the mode that the umask leaves, or drops it; closes all. -1 with
 * *err only when it was to be kept. Reads the umask, so no other thread may create files meanwhile.
 */
int trust_whole_close(struct trust_whole *w, bool keep, struct error *err);

/* A file without a name in the directory of p. */
int trust_unnamed_beside(const struct trust_place *p, struct error *err);
/* A file without a name in $TMPDIR, /var/tmp or /tmp. */
int trust_unnamed(struct error *err);
/* The same in the first of these directories that is not in memory itself. */
int trust_unnamed_on_disk(struct error *err);

/* ---- directories ---- */

/* Opens a directory for reading. rule: owners, and whether the last component may be a link; its
 * other fields do not matter. */
int trust_directory(int dir, const char *path, const struct trust_rule *rule, struct error *err);

/* Makes the directory p->name, which must not be there, and opens it. */
int trust_make_directory(const struct trust_place *p, mode_t mode, struct error *err);

/* Lists a directory from its beginning; the descriptor stays the caller's. closedir() it. NULL with
 * errno. */
DIR *trust_list(int dir);

/* Removes the entry if it is still this file (not a link to it). 0; 1 when it is another by now or
 * gone; -1 with *err. In a directory that the owner of the entry can write in (not sticky ones of
 * root's), that owner may exchange it at the last moment: an entry of that directory is still
 * removed, and nothing else. */
int trust_remove(int dir, const char *name, const struct trust_identity *id, struct error *err);

/* The same of an empty directory; 1 also when it is not empty. */
int trust_remove_directory(int dir, const char *name, const struct trust_identity *id,
                           struct error *err);

#endif
