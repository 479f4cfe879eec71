/* html_assets.h - what web/ was bundled into, as bytes in the program (made by the build). */
#ifndef MALLOW_SHOW_HTML_ASSETS_H
#define MALLOW_SHOW_HTML_ASSETS_H

#include <stddef.h>

extern const char html_script[], html_style[];
extern const size_t html_script_bytes, html_style_bytes;
/* "sha256-...", as a content security policy names them. */
extern const char html_script_hash[], html_style_hash[];

#endif
