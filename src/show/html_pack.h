/* html_pack.h - data blocks of a page: compressed, and in letters that HTML cannot misread. */
#ifndef MALLOW_SHOW_HTML_PACK_H
#define MALLOW_SHOW_HTML_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

struct html_block {
    unsigned char *data; /* zlib stream */
    size_t data_bytes;
    size_t page_bytes; /* its size on the page */
};

/* Packs a text. helpers: threads that work at it beside the caller's, HTML_PACK_HELPERS at most;
 * the block does not depend on them. 0, or -1 with *err set. */
#define HTML_PACK_HELPERS 15u
int html_block_pack(struct html_block *block, const char *text, size_t text_bytes, unsigned helpers,
                    struct error *err);
/* The size on the page of so many packed bytes. */
size_t html_block_takes(size_t data_bytes);
/* One that was packed before. False without memory. */
bool html_block_copy(struct html_block *block, const void *data, size_t data_bytes);
/* As a <script> element with this id that no browser runs. */
void html_block_write(FILE *out, const char *id, const struct html_block *block);
void html_block_release(struct html_block *block);

/* Text with & < > " made harmless. */
void html_text(FILE *out, const char *text);

#endif
