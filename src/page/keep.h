/* keep.h - the blocks of a process on the page, in the index of the recording.
 *
 * Owns: the columns of the index's PAGE parts (docs/format.md), and when they hold: for the same
 * options, the same room, and names that read the same. Nothing of a part is believed but that it
 * is data: a page packs it as letters that HTML cannot misread, and runs nothing of it. One thread.
 */
#ifndef MALLOW_PAGE_KEEP_H
#define MALLOW_PAGE_KEEP_H

#include "frames/names.h"
#include "show/html_pack.h"
#include "report/report.h"

struct html_room {      /* that a process may take */
    size_t share_bytes; /* bytes of the page */
    size_t most_bytes;  /* at most, when otherwise its figures would be wrong */
    bool must_fit;      /* something of it must be there */
};

/* The blocks; moments has none where there are none (data NULL). False: there are none that hold.
 */
bool html_kept(struct trace *t, uint32_t image, const struct names *names,
               const struct report_options *o, const struct html_room *room,
               struct html_block *process, struct html_block *moments);
/* Keeps them. moments NULL: there are none. */
void html_keep(struct trace *t, uint32_t image, const struct names *names,
               const struct report_options *o, const struct html_room *room,
               const struct html_block *process, const struct html_block *moments);

#endif
