/* serve.c - Answers HTTP requests through libmicrohttpd, which it loads on demand and polls from
 * the owner's thread. It checks the Host header and the token before it asks the owner.
 * Connections, header sizes and times have bounds, and the oldest idle connection makes room for
 * a new one. */
#include "serve/serve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/human.h"
#include "base/library.h"
#include "microhttpd.h"

/* Libmicrohttpd, loaded by the one option that wants it: with the libraries of
 * TLS that it depends on, every other start of mallow would wait for a dozen.
 *
 * Owns: which names it has, and that its functions are all there. */

static struct microhttpd mhd; /* set by microhttpd_load */

static const char *const names[] = {"libmicrohttpd.so.12", NULL};

static const struct library_symbol functions[] = {
#define FUNCTION(name, result, parameters) {"MHD_" #name, offsetof(struct microhttpd, name)},
    MHD_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* NULL when it is loaded, else why it cannot be; may be asked again. One thread. */
static const char *microhttpd_load(void)
{
    static struct library library = {.title = "libmicrohttpd",
                                     .names = names,
                                     .symbols = functions,
                                     .symbol_count = sizeof functions / sizeof *functions,
                                     .table = &mhd};
    return library_load(&library);
}

/* True if a request names the token. Pure functions; both texts stay the
 * caller's. */

/* Looks at every character of the token, whatever the first that differs. */
static bool same_token(const char *token, const char *given)
{
    const size_t length = strlen(token), all = strlen(given);
    volatile unsigned char differs = length != all;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)(token[i] ^ given[i < all ? i : all]);
    return !differs;
}

static int digit64(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Text in base 64 up to its padding; NULL when it is none, or there is no memory. To be freed. */
static char *decode64(const char *text)
{
    const size_t length = strcspn(text, "=");
    char *out = calloc(1, length + 1);
    unsigned bits = 0, value = 0;
    size_t n = 0;
    for (size_t i = 0; out && i < length; i++) {
        const int digit = digit64(text[i]);
        if (digit < 0) {
            free(out);
            return NULL;
        }
        value = value << 6 | (unsigned)digit;
        bits += 6;
        if (bits >= 8)
            out[n++] = (char)(value >> (bits -= 8) & 0xff);
    }
    return out;
}

/* The text behind the scheme; NULL: it is another one. */
static const char *behind(const char *text, const char *scheme)
{
    const size_t n = strlen(scheme);
    if (strncasecmp(text, scheme, n) != 0 || text[n] != ' ')
        return NULL;
    return text + n + strspn(text + n, " ");
}

/* authorization: the value of that header, "Bearer TOKEN", or "Basic ..." with the token as the
 * password of any user, which is what browsers and URLs can send. How long this takes says nothing
 * of the token but its length. */
static bool token_accepts(const char *token, const char *authorization)
{
    const char *given = behind(authorization, "Bearer");
    if (given)
        return same_token(token, given);
    given = behind(authorization, "Basic");
    char *decoded = given ? decode64(given) : NULL;
    const char *password = decoded ? strchr(decoded, ':') : NULL;
    const bool accepted = password && same_token(token, password + 1);
    if (decoded)
        explicit_bzero(decoded, strlen(decoded));
    free(decoded);
    return accepted;
}

/* Addresses to listen on, as they are written and as clients name them. Pure functions. */

#define LOOPBACK_NET 127u /* 127.0.0.0/8 */

/* Splits at the colon of the port. Returns the port's text, "" without one; NULL: no such form. */
static const char *split(const char *text, char *host, size_t room, bool *bracketed)
{
    const char *end, *begin = text;
    *bracketed = *text == '[';
    if (*bracketed) {
        begin++;
        end = strchr(begin, ']');
        if (!end || (end[1] && end[1] != ':'))
            return NULL;
    } else {
        end = begin + strcspn(begin, ":");
    }
    if (end == begin || (size_t)(end - begin) >= room)
        return NULL;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = 0;
    end += *bracketed;
    return *end == ':' ? end + 1 : end;
}

static bool loopback4(struct in_addr a) { return ntohl(a.s_addr) >> 24 == LOOPBACK_NET; }

/* "127.0.0.1:80", "[::1]:80", "localhost:0". *loopback: only this machine can reach it. -1: *err
 * names its fault. */
static int address_parse(const char *text, struct sockaddr_storage *out, socklen_t *bytes,
                         bool *loopback, struct error *err)
{
    char host[INET6_ADDRSTRLEN + 1];
    bool bracketed;
    uint64_t port;
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;
    const char *digits = split(text, host, sizeof host, &bracketed);
    memset(out, 0, sizeof *out);
    if (!digits || !*digits || strlen(digits) > 5 ||
        strspn(digits, "0123456789") != strlen(digits) || !human_parse_count(digits, &port) ||
        port > UINT16_MAX)
        return error_set(err, ERROR_USAGE,
                         "'%s' is not an address and a port such as 127.0.0.1:8080", text);
    if (bracketed) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        *bytes = sizeof *v6;
        if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
            return error_set(err, ERROR_USAGE, "'%s' is not an IPv6 address", host);
        *loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    } else {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        *bytes = sizeof *v4;
        if (inet_pton(AF_INET, strcasecmp(host, "localhost") ? host : "127.0.0.1", &v4->sin_addr) !=
            1)
            return error_set(err, ERROR_USAGE,
                             "'%s' is not an address such as 127.0.0.1 (names are not looked up)",
                             host);
        *loopback = loopback4(v4->sin_addr);
    }
    return 0;
}

