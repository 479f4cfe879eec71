/* watch_session.c - Connects a watch with its outputs: reports, the screen, profiles, dumps,
 * pushes and HTTP. It opens all of them before the watch begins, and closes them after it ended. */
#include "cli/watch_session.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/plural.h"
#include "show/output.h"
#include "watch/out/pprof.h"

#define TICK_NS  500000000ull
#define FIRST_NS 60000000000ull /* the first report, without --every */

static void session_has_failed(struct watching *w, const struct error *err)
{
    if (!w->failed)
        command_warn(w->command, "%s", err->text);
    w->failed = true;
    if (w->run)
        watch_run_command(w->run, WATCH_STOP);
}

/* ---- the profile ---- */

/* FILE with the process id for %p. False: it does not fit. */
static bool profile_path(const char *pattern, pid_t pid, char path[PATH_MAX], bool *each)
{
    size_t n = 0;
    *each = false;
    for (const char *p = pattern; *p; p++) {
        char piece[24] = {*p, 0};
        if (p[0] == '%' && p[1] == 'p') {
            snprintf(piece, sizeof piece, "%d", (int)pid);
            *each = true;
            p++;
        } else if (p[0] == '%' && p[1] == '%') {
            p++;
        }
        size_t length = strlen(piece);
        if (n + length + 8 >= PATH_MAX)
            return false;
        memcpy(path + n, piece, length);
        n += length;
    }
    path[n] = 0;
    return true;
}

/* A whole profile takes the place of the one before. */
static int replace_profile(struct watching *w, struct watch_process *p, const char *path,
                           struct error *err)
{
    struct watch_report all;
    struct output output;
    int status = -1;
    if (watch_run_report(w->run, p, WATCH_ALL, REPORTED_SCREEN_ALL, &all, err)) {
        watch_report_free(&all);
        return -1;
    }
    if (!output_open(&output, path, err)) {
        status = watch_pprof_write(output.file, p, &all.sites, w->symbols, NULL, err);
        if (output_close(&output, status == 0, err))
            status = -1;
    }
    watch_report_free(&all);
    return status;
}

static void write_session_profile(struct watching *w, struct watch_process *p)
{
    char path[PATH_MAX];
    bool each;
    struct error err = {0};
    if (!w->o->pprof || !profile_path(w->o->pprof, p->pid, path, &each))
        return;
    if (!each && w->profiled && w->profiled != p->pid)
        return;
    w->profiled = p->pid;
    if (replace_profile(w, p, path, &err))
        session_has_failed(w, &err);
}

/* ---- what the run says ---- */

static void report_session(void *arg, const struct watch_report *r, bool marking)
{
    struct watching *w = arg;
    struct error err = {0};
    struct watch_process *process = r->process;
    bool only_screen = w->screen && !output_named(w->o->output) && r->kind != WATCH_FINAL &&
                       r->kind != WATCH_FREES && !(marking && w->o->known);
    watch_view_retarget(w->view, w->kept ? w->kept : w->out, w->columns);
    if (r->kind == WATCH_OLD || r->kind == WATCH_FINAL)
        write_session_profile(w, process);
    if (r->kind == WATCH_FINAL && w->push)
        watch_push_last(w->push, &(struct watch_sources){w->run, w->view, w->symbols}, process);
    if (!only_screen && watch_view_report(w->view, r, marking, &err))
        session_has_failed(w, &err);
}

static void caught(void *arg, const struct watch_caught *c)
{
    struct watching *w = arg;
    struct error err = {0};
    watch_view_retarget(w->view, w->kept ? w->kept : w->out, w->columns);
    if (w->screen)
        watch_screen_say(w->screen, watch_error_name(c->error.kind));
    if (watch_view_caught(w->view, c, &err))
        session_has_failed(w, &err);
}

/* On a terminal: shows at once that the watch works, and where to see it. */
static void report_joined(void *arg, const struct watch_process *p)
{
    struct watching *w = arg;
    if (w->o->pids.count)
        watch_attach_joined(&w->attach, p);
    if (p->is_program && !w->o->quiet && !w->o->json && isatty(STDERR_FILENO))
        command_warn(w->command,
                     "watching %s [%d]; the first report comes after %s, and 'mallow watch -p %d' "
                     "in another terminal shows it live",
                     watch_process_name(p), (int)p->pid,
                     TIME(w->o->every_ns ? w->o->every_ns : FIRST_NS), (int)p->pid);
}

