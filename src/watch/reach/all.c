/* all.c - Checks the options that choose processes for `mallow watch -a`, and chooses how they
 * are found: by their shared memory, or by the library's static probes. */
#include "watch/reach/all.h"

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

static int choose_processes(struct watch_all *a, const struct watch_all_options *o,
                            struct error *err)
{
    uint64_t number;
    a->select.comms = o->comms.items;
    a->select.comm_count = o->comms.count;
    if (o->cgroup) {
        a->select.cgroup = group_path(o->cgroup);
        const size_t n = strlen(a->select.cgroup);
        if (*o->cgroup != '/' || (n > 1 && a->select.cgroup[n - 1] == '/'))
            return error_set(err, ERROR_USAGE,
                             "--cgroup: '%s' is not a control group such as "
                             "/system.slice/nginx.service (starts with a slash, ends without one)",
                             o->cgroup);
    }
    if (o->user) {
        const struct passwd *known = getpwnam(o->user);
        if (!known && (!human_parse_count(o->user, &number) || number >= UINT32_MAX))
            return error_set(err, ERROR_USAGE, "--user: there is no user '%s' here", o->user);
        a->user = known ? known->pw_uid : (uint32_t)number;
        a->select.user = &a->user;
    }
    return 0;
}

int watch_all_check(bool all, bool automatic, bool inject, bool settings, struct error *err)
{
    if (all && inject)
        return error_set(err, ERROR_USAGE,
                         "--how inject does not work with -a, which changes no process");
    if (all && automatic && settings)
        return error_set(
            err, ERROR_USAGE,
            "--period, --guard, --guard-side and --on-error do not work with -a, which only "
            "listens: with --how preloaded, or set them where the processes are started");
    return 0;
}

int watch_all_open(struct watch_all *a, const struct watch_all_options *o, bool preloaded,
                   bool quiet, struct note note, struct watch_options *options, struct error *err)
{
    struct error lacking;
    if (choose_processes(a, o, err))
        return -1;
    options->select = &a->select;
    options->everyone = preloaded;
    if (!preloaded && caps_require(&lacking)) {
        options->everyone = true;
        if (!quiet)
            note_line(&note,
                      "%s; reading the memory that processes of this user share instead (as "
                      "--how preloaded does)",
                      lacking.text);
    }
    if (options->everyone)
        return 0;
    if (inspect_find_library("libmallow-watch.so", a->library, err))
        return -1;
    a->system = (struct watch_system){.note = note, .library = a->library};
    a->source = watch_system_source(&a->system);
    options->source = &a->source;
    return 0;
}
