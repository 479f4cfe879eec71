/* watched.c - Parses a line of `mallow watch --json` and puts its call sites into a store. Every
 * value is checked first, and nothing is stored from a line that has a fault. */
#include "fleet/watched.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "fleet/store.h"
#include "fleet/frame.h"
#include "fleet/hash.h"
#include "frames/names.h"

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

static bool read_estimate(json_object *o, struct store_estimate *e)
{
    return number_of(o, "estimated_bytes", &e->bytes) &&
           number_of(o, "estimated_blocks", &e->blocks) &&
           number_of(o, "estimated_bytes_low", &e->low) &&
           number_of(o, "estimated_bytes_high", &e->high) &&
           number_of(o, "sampled_blocks", &e->samples) &&
           number_of(o, "sampled_bytes", &e->sampled_bytes) && e->low <= e->bytes &&
           e->bytes <= e->high;
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
    return json_object_to_json_string_ext(list,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static bool read_head(struct watched_line *line, json_object *o)
{
    static const char *const kinds[] = {"old", "all", "high-water", "frees", "final"};
    struct store_watched *w = &line->head;
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
                      number_of(o, "sites_total", &w->sites) &&
                      json_object_is_type(field(o, "sites"), json_type_array);
    w->start_ns = w->time_ns - since;
    w->pid = pid;
    w->command = command_of(o);
    return good && w->command;
}

void watched_release(struct watched_line *line)
{
    json_object_put(line->document);
    *line = (struct watched_line){0};
}

/* ---- call sites ---- */

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
    f->role = f->cut ? ROLE_LIBRARY
                     : role_of(f->known ? f->function : NULL, f->module, *f->file ? f->file : NULL);
    f->wrapper = !f->cut && f->role != ROLE_CODE;
    return true;
}

/* As the watch says; earlier ones said it of no site. */
static int64_t find_call_site(json_object *site, json_object *frames, size_t count)
{
    struct names_search search = {.begun = false};
    struct name_frame f;
    uint64_t found;
    if (number_of(site, "call_site", &found) && found < count)
        return (int64_t)found;
    for (size_t i = 0; i < count; i++)
        if (!read_frame(json_object_array_get_idx(frames, i), &f))
            return 0;
        else if (names_search(&search, &f, i, &found))
            return (int64_t)found;
    return (int64_t)names_search_end(&search);
}

/* Frames come innermost first; sites begin outermost. store NULL: only reads. */
static int put_frames(struct fleet_store *store, json_object *of, json_object *frames,
                      const char *own, const struct names_look *look, uint64_t *site,
                      struct error *err)
{
    const size_t count = json_object_array_length(frames);
    const int64_t call_site = find_call_site(of, frames, count);
    struct buffer json = {0};
    uint64_t path = 0, called = 0;
    int status = count > FRAMES_MOST ? error_set(err, ERROR_FORMAT, "too many frames") : 0;
    *site = 0;
    for (size_t i = count; i-- > 0 && !status;) {
        struct name_frame f;
        if (!read_frame(json_object_array_get_idx(frames, i), &f)) {
            status = error_set(err, ERROR_FORMAT, "a frame is no frame");
            break;
        }
        if (f.role == ROLE_START && !look->start_frames)
            continue;
        buffer_clear(&json);
        names_frame_json(&f, &json);
        const uint64_t frame = hash_end(hash_bytes(3, json.data, json.size_bytes));
        path = frame_path(path, &f, f.module && !strcmp(f.module, own));
        const struct store_site s = {.id = hash_end(hash_mix(hash_mix(4, *site), frame)),
                                     .parent = *site,
                                     .frame = frame,
                                     .path = path,
                                     .call_site = i ? -1 : call_site};
        status = buffer_failed(&json) ? error_memory(err) : 0;
        if (!status && store)
            status = store->engine->put(store, STORE_FRAME,
                                        &(struct store_frame){frame, buffer_text(&json)}, err);
        if (!status && store)
            status = store->engine->put(store, STORE_SITE, &s, err);
        *site = s.id;
        if (!called || (int64_t)i >= call_site)
            called = frame;
        if (!status && store && !i)
            status =
                store->engine->put(store, STORE_CALLED, &(struct store_called){s.id, called}, err);
    }
    buffer_release(&json);
    return status;
}

/* store NULL: only reads. */
static int put_sites(struct fleet_store *store, const struct watched_line *line,
                     const struct names_look *look, struct error *err)
{
    json_object *sites = field(line->document, "sites");
    const char *own = path_base_name(line->head.exe);
    int status = 0;
    for (size_t i = 0; i < json_object_array_length(sites) && !status; i++) {
        json_object *o = json_object_array_get_idx(sites, i);
        json_object *frames = field(o, "frames");
        struct store_watched_site row = {.report = line->head.key, .place = i};
        if (!json_object_is_type(frames, json_type_array) || !read_estimate(o, &row.estimate) ||
            !number_of(o, "oldest_age_ns", &row.oldest_ns) ||
            !number_of(o, "allocated_bytes", &row.allocated_bytes) ||
            !number_of(o, "freed_bytes", &row.freed_bytes))
            return error_set(err, ERROR_FORMAT, "this is no report of 'mallow watch --json'");
        status = put_frames(store, o, frames, own, look, &row.site, err);
        if (!status && store)
            status = store->engine->put(store, STORE_WATCHED_SITE, &row, err);
    }
    return status;
}

int watched_put_sites(struct fleet_store *store, const struct watched_line *line,
                      const struct names_look *look, struct error *err)
{
    return put_sites(store, line, look, err);
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
    if (!json_object_is_type(o, json_type_object) || !read_head(line, o))
        return error_set(err, ERROR_FORMAT, "this is no report of 'mallow watch --json'");
    /* all of it is good before any of it is stored */
    return line->report ? put_sites(NULL, line, &(struct names_look){0}, err) : 0;
}
