/* draft.h - the text of a block while it is made, with a guess of what it will take on the
 * page: from an eighth of it, without packing the rest.
 *
 * Owns: the text, and the thread that works at the guess while the caller makes more. The guess
 * does not depend on the thread. One thread, the caller's. */
#ifndef MALLOW_PAGE_DRAFT_H
#define MALLOW_PAGE_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

struct html_draft_guess;

struct html_draft {
    FILE *out;  /* the caller writes to it, until html_draft_close */
    char *text; /* [bytes], complete after html_draft_close */
    size_t bytes;
    size_t guess_bytes; /* after html_draft_close, on the page, about; 0: too short to guess */
    /* private */
    size_t room;
    struct html_draft_guess *guess;
};

/* beside: a thread may guess. 0, or -1 with *err set. */
int html_draft_open(struct html_draft *d, bool beside, struct error *err);
/* No more is written. -1 with *err set where some of the text is missing, for want of memory. */
int html_draft_close(struct html_draft *d, struct error *err);
/* Also of one that was not closed; one that is zero is fine. */
void html_draft_release(struct html_draft *d);

#endif
