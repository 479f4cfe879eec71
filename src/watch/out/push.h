/* push.h - profiles of watched processes, pushed to a server.
 *
 * Owns: when each process is pushed, since when its allocations were, its labels, the lines about
 * failures. The server is the matter of push/sender.h: nothing here waits for it before
 * watch_push_end. One thread. */
#ifndef MALLOW_WATCH_OUT_PUSH_H
#define MALLOW_WATCH_OUT_PUSH_H

#include "base/error.h"
#include "base/note.h"
#include "base/text_list.h"
#include "watch/view/view.h"
#include "symbol/symbol.h"
#include "watch/run.h"

struct watch_push_options { /* zero: not given */
    const char *url, *token_file, *ca, *spool;
    int as; /* 0: Pyroscope; 1: OTLP; 2: ClickHouse; -1: not given */
    uint64_t every_ns, spool_bytes, most_bytes;
    struct text_list labels;
};

struct watch_push;

/* Prepares pushing. Returns 0, with *push NULL if nothing is to be pushed; or -1 with *err
 * (ERROR_USAGE: a mistake in the options). note: gets the lines of watch_push_end. token_file:
 * used if the options have none; NULL: no token. The options must stay valid until
 * watch_push_end. */
int watch_push_open(struct watch_push **push, const struct watch_push_options *o,
                    const char *token_file, struct note note, struct error *err);
struct watch_sources { /* the watch's sources */
    struct watch_run *run;
    struct watch_view *view;
    struct symbols *symbols;
};
/* Pushes the processes that are due; call it several times a second. */
void watch_push_tick(struct watch_push *push, const struct watch_sources *from);
/* Pushes a process that has ended, or one that runs when the watch ends. */
void watch_push_last(struct watch_push *push, const struct watch_sources *from,
                     struct watch_process *p);
/* Returns one line of news, or NULL; the text is valid until the next call. */
const char *watch_push_news(struct watch_push *push, bool *wrong);
/* Sends the profiles that are left, for some seconds at most; notes a line about all of them,
 * unless all were sent and it is `quiet`. NULL is fine. */
void watch_push_end(struct watch_push *push, bool quiet);

#endif
