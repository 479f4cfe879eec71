/* replaying.c - Turns the options that replay, compare and tune share into a request, and
 * reports calls that the allocator lacks. */
#include "cli/replaying.h"

#include <stdlib.h>
#include <string.h>

#include "base/human.h"

int replaying_request(const struct command *self, const struct replaying *o,
                      struct replay_request *request)
{
    static const char *const orders[] = {"dependent", "recorded"};
    static const char *const touches[] = {"none", "pages", "bytes"};
    static const char *const timings[] = {"sample", "all", "none"};
    request->order = orders[o->order];
    request->touch = touches[o->touch];
    request->timing = timings[o->timing];
    request->trim_every_ns = o->trim_every_ns;
    request->dry = o->dry;
    if (!o->pace || !strcmp(o->pace, "asap")) {
        request->pace = 0;
    } else if (!strcmp(o->pace, "recorded")) {
        request->pace = 1;
    } else {
        char *end;
        request->pace = strtod(o->pace, &end);
        if (*end || end == o->pace || !(request->pace >= 1e-6 && request->pace <= 1e6))
            return command_usage(self,
                                 "'%s' is not a pace; use asap, recorded, or a factor such as 2 "
                                 "(twice as fast as recorded)",
                                 o->pace);
    }
    struct error err;
    for (size_t i = 0; i < o->settings.count; i++)
        if (replay_check_setting(o->settings.items[i], &err))
            return command_usage(self, "%s", err.text);
    return 0;
}

void replaying_say_replaced(const struct command *self, json_object *run, const char *label)
{
    json_object *calls, *by;
    if (!json_object_object_get_ex(run, "calls", &calls))
        return;
    json_object_object_foreach(calls, name, call)
    {
        const double count = measured_number(call, "count", 0);
        if (json_object_object_get_ex(call, "replaced_by", &by))
            command_warn(self, "%s has no %s: %s call%s became %s", label, name,
                         COUNT((uint64_t)count), count == 1 ? "" : "s", json_object_get_string(by));
    }
}
