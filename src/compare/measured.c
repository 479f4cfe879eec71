/* measured.c - Runs one replay, parses its JSON, and reads numbers from it. */
#include "compare/measured.h"

#include <string.h>

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
