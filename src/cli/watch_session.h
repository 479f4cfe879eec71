/* watch_session.h - a watch from its begin to its end: where reports, the live table, profiles and
 * answers to HTTP go. Owns: all of these. One thread. */
#ifndef MALLOW_CLI_WATCH_SESSION_H
#define MALLOW_CLI_WATCH_SESSION_H

#include "cli/command.h"
#include "cli/view.h"
#include "watch/reach/all.h"
#include "watch/reach/attach.h"
#include "watch/out/dump.h"
#include "watch/out/metrics_file.h"
#include "watch/out/push.h"
#include "watch/live/screen.h"
#include "watch/out/serve.h"
#include "watch/view/view.h"
#include "watch/run.h"

/* The options of `mallow watch`. */
struct watch_cli {
    struct text_list pids;
    const char *guard, *known, *output, *pprof, *dump_when, *dump_to, *metrics_file, *config;
    uint64_t period, every_ns, duration_ns, old_ns, high_water_min, top, depth;
    int on_error, guard_side, by, left, how;
    uint64_t detach;
    bool all, high_water, json, plain, quiet, force;
    struct watch_serve_options serve;
    struct watch_all_options select;
    struct view_options view;
    struct watch_push_options push;
};

/* The first two members, `attach` and `dump` are the caller's, the rest is private. */
struct watching {
    const struct command *command;
    const struct watch_cli *o;
    struct watch_view *view;
    struct watch_run *run;
    struct watch_screen *screen; /* NULL: none */
    struct watch_serve *serve;   /* NULL: nothing listens; only compared once it has ended */
    struct watch_push *push;     /* NULL: nothing is pushed */
    struct watch_metrics_file *metrics;
    struct symbols *symbols;
    struct names_look look;
    FILE *out, *kept; /* kept: printed when the screen is restored; NULL without it */
    char *kept_text;
    size_t kept_bytes;
    unsigned columns;
    struct watch_attach attach;
    struct watch_dump dump;
    uint64_t until_ns; /* by CLOCK_MONOTONIC, when --duration is over; 0: without it */
    pid_t profiled;    /* the process of --pprof without %p; 0: none yet */
    bool failed;       /* a report could not be written */
};

/* The listener for watch_options, without reload. */
struct watch_listener watch_session_listener(struct watching *w);

/* Watches until there is no more to watch, and closes everything. The exit status; what went wrong
 * has been printed. */
int watch_session(struct watching *w, struct watch_options *options);

#endif
