/* watched_line.c - a line of `mallow watch --json` is read, and refused if it is no report. */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/watched.h"

#define FRAMES_MOST 100000u
#define DEPTH_MOST  16 /* depth of objects in each other */

static json_object *field(json_object *o, const char *name)
{
    json_object *v;
    return json_object_object_get_ex(o, name, &v) ? v : NULL;
}

static const char *text_of(json_object *o, const char *name)
{
    json_object *v = field(o, name);
    return json_object_is_type(v, json_type_string) ? json_object_get_string(v) : "";
}

static bool number_of(json_object *o, const char *name, uint64_t *to)
{
    json_object *v = field(o, name);
    const int64_t n = json_object_is_type(v, json_type_int) ? json_object_get_int64(v) : -1;
    *to = n < 0 ? 0 : (uint64_t)n;
    return n >= 0 && n < INT64_MAX; /* which stands for all that do not fit */
}

static bool read_estimate(json_object *o, struct fleet_estimate *e)
{
    return number_of(o, "estimated_bytes", &e->bytes) &&
           number_of(o, "estimated_blocks", &e->blocks) &&
           number_of(o, "estimated_bytes_low", &e->low) &&
           number_of(o, "estimated_bytes_high", &e->high) &&
           number_of(o, "sampled_blocks", &e->samples) &&
           number_of(o, "sampled_bytes", &e->sampled_bytes) && e->low <= e->bytes &&
           e->bytes <= e->high;
}

static const char *text_of_list(json_object *list)
{
    return json_object_to_json_string_ext(list,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

char *watched_command(const char *json)
{
    json_object *list = json_tokener_parse(json);
    char *text = list ? strdup(text_of_list(list)) : NULL;
    json_object_put(list);
    return text;
}

/* As a JSON array; NULL: it is none of texts. */
static const char *command_of(json_object *o)
{
    json_object *list = field(o, "command");
    if (!json_object_is_type(list, json_type_array))
        return NULL;
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (!json_object_is_type(json_object_array_get_idx(list, i), json_type_string))
            return NULL;
    return text_of_list(list);
}

static bool read_head(struct watched_line *line, json_object *o)
{
    static const char *const kinds[] = {"old", "all", "high-water", "frees", "final"};
    struct fleet_report *w = &line->of;
    uint64_t since = 0, pid = 0;
    w->kind = text_of(o, "kind");
    line->report = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        line->report |= !strcmp(w->kind, kinds[i]);
    if (!line->report)
        return *w->kind != 0;
    w->host = text_of(o, "host");
    w->exe = text_of(o, "exe");
    w->process_end = text_of(o, "process");
    const bool good = number_of(o, "time_ns", &since) && number_of(o, "realtime_ns", &w->time_ns) &&
                      since <= w->time_ns && number_of(o, "pid", &pid) && pid <= UINT32_MAX &&
                      number_of(o, "period_bytes", &w->period) &&
                      number_of(o, "dropped", &w->dropped) && read_estimate(o, &w->total) &&
                      number_of(o, "sites_total", &w->sites_total) &&
                      json_object_is_type(field(o, "sites"), json_type_array);
    w->start_ns = w->time_ns - since;
    w->pid = pid;
    w->command = command_of(o);
    return good && w->command;
}

void watched_release(struct watched_line *line)
{
    for (size_t i = 0; i < line->of.site_count; i++)
        free(line->of.sites[i].frames);
    free(line->of.sites);
    json_object_put(line->document);
    *line = (struct watched_line){0};
}

static bool read_frame(json_object *o, struct name_frame *f)
{
    json_object *line = field(o, "line");
    const int64_t number =
        json_object_is_type(line, json_type_int) ? json_object_get_int64(line) : -1;
    if (number < 0 || number > UINT32_MAX ||
        !json_object_is_type(field(o, "function"), json_type_string))
        return false;
    *f = (struct name_frame){.function = text_of(o, "function"),
                             .file = text_of(o, "file"),
                             .module = text_of(o, "module"),
                             .line = (unsigned)number,
                             .inlined = json_object_get_boolean(field(o, "inlined")),
                             .known = !json_object_get_boolean(field(o, "unnamed")),
                             .cut = json_object_get_boolean(field(o, "cut"))};
    if (!*f->module)
        f->module = NULL;
    f->known = f->known && !f->cut;
    return true;
}

/* False: no memory, or no frames. */
static bool read_frames(json_object *frames, struct fleet_report_site *to)
{
    to->count = json_object_array_length(frames);
    if (to->count > FRAMES_MOST)
        return false;
    to->frames = calloc(to->count + 1, sizeof *to->frames);
    for (size_t i = 0; to->frames && i < to->count; i++)
        if (!read_frame(json_object_array_get_idx(frames, i), &to->frames[i]))
            return false;
    return to->frames != NULL;
}

static bool read_site(json_object *o, struct fleet_report_site *to)
{
    json_object *frames = field(o, "frames");
    if (!json_object_is_type(frames, json_type_array) || !read_estimate(o, &to->estimate) ||
        !number_of(o, "oldest_age_ns", &to->oldest_ns) ||
        !number_of(o, "allocated_bytes", &to->allocated_bytes) ||
        !number_of(o, "freed_bytes", &to->freed_bytes) || !read_frames(frames, to))
        return false;
    if (!number_of(o, "call_site", &to->call_site)) /* earlier watches said it of no site */
        to->call_site = to->count;
    return true;
}

static bool read_sites(struct watched_line *line)
{
    json_object *sites = field(line->document, "sites");
    const size_t count = json_object_array_length(sites);
    line->of.sites = calloc(count + 1, sizeof *line->of.sites);
    for (size_t i = 0; line->of.sites && i < count; i++)
        if (!read_site(json_object_array_get_idx(sites, i), &line->of.sites[line->of.site_count++]))
            return false;
    return line->of.sites != NULL;
}

int watched_parse(const char *text, size_t bytes, struct watched_line *line, struct error *err)
{
    struct json_tokener *t = json_tokener_new_ex(DEPTH_MOST);
    *line = (struct watched_line){0};
    if (!t)
        return error_memory(err);
    json_object *o = bytes < INT32_MAX ? json_tokener_parse_ex(t, text, (int)bytes) : NULL;
    json_tokener_free(t);
    line->document = o;
    if (!json_object_is_type(o, json_type_object) || !read_head(line, o) ||
        (line->report && !read_sites(line)))
        return error_set(err, ERROR_FORMAT, "this is not a report of 'mallow watch --json'");
    return 0;
}
