/* baseline.c - Saves the result of a comparison under a name, and loads it for the next one. A
 * baseline counts only if it was made with the same options. */
#include "compare/baseline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "show/json_document.h"
#include "compare/measured.h"
#include "trust/place.h"

static void make_folders(char *path)
{
    struct error ignored; /* a failure is reported when the file is opened */
    struct trust_place place;
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            if (!trust_place_open(&place, path, &ignored)) {
                (void)mkdirat(place.dir, place.name, 0777);
                trust_place_close(&place);
            }
            *p = '/';
        }
}

static int write_baseline(const char *path, json_object *document, struct error *err)
{
    struct trust_whole whole;
    if (trust_whole_open(&whole, path, err))
        return trust_unreachable(err, "cannot write the baseline", path);
    int status = 0;
    if (json_object_to_fd(whole.draft.fd, document, JSON_C_TO_STRING_PLAIN) < 0)
        status = error_system(err, "cannot write the baseline %s", path);
    return trust_whole_close(&whole, !status, err) ? -1 : status;
}

static int baseline_path(const char *name, struct buffer *b, struct error *err)
{
    if (strchr(name, '/')) {
        buffer_append_text(b, name);
        return 0;
    }
    if (!*name || *name == '.')
        return error_set(err, ERROR_USAGE, "'%s' is not a valid name of a baseline", name);
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data)
        buffer_append_text(b, data);
    else if (home && *home)
        buffer_printf(b, "%s/.local/share", home);
    else
        return error_set(err, ERROR_USAGE,
                         "HOME is not set, so baselines have no place; give a path");
    buffer_printf(b, "/mallow/baselines/%s.json", name);
    return 0;
}

int baseline_save(const char *name, json_object *document, struct error *err)
{
    struct buffer path = {0};
    int failed = baseline_path(name, &path, err);
    if (!failed && !strchr(name, '/'))
        make_folders(path.data);
    if (!failed)
        failed = write_baseline(buffer_text(&path), document, err);
    buffer_release(&path);
    return failed;
}

json_object *baseline_load(const char *name, struct error *err)
{
    struct buffer path = {0};
    json_object *document = NULL;
    if (!baseline_path(name, &path, err)) {
        document = document_read(buffer_text(&path), err);
        if (!document && err->kind == ERROR_SYSTEM)
            error_set(err, ERROR_USAGE, "there is no baseline '%s' (%s); --save makes one", name,
                      buffer_text(&path));
        else if (!document)
            error_set(err, ERROR_USAGE, "%s is not a baseline; --save makes one",
                      buffer_text(&path));
    }
    buffer_release(&path);
    return document;
}

json_object *baseline_runs(json_object *document, const char *workload)
{
    json_object *all, *runs = NULL;
    if (!workload)
        return json_object_object_get_ex(document, "runs", &runs) &&
                       json_object_is_type(runs, json_type_array)
                   ? runs
                   : NULL;
    if (!json_object_object_get_ex(document, "corpus", &all) ||
        !json_object_is_type(all, json_type_array))
        return NULL;
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        json_object *one = json_object_array_get_idx(all, i), *name;
        if (json_object_object_get_ex(one, "workload", &name) &&
            !strcmp(json_object_get_string(name), workload))
            return baseline_runs(one, NULL);
    }
    return NULL;
}

static bool same_json_text(json_object *a, json_object *b, const char *key)
{
    json_object *x, *y;
    return !json_object_object_get_ex(a, key, &x) || !json_object_object_get_ex(b, key, &y) ||
           !strcmp(json_object_get_string(x), json_object_get_string(y));
}

int baseline_matches(json_object *runs, json_object *run, struct error *err)
{
    static const char *const numbers[] = {"operations", "threads", "recorded/peak_live_bytes"};
    static const char *const ways[] = {"order", "touch", "timing"};
    json_object *other = json_object_array_get_idx(runs, 0);
    if (!other)
        return error_set(err, ERROR_USAGE, "the baseline has no runs");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (measured_number(other, numbers[i], 0) != measured_number(run, numbers[i], 0))
            return error_set(err, ERROR_USAGE,
                             "the baseline is of another workload: %s is %.0f in "
                             "it and %.0f here",
                             numbers[i], measured_number(other, numbers[i], 0),
                             measured_number(run, numbers[i], 0));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!same_json_text(other, run, ways[i]))
            return error_set(err, ERROR_USAGE, "the baseline was made with another --%s", ways[i]);
    return 0;
}
