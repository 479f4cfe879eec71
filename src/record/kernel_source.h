/* kernel_source.h - the kernel's events beside the calls: `mallow record --with`.
 *
 * Owns: the probes that are at work while the program runs, the way from the kernel's clock to that
 * of the recording, and KERNEL chunks. One thread. */
#ifndef MALLOW_RECORD_KERNEL_SOURCE_H
#define MALLOW_RECORD_KERNEL_SOURCE_H

#include "image.h"
#include "record.h"

struct kernel_source;

/* Attaches the probes to `child`, which waits before its exec. r and o must outlive the result.
 * Returns NULL with *err, one line that names the missing part. */
struct kernel_source *kernel_open(struct recording *r, const struct record_options *o,
                                  uint32_t child, struct error *err);
uint32_t kernel_kinds(const struct kernel_source *k); /* bits 1 << enum mlw_kernel_kind */

/* NULL is fine in all functions below. */
size_t kernel_descriptors(const struct kernel_source *k);
int kernel_descriptor(const struct kernel_source *k, size_t i); /* readable: kernel_take */
/* Appends the events that came since the last call. */
void kernel_take(struct kernel_source *k);
/* Detaches and appends the remaining events. Returns how many events were lost. */
uint64_t kernel_close(struct kernel_source *k);

#endif
