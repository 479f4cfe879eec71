/* watch_all.c - see watch_all.h. */
#include "cli/watch_all.h"

#include <pwd.h>
#include <string.h>

#include "base/human.h"
#include "inspect/library.h"
#include "probe/caps.h"

/* The group without the place where such a tree may be mounted. */
static const char *group_path(const char *path)
{
    static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory",
                                        "/sys/fs/cgroup"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        const size_t n = strlen(roots[i]);
        if (!strncmp(path, roots[i], n) && (!path[n] || path[n] == '/'))
            return path[n] ? path + n : "/";
    }
    return path;
}

static int choose_how(struct watch_all *a, const struct command *self,
                      const struct watch_all_cli *o)
{
    uint64_t number;
    a->select.comms = o->comms.items;
    a->select.comm_count = o->comms.count;
    if (o->cgroup) {
        a->select.cgroup = group_path(o->cgroup);
        const size_t n = strlen(a->select.cgroup);
        if (*o->cgroup != '/' || (n > 1 && a->select.cgroup[n - 1] == '/'))
            return command_usage(self,
                                 "--cgroup: '%s' is no control group such as "
                                 "/system.slice/nginx.service (begins with a slash, ends without)",
                                 o->cgroup);
    }
    if (o->user) {
        const struct passwd *known = getpwnam(o->user);
        if (!known && (!human_parse_count(o->user, &number) || number >= UINT32_MAX))
            return command_usage(self, "--user: there is no user '%s' here", o->user);
        a->user = known ? known->pw_uid : (uint32_t)number;
        a->select.user = &a->user;
    }
    return 0;
}

int watch_all_check(const struct command *self, bool all, bool automatic, bool inject,
                    bool settings, const struct watch_all_cli *o)
{
    if (!all && (o->comms.count || o->cgroup || o->user))
        return command_usage(self, "--comm, --cgroup and --user choose among all: with -a");
    if (all && inject)
        return command_usage(self, "--how inject is not for -a, which changes no process");
    if (all && automatic && settings)
        return command_usage(
            self, "--period, --guard, --guard-side and --on-error are not for -a, which only "
                  "listens: with --how preloaded, or set them where the processes "
                  "are started");
    return 0;
}

int watch_all_open(struct watch_all *a, const struct command *self, const struct watch_all_cli *o,
                   bool preloaded, bool quiet, struct watch_options *options)
{
    struct error err = {0};
    const int status = choose_how(a, self, o);
    if (status)
        return status;
    options->select = &a->select;
    options->everyone = preloaded;
    if (!preloaded && caps_require(&err)) {
        options->everyone = true;
        if (!quiet)
            command_warn(self,
                         "%s; reading the memory that processes of this user share instead (as "
                         "--how preloaded does)",
                         err.text);
    }
    if (options->everyone)
        return 0;
    if (inspect_find_library("libmallow-watch.so", a->library, &err)) {
        command_warn(self, "%s", err.text);
        return EXIT_FAILED;
    }
    a->system = (struct watch_system){.command = self, .library = a->library};
    a->source = watch_system_source(&a->system);
    options->source = &a->source;
    return 0;
}