/* True if a Host header names this machine: a loopback address or localhost, with any port (one may
 * have been forwarded). A page of another site reaches this server under that site's name only. */
static bool address_is_own_host(const char *text)
{
    char host[INET6_ADDRSTRLEN + 1];
    bool bracketed;
    struct in_addr v4;
    struct in6_addr v6;
    const char *port = split(text, host, sizeof host, &bracketed);
    if (!port || strspn(port, "0123456789") != strlen(port))
        return false;
    if (bracketed)
        return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    return !strcasecmp(host, "localhost") || (inet_pton(AF_INET, host, &v4) == 1 && loopback4(v4));
}

#define SECOND_NS      1000000000ull
#define EXCHANGE_NS    (10 * SECOND_NS) /* for a request and its answer, and between two */
#define MOST_CLIENTS   32u              /* one more: the longest without a request goes */
#define ROOM           (MOST_CLIENTS + 16)
#define MOST_WAITING   8u
#define REQUEST_BYTES  (16u << 10) /* line and headers of a request, and those of the answer */
#define PASSES         64 /* passes of the library in a round, as long as it has more to do */
#define CHALLENGE      "Basic realm=\"mallow\", Bearer realm=\"mallow\""
#define PRIORITIES     "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define NOTHING_POLICY "default-src 'none'; frame-ancestors 'none'"

struct client {       /* a connection */
    bool used, asked; /* asked: a request is there, whole */
    bool over;        /* it was shut down, and will be closed */
    int fd;
    uint64_t since_ns; /* it came, or its last request was done */
    struct MHD_Connection *waiting;
    uint64_t until_ns;
};

struct exchange { /* a request */
    struct serve_request request;
    bool began;
};

struct serve {
    struct serve_owner owner;
    struct serve_guard guard;
    struct MHD_Daemon *daemon;
    int epoll;
    char address[SERVE_ADDRESS_BYTES];
    struct client clients[ROOM];
    unsigned count, waiting;
    bool closing;
};

/* ---- connections ---- */

static const union mhd_info *ask_connection(struct MHD_Connection *connection, unsigned what)
{
    return (const void *)mhd.get_connection_info(connection, what);
}

static void hang_up(struct client *c)
{
    if (!c->over)
        (void)shutdown(c->fd, SHUT_RDWR);
    c->over = true;
}

