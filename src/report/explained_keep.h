/* explained_keep.h - the findings of a report's second pass at its moments, in the index of the
 * recording.
 *
 * Owns: the columns of the index's PINNED parts (docs/format.md). Which call sites have one stack
 * in common depends on names, which are not in a recording: so a part has the questions for call
 * sites that the pass asked, and holds where the answers distinguish the same stacks. One thread.
 */
#ifndef MALLOW_REPORT_EXPLAINED_KEEP_H
#define MALLOW_REPORT_EXPLAINED_KEEP_H

#include "analyse/advice_sites.h"
#include "analyse/pinned.h"
#include "base/words.h"
#include "frames/names.h"

/* Moments, and the findings at each. */
struct explained_pass {
    struct trace *t;
    uint32_t image;
    struct names
        *names; /* used by the pass only: they have met exactly the frames that it asked for */
    const uint64_t *times_ns;   /* [count] */
    const uint64_t *trim_bytes; /* [count] as advice_sites_find gets them */
    size_t count;
    struct pinned *results;     /* [count] zeroed at first */
    struct advice_found *found; /* [count] */
};

/* The stacks whose call sites a pass asked for, in order, each once. */
struct explained_asked {
    struct words stacks;
    uint8_t *bits; /* a bit for each stack of the image; NULL: nothing is kept */
};

/* Fills results and found from the index. Returns false, and changes nothing, if the index has
 * no valid part for these moments. */
bool explained_kept(const struct explained_pass *x);
/* Renumbers the call sites to ids of `names`. */
void explained_number_sites(struct advice_found *a, struct names *names);
void explained_ask(struct explained_asked *a, uint32_t stack);
void explained_forget(struct explained_asked *a);
/* Keeps the results of a pass for the index, and frees a. */
void explained_keep(const struct explained_pass *x, struct explained_asked *a);

#endif
