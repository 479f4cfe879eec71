/* live_page.h - the page of `mallow watch --listen`, as bytes in the program (made by the build
 * from web/live.html). */
#ifndef MALLOW_WATCH_OUT_LIVE_PAGE_H
#define MALLOW_WATCH_OUT_LIVE_PAGE_H

#include <stddef.h>

extern const char live_page[];
extern const size_t live_page_bytes;
extern const char live_page_policy[]; /* Content-Security-Policy */

#endif
