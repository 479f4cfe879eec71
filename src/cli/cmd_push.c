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
#include "cli/document.h"
#include "compare/document.h"
#include "push/headers.h"
#include "push/push.h"

#define SECOND_NS 1000000000ull

struct push_cli {
    const char *to, *ca;
    int method; /* 0: PUT, 1: POST */
    struct option_texts header;
    uint64_t retries, timeout_ns;
    bool json, quiet;
};

#define AT(field) offsetof(struct push_cli, field)

static const struct option_spec specs[] = {
    {0, "to", OPTION_TEXT, AT(to), "URL",
     "send it there (needed); a URL that ends in / gets the file's name"},
    {0, "method", OPTION_CHOICE, AT(method), "put|post", "ask like this (default put)"},
    {0, "header", OPTION_TEXTS, AT(header), "HEADER",
     "send this header, 'NAME: VALUE', too; @FILE takes a header from each line of FILE; may be "
     "repeated"},
    {0, "ca", OPTION_TEXT, AT(ca), "FILE", "trust the certificates in FILE (default: the system's)",
     .completion = VALUE_FILE},
    {0, "retry", OPTION_COUNT, AT(retries), "N", "try N times more when it fails (default 3)", 0,
     100},
    {0, "timeout", OPTION_DURATION, AT(timeout_ns), "DURATION",
     "give up when next to nothing moves for so long, or the answer is not whole so long after "
     "the file was sent (default 1m)",
     SECOND_NS, 86400 * SECOND_NS},
    {0, "json", OPTION_FLAG, AT(json), NULL, "print one JSON document instead of text"},
    {'q', "quiet", OPTION_FLAG, AT(quiet), NULL, "say nothing unless something is wrong"},
    OPTION_END,
};

/* ---- the file ---- */

/* Standard input in a file without a name, so that it can be sent a second time. */
static int spool(struct error *err)
{
    FILE *f = tmpfile();
    static char part[1 << 16];
    ssize_t n = 0;
    if (!f)
        return error_system(err, "cannot make a temporary file");
    while ((n = read(STDIN_FILENO, part, sizeof part)) > 0)
        if (fwrite(part, 1, (size_t)n, f) != (size_t)n)
            break;
    int fd = -1;
    if (n < 0)
        error_system(err, "cannot read standard input");
    else if (n > 0 || fflush(f) || (fd = fcntl(fileno(f), F_DUPFD_CLOEXEC, 3)) < 0)
        error_system(err, "cannot write a temporary file");
    fclose(f);
    return fd;
}

static int open_file(const char *path, struct error *err)
{
    if (!strcmp(path, "-"))
        return spool(err);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return error_system(err, "cannot open %s", path);
    if (S_ISREG(st.st_mode))
        return fd;
    close(fd);
    return error_set(err, ERROR_USAGE,
                     S_ISDIR(st.st_mode) ? "%s is a directory; push sends one file"
                                         : "%s is no file; '-' reads standard input",
                     path);
}

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

static void show(void *arg, uint64_t sent, uint64_t bytes)
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

static void print(const struct push_cli *cli, const char *path, const struct push_result *r)
{
    char n[HUMAN_TEXT_BYTES], took[HUMAN_TEXT_BYTES];
    if (cli->json) {
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
    } else if (!cli->quiet) {
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
    if (push_check(cli->to, name, &err))
        return command_fail(self, &err);
    int fd = open_file(path, &err);
    if (fd < 0)
        return command_fail(self, &err);
    warn_of_raw(self, fd, path);
    struct telling telling = {.self = self, .quiet = cli->quiet};
    const struct push_options o = {.url = cli->to,
                                   .post = cli->method == 1,
                                   .header = (const char *const *)headers->text,
                                   .header_count = headers->count,
                                   .authorities = cli->ca,
                                   .retries = cli->retries,
                                   .timeout_ns = cli->timeout_ns,
                                   .first_pause_ns = SECOND_NS,
                                   .progress = show,
                                   .again = again,
                                   .arg = &telling};
    progress_begin(&telling.progress, "sending");
    const int status = push_file(fd, name, &o, &result, &err);
    progress_end(&telling.progress);
    close(fd);
    if (status)
        return command_fail(self, &err);
    print(cli, path, &result);
    return command_finish(self);
}

static int run(const struct command *self, const void *options, char **operands, int operand_count)
{
    const struct push_cli *cli = options;
    struct push_headers headers = {0};
    struct error err;
    (void)operand_count;
    if (!cli->to)
        return command_usage(self, "where to? --to URL is needed");
    const int status = push_headers_collect(&headers, cli->header.items, cli->header.count, &err)
                           ? command_fail(self, &err)
                           : send_it(self, cli, operands[0], &headers);
    push_headers_release(&headers);
    return status;
}

static const struct push_cli defaults = {.retries = 3, .timeout_ns = 60 * SECOND_NS};

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
        "A recording holds the program's command line, paths of files and names of\n"
        "functions. 'mallow workload' makes a file that does not.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct push_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run,
};
