/* source.h - the text of the sources around the frames of a page, where the user allows it.
 *
 * A recording says which files its functions come from, and a page is made to be handed on: files
 * are read below one directory that the user named, and nowhere else. */
#ifndef MALLOW_PAGE_SOURCE_H
#define MALLOW_PAGE_SOURCE_H

#include <stdint.h>

#include "base/json.h"
#include "page/sites.h"

/* The field `sources`: {root, items[]}, each with frame, line, first and lines[]; at most 500, of
 * the call sites that weigh most, then of other frames. number: of the frames on the page, by id +
 * 1. root: absolute, or NULL: nothing is read and the field is null. */
int html_sources(struct json *j, const struct page_sites *sites, const struct names *names,
                 const uint32_t *number, const char *root, struct error *err);

#endif
