/* names.h - the frames of an image's stacks, as text that people read.
 *
 * Owns: the way from a node of a stack to function, file, line and module, through symbol/, done
 * once for every distinct address and only when asked for. Frames that read the same have the same
 * id. Not thread-safe. */
#ifndef MALLOW_FRAMES_NAMES_H
#define MALLOW_FRAMES_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/figures.h"
#include "analyse/sites.h"
#include "base/buffer.h"
#include "base/error.h"
#include "look.h"
#include "role.h"
#include "symbol/symbol.h"
#include "trace/trace.h"

struct name_frame {
    const char *function; /* never NULL; without a name "libx.so+0x1234" or "0x7f..." */
    const char *brief;    /* the same without its parameters, for tables; NULL: the same */
    const char *full;     /* the same, unless the look shortens names */
    const char *file;     /* NULL when unknown */
    const char *place;    /* the file, relative to the root of the sources; below no root its base
                             name */
    const char *module;   /* basename; NULL when unknown */
    unsigned line;        /* 0 when unknown */
    /* In one word: there can be millions of frames. */
    enum role role : 8;
    bool inlined : 1; /* into the next frame */
    bool known : 1;   /* function is a name */
    bool cut : 1;     /* not a frame: says that the stack could not be unwound further */
    bool own : 1;     /* true for the program itself or its scripts, not of a library's file */
    bool hidden : 1;  /* the look leaves it out where others are outside of it */
    bool below : 1;   /* place is relative to the root of the sources */
    bool wrapper : 1; /* allocator's, library's or libc's: its caller is the interesting site */
};
_Static_assert(sizeof(struct name_frame) <= 56, "what a frame took before it had a brief name");

struct names;

/* symbols and image must outlive it. symbols NULL: addresses only. */
struct names *names_new(struct symbols *symbols, const struct trace_image *image,
                        struct error *err);
void names_free(struct names *n); /* NULL is fine */
/* Another one of the same image, which looks as this does and has met no frame yet. Another thread
 * may use it: what they share are the symbols, which have a lock. */
struct names *names_again(const struct names *n, struct error *err);
/* A sum of the names of all frames of the image, in whatever order they are met. */
uint64_t names_digest(struct names *n);
/* How names are shown, before the first one is; without it as they are, with everything. */
void names_set_look(struct names *n, const struct names_look *look);
/* The root of the sources in use, without a slash at its end; "" when there is none. */
const char *names_source_root(struct names *n);

/* Looks again for names of generated code that had none, where its map has grown: a process that
 * lives compiles more. Ids of earlier calls may then mean frames that are no longer met. */
void names_renew(struct names *n);

/* Ids of the frames at node (1..image->stacks), innermost first; valid until the next call. Out of
 * memory gives no frames and makes names_failed true. */
size_t names_of(struct names *n, uint32_t node, const uint32_t **ids);
const struct name_frame *names_frame(const struct names *n, uint32_t id);

/* The frames of a stack, innermost first: begin with {.node = stack}. */
struct names_walk {
    uint32_t node, position; /* where the frame stands */
    uint32_t id;
    uint32_t next; /* position */
};
bool names_next(struct names *n, struct names_walk *w); /* false: there are no more */
/* Appends the ids of them all; how many. */
size_t names_append(struct names *n, uint32_t stack, struct buffer *ids);

/* The function's name in tables. */
static inline const char *names_frame_brief(const struct name_frame *f)
{
    return f->brief ? f->brief : f->function;
}
/* True if a pattern means the function, by its whole name or as it is shown. */
bool names_frame_matches(const struct name_frame *f, const struct pattern *p);
/* Appends the frame as the JSON object that all commands print. */
void names_frame_json(const struct name_frame *f, struct buffer *b);
const struct trace_image *names_image(const struct names *n);
uint32_t names_count(const struct names *n); /* ids so far: 0..count-1 */
bool names_failed(const struct names *n);

/* Where the call site of a stack stands: the node, and which of its frames. It is the innermost
 * frame of the program's own code; of a stack without one the innermost that no allocator calls, or
 * else the innermost at all. Returns its id, or NO_NAME for a stack without frames. */
#define NO_NAME UINT32_MAX
uint32_t names_site(struct names *n, uint32_t stack, uint32_t *node, uint32_t *position);
/* The same among frames that stand in a row, innermost first: which of them. Scripts are known of
 * that were met before: look at all rows first. */
size_t names_first(struct names *n, const uint32_t *ids, size_t count);
/* The same among the frames of a tip of sites, of which hidden ones are not counted. */
size_t names_tip(struct names *n, const struct sites *sites, uint32_t tip);

/* The same among frames that are given one by one, each with a key. All 0 to begin with. */
struct names_search {
    struct nameless { /* frames without a name, one behind the other */
        const char *module;
        unsigned steps;
        bool interpreter;
    } run;
    bool begun, in_run, has_fallback;
    uint64_t first, candidate, fallback;
};
/* True: the call site is known now: *site is its key. */
bool names_search(struct names_search *s, const struct name_frame *f, uint64_t key, uint64_t *site);
/* The key of the call site when there are no more frames. */
uint64_t names_search_end(const struct names_search *s);

/* How many of the frames are shown: without the hidden ones at the outer end. */
size_t names_shown(const struct names *n, const uint32_t *ids, size_t count);

/* A frame that does not stand in tables: the look hides it, or it is of an interpreter, whose
 * scripts have frames; after names_site has met it. */
bool names_leaves_out(const struct names *n, uint32_t id);

/* As analyse/ wants it. all_frames: wrappers are sites like others, and the frames of an
 * interpreter stand between those of its scripts. */
struct frame_source names_source(struct names *n, bool all_frames);

/* Bit set for nodes whose stack ends in a note that it was cut. Caller frees [stacks + 1]. */
uint8_t *names_cut_stacks(const struct trace_image *image);

#endif
