/* watch_serve.h - what `mallow watch --listen` answers: the report as JSON, metrics, profiles. One
 * thread, that of the run. */
#ifndef MALLOW_CLI_WATCH_SERVE_H
#define MALLOW_CLI_WATCH_SERVE_H

#include "report/watch_view.h"
#include "symbol/symbol.h"
#include "watch/run.h"

struct watch_serve;

/* Listens on "ADDR:PORT" and says so on stderr. symbols may be NULL. NULL: *err says why not. */
struct watch_serve *watch_serve_open(const char *address, struct watch_view *view,
                                     struct symbols *symbols, struct error *err);
/* Before the first round. */
void watch_serve_run(struct watch_serve *s, struct watch_run *run);
int watch_serve_descriptor(const struct watch_serve *s);
void watch_serve_round(struct watch_serve *s);
void watch_serve_close(struct watch_serve *s); /* NULL is fine */

#endif
