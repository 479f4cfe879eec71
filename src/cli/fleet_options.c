/* fleet_options.c - see fleet_options.h. */
#include "cli/fleet_options.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trust/file.h"

#define KEY_BYTES 4096u

int fleet_read_access(const struct command *self, const struct fleet_cli *cli, char **key,
                      struct fleet_access *access)
{
    static const struct trust_rule rule = {
        .what = "the file of the key", .owners = TRUST_CALLER | TRUST_ROOT, .follow = true};
    struct error err;
    size_t bytes = 0;
    *key = NULL;
    *access = (struct fleet_access){.authorities = cli->ca, .cluster = cli->cluster};
    if (!cli->key_file)
        return 0;
    const int fd = trust_open(AT_FDCWD, cli->key_file, TRUST_READ, &rule, &err);
    if (fd < 0)
        return command_fail(self, &err);
    *key = trust_read_whole(fd, KEY_BYTES, &bytes, &err);
    close(fd);
    if (!*key)
        return command_fail(self, &err);
    (*key)[strcspn(*key, "\r\n")] = 0;
    access->key = *key;
    return 0;
}

bool fleet_read_labels(const struct command *self, const struct fleet_cli *cli,
                       struct fleet_label **labels)
{
    *labels = calloc(cli->labels.count + 1, sizeof **labels);
    for (size_t i = 0; *labels && i < cli->labels.count; i++)
        if (!fleet_parse_label(cli->labels.items[i], &(*labels)[i])) {
            command_usage(self, "--label: '%s' is not KEY=VALUE", cli->labels.items[i]);
            return false;
        }
    if (!*labels)
        command_usage(self, "out of memory");
    return *labels != NULL;
}

static int read_time(const struct command *self, const char *option, const char *text,
                     int64_t *time_ns)
{
    if (!text || fleet_parse_time(text, time_ns))
        return 0;
    return command_usage(self,
                         "%s: '%s' is no time like 2026-11-22, 2026-11-22T20:15, @1795378500 or "
                         "24h",
                         option, text);
}

int fleet_read_selection(const struct command *self, const struct fleet_cli *cli,
                         struct fleet_selection *of)
{
    *of = (struct fleet_selection){
        .host = cli->host, .service = cli->service, .build_id = cli->build_id};
    for (const char *c = cli->build_id; c && *c; c++)
        if (!isxdigit((unsigned char)*c))
            return command_usage(self, "--build-id: '%s' are no hexadecimal digits", cli->build_id);
    if (cli->labels.count > FLEET_LABELS)
        return command_usage(self, "--label: at most %u of them", FLEET_LABELS);
    for (; of->label_count < cli->labels.count; of->label_count++)
        if (!fleet_parse_label(cli->labels.items[of->label_count], &of->labels[of->label_count]))
            return command_usage(self, "--label: '%s' is not KEY=VALUE",
                                 cli->labels.items[of->label_count]);
    const int status = read_time(self, "--since", cli->since, &of->since_ns);
    return status ? status : read_time(self, "--until", cli->until, &of->until_ns);
}

struct fleet_store *fleet_open_store(const struct command *self, const struct fleet_cli *cli,
                                     int *status)
{
    struct fleet_access access;
    struct fleet_store *store = NULL;
    struct error err;
    char *key;
    *status = fleet_read_access(self, cli, &key, &access);
    if (!*status && !(store = fleet_open(cli->store, &access, &err)))
        *status = command_fail(self, &err);
    free(key);
    return store;
}
