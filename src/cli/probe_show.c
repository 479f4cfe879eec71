/* probe_show.c - see probe_show.h. */
#include "cli/probe_show.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "show/output.h"

static void flush_printed_rows(struct probe_printing *p)
{
    if ((!ferror(p->out) && !fflush(p->out)) || p->failed)
        return;
    error_system(&p->err, "cannot write the result");
    p->failed = true;
}

void probe_show_result(struct probe_printing *p, const struct probe_result *r)
{
    if (!p->json && !p->folded)
        probe_arenas_rest(p->out, &p->lines);
    int bad = p->json     ? probe_report_json(p->out, r, &p->how, &p->err)
              : p->folded ? probe_report_folded(p->out, r, &p->how, &p->err)
                          : probe_report_text(p->out, r, &p->how, &p->err);
    p->failed = p->failed || bad;
    flush_printed_rows(p);
}

void probe_show_interval(void *arg, struct probe_result *since)
{
    struct probe_printing *p = arg;
    if (!p->json && !p->folded && p->screen)
        fputs("\033[H\033[J", stdout); /* the live view takes the screen */
    probe_show_result(p, since);
    if (!p->json)
        putc('\n', p->out);
}

void probe_show_line(void *arg, const char *line)
{
    const struct probe_printing *p = arg;
    command_warn(p->self, "%s", line);
}

void probe_show_moment(void *arg, uint32_t pid, const struct arena_moment *m)
{
    struct probe_printing *p = arg;
    (void)pid;
    if (!p->json && !p->folded) {
        probe_arenas_line(p->out, &p->lines, m);
        flush_printed_rows(p);
    }
}

int probe_show_list(const struct command *self, const struct probe_options *options,
                    const char *path, bool json)
{
    static struct probe_functions list;
    struct error err;
    struct output to = {.file = stdout};
    const char *output = output_named(path);
    if ((output && output_open(&to, output, &err)) || probe_list(options, &list, &err)) {
        if (output && to.file)
            output_close(&to, false, &(struct error){0});
        probe_list_release(&list);
        return command_fail(self, &err);
    }
    if (json)
        probe_report_list(to.file, &list);
    else
        for (size_t i = 0; i < list.count; i++)
            text_printf(to.file, "%s\n", list.name[i]);
    probe_list_release(&list);
    if (output && output_close(&to, true, &err))
        return command_fail(self, &err);
    return command_finish(self);
}

int probe_show_status(const struct command *self, const struct probe_result *r, const char *program)
{
    if (!r->has_program)
        return EXIT_DONE;
    if (r->exec_errno) {
        command_warn(self, "cannot execute '%s': %s", program, strerror(r->exec_errno));
        return r->exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
    }
    if (WIFSIGNALED(r->wait_status))
        return 128 + WTERMSIG(r->wait_status);
    return WEXITSTATUS(r->wait_status);
}

int probe_show_kinds(const struct command *self, const char *name)
{
    char list[512] = "";
    size_t n = 0;
    for (const struct probe_kind *const *k = probe_kinds; *k; k++)
        n +=
            (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", probe_kind_name(*k));
    return command_usage(self, "unknown probe kind '%s'; one of %s", name, list);
}
