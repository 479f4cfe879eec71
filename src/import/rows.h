/* rows.h - writing an unsealed recording, from calls that come in the order of time. Of one
 * process, which is image 0, or of others as well.
 *
 * Owns: the temporary file, which is sealed into the wanted one at the end. Errors of writing are
 * sticky and returned by rows_finish. */
#ifndef MALLOW_IMPORT_ROWS_H
#define MALLOW_IMPORT_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "format/chunk.h"
#include "format/op.h"
#include "format/row.h"

struct rows;

struct rows_process {
    const char *tool;      /* the tool that made the source, for "recorded_by" */
    const char *command;   /* one line; NULL when unknown, or known as: */
    const char *arguments; /* pieces that end with a NUL each */
    size_t argument_bytes;
    const char *exe;       /* with them */
    const char *allocator; /* NULL when unknown */
    const char *note;      /* the losses of the recording, for the user; NULL for none */
    uint32_t pid, ppid;    /* ppid 0: unknown */
    uint32_t stack_mode;   /* enum mlw_stack_mode */
    uint32_t forked_from;  /* rows_image: 1 + the image that it was forked from; 0: none */
    uint64_t start_realtime_ns;
};

/* A call. Times are nanoseconds since the start; one that is not later than that of the call before
 * becomes a nanosecond later. */
struct rows_call {
    uint64_t time_ns, address, size, usable, argument;
    uint32_t stack;  /* node, 0 for none */
    uint8_t op;      /* enum mlw_op */
    uint8_t path;    /* enum mlw_path */
    bool has_usable; /* else the usual of glibc */
};

/* A function at an address; inlined: into the next one that is added with the same address. */
struct rows_name {
    uint64_t pc;
    const char *function, *file; /* NULL or "" when unknown */
    uint32_t line;
    bool inlined;
};

/* Makes OUT's temporary neighbor. */
struct rows *rows_new(const char *out, struct error *err);
/* Writes to the file at fd itself, which is empty and from then on belongs to it: the flushed part
 * is a recording that can be read. out: its path. NULL: fd is closed. */
struct rows *rows_new_on(int fd, const char *out, struct error *err);
/* Once, at any time before rows_finish. */
void rows_process(struct rows *r, const struct rows_process *p);
/* The number of another image, which begins behind all calls so far. */
uint32_t rows_image(struct rows *r, const struct rows_process *p, uint64_t time_ns);
/* The number of a new thread, of image 0, or of another. */
uint32_t rows_thread(struct rows *r, uint32_t tid, const char *name);
uint32_t rows_thread_of(struct rows *r, uint32_t image, uint32_t tid, const char *name);
void rows_call(struct rows *r, uint32_t thread, const struct rows_call *c);
/* Ids from 1, each once, before the first call that uses them; parents before children. Stacks and
 * modules belong to the thread's image and those forked from it. */
void rows_node(struct rows *r, uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc,
               uint32_t module);
/* The same of a frame that was really called: pc is where it will return to. */
void rows_frame(struct rows *r, uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc,
                uint32_t module);
/* bias: what a frame's pc is more than its offset in the file. */
void rows_module(struct rows *r, uint32_t thread, uint32_t id, const char *path, uint64_t bias);
void rows_name(struct rows *r, const struct rows_name *n);
/* vmsize, rss, rss_shared; the clock is not looked at. Of a time before the image's begin, which
 * may be a nanosecond later than was said: at its begin. */
void rows_resident(struct rows *r, uint32_t image, uint64_t time_ns, const struct mlw_resident *k);
/* The same of a split; it goes to the file at once. */
void rows_split(struct rows *r, uint32_t image, uint64_t time_ns, const struct mlw_split *k);
uint64_t rows_calls(const struct rows *r);
void rows_flush(struct rows *r); /* all that there is so far goes to the file */
/* The name of an image when it was last looked at: its arguments, pieces that end with a NUL each,
 * and the kernel's name of it. Once, at any time before its end is written. */
void rows_called(struct rows *r, uint32_t image, const char *arguments, size_t bytes,
                 const char *comm);
/* The image ended (enum mlw_end_how; status as of waitpid, or 0): nothing more comes of it. Those
 * of which this is not said end with the file, by an exit. */
void rows_end(struct rows *r, uint32_t image, uint64_t time_ns, uint32_t how, uint32_t status);
/* At any time: calls of it that are missing; something else to note for the user. */
void rows_lost(struct rows *r, uint32_t image, uint64_t calls);
void rows_note(struct rows *r, uint32_t image, const char *note);

/* Ends the file at end_ns, seals into OUT and frees r. 0, or -1 with *err and no OUT. */
int rows_finish(struct rows *r, uint64_t end_ns, struct error *err);
/* The same of rows_new_on, without sealing: the file stays as it is. */
int rows_finish_raw(struct rows *r, uint64_t end_ns, struct error *err);
void rows_abandon(struct rows *r); /* NULL is fine */

#endif
