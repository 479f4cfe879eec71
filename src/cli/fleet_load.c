/* fleet_load.c - Loads files and directories into a store, and counts the recordings that it
 * added, replaced or skipped. Directories are walked to a bounded depth, and links below them
 * are not followed. A failed file does not stop the others; a failed store does. */
#include "cli/fleet_load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/human.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/text.h"

#define DEEPEST 64u /* directories in each other */

struct loading {
    const struct command *self;
    struct fleet_store *store;
    const struct fleet_load_cli *how;
    struct symbols *symbols;
    struct fleet_loaded sum;
    uint64_t files, failed;
    bool stop; /* the store is what failed */
};

static void count_loaded(struct loading *l, const struct fleet_loaded *loaded)
{
    l->sum.added += loaded->added;
    l->sum.replaced += loaded->replaced;
    l->sum.present += loaded->present;
    l->sum.added_reports += loaded->added_reports;
    l->sum.present_reports += loaded->present_reports;
}

static void load_reports(struct loading *l, const char *path)
{
    struct error err;
    struct fleet_loaded loaded = {0};
    l->files++;
    if (fleet_load_watched(l->store, path, &l->how->load, &loaded, &err)) {
        l->failed++;
        l->stop = fleet_broken(l->store);
        error_prefix(&err, "%s", path);
        command_fail(l->self, &err);
    }
    count_loaded(l, &loaded);
}

static void load_file(struct loading *l, const char *path)
{
    if (fleet_is_watched(path)) {
        load_reports(l, path);
        return;
    }
    struct error err;
    struct fleet_loaded loaded = {0};
    struct trace *t = view_open(path, report_columns(), 0, 0, &err);
    l->files++;
    if (!t) {
        l->failed++;
        command_fail(l->self, &err);
        return;
    }
    if (fleet_load(l->store, t, l->symbols, &l->how->load, &loaded, &err)) {
        l->failed++;
        l->stop = fleet_broken(l->store);
        error_prefix(&err, "%s", path);
        command_fail(l->self, &err);
    } else {
        count_loaded(l, &loaded);
        if (loaded.added || loaded.replaced)
            view_tell_losses(l->self, path, t);
    }
    trace_close(t);
}

static int wanted(const struct dirent *e) { return *e->d_name != '.'; }

static bool name_is_recording(const char *name)
{
    static const char *const ends[] = {".mlw", ".json", ".jsonl"};
    const char *end = strrchr(name, '.');
    for (size_t i = 0; end && end != name && i < sizeof ends / sizeof *ends; i++)
        if (!strcmp(end, ends[i]))
            return true;
    return false;
}

static void load_directory(struct loading *l, const char *path, unsigned depth)
{
    struct dirent **entries;
    const int n = depth < DEEPEST ? scandir(path, &entries, wanted, alphasort) : -1;
    if (n < 0) {
        l->failed++;
        command_warn(l->self, "cannot read the directory %s: %s", path,
                     strerror(depth < DEEPEST ? errno : ELOOP));
        return;
    }
    for (int i = 0; i < n; i++) {
        char *name = NULL;
        struct stat st;
        if (asprintf(&name, "%s/%s", path, entries[i]->d_name) < 0) {
            name = NULL;
            l->stop = true;
            l->failed++;
        }
        /* links below a directory are not followed */
        if (name && !l->stop && !lstat(name, &st)) {
            if (S_ISDIR(st.st_mode))
                load_directory(l, name, depth + 1);
            else if (S_ISREG(st.st_mode) && name_is_recording(name))
                load_file(l, name);
        }
        free(name);
        free(entries[i]);
    }
    free(entries);
}

static void say_loaded(const struct loading *l)
{
    if (l->how->json) {
        struct json j = {.out = stdout, .one_line = true};
        json_begin(&j);
        json_number(&j, "files", l->files);
        json_number(&j, "failed_files", l->failed);
        json_number(&j, "added_processes", l->sum.added);
        json_number(&j, "replaced_processes", l->sum.replaced);
        json_number(&j, "present_processes", l->sum.present);
        json_number(&j, "added_reports", l->sum.added_reports);
        json_number(&j, "present_reports", l->sum.present_reports);
        json_close_object(&j);
        json_end(&j);
        return;
    }
    text_printf(stdout, "%s %s added, %s replaced, %s in the store already\n", COUNT(l->sum.added),
                plural(l->sum.added, "process", "processes"), COUNT(l->sum.replaced),
                COUNT(l->sum.present));
    if (l->sum.added_reports || l->sum.present_reports)
        text_printf(stdout, "%s %s added, %s in the store already\n", COUNT(l->sum.added_reports),
                    plural(l->sum.added_reports, "report", "reports"),
                    COUNT(l->sum.present_reports));
}

int fleet_load_paths(const struct command *self, struct fleet_store *store,
                     const struct fleet_load_cli *how, char **paths, int count)
{
    struct error err;
    struct loading l = {
        .self = self, .store = store, .how = how, .symbols = view_symbols(how->view, &err)};
    if (!l.symbols)
        return command_fail(self, &err);
    for (int i = 0; i < count && !l.stop; i++) {
        struct stat st;
        if (!stat(paths[i], &st) && S_ISDIR(st.st_mode))
            load_directory(&l, paths[i], 0);
        else
            load_file(&l, paths[i]);
    }
    symbols_free(l.symbols);
    say_loaded(&l);
    const int status = command_finish(self);
    return status ? status : l.failed ? EXIT_FAILED : EXIT_DONE;
}
