#include "cli/watch_left.h"

#include <json-c/json.h>
#include <stdio.h>
#include <time.h>

#include "base/human.h"
#include "base/text.h"
#include "show/document.h"
#include "show/json_document.h"
#include "watch/left.h"

static void print_left_text(const struct left *l)
{
    char size[HUMAN_TEXT_BYTES], when[32];
    if (!l->count)
        puts("no watched process left memory in /dev/shm");
    for (size_t i = 0; i < l->count; i++) {
        const struct left_item *item = &l->items[i];
        if (item->is_session)
            text_printf(stdout, "%-19s  %7d  %9s  %s, of a watch that was killed\n", "?",
                        (int)item->pid, "-", item->path);
        if (item->is_session)
            continue;
        time_t seconds = (time_t)(item->realtime_ns / 1000000000u);
        struct tm t;
        snprintf(when, sizeof when, "?");
        if (item->realtime_ns && localtime_r(&seconds, &t))
            strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &t);
        text_printf(stdout, "%-19s  %7d  %9s  %s\n", when, (int)item->pid,
                    human_size(size, item->bytes), *item->exe ? item->exe : "?");
    }
    if (l->count)
        text_printf(
            stdout,
            "%s in all; 'mallow watch -p PID' reads one, 'mallow watch --left clear' removes "
            "all\n",
            human_size(size, l->bytes));
}

static void print_left_json(const struct left *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct left_item *item = &l->items[i];
        struct json_object *o = document_new();
        json_object_object_add(o, "kind",
                               json_object_new_string(item->is_session ? "left-session" : "left"));
        json_object_object_add(o, "pid", json_object_new_int((int)item->pid));
        json_object_object_add(o, "exe", json_object_new_string(item->exe));
        json_object_object_add(o, "path", json_object_new_string(item->path));
        json_object_object_add(o, "bytes", json_object_new_uint64(item->bytes));
        json_object_object_add(o, "realtime_ns", json_object_new_uint64(item->realtime_ns));
        document_print(o);
        json_object_put(o);
    }
}

int watch_left(const struct command *self, bool clear, bool json)
{
    struct left left;
    struct error err = {0};
    char size[HUMAN_TEXT_BYTES];
    if (left_find(&left, &err))
        return command_fail(self, &err);
    int status = EXIT_DONE;
    if (json)
        print_left_json(&left);
    else if (!clear)
        print_left_text(&left);
    if (clear) {
        size_t done = left_clear(&left, &err);
        if (done < left.count)
            status = command_fail(self, &err);
        const size_t sessions = left.count - left.segments;
        const size_t dead = done > sessions ? done - sessions : 0;
        if (!json)
            text_printf(stdout, "removed what %zu %s had left, %s", dead,
                        dead == 1 ? "process" : "processes", human_size(size, left.bytes));
        if (!json && sessions)
            text_printf(stdout, ", and %zu %s of watches that were killed", sessions,
                        sessions == 1 ? "directory" : "directories");
        if (!json)
            putchar('\n');
    }
    left_release(&left);
    int finished = command_finish(self);
    return finished ? finished : status;
}
