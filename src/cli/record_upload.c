/* record_upload.c - Sends a recording to a store while it is written, and prints how that went.
 * The name holds host, program, process id and time, so that recordings of a fleet do not
 * collide. */
#include "cli/record_upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/human.h"
#include "base/path.h"

void record_say(void *arg, bool wrong, const char *line)
{
    const struct record_speaker *s = arg;
    if (wrong || !s->quiet)
        command_warn(s->command, "%s", line);
}

void record_progress(void *arg, uint64_t done, uint64_t total)
{
    struct record_speaker *s = arg;
    if (!s->quiet)
        progress_update(&s->progress, done, total);
}

static void say_upload_line(void *arg, const char *line)
{
    struct record_upload *u = arg;
    record_say(u->speaker, true, line);
}

static void show_upload_progress(void *arg, uint64_t done, uint64_t bytes)
{
    struct record_upload *u = arg;
    u->speaker->progress.label = "sending";
    record_progress(u->speaker, done, bytes);
}

/* HOST.PROGRAM.PID.SECONDS.mlw: no two recordings of a fleet have one name. */
static void name_it(struct record_upload *u, const char *program, int pid)
{
    char host[128] = "";
    (void)gethostname(host, sizeof host - 1);
    snprintf(u->name, sizeof u->name, "%s.%.200s.%d.%lld.mlw", *host ? host : "host",
             path_base_name(program), pid, (long long)time(NULL));
    for (char *p = u->name; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127 || strchr("/%?#\\", *p))
            *p = '_';
}

static int begin_record_upload(void *arg, int fd, const char *program, int pid, struct error *err)
{
    struct record_upload *u = arg;
    name_it(u, program, pid);
    u->to.objects.name = u->name;
    struct objects *there = objects_open(&u->to.objects, err);
    if (!there)
        return -1;
    u->url = strdup(objects_url(there));
    objects_close(there);
    if (!u->url)
        return error_memory(err);
    const struct uploader_options o = {.objects = u->to.objects,
                                       .segment_bytes = u->o->segment_bytes,
                                       .must_look = u->o->removed,
                                       .say = say_upload_line,
                                       .progress = show_upload_progress,
                                       .arg = u};
    u->uploader = uploader_start(&o, fd, err);
    return u->uploader ? 0 : -1;
}

static void look_at_upload(void *arg)
{
    struct record_upload *u = arg;
    uploader_look(u->uploader);
}

static enum record_fate end_record_upload(void *arg, const char *path, uint64_t bytes)
{
    struct record_upload *u = arg;
    struct error err = {0};
    char line[sizeof err.text + 200];
    if (!u->uploader)
        return RECORD_SEALED;
    u->done = !uploader_end(u->uploader, bytes, &u->result, &err);
    u->uploader = NULL;
    progress_end(&u->speaker->progress);
    u->speaker->progress.label = "sealing";
    if (u->done)
        return u->o->removed ? RECORD_REMOVED : RECORD_SEALED;
    snprintf(line, sizeof line, "not all of the recording could be sent: %s", err.text);
    record_say(u->speaker, true, line);
    command_warn(u->speaker->command,
                 "it is not sealed, so that 'mallow push --segments %s --to %s' can send the rest",
                 path, u->url);
    return RECORD_RAW;
}

int record_upload_prepare(struct record_upload *u, const struct record_upload_options *o,
                          struct record_speaker *speaker, struct error *err)
{
    const struct uploading_options *to = &o->to;
    *u = (struct record_upload){.o = o, .speaker = speaker};
    u->beside = (struct record_beside){
        .begin = begin_record_upload, .look = look_at_upload, .end = end_record_upload, .arg = u};
    if (!to->url)
        return 0;
    return uploading_prepare(&u->to, to, NULL, err);
}

const struct record_beside *record_upload_beside(const struct record_upload *u)
{
    return u->o->to.url ? &u->beside : NULL;
}

void record_upload_say(const struct record_upload *u)
{
    if (u->done)
        command_warn(u->speaker->command, "it is at %s (%s in %llu segments)%s%s%s", u->url,
                     SIZE(u->result.bytes), (unsigned long long)u->result.segments,
                     u->o->removed ? ", and removed here; next: mallow pull " : "",
                     u->o->removed ? u->url : "", u->o->removed ? " -o FILE" : "");
}

void record_upload_release(struct record_upload *u)
{
    uploading_release(&u->to);
    free(u->url);
    u->url = NULL;
}
