/* watch_push.h - profiles of watched processes, pushed to a server.
 *
 * Owns: when each process is pushed, since when its allocations were, its labels, the lines about
 * failures. The server is the matter of push/sender.h: nothing here waits for it before
 * watch_push_end. One thread. */
#ifndef MALLOW_CLI_WATCH_PUSH_H
#define MALLOW_CLI_WATCH_PUSH_H

#include "cli/command.h"
#include "watch/view/view.h"
#include "symbol/symbol.h"
#include "watch/run.h"

struct watch_push_cli { /* zero: not given */
    const char *url, *token_file, *ca, *spool;
    int as; /* -1: not given */
    uint64_t every_ns, spool_bytes, most_bytes;
    struct option_texts labels;
};

/* clang-format off */
#define WATCH_PUSH_DEFAULTS {.as = -1}

#define WATCH_PUSH_SPECS(type, field)                                                              \
    {0, "push", OPTION_TEXT, offsetof(type, field.url), "URL",                                     \
     "push profiles to this server while the watch runs (https, or http on this machine)"},        \
    {0, "push-as", OPTION_CHOICE, offsetof(type, field.as), "pyroscope|otlp|clickhouse",           \
     "what the server is: pyroscope takes pprof by /ingest (default), otlp profiles of "           \
     "OpenTelemetry (experimental), clickhouse reports into a store of mallow fleet"},             \
    {0, "push-every", OPTION_DURATION, offsetof(type, field.every_ns), "DURATION",                 \
     "push each process every DURATION, and when it ends (default 1m)",                            \
     100000000, 1000 * 3600 * 1000000000ull},                                                      \
    {0, "push-size", OPTION_SIZE, offsetof(type, field.most_bytes), "SIZE",                        \
     "split profiles that are larger before compression (default 4M)", 1, 1ull << 30},             \
    {0, "label", OPTION_TEXTS, offsetof(type, field.labels), "KEY=VALUE",                          \
     "push with this label; service_name is the program's name without it; may be repeated"},      \
    {0, "push-token-file", OPTION_TEXT, offsetof(type, field.token_file), "FILE",                  \
     "the token for the server is the first line of FILE (default: --token-file without --listen)",\
     .completion = VALUE_FILE},                                                                    \
    {0, "ca", OPTION_TEXT, offsetof(type, field.ca), "FILE",                                       \
     "trust the certificates in FILE when pushing (default: the system's)",                        \
     .completion = VALUE_FILE},                                                                    \
    {0, "spool", OPTION_TEXT, offsetof(type, field.spool), "DIR",                                  \
     "keep profiles in DIR until the server has them, beyond the end of the watch (default: in "   \
     "memory)", .completion = VALUE_DIRECTORY},                                                    \
    {0, "spool-size", OPTION_SIZE, offsetof(type, field.spool_bytes), "SIZE",                      \
     "keep at most SIZE of them; the oldest give way (default 64M)", 4u << 10, 1ull << 40}
/* clang-format on */

struct watch_push;

/* 0 with *push NULL: nothing is to be pushed. Otherwise an exit status, and the reason has been
 * printed; `failed`: the status when it is no mistake in the command line. token_file: when the
 * options have none of their own; NULL: no token. */
int watch_push_open(struct watch_push **push, const struct command *self,
                    const struct watch_push_cli *o, const char *token_file, int failed);
struct watch_sources { /* the watch's sources */
    struct watch_run *run;
    struct watch_view *view;
    struct symbols *symbols;
};
/* Several times a second. */
void watch_push_tick(struct watch_push *push, const struct watch_sources *from);
/* A process has ended, or the watch ends. */
void watch_push_last(struct watch_push *push, const struct watch_sources *from,
                     struct watch_process *p);
/* One line of news, if there is some; the text until the next call. */
const char *watch_push_news(struct watch_push *push, bool *wrong);
/* Sends the profiles that are left, for some seconds at most; prints a line about all of them,
 * unless all were sent and it is `quiet`. NULL is fine. */
void watch_push_end(struct watch_push *push, bool quiet);

#endif
