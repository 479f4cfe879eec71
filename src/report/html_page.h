/* html_page.h - what stands around the data of every page. */
#ifndef MALLOW_REPORT_HTML_PAGE_H
#define MALLOW_REPORT_HTML_PAGE_H

#include <stddef.h>
#include <stdio.h>

/* title: of the window; blocks of data come between the two calls (see html_pack.h). */
void html_page_begin(FILE *out, const char *title);
void html_page_end(FILE *out);
/* Bytes that blocks may take, so that the page stays within REPORT_HTML_BYTES. */
size_t html_page_room(void);

#endif
