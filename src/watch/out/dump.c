/* dump.c - Writes the report, memory and profile of a process into new files when a threshold of
 * --dump-when is crossed. The number of dumps of a watch is bounded, so that they cannot fill a
 * disk. */
#include "watch/out/dump.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/proc.h"
#include "show/output.h"
#include "watch/out/pprof.h"
#include "limit/groups.h"

#define MOST_DUMPS                                                                                 \
    100u /* dumps of a watch: a threshold that is crossed all day must not fill a disk */
#define MOST_NUMBER 100000u
#define NAME_BYTES  64

/* The process chose it: letters, digits, and marks that are harmless in names of files. */
static void program_name(const struct watch_process *p, char name[NAME_BYTES])
{
    const char *from = watch_process_name(p);
    size_t n = 0;
    for (; from && from[n] && n < NAME_BYTES - 1; n++)
        name[n] = isalnum((unsigned char)from[n]) || (n && strchr("._-+", from[n])) ? from[n] : '_';
    name[n] = 0;
    if (!n)
        snprintf(name, NAME_BYTES, "program");
}

static bool is_there(const char *base, const char *ending)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s%s", base, ending);
    return !access(path, F_OK);
}

static int choose_name(const struct watch_dump *d, const struct watch_process *p,
                       char base[PATH_MAX], struct error *err)
{
    char program[NAME_BYTES];
    const char *directory = d->directory ? d->directory : ".";
    program_name(p, program);
    for (unsigned number = 1; number < MOST_NUMBER; number++) {
        const int n =
            snprintf(base, PATH_MAX, "%s/%s.%d.%u", directory, program, (int)p->pid, number);
        if (n < 0 || n + 16 >= PATH_MAX)
            break;
        if (!is_there(base, ".json") && !is_there(base, ".pb.gz"))
            return 0;
    }
    return error_set(err, ERROR_USAGE, "--dump-to: no name is free in %s", directory);
}

/* The resident size as the kernel splits it, and the limit. */
static void write_memory(struct json *j, const struct watch_process *p)
{
    static const char *const fields[][2] = {{"VmRSS:", "rss_bytes"},
                                            {"RssAnon:", "rss_anonymous_bytes"},
                                            {"RssFile:", "rss_file_bytes"},
                                            {"RssShmem:", "rss_shared_bytes"},
                                            {"VmSwap:", "swapped_bytes"}};
    struct limit_groups groups;
    char text[4096];
    unsigned long kilobytes;
    if (p->who.pid && proc_read(p->who.pid, "status", text, sizeof text) > 0)
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (proc_status_numbers(text, fields[i][0], &kilobytes, 1) == 1)
                json_number(j, fields[i][1], (uint64_t)kilobytes * 1024);
    const uint64_t limit =
        p->who.pid && limit_groups_of(p->who.pid, &groups) ? limit_bytes(&groups) : LIMIT_NONE;
    if (limit < LIMIT_NONE)
        json_number(j, "limit_bytes", limit);
}

/* Closes the stream; `name` gets the file when all went well until then. */
static int finish_dump_file(struct output *o, int status, struct error *err)
{
    struct error ignored;
    return output_close(o, status == 0, status ? &ignored : err) || status ? -1 : 0;
}

static int write_json(struct watch_view *view, const struct watch_report *all, const char *base,
                      const char *why, struct error *err)
{
    char path[PATH_MAX + 16], *text = NULL;
    struct output output;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s.json", base);
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return error_memory(err);
    int status = watch_view_json(view, stream, all, err);
    if (fclose(stream) && !status)
        status = error_memory(err);
    if (!status && !(status = output_open(&output, path, err))) {
        struct json j = {.out = output.file};
        json_begin(&j);
        json_text(&j, "kind", "dump");
        json_text(&j, "because", why);
        write_memory(&j, all->process);
        json_raw(&j, "report", text, strcspn(text, "\n"));
        json_close_object(&j);
        json_end(&j);
        status = finish_dump_file(&output, 0, err);
    }
    free(text);
    return status;
}

static int write_dump_profile(struct symbols *symbols, const struct watch_report *all,
                              const char *base, struct error *err)
{
    char path[PATH_MAX + 16];
    struct output output;
    snprintf(path, sizeof path, "%s.pb.gz", base);
    if (output_open(&output, path, err))
        return -1;
    return finish_dump_file(
        &output, watch_pprof_write(output.file, all->process, &all->sites, symbols, NULL, err),
        err);
}

int watch_dump_check(const char *expression, const char *directory, struct pressure *when,
                     struct error *err)
{
    if (expression && pressure_parse(when, expression, err)) {
        err->kind = ERROR_USAGE;
        return error_prefix(err, "--dump-when");
    }
    if (directory && access(directory, W_OK | X_OK))
        return error_set(err, ERROR_USAGE, "--dump-to: cannot write to '%s': %s", directory,
                         strerror(errno));
    return 0;
}

int watch_dump_write(struct watch_dump *d, struct watch_run *run, struct watch_view *view,
                     struct symbols *symbols, struct watch_process *p, const char *why,
                     char name[PATH_MAX], struct error *err)
{
    struct watch_report all;
    if (d->written >= MOST_DUMPS)
        return 1;
    if (choose_name(d, p, name, err))
        return -1;
    int status = watch_run_report(run, p, WATCH_ALL, REPORTED_SCREEN_ALL, &all, err);
    if (!status && !(status = write_json(view, &all, name, why, err))) {
        d->written++; /* there is a file, whatever becomes of the profile */
        status = write_dump_profile(symbols, &all, name, err);
    }
    watch_report_free(&all);
    return status ? -1 : 0;
}
