/* resident.h - which pages of a live process there are.
 *
 * Owns: asking the kernel before the memory is read, because reading a page that is not there makes
 * the kernel map one of zeros: it would be there afterwards. Asked once for each 128 MB in which
 * something is read, and kept for so many of them that a process of sparse memory costs 128 MB at
 * most. Any thread. */
#ifndef MALLOW_REMOTE_RESIDENT_H
#define MALLOW_REMOTE_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct handle;
struct resident;
struct present;

/* Opens the pagemap of the process, which stands still; or runs: then every page is asked for each
 * time. NULL when out of memory or when the kernel does not say. */
struct resident *resident_new(const struct handle *process, bool runs);
void resident_free(struct resident *r); /* NULL is fine */

enum resident_state {
    RESIDENT_NOT = 0, /* never written, or given back: reads as zeros if it is anonymous memory */
    RESIDENT_HERE = 1,
    RESIDENT_SWAPPED = 2
};

/* The question itself, of addresses without bound. It belongs to r. */
struct present *resident_present(struct resident *r);

/* The state of the page that holds the address, which is below 2^47. RESIDENT_HERE where it is not
 * known. */
enum resident_state resident_page(struct resident *r, uint64_t address);

#endif
