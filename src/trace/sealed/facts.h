/* facts.h - what a sealed recording says besides events: the file, its images, their nodes.
 *
 * Owns: the streams of FILE, END, IMAGE, EARLY and NODES sections, written from and read into the
 * structs of trace.h. */
#ifndef MALLOW_TRACE_SEALED_FACTS_H
#define MALLOW_TRACE_SEALED_FACTS_H

#include "sealed.h"
#include "trace/trace.h"

/* In IMAGE: the part of the environment that follows. Earlier readers take FACTS_SETTINGS for
 * none. */
enum { FACTS_ENVIRONMENT = 1, FACTS_SETTINGS = 2 };

enum seal_fact {
    SEAL_FACT_FILE = 1,  /* in FILE and END: varints and texts */
    SEAL_FACT_IMAGE = 2, /* in IMAGE: varints and texts */
    SEAL_FACT_MODULES = 3,
    SEAL_FACT_THREADS = 4,
    SEAL_FACT_NOTES = 5,
    SEAL_FACT_RESIDENT = 6,
    SEAL_FACT_SPLITS = 7,
    SEAL_FACT_PARENT = 8, /* in NODES, numbers: 0 outermost, else 1 + zigzag(id - parent) */
    SEAL_FACT_MODULE = 9, /* numbers: 0 none, else index + 1 */
    SEAL_FACT_PC = 10,    /* numbers: zigzag of the difference to the last pc of the section whose
                             module has the same low byte */
    SEAL_FACT_FLAGS = 11, /* u8 a node; says how many there are */
    SEAL_FACT_NAMES = 12, /* in IMAGE: records as in MLW_TLV_NAMES */
    SEAL_FACT_FAULTS = 13,
    SEAL_FACT_LEVELS = 14,
    SEAL_FACT_MOMENTS = 15,
    SEAL_FACT_EARLY_THREADS = 16, /* in EARLY: varints index, tid, start ns, text name */
    SEAL_FACT_SPLITS_MORE = 17,
    SEAL_FACT_CALLED = 18 /* in IMAGE: a count and texts of the title, text comm */
};

#define SEAL_NODES_MAX   (64u << 10) /* nodes of a NODES section, at most */
#define SEAL_THREADS_MAX (1u << 20)  /* threads of an image whose IMAGE is lost, at most */

struct file_facts {
    uint64_t version, tick_ns, start_realtime_ns, damaged_bytes;
    const char *host, *tool;
    uint64_t kernel_kinds, lost_kernel_events, minor;
    struct mlw_limits limits;
};

/* The facts that go with a trace_image into its section. `forked_from` is the number of an image in
 * the file. */
struct image_facts {
    struct trace_image image;
    uint64_t first_block; /* blocks before are void (a reset) */
    uint64_t tick_ns;
    const uint8_t *names; /* written only: as in MLW_TLV_NAMES */
    size_t names_bytes;
};

void facts_put_file(struct seal_writer *w, struct section *s, const struct file_facts *f);
void facts_put_image(struct seal_writer *w, struct section *s, const struct image_facts *f);
/* Writes the facts that name the events so far and that no EARLY section of the image has:
 * modules, threads (with their numbers in `threads`) and event notes. described: also the
 * description of the process. */
void facts_put_early(struct seal_writer *w, struct section *s, const struct image_facts *f,
                     bool described, const uint32_t *threads);
/* Writes the nodes numbered first..first + n - 1; n is at most SEAL_NODES_MAX. Returns 0, or -1
 * with *err. */
int facts_write_nodes(struct seal_writer *w, uint32_t image, const struct trace_frame_node *nodes,
                      uint32_t first, uint32_t n, struct error *err);

/* Reads the facts of a section. Texts live in the arena. Returns 0, or -1 with *err if it is
 * damaged, or without memory. */
int facts_read_file(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                    struct file_facts *f, struct error *err);
int facts_read_image(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                     struct image_facts *f, struct error *err);
/* The EARLY sections of an image, combined; zeroed at first. facts_read_early adds the section
 * at h, which must be the next, and returns 0, or -1 with *err. The arrays of f.image are in the
 * arena after early_facts_finish. */
struct early_facts {
    struct image_facts f;
    uint64_t sections;
    struct trace_module *modules;
    struct trace_thread *threads;
    struct trace_event_note *notes;
    size_t modules_cap, threads_cap, notes_cap;
};
int facts_read_early(int fd, const struct section_head *h, ZSTD_DCtx *z, struct arena *a,
                     struct early_facts *e, struct error *err);
/* Copies the arrays to the arena and frees them. Returns 0, or -1 without memory. */
int early_facts_finish(struct early_facts *e, struct arena *a);
/* Reads the nodes of a section into nodes[1..count]. Returns 0, or -1 with *err. */
int facts_read_nodes(int fd, const struct section_head *h, ZSTD_DCtx *z,
                     struct trace_frame_node *nodes, uint32_t count, struct error *err);

#endif
