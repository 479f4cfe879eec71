/* cmd_push.c - `mallow push`: a recording or a profile, sent to a store on the network. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/human.h"
#include "base/text.h"
#include "cli/command.h"
#include "show/document.h"
#include "cli/push_input.h"
#include "cli/push_segments.h"
#include "show/json_document.h"
#include "push/headers.h"
#include "push/manifest.h"
#include "push/push.h"

#define SECOND_NS 1000000000ull

struct push_cli {
    struct push_segments s;
    int method; /* 0: PUT, 1: POST */
    bool segments;
};

#define AT(field)    offsetof(struct push_cli, field)
#define TO_AT(field) offsetof(struct push_cli, s.to.field)

static const struct option_spec specs[] = {
    {0, "to", OPTION_TEXT, AT(s.to.url), "URL",
     "send it there (needed); a URL that ends in / gets the file's name"},
    {0, "method", OPTION_CHOICE, AT(method), "put|post", "ask like this (default put)"},
    {0, "header", OPTION_TEXTS, AT(s.to.header), "HEADER",
     "send this header, 'NAME: VALUE', too; @FILE takes a header from each line of FILE; may be "
     "repeated"},
    {0, "ca", OPTION_TEXT, AT(s.to.ca), "FILE",
     "trust the certificates in FILE (default: the system's)", .completion = VALUE_FILE},
    {0, "retry", OPTION_COUNT, AT(s.retries), "N", "try N times more when it fails (default 3)", 0,
     100},
    {0, "timeout", OPTION_DURATION, AT(s.timeout_ns), "DURATION",
     "give up when next to nothing moves for so long, or the answer is not whole so long after "
     "the file was sent (default 1m)",
     SECOND_NS, 86400 * SECOND_NS},
    {0, "segments", OPTION_FLAG, AT(segments), NULL,
     "send a recording in pieces below the URL, with checksums; a second try sends the missing "
     "ones"},
    {0, "segment-size", OPTION_SIZE, AT(s.segment_bytes), "SIZE",
     "with --segments: so much in each piece (default 16M)", SEGMENT_BYTES_LEAST,
     SEGMENT_BYTES_MOST},
    {0, "replace", OPTION_FLAG, AT(s.replace), NULL,
     "with --segments: in place of another recording that is there"},
    {0, "remove", OPTION_FLAG, AT(s.removed), NULL,
     "with --segments: remove FILE once all of it is known to be there"},
    UPLOADING_S3(TO_AT, "with --segments: "),
    UPLOADING_REGION(TO_AT),
    {0, "json", OPTION_FLAG, AT(s.json), NULL, "print one JSON document instead of text"},
    {'q', "quiet", OPTION_FLAG, AT(s.quiet), NULL, "say nothing unless something is wrong"},
    OPTION_END,
};

/* A raw recording is several times as large as a sealed one, and may be growing. */
static void warn_of_raw(const struct command *self, int fd, const char *path)
{
    char magic[4];
    if (pread(fd, magic, 4, 0) == 4 && !memcmp(magic, "MLC1", 4))
        command_warn(self,
                     "%s is not sealed: it is still being written, or it was not read since; "
                     "what it holds now is sent",
                     path);
}

/* ---- */

struct telling {
    const struct command *self;
    struct progress progress;
    bool quiet;
};

static void show_push_progress(void *arg, uint64_t sent, uint64_t bytes)
{
    struct telling *t = arg;
    progress_update(&t->progress, sent, bytes);
}

static void again(void *arg, const char *why, uint64_t pause_ns)
{
    struct telling *t = arg;
    char n[HUMAN_TEXT_BYTES];
    progress_end(&t->progress);
    if (!t->quiet)
        command_warn(t->self, "%s; again in %s", why, human_duration(n, pause_ns));
    progress_begin(&t->progress, "sending");
}

