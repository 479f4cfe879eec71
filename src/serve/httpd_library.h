/* httpd_library.h - libmicrohttpd, loaded by the one option that wants it: with the libraries of
 * TLS that it depends on, every other start of mallow would wait for a dozen.
 *
 * Owns: which names it has, and that its functions are all there. */
#ifndef MALLOW_SERVE_HTTPD_LIBRARY_H
#define MALLOW_SERVE_HTTPD_LIBRARY_H

#include "microhttpd.h"

extern struct microhttpd mhd; /* set by microhttpd_load */

/* NULL when it is loaded, else why it cannot be; may be asked again. One thread. */
const char *microhttpd_load(void);

#endif
