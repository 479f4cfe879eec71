/* serve.h - what `mallow watch --listen` answers: the report as JSON, metrics, profiles. One
 * thread, that of the run. */
#ifndef MALLOW_WATCH_OUT_SERVE_H
#define MALLOW_WATCH_OUT_SERVE_H

#include "base/error.h"
#include "watch/view/view.h"
#include "symbol/symbol.h"
#include "watch/run.h"

struct watch_serve_options { /* NULL: not given */
    const char *listen, *token_file, *certificate, *key;
};

struct watch_serve;

/* Listens on o->listen and prints the address on stderr. symbols may be NULL. Returns NULL with
 * *err. */
struct watch_serve *watch_serve_open(const struct watch_serve_options *o, struct watch_view *view,
                                     struct symbols *symbols, struct error *err);
/* Sets the run whose processes are served; call it before the first round. */
void watch_serve_run(struct watch_serve *s, struct watch_run *run);
int watch_serve_descriptor(const struct watch_serve *s);
void watch_serve_round(struct watch_serve *s);
void watch_serve_close(struct watch_serve *s); /* NULL is fine */

#endif
