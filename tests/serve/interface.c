/* Compiles when src/serve/microhttpd.h says what the library's own header says. */
#include <microhttpd.h>

#include "serve/microhttpd.h"

#define CONSTANT(name, value)                                                                      \
    _Static_assert(HTTPD_##name == (value) && MHD_##name == (value), #name);
MHD_CONSTANTS(CONSTANT)

#define FUNCTION(name, result, parameters)                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(MHD_##name),                            \
                                                __typeof__(*((struct microhttpd *)0)->name)),      \
                   #name);
MHD_FUNCTIONS(FUNCTION)

_Static_assert(__builtin_types_compatible_p(__typeof__(((union MHD_DaemonInfo *)0)->epoll_fd), int),
               "epoll_fd");
_Static_assert(__builtin_types_compatible_p(__typeof__(((union MHD_ConnectionInfo *)0)->connect_fd),
                                            int),
               "connect_fd");
_Static_assert(__builtin_types_compatible_p(
                   __typeof__(((union MHD_ConnectionInfo *)0)->socket_context), void *),
               "socket_context");

int main(void) { return 0; }
