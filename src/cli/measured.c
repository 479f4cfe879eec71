/* measured.c - see measured.h. */
#include "cli/measured.h"

#include <stdlib.h>
#include <string.h>

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
                                 "'%s' is no pace; asap, recorded, or a number of times as "
                                 "fast as recorded",
                                 o->pace);
    }
    struct error err;
    for (size_t i = 0; i < o->settings.count; i++)
        if (replay_check_setting(o->settings.items[i], &err))
            return command_usage(self, "%s", err.text);
    return 0;
}

json_object *replaying_run(const struct replay_request *request, struct error *err)
{
    struct replay_started started;
    return replay_start(request, &started, err) ? NULL : replaying_finish(request, &started, err);
}

json_object *replaying_finish(const struct replay_request *request, struct replay_started *started,
                              struct error *err)
{
    struct buffer text = {0};
    json_object *run = NULL;
    if (!replay_finish(started, &text, err)) {
        run = json_tokener_parse(buffer_text(&text));
        if (!run)
            error_set(err, ERROR_FORMAT, "mallow-replay printed no JSON");
    }
    buffer_release(&text);
    if (!run)
        return NULL;
    json_object_object_add(run, "allocator", json_object_new_string(request->alloc));
    json_object *settings = json_object_new_object();
    for (size_t i = 0; i < request->setting_count; i++) {
        const char *setting = request->settings[i], *equals = strchr(setting, '=');
        struct buffer key = {0};
        buffer_append(&key, setting, (size_t)(equals - setting));
        json_object_object_add(settings, buffer_text(&key), json_object_new_string(equals + 1));
        buffer_release(&key);
    }
    json_object_object_add(run, "settings", settings);
    json_object_object_add(run, "order", json_object_new_string(request->order));
    json_object_object_add(run, "touch", json_object_new_string(request->touch));
    json_object_object_add(run, "timing", json_object_new_string(request->timing));
    json_object_object_add(run, "pace",
                           request->pace > 0 ? json_object_new_double(request->pace)
                                             : json_object_new_string("asap"));
    json_object_object_add(run, "dry_run", json_object_new_boolean(request->dry));
    return run;
}

double measured_number(json_object *run, const char *path, double otherwise)
{
    char part[64];
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n >= sizeof part)
            return otherwise;
        memcpy(part, path, n);
        part[n] = 0;
        if (!json_object_object_get_ex(run, part, &run))
            return otherwise;
        path += n + (path[n] == '/');
    }
    return json_object_is_type(run, json_type_int) || json_object_is_type(run, json_type_double)
               ? json_object_get_double(run)
               : otherwise;
}

double measured_average_rss(json_object *run)
{
    double said = measured_number(run, "average_rss_bytes", -1), area = 0, begin = 0, last = 0;
    json_object *points;
    if (said >= 0)
        return said;
    if (!json_object_object_get_ex(run, "timeline", &points) ||
        !json_object_is_type(points, json_type_array))
        return 0;
    size_t n = json_object_array_length(points);
    double before = 0, now = 0;
    for (size_t i = 0; i < n; i++) {
        json_object *point = json_object_array_get_idx(points, i);
        double time = measured_number(point, "time_ns", 0);
        now = measured_number(point, "rss_bytes", 0);
        if (!i)
            begin = time;
        else
            area += (time - last) * (now + before) / 2;
        last = time;
        before = now;
    }
    return last > begin ? area / (last - begin) : now;
}