static void report_refused(void *arg, const struct watch_process *p)
{
    const struct watching *w = arg;
    watch_view_forget(w->view, p);
}

static void say_session_line(void *arg, bool wrong, const char *line)
{
    struct watching *w = arg;
    if (w->screen)
        watch_screen_say(w->screen, line);
    else if (wrong || !w->o->quiet)
        command_warn(w->command, "%s", line);
}

/* A dump that cannot be written does not end the watch: the next one may be. */
static void pressed(void *arg, struct watch_process *p, const char *line)
{
    struct watching *w = arg;
    char name[PATH_MAX], text[PATH_MAX + 512];
    struct error err = {0};
    const char *const process = watch_process_name(p);
    const int status = watch_dump_write(&w->dump, w->run, w->view, w->symbols, p, line, name, &err);
    if (status < 0) {
        snprintf(text, sizeof text, "process %d (%s): %s, and no dump could be written: %s",
                 (int)p->pid, process, line, err.text);
        w->failed = true;
    } else if (status) {
        snprintf(text, sizeof text, "process %d (%s): %s; %u dumps were written, and no more are",
                 (int)p->pid, process, line, w->dump.written);
    } else {
        snprintf(text, sizeof text, "process %d (%s): %s; wrote %s.json and .pb.gz", (int)p->pid,
                 process, line, name);
    }
    say_session_line(w, status != 0, text);
}

static void push_reports(struct watching *w)
{
    bool wrong;
    watch_push_tick(w->push, &(struct watch_sources){w->run, w->view, w->symbols});
    for (const char *line; (line = watch_push_news(w->push, &wrong));)
        say_session_line(w, wrong, line);
}

static void tick_session(void *arg)
{
    struct watching *w = arg;
    struct error err = {0};
    if (w->screen)
        watch_screen_tick(w->screen);
    if (w->push)
        push_reports(w);
    if (w->metrics && watch_metrics_tick(w->metrics, w->run, &err))
        say_session_line(w, true, err.text);
    if (w->until_ns && clock_monotonic_ns() >= w->until_ns)
        watch_run_command(w->run, WATCH_STOP);
}

static void key(void *arg)
{
    struct watching *w = arg;
    if (w->screen)
        watch_screen_keys(w->screen);
}

static void serve(void *arg)
{
    struct watching *w = arg;
    watch_serve_round(w->serve);
}

struct watch_listener watch_session_listener(struct watching *w)
{
    return (struct watch_listener){.arg = w,
                                   .joined = report_joined,
                                   .report = report_session,
                                   .caught = caught,
                                   .pressed = pressed,
                                   .refused = report_refused,
                                   .say = say_session_line,
                                   .tick = tick_session,
                                   .key = key,
                                   .serve = serve};
}

/* ---- beginning and ending ---- */

static int open_view(struct watching *w, bool program, struct error *err)
{
    const struct watch_cli *o = w->o;
    struct report_options looks = {0};
    view_looks(&looks);
    const char *output = output_named(o->output);
    w->out = program && !o->json && !o->output ? stderr : stdout;
    if (output && !(w->out = output_stream(output, true, err)))
        return -1;
    w->columns = output ? 0 : terminal_columns(fileno(w->out), 0);
    w->symbols = view_symbols(&o->view, err);
    if (!w->symbols)
        return -1;
    const struct watch_view_options options = {.out = w->out,
                                               .look = w->look,
                                               .json = o->json,
                                               .symbols = w->symbols,
                                               .known = o->known,
                                               .top = o->top,
                                               .depth = (unsigned)o->depth,
                                               .columns = w->columns,
                                               .unicode = looks.unicode,
                                               .bold = !output && terminal_color(fileno(w->out)),
                                               .order = (enum watch_order)o->by};
    w->view = watch_view_new(&options, err);
    return w->view ? 0 : -1;
}

