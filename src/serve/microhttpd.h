/* microhttpd.h - the binary interface of libmicrohttpd.so.12, as far as serve uses it.
 *
 * mallow loads this library at run time and by this name, so it needs no header of it to be built:
 * its -dev package brings fourteen others. Owns: numbers and types of that interface. The test
 * serve-interface compares each with the library's own header. */
#ifndef MALLOW_SERVE_MICROHTTPD_H
#define MALLOW_SERVE_MICROHTTPD_H

#include <stddef.h>
#include <stdint.h>

/* X(name, value): flags of the daemon, tags of its options, results and kinds. */
#define MHD_CONSTANTS(X)                                                                           \
    X(NO, 0)                                                                                       \
    X(YES, 1)                                                                                      \
    X(USE_TLS, 2)                                                                                  \
    X(USE_EPOLL, 512)                                                                              \
    X(ALLOW_SUSPEND_RESUME, 9216)                                                                  \
    X(OPTION_END, 0)                                                                               \
    X(OPTION_CONNECTION_MEMORY_LIMIT, 1)                                                           \
    X(OPTION_CONNECTION_LIMIT, 2)                                                                  \
    X(OPTION_CONNECTION_TIMEOUT, 3)                                                                \
    X(OPTION_NOTIFY_COMPLETED, 4)                                                                  \
    X(OPTION_HTTPS_MEM_KEY, 8)                                                                     \
    X(OPTION_HTTPS_MEM_CERT, 9)                                                                    \
    X(OPTION_HTTPS_PRIORITIES, 11)                                                                 \
    X(OPTION_LISTEN_SOCKET, 12)                                                                    \
    X(OPTION_NOTIFY_CONNECTION, 27)                                                                \
    X(OPTION_STRICT_FOR_CLIENT, 29)                                                                \
    X(CONNECTION_NOTIFY_CLOSED, 1)                                                                 \
    X(CONNECTION_INFO_CONNECTION_FD, 6)                                                            \
    X(CONNECTION_INFO_SOCKET_CONTEXT, 7)                                                           \
    X(DAEMON_INFO_EPOLL_FD, 3)                                                                     \
    X(FEATURE_TLS, 2)                                                                              \
    X(HEADER_KIND, 1)                                                                              \
    X(GET_ARGUMENT_KIND, 8)                                                                        \
    X(RESPMEM_PERSISTENT, 0)                                                                       \
    X(RESPMEM_MUST_FREE, 1)                                                                        \
    X(HTTP_OK, 200)                                                                                \
    X(HTTP_UNAUTHORIZED, 401)                                                                      \
    X(HTTP_METHOD_NOT_ALLOWED, 405)                                                                \
    X(HTTP_MISDIRECTED_REQUEST, 421)                                                               \
    X(HTTP_INTERNAL_SERVER_ERROR, 500)                                                             \
    X(HTTP_SERVICE_UNAVAILABLE, 503)

enum {
#define CONSTANT(name, value) HTTPD_##name = (value),
    MHD_CONSTANTS(CONSTANT)
#undef CONSTANT
};

struct sockaddr;
struct MHD_Daemon;
struct MHD_Connection;
struct MHD_Response;
union MHD_DaemonInfo;
union MHD_ConnectionInfo;

/* The members of the two unions that serve asks for. */
union mhd_info {
    int fd;
    void *socket_context;
};

/* Called by the library for a request; its enumerations are `unsigned` here, as they are passed. */
typedef unsigned mhd_answer(void *arg, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_bytes, void **state);
typedef unsigned mhd_accept(void *arg, const struct sockaddr *address, unsigned bytes);
typedef unsigned mhd_pair(void *arg, unsigned kind, const char *key, const char *value);

/* X(name, result, parameters): the functions, MHD_name in the library. */
#define MHD_FUNCTIONS(X)                                                                           \
    X(start_daemon, struct MHD_Daemon *,                                                           \
      (unsigned flags, uint16_t port, mhd_accept *accept, void *accept_arg, mhd_answer *answer,    \
       void *arg, ...))                                                                            \
    X(stop_daemon, void, (struct MHD_Daemon * daemon))                                             \
    X(is_feature_supported, unsigned, (unsigned feature))                                          \
    X(run, unsigned, (struct MHD_Daemon * daemon))                                                 \
    X(get_timeout, unsigned, (struct MHD_Daemon * daemon, unsigned long long *ms))                 \
    X(get_daemon_info, const union MHD_DaemonInfo *,                                               \
      (struct MHD_Daemon * daemon, unsigned kind, ...))                                            \
    X(get_connection_info, const union MHD_ConnectionInfo *,                                       \
      (struct MHD_Connection * connection, unsigned kind, ...))                                    \
    X(get_connection_values, int,                                                                  \
      (struct MHD_Connection * connection, unsigned kind, mhd_pair *pair, void *arg))              \
    X(lookup_connection_value, const char *,                                                       \
      (struct MHD_Connection * connection, unsigned kind, const char *key))                        \
    X(suspend_connection, void, (struct MHD_Connection * connection))                              \
    X(resume_connection, void, (struct MHD_Connection * connection))                               \
    X(create_response_from_buffer, struct MHD_Response *,                                          \
      (size_t bytes, void *data, unsigned mode))                                                   \
    X(add_response_header, unsigned,                                                               \
      (struct MHD_Response * response, const char *name, const char *value))                       \
    X(queue_response, unsigned,                                                                    \
      (struct MHD_Connection * connection, unsigned status, struct MHD_Response *response))        \
    X(destroy_response, void, (struct MHD_Response * response))

/* The functions of the loaded library. */
struct microhttpd {
#define FUNCTION(name, result, parameters) result(*name) parameters;
    MHD_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

#endif
