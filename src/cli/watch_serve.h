/* watch_serve.h - what `mallow watch --listen` answers: the report as JSON, metrics, profiles. One
 * thread, that of the run. */
#ifndef MALLOW_CLI_WATCH_SERVE_H
#define MALLOW_CLI_WATCH_SERVE_H

#include "cli/command.h"
#include "watch/view/view.h"
#include "symbol/symbol.h"
#include "watch/run.h"

struct watch_serve_cli { /* NULL: not given */
    const char *listen, *token_file, *certificate, *key;
};

/* clang-format off */
#define WATCH_SERVE_SPECS(type, field)                                                             \
    {0, "listen", OPTION_TEXT, offsetof(type, field.listen), "ADDR:PORT",                          \
     "serve a live page, /report.json, /metrics and /debug/pprof by HTTP on this loopback address " \
     "(port 0: any); on another one with a token and TLS"},                                        \
    {0, "token-file", OPTION_TEXT, offsetof(type, field.token_file), "FILE",                       \
     "answer only requests that name the token in the first line of FILE; without --listen, the "   \
     "token for the server of --push",                                                             \
     .completion = VALUE_FILE},                                                                    \
    {0, "tls-cert", OPTION_TEXT, offsetof(type, field.certificate), "FILE",                        \
     "encrypt answers, with the certificate (PEM, with its chain) in FILE",                        \
     .completion = VALUE_FILE},                                                                    \
    {0, "tls-key", OPTION_TEXT, offsetof(type, field.key), "FILE",                                 \
     "its private key (PEM), which others cannot read", .completion = VALUE_FILE}
/* clang-format on */

struct watch_serve;

/* pushes: there is --push, which has a token as well. 0, or an exit status; the reason has been
 * printed. */
int watch_serve_check(const struct command *self, const struct watch_serve_cli *o, bool pushes);

/* Listens on o->listen and says so on stderr. symbols may be NULL. NULL: *err says why not. */
struct watch_serve *watch_serve_open(const struct watch_serve_cli *o, struct watch_view *view,
                                     struct symbols *symbols, struct error *err);
/* Before the first round. */
void watch_serve_run(struct watch_serve *s, struct watch_run *run);
int watch_serve_descriptor(const struct watch_serve *s);
void watch_serve_round(struct watch_serve *s);
void watch_serve_close(struct watch_serve *s); /* NULL is fine */

#endif