static int run_session(struct watching *w, struct watch_options *options,
                       struct watch_result *result, struct error *err)
{
    const struct watch_cli *o = w->o;
    bool program = options->argv != NULL;
    bool live = !program && !o->json && !o->plain && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (open_view(w, program, err))
        return -1;
    if (live)
        options->input = STDIN_FILENO;
    if (live || w->push || o->metrics_file || o->duration_ns)
        options->tick_ns = TICK_NS;
    if (o->metrics_file && output_must_be_regular(o->metrics_file, "a file of metrics", err))
        return -1;
    if (o->metrics_file && !(w->metrics = watch_metrics_open_file(o->metrics_file, err)))
        return -1;
    if (o->serve.listen) {
        w->serve = watch_serve_open(&o->serve, w->view, w->symbols, err);
        if (!w->serve)
            return -1;
        options->served = watch_serve_descriptor(w->serve);
    }
    w->run = watch_run_new(options, err);
    if (!w->run)
        return -1;
    w->until_ns = o->duration_ns ? clock_monotonic_ns() + o->duration_ns : 0;
    if (w->serve)
        watch_serve_run(w->serve, w->run);
    if (live && !output_named(o->output))
        w->kept = open_memstream(&w->kept_text, &w->kept_bytes);
    if (live)
        w->screen = watch_screen_begin(w->view, w->run, options->order, err);
    if (live && !w->screen)
        return -1;
    return watch_run_loop(w->run, result, err);
}

static void close_all(struct watching *w)
{
    watch_screen_end(w->screen);
    w->screen = NULL;
    watch_serve_close(w->serve);
    watch_metrics_close_file(w->metrics);
    watch_run_free(w->run);
    w->run = NULL;
    watch_view_free(w->view);
    symbols_free(w->symbols);
    if (w->kept) {
        fclose(w->kept);
        fwrite(w->kept_text, 1, w->kept_bytes, stdout);
        free(w->kept_text);
    }
    struct error err;
    const char *output = output_named(w->o->output);
    if (output && w->out && fclose(w->out) && !w->failed) {
        error_system(&err, "cannot write %s", output);
        session_has_failed(w, &err);
    }
    if (!w->failed && command_finish(w->command))
        w->failed = true;
}

/* Processes that run without the library are attached to, and left at the end. */
static int attach_and_watch(struct watching *w, struct watch_options *options,
                            struct watch_result *result, struct error *err)
{
    const struct watch_cli *o = w->o;
    options->since_ns = clock_monotonic_ns();
    int bad = o->how == WATCH_PRELOADED
                  ? 0
                  : watch_attach(&w->attach, options->pids, options->pid_count, o->guard, err);
    if (!bad) {
        bad = run_session(w, options, result, err);
        close_all(w);
    }
    if (watch_attach_end(&w->attach, result->interrupted_ns))
        w->failed = true;
    return bad;
}

int watch_session(struct watching *w, struct watch_options *options)
{
    const struct watch_cli *o = w->o;
    const bool program = options->argv != NULL;
    struct error err = {0};
    struct watch_all all = {.user = 0};
    struct watch_result result = {.exit_status = program ? EXIT_MALLOW_FAILED : EXIT_FAILED};
    if (watch_push_open(&w->push, &o->push, o->serve.listen ? NULL : o->serve.token_file,
                        command_note(w->command), &err))
        return command_fail(w->command, &err) == EXIT_USAGE ? EXIT_USAGE : result.exit_status;
    if (o->all && watch_all_open(&all, &o->select, o->how == WATCH_PRELOADED, o->quiet,
                                 command_note(w->command), options, &err)) {
        watch_push_end(w->push, true);
        return command_fail(w->command, &err);
    }
    const int bad = attach_and_watch(w, options, &result, &err);
    watch_push_end(w->push, o->quiet || bad);
    if (bad) {
        command_warn(w->command, "%s", err.text);
        return o->serve.listen && !w->serve && err.kind == ERROR_USAGE ? EXIT_USAGE
                                                                       : result.exit_status;
    }
    if (!result.processes)
        command_warn(w->command,
                     o->all
                         ? "no process with libmallow-watch.so was seen: there is nothing to report"
                         : "no process loaded libmallow-watch.so: there is nothing to "
                           "report");
    if (result.left_running && program)
        command_warn(w->command, "%u %s still running; 'mallow watch -p PID' goes on with one",
                     result.left_running,
                     plural(result.left_running, "process is", "processes are"));
    if (w->failed && (!program || !result.exit_status))
        return program ? EXIT_MALLOW_FAILED : EXIT_FAILED;
    return result.exit_status;
}
