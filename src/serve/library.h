/* library.h - libmicrohttpd, loaded by the one option that wants it: with the libraries of TLS that
 * it depends on, every other start of mallow would wait for a dozen.
 *
 * Owns: which names it has, and which of its functions are used. */
#ifndef MALLOW_SERVE_LIBRARY_H
#define MALLOW_SERVE_LIBRARY_H

#include <microhttpd.h>

/* What serve calls of it; set by microhttpd_load. */
struct microhttpd {
    __typeof__(MHD_start_daemon) *start_daemon;
    __typeof__(MHD_stop_daemon) *stop_daemon;
    __typeof__(MHD_run) *run;
    __typeof__(MHD_get_timeout) *get_timeout;
    __typeof__(MHD_get_daemon_info) *get_daemon_info;
    __typeof__(MHD_get_connection_info) *get_connection_info;
    __typeof__(MHD_get_connection_values) *get_connection_values;
    __typeof__(MHD_lookup_connection_value) *lookup_connection_value;
    __typeof__(MHD_suspend_connection) *suspend_connection;
    __typeof__(MHD_resume_connection) *resume_connection;
    __typeof__(MHD_create_response_from_buffer) *create_response_from_buffer;
    __typeof__(MHD_add_response_header) *add_response_header;
    __typeof__(MHD_queue_response) *queue_response;
    __typeof__(MHD_destroy_response) *destroy_response;
};
extern struct microhttpd mhd;

/* NULL when it is loaded, else why it cannot be; may be asked again. One thread. */
const char *microhttpd_load(void);

#endif
