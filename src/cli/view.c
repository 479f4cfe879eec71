/* view.c - Opens a recording and its symbols with the options that all reading commands share,
 * and prints what the recording lost. */
#include "cli/view.h"

#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/plural.h"
#include "report/warnings.h"
#include "trace/trace.h"

struct names_look view_look(const struct view_options *v)
{
    static char root[PATH_MAX];
    struct names_look look = v->look;
    if (!look.source_root)
        return look;
    /* a recording of another machine may name a directory that is not here */
    if (!realpath(look.source_root, root))
        snprintf(root, sizeof root, "%s", look.source_root);
    for (size_t n = strlen(root); n && root[n - 1] == '/';)
        root[--n] = 0;
    look.source_root = root;
    return look;
}

int view_alloc_fns(const struct view_options *v, struct names_look *look, struct error *err)
{
    static struct pattern *patterns;
    patterns = calloc(v->alloc_fns.count + 1, sizeof *patterns);
    if (!patterns)
        return error_memory(err);
    for (size_t i = 0; i < v->alloc_fns.count; i++)
        if (pattern_compile(&patterns[i], v->alloc_fns.items[i], err))
            return error_prefix(err, "--alloc-fn");
    look->alloc_fns = patterns;
    look->alloc_fn_count = v->alloc_fns.count;
    return 0;
}

struct report_options view_filters(const struct view_options *v)
{
    return (struct report_options){
        .select =
            {
                .pid = (uint32_t)v->pid,
                .from_ns = v->time.range.from,
                .to_ns = v->time.range.to == UINT64_MAX ? 0 : v->time.range.to + 1,
                .min_bytes = v->sizes.from,
                .below_bytes = v->sizes.to == UINT64_MAX ? 0 : v->sizes.to + 1,
                .thread = v->thread,
                .function = v->function,
                .module = v->module,
                .source = v->source,
            },
        .threads = (unsigned)v->threads,
        .look = view_look(v),
    };
}

void view_looks(struct report_options *o)
{
    setlocale(LC_CTYPE, "");
    o->unicode = !strcmp(nl_langinfo(CODESET), "UTF-8");
    o->columns = terminal_columns(STDOUT_FILENO, 0);
    o->bold = terminal_color(STDOUT_FILENO);
}

struct trace *view_open_as(const char *path, const struct trace_open_options *options,
                           struct error *err)
{
    struct progress progress;
    progress_begin(&progress, "sealing");
    struct trace_open_options open = *options;
    open.progress = progress_update;
    open.progress_arg = &progress;
    struct trace *t = trace_open(path, &open, err);
    progress_end(&progress);
    return t;
}

struct trace *view_open(const char *path, unsigned columns, uint64_t to_ns, uint64_t threads,
                        struct error *err)
{
    const struct trace_open_options open = {
        .columns = columns, .to_ns = to_ns, .threads = (unsigned)threads};
    return view_open_as(path, &open, err);
}

void view_tell_losses(const struct command *self, const char *path, const struct trace *t)
{
    const struct trace_info *info = trace_info(t);
    struct warnings w = {0};
    uint64_t lost = 0;
    warn_about_file(&w, info);
    const char *line = w.count ? buffer_text(&w.text) : "";
    for (size_t i = 0; i < w.count; i++, line += strlen(line) + 1)
        command_warn(self, "%s: %s", path, line);
    for (uint32_t i = 0; i < info->image_count; i++)
        lost += info->images[i].lost_calls;
    if (lost)
        command_warn(self, "%s: %s %s missing: the recording lost them", path, COUNT(lost),
                     plural(lost, "call is", "calls are"));
    warnings_release(&w);
}

struct symbols *view_symbols(const struct view_options *v, struct error *err)
{
    const char **paths = NULL;
    if (v->debug_paths.count) {
        paths = calloc(v->debug_paths.count + 2, sizeof *paths);
        if (!paths) {
            error_memory(err);
            return NULL;
        }
        memcpy(paths, v->debug_paths.items, v->debug_paths.count * sizeof *paths);
        paths[v->debug_paths.count] = "/usr/lib/debug";
    }
    const struct symbol_options o = {.search_paths = paths,
                                     .sysroot = v->sysroot,
                                     .no_debuginfod = v->no_debuginfod,
                                     .no_inline = v->no_inline};
    struct symbols *s = symbols_new(&o, err);
    free(paths);
    return s;
}