static void print_pushed(const struct push_cli *cli, const char *path, const struct push_result *r)
{
    char n[HUMAN_TEXT_BYTES], took[HUMAN_TEXT_BYTES];
    if (cli->s.json) {
        struct json_object *o = document_new();
        json_object_object_add(o, "file", json_object_new_string(path));
        json_object_object_add(o, "url", json_object_new_string(r->url));
        json_object_object_add(o, "location",
                               *r->location ? json_object_new_string(r->location) : NULL);
        json_object_object_add(o, "http_status", json_object_new_int64(r->status));
        json_object_object_add(o, "sent_bytes", json_object_new_int64((int64_t)r->bytes));
        json_object_object_add(o, "duration_ns", json_object_new_int64((int64_t)r->duration_ns));
        json_object_object_add(o, "tries", json_object_new_int64((int64_t)r->tries));
        document_print_indented(o);
        json_object_put(o);
    } else if (!cli->s.quiet) {
        text_printf(stdout, "%s: %s sent to %s in %s (%ld)\n",
                    strcmp(path, "-") ? path : "standard input", human_size(n, r->bytes), r->url,
                    human_duration(took, r->duration_ns), r->status);
        if (*r->location)
            text_printf(stdout, "it is there as %s\n", r->location);
    }
}

static int send_it(const struct command *self, const struct push_cli *cli, const char *path,
                   const struct push_headers *headers)
{
    const char *slash = strrchr(path, '/');
    const char *name = !strcmp(path, "-") ? NULL : slash ? slash + 1 : path;
    struct push_result result;
    struct error err;
    if (push_check(cli->s.to.url, name, &err))
        return command_fail(self, &err);
    int fd = push_open(path, &err);
    if (fd < 0)
        return command_fail(self, &err);
    warn_of_raw(self, fd, path);
    struct telling telling = {.self = self, .quiet = cli->s.quiet};
    const struct push_options o = {.url = cli->s.to.url,
                                   .post = cli->method == 1,
                                   .header = (const char *const *)headers->text,
                                   .header_count = headers->count,
                                   .authorities = cli->s.to.ca,
                                   .retries = cli->s.retries,
                                   .timeout_ns = cli->s.timeout_ns,
                                   .first_pause_ns = SECOND_NS,
                                   .progress = show_push_progress,
                                   .again = again,
                                   .arg = &telling};
    progress_begin(&telling.progress, "sending");
    const int status = push_file(fd, name, &o, &result, &err);
    progress_end(&telling.progress);
    close(fd);
    if (status)
        return command_fail(self, &err);
    print_pushed(cli, path, &result);
    return command_finish(self);
}

static int send_segments(const struct command *self, const struct push_cli *cli, const char *path)
{
    struct error err;
    if (cli->method == 1 || !strcmp(path, "-"))
        return command_usage(self, "--segments is for a file, and put");
    const int fd = push_open(path, &err);
    if (fd < 0)
        return command_fail(self, &err);
    const int status = push_segments(self, &cli->s, path, fd);
    close(fd);
    return status;
}

static int run_push(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    const struct push_cli *cli = options;
    struct push_headers headers = {0};
    struct error err;
    (void)operand_count;
    if (!cli->s.to.url)
        return command_usage(self, "where to? --to URL is needed");
    const char *const without = cli->s.segment_bytes ? "segment-size"
                                : cli->s.replace     ? "replace"
                                : cli->s.removed     ? "remove"
                                : cli->s.to.keys     ? "s3"
                                : cli->s.to.region   ? "region"
                                                     : NULL;
    if (without && !cli->segments)
        return command_usage(self, "--%s is for --segments", without);
    if (cli->segments)
        return send_segments(self, cli, operands[0]);
    const int status =
        push_headers_collect(&headers, cli->s.to.header.items, cli->s.to.header.count, &err)
            ? command_fail(self, &err)
            : send_it(self, cli, operands[0], &headers);
    push_headers_release(&headers);
    return status;
}

static const struct push_cli defaults = {.s = {.retries = 3, .timeout_ns = 60 * SECOND_NS}};

const struct command command_push = {
    .name = "push",
    .summary = "send a recording or a profile to a store on the network",
    .operands = "FILE",
    .description =
        "Sends FILE, or standard input for '-', to a store that takes files by HTTP: an\n"
        "object store (by a signed URL), WebDAV, an artifact store of a CI, a profile\n"
        "server. What fails for the moment is tried again. Certificates are checked;\n"
        "redirections are not followed; ~/.netrc and the usual proxy variables are used.\n"
        "\n"
        "With --segments, a recording goes in pieces; those that are there are not\n"
        "sent again. 'mallow pull' puts them together.\n"
        "\n"
        "A recording holds the program's command line, paths of files and names of\n"
        "functions. 'mallow workload' makes a file that does not.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct push_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_push,
};