static void serve_make_room(struct serve *s)
{
    struct client *oldest = NULL;
    for (unsigned i = 0; i < ROOM; i++) {
        struct client *c = &s->clients[i];
        if (c->used && !c->asked && !c->over && (!oldest || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    if (oldest)
        hang_up(oldest);
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          unsigned code)
{
    struct serve *s = arg;
    struct client *c = *context;
    if (code == HTTPD_CONNECTION_NOTIFY_CLOSED) {
        if (c) {
            *c = (struct client){.used = false};
            s->count--;
        }
        *context = NULL;
        return;
    }
    const union mhd_info *fd = ask_connection(connection, HTTPD_CONNECTION_INFO_CONNECTION_FD);
    for (unsigned i = 0; fd && !c && i < ROOM; i++)
        if (!s->clients[i].used)
            c = &s->clients[i];
    if (!c)
        return;
    if (s->count >= MOST_CLIENTS)
        serve_make_room(s);
    *c = (struct client){.used = true, .fd = fd->fd, .since_ns = clock_monotonic_ns()};
    s->count++;
    *context = c;
}

static struct client *client_of(struct MHD_Connection *connection)
{
    const union mhd_info *info = ask_connection(connection, HTTPD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state, unsigned code)
{
    struct serve *s = arg;
    struct exchange *e = *state;
    struct client *c = client_of(connection);
    (void)code;
    if (c) {
        c->asked = false;
        c->since_ns = clock_monotonic_ns();
    }
    if (e && e->request.state)
        s->owner.forget(s->owner.arg, e->request.state);
    free(e);
    *state = NULL;
}

/* Its end may have come together with the last bytes, of which the library notices the bytes. */
static bool has_gone(const struct client *c)
{
    char byte;
    return !c->asked && !recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
}

/* The same of a client whose answer is put off: the library does not look at it. Bytes may stand
 * before its end: a further request, the end of TLS. */
static bool has_left(const struct client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

static void wake_client(struct serve *s, struct client *c)
{
    struct MHD_Connection *connection = c->waiting;
    c->waiting = NULL;
    c->since_ns = clock_monotonic_ns();
    s->waiting--;
    mhd.resume_connection(connection);
}

static void look_after(struct serve *s)
{
    const uint64_t now = clock_monotonic_ns();
    for (unsigned i = 0; i < ROOM; i++) {
        struct client *c = &s->clients[i];
        if (!c->used)
            continue;
        if (c->waiting && has_left(c)) {
            hang_up(c);
            wake_client(s, c);
        } else if (c->waiting && now >= c->until_ns) {
            wake_client(s, c);
        } else if (!c->waiting && (now - c->since_ns > EXCHANGE_NS || has_gone(c))) {
            hang_up(c);
        }
    }
}

/* ---- requests ---- */

static unsigned send_reply(struct MHD_Connection *connection, struct serve_reply *reply)
{
    const bool failed = buffer_failed(&reply->body);
    const unsigned status = failed ? HTTPD_HTTP_INTERNAL_SERVER_ERROR : reply->status;
    char *body = failed ? NULL : reply->body.data;
    struct MHD_Response *response =
        mhd.create_response_from_buffer(body ? reply->body.size_bytes : 0, body,
                                        body ? HTTPD_RESPMEM_MUST_FREE : HTTPD_RESPMEM_PERSISTENT);
    if (!response || failed)
        buffer_release(&reply->body);
    if (!response)
        return HTTPD_NO;
    const char *const headers[][2] = {
        {"Content-Type", reply->type},
        {"Content-Encoding", reply->coding},
        {"Content-Security-Policy", reply->policy ? reply->policy : NOTHING_POLICY},
        {"X-Content-Type-Options", "nosniff"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"},
        {"Cache-Control", "no-store"},
        {"WWW-Authenticate", status == HTTPD_HTTP_UNAUTHORIZED ? CHALLENGE : NULL},
        {"Allow", status == HTTPD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL}};
    unsigned result = HTTPD_YES;
    for (size_t i = 0; result == HTTPD_YES && i < sizeof headers / sizeof *headers; i++)
        if (headers[i][1])
            result = mhd.add_response_header(response, headers[i][0], headers[i][1]);
    if (result == HTTPD_YES)
        result = mhd.queue_response(connection, status, response);
    mhd.destroy_response(response);
    return result;
}

static unsigned refuse_request(struct MHD_Connection *connection, unsigned status, const char *why)
{
    struct serve_reply reply = {.status = status, .type = "text/plain; charset=utf-8"};
    buffer_append_text(&reply.body, why);
    return send_reply(connection, &reply);
}

struct asking { /* who asks, and whom */
    const char *token;
    unsigned hosts, authorizations;
    bool own_host, accepted;
};

static unsigned look_at_header(void *arg, unsigned kind, const char *key, const char *value)
{
    struct asking *a = arg;
    (void)kind;
    if (!strcasecmp(key, "Host")) {
        a->hosts++;
        a->own_host = value && address_is_own_host(value);
    } else if (a->token && !strcasecmp(key, "Authorization")) {
        a->authorizations++;
        a->accepted = value && token_accepts(a->token, value);
    }
    return HTTPD_YES;
}

/* Why a request is not answered; NULL: it is. A request that names the token is from no page of
 * another site. */
static const char *not_for(const struct asking *a, unsigned *status)
{
    if (a->token && (a->authorizations != 1 || !a->accepted)) {
        *status = HTTPD_HTTP_UNAUTHORIZED;
        return "the token is missing or wrong: send Authorization: Bearer TOKEN, or the token as a "
               "password\n";
    }
    *status = HTTPD_HTTP_MISDIRECTED_REQUEST;
    if (a->hosts != 1 || (!a->token && !a->own_host))
        return "the Host header must name this machine: localhost or a loopback address\n";
    return NULL;
}

/* The answer of the owner, now or later. */
static unsigned ask_owner(struct serve *s, struct MHD_Connection *connection, struct client *c,
                          struct exchange *e)
{
    struct serve_reply reply = {.status = HTTPD_HTTP_OK, .type = "text/plain; charset=utf-8"};
    s->owner.answer(s->owner.arg, &e->request, &reply);
    if (!reply.wait_ns)
        return send_reply(connection, &reply);
    buffer_release(&reply.body);
    if (s->waiting >= MOST_WAITING)
        return refuse_request(connection, HTTPD_HTTP_SERVICE_UNAVAILABLE,
                              "too many requests wait for their answers\n");
    s->waiting++;
    c->waiting = connection;
    c->until_ns = clock_monotonic_ns() + reply.wait_ns;
    e->request.again = true;
    mhd.suspend_connection(connection);
    return HTTPD_YES;
}

static unsigned on_request(void *arg, struct MHD_Connection *connection, const char *url,
                           const char *method, const char *version, const char *upload,
                           size_t *upload_bytes, void **state)
{
    struct serve *s = arg;
    struct client *c = client_of(connection);
    struct exchange *e = *state;
    struct asking asking = {.token = s->guard.token};
    (void)version, (void)upload, (void)upload_bytes;
    if (!c || c->over || s->closing)
        return HTTPD_NO;
    if (!e) {
        *state = e = calloc(1, sizeof *e);
        c->asked = true;
        if (!e)
            return HTTPD_NO;
        if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
            return refuse_request(connection, HTTPD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        return HTTPD_YES; /* it comes again when the headers are dealt with */
    }
    if (!e->began) {
        e->began = true;
        unsigned status;
        mhd.get_connection_values(connection, HTTPD_HEADER_KIND, look_at_header, &asking);
        const char *why = not_for(&asking, &status);
        if (why)
            return refuse_request(connection, status, why);
    }
    if (*upload_bytes) /* a GET needs none */
        return HTTPD_NO;
    e->request.path = url;
    e->request.connection = connection;
    return ask_owner(s, connection, c, e);
}

const char *serve_argument(const struct serve_request *request, const char *name)
{
    return mhd.lookup_connection_value(request->connection, HTTPD_GET_ARGUMENT_KIND, name);
}

const char *serve_header(const struct serve_request *request, const char *name)
{
    return mhd.lookup_connection_value(request->connection, HTTPD_HEADER_KIND, name);
}

/* ---- the server ---- */

static int name_address(struct serve *s, int fd, struct error *err)
{
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr_in *v4 = (const void *)&bound;
    const struct sockaddr_in6 *v6 = (const void *)&bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &bytes))
        return error_system(err, "cannot ask for the address of the socket");
    if (bound.ss_family == AF_INET6)
        snprintf(s->address, sizeof s->address, "[%s]:%u",
                 inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host), ntohs(v6->sin6_port));
    else
        snprintf(s->address, sizeof s->address, "%s:%u",
                 inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host), ntohs(v4->sin_port));
    return 0;
}

/* An address that other machines reach needs the token and encryption. */
static int check_guard(const char *text, bool loopback, const struct serve_guard *g,
                       struct error *err)
{
    if (!g->certificate != !g->key)
        return error_set(err, ERROR_USAGE, "TLS needs both a certificate and its key");
    if (loopback)
        return 0;
    if (!g->token || !g->key)
        return error_set(err, ERROR_USAGE,
                         "%s is not a loopback address: other machines could read the answers. "
                         "It needs a token and TLS (--token-file, --tls-cert, --tls-key); or use "
                         "127.0.0.1, and 'ssh -L' from other machines",
                         text);
    if (strlen(g->token) < SERVE_TOKEN_LEAST)
        return error_set(err, ERROR_USAGE,
                         "the token has fewer than %u characters and could be guessed; 'openssl "
                         "rand -hex 16' makes one",
                         SERVE_TOKEN_LEAST);
    return 0;
}

/* A listening socket, or -1. */
static int open_socket(const char *text, const struct serve_guard *guard, struct error *err)
{
    struct sockaddr_storage address;
    socklen_t bytes = 0;
    bool loopback = false;
    const int on = 1;
    if (address_parse(text, &address, &bytes, &loopback, err) ||
        check_guard(text, loopback, guard, err))
        return -1;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
        !bind(fd, (struct sockaddr *)&address, bytes) && !listen(fd, SOMAXCONN))
        return fd;
    error_system(err, "cannot listen on %s", text);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Without a certificate the options of TLS are none. */
static struct MHD_Daemon *start_listening(struct serve *s, int fd)
{
    const bool tls = s->guard.key != NULL;
    return mhd.start_daemon(
        HTTPD_USE_EPOLL | HTTPD_ALLOW_SUSPEND_RESUME | (tls ? HTTPD_USE_TLS : 0u), 0, NULL, NULL,
        on_request, s, HTTPD_OPTION_LISTEN_SOCKET, fd, HTTPD_OPTION_CONNECTION_LIMIT, ROOM,
        HTTPD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
        HTTPD_OPTION_CONNECTION_TIMEOUT, (unsigned)0, HTTPD_OPTION_STRICT_FOR_CLIENT, 1,
        HTTPD_OPTION_NOTIFY_CONNECTION, on_connection, s, HTTPD_OPTION_NOTIFY_COMPLETED,
        on_completed, s, tls ? HTTPD_OPTION_HTTPS_PRIORITIES : HTTPD_OPTION_END, PRIORITIES,
        HTTPD_OPTION_HTTPS_MEM_CERT, s->guard.certificate, HTTPD_OPTION_HTTPS_MEM_KEY, s->guard.key,
        HTTPD_OPTION_END);
}

/* Loads the library. -1: it cannot do what they ask for. */
static int load_microhttpd(const struct serve_guard *guard, struct error *err)
{
    const char *why = microhttpd_load();
    if (why)
        return error_set(err, ERROR_UNSUPPORTED,
                         "cannot load libmicrohttpd (%s); 'apt-get install libmicrohttpd12'", why);
    if (guard->key && mhd.is_feature_supported(HTTPD_FEATURE_TLS) != HTTPD_YES)
        return error_set(err, ERROR_UNSUPPORTED,
                         "this libmicrohttpd was built without TLS; only a loopback address can be "
                         "listened on");
    return 0;
}

struct serve *serve_open(const char *address, const struct serve_guard *guard,
                         const struct serve_owner *owner, struct error *err)
{
    int fd = open_socket(address, guard, err);
    if (fd < 0)
        return NULL;
    const bool loaded = !load_microhttpd(guard, err);
    struct serve *s = loaded ? calloc(1, sizeof *s) : NULL;
    if (loaded && !s)
        error_memory(err);
    if (!s || name_address(s, fd, err)) {
        free(s);
        close(fd);
        return NULL;
    }
    s->owner = *owner;
    s->guard = *guard;
    s->daemon = start_listening(s, fd);
    const union mhd_info *info =
        s->daemon ? (const void *)mhd.get_daemon_info(s->daemon, HTTPD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info) {
        error_set(err, ERROR_UNSUPPORTED, "libmicrohttpd cannot be started on %s%s", address,
                  guard->key
                      ? ": perhaps the certificate or its key is not PEM, or they do not match"
                      : "");
        if (s->daemon)
            mhd.stop_daemon(s->daemon);
        else
            close(fd);
        free(s);
        return NULL;
    }
    s->epoll = info->fd;
    return s;
}

void serve_close(struct serve *s)
{
    if (!s)
        return;
    s->closing = true;
    for (unsigned i = 0; i < ROOM; i++)
        if (s->clients[i].waiting)
            mhd.resume_connection(s->clients[i].waiting);
    mhd.run(s->daemon);
    mhd.stop_daemon(s->daemon);
    free(s);
}

const char *serve_scheme(const struct serve *s) { return s->guard.key ? "https" : "http"; }

const char *serve_address(const struct serve *s) { return s->address; }

int serve_descriptor(const struct serve *s) { return s->epoll; }

void serve_round(struct serve *s)
{
    unsigned long long soon;
    int passes = 0;
    look_after(s);
    do
        mhd.run(s->daemon);
    while (++passes < PASSES && mhd.get_timeout(s->daemon, &soon) == HTTPD_YES && !soon);
}
