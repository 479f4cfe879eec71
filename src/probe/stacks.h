/* stacks.h - user stacks: gives the kernel side the tables it unwinds by, and takes apart what it
 * kept. One thread. */
#ifndef MALLOW_PROBE_STACKS_H
#define MALLOW_PROBE_STACKS_H

#include "base/error.h"
#include "bpf/key.h"
#include "probe/files.h"
#include "probe/probe.h"

struct bpf_object;
struct stacks;

/* Before the programs are loaded: reads the tables of `files` and sizes the maps for them. */
struct stacks *stacks_new(struct bpf_object *object, const struct files *files, struct error *err);
void stacks_free(struct stacks *s); /* NULL is fine */

/* After loading: hands over the tables. */
int stacks_install(struct stacks *s, struct error *err);

/* A file, or a page of code, that the kernel side met and did not know. */
void stacks_learn(struct stacks *s, const struct probe_event_file *e);

/* Says of a frame that is a bare address in which file of the process it lies, if it still runs. */
void stacks_locate(struct stacks *s, uint32_t pid, struct probe_frame *frame);

/* Reads the tables of all files that a process maps now, so that they need not be met first. */
void stacks_learn_all(struct stacks *s, uint32_t pid);

/* Sends the places of a running process's code to the kernel, page by page. */
void stacks_fill(struct stacks *s, uint32_t pid);

/* The frames of a stack, copied from the kernel's map once at the end. */
size_t stacks_frames(struct stacks *s, uint64_t id, struct probe_frame *frames, size_t max);

/* The frames of a stack that the kernel holds now; 0: it holds none of that id. */
size_t stacks_look(const struct stacks *s, uint64_t id, struct probe_frame *frames, size_t max);

/* Copies what the kernel holds, so that frames can be had after it is gone. */
int stacks_keep(struct stacks *s, const struct probe_row *rows, size_t n, struct error *err);

/* The names of the kernel's functions; "" tables when /proc/kallsyms shows no addresses. */
const char *stacks_kernel_name(struct stacks *s, uint64_t address);
size_t stacks_kernel(struct stacks *s, uint64_t id, const char **names, size_t max);

#endif
