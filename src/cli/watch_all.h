/* watch_all.h - `mallow watch -a`: which processes, and by which way they are known. One thread. */
#ifndef MALLOW_CLI_WATCH_ALL_H
#define MALLOW_CLI_WATCH_ALL_H

#include "cli/command.h"
#include "cli/watch_system.h"
#include "watch/select.h"

struct watch_all_cli { /* zero: not given */
    struct option_texts comms;
    const char *cgroup, *user;
};

/* clang-format off */
#define WATCH_ALL_SPECS(type, field)                                                               \
    {0, "comm", OPTION_TEXTS, offsetof(type, field.comms), "NAME",                                 \
     "with -a: only processes of this name (as ps -o comm shows it); may be repeated"},            \
    {0, "cgroup", OPTION_TEXT, offsetof(type, field.cgroup), "PATH",                               \
     "with -a: only processes in this control group and those below, "                             \
     "/system.slice/nginx.service"},                                                               \
    {0, "user", OPTION_TEXT, offsetof(type, field.user), "USER",                                   \
     "with -a: only processes of this user, by name or number"}
/* clang-format on */

struct watch_all { /* private; to outlive the run */
    struct watch_system system;
    struct watch_source source;
    struct watch_select select;
    uint32_t user;
    char library[PATH_MAX];
};

/* True if the options go together: -a, --how auto, --how inject, settings for the processes. 0, or
 * an exit status; the reason has been printed. */
int watch_all_check(const struct command *self, bool all, bool automatic, bool inject,
                    bool settings, const struct watch_all_cli *o);

/* Fills what the run is to know. preloaded: by the memory that processes share; else by probes
 * where they can be used. 0, or an exit status; the reason has been printed. */
int watch_all_open(struct watch_all *a, const struct command *self, const struct watch_all_cli *o,
                   bool preloaded, bool quiet, struct watch_options *options);

#endif
